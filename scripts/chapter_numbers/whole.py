"""The book as a whole: how many chapters its parts have, and how long each takes to read."""

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
PACE = 90.0  # words a minute: two readers who followed every equation took 49 to 87 minutes for 4,400 to 7,800 words
# Ways through the book that leave chapters out: what each is for, and its chapters in their order.
ROUTES = {
    "size a service": (1, 2, 3, 7, 8, 10, 24),
    "plan a training run": (1, 2, 3, 4, 5, 6, 7, 11, 12, 13),
    "read this year's papers": (1, 2, 3, 4, 7, 12, 16, 25, 26),
    "teach a term": (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13),
}
_UP_TO_TEN = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_TEENS = ("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_WORDS = _UP_TO_TEN + _TEENS
_FOLD = re.compile(r"^::: \{\.callout-\w+ collapse=\"true\".*?^:::$", re.M | re.S)
_LINE = re.compile(r"^(?::::|\{\{<|#).*$", re.M)


def words(text: str) -> int:
    """Words of prose in a piece of a chapter."""
    text = re.sub(r"^## (?:Exercises|Further reading).*", "", text, flags=re.M | re.S)
    text = re.sub(r"^```.*?^```|\$\$.*?\$\$", "", text, flags=re.M | re.S)
    return len(re.sub(r"\{\{<.*?>\}\}", "1", _LINE.sub("", text)).split())


def core(text: str) -> int:
    """Words of what stands unfolded in a chapter."""
    return words(_FOLD.sub("", text))


def minutes(text: str) -> tuple[int, int]:
    """Minutes for the core of a chapter and for what is folded in it, to five minutes.

    >>> minutes("word " * 900 + '\\n::: {.callout-note collapse="true" title="In depth"}\\n' + "word " * 450 + "\\n:::\\n")
    (10, 5)
    """
    read, whole = core(text), words(text)
    return max(5, 5 * round(read / PACE / 5)), max(5, 5 * round((whole - read) / PACE / 5))


def chapters() -> list[list[Path]]:
    """The files of each part's chapters."""
    listed = yaml.safe_load((ROOT / "_quarto.yml").read_text(encoding="utf-8"))["book"]["chapters"]
    parts = [p for p in listed if isinstance(p, dict) and re.match(r"Part [IVX]+\.", p["part"])]
    return [[ROOT / c for c in p["chapters"]] for p in parts]


def ways() -> str:
    """The routes, as lines of links to their chapters with the hours of their cores."""
    files = {int(c.name[:2]): c for part in chapters() for c in part}
    lines = []
    for purpose, route in ROUTES.items():
        stops = [f"[{n} {files[n].stem[3:].replace('-', ' ')}](book/{files[n].name}){{.stop}}" for n in route]
        hours = sum(minutes(files[n].read_text(encoding="utf-8"))[0] for n in route) / 60
        lines.append(f"**To {purpose}**, some {hours:.0f} hours:\n\n::: {{.way}}\n{' '.join(stops)}\n:::")
    return ":::: {.ways}\n" + "\n\n".join(lines) + "\n::::\n"


def numbers() -> dict[str, Any]:
    """Chapters of each part in words, as the book's own list has them, and reading times."""
    parts = chapters()
    times = {c.name[:2]: minutes(c.read_text(encoding="utf-8")) for part in parts for c in part}
    counts = {f"part_{i}": f"{_WORDS[len(p)]} chapter{'s' * (len(p) != 1)}" for i, p in enumerate(parts, 1)}
    return counts | {
        "reading": {
            f"c{n}": {"core": f"{core} minutes", "depth": f"{depth} minutes"} for n, (core, depth) in times.items()
        }
    }
