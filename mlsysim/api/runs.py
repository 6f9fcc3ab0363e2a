"""``mlsysim.compare``: a run that another tool measured beside our prediction of it, what explains the gap best, and what to measure next."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from mlsysim import catalog, units
from mlsysim.api.arguments import fitted, typed, wrap_lines
from mlsysim.api.gaps import Reason, next_measurement, reasons
from mlsysim.api.predicting import NEEDED, TOOLS, Row
from mlsysim.efficiencies import DEFAULT
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.results import Report, Result, plain
from mlsysim.runs import KINDS, QUANTITIES, Measured, read_run
from mlsysim.tables import table

_SHOWN = 4  # rows of a table that is printed
_HEAD = ("figure", "measured", "predicted", "over it", "range", "limit")
_SHARE = 0.02  # of a time, below which a term is not printed
PHASES = ("prefill", "decode", "train")  # of a trace


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """What :func:`compare` returns. ``answered`` says whether all is known that a prediction needs; else ``missing`` says what is not."""

    run: Measured
    asked: Mapping[str, Any]  # the whole question: of the file, and given
    given: tuple[str, ...]  # names of it that the caller gave
    missing: tuple[str, ...]
    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def answered(self) -> bool:
        return not self.missing

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """What explains the gap, the best first."""
        return reasons(self.run.kind, self.asked, self.rows) if self.answered else ()

    @cached_property
    def measure_next(self) -> str:
        """What would tell the first two explanations apart."""
        return next_measurement(self.run.kind, self.asked, self.rows, self.reasons)

    @property
    def inside(self) -> bool:
        """Whether every measurement lies within its range."""
        return all(row.inside for row in self.rows)

    def _question(self) -> str:
        said = [f"--{n.replace('_', '-')} {_shown(v)}" for n, v in self.asked.items()]
        return f"understood: {' '.join(said) or 'nothing of the question'}"

    def _rows(self, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        found: list[tuple[str, ...]] = []
        for row in rows:
            unit = QUANTITIES[row.figure.name][1]
            ends = "-" if row.ends is None else " to ".join(units.format(e, unit, 3) for e in row.ends)
            limit = "-" if row.predicted.limit is None else units.format(row.predicted.limit, unit, 3)
            value = row.predicted.value / row.figure.value
            found.append((row.figure.words, units.format(row.figure.value, unit, 3), units.format(row.predicted.value, unit, 3), f"x{value:.2f}", ends, limit))  # fmt: skip
        return found

    def _table(self) -> list[str]:
        text = str(table(_HEAD, self._rows(self.rows[:_SHOWN]))).split("\n")
        return text + ([f"and {len(self.rows) - _SHOWN} more figures: --explain"] if len(self.rows) > _SHOWN else [])

    def _terms(self) -> list[str]:
        """The terms of every figure that has some, in a line each."""
        lines = []
        for row in self.rows:
            large = sorted(((v, n) for n, v in row.predicted.shares.items() if v >= _SHARE), reverse=True)
            if len(large) > 1 and not row.figure.is_rate:
                time = row.predicted.value
                lines.append(
                    f"  {row.figure.words}: " + ", ".join(f"{n} {units.format(v * time, 's', 2)}" for v, n in large[:6])
                )
        return lines

    def summary(self) -> Sequence[str]:
        head = f"{self.run.file}: {self.run.tool}, {KINDS[self.run.kind]}"
        if not self.answered:
            options = " ".join(f"--{n.replace('_', '-')}" for n in self.missing)
            lines = [
                head,
                self._question(),
                f"GIVE {options}: the file does not say, and a prediction needs it",
                *self.notes,
            ]
            return wrap_lines(lines)
        best = [f"explains it best: {r.text}" if i == 0 else f"  or: {r.text}" for i, r in enumerate(self.reasons[:3])]
        verdict = (
            "no range of past errors is known of these figures"
            if all(row.ends is None for row in self.rows)
            else "every figure lies within its range"
            if self.inside
            else "outside the range of past errors: "
            + ", ".join(dict.fromkeys(r.figure.words for r in self.rows if not r.inside))
        )
        notes = [f"note: {n}" for n in self.notes]
        return fitted(
            [
                *wrap_lines([head, self._question()]),
                *self._table(),
                *wrap_lines([verdict, *best[:1], f"measure next: {self.measure_next}", *notes]),
            ],
            best[1:],
            notes,
        )

    def __str__(self) -> str:
        return "\n".join(self.summary())

    def explain(self) -> Report:
        """Every figure with the terms of its prediction, and what else may explain the gap."""
        notes = (*self._terms(), *(r.text for r in self.reasons), *self.notes)
        return (
            Report(self.summary()[0], (table(_HEAD, self._rows(self.rows)),), notes)
            if self.answered
            else Report(self.summary()[0], ())
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers in SI units, for JSON."""
        rows = [
            {
                "name": r.figure.name, "of": r.figure.words, "where": r.figure.where, "measured": r.figure.value, "predicted": r.predicted.value,
                "noise": r.figure.noise, "log_error": r.error, "range": r.ends, "inside": r.inside, "limit": r.predicted.limit,
                "shares": dict(r.predicted.shares),
            }
            for r in self.rows
        ]  # fmt: skip
        return dict(
            plain(
                {
                    "file": self.run.file, "tool": self.run.tool, "kind": self.run.kind, "answered": self.answered, "asked": dict(self.asked),
                    "missing": list(self.missing), "figures": rows, "inside": self.inside,
                    "reasons": [{"kind": r.kind, "text": r.text, "error_left": r.left} for r in self.reasons],
                    "measure_next": self.measure_next if self.answered else None, "notes": list(self.notes),
                }
            )
        )  # fmt: skip


def _shown(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f'"{text}"' if " " in text else text


@typed
def compare(
    run: "str | Path | Measured",
    *,
    model: Any = None,
    device: Any = None,
    tp: int | None = None,
    pp: int | None = None,
    ep: int | None = None,
    cp: int | None = None,
    dp: int | None = None,
    precision: str | None = None,
    weights: str | None = None,
    kv: str | None = None,
    server: str | None = None,
    rate: float | None = None,
    concurrency: int | None = None,
    requests: int | None = None,
    input_len: float | None = None,
    output_len: float | None = None,
    cached_len: int | None = None,
    length_variation: float | None = None,
    batch: float | None = None,
    phase: str | None = None,
    passes: int | None = None,
    op: str | None = None,
    ranks: int | None = None,
    node: str | None = None,
    devices: int | None = None,
    global_batch: int | None = None,
    seq: int | None = None,
    micro_batch: int | None = None,
    sharding: str | None = None,
    recompute: str | None = None,
    virtual_stages: int | None = None,
    efficiencies: str = DEFAULT,
) -> Comparison:
    """A run that another tool measured beside our prediction of it: term by term, what explains the gap best, and what to measure next.

    What the file says of the question is taken from it; what is given here counts before that.

    Parameters
    ----------
    run : path or Measured
        What ``runs.read_run`` reads: results of ``vllm bench serve``, ``sglang.bench_serving``, ``trtllm-bench``, GenAI-Perf, AIPerf,
        ``llama-bench``, nccl-tests and rccl-tests, MLPerf logs, logs of torchtitan, Megatron-LM and NeMo, a Kineto trace.
    model : Model or str, optional
        As in :func:`mlsysim.serve`.
    device : str or Device, optional
        As in :func:`mlsysim.serve`.
    tp : int, optional
        Tensor-parallel ranks (default: 1).
    pp : int, optional
        Pipeline stages (default: 1).
    ep : int, optional
        Ranks that share the experts (default: 1).
    cp : int, optional
        Context-parallel ranks of training (default: 1).
    dp : int, optional
        Data-parallel ranks of training (default: what the devices leave).
    precision : str, optional
        As in :func:`mlsysim.serve`.
    weights : str, one of inference.FORMATS, optional
        As in :func:`mlsysim.serve`.
    kv : str, one of inference.FORMATS, optional
        As in :func:`mlsysim.serve`.
    server : str, optional
        As in :func:`mlsysim.serve`.
    rate : float, 1/s, (0, inf), optional
        Requests per second that were sent.
    concurrency : int, optional
        Requests in flight.
    requests : int, optional
        Requests of the run.
    input_len : float, 1, (0, 1e12], optional
        Tokens of a prompt, on average; of a trace of decoding what a sequence attends to.
    output_len : float, 1, (0, 1e12], optional
        Tokens of an answer, on average.
    cached_len : int, token, [0, inf), optional
        Leading tokens of a prompt that were in the cache (default: 0).
    length_variation : float, 1, [0, inf), optional
        Standard deviation over mean of the lengths (default: 0, as benchmarks draw them).
    batch : float, 1, [1, 1e12], optional
        Sequences of a pass in a trace.
    phase : str, one of PHASES, optional
        What a trace is of.
    passes : int, optional
        Passes, or steps, that a trace without marks of steps holds (default: 1).
    op : str, optional
        The collective, where an old nccl-tests does not say.
    ranks : int, optional
        Devices that take part in a collective.
    node : str, optional
        Node of the catalogue that a collective ran on (default: the first with the device).
    devices : int, optional
        Devices of the training job.
    global_batch : int, optional
        Sequences per step.
    seq : int, optional
        Tokens per sequence.
    micro_batch : int, optional
        As in :class:`parallelism.Plan`.
    sharding : str, optional
        As in :class:`parallelism.Plan`.
    recompute : str, optional
        As in :class:`parallelism.Plan`.
    virtual_stages : int, optional
        As in :class:`parallelism.Plan`.
    efficiencies : str, one of efficiencies.MODES
        As in :func:`mlsysim.serve`.

    Returns
    -------
    Comparison
        ``rows``, ``reasons``, ``measure_next``, ``missing``, ``answered``; printed, it is the table.

    Raises
    ------
    InputError, UnknownNameError
        A file that cannot be read, with the line; a value out of range; an unknown name that was given.

    Assumptions: those of the predictions; the figures are of the steady part of a run.
    """
    found = run if isinstance(run, Measured) else read_run(run)
    names = {n: v for n, v in locals().items() if n not in ("run", "found") and v is not None}
    names = {n: v for n, v in names.items() if n != "efficiencies" or v != DEFAULT}
    return compared(found, names)


def compared(run: Measured, given: Mapping[str, Any]) -> Comparison:
    """The comparison with so much given of the question."""
    tool = TOOLS[run.kind]
    if unknown := next((n for n in given if n not in tool.takes), None):
        raise InputError(
            f"compare: {unknown} = {str(given[unknown])[:40]!r} does not go with {KINDS[run.kind]}; leave it out"
        )
    asked, notes = dict(run.asked), list(run.notes)
    for name, look_up in _NAMES.items():
        if name in given:
            look_up(given[name])
        elif name in asked:
            try:
                look_up(asked[name])
            except UnknownNameError:
                notes.append(
                    f"the file says {name} {str(asked.pop(name))[:60]!r}, which the catalogue does not have by that name"
                )
    if "rate" in given:
        asked.pop("concurrency", None)
    asked |= given
    missing = tuple(one for one in NEEDED[run.kind] if not any(n in asked for n in one.split("|")))
    missing = tuple(one.split("|")[0] for one in missing)
    if missing:
        return Comparison(run, asked, tuple(given), missing, notes=tuple(notes))
    predicted, said = tool.predict({n: v for n, v in asked.items() if n in tool.takes}, run.figures)
    rows = tuple(Row(f, p) for f, p in zip(run.figures, predicted, strict=True) if p is not None)
    if not rows:
        raise InputError(
            f"compare: {run.file} has no figure that is predicted; give a run with times of requests, passes or steps"
        )
    return Comparison(run, asked, tuple(given), (), rows, (*notes, *said))


_NAMES: Mapping[str, Callable[[Any], Any]] = {"model": catalog.model, "device": catalog.device}
