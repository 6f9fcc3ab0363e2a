"""H7 of tam2026, part by part: its acceptance criteria, and the numbers that they ask for, computed from our own physics.

InferSim's side comes from the compatibility mode and the shipped tables of one H800.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import pairwise
from types import MappingProxyType

from mlsysim import transformer
from mlsysim.catalog.sourced import shipped_toml
from mlsysim.evidence.hypotheses import infersim
from mlsysim.evidence.hypotheses.hypotheses import Criterion, Hypothesis
from mlsysim.evidence.hypotheses.infersim import Answer, Setup, answer, shape_of
from mlsysim.evidence.hypotheses.measured import Grouped, KernelTables, kernel_tables
from mlsysim.experts import moe_crossover, two_batch_time
from mlsysim.inference import Deployment, deploy
from mlsysim.serving_steps.batches import Batch
from mlsysim.serving_steps.expert_layer import NORMAL_UNITS, TILE, ExpertLayer, expert_layer, expert_work
from mlsysim.serving_steps.rates import rates
from mlsysim.serving_steps.step import step_model
from mlsysim.serving_steps.step_options import TIER_0

MODEL, DEVICE = "DeepSeek-V3", "H800"
NETWORK = 50e9  # byte/s per device: one 400 Gbit/s adapter each (deepep2025)
GROUP = (1, 4, 8, 16, 32, 64, 128, 256)  # devices of the tables
# infersim2026readme, Simulation Result: predicted, and what its authors read off deepseek2025profile; tokens/s per device
PUBLISHED = MappingProxyType({"prefill": (9034.0, 7839.0), "decode": (2675.0, 2324.0)})
SETTING = MappingProxyType({"prefill": (32, 8192.0), "decode": (128, 64.0)})  # devices; tokens of a micro-batch


@cache
def expert_hypotheses() -> Mapping[str, Hypothesis]:
    """H7a to H7e, and H7.

    >>> list(expert_hypotheses())
    ['H7a', 'H7b', 'H7c', 'H7d', 'H7e', 'H7']
    """
    raw = shipped_toml(__package__, "expert_hypotheses.toml")
    return MappingProxyType(
        {
            name: Hypothesis(id=name, **{**entry, "accept": tuple(Criterion(**c) for c in entry["accept"])})
            for name, entry in raw.items()
        }
    )


def deployed(devices: int) -> Deployment:
    """DeepSeek-V3 in 8 bits on so many H800: attention replicated, experts shared by all."""
    return deploy(MODEL, DEVICE, dp=devices, ep=devices, precision="fp8", inter_bandwidth=NETWORK)


def setup(devices: int, tokens: float, tables: KernelTables | None = None, overlap: bool = False) -> Setup:
    """The same for InferSim."""
    return Setup(
        shape_of(MODEL),
        DEVICE,
        devices,
        max(1, devices // 8),
        tokens=tokens,
        output_len=1786,
        fp8=True,
        deepep=True,
        overlap=overlap,
        tables=kernel_tables(DEVICE) if tables is None else tables,
    )


def both(devices: int, tokens: float) -> tuple[ExpertLayer, Answer]:
    """One layer by our physics and by InferSim."""
    return expert_layer(deployed(devices), tokens=tokens), answer(setup(devices, tokens))


def crossings(devices: int, last: int = 512) -> list[int]:
    """Batches at which InferSim's layer, with its tables, changes from loading to arithmetic or back.

    >>> crossings(8)[0], crossings(8)[-1]
    (14, 402)
    """
    return list(_crossings(devices, last))


@cache
def _crossings(devices: int, last: int) -> tuple[int, ...]:
    one = setup(devices, 1)
    load = infersim.expert_load_time(one)  # whatever the batch
    steps = (replace(one, tokens=b) for b in range(1, last + 1))
    bound = [infersim.routed_time(s, infersim.routed_share(s, prefill=False)) >= load for s in steps]
    return tuple(b + 2 for b, (x, y) in enumerate(pairwise(bound)) if x != y)


@cache
def own_crossover(devices: int) -> int:
    """The batch from which the layer of our physics takes longer to compute than to read."""
    d = deployed(devices)
    one = expert_layer(d, tokens=1)

    def reads_longer(b: int) -> bool:
        return bool(replace(one, tokens=b, work=expert_work(d, b)).reading_binds)

    # One more token adds more to computing than to reading, so there is one crossing, and halving finds it.
    low, high = 0, 1
    while reads_longer(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if reads_longer(middle) else (low, middle)
    return high


def constant_crossover(devices: int, share: float) -> float:
    """The same at one share of the peak for every batch, and the bandwidth that our rates sustain."""
    m, d = deployed(devices), rates(DEVICE).grouped_products
    w = m.work
    peak, read = m.machine.peak_flops, m.machine.memory_bandwidth
    return float(moe_crossover(w.n_experts, w.top_k, devices, m.split.expert_bytes, peak, read, share, d.memory))


def padded_crossover(devices: int) -> float:
    """The same with the share of eq-grouped-share: its half tile of rows for each expert is work at every batch.

    Setting rows (rows + tile / 2) / rows for the work of an expert in eq-moe-crossover takes tile / 2 rows for each
    expert off what a device can have, and tile / 2 x experts / (devices x top_k) off its tokens. Like the constant
    one it leaves out the bytes of activations, which own_crossover counts.

    >>> round(padded_crossover(8))
    617
    """
    w = deployed(devices).work
    sustained = rates(DEVICE).grouped_products.compute
    return constant_crossover(devices, float(sustained)) - float(TILE / 2 * w.n_experts / (devices * w.top_k))


def dense_share(rows: float, k: float, n: float) -> float:
    """Share of the peak of the measured dense product of that shape, at the last row count not above the one given."""
    found = [p for p in kernel_tables(DEVICE).products if (p.k, p.n) == (k, n)]
    below = [p for p in found if p.rows <= rows]
    return (below[-1] if below else found[0]).share


def grouped_ratio(row: Grouped, same_work: bool = True) -> float:
    """Dense over grouped share of the peak, of the product into the width.

    ``same_work``: the dense product has as many rows as all experts of the device together, so both do the same work;
    otherwise as many as the device has tokens, which is how a tool without experts would look it up.
    """
    rows = row.rows if same_work else row.tokens
    return dense_share(rows, row.hidden, 2 * row.width) / row.up_share


def all_grouped() -> tuple[Grouped, ...]:
    """Every measured grouped product."""
    t = kernel_tables(DEVICE)
    return (*t.grouped_decode, *t.grouped_prefill)


def dense_reading(model: str) -> float:
    """MLP work that the raw configuration, read as dense, would give, over that of the experts that a token meets."""
    dense = infersim.expert_flops(Setup(shape_of(model, raw=True)))
    return dense / infersim.expert_flops(Setup(shape_of(model)))


def layer_flops(model: str) -> float:
    """Our count: work of one token in routed and shared experts of one layer."""
    d = deploy(model, "H200", precision="bf16")
    m = d.model
    shared = transformer.parameter_count(m).shared_experts / m.n_moe_layers
    return float(expert_work(d, 1.0).flops + 2.0 * shared)


def own_rate(phase: str) -> tuple[float, float, float]:
    """Tokens per second and device of our physics with two batches in turn, and the two times of one micro-batch.

    The setting of the measurement: 4,096 tokens per prompt, and steps at a mean context of 4,989.
    """
    devices, tokens = SETTING[phase]
    step = step_model(deployed(devices), TIER_0)
    if phase == "prefill":
        batch = Batch.of(step.model, prefills=[(4096.0, 0.0)] * int(tokens // 4096))
    else:
        batch = Batch.of(step.model, decodes=[4989.0] * int(tokens))
    t = step.terms(batch)
    busy = float(t.time - t.messages)
    sent = float(t.messages)
    time = two_batch_time(busy, sent, NORMAL_UNITS if phase == "prefill" else 1.0)
    return float(2.0 * tokens / time), busy, sent


def _gap(ours: float, theirs: float) -> float:
    return abs(ours / theirs - 1.0)


def _messages_gap(devices: int, normal: bool) -> float:
    layer = expert_layer(deployed(devices), tokens=64, mode="normal" if normal else "low-latency")
    theirs = answer(setup(devices, 64), normal)
    return max(_gap(layer.dispatch_time, theirs.before), _gap(layer.combine_time, theirs.after))


def expert_numbers() -> dict[str, dict[str, float | list[float] | None]]:
    """Numbers for the acceptance criteria of H7, by hypothesis."""
    models = (MODEL, "Mixtral-8x7B")
    batches = sorted({g.tokens for g in kernel_tables(DEVICE).grouped_decode if g.devices == 8})
    layer_gaps = {b: _gap(x.compute_time, y.experts) for b in range(1, 257) for x, y in [both(8, b)]}
    ratios = [grouped_ratio(g) for g in all_grouped()]
    shares = [y.shared / y.experts for n in GROUP for b in (1, 16, 64, 256, 512) for y in [both(n, b)[1]]]
    ends = crossings(8)
    mine = own_crossover(8)
    layer, theirs = both(8, 64)
    reduced = infersim.all_reduce_time(setup(8, 64))
    return {
        "H7a": {
            "gap": max(_gap(layer_flops(m), infersim.expert_flops(Setup(shape_of(m)))) for m in models),
            "overestimate": min(dense_reading(m) for m in models),
        },
        "H7b": {
            "layer_gap": max(_gap(x.compute_time, y.experts) for b in batches for x, y in [both(8, b)]),
            "ratio_low": min(ratios),
            "ratio_high": max(ratios),
        },
        "H7c": {
            "crossover": [max(mine / b, b / mine) for b in (ends[0], ends[-1] - 1)],
            "layer_gap": max(layer_gaps.values()),
        },
        "H7d": {
            "layer_gap": _gap(layer.compute_time, theirs.experts),
            "least": min(shares),
            "low": min(shares),
            "high": max(shares),
        },
        "H7e": {
            "one_node": _messages_gap(8, normal=False),
            "several_nodes": max(_messages_gap(n, normal=False) for n in (16, 32, 64, 128)),
            "normal": max(_messages_gap(n, normal=True) for n in (8, 16, 32, 64, 128)),
            "ratio": 2.0 * reduced / (theirs.before + theirs.after),
        },
        "H7": {
            "prefill": _gap(own_rate("prefill")[0], PUBLISHED["prefill"][0]),
            "decode": _gap(own_rate("decode")[0], PUBLISHED["decode"][0]),
            "measured": None,
        },
    }
