"""Scalars that check a rule and not a run: what leaving a node costs tensor parallelism, and what binds a pass."""

from collections.abc import Callable, Mapping

from mlsysim import catalog, flops, parallelism, roofline
from mlsysim.evidence.predictors.base import Row, Unsupported, element_bytes
from mlsysim.evidence.predictors.shapes import model_of

_CLASSES = {"memory": 1.0, "compute": 2.0}


def _tp_slowdown(row: Row) -> float:
    """Time per token and device at one tensor-parallel degree over that at another, nothing hidden."""
    shape = model_of(row, tied=False)
    preset = catalog.preset("mlsysim-page-training").efficiency
    row.assume("efficiency", preset.value, f"{preset.source}, its default")

    def rate(degree: str) -> float:
        cost = parallelism.tensor_parallel_cost(
            shape,
            int(row.number(degree)),
            str(row.need("node")),
            seq=row.number("seq"),
            micro_batch=row.number_or("micro_batch", 1.0),
            efficiency=preset.value,
            precision=str(row.or_assume("precision", "bf16")),
        )
        return float(cost.token_rate)

    return rate("tp_from") / rate("tp_to")


def _bottleneck(row: Row) -> float:
    """1 when reading the weights takes longer than multiplying with them, 2 otherwise."""
    precision = str(row.or_assume("precision", "bf16"))
    weights = flops.matmul_parameters(str(row.need("model")))
    tokens = row.number("tokens") * row.number_or("batch", 1.0)
    work = float(flops.forward_matmul_flops(weights)) * tokens
    bound = roofline.kernel_time(str(row.need("device")), work, weights * element_bytes(precision), precision).bound
    if bound not in _CLASSES:
        raise Unsupported(f"a pass bound by {bound} is neither of the two classes")
    return _CLASSES[str(bound)]


QUANTITIES: Mapping[str, Callable[[Row], float]] = {"tp_slowdown": _tp_slowdown, "bottleneck": _bottleneck}
