"""The pictures of the page that sizes a job: what is drawn is what the answer says, worked out again by other ways."""

import re
from itertools import pairwise

import pytest

import mlsysim
from mlsysim import catalog
from mlsysim.course import live, sizing
from mlsysim.course.sizing import pictures

SLO = mlsysim.SLO(ttft=1.5, itl=0.03, quantile=0.95)
GPT = {
    "model": "gpt-oss-120B",
    "device": "H200",
    "rate": "40",
    "input_len": "6000",
    "output_len": "700",
    "ttft": "1.5 s",
}
GPT |= {"itl": "30 ms", "quantile": "95 %"}


@pytest.fixture(scope="module")
def served() -> mlsysim.api.serving.Served:
    return mlsysim.serve("gpt-oss-120B", "H200", rate=40, input_len=6000, output_len=700, slo=SLO)


def drawn(s: mlsysim.api.serving.Served) -> dict[str, object]:
    return {title.partition(":")[0]: reading for title, reading in pictures.of_served(s)}


@pytest.mark.independent
def test_memory_is_drawn_to_the_end_of_the_device(served: mlsysim.api.serving.Served) -> None:
    for s in (served, mlsysim.serve("Qwen3-32B", "H100"), mlsysim.serve("Llama-3.1-70B", "H100", rate=1, tp=2)):
        reading = drawn(s)["Memory of a device, to scale"]
        parts = {label: value for label, value, _ in reading.numbers()}
        assert sum(parts.values()) == pytest.approx(float(s.question.device.usable_memory), rel=1e-9)
        stored = {
            "gpt-oss-120B": 65e9 / 2,
            "Qwen3-32B": 2 * 32.8e9,
            "Llama-3.1-70B": 2 * 70.6e9 / 2,
        }  # bytes of a checkpoint over TP
        assert parts["weights"] == pytest.approx(stored[s.question.model.name], rel=0.15)
        widths = [float(w) for w in re.findall(r"<path d='M[\d.]+ [\d.]+h([\d.]+)v12", reading.drawing.svg())]
        assert len(widths) == len(parts) == 5
        for (a, x), (b, y) in pairwise(zip(parts.values(), widths, strict=True)):
            if min(x, y) > 3:  # to scale, where a tenth of a unit of the drawing can be seen
                assert a / b == pytest.approx(x / y, rel=0.04)
    parts = {label: value for label, value, _ in drawn(served)["Memory of a device, to scale"].numbers()}
    usable = float(
        served.question.device.usable_memory
    )  # of which a server takes nine tenths, and captures its graphs in the last
    assert parts["free"] == pytest.approx(usable / 10 - served.memory.graphs)
    full = mlsysim.serve("Llama-3.1-405B", "L4", rate=1)
    reading = drawn(full)["Memory of a device, to scale"]
    assert "free" not in [n for n, _, _ in reading.numbers()] and "more than it has" in reading.note


@pytest.mark.independent
@pytest.mark.parametrize("rate", [40, 3])
def test_cost_over_load_is_the_bill_of_each_rate(rate: float) -> None:
    asked = {"input_len": 6000, "output_len": 700, "slo": SLO}
    s = mlsysim.serve("gpt-oss-120B", "H200", rate=rate, **asked)
    found = {label: value for label, value, _ in drawn(s)["Cost over the load"].numbers()}
    assert found["at the rate asked for"] == pytest.approx(s.bill.cost_rate * 3600)
    twice = mlsysim.serve("gpt-oss-120B", "H200", rate=2 * rate, tp=s.option.tp, **asked)
    assert found["at twice the rate"] == pytest.approx(twice.bill.cost_rate * 3600)
    assert found["if its replicas were full"] == pytest.approx(s.bill.cost_rate * 3600 * float(s.load.utilisation))


@pytest.mark.independent
def test_the_front_is_every_batch_of_every_layout_with_the_target_on_it(served: mlsysim.api.serving.Served) -> None:
    drawing = drawn(served)["The front"].drawing
    trails = {name: list(zip(xs, ys, strict=True)) for name, xs, ys, _ in drawing.trails}
    assert list(trails) == ["TP1", "TP2", "TP4", "TP8", "target"]
    assert {x for x, _ in trails.pop("target")} == {0.03}
    for o in served.options:
        (first, *_), last = trails[f"TP{o.tp}"], trails[f"TP{o.tp}"][-1]
        step = mlsysim.inference.decode_step(o.deployment, context=served.question.input_len + 350, batch=1).time
        assert first[0] == pytest.approx(
            float(step), rel=0.25
        )  # one alone waits for its steps, and for the other prompts
        assert first[1] == pytest.approx(
            1 / first[0] / o.tp, rel=0.2
        )  # and gives a token each time, on all devices of its replica
        assert last[0] > first[0] and last[1] > first[1]
    (here,) = drawing.dots
    assert here.y * served.devices == pytest.approx(40 * 700)
    assert here.x == served.load.itl <= 0.03


def test_devices_stand_side_by_side_as_the_function_compares_them() -> None:
    form = GPT | {"device": "H200, B200"}
    found = mlsysim.compare_devices("gpt-oss-120B", ["H200", "B200"], rate=40, input_len=6000, output_len=700, slo=SLO)
    html = live._page.beside(form)["html"]
    for row in found.rows().rows:
        assert all(cell in html for cell in row)
    for line in found.words:
        assert line[1:].replace("'", "&#x27;") in html
    assert "which need not be that of the answer above" in html
    assert sizing.size(form)["answer"] == sizing.size(GPT)["answer"]  # the first is the answer
    assert 'mlsysim.compare_devices("gpt-oss-120B", ["H200", "B200"]' in sizing.size(form)["code"]
    assert live._page.beside(GPT) == {"html": ""}
    for device, task, said in (
        ("H200, h200", "serve", "names a device twice"),
        ("H200, B200", "fits", "serving requests compares several"),
        ("H200, B300, B200, H100, A100, L4, L40S", "serve", "at most"),
        ("H200, nope", "serve", "unknown"),
    ):
        wrong = sizing.size({"task": task, "model": "Llama-3.1-8B", "device": device})
        assert wrong["field"] == "device" and said in wrong["error"], wrong


def test_every_picture_is_named_reached_and_said_in_words() -> None:
    for form in (
        GPT,
        {"task": "fits", "model": "Qwen3-32B", "device": "H100"},
        {"model": "Llama-3.1-70B", "device": "8 x H200", "itl": "40 ms"},
    ):
        html = live._page.behind(form)["html"]
        each = re.findall(r'<details class="size-picture" open><summary>[^<]+</summary>.*?</details>', html, re.S)
        assert each
        for picture in each:
            assert "role='img'" in picture and re.search(r"<title>[^<]+</title>", picture)
            assert re.search(r'<p class="note">[^<]{30,}</p>', picture) and picture.count("data-number=") >= 2


def test_a_training_job_shows_its_memory() -> None:
    found = sizing.size({"task": "train", "model": "Llama-3.1-8B", "device": "H100", "count": "8"})
    (picture,) = found["pictures"]
    assert sum(float(value) for _, value, _ in picture["rows"]) == pytest.approx(
        float(catalog.device("H100").usable_memory), rel=1e-6
    )
