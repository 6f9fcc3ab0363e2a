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
    read_in = field.get("read_in", field["source"])
    assert read_in in BIB_KEYS
    assert "read_in" not in field or read_in != field["source"], "read_in is for another text than the source"
    others = [place.split(", ", 1) for place in field.get("agree", [])]
    assert all(len(place) == 2 and place[1].strip() for place in others), "agree names the place: 'key, where'"
    keys = [key for key, _ in others]
    assert set(keys) <= BIB_KEYS
    assert len({*keys, field["source"], read_in}) == len(keys) + len({field["source"], read_in}), "independent places"
    assert field.get("transform", "as printed").startswith(transforms)


def rests_on_one_secondary_text(field: Mapping[str, Any]) -> bool:
    """Whether neither the maker's own text was read nor another place is known that has the same value."""
    return field.get("read") == "secondary" and not field.get("agree")
