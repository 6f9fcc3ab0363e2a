"""The spreads of past errors that ``mlsysim.intervals`` reads, and the quantiles of what servers hold (``fit_all.py`` writes them)."""

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlsysim.efficiencies import pooled_share
from mlsysim.evidence.measured.memory import ServerStart, all_starts
from mlsysim.evidence.scoring.conformal import NOMINAL, GroupedErrors
from mlsysim.evidence.scoring.domains import ground
from mlsysim.evidence.written import toml
from mlsysim.intervals import KNOWN, STRENGTH, interval_end, log_error
from mlsysim.memory.server_ranges import PARTS

OUTPUT = Path(__file__).resolve().parents[2] / "mlsysim" / "intervals.toml"
STARTS = OUTPUT.parent / "memory" / "server_ranges.toml"
# The figures of the releases were read off their starts, so these are no strangers.
READ_FROM = ("Llama-3.1-8B", "Qwen3-14B")
_LOGGED = {"weights": "weights", "activations": "peak_activation", "runtime": "non_torch", "graphs": "cuda_graph"}
_BEFORE = "# Spreads of ln(predicted / measured), written by scripts/maintain/fit_all.py. Do not edit."
_BEFORE_STARTS = """\
# Quantiles of ln(predicted / logged) of what servers hold, written by scripts/maintain/fit_all.py.
# Starts that llm-d-planner keeps (planner2026starts), in domain. Do not edit."""


def as_toml(entries: Mapping[str, Mapping[str, Any]]) -> str:
    """The text of the file: the width in spreads, and of each class its spreads, what its sources have, and how the checks went."""
    return toml(_BEFORE, dict(sorted(entries.items())), _short)


def _short(value: float) -> str:
    return f"{value:.4g}"


def summary(name: str, values: Mapping[str, Any]) -> str:
    """What the ranges of a class are, and how the checks went."""
    spreads = values["spreads"]
    own = sorted(
        float(pooled_share(size, values["spread"], votes, STRENGTH)) for size, votes, _ in values["places"].values()
    )
    ends = " to ".join(f"x{interval_end(1.0, -spreads * s):.2f}" for s in (own[0], own[-1]))
    held = ", ".join(
        f"{what} {values[key]:.0%}" for what in ("sources", "domains") if (key := f"coverage_{what}") in values
    )
    came = ", ".join(f"{order} {found['held']:.0%}" for order, found in values["came"].items())
    wide = f"x{interval_end(1.0, -spreads * values['spread']):.2f}"
    return f"{name}: {wide} out of domain, {ends} in places; unknown {values['unknown']:.0%}; held of left-out {held}; of sets as they came {came or '–'}"


def say(found: Mapping[str, Any]) -> None:
    """Print what the ranges are."""
    print("{spreads:.2f} spreads each way, by {sources} sources".format(**found["ranges"]))
    for name, values in found.items():
        if name != "ranges":
            print(summary(name, values))


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
