"""The chain from a number to its sources: the lines of an explanation, read off numbers that know how they came about.

A solver that is asked with traced numbers (``mlsysim._numeric.traced``) returns a number that holds every equation and every
operation behind it. :func:`chain` writes them down, a line per equation, each argument with the line that it comes from.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from mlsysim import units
from mlsysim._numeric.traced import Made, given, plain
from mlsysim.equations import lookup
from mlsysim.results import CALLER, Explanation, Input, Term

T = TypeVar("T")
_LEAST = 3  # operations that are written down once when two lines need them
_BINDS = {"+": 1, "-": 1, "neg": 2, "*": 2, "/": 2, "//": 2, "%": 2, "**": 3}  # how closely a sign holds its operands


def traced(
    record: T, origins: Mapping[str, str] | str, units_of: Mapping[str, str] | None = None, name: str = "{}"
) -> T:
    """A record whose numbers are traced, each by its field's name, with its unit and where it comes from.

    >>> from mlsysim.results import Input
    >>> traced(Input("rate", 2.0, "1/s"), "the question").value.origin
    'the question'
    """

    def one(field: str) -> Any:
        origin = origins if isinstance(origins, str) else origins.get(field, CALLER)
        called = name.format(field.replace("_", " "))
        return given(getattr(record, field), called, (units_of or {}).get(field, "1"), origin)

    return replace(record, **{f.name: one(f.name) for f in fields(record)})  # type: ignore[type-var, arg-type]


def chain(title: str, root: Any, notes: Sequence[str] = (), binding: str = "") -> Explanation:
    """The explanation of a traced number: its own line first, below it those that it needs, last the numbers given.

    >>> from mlsysim.roofline import compute_time
    >>> work = 2.0 * given(1e12, "parameters", "1", "a paper")
    >>> found = chain("one pass", compute_time(work, given(1e15, "peak", "FLOP/s", "a datasheet")).called("pass"))
    >>> [(t.name, t.label or t.formula) for t in found.terms], [(i.name, i.origin) for i in found.inputs]
    ([('pass', 'eq-compute-time'), ('pass: flops', '2 * parameters')], [('parameters', 'a paper'), ('peak', 'a datasheet')])
    """
    found = _Lines(root)
    terms = [replace(t, binding=bool(binding) and t.name == binding) for t in found.terms]
    return Explanation(title, terms, found.inputs, notes)


class _Lines:
    """The lines behind a traced number."""

    def __init__(self, root: Any) -> None:
        self.names: dict[int, str] = {}
        self.units: dict[int, str] = {}
        self.kept: list[Any] = []  # as long as their identities are names
        self.terms: list[Term] = []
        self.inputs: list[Input] = []
        root = _merged(root)
        self._shared = _shared(root)
        self._add(root, "", "")

    def _add(self, root: Any, prefix: str, argument: str) -> None:
        """The line of a number and, after it, those of what it needs; on a stack, since sums may be long."""
        waiting = [(root, prefix, argument, "")]
        later: list[Any] = []
        while waiting or later:
            if not waiting:
                waiting, later = [later[0]], later[1:]
            node, prefix, argument, unit = waiting.pop()
            if node.apart and waiting:
                later.append((node, prefix, argument, unit))
                continue
            if id(node) in self.names:
                continue
            own = node.name or f"{prefix}: {argument}" if prefix or node.name else argument
            name, count = own, 2
            while name in self.names.values():
                name, count = f"{own} {count}", count + 1
            self.kept.append(node)
            self.names[id(node)] = name
            self.units[id(node)] = unit or _unit(node, self.units)
            if not node.op:
                self.inputs.append(Input(name, plain(node), self.units[id(node)], node.origin))
                continue
            self.terms.append((node, name))  # type: ignore[arg-type]  # until the names of what it needs are known
            above = node.name or prefix
            waiting += [(n, above, a, u) for n, a, u in reversed(list(self._needed(node)))]
        self.terms = [t if isinstance(t, Term) else self._term(*t) for t in self.terms]

    def _needed(self, node: Any) -> Iterator[tuple[Any, str, str]]:
        """What stands behind a line: the number, what to call it unless it has a name, and its unit."""
        if node.op.startswith("eq-"):
            equation = lookup(node.op)
            for name, value in node.of.items():
                if isinstance(value, Made):
                    inner = value.op.startswith("eq-")
                    words = lookup(value.op).name if inner else name
                    yield value, words.replace("_", " "), equation.units[name]
            return
        for value in _operands(node, self._shared):
            words = lookup(value.op).name if value.op.startswith("eq-") else "part"
            yield value, words.replace("_", " "), ""

    def _term(self, node: Any, name: str) -> Term:
        if node.op.startswith("eq-"):
            of = {a: self.names[id(v)] for a, v in node.of.items() if isinstance(v, Made)}
            return Term(name, plain(node), node.op, {a: plain(v) for a, v in node.of.items()}, of=of)
        known: dict[int, str] = {}
        for value in _operands(node, self._shared):
            short = re.sub(r"\W+", "_", self.names[id(value)].split(": ")[-1]).strip("_") or "part"
            short = short if short[0].isalpha() else f"n_{short}"
            unique, count = short, 2
            while unique in known.values():
                unique, count = f"{short}_{count}", count + 1
            known.setdefault(id(value), unique)
        values = {id(v): v for v in _operands(node, self._shared)}
        return Term(
            name,
            plain(node),
            "",
            {known[k]: plain(v) for k, v in values.items()},
            of={known[k]: self.names[k] for k in values},
            arithmetic=_written(node, known, top=True),
            units={"": self.units[id(node)]} | {known[k]: self.units[k] for k in values},
        )


def _merged(root: Any) -> Any:
    """The same number, in which equal steps from equal numbers are one: what two parts asked for stands there once."""
    same: dict[int, Any] = {}
    known: dict[Any, Any] = {}
    waiting = [(root, False)]
    while waiting:
        node, ready = waiting.pop()
        inner = [v for v in node.of.values() if isinstance(v, Made)]
        if not ready:
            waiting += [(node, True), *((v, False) for v in inner if id(v) not in same)]
            continue
        node.of = {k: same[id(v)] if isinstance(v, Made) else v for k, v in node.of.items()}
        parts = tuple((k, id(v) if isinstance(v, Made) else v) for k, v in node.of.items())
        key = (node.op, parts, plain(node)) + (() if node.op else (node.name, node.origin))
        same[id(node)] = known.setdefault(key, node)
        known[key].called(node.name, node.apart)
    return same[id(root)]


def _shared(root: Any) -> set[int]:
    """Arithmetic that several lines need, and what has a name: each gets a line of its own."""
    asked: dict[int, int] = {}
    size: dict[int, int] = {}  # operations down to the next line
    named = set()
    waiting = [(root, False)]
    while waiting:
        node, ready = waiting.pop()
        inner = [v for v in node.of.values() if isinstance(v, Made)]
        if ready:
            size[id(node)] = 0 if not node.op or node.op.startswith("eq-") else 1 + sum(size[id(v)] for v in inner)
        elif id(node) not in size:
            size[id(node)] = 0
            waiting += [(node, True), *((v, False) for v in inner)]
            for value in inner:
                asked[id(value)] = asked.get(id(value), 0) + 1
            if node.name:
                named.add(id(node))
    return named | {k for k, times in asked.items() if times > 1 and size[k] >= _LEAST}


def _is_line(node: Any, shared: set[int]) -> bool:
    return not node.op or node.op.startswith("eq-") or id(node) in shared


def _operands(node: Any, shared: set[int]) -> list[Any]:
    """The lines that the arithmetic of a line names, in the order in which it does."""
    found: list[Any] = []
    waiting = [v for v in node.of.values() if isinstance(v, Made)][::-1]
    while waiting:
        value = waiting.pop()
        if _is_line(value, shared):
            found += [value] if all(value is not one for one in found) else []
        else:
            waiting += [v for v in value.of.values() if isinstance(v, Made)][::-1]
    return found


def _written(node: Any, known: Mapping[int, str], top: bool = False) -> str:
    """Arithmetic as Python writes it, over the names of the lines in it."""
    if not isinstance(node, Made):
        return f"{int(node)}" if node == int(node) else repr(node)
    if not top and id(node) in known:
        return known[id(node)]
    if node.op not in _BINDS:
        return f"{node.op}({', '.join(_written(v, known) for v in node.of.values())})"
    binds = _BINDS[node.op]

    def side(value: Any, least: int) -> str:
        text = _written(value, known)
        bare = not isinstance(value, Made) or id(value) in known or _BINDS.get(value.op, 4) >= least
        return text if bare and not (text.startswith("-") and least > _BINDS["neg"]) else f"({text})"

    if node.op == "neg":
        return f"-{side(node.of['x'], binds + 1)}"
    left, right = side(node.of["x"], binds + (node.op == "**")), side(node.of["y"], binds + (node.op not in "+*"))
    return f"{left} {node.op} {right}"


def _unit(node: Any, known: Mapping[int, str]) -> str:
    """The unit of a number: as given, as of its equation, or by the rules of arithmetic."""
    if not isinstance(node, Made):
        return "1"
    if id(node) in known:
        return known[id(node)]
    if node.unit or not node.op:
        return node.unit
    if node.op.startswith("eq-"):
        return lookup(node.op).result
    sides = [_unit(v, known) for v in node.of.values()]
    if node.op not in ("*", "/"):
        return next((unit for unit in sides if unit != "1"), "1") if node.op != "**" else "1"
    powers: dict[str, int] = {}
    for unit, sign in zip(sides, (1, 1 if node.op == "*" else -1), strict=True):
        for base, power in units.unit(unit).dimension if unit != "1" else ():
            powers[base] = powers.get(base, 0) + sign * power
    above = [base for base, power in powers.items() for _ in range(power)]
    below = [base for base, power in powers.items() for _ in range(-power)]
    return "/".join(["*".join(above) or "1", *below])
