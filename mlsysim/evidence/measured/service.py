"""DeepSeek's service rebuilt: its decode step term by term, what a device of both pools gives in a day; and guesses by position."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mlsysim import inference, serving
from mlsysim.evidence.hypotheses import expert_claims
from mlsysim.evidence.measured.measurements import Check, Measurement, measurements
from mlsysim.experts import two_batch_time
from mlsysim.results import Result
from mlsysim.serving_steps import TIER_0, Batch, step_model

DEVICES = 128  # of our deployment: 2 routed experts on each, as on the service's 144 with 32 of 256 experts twice
_TERMS = {
    "attention, its projections": ("projections", "decode_attention"),
    "routed experts": ("experts",),
    "shared expert, router, dense layers": ("mlp",),
    "vectors and head": ("elementwise", "head"),
}


def _guesses(row: Measurement, i: Mapping[str, Any]) -> Check:
    """Tokens of a pass from the first two positions; ``even`` is what the first alone would say of all."""
    fading = i["second"] / i["first"] ** 2
    tokens = float(inference.fading_tokens(i["first"], fading, i["drafted"]))
    even = float(inference.speculative_tokens(i["first"], i["drafted"]))
    return Check(row, tokens, row.value, {"even": even, "fading": fading})


RULES: Mapping[str, Callable[[Measurement, Mapping[str, Any]], Check]] = {"guesses": _guesses}


@dataclass(frozen=True)
class DecodeStep(Result):
    """A decode step of the service: ours by term, what others rebuilt, what users saw; times in s."""

    batch: int  # sequences of a device, by the law of the closed loop
    terms: Mapping[str, float]
    messages: float
    overlapped: float  # two micro-batches in turn, each of half the sequences
    measured: float
    slowest: float  # of the two ends that the source prints
    fastest: float

    @property
    def kernels(self) -> float:
        return sum(self.terms.values())


def decode_step() -> DecodeStep:
    """The step behind DeepSeek's published decode rate.

    >>> found = decode_step()
    >>> found.batch, round(found.measured * 1e3)
    (88, 48)
    """
    row = measurements("service")["deepseek-decode"]
    slow, fast = row.inputs["slowest"], row.inputs["fastest"]
    speed = (slow + fast) / 2.0
    batch = round(row.value / row.inputs["devices"] / speed)
    whole, messages = _terms(float(batch), row.inputs["context"])
    half, sent = _terms(batch / 2.0, row.inputs["context"])
    overlapped = float(two_batch_time(sum(half.values()), sent))
    return DecodeStep(batch, whole, messages, overlapped, 1.0 / speed, 1.0 / slow, 1.0 / fast)


def _terms(batch: float, context: float) -> tuple[dict[str, float], float]:
    """Kernels of one batch in our words, and its messages."""
    step = step_model(expert_claims.deployed(DEVICES), TIER_0)
    found = step.terms(Batch.of(step.model, decodes=[context] * round(batch)))
    return (
        {name: float(sum(getattr(found, part) for part in parts)) for name, parts in _TERMS.items()},
        float(found.messages),
    )


@dataclass(frozen=True)
class Day(Result):
    """A day of DeepSeek's service: output tokens per second of a node, by its pools and by its count."""

    by_pools: float  # eq-pools-rate of the two published rates
    counted: float  # tokens of the day over nodes and seconds
    computed: float  # prompt tokens per second of a prefill node that were not cached
    dollars: float  # per million tokens of answers, all nodes counted
    decode_dollars: float  # the same if only the decode pool is counted


def day() -> Day:
    """What the published figures of that day say of each other.

    >>> found = day()
    >>> abs(found.by_pools / found.counted - 1) < 0.002
    True
    """
    s = measurements("service")
    prompts, answers, nodes = (s[f"deepseek-{name}"].value for name in ("input", "output", "nodes"))
    prefill, decode = s["deepseek-prefill"].value, s["deepseek-decode"].value
    hour = s["deepseek-nodes"].inputs["devices"] * s["deepseek-nodes"].inputs["dollars_an_hour"]
    return Day(
        by_pools=float(serving.pools_rate(decode, prefill, prompts, answers)),
        counted=answers / (nodes * 86400.0),
        computed=prefill * (1.0 - s["deepseek-cached"].value / prompts),
        dollars=nodes * hour * 24.0 / answers * 1e6,
        decode_dollars=hour / 3600.0 / decode * 1e6,
    )


def both_pools(name: str, output_len: float) -> tuple[float, float]:
    """Output tokens per second of a device that decodes, and of a device of both pools, for a service measured pool by pool.

    >>> [round(x) for x in both_pools("sglang-gb200", 1024)]
    [13386, 6694]
    """
    rates = [measurements("service")[f"{name}-{pool}"] for pool in ("decode", "prefill")]
    decode, prefill = (r.value / r.inputs["devices"] for r in rates)
    return decode, float(serving.pools_rate(decode, prefill, rates[0].inputs["input_len"], output_len))


def published_front(name: str) -> tuple[float, float]:
    """A point of a front that others publish: tokens per second of a user, 0 at its most patient end, and answers of a device.

    >>> [round(x) for x in published_front("b200-125")]
    [125, 470]
    """
    found = measurements("service")[f"front-{name}"]
    answers = found.inputs["output_len"] / (found.inputs["input_len"] + found.inputs["output_len"])
    return float(found.inputs.get("user_rate", 0.0)), float(found.value / found.inputs["devices"] * answers)
