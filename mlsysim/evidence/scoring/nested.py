"""Structure chosen inside the folds: what a choice among many structures costs on sources that had no say in it.

Leaving a source out of the *fit* says how a structure errs on new sources when somebody has picked it before. Whoever picks
it with the same sources in view has let each of them vote. So the choice is repeated without each source: every step of a
search, from a start that no error had a say in, is judged by leaving the other sources out in turn (the inner folds), and only the
structure that this search ends at predicts the source that was away (the outer fold).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any

from mlsysim.catalog.sourced import shipped_toml
from mlsysim.errors import unknown_name
from mlsysim.evidence.cases import CaseFile
from mlsysim.evidence.predictors.training_structures import ANY, COUNTED, Rows, Structure, Variant
from mlsysim.evidence.scoring.domains import domains_left_out
from mlsysim.results import Result

_PULL = 0.05  # as in predictors.fitting: width of the pull to the start, in logits
_ROUNDS = 40


def wins(gain: float, error: float, constants: int) -> bool:
    """The one-standard-error rule for a change of structure.

    Parameters
    ----------
    gain, error : float
        Mean over sources of how much less the changed structure errs, and the standard error of that mean.
    constants : int
        How many constants the change adds.

    >>> wins(0.010, 0.004, 1), wins(0.003, 0.004, 1), wins(-0.003, 0.004, -1)
    (True, False, True)
    """
    return gain > error if constants >= 0 else gain > -error


def mean_and_error(values: Any) -> tuple[float, float]:
    """Mean and its standard error."""
    n = len(values)
    return float(values.mean()), float(values.std(ddof=1) / n**0.5) if n > 1 else float("inf")


@dataclass(frozen=True)
class Choice(Result):
    """What a search ended at, without some rows."""

    structure: Structure
    constants: int
    inner: float  # mean over the sources that it had of their error, each left out of the fit but not of the choice
    error: float  # mean over the sources that it did not have; nan when it had all
    steps: int


@dataclass(frozen=True)
class _Settled:
    """A structure fitted to some rows: where its constants stand, and the errors of all rows about there."""

    variant: Variant
    z: Any
    residuals: Any
    slopes: Any


class Search:
    """Chooses structures on sets of sources; needs NumPy."""

    def __init__(self, file: CaseFile) -> None:
        import numpy as np

        self.file = file
        self.rows = Rows([c.inputs for c in file.cases])
        self.measured = np.array([c.measured for c in file.cases])
        self.sources = sorted({c.group for c in file.cases})
        self.source = np.array([self.sources.index(c.group) for c in file.cases])
        self.known = np.array([len(s.line) > 1 for s in self.rows.steps])
        self._variants: dict[Structure, Variant] = {}

    def variant(self, structure: Structure) -> Variant:
        if structure not in self._variants:
            self._variants[structure] = Variant(self.rows, structure)
        return self._variants[structure]

    def _weights(self, used: Any) -> Any:
        """One vote for every source, on rows that a fit may see."""
        import numpy as np

        seen = used & self.known
        size = np.bincount(self.source[seen], minlength=len(self.sources))
        return np.where(seen, 1.0 / np.maximum(1, size[self.source]), 0.0)

    def settle(self, structure: Structure, used: Any, near: _Settled | None = None) -> _Settled:
        """Fit as ``predictors.fitting.gauss_newton`` does, from where a neighbour stands."""
        import numpy as np

        v = self.variant(structure)
        low, high, start = (np.array(x) for x in zip(*v.ranges, strict=True))
        origin = np.log((start - low) / (high - start))
        weight, soft, unit = self._weights(used), v.soft, np.eye(len(start))

        def errors(z: Any) -> Any:
            return np.log(v.times(low + (high - low) / (1.0 + np.exp(-z))) / self.measured)

        def loss(z: Any, r: Any) -> float:
            robust = 2.0 * soft**2 * (np.sqrt(1.0 + (r / soft) ** 2) - 1.0)
            return float(np.sum(weight * robust) + np.sum((_PULL * (z - origin)) ** 2))

        z = origin.copy()
        if near is not None:
            have = dict(zip(near.variant.names, near.z, strict=True))
            for i, (group, name) in enumerate(v.names):
                z[i] = have.get((group, name), have.get((ANY, name), origin[i]))
        r = errors(z)
        now, damping, slopes = loss(z, r), 1e-3, None
        for _ in range(25):
            slopes = np.stack([(errors(z + 1e-4 * u) - r) / 1e-4 for u in unit], axis=1)
            w = weight * (1.0 + (r / soft) ** 2) ** -0.5
            gradient = slopes.T @ (w * r) + _PULL**2 * (z - origin)
            curvature = slopes.T @ (slopes * w[:, None]) + _PULL**2 * unit
            gain = 0.0
            while damping < 1e5:
                new = z - np.clip(np.linalg.solve(curvature + damping * unit, gradient), -2.0, 2.0)
                after = errors(new)
                if (then := loss(new, after)) < now:
                    gain, z, r, now, damping = now - then, new, after, then, damping / 5.0
                    break
                damping *= 5.0
            if gain < 1e-4:
                break
        if gain > 0:
            slopes = np.stack([(errors(z + 1e-4 * u) - r) / 1e-4 for u in unit], axis=1)
        return _Settled(v, z, r, slopes)

    def inner(self, fit: _Settled, used: Any) -> Any:
        """Of every source in use the error when it is left out of the fit, linear about the fit to all in use."""
        import numpy as np

        v, soft = fit.variant, fit.variant.soft
        low, high, start = (np.array(x) for x in zip(*v.ranges, strict=True))
        pulled = fit.z - np.log((start - low) / (high - start))
        inside = np.unique(self.source[used])
        weight = self._weights(used)[None, :] * (self.source[None, :] != inside[:, None])
        n, d = fit.slopes.shape
        squares = (fit.slopes[:, :, None] * fit.slopes[:, None, :]).reshape(n, d * d)
        move = np.zeros((len(inside), d))
        for _ in range(8):
            r = fit.residuals[None, :] + move @ fit.slopes.T
            w = weight * (1.0 + (r / soft) ** 2) ** -0.5
            curvature = (w @ squares).reshape(-1, d, d) + _PULL**2 * np.eye(d)
            gradient = (w * r) @ fit.slopes + _PULL**2 * (pulled[None, :] + move)
            move = move - np.linalg.solve(curvature, gradient[:, :, None])[:, :, 0]
        r = fit.residuals[None, :] + move @ fit.slopes.T
        return np.array(
            [np.abs(np.exp(r[i, self.source == s]) - 1.0)[used[self.source == s]].mean() for i, s in enumerate(inside)]
        )

    def choose(self, used: Any, start: Structure) -> tuple[Structure, _Settled, float, int]:
        """From a structure on, the change that gains most among those that the rule allows, until none is left."""
        now = start
        fit = self.settle(now, used)
        errors, seen = self.inner(fit, used), {now}
        for step in range(_ROUNDS):
            best: tuple[float, Structure, _Settled, Any] | None = None
            for other in now.moves():
                if other in seen:
                    continue
                tried = self.settle(other, used, fit)
                found = self.inner(tried, used)
                gain, error = mean_and_error(errors - found)
                more = len(tried.variant.names) - len(fit.variant.names)
                if wins(gain, error, more) and (best is None or gain > best[0]):
                    best = gain, other, tried, found
            if best is None:
                return now, fit, float(errors.mean()), step
            _, now, fit, errors = best
            seen.add(now)
        return now, fit, float(errors.mean()), _ROUNDS

    def judged(self, fit: _Settled, rows: Any) -> float:
        """Mean over sources of the error of rows that the fit did not have."""
        import numpy as np

        off = np.abs(np.exp(fit.residuals) - 1.0)
        return float(np.mean([off[rows & (self.source == s)].mean() for s in np.unique(self.source[rows])]))

    def without(self, away: Any, start: Structure) -> Choice:
        """Choose and fit without some rows, then judge by them; if none is away, only choose."""
        structure, fit, inner, steps = self.choose(~away, start)
        return Choice(
            structure, len(fit.variant.names), inner, self.judged(fit, away) if away.any() else float("nan"), steps
        )

    @cached_property
    def domains(self) -> Mapping[str, Any]:
        """The rows of every domain."""
        import numpy as np

        found = domains_left_out(self.file.case_class.name, self.file.cases)
        ids = [c.id for c in self.file.cases]
        return {label: np.isin(ids, [c.id for c in rows]) for label, rows in found.items()}


# Where a search may begin without having seen an error: with nothing that can be left out, or with all that can be counted.
STARTS: Mapping[str, Structure] = MappingProxyType({"nothing": Structure(), "counted": COUNTED})


@dataclass(frozen=True)
class Nested(Result):
    """What choosing inside the folds says of a class, from one start; errors are fractions, means over sources or domains."""

    date: str
    constants: int  # of the structure that a search with all sources in view ends at
    inside: float  # its error without the row's source: the choice has seen it
    sources: float  # error of sources that had no part in fit nor choice
    domains: float
    least: int  # constants of the structures that were chosen without a source
    most: int
    folds: Mapping[str, float]  # error of each source
    chosen: Mapping[str, int]  # how many of the source folds chose a word other than the start's

    @property
    def cost(self) -> float:
        """By how much the choice flattered itself."""
        return self.sources - self.inside


def nested_of(search: Search, start: str, date: str, say: Callable[[str], None] = print) -> Nested:
    """Search without each source and without each domain, and once with all in view; minutes."""
    import numpy as np

    begin = STARTS[start]
    every = search.without(np.zeros(len(search.file.cases), dtype=bool), begin)
    found: dict[str, Choice] = {}
    domains: list[float] = []
    chosen: dict[str, int] = {}
    for i, source in enumerate(search.sources):
        found[source] = fold = search.without(search.source == i, begin)
        for word in fold.structure.words(begin):
            chosen[word] = chosen.get(word, 0) + 1
        say(f"without {source}: {fold.error:.1%}; {fold.structure.words(begin)}")
    for label, rows in search.domains.items():
        domains.append(search.without(rows, begin).error)
        say(f"without {label}: {domains[-1]:.1%}")
    counts = [fold.constants for fold in found.values()]
    errors = {source: round(fold.error, 4) for source, fold in found.items()}
    return Nested(
        date=date,
        constants=every.constants,
        inside=round(every.inner, 4),
        sources=round(float(np.mean([fold.error for fold in found.values()])), 4),
        domains=round(float(np.mean(domains)), 4),
        least=min(counts),
        most=max(counts),
        folds=MappingProxyType(errors),
        chosen=MappingProxyType(dict(sorted(chosen.items()))),
    )


@cache
def shipped_nested(start: str = "counted") -> Nested:
    """The nested errors of training steps that ship with the package, from one of :data:`STARTS`.

    >>> shipped_nested().inside < shipped_nested().sources
    True
    """
    raw = shipped_toml(__package__, "nested.toml")
    if start not in raw:
        raise unknown_name("start of a search", start, raw)
    own = raw[start]
    parts: dict[str, Any] = {
        name: MappingProxyType(own[name]) if isinstance(own[name], dict) else own[name] for name in own
    }
    return Nested(**parts)
