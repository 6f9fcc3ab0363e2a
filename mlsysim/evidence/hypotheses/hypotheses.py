"""Hypotheses as objects: a claim, what is compared, and a rule that code evaluates. No verdict is typed anywhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from mlsysim.catalog.sourced import shipped_toml
from mlsysim.errors import InputError, named, unknown_name
from mlsysim.results import Result
from mlsysim.serving_steps.step_options import StepOptions

SENSES = (">=", "<=", ">")
ROLES = ("effect", "mechanism")  # what must come out, and what would show why


@dataclass(frozen=True)
class Criterion:
    """One acceptance criterion: a number, and the bound that it must keep. Shares and points are fractions."""

    number: str
    says: str
    sense: str
    bound: float
    role: str = "effect"

    def holds(self, value: float) -> bool:
        """Whether a value keeps the bound."""
        if self.sense == ">":
            return value > self.bound
        return value >= self.bound if self.sense == ">=" else value <= self.bound


@dataclass(frozen=True)
class Hypothesis(Result):
    """A claim about what a model gets wrong, and what would show it."""

    id: str
    title: str
    claim: str
    baseline: Mapping[str, str]  # rungs of each side that differ from the ladder's baseline
    treatment: Mapping[str, str]
    data: str
    metric: str
    accept: tuple[Criterion, ...]
    source: str
    where: str
    theirs: str  # the verdict that the authors, or those who ran it first, printed


@dataclass(frozen=True)
class Judged(Result):
    """One criterion with its values, one per seed or split where there is chance; met is None when they disagree."""

    criterion: Criterion
    values: tuple[float, ...]
    met: bool | None


@dataclass(frozen=True)
class Verdict(Result):
    """What a rule makes of numbers."""

    hypothesis: Hypothesis
    outcome: str
    parts: tuple[Judged, ...]

    @property
    def missed(self) -> tuple[str, ...]:
        """What was not met, in words."""
        return tuple(p.criterion.says for p in self.parts if not p.met)


def judge(hypothesis: Hypothesis, numbers: Mapping[str, float | Sequence[float] | None]) -> Verdict:
    """Evaluate the acceptance criteria of a hypothesis.

    Confirmed when every criterion is met. Refuted when one that states an effect fails. Undecided otherwise: an effect
    whose criterion for the mechanism fails, seeds that disagree, or a number that is missing.

    Parameters
    ----------
    hypothesis : Hypothesis
        With its rule.
    numbers : mapping
        A value per criterion, several where there is chance, None where it could not be had.

    Raises
    ------
    InputError, UnknownNameError
        Numbers that the rule does not name, or does not find.

    >>> h = hypothesis("H2")
    >>> judge(h, {"held_out_gain": -0.08, "ttft_loss": 0.0}).outcome
    'refuted'
    """
    asked = {c.number for c in hypothesis.accept}
    for name in numbers:
        if name not in asked:
            raise unknown_name("number", name, asked)
    if missing := asked - set(numbers):
        raise InputError(f"judge: {hypothesis.id} needs {', '.join(sorted(missing))}; give None for what cannot be had")
    parts = tuple(_judged(c, numbers[c.number]) for c in hypothesis.accept)
    if any(p.met is False and p.criterion.role == "effect" for p in parts):
        outcome = "refuted"
    elif all(p.met for p in parts):
        outcome = "confirmed"
    else:
        outcome = "undecided"
    return Verdict(hypothesis, outcome, parts)


def _judged(criterion: Criterion, given: float | Sequence[float] | None) -> Judged:
    values = () if given is None else tuple(given) if isinstance(given, Sequence) else (given,)
    kept = [criterion.holds(v) for v in values]
    met = True if kept and all(kept) else False if kept and not any(kept) else None
    return Judged(criterion, tuple(map(float, values)), met)


@cache
def hypotheses() -> Mapping[str, Hypothesis]:
    """All hypotheses that ship, by name.

    >>> list(hypotheses())[:3]
    ['H1', 'H2', 'H3']
    """
    raw = shipped_toml(__package__, "hypotheses.toml")
    return MappingProxyType({name: _read(name, entry) for name, entry in raw.items()})


def _read(name: str, raw: Mapping[str, Any]) -> Hypothesis:
    own = dict(raw)
    accept = tuple(Criterion(**c) for c in own.pop("accept"))
    for c in accept:
        if c.sense not in SENSES:
            raise unknown_name("sense", c.sense, SENSES)
        if c.role not in ROLES:
            raise unknown_name("role", c.role, ROLES)
    for side in ("baseline", "treatment"):
        StepOptions(**own[side])  # refuses what no rung is called
        own[side] = MappingProxyType(dict(own[side]))
    return Hypothesis(id=name, accept=accept, **own)


def hypothesis(name: str) -> Hypothesis:
    """The hypothesis of that name.

    >>> hypothesis("H4").accept[0].bound
    0.1
    """
    return named("hypothesis", name, hypotheses())
