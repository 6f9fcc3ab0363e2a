"""The one definition of error that tables, tests and the command line share, and what a score is worth."""

from collections.abc import Sequence

from mlsysim._numeric import Num, maximum
from mlsysim.equations import POSITIVE, equation


@equation("eq-signed-error", formula="predicted / measured - 1", domain={"measured": POSITIVE})
def signed_error(predicted: Num, measured: Num) -> Num:
    """Relative error of a prediction: negative when it is too small.

    Formula: e = p / m - 1.

    Parameters
    ----------
    predicted : float or array, s
        What the model says. Times as a rule; any unit that both numbers share will do.
    measured : float or array, s
        What was measured.

    Returns
    -------
    float or array, 1

    Assumptions: the measurement is exact, and both numbers are of the same quantity.

    >>> signed_error(8.0, 10.0)
    -0.19999999999999996

    Source: tofallis2015accuracy, Introduction.
    """
    return predicted / measured - 1


@equation(
    "eq-error-factor",
    formula="max(predicted / measured, measured / predicted)",
    domain={"predicted": POSITIVE, "measured": POSITIVE},
)
def error_factor(predicted: Num, measured: Num) -> Num:
    """By which factor a prediction is off, too large or too small alike.

    Formula: q = max(p / m, m / p).

    Parameters
    ----------
    predicted : float or array, s
        What the model says, in any unit that both numbers share.
    measured : float or array, s
        What was measured.

    Returns
    -------
    float or array, 1

    Assumptions: half the time is as wrong as twice the time.

    >>> error_factor(5.0, 10.0)
    2.0

    Source: moerkotte2009preventing, q-error.
    """
    return maximum(predicted / measured, measured / predicted)


@equation(
    "eq-effective-rows",
    formula="rows / (1 + (per_group - 1) * correlation)",
    domain={"rows": "[1, inf)", "per_group": "[1, inf)", "correlation": "[0, 1]"},
    relations=("per_group <= rows",),
)
def effective_rows(rows: Num, per_group: Num, correlation: Num) -> Num:
    """How many independent rows tell as much as these, whose errors are alike inside a group.

    Formula: n_eff = n / (1 + (g - 1) rho).

    Parameters
    ----------
    rows : float or array, 1
        Rows n in all groups together.
    per_group : float or array, 1
        Rows g of one group.
    correlation : float or array, 1
        Correlation rho of two errors of one group.

    Returns
    -------
    float or array, 1

    Assumptions: groups of equal size, and no correlation between them.

    >>> effective_rows(100, 10, 1.0)
    10.0

    Source: kish1965survey, design effect of clusters.
    """
    return rows / (1 + (per_group - 1) * correlation)


@equation("eq-optimism", formula="2 * constants * variance / rows", domain={"rows": POSITIVE})
def optimism(constants: Num, variance: Num, rows: Num) -> Num:
    """How much smaller the mean squared error is on the rows of a fit than on new results at the same inputs.

    Formula: w = 2 d s^2 / n.

    Parameters
    ----------
    constants : float or array, 1
        Fitted constants d.
    variance : float or array, 1
        Variance s^2 of the noise around the best model of this kind.
    rows : float or array, 1
        Independent rows n of the fit.

    Returns
    -------
    float or array, 1

    Assumptions: least squares, linear in the constants; noise that is independent from row to row. It says nothing about
    inputs unlike those of the fit.

    >>> round(optimism(10, 0.01, 100), 6)
    0.002

    Source: hastie2009elements, eq. 7.24.
    """
    return 2 * constants * variance / rows


@equation("eq-skill", formula="1 - error / reference_error", domain={"reference_error": POSITIVE})
def skill(error: Num, reference_error: Num) -> Num:
    """Share of a reference's error that a model takes away: 1 is perfect, 0 no better, below 0 worse.

    Formula: S = 1 - E / E_ref.

    Parameters
    ----------
    error : float or array, 1
        Mean error of the model.
    reference_error : float or array, 1
        The same mean error, on the same rows, of the estimate that it is compared with.

    Returns
    -------
    float or array, 1

    Assumptions: both are scored on the same rows by the same rule.

    >>> skill(0.1, 0.4)
    0.75

    Source: murphy1988skill, skill score.
    """
    return 1 - error / reference_error


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean of one value or more.

    >>> mean([1.0, 3.0])
    2.0
    """
    return sum(values) / len(values)
