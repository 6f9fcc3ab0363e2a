"""What explains a gap between predicted and measured best: a limit, a term that is off, a setting, or a queue; and what would tell."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import exp, log, sqrt
from typing import Any

from mlsysim.api.predicting import OTHERS, QUEUE, TOOLS, Asked, Row
from mlsysim.errors import MlsysimError
from mlsysim.results import Result

# Standard deviations of logarithms: of a figure whose question is right (what points of one source do not share), and of a term.
FIGURE, TERM = 0.15, 0.35
SETTING = 3.0  # a setting that nobody named counts as much as a term that is off by so many deviations' square
_STEPS, _WIDEST = 81, log(4.0)  # a term is tried from a fourth to four times
_KEPT = 6


@dataclass(frozen=True)
class Reason(Result):
    """One explanation: its kind (``limit``, ``term``, ``setting``, ``queue``), in words, and the error that it leaves."""

    kind: str
    text: str
    left: float  # root mean square of the log errors
    score: float  # sum of squares, in deviations: lower is better
    moved: dict[str, Any]  # the term and its factor, or the question


def _rms(errors: Sequence[float]) -> float:
    return sqrt(sum(e * e for e in errors) / len(errors))


def _score(errors: Sequence[float]) -> float:
    return sum((e / FIGURE) ** 2 for e in errors)


def reasons(kind: str, asked: Asked, rows: Sequence[Row]) -> tuple[Reason, ...]:
    """The explanations in the order of their score, limits first."""
    if kind == "kernels":
        return tuple(_classes(rows))
    errors = [row.error for row in rows]
    found = [r for r in (*_terms(rows), *_settings(kind, asked, rows)) if r.score < _score(errors)]
    return (*_limits(rows), *sorted(found, key=lambda r: r.score)[:_KEPT])


def _classes(rows: Sequence[Row]) -> Iterator[Reason]:
    """Of a trace the classes by their share of the seconds that differ; a pass is as long as their sum."""
    gaps = {row.figure.words: row.figure.value - row.predicted.value for row in rows}
    total = sum(abs(g) for g in gaps.values()) or 1.0
    for words, gap in sorted(gaps.items(), key=lambda item: -abs(item[1]))[:3]:
        text = f"a term: {words}, {_time(abs(gap))} {'longer' if gap > 0 else 'shorter'} than predicted, {abs(gap) / total:.0%} of all that differs"
        yield Reason("term", text, 1.0 - abs(gap) / total, 1.0 - abs(gap) / total, {"members": [words], "factor": 1.0})


def _limits(rows: Sequence[Row]) -> Iterator[Reason]:
    for row in rows:
        if row.impossible:
            text = (
                f"a limit: {row.figure.words} is faster than the datasheet allows of this question, so that something in it is not what ran: "
                "the number format, the tokens (found in a cache, or drafted), or the devices"
            )
            yield Reason("limit", text, 0.0, 0.0, {})
            return


def _terms(rows: Sequence[Row]) -> Iterator[Reason]:
    """Every term, and all of a phase together, times the factor that fits best."""
    names = list(dict.fromkeys(n for row in rows for n in row.predicted.shares))
    groups = {n: [n] for n in names}
    for prefix, words in (("prompt: ", "the whole prompt pass"), ("decoding: ", "the whole decode step")):
        members = [n for n in names if n.startswith(prefix)]
        if len(members) > 1:
            groups[words] = members
    if len(names) > 1:
        groups["everything alike"] = names
    for words, members in groups.items():
        parts = [sum(row.predicted.shares.get(n, 0.0) for n in members) for row in rows]
        if max(parts) < 0.02:
            continue

        def after(x: float, parts: Sequence[float] = parts) -> list[float]:
            return [row.error + log(1.0 + part * (exp(x) - 1.0)) for row, part in zip(rows, parts, strict=True)]

        steps = [_WIDEST * (2.0 * i / (_STEPS - 1) - 1.0) for i in range(_STEPS)]
        best = min(steps, key=lambda x: _score(after(x)) + (x / TERM) ** 2)
        if best == 0.0:
            continue
        queue = words in (QUEUE, OTHERS)
        left = _rms(after(best))
        text = f"{'a queue' if queue else 'a term'}: {words} x{exp(best):.2f}, which leaves {100 * (exp(left) - 1):.0f} % on average"
        yield Reason(
            "queue" if queue else "term",
            text,
            left,
            _score(after(best)) + (best / TERM) ** 2,
            {"members": members, "factor": exp(best)},
        )


def _settings(kind: str, question: Asked, rows: Sequence[Row]) -> Iterator[Reason]:
    """Every setting that may have been otherwise, by how it moves the times without a queue."""
    tool, figures = TOOLS[kind], [row.figure for row in rows]
    asked = {n: v for n, v in question.items() if n in tool.takes}
    try:
        now = tool.quick(asked, figures)
        tried = tool.settings(asked)
    except MlsysimError:
        return
    for words, other in tried:
        try:
            then = tool.quick(other, figures)
        except MlsysimError:  # another format or split that the device or the model does not have
            continue
        errors = []
        for row, a, b in zip(rows, now, then, strict=True):
            ratio = log(b / a) if a and b else 0.0
            errors.append(row.error + (-ratio if row.figure.is_rate else ratio))
        left = _rms(errors)
        yield Reason(
            "setting",
            f"a setting: {words}, which leaves {100 * (exp(left) - 1):.0f} % on average",
            left,
            _score(errors) + SETTING,
            {"asked": other},
        )


def next_measurement(kind: str, asked: Asked, rows: Sequence[Row], explained: Sequence[Reason]) -> str:
    """What the explanations with the best scores say most differently of."""
    if kind == "collective":
        return "the smallest sizes (8 B to 1 KiB) tell the starts, the largest (256 MiB on) the links; run both with NCCL_DEBUG=INFO, which names the protocol"
    if kind == "kernels":
        return "the same pass without the profiler: what its time lacks of the trace's is the profiler's own"
    candidates = list(_probes(kind, asked))
    best, found = 0.0, "the same run once more: nothing that we can predict tells these explanations apart"
    rivals = [r for r in explained if r.kind != "limit"][:4]
    if all(row.inside for row in rows) and (not rivals or _rms([row.error for row in rows]) < FIGURE):
        return "nothing is needed; --measured makes the next prediction narrower by this run"
    for words, probe, names in candidates:
        for one, other in combinations(rivals, 2):
            for name in names:
                a, b = (_foretold(kind, asked, r, probe, name) for r in (one, other))
                if a and b and abs(log(a / b)) > best:
                    best = abs(log(a / b))
                    found = f"{words}: {_QUANTITY[name]} of {_time(a)} would speak for {_brief(one)}, of {_time(b)} for {_brief(other)}"
    return found


_QUANTITY = {
    "ttft_s": "a first token",
    "itl_s": "a time per token",
    "step_s": "a step",
    "prompt_s": "a prompt pass",
    "decode_s": "a decode step",
}


def _time(value: float) -> str:
    from mlsysim import units

    return units.format(value, "s", 3)


def _brief(reason: Reason) -> str:
    return reason.text.partition(": ")[2].partition(", which leaves")[0]


def _probes(kind: str, question: Asked) -> Iterator[tuple[str, dict[str, Any], tuple[str, ...]]]:
    """Runs that could be made next, with their questions and what they would measure."""
    asked = dict(question)
    if kind == "serving":
        alone = {n: v for n, v in asked.items() if n != "rate"} | {"concurrency": 1}
        yield "one request at a time (--max-concurrency 1)", alone, ("ttft_s", "itl_s")
        yield (
            "one at a time with prompts of four times the length",
            alone | {"input_len": 4 * asked["input_len"]},
            ("ttft_s", "itl_s"),
        )
        yield "64 in flight", alone | {"concurrency": 64}, ("itl_s",)
    elif kind == "step":
        yield (
            "half the sequence with twice the sequences",
            asked | {"seq": max(1, asked["seq"] // 2), "global_batch": 2 * asked["global_batch"]},
            ("step_s",),
        )
        yield "twice the sequences a step", asked | {"global_batch": 2 * asked["global_batch"]}, ("step_s",)
        yield "half of them", asked | {"global_batch": max(1, asked["global_batch"] // 2)}, ("step_s",)


def _foretold(kind: str, said: Asked, reason: Reason, asked: dict[str, Any], name: str) -> float | None:
    """What a run would measure if the reason holds: by the changed question, or by the same term as much longer."""
    from mlsysim.runs import Figure

    tool, probe = TOOLS[kind], Figure(name, 1.0, "")
    moved = reason.moved.get("asked")
    question = {
        n: v
        for n, v in {**asked, **{k: v for k, v in (moved or {}).items() if v != said.get(k)}}.items()
        if n in tool.takes
    }
    if moved and "cached_len" in question:
        question["cached_len"] = int(0.9 * question["input_len"])
    try:
        time = tool.quick(question, [probe])[0]
        if time is None or moved:
            return time
        row = next((r for r in tool.predict(question, [probe])[0] if r is not None), None) if kind == "step" else None
        shares = row.shares if row is not None else _alone(question, name)
    except MlsysimError:
        return None
    part = sum(shares.get(n, 0.0) for n in reason.moved["members"])
    return float(time * (1.0 + part * (reason.moved["factor"] - 1.0)))


def _alone(asked: dict[str, Any], name: str) -> dict[str, float]:
    """Shares of a pass that nothing queues for."""
    from mlsysim import inference
    from mlsysim.api.predicting import _shares, deployed

    d = deployed(asked)
    if name == "ttft_s":
        return _shares(vars(inference.prefill(d, input_len=float(asked["input_len"])).terms), "prompt: ")
    context = float(asked["input_len"]) + float(asked["output_len"]) / 2.0
    return _shares(
        vars(inference.decode_step(d, context=context, batch=float(asked.get("concurrency", 1))).terms), "decoding: "
    )
