"""Replicas under load: waiting times, the number of replicas for a target, and the load that a number of them carries."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlsysim import units
from mlsysim._numeric import Num, all_true, is_array, maximum, minimum, sqrt, where, widening
from mlsysim.capacity.batching import goodput
from mlsysim.capacity.pace import answer_spread, answer_time, in_time, share_in_pace
from mlsysim.capacity.queues import BELOW_ONE, erlang_b_step, utilisation, waiting_share
from mlsysim.capacity.replicas import Replica
from mlsysim.capacity.routing import USUAL, check_routing, dealt, found_busy, sharing, work_variance
from mlsysim.capacity.waiting import dealt_wait, mean_wait, mg1_wait, wait_quantile, wait_tail
from mlsysim.equations import POSITIVE, Domain, check_argument, unchecked
from mlsysim.errors import InputError
from mlsysim.results import CALLER, Explanation, Input, Result, Term, format_rows, format_value, share

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

# What the closed forms take for granted, and what a simulation of every request does instead.
ASSUMPTIONS: tuple[tuple[str, str], ...] = (
    ("Requests come as a Poisson process at a steady rate.", "plays a trace, with its bursts and its times of day"),
    ("Answers are so unequal that the queue forgets (exponential).", "draws or replays the lengths"),
    (
        "Prompts go first and one by one, after the step under way, in passes or steps of equal length.",
        "schedules every pass, in chunks",
    ),
    ("A request waits for a place or for other prompts, not for both.", "lets it wait for both"),
    ("Its own prompt is as unequal as the others', with an exponential tail.", "gives each request its own prompt"),
    ("Replicas get their requests in turn, by the least load, or at random.", "routes each request when it comes"),
    (
        "Prompts hold an answer up as a random walk; its length, its batch and they vary apart.",
        "stops it by those that come",
    ),
    ("Every sequence holds the average number of tokens.", "allocates blocks, and preempts when they run out"),
    ("A step takes the time of its batch at the average context.", "times every step with what is in it"),
)
_QUANTILE, _POSITIVE = Domain.of(BELOW_ONE), Domain.of(POSITIVE)
_BINDS = {True: "places in the batch", False: "prompt passes of others"}
_MOST_REPLICAS = 1 << 16
_LONG = 1 << 15  # states of the batches, up to which all are counted
_FORGOTTEN = -45.0  # logarithm of what an error shrinks to before it is forgotten


@dataclass(frozen=True)
class Load(Result):
    """What :func:`load` returns; SI units."""

    NUMBERS = (
        "rate_per_s replicas routing max_running=replica.max_running capacity_per_s utilisation delayed place_wait_s "
        "prompt_wait_s quantile ttft_s ttft_quantile_s itl_s itl_quantile_s itl_full_s=replica.itl_full e2e_s running "
        "tokens_per_s late in_pace goodput_per_s=goodput"
    )

    replica: Replica
    rate: Num
    replicas: int
    quantile: float
    ttft_target: float | None
    itl_target: float | None
    blocking: Num
    utilisation: Num
    delayed: Num  # share of the requests that find every place taken
    running: Num  # requests in the batches of all replicas, on average
    batch_variance: Num  # of the batch of one replica
    prompt_time: Num  # that a prompt keeps from the others of its batch, on average, s
    routing: str = USUAL

    @property
    def capacity(self) -> float:
        """Requests per second that all replicas complete with every place taken."""
        return self.replicas * self.replica.capacity

    @property
    def in_pace(self) -> Num:
        """Share of the requests whose mean time between tokens meets the target; 1 without one."""
        return 1.0 + 0.0 * self.delayed if self.itl_target is None else self._pace(self.itl_target)

    @property
    def itl_quantile(self) -> Num:
        """Time between tokens, the mean of a request, that a share ``quantile`` of the requests does not exceed, s."""
        low = 0.0 * self.delayed
        high = low + self.replica.itl(self.replica.max_running)
        while not all_true(self._pace(high) >= self.quantile):
            high = 2 * high
        for _ in range(40):
            middle = (low + high) / 2
            short = self._pace(middle) < self.quantile
            low, high = where(short, middle, low), where(short, high, middle)
        return high

    def _pace(self, itl: Num) -> Num:
        """Share of the requests whose mean time between tokens is at most so long."""
        r, full = self.replica, self.delayed * self.utilisation  # somebody is in the queue
        most = float(r.max_running)
        each = (self.running / self.replicas - most * full) / (1 - full)  # while nobody is
        answers, batch = (r.steps, r.variation), (each, sqrt(self.batch_variance), most, full)
        return share_in_pace(itl, r.step_time, answers, batch, self._held_up)

    @property
    def _busy(self) -> Num:
        """Share of the time for which prompts keep a replica busy."""
        return self.rate / self.replicas * self.prompt_time

    @property
    def own_prompt(self) -> tuple[Num, Num]:
        """As that of the replica, in the batches under this load: with the answers' part of the steps that the prompt shares, s."""
        spread = self.prompt_time * min(1.0, self.replica.prompt_variation)
        return self.prompt_time - spread + self.replica.prompt_steps * self._step, spread

    @property
    def _step(self) -> Num:
        """A decode step of the average batch, s."""
        return self.replica.step_time(maximum(1.0, self.running / self.replicas))

    @property
    def _held_up(self) -> tuple[Num, Num, Num, Num]:
        """Of the prompts of others: busy share, variance of their work per second, mean and deviation of the wait for them."""
        r, busy = self.replica, self._busy
        found, drain = self._prompts["delayed"], self._prompts["capacity"] * (1 - self._prompts["utilisation"])
        work = work_variance(self.routing, self.replicas, busy, self.prompt_time, r.prompt_variation)
        return busy, work, self.prompt_wait, sqrt(found * (2 - found)) / drain

    @property
    def place_wait(self) -> Num:
        """Mean wait for a place in a batch, over all requests, s."""
        return mean_wait(**self._places)

    @property
    def prompt_wait(self) -> Num:
        """Mean wait for the prompt passes of others, s."""
        name, given = self._prompt_queue
        return (mg1_wait if name == "eq-mg1-wait" else dealt_wait)(**given)

    @property
    def _prompt_queue(self) -> tuple[str, dict[str, Num]]:
        """The equation of that wait, and what goes into it."""
        r, found, n = self.replica, self._prompts["delayed"], dealt(self.routing, self.replicas)
        given = {"service_time": self.prompt_time, "variation": r.prompt_variation}
        if n == 1:
            return "eq-mg1-wait", {**given, "utilisation": found}
        return "eq-dealt-wait", {**given, "delayed": found, "replicas": 1.0 * n}

    @property
    def wait_quantile(self) -> Num:
        """Wait that a share ``quantile`` does not exceed: the larger of those for a place and for other prompts, s."""
        return maximum(
            wait_quantile(**self._places, quantile=self.quantile),
            wait_quantile(**self._prompts, quantile=self.quantile),
        )

    @property
    def late(self) -> Num:
        """Share whose first token misses its target; 0 without one."""
        if self.ttft_target is None:
            return 0.0 * self.delayed
        return self._later(self.ttft_target + 0.0 * self.delayed)

    @property
    def step_under_way(self) -> Num:
        """The decode step that a request finds running when it comes, of the average batch: what it waits for at most, s."""
        return minimum(1.0, self.running / self.replicas) * self._step

    def _later(self, time: Num) -> Num:
        """Share whose first token comes later: a step, the longer of the two waits, and then its own prompt."""
        fixed, spread = self.own_prompt
        left = time - fixed - self.step_under_way
        waits = (wait_tail(**q, wait=maximum(0.0, left), own=spread) for q in (self._places, self._prompts))
        return where(left < 0, 1.0, maximum(*waits))

    @property
    def ttft(self) -> Num:
        """Mean time to the first token, s."""
        return sum(self.own_prompt) + self.place_wait + self.prompt_wait

    @property
    def ttft_quantile(self) -> Num:
        """Time to the first token that a share ``quantile`` does not exceed, a request's own prompt included, s."""
        fixed, spread = self.own_prompt
        rare = (1 - self.quantile) / 2  # a wait and a prompt that are both so rare are beyond the quantile together
        waits = (wait_quantile(**queue, quantile=1 - rare) for queue in (self._places, self._prompts))
        low = fixed + self.step_under_way
        high = low + maximum(*waits) + spread * math.log(1 / rare)
        for _ in range(60):
            middle = (low + high) / 2
            beyond = self._later(middle) > 1 - self.quantile
            low, high = where(beyond, middle, low), where(beyond, high, middle)
        return high

    @property
    def residence(self) -> Num:
        """Mean time from a request's place in a batch to its last token, by Little's law, s."""
        return self.running / self.rate

    @property
    def itl(self) -> Num:
        """Mean time between tokens at this load, s."""
        return (self.residence - self.prompt_time) / self.replica.cycle_steps

    @property
    def e2e(self) -> Num:
        """Mean time from request to last token, s."""
        return self.place_wait + self.residence

    @property
    def goodput(self) -> Num:
        """Requests per second that meet both targets."""
        return goodput(self.rate, self.late, self.in_pace)

    @property
    def tokens_per_s(self) -> Num:
        """Output tokens of all replicas together."""
        return self.rate * (self.replica.steps + 1)

    @property
    def _places(self) -> dict[str, Num]:
        """The queue for a place, as the equations of a wait take it: of the replicas that have one in common."""
        shared = sharing(self.routing, self.replicas, self.replica.variation) * self.replica.capacity
        return {"delayed": self.delayed, "capacity": shared, "utilisation": self.utilisation}

    @property
    def _prompts(self) -> dict[str, Num]:
        """The queue of prompt passes, as that exponential server which has its mean wait."""
        r, n = self.replica, dealt(self.routing, self.replicas)
        found = found_busy(self._busy, n)
        alike = self.prompt_time * (1 / n + r.prompt_variation**2) / (1 / n + 1)
        capacity = where(alike > 0, 1 / where(alike > 0, alike, 1.0), _NO_TIME)
        return {"delayed": found, "capacity": capacity, "utilisation": found}

    def summary(self) -> list[str]:
        r, q = self.replica, share(self.quantile)
        aims = [
            (n, t) for n, t in (("first token", self.ttft_target), ("between tokens", self.itl_target)) if t is not None
        ]
        place, named = self.place_wait >= self.prompt_wait, f", {self.routing}," if self.replicas > 1 else ""
        waits = (
            f"for a place {format_value(self.place_wait, 's')}, for other prompts {format_value(self.prompt_wait, 's')}"
        )
        targets = f"{format_value(self.goodput, '1')} requests/s meet " + ", ".join(
            f"{n} {format_value(t, 's')}" for n, t in aims
        )
        return format_rows(
            f"{self.replicas} replica{'s' if self.replicas > 1 else ''}{named} at {format_value(self.rate, '1')} requests/s: first token "
            f"{format_value(self.ttft, 's')} ({q}: {format_value(self.ttft_quantile, 's')}), one every {format_value(self.itl, 's')} "
            f"({format_value(self.itl_quantile, 's')})",
            ("targets", targets if aims else ""),
            ("binds", "" if is_array(place) else _BINDS[bool(place)]),
            ("mean wait", waits),
            ("utilisation", f"{share(self.utilisation)} of {format_value(self.capacity, '1')} requests/s"),
            (
                "running",
                f"{format_value(self.running, '1')} of {self.replicas * r.max_running} places; {format_value(self.tokens_per_s, 'token/s')}",
            ),
            ("rates", f"prompt pass {format_value(r.prefill_time, 's')}: {r.origins.get('prefill_time', CALLER)}"),
        )

    def chart(self) -> "Drawing | None":
        """Where the mean time to the first token goes."""
        from mlsysim.drawing import shapes

        parts = {"place": self.place_wait, "other prompts": self.prompt_wait, "own prompt": sum(self.own_prompt)}
        return shapes.terms("mean time to the first token", parts)

    def explain(self) -> Explanation:
        """Each step with its equation and the numbers in it, the inputs' origins, and what is assumed."""
        r, rate = self.replica, self.rate
        cycle = {
            "batch": float(r.max_running),
            "prefill_time": r.added_time(r.max_running),
            "step_time": r.step_times[-1],
            "steps": r.cycle_steps,
        }
        share = {"blocking": self.blocking, "utilisation": self.utilisation}
        quantile = {"quantile": self.quantile}
        for_place, for_prompts = (wait_quantile(**x, **quantile) for x in (self._places, self._prompts))
        longer = for_place >= for_prompts
        terms = [
            Term("full replica", r.capacity, "eq-request-capacity", cycle),
            Term("full batch's ITL", r.itl(r.max_running), "eq-loaded-itl", cycle),
            Term("utilisation", self.utilisation, "eq-utilisation", {"rate": rate, "capacity": self.capacity}),
            Term("no place free", self.delayed, "eq-erlang-c", share),
            Term("place, mean wait", self.place_wait, "eq-mean-wait", self._places),
            Term("place, quantile", for_place, "eq-wait-quantile", {**self._places, **quantile}, longer),
            *self._dealt(),
            Term("prompts, mean wait", self.prompt_wait, *self._prompt_queue),
            Term(
                "prompts, quantile",
                for_prompts,
                "eq-wait-quantile",
                {**self._prompts, **quantile},
                ~longer if is_array(longer) else not longer,
            ),
            *self._lateness(),
            *self._paces(),
            Term("running", self.running, "eq-little", {"rate": rate, "time": self.residence}),
            Term("goodput", self.goodput, "eq-goodput", {"rate": rate, "late": self.late, "in_pace": self.in_pace}),
        ]
        origin = r.origins.get
        return Explanation(
            title=f"{self.replicas} replica(s) with {r.max_running} places each",
            terms=tuple(terms),
            inputs=(
                Input("rate", rate, "1/s"),
                Input("places", float(r.max_running), "1", origin("max_running", CALLER)),
                Input("prefill time", r.prefill_time, "s", origin("prefill_time", CALLER)),
                Input("step, full batch", r.step_times[-1], "s", origin("step_time", CALLER)),
                Input("decode steps", r.steps, "1", origin("steps", CALLER)),
            ),
            notes=tuple(f"Assumed: {text}" for text, _ in ASSUMPTIONS),
        )

    def _lateness(self) -> list[Term]:
        """The share of late first tokens by each of the two waits, with a request's own prompt after it."""
        fixed, spread = self.own_prompt
        if self.ttft_target is None or not all_true(self.ttft_target >= fixed + self.step_under_way):
            return []
        after = {"wait": self.ttft_target - fixed - self.step_under_way, "own": spread}
        queues = (("place", self._places), ("prompts", self._prompts))
        return [Term(f"{name}, late", wait_tail(**q, **after), "eq-wait-tail", {**q, **after}) for name, q in queues]

    def _dealt(self) -> list[Term]:
        """The share that finds a prompt under way, where requests are dealt out evenly."""
        found, n = self._prompts["delayed"], dealt(self.routing, self.replicas)
        if n == 1 or not all_true(found > 0):
            return []
        return [
            Term(
                "prompt under way",
                found,
                "eq-dealt-share",
                {"delayed": found, "utilisation": self._busy, "replicas": n},
            )
        ]

    def _paces(self) -> list[Term]:
        """The mean answer in the mean batch: its time, and the share of such answers that are in pace."""
        r, (busy, work, wait, wait_spread) = self.replica, self._held_up
        if self.itl_target is None:
            return []
        step = r.step_time(maximum(1.0, self.running / self.replicas))
        given = {"steps": r.steps, "step_time": step, "busy": busy, "wait": wait}
        time = answer_time(**given)
        varied = {"time": time, "spread": work, "busy": busy, "wait_spread": wait_spread}
        deviation, aim = answer_spread(**varied), r.steps * self.itl_target
        until = {"time": aim, "mean": time, "deviation": deviation}
        return [
            Term("mean answer", time, "eq-answer-time", given),
            Term("its deviation", deviation, "eq-answer-spread", varied),
            Term("such ones in pace", in_time(**until), "eq-in-time", until),
        ]


_NO_TIME = 1e12  # 1/s: prompts that take no time are served at any rate


def _seconds(value: Num) -> str:
    return units.format(value, "s", 3)


def _throughput(replica: Replica, shared: float, requests: int) -> float:
    """Completions per second of so many requests, spread evenly over the batches that have one crowd in common."""
    alone, each = replica.throughputs, min(requests / shared, float(replica.max_running))
    below = int(each)
    return shared * (alone[below] + ((each - below) * (alone[below + 1] - alone[below]) if each > below else 0.0))


def _forgotten(rate: float, replica: Replica, shared: float) -> int:
    """A state far below those that so many requests keep busy: whatever the recurrence begins with there, it ends the same.

    What is wrong in a state is wrong by X / lambda as much in the next, so that a product of these says where to begin. Below
    ``_LONG`` states all are counted.
    """
    if is_array(rate) or shared * replica.max_running <= _LONG:
        return 0
    each = next((n for n, x in enumerate(replica.throughputs) if shared * x >= rate), replica.max_running)
    left, block = 0.0, max(1, int(shared) // 16)
    state = int(shared * each)
    while state > 0 and left > _FORGOTTEN:
        state -= block
        throughput = _throughput(replica, shared, max(0, state + block))
        left += block * min(0.0, math.log(throughput / rate)) if throughput > 0 else -math.inf
    return max(0, state)


def _chain(rate: Num, replica: Replica, shared: float) -> tuple[Num, Num, Num, Num]:
    """Erlang's recurrence over the states of the batches: share that is full, mean and variance of the number inside, and time of a prompt.

    Prompts come as often in a state as it completes requests.
    """
    after, places = _forgotten(rate, replica, shared), shared * replica.max_running
    blocking, step = 1.0 + 0.0 * rate, erlang_b_step
    mean, square = after + 0.0 * rate, 0.0 * rate  # of the number, and of its distance from where the count begins
    done = busy = 0.0 * rate  # prompts per second, and the share of the time that they take
    for n in range(after + 1, math.ceil(places - 1e-9) + 1):
        inside = min(float(n), places)
        throughput, each = _throughput(replica, shared, n), min(replica.max_running, max(1, round(inside / shared)))
        blocking = step(blocking, rate, throughput)
        step = unchecked(erlang_b_step)
        square = (1 - blocking) * (square + blocking * (inside - mean) ** 2)  # of a mixture of two
        mean = mean * (1 - blocking) + inside * blocking
        done = done * (1 - blocking) + throughput * blocking
        busy = busy * (1 - blocking) + throughput * replica.added_time(each) * blocking
        if all_true(blocking == 0):  # below the smallest float: what follows changes nothing
            break
    return blocking, mean, square, busy / done if replica.added_times else replica.prefill_time + 0.0 * rate


def _check(
    owner: str,
    replica: Replica,
    replicas: int,
    quantile: float,
    ttft: float | None,
    itl: float | None,
    routing: str,
) -> None:
    check_routing(owner, routing)
    if not isinstance(replica, Replica):
        raise InputError(f"{owner}: {str(replica)[:40]!r} is not a replica; make one with replica() or replica_of()")
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 1:
        raise InputError(f"{owner}: replicas = {replicas!r} must be a whole number of at least 1")
    check_argument(owner, "quantile", quantile, "1", _QUANTILE)
    for name, target in (("ttft", ttft), ("itl", itl)):
        if target is not None:
            check_argument(owner, name, target, "s", _POSITIVE)


@widening
def load(
    replica: Replica,
    rate: Num,
    replicas: int = 1,
    *,
    ttft: float | None = None,
    itl: float | None = None,
    quantile: float = 0.99,
    routing: str = USUAL,
) -> Load:
    """Replicas at a rate of requests, which a router shares among them.

    Parameters
    ----------
    replica : Replica
        As from :func:`replica_of`.
    rate : float or array, 1/s
        Requests per second, to all replicas together.
    replicas : int
        How many there are.
    ttft, itl : float, s, optional
        Targets for the first token and for the time between tokens.
    quantile : float, 1
        Share of the requests that the reported quantiles are for.
    routing : str
        Who gets the next request: the replicas ``"round-robin"``, the ``"least-loaded"``, or one at ``"random"``.

    Returns
    -------
    Load
        Frozen result with ``utilisation``, ``ttft_quantile``, ``itl``, ``itl_quantile``, ``running``, ``goodput`` and
        ``explain()``.

    Raises
    ------
    InputError
        A value out of range; a rate that the replicas cannot carry.

    Assumptions: those of ``ASSUMPTIONS``.

    >>> from mlsysim.capacity import replica
    >>> r = replica(lambda batch: 0.01 + 1e-4 * batch, max_running=64, prefill_time=0.05, output_len=201)
    >>> result = load(r, rate=17.0, replicas=2)
    >>> round(result.utilisation, 3), round(result.running, 1), round(result.ttft_quantile, 2)
    (0.861, 85.4, 0.34)
    """
    _check("load", replica, replicas, quantile, ttft, itl, routing)
    check_argument("load", "rate", rate, "1/s", _POSITIVE)
    capacity = replicas * replica.capacity
    rho = utilisation(rate, capacity)
    if not all_true(rho < 1):
        raise InputError(
            f"load: rate = {rate} must be below the {capacity:.4g} requests/s of {replicas} replica(s); "
            "more replicas or a lower rate"
        )
    shared = sharing(routing, replicas, replica.variation)
    blocking, mean, variance, prompt = _chain(rate * shared / replicas, replica, shared)
    delayed = waiting_share(blocking, rho)
    beyond = delayed * rho  # share of the time with somebody in the queue
    return Load(
        replica=replica,
        rate=rate,
        replicas=replicas,
        quantile=quantile,
        ttft_target=ttft,
        itl_target=itl,
        blocking=blocking,
        utilisation=rho,
        delayed=delayed,
        running=(mean / shared * (1 - beyond) + replica.max_running * beyond) * replicas,
        batch_variance=variance / shared**2,
        prompt_time=prompt * (1 - beyond) + replica.added_time(replica.max_running) * beyond,
        routing=routing,
    )


def _meets(result: Load, share: float) -> bool:
    return bool((1 - result.late) * result.in_pace >= share)


@widening
def replicas_needed(
    replica: Replica,
    rate: float,
    *,
    ttft: float,
    itl: float | None = None,
    quantile: float = 0.99,
    routing: str = USUAL,
) -> Load:
    """The fewest replicas with which a share ``quantile`` of the requests meets the targets; returned as their load.

    Raises
    ------
    InputError
        A value out of range; a target that no number of replicas meets.

    >>> from mlsysim.capacity import replica
    >>> r = replica(lambda batch: 0.01 + 1e-4 * batch, max_running=64, prefill_time=0.05, output_len=201)
    >>> replicas_needed(r, rate=100.0, ttft=0.5).replicas
    11
    """
    _check("replicas_needed", replica, 1, quantile, ttft, itl, routing)
    check_argument("replicas_needed", "rate", rate, "1/s", _POSITIVE)
    if ttft < replica.prefill_time:
        raise InputError(
            f"replicas_needed: ttft = {_seconds(ttft)} is below the {_seconds(replica.prefill_time)} of the prompt "
            "pass; no number of replicas helps, a faster one does"
        )
    fixed, spread = replica.own_prompt
    alone = wait_tail(0.0, 1.0, 0.0, wait=max(0.0, ttft - fixed), own=spread)
    if alone > 1 - quantile:
        raise InputError(
            f"replicas_needed: ttft = {_seconds(ttft)} is too short for {alone:.1%} of the prompts themselves, which take "
            f"{_seconds(replica.prefill_time)} on average with a variation of {replica.prompt_variation:.2g}; no number of "
            "replicas helps, a faster one or a lower quantile does"
        )
    if itl is not None and replica.batch_in_pace(itl) == 0:
        raise InputError(
            f"replicas_needed: itl = {_seconds(itl)} is missed by a batch of one ({_seconds(replica.itl(1))}); "
            "no number of replicas helps, a faster one does"
        )

    def enough(n: int) -> bool:
        return _meets(load(replica, rate, n, ttft=ttft, itl=itl, quantile=quantile, routing=routing), quantile)

    low = int(min(rate / replica.capacity, 2.0 * _MOST_REPLICAS))  # carries the rate at best, or does not
    high = low + 1
    while high > _MOST_REPLICAS or not enough(high):
        low, high = high, 2 * high
        if high > _MOST_REPLICAS:
            raise InputError(
                f"replicas_needed: rate = {rate:g} requests/s needs more than {_MOST_REPLICAS:,} replicas; give a lower rate or "
                "weaker targets"
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return load(replica, rate, high, ttft=ttft, itl=itl, quantile=quantile, routing=routing)


@widening
def max_rate(
    replica: Replica,
    replicas: int = 1,
    *,
    ttft: float,
    itl: float | None = None,
    quantile: float = 0.99,
    routing: str = USUAL,
) -> Load:
    """The largest rate at which a share ``quantile`` of the requests meets the targets; returned as that load.

    Raises
    ------
    InputError
        A value out of range; a target that even an idle replica misses.

    >>> from mlsysim.capacity import replica
    >>> r = replica(lambda batch: 0.01 + 1e-4 * batch, max_running=64, prefill_time=0.05, output_len=201)
    >>> round(max_rate(r, 2, ttft=0.5).rate, 1)
    17.6
    """
    _check("max_rate", replica, replicas, quantile, ttft, itl, routing)
    low, high = 0.0, replicas * replica.capacity
    for _ in range(60):  # halving a float's distance: more would change nothing
        middle = (low + high) / 2
        if not 0 < middle < high:
            break
        fine = _meets(load(replica, middle, replicas, ttft=ttft, itl=itl, quantile=quantile, routing=routing), quantile)
        low, high = (middle, high) if fine else (low, middle)
        if high - low <= 1e-9 * high:
            break
    if low == 0.0 or high < 1e-9 * replica.capacity:
        raise InputError(
            f"max_rate: even a lone request misses ttft = {_seconds(ttft)} or itl = {itl}; a faster replica is needed"
        )
    return load(replica, low, replicas, ttft=ttft, itl=itl, quantile=quantile, routing=routing)
