"""Drawings of things: legible on a phone, said in words, and no other than what the library computes."""

import re
from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from mlsysim import network, parallelism
from mlsysim.classroom import pictures
from mlsysim.classroom.pictures.messages import ring_held
from mlsysim.drawing import Chart, Drawing, Line
from mlsysim.drawing.charts import Name, on_lines
from mlsysim.drawing.scenes import (
    PHONE,
    SMALLEST,
    Arrow,
    Box,
    Frames,
    Piece,
    Scene,
    Stretch,
    Words,
    bar,
    blocks,
    tracks,
)
from mlsysim.errors import InputError
from mlsysim.memory import model_state_memory, training_memory
from mlsysim.parallelism import Plan

SVG = "{http://www.w3.org/2000/svg}"
ARGUMENTS: dict[str, tuple] = {
    "conformal_range": ([-0.3, -0.1, 0.0, 0.1, 0.4], -0.2, 0.2),
    "counted_causes": ([("devices", 9), ("network", 3)], 4.7e6),
    "halving": (25e9, 800e9, 165e9),
    "honesty_ladder": ({"steps": [("in the fit", 0.12), ("unseen", 0.22)]},),
    "hours_paid": (8 * 3.4 / 3600, 21000.0),
    "latent_cache": ("DeepSeek-V3",),
    "machine_worn_off": (177600.0, 1.02e7, 1.89e8, 0.85),
    "memory_levels": ("H100",),
    "message_life": (5e-6, 1e6, 1e11),
    "nested_boundaries": ([("devices", 0.14), ("hosts", 0.06), ("the building", 0.02)],),
    "one_request": (2.0, 1.5, 6.0, 9),
    "one_vote": ({"a page": 60, "a run": 1},),
    "own_or_rent_by_hand": (1.5 / 3600, 2.5 / 3600),
    "path_of_a_dollar": ([("device", 1.2), ("energy", 0.2)],),
    "path_of_a_watt": (5600.0, 4600.0, 1.2),
    "pooled_on_a_line": (0.8, 0.6, 2.0),
    "purchase_as_rate": (30e3, 9.5e7, 0.1),
    "ranks_on_nodes": (Plan(tp=4, pp=2, dp=2),),
    "roofline_by_hand": ("H100",),
    "sources_and_range": ([-0.4, -0.1, 0.0, 0.1, 0.3, 0.2], 0.25),
    "systolic_frame": (4, 4, 5, 3),
    "training_memory_bar": (
        training_memory("Llama-3.1-8B", seq=4096, micro_batch=1, sharding="zero3", dp=8, device="H100"),
    ),
    "transformer_block": ("Llama-3.1-8B",),
    "two_losses": (60.0, 10800.0),
    "two_waters": (1.4, 0.36, 4.35),
    "wiring": ("ring:8",),
}


@pytest.fixture(params=pictures.__all__)
def drawn(request: pytest.FixtureRequest) -> Drawing:
    make: Callable[..., Drawing] = getattr(pictures, request.param)
    return make(*ARGUMENTS.get(request.param, ()))


def scenes_of(drawing: Drawing) -> list[Scene]:
    return list(drawing.scenes) if isinstance(drawing, Frames) else [drawing]  # type: ignore[list-item]


def test_a_picture_is_well_formed_and_legible_on_a_phone(drawn: Drawing) -> None:
    for scene in scenes_of(drawn):
        root = ElementTree.fromstring(scene.svg())
        width = float(root.attrib["viewBox"].split()[2])
        sizes = [float(t.attrib["font-size"]) for t in root.iter(f"{SVG}text")]
        assert sizes, "a thing has its name on it"
        assert min(sizes) * PHONE / width >= SMALLEST
        title = root.find(f"{SVG}title")
        assert title is not None
        assert len(title.text or "") > 25
    ElementTree.fromstring(drawn.svg())


def test_no_words_of_a_picture_cover_others(drawn: Drawing) -> None:
    for scene in scenes_of(drawn):
        rooms = []
        for shape in scene.shapes:
            text = shape if isinstance(shape, Words) else getattr(shape, "_words", None)
            if text is not None and text.text.strip():
                rooms.append((text.text, text.room))
        for i, (one, a) in enumerate(rooms):
            for two, b in rooms[:i]:
                wide = min(a[2], b[2]) - max(a[0], b[0])
                high = min(a[3], b[3]) - max(a[1], b[1])
                assert wide <= 4 or high <= 4, f"{one!r} and {two!r} overlap by {wide:.0f} x {high:.0f}"


def test_moving_pictures_have_a_sentence_to_each_still() -> None:
    moving = [
        d for name in pictures.__all__ if isinstance(d := getattr(pictures, name)(*ARGUMENTS.get(name, ())), Frames)
    ]
    assert len(moving) >= 4
    for frames in moving:
        html = ElementTree.fromstring(frames._repr_html_())
        assert html.attrib["aria-label"] == frames.name
        assert len(html.findall("./ol/li/figure")) == len(frames.scenes)
        assert all(says.endswith(".") for says in frames.says)


# What a scene refuses


@pytest.mark.parametrize(
    ("shapes", "width", "says"),
    [
        ([Words(200, 10, "x", size=9)], 400, "px on a phone"),
        ([Words(390, 10, "too far to the right")], 400, "reaches"),
        ([Box(0, 0, 10, 10)], 600, "take at most"),
    ],
)
def test_what_a_phone_cannot_show_is_refused(shapes: list, width: float, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Scene(shapes, "what it shows", width)


def test_words_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match=r"needs \d+ units and has 20"):
        Box(0, 0, 20, 20, "far too many words")
    with pytest.raises(InputError, match="say in words"):
        Scene([], "")
    with pytest.raises(InputError, match="at least two"):
        Arrow([(0, 0)])
    with pytest.raises(InputError, match="two or more of each"):
        Frames([Scene([], "a")], ["one"], "name")


# Drawn as computed


@pytest.mark.independent
def test_a_bar_is_to_scale_and_its_rest_is_dashed() -> None:
    parts = [s for s in bar(0, 0, 100, 10, [Piece("", 2.0), Piece("", 3.0)], 10.0) if isinstance(s, Box)]
    assert [(p.x, p.width, p.dashed) for p in parts] == [(0, 20, False), (20, 30, False), (50, 50, True)]
    upright = bar(0, 0, 100, 10, [Piece("", 1.0), Piece("", 3.0)], upright=True)
    assert [(p.y, p.height) for p in upright if isinstance(p, Box)] == [(75, 25), (0, 75)]
    with pytest.raises(InputError, match="must be positive and at least as much"):
        bar(0, 0, 100, 10, [Piece("", 2.0)], 1.0)


@pytest.mark.independent
def test_tracks_are_to_scale() -> None:
    shapes = tracks(0, 0, 110, [("a", [Stretch(1.0, 3.0)])], until=5.0, names=10.0)
    (box,) = (s for s in shapes if isinstance(s, Box))
    assert (box.x, box.width) == (30, 40)
    assert [b.y for b in blocks(0, 0, 2, (10, 12), [("", "memory")] * 3)] == [0, 0, 12]


@pytest.mark.independent
@pytest.mark.parametrize("n", [3, 4, 7])
def test_a_drawn_ring_ends_with_every_sum_everywhere(n: int) -> None:
    states = ring_held(n)
    assert len(states) == 2 * (n - 1) + 1
    assert all(piece == set(range(n)) for device in states[-1] for piece in device)
    halfway = states[n - 1]
    assert [sum(len(piece) == n for piece in device) for device in halfway] == [1] * n  # a reduce-scatter


@pytest.mark.independent
def test_a_drawn_pipeline_is_as_long_as_its_formula() -> None:
    """(m + p - 1)(F + B) for one forward and one backward in turn; the widths of the boxes are the times."""
    scene = pictures.pipeline_1f1b(4, 6)
    boxes = [s for s in scene.shapes if isinstance(s, Box)]
    one = min(b.width for b in boxes)
    ends = max(b.x + b.width for b in boxes) - min(b.x for b in boxes)
    assert ends / one == pytest.approx((6 + 4 - 1) * 3)
    assert len(boxes) == 2 * 4 * 6
    share = 1 - sum(b.width for b in boxes) / (4 * ends)
    assert share == pytest.approx(float(parallelism.bubble_fraction(4, 6)))
    assert f"{share:.0%}" in scene.alt


@pytest.mark.independent
def test_a_drawn_array_works_as_often_as_there_are_products() -> None:
    frames = [pictures.systolic_frame(4, 3, 5, c) for c in range(5 + 4 + 3 - 2)]
    busy = [sum(isinstance(s, Box) and s.full for s in scene.shapes) for scene in frames]
    assert sum(busy) == 4 * 3 * 5
    assert busy[0] == busy[-1] == 1


@pytest.mark.independent
def test_a_drawn_topology_has_the_cables_of_the_topology() -> None:
    for text in ("ring:8", "mesh:6", "switch:8", "fullyconnected:6", "torus:4xtorus:4", "dragonfly:4/3"):
        made = network.topology.parse(text)
        cables = [s for s in pictures.wiring(text).shapes if isinstance(s, Arrow)]
        assert 2 * len(cables) == made.links, text


@pytest.mark.independent
def test_drawn_shards_are_to_scale() -> None:
    scene = pictures.zero_stages(4)
    rows: dict[float, float] = {}
    for s in scene.shapes:
        if isinstance(s, Box) and not s.dashed:
            rows[s.y] = rows.get(s.y, 0.0) + s.width
    first, *others = (rows[y] for y in sorted(rows))
    for sharding, width in zip(("zero1", "zero2", "zero3"), others, strict=True):
        share = float(model_state_memory(1.0, "zero-fp16", sharding, 4).total) / 16.0
        assert width / first == pytest.approx(share)


@pytest.mark.independent
def test_zigzag_gives_every_device_the_same_number_of_pieces() -> None:
    def counts(zigzag: bool) -> dict[str, int]:
        texts = [s.text for s in pictures.context_parallel(4, zigzag).shapes if isinstance(s, Box)]
        return {t: texts.count(t) for t in texts}

    assert set(counts(True).values()) == {9}
    assert sorted(counts(False).values()) == [3, 7, 11, 15]


@pytest.mark.independent
def test_ranks_stand_once_each_and_neighbours_share_the_tensor_group() -> None:
    texts = [s.text for s in pictures.ranks_on_nodes(Plan(tp=4, pp=2, dp=2)).shapes if isinstance(s, Box) and s.text]
    assert texts == [f"t{t}\nd{d}" for _ in range(2) for d in range(2) for t in range(4)]


def test_a_batch_is_drawn_as_it_was_simulated() -> None:
    scene = pictures.batch_in_time()
    found = re.search(r"they wait ([\d, .]+) steps", scene.alt)
    assert found is not None
    # three places; request 1 ends after 1 + 2 steps and request 0 after 1 + 4
    assert [float(w) for w in found[1].rstrip(".").split(", ")] == [0, 0, 0, 2, 3]


def test_matplotlib_draws_scenes_too() -> None:
    from matplotlib import pyplot

    from mlsysim.drawing import matplotlib_figure

    for drawing in (pictures.transformer_block("Llama-3.1-8B"), pictures.ring_all_reduce()):
        figure = matplotlib_figure(drawing)
        figure.canvas.draw()
        pyplot.close(figure)


@pytest.mark.independent
def test_names_stand_on_their_lines_and_inside_the_axes() -> None:
    rising = Line([1, 2, 3, 4, 5], [1, 2, 3, 4, 5], "a long name of a line")
    chart = on_lines(
        Chart("x", "y", [rising, replace(rising, y=[5, 4, 3, 2, 1], label="falls")], x_log=False, y_log=False), 0.5, 0.5
    )
    assert [line.label for line in chart.lines] == ["", ""]
    up, down = (mark for mark in chart.marks if isinstance(mark, Name))
    assert (up.x, up.y, up.anchor, down.anchor) == ([3], [3], "end", "start")
    for place in (-1.0, 0.0, 1.0):
        svg = on_lines(Chart("x", "y", [rising], x_log=False, y_log=False), place).svg()
        (text,) = [t for t in ElementTree.fromstring(svg).iter(f"{SVG}text") if t.text == rising.label]
        x, wide = float(text.attrib["x"]), 6.0 * len(rising.label)
        left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[text.attrib["text-anchor"]]
        assert 70 <= left < left + wide <= 576
    with pytest.raises(InputError, match="for 1 lines; give one"):
        on_lines(Chart("x", "y", [rising]), 0.5, 0.5)
