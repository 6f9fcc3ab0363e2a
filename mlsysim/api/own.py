"""Runs of one's own beside a question: how far they move its times, and how much narrower its range gets."""

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mlsysim import inference, intervals, units
from mlsysim.api.asked import Asked, Own
from mlsysim.catalog import Device
from mlsysim.efficiencies import has_range
from mlsysim.errors import InputError
from mlsysim.intervals import ALIKE, APART, MOVED
from mlsysim.memory.quantised import Formats
from mlsysim.runs import KINDS, QUANTITIES, Measured

if TYPE_CHECKING:
    from mlsysim.api.runs import Comparison

AskedT = TypeVar("AskedT", bound=Asked)
# By the class of a question: the kinds of runs that say something of it, and which of their figures do. First tokens under load do
# not: they are mostly a queue's.
_TELLS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "inference": {"serving": ("itl_s", "e2e_s", "tokens_per_s"), "batch": ("decode_s", "prompt_s")},
    "training_step": {"step": ("step_s", "device_tokens_per_s")},
}


def own_of(
    measured: Any,
    class_name: str,
    place: Mapping[str, str],
    device: Device,
    efficiencies: Any,
    question: Mapping[str, Any],
) -> Own | None:
    """What runs say of a question whose times are of a class and lie in a place; None without a run.

    What a file does not say is taken from the question. Of runs that are nearer and farther, in device, format and kind, only the
    nearest count.

    Raises
    ------
    InputError
        A file that cannot be read or says nothing of such a question; efficiencies without known errors.
    """
    if measured is None or (isinstance(measured, (list, tuple)) and not measured):
        return None
    if not isinstance(efficiencies, str) or not has_range(efficiencies):
        raise InputError("measured: runs of your own move calibrated constants; leave out efficiencies")
    several = measured if isinstance(measured, (list, tuple)) else [measured]
    found: dict[str, list[tuple[float, float, str]]] = {}
    for one in several:
        c = _compared(one, class_name, question)
        kin = _kin(c, place, device)
        found.setdefault(kin, []).extend(_points(c, class_name))
    kin = next(k for k in (ALIKE, APART, MOVED) if k in found)
    errors, noise, words = zip(*found[kin], strict=True)
    return Own(intervals.recentred(class_name, place, errors, noise, kin), kin, words)


def _compared(one: Any, class_name: str, question: Mapping[str, Any]) -> "Comparison":
    from mlsysim.api.predicting import TOOLS
    from mlsysim.api.runs import Comparison, compared
    from mlsysim.runs import read_run

    if isinstance(one, Comparison):
        c = one
    else:
        if not isinstance(one, (str, Path, Measured)):
            raise InputError(f"measured = {repr(one)[:40]} must be the path of a run, or what compare() returned")
        run = one if isinstance(one, Measured) else read_run(one)
        tells = _TELLS[class_name]
        if run.kind not in tells:
            fit = " or ".join(KINDS[k] for k in tells)
            raise InputError(
                f"measured: {run.file} is of {KINDS[run.kind]}, which says nothing of these times; give {fit}"
            )
        lacks = {
            n: v for n, v in question.items() if v is not None and n in TOOLS[run.kind].takes and n not in run.asked
        }
        c = compared(
            run,
            {**lacks, **({} if "model" in run.asked and _known(run.asked["model"]) else {"model": question["model"]})},
        )
    if not c.answered:
        options = " ".join(f"--{n.replace('_', '-')}" for n in c.missing)
        raise InputError(
            f"measured: {c.run.file} does not say {options}; try 'mlsysim compare {c.run.file} {options}', and in Python give its result"
        )
    return c


def _known(model: Any) -> bool:
    from mlsysim import catalog
    from mlsysim.errors import UnknownNameError

    try:
        catalog.model(model)
    except UnknownNameError:
        return False
    return True


def _kin(c: "Comparison", place: Mapping[str, str], device: Device) -> str:
    """How near a run lies to the question."""
    from mlsysim import catalog
    from mlsysim.api.predicting import deployed, step_of

    if catalog.where(c.asked["device"]).device.name != device.name:
        return MOVED
    own = step_of(c.asked).place if c.run.kind == "step" else deployed(c.asked).place("answer")
    return ALIKE if own == place and c.run.kind != "batch" else APART


def _points(c: "Comparison", class_name: str) -> list[tuple[float, float, str]]:
    """The log errors of a run that count: of its first telling kind of figure, one point for each kind of pass."""
    names = _TELLS[class_name].get(c.run.kind, ())
    by = {n: [row for row in c.rows if row.figure.name == n] for n in names}
    kept = [rows for rows in by.values() if rows]
    kept = kept if c.run.kind == "batch" else kept[:1]
    if not kept:
        raise InputError(f"measured: {c.run.file} has none of {', '.join(QUANTITIES[n][0] for n in names)}")
    found = []
    for rows in kept:
        first, unit = rows[0], QUANTITIES[rows[0].figure.name][1]
        error = sum(r.error for r in rows) / len(rows)
        noise = (sum(r.figure.noise**2 for r in rows) / len(rows)) ** 0.5
        measured, said = (units.format(v, unit, 3) for v in (first.figure.value, first.predicted.value))
        found.append((error, noise, f"{c.run.file}, {first.figure.words} {measured} where {said} was predicted"))
    return found


def with_own(question: AskedT, measured: Any, tp: int | None) -> AskedT:
    """A question to ``serve`` or ``simulate`` with what runs of the caller's own say of it; what they do not say is taken from it."""
    if measured is None:
        return question
    formats = {f.name: getattr(question, f.name) for f in fields(Formats)}
    d = inference.deploy(question.model, question.device, **formats)
    asked: dict[str, Any] = {n: formats[n] for n in ("precision", "weights", "kv")}
    asked |= {"model": question.model, "device": question.device, "tp": tp, "server": question.server or None}
    return replace(
        question, own=own_of(measured, "inference", d.place("answer"), question.device, question.efficiencies, asked)
    )
