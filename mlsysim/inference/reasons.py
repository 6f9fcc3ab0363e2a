"""Why a pass takes as long as it does: the same closed forms, asked with numbers that know where they come from."""

from dataclasses import replace
from typing import Any

from mlsysim._chains import traced
from mlsysim._numeric.traced import called, given
from mlsysim.inference.deployment import Deployment
from mlsysim.inference.shares import traced_efficiencies
from mlsysim.inference.work import pass_cost

_RATES = ("peak_flops", "half_peak_flops", "memory_bandwidth", "intra_bandwidth", "inter_bandwidth", "pp_bandwidth")


def reasons(d: Deployment) -> tuple[Any, Any, Any, Any]:
    """Work, split, machine and efficiencies of a deployment as :func:`pass_cost` takes them, every number with its source."""
    m, source = d.device, f"{d.model.source}, {d.model.where}" if d.model.source else "given by the caller"
    inside = d.origins.get("intra_bandwidth", "not used: one device")
    links = dict.fromkeys(("intra_bandwidth", "inter_bandwidth", "pp_bandwidth"), inside)
    for name in ("inter_bandwidth", "pp_bandwidth"):
        if getattr(d.machine, name) != d.machine.intra_bandwidth:
            links[name] = d.origins["inter_bandwidth"]
    half = "bf16" if m.has("peak_flops.bf16") else d.precision
    rates = links | {
        "peak_flops": m.origin(f"peak_flops.{d.precision}"),
        "half_peak_flops": m.origin(f"peak_flops.{half}"),
        "memory_bandwidth": m.origin("memory_bandwidth"),
    }
    units = {n: "FLOP/s" if n.endswith("flops") else "byte/s" for n in _RATES}
    machine = traced(d.machine, {n: rates.get(n, "where its ranks lie") for n in vars(d.machine)}, units)
    if machine.plans:
        library = "the protocol of a collectives library, with its constants fitted to published all-reduces"
        names = ("call of a message", "time per byte", "stages", "time of a chunk")
        ways = [[given(v, n, "1", library) for v, n in zip(way, names, strict=True)] for way in machine.plans]
        machine = replace(machine, plans=tuple(map(tuple, ways)))
    return (
        traced(d.work, f"counted from the shape of {d.model.name}: {source}"),
        traced(d.split, f"the deployment: weights {d.weights}, cache {d.kv}, products {d.precision}"),
        machine,
        traced_efficiencies(m, d.precision, d.efficiencies, d.server),
    )


def traced_pace(d: Deployment) -> Any:
    """The pace of one's own runs; 1 without any."""
    return (
        1.0 if d.own is None else given(d.pace, "time over that without your runs", "1", "eq-run-weight of your runs")
    )


def traced_pass(d: Deployment, batch: Any, new: Any, cached_len: Any, decode: float, name: str) -> Any:
    """The time of a pass with all that is behind it; its terms have their names."""
    terms = pass_cost(*reasons(d), batch, new, cached_len, decode).terms.scaled(traced_pace(d))
    for term, value in vars(terms).items():
        called(value, f"{name}: {term.replace('_', ' ')}")
    return called(terms.time, name, apart=True)
