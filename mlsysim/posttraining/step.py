"""One step of reinforcement learning: answers from the serving model, their training, and the weights that go back."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from mlsysim import catalog
from mlsysim.catalog import Model
from mlsysim.equations import AT_LEAST_ONE, POSITIVE, Domain, check_argument
from mlsysim.errors import InputError
from mlsysim.inference import Deployment, decode_step, deploy, prefill
from mlsysim.parallelism import Plan
from mlsysim.posttraining.rollouts import (
    longest_rollout,
    rollout_staleness,
    rollout_time,
    two_pools_step,
    weight_sync,
)
from mlsysim.results import CALLER, Input, Result, Term, Terms, format_rows, format_value, top_shares
from mlsysim.training import training_step

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

_METHOD = (
    "Method: decode steps on a straight line between one answer and all of them, at the mean context; training as planned; "
    "scoring as forward passes of the same. Rewards and the environment take no time."
)


@dataclass(frozen=True)
class RLStep(Result):
    """What :func:`rl_step` returns, in SI units: one step of reinforcement learning and its parts."""

    NUMBERS = (
        "model=model.name device devices generators samples mean_len longest steps concurrency staleness tokens_per_s "
        "generation_s prompts_s scoring_s training_s syncing_s step_time_s token_time_s tail_s time_s"
    )

    model: Model
    device: str
    devices: int
    generators: int  # devices that generate while the others train; 0: all generate, then all train
    samples: int
    mean_len: float
    longest: float  # tokens of the longest answer, on average
    steps: float  # decode steps of a replica for a training step
    concurrency: float  # answers of a replica at a time
    replica: int  # devices of one replica
    step_time: float  # of a decode step without answers
    token_time: float  # what an answer adds to it
    prompts: float  # time for prompts
    generation: float  # time from the first prompt to the last answer, or for as many answers as a step takes
    scoring: float
    training: float
    syncing: float
    terms: tuple[Term, ...]
    inputs: tuple[Input, ...]
    notes: ClassVar[tuple[str, ...]] = (_METHOD,)

    @property
    def asynchronous(self) -> bool:
        return self.generators > 0

    @property
    def time(self) -> float:
        """Of the whole step: the sum of its phases, or the slower pool; then the weights go over."""
        learning = self.scoring + self.training
        phases = max(self.generation, learning) if self.asynchronous else self.generation + learning
        return phases + self.syncing

    @property
    def tokens_per_s(self) -> float:
        """Tokens of answers that are trained on, over all devices."""
        return self.samples * self.mean_len / self.time

    @property
    def tail(self) -> float:
        """Of the generation: steps in which the mean answer would have been finished long since."""
        return max(0.0, self.steps - self.mean_len * self.samples / self.replicas / self.concurrency) * self.step_time

    @property
    def replicas(self) -> float:
        return (self.generators or self.devices) / self.replica

    @property
    def staleness(self) -> float:
        """Updates that passed since an answer was begun, on average; 0 where everybody waits."""
        return float(rollout_staleness(self.concurrency * self.replicas, self.samples)) if self.asynchronous else 0.0

    @property
    def parts(self) -> dict[str, float]:
        """Seconds by part; of two pools side by side, those of the slower."""
        learning = {"scoring": self.scoring, "training": self.training}
        writing = {"answers": self.generation - self.tail, "waiting for the longest": self.tail}
        if not self.asynchronous:
            return {**writing, **learning, "weights": self.syncing}
        slower = writing if self.generation > self.scoring + self.training else learning
        return {**slower, "weights": self.syncing}

    def summary(self) -> list[str]:
        split = (
            f"{self.generators} generate, {self.devices - self.generators} train"
            if self.asynchronous
            else "all generate, then all train"
        )
        return format_rows(
            f"{self.model.name}, one step of reinforcement learning on {self.devices} x {self.device}: {format_value(self.time, 's')}",
            ("devices", split),
            ("parts", top_shares(self.parts, 5)),
            ("answers", f"{self.samples:,} of {self.mean_len:,.0f} tokens on average, the longest {self.longest:,.0f}"),
            (
                "decode",
                f"{self.steps:,.0f} steps of {format_value(self.step_time, 's')} + {format_value(self.token_time, 's')} an answer",
            ),
            ("staleness", f"{self.staleness:.3g} updates" if self.asynchronous else ""),
            ("rate", f"{format_value(self.tokens_per_s, 'token/s')} trained on"),
        )

    def chart(self) -> "Drawing | None":
        """The parts as bars."""
        from mlsysim.drawing import shapes

        return shapes.terms("a step of reinforcement learning", self.parts)


def _line(d: Deployment, context: float, answers: float) -> tuple[float, float]:
    """A decode step without answers, and what each adds: the line through one answer and through all of them."""
    one = float(decode_step(d, context=context, batch=1).time)
    if answers <= 1:
        return one, 0.0
    slope = max(0.0, (float(decode_step(d, context=context, batch=answers).time) - one) / (answers - 1))
    return one - slope, slope


def rl_step(
    model: Model | str,
    cluster: str,
    *,
    samples: int,
    mean_len: float,
    variation: float = 1.0,
    input_len: float = 512.0,
    group: int = 8,
    generators: int = 0,
    staleness: float = 1.0,
    tp: int = 1,
    scorings: float = 1.0,
    sync_bandwidth: float = 60e9,
    longest: float | None = None,
    plan: Plan | None = None,
    precision: str = "bf16",
    efficiencies: str = "calibrated",
) -> RLStep:
    """One step of reinforcement learning: generate answers, score them, train on them, hand the weights back.

    Formula: eq-rollout-time with eq-longest-rollout, plus the training step and eq-weight-sync; or eq-two-pools.

    Parameters
    ----------
    model : Model or str
        The model that answers and learns.
    cluster : str
        Nodes and their kind, as in ``"4 x DGX-H100"``.
    samples : int
        Answers that a training step takes.
    mean_len : float, token
        Mean length of an answer.
    variation : float
        Standard deviation of the lengths over their mean.
    input_len : float, token
        Length of a prompt.
    group : int
        Answers to one prompt.
    generators : int
        Devices that generate while the others train; 0: all generate, then all train.
    staleness : float
        Updates that an answer may be old on average, which bounds how many are written at a time; with pools only.
    tp : int
        Tensor-parallel ranks of a replica that generates.
    scorings : float
        Forward passes over the answers before they are trained on: the old policy, a reference model.
    sync_bandwidth : float, byte/s
        Rate at which the software hands the weights over, up to what the adapters of the devices that train carry; the default is
        near the lowest that moonshot2025checkpoint prints.
    longest : float, token, optional
        Length of the longest answer, where it is known or limited; eq-longest-rollout unless given.
    plan : Plan, optional
        How the devices that train are split (default: the model sharded over all of them, every layer recomputed).
    precision : str
        Number format of weights and products where answers are written, as in ``inference.deploy``; training has its own 16 bits.
    efficiencies : str
        What software reaches, as in ``inference.deploy`` and ``training.training_step``.

    Returns
    -------
    RLStep

    Raises
    ------
    InputError, UnknownNameError
        A value out of range, devices that do not divide, a model that does not fit where it generates, an unknown name.

    Assumptions: those of eq-longest-rollout and eq-rollout-time; training works on sequences of the mean length, and the
    rank with the most answers decides; answers of a group share their prompt's pass.

    >>> step = rl_step("Llama-3.1-8B", "2 x DGX-H100", samples=512, mean_len=2000)
    >>> step.time > step.generation > step.training > 0
    True
    """
    counts = {"samples": samples, "mean_len": mean_len, "input_len": input_len, "group": group}
    rates = {"staleness": staleness, "scorings": scorings, "sync_bandwidth": sync_bandwidth}
    m, machines = catalog.model(model), catalog.where(cluster)
    devices = _devices(counts | rates, cluster, machines.count, generators, tp)
    if longest is not None and longest < mean_len:
        raise InputError(f"rl_step: longest = {longest:g} tokens must not be below mean_len = {mean_len:g}")
    terms, replicas = Terms(), (generators or devices) // tp
    own = samples / replicas  # answers of a replica for one training step
    natural = terms("longest answer", longest_rollout, mean=mean_len, variation=variation, samples=samples)
    top = float(natural if longest is None else longest)

    served = deploy(m, cluster, tp=tp, precision=precision, efficiencies=efficiencies)
    room = float(served.max_batch(input_len + mean_len / 2))
    if room < 1:
        raise InputError(f"rl_step: no answer fits beside {m.name} on {tp} x {machines.device.name}; raise tp")
    at_a_time = max(1.0, min(room, staleness * own if generators else own))
    floor, slope = _line(served, input_len + mean_len / 2, at_a_time)
    if generators:
        steps = own * mean_len / at_a_time  # the batch is kept full
    else:
        last = top if own <= room else float(longest_rollout(mean_len, variation, room * replicas))
        steps = max(mean_len, min(top, last) + max(0.0, own - room) * mean_len / room)
    rollout = {"steps": steps, "mean": mean_len, "samples": own, "step": floor, "token": slope}
    written = float(terms("answers", rollout_time, not generators, **rollout))
    prompts = float(prefill(served, input_len=input_len, batch=1).time) * own / group

    learners = devices - generators
    layout = plan or Plan(dp=learners, sharding="fsdp", recompute="full")
    trained = _trained(m, cluster, learners, layout, samples, input_len + mean_len, efficiencies)
    handed = {"weight_bytes": served.total_weight_bytes, "bandwidth": sync_bandwidth, "setup": 0.0}
    handed |= {"senders": float(learners), "adapter": float(served.machine.inter_bandwidth)}
    synced = float(terms("weights", weight_sync, **handed))
    passes = 3 + (layout.recompute == "full")  # of a step: one forward, two back, and one that is repeated
    scored, x = scorings * trained / passes, generators / devices
    if generators:
        pools = {"generation": (prompts + written) * x, "training": (scored + trained) * (1 - x), "share": x}
        terms("slower pool", two_pools_step, True, **pools)
        terms("staleness", rollout_staleness, concurrency=at_a_time * replicas, samples=samples, waiting=0.0)
    figures = (prompts, scored, trained, own, at_a_time, sync_bandwidth)
    inputs = _inputs(figures, f"{scorings:g}", learners, f"{samples} over {replicas} replicas")
    return RLStep(
        model=m, device=machines.device.name, devices=devices, generators=generators, samples=samples,
        mean_len=float(mean_len), longest=top, steps=steps, concurrency=at_a_time, replica=tp, step_time=floor,
        token_time=slope, prompts=prompts, generation=prompts + written, scoring=scored, training=trained, syncing=synced,
        terms=tuple(terms), inputs=inputs,
    )  # fmt: skip


def _inputs(figures: tuple[float, ...], scorings: str, learners: int, shared: str) -> tuple[Input, ...]:
    """What goes into the parts of a step, and where each figure comes from."""
    names = ("prompts", "scoring", "training", "answers of a replica", "at a time", "sync bandwidth")
    origins = (
        "inference.prefill",
        f"{scorings} forward passes of training.training_step",
        f"training.training_step on {learners} devices",
        shared,
        "what fits, or what the staleness allows",
        "default" if figures[-1] == 60e9 else CALLER,
    )
    units = ("s", "s", "s", "1", "1", "byte/s")
    return tuple(Input(*one) for one in zip(names, figures, units, origins, strict=True))


def _devices(figures: dict[str, float], cluster: str, count: int | None, generators: int, tp: int) -> int:
    """How many devices there are, once every figure lies in its range and they can be split so."""
    for name, value in figures.items():
        domain = (
            POSITIVE if name in ("staleness", "sync_bandwidth") else "[0, inf)" if name == "scorings" else AT_LEAST_ONE
        )
        check_argument("rl_step", name, value, "1", Domain.of(domain))
    if count is None:
        raise InputError(
            f"rl_step: cluster = {str(cluster)[:40]!r} names no number of nodes; write for example '4 x DGX-H100'"
        )
    if isinstance(generators, bool) or not isinstance(generators, int) or not 0 <= generators < count:
        raise InputError(f"rl_step: generators = {generators!r} must be a whole number in [0, {count - 1}]")
    if (generators or count) % tp:
        raise InputError(f"rl_step: tp = {tp} must divide the {generators or count} devices that generate")
    return count


def _trained(m: Model, cluster: str, learners: int, plan: Plan, samples: int, seq: float, efficiencies: str) -> float:
    """Seconds to train on the answers with the devices that learn."""
    if plan.devices != learners:
        raise InputError(f"rl_step: plan = {plan.devices:,} devices must be the {learners:,} that train")
    each = int(plan.dp * plan.micro_batch)
    batch = math.ceil(samples / each) * each
    return float(training_step(m, plan, cluster, global_batch=batch, seq=seq, efficiencies=efficiencies).time)


def rl_split(model: Model | str, cluster: str, *, tp: int = 1, **asked: Any) -> RLStep:
    """The step with two pools at the best number of generators.

    Parameters
    ----------
    model, cluster, tp
        As in :func:`rl_step`.
    asked
        The other arguments of :func:`rl_step`, without ``generators``.

    Returns
    -------
    RLStep
        The fastest; the one with fewer generators where two are equal.

    Raises
    ------
    InputError, UnknownNameError
        As :func:`rl_step`; a cluster that is too small for two pools.

    >>> rl_split("Llama-3.1-8B", "2 x DGX-H100", samples=512, mean_len=2000).asynchronous
    True
    """
    if "generators" in asked:
        raise InputError("rl_split: generators is what it looks for; call rl_step to set it")
    devices = catalog.where(cluster).count or 0
    tried = list(range(tp, devices, tp))
    if not tried:
        raise InputError(
            f"rl_split: cluster = {str(cluster)[:40]!r} has no devices left to train beside tp = {tp} that generate"
        )
    low, high = 0, len(tried) - 1
    found: dict[int, RLStep] = {}

    def at(i: int) -> RLStep:
        if i not in found:
            found[i] = rl_step(model, cluster, tp=tp, generators=tried[i], **asked)
        return found[i]

    while low < high:  # generation falls with generators and training rises: their crossing
        middle = (low + high) // 2
        one = at(middle)
        if one.generation > one.scoring + one.training:
            low = middle + 1
        else:
            high = middle
    near = [at(i) for i in range(max(0, low - 1), min(len(tried), low + 2))]
    return min(near, key=lambda r: (r.time, r.generators))
