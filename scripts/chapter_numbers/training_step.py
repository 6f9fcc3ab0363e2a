"""Chapter 6, the training step."""

import random
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from statistics import NormalDist, mean
from typing import Any

from chapter_numbers import share as _share
from mlsysim import catalog, collectives, evidence, flops, memory, parallelism, training, units
from mlsysim.efficiencies import best_share, kernel_shares, lineage
from mlsysim.evidence import PublishedPlan, scoring
from mlsysim.evidence.predictors import shipped_constants
from mlsysim.evidence.scoring.scores import shipped_scores
from mlsysim.evidence.studies.shipped import training_cases
from mlsysim.parallelism import Plan
from mlsysim.training import Efficiencies, TrainingStep
from mlsysim.training.shares import ATTENTION_BACKWARD, OLDER_ATTENTION, STARTED

_FAR = 0.25  # error from which a source is named
COUNTED = replace(training.BOUND, name="counted", elementwise=34.0, dp_overlap=1.0)


def _step(row: PublishedPlan, efficiencies: Efficiencies) -> TrainingStep:
    cluster = catalog.cluster(row.node, row.plan.devices // row.node.devices)
    return training.training_step(
        row.shape,
        row.plan,
        cluster,
        global_batch=row.global_batch,
        seq=row.seq,
        precision=row.precision,
        efficiencies=efficiencies,
    )


def _predicted() -> Mapping[str, Mapping[str, scoring.ScoredRow]]:
    return {
        mode: {row.id: row for row in scoring.score(training_cases(), mode).rows}
        for mode in ("datasheet", "calibrated")
    }


def _error(row: scoring.ScoredRow) -> str:
    assert row.error is not None
    return units.percent(row.error)


def _gpt3(predicted: Mapping[str, Mapping[str, scoring.ScoredRow]]) -> dict[str, str]:
    row, paper = evidence.published_plan("gpt3-1024"), evidence.measurements("counts")["narayanan-gpt3-run"]
    n, d, gpus, rate = (paper.inputs[k] for k in ("parameters", "tokens", "devices", "rate"))
    peak = row.node.device.peak_flops[row.precision]

    def used(convention: str) -> float:
        work = flops.counted_flops(row.shape, row.seq, convention) * row.tokens
        return float(training.mfu(work, row.measured, row.plan.devices, peak))

    def days(per_parameter: float, achieved: float) -> float:
        return float(training.run_time(per_parameter * n * d, gpus, achieved) / units.day)

    def seconds(time: Any) -> str:
        return units.format(time, "s", 3)

    step = _step(row, COUNTED)
    exposed = next(term for term in step.explain().terms if term.name == "exposed DP")
    plain, fitted = predicted["datasheet"][row.name], predicted["calibrated"][row.name]
    return {
        "peak": units.format(peak, "FLOP/s", prefix="T"),
        "counted": units.format(step.time, "s"),
        "gradients_sent": seconds(exposed.arguments["communication"]),
        "gradients_hidden": seconds(exposed.arguments["behind"]),
        "traffic_share": _share(step.terms.elementwise / step.time),
        "mfu_6n": _share(used("6N")),
        "hfu": _share(used("megatron")),
        "days_45": f"{days(6, 0.45 * peak):.1f}",
        "days_8": f"{days(8, rate):.1f}",
        "paper_days": f"{paper.value / units.day:.0f}",
        "paper_share": _share(rate / peak, 0),
        "mfu_paper": _share(training.mfu(6 / 8 * rate, 1.0, 1, peak)),
        "rate": units.format(rate, "FLOP/s", prefix="T"),
        "short": _share(1 - days(6, rate) / days(8, rate), 0),
        "bound": seconds(_step(row, training.BOUND).time),
        "measured": seconds(row.measured),
        "datasheet": seconds(plain.predicted),
        "datasheet_error": _error(plain),
        "calibrated": seconds(fitted.predicted),
        "calibrated_error": _error(fitted),
    }


def _llama(predicted: Mapping[str, Mapping[str, scoring.ScoredRow]]) -> dict[str, str]:
    out = {}
    for length, name in (("8k", "llama3-405b-8k"), ("16k", "llama3-405b-16k"), ("128k", "llama3-405b-128k")):
        row, plain = evidence.published_plan(name), predicted["datasheet"][name]
        assert row.rate is not None
        assert plain.predicted is not None
        peak = row.node.device.peak_flops[row.precision]
        out[f"rate_{length}"] = f"{row.rate.value / units.TFLOP:.0f}"
        out[f"mfu_{length}"] = _share(training.mfu(row.counted_flops, row.measured, row.plan.devices, peak))
        out[f"ours_{length}"] = _share(training.mfu(row.counted_flops, plain.predicted, row.plan.devices, peak))
        out[f"error_{length}"] = _error(plain)
        step = _step(
            replace(row, plan=replace(row.plan, virtual_stages=4)),
            training.efficiencies_of(row.node.device, row.precision, efficiencies="datasheet"),
        )
        assert abs(step.time / plain.predicted - 1) < 1e-6, "the predictor assumes four chunks here"
        if length != "128k":
            out[f"bubble_{length}"] = _share(step.terms.bubble / step.time, 0)
    long = evidence.published_plan("llama3-405b-128k")
    out["dp_128k"] = f"{long.devices.value / parallelism.devices(long.plan.tp, long.plan.pp, long.plan.cp, 1):g}"
    token = flops.training_flops_per_token(long.shape, long.seq, causal=True, recompute="none")
    out["core_share"] = _share(1 - token.matmul / token.model_flops, 0)
    out["calibrated_128k"] = _error(predicted["calibrated"]["llama3-405b-128k"])
    return out


def _mtnlg(predicted: Mapping[str, Mapping[str, scoring.ScoredRow]]) -> dict[str, str]:
    bench = evidence.published_plan("megatron-530b")
    assert bench.rate is not None
    rows = {n: evidence.published_plan(f"mtnlg-{n}") for n in (280, 350, 420)}
    slow = rows[280]
    hardware = flops.megatron_flops(slow.global_batch, slow.seq, slow.layers, slow.shape.hidden, slow.shape.vocab)
    return {
        **{f"t{n}": f"{row.measured:.1f}" for n, row in rows.items()},
        **{f"e{n}": _error(predicted["calibrated"][f"mtnlg-{n}"]) for n in rows},
        "rate": units.format(hardware / slow.measured / slow.plan.devices, "FLOP/s", 3),
        "rate_benchmark": units.format(bench.rate.value, "FLOP/s", prefix="T"),
        "benchmark_error": _error(predicted["calibrated"]["megatron-530b"]),
    }


def _recipes() -> dict[str, str]:
    return {name: f"{memory.SCALINGS[f'fp8-{name}'].cast_bytes:.3g}" for name in ("delayed", "tensorwise", "blockwise")}


def _plan() -> dict[str, str]:
    """DeepSeek-V3's plan in the words of its report, and its place among all plans with the same words."""
    from mlsysim import explore

    published = Plan(
        pp=16,
        dp=128,
        ep=64,
        schedule="dualpipe",
        recompute="selective",
        recompute_modules=("layernorm", "mla_up_proj", "moe_act"),
        node_limit=4,
        dispatch="fp8",
        optimizer="adamw-bf16",
    )
    job: dict[str, Any] = {"global_batch": 15_360, "seq": 4096, "precision": "fp8-blockwise"}
    cluster = catalog.cluster("H800-node", 256)
    step = training.training_step("DeepSeek-V3", published, cluster, **job)
    alone = training.training_step("DeepSeek-V3", replace(published, mtp=False), cluster, **job)
    muon = training.training_step("DeepSeek-V3", replace(published, optimizer="muon"), cluster, **job)
    hours = float(step.devices * step.time / units.hour / step.tokens * 1e12)
    printed = 180e3  # deepseek2024v3report, sec. 1
    search = explore.plan("DeepSeek-V3", cluster, schedule=("1f1b", "zb-h1", "zb-v", "dualpipe"), base=published, **job)
    (rank, behind), best = search.rank(published), search.best().row(0)
    simple = search.simplest()
    if not step.fits or best["schedule"] != "dualpipe" or (best["tp"], best["pp"], best["ep"]) != (2, 4, 256):
        raise ValueError(
            "chapter 6 says that the published plan fits, and why the search's best differs; it no longer does so"
        )
    return {
        "memory": units.format(step.memory.total, "byte", 3),
        "capacity": units.format(step.memory.capacity, "byte", 3),
        "hours": f"{hours / 1e3:.0f}",
        "hours_without": f"{float(hours * alone.time / step.time) / 1e3:.0f}",
        "printed": f"{printed / 1e3:.0f}",
        "error": units.percent(hours / printed - 1),
        "muon": units.format(muon.terms.optimizer, "s", 2),
        "adam": units.format(step.terms.optimizer, "s", 2),
        "messengers": _share(training.efficiencies_of("H800").messengers, 0),
        "tried": f"{len(search.rows):,}",
        "rank": str(rank),
        "behind": _share(behind),
        "best_tp": str(best["tp"]),
        "best_pp": str(best["pp"]),
        "best_ep": str(best["ep"]),
        "simple_pp": str(simple["pp"]),
        "simple_ep": str(simple["ep"]),
        "alike": f"{search.alike():,}",
    }


def _moe() -> dict[str, str]:
    run, total = (
        evidence.measurements("counts")["deepseek-v3-run"],
        evidence.measurements("counts")["deepseek-v3-total"],
    )
    i = run.inputs

    def hours(efficiencies: Efficiencies, link: float | None = None) -> tuple[float, TrainingStep]:
        s = training.training_step(
            i["model"],
            Plan(pp=i["pp"], dp=i["dp"], ep=i["ep"]),
            catalog.cluster("H800-node", i["devices"] // 8),
            global_batch=i["global_batch"],
            seq=i["seq"],
            precision=run.precision,
            efficiencies=efficiencies,
            intra_bandwidth=link,
            inter_bandwidth=link,
        )
        return float(training.time_to_train(i["tokens"], s.tokens, s.time) * s.devices), s

    fitted = training.efficiencies_of(run.device, run.precision)
    (free, step), (exposed, in_the_open) = hours(training.BOUND, 1e18), hours(training.BOUND)
    hidden, _ = hours(fitted, 1e18)
    return {
        "tokens": f"{i['tokens'] / 1e12:g}",
        "measured": f"{run.value / units.hour / 1e6:.3f}",
        "total": f"{total.value / units.hour / 1e6:.3f}",
        "free": f"{free / units.hour / 1e6:.2f}",
        "exposed": f"{exposed / units.hour / 1e6:.2f}",
        "exposed_error": units.percent(exposed / run.value - 1),
        "messages": _share(in_the_open.terms.expert_parallel / in_the_open.time, 0),
        "hidden": f"{hidden / units.hour / 1e6:.2f}",
        "hidden_error": units.percent(hidden / run.value - 1, 0),
        "head": _share(step.terms.head / step.time, 0),
        "growing": _share(469e9 / i["tokens"], 0),
    }


def _score() -> dict[str, str]:
    sheet, constants = shipped_scores("training_step"), shipped_constants("training_step")
    software = constants["software"]
    a100, h100 = training.efficiencies_of("A100-SXM4-80GB"), training.efficiencies_of("H100")
    kernels, plain = (
        kernel_shares(lineage(catalog.device("A100-SXM4-80GB"))),
        kernel_shares(lineage(catalog.device("H100"))),
    )
    biases = [sheet.datasheet.bias, *(s.bias for s in sheet.switched.values())]
    steps = [100 * (b - a) for a, b in pairwise(biases) if a is not None and b is not None]
    return {
        "rows": str(sheet.rows),
        "groups": str(len(sheet.groups)),
        "constants": str(sheet.constants),
        "bias": _share(-float(sheet.datasheet.bias or 0.0), 0),
        "kernels": f"{steps[0]:.0f}",
        "step": f"{steps[1]:.0f}",
        "software": f"{steps[2]:.0f}",
        "points": f"{-100 * float(sheet.datasheet.bias or 0.0):.0f}",
        "ampere": f"{a100.gemm:.2f}",
        "ampere_alone": f"{kernels.values['products_16']:.2f}",
        "kept": _share(software["in_step"], 0),
        "variation": _share(software["variation"]),
        "positive": " and ".join(g for g, (plain, _) in sheet.groups.items() if (plain.bias or 0.0) > 0),
        "hopper": f"{h100.gemm:.2f}",
        "hopper_alone": f"{plain.values['products_16']:.2f}",
        "attention": f"{kernels.values['attention']:.2f}",
        "attention_older": f"{OLDER_ATTENTION['Hopper']:.2f}",
        "attention_backward": f"{ATTENTION_BACKWARD:.2f}",
        "kernels_of_a_layer": f"{STARTED['layer_overhead']:g}",
        "kernels_of_a_block": f"{STARTED['hop_overhead']:g}",
        "start": units.format(plain.values["start"], "s", 2),
        "best_mi300x": _share(best_share(catalog.device("MI300X"), "fp8"), 0),
        "passes": f"{h100.elementwise:.0f}",
        "link": f"{h100.link:.2f}",
        "overhead": units.format(h100.layer_overhead, "s", 2),
        "expert": units.format(software["expert_overhead"], "s", 2),
        "contention": f"{h100.contention:.0f}",
        "fit": _share(sheet.switched["software"].mape),
        "tp_overlap": _share(h100.tp_overlap, 0),
        "mape": _share(sheet.leave_one_group_out.mape),
        "baseline_low": _share(min(sheet.baselines.values()), 0),
        "baseline_high": _share(max(sheet.baselines.values()), 0),
        "worst": ", ".join(
            f"{g} {_share(left.mape, 0)}"
            for g, (_, left) in sorted(sheet.groups.items(), key=lambda pair: -pair[1][1].mape)
            if left.mape > _FAR
        ),
    }


def _between(seq: int = 2048, hidden: int = 12288, ranks: int = 8) -> dict[str, str]:
    """34 passes over one layer of GPT-3, and the products of that layer on one of eight devices, forward and backward."""
    a100 = catalog.device("A100-SXM4-80GB")
    time = training.elementwise_time(seq, hidden, 34, a100.memory_bandwidth)
    products = 3 * 2 * 12 * hidden**2 * seq / ranks / a100.peak_flops["fp16"]
    return {
        "bytes": units.format(time * a100.memory_bandwidth, "byte", 2),
        "time": units.format(time, "s", 2),
        "products": units.format(products, "s", 2),
    }


def _rack() -> dict[str, str]:
    def step(node: str, tp: int) -> TrainingStep:
        cluster = catalog.cluster(node, -(-1152 // catalog.node(node).devices))
        plan = Plan(tp=tp, pp=8, dp=128 // tp, virtual_stages=2)
        return training.training_step("Llama-3.1-405B", plan, cluster, global_batch=512, seq=8192, efficiencies="bound")

    nodes = {"h100": "DGX-H100", "b200": "DGX-B200", "gb200": "GB200-NVL72"}
    return {f"{short}_slower": _share(1 - step(node, 8).time / step(node, 16).time, 0) for short, node in nodes.items()}


def _strong(replicas: int = 128) -> dict[str, str]:
    plan = Plan(tp=8, pp=4, dp=replicas)
    cluster = catalog.cluster("DGX-H100", 4 * replicas)
    s = training.training_step("Llama-3.1-70B", plan, cluster, global_batch=512, seq=4096, efficiencies=COUNTED)
    return {
        "replicas": str(replicas),
        "micro_batches": f"{plan.micro_batches(512):g}",
        "lost": _share((s.terms.bubble + s.terms.data_parallel) / s.time, 0),
    }


def _drawn(devices: int) -> float:
    random.seed(6)
    normal = NormalDist()
    return 0.01 * mean(normal.inv_cdf(random.random() ** (1 / devices)) for _ in range(20_000))


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 6."""
    predicted = _predicted()
    bubble = parallelism.bubble_ratio(8, 32)
    eight = parallelism.bubble_ratio(8, 8)
    devices = 32_768
    h100, llama = catalog.device("H100"), "Llama-3.1-8B"
    rate = evidence.published_plan("llama3-405b-16k").rate
    assert rate is not None

    def counted(convention: str) -> str:
        causal = flops.counted_flops(llama, 131_072, "matmul-causal")
        return _share(0.40 * flops.counted_flops(llama, 131_072, convention) / causal, 0)

    message = collectives.ring_all_reduce(9e9, 64, 50e9)
    return {
        "gpt3": _gpt3(predicted),
        "llama": _llama(predicted),
        "mtnlg": _mtnlg(predicted),
        "moe": _moe(),
        "plan": _plan(),
        "recipes": _recipes(),
        "score": _score(),
        "between": _between(),
        "rack": _rack(),
        "strong": _strong(),
        "attention": {"backward": f"{training.FLASH_BACKWARD:g}"},
        "optimizer": {"bytes": "30"},
        "exposed": {
            "message": units.format(message, "s", 3),
            "behind": units.format(0.2, "s"),
            "left": units.format(training.exposed_time(message, 0.2, 0.8), "s", 3),
        },
        "slip": {
            "hidden": f"{training.step_time(1.0, bubble):.2f}",
            "right": f"{training.step_time(1.0, 0.0, bubble):.2f}",
            "error_8": units.percent(training.step_time(1.0, eight) / training.step_time(1.0, 0.0, eight) - 1, 0),
        },
        "slow": {
            "devices": f"{devices:,}",
            "bound": _share(training.straggler_time(1.0, 0.01, devices) - 1),
            "drawn": _share(_drawn(devices)),
        },
        "peak": {
            "sparse": units.format(2 * h100.peak_flops["bf16"], "FLOP/s", prefix="T"),
            "sparse_mfu": _share(training.mfu(rate.value, 1.0, 1, 2 * h100.peak_flops["bf16"])),
        },
        "context": {
            "six": counted("6N"),
            "causal": _share(0.40, 0),
            "full": counted("matmul-full"),
            "embedding": _share(1 - flops.matmul_parameters(llama) / flops.active_parameters(llama)),
        },
    }
