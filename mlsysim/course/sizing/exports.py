"""An answer to take away: as JSON, as CSV, as a notebook that repeats it."""

import csv
import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from io import StringIO
from typing import Any

import mlsysim
from mlsysim.api.targets import SLO
from mlsysim.course.sizing.answers import Sized, sized
from mlsysim.course.sizing.fields import FILES, FieldError
from mlsysim.errors import InputError, MlsysimError
from mlsysim.parallelism import Plan
from mlsysim.results import plain
from mlsysim.runs import Measured

KINDS = {"json": "application/json", "csv": "text/csv", "ipynb": "application/x-ipynb+json"}
_PLAN = ("tp", "pp", "cp", "dp", "ep", "virtual_stages", "micro_batch", "sharding", "recompute")
_INSTALL = """import sys

if sys.platform == "emscripten" or "google.colab" in sys.modules:  # the in-browser lab and Colab start without it
    %pip install -q mlsysim-book"""


def _written(value: Any) -> str:
    """A value as Python writes it."""
    if isinstance(value, SLO):
        targets = [f"{n}={v!r}" for n, v in value.targets.items()]
        return f"mlsysim.SLO({', '.join([*targets, f'quantile={value.quantile!r}'])})"
    if isinstance(value, Plan):
        plain_ = Plan()
        said = [f"{n}={getattr(value, n)!r}" for n in _PLAN if getattr(value, n) != getattr(plain_, n)]
        return f"Plan({', '.join(said)})"
    return repr(value.file if isinstance(value, Measured) else value)


def code(s: Sized) -> str:
    """The call that gives the same numbers.

    >>> print(code(sized({"model": "Llama-3.1-8B", "device": "H100", "rate": "20"})))
    import mlsysim
    <BLANKLINE>
    answer = mlsysim.serve("Llama-3.1-8B", "H100", rate=20.0)
    print(answer)
    """
    lines = ["import mlsysim"]
    if any(isinstance(v, Plan) for v in s.arguments.values()):
        lines.append("from mlsysim.parallelism import Plan")
    typed = s.job.texts.get("model", "")
    published = "weights" not in s.arguments and "weights" in s.job.given
    name = json.dumps(typed if typed and published else s.job.model.name)  # a checkpoint's name says its format
    lines.append("")
    if s.job.config is not None:
        text = repr(json.dumps(s.job.config))
        lines = ["import json", "", lines[0], *lines[1:], f"model = mlsysim.catalog.from_hf_config(json.loads({text}))"]
        name = "model"
    # a memory question is put to one device, whose number is tp times pp
    place = s.result.device.name if s.call.endswith("server_memory") else s.job.place
    given = ", ".join(f"{n}={_written(v)}" for n, v in s.arguments.items())
    rest = f", {given}" if given else ""
    lines += [f"answer = {s.call}({name}, {json.dumps(place)}{rest})", "print(answer)"]
    if s.job.others:
        lines.append(f"print(mlsysim.compare_devices({name}, {json.dumps([place, *s.job.others])}{rest}))")
    return "\n".join(lines)


def export(form: Mapping[str, str], kind: str) -> dict[str, str]:
    """The answer to a form as a file: its name, its type and its text.

    Raises
    ------
    InputError, UnknownNameError
        As the form; a kind that is not json, csv or ipynb.
    """
    if kind not in KINDS:
        raise InputError(f"export: kind = {str(kind)[:40]!r} is not one of {', '.join(KINDS)}")
    s = sized(form)
    made = {"json": _json, "csv": _csv, "ipynb": _notebook}[kind](s)
    return {"name": f"size-it-{s.job.task}.{kind}", "type": KINDS[kind], "text": made}


def _json(s: Sized) -> str:
    document = {
        "mlsysim": mlsysim.__version__,
        "asked": {n: text for n, text in s.job.texts.items() if n != "measured"},  # a file of the reader's own
        "python": code(s),
        "first": {
            row.name: {"value": row.value, "unit": row.unit, "text": row.text} for row in (s.fits, s.speed, s.cost)
        },
        "rows": {row.name: {"label": row.label, "value": row.value, "unit": row.unit} for row in s.rows},
        "result": s.data or s.result.to_dict(),
    }
    return json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _cell(value: Any) -> Any:
    """A text that a spreadsheet takes for a formula is marked as text."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def _csv(s: Sized) -> str:
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("name", "label", "value", "unit", "text"))
    for name, text in s.job.texts.items():
        if name not in FILES:
            writer.writerow(map(_cell, (f"asked.{name}", "", text, "", "")))
    for row in (s.fits, s.speed, s.cost, *s.rows):
        value = "" if row.value is None else repr(row.value) if isinstance(row.value, float) else row.value
        writer.writerow([row.name, row.label, value, row.unit, _cell(row.text)])
    return out.getvalue()


def _notebook(s: Sized) -> str:
    """A notebook in the format of the book's own: install, the call, the explanation."""
    said = "\n".join(f"- {row.label}: {row.text}".replace("<", "&lt;") for row in (s.fits, s.speed, s.cost))
    cells = [
        (
            "markdown",
            f"# Size it\n\nMade by the page *Size it* of mlsysim {mlsysim.__version__}, which said:\n\n{said}",
        ),
        ("code", _INSTALL),
        (
            "code",
            f'import mlsysim\n\nassert getattr(mlsysim, "DISTRIBUTION", "") == "{mlsysim.DISTRIBUTION}", "another project is called mlsysim too"',
        ),
        ("code", code(s)),
        ("code", "print(answer.explain())"),
    ]
    made = []
    for i, (kind, text) in enumerate(cells):
        cell: dict[str, Any] = {
            "cell_type": kind,
            "id": f"size-{i}-{sha256(text.encode()).hexdigest()[:8]}",
            "metadata": {},
        }
        cell["source"] = text.splitlines(keepends=True)
        made.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {
        "cells": made,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def size(form: Mapping[str, str]) -> dict[str, Any]:
    """What a page shows of a form: three numbers, all rows, what is folded, and the code that repeats it.

    Parameters
    ----------
    form : mapping of str to str
        Texts by field of ``FIELDS``; untrusted.

    Returns
    -------
    dict
        ``answer`` with ``fits``, ``speed``, ``cost`` as numbers, ``first`` and ``rows`` with label, value, unit and text (plain
        text), ``lines`` (plain text), ``pictures`` (title, SVG, numbers and a sentence), ``folds`` (title and safe HTML), ``code``; or ``error`` with the ``field`` that it is about.

    >>> found = size({"model": "Llama-3.1-8B", "device": "H100", "rate": "20"})
    >>> [row["name"] for row in found["first"]], size({"device": "H100"})["field"]
    (['fits', 'speed', 'cost'], 'model')
    """
    return asked(whole, form)


def asked(what: Callable[[Mapping[str, str]], Any], form: Mapping[str, str]) -> dict[str, Any]:
    """What a function says of a form; or ``error``, with the ``field`` that it is about."""
    try:
        return dict(plain(what(form)))  # what is not finite is no JSON
    except FieldError as error:
        return {"error": str(error), "field": error.field}
    except (MlsysimError, ValueError, OverflowError, ZeroDivisionError, RecursionError) as error:
        return {"error": f"{error}", "field": ""}


def three(s: Sized) -> dict[str, Any]:
    """The numbers that come first, and what was assumed."""
    first = (s.fits, s.speed, s.cost)
    return {"answer": {row.name: row.value for row in first}, "first": [vars(row) for row in first], "lines": s.lines}


def whole(form: Mapping[str, str]) -> dict[str, Any]:
    """The same, with errors as the library raises them."""
    s = sized(form)
    drawn = [
        {"title": title, "svg": r.drawing.svg() if r.drawing else "", "rows": r.rows(), "note": r.note}
        for title, r in s.pictures.items()
    ]
    return three(s) | {
        "rows": [vars(row) for row in s.rows],
        "pictures": drawn,
        "folds": [{"title": title, "html": html} for title, html in s.folds.items()],
        "code": code(s),
        "fields": dict(s.job.texts),
    }
