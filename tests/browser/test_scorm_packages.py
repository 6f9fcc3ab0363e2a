"""Packages for course systems in a browser, in a run-time that is not ours (scorm-again): SCORM 2004, and 1.2 by night.

The server below is a course system's: it keeps what the run-time commits, and begins an attempt anew or again from that.
"""

import contextlib
import http.server
import json
import re
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import NIGHTLY

from mlsysim.course.exercises import assignment, inputs

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent / "scorm"
sys.path.insert(0, str(ROOT / "scripts"))

import make_scorm  # noqa: E402
from live import engine  # noqa: E402
from make_live import make_engine  # noqa: E402

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SLUG, LEARNER = "29-beyond-language", "mü-4711"
ASKED = assignment(SLUG)
TOTAL = sum(e.points for e in ASKED)


class System(http.server.SimpleHTTPRequestHandler):
    """A course system that serves one package, and keeps one learner's attempt."""

    def log_message(self, *_: object) -> None:
        pass

    def translate_path(self, path: str) -> str:
        top, _, rest = path.partition("?")[0].lstrip("/").partition("/")
        folder = {"package": self.server.package, "run-time": self.server.run_time}.get(top)  # type: ignore[attr-defined]
        return str(folder / rest) if folder else str(HERE / top)

    def do_GET(self) -> None:
        if self.path == "/favicon.ico":
            self._answer(b"", 204)
        elif self.path == "/attempt":
            self._answer(json.dumps(self.server.attempt).encode())  # type: ignore[attr-defined]
        else:
            super().do_GET()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.down:  # type: ignore[attr-defined]
            self._answer(b"{}", 500)
            return
        self.server.cmi = json.loads(body)["cmi"]  # type: ignore[attr-defined]
        self._answer(b'{"result": "true", "errorCode": 0}')

    def _answer(self, body: bytes, code: int = 200) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # a beacon's page has gone
            self.wfile.write(body)


class Course:
    """A learner in front of a package: launches, answers, and what the course system then has in its books."""

    def __init__(self, page: Any, version: str, server: Any, base: str) -> None:
        self.page, self.version, self.server, self.base = page, version, server, base
        self.new_attempt()

    @property
    def is_2004(self) -> bool:
        return self.version == "2004"

    def new_attempt(self, **more: str) -> None:
        self.server.cmi = {}
        self._begin("ab-initio", more)

    def _begin(self, entry: str, more: dict[str, str]) -> None:
        own = {"entry": entry} | more
        cmi = {"suspend_data": self.server.cmi.get("suspend_data", "")} if entry == "resume" else {}
        self.server.attempt = (
            cmi | {"learner_id": LEARNER} | own if self.is_2004 else cmi | {"core": {"student_id": LEARNER} | own}
        )

    def launch(self, page: Any = None, options: str = "") -> Any:
        """Load the course system's page with the package in it; the package's frame."""
        page = page or self.page
        if self.server.cmi:
            self._begin("resume", {})
        page.goto(f"{self.base}/lms.html?version={self.version}{options}")
        frame = page.frame_locator("iframe")
        frame.locator(".course-system").wait_for()
        return frame

    def answer(self, frame: Any, exercise: Any, right: bool) -> None:
        item = frame.locator(f'[data-question="{exercise.id}"]')
        g = inputs(exercise.id, LEARNER)
        if exercise.form == "word":
            text = exercise.solve(g) if right else next(a for a in exercise.answers if a != exercise.solve(g))
            item.locator("select").select_option(text)
        elif exercise.form == "number":
            item.get_by_role("textbox").fill(repr(float(exercise.solve(g)) * (1 if right else 3.7)))
        elif exercise.form == "function":
            draw = f"from mlsysim import *\nfrom mlsysim.course import inputs\nSEED = {LEARNER!r}\n"
            item.get_by_role("textbox").fill(
                draw + exercise.solution if right else "def wrong(*given):\n    return None"
            )
        else:
            item.get_by_role("textbox").fill(repr(exercise.solve(g)) if right else "{}")
        item.get_by_role("button", name="Check").click()
        item.get_by_text("checked, attempt").wait_for()
        assert (item.get_attribute("data-correct") == "true") is right, item.locator(".live-said").inner_text()

    def books(self) -> dict[str, Any]:
        """Score from 0 to 1, and what is said of the attempt, as the course system has them."""
        cmi = self.server.cmi
        if self.is_2004:
            score = cmi["score"]
            scaled = float(score["scaled"]) if score["scaled"] != "" else None
            assert scaled is None or abs(float(score["raw"]) / float(score["max"]) - scaled) < 1e-3
            return {"score": scaled, "status": (cmi["completion_status"], cmi["success_status"]), "exit": cmi["exit"]}
        core = cmi["core"]
        scaled = float(core["score"]["raw"]) / 100 if core["score"]["raw"] != "" else None
        return {"score": scaled, "status": (core["lesson_status"],), "exit": core["exit"]}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory, missing: Any) -> dict[str, Path]:
    """A chapter's packages, unpacked as a course system does."""
    try:
        engine.modules(HERE)
        key = make_engine()
    except engine.Missing as reason:
        missing(str(reason))
    folder = tmp_path_factory.mktemp("scorm")
    found = {}
    assert key
    for made in make_scorm.write(folder, [SLUG], key=key):
        found[made.stem.partition("-scorm")[2]] = folder / made.stem
        with zipfile.ZipFile(made) as archive:
            archive.extractall(folder / made.stem)
    return found


@pytest.fixture(params=make_scorm.VERSIONS if NIGHTLY else make_scorm.VERSIONS[:1])
def course(request: pytest.FixtureRequest, packages: dict[str, Path], page: Any) -> Iterator[Course]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), System) as server:
        server.package, server.run_time = packages[request.param], engine.modules(HERE) / "scorm-again" / "dist"  # type: ignore[attr-defined]
        server.down, server.cmi, server.attempt = False, {}, {}  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Course(page, request.param, server, f"http://127.0.0.1:{server.server_address[1]}")
        with contextlib.suppress(Exception):
            page.goto("about:blank")
        server.shutdown()


def test_full_half_none_and_resumed(course: Course, watch: Any) -> None:
    seen = watch(course.page, course.base)
    frame = course.launch()
    frame.get_by_text("Nothing is answered yet.").wait_for()
    prompt = frame.locator(f'[data-question="{ASKED[0].id}"] .live-prompt')
    frame.get_by_text(f"These are the numbers of {LEARNER}.").wait_for()
    here = ASKED[0].prompt.format_map(inputs(ASKED[0].id, LEARNER).texts())
    assert prompt.inner_text().split() == re.sub(r"[`*]", "", here).split()
    assert course.books()["score"] is None  # a look is no zero in the gradebook
    for e in ASKED:
        course.answer(frame, e, right=False)
    assert course.books()["score"] == 0
    half = ASKED[: len(ASKED) // 2]
    for e in half:
        course.answer(frame, e, right=True)
    share = sum(e.points for e in half) / TOTAL
    unfinished = ("incomplete", "unknown") if course.is_2004 else ("incomplete",)
    assert course.books()["score"] == pytest.approx(share, abs=1e-4)
    assert course.books()["status"] == unfinished
    frame = course.launch()  # left and opened again
    frame.get_by_text(f"{len(half)} of {len(ASKED)} right").wait_for()
    frame.get_by_text("Reported: ").wait_for()
    assert course.books()["score"] == pytest.approx(share, abs=1e-4)
    first = frame.locator(f'[data-question="{half[0].id}"]')
    assert float(first.get_by_role("textbox").input_value()) == pytest.approx(
        half[0].solve(inputs(half[0].id, LEARNER))
    )
    first.get_by_role("button", name="Hint").click()
    first.locator(".live-one-hint").wait_for()
    for e in ASKED[len(half) :]:
        course.answer(frame, e, right=True)
    assert course.books()["score"] == 1
    assert course.books()["status"] == (("completed", "passed") if course.is_2004 else ("passed",))
    assert not seen.outside
    assert not seen.errors


def test_an_attempt_that_is_handed_in_ends_and_the_next_begins_with_nothing(course: Course) -> None:
    frame = course.launch()
    course.answer(frame, ASKED[0], right=True)
    frame.get_by_role("button", name="Hand in").click()
    frame.get_by_role("button", name="Click again").click()
    frame.get_by_text(re.compile("Handed in: .* not passed")).wait_for()
    assert course.books() == {
        "score": pytest.approx(ASKED[0].points / TOTAL, abs=1e-4),
        "status": ("completed", "failed") if course.is_2004 else ("failed",),
        "exit": "normal" if course.is_2004 else "",
    }
    course.page.goto("about:blank")
    course.new_attempt()
    frame = course.launch()
    frame.get_by_text("Nothing is answered yet.").wait_for()
    frame.get_by_text(f"0 of {len(ASKED)} right").wait_for()


def test_leaving_keeps_the_attempt_open(course: Course) -> None:
    frame = course.launch()
    course.answer(frame, ASKED[0], right=True)
    course.page.goto("about:blank")
    for _ in range(100):  # the last word is a beacon, which comes when it comes
        if course.books()["exit"]:
            break
        course.page.wait_for_timeout(100)
    assert course.books()["exit"] == "suspend"
    core = course.server.cmi if course.is_2004 else course.server.cmi["core"]
    assert core["session_time"] not in ("", "PT0S", "00:00:00", "0000:00:00")


def test_a_second_tab_only_says_that_there_is_a_first(course: Course) -> None:
    frame = course.launch()
    course.answer(frame, ASKED[0], right=True)
    before = course.books()
    second = course.page.context.new_page()
    other = course.launch(second)
    other.get_by_text("This chapter is open in another tab.").wait_for()
    assert other.locator(".live-questions").evaluate("e => e.inert")
    second.close()
    assert course.books() == before
    course.answer(frame, ASKED[1], right=True)
    assert course.books()["score"] > before["score"]


def test_what_a_lost_connection_kept_back_is_sent_when_it_is_there_again(course: Course) -> None:
    frame = course.launch()
    course.answer(frame, ASKED[0], right=True)
    kept = course.server.cmi["suspend_data"]
    course.server.down = True
    course.answer(frame, ASKED[1], right=True)
    frame.get_by_text("The course system did not take this").wait_for()
    frame.get_by_role("button", name="Hand in").click()
    frame.get_by_role("button", name="Click again").click()  # nothing ends that was not taken
    frame.get_by_text("The course system did not take this").wait_for()
    assert not frame.locator(".live-questions").evaluate("e => e.inert")
    assert course.server.cmi["suspend_data"] == kept
    frame = course.launch()  # the tab was closed meanwhile
    frame.get_by_text(f"2 of {len(ASKED)} right").wait_for()
    course.server.down = False
    course.page.frames[1].evaluate("window.dispatchEvent(new Event('online'))")
    frame.get_by_text("Reported: ").wait_for()
    share = sum(e.points for e in ASKED[:2]) / TOTAL
    assert course.books()["score"] == pytest.approx(share, abs=1e-4)
    course.page.goto("about:blank")
    course.new_attempt()  # and none of it comes into the next attempt
    frame = course.launch()
    frame.get_by_text("Nothing is answered yet.").wait_for()


def test_a_run_time_that_throws_is_no_dead_page(course: Course) -> None:
    frame = course.launch()
    frame.get_by_text("Nothing is answered yet.").wait_for()
    course.page.evaluate(
        "api => { for (const k of ['SetValue', 'Commit', 'LMSSetValue', 'LMSCommit']) window[api][k] = () => { throw new Error('session expired'); }; }",
        "API_1484_11" if course.is_2004 else "API",
    )
    course.answer(frame, ASKED[0], right=True)
    frame.get_by_text("The course system did not take this").wait_for()


def test_a_full_store_costs_texts_and_no_points(course: Course) -> None:
    """1.2 has room for 4,096 characters, and some systems for less."""
    task = next(e for e in ASKED if e.form in ("function", "data"))
    frame = course.launch(options="" if not course.is_2004 else "&most=3000")
    course.answer(frame, ASKED[0], right=True)
    item = frame.locator(f'[data-question="{task.id}"]')
    item.get_by_role("textbox").fill("def wrong(*given):\n    return None  # " + "ü" * 5000)
    item.get_by_role("button", name="Check").click()
    frame.get_by_text(f"The course system has no room for the text of {task.id}").wait_for()
    assert course.books()["score"] == pytest.approx(ASKED[0].points / TOTAL, abs=1e-4)
    assert len(course.server.cmi["suspend_data"]) < 3000
    frame = course.launch()
    frame.get_by_text(f"1 of {len(ASKED)} right, 1 tried").wait_for()


def test_a_review_reports_nothing(course: Course) -> None:
    course.new_attempt(**({"mode": "review"} if course.is_2004 else {"lesson_mode": "review"}))
    frame = course.launch()
    frame.get_by_text("nothing is reported").wait_for()
    course.answer(frame, ASKED[0], right=True)
    assert not course.server.cmi.get("suspend_data")


def test_without_a_course_system_it_is_practice(course: Course) -> None:
    course.page.goto(f"{course.base}/package/index.html")
    course.page.get_by_text("There is no course system around this page").wait_for()
    course.page.get_by_label("Your name or student id").fill(LEARNER)
    course.page.get_by_role("button", name="Give me my numbers").click()
    course.page.get_by_text(f"These are the numbers of {LEARNER}.").wait_for()
