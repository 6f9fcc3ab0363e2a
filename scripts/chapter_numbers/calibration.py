"""Chapter 18, calibration."""

import statistics
from typing import Any

from chapter_numbers import share as _share
from mlsysim import evidence, serving_steps, units
from mlsysim.evidence import calibrating, serving_run
from mlsysim.evidence.measuring import tiny
from mlsysim.evidence.studies import tiers


def _mean(scores: tuple[tiers.TierScore, ...], tier: str) -> float:
    return sum(s.requests * float(getattr(s, tier)) for s in scores) / sum(s.requests for s in scores)


def _slower(requests: list[calibrating.Request], factor: float) -> list[calibrating.Request]:
    return [
        calibrating.Request(q.input_len, q.output_len, {m: factor * v for m, v in q.measured.items()}, q.predicted)
        for q in requests
    ]


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 18."""
    p = evidence.profile("epyc-zen4-vm-1-thread")
    blocks = {q.at["block_bytes"]: q.value.median for q in p.scattered}
    small, large = min(blocks), max(blocks)
    pairs = [(c.value.median, *tiny.predictions(p, c)) for c in p.checks]
    constants, table = ([abs(row[i] / row[0] - 1) for row in pairs] for i in (1, 2))
    mixes = [p.mixed_bandwidth(q.at["block_bytes"], q.at["scattered_share"]) / q.value.median - 1 for q in p.mixed]
    eight = next(q for q in p.products if q.at["m"] == 8)
    roof = 2 * 8 * p.rates.products_16bit.memory * p.memory_bandwidth / p.element_bytes

    runs = tiers.points_of("Llama-2-7B")
    requests = [q for run in runs for q in tiers.replayed(run.name)]
    subject = serving_steps.Subject("Llama-2-7B", "H100-SXM5-80GB", 1, "vllm", "0.11.0")
    fitted = calibrating.fit(requests, subject)
    e2e, ttft = fitted.metrics["e2e_s"], fitted.metrics["ttft_s"]
    itl = calibrating.fit_metric(
        tiers.per_token([q for r in runs for q in tiers.replayed(r.name)]), "itl_s", slopes=False
    )
    scores = {
        (metric, slopes, relative): tiers.leave_one_out("Llama-2-7B", metric, slopes, relative)
        for metric in ("ttft_s", "itl_s", "e2e_s")
        for slopes in (True, False)
        for relative in (True, False)
    }
    full = scores["e2e_s", True, True]
    other, other_ttft = (tiers.leave_one_out("CodeLlama-34B", m) for m in ("e2e_s", "ttft_s"))
    by_run = {s.run: s for s in other}
    first_by_run = {s.run: s for s in other_ttft}
    useless = calibrating.fit_metric(requests, "ttft_s", relative=False)
    code = [q for r in tiers.points_of("CodeLlama-34B") if "train" in r.name for q in tiers.replayed(r.name)]
    foreign = calibrating.verdict(fitted, code)
    slower = calibrating.verdict(fitted, _slower(requests, 1.4))
    warm = serving_run("llama-2-7b-train-0").requests
    mean_e2e = statistics.fmean(q.measured["e2e_s"] for q in requests)
    mean_ttft = statistics.fmean(q.measured["ttft_s"] for q in requests)
    longest = max(q.output_len for q in requests)
    return {
        "bench": {
            "cache": units.format(p.cache_bytes, "byte", 3),
            "small": units.format(small, "byte"),
            "small_rate": units.format(blocks[small], "byte/s", 3),
            "large_rate": units.format(blocks[large], "byte/s", 3),
            "large_share": _share(blocks[large] / p.gathered_in_order, 0),
            "copy": units.format(p.bandwidth["copy"].median, "byte/s", 3),
            "half": units.format(p.half_bytes, "byte", 3),
            "small_curve": f"{blocks[small] / p.scattered_bandwidth(small):.0f}",
            "mix_low": units.percent(min(mixes), 0),
            "mix_high": units.percent(max(mixes), 0),
            "eight": units.format(eight.value.median, "FLOP/s", 3),
            "eight_roof": _share(eight.value.median / roof, 0),
            "constants": _share(statistics.fmean(constants), 0),
            "constants_worst": _share(max(constants), 0),
            "table": _share(statistics.fmean(table)),
            "table_worst": _share(max(table), 0),
            "spread": _share(max(m.spread for m in p.bandwidth.values()), 0),
        },
        "fit": {
            "requests": str(len(requests)),
            "per_output": f"{e2e.per_output * 1e3:.2f} ms",
            "per_token": f"{itl.constant * 1e3:.2f} ms",
            "longest": f"{longest:g}",
            "at_longest": units.format(e2e.per_output * longest, "s", 2),
            "constant": f"{e2e.constant * 1e3:.0f} ms".replace("-", "−"),
            "tier0": _share(_mean(full, "tier0_error")),
            "tier1": _share(_mean(full, "tier1_error")),
            "worst": _share(max(s.tier1_error for s in full)),
            "constant_seconds": _share(_mean(scores["e2e_s", False, False], "tier1_error")),
            "constant_only": _share(_mean(scores["e2e_s", False, True], "tier1_error")),
            "itl_tier0": _share(_mean(scores["itl_s", False, True], "tier0_error")),
            "itl_constant": _share(_mean(scores["itl_s", False, True], "tier1_error")),
            "itl_full": _share(_mean(scores["itl_s", True, True], "tier1_error")),
            "ttft_tier0": _share(_mean(scores["ttft_s", True, True], "tier0_error")),
            "ttft_seconds": _share(_mean(scores["ttft_s", True, False], "tier1_error")),
            "ttft_relative": _share(_mean(scores["ttft_s", True, True], "tier1_error")),
            "spread": units.format(e2e.spread, "s", 2),
            "mean": units.format(mean_e2e, "s", 3),
            "need": f"{serving_steps.calibration_requests(e2e.spread, 0.01 * mean_e2e):.0f}",
            "ttft_spread": units.format(ttft.spread, "s", 2),
            "ttft_mean": units.format(mean_ttft, "s", 2),
            "ttft_need": f"{serving_steps.calibration_requests(ttft.spread, 0.01 * mean_ttft):,.0f}",
            "warm": units.format(warm[0].prefill_s, "s", 3),
            "warm_next": units.format(warm[1].prefill_s, "s", 2),
        },
        "guard": {
            "tier0": _share(useless.tier0_error),
            "validation": _share(useless.validation_error),
            "ratio": f"{useless.overfitting:.2f}",
            "foreign": _share(foreign.error),
            "slower": _share(slower.error),
            "slower_by": "1.4",
        },
        "other": {
            "requests": str(sum(s.requests for s in other)),
            "tier0": _share(_mean(other, "tier0_error")),
            "tier1": _share(_mean(other, "tier1_error")),
            "alone0": _share(by_run["codellama-34b-prefix-0"].tier0_error),
            "alone1": _share(by_run["codellama-34b-prefix-0"].tier1_error),
            "alone_first0": _share(first_by_run["codellama-34b-prefix-0"].tier0_error),
            "alone_first1": _share(first_by_run["codellama-34b-prefix-0"].tier1_error),
            "loaded0": _share(by_run["codellama-34b-prefix-2"].tier0_error),
            "loaded1": _share(by_run["codellama-34b-prefix-2"].tier1_error),
            "loaded_first": _share(first_by_run["codellama-34b-prefix-2"].tier0_error, 0),
        },
    }
