"""What a page gives its reader beyond its text: a guess that comes back, links that show, tables that sort, and search."""

import math
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from mlsysim.drawing.small import Curves, Trace

sys.path.append(str(Path(__file__).parents[2] / "scripts"))

CHAPTER = "book/01-iron-law.html"
pytestmark = pytest.mark.browser


def test_a_guess_is_kept_and_comes_back_at_its_answer_beside_the_book_s(book_site: str, page: Any) -> None:
    page.goto(f"{book_site}/{CHAPTER}")
    assert page.locator(".guessed").inner_text() == ""
    page.get_by_role("textbox", name="How many times longer").fill("8 times")
    page.get_by_label("Why, in a sentence").fill("eight <b>rows</b>")
    page.goto(f"{book_site}/book/02-counting.html")
    assert page.locator(".guess-form input").input_value() == ""
    page.goto(f"{book_site}/{CHAPTER}")
    assert page.get_by_role("textbox", name="How many times longer").input_value() == "8 times"
    told = page.locator(".guessed").inner_text()
    assert "You guessed 8 times, the book says the same." in told
    assert "eight <b>rows</b>" in told
    yours, ours = (page.locator(f".guessed circle.guess-{who}").bounding_box()["x"] for who in ("yours", "book"))
    assert yours - ours > 100  # a factor of eight on an axis of one decade or two


def test_a_guess_stands_in_the_view_whose_axis_it_is(book_site: str, page: Any) -> None:
    page.goto(f"{book_site}/book/11-reliability.html")
    written = [0.5, 30.0, 600.0]
    drawn = Curves("goodput", "minutes", written, [Trace("yours", written)], 30.0, str, str, x_log=True).svg()
    page.evaluate(
        """svg => {
            document.querySelectorAll("[data-live-view=view_interval]").forEach((one) => one.remove());
            document.querySelector("main").insertAdjacentHTML("beforeend",
                `<section data-live-view="view_interval"><figure class="live-figure">${svg}</figure></section>`);
        }""",
        drawn,
    )
    field, view = page.get_by_role("textbox", name="How often should it have saved"), page.locator(".live-figure").last
    here, line = view.locator("p.guess-here"), view.locator("path.guess-here")
    field.fill("600 s")  # ten minutes, on an axis of minutes
    assert here.inner_text() == "Your guess: 600 s"
    share = math.log(10 / 0.5) / math.log(600 / 0.5)
    assert float(line.get_attribute("d")[1:].split()[0]) == pytest.approx(56 + share * (350 - 56), rel=1e-4)
    field.fill("9 s")
    assert line.count() == 0 and here.inner_text() == "Your guess: 9 s, beyond this axis"
    field.fill("")
    assert here.count() == 0


def test_without_scripts_a_prediction_reads_as_before(book_site: str, browser: Any) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{book_site}/{CHAPTER}")
        assert page.locator(".guess, .guessed").count() == 2
        assert "".join(page.locator(".guess, .guessed").all_inner_texts()) == ""


@pytest.mark.parametrize(
    ("guess", "marks"),
    [("75 %", 1), ("0.75", 1), ("a third", 0), ("two thirds, I think", 1), ("40 days", 0), ("1e9", 1)],
)
def test_a_guess_stands_beside_the_answer_only_where_both_are_numbers_of_one_unit(
    guess: str, marks: int, book_site: str, page: Any
) -> None:
    page.goto(f"{book_site}/book/05-parallelism.html")
    page.locator(".guess-form input").fill(guess)
    assert page.locator(".guessed .guess-scale").count() == marks
    assert guess in page.locator(".guessed").inner_text()


LINKS = {
    'a[href*="glossary.html#gl-token"]': "piece of",
    'a.quarto-xref[href$="#eq-iron-law"]': "dispatch",
    'a[role="doc-biblioref"][href="#ref-williams2009roofline"]': "Roofline",
}


@pytest.mark.parametrize(("link", "says"), LINKS.items())
def test_a_link_shows_what_it_leads_to_under_a_hand_and_with_the_focus(
    link: str, says: str, book_site: str, page: Any
) -> None:
    page.goto(f"{book_site}/{CHAPTER}")
    one, shown = page.locator(f"main {link}").first, page.locator(".hint:visible, .tippy-box")
    one.hover()
    page.wait_for_function(
        "says => [...document.querySelectorAll('.hint:not([hidden]), .tippy-box')].some((e) => e.textContent.includes(says))",
        arg=says,
    )
    box = shown.first.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= page.viewport_size["width"]
    page.mouse.move(0, 0)
    page.wait_for_function("() => !document.querySelector('.hint:not([hidden])')")
    page.keyboard.press("Tab")
    one.focus()
    shown.first.wait_for()
    page.keyboard.press("Escape")
    page.wait_for_function("() => !document.querySelector('.hint:not([hidden])')")


def test_the_first_tap_shows_and_the_second_follows(book_site: str, browser: Any) -> None:
    with browser.new_context(
        has_touch=True, viewport={"width": 390, "height": 844}, service_workers="block"
    ) as context:
        page = context.new_page()
        page.goto(f"{book_site}/{CHAPTER}")
        term = page.locator('main a[href*="glossary.html#gl-token"]').first
        term.tap()
        page.locator(".hint", has_text="piece of").wait_for()
        assert page.url.endswith(CHAPTER)
        term.tap()
        page.wait_for_url("**/glossary.html#gl-token")


def test_a_long_table_sorts_by_amount_and_back_and_filters(book_site: str, page: Any) -> None:
    page.goto(f"{book_site}/book/devices.html")
    table = page.locator("main table").first

    def column(n: int) -> list[str]:
        return [t.strip() for t in table.locator(f"tbody td:nth-child({n})").all_inner_texts()]

    names = column(1)
    head = table.locator("th", has_text="Bandwidth")
    n = 1 + table.locator("th").all_inner_texts().index(head.inner_text())
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    size = {"GB/s": 1e9, "TB/s": 1e12}
    rates = [float(v) * size[u] for v, u in (t.replace("\u00a0", " ").split() for t in column(n) if t != "–")]
    assert rates == sorted(rates)
    assert rates[0] < 1e12 < rates[-1]
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert column(1) != names
    head.get_by_role("button").click()
    assert column(1) == names
    page.get_by_label("Find in this table").fill("h100 80gb")
    left = table.locator("tbody tr:visible td:first-child").all_inner_texts()
    assert left
    assert all("H100" in name and "80GB" in name for name in left)
    assert f"{len(left)} of {len(names)} rows" in page.locator(".filter output").inner_text()


def test_the_preview_is_searched_offline(
    book_site: str, shared: Path, serve: Any, page: Any, watch: Any, missing: Any, tmp_path: Path
) -> None:
    from made import book

    if not shutil.which("npm") or not shutil.which("node"):
        missing("npm and Node are not installed")
    from live import search

    site = tmp_path / "site"
    shutil.copytree(book(shared).site, site)
    assert search.put(site) > 1000
    with serve(site) as base:
        seen = watch(page, base)
        page.goto(f"{base}/book/glossary.html")
        field = page.get_by_label("Search the book")
        field.fill("roofline")
        first = page.locator(".find li a").first
        first.wait_for()
        assert "roofline" in first.inner_text().lower()
        field.fill("gpipe buble")  # a slip of the hand
        page.locator(".find li a", has_text="Waiting").wait_for()
        field.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_url("**/*#*")
        assert not seen.outside
        assert not seen.errors


def test_one_field_finds_rows_in_tables_that_are_folded(book_site: str, page: Any) -> None:
    page.goto(f"{book_site}/book/reality.html")
    field = page.get_by_label("Find in the tables of this page")
    assert field.is_visible()  # and not in the first fold itself
    rows = page.locator("main tbody tr", has_text="H200")
    assert rows.first.is_hidden()
    field.fill("h200 throughput")
    rows.locator("visible=true").first.wait_for()
    seen = page.locator("main table:has(button.sort) tbody tr:visible").all_inner_texts()
    assert seen
    assert all("h200" in row.lower() and "throughput" in row.lower() for row in seen)
    assert page.locator(".filter output").inner_text().startswith(f"{len(seen)} of ")
