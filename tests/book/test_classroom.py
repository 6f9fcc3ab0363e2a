"""Charts, sliders and tables: what they show is the library's, and it can be read in light, dark and grey."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from itertools import pairwise

import pytest

from mlsysim import catalog, roofline
from mlsysim.course import (
    PALETTE,
    Bars,
    Chart,
    Choice,
    Line,
    LogSlider,
    Marks,
    Reading,
    Slider,
    TornadoChart,
    draw,
    explore,
    log_space,
    roofline_chart,
    sliders,
)
from mlsysim.drawing import matplotlib_figure, style
from mlsysim.drawing.style import INK, PAPER
from mlsysim.errors import InputError
from mlsysim.tables import table


def rgb(color: str) -> tuple[float, float, float]:
    r, g, b = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return r, g, b


def luminance(color: tuple[float, float, float]) -> float:
    """WCAG 2 relative luminance."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: tuple[float, float, float], b: tuple[float, float, float]) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def dark(color: str) -> tuple[float, float, float]:
    """What the book's dark mode makes of a colour: CSS invert(0.88) hue-rotate(180deg)."""
    r, g, b = (0.88 * (1 - c) + 0.12 * c for c in rgb(color))
    matrix = ((-0.574, 1.430, 0.144), (0.426, 0.430, 0.144), (0.426, 1.430, -0.856))  # CSS filter effects, 180 degrees
    x, y, z = (min(max(m[0] * r + m[1] * g + m[2] * b, 0.0), 1.0) for m in matrix)
    return x, y, z


@pytest.mark.independent
def test_every_colour_can_be_read_on_paper_and_in_the_dark() -> None:
    for color in PALETTE:
        assert contrast(rgb(color), rgb(PAPER)) >= 3, color  # WCAG 2, graphical objects
        assert contrast(dark(color), dark(PAPER)) >= 3, color
    assert contrast(rgb(INK), rgb(PAPER)) >= 7  # text
    assert contrast(dark(INK), dark(PAPER)) >= 7


def test_the_roofline_chart_is_the_attainable_rate() -> None:
    chart = roofline_chart([("H100", "bf16", 0.8, 0.9)], [("here", 10.0, 2e13)])
    line, marks = chart.lines[0], chart.marks[0]
    d = catalog.device("H100")
    for x, y in zip(line.x, line.y, strict=True):
        assert y * 1e12 == pytest.approx(min(0.8 * d.peak_flops["bf16"], x * 0.9 * d.memory_bandwidth))
    corner = roofline.ridge_point(0.8 * d.peak_flops["bf16"], 0.9 * d.memory_bandwidth)
    assert corner in line.x
    assert list(marks.y) == [20.0]
    assert "(FLOP/byte)" in chart.x_label
    assert "(TFLOP/s)" in chart.y_label


def test_the_svg_is_well_formed_and_places_points_where_they_belong() -> None:
    chart = Chart("x (s)", "y (s)", [Line([1, 10, 100], [1, 10, 100], "a & b")], [Marks([10], [10], "m", ("<p>",))])
    root = ElementTree.fromstring(chart.svg())
    space = "{http://www.w3.org/2000/svg}"
    points = [tuple(map(float, p.split(","))) for p in root.find(f".//{space}polyline").attrib["points"].split()]  # type: ignore[union-attr]
    circle = root.find(f".//{space}g/{space}circle")
    assert circle is not None
    assert (float(circle.attrib["cx"]), float(circle.attrib["cy"])) == pytest.approx(points[1], abs=0.11)
    assert points[0][0] < points[1][0] < points[2][0]
    assert points[0][1] > points[1][1] > points[2][1]  # up is up
    texts = [t.text for t in root.iter(f"{space}text")]
    assert "a & b" in texts
    assert "<p>" in texts
    with pytest.raises(InputError, match="logarithmic axis cannot show 0"):
        Chart("x", "y", [Line([0, 1], [1, 2], "zero")]).svg()
    assert "polyline" in Chart("x", "y", [Line([0, 1], [1, 2], "zero")], x_log=False).svg()


@pytest.mark.slow
def test_matplotlib_draws_the_same_data() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    figure = matplotlib_figure(roofline_chart([("H100", "bf16", 1.0, 1.0)]))
    axes = figure.axes[0]
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert max(axes.lines[0].get_ydata()) == pytest.approx(989.5)
    assert figure.get_size_inches()[0] <= 6


def test_without_matplotlib_a_chart_is_an_svg() -> None:
    script = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['IPython'] = None\n"
        "from mlsysim.course import draw, roofline_chart\n"
        "chart = roofline_chart([('H100', 'bf16', 1.0, 1.0)])\n"
        "draw(chart); assert chart._repr_svg_().startswith('<svg'); assert 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def test_static_views_say_where_the_sliders_stand(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLSYSIM_STATIC", "1")
    seen = {}
    explore(lambda **kw: seen.update(kw), a=Slider(2, 0, 10, 1), b=LogSlider(100, 1, 1e4), c=Choice("x", ["x", "y"]))
    assert seen == {"a": 2, "b": 100, "c": "x"}
    assert capsys.readouterr().out == "Sliders: a = 2 (0 to 10); b = 100 (1 to 10000); c = x (one of 2)\n"


def test_live_views_are_widgets_and_show_the_library_s_message(monkeypatch: pytest.MonkeyPatch) -> None:
    import ipywidgets

    monkeypatch.delenv("MLSYSIM_STATIC", raising=False)
    shown = {}
    monkeypatch.setattr(ipywidgets, "interact", lambda view, **widgets: shown.update(view=view, widgets=widgets))
    explore(
        lambda precision, x: print(catalog.device("H100").peak_flops[precision]),
        precision=Choice("bf16", ["bf16", "fp4"]),
        x=LogSlider(1, 1, 10),
    )
    assert isinstance(shown["widgets"]["precision"], ipywidgets.Dropdown)
    assert isinstance(shown["widgets"]["x"], ipywidgets.SelectionSlider)
    shown["view"](precision="bf16", x=1.0)
    shown["view"](precision="fp4", x=1.0)  # an impossible combination is a sentence, not a traceback


@pytest.mark.independent
def test_a_log_slider_steps_through_its_start_in_equal_ratios() -> None:
    values = LogSlider(100.0, 0.5, 1e4).values()
    assert (values[0], values[-1]) == (0.5, 1e4)
    assert values[LogSlider(100.0, 0.5, 1e4).position] == 100
    ratios = [b / a for a, b in pairwise(values[1:])]
    assert ratios == pytest.approx([10**0.1] * len(ratios), rel=0.01)
    assert LogSlider(1, 1, 10).values() == (1, 2, 3, 4, 5, 6, 8, 10)  # who counts skips no step and repeats none
    assert all(isinstance(v, int) for v in LogSlider(256, 1, 10_000).values())


@pytest.mark.independent
def test_a_slider_s_positions_are_what_its_widget_takes() -> None:
    assert Slider(0.8, 0.05, 1.0, 0.05).values()[-3:] == (0.9, 0.95, 1.0)  # not 0.9500000000000001
    assert Slider(4, 0, 9, 2).values() == (0, 2, 4, 6, 8)
    assert LogSlider(100.0, 0.5, 1e4, unit="byte/s").widget("x").options[-1] == ("10 kB/s", 1e4)
    assert Slider(4, 0, 9, 2, label="eggs").widget("x").description == "eggs"
    assert Choice("a", ["a", "b"], texts={"b": "bee"}).widget("some_name").options == (("a", "a"), ("bee", "b"))
    assert Choice("a", ["a", "b"]).widget("some_name").description == "some name"


def test_presets_move_only_what_is_there(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("MLSYSIM_STATIC", "1")
    explore(lambda n: Reading(None, ("twice", 2 * n, "1")), presets={"more": {"n": 9}}, n=Slider(3, 1, 12, 1))
    assert capsys.readouterr().out.endswith("twice: 6\n")
    for preset in ({"m": 9}, {"n": 13}):
        with pytest.raises(InputError):
            explore(lambda n: None, presets={"more": preset}, n=Slider(3, 1, 12, 1))


def test_a_reading_has_words_digits_and_its_drawing() -> None:
    reading = Reading(
        Chart("x", "y", [Line([1, 2], [1, 2], "l")]),
        ("time", 1 / 3, "s"),
        ("devices", 512, "1"),
        ("bound by", "<memory>", ""),
        ("in short", 2.0, "1", "two"),
        note="So it is.",
    )
    assert reading.numbers()[:2] == [("time", 1 / 3, "s"), ("devices", 512, "1")]
    html = reading._repr_html_()
    assert f'data-number="time" data-value="{1 / 3!r}">333.3 ms<' in html
    assert "&lt;memory&gt;" in html
    assert "<svg" in html
    assert str(reading).splitlines() == [
        "time: 333.3 ms",
        "devices: 512",
        "bound by: <memory>",
        "in short: two",
        "So it is.",
    ]
    for wrong in (("a", 1), ("a", 1, 2), "abc"):
        with pytest.raises(InputError, match="is not"):
            Reading(None, wrong)
    with pytest.raises(InputError, match="same label"):
        Reading(None, ("a", 1, "1"), ("a", 2, "1"))
    with pytest.raises(InputError, match="no Drawing"):
        Reading("picture")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Slider(11, 0, 10, 1),
        lambda: Slider(1, 0, 10, 0),
        lambda: Slider(1, 0, 10, 3),
        lambda: LogSlider(1, 0, 10),
        lambda: Choice("z", ["x"]),
    ],
)
def test_impossible_sliders_are_refused(make: object) -> None:
    with pytest.raises(InputError, match="value = "):
        make()  # type: ignore[operator]


def test_log_space_and_tables() -> None:
    assert log_space(1, 1e4, 5) == pytest.approx([1, 10, 100, 1000, 10000])
    shown = table(["a", "b"], [["1", "<2>"]])
    assert str(shown).splitlines()[-1] == "1  <2>"
    assert "&lt;2&gt;" in shown._repr_html_()
    assert re.search(r"<th[^>]*>a</th>", shown._repr_html_())
    draw  # noqa: B018  (imported above to prove that it is exported)


@pytest.mark.independent
def test_stacked_bars_end_where_their_sum_says() -> None:
    bars = Bars(["a & b", "c"], {"one": [1.0, 2.0], "two": [3.0, 0.0], "three": [0.5, 0.5]}, "time (s)", "what & why")
    root = ElementTree.fromstring(bars._repr_svg_())
    space = "{http://www.w3.org/2000/svg}"
    pieces = [r for r in root.iter(f"{space}rect") if r.get("height") == "22"]
    widths = [float(r.get("width") or 0) for r in pieces]
    assert len(pieces) == 6
    assert widths[0] * 3 == pytest.approx(widths[1], abs=0.2)  # 1 and 3 of the same bar
    assert sum(widths[:3]) / sum(widths[3:]) == pytest.approx(4.5 / 2.5, rel=1e-2)
    for (before, width), after in zip(zip(pieces, widths, strict=True), pieces[1:3], strict=False):
        assert float(before.get("x") or 0) + width == pytest.approx(float(after.get("x") or 0), abs=0.11)
    assert {"a & b", "what & why", "time (s)", "one"} <= {t.text for t in root.iter(f"{space}text")}


@pytest.mark.independent
@pytest.mark.slow
def test_stacked_bars_in_matplotlib_are_the_same_pieces() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    bars = Bars(["a", "b"], {"one": [1.0, 2.0], "two": [3.0, 0.0]}, "time (s)")
    axes = matplotlib_figure(bars).axes[0]
    assert [(p.get_x(), p.get_width()) for p in axes.patches] == [(0, 1), (0, 2), (1, 3), (2, 0)]


@pytest.mark.independent
@pytest.mark.parametrize(
    "make",
    [
        lambda: Bars([], {"one": []}, "x"),
        lambda: Bars(["a"], {}, "x"),
        lambda: Bars(["a"], {"one": [1.0, 2.0]}, "x"),
        lambda: Bars(["a"], {"one": [-1.0]}, "x"),
        lambda: Bars(["a"], {str(i): [1.0] for i in range(7)}, "x"),
    ],
)
def test_bars_refuse_what_they_cannot_draw(make: Callable[[], Bars]) -> None:
    with pytest.raises(InputError, match="Bars"):
        make()


def test_without_matplotlib_bars_are_an_svg() -> None:
    script = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['IPython'] = None\n"
        "from mlsysim.course import Bars, draw\n"
        "draw(Bars(['a'], {'one': [1.0]}, 'x')); assert 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


@pytest.mark.independent
def test_swings_reach_from_the_middle_to_both_answers() -> None:
    swings = TornadoChart(["a & b", "c"], [4.0, 8.0], [9.0, 7.0], 6.0, "time (s)", "what & why")
    root = ElementTree.fromstring(swings._repr_svg_())
    space = "{http://www.w3.org/2000/svg}"
    pieces = [r for r in root.iter(f"{space}rect") if r.get("height") == "18"]
    widths = [float(r.get("width") or 0) for r in pieces]
    assert [w / widths[0] for w in widths] == pytest.approx([1, 1.5, 1, 0.5], rel=1e-2)  # 2, 3, 2 and 1 seconds
    starts = [float(r.get("x") or 0) for r in pieces]
    assert starts[0] + widths[0] == pytest.approx(starts[1], abs=0.11)
    assert starts[2] == pytest.approx(starts[3], abs=0.11)  # both answers above the middle
    assert {"a & b", "what & why", "time (s)"} <= {t.text for t in root.iter(f"{space}text")}


@pytest.mark.independent
def test_swings_in_matplotlib_are_the_same_pieces() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    axes = matplotlib_figure(TornadoChart(["a", "b"], [4.0, 8.0], [9.0, 7.0], 6.0, "time (s)")).axes[0]
    assert [(p.get_x(), p.get_width()) for p in axes.patches] == [(6, -2), (6, 2), (6, 3), (6, 1)]


def test_swings_refuse_what_they_cannot_draw() -> None:
    for names, low, high in (([], [], []), (["a"], [1.0, 2.0], [1.0])):
        with pytest.raises(InputError, match="Swings"):
            TornadoChart(names, low, high, 1.0, "x")


def test_a_static_view_gets_the_types_that_a_live_slider_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a view that counts to a slider's value breaks only where a person moves it."""
    monkeypatch.setenv("MLSYSIM_STATIC", "1")
    seen: dict[str, object] = {}
    sliders = {"n": Slider(3, 1, 12, 1), "bytes": LogSlider(10, 1, 100), "device": Choice("H100", ["H100", "A100"])}
    explore(lambda **values: seen.update(values), **sliders)
    assert {name: type(value) for name, value in seen.items()} == {"n": int, "bytes": int, "device": str}
    live = {name: s.widget(name).value for name, s in sliders.items()}
    assert {name: type(value) for name, value in live.items()} == {n: type(v) for n, v in seen.items()}


def test_a_slider_that_moves_draws_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []
    monkeypatch.setattr(style, "display", shown.append)
    chart = roofline_chart([("H100", "bf16", 1.0, 1.0)])
    sliders.as_shown(lambda: draw(chart), [])()
    draw(chart)
    assert shown[0] is chart and shown[1] is not chart
