"""Access: no rule of axe-core that it calls serious or critical is broken; boxes fold by keyboard; a way past the menu."""

import csv
import datetime
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_pages import PAGES

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "maintain"))
from access import mended  # noqa: E402
from audit_access import AXE, CHOOSE, DATA, IMPACTS, SCHEMES, TABLE, WIDTHS, table  # noqa: E402

DAY = int(os.environ.get("MLSYSIM_SEED") or datetime.datetime.now(datetime.UTC).date().toordinal())
TODAY = ["index.html", *random.Random(DAY).sample(PAGES[1:], 2)]
QUARTO = """<!DOCTYPE html><html><head></head><body class="quarto-light">
<nav class="quarto-secondary-nav"></nav><nav id="quarto-sidebar" class="x"><a class="t" data-bs-toggle="collapse" role="navigation">Part</a></nav>
<nav id="TOC" role="doc-toc"></nav>
<main class="content" id="quarto-document-content"><h1 class="title">Book</h1><h1>Welcome</h1>
<div class="callout-header d-flex" data-bs-toggle="collapse" aria-expanded="false" aria-label="Toggle callout"><div>Sources</div></div>
<table><caption>Two <em>sides</em></caption><thead><tr><th scope="col"></th><th>a</th></tr></thead></table>
<a href="x.html" class="pagination-link" aria-label="Where?">2 Where?</a></main></body></html>"""


@pytest.fixture(scope="module")
def axe(missing: Any) -> str:
    if not AXE.is_file():
        missing("axe-core is not here; with npm, `make setup` puts it into node_modules")
    return AXE.read_text(encoding="utf-8")


@pytest.fixture(params=SCHEMES)
def dressed(request: pytest.FixtureRequest, browser: Any) -> Iterator[Any]:
    context = browser.new_context(color_scheme=request.param)
    context.set_default_timeout(300_000)
    page = context.new_page()
    page.add_init_script(f"({CHOOSE})({request.param!r})")
    yield page
    context.close()


def broken(page: Any, axe: str) -> list[str]:
    """What axe calls serious or critical on the page, in both widths."""
    page.evaluate(axe)
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        found += [
            f"{width}: {v['id']} ({v['impact']}), {len(v['nodes'])}: {v['nodes'][0]['html'][:160]}"
            for v in result["violations"]
            if v["impact"] in ("critical", "serious")
        ]
    return found


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("path", TODAY)
def test_nothing_serious_is_broken_on_the_pages_of_the_day(path: str, dressed: Any, axe: str, book_site: str) -> None:
    dressed.goto(f"{book_site}/{path}")
    assert broken(dressed, axe) == []


@pytest.mark.nightly
@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES)
def test_nothing_serious_is_broken_on_any_page(path: str, dressed: Any, axe: str, book_site: str) -> None:
    dressed.goto(f"{book_site}/{path}")
    assert broken(dressed, axe) == []


@pytest.mark.browser
@pytest.mark.parametrize("path", [PAGES[1], "book/devices.html"])
def test_the_keyboard_passes_the_menu_and_opens_a_box(path: str, page: Any, book_site: str) -> None:
    page.goto(f"{book_site}/{path}")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the text"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")
    box = page.locator("details.callout > summary, .callout-header[role=button]").first
    if path.endswith("devices.html"):
        box.focus()
        before = page.evaluate("document.documentElement.scrollHeight")
        page.keyboard.press("Enter")
        page.wait_for_function(f"document.documentElement.scrollHeight > {before}")


@pytest.mark.browser
def test_one_title_named_landmarks_and_boxes_that_scroll_are_stops(page: Any, book_site: str) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    for path in ("index.html", PAGES[1]):
        page.goto(f"{book_site}/{path}")
        assert page.locator("h1").count() == 1
        names = page.evaluate(
            "[...document.querySelectorAll('nav')].map((n) => n.getAttribute('aria-label') || n.getAttribute('aria-labelledby'))"
        )
        assert all(names) and len(set(names)) == len(names), names
    page.wait_for_function("document.querySelector('[data-reach=yes]')")
    assert page.evaluate("[...document.querySelectorAll('[data-reach=yes]')].every((b) => b.tabIndex === 0)")


WALKED = [p for p in PAGES if not p.removeprefix("book/")[:2].isdigit()]
# What a hand without a mouse must reach, in view: marked, so that the walk can tick it off.
REACHABLE = """() => {
    const asked = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']";
    const seen = (e) => e.checkVisibility({visibilityProperty: true}) && e.getClientRects().length && !e.disabled && e.tabIndex >= 0;
    const grouped = (e) => e.type === "radio" && document.querySelector(`input[name='${e.name}']:checked, input[name='${e.name}']`) !== e;
    const found = [...document.querySelectorAll(asked)].filter((e) => seen(e) && !grouped(e));
    found.forEach((e, i) => e.dataset.stop = i);
    return found.length;
}"""
STANDS = """() => {
    const e = document.activeElement, s = getComputedStyle(e), box = e.getBoundingClientRect();
    const ring = (s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0) || s.boxShadow !== "none";
    const inside = box.bottom > 0 && box.top < innerHeight;
    return [e.dataset.stop ?? "", ring, inside, e.outerHTML.slice(0, 160)];
}"""


@pytest.mark.nightly
@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("path", WALKED)
def test_the_keyboard_reaches_all_that_can_be_used_and_shows_where_it_stands(
    path: str, page: Any, book_site: str
) -> None:
    page.goto(f"{book_site}/{path}")
    stops = page.evaluate(REACHABLE)
    assert stops > 5
    met, unseen = set(), []
    for _ in range(stops + 5):
        page.keyboard.press("Tab")
        stop, ring, inside, html = page.evaluate(STANDS)
        if stop in met or html.startswith("<body"):
            break
        met.add(stop)
        if not (ring and inside):
            unseen.append(html)
    missed = [n for n in range(stops) if str(n) not in met]
    first = page.evaluate(
        "(n) => document.querySelector(`[data-stop='${n}']`)?.outerHTML.slice(0, 160)", missed[:1] and missed[0]
    )
    assert not missed, f"{len(missed)} of {stops} are never reached, first {first}"
    assert not unseen, f"{len(unseen)} of {stops} do not show that they have the focus, first {unseen[0]}"


def test_what_quarto_s_pages_lack_is_mended_once() -> None:
    once = mended(QUARTO, "../")
    assert mended(once, "../") == once
    assert '<a class="skip-link" href="#quarto-document-content">' in once
    assert '<script src="../book/assets/access.js" defer></script>' in once
    assert once.count("<h1") == 1 and "<h2>Welcome</h2>" in once
    assert '<div role="button" tabindex="0" class="callout-header' in once and "Toggle callout" not in once
    assert '<a tabindex="0" class="t" data-bs-toggle="collapse" role="button">' in once
    assert "<td></td><th>a</th>" in once
    assert (
        '<div class="table-caption" id="caption-1">Two <em>sides</em></div><div class="table-scroll" role="group" aria-label="Two sides"><table'
        in once
    )
    assert 'class="pagination-link">2 Where?' in once
    for name in ("Menu", "Chapters", "On this page"):
        assert once.count(f'aria-label="{name}"') == 1


def test_the_report_is_made_of_the_audits_and_finds_nothing_serious_now() -> None:
    rows = list(csv.DictReader(DATA.open(encoding="utf-8")))
    assert TABLE.read_text(encoding="utf-8") == table(rows)
    now = [r for r in rows if r["audit"] == "now"]
    assert {(r["scheme"], int(r["width"])) for r in now} == {(s, w) for s in SCHEMES for w in WIDTHS}
    assert all(r[i] == "0" for r in now for i in IMPACTS[:2])
