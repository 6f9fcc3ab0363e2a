"""Chapter 16, mixture of experts."""

from typing import Any

from chapter_numbers import whole_share as share
from mlsysim import evidence, inference, transformer, units
from mlsysim.efficiencies import shipped
from mlsysim.evidence.hypotheses import expert_claims, infersim
from mlsysim.evidence.hypotheses.expert_claims import PUBLISHED, SETTING, both, own_rate
from mlsysim.inference import deploy
from mlsysim.serving_steps import TIER_0, Batch, experts, step_model
from mlsysim.serving_steps.expert_layer import LOW_LATENCY_TOKENS, NORMAL_UNITS, TILE, ExpertLayer, expert_layer


def _halves() -> tuple[tuple[float, float], tuple[float, float]]:
    """Kernels of a micro-batch of prompts (attention, experts) and its messages (dispatch, combine), in s."""
    step = step_model(expert_claims.deployed(32), TIER_0)
    t = step.terms(Batch.of(step.model, prefills=[(4096.0, 0.0)] * 2))
    attention = (t.projections + t.prefill_attention + t.elementwise / 2 + t.head) / NORMAL_UNITS
    mlp = (t.mlp + t.experts + t.elementwise / 2) / NORMAL_UNITS
    return (float(attention), float(mlp)), (float(t.messages / 3), float(t.messages * 2 / 3))


def _pieces() -> float:
    """Prompt tokens per second when each half of a layer must cover one message of the other batch, in turn."""
    return 2 * 8192 / sum(_waits())


def _waits() -> list[float]:
    """Each half of a layer's kernels beside each of its messages, the longer of the two, in s."""
    kernels, messages = _halves()
    return [max(a, b) for a in kernels for b in messages]


def _fullest() -> dict[str, str]:
    """How much fuller than the mean the fullest device is, by chance with 64 tokens on each, and by popularity."""
    v = shipped("serving_tpot")["experts"]["routing_cv2"]
    found = {"chance": {"chance": 1 / 512}, "popular": {"routing_cv2": v}}
    return {
        f"{why}_{n}": share(experts.fullest_device(n, 256, **given) - 1, 0)
        for why, given in found.items()
        for n in (8, 64)
    }


def _rack() -> dict[str, str]:
    """Experts in FP4, and 64 devices of a rack, beside what SGLang measured."""
    peaks = {p: deploy("DeepSeek-V3", "GB200", dp=8, ep=8, precision=p).machine for p in ("fp8", "fp4")}
    d = deploy("DeepSeek-V3", "GB200", dp=64, ep=64, precision="fp8", experts="nvfp4", kv="fp8")
    size = d.split.expert_bytes

    def cross(precision: str, devices: int, width: float) -> str:
        m = peaks[precision]
        return f"{experts.moe_crossover(256, 8, devices, width, m.peak_flops, m.memory_bandwidth):.0f}"

    measured = evidence.measurements("service")["sglang-gb200-decode"].value
    ours, fewer = (b / inference.decode_step(d, context=2000, batch=64 * b).time for b in (1408, 768))
    return {
        "bits": f"{8 * size:g}",
        "faster": f"{peaks['fp4'].peak_flops / peaks['fp8'].peak_flops:.2g}",
        "cross_fp8": cross("fp8", 8, 1.0),
        "cross_fp4": cross("fp4", 8, size),
        "cross_64": cross("fp4", 64, size),
        "dispatch": units.format(expert_layer(d, tokens=64).dispatch_time, "s", 2),
        "measured": f"{measured:,.0f}",
        "step": units.format(1408 / measured, "s", 3),
        "ours": f"{ours:,.0f}",
        "error": units.percent(ours / measured - 1, 0),
        "fewer": share(1 - fewer / ours, 0),
    }


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 16."""

    claims = expert_claims.expert_numbers()
    v3 = transformer.parameter_count("DeepSeek-V3")
    d = deploy("DeepSeek-V3", "H800", dp=8, ep=8, precision="fp8")
    w = d.work
    one, sixty, many = (expert_layer(d, tokens=b) for b in (1, 64, 512))
    layer_bytes = 2.0 * w.n_experts * w.expert_params
    loading = layer_bytes / 2744e9
    wide = expert_layer(expert_claims.deployed(128), tokens=64)
    ends = expert_claims.crossings(8)
    rates = {p: (own_rate(p)[0], *PUBLISHED[p]) for p in ("prefill", "decode")}
    ratios = [expert_claims.grouped_ratio(g) for g in expert_claims.all_grouped()]
    looked = {
        m: [expert_claims.grouped_ratio(g, same_work=False) for g in expert_claims.all_grouped() if g.per_expert == m]
        for m in (16, 64)
    }
    first, theirs = both(8, 1)
    setup = infersim.Setup(infersim.shape_of("DeepSeek-V3"), "H800", devices=8, tokens=64, fp8=True)
    eight = claims["H7e"]
    held = w.n_experts / 8 * w.expert_params  # in 8 bits, of one of eight devices
    sustained = one.rates.grouped_products.memory * d.machine.memory_bandwidth
    tiled = one.rates.grouped_products.compute * experts.tokens_per_expert(512, w.top_k, w.n_experts) / TILE
    looked_up = 16.0

    def arithmetic(layer: ExpertLayer, share: float | None = None) -> float:
        return float(layer.work.flops / ((layer.share if share is None else share) * d.machine.peak_flops))

    def worth(devices: int, tokens: float) -> ExpertLayer:
        """A layer with the messages that a server would choose for so many tokens."""
        mode = "low-latency" if tokens <= LOW_LATENCY_TOKENS else "normal"
        return expert_layer(expert_claims.deployed(devices), tokens=tokens, mode=mode)

    def deepep(what: str, devices: int) -> tuple[float, float]:
        """Ours and the makers' time of 128 tokens."""
        layer = expert_layer(expert_claims.deployed(devices), tokens=128)
        ours = layer.dispatch_time if what == "dispatch" else layer.combine_time
        return float(ours), evidence.measurement(f"deepep-{what}-{devices}").value

    kinds = ("dispatch", "combine")
    far = [x / y - 1 for what in kinds for n in (16, 32, 64, 128) for x, y in [deepep(what, n)]]
    near = [y / x for what in kinds for x, y in [deepep(what, 8)]]
    reach = [160e9 * x / y for what in kinds for x, y in [deepep(what, 8)]]
    return {
        "fullest": _fullest(),
        "rack": _rack(),
        "predict": {
            "total": f"{v3.total / 1e9:.0f}",
            "active": share((w.top_k + 1) / (w.n_experts + 1), 1),
            "hit_one": f"{inference.experts_hit(w.n_experts, w.top_k, 8):.0f}",
            "hit_many": f"{inference.experts_hit(w.n_experts, w.top_k, 512):.0f}",
            "time_one": units.format(one.routed_time, "s", 3),
            "time_many": units.format(sixty.routed_time, "s", 3),
        },
        "full": {
            "rows": f"{experts.tokens_per_expert(512, w.top_k, w.n_experts):g}",
            "sustained": f"{one.rates.grouped_products.compute:.2f}",
            "at_64": share(experts.grouped_share(64, one.rates.grouped_products.compute)),
            "at_rows": share(sixty.share, 1),
            "one_tile": share(tiled, 1),
        },
        "time": {
            "arithmetic": units.format(arithmetic(sixty), "s", 3),
            "arithmetic_tile": units.format(arithmetic(sixty, tiled), "s", 3),
            "reading": units.format(
                sixty.work.bytes / (sixty.rates.grouped_products.memory * d.machine.memory_bandwidth), "s", 3
            ),
            "low": units.percent(first.routed_time / theirs.routed - 1),
            "params": f"{w.expert_params / 1e6:.0f} million",
            "bytes": units.format(held, "byte", 2),
            "bandwidth": units.format(sustained, "byte/s", 2),
            "reading_alone": units.format(held / sustained, "s", 2),
        },
        "cross": {
            "constant": f"{expert_claims.constant_crossover(8, 0.35):.0f}",
            "sustained": f"{expert_claims.constant_crossover(8, one.rates.grouped_products.compute):.0f}",
            "padded": f"{expert_claims.padded_crossover(8):.0f}",
            "own": str(expert_claims.own_crossover(8)),
            "looked_at": f"{looked_up:g}",
            "looked_share": f"{infersim.grouped_share(expert_claims.setup(8, looked_up), False):.2f}",
            "looked_time": units.format(both(8, looked_up)[1].routed_compute, "s", 3),
            "looked_load": units.format(both(8, looked_up)[1].experts_load, "s", 3),
            "looked_real": units.format(arithmetic(both(8, looked_up)[0]), "s", 3),
            "first": str(ends[0]),
            "last": str(ends[-1] - 1),
            "sides": str(len(ends)),
        },
        "shared": {
            "work": share(sixty.shared_work_share, 1),
            "low": share(both(1, 64)[0].shared_time_share),
            "high": share(both(256, 1)[0].shared_time_share),
            "lone": share(both(1, 1)[0].shared_time_share),
        },
        "dense": {
            "least": f"{min(ratios):.2f}",
            "most": f"{max(ratios):.0f}",
            **{f"{end}_{m}": f"{pick(looked[m]):.1f}" for m in looked for end, pick in (("least", min), ("most", max))},
        },
        "send": {
            "dispatch": units.format(wide.dispatch_time, "s", 3),
            "combine": units.format(wide.combine_time, "s", 3),
            "leave": f"{wide.dispatch['remote_nodes']:g}",
            "token": units.format(wide.dispatch["token_bytes"], "byte"),
            "adapter": units.format(wide.dispatch["network_bandwidth"], "byte/s"),
            "ratio_8": f"{experts.exchange_ratio(8, 8):.2f}",
            "ratio_16": f"{experts.exchange_ratio(16, 8):.2f}",
            "rings_8": f"{experts.exchange_ratio(8, 8, 4):.2f}",
            "taken": f"{round((1 - NORMAL_UNITS) * 132):g}",
            "far_low": units.percent(min(far), 0),
            "far_high": units.percent(max(far), 0),
            "near": " and ".join(f"{x:.1f}" for x in near),
            "reach": " and ".join(units.format(x, "byte/s", 2) for x in reach),
            "gib": f"{infersim.GIGA / units.GB:.2f}",
            "inside": f"{expert_layer(expert_claims.deployed(8), tokens=64, mode='normal').dispatch['local_copies']:.1f}",
            "reached_16": f"{expert_layer(expert_claims.deployed(128), tokens=64, mode='normal').dispatch['remote_nodes']:.1f}",
            "normal_gap": f"{1 + float(eight['normal']):.1f}",  # type: ignore[arg-type]
            "several": share(float(eight["several_nodes"])),  # type: ignore[arg-type]
        },
        "service": {
            **{
                f"{p}_{name}": f"{value:,.0f}"
                for p, found in rates.items()
                for name, value in zip(("ours", "infersim", "measured"), found, strict=True)
            },
            **{f"{p}_error": units.percent(found[0] / found[2] - 1) for p, found in rates.items()},
            **{f"{p}_theirs": units.percent(found[1] / found[2] - 1) for p, found in rates.items()},
            **{
                name: units.format(value, "s", 3)
                for name, value in zip(
                    ("half_attention", "half_experts", "dispatch", "combine"), sum(_halves(), ()), strict=True
                )
            },
            "waits": ", ".join(units.format(x, "s", 3) for x in _waits()),
            "waited": units.format(sum(_waits()), "s", 4),
            "pieces": f"{_pieces():,.0f}",
            "pieces_error": units.percent(_pieces() / PUBLISHED["prefill"][1] - 1),
            "busy": units.format(own_rate("prefill")[1], "s", 3),
            "sent": units.format(own_rate("prefill")[2], "s", 3),
            "busy_left": units.format(own_rate("prefill")[1] / NORMAL_UNITS, "s", 3),
            "added": units.format(infersim.STEP_S, "s"),
            "prefill_devices": str(SETTING["prefill"][0]),
            "decode_devices": str(SETTING["decode"][0]),
        },
        "raw": {
            "mixtral": f"{expert_claims.dense_reading('Mixtral-8x7B'):g}",
            "deepseek": f"{expert_claims.dense_reading('DeepSeek-V3'):g}",
        },
        "slips": {
            "layer": units.format(layer_bytes, "byte", 3),
            "all": units.format(layer_bytes * d.model.n_moe_layers, "byte", 3),
            "stored": units.format(layer_bytes * d.model.n_moe_layers / 2, "byte", 3),
            "loading": units.format(loading, "s", 2),
            "sharded": units.format(loading / 8 / 2, "s", 2),
            "contains": units.format(3430e9 * 0.8, "byte/s"),
            "twice": units.format(3430e9 * 0.8 * 0.8, "byte/s"),
            "compute": share(1 - 1e12 / infersim.TERA, 2),
            "bytes": share(1 - units.GB / infersim.GIGA, 2),
            "acts": f"{infersim.expert_bytes(setup) * 32 / infersim.expert_load_time(setup) / 3430e9:.3f}",
        },
        "worth": {
            f"{name}_{at}": units.format(value, "s", 3)
            for at, b in (("64", 64.0), ("many", 16384.0))
            for name, value in (
                ("alone", worth(1, b).routed_time),
                ("eight", worth(8, b).routed_time),
                ("sent", worth(8, b).message_time),
            )
        },
        "growth": units.percent(many.routed_time / sixty.routed_time - 1, signed=False),
        "h7c_gap": share(float(claims["H7c"]["layer_gap"])),  # type: ignore[arg-type]
    }
