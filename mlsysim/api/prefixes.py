"""What of a prompt is in the cache already: a shared prefix, a hit rate, turns of conversations. As ``serve`` counts it."""

import math
from dataclasses import dataclass, replace
from typing import Any

from mlsysim import inference, units
from mlsysim.capacity import Replica
from mlsysim.errors import InputError
from mlsysim.inference import Deployment
from mlsysim.serving.fleet import agents, chats

TRAFFIC = ("requests", "chats", "agents")  # what requests are: each by itself, or turns of conversations
_USUAL = {"chats": chats.__kwdefaults__ or {}, "agents": agents.__kwdefaults__ or {}}
_HALVINGS = 60


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

    def prompts(self, d: Deployment) -> tuple[tuple[float, float], tuple[float, float]]:
        """Mean and standard deviation of the time of a prompt that finds its prefix, and of one that finds the shared text alone, s."""
        return self._time(d, self.found), self._time(d, self.shared_len)

    def _time(self, d: Deployment, cached: float) -> tuple[float, float]:
        batch, new = float(d.split.dp), self.input_len - cached
        mean = float(inference.prefill(d, input_len=self.input_len, batch=batch, cached_len=cached).time)
        if not self.variation:
            return mean, 0.0
        longer = self.input_len + self.variation * new
        return mean, float(inference.prefill(d, input_len=longer, batch=batch, cached_len=cached).time) - mean

    def timed(self, r: Replica, prompts: Any, hit_rate: float) -> Replica:
        """The replica whose prompts find their prefix with this chance."""
        shares = (hit_rate, 1.0 - hit_rate)
        mean = sum(p * t for p, (t, _) in zip(shares, prompts, strict=True))
        square = sum(p * (t * t + s * s) for p, (t, s) in zip(shares, prompts, strict=True))
        spread = math.sqrt(max(0.0, square - mean * mean))
        return replace(r, prefill_time=mean, prompt_variation=spread / mean if mean else 0.0)

    def kept(self, rate: float, room: float) -> float:
        """Share of the turns that find what was said before, in a cache whose oldest blocks go first.

        Parameters
        ----------
        rate : float, 1/s
            Turns that one replica gets.
        room : float, token
            Of cache that no running sequence holds.

        Assumptions: conversations return to their replica; pauses are exponential; what is not used for the characteristic time T of
        the cache is gone, where T is the time in which what idle conversations leave there fills the room (che2002). A last turn
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
