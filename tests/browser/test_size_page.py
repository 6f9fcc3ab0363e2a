"""The page that sizes a job in a browser, offline: ten cases typed into the form beside the library, by keyboard, and clean for axe."""

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest

import mlsysim
from mlsysim.course import sizing
from mlsysim.course.sizing import showing
from mlsysim.course.sizing.showing import EXAMPLE

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "scripts" / "maintain"), str(ROOT / "tests" / "commands")]

from audit_access import AXE  # noqa: E402
from test_sizing import CASES, RUN  # noqa: E402

pytestmark = [pytest.mark.browser, pytest.mark.slow]
RESTS = "() => ['ready', 'error'].includes(document.getElementById('size-it').dataset.state)"
SHOWN = ".size-answer :is(.size-first, table) [data-number]"
NUMBERS = "all => all.map((e) => [e.dataset.number, e.dataset.value])"


def fill(page: Any, form: dict[str, str]) -> None:
    """Type a form, and leave every other field empty."""
    for fold in page.locator(".size-form details").all():
        fold.evaluate("e => { e.open = true; }")
    page.select_option("[name=task]", form.get("task", "serve"))
    for name, field in sizing.FIELDS.items():
        control = page.locator(f"#size-it [name={name}]")
        if name == "task" or not control.is_visible():
            continue
        if field.kind == "choice":
            control.select_option(form.get(name, ""))
        else:
            control.fill(form.get(name, ""))


def sized(page: Any) -> dict[str, str]:
    """Press the button, wait, and read every number by name."""
    page.get_by_role("button", name="Size it").click()
    page.wait_for_function(RESTS)
    return dict(page.locator(SHOWN).evaluate_all(NUMBERS))


def same(there: str, here: Any) -> bool:
    if here is None or isinstance(here, (bool, str)):
        return there == ("" if here is None else str(here))
    return float(there) == pytest.approx(float(here), rel=1e-9)


def test_ten_cases_typed_into_the_page_are_the_library_s(live_site: str, page: Any, watch: Any) -> None:
    seen = watch(page, live_site)
    page.goto(f"{live_site}/book/size-it.html")
    assert len(CASES) == 10
    for name, (form, _) in CASES.items():
        fill(page, form)
        there, here = sized(page), sizing.size(form)
        assert page.locator("#size-said").inner_text() == "", name
        rows = [*here["rows"], *here["first"]]
        assert set(there) == {row["name"] for row in rows}, name
        for row in here["rows"]:
            assert same(there[row["name"]], row["value"]), (name, row)
        shown = page.locator(".size-first strong").all_inner_texts()
        assert shown == [row["text"] for row in here["first"]], name
    assert not seen.outside
    assert not seen.errors


def test_an_address_a_command_a_config_and_an_error(live_site: str, page: Any, watch: Any, tmp_path: Path) -> None:
    seen = watch(page, live_site)
    form = CASES["memory on four"][0]
    query = "&".join(f"{name}={value}" for name, value in form.items())
    page.goto(f"{live_site}/book/size-it.html#size?{query}")
    page.wait_for_function(RESTS)
    assert page.locator(".size-first strong").first.inner_text() == sizing.size(form)["first"][0]["text"]
    heard = showing.heard(sizing.size(form))
    assert page.locator("#size-said").inner_text() == ""  # the link made no claim
    page.evaluate(
        "Object.defineProperty(navigator, 'clipboard', { value: undefined })"
    )  # then the page says what it would copy
    page.locator(".size-share").click()
    link = page.locator("#size-said").inner_text().partition(": ")[2]
    assert parse_qs(link.partition("#size?")[2])["said"] == [heard]
    for claim, told in (
        (link, "So says the link too"),
        (link.replace("said=Does", "said=Dose"), "The link says, with version"),
    ):
        page.goto("about:blank")
        page.goto(claim)
        page.wait_for_function(RESTS)
        assert told in page.locator("#size-said").inner_text()
    for kind in ("JSON", "CSV", "Notebook"):
        with page.expect_download() as coming:
            page.get_by_role("button", name=kind, exact=True).click()
        coming.value.save_as(tmp_path / kind)
    assert (tmp_path / "JSON").read_text(encoding="utf-8") == sizing.export(form, "json")["text"]
    assert (tmp_path / "CSV").read_text(encoding="utf-8") == sizing.export(form, "csv")["text"]
    assert (tmp_path / "Notebook").read_text(encoding="utf-8") == sizing.export(form, "ipynb")["text"]
    page.get_by_text("Paste a command line").click()
    page.locator("#size-command").fill("vllm serve Qwen/Qwen3-32B -tp 2 --max-model-len 4096 --port 1")
    page.get_by_role("button", name="Read it into the form").click()
    page.get_by_text("does not know of: --port 1").wait_for()
    page.wait_for_function(RESTS)
    read = {
        "task": "fits",
        "model": "Qwen/Qwen3-32B",
        "device": "H100",
        "count": "2",
        "tp": "2",
        "max_model_len": "4096",
    }
    assert page.locator(".size-first strong").first.inner_text() == sizing.size(read)["first"][0]["text"]
    config = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config | {"intermediate_size": 128, "vocab_size": 1000}), encoding="utf-8")
    page.locator("#size-file").set_input_files(file)
    page.wait_for_function("() => document.querySelector('.size-answer').innerText.includes('tokens of cache: ')")
    page.wait_for_function(RESTS)
    page.locator("[name=config]").fill("")
    page.locator("[name=model]").fill("Lama")
    page.get_by_role("button", name="Size it").click()
    page.get_by_role("alert").get_by_text("unknown model 'Lama'").wait_for()
    assert page.locator("[name=model]").get_attribute("aria-invalid") == "true"
    assert not page.locator(".size-answer").is_visible(), "it answers the job before, not this one"
    assert page.evaluate("document.activeElement.name") == "model"
    assert not seen.outside
    assert not seen.errors


def test_a_link_with_several_devices_brings_numbers_first_then_pictures_and_the_simulator(
    live_site: str, page: Any, watch: Any
) -> None:
    seen = watch(page, live_site)
    form = {"model": "Llama-3.1-8B", "device": "H100, H200", "rate": "20", "ttft": "1 s", "itl": "40 ms"}
    query = urlencode({"task": "serve", **form})
    page.add_init_script(
        "window.states = []; new MutationObserver((all) => { for (const m of all) if (m.target.id === 'size-it') states.push(m.target.dataset.state); })"
        ".observe(document, {subtree: true, attributeFilter: ['data-state']});"
    )
    page.goto(f"{live_site}/book/size-it.html#size?{query}")
    page.wait_for_function(RESTS)
    assert page.evaluate("states") == ["loading", "first", "ready"]
    here = sizing.size(form)
    assert page.locator(".size-first strong").all_inner_texts() == [row["text"] for row in here["first"]]
    rows = (
        mlsysim.compare_devices("Llama-3.1-8B", ["H100", "H200"], rate=20, slo=mlsysim.SLO(ttft=1, itl=0.04))
        .rows()
        .rows
    )
    assert page.locator(".size-beside tbody tr").evaluate_all("all => all.map((r) => [...r.cells].map((c) => c.textContent))") == [list(r) for r in rows]  # fmt: skip
    titles = [p["title"] for p in here["pictures"]]
    assert page.locator(".size-picture > summary").all_inner_texts() == ["Devices side by side", *titles]
    page.locator(".size-confirmed").get_by_text("Simulated: ").wait_for()
    summary = page.locator(".size-behind .size-picture > summary").first
    summary.focus()
    page.keyboard.press("Enter")  # folded, and so it stays when another job is sized
    page.locator("[name=rate]").fill("30")
    sized(page)
    assert not page.locator(".size-behind .size-picture").first.evaluate("e => e.open")
    assert page.locator(".size-behind .size-picture").nth(1).evaluate("e => e.open")
    for wrong, said in (
        ("rate=1&bogus=2", "'bogus' is no field"),
        ("task=fits&rate=3", "counts where you choose: Serve requests"),
    ):
        page.evaluate("address => { location.hash = address; }", f"size?model=Llama-3.1-8B&device=H100&{wrong}")
        page.get_by_role("alert").get_by_text(said).wait_for()
        assert not page.locator(".size-answer").is_visible()
    assert not seen.outside
    assert not seen.errors


def test_by_keyboard_alone_and_clean_for_axe(live_site: str, page: Any, watch: Any, missing: Any) -> None:
    seen = watch(page, live_site)
    page.goto(f"{live_site}/book/size-it.html")
    page.locator("[name=task]").focus()
    for name in ("model", "device", "count", "rate"):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.name") == name
    page.keyboard.press("Control+A")
    page.keyboard.type("40")
    page.keyboard.press("Enter")
    page.wait_for_function(RESTS)
    form = {**EXAMPLE, "rate": "40"}
    assert page.locator(".size-first strong").first.inner_text() == sizing.size(form)["first"][0]["text"]
    assert page.locator(".live-heard").inner_text().startswith("Does it fit? Yes")
    page.get_by_text("What would change it").focus()
    page.keyboard.press("Enter")
    page.locator(".size-more li").first.wait_for()
    page.get_by_text("Where it comes from").click()
    assert page.locator(".size-answer a[href*='html#eq-']").count() > 3
    for fold in page.locator(".size-it details").all():
        fold.evaluate("e => { e.open = true; }")
    if not AXE.is_file():
        missing("axe-core is not here; with npm, `make setup` puts it into node_modules")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    for width in (1200, 360):
        page.set_viewport_size({"width": width, "height": 900})
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found] == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
    assert not seen.errors


def test_without_scripts_the_worked_example_stands(live_site: str, browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{live_site}/book/size-it.html")
    here = sizing.size(EXAMPLE)
    assert page.locator(".size-first strong").all_inner_texts() == [row["text"] for row in here["first"]]
    assert not page.get_by_role("button", name="Size it").is_visible()
    assert page.get_by_text("so it needs JavaScript").is_visible()
    assert not page.locator("#size-it :is(input, select, textarea)").locator("visible=true").count()
    assert page.locator(".size-asked").is_visible() and "Llama-3.1-8B" in page.locator(".size-asked").inner_text()
    context.close()


def test_a_run_of_one_s_own_moves_the_answer_and_leaves_the_browser_by_no_way(
    live_site: str, page: Any, watch: Any, tmp_path: Path
) -> None:
    seen = watch(page, live_site)
    form = {"model": "Llama-3.1-8B", "device": "H100", "rate": "20", "itl": "20 ms"}
    page.goto(f"{live_site}/book/size-it.html#size?{urlencode({'task': 'serve', **form})}")
    page.wait_for_function(RESTS)
    plain = page.locator(".size-first strong").all_inner_texts()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(f"{request.url} {request.post_data or ''}"))
    file = tmp_path / "bench.json"
    file.write_text(RUN)
    page.locator("#size-run").set_input_files(file)
    page.wait_for_function("() => document.querySelector('.size-answer').innerText.includes('Without it: ')")
    page.wait_for_function(RESTS)
    here = sizing.size({**form, "measured": RUN})
    assert page.locator(".size-first strong").all_inner_texts() == [row["text"] for row in here["first"]] != plain
    assert "measured" not in page.url and not any("total_output_tokens" in one for one in asked)
    assert not seen.outside
    assert not seen.errors
