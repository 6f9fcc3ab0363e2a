"""Results that show and explain themselves: the answer first, then every term with its equation, its numbers and its source."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from mlsysim import units
from mlsysim._numeric import Num, all_true, is_array
from mlsysim.equations import lookup
from mlsysim.errors import InputError
from mlsysim.tables import table

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

CALLER = "given by the caller"
MOST_LINES, MOST_CHARACTERS, _WIDEST = 20, 2000, 98  # what a result may print by itself


class Result:
    """What a solver returns: it shows itself, explains itself, draws itself and gives its numbers away.

    A subclass is a frozen dataclass made with ``repr=False`` that writes :meth:`summary` and :meth:`to_dict`, and :meth:`chart`
    where it has a shape. ``explain()`` is its own. Everything else comes from these.
    """

    def summary(self) -> Sequence[str]:
        """At most 20 lines: the answer, its range, what binds, which efficiencies, whether it fits."""
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
        try:
            import pandas
        except ImportError:
            raise InputError("to_frame: pandas is not installed; install 'mlsysim-book[frames]'") from None
        return pandas.DataFrame(list(self.frame_rows()))

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
        return fitted(self.summary())

    __str__ = __repr__

    def _repr_html_(self) -> str:
        first, *rest = fitted(self.summary()).split("\n")
        text = f"<p><strong>{escape(first)}</strong></p>" + (f"<pre>{escape(chr(10).join(rest))}</pre>" if rest else "")
        chart = self.chart()
        picture = "" if chart is None else chart.svg().replace(' width="600"', ' width="420"', 1)
        return f"<div>{text}{picture}</div>"


def fitted(lines: Sequence[str]) -> str:
    """Lines as one text of at most 20 lines and 2,000 characters; what is cut off is said."""
    lines = [line if len(line) <= _WIDEST else line[: _WIDEST - 1] + "…" for line in lines]
    if len(lines) > MOST_LINES:
        left = len(lines) - MOST_LINES + 1
        lines = [*lines[: MOST_LINES - 1], f"… and {left} more lines"]
    return "\n".join(lines)


def shown(value: Num, unit: str, digits: int = 3) -> str:
    """A number for a summary: with its unit; an array as its range and shape; what has no end as such.

    >>> shown(0.0123, "s"), shown(math.inf, "s")
    ('12.3 ms', 'without limit')
    """
    if is_array(value):
        low, high = shown(value.min(), unit, digits), shown(value.max(), unit, digits)
        return f"{low} to {high} (array {'x'.join(map(str, value.shape))})" if low != high else f"{low} (array)"
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "without limit" if value > 0 else "below any limit"
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
    if isinstance(value, (Sequence, set, frozenset)):
        return [plain(inner) for inner in value]
    return str(value)


def unrolled(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Nested fields as flat rows: names joined with dots; lists of one length (an array's elements) one row each.

    >>> unrolled({"a": {"b": 1}, "c": [2, 3]})
    [{'a.b': 1, 'c': 2}, {'a.b': 1, 'c': 3}]
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
        flat |= {f"{name}.{n}": v for n, v in _flat(value).items()} if isinstance(value, Mapping) else {name: value}
    return flat


@dataclass(frozen=True)
class Input:
    """A number that went in, and who says so."""

    name: str
    value: Num
    unit: str
    origin: str = CALLER


@dataclass(frozen=True)
class Term:
    """A number that came out: the equation that made it, and the values that stood in it."""

    name: str
    value: Num
    label: str
    arguments: Mapping[str, Num]
    binding: Any = False  # True when this term decides the answer; an array of truths for an array

    @property
    def unit(self) -> str:
        return lookup(self.label).result

    @property
    def formula(self) -> str:
        return lookup(self.label).formula

    def substituted(self) -> str:
        """The formula with the numbers in it."""
        arguments = {n: units.format(v, lookup(self.label).units[n]) for n, v in self.arguments.items()}
        names = "|".join(sorted(arguments, key=len, reverse=True))
        return re.sub(rf"\b({names})\b", lambda m: arguments[m[1]], self.formula) if names else self.formula


@dataclass(frozen=True, repr=False)
class Explanation:
    """What ``result.explain()`` returns: prints as text, shows as a table in a notebook."""

    title: str
    terms: Sequence[Term]
    inputs: Sequence[Input]
    notes: Sequence[str] = ()

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """Term, value, formula with numbers, equation label, and whether it binds."""
        return [
            (t.name, units.format(t.value, t.unit), t.substituted(), t.label, _binds(t.binding)) for t in self.terms
        ]

    def __str__(self) -> str:
        lines = [self.title]
        for name, value, numbers, label, binds in self.rows():
            lines.append(f"  {name:<20} {value:>16}  {binds:<7} = {numbers}  [@{label}]")
        lines.append("  inputs")
        lines += [f"    {i.name:<18} {units.format(i.value, i.unit):>16}  {i.origin}" for i in self.inputs]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        terms = table(("Term", "Value", "With the numbers in it", "Equation", "Binds"), self.rows())
        inputs = [(i.name, units.format(i.value, i.unit), i.origin) for i in self.inputs]
        given = table(("Input", "Value", "Where from"), inputs)
        notes = "".join(f"<p>{escape(n)}</p>" for n in self.notes)
        return f"<p><strong>{escape(self.title)}</strong></p>{terms._repr_html_()}{given._repr_html_()}{notes}"


def _binds(binding: Any) -> str:
    if is_array(binding):
        return "binds" if all_true(binding) else f"binds in {int(binding.sum())} of {binding.size}"
    return "binds" if binding else ""
