"""One replica as a queue sees it: places in its batch, the time of a prompt, and the time of a step for every batch.

A :class:`Replica` is the seam to the request simulator: the closed forms and the simulator start from the same numbers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mlsysim import units
from mlsysim._numeric import Num, all_true, arrays, elementwise, is_array, maximum
from mlsysim.capacity.batching import loaded_itl, request_capacity
from mlsysim.capacity.budget import concurrency, held_tokens, kv_budget
from mlsysim.equations import NON_NEGATIVE, POSITIVE, Domain, check_argument
from mlsysim.errors import InputError
from mlsysim.inference import Deployment, decode_step, prefill
from mlsysim.results import CALLER, Explanation, Input, Report, Result, Term, format_rows, format_value
from mlsysim.tables import table

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

USABLE = 0.9  # of the device memory: the default of vLLM's option gpu_memory_utilization
_POSITIVE, _NON_NEGATIVE, _MORE_THAN_ONE = Domain.of(POSITIVE), Domain.of(NON_NEGATIVE), Domain.of("(1, inf)")


@dataclass(frozen=True)
class Concurrency(Result):
    """What :func:`sequences` returns; bytes on the fullest device, floats or arrays."""

    NUMBERS = (
        "kv_budget_bytes=budget held_tokens=tokens token_bytes concurrency sequences=concurrency "
        "sequences_reserved=reserved"
    )

    deployment: Deployment
    input_len: Num
    output_len: Num
    variation: Num
    usable: Num
    reserve: Num
    budget: Num
    tokens: Num  # held by a running sequence, on average
    token_bytes: Num
    concurrency: Num  # sequences at a time, over all dp ranks of the replica
    reserved: Num  # sequences when each keeps room for its whole answer from the start

    def summary(self) -> list[str]:
        d = self.deployment
        lengths = f"{format_value(self.input_len, '1')} prompt and {format_value(self.output_len, '1')} answer tokens"
        have = f"{format_value(d.device.usable_memory, 'byte')} x {format_value(self.usable, '1')}"
        return format_rows(
            f"{d.model.name} on {d.devices} x {d.device.name}: {format_value(self.concurrency, '1')} sequences at a time",
            ("requests", f"{lengths}; {format_value(self.tokens, '1')} held on average"),
            (
                "binds",
                f"memory: {format_value(self.budget, 'byte')} for cache, {format_value(self.token_bytes, 'byte')} a token",
            ),
            (
                "device",
                f"{have}, less weights of {format_value(d.weight_memory, 'byte')} and {format_value(self.reserve, 'byte')} kept back",
            ),
            ("reserved", f"{format_value(self.reserved, '1')} sequences when each keeps room for its whole answer"),
        )

    def chart(self) -> "Drawing | None":
        """Memory of the fullest device: weights, what is kept back, and the budget for cache."""
        from mlsysim.drawing import shapes

        d = self.deployment
        row = {"weights": d.weight_memory, "kept back": self.reserve, "cache": self.budget}
        title = f"{d.model.name} on {d.device.name}"
        return shapes.stack(title, {"fullest device": row}, "memory", "byte", (d.device.usable_memory, "capacity"))

    def explain(self) -> Explanation:
        """Budget, cache per sequence and the quotient, with the numbers in them and where they came from."""
        d = self.deployment
        budget = {
            "capacity": d.device.usable_memory,
            "weights": d.weight_memory,
            "devices": 1.0,
            "usable": self.usable,
            "reserve": self.reserve,
        }
        held = {"input_len": self.input_len, "output_len": self.output_len, "variation": self.variation}
        count = {"budget": self.budget, "tokens": self.tokens, "token_bytes": self.token_bytes}
        per_rank = self.concurrency / d.split.dp
        return Explanation(
            title=f"{d.model.name} on {d.devices} x {d.device.name}: {_text(self.concurrency)} sequences at a time",
            terms=(
                Term("cache budget", self.budget, "eq-kv-budget", budget),
                Term("tokens held", self.tokens, "eq-held-tokens", held),
                Term("sequences", per_rank, "eq-concurrency", {**count, "block_tokens": d.block_tokens}),
            ),
            inputs=(
                Input("capacity", d.device.usable_memory, "byte", d.device.origin("usable_memory")),
                Input("weights", d.weight_memory, "byte", f"{d.weights}, on the fullest device"),
                Input("usable", self.usable, "1", "vLLM's default" if self.usable is USABLE else CALLER),
                Input("reserve", self.reserve, "byte", CALLER),
                Input("cache per token", self.token_bytes, "byte", f"{d.kv}, on the fullest device"),
                Input("input_len", self.input_len, "1"),
                Input("output_len", self.output_len, "1"),
            ),
            notes=(
                f"Bytes are those of the fullest device; {d.split.dp:g} data-parallel rank(s) hold sequences.",
                f"With room kept for the whole answer from the start: {_text(self.reserved)} sequences.",
                "An average: when many answers are long at once the engine must preempt, which costs time.",
            ),
        )


def _text(value: Num) -> str:
    return "several" if is_array(value) else f"{value:g}"


def sequences(
    deployment: Deployment,
    *,
    input_len: Num,
    output_len: Num,
    variation: Num = 0.0,
    usable: Num = USABLE,
    reserve: Num = 0.0,
    shared_len: Num = 0.0,
) -> Concurrency:
    """How many sequences a deployment can hold at the same time.

    Parameters
    ----------
    deployment : Deployment
        As from :func:`mlsysim.inference.deploy`.
    input_len, output_len : float or array, 1
        Mean tokens of a prompt and of an answer.
    variation : float or array, 1
        Coefficient of variation of the answers' lengths.
    usable : float or array, 1
        Share of the device memory that the engine takes.
    reserve : float or array, byte
        Activations and workspaces on each device, out of that share.
    shared_len : float or array, 1
        Tokens with which all prompts begin, which are held once.

    Returns
    -------
    Concurrency
        Frozen result with ``budget``, ``tokens``, ``concurrency``, ``reserved`` and ``explain()``.

    Raises
    ------
    InputError
        A value out of range; weights that leave no room.

    Assumptions: those of eq-kv-budget, eq-held-tokens and eq-concurrency, on the fullest device.

    >>> from mlsysim.inference import deploy
    >>> sequences(deploy("Llama-3.1-70B", "H100", tp=4), input_len=1024, output_len=256).concurrency
    436.0
    """
    d = deployment
    if not isinstance(d, Deployment):
        raise InputError(
            f"sequences: {str(d)[:40]!r} is not a deployment; make one with inference.deploy(model, device)"
        )
    if is_array(shared_len) or shared_len:
        reserve = reserve + d.kv_memory(d.split.dp, shared_len)
    budget = kv_budget(d.device.usable_memory, d.weight_memory, 1.0, usable, reserve)
    if not all_true(budget > 0):
        need = units.format(d.weight_memory, "byte")
        raise InputError(
            f"sequences: weights of {need} on a {d.device.name} leave no room for cache; use more devices or "
            "smaller weights"
        )
    tokens = held_tokens(input_len - shared_len, output_len, variation)
    whole = input_len - shared_len + output_len
    one, all_of_it = (_per_token(d, t) for t in (tokens, whole))
    dp = float(d.split.dp)
    return Concurrency(
        deployment=d,
        input_len=input_len,
        output_len=output_len,
        variation=variation,
        usable=usable,
        reserve=reserve,
        budget=budget,
        tokens=tokens,
        token_bytes=one,
        concurrency=concurrency(budget, tokens, one, d.block_tokens) * dp,
        reserved=concurrency(budget, whole, all_of_it, d.block_tokens) * dp,
    )


def _per_token(d: Deployment, tokens: Num) -> Num:
    """Cache bytes per token of one sequence on the fullest device (less inside a sliding window)."""
    return d.kv_memory(d.split.dp, tokens) / (-(-tokens // d.block_tokens) * d.block_tokens)


@dataclass(frozen=True)
class Replica(Result):
    """The inputs of a queue from a replica. Made by :func:`replica` or :func:`replica_of`."""

    NUMBERS = "prefill_time_s steps max_running step_times_s prompt_variation variation capacity_per_s"

    prefill_time: float  # s, of one request alone
    steps: float  # decode steps of a request
    step_times: tuple[float, ...]  # s, of a batch of 1, 2, … sequences
    prompt_variation: float = 1.0  # standard deviation over mean of the time of a prompt pass
    origins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    variation: float = 0.0  # standard deviation over mean of the answers' lengths
    added_times: tuple[
        float, ...
    ] = ()  # s, that a prompt adds to a step of 1, 2, … sequences that it shares; empty: it shares none
    prompt_steps: float = 0.0  # steps of the batch that a prompt shares

    def summary(self) -> list[str]:
        one, full = self.step_times[0], self.step_times[-1]
        return format_rows(
            f"a replica with {self.max_running} places: at most {format_value(self.capacity, '1')} requests/s",
            ("prompt pass", f"{format_value(self.prefill_time, 's')}; {self.origins.get('prefill_time', CALLER)}"),
            (
                "decode step",
                f"{format_value(one, 's')} alone, {format_value(full, 's')} when full; {self.origins.get('step_time', CALLER)}",
            ),
            (
                "answers",
                f"{format_value(self.steps, '1')} steps on average, with a variation of {format_value(self.variation, '1')}",
            ),
            (
                "pace when full",
                f"a token every {format_value(self.itl(self.max_running), 's')}, other prompts included",
            ),
        )

    def chart(self) -> "Drawing":
        """Time of a step by batch."""
        from mlsysim.drawing import Chart, Line
        from mlsysim.drawing.shapes import readable, sampled

        factor, unit = readable(max(self.step_times), "s")
        batch = sampled([float(n + 1) for n in range(self.max_running)])
        pace = [factor * self.itl(int(n)) for n in batch]
        steps = [factor * t for t in sampled(self.step_times)]
        lines = [
            Line(batch, steps, "a step"),
            Line(batch, pace, "between tokens, other prompts included", dash="dashed"),
        ]
        return Chart("sequences in the batch", f"time ({unit})", lines, title="one replica", x_log=False, y_log=False)

    def explain(self) -> Report:
        """Its numbers, and where each came from."""
        rows = [
            ("prompt pass", format_value(self.prefill_time, "s"), self.origins.get("prefill_time", CALLER)),
            ("step, alone", format_value(self.step_times[0], "s"), self.origins.get("step_time", CALLER)),
            ("step, full batch", format_value(self.step_times[-1], "s"), self.origins.get("step_time", CALLER)),
            ("places", format_value(float(self.max_running), "1"), self.origins.get("max_running", CALLER)),
            ("decode steps", format_value(self.steps, "1"), self.origins.get("steps", CALLER)),
            (
                "variation of prompts",
                format_value(self.prompt_variation, "1"),
                self.origins.get("prompt_variation", CALLER),
            ),
            ("variation of answers", format_value(self.variation, "1"), self.origins.get("variation", CALLER)),
        ]
        return Report(self.summary()[0], (table(("Number", "Value", "Where from"), rows),))

    @property
    def max_running(self) -> int:
        """Places in the batch."""
        return len(self.step_times)

    @property
    def own_prompt(self) -> tuple[float, float]:
        """The time of a request's own prompt pass as a fixed part and the mean of an exponential part, s.

        The two have the mean of the prompts, and up to a variation of 1 their standard deviation.
        """
        spread = self.prefill_time * min(1.0, self.prompt_variation)
        return self.prefill_time - spread, spread

    def added_time(self, batch: int) -> float:
        """Time that a prompt keeps from the others of a batch: its whole pass, or what it adds to the steps that it shares, s."""
        return self.added_times[batch - 1] if self.added_times else self.prefill_time

    @property
    def cycle_steps(self) -> float:
        """Steps in which a request has a place in the batch."""
        return self.steps + self.prompt_steps

    def throughput(self, batch: int) -> float:
        """Requests per second while so many are in the batch."""
        return float(
            request_capacity(float(batch), self.added_time(batch), self.step_times[batch - 1], self.cycle_steps)
        )

    @cached_property
    def throughputs(self) -> tuple[float, ...]:
        """Requests per second with none, one, … in the batch."""
        return 0.0, *(self.throughput(n) for n in range(1, self.max_running + 1))

    @property
    def capacity(self) -> float:
        """Requests per second with all places taken."""
        return self.throughput(self.max_running)

    def itl(self, batch: int) -> float:
        """Mean time between tokens while so many are in the batch, prompts of the others included, s."""
        return float(loaded_itl(float(batch), self.added_time(batch), self.step_times[batch - 1], self.cycle_steps))

    @property
    def itl_full(self) -> float:
        """The same with all places taken, s."""
        return self.itl(self.max_running)

    def step_time(self, batch: Num) -> Num:
        """Time of a decode step of a batch that is no whole number: on a line between its neighbours, s."""
        return elementwise(self._between, batch)

    def _between(self, batch: float) -> float:
        below = min(max(1, int(batch)), self.max_running)
        one, next_ = self.step_times[below - 1], self.step_times[min(below, self.max_running - 1)]
        return one + max(0.0, batch - below) * (next_ - one)

    def batch_in_pace(self, itl: float) -> int:
        """Largest batch that meets that time between tokens; 0 if a batch of one misses it."""
        return max((n for n in range(1, self.max_running + 1) if self.itl(n) <= itl), default=0)

    def with_max_running(self, slots: int) -> "Replica":
        """The same replica with fewer places in its batch."""
        if not 1 <= slots <= self.max_running:
            raise InputError(
                f"with_max_running: max_running = {slots} must lie between 1 and the {self.max_running} that there are"
            )
        return replace(self, step_times=self.step_times[:slots], added_times=self.added_times[:slots])


def replica(
    step_time: Callable[[int], float],
    max_running: int,
    *,
    prefill_time: float,
    output_len: float,
    variation: float = 0.0,
    prompt_variation: float = 1.0,
    origins: Mapping[str, str] | None = None,
) -> Replica:
    """A replica from any step-time model, measured or computed.

    Parameters
    ----------
    step_time : function
        Seconds of a decode step for a batch of 1, 2, … sequences.
    max_running : int
        Places in the batch: the least of what memory holds, what the pace allows, and what the engine is told.
    prefill_time : float, s
        Time of one prompt pass.
    output_len : float, 1
        Mean output tokens of a request, more than one.
    variation : float, 1
        Coefficient of variation of the answers' lengths.
    prompt_variation : float, 1
        Coefficient of variation of the prompt passes' times; about that of the prompts' lengths.
    origins : mapping, optional
        Where ``max_running``, ``prefill_time``, ``steps`` and ``step_time`` came from.

    Raises
    ------
    InputError
        A value out of range.

    >>> r = replica(lambda batch: 0.01 + 1e-4 * batch, max_running=64, prefill_time=0.05, output_len=201)
    >>> round(r.capacity, 2), round(r.itl(64), 4)
    (9.88, 0.0321)
    """
    if isinstance(max_running, bool) or not isinstance(max_running, int) or max_running < 1:
        raise InputError(f"replica: max_running = {max_running!r} must be a whole number of at least 1")
    check_argument("replica", "prefill_time", prefill_time, "s", _NON_NEGATIVE)
    check_argument("replica", "output_len", output_len, "1", _MORE_THAN_ONE)
    for name, value in (("variation", variation), ("prompt_variation", prompt_variation)):
        check_argument("replica", name, value, "1", _NON_NEGATIVE)
    times = tuple(float(step_time(n)) for n in range(1, max_running + 1))
    for t in times:
        check_argument("replica", "step_time", t, "s", _POSITIVE)
    named = MappingProxyType(dict(origins or {}))
    return Replica(
        float(prefill_time), float(output_len) - 1.0, times, float(prompt_variation), named, float(variation)
    )


def replica_of(
    deployment: Deployment,
    *,
    input_len: float,
    output_len: float,
    variation: float = 0.0,
    prompt_variation: float = 1.0,
    max_running: int | None = None,
    usable: float = USABLE,
    reserve: float = 0.0,
    itl: float | None = None,
    max_num_seqs: int = 256,
    cached_len: float = 0.0,
    shared_len: float = 0.0,
) -> Replica:
    """A replica of a deployment: its places from memory and pace, its times from :mod:`mlsysim.inference`.

    Parameters
    ----------
    deployment : Deployment
        As from :func:`mlsysim.inference.deploy`.
    input_len, output_len : float, 1
        Mean tokens of a prompt and of an answer.
    variation, prompt_variation : float, 1
        Coefficients of variation of the answers' and of the prompts' lengths.
    max_running : int, optional
        Places in the batch; as many as fit into memory, up to ``max_num_seqs``, unless given.
    usable, reserve : float, 1 and byte
        As in :func:`sequences`.
    itl : float, s, optional
        Target for the time between tokens of a full batch; places that would miss it are not used.
    max_num_seqs : int
        Largest batch that the engine is told to run, by vLLM's name.
    cached_len : float, 1
        Leading tokens of a prompt that are not computed again.
    shared_len : float, 1
        Those of them that all prompts have in common, and that are held once.

    Raises
    ------
    InputError
        A value out of range; more places than memory holds; a pace that a batch of one misses.

    >>> from mlsysim.inference import deploy
    >>> d = deploy("Llama-3.1-70B", "H100", tp=4, efficiencies="bound")
    >>> replica_of(d, input_len=1024, output_len=256, itl=0.04).max_running
    140
    """
    fit = sequences(
        deployment, input_len=input_len, output_len=output_len, variation=variation, usable=usable, reserve=reserve,
        shared_len=shared_len,
    )  # fmt: skip
    context = fit.tokens + shared_len
    room = int(fit.concurrency)
    if max_running is not None and max_running > room:
        raise InputError(f"replica_of: max_running = {max_running} do not fit; memory holds {room} such sequences")
    if room < deployment.split.dp:
        raise InputError("replica_of: memory holds no such sequence; use more devices or shorter sequences")
    places = min(room, max_num_seqs) if max_running is None else max_running
    first = int(deployment.split.dp)  # every data-parallel rank works, however few sequences there are
    batches = maximum(arrays().arange(1, places + 1), first) * 1.0
    times = decode_step(
        deployment, context=context, batch=batches
    ).time  # all at once: ten times faster than one by one
    made = replica(
        lambda n: float(times[n - 1]),
        places,
        prefill_time=float(prefill(deployment, input_len=input_len, batch=float(first), cached_len=cached_len).time),
        output_len=output_len,
        variation=variation,
        prompt_variation=prompt_variation,
        origins={
            "max_running": f"memory holds {room}, at most {max_num_seqs}" if max_running is None else CALLER,
            "prefill_time": f"inference.prefill, {deployment.efficiencies.name}",
            "step_time": f"inference.decode_step, {deployment.efficiencies.name}",
        },
    )
    if itl is None:
        return made
    in_pace = made.batch_in_pace(itl)
    if in_pace == 0:
        raise InputError(
            f"replica_of: itl = {units.format(itl, 's')} is missed by a batch of one, which takes "
            f"{units.format(made.itl(1), 's')}; use more devices or a smaller model"
        )
    return made.with_max_running(in_pace)


@dataclass(frozen=True)
class Curve(Result):
    """What :func:`serving_curve` returns: one replica at every batch, full all the time."""

    replica: Replica
    batch: tuple[int, ...]
    requests_per_s: tuple[float, ...]
    tokens_per_s: tuple[float, ...]
    itl: tuple[float, ...]  # s, prompts of the others included
    residence: tuple[float, ...]  # s, from the place in the batch to the last token

    def summary(self) -> list[str]:
        k, last = self.batch.index(self.knee), -1
        return format_rows(
            f"one replica, kept full: best at a batch of {self.knee}, {format_value(self.requests_per_s[k], '1')} requests/s",
            (
                "there",
                f"{format_value(self.tokens_per_s[k], 'token/s')}, a token every {format_value(self.itl[k], 's')}",
            ),
            (
                "at the end",
                f"batch {self.batch[last]}: {format_value(self.requests_per_s[last], '1')} requests/s, "
                f"{format_value(self.tokens_per_s[last], 'token/s')}, a token every {format_value(self.itl[last], 's')}",
            ),
        )

    def chart(self) -> "Drawing | None":
        """Throughput against the pace of tokens."""
        from mlsysim.drawing import shapes

        front = list(zip(shapes.sampled(self.itl), shapes.sampled(self.tokens_per_s), strict=True))
        return shapes.points(
            "one replica at every batch", {"front": front}, ("time between tokens", "s"), ("throughput", "token/s")
        )

    def explain(self) -> Report:
        """Every batch, or twenty of them, with what it gives."""
        from mlsysim.drawing.shapes import sampled

        rows = [
            (f"{n}", format_value(x, "1"), format_value(y, "token/s"), format_value(t, "s"), format_value(r, "s"))
            for n, x, y, t, r in sampled(list(zip(*self._columns, strict=True)), 20)
        ]
        head = ("Batch", "Requests/s", "Tokens/s", "Between tokens", "In the batch")
        return Report(self.summary()[0], (table(head, rows),), self.replica.summary())

    @property
    def _columns(self) -> tuple[tuple[float, ...], ...]:
        return self.batch, self.requests_per_s, self.tokens_per_s, self.itl, self.residence

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers in SI units, one entry per batch, for JSON."""
        names = ("batch", "requests_per_s", "tokens_per_s", "itl_s", "residence_s")
        return {name: list(column) for name, column in zip(names, self._columns, strict=True)}

    @property
    def knee(self) -> int:
        """The batch with the most requests per second per second of residence."""
        power = [x / t for x, t in zip(self.requests_per_s, self.residence, strict=True)]
        return self.batch[power.index(max(power))]


def serving_curve(replica: Replica) -> Curve:
    """Throughput against latency over the batch, and the knee.

    >>> from mlsysim.capacity import replica
    >>> serving_curve(replica(lambda b: 0.01 + 1e-4 * b, 64, prefill_time=0.0, output_len=201)).knee
    64
    """
    batches = tuple(range(1, replica.max_running + 1))
    rates = tuple(replica.throughput(b) for b in batches)
    return Curve(
        replica=replica,
        batch=batches,
        requests_per_s=rates,
        tokens_per_s=tuple(x * (replica.steps + 1) for x in rates),
        itl=tuple(replica.itl(b) for b in batches),
        residence=tuple(b / x for b, x in zip(batches, rates, strict=True)),
    )
