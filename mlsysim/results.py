"""Results that show and explain themselves: the answer first, then every term with its equation, its numbers and its source."""

import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

from mlsysim import units
from mlsysim._numeric import Num, all_true, is_array
from mlsysim.equations import label_of, lookup, signature_of
from mlsysim.errors import InputError
from mlsysim.tables import Table, table

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

CALLER = "given by the caller"
TimedT = TypeVar("TimedT", bound="Timed")
_MOST_LISTED = 14
_ANSWERS = (
    "time",
    "predicted",
    "error",
    "errors",
    "verdict",
    "position",
)  # properties that a record is asked for first
MOST_LINES, MOST_CHARACTERS, _WIDEST = 20, 2000, 98  # what anything may print by itself


class Displayable:
    """Base of everything displayable: as text, HTML with a small chart, figure, dict or table."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__repr__" not in vars(cls):  # or the decorator for dataclasses would write one that lists the fields
            cls.__repr__ = _printed  # type: ignore[method-assign]

    def _lines(self) -> Sequence[str]:
        raise NotImplementedError

    def chart(self) -> "Drawing | None":
        """The picture of this result, if it has a shape."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, texts and lists for JSON; names carry SI units. What is not finite is None."""
        raise NotImplementedError

    def frame_rows(self) -> Sequence[Mapping[str, Any]]:
        """The rows of :meth:`to_frame`: one of all numbers, or one per element where the result is an array."""
        return unrolled(self.to_dict())

    def to_frame(self) -> Any:
        """A pandas DataFrame.

        Raises
        ------
        InputError
            pandas is not installed.
        """
        return _frame(self.frame_rows())

    def plot(self) -> Any:
        """The picture: a matplotlib figure where that is installed, else an SVG that shows in a notebook.

        Both can be kept with ``.savefig(path)``; without matplotlib the path ends in ``.svg``.

        Raises
        ------
        InputError
            This result is one number and has no shape.
        """
        chart = self.chart()
        if chart is None:
            raise InputError(f"plot: {type(self).__name__} has no shape to draw; print it, or call explain()")
        from mlsysim.drawing.style import plotted

        return plotted(chart)

    def __repr__(self) -> str:
        return fitted(self._lines())

    def __str__(self) -> str:
        return fitted(self._lines())

    def _repr_html_(self) -> str:
        first, *rest = fitted(self._lines()).split("\n")
        text = f"<p><strong>{escape(first)}</strong></p>" + (f"<pre>{escape(chr(10).join(rest))}</pre>" if rest else "")
        chart = self.chart()
        picture = "" if chart is None else chart.small.svg().replace(' width="600"', ' width="420"', 1)
        return f"<div>{text}{picture}</div>"


def _printed(self: Displayable) -> str:
    return fitted(self._lines())


class Result(Displayable):
    """What a solver returns, and a record of values: it shows itself, explains itself, draws itself and gives its numbers away.

    A subclass is a frozen dataclass. Without more it lists its fields. It says otherwise by a declaration, ``NUMBERS``, and by
    :meth:`summary`, :meth:`chart`, :meth:`explain` or :meth:`to_dict` of its own where it has a better answer.
    """

    # What to_dict() says: names in JSON, which end in a unit, and ``name=path`` where the attribute has another name.
    NUMBERS: ClassVar[str] = ""

    def _title(self) -> str:
        named = next(
            (getattr(self, n) for n in ("name", "id", "what", "workload", "class_name") if getattr(self, n, "")), ""
        )
        kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(self).__name__).lower()
        return f"{kind} {named}".strip() if isinstance(named, str) else kind

    def _listed(self) -> dict[str, Any]:
        """The fields, and before them what follows from them: the answers among the properties."""
        answers = {n: getattr(self, n) for n in _ANSWERS if isinstance(getattr(type(self), n, None), property)}
        return answers | {f.name: getattr(self, f.name) for f in fields(self) if not f.name.startswith("_")}  # type: ignore[arg-type]

    def _lines(self) -> Sequence[str]:
        return self.summary()

    def summary(self) -> Sequence[str]:
        """At most 20 lines: the answer, its range, what binds, which efficiencies, whether it fits; or a line per value."""
        known = {k: summarize(v) for k, v in self._listed().items()}
        rows = [(k.replace("_", " "), v) for k, v in known.items() if v and k not in ("name", "id")]
        left = len(rows) - _MOST_LISTED
        more = [("more", f"{left} others: explain()")] if left > 0 else []
        return format_rows(self._title(), *rows[:_MOST_LISTED], *more)

    def explain(self) -> Any:
        """Every term with its equation and every input with its source; of a record every value."""
        if hasattr(self, "terms") and hasattr(self, "inputs"):
            return Explanation(self.summary()[0], self.terms, self.inputs, getattr(self, "notes", ()))
        rows = [(k.replace("_", " "), summarize(v, 400)) for k, v in self._listed().items()]
        return Report(self._title(), (table(("Field", "Value"), rows),))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, texts and lists for JSON; names carry SI units. What is not finite is None."""
        if not self.NUMBERS:
            return dict(plain(self._listed()))
        named = (name.partition("=") for name in self.NUMBERS.split())
        return {name: plain(self._number(path or name)) for name, _, path in named}

    def _number(self, path: str) -> Any:
        found: Any = self
        for name in path.split("."):
            found = getattr(found, name if hasattr(found, name) else _UNIT.sub("", name))
        return found

    def frame_rows(self) -> list[dict[str, Any]]:
        """The rows of :meth:`to_frame`: one of all numbers, or one per element where a solver's result is an array."""
        listed = not self.NUMBERS and type(self).to_dict is Result.to_dict
        return [_flat(self.to_dict())] if listed else unrolled(self.to_dict())


# Ends of names in JSON that say the unit of a number.
_UNIT = re.compile(r"_(bytes_per_s|flop_per_byte|per_s|bytes|usd_per_s|usd|kg|s|w|j|l)$")


class Timed(Result):
    """Seconds by term: a dataclass of terms, and nothing else; ``time`` is their sum."""

    OF: ClassVar[str]  # whose terms: "one pass"

    @property
    def time(self) -> Num:
        return sum(vars(self).values())

    def scaled(self: "TimedT", factor: float) -> "TimedT":
        """Every term times a factor; itself where that is one."""
        return self if factor == 1.0 else type(self)(**{name: factor * value for name, value in vars(self).items()})

    def summary(self) -> list[str]:
        return format_rows(f"{self.OF}: {format_value(self.time, 's')}", ("terms", top_shares(vars(self), 14)))

    def chart(self) -> "Drawing | None":
        """The terms as bars."""
        from mlsysim.drawing import shapes

        return shapes.terms(self.OF, vars(self))

    def explain(self) -> "Report | Explanation":
        """Every term and its share; equations stand in ``explain()`` of the result that holds these terms."""
        rows = [(k.replace("_", " "), format_value(v, "s"), share(v / self.time)) for k, v in vars(self).items()]
        return Report(self.summary()[0], (table(("Term", "Time", "Share"), rows),))

    def to_dict(self) -> dict[str, Any]:
        """Seconds by term, and their sum."""
        return dict(plain({**vars(self), "time": self.time}))


def summarize(value: Any, most: int = 90) -> str:
    """Summarize a value in a few characters: numbers short, collections as their length, results by their first line.

    >>> summarize(3.14159), summarize(range(100)), summarize({"a": 1.0})
    ('3.142', '100 of them: 0, 1, 2, …', 'a 1')
    """
    if value is None:
        return ""
    if is_array(value):
        return format_value(value, "1") if value.dtype.kind in "iuf" else f"array {'x'.join(map(str, value.shape))}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return format_value(value, "1")
    if isinstance(value, Mapping) and not isinstance(value, Displayable):
        said = [f"{k} {summarize(v, 24)}" for k, v in list(value.items())[:6]]
        return _cut(", ".join(said) + (f" and {len(value) - 6} more" if len(value) > 6 else ""), most)
    if isinstance(value, Sequence) and not isinstance(value, str):
        first = ", ".join(summarize(v, 24) for v in value[:3])
        return _cut(f"{len(value)} of them: {first}, …" if len(value) > 3 else first, most)
    if is_dataclass(value) and not isinstance(value, type) and type(value).__str__ is object.__str__:
        given = {f.name: v for f in fields(value) if f.repr and _differs(v := getattr(value, f.name), f.default)}
        return summarize(given, most)
    return _cut(str(getattr(value, "words", None) or value).split("\n")[0], most)


def _differs(value: Any, default: Any) -> bool:
    return is_array(value) or bool(value != default)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def fitted(lines: Sequence[str]) -> str:
    """Join lines into a text of at most 20 lines and 2,000 characters; a last line counts those cut off."""
    lines = [line if len(line) <= _WIDEST else line[: _WIDEST - 1] + "…" for line in lines]
    if len(lines) > MOST_LINES:
        left = len(lines) - MOST_LINES + 1
        lines = [*lines[: MOST_LINES - 1], f"… and {left} more lines"]
    return "\n".join(lines)


def _frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    try:
        import pandas
    except ImportError:
        raise InputError("to_frame: pandas is not installed; install 'mlsysim-book[frames]'") from None
    return pandas.DataFrame(list(rows))


ANSWER_LINES = 15  # of an answer that nobody asked to explain


def format_rows(answer: str, *rows: tuple[str, str]) -> list[str]:
    """Format an answer and, below it, name and text per line; empty texts are left out, long ones wrap.

    >>> format_rows("1 s", ("binds", "memory"), ("range", ""))
    ['1 s', '  binds  memory']
    """
    said = [(name, text) for name, text in rows if text]
    width = max((len(name) for name, _ in said), default=0) + 2
    lines = _wrapped(answer, _WIDEST, subsequent_indent="  ")
    for name, text in said:
        first, *more = _wrapped(text, _WIDEST - width - 2)
        lines += [f"  {name:<{width}}{first}", *(" " * (width + 2) + line for line in more)]
    return lines


def brief(answer: str, *rows: tuple[str, str], spare: Sequence[str] = ()) -> list[str]:
    """As :func:`format_rows`; where that is too long the rows with spare names go, the last of them first.

    >>> len(brief("1 s", *[("row", "1")] * 14, ("note", "why"), spare=("note",)))
    15
    """
    lines = format_rows(answer, *rows)
    for n in range(1, len(spare) + 1):
        if len(lines) <= ANSWER_LINES:
            break
        lines = format_rows(answer, *(row for row in rows if row[0] not in spare[-n:]))
    return lines


def _wrapped(text: str, width: int, **more: str) -> list[str]:
    """Wrap lines without breaking between a number and its unit or at hyphens."""
    tied = re.sub(r"(\d) (?=\S)", "\\1\N{NO-BREAK SPACE}", text)
    lines = textwrap.wrap(tied, width, break_on_hyphens=False, **more)  # type: ignore[arg-type]
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def top_shares(parts: Mapping[str, Num], most: int = 4) -> str:
    """The largest parts of a sum with their shares; for arrays the range of each share.

    >>> top_shares({"a": 3.0, "b": 1.0, "c": 0.0})
    'a 75 %, b 25 %'
    """
    total = sum(parts.values())
    if not all_true(total > 0):
        return ""
    shares = {name.replace("_", " "): value / total for name, value in parts.items() if not all_true(value == 0)}
    first = sorted(shares, key=lambda name: -float(shares[name].mean() if is_array(shares[name]) else shares[name]))
    said = [f"{name} {share(shares[name])}" for name in first[:most]]
    left = len(first) - len(said)
    return ", ".join(said) + (f" and {left} smaller" if left else "")


def fit_note(fits: Any) -> str:
    """The note in a result's first line when it does not fit; empty when it does, and for arrays.

    >>> fit_note(False)
    ', BUT IT DOES NOT FIT'
    """
    return "" if is_array(fits) or fits else ", BUT IT DOES NOT FIT"


def share(value: Num) -> str:
    """A share in per cent; of an array its range.

    >>> share(0.123)
    '12.3 %'
    """
    if is_array(value):
        low, high = share(value.min()), share(value.max())
        return low if low == high else f"{low} to {high}"
    return f"{100 * float(value):.3g} %"


def format_value(value: Num, unit: str, digits: int = 4) -> str:
    """Format a number with its unit for a summary; an array as its range and shape, infinity in words.

    >>> format_value(0.0123, "s"), format_value(math.inf, "s")
    ('12.3 ms', 'without limit')
    """
    if is_array(value):
        low, high = format_value(value.min(), unit, digits), format_value(value.max(), unit, digits)
        number, _, same = low.partition(" ")
        low = number if same and high.endswith(f" {same}") else low
        return f"{low} to {high} (array {'x'.join(map(str, value.shape))})" if value.min() != value.max() else high
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "without limit" if value > 0 else "below any limit"
    if unit == "s" and 0 < abs(value) < 1e-10:
        return "about 0 s"
    if unit == "1" and value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return units.format(value, unit, digits)


def plain(value: Any) -> Any:
    """A value as JSON can hold it: arrays as lists, mappings and sequences inside likewise, what is not finite as None.

    >>> plain({"time_s": math.inf, "shape": (1, 2)})
    {'time_s': None, 'shape': [1, 2]}
    """
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value) if not f.name.startswith("_")}
    if isinstance(value, (Sequence, set, frozenset)):
        return [plain(inner) for inner in value]
    return str(value)


def unrolled(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Nested fields as flat rows: names joined with dots; lists of one length (an array's elements) one row each.

    The two ends of a range are two columns.

    >>> unrolled({"a": {"b": 1}, "c": [2, 3]})
    [{'a.b': 1, 'c': 2}, {'a.b': 1, 'c': 3}]
    >>> unrolled({"time_s": 2.0, "interval_s": [1.0, 3.0]})
    [{'time_s': 2.0, 'interval_s.low': 1.0, 'interval_s.high': 3.0}]
    """
    flat = _flat(fields)
    lists = {name: value for name, value in flat.items() if isinstance(value, list)}
    lengths = {len(value) for value in lists.values()}
    if len(lengths) != 1 or any(isinstance(inner, (list, dict)) for value in lists.values() for inner in value):
        return [flat]
    return [{name: value[i] if name in lists else value for name, value in flat.items()} for i in range(lengths.pop())]


def _flat(fields: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in fields.items():
        if name.endswith("interval_s") and isinstance(value, list):
            value = dict(zip(("low", "high"), value, strict=True))
        flat |= {f"{name}.{n}": v for n, v in _flat(value).items()} if isinstance(value, Mapping) else {name: value}
    return flat


@dataclass(frozen=True)
class Input:
    """An input with its source."""

    name: str
    value: Num
    unit: str
    origin: str = CALLER


@dataclass(frozen=True)
class Term:
    """A number that came out: the equation or the arithmetic that made it, and the values that stood in it."""

    name: str
    value: Any  # a number, an array, or a tuple of numbers
    label: str  # of the equation; empty for plain arithmetic
    arguments: Mapping[str, Any]
    binding: Any = False  # True when this term decides the answer; an array of truths for an array
    of: Mapping[str, str] = field(default_factory=dict)  # argument -> the line that it comes from, where it has one
    arithmetic: str = ""  # without an equation: the formula over the names of the arguments
    units: Mapping[str, str] = field(default_factory=dict)  # and their units, with that of the value under ""

    @property
    def unit(self) -> str:
        return lookup(self.label).result if self.label else self.units.get("", "1")

    @property
    def formula(self) -> str:
        return lookup(self.label).formula if self.label else self.arithmetic

    def substituted(self) -> str:
        """The formula with the numbers in it."""
        left_out, units_of = {}, self.units
        if self.label:
            found = lookup(self.label)
            parameters = signature_of(found.function).parameters.items()
            left_out, units_of = {n: p.default for n, p in parameters if p.default is not p.empty}, found.units
        arguments = {n: quantity(v, units_of.get(n, "1")) for n, v in (left_out | dict(self.arguments)).items()}
        names = "|".join(sorted(arguments, key=len, reverse=True))
        if not names:
            return self.formula
        powers = re.sub(
            rf"\b({names})(?= ?\*\*)", lambda m: f"({m[1]})" if " " in arguments[m[1]] else m[1], self.formula
        )
        return re.sub(rf"\b({names})\b", lambda m: arguments[m[1]], powers)


class Terms(list[Term]):
    """The terms of an explanation, written down as their equations are asked.

    >>> from mlsysim.roofline import ridge_point
    >>> terms = Terms()
    >>> terms("ridge", ridge_point, peak_flops=300e12, memory_bandwidth=2e12), terms[0].label
    (150.0, 'eq-ridge-point')
    """

    def __call__(self, name: str, function: Callable[..., Any], binding: Any = False, **arguments: Any) -> Any:
        value = function(**arguments)
        self.append(Term(name, value, label_of(function), arguments, binding))
        return value


def quantity(value: Any, unit: str) -> str:
    """A number of an explanation with its unit; of several the range. What is below every clock and every count is zero.

    >>> quantity(2.9e-14, "s"), quantity(2.784e-13, "1"), quantity((0.001, 0.002), "s")
    ('0 s', '0', '1 … 2 ms')
    """
    if isinstance(value, tuple):
        low, high = quantity(min(value), unit), quantity(max(value), unit)
        number, _, same = low.partition(" ")
        return f"{number if same and high.endswith(f' {same}') else low} … {high}"
    if not is_array(value) and abs(value) < _NOTHING.get(unit, 0.0):
        value = 0.0
    return units.format(value, unit)


_NOTHING = {"s": 1e-10, "1": 1e-12}


class Later(Sequence[str]):
    """Lazy sentences: built when read, so that asking for the terms alone does not wait.

    >>> said = Later(lambda: ("one", "two"))
    >>> list(said), len(said), said == ("one", "two")
    (['one', 'two'], 2, True)
    """

    def __init__(self, make: Callable[[], Sequence[str]]) -> None:
        self._make = make
        self._made: tuple[str, ...] | None = None

    @property
    def _all(self) -> tuple[str, ...]:
        if self._made is None:
            self._made = tuple(self._make())
        return self._made

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        return self._all[at]

    def __len__(self) -> int:
        return len(self._all)

    def __eq__(self, other: object) -> bool:
        return self._all == tuple(other) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._all)

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self._all,)

    def __repr__(self) -> str:
        return repr(self._all)


@dataclass(frozen=True, repr=False)
class Explanation:
    """What ``result.explain()`` returns: prints as text, shows as a table in a notebook."""

    title: str
    terms: Sequence[Term]
    inputs: Sequence[Input]
    notes: Sequence[str] = ()

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """Term, value, formula with numbers, equation label, and whether it binds."""
        return [(t.name, quantity(t.value, t.unit), t.substituted(), t.label, _binds(t.binding)) for t in self.terms]

    def __str__(self) -> str:
        lines, rows = [self.title], self.rows()
        if any(t.of for t in self.terms):  # a chain: its lines find each other by name, and one of them leads
            for name, value, numbers, label, binds in rows:
                source = f"  [@{label}]" * bool(label) + f"  {binds}" * bool(binds)
                lines.append(f"  {name:<34} {value:>13} = {numbers}{source}")
        else:
            for name, value, numbers, label, binds in rows:
                lines.append(f"  {name:<20} {value:>16}  {binds:<7} = {numbers}" + f"  [@{label}]" * bool(label))
        width = 34 if any(t.of for t in self.terms) else 18
        lines.append("  inputs")
        lines += [f"    {i.name:<{width}} {quantity(i.value, i.unit):>16}  {i.origin}" for i in self.inputs]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def __repr__(self) -> str:
        return _begun(str(self))

    def to_dict(self) -> dict[str, Any]:
        """Every term with its equation, unit and arguments (``from``: the line of each), every input with its origin, for JSON."""
        terms = [
            {
                "name": t.name,
                "value": t.value,
                "unit": t.unit,
                "equation": t.label,
                "binds": t.binding,
                "formula": t.formula,
                "arguments": {name: {"value": v, "from": t.of.get(name)} for name, v in t.arguments.items()},
            }
            for t in self.terms
        ]
        inputs = [{"name": i.name, "value": i.value, "unit": i.unit, "origin": i.origin} for i in self.inputs]
        found: dict[str, Any] = plain({"title": self.title, "terms": terms, "inputs": inputs, "notes": self.notes})
        return found

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row per term."""
        return _frame(self.to_dict()["terms"])

    def _repr_html_(self) -> str:
        terms = table(("Term", "Value", "With the numbers in it", "Equation", "Binds"), self.rows())
        inputs = [(i.name, quantity(i.value, i.unit), i.origin) for i in self.inputs]
        given = table(("Input", "Value", "Where from"), inputs)
        notes = "".join(f"<p>{escape(n)}</p>" for n in self.notes)
        return f"<p><strong>{escape(self.title)}</strong></p>{terms._repr_html_()}{given._repr_html_()}{notes}"


@dataclass(frozen=True, repr=False)
class Report:
    """What ``explain()`` returns for more than equations: tables and notes.

    Prints as text, shows as tables in a notebook.
    """

    title: str
    tables: Sequence[Table]
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        blocks = ["\n".join(f"  {line}" for line in str(t).splitlines()) for t in self.tables]
        return "\n".join([self.title, "\n\n".join(blocks), *(f"  {note}" for note in self.notes)])

    def __repr__(self) -> str:
        return _begun(str(self))

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{escape(n)}</p>" for n in self.notes)
        return f"<p><strong>{escape(self.title)}</strong></p>" + "".join(t._repr_html_() for t in self.tables) + notes

    def to_dict(self) -> dict[str, Any]:
        """Title, tables as lists of rows by heading, and notes, for JSON."""
        rows = [[dict(zip(t.head, map(str, row), strict=True)) for row in t.rows] for t in self.tables]
        return {"title": self.title, "tables": rows, "notes": list(self.notes)}

    def to_frame(self) -> Any:
        """A pandas DataFrame of the first table."""
        return _frame(self.to_dict()["tables"][0])


def _begun(text: str) -> str:
    """A long explanation by its first lines: what asks for its repr sees that there is more, ``print`` shows it all."""
    lines = text.split("\n")
    if len(lines) <= MOST_LINES and len(text) <= MOST_CHARACTERS:
        return text
    kept = fitted(lines[: MOST_LINES - 1]).split("\n")
    return "\n".join([*kept, f"… and {len(lines) - len(kept)} more lines: print(...) shows them all"])


def _binds(binding: Any) -> str:
    if is_array(binding):
        return "binds" if all_true(binding) else f"binds in {int(binding.sum())} of {binding.size}"
    return "binds" if binding else ""
