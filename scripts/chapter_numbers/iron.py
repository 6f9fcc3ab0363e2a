"""Chapter 1, the iron law."""

from typing import Any

from mlsysim import catalog, evidence, inference, kernel_times, kernels, roofline, units
from mlsysim.catalog import Device
from mlsysim.efficiencies import kernel_shares, lineage
from mlsysim.evidence import scoring
from mlsysim.evidence.predictors import attention, gemm, shipped_constants, silicon
from mlsysim.evidence.predictors.base import Row
from mlsysim.evidence.rows import cases
from mlsysim.evidence.scoring.tried import read_log
from mlsysim.evidence.studies import shipped
from mlsysim.serving_steps.rates import shipped_rates

LATENT = {
    "device": "H800-SXM",
    "phase": "decode",
    "kind": "mla_absorbed",
    "batch": 1.0,
    "q_heads": 128.0,
    "kv_lora_rank": 512.0,
    "rope_dim": 64.0,
    "q_len": 1.0,
    "kv_len": 4096.0,
    "precision": "bf16",
}


def _cut() -> dict[str, str]:
    """Shares of the bandwidth: of an H100 or H800, by the rule for an H20, and of an H20's own tables."""
    whole, part, rates = catalog.device("H100-SXM5-80GB"), catalog.device("H20"), shipped_rates()
    ratio = (part.memory_bandwidth / part.multiprocessors) / (whole.memory_bandwidth / whole.multiprocessors)
    if not 1.9 < ratio < 2.1:
        raise ValueError("chapter 1 says that a multiprocessor of an H20 has twice the bandwidth; it no longer has")
    result = {}
    for name, kind, source in (
        ("attention", "decode_attention", whole.name),
        ("products", "products_8bit", "H800-SXM"),
    ):
        share = rates[source][kind].memory
        result[f"{name}_whole"] = f"{share:.2f}"
        result[f"{name}_rule"] = f"{kernels.share_of_cut(share, ratio):.2f}"
        result[f"{name}_table"] = f"{rates['H20'][kind].memory:.2f}"
    return result


def _rows() -> dict[str, str]:
    """Decoding on an H20, where the arithmetic of whole tiles counts; nothing in it is fitted to the two measured calls."""
    share, allowed = attention.older_kernels()
    part = evidence.measurement("flashattention2-h20-forward")
    result = {
        "tile": str(kernel_times.ROW_TILE),
        "whole": units.percent(share, signed=False),
        "part": units.percent(part.value / catalog.device(part.device).peak_flops[part.precision], signed=False),
        "ceiling": f"{allowed:.2f}",
        "cut": f"{silicon.rate_ratio(Row({'device': part.device}), 'peak_flops.bf16'):.2f}",
    }
    h20, h100 = catalog.device("H20"), catalog.device("H100-SXM5-80GB")
    for name, device in (("part", h20), ("whole", h100)):
        result[f"memory_{name}"] = units.format(device.memory_bandwidth, "byte/s")
        result[f"units_{name}"] = str(device.multiprocessors)
    for name, cache in (("wide", "bf16"), ("narrow", "fp8")):
        measured = evidence.measurement(f"infersim-h20-decode-{cache}")
        call, _ = attention.predicted_call(dict(measured.inputs) | {"device": measured.device}, {})
        if name == "wide":
            result |= {
                "memory": units.format(call.memory_time, "s", digits=3),
                "compute": units.format(call.compute_time, "s", digits=2),
            }
        result |= {name: units.format(call.time, "s", digits=3)}
        result |= {f"{name}_measured": units.format(measured.value, "s", digits=3)}
    return result


def _parts() -> dict[str, str]:
    """A product of few tiles with a long shared dimension: as measured, by the law, and by the law if nothing were cut."""
    measured = evidence.measurement("infersim-h800-product-parts")
    row = dict(measured.inputs) | {"device": measured.device, "precision": measured.precision, "out_precision": "bf16"}
    call, _ = gemm.predicted_call(row, shipped_constants("gemm"))
    tiles = -(-row["m"] // kernel_times.TILE) * (-(-row["n"] // kernel_times.TILE))
    idle = tiles / silicon.multiprocessors(Row({"device": measured.device}))
    whole = kernels.rounded_roof(call.compute_time * call.busy / idle, call.memory_time, call.chain_time)
    return {
        "tiles": f"{tiles:.0f}",
        "parts": f"{call.busy / idle:.0f}",
        "whole": units.format(whole + call.startup_time, "s", digits=2),
        "cut": units.format(call.time, "s", digits=2),
        "measured": units.format(measured.value, "s", digits=2),
    }


def _softmax() -> dict[str, str]:
    """Shares of the peak with exponentials, and errors on a B200 with heads of 64, with and without them."""
    share = shipped_constants("attention")["any"]["compute_efficiency"]
    found = {"units": "16", "flops": "8,192", "share": f"{share:.2f}"}
    wide, narrow, eight = ("128", 512), ("64", 256), ("8", 256)
    said = {"H100": (wide, narrow), "B200-SXM-180GB": (wide, narrow, eight), "GB300": (eight,)}
    for name, pairs in said.items():
        clock = kernel_shares(lineage(name)).values["exponential"]
        for word, pair in pairs:
            found[f"{name.split('-')[0].lower()}_{word}"] = f"{kernels.softmax_share(share, pair, clock):.2f}"
    calls = cases("attention", source="FA4_B200").cases
    for word, hidden in (("with", {}), ("without", {"exponential_flops": 0.0})):
        errors = []
        for case in calls:
            work = attention._work(Row(case.inputs))
            share = work.share(attention.published())
            time = kernel_times.attention_time(**{**work.given, **hidden}, compute_efficiency=share).time
            errors.append(abs(time / case.measured - 1))
        found[word] = units.percent(sum(errors) / len(errors), signed=False)
    found["calls"] = str(len(calls))
    return found


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 1."""
    h100, h200, a100 = (catalog.device(name) for name in ("H100", "H200-SXM-141GB", "A100-SXM4-80GB"))
    row = evidence.check("vidur-h100-mlp-up-256")
    decode = evidence.check("gpt-fast-llama2-7b-bf16")
    int8 = evidence.check("gpt-fast-llama2-7b-int8")
    claim = evidence.measurement("harvard-70b-itl")
    floors = {b: roofline.memory_time(claim.inputs["parameters"] * b / 8, h100.memory_bandwidth) for b in (16, 8, 4)}
    launch = [evidence.measurement(f"pegainfer-launch-{end}").value for end in ("low", "high")]
    swept = [
        evidence.check(m, evidence.gemm_efficiency(short), evidence.stream_efficiency(short, "dot"))
        for short in ("h100", "a100")
        for m in evidence.measurements().values()
        if m.name.startswith(f"vidur-{short}-")
    ]
    worst = max(swept, key=lambda c: abs(c.error))

    def corner(device: Device, gemm: float = 1.0, memory: float = 1.0) -> float:
        """Tokens at which the 8192 x 57344 product reaches the ridge: solve I(m) = I*."""
        n, k = 57344, 8192
        ridge = roofline.ridge_point(gemm * device.peak_flops["fp16"], memory * device.memory_bandwidth)
        return float(ridge * n * k / (n * k - ridge * (n + k)))

    def mean_error(short: str, borrowed: bool) -> str:
        factors = (
            (evidence.gemm_efficiency(short), evidence.stream_efficiency(short, "dot")) if borrowed else (1.0, 1.0)
        )
        errors = [
            abs(evidence.check(m, *factors).error)
            for m in evidence.measurements().values()
            if m.group == "vidur" and m.name.startswith(f"vidur-{short}-")
        ]
        return units.percent(sum(errors) / len(errors), signed=False)

    def of_vidur(mode: str) -> scoring.GroupScore:
        return scoring.score(shipped.gemm_cases(), mode, leave_one_group_out=True).summary.groups["vidur"]

    plain, refitted = of_vidur("datasheet"), of_vidur("calibrated")
    products, calls = read_log("gemm"), read_log("attention")
    kept_products, kept_calls = ([line for line in log if line.kept][-1] for log in (products, calls))
    latent, _ = attention.predicted_call(LATENT, shipped_constants("attention"))
    latent_work = float(inference.context_work(4096, 128 * (576 + 512), 4096))
    mi300x = catalog.device("MI300X")

    weights = 2 * 8192 * 57344
    read, one = (
        roofline.memory_time(weights, h100.memory_bandwidth),
        roofline.compute_time(weights, h100.peak_flops["bf16"]),
    )

    def in_short(value: float) -> str:
        return units.percent(value, signed=False)

    return {
        "toy": {
            "weights": units.format(weights, "byte", 2),
            "bandwidth": units.format(h100.memory_bandwidth, "byte/s", 3),
            "read": units.format(read, "s", 2),
            "one": units.format(one, "s", 2),
            "sixtyfour": units.format(64 * one, "s", 2),
            "idle": f"{round(read / one, -2):.0f}",
            "h200_ridge": f"{roofline.ridge_point(h200.peak_flops['bf16'], h200.memory_bandwidth):.0f}",
        },
        "constants": {
            "plain": units.percent(plain.mape, signed=False),
            "plain_bias": units.percent(plain.bias or 0.0),
            "refit": units.percent(refitted.mape, signed=False),
        },
        "small": {
            "units": str(mi300x.multiprocessors),
            "tiles": str(512 // kernel_times.TILE * 1280 // kernel_times.TILE),
            "narrow": str(kernel_times.NARROW_ROWS),
            "chain": units.format(kernel_times.CHAIN_BYTE_TIME, "s", digits=2),
            "gemm_left": in_short(kept_products.left_out_source),
            "gemm_in": in_short(kept_products.error),
            "gemm_before": in_short(products[0].left_out_source),
            "gemm_constants": str(kept_products.constants),
            "attention_left": in_short(kept_calls.left_out_source),
            "attention_before": in_short(calls[0].left_out_source),
            "attention_constants": str(kept_calls.constants),
            "start": units.format(latent.startup_time, "s", digits=2),
            "latent": units.format(latent.time, "s", digits=3),
            "latent_above": units.format(latent.time - latent.startup_time, "s", digits=2),
            "latent_compute": units.format(latent.compute_time, "s", digits=2),
            "latent_work": units.format(latent_work, "FLOP", 3),
            "latent_share": units.percent(
                latent_work / latent.compute_time / catalog.device(str(LATENT["device"])).peak_flops["bf16"],
                signed=False,
            ),
            "latent_read": units.format(latent.memory_time, "s", digits=2),
        },
        "cut": _cut(),
        "rows": _rows(),
        "parts": _parts(),
        "softmax": _softmax(),
        "floor": {
            "host": units.format(evidence.measurement("inferencesim-h100-decode-floor").value, "s", digits=2),
            "graph": units.format(evidence.measurement("cudnn-gb200-decode-2048").value, "s", digits=2),
        },
        "h100": {
            "peak_bf16": units.format(h100.peak_flops["bf16"], "FLOP/s", prefix="T"),
            "printed_bf16": h100.fields["peak_flops.bf16"].printed,
            "bandwidth": units.format(h100.memory_bandwidth, "byte/s"),
            "ridge_bf16": f"{roofline.ridge_point(h100.peak_flops['bf16'], h100.memory_bandwidth):.0f}",
            "ridge_fp8": f"{roofline.ridge_point(h100.peak_flops['fp8'], h100.memory_bandwidth):.0f}",
            "ridge_sparse": f"{roofline.ridge_point(2 * h100.peak_flops['bf16'], h100.memory_bandwidth):.0f}",
            "gemm": f"{evidence.gemm_efficiency('h100'):.2f}",
            "dot": f"{evidence.stream_efficiency('h100', 'dot'):.2f}",
            "corner_tokens": f"{corner(h100):.0f}",
            "error_bound": mean_error("h100", borrowed=False),
            "error_borrowed": mean_error("h100", borrowed=True),
        },
        "a100": {
            "gemm": f"{evidence.gemm_efficiency('a100'):.2f}",
            "gemm_small": f"{evidence.gemm_efficiency('a100', 1024):.2f}",
            "gemm_large": f"{evidence.gemm_efficiency('a100', 16384):.2f}",
            "dot": f"{evidence.stream_efficiency('a100', 'dot'):.2f}",
            "triad": f"{evidence.stream_efficiency('a100', 'triad'):.2f}",
            "corner_tokens": f"{corner(a100):.0f}",
            "corner_reached": f"{corner(a100, evidence.gemm_efficiency('a100'), evidence.stream_efficiency('a100', 'dot')):.0f}",
            "error_bound": mean_error("a100", borrowed=False),
            "error_borrowed": mean_error("a100", borrowed=True),
        },
        "gemm": {
            "work": units.format(row.prediction.flops, "FLOP"),
            "traffic": units.format(row.prediction.bytes, "byte"),
            "compute": units.format(row.prediction.compute_time, "s"),
            "memory": units.format(row.prediction.memory_time, "s"),
            "intensity": f"{row.prediction.intensity:.0f}",
            "measured": units.format(row.measured, "s"),
            "error": units.percent(row.error),
            "square_1024": f"{roofline.arithmetic_intensity(kernels.gemm_flops(1024, 1024, 1024), kernels.gemm_bytes(1024, 1024, 1024, 2)):.0f}",
        },
        "worst": {
            "error": units.percent(worst.error),
            "device": worst.prediction.device.name,
            "tokens": str(worst.measurement.inputs["m"]),
            "larger": units.format(worst.predicted, "s"),
            "sum": units.format(worst.prediction.compute_time + worst.prediction.memory_time, "s"),
            "measured": units.format(worst.measured, "s"),
        },
        "one": units.format(evidence.check("vidur-h100-mlp-up-1").measured, "s"),
        "sixtyfour": units.format(evidence.check("vidur-h100-mlp-up-64").measured, "s"),
        "fp32_fallback": f"{h100.peak_flops['bf16'] / h100.peak_flops['fp32']:.0f}",
        "gib": units.percent(units.GiB / units.GB - 1, 0, signed=False),
        "decode": {
            "weights": units.format(decode.prediction.bytes, "byte"),
            "bound": units.format(decode.predicted, "s"),
            "compute": units.format(decode.prediction.compute_time, "s"),
            "intensity": f"{decode.prediction.intensity:.0f}",
            "measured": units.format(decode.measured, "s"),
            "error": units.percent(decode.error),
            "share": f"{decode.prediction.bytes / decode.measured / a100.memory_bandwidth:.2f}",
            "int8_error": units.percent(int8.error),
            "above": units.format(decode.measured - decode.predicted, "s", 3),
            "int8_above": units.format(int8.measured - int8.predicted, "s", 3),
            "crossing": f"{decode.predicted / (10 * units.us):.0f}",
        },
        "claim": {
            "printed": claim.sourced.printed.removeprefix("~").removesuffix("/token"),
            **{f"floor_{b}": units.format(t, "s", digits=3) for b, t in floors.items()},
            "floor_16_by_8": units.format(floors[16] / 8, "s", digits=3),
            "ratio_16": f"{floors[16] / claim.value:.0f}",
            "ratio_4": f"{floors[4] / claim.value:.1f}",
        },
        "launch": {"low": f"{launch[0] / units.us:g}", "high": f"{launch[1] / units.us:g}"},
    }
