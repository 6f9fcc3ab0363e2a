"""Numbers that a row's inputs do not determine: what devices reach, what runs take, what machines draw, what grids emit.

Fitted are the share of its peak that a training run reaches over all its hours (by generation of devices, with one
exponent of size) and the share of its bandwidth that memory gives (by generation). Everything else is sourced, counted, or
the middle between two bounds, and the prediction says so.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence

from mlsysim import catalog, energy, flops, inference, roofline
from mlsysim.catalog import Model
from mlsysim.errors import UnknownNameError
from mlsysim.evidence.measured.measurements import measurement
from mlsysim.evidence.predictors.base import Constants, Row, Unsupported, element_bytes
from mlsysim.evidence.predictors.fitting import votes

_SIZE = 1e10  # active parameters at which the share of a run is quoted
_WIDE = 2.0  # bytes of an element: below it the peak that a row gives is the doubled one
_EXPONENTS = (0.0, 0.3)
_ROUNDS = 200
# Payload of a packet of 256 bytes is what NCCL plans with on PCIe: nccl2026tuning, src/graph/topo.h, PCI_BW 12.0 for 16
# lanes of the third generation, whose raw rate is 15.75 GB/s.
_PCIE_SHARE = 12.0 / 15.75

# nvidia-smi on empty A100-SXM4 of 400 W prints 62, 62, 62 and 64 W in four public logs.
_IDLE_SHARE = 62.0 / 400.0
# grattafiori2024llama3, sec. 3.3.4: effective training time above 90 %.
_EFFECTIVE_TIME = 0.9
# torchtitan2024h100, Table 1: tokens per second and GPU with products in 8 and in 16 bits. The peak doubles, the run does not.
_NARROW_GAIN = 8532.0 / 6667.0
# newkirk2025h100, abstract: training draws 76 % of an H100 node's rated power even when it computes hard.
_TRAINING_POWER = 0.76


def _start() -> float:
    """Share of the peak over all hours of a run before any row is seen: a published utilisation times effective time."""
    return catalog.preset("roofline-page-training").efficiency.value * _EFFECTIVE_TIME


def _memory_share(row: Row, constants: Constants) -> float:
    """Share of the datasheet bandwidth: fitted for the generation, else what a maker measured on another one."""
    own = constants.get("memory", {}).get(row.generation)
    if own is not None:
        return own
    source = measurement("flashmla-h800-decode-memory")
    share = source.value / catalog.device(source.device).memory_bandwidth
    row.assume("memory share", share, f"{source.sourced.source}, {source.device}")
    return share


def _stream(row: Row, constants: Constants) -> float:
    bandwidth = row.rate("hbm_bandwidth", "memory_bandwidth")
    return float(roofline.effective_bandwidth(bandwidth, _memory_share(row, constants)))


def _host_link(row: Row, constants: Constants) -> float:
    row.assume("share of the link", _PCIE_SHARE, "what NCCL plans with")
    if row.has("link_bandwidth_one_way"):
        return row.number("link_bandwidth_one_way") * _PCIE_SHARE
    generation, lanes = row.number("pcie_gen"), row.number_or("pcie_lanes", 16.0)
    return catalog.link(f"PCIe-{generation:.0f}-x16").bandwidth * lanes / 16.0 * _PCIE_SHARE


def _device_link(row: Row, constants: Constants) -> float:
    """The scale-up link at the share that NCCL plans with; both directions together where the row gives both."""
    names = {"Ampere": "NVLink-3", "Hopper": "NVLink-4", "Blackwell": "NVLink-5"}
    if row.generation not in names:
        raise Unsupported(f"no planned bandwidth is known for the links of {row.inputs.get('device')!r}")
    link = catalog.link(names[row.generation])
    share = link.planned_bandwidth / link.bandwidth
    row.assume("share of the link", share, link.origin("planned_bandwidth"))
    if row.has("nvlink_bandwidth_bidirectional"):
        return share * row.number("nvlink_bandwidth_bidirectional")
    return share * row.optional("nvlink_bandwidth_one_way", link.bandwidth)


# Training runs


def _active(row: Row) -> float:
    return row.number("active_params") if row.has("active_params") else row.number("params")


def _run_share(row: Row, constants: Constants) -> float:
    """Share of the peak over all device-hours of a run, failures and restarts included."""
    own = constants.get("training run", {})
    share = own.get(row.generation)
    if share is None:
        share = _start()
        row.assume("share of the peak", share, "rooflinepage2026, sec. 1, times the effective time of a published run")
    if element_bytes(str(row.inputs.get("precision") or "bf16")) < _WIDE:
        share *= _NARROW_GAIN / 2.0
    return float(min(1.0, share * (max(_active(row), 1.0) / _SIZE) ** own.get("size_exponent", 0.0)))


def _work(row: Row) -> float:
    """FLOPs of a run: six per parameter and token; with the shape, attention too and no input embedding."""
    size = _active(row)
    per_token = flops.matmul_flops_per_token(size)
    if all(row.has(name) for name in ("layers", "hidden", "heads", "vocab", "seq")):
        layers, hidden, heads, seq = (row.number(name) for name in ("layers", "hidden", "heads", "seq"))
        size = max(size - row.number("vocab") * hidden, 0.0)
        core = flops.attention_core_flops(layers, seq, heads, hidden / heads, hidden / heads)
        per_token = flops.train_flops_per_token(flops.matmul_flops_per_token(size), core)
    return float(flops.total_flops(per_token, row.number("tokens")))


def _device_time(row: Row, constants: Constants) -> float:
    peak = row.rate("peak_flops", f"peak_flops.{row.inputs.get('precision') or 'bf16'}")
    return float(roofline.compute_time(_work(row), peak, _run_share(row, constants)))


def _run_energy(row: Row, constants: Constants) -> float:
    """Energy that the devices of a run draw; without the overhead of the building, since it is metered at the devices."""
    row.assume("device power", _TRAINING_POWER, "of the design power: newkirk2025h100, for whole nodes")
    power = _TRAINING_POWER * row.rate("tdp_w", "tdp")
    return float(energy.facility_energy(power, _device_time(row, constants), 1.0))


# Power


def _nameplate(row: Row) -> float:
    if row.has("nameplate_w"):
        return row.number("nameplate_w")
    plates = {"Ampere": 6500.0, "Hopper": 10200.0, "Blackwell": 14300.0}  # NVIDIA DGX datasheets, 8 devices
    devices = row.number_or("n_devices", 8.0)
    if row.generation in plates:
        whole = plates[row.generation] * devices / 8.0
        row.assume("nameplate_w", whole, "DGX datasheet of the generation")
    else:
        whole = plates["Hopper"] / (8.0 * 700.0) * devices * row.rate("tdp_w", "tdp")
        row.assume("nameplate_w", whole, "over the devices' design power as in a DGX H100")
    return whole


def _node_power(row: Row, device_share: float) -> float:
    """Devices at a share of their design power, the rest of the node at half of what its nameplate leaves."""
    devices, tdp = row.number_or("n_devices", 8.0), row.rate("tdp_w", "tdp")
    rest = _nameplate(row) - devices * tdp
    if rest < 0:
        raise Unsupported("the nameplate is below the devices' design power")
    row.assume("rest of the node", rest / 2.0, "half of the nameplate beyond the devices: the middle of its bounds")
    return float(energy.it_power(devices, device_share * tdp, 1.0, rest / 2.0))


def _node_power_max(row: Row, constants: Constants) -> float:
    return _node_power(row, 1.0)


def _node_power_fraction(row: Row, constants: Constants) -> float:
    return _node_power(row, 1.0) / _nameplate(row)


def _system_power(row: Row, constants: Constants) -> float:
    if not row.has("power_cap") or row.inputs["power_cap"] in ("none", "MaxP"):
        return _node_power(row, 1.0)
    if not isinstance(row.inputs["power_cap"], str):  # watts per device
        return _node_power(row, row.number("power_cap") / row.rate("tdp_w", "tdp"))
    row.assume("device power", 0.5, "capped, by how much is not said: the middle between none and design power")
    return _node_power(row, 0.5)


def _model(row: Row) -> Model:
    try:
        return catalog.model(str(row.inputs.get("model") or ""))
    except UnknownNameError:
        raise Unsupported(f"the catalogue has no model {str(row.inputs.get('model'))[:40]!r}") from None


def _device_power_fraction(row: Row, constants: Constants) -> float:
    """Mean power of a device over a prompt and its answer.

    Power follows the work that is done: the share of the peak arithmetic and the share of the bandwidth that a server reaches, which
    the solver of inference says, add up. Nothing is fitted to power.
    """
    model, device, tp = _model(row), row.device, int(row.number_or("tp", 1.0))
    if device is None:
        raise Unsupported(f"the catalogue has no device {str(row.inputs.get('device'))[:40]!r}")
    prompt, answer = row.number("input_len"), row.number_or("output_len", 1.0)
    precision = str(row.or_assume("precision", "bf16"))
    narrow = element_bytes(precision) < _WIDE
    deployed = inference.deploy(
        model,
        device,
        tp=tp,
        domain=max(tp, 1),
        precision=precision if narrow else "bf16",
        weights=precision if narrow else None,
        server=str(row.or_assume("server", "", "a current server")),
    )
    batch = row.number_or("batch", 1.0)
    filling = inference.prefill(deployed, input_len=prompt, batch=batch)
    step = inference.decode_step(deployed, context=prompt + answer / 2.0, batch=batch)
    parts = ((filling.time, filling), (max(answer - 1.0, 0.0) * step.time, step))
    busy = sum(time * (done.mfu + done.mbu) for time, done in parts) / sum(time for time, _ in parts)
    return float(energy.device_power(_IDLE_SHARE, 1.0, min(1.0, float(busy))))


def _grid(row: Row, constants: Constants) -> float:
    """The catalogue's intensity for the country; of the year that is asked for when it has that year."""
    country = str(row.need("country"))[:60]
    year = f"-{row.number('year'):.0f}" if row.has("year") else ""
    known = catalog.grids()
    for name in (country + year, country):
        try:
            grid = catalog.grid(name)
        except UnknownNameError:
            continue
        if year and f"-{grid.year}" != year:
            row.assume("year", float(grid.year), "the year of the catalogue")
        return grid.carbon_intensity
    raise Unsupported(f"the catalogue has no grid {country!r} among its {len(known)}")


QUANTITIES: Mapping[str, Callable[[Row, Constants], float]] = {
    "achieved_hbm_bandwidth": _stream,
    "host_to_device_bandwidth": _host_link,
    "device_to_device_bandwidth": _device_link,
    "training_device_time": _device_time,
    "metered_training_energy": _run_energy,
    "device_power_fraction": _device_power_fraction,
    "node_power_max": _node_power_max,
    "node_power_fraction": _node_power_fraction,
    "system_power": _system_power,
    "grid_carbon_intensity": _grid,
}


def _log_mean(values: Sequence[tuple[float, float]]) -> float:
    """Weighted mean of pairs (weight, logarithm)."""
    return math.fsum(w * v for w, v in values) / math.fsum(w for w, _ in values)


def _fit_memory(rows: Sequence[tuple[Row, float, Hashable]]) -> dict[str, float]:
    found: dict[str, list[tuple[float, float]]] = {}
    for (row, measured, _), vote in zip(rows, votes([g for *_, g in rows]), strict=True):
        share = measured / row.rate("hbm_bandwidth", "memory_bandwidth")
        if row.generation and 0 < share <= 1:
            found.setdefault(row.generation, []).append((vote, math.log(share)))
    return {generation: float(f"{math.exp(_log_mean(pairs)):.3g}") for generation, pairs in sorted(found.items())}


def _fit_runs(rows: Sequence[tuple[Row, float, Hashable]]) -> dict[str, float]:
    """Log means by generation and one exponent, by turns; in each generation the sourced start has one vote, as each group."""
    start = math.log(_start())
    bound: Constants = {"training run": {row.generation: 1.0 for row, *_ in rows}}
    points = [
        (
            vote,
            row.generation,
            math.log(row.number("active_params") / _SIZE),
            math.log(_device_time(row, bound) / measured),
        )
        for (row, measured, _), vote in zip(rows, votes([(g, row.generation) for row, _, g in rows]), strict=True)
        if row.generation
    ]
    if not points:
        return {}
    exponent, level = 0.0, dict.fromkeys(sorted({p[1] for p in points}), start)
    for _ in range(_ROUNDS):
        for generation in level:
            own = [(v, share - exponent * size) for v, g, size, share in points if g == generation]
            level[generation] = _log_mean([(1.0, start), *own])
        slope = math.fsum(v * size * (share - level[g]) for v, g, size, share in points)
        exponent = min(
            max(slope / math.fsum(v * size * size for v, _, size, _ in points), _EXPONENTS[0]), _EXPONENTS[1]
        )
    shares = {generation: float(f"{math.exp(value):.3g}") for generation, value in level.items()}
    return shares | {"size_exponent": float(f"{exponent:.3g}")}


def fit(rows: Sequence[tuple[str, Row, float, Hashable]]) -> dict[str, dict[str, float]]:
    """Shares of bandwidth and of training runs by generation."""
    of = {
        name: [(r, m, g) for q, r, m, g in rows if q == name]
        for name in ("achieved_hbm_bandwidth", "training_device_time")
    }
    fitted = {
        "memory": _fit_memory(of["achieved_hbm_bandwidth"]),
        "training run": _fit_runs(of["training_device_time"]),
    }
    return {name: values for name, values in fitted.items() if values}
