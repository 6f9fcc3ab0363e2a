"""Structures of training steps chosen inside the folds: what they say of sources that had no say (``fit_all.py`` writes it, last)."""

import datetime
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from mlsysim.evidence.rows import cases
from mlsysim.evidence.scoring.nested import Search, nested_of
from mlsysim.evidence.written import toml

OUTPUT = Path(__file__).resolve().parents[2] / "mlsysim" / "evidence" / "scoring" / "nested.toml"
_HEAD = "# Structure of training steps chosen inside the folds, written by scripts/maintain/fit_all.py. Do not edit."


def searched(start: str, date: datetime.date) -> dict[str, Any]:
    """The search from one start, as it stands in the file: minutes."""
    nested = nested_of(Search(cases("training_step")), start, date.isoformat(), lambda _: None)
    return {f.name: getattr(nested, f.name) for f in fields(nested)}


def write(found: Mapping[str, Mapping[str, Any]]) -> None:
    """Renew the file: a table for each start."""
    OUTPUT.write_text(toml(_HEAD, dict(sorted(found.items()))), encoding="utf-8")
