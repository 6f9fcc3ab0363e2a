"""What a browser keeps of the site: nothing that another page wrote there becomes HTML, and no link makes it forget the engine.

Small pages with the site's own scripts, since what is tried here needs no library and no book.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
QUESTIONS = """<!doctype html><html><body>
<section class="live-questions" data-chapter="02-counting" data-notebook="x.ipynb">
<form class="live-name"><input name="name"></form><progress max="1" value="0"></progress><span class="live-count"></span>
<button class="live-download">Download</button><p class="live-said"></p>
<section data-question="02.1"><p class="live-prompt">as printed</p>
<form><input name="answer"><button>Check</button><button type="button" class="live-hint" data-stages="3">Hint</button></form>
<p class="live-said"></p><div class="live-hints"></div></section></section>
<script type="module" src="live.js" data-live="live.json" data-engine="none" data-version="1"></script></body></html>"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "book" / "assets" / "live.js", tmp_path / "live.js")
    shutil.copy(ROOT / "book" / "assets" / "live-sw.js", tmp_path / "sw.js")
    (tmp_path / "questions.html").write_text(QUESTIONS, encoding="utf-8")
    (tmp_path / "index.html").write_text("<!doctype html><p>home</p>", encoding="utf-8")
    (tmp_path / "live.json").write_text("{}", encoding="utf-8")
    (tmp_path / "vendor" / "engine-0123456789ab").mkdir(parents=True)
    (tmp_path / "vendor" / "engine-0123456789ab" / "start.bin").write_text("the engine", encoding="utf-8")
    return tmp_path


@pytest.mark.regression
def test_what_is_remembered_is_text_and_never_html(site: Path, page: Any, serve: Any, watch: Any) -> None:
    prompt = (
        "<img src=x onerror='window.hurt = 1'><b onclick='hurt()'>Bold</b> <strong class='x'>bare</strong> 1 &lt; 2"
    )
    kept = {
        "prompts.02-counting": {"seed": "ada", "version": "1", "prompts": [None, {"id": "02.1", "prompt": prompt}]},
        "name": "ada",
        "answers.02-counting": {"02.1": None, "02.2": {"text": "3", "correct": "yes", "wrong": "x"}},
    }
    with serve(site) as base:
        seen = watch(page, base)
        page.goto(f"{base}/index.html")
        for name, value in kept.items():
            page.evaluate("([k, v]) => localStorage.setItem(k, v)", [f"mlsysim.{name}", json.dumps(value)])
        page.goto(f"{base}/questions.html")
        page.wait_for_function("() => window.mlsysimLive")
        place = page.locator(".live-prompt")
        assert place.inner_html() == "Bold <strong>bare</strong> 1 &lt; 2"
        assert page.evaluate("() => window.hurt") is None
        assert page.locator(".live-count").inner_text() == "0 of 1 right, 1 tried"
        page.get_by_role("button", name="Hint").click()  # the first is free; this copy has no engine to ask
        page.evaluate("() => document.querySelector('.live-hints').append(document.createElement('div'))")
        page.get_by_role("button", name="Hint").click()
        page.get_by_text("Try an answer first").wait_for()
        assert not seen.errors
        for broken in ("[1]", '"x"', "7", "{"):
            for name in kept:
                page.evaluate("([k, v]) => localStorage.setItem(k, v)", [f"mlsysim.{name}", broken])
            page.reload()
            page.wait_for_function("() => window.mlsysimLive")
        assert not seen.errors


@pytest.mark.regression
def test_a_link_does_not_make_the_site_forget_its_engine(site: Path, page: Any, serve: Any) -> None:
    inside, engine = site / "book-site", "vendor/engine-0123456789ab/start.bin"
    inside.mkdir()
    for part in ("sw.js", "index.html", "vendor"):
        shutil.move(site / part, inside / part)
    (site / "outside.html").write_text("not of the site", encoding="utf-8")
    held = """async () => Object.fromEntries(await Promise.all((await caches.keys()).map(async (n) =>
        [n, (await (await caches.open(n)).keys()).map((r) => new URL(r.url).pathname + new URL(r.url).search)])))"""
    with serve(site) as base:
        page.goto(f"{base}/book-site/index.html")
        page.evaluate(
            "async () => { await navigator.serviceWorker.register('sw.js'); await navigator.serviceWorker.ready; }"
        )
        page.reload()
        page.evaluate(f"() => fetch('{engine}')")
        page.wait_for_function(f"async () => Object.keys(await ({held})()).some((n) => n.includes('0123456789ab'))")
        page.goto(f"{base}/book-site/index.html?/vendor/engine-000000000000/")
        page.evaluate(
            "async (home) => (await navigator.serviceWorker.ready).active.postMessage({ keep: [home + '../outside.html', home + 'index.html?a'] })",
            f"{base}/book-site/",
        )
        page.wait_for_timeout(1000)
        found = page.evaluate(held)
        assert found == {
            "mlsysim-pages": ["/book-site/index.html"],
            "mlsysim-engine-0123456789ab": [f"/book-site/{engine}"],
        }
        (inside / "index.html").write_text("<!doctype html><p>rebuilt</p>", encoding="utf-8")
        page.goto(f"{base}/book-site/index.html?/vendor/engine-000000000000/")
        assert page.get_by_text("rebuilt").is_visible()
