"""Chapter 23, limits."""

from typing import Any

from chapter_numbers import share as _share
from mlsysim import hlo, units
from mlsysim.evidence.studies.brackets import ACCEL_SIM, brackets
from mlsysim.evidence.studies.case_studies import figure
from mlsysim.hlo import chakra, losses
from mlsysim.hlo.chakra import steps
from mlsysim.hlo.profiler.profiled import profiled

_DEVICE = "A100-SXM4-40GB"
_MICRO = 1e-6


def _ms(value: float, digits: int = 1) -> str:
    return f"{value * 1e3:.{digits}f} ms"


def _rounding(name: str) -> dict[str, Any]:
    program = hlo.sample(name)
    near = chakra.trace(program, _DEVICE, rounding="nearest").to_dict()
    carried = chakra.trace(program, _DEVICE).to_dict()
    n, exact = carried["compute_nodes"], carried["compute_s"]
    times = [x.seconds for x in chakra.trace(program, _DEVICE).ranks[0].nodes if x.type == "COMP_NODE"]
    lost = near["compute_us"] * _MICRO - exact
    return {
        "regions": str(n),
        "exact": units.format(exact, "s", 3),
        "lost": f"{abs(lost) / _MICRO:.1f} µs",
        "lost_share": _share(abs(lost) / exact),
        "typical": f"{losses.rounding_spread(n, _MICRO) / _MICRO:.1f} µs",
        "short": str(sum(s < _MICRO / 2 for s in times)),
    }


def _sizes() -> dict[str, Any]:
    """Time of the collectives of a step by what goes in, as it should be, and by what comes out."""
    found = hlo.estimate(hlo.sample("llama100m_train_fsdp4.sm"), _DEVICE)
    right = wrong = 0.0
    totals: dict[str, list[float]] = {}
    for m in found.collectives:
        share = {"all_gather": m.ranks, "reduce_scatter": 1 / m.ranks}.get(m.op, 1.0)
        assert m.output_bytes == m.bytes * share
        right += m.time_s * m.count
        wrong += m.time_s * m.count * losses.wrong_size_factor(0, m.time_s, share)
        row = totals.setdefault(m.op, [0.0, 0.0])
        row[0] += m.bytes * m.count
        row[1] += m.output_bytes * m.count
    return {
        "right": _ms(right, 2),
        "wrong": _ms(wrong, 2),
        "factor": f"{wrong / right:.1f}",
    }


def _loop() -> dict[str, Any]:
    found = hlo.estimate(hlo.sample("llama100m_train_fsdp4.scan"), _DEVICE)
    loops = [r for r in found.parts if r.kind == "loop"]
    outside = steps.count([r for r in found.parts if r.kind != "loop"])
    body = sum(steps.count(r.body) for r in loops)
    return {
        "regions": str(outside + body),
        "nodes": f"{losses.unrolled_nodes(outside, loops[0].count, body):.0f}",
    }


def _overlap() -> dict[str, Any]:
    """The same program with and without overlap."""
    program = hlo.sample("llama2_7b_train_dp16.sm")
    linear, free = (hlo.estimate(program, _DEVICE, split) for split in ("linear", "dependency"))
    return {"linear": units.format(linear.total_s, "s", 3), "free": units.format(free.total_s, "s", 3)}


def _cost() -> dict[str, Any]:
    kernels, done, median = (ACCEL_SIM[k].value for k in ("kernels", "simulated", "median"))
    least = losses.campaign_least(done, median)
    roofline = figure("claim-roofline-time").value
    return {
        "kernels": f"{kernels:.0f}",
        "edited": f"{ACCEL_SIM['edited'].value:.0f}",
        "simulated": f"{done:.0f}",
        "covered": _share(done / kernels, 0),
        "median": f"{median / 3600:g} h",
        "least": f"{least / 3600:.0f} h",
        "as_mean": f"{done * median / 3600:.0f} h",
        "roofline": units.format(roofline, "s"),
        "times": f"{round(least / roofline, -2):,.0f}",
    }


def _brackets() -> dict[str, Any]:
    fused, raw = brackets(), brackets("off")
    undecided = next(b for b in fused if b.verdict == "undecided")
    middle = [(b.low + b.high) / 2 / b.measured.value - 1 for b in fused]
    ratio = [b.high / b.low for b in fused]
    return {
        "steps": str(len(fused)),
        "inside": str(sum(b.verdict == "inside" for b in fused)),
        "raw_outside": str(sum(b.verdict == "outside" for b in raw)),
        "raw_low": f"{min(r.low / b.measured.value for r, b in zip(raw, fused, strict=True)):.1f}",
        "raw_high": f"{max(r.low / b.measured.value for r, b in zip(raw, fused, strict=True)):.1f}",
        "low": f"{min(b.position for b in fused):.2f}",
        "high": f"{max(b.position for b in fused):.2f}",
        "undecided_low": _ms(undecided.ends[0], 0),
        "undecided_high": _ms(undecided.ends[1], 0),
        "undecided_profile": _ms(undecided.high),
        "middle_low": units.percent(min(middle), 0),
        "middle_high": units.percent(max(middle), 0),
        "narrow": f"{min(ratio):.1f}",
        "wide": f"{max(ratio):.1f}",
        "tool_raw": _ms(figure("tool-roofline-raw").value, 0),
        "tool_fused": _ms(figure("tool-roofline-compute").value, 0),
        "first": _ms(fused[0].measured.value, 0),
    }


def _cut() -> dict[str, Any]:
    """Regions run one after another on a CPU, and the whole program with its collectives left out."""
    found = profiled().program("mlp_train_dp8.spmd")
    return {
        "cuts": str(found.comm_regions),
        "roofline": units.format(found.roofline_s, "s", 3),
        "sum": units.format(found.seconds, "s", 3),
        "whole": units.format(found.whole.seconds, "s", 3),
        "low": units.format(found.whole.low, "s", 3),
        "high": units.format(found.whole.high, "s", 3),
    }


def _toy() -> dict[str, str]:
    """Small numbers that the reader can redo: a hundred regions, five regions of a drawing, a bracket."""
    five = [0.4e-6] * 4 + [1.4e-6]
    low, measured, high = 20e-3, 40e-3, 50e-3
    return {
        "typical": f"{losses.rounding_spread(100, 1):.1f} µs",
        "bound": f"{losses.rounding_bound(100, 1):.0f} µs",
        "exact": f"{sum(five) / _MICRO:.0f} µs",
        "nearest": f"{sum(steps.whole_micros(five, 'nearest'))} µs",
        "low": _ms(low, 0),
        "measured": _ms(measured, 0),
        "high": _ms(high, 0),
        "place": f"{losses.bracket_position(measured, low, high):.2f}",
    }


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 23."""
    return {
        "small": _rounding("tf1l_train_fsdp8.gpuopt_a100_sxm_40"),
        "large": {k: v for k, v in _rounding("llama200m_train_fsdp4.sm").items() if k in ("lost", "typical")},
        "sizes": _sizes(),
        "loop": _loop(),
        "overlap": _overlap(),
        "cost": _cost(),
        "bracket": _brackets(),
        "cut": _cut(),
        "toy": _toy(),
    }
