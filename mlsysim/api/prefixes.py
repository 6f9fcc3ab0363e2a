"""What of a prompt is in the cache already: a shared prefix, a hit rate, turns of conversations. As ``serve`` counts it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from mlsysim import inference, units
from mlsysim.capacity import Replica
from mlsysim.capacity.pace import lengths
from mlsysim.errors import InputError
from mlsysim.inference import Deployment
from mlsysim.serving.fleet import agents, chats
from mlsysim.serving_steps import Batch, step_model

TRAFFIC = ("requests", "chats", "agents")  # what requests are: each by itself, or turns of conversations
_USUAL = {"chats": chats.__kwdefaults__ or {}, "agents": agents.__kwdefaults__ or {}}
_HALVINGS = 60
_MANY = 1e9  # a mean of which no fraction counts


def usual_traffic(traffic: str) -> dict[str, Any]:
    """What conversations of a kind are, where nobody says."""
    return dict(_USUAL[traffic])


@dataclass(frozen=True)
class Prefixes:
    """Leading tokens that prompts need not compute: ``cached_len`` on average, with a chance of ``hit_rate``; ``shared_len`` always."""

    input_len: float
    output_len: float
    cached_len: float = 0.0
    hit_rate: float = 1.0
    shared_len: float = 0.0
    variation: float = 0.0  # of what is new in a prompt
    turns: float | None = None  # of a conversation, on average; None where requests have nothing to do with each other
    pause: float = 0.0  # s, from an answer to the next turn

    @property
    def found(self) -> float:
        """Leading tokens of a prompt that is in the cache."""
        return max(self.cached_len, self.shared_len)

    @property
    def deviation(self) -> float:
        """Standard deviation of the tokens that a conversation said before: its turns end with the same chance each; 0 of requests."""
        if self.turns is None or self.turns == 1:
            return 0.0
        return (self.cached_len - self.shared_len) * math.sqrt(self.turns / (self.turns - 1.0))

    def prompts(
        self, d: Deployment, context: float, step_times: Sequence[float], budget: float
    ) -> "tuple[Prompt, Prompt]":
        """A prompt that finds its prefix, and one that finds the shared text alone.

        They share steps of at most ``budget`` tokens with answers that see ``context`` tokens; on stages of a pipeline and on several
        attention ranks they have passes of their own.
        """
        fresh = self.variation * (self.input_len - self.found)
        lost = (
            math.hypot(fresh, self.deviation) if self.deviation else self.variation * (self.input_len - self.shared_len)
        )
        shares = d.split.pp == d.split.dp == 1
        beside = _Beside(d, context, step_times, budget) if shares else None
        found, missed = (self._prompt(d, beside, *case) for case in ((self.found, fresh), (self.shared_len, lost)))
        return found, missed

    def _prompt(self, d: Deployment, beside: "_Beside | None", cached: float, spread: float) -> "Prompt":
        batch, longer = float(d.split.dp), self.input_len + spread

        def alone(tokens: float) -> float:
            return float(inference.prefill(d, input_len=tokens, batch=batch, cached_len=cached).time)

        mean = alone(self.input_len)
        if beside is None:
            return Prompt(mean, alone(longer) - mean)
        added, more = (beside.added(tokens - cached, cached) for tokens in (self.input_len, longer))
        # what it shares with the fullest batch stands for the others
        return Prompt(mean, more[-1] - added[-1], added, max(1.0, (self.input_len - cached) / beside.budget))

    def timed(self, r: Replica, prompts: "Sequence[Prompt]", hit_rate: float) -> Replica:
        """The replica whose prompts find their prefix with this chance."""
        shares = (hit_rate, 1.0 - hit_rate)

        def mean(values: Iterable[float]) -> float:
            return sum(share * value for share, value in zip(shares, values, strict=True))

        places = zip(*(p.added[: r.max_running] for p in prompts), strict=True)
        r = replace(
            r, prefill_time=mean(p.time for p in prompts), added_times=tuple(map(mean, places)), prompt_steps=mean(p.steps for p in prompts)
        )  # fmt: skip
        last = [p.added[r.max_running - 1] if p.added else p.time for p in prompts]
        square = mean(t * t + p.deviation**2 for t, p in zip(last, prompts, strict=True))
        typical = mean(last)
        return replace(
            r, prompt_variation=math.sqrt(max(0.0, square - typical * typical)) / typical if typical else 0.0
        )

    def hits(self, rate: float, room: float, running: float) -> float:
        """Share of the turns that find what was said before, while conversations come and go.

        Parameters
        ----------
        rate : float, 1/s
            Turns that one replica gets, on average.
        room : float, token
            Of its cache.
        running : float, token
            Of them that running sequences hold, on average.

        Assumptions: conversations begin at random, so that what those under way hold is a sum of a Poisson number of contexts: with a
        variance of its mean times the mean context times 1 + c^2, where c is the variation of contexts. Turns come and run in
        proportion; while more is held than there is room for, turns are lost.
        """
        if self.turns is None:
            return self.hit_rate
        context = self.input_len - self.shared_len + self.output_len
        held = running + rate * (1.0 - 1.0 / self.turns) * self.pause * context
        clump = context * (1.0 + (self.deviation / context) ** 2)
        amounts = [(x / _MANY, share * x / _MANY) for x, share in lengths(_MANY, math.sqrt(clump / held))]
        found = sum(turns * self.kept(rate * x, room - x * running) for x, turns in amounts)
        return found / sum(turns for _, turns in amounts)

    def kept(self, rate: float, room: float) -> float:
        """Share of the turns that find what was said before, in a cache whose oldest blocks go first.

        Parameters
        ----------
        rate : float, 1/s
            Turns that one replica gets.
        room : float, token
            Of cache that no running sequence holds.

        Assumptions: conversations return to their replica; pauses are exponential; what is not used for the characteristic time T of
        the cache is gone, where T is the time in which what idle conversations leave there fills the room (che2002hierarchical). A last turn
        leaves its tokens too.
        """
        if self.turns is None:
            return self.hit_rate
        each = rate * (self.input_len - self.shared_len + self.output_len)
        last = 1.0 / self.turns

        def idle(time: float) -> float:
            return each * ((1 - last) * self.pause * -math.expm1(-time / self.pause) + last * time)

        if room <= 0:
            return 0.0
        if not self.pause:
            return 1.0
        low, high = 0.0, room / (each * last)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if idle(middle) < room else (low, middle)
        return -math.expm1(-low / self.pause)


@dataclass(frozen=True)
class Prompt:
    """A prompt: its pass alone with its deviation, and what it adds to a step of 1, 2, … answers where it shares so many steps; s."""

    time: float
    deviation: float
    added: tuple[float, ...] = field(default=(), repr=False)
    steps: float = 0.0

    def slower(self, factor: float) -> "Prompt":
        """The same with longer times."""
        return Prompt(factor * self.time, factor * self.deviation, tuple(factor * t for t in self.added), self.steps)


def timed_batches(most: int) -> list[int]:
    """The batches up to the largest beside which prompts are timed."""
    return sorted({min(most, round(1.5**k)) for k in range(math.ceil(math.log(most, 1.5)) + 1)})


class _Beside:
    """Prompts in steps of answers, by the step model of the simulator."""

    def __init__(self, d: Deployment, context: float, step_times: Sequence[float], budget: float) -> None:
        self.model, self.steps, self.times, self.budget = d.model, step_model(d), step_times, budget
        self.answer = Batch.of(d.model, decodes=[context])
        self.batches = timed_batches(len(step_times))

    def added(self, new: float, cached: float) -> tuple[float, ...]:
        """What a prompt of so many new tokens adds to a step of 1, 2, … answers: some batches are timed, those between lie on lines."""
        known = [self._added(new, cached, batch) for batch in self.batches]
        found = known[:1]
        for (low, high), (one, other) in zip(pairwise(self.batches), pairwise(known), strict=True):
            found += [one + (other - one) * (n - low) / (high - low) for n in range(low + 1, high + 1)]
        return tuple(found)

    def _added(self, new: float, cached: float, batch: int) -> float:
        a, room, time = self.answer, max(1.0, self.budget - batch), 0.0
        while new > 0:
            chunk = Batch.of(self.model, [(min(new, room), cached)])
            step = replace(chunk, decodes=batch, context=batch * a.context, windowed_context=batch * a.windowed_context)
            time += float(self.steps.time(step)) - self.times[batch - 1]
            new, cached = new - room, cached + room
        return time


def prefixes_of(
    input_len: float | None,
    output_len: float,
    *,
    traffic: str,
    turns: float | None,
    added_len: float | None,
    pause: float | None,
    cached_len: float | None,
    hit_rate: float | None,
    shared_len: float | None,
    variation: float,
    sized: bool,
    taken: Any,
) -> Prefixes:
    """The prefixes that arguments of ``serve`` ask for; what cannot count is refused."""
    talks = traffic != "requests"
    given = {"turns": turns, "added_len": added_len, "pause": pause, "shared_len": shared_len}
    if not talks:
        for name in ("turns", "added_len", "pause"):
            if given[name] is not None:
                raise InputError(f"serve: {name} needs traffic = 'chats' or 'agents'; give one, or leave it out")
    if not sized:
        for name, value in (("traffic", talks or None), ("shared_len", shared_len), ("hit_rate", hit_rate)):
            if value is not None:
                raise InputError(
                    f"serve: {name} is for a rate or targets; of a static batch cached_len says what is in the cache"
                )
    if talks:
        for name, value in (("cached_len", cached_len), ("hit_rate", hit_rate)):
            if value is not None:
                raise InputError(
                    f"serve: {name} follows from the turns of {traffic}; leave it out, or leave out traffic"
                )
        usual = usual_traffic(traffic)
        many, new, rest, shared = (
            float(taken.resolve(name, given[name], usual[name]))
            for name in ("turns", "added_len", "pause", "shared_len")
        )
        said = (many - 1) * (new + output_len)
        return Prefixes(shared + said + new, output_len, shared + said, 1.0, shared, variation, many, rest)
    if input_len is None:
        raise InputError("serve: input_len is missing")
    cached, shared = cached_len or 0.0, shared_len or 0.0
    if hit_rate is not None and not cached:
        raise InputError("serve: hit_rate is of cached_len; give both, or leave it out")
    for name, value in (("cached_len", cached), ("shared_len", shared)):
        if not 0 <= value < input_len:
            raise InputError(f"serve: {name} = {value!r} must lie in [0, input_len = {input_len:g}): one token is new")
    if cached and cached < shared:
        raise InputError(
            f"serve: cached_len = {cached:g} counts the shared_len = {shared:g} too; give at least as many"
        )
    return Prefixes(input_len, output_len, cached, 1.0 if hit_rate is None else hit_rate, shared, variation)


def words(p: Prefixes) -> str:
    """What is cached, in a few words; nothing where nothing is."""
    if p.turns is not None:
        return f"turns of conversations ({p.turns:g} each), {p.found:,.0f} of {p.input_len:,.0f} tokens of a prompt said before"
    parts = [f"{p.shared_len:,.0f} tokens shared by all"] if p.shared_len else []
    if p.cached_len:
        parts.append(
            f"{p.cached_len:,.0f} cached" + (f" in {units.percent(p.hit_rate, signed=False)}" if p.hit_rate < 1 else "")
        )
    return ", ".join(parts)
