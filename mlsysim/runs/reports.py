"""A measurement to be sent in: the file that ``mlsysim report`` writes, that its sender completes, and that we read as coming from anybody."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import mlsysim
from mlsysim.catalog.sourced import read_toml
from mlsysim.errors import InputError, unknown_name
from mlsysim.results import Result
from mlsysim.runs.run import KINDS, QUANTITIES, Figure, Measured, positive

FORMAT = "mlsysim-report-1"
# What only its sender knows, and why we ask for it.
ASKED: Mapping[str, str] = {
    "sender": "a name or a handle, and where to ask back",
    "tool_version": "of the engine or framework that ran, as in vllm 0.11.0",
    "conditions": "driver, clocks or power limit, who else used the machine, how often it was repeated, what was left out",
    "source": "where the log or a publication is, or: none",
}
_MOST_FIGURES, _MOST_TEXT, _MOST_ASKED = 200, 2000, 60


@dataclass(frozen=True)
class Report(Result):
    """A report that was read: what was measured, and what its sender says of it."""

    run: Measured
    sent: Mapping[str, str]  # by the names of ASKED
    version: str  # of mlsysim, when it was written
    day: str
    predicted: tuple[float | None, ...]  # what that version said of each figure


def toml_text(value: str) -> str:
    """A basic string of TOML, which is one of JSON but for a character that nobody sees."""
    return json.dumps(value.replace("\x7f", ""), ensure_ascii=False)


def _value(value: Any) -> str:
    plain = isinstance(value, (bool, int, float))
    return json.dumps(value) if plain else toml_text(str(value))


def written(run: Measured, asked: Mapping[str, Any], predicted: Sequence[float | None]) -> str:
    """The template: all that the run says, what this version predicts of it, and the places that its sender fills."""
    lines = [
        "# A measurement for mlsysim. Nothing has been sent: complete the four texts, set may_publish, and send the file to the project.",
        f"format = {toml_text(FORMAT)}",
        f"version = {toml_text(mlsysim.__version__)}",
        f"day = {toml_text(date.today().isoformat())}",
        f"tool = {toml_text(run.tool)}",
        f"kind = {toml_text(run.kind)}",
        *(f'{name} = ""  # {why}' for name, why in ASKED.items()),
        "may_publish = false  # true: these figures and texts may be published under CC BY 4.0",
        "",
        "[asked]  # the question, by the names of our options; mend what is wrong, add what the log did not say",
        *(f"{name} = {_value(value)}" for name, value in asked.items()),
    ]
    for figure, told in zip(run.figures, predicted, strict=True):
        at = ", ".join(f"{toml_text(n)} = {_value(v)}" for n, v in figure.at.items())
        lines += [
            "",
            "[[figures]]",
            f"name = {toml_text(figure.name)}  # {QUANTITIES[figure.name][0]}, in {QUANTITIES[figure.name][1]}",
            f"value = {float(figure.value)!r}",
            f"noise = {float(figure.noise)!r}",
            f"statistic = {toml_text(figure.statistic)}",
            f"where = {toml_text(figure.where)}",
            f"at = {{ {at} }}",
            *([f"predicted = {float(told)!r}"] if told is not None else []),
        ]
    return "\n".join(lines) + "\n"


def _text(raw: Mapping[str, Any], name: str, where: str) -> str:
    value = raw.get(name, "")
    if not isinstance(value, str) or len(value) > _MOST_TEXT or not value.isprintable():
        raise InputError(f"{where}, {name} must be a text in one line of at most {_MOST_TEXT} characters")
    return value.strip()


def _scalars(raw: Any, where: str) -> dict[str, Any]:
    if not isinstance(raw, dict) or len(raw) > _MOST_ASKED:
        raise InputError(f"{where} must be a table of at most {_MOST_ASKED} values")
    for name, value in raw.items():
        if isinstance(value, str):
            _text(raw, name, where)
        elif not isinstance(value, (int, float)) or not abs(value) < 1e30:
            raise InputError(f"{where}, {name[:40]} must be a text, true, false or a finite number")
    return raw


def read_report(path: str | Path) -> Report:
    """Read a completed report. Its size is bounded, every field is checked, and one that is missing or unknown is refused by name.

    Raises
    ------
    InputError
        Naming the file, the field and the fix; also where its sender has left a text empty or has not agreed to publication.
    """
    raw, file = read_toml(Path(path)), Path(path).name
    known = ("format", "version", "day", "tool", "kind", *ASKED, "may_publish", "asked", "figures")
    for name in raw:
        if name not in known:
            raise InputError(f"{file}: {unknown_name('field', name, known)}")
    said = {name: _text(raw, name, file) for name in ("format", "version", "day", "tool", "kind", *ASKED)}
    if said["format"] != FORMAT:
        raise InputError(f"{file}: format = {said['format'][:40]!r} must be {FORMAT!r}, as 'mlsysim report' writes it")
    if said["kind"] not in KINDS:
        raise InputError(f"{file}: {unknown_name('kind', said['kind'], KINDS)}")
    for name in (n for n, text in said.items() if not text):
        raise InputError(f"{file}: {name} is empty; say {ASKED.get(name, 'what mlsysim report wrote there')}")
    if raw.get("may_publish") is not True:
        raise InputError(f"{file}: may_publish must be true, else the figures cannot become rows")
    listed = raw.get("figures")
    if not isinstance(listed, list) or not 0 < len(listed) <= _MOST_FIGURES:
        raise InputError(f"{file}: figures must be 1 to {_MOST_FIGURES} tables")
    figures, predicted = [], []
    for i, one in enumerate(listed, 1):
        where = f"figures {i}"
        if not isinstance(one, dict) or not {"name", "value"} <= set(one) <= {
            "name", "value", "noise", "statistic", "where", "at", "predicted",
        }:  # fmt: skip
            raise InputError(
                f"{file}, {where} must have name and value, and may have noise, statistic, where, at, predicted"
            )
        if _text(one, "name", where) not in QUANTITIES:
            raise InputError(f"{file}, {where}: {unknown_name('name', one['name'], QUANTITIES)}")
        noise = positive(file, f"{where}, noise", one["noise"]) if one.get("noise", 0) != 0 else 0.0
        at = _scalars(one.get("at", {}), f"{file}, {where}, at")
        place, statistic = _text(one, "where", where), _text(one, "statistic", where) or "mean"
        value = positive(file, f"{where}, value", one["value"])
        figures.append(Figure(one["name"], value, place, noise, statistic, at))
        told = one.get("predicted")
        predicted.append(None if told is None else positive(file, f"{where}, predicted", told))
    asked = _scalars(raw.get("asked"), f"{file}, asked")
    run = Measured(file, said["tool"], said["kind"], asked, tuple(figures))
    return Report(run, {n: said[n] for n in ASKED}, said["version"], said["day"], tuple(predicted))
