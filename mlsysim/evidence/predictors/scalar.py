"""Class scalar: one published number each, of many kinds.

``inputs`` holds what the number was made from, and the equation of the quantity is called with it. Quantities that inputs
do not determine (what a device reaches, what a run needs) stand in the module beside this one.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlsysim import cost, energy, flops, memory, parallelism, reliability, roofline, transformer
from mlsysim.evidence.predictors import scalar_empirical, scalar_rules
from mlsysim.evidence.predictors.base import Constants, Prediction, Predictor, Row, Sample, Unsupported

_MAX_ENTRIES = 1000


def _first(row: Row, *names: str) -> float:
    """The first of several names that mean the same."""
    for name in names:
        if row.has(name):
            return row.number(name)
    return row.number(names[0])  # says what is missing


def _numbers(value: Any) -> list[float]:
    """Every number in a cell, through lists and objects of bounded size."""
    if isinstance(value, (bool, str)) or value is None:
        return []
    if isinstance(value, (int, float)):
        return [float(value)]
    parts = list(value.values()) if isinstance(value, Mapping) else list(value)
    found = [number for part in parts[:_MAX_ENTRIES] for number in _numbers(part)]
    if len(found) > _MAX_ENTRIES:
        raise Unsupported(f"more than {_MAX_ENTRIES} numbers in one row")
    return found


def _devices(row: Row) -> float:
    return row.number_or("n_devices", 1.0)


# Training and utilisation


def _work(row: Row) -> float:
    if row.has("total_flops"):
        return row.number("total_flops")
    return float(flops.total_flops(row.number("flops_per_param_token") * row.number("params"), row.number("tokens")))


def _training_time(row: Row) -> float:
    return float(roofline.compute_time(_work(row), _devices(row) * row.number("achieved_flops_per_device")))


def _time_from_throughput(row: Row) -> float:
    return row.number("tokens") / row.number("tokens_per_s")


def _utilisation(row: Row, hardware: bool) -> float:
    """Model or hardware FLOPs over the peak, in the convention that belongs to how the speed is given."""
    peak = _devices(row) * row.number("peak_flops")
    recompute = row.or_assume("recompute", "selective" if hardware else "none")
    if recompute not in ("none", "selective", "full"):
        raise Unsupported(f"recompute {str(recompute)[:20]!r} is not one of none, selective, full")
    layers, seq = row.number("layers"), row.number("seq")
    heads, wide = row.number("heads"), not row.has("tokens_per_s")
    size = row.number("head_dim") if row.has("head_dim") else row.number("hidden") / heads
    context = seq if row.inputs.get("attention", "full") == "full" else float(flops.attention_context(seq, seq))
    core = float(flops.attention_core_flops(layers, context, heads, size, size))  # forward, per token
    if wide:  # Megatron's count of a whole step
        batch = row.number("global_batch")
        passes = 4.0 if hardware and recompute == "full" else 3.0
        work = float(flops.megatron_flops(batch, seq, layers, row.number("hidden"), row.number("vocab"), passes))
        if hardware and recompute == "selective":
            work += 3.0 * batch * seq * core  # as printed: the recomputed core counted like a whole step of it
        return work / (row.number("step_time_s") * peak)
    matmul = float(flops.matmul_flops_per_token(row.number("params")))
    again = {"none": 0.0, "selective": core, "full": core + matmul / 3.0}[recompute] if hardware else 0.0
    return float(flops.train_flops_per_token(matmul, core, again)) * row.number("tokens_per_s") / peak


def _inference_mfu(row: Row) -> float:
    work = float(flops.total_flops(flops.forward_matmul_flops(row.number("params")), row.number("tokens")))
    return work / (row.number("time_s") * _devices(row) * row.number("peak_flops"))


def _mfu_from_device_time(row: Row) -> float:
    work = flops.total_flops(flops.matmul_flops_per_token(_first(row, "active_params", "params")), row.number("tokens"))
    return float(work) / (row.number("device_seconds") * row.number("peak_flops"))


# Energy, carbon, money


def _energy(row: Row) -> float:
    if row.has("energy_j"):
        return row.number("energy_j")
    pue = row.number_or("pue", 1.0)
    power = row.number("power_w_per_device")
    if row.has("device_seconds"):
        return float(energy.facility_energy(power, row.number("device_seconds"), pue))
    return float(energy.facility_energy(energy.it_power(_devices(row), power), row.number("duration_s"), pue))


def _emissions(row: Row) -> float:
    return float(energy.carbon(_energy(row), row.number("carbon_intensity_kg_per_j")))


def _sum(row: Row) -> float:
    parts = _numbers(row.inputs)
    if not parts:
        raise Unsupported("the row gives no parts to sum")
    return math.fsum(parts)


def _cost(row: Row) -> float:
    if row.has("device_seconds"):
        return float(cost.rental_cost(1.0, row.number("device_seconds"), row.number("price_usd_per_device_s")))
    if row.has("price_usd_per_s"):
        return float(cost.rental_cost(1.0, row.number("duration_s"), row.number("price_usd_per_s")))
    return float(cost.rental_cost(_devices(row), row.number("duration_s"), row.number("price_usd_per_device_s")))


def _cost_per_token(row: Row) -> float:
    price = _first(row, "price_usd_per_device_s", "price_usd_per_s")
    return float(cost.cost_per_token(_devices(row) * price, row.number("tokens_per_s")))


def _stem(name: str, *noise: str) -> str:
    words = [w for w in name.lower().split("_") if w not in noise]
    return "_".join(w.removesuffix("s") for w in words)


def _token_revenue(row: Row) -> float:
    """Sum of tokens times price: two lists of one length, or pairs of names that differ in the word price only."""
    prices = {k: _numbers(v) for k, v in row.inputs.items() if "price" in k.lower()}
    counts = {k: _numbers(v) for k, v in row.inputs.items() if "price" not in k.lower() and _numbers(v)}
    if len(prices) == len(counts) == 1:
        (price,), (count,) = prices.values(), counts.values()
        if len(price) == len(count) > 1:
            return math.fsum(p * c for p, c in zip(price, count, strict=True))
    noise = ("price", "usd", "per", "token", "tokens", "count", "n", "m")
    by_stem = {_stem(k, *noise): v for k, v in counts.items()}
    total = 0.0
    for name, price in prices.items():
        count = by_stem.pop(_stem(name, *noise), [])
        if len(count) != len(price):
            raise Unsupported(f"no number of tokens belongs to {name[:40]!r}")
        total += math.fsum(p * c for p, c in zip(price, count, strict=True))
    if not prices or by_stem:
        raise Unsupported("tokens and prices do not pair up")
    return total


def _profit_ratio(row: Row) -> float:
    revenue = next((k for k in row.inputs if k.lower().startswith("revenue")), "revenue_usd")
    spent = next((k for k in row.inputs if k.lower().startswith("cost")), "cost_usd")
    return (row.number(revenue) - row.number(spent)) / row.number(spent)


# Failures


def _mtbf(row: Row) -> float:
    return float(reliability.observed_mtbf(row.number("duration_s"), row.number("failures")))


def _mttf(row: Row) -> float:
    nodes = _devices(row) / row.number_or("devices_per_node", 1.0)
    node = reliability.node_mtbf(1.0, row.number("node_failure_rate_per_s"))
    return float(reliability.cluster_mtbf(node, nodes))


def _device_failure_rate(row: Row) -> float:
    return float(reliability.failure_rate(row.number("failures"), row.number("duration_s"), _devices(row)))


def _checkpoint_overhead(row: Row) -> float:
    return float(reliability.checkpoint_overhead(row.number("save_time_s"), row.number("interval_s")))


# Rooflines, memory, schedules


def _ridge(row: Row) -> float:
    return float(roofline.ridge_point(row.number("peak_flops"), row.number("hbm_bandwidth")))


def _critical_batch(row: Row) -> float:
    """Tokens at which reading the weights takes as long as computing with them: 2 FLOP for each weight."""
    return _ridge(row) * row.number("weight_bytes") / 2.0


def _memory_time(row: Row) -> float:
    return float(roofline.memory_time(row.number("bytes"), _devices(row) * row.number("hbm_bandwidth")))


def _param_count(row: Row) -> float:
    hidden = row.number("hidden")
    attention = transformer.attention_matrices(hidden, 1.0, row.number_or("kv_ratio", 1.0), hidden)
    matrices = 3.0 if row.or_assume("gated_mlp", True) else 2.0
    tables = 1.0 if row.or_assume("tied_embeddings", False) else 2.0
    layer = attention + transformer.mlp_matrices(hidden, row.number("ffn"), matrices)
    return float(row.number("layers") * layer + tables * row.number("vocab") * hidden)


def _kv(row: Row, batch: float, tokens: float) -> float:
    heads, size = 1.0, row.optional("kv_dim", 0.0)
    if not row.has("kv_dim"):
        heads, size = row.number("kv_heads"), row.number("head_dim")
    each = row.number_or("dtype_bytes", 2.0)
    return float(memory.kv_cache(row.number("layers"), batch, tokens, heads, size, each))


def _serving_memory(row: Row) -> float:
    weights = transformer.weight_bytes(row.number("params"), row.number_or("weight_bytes", 2.0))
    return float(weights) + _kv(row, row.number_or("batch", 1.0), _first(row, "tokens", "seq"))


def _model_state(row: Row) -> float:
    return float(transformer.weight_bytes(row.number("params"), _first(row, "bytes_per_param", "state_bytes")))


def _kept_activations(row: Row, width: float, per_layer: float) -> float:
    tokens = row.number("tokens") if row.has("tokens") else row.number("seq") * row.number_or("batch", 1.0)
    each = row.number_or("dtype_bytes", 2.0)
    return float(memory.activation_memory_full(tokens, 1.0, width, per_layer * row.number("layers"), each))


def _activation_checkpoints(row: Row) -> float:
    width = _first(row, "checkpoint_width", "hidden")
    return _kept_activations(row, width, row.optional("checkpoints_per_layer", 1.0))


def _training_memory(row: Row) -> float:
    state = transformer.weight_bytes(
        row.number("params"), _first(row, "state_bytes", "state_bytes_per_param", "bytes_per_param")
    )
    return float(state) + _kept_activations(row, row.number("hidden"), row.number_or("checkpoints_per_layer", 1.0))


def _min_devices(row: Row) -> float:
    return float(math.ceil(_first(row, "bytes", "total_bytes") / row.number("hbm_bytes")))


def _decode_throughput(row: Row) -> float:
    return row.number("batch") / (_first(row, "step_time_s", "step_s", "time_s") * _devices(row))


def _prefill_time(row: Row) -> float:
    work = flops.total_flops(flops.forward_matmul_flops(row.number("params")), row.number("tokens"))
    return float(roofline.compute_time(work, _devices(row) * row.number("achieved_flops_per_device")))


def _bubble(form: Callable[..., Any]) -> Callable[[Row], float]:
    return lambda row: float(
        form(row.number("pp"), _first(row, "microbatches", "micro_batches"), row.number_or("virtual_stages", 1.0))
    )


def _max_context(row: Row) -> float:
    room = _devices(row) * row.number("hbm_bytes") * row.number("kv_reserve_fraction")
    return room / _kv(row, row.number_or("batch", 1.0), 1.0)


def _weight_share(row: Row) -> float:
    return float(transformer.weight_bytes(row.number("params"), row.number("dtype_bytes"))) / row.number("hbm_bytes")


_FROM_INPUTS: Mapping[str, Callable[[Row], float]] = {
    "training_time": _training_time,
    "training_time_from_flops": _training_time,
    "training_time_from_throughput": _time_from_throughput,
    "training_flops": _work,
    "mfu": lambda row: _utilisation(row, hardware=False),
    "hfu": lambda row: _utilisation(row, hardware=True),
    "inference_mfu": _inference_mfu,
    "mfu_from_device_time": _mfu_from_device_time,
    "energy": _energy,
    "emissions": _emissions,
    "emissions_sum": _sum,
    "cost": _cost,
    "cost_per_token": _cost_per_token,
    "token_revenue": _token_revenue,
    "profit_ratio": _profit_ratio,
    "mtbf": _mtbf,
    "mttf": _mttf,
    "device_failure_rate": _device_failure_rate,
    "checkpoint_overhead_fraction": _checkpoint_overhead,
    "ridge_point": _ridge,
    "critical_batch": _critical_batch,
    "weight_load_time": _memory_time,
    "memory_bound_time": _memory_time,
    "param_count": _param_count,
    "kv_cache_per_token": lambda row: _kv(row, 1.0, 1.0),
    "model_state_bytes": _model_state,
    "activation_checkpoint_bytes": _activation_checkpoints,
    "training_memory_total": _training_memory,
    "serving_memory": _serving_memory,
    "min_devices": _min_devices,
    "decode_throughput_per_device": _decode_throughput,
    "prefill_time": _prefill_time,
    "pipeline_bubble_fraction": _bubble(parallelism.bubble_fraction),
    "pipeline_bubble_overhead": _bubble(parallelism.bubble_ratio),
    "max_context_length": _max_context,
    "weight_memory_fraction": _weight_share,
}
QUANTITIES = (*_FROM_INPUTS, *scalar_rules.QUANTITIES, *scalar_empirical.QUANTITIES)


def predict(inputs: Mapping[str, Any], constants: Constants) -> Prediction:
    """The number of one row of class scalar."""
    quantity, row = str(inputs.get("quantity")), Row(inputs.get("inputs") or {})
    if quantity in _FROM_INPUTS:
        value = _FROM_INPUTS[quantity](row)
    elif quantity in scalar_rules.QUANTITIES:
        value = scalar_rules.QUANTITIES[quantity](row)
    elif quantity in scalar_empirical.QUANTITIES:
        value = scalar_empirical.QUANTITIES[quantity](row, constants)
    else:
        raise Unsupported(f"quantity {quantity[:40]!r} is not modelled ({', '.join(QUANTITIES)})")
    return Prediction(float(value), assumptions=tuple(row.assumptions))


def fit(rows: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """What runs and devices reach of their peaks, by generation."""
    return scalar_empirical.fit([(r["quantity"], Row(r.get("inputs") or {}), m, g) for r, m, g in rows])


PREDICTOR = Predictor(
    predict, fit, "log means by generation with a sourced start of one vote; every group of rows has one vote"
)
