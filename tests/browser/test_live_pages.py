"""Live pages in a browser, offline: sliders, listings, questions and numbers, and the library's own values beside them.

By day one chapter is walked; all of them where MLSYSIM_NIGHTLY=1.
"""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from support import BY_DAY, NIGHTLY

from mlsysim import __version__
from mlsysim.course import exercises, live

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from live import extract  # noqa: E402

SLUGS = sorted(p.stem for p in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
pytestmark = [pytest.mark.browser, pytest.mark.slow]
MOVED = """async (name) => {
  const view = window.mlsysimLive.views.get(name);
  while (view.moving || !['ready', 'error'].includes(view.root.dataset.state)) await new Promise((go) => setTimeout(go, 5));
  return view.root.dataset.state;
}"""


def close(page: str, here: str) -> bool:
    """Whether two values are the same to nine digits, or the same word."""
    try:
        return float(page) == pytest.approx(float(here), rel=1e-9, abs=1e-300, nan_ok=True)
    except ValueError:
        return page == here


@pytest.mark.parametrize("slug", SLUGS if NIGHTLY else [BY_DAY])
def test_every_slider_moves_by_keyboard_and_the_numbers_are_the_library_s(live_site, page, watch, slug):
    seen = watch(page, live_site)
    page.goto(f"{live_site}/book/{slug}.html")
    views = {found.name: live.open_view(found.code) for found in extract.read(ROOT / "notebooks" / f"{slug}.ipynb")}
    shown = page.locator("[data-live-view]").evaluate_all(
        "all => all.map((e) => [e.dataset.liveView, e.dataset.state])"
    )
    assert sorted(name for name, _ in shown) == sorted(views)
    assert {state for _, state in shown} == {"static"}
    asleep = page.evaluate(
        "performance.getEntriesByType('resource').filter((e) => e.initiatorType === 'script' || /engine|worker/.test(e.name)).map((e) => e.name)"
    )
    assert not [name for name in asleep if "engine" in name or "worker" in name], "nothing starts before a touch"
    for name, view in views.items():
        root = page.locator(f"[data-live-view={name}]")
        if root.get_attribute("data-needs"):
            assert "notebook" in root.locator(".live-said").inner_text()
            continue
        positions = view.start()
        for slider in view.sliders:
            control = root.locator(f"[data-slider={slider}]")
            last = len(view.values[slider]) - 1
            control.focus()
            key, step = ("ArrowRight", 1) if positions[slider] < last else ("ArrowLeft", -1)
            if isinstance(view.sliders[slider].value, str) or control.evaluate("e => e.tagName") == "SELECT":
                key = {"ArrowRight": "ArrowDown", "ArrowLeft": "ArrowUp"}[key]
            if last == 0:
                continue
            page.keyboard.press(key)
            positions[slider] += step
            assert page.evaluate(MOVED, name) == "ready", (name, slider, root.locator(".live-said").inner_text())
            there = root.locator("dd[data-number]").evaluate_all(
                "all => all.map((e) => [e.dataset.number, e.dataset.value])"
            )
            here = view.move(positions)
            if "error" in here:
                assert root.locator(".live-said").inner_text() == here["error"]
                continue
            assert [label for label, _ in there] == [label for label, _, _ in here["rows"]], (name, slider)
            for (label, value), (_, expected, _) in zip(there, here["rows"], strict=True):
                assert close(value, expected), (name, slider, label, value, expected)
            assert root.locator("figure svg").count() >= 1 or not here["figure"], name
    assert not seen.outside
    assert not seen.errors


def test_sliders_and_their_main_number_stand_on_one_screen_of_a_phone_above_a_sentence_that_follows_them(
    live_site, page
):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{live_site}/book/{BY_DAY}.html")
    heights = page.locator(".live-view[data-live-view]").evaluate_all(
        "all => all.map((v) => [v.id, v.querySelector('dl > div').getBoundingClientRect().bottom - v.querySelector('.live-controls').getBoundingClientRect().top])"
    )
    assert heights and [h for h in heights if h[1] > 844] == []
    root = page.locator("[data-live-view=view_roofline]")
    before = root.locator(".note").inner_text()
    assert before.startswith("“datasheet” is ")
    root.locator("[data-slider=intensity]").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(
        "before => document.querySelector('[data-live-view=view_roofline] .note').innerText !== before", arg=before
    )


def test_a_position_can_be_shared_and_reset(live_site, page):
    page.goto(f"{live_site}/book/{BY_DAY}.html#view_roofline?device=A100-SXM4-80GB&efficiency=0.5")
    assert page.evaluate(MOVED, "view_roofline") == "ready"
    root = page.locator("[data-live-view=view_roofline]")
    assert root.locator("[data-slider=efficiency]").get_attribute("aria-valuetext") in ("0.5", "50.0 %")
    assert root.locator("[data-slider=device]").input_value() == "A100-SXM4-80GB"
    page.evaluate(
        "Object.defineProperty(navigator, 'clipboard', { value: undefined })"
    )  # then the page says what it would copy
    root.locator(".live-share").click()
    link = root.locator(".live-said").inner_text().partition(": ")[2]
    assert f"&version={__version__}" in link
    page.goto("about:blank")
    page.goto(link)
    assert page.evaluate(MOVED, "view_roofline") == "ready"
    assert "So says the link too" in root.locator(".live-said").inner_text()
    page.goto("about:blank")
    page.goto(re.sub("said=[^&]*", "said=" + quote("9 TFLOP/s <b>"), link))
    assert page.evaluate(MOVED, "view_roofline") == "ready"
    assert f"with version {__version__}: 9 TFLOP/s <b>. This is version" in root.locator(".live-said").inner_text()
    before = root.locator("dl").inner_text()
    root.get_by_role("button", name="Reset").click()
    page.wait_for_function(
        "before => document.querySelector('[data-live-view=view_roofline] dl').innerText !== before", arg=before
    )
    assert "#" not in page.url


@pytest.mark.parametrize("slug", SLUGS if NIGHTLY else [BY_DAY])
def test_a_right_and_a_wrong_answer_in_the_page(live_site, page, watch, slug, tmp_path):
    seen = watch(page, live_site)
    page.goto(f"{live_site}/book/{slug}.html")
    ids = [e.id for e in exercises.assignment(slug)]
    shown = page.locator("[data-question]").evaluate_all("all => all.map((e) => e.dataset.question)")
    assert shown == ids
    page.get_by_label("Your name or student id").fill("Ada")
    page.get_by_role("button", name="Give me my numbers").click()
    page.get_by_text("These are the numbers of Ada.").wait_for()
    id_ = next(
        e.id for e in exercises.assignment(slug) if not e.answers
    )  # of chapter 13 a search among thousands of plans
    exercise = exercises.exercise(id_)
    item = page.locator(f'[data-question="{id_}"]')
    prompt = item.locator(".live-prompt").inner_text()
    assert prompt.split() == re.sub(r"[`*]", "", exercise.prompt.format_map(exercise.draw("Ada").texts())).split()
    right = exercise.solve(exercises.inputs(id_, "Ada"))
    for answer, correct in ((float(right) * 3.7, "false"), (float(right), "true")):
        item.get_by_role("textbox").fill(repr(answer))
        item.get_by_role("button", name="Check").click()
        page.wait_for_function(
            f"() => document.querySelector('[data-question=\"{id_}\"]').dataset.correct === '{correct}'"
        )
        assert (
            item.locator(":scope > .live-said").inner_text() in live.checked(id_, repr(answer), "Ada")["message"]
            or correct == "false"
        )
    item.get_by_role("button", name="Hint").click()
    item.locator(".live-one-hint").first.wait_for()
    assert page.locator(".live-count").inner_text() == f"1 of {len(ids)} right"
    page.reload()  # the name and the answers stay in this browser
    assert page.get_by_label("Your name or student id").input_value() == "Ada"
    assert page.locator(f'[data-question="{id_}"] .live-prompt').inner_text() == prompt
    assert page.locator(".live-count").inner_text() == f"1 of {len(ids)} right"
    with page.expect_download() as coming:
        page.get_by_role("button", name="Download my answers").click()
    coming.value.save_as(tmp_path / "Ada.ipynb")
    text = "".join(
        "".join(c["source"]) for c in json.loads((tmp_path / "Ada.ipynb").read_text(encoding="utf-8"))["cells"]
    )
    assert "STUDENT = 'Ada'" in text
    assert f"answer_{id_.partition('.')[2]} = {float(right)!r}" in text
    assert not seen.outside
    assert not seen.errors


def test_a_listing_runs_is_changed_says_errors_and_can_be_stopped(live_site, page, watch):
    seen = watch(page, live_site)
    page.goto(f"{live_site}/book/{BY_DAY}.html")
    listing = page.locator(".live-listing").first
    printed = listing.locator(".live-output").inner_text()
    assert "memory-bound" in printed

    def run(code: str) -> None:
        page.evaluate("code => window.mlsysimLive.listings[0].editor.set(code)", code)
        listing.get_by_role("button", name="Run").click()

    listing.get_by_role("button", name="Run").click()
    page.wait_for_function("() => document.querySelector('.live-listing').dataset.state === 'ready'")
    assert listing.locator(".live-output").inner_text() == printed
    listing.get_by_role("button", name="Edit").click()
    listing.locator(".cm-content").wait_for()
    run("from mlsysim import units\nprint('changed', units.format(2.0, 's'))")
    listing.get_by_text("changed 2 s").wait_for()
    run("from mlsysim import units\nunits.parse('3 GB', 's')")
    listing.get_by_text(re.compile("line 2: ")).wait_for()
    run("while True:\n    pass")
    listing.get_by_role("button", name="Stop").click()
    listing.get_by_text("Stopped").wait_for()
    run("print('up again')")
    listing.get_by_text("up again").wait_for()
    listing.get_by_role("button", name="As printed").click()
    assert listing.locator(".live-output").inner_text() == printed
    assert not seen.outside
    assert not seen.errors


KERNEL = """def kernel_time(flops, bytes):
    return max(flops / (PEAK * EFFICIENCY), bytes / (BANDWIDTH * SHARE), LEAST)"""


def test_a_task_is_answered_with_code_in_the_page(live_site, page, watch, tmp_path):
    """Right, wrong with the hint of that mistake, no Python, and a loop that never ends, which Stop ends."""
    seen = watch(page, live_site)
    page.goto(f"{live_site}/book/{BY_DAY}.html")
    item = page.locator('[data-question="01.12"]')
    box, line = item.locator("textarea"), item.locator(":scope > .live-said")
    g = exercises.inputs("01.12")
    code = KERNEL
    for name, key in (
        ("PEAK", "peak"),
        ("EFFICIENCY", "efficiency"),
        ("BANDWIDTH", "bandwidth"),
        ("SHARE", "memory_efficiency"),
        ("LEAST", "least"),
    ):
        code = code.replace(name, repr(g[key]))
    no_least = code.replace(f", {g['least']!r})", ")")

    def check(text: str) -> None:
        box.fill(text)
        item.get_by_role("button", name="Check").click()

    assert "def kernel_time" in (box.get_attribute("placeholder") or "")
    for text, correct in ((no_least, "false"), ("def kernel_time(:", "false"), (code, "true")):
        check(text)
        page.wait_for_function(
            "([text, correct]) => { const i = document.querySelector('[data-question=\"01.12\"]');"
            " return i.dataset.state === 'ready' && i.dataset.correct === correct"
            " && window.mlsysimLive.questions[0].answers['01.12'].text === text; }",
            arg=[text, correct],
        )
        assert line.inner_text() == re.sub("<.*?>", "", live.checked("01.12", text)["message"])
    assert not item.get_by_role("button", name="Stop").is_visible()
    check("def kernel_time(flops, bytes):\n    while True:\n        pass")
    item.get_by_role("button", name="Stop").click()
    item.get_by_text("Stopped; this try does not count.").wait_for()
    check(code)
    item.get_by_text("Correct: right in all").wait_for()
    with page.expect_download() as coming:
        page.get_by_role("button", name="Download my answers").click()
    coming.value.save_as(tmp_path / "mine.ipynb")
    assert f"{g['least']!r})" in (tmp_path / "mine.ipynb").read_text(encoding="utf-8")
    assert not seen.outside
    assert not seen.errors


def test_a_number_says_what_printed_it_and_can_be_challenged(live_site, page, watch):
    seen = watch(page, live_site)
    page.goto(f"{live_site}/book/{BY_DAY}.html")
    number = page.locator('.printed[data-var="iron.h100.ridge_bf16"]').first
    assert number.get_attribute("role") is None  # quiet, until somebody asks
    number.click()
    box = page.get_by_role("dialog")
    box.get_by_text("roofline.ridge_point(", exact=False).first.wait_for()
    box.get_by_role("button", name="Challenge this number").click()
    report = box.get_by_role("textbox").input_value()
    assert "iron.h100.ridge_bf16" in report
    assert "eq-ridge-point" in report
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Numbers answer").click()
    assert number.get_attribute("role") == "button"
    number.focus()
    page.keyboard.press("Enter")
    assert box.is_visible()
    assert not seen.outside
    assert not seen.errors


def test_a_page_once_visited_works_offline_and_a_changed_one_is_never_stale(live_folder, page, serve, tmp_path):
    folder = tmp_path / "site"
    source = live_folder
    for part in ("book", "site_libs", "site_preview", "figures"):
        if (source / part).is_dir():
            shutil.copytree(source / part, folder / part)
    for part in ("sw.js", "index.html"):
        shutil.copy(source / part, folder / part)
    engine = "performance.getEntriesByType('resource').map((e) => e.name).filter((n) => n.includes('/engine-'))"
    held = """async () => (await Promise.all((await caches.keys()).map(async (n) => (await (await caches.open(n)).keys()).map((r) => r.url)))).flat()"""
    with serve(folder) as base:
        address = f"{base}/book/{BY_DAY}.html"
        page.goto(address)
        page.wait_for_function("() => navigator.serviceWorker.controller")
        root = page.locator("[data-live-view=view_roofline]")
        root.locator("[data-slider=efficiency]").press("ArrowLeft")
        assert page.evaluate(MOVED, "view_roofline") == "ready"
        before = root.locator("dl").inner_text()
        page.wait_for_function(
            f"async () => {{ const all = await ({held})(); return all.some((u) => u.endsWith('start.raw')) && all.some((u) => u.endsWith('{BY_DAY}.html')); }}"
        )
        text = (folder / "book" / f"{BY_DAY}.html").read_text(encoding="utf-8")
        (folder / "book" / f"{BY_DAY}.html").write_text(text.replace("<h1", "<p>rebuilt</p><h1", 1), encoding="utf-8")
        page.reload()
        assert page.get_by_text("rebuilt", exact=True).is_visible(), "the network has the first word"
    page.goto(address)  # nobody answers there any more
    assert page.get_by_text("rebuilt", exact=True).is_visible()
    assert not page.evaluate(engine)
    root.locator("[data-slider=efficiency]").press("ArrowLeft")
    assert page.evaluate(MOVED, "view_roofline") == "ready"
    assert root.locator("dl").inner_text() == before


def test_a_start_shows_how_much_has_come_and_a_failure_says_so_in_words(live_site, browser):
    """71 billion stood above the numbers of 70, and "TypeError: Failed to fetch" below them."""
    context = browser.new_context(service_workers="block")
    context.set_default_timeout(300_000)
    page = context.new_page()
    held: list[Any] = []
    page.route("**/pyodide.asm.wasm", lambda route: held.append(route))
    page.goto(f"{live_site}/book/{BY_DAY}.html")
    root = page.locator("[data-live-view=view_roofline]")
    slider, said = root.locator("[data-slider=efficiency]"), root.locator(".live-said")
    shown = slider.input_value(), root.locator("output").first.inner_text(), root.locator("dl").inner_text()
    slider.press("ArrowLeft")
    page.wait_for_function(
        "() => { const b = document.querySelector('[data-live-view=view_roofline] .live-said progress'); return b && b.value > 1e6 && b.max > 2e7; }"
    )
    assert re.match(r"Starting Python: \d+ MB, once for the whole book\.", said.inner_text())
    for route in held:
        route.abort()
    assert page.evaluate(MOVED, "view_roofline") == "error"
    words = said.inner_text()
    assert "pyodide.asm.wasm did not arrive. Is there a connection?" in words and "TypeError" not in words
    assert (slider.input_value(), root.locator("output").first.inner_text(), root.locator("dl").inner_text()) == shown
    page.unroute("**/pyodide.asm.wasm")
    slider.press("ArrowLeft")
    assert page.evaluate(MOVED, "view_roofline") == "ready"
    context.close()


def test_every_check_leaves_a_sign(live_site, page):
    page.goto(f"{live_site}/book/{BY_DAY}.html")
    item = page.locator('[data-question="01.1"]')
    for attempt, text in enumerate(("12.5 km", "12.5 km", "12.5 km"), 1):
        item.get_by_role("textbox").fill(text)
        item.get_by_role("button", name="Check").click()
        item.get_by_text(f"checked, attempt {attempt}").wait_for()


def test_equations_are_named_by_their_numbers_when_a_listing_runs_again(live_site, page):
    page.goto(f"{live_site}/book/{BY_DAY}.html")
    listing = page.locator(".live-listing").first
    printed = listing.locator(".live-output").inner_text()
    assert "[@eq-" not in printed and "Equation\u00a01." in printed
    assert "nvidia2023h100" not in printed and "(2023)" in printed
    listing.get_by_role("button", name="Run").click()
    page.wait_for_function("() => document.querySelector('.live-listing').dataset.state === 'ready'")
    assert listing.locator(".live-output").inner_text() == printed
    assert listing.locator("a.live-equation").first.get_attribute("href").startswith("01-iron-law.html#eq-")


@pytest.mark.nightly
def test_without_its_memory_the_engine_starts_anew(live_site, browser):
    context = browser.new_context(service_workers="block")
    context.set_default_timeout(300_000)
    context.route("**/start.bin", lambda route: route.fulfill(status=404))
    page = context.new_page()
    page.goto(f"{live_site}/book/{BY_DAY}.html")
    page.locator("[data-live-view=view_roofline] [data-slider=efficiency]").press("ArrowLeft")
    assert page.evaluate(MOVED, "view_roofline") == "ready"
    context.close()


def test_without_scripts_the_page_is_a_book(live_site, browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{live_site}/book/{BY_DAY}.html")
    view: Any = page.locator("[data-live-view=view_roofline]")
    assert view.get_attribute("data-state") == "static"
    assert view.locator("dd[data-number]").count() > 1
    assert view.locator("figure svg").is_visible()
    assert not view.locator("input[type=range]").first.is_visible()
    assert page.locator("[data-question='01.1'] .live-prompt").is_visible()
    assert not page.locator("[data-question='01.1'] form").is_visible()
    assert view.locator("noscript p").is_visible()
    assert view.locator("select").first.is_visible(), "a label without its value says nothing"
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{live_site}/book/{BY_DAY}.html")
    assert page.locator("h1").bounding_box()["y"] < 844, "the menu comes after the text"
    context.close()
