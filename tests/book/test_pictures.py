"""Drawings of things: legible on a phone, said in words, and no other than what the library computes."""

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from mlsysim import catalog, collectives, explore, hlo, memory, network, parallelism, roofline
from mlsysim.course import pictures
from mlsysim.course.pictures.cluster.messages import ring_held
from mlsysim.course.pictures.cluster.schedules import pipeline_tasks
from mlsysim.course.pictures.serving.answers import _tight
from mlsysim.drawing import DASHES, PALETTE, Bars, Chart, Drawing, Lanes, Line, Marks, Panels, Span, TornadoChart
from mlsysim.drawing.charts import on_lines
from mlsysim.drawing.marks import Name
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
from mlsysim.hlo.work.convolution import valid_positions
from mlsysim.inference import deploy
from mlsysim.memory import model_state_memory, server_memory, training_memory
from mlsysim.network import schedule
from mlsysim.parallelism import Plan
from mlsysim.serving_steps import Batch, step_model

SVG = "{http://www.w3.org/2000/svg}"
ARGUMENTS: dict[str, tuple] = {
    "attention_grows": (catalog.patch_transformer("ViT-L/16"),),
    "blocks_in_memory": (4096.0, 2500.0),
    "bytes_eaten": ([("text", 4e4), ("images", 2e8), ("volumes", 3.2e9)],),
    "climb_of_a_step": (
        deploy("Llama-2-7B", "H100"),
        Batch.of(catalog.model("Llama-2-7B"), prefills=[(500, 0)], decodes=[1000] * 32),
    ),
    "constant_or_slope": (2.05e-4,),
    "counted_causes": ([("devices", 9), ("network", 3)], 4.7e6),
    "errors_that_cancel": (0.09, 0.04, -0.49, -0.52),
    "experts_read": (8,),
    "first_in_a_mean": (0.272, 0.013, 23),
    "halving": (25e9, 800e9, 165e9),
    "layers_that_forget": ([catalog.model("Gemma-3-27b"), catalog.model("Qwen3-Next-80B-A3B")],),
    "held_weights": (4, 4, 5, 6),
    "honesty_ladder": ({"steps": [("in the fit", 0.12), ("unseen", 0.22)]},),
    "hours_paid": (8 * 3.4 / 3600, 21000.0),
    "latent_cache": ("DeepSeek-V3",),
    "leave_one_run_out": ([25, 20, 20, 20, 20, 20, 41],),
    "machine_worn_off": (177600.0, 1.02e7, 1.89e8, 0.85),
    "memory_levels": ("H100",),
    "message_life": (5e-6, 1e6, 1e11),
    "mixed_step": (0.012, 0.009, 0.0155, 0.010),
    "moved_bytes": ([("a step", [("apart", 6e8), ("fused", 1e8)])],),
    "nested_boundaries": ([("devices", 0.14), ("hosts", 0.06), ("the building", 0.02)],),
    "one_request": (2.0, 1.5, 6.0, 9),
    "one_vote": ({"a page": 60, "a run": 1},),
    "own_or_rent_by_hand": (1.5 / 3600, 2.5 / 3600),
    "partners": (Plan(tp=4, dp=2, pp=2), 4),
    "path_of_a_dollar": ([("device", 1.2), ("energy", 0.2)],),
    "path_of_a_watt": (5600.0, 4600.0, 1.2),
    "peak_too_high": (0.22, 2.0),
    "phases_in_time": ([("a cube", network.collective_time("all_reduce", 64e6, "torus:4x4x4", "ring", 50e9, 5e-7))],),
    "pipeline_orders": ("gpipe", "interleaved"),
    "pooled_on_a_line": (0.8, 0.6, 2.0),
    "printed_time": (0.04, 0.01, [("roofline", 0.0192), ("profile", 0.0433)]),
    "purchase_as_rate": (30e3, 9.5e7, 0.1),
    "roofline_by_hand": ("H100",),
    "server_memory_bar": (server_memory("Llama-3.1-8B", "H100"),),
    "slower_decides": ([("a", 2.0, 1.0), ("b", 1.0, 2.0), ("c", 0.0, 2.0)],),
    "sources_and_range": ([-0.4, -0.1, 0.0, 0.1, 0.3, 0.2], 0.25),
    "steps_side_by_side": (
        step_model(deploy("Llama-3.1-8B", "H100")),
        [
            ("answers", Batch.of(catalog.model("Llama-3.1-8B"), decodes=[1000] * 32)),
            ("both", Batch.of(catalog.model("Llama-3.1-8B"), prefills=[(500, 0)], decodes=[1000] * 32)),
        ],
    ),
    "streams_both_ways": tuple(
        hlo.estimate(hlo.sample("tf1l_train_fsdp8.spmd"), "A100-40GB", split=s) for s in ("linear", "dependency")
    ),
    "tables_over_devices": (catalog.recommender("DLRM-DCNv2"),),
    "training_memory_bar": (
        training_memory("Llama-3.1-8B", seq=4096, micro_batch=1, sharding="zero3", dp=8, device="H100"),
    ),
    "transformer_block": ("Llama-3.1-8B",),
    "two_clocks": ("H100",),
    "two_largest": ([0.1 + 0.01 * (i % 37) for i in range(49)] + [1.4],),
    "two_losses": (60.0, 10800.0),
    "search_landscape": (
        explore.plan("Llama-3.1-8B", "2 x DGX-H100", global_batch=128, seq=4096, most={"cp": 1}, sharding="zero1"),
    ),
    "two_scales": ([("16 GPUs", 0.677, 0.254, 0.0), ("128 GPUs", 0.36, 0.349, 0.104)],),
    "two_waters": (1.4, 0.36, 4.35),
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


def test_letters_of_all_pictures_are_shown_in_one_size(drawn: Drawing) -> None:
    """Charts were shown at 1.3 times their units, drawings and steps at 1 and 1.36."""
    head = re.match(r'<svg [^>]*viewBox="0 0 ([\d.]+) [\d.]+" width="([\d.]+)"', drawn.svg())
    assert head is not None
    assert float(head[2]) / float(head[1]) == pytest.approx(1.3)


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
def test_a_drawn_array_that_holds_weights_ends_in_the_cycle_of_its_formula() -> None:
    """2 R + C + M - 2 cycles, and as many products as elements times rows."""
    rows, columns, streamed = 4, 3, 5
    cycles = 2 * rows + columns + streamed - 2
    busy = [
        sum(isinstance(s, Box) and s.full for s in pictures.held_weights(rows, columns, streamed, c).shapes)
        for c in range(cycles + 1)
    ]
    assert sum(busy) == rows * columns * streamed
    assert busy[:rows] == [0] * rows
    assert busy[cycles - 1] == 1
    assert busy[cycles] == 0


@pytest.mark.independent
def test_drawn_taps_are_those_that_the_count_of_a_convolution_has() -> None:
    for size, kernel, padding, stride in ((5, 3, 1, 1), (6, 3, 1, 2), (4, 1, 0, 1), (5, 5, 2, 1)):
        scene = pictures.taps_met(size, kernel, padding, stride)
        met = sum(isinstance(s, Box) and s.full for s in scene.shapes)
        length = (size + 2 * padding - kernel) // stride + 1
        assert met == valid_positions(kernel, length, size, stride, padding, 1, 1)


@pytest.mark.independent
def test_a_drawn_region_saves_what_the_rule_says() -> None:
    """By hand: two broadcasts (a bias of 4 kB), a sum and a tanh over 128 x 1,024 floats; inside, nothing goes to memory."""
    bias, array = 4 * 1024, 4 * 128 * 1024
    apart = 2 * bias + (bias + array) + 3 * array + 2 * array
    assert f"{apart / 1e6:.2f} MB through memory" in pictures.fused_region().alt
    assert f"{(bias + 2 * array) / 1e6:.2f} MB as one kernel" in pictures.fused_region().alt


@pytest.mark.independent
def test_pieces_of_drawn_folds_are_the_fillings() -> None:
    scene = pictures.folds(70, 40, 16, 8)
    numbers = [s.text for s in scene.shapes if isinstance(s, Words) and s.text.isdigit()]
    assert numbers == [str(i + 1) for i in range(25)]  # ceil(70 / 16) x ceil(40 / 8)


@pytest.mark.independent
@pytest.mark.parametrize("n", [4, 7, 8])
def test_a_drawn_ring_says_how_many_messages_share_a_link(n: int) -> None:
    """floor(N^2 / 4) hops from each rank, over 2 links a rank."""
    assert f"{n * n // 4 / 2:g} messages on each" in pictures.ring_distances(n).alt


@pytest.mark.independent
def test_a_drawn_dragonfly_has_its_cables_and_a_way_of_five_hops() -> None:
    cables = [s for s in pictures.dragonfly_route(4, 3, 2).shapes if isinstance(s, Arrow)]
    assert sum(2 * (s.width < 2) for s in cables) == network.topology.dragonfly(4, 3, 2).links
    assert sum(s.width > 2 for s in cables) == 5


@pytest.mark.independent
@pytest.mark.parametrize(("text", "ports"), [("fattree:2", 2), ("fattree:4", 4)])
def test_a_drawn_fat_tree_has_as_many_cables_in_each_layer_as_ranks_and_uses_every_port(text: str, ports: int) -> None:
    """Al-Fares et al.: k pods, (k/2)^2 cores, k^3/4 ranks; so 5 k^2/4 switches, and as many cables up as down everywhere."""
    shapes = pictures.fat_tree(text).shapes
    cables = [s for s in shapes if isinstance(s, Arrow) and s.width < 2]
    ranks = network.topology.parse(text).ranks
    assert len(cables) == 3 * ranks and sum(isinstance(s, Arrow) and s.width > 2 for s in shapes) == 6
    ends = Counter(point for s in cables for point in (s.points[0], s.points[-1]))
    assert sorted(ends.values()) == [1] * ranks + [ports] * (5 * ports * ports // 4)
    middle = sum((s.points[0][0] < 200) for s in cables if min(s.points[0][1], s.points[-1][1]) < 40)
    assert middle == network.topology.parse(f"switch:{ranks}").bisection
    with pytest.raises(InputError, match="as fattree:4"):
        pictures.fat_tree("switch:8")


@pytest.mark.independent
def test_a_drawn_landscape_is_that_of_its_search() -> None:
    (searched,) = ARGUMENTS["search_landscape"]
    shapes = pictures.search_landscape(searched).shapes
    front = [s for s in shapes if isinstance(s, Box) and (s.width, s.kind) == (7, "compute")]
    plain = [s for s in shapes if isinstance(s, Box) and (s.width, s.kind) == (5, "waiting")]
    assert len(front) == len(searched.front()) and 60 <= len(plain) <= 300
    assert [s.y for s in front] == sorted(s.y for s in front), "more memory, less time"
    for s in plain:  # nothing that fits lies below and left of the front
        if s.x + 2.5 < 36 + 352 / 1.5:
            assert any(f.x + 3.5 <= s.x + 2.51 and f.y + 3.5 >= s.y + 2.49 for f in front)
    with pytest.raises(InputError, match="draw 10 to 400"):
        pictures.search_landscape(searched, 3)


@pytest.mark.independent
def test_small_wirings_have_their_cables() -> None:
    for text in ("ring:8", "mesh:6", "fullyconnected:6", "switch:8", "torus:4x4", "ring:4xswitch:2"):
        scene = pictures.wirings((text, "mesh:2"))
        cables = sum(isinstance(s, Arrow) for s in scene.shapes) - 1
        assert 2 * cables == network.topology.parse(text).links, text


@pytest.mark.independent
def test_the_slower_of_two_decides_in_the_drawing() -> None:
    scene = pictures.slower_decides([("a", 2.0, 1.0), ("b", 1.0, 3.0)])
    assert sum(isinstance(s, Box) and s.full for s in scene.shapes) == 2
    assert "5 s in all" in scene.alt


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
    frames = pictures.thrown_out_and_back()
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
        assert 20 <= x < x + wide <= 384
    with pytest.raises(InputError, match="for 1 lines; give one"):
        on_lines(Chart("x", "y", [rising]), 0.5, 0.5)


def spans(count: int) -> list[Span]:
    return [Span(f"lane {i} of the drawing", float(i), i + 2.0, f"kind {i % 4}") for i in range(count)]


@pytest.mark.independent
@pytest.mark.parametrize(
    "drawing",
    [
        Chart("x", "y", [Line([1, 10, 100], [1, 5, 9], "one"), Line([1, 10, 100], [9, 5, 1], "two")], title="a title"),
        Chart("x", "y", [], [Marks([1, 2], [3, 4], "dots", ("a", "b"))], x_log=False, y_log=False),
        Bars(
            ["a bar with a name that is long", "b"], {"one": [1, 2], "two": [2, 1]}, "time (s)", limit=(4, "the limit")
        ),
        TornadoChart(["first", "second"], [1, 2], [3, 4], 2.5, "time (s)"),
        Lanes(spans(6), "time (s)", "a title"),
        Panels(Bars(["a"], {"one": [1]}, "x"), Chart("x", "y", [Line([1, 2], [1, 2], "one")])),
    ],
    ids=lambda d: type(d).__name__,
)
def test_no_word_of_a_chart_is_below_ten_pixels_on_a_phone(drawing: Drawing) -> None:
    root = ElementTree.fromstring(drawing.svg())
    width = float(root.attrib["viewBox"].split()[2])
    assert width == 400
    parents = {child: parent for parent in root.iter() for child in parent}
    for text in root.iter(f"{SVG}text"):
        at: Element | None = text
        while at is not None and "font-size" not in at.attrib:
            at = parents.get(at)
        assert at is not None and float(at.attrib["font-size"]) * PHONE / width >= 10, text.text
    inner = [e for e in root.iter(f"{SVG}svg") if e is not root]
    assert all(float(e.attrib["width"]) == width for e in inner), "panels are drawn at one scale"


@pytest.mark.independent
@pytest.mark.parametrize("seed", range(8))
def test_names_of_lines_keep_apart_and_what_finds_no_place_stands_in_the_key(seed: int) -> None:
    draw = random.Random(seed)
    xs = [float(i) for i in range(1, 30)]
    lines = [
        Line(
            xs, [draw.uniform(1, 9) + (k + 1) * draw.uniform(0.4, 0.6) * x for x in xs], f"line number {k}", PALETTE[k]
        )
        for k in range(draw.randint(1, 6))
    ]
    marks = [Marks([5, 20], [20, 40], "measured", ("a point", "another"), PALETTE[5])]
    root = ElementTree.fromstring(Chart("x", "y", lines, marks, x_log=False, y_log=False).svg())
    (plot,) = [g for g in root if g.tag == f"{SVG}g"]
    inside = [t for g in plot.findall(f"{SVG}g") for t in g.findall(f"{SVG}text")]
    named = {t.text for t in inside} - {"a point", "another"}
    keyed = {t.text for t in root.findall(f"{SVG}text")} - {"y"}
    assert named | keyed == {line.label for line in lines} | {"measured"} and not named & keyed
    assert all(
        t.attrib["fill"] == {line.label: line.color for line in lines}[t.text or ""] for t in inside if t.text in named
    )
    boxes = [(float(t.attrib["x"]), float(t.attrib["y"]), 7.0 * len(t.text or "")) for t in inside]
    for i, (x, y, wide) in enumerate(boxes):
        assert x > 0 and x + wide <= 400 and 11 <= y <= 216
        for u, v, other in boxes[:i]:
            assert x + wide <= u or u + other <= x or abs(y - v) >= 12, "words on words"


def test_lines_that_lie_on_one_another_are_told_apart_in_the_key() -> None:
    same = [Line([1, 2, 3], [4, 5, 6], f"way {k}", PALETTE[k], DASHES[k]) for k in range(3)]
    root = ElementTree.fromstring(Chart("x", "y", same, x_log=False, y_log=False).svg())
    assert {f"way {k}" for k in range(3)} <= {t.text for t in root.findall(f"{SVG}text")}


@pytest.mark.independent
@pytest.mark.parametrize(("pp", "m", "virtual"), [(4, 4, 2), (4, 6, 2), (3, 2, 2), (2, 1, 4)])
def test_drawn_orders_of_a_pipeline_take_what_the_closed_forms_say(pp: int, m: int, virtual: int) -> None:
    plain = schedule(pipeline_tasks("gpipe", pp, m)).time
    assert plain == pytest.approx(3 * (m + pp - 1))
    assert schedule(pipeline_tasks("1f1b", pp, m)).time == pytest.approx(plain)
    ratio = float(parallelism.bubble_ratio(pp, m, virtual))
    assert schedule(pipeline_tasks("interleaved", pp, m, virtual)).time == pytest.approx(3 * m * (1 + ratio))


@pytest.mark.independent
@pytest.mark.parametrize(("pp", "m"), [(2, 4), (3, 6), (4, 6)])
def test_a_drawn_zero_bubble_waits_a_third_and_keeps_no_more_than_the_stages(pp: int, m: int) -> None:
    tasks = pipeline_tasks("zero-bubble", pp, m)
    found = schedule(tasks)
    assert found.time - 3 * m == pytest.approx(pp - 1)  # (P - 1)(1 + 1 - 1)
    for stage in range(pp):
        mine = [t.name for t in tasks if t.ranks == (stage,)]
        kept = most = 0
        for name in mine:
            kept += {"F": 1, "B": 0, "W": -1}[name[0]]
            most = max(most, kept)
        assert most <= pp


@pytest.mark.independent
def test_the_partners_of_a_rank_are_those_that_differ_in_one_place() -> None:
    scene = pictures.partners(Plan(tp=4, dp=2, pp=2), 4, 5)
    texts = [s.text for s in scene.shapes if isinstance(s, Box) and s.text]
    assert texts == ["DP", "TP", "this", "TP", "TP", "PP"]  # ranks 1, 4, 5, 6, 7 and 13
    assert "DP, PP of its groups leave" in scene.alt
    both = pictures.partners(Plan(tp=4, dp=2, pp=2), 8)
    assert "PP of its groups leave" in both.alt
    assert "DP, PP" not in both.alt


@pytest.mark.independent
def test_after_all_hops_every_query_has_met_every_key() -> None:
    for n in (2, 4):
        last = pictures.ring_attention(n).scenes[-1]
        assert [s.text for s in last.shapes if isinstance(s, Words) and "met" in s.text] == [f"met {n} of {n}"] * n


@pytest.mark.independent
def test_what_is_left_of_drawn_messages() -> None:
    """Nothing hides the sum; a short gathering hides; of three gradients in a row what is beyond the backward pass is seen."""
    alt = pictures.hidden_messages(gather=1.6, gradient=2.6).alt
    assert "(1.5)" in alt
    assert "(0 seen)" in alt
    assert f"{2.0 + 3 * 2.6 - 6.0:.1f} are left" in alt
    assert "0.5 are left" in pictures.hidden_messages(gradient=0.5).alt  # of the last, which nothing can hide


@pytest.mark.independent
def test_a_drawn_step_is_its_pipeline_and_a_tail() -> None:
    for pp, m in ((2, 3), (3, 4)):
        alt = pictures.whole_step(pp, m, gradients=2.0, optimizer=1.0).alt
        assert f"after {3 * (m + pp - 1) + 3:g} units" in alt


@pytest.mark.independent
def test_the_slowest_sets_a_drawn_step() -> None:
    boxes = [s for s in pictures.slowest_of(7, 0.1).shapes if isinstance(s, Box)]
    works = [b.width for b in boxes if b.kind == "compute"]
    waits = [b.width for b in boxes if b.kind == "waiting"]
    assert len(works) == 7
    assert sum(works) + sum(waits) == pytest.approx(7 * max(works))
    assert (
        "14% after the mean" in pictures.slowest_of(7, 0.1).alt
        or "15% after the mean" in pictures.slowest_of(7, 0.1).alt
    )


def test_schedules_refuse_what_a_drawing_cannot_show() -> None:
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: pipeline_tasks("chimera", 4, 4), "use one of"),
        (lambda: pipeline_tasks("1f1b", 9, 4), "at most 6"),
        (lambda: pipeline_tasks("1f1b", 4, 4, 2), "belongs to an interleaved"),
        (lambda: pictures.four_cuts(5), "2 or 3"),
        (lambda: pictures.partners(Plan(dp=64)), "at most 32"),
        (lambda: pictures.experts_on_ranks(4, 3), "they divide"),
        (lambda: pictures.ring_attention(9), "2 to 5"),
        (lambda: pictures.hidden_messages(gather=9.0), "up to 4"),
        (lambda: pictures.slowest_of(99), "2 to 8"),
        (lambda: pictures.counted_work(0.0), "above 0"),
        (lambda: pictures.whole_step(9), "2 to 4 stages"),
    ]
    for make, says in cases:
        with pytest.raises(InputError, match=says):
            make()


@pytest.mark.independent
def test_drawn_waste_is_what_a_sum_says() -> None:
    """A prompt of 4 and 4 passes: 4 + 5 + 6 + 7 computed, 4 + 3 new."""
    scene = pictures.naive_generation(4, 4)
    full = [s.full for s in scene.shapes if isinstance(s, Box) and not s.dashed]
    assert (len(full), sum(full)) == (22, 7)
    assert "22 in all, of which only 7" in scene.alt


@pytest.mark.independent
def test_drawn_bytes_are_to_scale() -> None:
    """8B in 16 bits: 15.0 GB without the embedding; a token of cache is 2 x 32 x 8 x 128 x 2 bytes."""
    boxes = [s for s in pictures.bytes_of_a_step(context=1000, batches=(64,)).shapes if isinstance(s, Box)]
    weights, cache = (b.width for b in boxes[:2])
    assert cache / weights == pytest.approx(64 * 1000 * 131072 / 15.01e9, rel=0.002)


@pytest.mark.independent
def test_chunks_shorten_the_drawn_gap_and_delay_the_prompt() -> None:
    """24 tokens at 4 a unit and two answers: one step of 26/4 units; in chunks of at most six tokens steps of 6/4."""
    scene = pictures.prompt_among_answers(24, 6)
    assert "the longest gap is 6.5 units, in chunks 1.5" in scene.alt
    first = [float(s.text.rpartition(" ")[2]) for s in scene.shapes if isinstance(s, Words) and "first token" in s.text]
    assert first[0] < first[1]


@pytest.mark.independent
def test_a_random_moment_meets_the_long_ones() -> None:
    """(4 + 4 + 4 + 64) / 14 against 14 / 4."""
    alt = pictures.who_is_met((2, 2, 2, 8)).alt
    assert f"{14 / 4:.1f}" in alt
    assert f"{76 / 14:.1f}" in alt


@pytest.mark.independent
def test_the_two_ways_to_add_up_an_area_agree() -> None:
    found = re.search(r"stay (\d+) units in all; .* add up to (\d+)", pictures.littles_area().alt)
    assert found is not None
    assert found[1] == found[2]


@pytest.mark.independent
def test_a_full_batch_is_drawn_as_its_equation_counts() -> None:
    """In a round of b prompts and n steps every place has one prompt of its own and waits for b - 1 others."""
    for b, k in ((2, 1), (3, 2), (4, 2)):
        boxes = [s for s in pictures.prompts_stop_answers(b, k).shapes if isinstance(s, Box)]
        kinds = [s.kind for s in boxes]
        assert (kinds.count("compute"), kinds.count("waiting"), kinds.count("memory")) == (b, b * (b - 1), b * b * k)


@pytest.mark.independent
def test_a_drawn_cache_never_holds_more_than_it_has_and_one_is_thrown_out() -> None:
    played, limit = _tight()
    assert max(s.blocks for s in played.log) == limit
    assert sum(r.preemptions for r in played.records) == 1
    assert len(pictures.preemption().scenes) == 5


def test_answers_refuse_what_a_drawing_cannot_show() -> None:
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: pictures.naive_generation(9), "2 to 6"),
        (lambda: pictures.one_query_many_keys(99), "3 to 8"),
        (lambda: pictures.bytes_of_a_step(batches=()), "1 to 4"),
        (lambda: pictures.prompt_among_answers(99), "up to 32"),
        (lambda: pictures.speculation_in_time(4, 4), "fewer are right"),
        (lambda: pictures.who_is_met((0, 1)), "of 1 and more"),
        (lambda: pictures.prompts_stop_answers(9), "2 to 4"),
        (lambda: pictures.states_chain(9), "2 to 5"),
    ]
    for make, says in cases:
        with pytest.raises(InputError, match=says):
            make()


@pytest.mark.independent
def test_drawn_clocks_are_to_scale_and_the_longer_one_is_the_law() -> None:
    """One token: 8192 x 57344 numbers of 2 bytes at 3.35 TB/s are 280 µs; 1024 tokens: 2 x 1024 x 8192 x 57344 at 989.5 TFLOP/s."""
    boxes = [s for s in pictures.two_clocks("H100", (1, 1024)).shapes if isinstance(s, Box)]
    times = [2 * 8192 * 57344 / 989.5e12, 2 * 8192 * 57344 / 3.35e12, 2 * 1024 * 8192 * 57344 / 989.5e12]
    assert [b.width / boxes[1].width for b in boxes[:3]] == pytest.approx([t / times[1] for t in times], rel=1e-3)


@pytest.mark.independent
@pytest.mark.parametrize("kernel", [0.4, 2.0])
def test_a_drawn_queue_waits_as_long_as_its_formula(kernel: float) -> None:
    from mlsysim.course.pictures.machines.clocks import queue_times

    _, device = queue_times(1.0, kernel, 5)
    assert device[-1][1] - 5 * kernel == pytest.approx(roofline.dispatch_time(5, 1.0, 5 * kernel))


@pytest.mark.independent
@pytest.mark.parametrize("n", [3, 4, 6, 8])
def test_a_drawn_tree_sums_all_in_as_many_steps_as_its_equation_has(n: int) -> None:
    from mlsysim.course.pictures.cluster.messages import tree_sends

    held = {rank: {rank} for rank in range(n)}
    steps = tree_sends(n)
    for sends in steps:
        for sender, receiver in sends:
            held[receiver] |= held.pop(sender)
    assert held == {0: set(range(n))}
    assert 2 * len(steps) == pytest.approx(collectives.tree_all_reduce(0.0, n, 1.0, 1.0))


@pytest.mark.independent
def test_drawn_chunks_take_as_long_as_filling_and_passing() -> None:
    from mlsysim.course.pictures.machines.clocks import chunk_times

    assert chunk_times(6, 4, 1 / 6)[-1][-1][1] == pytest.approx((6 + 4 - 1) / 6)


@pytest.mark.independent
@pytest.mark.parametrize(("tokens", "window"), [(8, None), (8, 3), (10, 9)])
def test_drawn_masks_have_the_mean_of_the_equation(tokens: int, window: int | None) -> None:
    from mlsysim.course.pictures.machines.counts import visible_keys

    seen = visible_keys(tokens, window)
    w = window or tokens
    assert sum(map(sum, seen)) / tokens == pytest.approx(w - w * (w - 1) / (2 * tokens))


@pytest.mark.independent
def test_drawn_tensors_of_a_layer_add_up_to_the_published_count() -> None:
    """34 + 5 a s / h, of which 24 and the scores are divided (Korthikanti et al., equations 1 and 2)."""
    from mlsysim.course.pictures.machines.memory import kept_of_layer

    kept = kept_of_layer("GPT-3-175B", 2048)
    sums = {who: sum(v for _, v, w in kept if w == who) for who in ("whole", "divided", "scores")}
    assert sums == {"whole": 10, "divided": 24, "scores": 5 * 96 * 2048 / 12288}
    one = memory.activation_memory_tp(2048, 1, 12288, 96, tp=8) / (2048 * 12288)
    assert sums["whole"] + (sums["divided"] + sums["scores"]) / 8 == pytest.approx(one)


@pytest.mark.independent
def test_no_more_than_two_layers_are_whole_at_once() -> None:
    assert "At most 2 layers" in pictures.gather_ahead().alt


@pytest.mark.independent
def test_the_longest_answer_holds_the_places_of_all() -> None:
    """Eight answers of 44 tokens in sum and a longest of 16: at the end 44 of 128 places worked, and it took 2.9 means."""
    frames = pictures.answers_waiting()
    assert "2.9 times" in frames.says[-1]
    words = [s.text for s in frames.scenes[-1].shapes if isinstance(s, Words)]
    assert "places at work so far: 34 %" in words
    waiting = [s for s in frames.scenes[-1].shapes if isinstance(s, Box) and s.kind == "waiting"]
    assert len(waiting) == 7 and sum(s.width for s in waiting) == pytest.approx(300 / 16 * (128 - 44))


@pytest.mark.independent
def test_pools_begin_more_steps_in_the_time_of_waiting() -> None:
    """By hand: 4 + 4 + 4 twice are 24; pools take 8 each, so that three begin in that time."""
    assert "begin 3 steps" in pictures.one_after_the_other().alt
    assert "1 in 256" in " ".join(s.text for s in pictures.adapter_beside().shapes if isinstance(s, Words))
    kept = [s.text for s in pictures.what_tuning_keeps().shapes if isinstance(s, Words)]
    assert "128 GB" in kept and "16.3 GB" in kept


@pytest.mark.parametrize(
    "draw",
    [
        lambda: pictures.adapter_beside(4096, 4096),
        lambda: pictures.what_tuning_keeps(1e9, 2e9),
        lambda: pictures.answers_waiting([1]),
        lambda: pictures.one_after_the_other(0.0),
        lambda: pictures.bytes_eaten([("text", 0.0), ("images", 1.0)]),
    ],
)
def test_drawings_of_learning_refuse_what_they_cannot_show(draw: Callable[[], object]) -> None:
    with pytest.raises(InputError):
        draw()
