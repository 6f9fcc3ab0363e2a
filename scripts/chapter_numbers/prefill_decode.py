"""Chapter 7, prefill and decode."""

from typing import Any

from chapter_numbers import whole_share as share
from mlsysim import catalog, evidence, inference, memory, transformer, units
from mlsysim.efficiencies import server_of
from mlsysim.evidence.predictors import shipped_constants, shipped_fit
from mlsysim.evidence.scoring.scores import shipped_scores
from mlsysim.inference import Deployment, decode_step, deploy

GUESSES = 4  # gptfast2023, scripts/speculate_70B_int4.sh: --speculate_k 4

ALONE = 105  # tokens of gpt-fast's sequence in the mean step: 5 of prompt, half of 200


def _flops(model: str, tokens: float, attention: float = 1.0) -> float:
    w = inference.work_of(model)
    width = attention * w.layers * w.heads * w.key_value_macs
    return float(
        inference.prefill_flops(1, tokens, w.layers * (w.attention_params + w.dense_params), w.head_params, width)
    )


def _acceptance(gain: float, guesses: int, cost: float) -> float:
    """The acceptance that explains a gain, by halving."""
    low, high = 0.0, 0.999
    for _ in range(60):
        middle = (low + high) / 2
        if inference.speculative_speedup(middle, guesses, cost) < gain:
            low = middle
        else:
            high = middle
    return low


def _pairs() -> int:
    """Devices and dense models of the walk in the tests: every accelerator that holds the model and 2,048 tokens."""
    devices = [
        d
        for d in catalog.devices().values()
        if d.kind in ("gpu", "tpu", "superchip") and d.has("peak_flops.bf16") and d.has("memory_capacity")
    ]
    models = [
        m for m in catalog.models().values() if not m.is_moe and transformer.parameter_count(m).total >= 1_000_000_000
    ]
    return sum(bool(deploy(m, d).fits(1, 2048)) for d in devices for m in models)


def of_a_layer(e: inference.Efficiencies, model: str = "Llama-3.1-70B") -> float:
    """What the kernels of a layer take to start."""
    w = inference.work_of(model)
    given = (w.kernels, e.kernel_start, w.grouped, e.grouped_start, 1.0, e.attention_start)
    return float(inference.layer_starts(*given))


def far_sums(batch: int = 8) -> dict[str, str]:
    """One all-reduce of a decode step, inside a domain, over slots and over nodes."""
    places = {
        "domain": ("H100", 4),
        "slots": ("L40S", 4),
        "nodes": ("2 x DGX-A100", 16),
        "efa": ("2 x P4d", 16),
    }
    steps = {
        name: decode_step(deploy("Llama-3.1-70B", on, tp=tp), context=1024, batch=batch)
        for name, (on, tp) in places.items()
    }
    w = steps["domain"].deployment.work
    count = w.layers * w.all_reduces
    found = {name: units.format(step.terms.tensor_parallel / count, "s", 2) for name, step in steps.items()}
    metal = inference.efficiencies_of("Apple-M2-Ultra", "fp16").kernel_start
    return found | {
        "batch": str(batch),
        "bytes": units.format(batch * w.hidden * 2.0, "byte", 3),
        "count": f"{count:g}",
        "metal": units.format(metal, "s", 3),
        "kernels": f"{server_of('llama.cpp').kernels:g}",
    }


def switch_size(device: str, ranks: int) -> float:
    """Bytes of an all-reduce from which on the protocol of long messages is the quicker one."""
    e, bandwidth = inference.efficiencies_of(device), catalog.device(device).scale_up_bandwidth
    gain = (ranks - 1) / ranks / bandwidth * (1 / e.short_link - 1 / e.link)
    return float(e.switch_time / gain)


def _read(d: Deployment, batch: int, hit: float | None = None) -> float:
    """Bytes of a step at a short context, with another number of experts if given."""
    w, m = d.work, d.model
    found = inference.experts_hit(m.n_experts, m.top_k, batch) if hit is None else hit
    layer = w.attention_params + w.dense_params + w.moe * found * w.expert_params
    return float((w.layers * layer + w.head_params) * d.split.weight_bytes)


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 7."""

    eight, seventy = (
        deploy("Llama-3.1-8B", "H100", efficiencies="bound"),
        deploy("Llama-3.1-70B", "H100", tp=8, efficiencies="bound"),
    )
    context = 1000
    alone, together = (decode_step(eight, context=context, batch=b) for b in (1, 64))
    asked, said = 1000, 500  # tokens of a prompt and an answer
    again = sum(asked + i for i in range(said))
    work = _flops("Llama-3.1-8B", 2048)

    row = evidence.measurement("gpt-fast-llama2-7b-bf16")
    measured = 1 / row.value
    calibrated = inference.efficiencies_of("A100-80GB")
    runs = {
        name: inference.generate(
            deploy("Llama-2-7B", "A100-80GB", efficiencies=e), input_len=5, output_len=200
        ).e2e_per_token
        for name, e in (("bound", inference.BOUND), ("ours", calibrated))
    }
    seven = decode_step(deploy("Llama-2-7B", "A100-80GB", efficiencies="bound"), context=ALONE)
    read = seven.cost.device_bytes
    bandwidth = seven.deployment.machine.memory_bandwidth

    def multiplied(precision: str) -> float:
        """Products of a step of 256 sequences with weights in 8 bits."""
        d = deploy("Llama-3.1-8B", "H100", precision=precision, weights="fp8")
        t = decode_step(d, context=1024, batch=256).terms
        return float(t.projections + t.mlp + t.head)

    checks = evidence.checks("serving")
    plain, guessed = (evidence.measurement(n).value for n in ("gpt-fast-70b-int4", "gpt-fast-70b-speculative"))
    cost = plain / evidence.measurement("gpt-fast-7b-int4").value

    def attention(tokens: float, factor: float = 1.0) -> float:
        return 1 - _flops("Llama-3.1-70B", tokens, 0.0) / _flops("Llama-3.1-70B", tokens, factor)

    w = eight.work
    params = w.layers * (w.attention_params + w.dense_params) + w.head_params
    balance = eight.machine.memory_bandwidth / eight.machine.peak_flops
    ridge = eight.machine.peak_flops / eight.machine.memory_bandwidth
    corner = round(ridge)
    many, few = (decode_step(eight, context=1024, batch=b) for b in (512, corner))
    parts = many.cost.components
    products = [parts[name] for name in ("projections", "mlp", "head")]
    multiplying = sum(c.time for c in products)
    longest = 2 * params * balance / (eight.token_bytes - 2 * w.layers * w.heads * w.key_value_macs * balance)

    caches = {"gqa": memory.kv_cache(80, 16, 8192, 8, 128), "mha": memory.kv_cache(80, 16, 8192, 64, 128)}
    step = decode_step(seventy, context=8192, batch=16).time
    wrong = step + (caches["mha"] - caches["gqa"]) / 8 / seventy.machine.memory_bandwidth
    mixtral, deepseek = (
        deploy("Mixtral-8x7B", "H200", efficiencies="bound"),
        deploy("DeepSeek-V3", "H200", precision="fp8", efficiencies="bound"),
    )
    tp8 = decode_step(deploy("Llama-3.1-70B", "H100", tp=8, efficiencies="calibrated"), context=2048)
    fp8 = inference.decode_step(deploy("Llama-3-70B", "H100", precision="fp8", efficiencies="bound"), context=1)
    claim = evidence.measurement("harvard-70b-itl")
    old = inference.efficiencies_of("H100", framework="TensorRT-LLM 0.5")
    tail = of_a_layer(calibrated, "Llama-2-7B")
    fit, sheet = shipped_fit("inference"), shipped_scores("inference")
    honest = sheet.leave_one_group_out
    return {
        "predict": {
            "context": f"{context:,}",
            "weights": units.format(_read(eight, 1, 0.0), "byte", 3),
            "cache": units.format(64 * context * eight.token_bytes, "byte", 3),
            "bandwidth": units.format(eight.machine.memory_bandwidth, "byte/s", 3),
            "read": units.format(_read(eight, 1, 0.0) / eight.machine.memory_bandwidth, "s", 2),
            "more": f"{64 * alone.time / together.time:.0f}",
            "peak": f"{alone.deployment.machine.peak_flops / alone.cost.device_flops:,.0f}",
            "alone": f"{alone.tokens_per_s:.0f}",
            "share": share(alone.mfu, 1),
            "slower": share(together.time / alone.time - 1),
        },
        "naive": {
            "prompt": f"{asked:,}",
            "answer": str(said),
            "computed": f"{round(again, -4):,}",
            "needed": f"{asked + said - 1:,}",
            "ratio": f"about {round(again / (asked + said - 1), -1):.0f}",
        },
        "prompt": {
            "tokens": "2,048",
            "work": units.format(work, "FLOP", 2),
            "time": units.format(work / eight.machine.peak_flops, "s", 2),
        },
        "spec": {
            "tokens": f"{inference.speculative_tokens(0.7, 4):.1f}",
            "speed": f"{inference.speculative_speedup(0.7, 4, 0.1):.1f}",
        },
        "attention": {
            "short": share(attention(2048), 1),
            "long": share(attention(131072)),
            "full": share(attention(131072, 2.0)),
        },
        "cross": {
            "h100": f"{inference.decode_batch_crossover(2 * params, 2 * params, 0.0, eight.machine.memory_bandwidth, eight.machine.peak_flops):.0f}",
            "longest": f"{longest:,.0f}",
            "attention": f"{parts['attention'].flops / parts['attention'].bytes:g}",
            "context": "1,024",
            "many": "512",
            "products": units.format(multiplying, "s", 3),
            "products_over": f"{multiplying / sum(c.memory_time for c in products):.1f}",
            "core": units.format(parts["attention"].time, "s", 3),
            "rate": f"{many.tokens_per_s:,.0f}",
            "corner": f"{corner}",
            "rate_corner": f"{few.tokens_per_s:,.0f}",
        },
        "moe": {
            "one": f"{inference.experts_hit(8, 2, 1):g}",
            "eight": f"{inference.experts_hit(8, 2, 8):.1f}",
        },
        "formats": {
            "mxfp4": f"{8 * inference.format_bytes('mxfp4'):g}",
            "int4": f"{8 * inference.format_bytes('int4-g32'):g}",
            "products": units.format(multiplied("bf16"), "s", 2),
            "products_fp8": units.format(multiplied("fp8"), "s", 2),
        },
        "example": {
            "rate": f"{row.value:g}",
            "measured": units.format(measured, "s", 3),
            "bytes": units.format(read, "byte", 4),
            "cache": units.format(seven.cost.components["attention"].bytes, "byte", 3),
            "context": str(ALONE),
            "bound": units.format(runs["bound"], "s", 3),
            "bound_error": units.percent(runs["bound"] / measured - 1),
            "stream": share(evidence.stream_efficiency("a100", "triad"), 1),
            "streamed": units.format(read / bandwidth / evidence.stream_efficiency("a100", "triad"), "s", 3),
            "layers": str(seven.deployment.work.layers),
            "tail": units.format(tail, "s", 3),
            "tails": units.format(32 * tail, "s", 3),
            "ours": units.format(runs["ours"], "s", 3),
            "error": units.percent(runs["ours"] / measured - 1),
        },
        "bias": {"bound": share(-sum(c.error_of("bound") for c in checks) / len(checks))},
        "starts": {
            "kernel": units.format(inference.efficiencies_of("H100").kernel_start, "s", 3),
            "grouped": units.format(inference.efficiencies_of("H100").grouped_start, "s", 3),
            "attention": units.format(inference.efficiencies_of("H100").attention_start, "s", 3),
            "layer": units.format(of_a_layer(inference.efficiencies_of("H100")), "s", 3),
            "short": f"{inference.efficiencies_of('H100').short_link:.2g}",
            "long": f"{inference.efficiencies_of('H100').link:g}",
            "extra": units.format(inference.efficiencies_of("H100").switch_time, "s", 2),
            "switch": units.format(switch_size("H100", 8), "byte", 2),
            "unpack": units.format(6.6e9 * inference.efficiencies_of("A100-80GB").unpack_time, "s", 2),
            "ungrouped": f"{old.ungrouped:.1f}",
            "readings": f"{inference.cache_readings(8, old.ungrouped):.1f}",
        },
        "far": far_sums(),
        "fit": {
            "constants": str(sum(map(len, shipped_constants("inference").values()))),
            "rows": str(fit["rows"]),
            "groups": str(len(fit["groups"])),
            "passes": f"{calibrated.elementwise:g}",
            "honest": share(honest.mape, 1),
            "honest_bias": units.percent(honest.bias or 0.0),
            "worst": share(max(left.mape for _, left in sheet.groups.values())),
        },
        "guess": {
            "plain": f"{plain:g}",
            "with": f"{guessed:g}",
            "gain": f"{guessed / plain:.2f}",
            "cost": share(cost),
            "guesses": str(GUESSES),
            "acceptance": share(_acceptance(guessed / plain, GUESSES, cost), 1),
        },
        "breaks": {
            "mha": units.format(caches["mha"], "byte", 3),
            "gqa": units.format(caches["gqa"], "byte", 3),
            "mha_itl": units.format(wrong, "s", 3),
            "gqa_itl": units.format(step, "s", 3),
            "active": share(1 - _read(mixtral, 64, 2.0) / _read(mixtral, 64)),
            "all": f"{_read(deepseek, 1, 256.0) / _read(deepseek, 1):.0f} times",
            "prefix": share(units.GiB / units.GB - 1, 1),
            "acts": f"{0.80 * units.GiB / units.GB:.3f}",
            "claim": units.format(claim.value, "s"),
            "floor": units.format(2 * claim.inputs["parameters"] / catalog.device("H100").memory_bandwidth, "s", 3),
            "fp8_bound": f"{1 / fp8.time:.0f}",
            "slower": f"{evidence.measurement('gpt-fast-70b-int8').value:g}",
            "tp8": units.format(tp8.time, "s", 3),
            "tp8_divided": units.format(tp8.time - tp8.terms.overhead * 7 / 8, "s", 3),
        },
        "walk": {"pairs": str(_pairs())},
    }
