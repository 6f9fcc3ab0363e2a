"""``mlsysim sweep``: a solver over every combination of lists and ranges, as CSV or JSON."""

import argparse
import csv
import math
import sys
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, TextIO

from mlsysim import catalog
from mlsysim._numeric import is_array, is_finite
from mlsysim.catalog import registry
from mlsysim.cli.arguments import Commands, scale_options, to_json
from mlsysim.cli.solvers import SOLVERS, Swept, find
from mlsysim.errors import InputError, unknown_name

_LARGEST_JSON = 1_000_000  # rows; a table of more belongs into a CSV file, which is written chunk by chunk
_LARGEST_RANGE = 10_000_000


def _axes(solver: str, known: Swept, texts: list[str]) -> dict[str, list[Any]]:
    """The axes of the command line: numbers in SI units, all others as text."""
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not values:
            raise InputError(f"sweep: {text!r} is not NAME=VALUES; write for example seq=4096,8192 or batch=1:64:7")
        if name not in known.arguments:
            raise unknown_name(f"argument of {solver}", name, known.arguments)
        if name in found:
            raise InputError(f"sweep: {name} stands there twice; write its values once, as in {name}=1,2,4")
        if name in known.words:
            found[name] = values.split(",")
        else:
            found[name] = _numbers(name, values, known)
            if name in known.whole:
                found[name] = [_whole(name, value) for value in found[name]]
    missing = [name for name in known.required if name not in found]
    if missing:
        raise InputError(f"sweep: {solver} needs {', '.join(missing)}; add for example {missing[0]}=...")
    return found


def _numbers(name: str, text: str, known: Swept) -> list[float]:
    if ":" not in text:
        return [known.parse(name, value) for value in text.split(",")]
    parts = text.split(":")
    if len(parts) not in (3, 4) or (len(parts) == 4 and parts[3] != "log"):
        raise InputError(f"sweep: {name} = {text!r} is not FROM:TO:COUNT or FROM:TO:COUNT:log")
    start, stop = known.parse(name, parts[0]), known.parse(name, parts[1])
    if not parts[2].isdecimal() or not 2 <= (count := int(parts[2])) <= _LARGEST_RANGE:
        raise InputError(f"sweep: the count {parts[2]!r} of {name} must be a whole number in [2, {_LARGEST_RANGE:,}]")
    if len(parts) == 3:
        return [start + (stop - start) * i / (count - 1) for i in range(count)]
    if not (start > 0 and stop > 0):
        raise InputError(f"sweep: {name} = {text!r} must start and end above zero; leave out ':log' otherwise")
    low, high = math.log(start), math.log(stop)
    inner = [math.exp(low + (high - low) * i / (count - 1)) for i in range(1, count - 1)]
    return [start, *(float(f"{x:.12g}") for x in inner), stop]  # so that 4096 tokens are not 4095.99999999999


def _whole(name: str, value: float) -> str:
    if not math.isfinite(value) or value != int(value):
        raise InputError(f"sweep: {name} = {value:g} must be a whole number")
    return str(int(value))


@dataclass(frozen=True)
class _Guarded:
    """A solver that marks the combinations it refuses, by a number for the reason (0: answered).

    Words and whole numbers come one at a time, so a plan that the model does not allow costs no other its answer. Where
    a number of a vector is refused, the vector is halved until the ones at fault stand alone: they are marked, and no
    others. A solver without whole numbers stops at the first value that it refuses, and names it.

    It holds names alone, so that another process can ask the same; the user's own files with what was in them.
    """

    solver: str
    own: tuple[tuple[str, str], ...] = ()  # files of the user's own entries, and their digests

    @property
    def known(self) -> Swept:
        return find(self.solver)

    def __call__(self, **given: Any) -> Mapping[str, Any]:
        with registry.for_now():
            for file, _ in self.own:
                catalog.add(file)
            words, vectors = self._split(given)
            length = len(next(iter(vectors.values()))) if vectors else 1
            found = self._solve(words, vectors, length)
        # Where nothing was answered False stands for the answers, which changes no column's type
        return found if len(found) > 1 else dict.fromkeys(self.known.answers, False) | found

    def _split(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        words = {n: int(v) if n in self.known.whole else v for n, v in given.items() if isinstance(v, str)}
        return words, {n: v for n, v in given.items() if not isinstance(v, str)}

    def _solve(self, words: dict[str, Any], vectors: dict[str, Any], length: int) -> dict[str, Any]:
        """The answers with a mark on what was left out."""
        try:
            return {**self._answers(words, vectors), "left_out": 0}
        except InputError as error:
            alone = self._first(words, vectors) if vectors else error
            if alone is not None and (length == 1 or str(alone) == str(error)):  # whatever the numbers are
                if not self.known.whole:
                    raise alone from error
                return {"left_out": _code(str(alone))}
            if length == 1:
                raise
        cut = length // 2
        sides = (0, cut), (cut, length)
        halves = [self._solve(words, {n: v[a:b] for n, v in vectors.items()}, b - a) for a, b in sides]
        return _joined(halves, [b - a for a, b in sides])

    def _answers(self, words: dict[str, Any], vectors: dict[str, Any]) -> Mapping[str, Any]:
        """The solver's result; an overflow is an error, as in every other command."""
        known = self.known
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # what overflows is said in one sentence
            try:
                found = known.solve(**words, **vectors)
            except OverflowError as error:
                raise InputError("sweep: an answer is larger than any float; narrow the axes") from error
            for name, value in found.items():
                number = isinstance(value, float) or (is_array(value) and value.dtype.kind == "f")
                if number and name not in (*known.endless, *known.unknown) and not is_finite(value):
                    raise InputError(f"sweep: {name} is larger than any float; narrow the axes")
        return found

    def _first(self, words: dict[str, Any], vectors: dict[str, Any]) -> InputError | None:
        """What the solver says of the first combination alone, in plain numbers, so that it can be read."""
        try:
            self._answers(words, {n: float(v[0]) for n, v in vectors.items()})
        except InputError as error:
            return error
        return None

    def reasons(self, axes: Sequence[str], found: Any) -> Counter[str]:
        """What was left out, by its reason: that of the first combination of each mark, asked again."""
        counted: Counter[str] = Counter()
        for i in range(len(found)):
            row = found.row(i)
            words, vectors = self._split({n: row[n] if isinstance(row[n], str) else found[n][i : i + 1] for n in axes})
            alone = self._first(words, vectors)
            counted[str(alone)] += row["count"]
        return counted


def _report(refused: Counter[str], total: int) -> None:
    """Say on standard error what was left out and why; raise when nothing else is left."""
    count = sum(refused.values())
    if count == total:
        raise InputError(f"sweep: every combination was refused; the first: {next(iter(refused))}")
    for reason, n in refused.most_common(3):
        print(f"mlsysim: left out {n:,} of {total:,} combinations: {reason}", file=sys.stderr)
    if len(refused) > 3:
        print(f"mlsysim: left out {count:,} in all, for {len(refused)} reasons", file=sys.stderr)


def _digest(file: str) -> str:
    return sha256(Path(file).read_bytes()).hexdigest()


def _code(reason: str) -> int:
    """A number for a reason, never 0."""
    return int.from_bytes(sha256(reason.encode()).digest()[:7], "big") + 1


def _joined(halves: Sequence[dict[str, Any]], lengths: Sequence[int]) -> dict[str, Any]:
    """Both halves one after the other; what was left out takes any value, since its rows are dropped."""
    from mlsysim.explore.columns import stacked

    solved = next((half for half in halves if len(half) > 1), {})
    dropped = {n: v.flat[0] if is_array(v) else v for n, v in solved.items()}
    return stacked([dropped | half for half in halves], lengths)


@dataclass(frozen=True)
class _Kept:
    """The rows that were answered, or the best of them; of those left out one for each reason, with their number."""

    fitting: bool = False
    best: int | None = None
    by: str | None = None

    def __call__(self, columns: Any) -> Any:
        import numpy as np

        whole = type(columns)({"count": np.ones(len(columns), dtype=np.int64)} | dict(columns.data))
        answered = whole.take(whole["left_out"] == 0)
        if self.fitting:
            answered = answered.take(answered["fits"].astype(bool))
        if self.best is not None and self.by is not None:
            answered = answered.smallest(self.by, self.best)
        refused = whole.take(whole["left_out"] != 0)
        if not len(refused):
            return answered
        _, first, which = np.unique(refused["left_out"], return_index=True, return_inverse=True)
        counts = np.bincount(which.reshape(-1), weights=refused["count"]).astype(np.int64)
        order = np.argsort(first)
        folded = refused.take(first[order])
        folded = type(columns)(dict(folded.data) | {"count": counts[order]})
        return type(columns).join([answered, folded])


def _parted(found: Any) -> tuple[Any, Any]:
    """What was answered, without the marks, and what was left out."""
    kept = found.take(found["left_out"] == 0)
    plain = type(kept)({n: c for n, c in kept.data.items() if n not in ("left_out", "count")})
    return plain, found.take(found["left_out"] != 0)


class _Writer:
    """Writes each chunk as CSV and keeps nothing of it but what was left out, so that memory stays flat."""

    def __init__(self, file: TextIO, keep: _Kept) -> None:
        self.keep = keep
        self.rows = csv.writer(file, lineterminator="\n")
        self.started = False

    def __call__(self, columns: Any) -> Any:
        columns, refused = _parted(self.keep(columns))
        self.write(columns)
        return refused

    def write(self, columns: Any) -> None:
        if not self.started and len(columns):
            self.rows.writerow(list(columns))
            self.started = True
        self.rows.writerows(zip(*(column.tolist() for column in columns.data.values()), strict=True))


def _json(solver: str, known: Swept, found: Any, refused: Counter[str]) -> str:
    columns = {n: [int(v) for v in c] if n in known.whole else c for n, c in found.to_dict().items()}
    for name in {*known.endless} & {*columns}:
        columns[name] = [None if v == math.inf else v for v in columns[name]]
    for name in {*known.unknown} & {*columns}:
        columns[name] = [None if v != v else v for v in columns[name]]
    answer = {"solver": solver, "rows": len(found), "left_out": dict(refused), "columns": columns}
    return to_json(answer)


def _sweep(args: argparse.Namespace) -> None:
    try:
        from mlsysim import explore

        run = explore.sweep
    except ImportError as error:
        raise InputError("mlsysim sweep needs NumPy; run: pip install 'mlsysim-book[scale]'") from error
    known = find(args.solver)
    axes = _axes(args.solver, known, args.values)
    total = math.prod(len(values) for values in axes.values())
    if (args.best is None) != (args.by is None):
        raise InputError("sweep: --best and --by belong together; give for example --best 10 --by time_s")
    if args.best is not None and args.best < 1:
        raise InputError(f"sweep: --best {args.best} must be at least 1")
    columns = (*axes, *known.answers)
    if args.by is not None and args.by not in columns:
        raise unknown_name("column", args.by, columns)
    if args.fitting and "fits" not in known.answers:
        raise InputError(
            f"sweep: --fitting needs a solver that says what fits, as train and serve do; {args.solver} does not"
        )
    if args.json and args.best is None and total > _LARGEST_JSON:
        raise InputError(
            f"sweep: {total:,} rows are too many for JSON, which takes up to {_LARGEST_JSON:,}; leave out --json, or "
            "keep the best with --best and --by"
        )
    solver = _Guarded(args.solver, tuple((file, _digest(file)) for file in args.catalog))
    job = {"chunk": args.chunk, "progress": args.progress, "store": args.store, "client": args.cluster}
    keep = _Kept(args.fitting, args.best, args.by)
    with _opened(args.output) as file:
        writer = _Writer(file, keep)
        flat = args.best is None and not args.json and args.store is None and args.cluster is None
        found, left = _parted(run(solver, axes, keep=writer if flat else keep, **job))
        refused = solver.reasons(tuple(axes), left)
        _report(refused, total)
        if args.json:
            print(_json(args.solver, known, found, refused), file=file)
        elif not flat:
            writer.write(found)


def _opened(path: str | None) -> Any:
    if path is None:
        return nullcontext(sys.stdout)
    try:
        return Path(path).open("w", newline="", encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"--output {path!r} cannot be written ({error.strerror}); give a file in a folder of yours"
        ) from error


def add(commands: Commands) -> None:
    """Register the commands of this module."""
    p = commands.add_parser(
        "sweep",
        parents=[scale_options()],
        epilog="VALUES: one value or several, as in tp=1,2,4 and device=H100,H200; FROM:TO:COUNT for evenly spaced numbers, "
        "FROM:TO:COUNT:log for evenly spaced ratios; units as everywhere, as in inter_bandwidth='100 Gbit/s':'800 Gbit/s':8. "
        "Solvers and what they take (answers that nothing was given for have no column; a price may be a name of 'mlsysim "
        "prices'): "
        + "; ".join(f"{name}: {', '.join(s.arguments)} -> {', '.join(s.answers)}" for name, s in SOLVERS.items())
        + ". In train, dp takes the devices that the other degrees leave. CSV: a header, then a row per combination in the order "
        "given, the last number varying fastest, words and whole numbers slowest; SI units. JSON: solver, rows, left_out "
        "(combinations by the reason of their refusal), columns (a list for each). Combinations that a model or a machine does "
        "not allow are left out and counted on standard error.",
    )
    p.add_argument("solver", help=f"{', '.join(SOLVERS)}, or the label of an equation, as in eq-kv-cache")
    p.add_argument("values", nargs="+", metavar="NAME=VALUES", help="what to set, and what to vary")
    p.add_argument("--best", type=int, metavar="N", help="keep the N rows that are smallest in the column --by")
    p.add_argument("--by", metavar="COLUMN", help="as in time_s")
    p.add_argument("--fitting", action="store_true", help="keep only what fits into memory (train, serve)")
    p.add_argument("--json", action="store_true", help="print JSON instead of CSV")
    p.add_argument("-o", "--output", metavar="FILE", help="write there (default: standard output)")
    p.add_argument("--chunk", type=int, default=1 << 18, help="combinations at a time (default: 262144)")
    p.add_argument("--progress", action="store_true", help="show a progress bar on standard error (needs tqdm)")
    p.set_defaults(run=_sweep)
