"""Drawings of things: legible on a phone, said in words, and no other than what the library computes."""

import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from mlsysim import catalog, network, parallelism
from mlsysim.classroom import pictures
from mlsysim.classroom.pictures.messages import ring_held
from mlsysim.drawing import Drawing
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
from mlsysim.inference import deploy
from mlsysim.memory import model_state_memory, server_memory, training_memory
from mlsysim.parallelism import Plan
from mlsysim.serving_steps import Batch, step_model

SVG = "{http://www.w3.org/2000/svg}"
ARGUMENTS: dict[str, tuple] = {
    "blocks_in_memory": (4096.0, 2500.0),
    "climb_of_a_step": (
        deploy("Llama-2-7B", "H100"),
        Batch.of(catalog.model("Llama-2-7B"), prefills=[(500, 0)], decodes=[1000] * 32),
    ),
    "conformal_range": ([-0.3, -0.1, 0.0, 0.1, 0.4], -0.2, 0.2),
    "constant_or_slope": (2.05e-4,),
    "experts_read": (8,),
    "first_in_a_mean": (0.272, 0.013, 23),
    "latent_cache": ("DeepSeek-V3",),
    "leave_one_run_out": ([25, 20, 20, 20, 20, 20, 41],),
    "memory_levels": ("H100",),
    "message_life": (5e-6, 1e6, 1e11),
    "mixed_step": (0.012, 0.009, 0.0155, 0.010),
    "one_request": (2.0, 1.5, 6.0, 9),
    "path_of_a_dollar": ([("device", 1.2), ("energy", 0.2)],),
    "path_of_a_watt": (5600.0, 4600.0, 1.2),
    "ranks_on_nodes": (Plan(tp=4, pp=2, dp=2),),
    "roofline_by_hand": ("H100",),
    "server_memory_bar": (server_memory("Llama-3.1-8B", "H100"),),
    "steps_side_by_side": (
        step_model(deploy("Llama-3.1-8B", "H100")),
        [
            ("answers", Batch.of(catalog.model("Llama-3.1-8B"), decodes=[1000] * 32)),
            ("both", Batch.of(catalog.model("Llama-3.1-8B"), prefills=[(500, 0)], decodes=[1000] * 32)),
        ],
    ),
    "systolic_frame": (4, 4, 5, 3),
    "training_memory_bar": (
        training_memory("Llama-3.1-8B", seq=4096, micro_batch=1, sharding="zero3", dp=8, device="H100"),
    ),
    "transformer_block": ("Llama-3.1-8B",),
    "two_largest": ([0.1 + 0.01 * (i % 37) for i in range(49)] + [1.4],),
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


@pytest.mark.independent
@pytest.mark.parametrize("tokens", [1, 8, 128])
def test_drawn_experts_have_as_many_rows_as_tokens_choose(tokens: int) -> None:
    boxes = [s for s in pictures.experts_read(tokens, 32, 2).shapes if isinstance(s, Box)]
    assert len(boxes) == 32
    assert sum(int(b.text or 0) for b in boxes) == 2 * tokens
    assert all(b.dashed == (not b.text) for b in boxes)


@pytest.mark.independent
def test_a_drawn_cache_is_never_overfull_and_one_sequence_comes_back() -> None:
    frames = pictures.preemption()
    held = [[s.text for s in f.shapes if isinstance(s, Box) and s.height == 34 and not s.dashed] for f in frames.scenes]
    assert all(len(blocks_) <= 8 for blocks_ in held)
    with_c = ["C" in blocks_ for blocks_ in held]
    assert with_c[0]
    assert not all(with_c)
    assert with_c[-1]  # thrown out, and back


@pytest.mark.independent
def test_steps_of_a_drawing_are_to_scale() -> None:
    model, steps = ARGUMENTS["steps_side_by_side"]
    widths: dict[float, float] = {}
    for s in pictures.steps_side_by_side(model, steps).shapes:
        if isinstance(s, Box):
            widths[s.y] = widths.get(s.y, 0.0) + s.width
    short, long = (widths[y] for y in sorted(widths))
    assert short / long == pytest.approx(float(model.time(steps[0][1])) / float(model.time(steps[1][1])))


@pytest.mark.independent
def test_every_run_is_left_out_once() -> None:
    boxes = [s for s in pictures.leave_one_run_out([3] * 5).shapes if isinstance(s, Box)]
    out = [(b.x, b.y) for b in boxes if b.full]
    assert len(boxes) == 25
    assert len({x for x, _ in out}) == len({y for _, y in out}) == len(out) == 5


@pytest.mark.independent
def test_scattered_blocks_take_as_much_longer_as_their_searches() -> None:
    rows: dict[float, float] = {}
    for s in pictures.blocks_in_memory(4096.0, 1024.0).shapes:
        if isinstance(s, Box):
            rows[s.y] = max(rows.get(s.y, 0.0), s.x + s.width)
    ordered, scattered = (rows[y] - 80 for y in sorted(rows))
    assert scattered / ordered == pytest.approx(1 + 1024 / 4096)


def test_matplotlib_draws_scenes_too() -> None:
    from matplotlib import pyplot

    from mlsysim.drawing import matplotlib_figure

    for drawing in (pictures.transformer_block("Llama-3.1-8B"), pictures.ring_all_reduce()):
        figure = matplotlib_figure(drawing)
        figure.canvas.draw()
        pyplot.close(figure)
