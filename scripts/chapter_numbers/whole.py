"""The book as a whole: how many chapters its parts have."""

import re
from pathlib import Path
from typing import Any

import yaml

_UP_TO_TEN = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_TEENS = ("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_WORDS = _UP_TO_TEN + _TEENS


def numbers() -> dict[str, Any]:
    """Chapters of each part, in words, as the book's own list has them."""
    root = Path(__file__).resolve().parents[2]
    listed = yaml.safe_load((root / "_quarto.yml").read_text(encoding="utf-8"))["book"]["chapters"]
    parts = [p for p in listed if isinstance(p, dict) and re.match(r"Part [IVX]+\.", p["part"])]
    counts = [len(p["chapters"]) for p in parts]
    return {f"part_{i}": f"{_WORDS[n]} chapter{'s' * (n != 1)}" for i, n in enumerate(counts, 1)}
