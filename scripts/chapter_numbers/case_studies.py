"""Numbers in prose of chapter 22, and both sides of the slips of the paper's table of systems."""

import itertools
from statistics import fmean
from typing import Any

from chapter_numbers import whole_share as _share
from mlsysim import catalog, hlo, memory, roofline, units
from mlsysim.evidence import metrics
from mlsysim.evidence.scoring import comparing
from mlsysim.evidence.studies import case_runs, case_studies
from mlsysim.evidence.studies.case_studies import figure
from mlsysim.hlo.estimators import array
from mlsysim.network.equations import hidden_share

_STEP = "llama3-500m"
_NAMES = list(case_runs.GENERATIONS)
_LAUNCH = 5e-6  # s, the launch that chapter 1 works with


def _error(value: float, digits: int = 0) -> str:
    return units.percent(value, digits)


def _ms(value: float, digits: int = 3) -> str:
    return units.format(value, "s", digits, prefix="m")


def _claim(name: str, digits: int = 0) -> str:
    return _share(figure(f"claim-{name}").value, digits)


def _raw() -> float:
    """The 100M step on four A100 with every operation a kernel of its own, in s."""
    device = case_runs.GENERATIONS["a100"]
    return hlo.estimate(
        case_runs.program("llama3-100m"), device, fusion="off", network=case_runs.all_to_all(device)
    ).total_s


def _bound() -> float:
    """What no fusion of the 100M step on A100 can beat, in s."""
    least = case_runs.generation("llama3-100m", "a100").bound_s
    assert least is not None  # the roofline priced it
    return least


def _steps() -> dict[str, Any]:
    runs = case_runs.comparisons()
    first = runs["a100-llama3-100m"]
    errors = [c.error for c in runs.values()]
    mean, best, worst = case_studies.mape(list(runs.values()))
    warm = [figure(f"a100-llama3-100m-run-{i}").value for i in range(1, 5)]
    kernels = case_runs.generation("llama3-100m", "a100").kernels
    launches = float(roofline.dispatch_time(kernels, _LAUNCH))
    above = [figure(f"{n.removesuffix('-bench')}-profiled").value / c.measured.value - 1 for n, c in runs.items()]
    return {
        "mape": _share(mean),
        "mape_low": _share(best),
        "mape_high": _share(worst),
        "mape_claim": _claim("llama3-mape"),
        "nearest": _error(max(errors)),
        "furthest": _error(min(errors)),
        "first": _ms(first.predicted),
        "first_missing": _ms(first.measured.value - first.predicted, 2),
        "first_error": _error(first.error),
        "printed_low": _ms(0.04 * (1 - comparing.rounding_share(0.04, 0.01)), 2),
        "printed_high": _ms(0.04 * (1 + comparing.rounding_share(0.04, 0.01)), 2),
        "rho_small": _share(comparing.rounding_share(0.04, 0.01), 1),
        "h100_low": _error(runs["h100-llama3-100m"].errors[0]),
        "h100_high": _error(runs["h100-llama3-100m"].errors[1]),
        "warm_low": _ms(min(warm)),
        "warm_high": _ms(max(warm)),
        "warm_error": _error(metrics.signed_error(first.predicted, fmean(warm))),
        "cold": _ms(figure("a100-llama3-100m-run-0").value),
        "kernels": str(kernels),
        "launches": _ms(launches, 2),
        "launches_share": _share(launches / (first.measured.value - first.predicted)),
        "profile_low": _share(min(above)),
        "profile_high": _share(max(above)),
        "tool": _ms(figure("tool-roofline-step").value),
        "tool_error": _error(metrics.signed_error(figure("tool-roofline-step").value, first.measured.value)),
        "tool_compute": _ms(figure("tool-roofline-compute").value),
        "bound": _ms(_bound()),
        "bound_share": _share(_bound() / first.predicted),
        "tool_raw": _ms(figure("tool-roofline-raw").value),
        "raw": _ms(_raw()),
        "launch": units.format(_LAUNCH, "s"),
        "raw_factor": f"{_raw() / first.measured.value:.1f}",
        "arithmetic": _share(
            case_studies.arithmetic_share(case_runs.generation("llama3-100m", "a100"), case_runs.GENERATIONS["a100"])
        ),
    }


def _speedups() -> dict[str, Any]:
    runs = case_runs.comparisons()
    sizes = ("100m", "200m", "500m")
    pairs = {z: (runs[f"a100-llama3-{z}"], runs[f"h100-llama3-{z}"]) for z in sizes}
    errors = {z: comparing.speedup_error(old.error, new.error) for z, (old, new) in pairs.items()}
    small, large = pairs["100m"], pairs["500m"]
    _, lowest, highest = case_studies.speedup_range(small[0].measured, small[1].measured)
    ranges = [
        case_studies.speedup_range(figure(f"a100-llama3-{s}"), figure(f"h100-llama3-{s}"))
        for s in (*sizes, "1b", "2b", "3b")
    ]
    middle, low, high = (fmean(r[i] for r in ranges) for i in range(3))
    ours = [
        fmean(
            comparing.speedup(
                case_runs.generation(f"llama3-{s}", a).total_s, case_runs.generation(f"llama3-{s}", b).total_s
            )
            for s in sizes
        )
        for a, b in itertools.pairwise(_NAMES)
    ]
    devices = [catalog.device(n) for n in case_runs.GENERATIONS.values()]
    return {
        "s100m": {"low": f"{lowest:.2f}", "high": f"{highest:.2f}"},
        "s500m": {
            "error": _error(errors["500m"]),
            "old_error": _error(large[0].error),
            "new_error": _error(large[1].error),
        },
        "mean_error": _share(fmean(abs(e) for e in errors.values())),
        "six": f"{middle:.2f}",
        "six_down": _error(metrics.signed_error(low, middle)),
        "six_up": _error(metrics.signed_error(high, middle)),
        "claim": _claim("speedup-a100-h100"),
        "claim_profiling": _claim("speedup-a100-h100-profiling"),
        "claim_200": _claim("speedup-h100-h200"),
        "claim_b200": _claim("speedup-h200-b200"),
        "claim_mean": _claim("speedup-mean", 1),
        "claim_profiling_mean": _claim("speedup-mean-profiling", 1),
        "ours_h100": f"{ours[0]:.2f}",
        "bandwidth_h100": f"{devices[1].memory_bandwidth / devices[0].memory_bandwidth:.2f}",
        "peak_h100": f"{devices[1].peak_flops['bf16'] / devices[0].peak_flops['bf16']:.2f}",
    }


def _peaks() -> dict[str, Any]:
    device = {g: case_runs.GENERATIONS[g] for g in _NAMES}
    dense = {g: case_runs.generation(_STEP, g).total_s for g in _NAMES}
    peak = {
        g: case_runs.run(_STEP, case_studies.with_peak(device[g], figure(f"table4-{g}-peak").value)).total_s
        for g in _NAMES
    }
    table = {g: case_runs.run(_STEP, case_studies.with_figures(device[g], f"table4-{g}")).total_s for g in _NAMES}
    shipped = case_runs.run(_STEP, case_studies.with_peak(device["b200"], figure("tool-b200-peak").value)).total_s
    share = case_studies.arithmetic_share(case_runs.generation(_STEP, "h100"), device["h100"])

    def ratio(times: dict[str, float], old: str, new: str) -> str:
        return f"{comparing.speedup(times[old], times[new]):.2f}"

    return {
        "share": _share(share),
        "floor": _share(comparing.wrong_peak_time(share, 2.0)),
        "dense_h100": ratio(dense, "a100", "h100"),
        "peak_h100": ratio(peak, "a100", "h100"),
        "table_h100": ratio(table, "a100", "h100"),
        "dense_b200": ratio(dense, "h200", "b200"),
        "shipped_b200": f"{comparing.speedup(dense['h200'], shipped):.2f}",
        "most": f"{comparing.speedup(1.0, comparing.wrong_peak_time(1.0, 2.0)):g}",
        "a100_change": _error(metrics.signed_error(table["a100"], dense["a100"])),
        "h100_change": _error(metrics.signed_error(peak["h100"], dense["h100"])),
        "looks": f"{comparing.speedup(dense['h100'], peak['h100']):.2f}",
        "h100": _ms(dense["h100"]),
        "h100_sparse": _ms(peak["h100"]),
        "a100": _ms(dense["a100"]),
        "a100_table": _ms(table["a100"]),
    }


def _scale() -> dict[str, Any]:
    few, many = (case_runs.scale_out(n) for n in (16, 128))
    heavy = {n: case_runs.scale_out(n, gradient_bytes=4) for n in (16, 128)}
    direct = case_runs.scale_out(128, algorithm="direct")
    plain, again = (
        memory.training_memory("Llama-2-7B", "GH200-96GB", seq=4096, micro_batch=2, dp=16, recompute=r)
        for r in ("none", "full")
    )

    def efficiency(a: float, b: float) -> str:
        return _share(comparing.relative_efficiency(32, 16, a, 128, 128, b))

    return {
        "compute_16": _ms(few.compute_s),
        "comm_16": _ms(few.comm_s),
        "exposed_128": _ms(many.exposed_comm_s),
        "hidden_128": _share(hidden_share(many.total_s, many.compute_s, many.comm_s)),
        "efficiency": efficiency(few.total_s, many.total_s),
        "efficiency_compute": efficiency(few.compute_s, many.compute_s),
        "efficiency_heavy": efficiency(heavy[16].total_s, heavy[128].total_s),
        "direct": units.format(direct.total_s, "s", 2),
        "gradients": units.format(sum(c.bytes * c.count for c in many.collectives), "byte", 3),
        "recipe_bytes": f"{plain.recipe.bytes_per_parameter:g}",
        "memory": units.format(plain.total, "byte", 3),
        "memory_full": units.format(again.total, "byte", 3),
        "usable": units.format(plain.capacity, "byte", 3),
        "claim_16": _claim("gh200-16-roofline"),
        "claim_128": _claim("gh200-128-roofline"),
        "claim_16_profiling": _claim("gh200-16-profiling"),
        "claim_128_profiling": _claim("gh200-128-profiling"),
    }


def _tpu() -> dict[str, Any]:
    core = array("tpu-v3-core")
    by_paper, by_clock = (case_runs.tpu_step(p).total_s for p in (figure("fig5-tpu-peak").value, core.peak))
    arrays = case_runs.tpu_step(core.peak, on_arrays=True).total_s
    roof = case_runs.tpu_step(core.peak)
    return {
        "peak": f"{core.peak / 1e12:.1f} TFLOP/s",
        "printed": f"{figure('fig5-tpu-peak').value / 1e12:.1f} TFLOP/s",
        "share": _share(case_studies.arithmetic_share(roof, case_studies.tpu_core(core.peak))),
        "change": _error(metrics.signed_error(by_paper, by_clock), 1),
        "arrays_longer": _share(metrics.signed_error(arrays, by_clock)),
        "claim_low": _claim("tpu-step-low"),
        "claim_high": _claim("tpu-step-high"),
        "cocossim_low": _claim("tpu-cocossim-low"),
        "cocossim_high": _claim("tpu-cocossim-high"),
        "onnxim": _claim("tpu-gemm-onnxim", 2),
        "cocossim": _claim("tpu-gemm-cocossim", 2),
        "onnxim_time": f"{figure('claim-tpu-onnxim-time').value / 3600:.1f} h",
        "models_apart": f"{figure('zigzag-tpu-like-512').value / (512**3 / 128**2):.0f}",
    }


def numbers() -> dict[str, Any]:
    """Everything that the text of chapter 22 and its errata print."""
    slowest = max(figure(f"ours-llama3-{s}-time").value for s in ("100m", "200m", "500m"))
    profiling = figure("a100-llama3-500m-profiling-time").value
    return {
        "latency": units.format(case_runs.LATENCY, "s"),
        "steps": _steps(),
        "speedup": _speedups(),
        "peak": _peaks(),
        "scale": _scale(),
        "tpu": _tpu(),
        "time": {
            "ours": units.format(slowest, "s", 2),
            "profiling": units.format(profiling, "s", 3),
            "claim": units.format(figure("claim-roofline-time").value, "s"),
        },
    }
