"""FLOPs of a convolution from its dimension numbers, groups, strides, padding and dilations."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mlsysim.errors import InputError
from mlsysim.hlo.work import equations

_MAX_TAPS = 1_000_000  # positions that are looked at one by one, along one dimension


def valid_positions(kernel: int, output: int, size: int, stride: int, low: int, base: int, window: int) -> int:
    """Pairs (kernel tap, output) that meet an element of the input: not padding, not a hole that dilation made.

    Parameters
    ----------
    kernel, output, size : int
        Extents of the kernel, the output and the input along one dimension.
    stride, low, base, window : int
        Stride, padding before the first element, dilation of the input and of the kernel.

    A kernel of 3 over 4 elements, padded by one on both sides, meets padding twice:

    >>> valid_positions(3, 4, 4, 1, 1, 1, 1)
    10
    """
    if min(kernel, output, size) == 0:
        return 0
    if kernel > output:  # the condition is symmetric in tap and output, so look at the fewer one by one
        kernel, output, stride, window = output, kernel, window, stride
    if kernel > _MAX_TAPS:
        raise InputError(f"a convolution over {kernel:,} taps and {output:,} outputs in one dimension is not counted")
    step = math.gcd(stride, base)
    every = base // step  # outputs that hit the input, not a hole, are this far apart
    inverse = pow(stride // step % every, -1, every) if every > 1 else 0
    count = 0
    for tap in range(kernel):
        shift = tap * window - low  # position in the dilated input: output * stride + shift, in [0, (size - 1) base]
        first = max(0, -(shift // stride))
        last = min(output - 1, ((size - 1) * base - shift) // stride)
        if last < first or shift % step:
            continue
        start = -(shift // step) * inverse % every  # the first output modulo `every` that hits
        first += (start - first) % every
        if first <= last:
            count += (last - first) // every + 1
    return count


def convolution_flops(
    lhs: Sequence[int], rhs: Sequence[int], result: Sequence[int], attributes: Mapping[str, Any]
) -> float:
    """Two FLOPs for each product that a convolution really makes.

    Parameters
    ----------
    lhs, rhs, result : sequence of int
        Shapes of the input, the kernel and the output.
    attributes : mapping
        ``layouts`` names each dimension of the three, as StableHLO prints them: b, f, i, o, and 0, 1, ... for space.

    >>> layouts = (("b", "0", "1", "f"), ("0", "1", "i", "o"), ("b", "0", "1", "f"))
    >>> convolution_flops((32, 56, 56, 64), (3, 3, 64, 128), (32, 56, 56, 128), {"layouts": layouts, "padding": ((1, 1), (1, 1))})
    14447280128.0
    """
    layouts = attributes.get("layouts", ())
    if len(layouts) != 3 or any(len(n) != len(s) for n, s in zip(layouts, (lhs, rhs, result), strict=True)):
        raise InputError("a convolution's dimension numbers do not name the dimensions of its operands")
    of_input, of_kernel, of_result = ({n: i for i, n in enumerate(names)} for names in layouts)
    space = [n for n in layouts[0] if n.isdigit()]
    ones = (1,) * len(space)
    strides = attributes.get("window_strides", ones)
    padding = attributes.get("padding", ((0, 0),) * len(space))
    base = attributes.get("lhs_dilation", ones)
    window = attributes.get("rhs_dilation", ones)
    try:
        positions = 1
        for n in space:
            d = int(n)
            extents = rhs[of_kernel[n]], result[of_result[n]], lhs[of_input[n]]
            positions *= valid_positions(*extents, strides[d], padding[d][0], base[d], window[d])
        return float(
            equations.convolution_flops(
                lhs[of_input["b"]],
                positions,
                lhs[of_input["f"]],
                result[of_result["f"]],
                attributes.get("feature_group_count", 1),
                attributes.get("batch_group_count", 1),
            )
        )
    except (KeyError, IndexError, ZeroDivisionError):
        raise InputError("a convolution's dimension numbers, window or groups do not fit its operands") from None
