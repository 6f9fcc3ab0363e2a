"""Chapter 26, low precision."""

import math
from typing import Any

from chapter_numbers import share
from chapter_numbers import whole_share as whole
from mlsysim import catalog, evidence, inference, memory, training, units
from mlsysim.evidence.measured.narrow import cast_bytes, linear_share, rate_gain, stored_bytes
from mlsysim.inference import deploy
from mlsysim.memory.grids import GRIDS, block_snr, decibels, gaussian_noise
from mlsysim.memory.quantised import published_recipes
from mlsysim.parallelism import Plan
from mlsysim.transformer import parameter_count

MODEL = "Llama-3.1-8B"
_FORMATS = ("bf16", "fp8", "mxfp8", "nvfp4")
DOCS, PULL = (
    {f: evidence.measurements("narrow")[f"torchao-{place}-{f}"].value for f in _FORMATS} for place in ("docs", "pull")
)


def times(value: float, digits: int = 1) -> str:
    """A ratio as text."""
    return f"{value:.{digits}f}"


def _db(name: str, block: int, how: str = "exact", digits: int = 1) -> str:
    return f"{decibels(block_snr(name, block, how)):.{digits}f}"


def _even(device: str, recipe: str, layouts: int, calibrated: bool = False) -> float:
    d, k = catalog.device(device), rate_gain(device, recipe)
    wide = d.peak_flops["bf16"]
    return float(training.cast_break_even(cast_bytes(recipe, layouts, calibrated), d.memory_bandwidth, wide, k * wide))


def _outlier(name: str, size: float) -> str:
    return f"{decibels(1 / gaussian_noise(name, size / GRIDS[name].largest)):.0f}"


def _serve() -> dict[str, str]:
    """Weights of deployments that are called by one format, and what the published recipes say of them."""
    shut = published_recipes()["gpt-oss-20b"]
    count = parameter_count("DeepSeek-R1")
    extra = (count.dense_mlp + count.shared_experts) * (2.0 - inference.format_bytes("nvfp4"))
    return {
        "weights": units.format(deploy(MODEL, "B200", weights="nvfp4").weight_memory, "byte", 3),
        "all": units.format(deploy(MODEL, "B200", weights="nvfp4", head="nvfp4").weight_memory, "byte", 3),
        "mixture": units.format(deploy(shut.model, "B200", weights=shut.weights).weight_memory, "byte", 4),
        "mixture_printed": units.format(shut.size or 0.0, "byte", 3),
        "shared": share(extra / deploy("DeepSeek-R1", "B200", weights="nvfp4").total_weight_bytes, 1),
    }


def _bytes() -> dict[str, str]:
    found: dict[str, str] = {}
    for form in ("bf16", "nvfp4"):
        found[form] = units.format(stored_bytes(MODEL, form), "byte", 3)
    wide = stored_bytes(MODEL, "bf16")
    found["nvfp4_times"] = times(wide / stored_bytes(MODEL, "nvfp4"))
    found["nvfp4_number"] = times(2 / inference.format_bytes("nvfp4"), 2)
    found["nvfp4_bits"] = times(8 * inference.format_bytes("nvfp4"))
    found["mxfp4_bits"] = times(8 * inference.format_bytes("mxfp4"), 2)
    kept = 2 * 128_256 * 4096
    found["kept"] = units.format(2.0 * kept, "byte", 2)
    found["kept_share"] = whole(2.0 * kept / stored_bytes(MODEL, "nvfp4"))
    found["most_off"] = share(
        max(abs(evidence.check(f"torchao-checkpoint-{f}").error) for f in ("bf16", "fp8", "mxfp8", "nvfp4"))
    )
    return found


def _cache() -> dict[str, str]:
    token = float(memory.kv_cache_of(MODEL, 1, 1))
    crossing, layers = 7000, catalog.model(MODEL).n_layers  # vllm2026fp8kv
    one = float(memory.narrow_cache_context(1.0, catalog.device("H100").memory_bandwidth, token, token / 2))
    return {
        "nvfp4": whole(inference.format_bytes("nvfp4") / inference.format_bytes("fp8")),
        "overhead": units.format(crossing / one, "s", 2),
        "layer": units.format(crossing / one / layers, "s", 2),
        "int4_bits": times(8 * inference.format_bytes("int4-sym-g32")),
        "int4": _db("int4", 32),
    }


def _steps() -> dict[str, str]:
    plan = Plan(dp=8, micro_batch=1, sharding="fsdp")
    took = {
        p: float(training.training_step(MODEL, plan, "H100", global_batch=8, seq=8192, precision=p).time)
        for p in ("bf16", "fp8-tensorwise", "fp8-rowwise")
    }
    checks = {
        n: evidence.check(f"torchao-step-{n}")
        for n in ("h100-tensorwise", "h100-rowwise", "b200-tensorwise", "b200-mxfp8", "b200-rowwise")
    }
    prompts = {n: evidence.check(f"torchao-prefill-{n}") for n in ("h100-fp8", "b200-fp8", "b200-nvfp4")}
    decodes = {n: evidence.check(f"torchao-decode-{n}") for n in ("h100-fp8", "b200-fp8", "b200-nvfp4")}
    maxtext = {n: evidence.check(f"maxtext-step-{n}") for n in ("gb200-8b", "gb300-8b", "gb200-405b", "gb300-405b")}
    reached = [
        c.others["implied"] / c.others["share"] for c in evidence.checks("narrow") if c.measurement.kind == "step"
    ]
    found = {
        "share": whole(linear_share("Llama-3-8B", 8192)),
        "ceiling": times(checks["h100-tensorwise"].predicted, 2),
        "ours_tensorwise": times(took["bf16"] / took["fp8-tensorwise"], 2),
        "ours_rowwise": times(took["bf16"] / took["fp8-rowwise"], 2),
        "prompt_ceiling": times(prompts["b200-nvfp4"].predicted, 2),
        "decode_ceiling": times(decodes["h100-fp8"].predicted, 2),
        "decode_ceiling_four": times(decodes["b200-nvfp4"].predicted, 2),
        "decode_share": whole(decodes["h100-fp8"].others["share"]),
        "four_fifths_two": times(float(inference.hybrid_gain(1.0, 1 / 2, 0.2))),
        "four_fifths_four": times(float(inference.hybrid_gain(1.0, 1 / 4, 0.2))),
        "least_reached": whole(min(reached)),
        "most_reached": whole(max(reached)),
    }
    for n, c in checks.items():
        found[f"step_{n.replace('-', '_')}"] = times(c.measured, 2)
    found["step_h100_tensorwise_implied"] = whole(checks["h100-tensorwise"].others["implied"])
    found["prompt_b200_nvfp4"] = times(prompts["b200-nvfp4"].measured, 2)
    for n, c in prompts.items():
        found[f"prompt_{n.replace('-', '_')}_implied"] = whole(c.others["implied"])
    for n, c in decodes.items():
        found[f"decode_{n.replace('-', '_')}"] = times(c.measured, 2)
    for n in ("gb200-8b", "gb300-8b"):
        found[f"mlp_{n.replace('-', '_')}"] = times(maxtext[n].measured, 2)
    for n, c in maxtext.items():
        found[f"mlp_{n.replace('-', '_')}_implied"] = whole(c.others["implied"])
    return found


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 26."""
    e4m3, e5m2, e2m1 = GRIDS["e4m3"], GRIDS["e5m2"], GRIDS["e2m1"]
    spacing = {
        s: float(memory.grid_spacing(math.floor(math.log2(s)), e4m3.mantissa_bits, e4m3.least_exponent))
        for s in (1.5, 300)
    }
    h100, b200 = _even("H100", "mxfp8", 1), _even("B200", "mxfp8", 1)
    b200_four, h100_training = _even("B200", "nvfp4", 1), _even("H100", "fp8-tensorwise", 2)
    products = {
        (f, n): evidence.check(f"torchao-product-{f}-{n}")
        for f in ("mxfp8", "nvfp4")
        for n in (1024, 2048, 4096, 16384)
    }
    small, large = evidence.check("torchao-linear-1024-2048-1024"), evidence.check("torchao-linear-4096-8192-16384")
    return {
        "grid": {
            "e4m3_largest": f"{e4m3.largest:g}",
            "e5m2_largest": f"{e5m2.largest:,.0f}",
            "e4m3_octaves": f"{e4m3.octaves:.0f}",
            "e5m2_octaves": f"{e5m2.octaves:.0f}",
            "e2m1_octaves": times(e2m1.octaves),
            "e2m1_largest": f"{e2m1.largest:g}",
            "low_spacing": f"{spacing[1.5]:g}",
            "high_spacing": f"{spacing[300]:g}",
            "e2m1_values": ", ".join(f"{v:g}" for v in e2m1.values),
            "e2m1_gap": whole((6 - 4) / 2 / 5),
        },
        "noise": {
            "e4m3": times(decibels(float(memory.float_snr(3)))),
            "e2m1": times(decibels(float(memory.float_snr(1)))),
            "bit": times(decibels(4.0)),
            "e4m3_tensor": _db("e4m3", 2**22),
            "e4m3_block": _db("e4m3", 128),
            "mxfp8": _db("e4m3", 32, "floor"),
            "mxfp8_ceil": _db("e4m3", 32, "ceil"),
            "e2m1_tensor": _db("e2m1", 2**22),
            "e2m1_exact": _db("e2m1", 16),
            "e2m1_exact_32": _db("e2m1", 32),
            "mxfp4": _db("e2m1", 32, "floor"),
            "nvfp4": _db("e2m1", 16, "e4m3"),
            "int4": _db("int4", 16),
            "nvfp4_amplitude": whole(math.sqrt(1 / block_snr("e2m1", 16, "e4m3"))),
            "e4m3_amplitude": share(math.sqrt(1 / block_snr("e4m3", 128))),
            "e4m3_thousand": _outlier("e4m3", 1000),
            "int8_five": _outlier("int8", 5),
            "int8_hundred": _outlier("int8", 100),
            "e4m3_hundred": _outlier("e4m3", 100),
        },
        "cast": {
            "tensorwise": f"{cast_bytes('fp8-tensorwise', 2):.0f}",
            "mxfp8": f"{cast_bytes('mxfp8', 1):.2f}",
            "nvfp4": f"{cast_bytes('nvfp4', 1):.2f}",
            "nvfp4_static": f"{cast_bytes('nvfp4', 1, calibrated=True):.2f}",
            "b200_static": f"{_even('B200', 'nvfp4', 1, calibrated=True):,.0f}",
            "h100": f"{h100:,.0f}",
            "b200": f"{b200:,.0f}",
            "b200_four": f"{b200_four:,.0f}",
            "h100_training": f"{h100_training:,.0f}",
            "example": times(float(training.narrow_gain(2.0, 8192, b200)), 2),
            "example_four": times(float(training.narrow_gain(4.0, 8192, b200_four)), 2),
            "share": whole(evidence.check("torchao-moe-cast-share").measured),
            "share_ours": whole(evidence.check("torchao-moe-cast-share").predicted),
            "tensorwise_more": f"{cast_bytes('fp8-tensorwise', 2) - cast_bytes('mxfp8', 2):.1f}",
            "mxfp8_numbers": f"{evidence.measurements('narrow')['torchao-cast-mxfp8'].inputs['numbers'] / 1e6:.0f} million",
            "nvfp4_numbers": f"{evidence.measurements('narrow')['torchao-cast-nvfp4'].inputs['numbers'] / 1e6:.0f} million",
            "mxfp8_bytes": units.format(evidence.check("torchao-cast-mxfp8").predicted, "byte", 4),
            "nvfp4_bytes": units.format(evidence.check("torchao-cast-nvfp4").predicted, "byte", 4),
        },
        "products": {
            "mxfp8_most": share(max(c.error for (f, _), c in products.items() if f == "mxfp8")),
            "nvfp4_large": times(products["nvfp4", 16384].measured, 2),
            "nvfp4_large_ours": times(products["nvfp4", 16384].predicted, 2),
            "nvfp4_small": times(products["nvfp4", 2048].measured, 2),
            "nvfp4_small_ours": times(products["nvfp4", 2048].predicted, 2),
            "small": times(small.measured, 2),
            "small_ours": times(small.predicted, 2),
            "large": times(large.measured, 2),
            "large_ours": times(large.predicted, 2),
        },
        "bytes": _bytes(),
        "cache": _cache(),
        "steps": _steps(),
        "quality": {
            **{f"docs_{k}": times(v, 2) for k, v in DOCS.items()},
            **{f"pull_{k}": times(v, 2) for k, v in PULL.items() if k != "nvfp4"},
            "docs_worse_mxfp8": share(DOCS["mxfp8"] / DOCS["bf16"] - 1),
            "pull_worse_mxfp8": share(PULL["mxfp8"] / PULL["bf16"] - 1),
            "docs_worse_nvfp4": whole(DOCS["nvfp4"] / DOCS["bf16"] - 1),
            "pull_worse_nvfp4": whole(PULL["nvfp4"] / PULL["bf16"] - 1),
            "docs_worse_fp8": share(DOCS["fp8"] / DOCS["bf16"] - 1),
        },
        "serve": _serve(),
    }
