"""What every figure of a catalogue owes: a source in the bibliography, a place in it, a date, and what was changed."""

import datetime
import re
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from support import ROOT

BIB_KEYS = set(re.findall(r"^@\w+\{([^,]+),", (ROOT / "references.bib").read_text("utf-8"), re.M))


def figures_of(tables: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Every figure of some tables of entries, as parameters of a test."""
    return [
        pytest.param(field, id=f"{name} {key}")
        for table in tables
        for name, entry in table.items()
        for key, field in entry.items()
        if isinstance(field, dict)
    ]


def check_provenance(field: Mapping[str, Any], transforms: tuple[str, ...]) -> None:
    assert field["source"] in BIB_KEYS
    assert field["where"].strip()
    assert datetime.date(2025, 1, 1) <= datetime.date.fromisoformat(field["retrieved"]) < datetime.date(2027, 1, 1)
    assert field.get("read", "secondary") == "secondary"
    assert field.get("transform", "as printed").startswith(transforms)
