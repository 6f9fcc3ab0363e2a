"""The chain of every door, from its number to the sources: the headline is recomputed from the printed lines alone."""

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any

import numpy as np
import pytest
from printed import PRINTED, first_passage

import mlsysim
from mlsysim import SLO, equations, serving, training
from mlsysim._chains import chain
from mlsysim._numeric.traced import given, plain
from mlsysim.errors import InputError
from mlsysim.parallelism import Plan
from mlsysim.results import Explanation
from mlsysim.serving_steps import Batch
from mlsysim.serving_steps.mixed import MixedSteps

pytestmark = pytest.mark.independent


class Lines:
    """The lines of an explanation as JSON has them, evaluated with nothing else of the library than the printed formulas."""

    def __init__(self, explanation: Explanation) -> None:
        said = explanation.to_dict()
        self.terms = {t["name"]: t for t in said["terms"]}
        self.inputs = {i["name"]: i for i in said["inputs"]}
        self.head = said["terms"][0]["name"]
        assert len(self.terms) + len(self.inputs) == len(said["terms"]) + len(
            said["inputs"]
        )  # every name is one line's
        self.known: dict[str, Any] = {}

    def leaves(self) -> list[str]:
        """Inputs that the headline needs; each argument comes from a line, or is a small number of the formula itself."""
        found, waiting, seen = [], [self.head], set()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in self.inputs:
                found.append(name)
                continue
            for argument, value in self.terms[name]["arguments"].items():
                if value["from"] is None:
                    assert value["value"] in (0, 1, 2, 3, 4), (name, argument, value)
                else:
                    waiting.append(value["from"])
        assert seen >= set(self.terms)  # no line stands there for nothing
        return found

    def value(self, name: str) -> Any:
        if name not in self.known:
            self.known[name] = self.inputs[name]["value"] if name in self.inputs else self._computed(self.terms[name])
        return self.known[name]

    def _computed(self, term: Mapping[str, Any]) -> Any:
        given = {n: a["value"] if a["from"] is None else self.value(a["from"]) for n, a in term["arguments"].items()}
        names = {n: a["from"] for n, a in term["arguments"].items()}
        own = {
            "at_batch": self._at_batch(names),
            "each_batch": self._each(names, term),
            "added": self._added(names, term),
            **FUNCTIONS,
        }
        return eval(_compiled(term["formula"]), {"__builtins__": {}}, {**PRINTED, **own, **given})

    def _at_batch(self, names: Mapping[str, str | None]) -> Callable[[Any, float], float]:
        """The line of a step once more, with another batch."""

        def again(_: Any, batch: float) -> float:
            step = next(n for n in self.terms if re.fullmatch(r"step of \d+", n))
            return self._with(step, {"batch": batch})

        return again

    def _with(self, name: str, others: Mapping[str, float]) -> float:
        """A line once more, with other inputs."""
        other = Lines.__new__(Lines)
        other.terms, other.head, other.known = self.terms, name, {}
        other.inputs = {**self.inputs, **{n: {"value": v} for n, v in others.items()}}
        return float(other.value(name))

    def _added(self, names: Mapping[str, str | None], term: Mapping[str, Any]) -> Callable[..., list[float]]:
        """What a prompt adds to each batch: its parts one after the other beside some batches, and straight lines between."""

        def summed(_: Any, prompt: float, cached: float, room: float, batches: Sequence[float]) -> list[float]:
            found = []
            for n in batches:
                done, time = cached, 0.0
                while done < prompt:
                    new = min(prompt - done, max(1.0, room - n))
                    beside = {"answers beside": n, "new tokens beside": new, "cached tokens beside": done}
                    time, done = time + self._with(part, beside), done + new
                found.append(time)
            return list(np.interp(range(1, len(term["value"]) + 1), batches, found))

        part = next((n for n in names.values() if n and n.startswith("what a prompt adds to a step of")), "")
        return summed

    def _each(self, names: Mapping[str, str | None], term: Mapping[str, Any]) -> Callable[[Any], list[float]]:
        again = self._at_batch(names)
        return lambda _: [again(None, float(n + 1)) for n in range(len(term["value"]))]


@functools.cache
def _compiled(formula: str) -> CodeType:
    return compile(formula, formula, "eval")


def _states(rate: float, each: Sequence[float], crowd: float) -> tuple[list[float], list[float]]:
    """Numbers in the batches of a crowd of replicas and their chances: each state's follows from balance with the one before."""
    most, weight = crowd * len(each), [1.0]
    sizes = [0.0] + [min(float(n), most) for n in range(1, math.ceil(most - 1e-9) + 1)]
    for size in sizes[1:]:
        weight.append(weight[-1] * rate / (crowd * float(np.interp(size / crowd, range(len(each) + 1), [0.0, *each]))))
    return sizes, [w / math.fsum(weight) for w in weight]


def batch_full(rate: float, each: Sequence[float], crowd: float) -> float:
    return _states(rate, each, crowd)[1][-1]


def batch_mean(rate: float, each: Sequence[float], crowd: float) -> float:
    return math.fsum(n * p for n, p in zip(*_states(rate, each, crowd), strict=True))


def batch_variance(rate: float, each: Sequence[float], crowd: float) -> float:
    mean = batch_mean(rate, each, crowd)
    return math.fsum((n - mean) ** 2 * p for n, p in zip(*_states(rate, each, crowd), strict=True))


def throughputs(prompt: float | Sequence[float], steps: Sequence[float], count: float) -> list[float]:
    prompts = np.broadcast_to(prompt, len(steps))
    return [n / (n * p + count * t) for n, (p, t) in enumerate(zip(prompts, steps, strict=True), 1)]


def mixed(share: float, some: Sequence[float], rest: Sequence[float]) -> list[float]:
    return [share * x + (1 - share) * y for x, y in zip(some, rest, strict=True)]


def last(values: Sequence[float]) -> float:
    return values[-1]


def in_batches(added: Sequence[float], rate: float, each: Sequence[float], crowd: float, full: float) -> float:
    """What a prompt adds where it comes: as often in each state as that completes requests, or while others wait."""
    sizes, chances = _states(rate, each, crowd)
    done = np.interp(np.array(sizes) / crowd, range(len(each) + 1), [0.0, *each]) * chances
    batches = [min(len(each), max(1, round(size / crowd))) for size in sizes]
    return (1 - full) * float(done @ [added[n - 1] for n in batches]) / float(done.sum()) + full * added[-1]


def found_busy(busy: float, replicas: float) -> float:
    """The root below one of s = (1 + (1 - s) / (N rho))^-N, by halving."""
    low, high = 0.0, 1 - 1e-9
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 + (1 - middle) / (replicas * busy)) ** -replicas > middle else (low, middle)
    return low


def share_in_pace(
    target: float, most: float, full: float, steps: float, variation: float, mean: float, deviation: float, busy: float,
    spread: float, wait: float, wait_spread: float, times: Sequence[float],
) -> float:  # fmt: skip
    """Answers in pace over batches about normal, by Gauss and Hermite, and while somebody waits in the full one."""
    # lengths of answers have a gamma distribution: at even steps of the length, finer than those of the solver
    grid = [steps] if variation == 0 else [steps * (k + 0.5) / 100 for k in range(600)]
    counts = [
        1.0 if variation == 0 else (n / steps) ** (variation**-2 - 1) * math.exp(-n / steps / variation**2)
        for n in grid
    ]

    def meets(batch: float) -> float:
        step = float(np.interp(batch, range(1, len(times) + 1), times))
        found = 0.0
        for n, count in zip(grid, counts, strict=True):
            n = max(1.0, n)
            time = (n * step + wait) / (1 - busy)
            found += count * first_passage(n * target, time, math.sqrt(time * spread + wait_spread**2) / (1 - busy))
        return found / math.fsum(counts)

    nodes, weights = np.polynomial.hermite_e.hermegauss(7)
    weights = weights / weights.sum()
    own = math.fsum(w * meets(max(1.0, min(most, mean + z * deviation))) for z, w in zip(nodes, weights, strict=True))
    return own * (1 - full) + meets(most) * full


def fewest_replicas(tried: int, met: float, share: float, *fewer: float) -> int:
    assert met >= share
    for other in fewer:
        assert other >= 1 or other < share  # one fewer is beyond its capacity, or meets too seldom
    return tried


def fewest_below_one(tried: int, utilisation: float, *fewer: float) -> int:
    assert utilisation < 1 and all(other >= 1 for other in fewer)
    return tried


def most_in_pace(tried: float, itl: float, one_more: float, target: float) -> float:
    assert itl <= target < one_more
    return tried


def largest_rate(rate: float, met: float, share: float) -> float:
    assert share - 1e-6 <= met < share + 1e-3  # the lengths of answers are summed in two ways
    return rate


def fastest_that_fits(step: float, others: Sequence[float], tie: float, memory: float, capacity: float) -> float:
    assert step <= min(others) * (1 + tie) and memory <= capacity
    return step


FUNCTIONS = {
    f.__name__: f
    for f in (
        batch_full, batch_mean, batch_variance, throughputs, found_busy, share_in_pace, fewest_replicas, fewest_below_one, most_in_pace,
        largest_rate, fastest_that_fits, last, in_batches, mixed,
    )
} | {"int": int, "even_share": lambda size, room: size if size <= room else math.gcd(int(size), int(room))}  # fmt: skip


def walked(explanation: Explanation) -> Lines:
    """The lines, once every one of them is recomputed and every number given has a source."""
    lines = Lines(explanation)
    for name in lines.leaves():
        origin = lines.inputs[name]["origin"]
        assert origin and "scripts/" not in origin, name
    for name, term in lines.terms.items():
        assert lines.value(name) == pytest.approx(term["value"], rel=1e-6, abs=1e-12), name
    text = str(explanation)
    assert "e-13" not in text and "0.0000" not in text and "scripts/" not in text
    return lines


def test_the_devices_of_a_service_follow_from_the_lines_alone() -> None:
    found = mlsysim.serve("Qwen3-32B", "B200", slo=SLO(ttft=0.5, itl=0.03), rate=20)
    lines = walked(found.explain())
    assert lines.value(lines.head) == found.devices == 2
    origins = {name: i["origin"] for name, i in lines.inputs.items()}
    assert "nvidia2024blackwell" in origins["memory bandwidth"] and "nvidia2024blackwell" in origins["peak flops"]
    assert "measured alone" in origins["kernels: products 16"]
    # the step of all places, by its own line and by those of every smaller batch
    load: Any = found.load
    assert lines.value(f"step of {len(load.replica.step_times)}") == pytest.approx(
        load.replica.step_times[-1], rel=1e-12
    )
    assert lines.value("step of each batch") == pytest.approx(list(load.replica.step_times), rel=1e-12)


@pytest.mark.parametrize(
    ("model", "question"),
    [
        ("Qwen3-32B", {"input_len": 3000}),  # in parts of 2,048 tokens less the answers beside it
        (
            "gpt-oss-20B",
            {"input_len": 3000, "cached_len": 2000, "hit_rate": 0.5},
        ),  # a window, and prompts that miss the cache
    ],
)
def test_what_a_prompt_adds_to_a_step_follows_from_its_operations(model: str, question: dict[str, Any]) -> None:
    """With another rate among the inputs the lines give what the replica has with that rate: no time is baked into them."""
    found = mlsysim.serve(model, "B200", slo=SLO(ttft=2.0), rate=10, **question)
    lines = Lines(found.explain())
    d, load = found.deployment, found.load
    assert load is not None
    added = pytest.approx(list(load.replica.added_times), rel=1e-9)
    assert lines.value("what a prompt adds to each batch") == added
    name = next(n for n in lines.terms if n.startswith("what a prompt adds to a step of "))
    asked = {n: int(lines.inputs[f"{n} beside"]["value"]) for n in ("answers", "new tokens", "cached tokens")}
    chunk, seen = [(asked["new tokens"], asked["cached tokens"])], [lines.value("tokens held")] * asked["answers"]
    half = 0.5 * d.device.memory_bandwidth
    lines.inputs["memory bandwidth"] = {"value": half}
    steps = MixedSteps(
        dataclasses.replace(d, machine=dataclasses.replace(d.machine, memory_bandwidth=half)), d.efficiencies
    )
    with_it, without = (steps.time(Batch.of(d.model, prompts, seen)) for prompts in (chunk, []))
    lines.known.clear()
    assert lines.value(name) == pytest.approx(with_it - without, rel=1e-6)
    assert any(n.startswith("step of ") and n.endswith(" and a prompt: mlp: flops") for n in lines.terms)


@pytest.mark.parametrize(
    ("model", "device", "question"),
    [
        ("Qwen3-30B-A3B", "8 H200", {"slo": SLO(ttft=0.3, itl=0.02), "rate": 60}),
        ("Llama-3.1-70B", "H100", {"slo": SLO(ttft=2.0), "rate": 4, "tp": 4}),
        ("Llama-3.1-8B", "H100", {"slo": SLO(ttft=0.5, itl=0.02)}),
        ("Llama-3.1-8B", "H100", {"rate": 30, "routing": "least-loaded"}),
        ("Llama-3.1-8B", "H100", {"rate": 20}),
        ("Llama-3.1-8B", "H100", {"batch": 4, "efficiencies": "bound"}),
        ("gpt-oss-120B", "H200", {"input_len": 4000, "efficiencies": "datasheet"}),
        ("DeepSeek-V3", "8 H200", {"tp": 8, "ep": 8, "precision": "fp8", "batch": 64}),
    ],
)
def test_so_do_other_answers_of_serve(model: str, device: str, question: dict[str, Any]) -> None:
    found = mlsysim.serve(model, device, **question)
    lines = walked(found.explain())
    if "rate" in question:
        assert lines.value(lines.head) == found.devices
        assert any(name.startswith("step of ") for name in lines.terms)  # down to the step that decides
    elif "slo" in question:
        assert lines.value(lines.head) == pytest.approx(float(found.load.rate))  # type: ignore[union-attr]
    else:
        assert lines.value(lines.head) == pytest.approx(float(found.generation.e2e), rel=1e-12)


@pytest.mark.parametrize(
    ("model", "cluster", "plan"),
    [
        ("Llama-3.1-8B", "DGX-H100", Plan(dp=8, sharding="fsdp", recompute="full")),
        ("Llama-3.1-70B", "8 x DGX-H100", Plan(tp=8, pp=4, dp=2, virtual_stages=2, micro_batch=1)),
        ("Mixtral-8x7B", "4 x DGX-H100", Plan(tp=2, dp=16, ep=8, sharding="zero1")),
        ("DeepSeek-V3", "32 x DGX-H100", Plan(tp=2, pp=16, dp=8, ep=8, sharding="zero1", recompute="full")),
    ],
)
def test_a_training_run_follows_from_the_lines_alone(model: str, cluster: str, plan: Plan) -> None:
    found = mlsysim.train(model, cluster, tokens="1T", global_batch=128, seq=4096, plan=plan)
    lines = walked(found.explain())
    assert lines.value(lines.head) == pytest.approx(found.time_to_train, rel=1e-12)
    assert lines.value("step") == pytest.approx(float(found.step.time), rel=1e-12)


@pytest.mark.parametrize(
    "rate", ["peak flops", "half peak flops", "memory bandwidth", "intra bandwidth", "inter bandwidth"]
)
def test_a_chain_has_no_gap_where_a_rate_could_hide(rate: str) -> None:
    """With another rate among its inputs the lines give what the solver gives with that rate: no number is baked into them."""
    plan = Plan(tp=2, pp=2, dp=16, ep=8, sharding="zero1")
    step = mlsysim.train("Mixtral-8x7B", "8 x DGX-H100", global_batch=128, seq=4096, plan=plan).step
    lines = Lines(chain("step", step.traced_time()[0]))
    name = f"{rate} 2" if f"{rate} 2" in lines.inputs else rate
    lines.inputs[name] = {"value": 0.9 * lines.inputs[name]["value"]}
    slower = dataclasses.replace(
        step.machine, **{rate.replace(" ", "_"): 0.9 * getattr(step.machine, rate.replace(" ", "_"))}
    )
    terms = training.terms.step_terms(step.work, step.layout, slower, step.efficiencies)
    assert lines.value(lines.head) == pytest.approx(float(terms.time), rel=1e-9)
    assert float(terms.time) > float(step.time)


def test_the_first_plan_follows_from_the_lines_alone() -> None:
    found = mlsysim.plan("Llama-3.1-8B", "DGX-H100", global_batch=64, seq=4096)
    explanation = found.explain()
    assert isinstance(explanation, Explanation) and "Loses by" in str(explanation)
    lines = walked(explanation)
    assert lines.value(lines.head) == pytest.approx(found.fastest, rel=1e-9)


def test_a_played_percentile_follows_from_the_lines_alone() -> None:
    found = mlsysim.simulate("Llama-3.1-8B", "H100", rate=4, requests=100, input_len=1000, output_len=50)
    explanation = found.explain()
    assert isinstance(explanation, Explanation)
    lines = walked(explanation)
    times = sorted(r.ttft_s or 0.0 for r in found.simulation.records)  # type: ignore[union-attr]
    assert lines.value(lines.head) == pytest.approx(float(np.quantile(times, 0.99)), rel=1e-9)
    assert any(name.endswith("step of its prompt") for name in lines.terms)
    several = mlsysim.simulate("Llama-3.1-8B", "H100", rate=4, requests=20, input_len=100, output_len=5, runs=3)
    lines = walked(several.explain())  # type: ignore[arg-type]
    assert lines.value(lines.head) == pytest.approx(several.mean("ttft_s.p99"))


def test_a_number_that_is_traced_is_the_number() -> None:
    """What asks with traced numbers gets what it would get without, and a wrong one is refused as ever."""
    three, half = given(3, "three"), given(0.5, "half")
    assert 2**three // 3 - -half == 2.5 and three % 2 == 1 and 7 - three == 4 and 6 / three == 2
    assert list(range(three)) == [0, 1, 2] and type(plain(three)) is int and type(plain(half * three)) is float
    found = chain("x", (2 - (three - half)) / (three * (half + 1)), ())
    assert found.terms[0].formula == "(2 - (three - half)) / (three * (half + 1))"
    assert eval(found.terms[0].formula, {}, dict(found.terms[0].arguments)) == found.terms[0].value
    with pytest.raises(InputError, match="peak_flops"):
        mlsysim.roofline.compute_time(1.0, given(-1.0, "a peak"))
    with equations.recording() as labels:
        mlsysim.roofline.compute_time(given(1.0, "work"), 1.0)
    assert labels == {"eq-compute-time"}
    assert serving.summarise([1.0])["mean"] == 1.0
