"""Numbers of chapter 12 and of the appendix of reality checks."""

from typing import Any

from book_reality import all_checks

from mlsysim import catalog, evidence, intervals, parallelism, units
from mlsysim.efficiencies import pooled_share
from mlsysim.evidence import reality
from mlsysim.evidence.cases import CLASSES, TABLED
from mlsysim.evidence.predictors.training_structures import SHIPPED
from mlsysim.evidence.reality import ClassCheck, simple
from mlsysim.evidence.scoring.nested import shipped_nested
from mlsysim.evidence.scoring.scores import never_seen, refuted, shipped_scores
from mlsysim.evidence.scoring.tried import logged, read_log
from mlsysim.evidence.studies import peers

FRESH = {"first": "MB2509", "latest": "MB2608"}


def share(value: float | None, signed: bool = False) -> str:
    return "–" if value is None else units.percent(value, 0, signed=signed)


def _unseen(check: ClassCheck) -> dict[str, str]:
    """The rows outside the fit: how far off they are, and how far one constant is off on the same rows."""
    assert check.outside is not None
    ids = {r.row.case.id for r in check.rows if not r.in_sample}
    one = simple.score_one_constant(reality.case_file(check.name), ids).mape_mean_over_groups
    ours = check.outside.mape_mean_over_groups
    return {
        "outside": share(ours),
        "outside_rows": str(len(ids)),
        "outside_one": share(one),
        "outside_taken": share(evidence.skill(ours, one)),
    }


def _apart(check: ClassCheck) -> dict[str, str]:
    """How far the groups outside the fit lie apart."""
    assert check.outside is not None
    errors = [s.mape for s in check.outside.groups.values()]
    ends = {"outside_least": share(min(errors)), "outside_most": share(max(errors))}
    return {"outside_groups": str(len(errors))} | (ends if check.name == "inference" else {})


def _beside_simple(name: str) -> dict[str, str]:
    """A class beside the two estimates without structure."""
    file, honest = reality.case_file(name), reality.honest(name).mape
    one = simple.score_one_constant(file).mape_mean_over_groups
    return {
        "honest": share(honest),
        "roof_bias": share(simple.score_roofline(file).bias_mean_over_groups, True),
        "one": share(one),
        "taken": share(evidence.skill(honest, one)),
    }


def _datasheet(name: str) -> str:
    return share(reality.check_class(name, "datasheet").summary.mape_mean_over_groups)


def _preset(name: str) -> dict[str, str]:
    """A page's one efficiency on the training rows."""
    steps, value = reality.case_file("training_step"), catalog.preset(name).efficiency.value
    s = simple.score_preset(steps, value)
    return {
        "efficiency": f"{value:g}",
        "error": share(s.mape_mean_over_groups),
        "bias": share(s.bias_mean_over_groups, True),
        "within": share(simple.share_within(steps, value, 0.20)),
    }


def _claim(check: ClassCheck) -> dict[str, str]:
    """The roofline page's decode throughput, beside our step and the bound of the datasheet."""
    r = next(r for r in check.rows if r.row.case.group == "SEED1")
    bound = simple.roofline("inference", r.row.case.inputs)
    return {
        "printed": f"{r.row.printed:g}",
        "error": share(r.score.error, True),
        "share": share(bound / r.row.case.measured),
    }


def _peers() -> dict[str, Any]:
    """Mean absolute errors of the shipped comparison with another package, and where its closed forms differ."""
    found = peers.comparison()

    def of(kind: str) -> list[peers.PeerCase]:
        return [c for c in found.cases if c.kind == kind]

    def means(kind: str) -> dict[str, str]:
        errors = [c.errors for c in of(kind)]
        ours, theirs = (sum(abs(e) for e in side) / len(errors) for side in zip(*errors, strict=True))
        return {"n": str(len(errors)), "ours": share(ours), "peer": share(theirs)}

    (water,), (goodput,), (step_at_bound,) = of("water"), of("goodput"), of("itl")
    rates = {s.what: s for s in found.speeds}
    step, arrays = rates["step of training"], rates["step of training, as an array"]
    return {
        "date": found.conditions["date"],
        **{kind: means(kind) for kind in ("training", "inference", "all_reduce")},
        "step": share(step_at_bound.errors[1]),
        "water": share(water.errors[1]),
        "goodput": share(goodput.errors[1]),
        "million": {
            "arrays": f"{1e6 / arrays.ours:.1g}",
            "ours": f"{1e6 / step.ours / 60:.0f}",
            "peer": f"{1e6 / (step.peer or 1.0) / 60:.0f}",
        },
    }


_WORST = ("worst_domain", "worst_domain_error")
# What the prose says of each class; the table of the chapter has all of it.
_SAID: dict[str, tuple[str, ...]] = {
    "training_step": (
        "rows",
        "in_fit",
        "first",
        "half",
        "second",
        "third",
        "held",
        "held_third",
        "domain",
        *_WORST,
        "worst_source",
        "worst_source_error",
    ),
    "inference": (
        "first",
        "half",
        "second",
        "third",
        "held",
        "held_third",
        *_WORST,
        "worst_source",
        "worst_source_error",
    ),
    "gemm": _WORST,
    "attention": ("first", "printed"),
    "collective": ("held_third",),
    "serving_ttft": ("third", "rule"),
}


def _grounds(name: str) -> dict[str, str]:
    """A class in the fit, without its source, without its domain, and on rows that nobody here had seen."""
    sheet, blind = shipped_scores(name), never_seen(name)
    domains = {label: s.mape for label, s in sheet.domains.items()}
    worst = max(domains, key=lambda label: domains[label])
    sources = {group: honest.mape for group, (_, honest) in sheet.groups.items()}
    far = max(sources, key=lambda group: sources[group])
    return {
        "first": share(blind.first),
        "half": share(blind.half),
        "second": share(blind.second),
        "third": share(blind.third),
        "rule": share(blind.rule),
        "held": share(blind.held),
        "held_third": share(blind.held_third),
        "domain": share(sheet.ladder.new_ground),
        "rows": str(sheet.fit.n),
        "in_fit": share(sheet.fit.mape),
        "printed": share(blind.printed),
        "worst_domain": worst.split(": ", 1)[1],
        "worst_domain_error": share(domains[worst]),
        "worst_source": far,
        "worst_source_error": share(sources[far]),
    }


def _mixtures() -> str:
    """What strangers found of mixtures of experts in the first edition."""
    low, high = (f"{100 * error:.0f}" for error in never_seen("training_step").mixtures)
    return f"{low} to {high} %"


def _steps() -> dict[str, dict[str, str]]:
    """By how many points leaving out the source, and then the domain too, raises the errors of the classes."""
    ladders = [shipped_scores(name).ladder for name in TABLED]
    found = {
        "source": [e.without_source - e.in_fit for e in ladders],
        "domain": [e.new_ground - e.without_source for e in ladders],
    }
    return {
        name: {end: f"{100 * of(gains):.1f}".replace("-", "−") for end, of in (("least", min), ("most", max))}
        for name, gains in found.items()
    }


def _worse() -> dict[str, str]:
    """Groups of more than five rows in which the simplest rule errs less than we do."""
    many = {n: sum(plain.n > 5 for plain, _ in shipped_scores(n).groups.values()) for n in CLASSES}
    worse = {n: len(shipped_scores(n).worse) for n in CLASSES}
    return {"groups": str(sum(many.values())), "worse": str(sum(worse.values()))}


def _refuted() -> dict[str, dict[str, str]]:
    """Models of ours that the third set refuted."""
    first, power = refuted()["first_token"], refuted()["power"]
    return {
        "first_token": {
            "processes": units.format(first["processes"], "s"),
            "alone": share(first["alone"], True),
            "without": share(first["without"], True),
        },
        "power": {name: share(error) for name, error in power.items()},
    }


def _pooling() -> dict[str, str]:
    """The worked numbers of partial pooling: a generation with few sources, and a family."""
    own, family, strength = 0.8, 0.6, 2.0
    given = {"own": f"{own:g}", "family": f"{family:g}", "strength": f"{strength:g}"}
    return given | {f"with_{n}": f"{pooled_share(own, family, n, strength):.2f}" for n in (0, 1, 10)}


def _tried() -> dict[str, str]:
    logs = {name: read_log(name) for name in logged()}
    lines = [line for log in logs.values() for line in log]
    served = sum(line.kept for name in ("serving_tpot", "serving_ttft") for line in logs[name])
    return {"variants": str(len(lines)), "kept": str(sum(line.kept for line in lines)), "served": str(served)}


def _nested() -> dict[str, Any]:
    """What it costs that the structure was chosen with all sources in view."""
    counted, nothing = shipped_nested("counted"), shipped_nested("nothing")
    return {
        "moves": str(len(SHIPPED.moves())),
        "ours": units.percent(shipped_scores("training_step").leave_one_group_out.mape, 1, signed=False),
        "constants": str(shipped_scores("training_step").constants),
        "counted": {
            "constants": str(counted.constants),
            "inside": units.percent(counted.inside, 1, signed=False),
            "sources": units.percent(counted.sources, 1, signed=False),
            "domains": units.percent(counted.domains, 1, signed=False),
            "cost": f"{100 * counted.cost:.1f}",
        },
        "nothing": {
            "inside": units.percent(nothing.inside, 1, signed=False),
            "sources": units.percent(nothing.sources, 1, signed=False),
            "domains": units.percent(nothing.domains, 1, signed=False),
        },
    }


def _toy() -> dict[str, str]:
    """Round numbers that the text computes: rows that repeat each other, a fit that flatters, a skill."""
    constants, fitted, noise = 3, 12, 0.1
    gap = float(evidence.optimism(constants, noise**2, fitted))
    inside = noise**2 * (1 - constants / fitted)
    return {
        "measured": units.format(10.0, "s"),
        "half": units.format(5.0, "s"),
        "twice": units.format(20.0, "s"),
        "half_error": share(evidence.signed_error(5.0, 10.0), True),
        "twice_error": share(evidence.signed_error(20.0, 10.0), True),
        "rows": "100",
        "effective": f"{evidence.effective_rows(100.0, 10.0, 0.5):.0f}",
        "constants": str(constants),
        "fitted": str(fitted),
        "noise": share(noise),
        "inside": units.percent(inside**0.5, 1, signed=False),
        "outside": units.percent((inside + gap) ** 0.5, 1, signed=False),
        "reference": share(0.3),
        "ours": share(0.1),
        "skill": share(evidence.skill(0.1, 0.3)),
    }


def numbers() -> dict[str, Any]:
    checks = {c.name: c for c in all_checks()}
    rows = [r.row for c in checks.values() for r in c.rows]
    training, inference = checks["training_step"], checks["inference"]
    fitted = intervals.error_quantiles()["training_step"]  # rows of the compilation and their sources
    per_source = fitted.rows / fitted.groups
    return {
        "total": str(len(rows)),
        "classes": str(len(TABLED)),
        "steps": _steps(),
        "end_to_end": str(sum(row.case_class in ("training_step", "inference") for row in rows)),
        "primary": str(sum(row.read == "primary" for row in rows)),
        "training": {
            "rows": str(training.summary.n),
            "inside": share(training.inside.mape_mean_over_groups if training.inside else None),
            **_unseen(training),
            **_apart(training),
            "datasheet": _datasheet("training_step"),
            **_beside_simple("training_step"),
        },
        "inference": {
            "inside": share(inference.inside.mape_mean_over_groups if inference.inside else None),
            **_unseen(inference),
            **_apart(inference),
            **_beside_simple("inference"),
        },
        "gemm": {"datasheet": _datasheet("gemm")},
        "grounds": {name: {k: v for k, v in _grounds(name).items() if k in said} for name, said in _SAID.items()}
        | {"mixtures": _mixtures()},
        "rules": _worse(),
        "refuted": _refuted(),
        "pooling": _pooling(),
        "toy": _toy(),
        "tried": _tried(),
        "nested": _nested(),
        "fresh": {key: share(training.summary.groups[group].bias, True) for key, group in FRESH.items()},
        "claim": _claim(checks["inference"]),
        "pages": {"half": _preset("mlsysim-page-training"), "mfu": _preset("roofline-page-training")},
        "peers": _peers(),
        "bubble64": units.percent(parallelism.bubble_fraction(8, 64), signed=False),
        "worth": {
            "rows": str(fitted.rows),
            "sources": str(fitted.groups),
            "per_source": f"{per_source:.0f}",
            "effective": f"{evidence.effective_rows(float(fitted.rows), per_source, 0.5):.0f}",
        },
    }
