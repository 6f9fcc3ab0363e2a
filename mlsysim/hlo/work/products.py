"""The matrix product inside an operation, as an array of multipliers sees it: ``batch`` products of (m, k) with (k, n)."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mlsysim.hlo.reader.program import TensorType


class Gemm(NamedTuple):
    """``batch`` equal products of a matrix of m rows and k columns with one of k rows and n columns."""

    batch: int
    m: int
    n: int
    k: int


def _gemm(batch: int, m: int, n: int, k: int) -> Gemm | None:
    return Gemm(batch, m, n, k) if min(batch, m, n, k) > 0 else None


def _extent(shape: Sequence[int], dims: Sequence[int]) -> int:
    return math.prod(shape[d] for d in dims)


def of_dot(lhs: TensorType, result: TensorType, contracted: int, attributes: Mapping[str, Any]) -> Gemm | None:
    """The product of a ``dot_general``; what it contracts over has ``contracted`` elements. None for an empty one.

    >>> dims = {"lhs_batching_dimensions": (0,), "lhs_contracting_dimensions": (2,)}
    >>> of_dot(TensorType("bf16", (8, 100, 64)), TensorType("f32", (8, 100, 32)), 64, dims)
    Gemm(batch=8, m=100, n=32, k=64)
    """
    batch = _extent(lhs.shape, attributes.get("lhs_batching_dimensions", ()))
    rows = lhs.elements // max(1, batch * contracted)
    return _gemm(batch, rows, result.elements // max(1, batch * rows), contracted)


def of_convolution(
    lhs: Sequence[int], rhs: Sequence[int], result: Sequence[int], attributes: Mapping[str, Any]
) -> Gemm | None:
    """A convolution as an implicit product: m = positions of the output, k = taps x channels, n = channels of the output.

    Each group is a product of its own. Padding is multiplied as if it were data. Of an input spread by ``lhs_dilation`` the holes
    are left out: an output meets every s-th tap, so along each dimension ceil(taps / s) count.

    >>> layouts = (("b", "0", "1", "f"), ("0", "1", "i", "o"), ("b", "0", "1", "f"))
    >>> of_convolution((32, 56, 56, 64), (3, 3, 64, 128), (32, 56, 56, 128), {"layouts": layouts})
    Gemm(batch=1, m=100352, n=128, k=576)
    """
    of_kernel, of_result = ({name: i for i, name in enumerate(names)} for names in attributes["layouts"][1:])
    holes = attributes.get("lhs_dilation", ())
    taps = math.prod(-(-rhs[i] // (holes[int(n)] if holes else 1)) for n, i in of_kernel.items() if n.isdigit())
    groups = attributes.get("feature_group_count", 1) * attributes.get("batch_group_count", 1)
    features = result[of_result["f"]]
    positions = math.prod(result) // max(1, features)
    return _gemm(groups, positions, features // groups, taps * rhs[of_kernel["i"]])


def of_library_call(
    attributes: Mapping[str, Any], operands: Sequence[TensorType], result: TensorType, flops: float
) -> Gemm | None:
    """The product of a library's routine, whose last two dimensions of the result are the matrix."""
    columns = result.shape[-1] if result.shape else 1
    try:
        document = json.loads(str(attributes.get("config", "")))
        numbers = document.get("gemm_backend_config", document)["dot_dimension_numbers"]
        batch = _extent(operands[0].shape, [int(d) for d in numbers.get("lhs_batch_dimensions", ())])
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        batch = math.prod(result.shape[:-2])
    rows = result.elements // max(1, batch * columns)
    return _gemm(batch, rows, columns, round(flops / max(1, 2 * result.elements)))
