"""The slides of every chapter in a browser: as wide as a beamer and as a phone, with nothing cut off and nothing fetched."""

from pathlib import Path
from typing import Any

import pytest
from slides import decks

from mlsysim.course.exercises import OBJECTIVES

pytestmark = pytest.mark.browser
CUT_OFF = (
    "s => s.scrollHeight > 724 || [...s.querySelectorAll('.formula')].some(f => f.scrollWidth > f.clientWidth + 2)"
)


@pytest.mark.nightly
@pytest.mark.slow
def test_every_chapter_has_slides_that_fit(browser: Any, tmp_path: Path) -> None:
    made = decks.make(tmp_path)
    assert list(made) == list(OBJECTIVES)
    assert sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file()) < 6e6
    for slug, slides in made.items():
        asked: list[str] = []
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.on("request", lambda r, asked=asked: asked.append(r.url))
        page.on("pageerror", lambda e, asked=asked: asked.append(f"error: {e}"))
        page.goto((tmp_path / f"{slug}.html").as_uri())
        page.wait_for_function("window.Reveal && Reveal.isReady()")
        assert page.evaluate("Reveal.getTotalSlides()") == slides + 1
        for number in range(slides + 1):
            page.evaluate(f"Reveal.slide({number})")
            assert not page.evaluate(f"({CUT_OFF})(Reveal.getCurrentSlide())"), (slug, number)
        page.set_viewport_size({"width": 390, "height": 844})
        page.reload()
        page.wait_for_function("window.Reveal && Reveal.isReady()")
        assert page.evaluate("Reveal.isScrollView() && document.documentElement.scrollWidth <= 390"), slug
        assert not [url for url in asked if not url.startswith(("file:", "data:"))], slug
        page.close()
