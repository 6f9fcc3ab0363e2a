"""The HTML of a live page's parts, before anybody has touched it."""

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from mlsysim.course.live import HINTS, as_html, question
from mlsysim.course.readings import digits, listed

__all__ = ["as_html", "listing", "machine", "questions", "view"]


def view(name: str, spec: Mapping[str, Any], found: Mapping[str, Any], needs: str = "") -> str:
    """A view under its sliders, at their starting values."""
    controls = "".join(_control(name, n, s, found["texts"][n]) for n, s in spec["sliders"].items())
    presets = "".join(
        f'<button type="button" class="live-button" data-preset="{escape(json.dumps(positions))}">{escape(text)}</button>'
        for text, positions in spec["presets"].items()
    )
    bar = f'{presets}<button type="button" class="live-button live-reset">Reset</button><button type="button" class="live-button live-share">Copy the address</button>'
    figure = f'<figure class="live-figure">{found["figure"]}</figure>' if found.get("figure") else ""
    shown = f'<div class="live-shown">{found.get("shown", "")}</div>' if not found.get("figure") else ""
    said = (
        f"It needs {needs}, which a page has not: its sliders move in the notebook."
        if needs
        else found.get("error", "")
    )
    lacks = f' data-needs="{needs}"' if needs else ""
    objective = (
        f' <span class="live-objective">({escape(spec["objective"].lower())})</span>' if spec["objective"] else ""
    )
    return (
        f'<section class="live-view" id="{name.replace("_", "-")}" data-live-view="{name}" data-state="static"{lacks} aria-label="{escape(spec["title"])}">'
        f'<p class="live-title">{escape(spec["title"])}{objective}</p>'
        f'<div class="live-controls">{controls}</div><div class="live-bar">{bar}</div>'
        f'<div class="live-reading">{figure}{shown}<dl>{listed(found.get("rows", []))}</dl><p class="note">{escape(found.get("note", ""))}</p></div>'
        "<noscript><p>The sliders need JavaScript; these are the numbers where they stand at first.</p></noscript>"
        f'<p class="live-said">{escape(said)}</p><p class="live-heard" role="status"></p></section>'
    )


def _control(view: str, name: str, slider: Mapping[str, Any], text: str) -> str:
    id_ = f"{view}-{name}".replace("_", "-")
    start = slider["position"]
    common = f'id="{id_}" data-slider="{name}" data-start="{start}"'
    label = escape(slider["label"][:1].upper() + slider["label"][1:])
    if slider["kind"] == "choice":
        values = escape(json.dumps([v if isinstance(v, (int, float, str)) else str(v) for v in slider["values"]]))
        options = "".join(
            f"<option{' selected' * (i == start)}>{escape(t)}</option>" for i, t in enumerate(slider["texts"])
        )
        return f'<div class="live-control"><label for="{id_}">{label}</label><select {common} data-values="{values}" autocomplete="off">{options}</select></div>'
    where = (
        f'data-values="{escape(json.dumps(slider["values"], separators=(",", ":")))}"'
        if "values" in slider
        else f'data-low="{digits(slider["low"])}" data-step="{digits(slider["step"])}"'
    )
    return (
        f'<div class="live-control"><label for="{id_}">{label} <output for="{id_}">{escape(text)}</output></label>'
        f'<input type="range" {common} min="0" max="{slider["n"] - 1}" step="1" value="{start}" autocomplete="off" {where} '
        f'data-unit="{escape(slider["unit"])}" aria-valuetext="{escape(text)}"></div>'
    )


def machine() -> str:
    """The place where a page measures the reader's own machine; print has none."""
    return (
        '<section class="live-view" id="machine" data-machine data-state="static" aria-label="Your own machine on the roofline">'
        '<p class="live-title">Your own machine on the roofline</p>'
        "<p>A copy, a triad and a product run here: in WebAssembly on one thread of your processor and, where the browser has it, in WebGPU. "
        "It takes half a minute, and nothing leaves your browser.</p>"
        '<div class="live-bar"><button type="button" class="live-button">Measure this machine</button>'
        '<button type="button" class="live-button" hidden>Download it for the catalogue</button></div>'
        '<div class="live-shown"></div><noscript><p>Measuring needs JavaScript.</p></noscript><p class="live-said" role="status"></p></section>'
    )


def listing(number: int, found: Mapping[str, Any]) -> str:
    """What stands below a listing: what it prints, and the place of the buttons."""
    error = found["error"]
    said = f'<p class="live-said{" live-wrong" * bool(error)}" role="status">{escape(error)}</p>'
    output = f'<div class="live-output" role="region" aria-label="Output of listing {number}" tabindex="0">{found["shown"]}</div>'
    return f'<div class="live-listing" data-listing="{number}" data-state="static">{output}{said}</div>'


def questions(slug: str, ids: list[str]) -> str:
    """All questions of a chapter, with the numbers of the public example."""
    items = "".join(_question(question(id)) for id in ids)
    return (
        f'<section class="live-questions" data-chapter="{slug}" data-notebook="../exercises/{slug}/student.ipynb" aria-label="Questions">'
        "<p>The numbers below are those of the public example. With your name in the field they become yours; the name and your answers stay in this browser.</p>"
        f'<form class="live-name"><label>Your name or student id <input name="name" maxlength="200" autocomplete="off"></label><button class="live-button">Give me my numbers</button></form>'
        f'<div class="live-progress"><progress max="{len(ids)}" value="0" aria-label="Right answers of this chapter"></progress><span class="live-count"></span>'
        '<button type="button" class="live-button live-download">Download my answers</button></div>'
        f'<p class="live-said" role="status"></p>{items}</section>'
    )


def _question(q: Mapping[str, Any]) -> str:
    if q["answers"]:
        options = "".join(f"<option>{escape(a)}</option>" for a in q["answers"])
        field = f'<select name="answer" autocomplete="off"><option value="">choose</option>{options}</select>'
    elif q["form"] in ("function", "data"):
        field = f'<textarea name="answer" rows="{4 + q["starter"].count(chr(10))}" cols="72" maxlength="8000" autocomplete="off" autocapitalize="off" spellcheck="false" placeholder="{escape(q["starter"])}"></textarea>'
    else:
        field = '<input name="answer" maxlength="200" autocomplete="off" autocapitalize="off" spellcheck="false">'
    unit = f" in {escape(q['unit'])}, or with a unit" if q["unit"] not in ("", "1") else ""
    points = f"{q['points']} point{'s' * (q['points'] > 1)}"
    return (
        f'<section class="live-question" data-question="{q["id"]}" data-state="static" id="question-{q["id"].replace(".", "-")}">'
        f'<h3>{q["id"]} {escape(q["title"])} <span class="live-objective">({points})</span></h3><p class="live-prompt">{q["prompt"]}</p>'
        f'<form><label>Answer{unit} {field}</label><button class="live-button">Check</button>'
        f'<button type="button" class="live-button live-hint" data-stages="{HINTS}">Hint</button></form>'
        '<p class="live-said" role="status"></p><div class="live-hints"></div></section>'
    )
