"""Tier 1 in formulas: the residual of a prediction, its constant, and how much to trust a fit."""

from mlsysim._numeric import Num
from mlsysim.equations import POSITIVE, equation

_ANY = "(-inf, inf)"


@equation(
    "eq-tier1-residual",
    formula="per_output * output_len + per_prompt * input_len + constant",
    domain={"per_output": _ANY, "per_prompt": _ANY, "constant": _ANY},
)
def residual_time(output_len: Num, input_len: Num, per_output: Num, per_prompt: Num, constant: Num) -> Num:
    """What a server takes beyond the prediction, from the sizes of a request.

    Formula: r = a n_out + b n_in + d.

    Parameters
    ----------
    output_len, input_len : float or array, token
        Of the request.
    per_output, per_prompt : float or array, s/token
        Fitted to one trace; negative where the prediction is too slow.
    constant : float or array, s
        The same for every request.

    Returns
    -------
    float or array, s

    Assumptions: what is missing grows with the request's own sizes and not with its company in the batch.

    >>> residual_time(400, 2000, per_output=0.5e-3, per_prompt=1e-6, constant=0.01)
    0.21200000000000002

    Source: kennedy2001calibration, model inadequacy as a term of its own; that it is linear in the sizes is tam2026, sec. 2, Tier 1.
    """
    return per_output * output_len + per_prompt * input_len + constant


@equation(
    "eq-residual-constant",
    formula="mean_residual - per_output * mean_output_len - per_prompt * mean_input_len",
    domain={"mean_residual": _ANY, "per_output": _ANY, "per_prompt": _ANY},
)
def residual_constant(
    mean_residual: Num, mean_output_len: Num, mean_input_len: Num, per_output: Num = 0.0, per_prompt: Num = 0.0
) -> Num:
    """The constant of a least-squares fit: what is left of the mean residual once the slopes have had their part.

    Formula: d = mean(r) - a mean(n_out) - b mean(n_in).

    Parameters
    ----------
    mean_residual : float or array, s
        Of measured minus predicted, over the requests of the trace; weighted, in a weighted fit.
    mean_output_len, mean_input_len : float or array, token
        Means of the sizes over the same requests.
    per_output, per_prompt : float or array, s/token
        Slopes of the fit; 0 for a fit of the constant alone.

    Returns
    -------
    float or array, s

    Assumptions: least squares with a free constant; the derivative to that constant vanishes at the best fit.

    >>> residual_constant(0.25, mean_output_len=400, mean_input_len=2000, per_output=0.5e-3)
    0.04999999999999999

    Source: golub2013matrix, sec. 5.3.
    """
    return mean_residual - per_output * mean_output_len - per_prompt * mean_input_len


@equation(
    "eq-calibration-requests", formula="(z * spread / tolerance)**2", domain={"tolerance": POSITIVE, "z": POSITIVE}
)
def calibration_requests(spread: Num, tolerance: Num, z: Num = 1.96) -> Num:
    """Requests that a trace needs before the constant is known to within a tolerance.

    Formula: n = (z s / tolerance)^2.

    Parameters
    ----------
    spread : float or array, s
        Standard deviation of the residuals, from request to request.
    tolerance : float or array, s
        Half-width of the interval that the constant shall have.
    z : float or array, 1
        Standard errors in that half-width: 1.96 for 95 %.

    Returns
    -------
    float or array, 1

    Assumptions: residuals are independent of each other. Requests that ran together are not, and then more are needed.

    >>> round(calibration_requests(spread=0.1, tolerance=0.02))
    96

    Source: jcgm2008gum, sec. 4.2.3; standard deviation of a mean.
    """
    return (z * spread / tolerance) ** 2


@equation("eq-overfitting-ratio", formula="validation_error / training_error", domain={"training_error": POSITIVE})
def overfitting_ratio(validation_error: Num, training_error: Num) -> Num:
    """Error on held-out requests relative to that of the fit; tam2026 rejects above 2.

    Formula: ratio = e_validation / e_training.

    Parameters
    ----------
    validation_error : float or array, 1
        Mean absolute error, relative to the measurement, on requests left out of the fit.
    training_error : float or array, 1
        The same on the requests that were fitted.

    Returns
    -------
    float or array, 1

    Assumptions: both sets come from the same server. A ratio near 1 says that the fit carries over, not that it is good.

    >>> overfitting_ratio(0.06, 0.04)
    1.5

    Source: hastie2009elements, sec. 7.2, error of training and of test; the limit is tam2026, sec. 2.
    """
    return validation_error / training_error
