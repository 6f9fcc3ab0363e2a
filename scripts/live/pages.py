"""Puts live views, listings, questions and numbers into the pages of a rendered site, whoever rendered it."""

import contextlib
import json
import os
import re
import shutil
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from html import escape, unescape
from pathlib import Path
from typing import Any

from mlsysim import __version__
from mlsysim.course.exercises import assignment
from mlsysim.course.live import View, open_view, run
from mlsysim.course.sizing import showing

from . import blocks, numbers
from .engine import CACHE, ROOT
from .extract import Found, kept, missing, read, searches

HERE = re.compile(r'<div class="live-here" data-view="(\w+)">\s*</div>')
GUEST = re.compile(r'<div class="live-here" data-view="(?P<view>\w+)" data-of="(?P<of>[\w-]+)">\s*</div>')
SIZING = re.compile(r'<div class="live-here" data-sizing="form">\s*</div>')
MACHINE = re.compile(r'<div class="live-here" data-machine="roofline">\s*</div>')
QUESTIONS = re.compile(r'<div class="live-here" data-questions="[\w.]*">\s*</div>')
CODE = re.compile(
    r'(?P<scaffold><div class="code-copy-outer-scaffold">)?(?P<block><div class="sourceCode"[^>]*><pre class="sourceCode python[^"]*">.*?</pre></div>)'
    r"(?(scaffold)\s*<button[^>]*>.*?</button></div>)",
    re.S,
)
PRINTED = re.compile(r'<span class="printed" data-var="([\w.-]+)">')
TOLD = re.compile(r"\[@(eq-[\w-]+)\]")  # how explain() names an equation
NUMBERED = re.compile(r'<a [^>]*href="[^"]*#(eq-[\w-]+)"[^>]*>(.*?)</a>', re.S)
LARGE = ("20-estimators", "22-case-studies")  # their programs take tens of megabytes, which every page would carry
FENCE = re.compile(r"^```python\n(.*?)^```$", re.S | re.M)


class LiveError(SystemExit):
    """A page and its notebook do not fit together; the message says where."""


@dataclass(frozen=True)
class Chapter:
    """All that is live in a chapter, as its page shows it first."""

    slug: str
    views: dict[str, tuple[str, str]]  # name: program, HTML
    listings: list[str]
    questions: str
    answers: dict[str, dict[str, Any]]  # of views that the engine does not keep warm


def listings(text: str) -> list[str]:
    """The Python listings of a chapter's source."""
    return FENCE.findall(text)


def is_kept_warm(slug: str, code: str) -> bool:
    """Whether the engine's memory holds what a view reads first: not tens of megabytes, and not thousands of plans."""
    return slug not in LARGE and not searches(code)


def _answers(view: View) -> dict[str, Any]:
    """What a view shows one choice away from its start, by slider and position: a page need not wait for Python to show it."""
    return {f"{name}:{at}": view.move({name: at}) for choice in view.to_prepare for name, at in choice.items()}


def _view(slug: str, found: Found) -> tuple[str, str, dict[str, Any]]:
    try:
        found = kept(found)
        opened = open_view(found.code)
        spec, shown = opened.spec(), opened.move({})
        answers = {} if is_kept_warm(slug, found.code) else _answers(opened)
    except Exception as error:
        raise LiveError(f"live: {found.name} (cell {found.cell}): {type(error).__name__}: {error}") from error
    return found.code, blocks.view(found.name, spec, shown, "NumPy" if missing(found.code) else ""), answers


def chapter(slug: str) -> Chapter:
    """Run everything that a chapter shows; each view once, at its start."""
    made = {found.name: _view(slug, found) for found in read(ROOT / "notebooks" / f"{slug}.ipynb")}
    space: dict[str, Any] = {"__name__": "__main__"}
    outputs = []
    for n, code in enumerate(listings((ROOT / "book" / f"{slug}.qmd").read_text(encoding="utf-8")), 1):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # what a listing writes is not ours
            found = run(code, space)
        if found["error"]:
            raise LiveError(f"live: book/{slug}.qmd, listing {n}: {found['error']}")
        outputs.append(blocks.listing(n, found))
    views = {name: (code, html) for name, (code, html, _) in made.items()}
    answers = {name: known for name, (*_, known) in made.items() if known}
    return Chapter(slug, views, outputs, blocks.questions(slug, [e.id for e in assignment(slug)]), answers)


def named(site: Path) -> dict[str, str]:
    """Every equation as the page of equations names it: its number, by its label."""
    page = site / "book" / "equations.html"
    found = NUMBERED.findall(page.read_text(encoding="utf-8")) if page.is_file() else []
    return {label: unescape(re.sub("<[^>]+>", "", text)).strip() for label, text in found}


def told(text: str, names: dict[str, str], up: str) -> str:
    """A page whose texts name equations by number, with a link to where each is derived, and not by a label."""
    known = numbers.places()
    return TOLD.sub(
        lambda m: (
            f'<a class="live-equation" href="{up}{known[m[1]]}">{escape(names.get(m[1]) or m[1][3:].replace("-", " "))}</a>'
            if m[1] in known
            else m[0]
        ),
        text,
    )


def _digest(slug: str) -> str:
    files = [
        ROOT / "notebooks" / f"{slug}.ipynb",
        ROOT / "book" / f"{slug}.qmd",
        *sorted((ROOT / "scripts/live").glob("*.py")),
    ]
    files += [p for p in sorted((ROOT / "mlsysim").rglob("*")) if p.is_file() and p.suffix != ".pyc"]
    total = sha256()
    for file in files:
        total.update(file.read_bytes())
    return total.hexdigest()[:16]


def made(slug: str) -> dict[str, Any]:
    """The same as data, from the cache where nothing has changed."""
    kept = CACHE / "chapters" / f"{slug}-{_digest(slug)}.json"
    if not kept.is_file():
        done = chapter(slug)
        kept.parent.mkdir(parents=True, exist_ok=True)
        for old in kept.parent.glob(f"{slug}-*.json"):
            old.unlink()
        text = json.dumps({n: getattr(done, n) for n in ("views", "listings", "questions", "answers")})
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_text(text, encoding="utf-8")
        part.replace(kept)
    found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    return found


def slugs() -> list[str]:
    """The chapters that have a notebook."""
    return [p.stem for p in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))]


def put(site: Path, engine: str | None, only: list[str] | None = None) -> dict[str, int]:
    """Make the pages of a site live; returns what was put in, by kind."""
    chosen = [s for s in slugs() if (site / "book" / f"{s}.html").is_file() and (only is None or s in only)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        chapters = dict(zip(chosen, pool.map(made, chosen), strict=True))
    counts = dict.fromkeys(("views", "listings", "questions", "numbers"), 0)
    names = named(site)
    _named(site, engine)
    for page in [site / "index.html", *sorted((site / "book").glob("*.html"))]:
        if page.is_file():
            for kind, n in _page(site, page, chapters.get(page.stem), engine, names).items():
                counts[kind] += n
    return counts


def engine_of(site: Path) -> str | None:
    """The digest of the engine in a rendered site, or None where there is none."""
    made = sorted((site / "book/assets/vendor").glob("engine*/made"), key=lambda path: len(path.parent.name))
    return (
        made[0].read_text() if made else None
    )  # one that was just rendered goes before the named one of an earlier build


def _named(site: Path, engine: str | None) -> None:
    """The engine's folder gets the digest of what it holds, so that a browser may keep it for good; the keeper lies on top."""
    if engine and (new := site / "book/assets/vendor/engine").is_dir():
        for old in new.parent.glob("engine-*"):
            shutil.rmtree(old)
        new.rename(new.parent / f"engine-{engine}")
    shutil.copyfile(ROOT / "book/assets/live-sw.js", site / "sw.js")


def _page(
    site: Path, page: Path, found: dict[str, Any] | None, engine: str | None, names: dict[str, str]
) -> dict[str, int]:
    text = page.read_text(encoding="utf-8")
    if "data-live=" in text:  # made before
        return {}
    counts = {"views": 0, "listings": 0, "questions": 0, "numbers": 0}
    known: dict[str, Any] = {"views": {}, "numbers": {}}
    if found:
        text = _views(page.stem, text, found["views"], counts)
        text = _listings(page.stem, text, found["listings"], counts)
        text, n = QUESTIONS.subn(lambda _: found["questions"], text)
        if n != 1:
            raise LiveError(
                f'live: book/{page.stem}.qmd has {n} places for its questions; give one ::: {{.live-here questions="all"}} :::'
            )
        counts["questions"] = found["questions"].count("data-question=")
        known["views"] = {name: code for name, (code, _) in found["views"].items()}
        known["answers"] = found["answers"]
        known["works"] = numbers.works("".join(found["listings"]))
    text, sized = SIZING.subn(lambda _: showing.page(), text)
    if sized:
        known["places"] = numbers.places()
    text, measured = MACHINE.subn(lambda _: blocks.machine(), text)
    text, guests = _guests(page.stem, text)
    known["views"] |= guests
    counts["views"] += len(guests)
    keys = set(PRINTED.findall(text))
    counts["numbers"] = len(PRINTED.findall(text))
    known["numbers"] = {key: numbers.origin(key) for key in sorted(keys)}
    up = "book/" if page.parent == site else ""
    if found or TOLD.search(text):
        text = told(text, names, up)
        known["equations"] = {label: [up + href, names.get(label, label)] for label, href in numbers.places().items()}
    moving = _moving(text, up)
    if not (found or keys or guests or sized or measured):
        page.write_text(moving, encoding="utf-8")
        return {}
    text = moving
    data = json.dumps(known, ensure_ascii=False, separators=(",", ":"))
    version = f"{__version__}-{engine or 'none'}-{sha256(data.encode()).hexdigest()[:8]}"
    (site / "book" / "live").mkdir(exist_ok=True)
    (site / "book" / "live" / f"{page.stem}.json").write_text(data, encoding="utf-8")
    head = (
        f'<link rel="stylesheet" href="{up}assets/live.css">\n<script type="module" src="{up}assets/live.js" '
        f'data-live="{up}live/{page.stem}.json?{version[-8:]}" data-version="{version}" data-engine="{engine or "none"}" data-weight="{weight(site)}"></script>\n</head>'
    )
    if sized:
        sizer = f'<link rel="stylesheet" href="{up}assets/size.css">\n<script type="module" src="{up}assets/size.js"></script>\n</head>'
        head = head.replace("</head>", sizer)
    if measured:
        head = head.replace("</head>", f'<script type="module" src="{up}assets/machine.js"></script>\n</head>')
    page.write_text(text.replace("</head>", head, 1), encoding="utf-8")
    return counts


def _guests(name: str, text: str) -> tuple[str, dict[str, str]]:
    """Views of another chapter's notebook that a page shows: ``::: {.live-here view="view_x" of="01-iron-law"}``."""
    programs: dict[str, str] = {}

    def place(match: re.Match[str]) -> str:
        views = made(match["of"])["views"] if match["of"] in slugs() else {}
        if match["view"] not in views or match["view"] in programs:
            raise LiveError(
                f"live: {name}: {match['view']} is no view of {match['of']}, or stands twice; give one of {sorted(views)}"
            )
        programs[match["view"]], shown = views[match["view"]]
        return str(shown)

    return GUEST.sub(place, text), programs


def _moving(text: str, up: str) -> str:
    """A page with drawings that move gets the script that makes steppers of them."""
    if '<div class="frames"' not in text or "frames.js" in text:
        return text
    head = f'<link rel="stylesheet" href="{up}assets/frames.css">\n<script src="{up}assets/frames.js" defer></script>\n</head>'
    return text.replace("</head>", head, 1)


def filled(slug: str, text: str) -> str:
    """A chapter's HTML with its views, listings and questions in it, for print: no script, no data."""
    if SIZING.search(text):
        return SIZING.sub(lambda _: showing.printed(), text)
    text, _ = _guests(slug, text)
    if slug not in slugs():
        return told(text, {}, "book/" if slug == "index" else "")
    found, counts = made(slug), {"views": 0, "listings": 0}
    text = _listings(slug, _views(slug, text, found["views"], counts), found["listings"], counts)
    return told(QUESTIONS.sub(lambda _: found["questions"], text), {}, "")


def _views(slug: str, text: str, views: dict[str, list[str]], counts: dict[str, int]) -> str:
    placed = HERE.findall(text)
    for wrong in sorted(set(placed) ^ set(views)) + [n for n in set(placed) if placed.count(n) > 1]:
        what = "is no view of its notebook, or stands twice" if wrong in placed else "has no place in the text"
        raise LiveError(f'live: book/{slug}.qmd: {wrong} {what}; write ::: {{.live-here view="{wrong}"}} :::')
    counts["views"] = len(placed)
    return HERE.sub(lambda m: views[m[1]][1], text)


def _listings(slug: str, text: str, outputs: list[str], counts: dict[str, int]) -> str:
    blocks_ = [m for m in CODE.finditer(text) if "cell-code" not in m["block"][:200]]
    if len(blocks_) != len(outputs):
        raise LiveError(f"live: {slug}: {len(blocks_)} listings in the page, {len(outputs)} in its source")
    counts["listings"] = len(outputs)
    for match, output in reversed(list(zip(blocks_, outputs, strict=True))):
        titles = {key: escape(title) for key, title in numbers.works(output).items()}  # explain() has keys
        text = text[: match.end()] + numbers.cited(output, titles) + text[match.end() :]
    return text


def weight(site: Path) -> int:
    """Bytes of the engine that a first touch waits for, which its bar counts."""
    parts = ("pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json", "library.bin", "start.bin")
    made = (site / "book/assets/vendor").glob("engine*/*")
    return sum(p.stat().st_size for p in made if p.name in parts)


def main() -> None:
    """For a trial: ``python -m live.pages SITE``."""
    print(put(Path(sys.argv[1]), "trial"))
