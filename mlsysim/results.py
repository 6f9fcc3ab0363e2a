"""Results that explain themselves: every term with its equation, its numbers, its unit and where they came from."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from mlsysim import units
from mlsysim._numeric import Num, all_true, is_array
from mlsysim.equations import lookup
from mlsysim.tables import table

CALLER = "given by the caller"


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
