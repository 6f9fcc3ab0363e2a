"""Custom calls: what a library's routine does, by the caller's price, by what the call says of itself, or by a table of names.

A fused attention is priced as our own attention kernel (@eq-attention-kernel-flops): its scores never leave the chip. Whether
it masks and how it arranges its operands stands in its configuration, or is assumed from its target and said in the result.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from mlsysim import kernels
from mlsysim.errors import InputError
from mlsysim.hlo.reader.program import TensorType

# What a caller knows of a target: FLOPs and bytes of one call, or a function of its attributes, operands and results that says
CallPrice: TypeAlias = (
    tuple[float, float] | Callable[[Mapping[str, Any], Sequence[TensorType], Sequence[TensorType]], tuple[float, float]]
)

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
_FUSED_ATTENTION = "__cudnn$fmha"
# Targets of kernels that somebody wrote, and the dimension of (batch, ..., width) that holds the tokens in the ones that JAX ships:
# batch, heads, tokens, width on a TPU; batch, tokens, heads, width in its Triton kernel
_WRITTEN = {"tpu_custom_call": 2, "__gpu$xla.gpu.triton": 1, "triton_kernel_call": 1}
# Products of an attention's gradient over those of the attention: dao2023flashbenchmark, function flops
_BACKWARD = 5 / 2


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


class Assumed(NamedTuple):
    """What a call is taken to do: FLOPs of products, transcendentals, bytes (None: operands and results), and on what ground."""

    flops: float
    transcendentals: float
    bytes: float | None
    ground: str


def priced(
    price: CallPrice, attributes: Mapping[str, Any], operands: Sequence[TensorType], results: Sequence[TensorType]
) -> tuple[float, float]:
    """FLOPs and bytes of a call by the caller's price.

    Raises
    ------
    InputError
        A price that is not two finite numbers, neither negative.
    """
    target = str(attributes.get("target", ""))[:60]
    found = price(attributes, operands, results) if callable(price) else price
    try:
        flops, moved = (float(number) for number in found)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"custom call {target!r}: its price {found!r:.60} is not (FLOPs, bytes)") from None
    if not (0 <= flops < math.inf and 0 <= moved < math.inf):
        raise InputError(f"custom call {target!r}: its price {found!r:.60} must be finite and not negative")
    return flops, moved


def _fused(
    queries: TensorType, heads: int, tokens: int, seen: int, width: int, causal: bool, backward: bool
) -> float | None:
    """FLOPs of an attention over ``tokens`` queries and ``seen`` keys; None for sizes that are no attention's."""
    batch = queries.shape[0]
    if not queries.elements or batch * heads * tokens * queries.shape[-1] != queries.elements:
        return None
    if causal:
        if tokens > seen:
            return None  # nobody says what the first queries see
        new, past = tokens, 0  # the first query sees the first key
    else:
        new, past = min(tokens, seen), abs(tokens - seen)  # every query with every key, whichever are more
    flops = kernels.attention_kernel_flops(batch, heads, new, past, queries.shape[-1], width, float(causal))
    return float(flops) * (_BACKWARD if backward else 1.0)


def _cudnn(attributes: Mapping[str, Any], operands: Sequence[TensorType]) -> Assumed | None:
    """cuDNN's attention, which writes its scores' shape and its mask beside the call."""
    try:
        config = json.loads(str(attributes.get("config", "")))["cudnn_fmha_backend_config"]
        batch, heads, tokens, seen = (int(n) for n in config["intermediate_tensor_shape"]["dimensions"])
        mask = str(config["mask_type"])
        window = int(config.get("sliding_window_length", 0))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if len(operands) < 3 or any(len(t.shape) != 4 for t in operands[:3]) or operands[0].shape[0] != batch or window > 0:
        return None
    causal, backward = "CAUSAL" in mask, "Backward" in str(attributes["target"])
    flops = _fused(operands[0], heads, tokens, seen, operands[2].shape[-1], causal, backward)
    how = "as its mask says, causal" if causal else "without a mask"
    return None if flops is None else Assumed(flops, 0.0, None, f"our attention kernel, {how}")


def _written(attributes: Mapping[str, Any], operands: Sequence[TensorType]) -> Assumed | None:
    """A kernel that somebody wrote: by the cost that it declares, or as an attention if it is called one."""
    declared = attributes.get("cost", ())
    if len(declared) == 3 and all(type(n) is int and n >= 0 for n in declared):
        work, roots, moved = (float(n) for n in declared)
        return Assumed(work, roots, moved, "what the kernel declares of itself")
    name = str(attributes.get("kernel", "")).lower()
    forward = not any(word in name for word in ("backward", "bwd", "_dq", "_dkv"))
    called = any(word in name for word in ("attention", "mha", "flash"))
    alike = len(operands) >= 3 and all(len(t.shape) == 4 for t in operands[:3])
    if not (forward and called and alike):
        return None
    queries, keys, values = operands[:3]
    where = _WRITTEN[str(attributes["target"])]
    tokens, seen, heads = queries.shape[where], keys.shape[where], queries.shape[3 - where]
    flops = _fused(queries, heads, tokens, seen, values.shape[-1], False, False)
    if flops is None:
        return None
    return Assumed(flops, 0.0, None, f"our attention kernel by its name ({name[:40]}), without a mask")


def assumed(attributes: Mapping[str, Any], operands: Sequence[TensorType]) -> Assumed | None:
    """What a call is taken to do that no table of names tells; None where nothing says."""
    target = str(attributes.get("target", ""))
    if target.startswith(_FUSED_ATTENTION):
        return _cudnn(attributes, operands)
    return _written(attributes, operands) if target in _WRITTEN else None


def custom_call(
    attributes: Mapping[str, Any], operands: Sequence[TensorType], results: Sequence[TensorType]
) -> tuple[str, float] | None:
    """Kind of work (free, move, matrix, vector, rng) and its FLOPs; None for a target that is not in the table."""
    target = str(attributes.get("target", ""))
    if is_free(attributes):
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
        return "vector", float(operands[0].shape[-1] * operands[1].elements)
    if "potrf" in target and operands and operands[0].shape:
        return "vector", operands[0].shape[-1] * operands[0].elements / 3
    if target in _RANDOM:
        return "rng", float(sum(t.elements for t in results))
    return None


def is_free(attributes: Mapping[str, Any]) -> bool:
    """Whether a custom call only passes its operands on."""
    target = str(attributes.get("target", ""))
    return target in _FREE or target.startswith("xla.sdy.")
