"""What two forms of a step model are compared by: blended steps, jumps, residuals of a layer, and two metrics of one name."""

from mlsysim._numeric import Num, maximum, where
from mlsysim.equations import AT_LEAST_ONE, POSITIVE, equation

_SHARE = "[0, 1]"


@equation(
    "eq-blended-step",
    formula="(prefill_weight if prefill_tokens > decode_tokens else decode_weight) * prefill_time"
    " + (1 - (prefill_weight if prefill_tokens > decode_tokens else decode_weight)) * decode_time",
    domain={"prefill_weight": _SHARE, "decode_weight": _SHARE},
)
def blended_step(
    prefill_time: Num,
    decode_time: Num,
    prefill_tokens: Num,
    decode_tokens: Num,
    prefill_weight: Num = 0.75,
    decode_weight: Num = 0.35,
) -> Num:
    """A step with prompts and answers as a weighted mean of two pure ones: the form that H5 sets out to replace.

    Formula: T = w T_pre + (1 - w) T_dec, w = w_p where prompts bring more tokens, else w_d.

    Parameters
    ----------
    prefill_time, decode_time : float or array, s
        A step over the prompts alone, and one over the answers alone.
    prefill_tokens, decode_tokens : float or array, 1
        Tokens of each.
    prefill_weight, decode_weight : float or array, 1
        Weight of the prefill time where prompts bring more tokens, and where they do not.

    Returns
    -------
    float or array, s

    Assumptions: none that a machine shares. A mean is below the longer of the two, and a step does the work of both.

    >>> blended_step(4.0, 2.0, 500, 12)
    3.5

    Source: inferencesim2026hypotheses, h5-mixed-batch-additive; tam2026, H5, calls the weights uncited.
    """
    w = where(prefill_tokens > decode_tokens, prefill_weight, decode_weight)
    return w * prefill_time + (1 - w) * decode_time


@equation(
    "eq-jump",
    formula="max(before / after, after / before * work_before / work_after) - 1",
    domain={"before": POSITIVE, "after": POSITIVE, "work_before": POSITIVE, "work_after": POSITIVE},
)
def jump(before: Num, after: Num, work_before: Num, work_after: Num) -> Num:
    """How far a time leaves what more work explains: shorter than it was, or longer than in proportion to the work.

    Formula: J = max(T / T', (T' / T) (x / x')) - 1.

    Parameters
    ----------
    before, after : float or array, s
        Times T and T' of two neighbours of a sweep.
    work_before, work_after : float or array, 1
        Their work x and x', the second not the smaller: rows of a batch, or tokens of a prompt.

    Returns
    -------
    float or array, 1
        At most 0 where the time stays between no growth and growth in proportion.

    Assumptions: work costs something between nothing and its share. Attention of a prompt grows with its square, which
    adds (x'/x)^2 at most.

    >>> round(jump(1.0e-3, 0.9e-3, 63, 64), 3), jump(1.0e-3, 1.0e-3, 8, 16)
    (0.111, 0.0)

    Source: inferencesim2026hypotheses, h6-mfu-interpolation, for the count of discontinuities; its bounds are ours.
    """
    return maximum(before / after, after / before * work_before / work_after) - 1


@equation(
    "eq-layer-residual",
    formula="(measured - modelled) / layers",
    domain={"measured": POSITIVE, "modelled": POSITIVE, "layers": AT_LEAST_ONE},
)
def layer_residual(measured: Num, modelled: Num, layers: Num) -> Num:
    """What a step takes beyond its kernels' work, for each layer.

    Formula: r = (T_meas - T_model) / L.

    Parameters
    ----------
    measured, modelled : float or array, s
        A step as it was, and as arithmetic and traffic alone would have it.
    layers : float or array, 1
        Layers of the model; all of them run on every rank of a tensor-parallel group.

    Returns
    -------
    float or array, s
        Negative where the model is too slow.

    Assumptions: the model's own errors are smaller than what it leaves out; a wrong bandwidth goes into r as well.

    >>> round(layer_residual(6.16e-3, 4.54e-3, 32) * 1e6, 1)
    50.6

    Source: inferencesim2026hypotheses, H2b; it divides by the tensor-parallel degree too.
    """
    return (measured - modelled) / layers


@equation(
    "eq-e2e-per-token", formula="(ttft + (output_len - 1) * itl) / output_len", domain={"output_len": AT_LEAST_ONE}
)
def e2e_per_token(ttft: Num, itl: Num, output_len: Num) -> Num:
    """Latency of an answer over its tokens: the other quantity that goes by the name of TPOT.

    Formula: E2E / n = (TTFT + (n - 1) ITL) / n.

    Parameters
    ----------
    ttft : float or array, s
        Time to the first token.
    itl : float or array, s
        Mean time between tokens.
    output_len : float or array, 1
        Tokens n of the answer.

    Returns
    -------
    float or array, s

    Assumptions: one request; a mean over requests is a mean of this, not this of the means.

    >>> e2e_per_token(0.5, 0.25, 3)
    0.3333333333333333

    Source: patel2024splitwise, abstract, the two phases; the mean is derived in the chapter.
    """
    return (ttft + (output_len - 1) * itl) / output_len


@equation("eq-outlier-shift", formula="(outlier - rest) / count", domain={"count": AT_LEAST_ONE})
def outlier_shift(outlier: Num, rest: Num, count: Num) -> Num:
    """How far one measurement moves a mean.

    Formula: s = (x - m) / n.

    Parameters
    ----------
    outlier : float or array, s
        The one measurement x.
    rest : float or array, s
        Mean m of all others.
    count : float or array, 1
        Measurements n, the one included.

    Returns
    -------
    float or array, s

    Assumptions: none; it is what the definition of a mean says. A median hardly moves.

    >>> round(outlier_shift(0.274, 0.0465, 23) * 1e3, 2)
    9.89

    Source: hampel1974influence, influence curve of the mean.
    """
    return (outlier - rest) / count
