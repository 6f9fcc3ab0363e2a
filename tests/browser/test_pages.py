"""Every page of the book fits its window, on a phone, a tablet and a desk."""

import json
import re
from pathlib import Path

import pytest
import yaml
from support import NIGHTLY

ROOT = Path(__file__).parents[2]
BOOK = yaml.safe_load((ROOT / "_quarto.yml").read_text(encoding="utf-8"))["book"]
PAGES = [
    p.replace(".qmd", ".html") for p in re.findall(r"[\w/.-]+\.qmd", json.dumps([BOOK["chapters"], BOOK["appendices"]]))
]
WIDTHS = (320, 390, 768, 1280) if NIGHTLY else (320, 390, 1280)  # the narrowest, a phone and the desk by day
# What reaches beyond the window and is not inside a box that scrolls by itself.
TOO_WIDE = """() => {
    const wide = document.documentElement.clientWidth + 1;
    const scrolls = (e) => e && (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
    const found = [...document.body.querySelectorAll("*")].filter(
        (e) => e.getBoundingClientRect().right > wide && !scrolls(e.parentElement) && e.getClientRects().length);
    return [document.documentElement.scrollWidth, found.slice(0, 3).map((e) => e.outerHTML.slice(0, 120))];
}"""


@pytest.fixture(scope="module")
def window(browser):
    """One for all pages, since a new one starts a process and reads every style and script anew."""
    context = browser.new_context(viewport={"width": WIDTHS[0], "height": 900})
    context.set_default_timeout(300_000)
    yield context.new_page()
    context.close()


@pytest.mark.browser
@pytest.mark.parametrize("path", PAGES)
def test_no_page_is_wider_than_its_window(path, book_site, window):
    page = window
    page.goto(f"{book_site}/{path}")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        found, elements = page.evaluate(TOO_WIDE)
        assert found <= width, f"{path} is {found} px wide at {width}: {elements}"


@pytest.mark.browser
def test_the_cheat_sheet_prints_on_two_pages(book_site, page):
    page.goto(f"{book_site}/book/cheatsheet.html")
    printed = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 2


PHONE = {"width": 390, "height": 844}
# What is wider than its box: whether the box says so, and where a caption or a table stands outside one.
CUES = """() => {
    const boxes = [...document.querySelectorAll("main .table-scroll")].filter((b) => b.checkVisibility());
    const wide = boxes.filter((b) => b.scrollWidth > b.clientWidth + 1);
    const bare = [...document.querySelectorAll("main table")].filter((t) => !t.closest(".table-scroll, .live-html, .live-output, .live-shown, .live-inputs"));
    return {
        wide: wide.length,
        silent: wide.filter((b) => b.dataset.more !== "right" || getComputedStyle(b).maskImage === "none").length,
        loud: boxes.filter((b) => !wide.includes(b) && b.dataset.more).length,
        captions: document.querySelectorAll("main .table-scroll caption").length,
        bare: bare.length,
        formulas: [...document.querySelectorAll("main math[display=block]")].filter((m) => {
            for (let b = m; b.tagName !== "MAIN"; b = b.parentElement)
                if (b.scrollWidth > b.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(b).overflowX)) return !b.dataset.more;
            return false;
        }).length,
    };
}"""


@pytest.mark.browser
@pytest.mark.parametrize(
    "path", ["book/01-iron-law.html", "book/03-memory.html", "book/devices.html", "book/notation.html"]
)
def test_what_goes_on_beyond_its_edge_says_so(path, book_site, page):
    """A phone showed a third of all columns off screen with nothing to tell so, and captions were cut with their tables."""
    page.set_viewport_size(PHONE)
    page.goto(f"{book_site}/{path}")
    page.wait_for_function("document.querySelector('[data-more]')")
    found = page.evaluate(CUES)
    assert found["wide"] >= 1
    assert [found[k] for k in ("silent", "loud", "captions", "bare", "formulas")] == [0] * 5, found


@pytest.mark.browser
def test_the_names_of_the_rows_stay_in_sight(book_site, page):
    page.set_viewport_size(PHONE)
    page.goto(f"{book_site}/book/devices.html")
    box = page.locator(".table-scroll[data-first]").first
    before, _ = box.evaluate("b => [b.querySelector('td').getBoundingClientRect().left, b.scrollLeft = 1e6]")
    page.wait_for_function("document.querySelector('.table-scroll[data-first]').dataset.more === 'left'")
    assert box.evaluate("b => b.querySelector('td').getBoundingClientRect().left") == pytest.approx(before, abs=2)


@pytest.mark.browser
def test_the_bar_on_top_of_a_phone_has_one_line_and_the_menu_opens_where_the_reader_is(book_site, page):
    page.set_viewport_size(PHONE)
    page.goto(f"{book_site}/book/24-throughput-interactivity.html")
    bar = page.locator(".topbar, #quarto-header").first
    assert bar.evaluate("b => b.getBoundingClientRect().height") <= 72  # it was 144, a sixth of the screen
    page.locator("#menu, .quarto-btn-toggle").first.click()
    here = page.locator("#sidebar a[aria-current=page], #quarto-sidebar .sidebar-link.active").first
    page.wait_for_function(
        "e => { const b = e.getBoundingClientRect(); return b.top >= 0 && b.bottom <= innerHeight }",
        arg=here.element_handle(),
    )


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_a_page_comes_as_dark_as_the_reader_s_screen(scheme, book_site, browser):
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{book_site}/book/01-iron-law.html")
    red = page.evaluate("Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")
    assert (red < 64) == (scheme == "dark")
    context.close()


@pytest.mark.browser
def test_what_is_folded_is_printed_and_nothing_is_cut(book_site, page):
    page.goto(f"{book_site}/book/01-iron-law.html")
    folded = "[...document.querySelectorAll('details.callout:not([open]) .callout-body > *, .callout-collapse > *')]"
    assert page.evaluate(f"{folded}.filter((e) => !e.checkVisibility()).length") > 0
    page.emulate_media(media="print")
    assert page.evaluate(f"{folded}.filter((e) => !e.checkVisibility()).length") == 0
    cut = "[...document.querySelectorAll('main pre')].filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)"
    page.set_viewport_size({"width": 720, "height": 1000})  # a sheet between its margins
    assert page.evaluate(f"{cut}.map((e) => e.textContent.slice(0, 60))") == []


@pytest.mark.browser
def test_no_link_of_the_front_page_bears_a_whole_title_and_its_answer_is_not_cut(book_site, page):
    page.set_viewport_size(PHONE)
    page.goto(f"{book_site}/index.html")
    answer = page.locator("main pre.prose, main .prose pre").first
    assert answer.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
    assert page.locator("main a.quarto-xref").count() == 0
    assert (
        page.locator("main p > a[href$='book/07-prefill-decode.html']:not(.stop)").inner_text()
        == "the chapter on prefill and decode"
    )


@pytest.mark.browser
def test_the_number_of_an_equation_stands_at_the_margin(book_site, page):
    """It stood below its equation, at the left, in the preview; Quarto writes it into the formula."""
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(f"{book_site}/book/07-prefill-decode.html")
    for equation in page.locator("main .equation").all()[:3]:
        number, box = equation.locator(".equation-number").bounding_box(), equation.bounding_box()
        assert number["x"] > box["x"] + 0.8 * box["width"]
        assert box["y"] <= number["y"] <= box["y"] + box["height"]
