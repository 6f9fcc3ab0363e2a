"""Numbers of the page that says which tool answers which question."""

from typing import Any

from mlsysim import units
from mlsysim.evidence.studies import tools


def _of(key: str) -> dict[str, str]:
    """How often a tool answers, how far it is off, and how often it comes closest."""
    errors = {n: abs(e) for n, q in tools.questions().items() if (e := q.error(key)) is not None}
    best = sum(
        all(e <= abs(other) for t in tools.tools() if (other := tools.questions()[n].error(t)) is not None)
        for n, e in errors.items()
    )
    mean = sum(errors.values()) / len(errors)
    found = {"answered": str(len(errors)), "error": units.percent(mean, 0, signed=False)}
    return found | ({"best": str(best)} if best else {})  # the page tells of those that once come closest


def _single(question: str, tool: str) -> str:
    error = tools.questions()[question].error(tool)
    return "–" if error is None else units.percent(error, 0, signed=True)


def _held() -> str:
    """Our mean error where the source was left out of the fit."""
    found = [
        abs(q.held_out / q.published - 1) if q.held_out is not None else abs(q.error("size-it") or 0.0)
        for q in tools.questions().values()
    ]
    return units.percent(sum(found) / len(found), 0, signed=False)


def numbers() -> dict[str, Any]:
    found = {key.replace("-", "_"): _of(key) for key in tools.tools()}
    return {
        **found,
        "date": str(tools.conditions()["date"]),
        "held": _held(),
        "year": {  # what their own documents say: versions, and errors that they claim
            "date": "2026-11-24",
            "aiconfigurator": "0.12.0",
            "vidur": "0.0.26",
            "servcalc": "0.1.0",
            "ridgepoint": "0.1.2",
            "harvard": str(tools.tools()["mlsysim-harvard"].version),
            "sim_tpot": "1.7 %",
            "sim_ttft": "+1.3 to −13.6 %",
            "ridge": "1 %",
            "harvard_error": "15 to 30 %",
        },
        "seen": str(sum(q.seen != "no" for q in tools.questions().values())),
        "step": {"ours": _single("step-four", "size-it"), "gpu_poor": _single("step-four", "gpu_poor")},
        "hours": {
            "ours": _single("hours-65b", "size-it"),
            "llm_analysis": _single("hours-65b", "llm-analysis"),
            "harvard": _single("hours-65b", "mlsysim-harvard"),
        },
        "dense": {"lmcache": _single("cache-dense", "lmcache"), "gpu_poor": _single("cache-dense", "gpu_poor")},
    }
