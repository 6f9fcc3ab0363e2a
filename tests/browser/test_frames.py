"""A drawing that moves: one still at a time by button and key, all of them in print and where there is no script."""

from pathlib import Path

import pytest

from mlsysim.course import pictures

ASSETS = Path(__file__).parents[2] / "book" / "assets"
pytestmark = [pytest.mark.browser, pytest.mark.slow]
SHOWN = "[...document.querySelectorAll('.frames li')].filter((li) => li.offsetParent !== null).length"


def whole(script: bool = True) -> str:
    frames = pictures.ring_all_reduce()
    style = (ASSETS / "frames.css").read_text(encoding="utf-8")
    code = f"<script>{(ASSETS / 'frames.js').read_text(encoding='utf-8')}</script>" if script else ""
    return f"<!doctype html><html lang=en><head><style>{style}</style></head><body><main>{frames._repr_html_()}</main>{code}</body></html>"


def test_buttons_and_keys_step_through_the_stills(page) -> None:
    page.set_content(whole())
    count = page.locator(".frames li").count()
    assert count == 7
    assert page.evaluate(SHOWN) == 1
    back, forward = page.get_by_label("one step back"), page.get_by_label("one step on")
    assert back.is_disabled()
    forward.click()
    assert page.locator(".frames-bar").inner_text().splitlines()[1].strip() == f"2 of {count}"
    assert "2 of 7" in page.locator(".frames-live").inner_text(), "the step is said aloud"
    page.locator(".frames").focus()
    page.keyboard.press("End")
    assert forward.is_disabled()
    page.keyboard.press("ArrowLeft")
    assert page.locator(".frames-bar span").first.inner_text() == f"{count - 1} of {count}"
    page.keyboard.press("Home")
    assert back.is_disabled()
    assert page.evaluate(SHOWN) == 1


def test_no_still_is_lost_in_print_or_without_the_script(page) -> None:
    page.set_content(whole(script=False))
    assert page.evaluate(SHOWN) == 7
    page.set_content(whole())
    page.emulate_media(media="print")
    assert page.evaluate(SHOWN) == 7
    assert page.locator(".frames-bar").is_hidden()


def test_nothing_plays_by_itself_where_motion_is_not_wanted(page) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.set_content(whole())
    assert page.get_by_label("play all steps").count() == 0
    page.emulate_media(reduced_motion="no-preference")
    page.set_content(whole())
    page.get_by_label("play all steps").click()
    page.wait_for_function("document.querySelector('.frames-bar span').textContent === '3 of 7'", timeout=300_000)
    page.get_by_label("stop").click()
