"""The form and the answer as HTML, the same at build time and in a reader's browser."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from mlsysim import catalog
from mlsysim.course.readings import listed
from mlsysim.course.sizing.answers import compared
from mlsysim.course.sizing.exports import size
from mlsysim.course.sizing.fields import FIELDS, FILES, MOST_TEXT, TASKS, Field
from mlsysim.course.sizing.pictures import of_compared
from mlsysim.errors import InputError

EXAMPLE: Mapping[str, str] = {
    "task": "serve",
    "model": "Llama-3.1-8B",
    "device": "H100",
    "rate": "20",
    "input_len": "1024",
    "output_len": "256",
    "ttft": "1 s",
}


def first(found: Mapping[str, Any]) -> str:
    """The three numbers as HTML, and what was assumed."""
    rows = "".join(
        f'<li><span class="size-label">{escape(row["label"])}</span> {_number(row)}</li>' for row in found["first"]
    )
    said = "".join(f"<li>{escape(line)}</li>" for line in found["lines"])
    return f'<ul class="size-first">{rows}</ul>' + (f'<ul class="size-lines">{said}</ul>' if said else "")


def behind(found: Mapping[str, Any]) -> str:
    """What stands behind them as HTML: pictures, every row in a fold, and the other folds."""
    rows = "".join(
        f"<tr><th scope='row'>{escape(row['label'])}</th><td>{_number(row, 'span')}</td></tr>" for row in found["rows"]
    )
    drawn = "".join(picture(p["title"], p["svg"], p["rows"], p["note"]) for p in found["pictures"])
    folds = [("Every number", f"<table><tbody>{rows}</tbody></table>" if rows else "<p>None.</p>")]
    folds += [(fold["title"], fold["html"]) for fold in found["folds"]]
    folds.append(("The same in Python", f'<pre class="live-text"><code>{escape(found["code"])}</code></pre>'))
    return f'<div class="size-pictures">{drawn}</div>{"".join(_fold(*fold) for fold in folds)}'


def answer(found: Mapping[str, Any]) -> str:
    """What :func:`size` returned as HTML."""
    return first(found) + behind(found)


def picture(title: str, svg: str, rows: Sequence[Any], note: str, table: str = "") -> str:
    """A picture that a keyboard reaches by its heading, with its numbers, and a sentence that says what it shows."""
    figure = f'<figure class="live-figure">{svg}</figure>' if svg else ""
    numbers = f"<dl>{listed(rows)}</dl>" if rows else ""
    return (
        f'<details class="size-picture" open><summary>{escape(title)}</summary><div class="live-reading">{figure}'
        f'{table}{numbers}<p class="note">{escape(note)}</p></div></details>'
    )


def side_by_side(form: Mapping[str, str]) -> dict[str, Any]:
    """Several devices as a picture and a table; empty where the form names one."""
    if (found := compared(form)) is None:
        return {"html": ""}
    r, rows = of_compared(found)
    table = rows._repr_html_()
    html = f'<div class="live-html" tabindex="0" role="group" aria-label="Devices side by side">{table}</div>'
    return {"html": picture("Devices side by side", r.drawing.svg() if r.drawing else "", [], r.note, html)}


def listing(lines: Sequence[str]) -> str:
    """What would change an answer, as HTML."""
    items = "".join(f"<li>{escape(line.strip())}</li>" for line in lines)
    return f"<ul>{items}</ul>" if lines else "<p>Nothing that this page asks.</p>"


def _fold(title: str, html: str) -> str:
    html = re.sub(r">(eq-[\w-]+)</td>", r"><code>\1</code></td>", html)  # a label is code, as everywhere in the book
    return (
        f'<details class="size-fold"><summary>{escape(title)}</summary>'
        f'<div class="live-html" tabindex="0" role="group" aria-label="{escape(title)}">{html}</div></details>'
    )


def _number(row: Mapping[str, Any], tag: str = "strong") -> str:
    value = "" if row["value"] is None else row["value"]
    return f'<{tag} data-number="{escape(row["name"])}" data-value="{escape(str(value))}">{escape(row["text"])}</{tag}>'


def heard(found: Mapping[str, Any]) -> str:
    """The three numbers as a sentence, for a screen reader."""
    return "; ".join(f"{row['label']} {row['text']}" for row in found["first"])


def _control(f: Field, value: str) -> str:
    name, id_ = f.name, f"size-{f.name.replace('_', '-')}"
    common = f'id="{id_}" name="{name}" data-tasks="{" ".join(f.tasks)}"'
    label = f'<label for="{id_}">{escape(f.label)}</label>'
    if f.kind == "choice":
        texts = TASKS if name == "task" else dict.fromkeys(f.choices)
        empty = "" if name == "task" else '<option value="">as it comes</option>'
        options = "".join(
            f'<option value="{escape(c)}"{" selected" if c == value else ""}>{escape(text or c)}</option>'
            for c, text in texts.items()
        )
        control = f"<select {common}>{empty}{options}</select>"
    else:
        lists = {"model": "size-models", "device": "size-places", "grid": "size-grids"}
        listed = f' list="{lists[name]}"' if name in lists else ""
        digits = ' inputmode="numeric"' if f.kind == "whole" else ""
        hint = f' placeholder="{escape(f.example)}"' if f.example else ""
        control = f'<input type="text" {common}{listed}{digits}{hint} value="{escape(value)}" maxlength="{MOST_TEXT}" autocomplete="off" spellcheck="false">'
    return f'<div class="live-control size-control">{label}{control}</div>'


def _datalist(id: str, names: Sequence[str]) -> str:
    return f'<datalist id="{id}">{"".join(f"<option value={chr(34)}{escape(n)}{chr(34)}></option>" for n in names)}</datalist>'


def page(example: Mapping[str, str] = EXAMPLE) -> str:
    """The whole place of the page: form, and the answer to the example.

    Raises
    ------
    InputError
        The example has no answer.
    """
    found = size(example)
    if "error" in found:
        raise InputError(f"sizing: the worked example has no answer: {found['error']}")
    main = "".join(_control(f, example.get(f.name, "")) for f in FIELDS.values() if not f.fold and f.name not in FILES)
    folded = "".join(_control(f, example.get(f.name, "")) for f in FIELDS.values() if f.fold)
    lists = (
        _datalist("size-models", list(catalog.models()))
        + _datalist("size-places", [*catalog.devices(), *catalog.nodes()])
        + _datalist("size-grids", list(catalog.grids()))
    )
    paste = (
        '<details class="size-fold"><summary>Paste a command line</summary>'
        '<label for="size-command">A <code>vllm serve</code> or <code>torchrun</code> command line; it is read, not run</label>'
        '<textarea id="size-command" rows="4" maxlength="20000" spellcheck="false"></textarea>'
        '<button type="button" class="live-button size-read">Read it into the form</button>'
        '<div class="size-told" role="status"></div></details>'
    )
    config = (
        '<details class="size-fold size-config"><summary>Use a config.json instead of a name</summary>'
        '<label for="size-config">The text of a model\'s <code>config.json</code>; drop the file here, or paste it</label>'
        '<textarea id="size-config" name="config" data-tasks="serve fits train" rows="5" spellcheck="false"></textarea>'
        '<label for="size-file">Or choose the file</label><input type="file" id="size-file" accept=".json,application/json"></details>'
    )
    run = (
        '<details class="size-fold size-control"><summary>A run of your own, which moves the answer</summary>'
        '<label for="size-measured">What <code>vllm bench serve</code>, <code>sglang.bench_serving</code> or another tool wrote, or the log of your training; it is read '
        "here and leaves this browser by no way, so that the address of the job does not have it</label>"
        '<textarea id="size-measured" name="measured" data-tasks="serve train" rows="5" spellcheck="false"></textarea>'
        '<label for="size-run">Or choose the file</label><input type="file" id="size-run"></details>'
    )
    exports = "".join(
        f'<button type="button" class="live-button" data-export="{kind}">{text}</button>'
        for kind, text in (("json", "JSON"), ("csv", "CSV"), ("ipynb", "Notebook"))
    )
    return (
        f'<section class="size-it" id="size-it" data-state="static" aria-label="Size a job">'
        f'<p class="size-asked">A worked example: {escape(_asked(example))}. Other jobs need JavaScript, which this page waits for.</p>'
        f'<form class="size-form" hidden novalidate>{lists}<div class="live-controls">{main}</div>{config}{run}{paste}'
        f'<details class="size-fold"><summary>Splits, formats, price and grid</summary><div class="live-controls">{folded}</div></details>'
        '<div class="live-bar"><button type="submit" class="live-button size-go">Size it</button>'
        '<button type="button" class="live-button size-share">Copy the address</button></div></form>'
        '<p class="live-said" id="size-said" role="alert"></p><p class="live-heard" role="status"></p>'
        f'<div class="size-answer"><div class="size-now">{first(found)}</div><p class="size-confirmed" role="status"></p>'
        f'<div class="size-beside"></div><div class="size-behind">{behind(found)}</div></div>'
        '<details class="size-fold size-more" hidden><summary>What would change it</summary><div class="live-html"></div></details>'
        f'<div class="live-bar size-exports" hidden><span>Take it away as</span>{exports}</div></section>'
    )


def _asked(example: Mapping[str, str]) -> str:
    """What was asked, in words."""
    return "; ".join(f"{FIELDS[name].label}: {TASKS.get(text, text)}" for name, text in example.items())


def printed(example: Mapping[str, str] = EXAMPLE) -> str:
    """The worked example on paper: what was asked, three numbers, and the call that repeats them."""
    found = size(example)
    lines = [f"{row['label']}: {row['text']}" for row in found["first"]]
    items = "".join(f"<li>{escape(line)}</li>" for line in [*lines, *found["lines"]])
    return f"<p>{escape(_asked(example))}.</p><ul>{items}</ul><pre>{escape(found['code'])}</pre>"
