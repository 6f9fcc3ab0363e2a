"""The quantiles of past errors that ``mlsysim.intervals`` reads, and those of what servers hold (``fit_all.py`` writes them)."""

import datetime
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from mlsysim.evidence.cases import CaseFile
from mlsysim.evidence.measured.memory import ServerStart, all_starts
from mlsysim.evidence.scoring.conformal import NOMINAL, GroupedErrors
from mlsysim.evidence.scoring.domains import ground
from mlsysim.evidence.scoring.ranges import POOLS, Left, entry, held_later, shared_error
from mlsysim.evidence.written import toml
from mlsysim.intervals import KNOWN, NEW, interval_end, log_error
from mlsysim.memory.server_ranges import PARTS

T = TypeVar("T")
OUTPUT = Path(__file__).resolve().parents[2] / "mlsysim" / "intervals.toml"
STARTS = OUTPUT.parent / "memory" / "server_ranges.toml"
# The figures of the releases were read off their starts, so these are no strangers.
READ_FROM = ("Llama-3.1-8B", "Qwen3-14B")
_LOGGED = {"weights": "weights", "activations": "peak_activation", "runtime": "non_torch", "graphs": "cuda_graph"}
# Classes with enough sources on either side of a month are checked in time order too: fitted before it, judged from it on.
# For the pool of kernels it is the first month before which nine votes were published; no collective came after it.
LATER = {"training_step": "2025-01", "inference": "2025-01", "gemm": "2025-09", "attention": "2025-09"}
_BEFORE = "# Quantiles of ln(predicted / measured), written by scripts/maintain/fit_all.py. Do not edit."
_BEFORE_STARTS = """\
# Quantiles of ln(predicted / logged) of what servers hold, written by scripts/maintain/fit_all.py.
# Starts that llm-d-planner keeps (planner2026starts), in domain. Do not edit."""


def pool_of(name: str, of: Mapping[str, T]) -> list[T]:
    """What there is of a class, and after it of the others of its pool."""
    return [of[name], *(of[other] for other in POOLS[name] if other != name)]


def as_toml(entries: Mapping[str, Mapping[str, Any]]) -> str:
    """The text of the file: both levels of each class, what its sources have, and how the checks went; or why there are none."""
    return toml(_BEFORE, dict(sorted(entries.items())), _short)


def _short(value: float) -> str:
    return f"{value:.4g}"


def kept(path: Path) -> dict[str, Any]:
    """The entries of a file as it is: those of classes that are not fitted anew stay."""
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def summary(name: str, values: Mapping[str, Any]) -> str:
    """What the ranges of a class are, and how the checks went."""
    if "refused" in values:
        return f"{name}: none, {values['refused']}"
    parts = []
    for level in (KNOWN, NEW, "counted"):
        if found := values.get(level):
            low, high = (interval_end(1.0, found[end]) for end in ("high", "low"))
            parts.append(f"{level} x{low:.2f} to x{high:.2f} ({found['rows']} rows, {found['groups']} votes)")
    checks = {"sources": "coverage_sources", "domains": "coverage_domains", "later": "coverage_later"}
    held = ", ".join(f"{what} {values[key]:.0%}" for what, key in checks.items() if key in values)
    return f"{name}: {'; '.join(parts)}; held of left-out {held}"


def entries_of(files: Mapping[str, CaseFile], lefts: Mapping[str, Left], date: datetime.date) -> dict[str, Any]:
    """The entry of every class whose pool is there."""
    found = {}
    for name in [n for n in POOLS if set(POOLS[n]) <= set(lefts)]:
        month = LATER.get(name)
        later = (month, held_later(pool_of(name, files), month)) if month else None
        shared = shared_error(files[name].cases, lefts[name].sources)
        found[name] = shared | entry(pool_of(name, lefts), date, later)
    return found


def server_ranges(starts: Sequence[ServerStart], date: datetime.date) -> dict[str, Any]:
    """Quantiles of each part over starts in domain, one vote per model; and what those starts have.

    What a single model has (latent attention, weights in 4 bits) is not in domain: it had no vote.
    """
    held = [(found, s.logged) for s in starts if (found := s.prediction).model.name not in READ_FROM]
    have: dict[str, dict[str, set[str]]] = {}
    for found, _ in held:
        for part, value in found.place.items():
            have.setdefault(part, {}).setdefault(value, set()).add(found.model.name)
    known = [(f, logged) for f, logged in held if ground(f.place, have, f.model.name) == KNOWN]
    parts: dict[str, Any] = {}
    for part in PARTS:
        groups: dict[str, list[float]] = {}
        for found, log in known:
            ours = found.requested - found.kv_pool if part == "taken" else found.parts[part]
            logged = log[f"{_LOGGED.get(part, 'requested')}_bytes"] - (
                log["kv_cache_bytes"] if part == "taken" else 0.0
            )
            groups.setdefault(found.model.name, []).append(float(log_error(ours, logged)))
        errors = GroupedErrors(tuple(tuple(of) for of in groups.values()))
        low, high = errors.quantiles()
        parts[part] = {"low": low, "high": high, "coverage": errors.coverage()}
    models = len({f.model.name for f, _ in known})
    shared = {"nominal": NOMINAL, "date": date.isoformat(), "groups": models, "rows": len(known)}
    seen = {part: sorted({f.place[part] for f, _ in known}) for part in have}  # each of two models at least
    return {"starts": shared, "parts": parts, "seen": seen}


def write_starts(date: datetime.date) -> None:
    """Renew the ranges of what servers hold."""
    STARTS.write_text(toml(_BEFORE_STARTS, server_ranges(all_starts(), date), _short), encoding="utf-8")
