"""What an exercise is, and how its numbers follow from a seed."""

import hashlib
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType
from typing import Any

from mlsysim import units
from mlsysim.errors import InputError, unknown_name
from mlsysim.tables import Table, table

Answer = Any  # a float, a word, a function, or plain data: by the question's form
_MAX_SEED = 200
KINDS = ("compute", "build", "measure", "plot", "design", "find-error")


@dataclass(frozen=True)
class Given:
    """One number or name of a prompt: SI value, unit ("" for a name), and what it means."""

    value: Any
    unit: str
    meaning: str

    def __str__(self) -> str:
        if self.unit == "":
            return str(self.value)
        if self.unit == "%":  # a share: the value is the fraction, the prompt says per cent
            return f"{100 * self.value:.6g} %"
        if self.unit == "1":
            return _count(self.value)
        return _in_words(self.value, self.unit)


def _count(value: float) -> str:
    """A count as people say it: 1.6e7 are 16 million."""
    if 1e6 <= value < 1e8:
        return f"{value / 1e6:.10g} million"
    if value >= 1e12:
        return f"{value / 1e12:g} trillion"
    return f"{value / 1e9:g} billion" if value >= 1e8 else f"{value:.10g}"


_PER = {"token/s": "tokens per second", "1/s": "per second"}


def _in_words(value: float, unit: str) -> str:
    """A quantity with its unit as people say it.

    >>> _in_words(10800, "s"), _in_words(2048, "byte"), _in_words(2**25, "byte")
    ('3 hours', '2,048 bytes', '32 MiB')
    >>> _in_words(1200.0, "token/s"), _in_words(2.0, "byte"), _in_words(2.5 / 3600, "USD/s"), _in_words(40.0, "FLOP/byte")
    ('1,200 tokens per second', '2 bytes', '$2.50 per hour', '40 FLOP per byte')
    """
    if unit in _PER:
        return f"{value:,.10g} {_PER[unit]}"
    if unit == "byte" and abs(value) < 1000:
        return f"{value:g} byte{'s' * (value != 1)}"
    if unit == "byte" and value % 2**20 == 0 and value < 2**30 and value % 1e6:
        return f"{value / 2**20:g} MiB"
    if unit == "byte" and value == int(value) and float(f"{value:.{3 if abs(value) < 1e6 else 4}g}") != value < 1e9:
        return f"{value:,.0f} bytes"  # rounded it would be another number, and 2.048 kB are 2,048 bytes to most
    if unit == "s" and 3600 <= value < 1e6 and value % 360 == 0 and (value % 86400 or value == 86400):
        return f"{value / 3600:g} hour{'s' * (value != 3600)}"
    if unit == "USD" or unit.startswith("USD/"):
        number, _, per = units.format(value, unit).partition(" ")
        cents = float(number)
        written = f"${cents:,.2f}" if cents != int(cents) and round(cents, 2) == cents else f"${cents:,.10g}"
        return written + {"USD": "", "USD/h": " per hour", "USD/W": " per watt"}.get(
            per, f" per {per.partition('/')[2]}"
        )
    return (
        units.format(value, unit)
        .replace("/kWh", " per kWh")
        .replace("FLOP/byte", "FLOP per byte")
        .replace("/token", " per token")
    )


@dataclass(frozen=True)
class Options:
    """The values that one input may take; the first stands in the public demo."""

    values: tuple[Any, ...]
    unit: str
    meaning: str


@dataclass(frozen=True, repr=False)
class Inputs(Mapping[str, Any]):
    """The numbers of one reader's exercise: a mapping of SI values that prints with units."""

    exercise: str
    given: Mapping[str, Given]

    def __getitem__(self, name: str) -> Any:
        if name not in self.given:
            raise unknown_name(f"input of {self.exercise}", name, self.given)
        return self.given[name].value

    def __iter__(self) -> Iterator[str]:
        return iter(self.given)

    def __len__(self) -> int:
        return len(self.given)

    def texts(self) -> dict[str, str]:
        """Every input as it stands in the prompt."""
        return {name: str(g) for name, g in self.given.items()}

    def table(self) -> Table:
        """Name, value with unit, and meaning."""
        return table(("input", "value", "meaning"), [(n, str(g), g.meaning) for n, g in self.given.items()])

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


class Prompt(str):
    """A prompt or a hint: text everywhere, rendered Markdown in a notebook."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_markdown_(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Mistake:
    """A classic wrong answer. Slips that no answer can tell apart share one hint and are its several ``ways``."""

    name: str
    hint: str
    ways: tuple[Callable[[Inputs], Answer], ...]


@dataclass(frozen=True)
class Exercise:
    """A question whose numbers depend on a seed and whose answer the library computes.

    ``solution`` is the code a reader might write: it may use ``inputs``, ``SEED``, ``catalog``, ``roofline`` and
    ``units``, and its last line assigns ``answer``. That is a number, a word, a function that is tried on ``cases``, or plain
    data that ``judge`` looks at.
    """

    id: str
    slug: str
    title: str
    objective: str
    points: int
    prompt: str
    unit: str
    options: Mapping[str, Options]
    solve: Callable[[Inputs], Answer]
    mistakes: tuple[Mistake, ...]
    nudge: str
    solution: str
    tolerance: float = 0.01
    answers: tuple[str, ...] = ()  # the words to choose from; empty for a number
    whole: bool = False  # the answer is a count, and no other number is near enough
    code: str = ""  # the solution without the line that draws the inputs
    searches: bool = False  # a solution that takes long: it is not run again to find a slip
    kind: str = "compute"  # one of KINDS
    difficulty: int = 1  # 1 to 3
    minutes: int = 5
    ask: str = ""  # a question back, which is the first hint
    cases: str = ""  # Python that gives the arguments a function is tried with; empty for other forms
    judge: str = ""  # Python that looks at plain data: sets share and why
    starter: str = ""  # what stands in a student's cell
    rubric: tuple[str, ...] = ()  # what a person looks for in the reason
    derive: Callable[[Mapping[str, Any]], Mapping[str, Given | None]] = field(default=lambda chosen: {})  # None hides

    @property
    def form(self) -> str:
        """What an answer is: number, word, function or data."""
        return "function" if self.cases else "data" if self.judge else "word" if self.answers else "number"

    def draw(self, seed: object = "") -> Inputs:
        """The inputs of a seed; the empty seed is the public demo."""
        text = normalise_seed(seed)
        return self._inputs(
            {
                name: o.values[_index(f"{self.id}|{text}|{name}", len(o.values)) if text else 0]
                for name, o in self.options.items()
            }
        )

    def every_draw(self) -> Iterator[Inputs]:
        """All inputs that any seed can get, for tests."""
        for values in product(*(o.values for o in self.options.values())):
            yield self._inputs(dict(zip(self.options, values, strict=True)))

    def _inputs(self, chosen: dict[str, Any]) -> Inputs:
        given = {
            name: Given(value, self.options[name].unit, self.options[name].meaning) for name, value in chosen.items()
        }
        derived = self.derive(chosen)
        shown = {name: g for name, g in {**given, **derived}.items() if g is not None}
        return Inputs(self.id, MappingProxyType(shown))

    def question(self, g: Inputs) -> Prompt:
        """The prompt with the numbers in."""
        return Prompt(
            f"**{self.id} {self.title}** ({self.points} point{'s' * (self.points > 1)}). "
            f"{self.prompt.format_map(g.texts())}"
        )


def normalise_seed(seed: object) -> str:
    """A seed as compared: trimmed, case-folded text; None is the public demo.

    >>> normalise_seed("  Ada ")
    'ada'
    """
    if seed is None:
        return ""
    if not isinstance(seed, (str, int)) or isinstance(seed, bool) or len(text := str(seed)) > _MAX_SEED:
        raise InputError(f"seed = {str(seed)[:40]!r} is not a short text; give your student id, as in seed='ada'")
    return unicodedata.normalize("NFKC", text).strip().casefold()


def _index(text: str, n: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8], "big") % n
