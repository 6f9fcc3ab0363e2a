"""Grids of narrow formats: which numbers they have, how far apart these lie, and how much noise rounding to them makes."""

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from types import MappingProxyType

from mlsysim._numeric import Num, maximum
from mlsysim.equations import equation
from mlsysim.errors import InputError, named

_EXPONENTS = "[-1000, 1000]"
_MANTISSAS = "[0, 52]"


@equation(
    "eq-grid-spacing",
    formula="2**(max(exponent, least_exponent) - mantissa_bits)",
    domain={"exponent": _EXPONENTS, "mantissa_bits": _MANTISSAS, "least_exponent": _EXPONENTS},
)
def grid_spacing(exponent: Num, mantissa_bits: Num, least_exponent: Num) -> Num:
    r"""Distance of neighbouring numbers of a floating-point format, between one power of two and the next.

    Formula: \Delta = 2^(max(e, e_min) - m).

    Parameters
    ----------
    exponent : float or array, 1
        Which octave: the numbers between 2^e and 2^(e+1).
    mantissa_bits : float or array, 1
        Bits behind the binary point: 3 in E4M3, 2 in E5M2, 1 in E2M1.
    least_exponent : float or array, 1
        Of the smallest normal number: -6 in E4M3, 0 in E2M1; below it the spacing shrinks no more.

    Returns
    -------
    float or array, 1

    Assumptions: subnormal numbers exist, as in all the formats of this book; no scale factor, by which it would be multiplied.

    >>> grid_spacing(8, 3, -6), grid_spacing(-9, 3, -6), grid_spacing(2, 1, 0)
    (32.0, 0.001953125, 2.0)

    Source: micikevicius2022fp8, table 1; for the bits of E4M3 and E5M2; those of E2M1 are of ocp2023mx.
    """
    return 2.0 ** (maximum(exponent, least_exponent) - mantissa_bits)


@equation("eq-float-snr", formula="18 / log(2) * 4**mantissa_bits", domain={"mantissa_bits": _MANTISSAS})
def float_snr(mantissa_bits: Num) -> Num:
    r"""Power of numbers over the power of what rounding them adds, where a format is neither too short nor too coarse for them.

    Formula: Q = 18 / ln 2 \cdot 4^m.

    Parameters
    ----------
    mantissa_bits : float or array, 1
        Bits behind the binary point.

    Returns
    -------
    float or array, 1
        A ratio of powers; ten times its decimal logarithm is in decibels.

    Assumptions: rounding errors spread evenly over a spacing; sizes spread evenly over the logarithm within an octave, and as
    much in each; nothing is above the largest number nor among the subnormal ones.

    >>> round(float_snr(3)), round(float_snr(1))
    (1662, 104)

    Source: chen2025intfp, theoretical comparison, read in a summary; our mean over octaves is derived in the chapter.
    """
    return 18 / math.log(2) * 4**mantissa_bits


def decibels(ratio: float) -> float:
    """A ratio of powers in decibels.

    >>> decibels(100.0)
    20.0
    """
    return 10 * math.log10(ratio)


@dataclass(frozen=True)
class Grid:
    """A format of few bits, and who describes it."""

    name: str
    exponent_bits: int  # 0 in an integer format, whose numbers are all equally far apart
    mantissa_bits: int
    bias: int
    reserved: int  # codes at the top that are no finite numbers, of each sign
    source: str
    where: str

    @property
    def bits(self) -> int:
        return (self.name != "e8m0") + self.exponent_bits + self.mantissa_bits

    @property
    def least_exponent(self) -> int:
        """Of the smallest normal number."""
        return 1 - self.bias

    @cached_property
    def values(self) -> tuple[float, ...]:
        """Every number that is not negative, in order.

        >>> GRIDS["e2m1"].values
        (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
        """
        if self.name == "e8m0":
            return tuple(2.0 ** (code - self.bias) for code in range(2**8 - self.reserved))
        steps = 2**self.mantissa_bits
        found = []
        for code in range(2 ** (self.exponent_bits + self.mantissa_bits) - self.reserved):
            e, m = divmod(code, steps)
            least = 2.0 ** (self.least_exponent - self.mantissa_bits)
            found.append(m * least if e == 0 else (steps + m) * least * 2.0 ** (e - 1))
        return tuple(found)

    @property
    def largest(self) -> float:
        return self.values[-1]

    @property
    def smallest(self) -> float:
        """Above zero."""
        return self.values[1] if self.values[0] == 0 else self.values[0]

    @property
    def octaves(self) -> float:
        """Doublings from the smallest number to the largest."""
        return math.log2(self.largest / self.smallest)

    def rounded(self, value: float) -> float:
        """The nearest number of the grid, the even one of two that are as near; what lies beyond the largest becomes the largest.

        >>> [GRIDS["e2m1"].rounded(v) for v in (-0.3, 2.5, 3.4, 100.0)]
        [-0.5, 2.0, 3.0, 6.0]
        """
        size = abs(value)
        v = self.values
        i = bisect_left(v, size)
        if i == 0 or i == len(v):
            near = v[min(i, len(v) - 1)]
        else:
            low, high = size - v[i - 1], v[i] - size
            near = v[i] if high < low or (high == low and i % 2 == 0) else v[i - 1]
        return math.copysign(near, value)


_FP8, _MX = ("micikevicius2022fp8", "table 1"), ("ocp2023mx", "element formats")
# Formats by the word that the field uses. The integers are symmetric: their most negative code is not used.
GRIDS: Mapping[str, Grid] = MappingProxyType(
    {
        g.name: g
        for g in (
            Grid("e5m2", 5, 2, 15, 4, *_FP8),
            Grid("e4m3", 4, 3, 7, 1, *_FP8),
            Grid("e3m2", 3, 2, 3, 0, *_MX),
            Grid("e2m3", 2, 3, 1, 0, *_MX),
            Grid("e2m1", 2, 1, 1, 0, *_MX),
            Grid("e8m0", 8, 0, 127, 1, *_MX),
            Grid("int8", 0, 7, -6, 0, *_MX),
            Grid("int4", 0, 3, -2, 0, *_MX),
        )
    }
)
# How the factor of a block is found from its largest number: as it is, rounded to a power of two, or rounded to E4M3.
SCALES = ("exact", "floor", "ceil", "e4m3")
_TENSOR = 5.0  # largest number of a tensor in standard deviations: of some millions of normal numbers
_STEPS = 400  # places at which a block's largest number is taken
_FAR = 8.0  # standard deviations, beyond which nothing is


def _below(x: float) -> float:
    """Share of normal numbers whose size is at most x."""
    return math.erf(x / math.sqrt(2))


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def gaussian_noise(name: str, scale: float, most: float = math.inf) -> float:
    """Mean square of what rounding adds to standard normal numbers, on a grid that is stretched by a factor; exact, no samples.

    Parameters
    ----------
    name : str
        Of ``GRIDS``.
    scale : float
        Factor by which the grid is multiplied.
    most : float, optional
        Only numbers of at most this size, as beside a block's largest number.

    Raises
    ------
    InputError
        A factor that is not above zero.

    >>> round(gaussian_noise("int8", 5 / 127) * 12 / (5 / 127) ** 2, 3)
    1.0
    """
    if not scale > 0:
        raise InputError(f"gaussian_noise: scale = {scale} must be above 0; it stretches the grid")
    v = [scale * x for x in named("grid", name, GRIDS).values]
    edges = [0.0, *((a + b) / 2 for a, b in pairwise(v)), math.inf]
    total, a, below, density = 0.0, 0.0, 0.0, _density(0.0)
    for value, edge in zip(v, edges[1:], strict=True):
        b = min(edge, most)
        if not a < b:
            break
        below_b, density_b = (1.0, 0.0) if math.isinf(b) else (_below(b), _density(b))
        share = (below_b - below) / 2
        first = density - density_b
        second = a * density - (0.0 if math.isinf(b) else b * density_b) + share
        total += 2 * (second - 2 * value * first + value * value * share)
        a, below, density = b, below_b, density_b
    whole = 1.0 if math.isinf(most) else _below(most)
    return total / whole if whole > 0 else 0.0


def scale_of(largest: float, name: str, how: str, tensor: float = _TENSOR) -> float:
    """The factor of a block whose largest number is known.

    Parameters
    ----------
    largest : float
        Size of the block's largest number.
    name : str
        Of ``GRIDS``, for the numbers.
    how : str
        Of ``SCALES``. ``floor`` is that of the MX formats (what ends beyond the largest number becomes it), ``ceil`` the next
        power of two with which nothing does, ``e4m3`` that of NVFP4.
    tensor : float, optional
        Largest number of the whole tensor, with whose factor E4M3 spans the factors of its blocks.

    Raises
    ------
    InputError
        Another way, or a largest number that is not above zero.

    >>> scale_of(5.0, "e2m1", "floor"), scale_of(5.0, "e2m1", "ceil"), scale_of(6.5, "e2m1", "ceil"), scale_of(3.0, "e2m1", "exact")
    (1.0, 1.0, 2.0, 0.5)
    """
    grid = named("grid", name, GRIDS)
    if not largest > 0 or how not in SCALES:
        raise InputError(f"scale_of: largest = {largest} must be above 0, and how = {how!r} one of {', '.join(SCALES)}")
    if how == "exact":
        return largest / grid.largest
    if how == "e4m3":
        top = GRIDS["e4m3"].largest
        whole = tensor / grid.largest / top
        return max(GRIDS["e4m3"].rounded(largest / grid.largest / whole), GRIDS["e4m3"].smallest) * whole
    if how == "ceil":
        return 2.0 ** math.ceil(math.log2(largest / grid.largest))
    return 2.0 ** (math.floor(math.log2(largest)) - math.floor(math.log2(grid.largest)))


@cache
def block_snr(name: str, block: int, how: str = "exact") -> float:
    """Signal to noise of normal numbers in blocks that share a factor: a sum over where the largest of a block may lie.

    Parameters
    ----------
    name : str
        Of ``GRIDS``.
    block : int
        Numbers that share a factor; some millions stand for a whole tensor.
    how : str, optional
        Of ``SCALES``.

    Returns
    -------
    float
        A ratio of powers, as :func:`float_snr` gives.

    Raises
    ------
    InputError
        Fewer than two numbers in a block.

    >>> round(decibels(block_snr("e2m1", 16, "e4m3")), 1)
    20.4
    """
    if block < 2:
        raise InputError(f"block_snr: block = {block} must be 2 or more; a factor alone keeps a single number exactly")
    width = _FAR / _STEPS
    named("grid", name, GRIDS)
    weight = noise = 0.0
    for i in range(_STEPS):
        a = (i + 0.5) * width
        share = _below(a + width / 2) ** block - _below(a - width / 2) ** block
        if share < 1e-12:
            continue
        own, other = _noise_below(a, name, how)
        noise += share * (own + (block - 1) * other)
        weight += share
    return block * weight / noise


@cache
def _noise_below(largest: float, name: str, how: str) -> tuple[float, float]:
    """Of the largest of a block, and of each other number in it: the same however many those are."""
    scale = scale_of(largest, name, how)
    own = (largest - scale * GRIDS[name].rounded(largest / scale)) ** 2
    return own, gaussian_noise(name, scale, largest)
