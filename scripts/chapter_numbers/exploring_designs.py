"""Chapter 13, exploring designs."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from chapter_numbers import share as _share
from mlsysim import catalog, evidence, intervals, sensitivity, training, units
from mlsysim.evidence.scoring import decisions, own_points
from mlsysim.evidence.scoring.conformal import MIN_GROUPS, GroupedErrors
from mlsysim.evidence.studies.ranked import ranking
from mlsysim.evidence.studies.searched import Searched, search_published
from mlsysim.explore import plan, solve_for
from mlsysim.memory import COUNTED_SHARE
from mlsysim.parallelism import Plan

_JOBS = {
    "llama": "llama3-405b-16k",
    "trillion": "megatron-1t",
    "megatron": "megatron-530b",
    "gpt3": "megatron-175b",
    "mtnlg": "mtnlg-280",
    "mtnlg420": "mtnlg-420",
}
_TEAMS = ("trillion", "megatron", "mtnlg", "mtnlg420")


def _searched(name: str) -> Searched:
    row = evidence.published_plan(name)
    return search_published(name, training.efficiencies_of(row.node.device, row.precision))


def _among_peers(found: Searched) -> dict[str, str]:
    """Where a published plan stands among the plans that its own software could have run."""
    place, gap = found.alike.rank(found.plan)
    return {"alike": str(place), "alike_tried": f"{len(found.alike.fitting):,}", "alike_gap": _share(gap)}


def _off(found: Searched) -> dict[str, str]:
    """Predicted over measured time of the published plan."""
    return {"error": units.percent(found.everything.find(found.plan)["time"] / found.row.measured - 1)}


def _among_all(found: Searched, upper: float) -> dict[str, str]:
    """Where it stands among all plans, and how many of them are as good as the best."""
    place, gap = found.everything.rank(found.plan)
    return {
        "tried": f"{len(found.everything.rows):,}",
        "fit": f"{len(found.everything.fitting):,}",
        "splits": str(
            len(set(zip(*(found.everything.rows[n].tolist() for n in ("tp", "pp", "cp", "dp")), strict=True)))
        ),
        "place": f"{place:,}",
        "gap": _share(gap),
        "predicted": units.format(found.everything.find(found.plan)["time"], "s", 3),
        "best": units.format(found.everything.best()["time"][0], "s", 3),
        "measured": units.format(found.row.measured, "s", 3),
        "next": _share(found.everything.best(2)["time"][1] / found.everything.best()["time"][0] - 1),
        "ten": f"{found.everything.within(1.1):,}",
        "many": f"{found.everything.within(upper):,}",
        "clear": _share(found.everything.clear - 1, 0),
        "unclear": f"{found.everything.alike():,}",
        "simple": _named(found.everything.simplest()),
        "simple_gap": _share(found.everything.simplest()["time"] / found.everything.fastest - 1),
    }


def _kept(found: Searched) -> dict[str, str]:
    """The GPU memory of the published 8,192-GPU plan by chunks, and how far the open schedule moves the 16,384-GPU step."""
    row = evidence.published_plan("llama3-405b-8k")
    device = row.node.device
    memories = {
        v: training.training_memory(
            row.shape, replace(row.plan, virtual_stages=v), device, seq=row.seq, global_batch=row.global_batch
        ).total
        for v in (1, 4)
    }
    whole = {v: found.everything.find(replace(found.plan, virtual_stages=v)) for v in (1, 4, 8)}
    return {
        "plain": units.format(memories[1], "byte", 3),
        "interleaved": units.format(memories[4], "byte", 3),
        "capacity": units.format(device.usable_memory, "byte", 3),
        "one_chunk": units.format(whole[1]["time"], "s", 3),
        "eight_chunks": units.format(whole[8]["time"], "s", 3),
        "sixteen": units.format(whole[4]["memory"], "byte", 3),
    }


def _tornado(found: Searched) -> dict[str, str]:
    """The ends of the longest bar of the tornado, which hides a fifth of the messages as the drawing does."""
    hidden = replace(training.efficiencies_of("H100"), tp_overlap=0.2)
    times = {
        chunks: training.training_step(
            found.row.shape,
            replace(found.plan, virtual_stages=chunks),
            catalog.cluster("DGX-H100", 2048),
            global_batch=found.row.global_batch,
            seq=found.row.seq,
            efficiencies=hidden,
        ).time
        for chunks in (1, 8)
    }
    return {"one_chunk": units.format(times[1], "s", 3), "eight_chunks": units.format(times[8], "s", 3)}


def _degrees(found: Searched) -> str:
    """The plan that a search puts first."""
    return _named(found.everything.best().row(0))


def _named(row: dict[str, Any]) -> str:
    return " ".join(f"{name.upper()} {row[name]}" for name in ("tp", "pp", "cp", "dp") if row[name] > 1)


def _ranked() -> dict[str, str]:
    """The published plans of many jobs among all plans for them."""
    found = ranking()
    published, first, simple = found.cp
    return {
        "jobs": str(len(found.rows)),
        "place": f"{found.place:g}",
        "ratio": f"{found.ratio:.2f}",
        "recommended": f"{found.recommended:.2f}",
        "published_cp": str(published),
        "first_cp": str(first),
        "simple_cp": str(simple),
    }


def _shared() -> dict[str, str]:
    """What two plans of one job share of their errors."""
    known = intervals.checks("training_step")
    return {
        "plans": _share(known["shared_plans"], 0),
        "pairs": str(known["shared_plans_pairs"]),
        "sources": str(known["shared_plans_sources"]),
    }


def _sixteen(llama: Searched) -> float:
    """How much longer than the best step the best one with TP 16 over two nodes is."""
    fitting = llama.everything.fitting
    return float(fitting["time"][fitting["tp"] == 16].min() / llama.everything.best()["time"][0] - 1)


def _leaving() -> float:
    """Throughput per GPU that the calibrated model loses from TP 8 to TP 16 on nodes of eight, for a 3B model."""
    shape = catalog.decoder("3B", layers=28, hidden=3072, heads=32, kv_heads=32, head_dim=96, ffn=8192, vocab=128256)
    cluster = catalog.cluster("DGX-H100", 2)
    times = [
        training.training_step(
            shape,
            Plan(tp=tp, dp=16 // tp),
            cluster,
            global_batch=16,
            seq=4096,
            efficiencies="calibrated",
        ).time
        for tp in (8, 16)
    ]
    return float(1 - times[0] / times[1])


def _ranks(groups: int) -> dict[str, str]:
    """What the rule holds of a new source when every source has one row."""
    _, high = GroupedErrors(tuple((float(i),) for i in range(1, groups + 1))).quantiles()
    return {
        "votes": str(groups + 1),
        "rank": f"{high:.0f}",
        "beyond": f"{groups + 1 - high:.0f}",
        "largest": f"{groups - high:.0f}",
    }


_PLACE = {"generation": "Hopper", "kind": "dense", "precision": "16-bit", "phase": "pretrain"}


def _ends(q: intervals.ErrorQuantiles) -> dict[str, str]:
    low, high = q.factors
    return {"low": f"{low:.2f}", "high": f"{high:.2f}"}


def _held() -> dict[str, Any]:
    """What the shipped ranges hold of left-out sources and domains, over the classes of which we know something, and of a new set."""
    checks = {name: intervals.checks(name) for name in intervals.class_names()}
    told = {name: found for name, found in checks.items() if found["unknown"] < 0.5}
    ends: dict[str, Any] = {}
    for what in ("sources", "domains"):
        shares = [found[f"coverage_{what}"] for found in told.values()]
        ends[what] = {"least": _share(min(shares), 0), "most": _share(max(shares), 0)}
    came = {name: intervals.came(name)["third"]["held"] for name in told}
    ends["came"] = {name: _share(came[name], 0) for name in ("training_step", "inference", "collective")}
    return ends


def _worlds(sources: int, worlds: int = 4000) -> dict[str, str]:
    """What the jackknife holds of a new source where the fit is a mean, and each source has one row."""
    errors = np.random.default_rng(13).standard_normal((worlds, sources + 1))
    past, new = errors[:, :-1], errors[:, -1]
    total = past.sum(axis=1, keepdims=True)
    left = (total - past) / (sources - 1) - past  # predicted by the others, less what was measured
    held = 0
    for each, middle, coming in zip(left, total[:, 0] / sources, new, strict=True):
        low, high = GroupedErrors(tuple((float(e),) for e in each)).quantiles()
        held += low <= middle - coming <= high
    return {"held": _share(held / worlds, 0)}


def _free_network() -> dict[str, str]:
    """Why the last per cent of the network is dear: the fastest ring is as fast as the links inside a node."""
    link = catalog.cluster("DGX-H100", 2).node.scale_up_bandwidth
    efficiencies = replace(training.efficiencies_of("H100", efficiencies="datasheet"), dp_overlap=0.0)

    def time(bandwidth: float) -> float:
        plan = Plan(tp=8, dp=16)
        job: dict[str, Any] = {"global_batch": 128, "seq": 4096, "inter_bandwidth": bandwidth}
        return float(training.training_step("Llama-3.1-70B", plan, "H100", efficiencies=efficiencies, **job).time)

    if time(link) != time(1e15):
        raise AssertionError("chapter 13 says that a ring runs no faster than the links inside a node")
    return {"link": units.format(link, "byte/s"), "share": _share(time(link / 2) / time(link) - 1, 1)}


def _toy() -> dict[str, str]:
    """A step of two parts, and a range from four errors."""
    compute, network, d = 8.0, 2.0, 0.01
    moved = sensitivity.elasticity(compute + network / (1 + d), compute + network * (1 + d), d)
    four = GroupedErrors(tuple((float(i),) for i in range(1, 5)))
    return {
        "compute": units.format(compute, "s"),
        "network": units.format(network, "s"),
        "saved": _share(0.01 * network / (compute + network)),
        "elasticity": f"{float(moved):.1f}".replace("-", "−"),
        "four": _share(len(four.groups) / (len(four.groups) + 1), 0),
    }


def _winners(datasheet: str, calibrated: str) -> str:
    """The best plan in both modes, in words that stay true when the two part."""
    if datasheet == calibrated:
        return f"{calibrated} in both modes"
    return f"{datasheet} in datasheet mode and {calibrated} when calibrated"


def _halving() -> dict[str, str]:
    """How often a solver is asked when an input between 1 and 10^15 is wanted."""
    asked = []

    def ask(x: float) -> float:
        asked.append(x)
        return x

    solve_for(ask, 1e7, 1.0, 1e15)
    low, high = 25e9, 800e9  # the first still of the drawing
    still = {"low": low, "middle": math.sqrt(low * high), "high": high}
    return {"calls": str(len(asked)), **{name: units.format(rate, "byte/s", 3) for name, rate in still.items()}}


def _decisions() -> dict[str, Any]:
    """What first choices give away: ours, blind, those of the simplest rule, chance, and answers with errors put into them."""

    def told(way: str, *names: str) -> dict[str, str]:
        s = decisions.summarise("serving", way, decisions.outcomes("serving", way))
        found = {"regret": f"{s.regret:.2f}", "missed": _share(s.missed, 0), "pairs": _share(s.pairs or 0.0, 0)}
        found |= {"by": _share(s.depth or 0.0, 0), "low": f"{s.low or 0.0:.2f}", "high": f"{s.high or 0.0:.2f}"}
        return {name: found[name] for name in ("regret", *names)}

    def played(own: float, shared: float) -> dict[str, str]:
        runs = [decisions.with_errors("serving", own, shared, seed) for seed in range(20)]
        return {
            "regret": f"{np.mean([r.regret for r in runs]):.2f}",
            "missed": _share(float(np.mean([r.missed for r in runs])), 0),
        }

    asked = decisions.questions("serving")
    _, levels = decisions.scales("serving", "")
    ends = [math.exp(intervals.log_gap(0.9, scale)) - 1 for scale in levels]
    return {
        "questions": str(len(asked)),
        "groups": str(len({q.group for q in asked})),
        "serving": {
            "ours": told("ours", "missed", "pairs", "by", "low", "high"),
            **{way: told(way, "missed") for way in ("odds", "measured")},
            **{way: told(way) for way in ("rule", "chance")},
        },
        "parts": dict(
            zip(("device", "server", "format", "layout", "point"), (_share(e, 0) for e in ends), strict=True)
        ),
        "own": {f"at_{n}": played(n / 100, 0.0) for n in (5, 10, 20, 40)},
        "shared": {f"at_{n}": played(0.0, n / 100) for n in (5, 10, 20, 40)},
    }


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 13."""
    h100 = training.efficiencies_of("H100", efficiencies="datasheet")
    calibrated = training.efficiencies_of("H100")
    classes = intervals.error_quantiles()
    q, here = classes["training_step"], intervals.interval("training_step", 1.0, _PLACE).quantiles
    shared = intervals.width()
    seventy = plan("Llama-3.1-70B", catalog.cluster("DGX-H100", 8), global_batch=256, seq=8192, efficiencies=h100)
    by_hand = Plan(tp=8, dp=8, recompute="full")
    hand = seventy.find(by_hand)
    front = seventy.front()
    found = {key: _searched(name) for key, name in _JOBS.items()}
    llama = found["llama"]

    bound = training.training_step(
        "Llama-3.1-405B", llama.plan, catalog.cluster("DGX-H100", 2048), global_batch=2048, seq=8192,
        efficiencies=calibrated,
    )  # fmt: skip
    moved = bound.elasticities()
    datasheet = search_published("llama3-405b-16k", h100)
    first, second, doubt = 0.75, 0.15, 0.1
    peers: dict[str, dict[str, str]] = {key: _among_peers(found[key]) for key in ("llama", "gpt3")}
    peers["teams"] = {"gap": _share(max(found[k].alike.rank(found[k].plan)[1] for k in _TEAMS))}
    peers["llama"] |= _among_all(llama, bound.interval().quantiles.factors[1])
    peers |= {key: _off(found[key]) for key in ("mtnlg", "mtnlg420")}
    return {
        "range": {
            **_ends(q),
            "here": {**_ends(here), "sources": str(here.near)},
            "sources": str(q.groups),
            "rows": str(q.rows),
            "held": _share(q.coverage, 0),
            "nominal": _share(q.nominal, 0),
            "attention": str(classes["attention"].groups),
            "spreads": f"{shared['spreads']:.2f}",
            "all_sources": str(shared["sources"]),
            "strength": f"{intervals.STRENGTH:g}",
            "largest_width": f"{intervals.LARGEST:g}",
            "unknown": _share(intervals.checks("serving_ttft")["unknown"], 0),
            "needed": str(MIN_GROUPS),
            "left": _held(),
            **_ranks(q.groups),
            "llama_low": f"{bound.interval().low:.2f}",
            "llama_high": f"{bound.interval().high:.2f} s",
        },
        "own": {
            name: {
                **{f"after_{w.points}": _share(w.error, 1) for w in found if w.points != 2},
                "held": _share(found[-1].held, 0),
            }
            for name, found in own_points.shipped().items()
            if name in ("inference", "training_step")
        },
        "seventy": {
            "fit": f"{len(seventy.fitting):,}",
            "front": str(len(front)),
            "best": units.format(seventy.best()["time"][0], "s", 3),
            "best_memory": units.format(seventy.best()["memory"][0], "byte", 3),
            "least": units.format(float(front["memory"].min()), "byte", 3),
            "least_time": units.format(float(front["time"].max()), "s", 3),
            "hand": units.format(hand["time"], "s", 3),
        },
        **peers,
        "room": _share(COUNTED_SHARE, 0),
        "ranked": _ranked(),
        "shared": _shared(),
        "corner": {
            "winners": _winners(_degrees(datasheet), _degrees(llama)),
            "sixteen": _share(_sixteen(llama)),
            "leaving": _share(_leaving(), 0),
            "hidden": _share(calibrated.tp_overlap, 0) if calibrated.tp_overlap else "none",
        },
        "free": _free_network(),
        "toy": _toy(),
        "worlds": _worlds(q.groups),
        "decisions": _decisions(),
        "halving": _halving(),
        "kept": _kept(llama),
        "tornado": _tornado(llama),
        "moved": {
            "peak": f"{-moved['peak']:.2f}",
            "network": f"{-moved['network']:.2f}",
        },
        "together": {
            "first": str(first),
            "second": str(second),
            "spread": _share(doubt, 0),
            "independent": _share(float(sensitivity.combined_spread(doubt * first, doubt * second))),
            "together": _share(float(sensitivity.combined_spread(doubt * first, doubt * second, 1.0))),
        },
    }
