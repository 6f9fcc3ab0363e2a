"""Every slider view of every notebook draws, says its numbers with units, and has presets in range; a curve is the numbers."""

import contextlib
import json
import math
import re
import xml.etree.ElementTree as ElementTree
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from crossings import crossings
from live import extract
from made import NOTEBOOKS

from mlsysim import (
    capacity,
    catalog,
    collectives,
    cost,
    energy,
    flops,
    memory,
    reliability,
    roofline,
    transformer,
    units,
)
from mlsysim.course import Choice, LogSlider, Reading, Slider, sliders, views
from mlsysim.course.readings import written
from mlsysim.drawing.small import Curves, Dot, Row, Rows, Scatter, Small, Stretch, Timeline, Trace
from mlsysim.errors import InputError
from mlsysim.evidence.studies import case_runs

SPACE = "{http://www.w3.org/2000/svg}"
PHONE, COLUMN, SMALLEST = 390, 340, 10.0  # px: a phone, what its margins leave of it, and the smallest text
# Sliders whose values have no unit: pure numbers, and names that say what is counted.
BARE = re.compile(
    r"coefficient|correlation|PUE|over|dimension|\(m\)|\(n\)|\(k\)|rows|columns|constants|noise|error in the fit|times|parts|"
    r"parallel|stages|channels|groups|dilation|counter|while below|in steps|seed|at a time|degree|log error|sharpness"
)


class Explored:
    """A view with what ``explore`` was given."""

    def __init__(self, name: str, view: Any, presets: dict[str, dict[str, Any]], controls: dict[str, Any]) -> None:
        self.name, self.view, self.presets, self.controls = name, view, presets, controls
        self.start = {k: c.value for k, c in controls.items()}

    def at(self, **moved: Any) -> Reading:
        reading = self.view(**{**self.start, **moved})
        assert isinstance(reading, Reading), self.name
        return reading


@cache
def explored(notebook: Path) -> dict[str, Explored]:
    """Every view of a notebook, made from the statements that it needs."""
    found: dict[str, Explored] = {}

    def explore(view: Any, presets: Any = None, **controls: Any) -> None:
        found[view.__name__] = Explored(view.__name__, view, dict(presets or {}), controls)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sliders, "explore", explore)
        patch.setattr("mlsysim.course.explore", explore, raising=False)
        for one in extract.read(notebook):
            exec(compile(one.code, one.name, "exec"), {"__name__": one.name})
    return found


@pytest.fixture(params=NOTEBOOKS, ids=lambda p: p.stem)
def chapter(request: pytest.FixtureRequest) -> dict[str, Explored]:
    return explored(request.param)


def book() -> dict[str, dict[str, Explored]]:
    return {p.stem[:2]: explored(p) for p in NOTEBOOKS}


@pytest.mark.slow
def test_every_view_draws_and_says_its_numbers(chapter: dict[str, Explored]) -> None:
    assert len(chapter) >= 4
    for name, view in chapter.items():
        reading = view.at()
        assert isinstance(reading.drawing, Small), name
        root = ElementTree.fromstring(reading.drawing.svg())
        assert root.find(f"{SPACE}title").text, name  # type: ignore[union-attr]
        assert root.get("role") == "img"
        assert not re.search(r"nan|inf\b", reading.drawing.svg().replace("InferSim", "")), name
        numbers = reading.numbers()
        assert 2 <= len(numbers) <= 12, (name, len(numbers))
        assert any(isinstance(v, (int, float)) and not isinstance(v, bool) for _, v, _ in numbers), name
        for label, value, _ in numbers:
            assert "_" not in label and label == label.strip() and label, (name, label)
            assert value is not None, (name, label)
        assert not re.search(r"\bus\b|\d_|_\d", str(reading)), (name, str(reading))


@pytest.mark.slow
def test_words_of_a_drawing_can_be_read_on_a_phone(chapter: dict[str, Explored]) -> None:
    for name, view in chapter.items():
        root = ElementTree.fromstring(view.at().drawing.svg())  # type: ignore[union-attr]
        wide, high = map(float, root.get("viewBox", "").split()[2:])
        sizes = [float(e.get("font-size", 99)) for e in root.iter() if e.get("font-size")]
        assert min(sizes) * COLUMN / wide >= SMALLEST, name
        assert len(view.at().drawing.svg()) < 5000, name  # type: ignore[union-attr]
        for text in root.iter(f"{SPACE}text"):
            assert -2 <= float(text.get("x", 0)) <= wide and 0 < float(text.get("y", 0)) <= high, (name, text.text)


@pytest.mark.slow
@pytest.mark.regression
def test_no_words_of_a_view_are_crossed(chapter: dict[str, Explored]) -> None:
    """Curves and dotted lines ran through names in 34 of 152 views, and their presets were not looked at."""
    for name, view in chapter.items():
        for words, moved in {"start": {}, **view.presets}.items():
            kept = {k: view.controls[k].values()[view.controls[k].nearest(v)] for k, v in moved.items()}
            assert crossings(view.at(**kept).drawing.svg()) == [], (name, words)  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.regression
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_no_words_of_a_printed_drawing_are_crossed(path: Path) -> None:
    """In 23 figures a line ran through a name."""
    outputs = [o.get("data", {}) for c in json.loads(path.read_text("utf-8"))["cells"] for o in c.get("outputs", [])]
    drawn = ["".join(d["image/svg+xml"]) for d in outputs if "image/svg+xml" in d]
    drawn += [svg for d in outputs for svg in re.findall(r"<svg .*?</svg>", "".join(d.get("text/html", "")), re.S)]
    assert [bad for svg in drawn if (bad := crossings(svg))] == [] and drawn


@pytest.mark.independent
def test_what_crosses_words_is_found() -> None:
    def drawn(inside: str) -> list[tuple[str, str]]:
        return crossings(f'<svg xmlns="http://www.w3.org/2000/svg" font-size="10"><g fill="none">{inside}</g></svg>')

    word = '<text x="10" y="20">name</text>'
    assert drawn(word + '<path d="M0 16L80 17" stroke="red"/>') == [("name", "a line")]
    assert drawn(word + '<path d="M0 22L80 23" stroke="red"/><path d="M0 16h60" stroke="none"/>') == []
    covered = f'<path d="M0 16h60" stroke="red"/><rect x="5" y="5" width="60" height="30" fill="white"/>{word}'
    assert drawn(covered) == [] and drawn(f'<circle cx="12" cy="18" r="4"/>{word}') == [("name", "a point")]
    moved = f'{word}<g transform="translate(0 40)"><path d="M0 -24v1l80 0" stroke="red"/></g>'
    assert drawn(moved) == [("name", "a line")] and drawn(word * 2) == [("name", "name")]


@pytest.mark.slow
def test_sliders_have_words_and_units_and_presets_lie_in_range(chapter: dict[str, Explored]) -> None:
    for name, view in chapter.items():
        assert 1 <= len(view.presets) <= 3, name
        for control in view.controls.values():
            assert control.label and "_" not in control.label, (name, control)
            if isinstance(control, (Slider, LogSlider)):
                assert control.unit or BARE.search(control.label), (name, control.label)
        for words, moved in view.presets.items():
            assert moved and words == words.strip() and words, name
            kept = {k: view.controls[k].values()[view.controls[k].nearest(v)] for k, v in moved.items()}
            assert kept != {k: view.start[k] for k in kept}, (name, words, "moves nothing")
            changed = view.at(**kept)
            assert changed.rows() != view.at().rows(), (name, words)
            assert [n[0] for n in changed.numbers()] == [n[0] for n in view.at().numbers()], (name, words)


@pytest.mark.slow
@pytest.mark.regression
def test_the_first_step_of_the_first_slider_changes_a_number(chapter: dict[str, Explored]) -> None:
    for name, view in chapter.items():
        argument, control = next(iter(view.controls.items()))
        offered = control.values()
        at = control.nearest(view.start[argument])
        moved = offered[at + 1] if at + 1 < len(offered) else offered[at - 1]
        with contextlib.suppress(InputError):  # which says what would have to change as well
            assert view.at(**{argument: moved}).rows() != view.at().rows(), (name, argument, moved)


@pytest.mark.slow
@pytest.mark.independent
def test_a_point_on_a_curve_is_the_number_beside_it(chapter: dict[str, Explored]) -> None:
    for name, view in chapter.items():
        reading, drawn = view.at(), view.at().drawing
        if isinstance(drawn, Curves):
            numbers = {label: value for label, value, _ in reading.numbers()}
            for trace in drawn.traces:
                here = trace.y[drawn.x.index(drawn.at)]
                assert here is None or here == numbers[trace.label], (name, trace.label)


@pytest.mark.slow
def test_the_notebook_stores_what_the_view_says(chapter: dict[str, Explored], request: pytest.FixtureRequest) -> None:
    """So a page without JavaScript and a notebook on a website show the same numbers as the live one."""
    path = next(p for p in NOTEBOOKS if p.stem == request.node.callspec.id)
    stored = [
        "".join(o.get("text", [])) for c in json.loads(path.read_text("utf-8"))["cells"] for o in c.get("outputs", [])
    ]
    pictures = [
        "".join(o["data"]["image/svg+xml"])
        for c in json.loads(path.read_text("utf-8"))["cells"]
        for o in c.get("outputs", [])
        if "image/svg+xml" in o.get("data", {})
    ]
    for name, view in chapter.items():
        assert any(str(view.at()) == text.strip() for text in stored), name
        assert view.at().drawing.svg() in pictures, name  # type: ignore[union-attr]


@pytest.mark.slow
def test_there_is_a_view_for_every_explore() -> None:
    written_down = sum(p.read_text("utf-8").count('"explore(') for p in NOTEBOOKS)
    assert written_down == sum(len(extract.read(p)) for p in NOTEBOOKS) >= 105


@pytest.mark.slow
@pytest.mark.independent
def test_numbers_of_views_are_the_library_s() -> None:
    """A view of most chapters, beside a call that does not go through it."""
    b = book()

    def said(chapter: str, view: str, **moved: Any) -> dict[str, Any]:
        return {label: value for label, value, _ in b[chapter][view].at(**moved).numbers()}

    d = catalog.device("H100-SXM5-80GB")
    assert said("01", "view_roofline")["your kernel"] == min(0.8 * d.peak_flops["bf16"], 100 * 0.9 * d.memory_bandwidth)
    assert said("01", "view_claim")["reading the weights once"] == 140e9 / d.memory_bandwidth
    llama = catalog.model("Llama-3.1-8B")
    assert said("02", "view_parameters")["counted from the shape"] == transformer.parameter_count(llama).total
    assert said("02", "view_token")["6 N"] == 6 * transformer.parameter_count(llama).total
    assert said("03", "view_cache")["this model"] == memory.kv_cache_of("Llama-2-70B", 16, 8192, 2)
    assert said("03", "view_cache", batch=1)["this model"] == 2 * 80 * 8 * 128 * 2 * 8192
    assert said("04", "view_levels", nodes=8)["flat ring"] > said("04", "view_levels", nodes=8)["hierarchy"]
    assert said("04", "view_bus")["this time"] == pytest.approx(2 * 7 / 8 * 8e9 / 29.24e-3)
    assert said("05", "view_degrees")["needed: TP × PP × CP × DP"] == 16 * 128
    assert said("06", "view_run")["work"] == 8 * 175e9 * 300e9
    assert said("07", "view_reads")["bits per weight, with scales"] == 16
    assert said("08", "view_little")["waiting"] == capacity.little(5.53, 0.1)
    assert said("09", "view_water")["on the site"] == energy.onsite_water(1170 * units.MWh, 0.4 / units.kWh)
    assert said("10", "view_token")["answered"] == cost.cost_per_token(8 * 2.5 / 3600, 10000, 0.5) * 1e6
    assert said("11", "view_plan")["all nodes are at hand"] == reliability.spare_availability(
        2048, 16, reliability.unavailability(264 * units.day, units.day)
    )
    assert said("12", "view_reading")["measured"] == 8 * 145.6e9 * 4.7e6 / (1536 * 148e12)
    assert said("02", "view_convert")["in the other convention"] == 0.45 * flops.counted_flops(
        "GPT-3-175B", 2048, "matmul-causal"
    ) / flops.counted_flops("GPT-3-175B", 2048, "megatron")
    assert said("23", "view_campaign")["kernels simulated"] == 20
    assert collectives.half_size(50e9, 1.0, 2) > 0 and roofline.ridge_point(2.0, 1.0) == 2


@pytest.mark.slow
@pytest.mark.independent
@pytest.mark.parametrize(
    ("devices", "link", "latency", "wide"), [(16, 3e9, 1e-5, 4), (128, 100e9, 1e-7, 2), (128, 25e9, 1e-4, 4)]
)
def test_a_step_rescheduled_for_a_slider_is_the_estimate(devices: int, link: float, latency: float, wide: int) -> None:
    quick, whole = (
        f(devices, link, latency, gradient_bytes=wide) for f in (case_runs.scale_out_moved, case_runs.scale_out)
    )
    assert quick.total_s == pytest.approx(whole.total_s, rel=1e-9)
    assert quick.comm_s == pytest.approx(whole.comm_s, rel=1e-9)
    assert quick.exposed_s == pytest.approx(whole.exposed_comm_s, abs=1e-12)
    with pytest.raises(InputError, match="devices = 32"):
        case_runs.scale_out_moved(32, link)


# The vocabulary itself


def line_view(low: float, high: float) -> Any:
    x = LogSlider(10.0, low, high, label="bytes moved", unit="byte")

    @views.curve("time", "s", x=x)
    def view(x: float, rate: float) -> list[Any]:
        if x > 1e3:
            raise InputError("too much")
        return [
            views.line("link", x / rate, views.NETWORK),
            views.bound("allowed", 1.0),
            views.corner("here", 20.0, "byte"),
            ("rate", rate, "byte/s"),
            "Said.",
        ]

    return view


@pytest.mark.independent
def test_a_curve_asks_the_view_over_the_slider_s_range_and_leaves_gaps() -> None:
    view = line_view(1.0, 1e4)
    reading = view(10.0, rate=2.0)
    drawn = reading.drawing
    assert isinstance(drawn, Curves) and drawn.at == 10.0 and drawn.x_log and drawn.y_log
    assert (drawn.x[0], drawn.x[-1]) == (1.0, 1e4)
    assert all(y is None if x > 1e3 else y == x / 2 for x, y in zip(drawn.x, drawn.traces[0].y, strict=True))
    assert reading.numbers() == [
        ("link", 5.0, "s"),
        ("allowed", 1.0, "s"),
        ("here", 20.0, "byte"),
        ("rate", 2.0, "byte/s"),
    ]
    assert reading.note == "Said."
    assert drawn.corners == [("here", 20.0)]
    assert view.__name__ == "view"
    with pytest.raises(InputError, match="too much"):  # what cannot be where the sliders stand is said, not drawn
        view(2e3, rate=2.0)


@pytest.mark.independent
@pytest.mark.independent
def test_a_sentence_says_what_the_numbers_mean_where_the_sliders_stand() -> None:
    slider = LogSlider(10, 1, 100, 10, "rows", "rows")

    @views.curve("time", "s", n=slider)
    def view(n: float) -> list[Any]:
        return [views.line("constant", 3.0), views.line("work", float(n)), views.bound("square", n * n / 10.0)]

    assert (
        view(n=10).meaning
        == "“work” is 3.3 times “constant”. Move “rows” from 10 rows to 20 rows, and “square” grows to 4 times as much."
    )
    assert view(n=100).meaning.endswith("Move “rows” from 100 rows to 50 rows, and “square” falls to 25 %.")
    assert "sentence" not in str(view(n=10)) and "Move" not in str(view(n=10))  # a notebook prints notes alone

    @views.curve("time", "s", n=slider)
    def flat(n: float) -> list[Any]:
        return [views.line("one", 1.0), views.line("other", 1.01), "So it is."]

    assert flat(n=10).meaning == "So it is."
    parts = views.bars("time", "s", views.bar("a", 3.0), views.bar("b", 1.0), cascade=True)
    assert parts.meaning == "“a” is the largest part, 75 % of all."
    assert views.bars("time", "s", views.bar("a", 1.0), views.bar("b", 0.0)).meaning == ""


@pytest.mark.slow
def test_every_view_says_a_sentence() -> None:
    every = {(n, name): view.at().meaning for n, chapter in book().items() for name, view in chapter.items()}
    assert [view for view, said in every.items() if not said or re.search(r"nan|inf\b|“”", said)] == []


def test_curves_are_placed_where_they_belong() -> None:
    text = lambda v: f"{v:g}"  # noqa: E731
    drawn = Curves(
        "y",
        "x",
        [1.0, 10.0, 100.0],
        [Trace("up", [1.0, 10.0, 100.0]), Trace("none", [None, None, None])],
        10.0,
        text,
        text,
        x_log=True,
    )
    root = ElementTree.fromstring(drawn.svg())
    (circle,) = root.iter(f"{SPACE}circle")
    assert float(circle.get("cx", 0)) == pytest.approx((56 + 350) / 2, abs=0.1)
    path = next(p.get("d", "") for p in root.iter(f"{SPACE}path") if p.get("stroke-width"))
    (x0, y0), (x1, y1) = (tuple(map(float, p.split())) for p in path[1:].split("L"))
    assert (x0, x1) == (56.0, 350.0) and y0 > float(circle.get("cy", 0)) > y1
    assert float(circle.get("cy", 0)) == pytest.approx((y0 + y1) / 2, abs=0.1)
    with pytest.raises(InputError, match="no value can be drawn"):
        Curves("y", "x", [1.0], [Trace("none", [None])], 1.0, text, text)


@pytest.mark.regression
def test_a_line_bends_where_its_curve_does_and_its_name_keeps_off_upright_lines() -> None:
    """The front page's line ran straight from 1 to 23 billion on its logarithmic axis, and a dotted line struck its name."""

    @views.curve("time", "s", size=(slider := Slider(70, 1, 700, 1, label="size")), log=True)
    def view(size: float) -> list:
        return [views.line("reading the weights once", float(size)), views.bound("the claim", 4.2)]

    drawn = view(float(slider.value)).drawing
    assert isinstance(drawn, Curves)
    assert all(b / a <= 3 for a, b in zip(drawn.x, drawn.x[1:], strict=False)), drawn.x
    here = 56 + (350 - 56) * (70 - 1) / (700 - 1)
    for text in ElementTree.fromstring(drawn.svg()).iter(f"{SPACE}text"):
        if text.text in ("reading the weights once", "the claim"):
            start = float(text.get("x", 0))
            assert start > here or start + 5.5 * len(text.text) < here, text.text


@pytest.mark.regression
def test_the_name_of_a_point_keeps_off_its_front() -> None:
    """*quickest* stood on a front that ends flat at the right edge."""
    front = ([9.0, 9.2, 15.0, 20.0, 34.0], [6.0, 4.0, 2.0, 1.7, 1.6])
    text = lambda v: f"{v:g}"  # noqa: E731
    drawn = Scatter("time", "memory", [Dot("quickest", 34.0, 1.6)], text, text, trails=[("", *front, "#555555")])
    (name,) = (t for t in ElementTree.fromstring(drawn.svg()).iter(f"{SPACE}text") if t.text == "quickest")
    flat = next(
        p.get("d", "") for p in ElementTree.fromstring(drawn.svg()).iter(f"{SPACE}path") if p.get("stroke-width")
    )
    level = float(flat.rsplit(" ", 1)[1])
    assert not float(name.get("y", 0)) - 9 < level < float(name.get("y", 0)) + 1


@pytest.mark.independent
def test_rows_spans_and_points_are_to_scale() -> None:
    rows = Rows(
        "time",
        [
            Row("a", (views.part("x", 1.0, "#000000"), views.part("y", 3.0, "#111111")), "4 s"),
            Row("b", (views.part("x", 2.0, "#000000"),), "2 s"),
        ],
        [("most", 5.0)],
        cascade=True,
    )
    pieces = [p.get("d", "") for p in ElementTree.fromstring(rows.svg()).iter(f"{SPACE}path") if p.get("fill")]
    widths = [float(re.search(r"h([\d.]+)v", d)[1]) for d in pieces]  # type: ignore[index]
    starts = [float(d[1:].split()[0]) for d in pieces]
    assert widths[1] / widths[0] == pytest.approx(3, rel=0.01) and widths[2] / widths[0] == pytest.approx(2, rel=0.01)
    assert starts[2] == pytest.approx(starts[1] + widths[1], abs=0.2)  # the second begins where the first ends
    spans = Timeline("when", [Stretch("a", 0.0, 1.0), Stretch("b", 1.0, 4.0, text="go")], lambda v: f"{v:g}")
    assert spans.svg().count("v15") == 2 and ">go<" in spans.svg()
    points = Scatter(
        "y", "x", [Dot("p", 1.0, 1.0), Dot("q", 2.0, 2.0)], str, str, [("roof", [1.0, 2.0], [1.0, 2.0], "#000000")]
    )
    (p, q) = ElementTree.fromstring(points.svg()).iter(f"{SPACE}circle")
    assert float(p.get("cx", 0)) < float(q.get("cx", 0)) and float(p.get("cy", 0)) > float(q.get("cy", 0))
    for make in (lambda: Rows("r", []), lambda: Timeline("t", [], str)):
        with pytest.raises(InputError, match="give at least one"):
            make()


def test_bars_and_scatter_say_their_numbers_and_sum_their_pieces() -> None:
    reading = views.bars(
        "time",
        "s",
        views.row("a", views.part("x", 1.0, "#000"), views.part("y", 2.0, "#111")),
        views.bar("b", 4.0),
        views.bound("most", 5.0),
        ("share", 0.5, "%"),
        "Note.",
    )
    assert reading.numbers() == [("a", 3.0, "s"), ("b", 4.0, "s"), ("most", 5.0, "s"), ("share", 0.5, "%")]
    assert reading.note == "Note."
    found = views.scatter(
        ("time", "s"),
        ("memory", "byte"),
        views.dot("best", 1e9, 2.0),
        views.trail("front", [1e9, 2e9], [2.0, 1.0]),
        ("n", 3, "1"),
    )
    assert found.numbers() == [("n", 3, "1")]
    assert ">front<" in found.drawing.svg() and ">2 GB<" in found.drawing.svg()  # type: ignore[union-attr]


def test_words_on_an_axis() -> None:
    assert [
        views.axis_text(u)(v) for u, v in (("s", 0.002), ("%", -0.25), ("%", 12.0), ("tokens", 1e4), ("1", 1e20))
    ] == ["2 ms", "−25 %", "1,200 %", "10 k", "10²⁰"]
    assert views.axis_name("rate", "FLOP/s") == "rate (FLOP/s)" and views.axis_name("time", "s") == "time"
    assert views.tens(4.2e23, "FLOP") == "4.20 × 10²³ FLOP"
    assert written(2.5, "USD") == "2.5 USD" and math.isclose(0.1 + 0.2, 0.3)


def test_small_pictures_are_never_drawn_by_matplotlib_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    from mlsysim.drawing import style

    shown: list[Any] = []
    monkeypatch.setattr(style, "display", shown.append)
    drawn = Rows("time", [Row("a", (views.part("", 1.0, "#000000"),), "1 s")])
    style.draw(drawn)
    assert shown == [drawn] and repr(drawn) == "<Rows: time>"
    import matplotlib as mpl

    mpl.use("Agg")
    for picture in (
        drawn,
        line_view(1.0, 100.0)(10.0, rate=2.0).drawing,
        Timeline("t", [Stretch("a", 0.0, 1.0)], str),
        Scatter("y", "x", [Dot("p", 1.0, 1.0)], str, str),
    ):
        assert style.matplotlib_figure(picture).axes  # for those who want a PNG


def test_a_choice_can_be_swept_by_nobody() -> None:
    with pytest.raises((AttributeError, ValueError, TypeError)):
        views.curve("time", "s")
    assert Choice("a", ["a"], label="x").values() == ("a",)
