"""What we predict of a figure that another tool measured, with the terms in it, its range, and the least that the datasheet allows."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mlsysim import catalog, communication, inference, intervals, serving, training
from mlsysim.api.arguments import Defaults
from mlsysim.api.asked import formats_of, networked
from mlsysim.efficiencies import DEFAULT, lineage
from mlsysim.errors import InputError
from mlsysim.inference import Deployment
from mlsysim.intervals import log_error
from mlsysim.memory.serving import as_published, release_of
from mlsysim.parallelism import Plan
from mlsysim.results import Result
from mlsysim.runs import Figure
from mlsysim.serving_steps import step_model

Asked = Mapping[str, Any]
BOUND = "bound"
_PLAYED, _OPEN = 10, 2000  # requests of a closed loop for each in flight, where the run had more; and of an open one
QUEUE, OTHERS = "waiting for a place and for the step under way", "prompts of others in the step"


@dataclass(frozen=True)
class Predicted(Result):
    """A prediction of one figure."""

    value: float
    shares: Mapping[str, float] = field(default_factory=dict)  # its terms over it; of a rate, of the time behind it
    interval: intervals.Interval | None = None
    limit: float | None = None  # what the datasheet allows


@dataclass(frozen=True)
class Row(Result):
    """A measured figure beside its prediction."""

    figure: Figure
    predicted: Predicted

    @property
    def error(self) -> float:
        """Log of predicted over measured time: above zero the prediction is too slow, also of a rate."""
        found = float(log_error(self.predicted.value, self.figure.value))
        return -found if self.figure.is_rate else found

    @property
    def ends(self) -> tuple[float, float] | None:
        """The range of the figure, in its unit."""
        known: intervals.Interval | None = self.predicted.interval
        if known is None:
            return None
        low, high = float(known.low / known.value), float(known.high / known.value)
        low, high = (1.0 / high, 1.0 / low) if self.figure.is_rate else (low, high)
        return low * self.predicted.value, high * self.predicted.value

    @property
    def inside(self) -> bool:
        """Whether the measurement lies in the range, or there is none."""
        return self.ends is None or self.ends[0] <= self.figure.value <= self.ends[1]

    @property
    def impossible(self) -> bool:
        """Whether the measurement is faster than the datasheet allows."""
        limit, value = self.predicted.limit, self.figure.value
        return limit is not None and (value > 1.001 * limit if self.figure.is_rate else value < 0.999 * limit)


Many = tuple[list[Predicted | None], list[str]]  # one for each figure, and what to say


@dataclass(frozen=True)
class Tool:
    """How a kind of run is predicted."""

    takes: tuple[str, ...]
    predict: Callable[[Asked, Sequence[Figure]], Many]
    settings: Callable[[Asked], Sequence[tuple[str, Asked]]]  # what may have been otherwise than said
    # quick times by figure, which settings are tried on: without a queue
    quick: Callable[[Asked, Sequence[Figure]], list[float | None]]


def _shares(terms: Mapping[str, Any], prefix: str = "", part: float = 1.0) -> dict[str, float]:
    total = sum(float(v) for v in terms.values())
    return {f"{prefix}{n.replace('_', ' ')}": part * float(v) / total for n, v in terms.items() if v and total}


def _added(*parts: tuple[float, Mapping[str, float]]) -> dict[str, float]:
    """Shares of a sum of times, from those of its parts."""
    total = sum(t for t, _ in parts)
    found: dict[str, float] = {}
    for time, shares in parts:
        for name, share in shares.items():
            found[name] = found.get(name, 0.0) + share * time / total
    return found


def deployed(asked: Asked, efficiencies: str | None = None) -> Deployment:
    """The deployment of a question: formats as the checkpoint is published, unless they are given."""
    machines, model = catalog.where(asked["device"]), as_published(asked["model"])
    formats = formats_of(model, machines.device, asked.get("precision"), asked.get("weights"), Defaults())
    options = {n: asked[n] for n in ("tp", "pp", "ep", "kv", "server") if n in asked}
    return inference.deploy(
        model, machines, precision=formats.precision, weights=formats.weights, experts=formats.experts, **options,
        efficiencies=efficiencies or asked.get("efficiencies", DEFAULT),
    )  # fmt: skip


def _range(d: Deployment, phase: str) -> intervals.Interval | None:
    return intervals.interval("inference", 1.0, d.place(phase)) if d.efficiencies.name == DEFAULT else None


# A server under load


def _played(d: Deployment, asked: Asked, prompt: float, answer: float) -> serving.Simulation:
    """The whole run, ramp and drain with it, as the tools count: of many more requests than are in flight the first."""
    many = int(asked.get("concurrency", 0))
    count = int(asked.get("requests", _PLAYED * many or _OPEN))
    count = min(count, _PLAYED * many) if many else min(count, _OPEN)
    cv, old = asked.get("length_variation", 0.0), int(asked.get("cached_len", 0))
    arrivals = (0.0,) * count if many else serving.poisson(float(asked["rate"]), count, 0)
    new = serving.lengths(max(1.0, prompt - old), count, cv, 1)
    drawn = serving.load(
        arrivals, [old + n for n in new], serving.lengths(max(1.0, answer), count, cv, 2), [old] * count
    )
    config = serving.Config(engine_version=release_of(asked.get("server", "")))
    try:
        return serving.simulate(step_model(d), drawn, config, concurrency=min(many, count) if many else None)
    except InputError as error:
        raise InputError(
            f"compare: predicted to not run: {error}; give the formats and devices that it ran with, as --weights or --tp"
        ) from error


def _serving(asked: Asked, figures: Sequence[Figure]) -> Many:
    d, said = deployed(asked), []
    prompt, answer = float(asked["input_len"]), float(asked["output_len"])
    if "length_variation" not in asked:
        said.append("prompts and answers are taken as all of the mean length: --length-variation says otherwise")
    played = _played(d, asked, prompt, answer)
    first = inference.prefill(d, input_len=prompt, cached_len=float(asked.get("cached_len", 0)))
    running = max(1.0, played.mean_batch)
    step = inference.decode_step(d, context=prompt + answer / 2.0, batch=running)
    done = [r for r in played.records if not r.rejected]
    if not done:
        raise InputError("compare: no request would ever fit the cache; give the formats and devices that it ran with")
    values: dict[str, float] = {
        n: serving.summarise([v for r in done if (v := getattr(r, n)) is not None])["mean"] or math.nan
        for n in ("ttft_s", "itl_s", "e2e_s")
    }
    values |= {n: float(getattr(played, n)) for n in ("requests_per_s", "tokens_per_s")}
    alone = min(1.0, float(first.time) / values["ttft_s"])
    ttft = _shares(vars(first.terms), "prompt: ", alone) | {QUEUE: 1.0 - alone}
    own = min(1.0, float(step.time) / values["itl_s"]) if values["itl_s"] == values["itl_s"] else 1.0
    itl = _shares(vars(step.terms), "decoding: ", own) | {OTHERS: 1.0 - own}
    whole = _added((values["ttft_s"], ttft), (max(0.0, values["e2e_s"] - values["ttft_s"]), itl))
    closed = "concurrency" in asked
    shares = {
        "ttft_s": ttft,
        "itl_s": itl,
        "e2e_s": whole,
        "requests_per_s": whole if closed else {},
        "tokens_per_s": whole if closed else {},
    }
    b = deployed(asked, BOUND)
    least = {
        "ttft_s": float(inference.prefill(b, input_len=prompt, cached_len=float(asked.get("cached_len", 0))).time),
        "itl_s": float(inference.decode_step(b, context=prompt).time),
    }
    least["e2e_s"] = least["ttft_s"] + (answer - 1.0) * least["itl_s"]
    answers = _range(d, "answer")
    late = intervals.interval("serving_ttft", 1.0) if answers is not None else None
    found: list[Predicted | None] = []
    for f in figures:
        value = values.get(f.name, float("nan"))
        known = late if f.name == "ttft_s" else answers
        found.append(
            Predicted(value, shares[f.name], known, least.get(f.name)) if value == value and value > 0 else None
        )
    return found, said


def _quick_serving(asked: Asked, figures: Sequence[Figure]) -> list[float | None]:
    d, prompt, answer = deployed(asked), float(asked["input_len"]), float(asked["output_len"])
    batch = float(asked.get("concurrency", 1))
    ttft = float(inference.prefill(d, input_len=prompt, cached_len=float(asked.get("cached_len", 0))).time)
    itl = float(inference.decode_step(d, context=prompt + answer / 2.0, batch=batch).time)
    e2e = ttft + (answer - 1.0) * itl
    times = {"ttft_s": ttft, "itl_s": itl, "e2e_s": e2e, "requests_per_s": 1.0 / e2e, "tokens_per_s": answer / e2e}
    return [times.get(f.name) for f in figures]


def _formats(asked: Asked) -> list[tuple[str, Asked]]:
    d = deployed(asked)
    other = "bf16" if d.precision == "fp8" else "fp8"
    found: list[tuple[str, Asked]] = [
        (f"{other} instead of {d.precision}", {**asked, "precision": other, "weights": other})
    ]
    tp = int(asked.get("tp", 1))
    return found + [(f"--tp {n} instead of {tp}", {**asked, "tp": n}) for n in (2 * tp, tp // 2) if n]


def _serving_settings(asked: Asked) -> list[tuple[str, Asked]]:
    found = _formats(asked)
    if asked.get("kv", "bf16") == "bf16":
        found.append(("an fp8 cache", {**asked, "kv": "fp8"}))
    if not asked.get("cached_len") and asked["input_len"] > 10:
        found.append(
            (
                "nine tenths of a prompt found in the prefix cache",
                {**asked, "cached_len": int(0.9 * asked["input_len"])},
            )
        )
    return found


# Passes of one batch


def _pass(asked: Asked, f: Figure, efficiencies: str | None = None) -> tuple[float, dict[str, float], Deployment]:
    d = deployed(asked, efficiencies)
    prompt, answer, depth = (float(f.at.get(n, 0)) for n in ("prompt tokens", "answer tokens", "cached before"))
    parts: list[tuple[float, Mapping[str, float]]] = []
    if prompt:
        first = inference.prefill(d, input_len=depth + prompt, cached_len=depth)
        parts.append((float(first.time), _shares(vars(first.terms), "prompt: ")))
    if answer:
        step = inference.decode_step(d, context=max(1.0, depth + prompt + answer / 2.0))
        count = 1.0 if f.name == "decode_s" else answer
        parts.append((count * float(step.time), _shares(vars(step.terms), "decoding: ")))
    return sum(t for t, _ in parts), _added(*parts), d


def _batch(asked: Asked, figures: Sequence[Figure]) -> Many:
    phases = {"prompt_s": "prompt", "decode_s": "decoding", "mixed_s": "answer"}
    found: list[Predicted | None] = []
    for f in figures:
        time, shares, d = _pass(asked, f)
        found.append(Predicted(time, shares, _range(d, phases[f.name]), _pass(asked, f, BOUND)[0]))
    return found, []


# Collectives


def _wires(asked: Asked) -> Any:
    device, ranks = catalog.where(asked["device"]).device, int(asked["ranks"])
    nodes = [catalog.node(asked["node"])] if "node" in asked else list(catalog.nodes_with(device))
    if not nodes:
        raise InputError(
            f"compare: the catalogue has no node with {device.name}; give --node, or add one with --catalog"
        )
    return communication.wires(nodes[0], ranks), nodes[0]


def _collective(asked: Asked, figures: Sequence[Figure]) -> Many:
    wires, node = _wires(asked)
    device, op = catalog.where(asked["device"]).device, asked["op"]
    span = "inside a domain" if wires.nodes <= 1 else "across domains"
    place = {"generation": lineage(device)[0], "kind": op, "precision": "", "phase": span}
    cost = asked.get("efficiencies", DEFAULT)
    start = float(communication.library_time(op, 8.0, wires, cost=cost).time)
    found: list[Predicted | None] = []
    for f in figures:
        size = float(f.at["bytes"])
        time = float(communication.library_time(op, size, wires, cost=cost).time)
        least = float(communication.library_time(op, size, wires, cost=BOUND).time)
        begin = min(1.0, start / time)
        known = intervals.interval("collective", 1.0, place) if cost == DEFAULT else None
        found.append(
            Predicted(time, {"starts and steps": begin, "bytes over the links": 1.0 - begin}, known, least or None)
        )
    given = "" if "node" in asked else f"links of {node.name} assumed; --node says otherwise"
    return found, [given] if given else []


def _quick_collective(asked: Asked, figures: Sequence[Figure]) -> list[float | None]:
    wires, _ = _wires(asked)
    algorithm = asked.get("algorithm", "auto")
    return [
        float(communication.library_time(asked["op"], float(f.at["bytes"]), wires, algorithm).time) for f in figures
    ]


def _algorithms(asked: Asked) -> list[tuple[str, Asked]]:
    return [
        (f"NCCL_ALGO={name.upper()} in place of the library's choice", {**asked, "algorithm": name})
        for name in ("ring", "tree", "nvls")
    ]


# Training steps

_PLAN = ("tp", "pp", "cp", "ep", "micro_batch", "sharding", "recompute", "virtual_stages")


def step_of(asked: Asked, efficiencies: str | None = None) -> training.TrainingStep:
    """The step of a question."""
    plan = {n: asked[n] for n in _PLAN if n in asked}
    group = plan.get("tp", 1) * plan.get("pp", 1) * plan.get("cp", 1)
    machines = catalog.where(asked["device"])
    devices = int(asked.get("devices") or machines.count or group * asked.get("dp", 1))
    made = Plan(dp=max(1, devices // group), **plan)
    machines = networked(replace(machines, count=devices) if machines.node is None else machines, Defaults())
    options = {n: asked[n] for n in ("precision", "task") if n in asked}
    return training.training_step(
        asked["model"], made, machines, global_batch=int(asked["global_batch"]), seq=int(asked["seq"]), **options,
        efficiencies=efficiencies or asked.get("efficiencies", DEFAULT),
    )  # fmt: skip


def _step(asked: Asked, figures: Sequence[Figure]) -> Many:
    step, least, said = step_of(asked), step_of(asked, BOUND), []
    known = step.interval() if step.efficiencies.name == DEFAULT else None
    if not step.fits:
        said.append(
            f"the plan is predicted to not fit ({step.reason}): sharding, recomputation or micro-batch may be others"
        )
    assumed = [
        f"--{n.replace('_', '-')} {getattr(step.plan, n)}"
        for n in ("sharding", "recompute", "micro_batch")
        if n not in asked
    ]
    if assumed:
        said.append(f"assumed of the plan: {' '.join(assumed)}")
    tokens = float(step.tokens) / float(step.devices)
    found: list[Predicted | None] = []
    for f in figures:
        time, best = float(step.time), float(least.time)
        found.append(
            Predicted(
                tokens / time if f.is_rate else time,
                _shares(vars(step.terms)),
                known,
                tokens / best if f.is_rate else best,
            )
        )
    return found, said


def _quick_step(asked: Asked, figures: Sequence[Figure]) -> list[float | None]:
    step = step_of(asked)
    return [float(step.tokens / step.devices / step.time) if f.is_rate else float(step.time) for f in figures]


def _plans(asked: Asked) -> list[tuple[str, Asked]]:
    step = step_of(asked)
    found = [
        (f"recompute {word}", {**asked, "recompute": word})
        for word in ("none", "selective", "full")
        if word != step.plan.recompute
    ]
    found += [
        (f"sharding {word}", {**asked, "sharding": word}) for word in ("zero1", "fsdp") if word != step.plan.sharding
    ]
    other = "bf16" if str(asked.get("precision", "bf16")).startswith("fp8") else "fp8"
    return [*found, (f"products in {other}", {**asked, "precision": other})]


# Kernels of a trace, by class

_CLASSES = {
    "products": ("projections", "mlp", "head", "gemm"),
    "attention": ("attention",),
    "experts": ("experts",),
    "others": ("elementwise",),
    "messages": ("tensor_parallel", "expert_parallel", "pipeline", "context_parallel", "weight_gather", "pipeline_transfer", "data_parallel"),
    "gaps": ("overhead", "bubble"),
}  # fmt: skip


def _kernels(asked: Asked, figures: Sequence[Figure]) -> Many:
    if asked["phase"] == "train":
        for name in ("global_batch", "seq"):
            if name not in asked:
                raise InputError(
                    f"compare: a trace of training needs --{name.replace('_', '-')}, and --devices and the plan where it has several"
                )
        terms = vars(step_of(asked).terms)
    else:
        for name in ("batch", "input_len"):
            if name not in asked:
                raise InputError(f"compare: a trace of {asked['phase']} needs --{name.replace('_', '-')}")
        d, tokens, batch = deployed(asked), float(asked["input_len"]), float(asked["batch"])
        found = (
            inference.decode_step(d, context=tokens, batch=batch)
            if asked["phase"] == "decode"
            else inference.prefill(d, input_len=tokens, batch=batch)
        )
        terms = vars(found.terms)
    passes = int(asked.get("passes", 1))
    times = {kind: passes * sum(float(terms.get(n, 0.0)) for n in names) for kind, names in _CLASSES.items()}
    return [
        Predicted(times[kind], {kind: 1.0}) if times.get(kind := str(f.at["class"]), 0.0) > 0 else None for f in figures
    ], [
        f"no term of ours is {f.at['class']}: {f.value:.3g} s"
        for f in figures
        if not times.get(str(f.at["class"]), 0.0)
    ]


_MODEL = ("model", "device", "tp", "pp", "ep", "precision", "weights", "kv", "server", "efficiencies")
_LOAD = ("rate", "concurrency", "requests", "input_len", "output_len", "cached_len", "length_variation")
_JOB = ("model", "device", "devices", "dp", "cp", "task", "global_batch", "seq", "precision", *_PLAN, "efficiencies")
TOOLS: Mapping[str, Tool] = {
    "serving": Tool((*_MODEL, *_LOAD), _serving, _serving_settings, _quick_serving),
    "batch": Tool((*_MODEL, "batch"), _batch, _formats, lambda asked, figures: [_pass(asked, f)[0] for f in figures]),
    "collective": Tool(
        ("device", "op", "ranks", "hosts", "node", "efficiencies"), _collective, _algorithms, _quick_collective
    ),
    "step": Tool(_JOB, _step, _plans, _quick_step),
    "kernels": Tool(
        (*_MODEL, *_JOB, "phase", "passes", "batch", "input_len"),
        _kernels,
        lambda asked: [],
        lambda asked, figures: [None] * len(figures),
    ),
}
# What a prediction cannot do without; of words with a bar between them one.
NEEDED: Mapping[str, tuple[str, ...]] = {
    "serving": ("model", "device", "input_len", "output_len", "concurrency|rate"),
    "batch": ("model", "device"),
    "collective": ("device", "op", "ranks"),
    "step": ("model", "device", "global_batch", "seq", "devices|dp"),
    "kernels": ("model", "device", "phase"),
}
