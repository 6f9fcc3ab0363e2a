"""Custom calls by a table: what a library's routine does, as far as its name and its shapes tell."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from mlsysim.hlo.program import TensorType

_FREE = frozenset(
    ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "LayoutConstraint", "annotate_device_placement")
    + ("xla.sdy.FuncResultSharding", "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape", "AllocateBuffer")
    + ("mhlo.sharding_constraint", "xla.sdy.Sharding", "PinToDevice", "UnpinFromDevice", "check.expect_close")
)
_MOVES = frozenset(("MoveToHost", "MoveToDevice", "SliceToDynamic", "PadToStatic"))
_MATRIX = ("__cublas$gemm", "__cublas$lt$matmul", "__onednn$matmul")
_CONVOLUTION = "__cudnn$conv"
_SORTS = frozenset(("TopK", "mhlo.topk", "__cub$DeviceRadixSort", "ApproxTopK"))
_RANDOM = frozenset(("cu_threefry2x32", "cu_threefry2x32_ffi", "hip_threefry2x32_ffi"))


def _contracted(config: str, operands: Sequence[TensorType], result: TensorType) -> float:
    """Length that a library's product contracts: from its configuration, or from the sizes of its three matrices."""
    try:
        document = json.loads(config)
        document = document.get("gemm_backend_config", document)
        numbers = document["dot_dimension_numbers"]
        return float(math.prod(operands[0].shape[int(d)] for d in numbers["lhs_contracting_dimensions"]))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        # (m k)(k n) / (m n) = k squared, if there is no batch
        return math.sqrt(operands[0].elements * operands[1].elements / max(1, result.elements))


def _convolved(operands: Sequence[TensorType], result: TensorType, target: str) -> float:
    """Work of a library's convolution, from its three arrays. Which dimensions are channels it does not say: they are taken
    to be the two of the kernel with the largest product, one of which its input has too, and one its output. Positions
    in the padding count as work."""
    first, second = operands[:2]
    if "Filter" in target:
        source, kernel, output = first, result, second
    elif "Input" in target:
        source, kernel, output = result, second, first
    else:
        source, kernel, output = first, second, result
    pairs = [
        (into, out)
        for i, into in enumerate(kernel.shape)
        for j, out in enumerate(kernel.shape)
        if i != j and into in source.shape[1:] and out in output.shape[1:]
    ]
    channels = max(pairs, key=lambda p: p[0] * p[1], default=(1, 1))[1]
    return 2.0 * output.elements * kernel.elements / max(1, channels)


def custom_call(
    attributes: Mapping[str, Any], operands: Sequence[TensorType], results: Sequence[TensorType]
) -> tuple[str, float] | None:
    """Kind of work (free, move, matrix, vector, rng) and its FLOPs; None for a target that is not in the table."""
    target = str(attributes.get("target", ""))
    if target in _FREE or target.startswith("xla.sdy."):
        return "free", 0.0
    if target in _MOVES:
        return "move", 0.0
    if target.startswith(_MATRIX) and len(operands) >= 2 and results:
        k = _contracted(str(attributes.get("config", "")), operands, results[0])
        return "matrix", 2.0 * results[0].elements * k
    if target.startswith(_CONVOLUTION) and len(operands) >= 2 and results:
        return ("move", 0.0) if results[0].dtype == "none" else ("matrix", _convolved(operands, results[0], target))
    if target in _SORTS and operands:
        n = operands[0].elements
        return "vector", float(n * max(0, n - 1).bit_length())
    if "trsm" in target and len(operands) >= 2 and operands[0].shape:
        return "vector", 2.0 * operands[0].shape[-1] * operands[1].elements
    if "potrf" in target and operands and operands[0].shape:
        return "vector", operands[0].shape[-1] * operands[0].elements / 3
    if target in _RANDOM:
        return "rng", float(sum(t.elements for t in results))
    return None


def is_free(attributes: Mapping[str, Any]) -> bool:
    """Whether a custom call only passes its operands on."""
    target = str(attributes.get("target", ""))
    return target in _FREE or target.startswith("xla.sdy.")
