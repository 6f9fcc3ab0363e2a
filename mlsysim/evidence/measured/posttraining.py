"""What others print of fine-tuning, reinforcement learning and storage, beside what our equations give for the same case."""

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from mlsysim import catalog, flops, memory, posttraining
from mlsysim.evidence.measured.measurements import Measurement, measurements
from mlsysim.parallelism import Plan
from mlsysim.transformer import parameter_count


def _count(_: Measurement, i: Mapping[str, Any]) -> float:
    return float(posttraining.adapter_parameters(**{k: i[k] for k in ("rank", "matrices", "rows", "columns")}))


def _speed(_: Measurement, i: Mapping[str, Any]) -> float:
    """Work of a weight when all are trained, over that when it is frozen; a repeated forward pass counts in both."""
    again = i["repeated"] * flops.recompute_flops(2.0, 0.0, layer_share=1.0, core_share=0.0)
    return float((flops.lora_flops(0.0, 1.0) + again) / (flops.lora_flops(1.0, 0.0) + again))


def _weight_bytes(i: Mapping[str, Any]) -> float:
    return float(i["number_bytes"] * parameter_count(catalog.model(i["model"])).total)


def sync_rate(row: Measurement) -> float:
    """Bytes per second at which the weights went over, without the setup."""
    return float(_weight_bytes(row.inputs) / (row.value - row.inputs["setup"]))


def _sync(row: Measurement, i: Mapping[str, Any]) -> float:
    """A broadcast, with the median rate of the other rows: none is judged by itself."""
    others = [sync_rate(r) for n, r in measurements("posttraining").items() if r.kind == "sync" and n != row.name]
    rate = median(others)
    return float(posttraining.weight_sync(_weight_bytes(i), rate, 1.0, rate, i["setup"]))


def _writes(_: Measurement, i: Mapping[str, Any]) -> float:
    """Point-to-point writes at the rate of the adapters, of those who send or of those who receive: a bound."""
    ends = min(i["senders"], i["receivers"])
    return float(
        posttraining.weight_sync(_weight_bytes(i), ends * i["adapter"], i["senders"], i["adapter"], i["setup"])
    )


def _step(_: Measurement, i: Mapping[str, Any]) -> float:
    """A whole step, with the layout and the forward passes that its recipe has."""
    return posttraining.rl_step(**{**i, "plan": Plan(**i["plan"])}).time


RULES: Mapping[str, Callable[[Measurement, Mapping[str, Any]], float]] = {
    "adapter-count": _count,
    "adapter-bytes": lambda row, i: _count(row, i) * i["number_bytes"],
    "state-bytes": lambda _, i: float(posttraining.fine_tuning_state(**i)),
    "adapter-speed": _speed,
    "longest": lambda _, i: float(posttraining.longest_rollout(**i)),
    "sync": _sync,
    "writes": _writes,
    "step": _step,
    "idle-share": lambda _, i: i["synchronous"] / i["asynchronous"],
    "pools": lambda _, i: float(posttraining.two_pools_step(i["generation"], i["training"], i["share"])),
    "checkpoint": lambda _, i: float(memory.checkpoint_bytes(i["parameters"], 2, 4, 4, 4)),
    "reading": lambda _, i: min(i["servers"] * i["server_bandwidth"], i["clients"] * i["client_bandwidth"]),
}
