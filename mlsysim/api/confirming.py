"""The answer of ``serve`` played request by request: whether the simulator agrees, and by how much it does not."""

import math
from dataclasses import dataclass, replace
from typing import Any

from mlsysim import units
from mlsysim.api.arguments import pluralize
from mlsysim.api.fleets import FleetSpec
from mlsysim.api.playing import Run
from mlsysim.api.prefixes import Prefixes
from mlsysim.api.simulating import Simulated
from mlsysim.api.sizing import Sized
from mlsysim.capacity import Load
from mlsysim.catalog import Machines
from mlsysim.errors import InputError
from mlsysim.memory.serving import release_of
from mlsysim.serving import Config

_STEPS = 160_000  # of a server that are played in a few seconds
_RESIDENCES = 25.0  # of a steady run
_REQUESTS = 1000.0  # of one at least
_PLAYS = 7
_DRAWN = 60_000  # turns, in runs of which the most typical is played
_LOST = 0.01  # of the tokens of prompts
_ALIKE = 0.05  # a difference in replicas that nobody need explain


@dataclass(frozen=True)
class Confirmed:
    """What the simulator finds of an answer: the share within the targets, and how many replicas it would take."""

    replicas: int | None  # the fewest that meet the targets, where that was found
    devices: int | None
    within_slo: float
    met: bool | None
    ttft_quantile_s: float
    itl_quantile_s: float
    preemptions: float
    reason: str  # why the two differ by more than a replica and 5 %; empty where they do not
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers in SI units, for JSON."""
        return {n: v for n, v in vars(self).items() if n != "preemptions"}


def confirmed(s: Sized) -> Confirmed | None:
    """The answer as the simulator sees it; None where it cannot play it, or not within seconds.

    Replicas that get their requests in turn, or at random, are alike, so that one of them is played: with gaps between its requests
    that vary by one over the square root of their number, or as those of a Poisson process.
    """
    q, load, d = s.question, s.load, s.deployment.split
    if load is None or q.slo is None or not s.answered or d.pp > 1 or d.dp > 1 or d.ep > 1 or q.inter_bandwidth:
        return None
    if q.routing == "least-loaded" and s.replicas > 1:
        return None
    each = float(load.rate) / s.replicas
    steps = max(_RESIDENCES * q.output_len, _REQUESTS / each / max(1e-9, float(load.itl)))
    if steps > _STEPS:
        return None
    plays = int(min(_PLAYS, _STEPS // steps)) if q.rate is not None else 1
    try:
        return _search(s, load, plays)
    except InputError:
        return None


def _played(s: Sized, load: Load, replicas: int) -> Simulated:
    """One of so many replicas."""
    q, kept = s.question, s.question.kept
    parts: dict[str, Any] = {"shared_len": int(kept.shared_len)} if kept.shared_len else {}
    output = q.output_len
    if kept.turns is not None:
        parts |= {"traffic": "chats", "turns": kept.turns, "pause": kept.pause, "prefix_tree": True}
        parts["added_len"] = kept.input_len - kept.cached_len
    spread = 1.0 if q.routing != "round-robin" or replicas == 1 else replicas**-0.5
    run = Run(
        model=q.model, machines=Machines(q.device), tp=int(s.deployment.split.tp), ep=q.ep, precision=q.precision, weights=q.weights,
        experts=q.experts, head=q.head, kv=q.kv, efficiencies=q.efficiencies, server=q.server, slo=q.slo,
        config=Config(engine_version=release_of(q.server), max_num_seqs=load.replica.max_running), routing="round-robin", trace=None,
        rate=float(load.rate) / replicas, requests=steady_requests(load, replicas, kept), input_len=q.input_len, output_len=output,
        arrival_variation=spread, length_variation=q.length_variation, calibration=None, replicas=1,
        cached_len=0 if kept.shared_len else int(kept.cached_len), hit_rate=kept.hit_rate, parts=FleetSpec(**parts),
    )  # fmt: skip
    seed = _typical(run, load, kept) if kept.turns is not None else 0
    found = run.play(seed)
    rows = {name: (value,) for name, value in run.row(found).items()}
    return Simulated(run, (seed,), rows, found, None, None, 1.0)


def _typical(run: Run, load: Load, kept: Prefixes) -> int:
    """Of some seeds that whose conversations ask as often in the steady part of the run, and as much, as was asked for.

    Few long conversations make most of the load, so that their number and length are those of the mean only in runs of hours: of
    150 agents of 20 turns the tokens of prompts vary by a fifth.
    """
    each, talk = float(load.e2e) + kept.pause, float(kept.turns or 1.0) * float(load.e2e) + run.parts.pauses
    begin, end = 5.0 * talk, run.requests / run.rate - max(float(load.e2e), talk / 4.0)

    def off(seed: int) -> float:
        asked = [
            prompt for c in run.talks(seed) for k, prompt in enumerate(c.prompts) if begin <= c.start + k * each < end
        ]
        turns, tokens = run.rate * (end - begin), run.rate * (end - begin) * kept.input_len
        return abs(len(asked) / turns - 1) + abs(sum(asked) / tokens - 1)

    return min(range(0, 3 * max(1, _DRAWN // run.requests), 3), key=off)


def steady_requests(load: Load, replicas: int, kept: Prefixes) -> int:
    """Requests of a steady run of one replica, by how long they stay in closed form."""
    stays, ramp = float(load.e2e), 3.0 * float(load.e2e)
    if kept.turns is not None:
        talk = (kept.turns - 1) * kept.pause + kept.turns * stays
        stays, ramp = max(stays, talk / 4.0), 5.0 * talk
    seconds = ramp + 21.0 * stays
    return max(int(_REQUESTS), math.ceil(float(load.rate) / replicas * seconds))


def _search(s: Sized, load: Load, plays: int) -> Confirmed:
    """Play the answer, then one replica less or more until the verdict turns, in growing strides."""
    n, share = s.replicas, load.quantile
    known: dict[int, Simulated] = {}

    def meets(count: int) -> bool:
        if count not in known:
            known[count] = _played(s, load, count)
        return known[count].mean("met") >= share

    here, fewest = meets(n), None
    if plays > 1:
        low, high, stride = (0, n, 1) if here else (n, None, 1)  # low misses, high meets
        while len(known) < plays and (high is None or high - low > 1):
            if here and low == 0:
                middle = max(1, high - stride) if high is not None else n
                stride *= 2
            elif high is None:
                middle, stride = low + stride, stride * 2
            else:
                middle = (low + high) // 2
            if middle == high:
                break
            low, high = (low, middle) if meets(middle) else (middle, high)
        fewest = high
    one = known[n]
    window = one.run.window(one.simulation)  # type: ignore[arg-type]
    ttft, itl = (
        _quantile([v for r in window.records if (v := getattr(r, m)) is not None], share) for m in ("ttft_s", "itl_s")
    )
    found = Confirmed(
        fewest, None if fewest is None else fewest * s.deployment.devices, one.mean("met"), here if one.steady or not here else None, ttft, itl,
        one.mean("preemptions"), "", "",
    )  # fmt: skip
    safe = (
        fewest is not None and fewest < n and s.question.kept.turns is not None
    )  # room for hours, which one play is not
    if fewest is not None and (safe or abs(fewest - n) > max(1.0, _ALIKE * n)):
        cached = getattr(one.simulation, "found_share", 1.0)
        found = replace(found, reason=_cause(load, found, s.question.kept, fewest > n, cached))
    return replace(found, text=_words(s, found))


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, math.ceil(share * len(values)) - 1)] if values else math.nan


def _words(s: Sized, found: Confirmed) -> str:
    """What the simulator says, in a sentence; and why, where it says something else."""
    devices = s.deployment.devices
    here = f"{100 * found.within_slo:.3g} % within the targets"
    if found.met is None:
        return f"simulated: {here}, in a run that is not steady"
    if found.replicas is None:
        return f"simulated: {'met' if found.met else 'MISSED'}, {here}"
    more = found.replicas - s.replicas
    if more == 0:
        return f"simulated: agrees, {here}"
    said = (
        f"simulated: {here}, and {pluralize(found.replicas * devices, 'device')} would do, {abs(more) * devices} "
        + ("more" if more > 0 else "fewer")
    )
    return f"{said}: {found.reason}" if found.reason else said


def _cause(load: Load, found: Confirmed, kept: Prefixes, more: bool, cached: float) -> str:
    """The latency in which the two differ, and what the simulator does that the closed form does not."""
    both = {
        "TTFT": (found.ttft_quantile_s, float(load.ttft_quantile), load.ttft_target),
        "ITL": (found.itl_quantile_s, float(load.itl_quantile), load.itl_target),
    }
    asked = {n: (a, b) for n, (a, b, target) in both.items() if target is not None} or {
        n: (a, b) for n, (a, b, _) in both.items()
    }
    name, (played, closed) = max(
        asked.items(), key=lambda item: abs(math.log(item[1][0] / item[1][1])) if item[1][1] > 0 else 0.0
    )
    times = f"{name} is {units.format(played, 's', 3)} where the closed form has {units.format(closed, 's', 3)}"
    if kept.turns is not None:
        hit = getattr(load.replica, "hit_rate", 1.0)
        expected = (hit * kept.found + (1.0 - hit) * kept.shared_len) / kept.input_len
        if not more:
            return f"{times}; it is a short run, and over hours conversations hold more at times: what is lost then is computed again, which makes room scarcer"
        if cached < expected - _LOST:
            return f"{times}; the cache finds {cached:.0%} of the prompts' tokens, where the closed form has {expected:.0%}"
    if found.preemptions:
        return f"{times}; the cache runs out of blocks, {found.preemptions:.3g} times in the run"
    if abs(played / closed - 1) < _ALIKE:
        return f"{times}; no latency of the answer differs by more, so that the shares within the targets alone decide"
    if played > closed:
        return f"{times}; requests wait for places and for prompts, and the closed form counts the longer wait alone"
    if name == "TTFT":
        return f"{times}; prompts that come together share a step, and the closed form lets them wait for each other"
    return f"{times}; batches vary less than those of exponential answers, which the closed form supposes"
