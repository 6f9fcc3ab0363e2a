"""Gain of low-precision products: the size from which casts pay, the speedup beyond it, and the share of a step that it reached."""

from mlsysim._numeric import Num
from mlsysim.equations import POSITIVE, equation

_ABOVE_ONE = "[1.001, inf)"


@equation(
    "eq-cast-break-even",
    formula="cast_bytes / (2 * bandwidth * (1 / wide_rate - 1 / narrow_rate))",
    domain={"bandwidth": POSITIVE, "wide_rate": POSITIVE, "narrow_rate": POSITIVE},
    relations=("wide_rate < narrow_rate",),
)
def cast_break_even(cast_bytes: Num, bandwidth: Num, wide_rate: Num, narrow_rate: Num) -> Num:
    r"""Width of a product from which casting its inputs costs less time than the narrow format saves.

    Formula: N^* = c / (2 bandwidth (1/P_16 - 1/P_q)).

    Parameters
    ----------
    cast_bytes : float or array, byte
        Read and written to bring one number into the narrow format.
    bandwidth : float or array, byte/s
        Of the device memory.
    wide_rate : float or array, FLOP/s
        Of products in 16 bits.
    narrow_rate : float or array, FLOP/s
        Of products in the narrow format.

    Returns
    -------
    float or array, FLOP
        Multiply-adds that must meet each number that is cast: columns of the weight, or the harmonic mean of the three sizes of
        a linear layer in training.

    Assumptions: the product is bound by arithmetic in both formats; casts are kernels of their own, bound by memory; launches
    cost nothing.

    >>> round(cast_break_even(cast_bytes=3.0, bandwidth=4e12, wide_rate=1e15, narrow_rate=2e15))
    750

    Source: torchao2026workflows, training.md, Derivation; the inequality, which is solved in the chapter.
    """
    return cast_bytes / (2 * bandwidth * (1 / wide_rate - 1 / narrow_rate))


@equation(
    "eq-narrow-gain",
    formula="1 / (1 / rate_gain + (1 - 1 / rate_gain) * break_even / width)",
    domain={"rate_gain": "[1, inf)", "width": POSITIVE},
)
def narrow_gain(rate_gain: Num, width: Num, break_even: Num = 0.0) -> Num:
    r"""How many times faster a product is in a narrow format, the casts of what it reads included.

    Formula: G = 1 / (1/k + (1 - 1/k) N^*/N).

    Parameters
    ----------
    rate_gain : float or array, 1
        Rate k of narrow products over that in 16 bits: 2 for FP8, 4 for FP4 on a B200.
    width : float or array, 1
        Multiply-adds N that meet each number that is cast.
    break_even : float or array, 1
        Width from which casts pay; 0 where they cost nothing.

    Returns
    -------
    float or array, 1
        Below 1 where the casts cost more than is saved.

    Assumptions: those of the break-even width, at whose value this is 1.

    >>> narrow_gain(2.0, width=750, break_even=750), narrow_gain(2.0, width=7500, break_even=750)
    (1.0, 1.8181818181818181)

    Source: torchao2026workflows, training.md, Derivation; solved in the chapter.
    """
    return 1 / (1 / rate_gain + (1 - 1 / rate_gain) * break_even / width)


@equation(
    "eq-implied-share",
    formula="(1 - 1 / step_gain) / (1 - 1 / rate_gain)",
    domain={"step_gain": "[1, inf)", "rate_gain": _ABOVE_ONE},
)
def implied_share(step_gain: Num, rate_gain: Num) -> Num:
    r"""Share of a step's time in 16 bits that must have got faster by the full factor to give a measured gain.

    Formula: \varphi = (1 - 1/G) / (1 - 1/k).

    Parameters
    ----------
    step_gain : float or array, 1
        How many times faster the whole step became, G.
    rate_gain : float or array, 1
        How many times faster narrow products can be, k.

    Returns
    -------
    float or array, 1
        Above 1 where the claim is more than the products can give: something else changed too.

    Assumptions: everything else takes as long as before, and casts count as what did not get faster.

    >>> implied_share(step_gain=1.25, rate_gain=2.0)
    0.3999999999999999

    Source: amdahl1967validity, solved for the share; in the chapter.
    """
    return (1 - 1 / step_gain) / (1 - 1 / rate_gain)
