"""Chapter 15, hypotheses."""

from dataclasses import replace
from statistics import mean
from typing import Any

from mlsysim import catalog, evidence, serving_steps, units
from mlsysim.evidence.hypotheses import sweeps
from mlsysim.evidence.studies import experiments, ladder
from mlsysim.evidence.studies.ladder import LadderScore
from mlsysim.inference import deploy
from mlsysim.serving_steps import BASELINE, TIER_0, StepOptions

SYNC = "synchronous"


def share(value: float, digits: int = 0, signed: bool = False) -> str:
    return units.percent(value, digits, signed=signed)


def points(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f}".replace("-", "−")


def ms(value: float) -> str:
    return units.format(value, "s", 2)


def _alone(options: StepOptions) -> LadderScore:
    return ladder.score(options, experiments.synchronous())


def _h1() -> dict[str, str]:
    before, after = (_alone(r) for r in experiments.sides(evidence.hypothesis("H1")))
    by_pair = {pair: experiments.gains(before, after, pair) for pair in experiments.PAIRS}
    flat = experiments.gains(before, _alone(replace(BASELINE, bandwidth="flat")))
    return {
        "gain": points(by_pair["itl"]["all"]),
        "flat": points(flat["all"]),
        **{f"lead_{p}": points(g["decode-heavy"] - g["prefill-heavy"], 2) for p, g in by_pair.items()},
    }


def _h2() -> dict[str, str]:
    before, after = (_alone(r) for r in experiments.sides(evidence.hypothesis("H2")))
    splits = experiments.constant_splits(before)
    left = experiments.residuals()
    layers = {n: catalog.model(evidence.serving_run(n).model).n_layers for n in left}
    steps = [r * layers[n] for n, r in left.items()]
    itl = [(r.predicted["itl"], r.run.mean("itl")) for r in before.chosen(SYNC)]
    errors = [mean(abs(float(evidence.signed_error(p + c, m))) for p, m in itl) for c in experiments.CONSTANTS]
    per_layer = experiments.overhead_errors(per_layer=mean(left.values()))
    return {
        "passing": str(sum(errors[0] - e >= 0.03 for e in errors[1:])),
        "before": share(before.mape("itl", SYNC)),
        "after": share(after.mape("itl", SYNC)),
        "ttft_before": share(before.mape("ttft", SYNC)),
        "ttft_after": share(after.mape("ttft", SYNC)),
        "chosen": ms(splits[0].constant),
        "least": points(min(s.held_out_gain for s in splits), 0),
        "most": points(max(s.held_out_gain for s in splits), 0),
        "step_low": f"{min(steps) * 1e3:.1f}",
        "step_high": ms(max(steps)),
        "layer_low": f"{min(left.values()) * 1e6:.0f}",
        "layer_high": f"{max(left.values()) * 1e6:.0f} µs",
        "mean": f"{mean(left.values()) * 1e6:.0f} µs",
        "per_layer": share(mean(map(abs, per_layer.values())), 1),
        "one": f"{left['llama-2-7b-tp1-chat'] * 1e6:.0f} µs",
        "two": f"{left['llama-2-7b-tp2-chat'] * 1e6:.0f} µs",
    }


def _first() -> dict[str, str]:
    run = evidence.serving_run("llama-2-7b-train-0")
    first, *others = run.values("ttft")
    (found,) = ladder.score(TIER_0, [run]).runs
    return {
        "prefill": ms(run.requests[0].prefill_s or 0.0),
        "ttft": ms(first),
        "shift": ms(serving_steps.outlier_shift(first, mean(others), len(others) + 1)),
        "mean": ms(run.mean("ttft")),
        "median": ms(run.median("ttft") or 0.0),
        "error_mean": share(found.error("ttft"), 0, True),
        "error_median": share(
            float(evidence.signed_error(found.predicted_median["ttft"], run.median("ttft"))), 1, True
        ),
    }


def _forms(low: LadderScore, top: LadderScore) -> dict[str, dict[str, str]]:
    granularity = {
        b: sweeps.granularity_curve(deploy("CodeLlama-34B", "H100", precision="bf16"), b) for b in (256, 512)
    }
    wide = granularity[512]
    seven = deploy("Llama-2-7B", "H100", precision="bf16")
    mixing = sweeps.mixing_curve(seven)
    half = len(mixing.x) // 2
    blend = ladder.score(replace(TIER_0, mixing="blend"))
    rows = experiments.by_load(blend, top)
    known = [r for r in rows if r[0].requests]
    times = {n: sweeps.lookup_times(seven, n) for n in ("nearest", "bilinear", "rates")}
    jumps = {n: sum(len(sweeps.jumps_over(a, t)) for a, t in found.items()) for n, found in times.items()}
    changes = {n: sum(sweeps.changes_over(t) for t in found.values()) for n, found in times.items()}
    batch = times["nearest"]["batch"]
    under = replace(TIER_0, mixing="blend", lookup="nearest", overhead="step")  # where the ladder climbs this rung
    climb = [ladder.score(replace(under, mixing=m)).mape("e2e", "loaded") for m in ("blend", "additive")]
    wide_error = next(r for r in rows if r[0].name == "codellama-34b-tp2-codegen")
    return {
        "h4": {
            "gap": share(max(wide.gaps)),
            "at": f"{wide.x[wide.gaps.index(max(wide.gaps))]:,.0f}",
            "gap_256": share(max(granularity[256].gaps)),
        },
        "h5": {
            "climb": points(climb[1] - climb[0]),
            "off": points(blend.mape("e2e", "loaded") - top.mape("e2e", "loaded")),
            "sum": ms(mixing.treatment[half]),
            "blend": ms(mixing.baseline[half]),
            "gap": share(mixing.gaps[half]),
            "gain": points(mean(abs(b) - abs(a) for _, _, b, a in rows)),
            "known_before": share(mean(abs(b) for _, _, b, _ in known), 1),
            "known_after": share(mean(abs(a) for _, _, _, a in known), 1),
            "known_gain": points(mean(abs(b) - abs(a) for _, _, b, a in known)),
            "codegen_before": share(wide_error[2], 0, True),
            "codegen_after": share(wide_error[3], 0, True),
        },
        "h6": {
            "changes": f"{changes['nearest']}",
            "changes_after": f"{changes['bilinear']}",
            "changes_rates": f"{changes['rates']}",
            "naive": share(evidence.skill(changes["bilinear"], changes["nearest"])),
            "jumps": f"{jumps['nearest']}",
            "jumps_after": f"{jumps['bilinear']}",
            "drop": share(float(serving_steps.jump(batch[22], batch[23], 23, 24))),
        },
    }


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 15."""
    low, top = ladder.score(BASELINE), ladder.score(TIER_0)
    runs = evidence.serving_runs()
    prefix = next(r for r in top.runs if r.run.name == "codellama-34b-prefix-0")
    clocks = [b - a for a, b in zip(prefix.run.values("ttft", "server"), prefix.run.values("ttft"), strict=True)]
    exact = 8192 * 8193 / 2
    return {
        "runs": f"{len(runs)}",
        "requests": f"{sum(len(r.requests) for r in runs.values())}",
        "prefix_itl": ms(prefix.run.mean("itl")),
        "prefix_per_token": ms(prefix.run.mean("e2e_per_token")),
        "clock": ms(mean(clocks)),
        "causal": share(8192**2 / 1.8 / exact - 1),
        "first": _first(),
        "h1": _h1(),
        "h2": _h2(),
        **_forms(low, top),
        "low": {m: share(low.mape(m)) for m in ("e2e", "itl", "ttft")}
        | {"ttft_sync": share(low.mape("ttft", SYNC), 1)},
        "top": {m: share(top.mape(m), 1) for m in ("e2e", "itl", "ttft")}
        | {
            "server": share(top.mape("ttft", clock="server")),
            "client": share(top.mape("ttft", clock="client")),
            "sync": share(top.mape("e2e", SYNC), 1),
            "ttft_sync": share(top.mape("ttft", SYNC), 1),
            "loaded": share(top.mape("e2e", "loaded"), 1),
        },
    }
