"""The reference: every public name, command, option and field stands on a page, and pages say what the library says."""

import argparse
import ast
import csv
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import mlsysim
from mlsysim import cli
from mlsysim.equations import REGISTRY

pytest.importorskip("make_reference", reason="the scripts are not beside the tests")
ROOT = Path(__file__).resolve().parents[2]
PAGES = {p.stem: p.read_text("utf-8") for p in sorted((ROOT / "book" / "reference").glob("*.qmd"))}
FEWEST = 60  # characters that say anything of a name
RENEW = "run scripts/make_reference.py, or scripts/make_book_parts.py, which writes the index of equations too"


class Known(dict[Any, str]):
    """What the pages say; of what they do not, how to put it there."""

    def __missing__(self, key: Any) -> str:
        raise AssertionError(f"{key} is not on the pages of the reference: {RENEW}")


def public() -> Iterator[tuple[str, str]]:
    """Page and anchor of every name that an ``__all__`` of a package lists, found without the maker of the pages."""
    yield from (("index", n) for n in mlsysim.__all__ if not isinstance(getattr(mlsysim, n), ModuleType))
    for m in pkgutil.walk_packages(mlsysim.__path__, "mlsysim."):
        home = m.name.removeprefix("mlsysim.")
        if m.name.endswith("__main__") or not (m.ispkg or "." not in home):
            continue
        module = importlib.import_module(m.name)
        for name in getattr(module, "__all__", ()):
            if not isinstance(getattr(module, name), ModuleType):
                yield home.partition(".")[0], f"{home}.{name}"


def sections() -> dict[tuple[str, str], str]:
    """What stands below each heading, by page and anchor."""
    found = Known()
    for page, text in PAGES.items():
        heads = [*re.finditer(r"^#+ .*\{#([\w.-]+)[^}]*\}$", text, re.M)]
        for head, after in zip(heads, [*(h.start() for h in heads[1:]), len(text)], strict=True):
            assert (page, head[1]) not in found, f"{page}: {head[1]} is documented twice"
            found[page, head[1]] = text[head.end() : after].strip()
    return found


def test_every_public_name_is_documented_on_a_page() -> None:
    wanted, known = set(public()), sections()
    assert len(wanted) > 900
    assert not wanted - set(known), RENEW
    bare = [anchor for page, anchor in wanted if len(prose(known[page, anchor])) < 12]
    assert not bare, "names with a signature and no word on what they are"


def prose(text: str) -> str:
    """A section without its code."""
    return re.sub(r"```.*?```", "", text, flags=re.S).strip()


def test_every_equation_links_to_its_derivation_and_the_index_back() -> None:
    known, index = sections(), (ROOT / "book" / "_equations.qmd").read_text("utf-8")
    for m in pkgutil.walk_packages(mlsysim.__path__, "mlsysim."):
        if not m.name.endswith("__main__"):
            importlib.import_module(m.name)
    for label, equation in REGISTRY.items():
        row = next((line for line in index.splitlines() if line.startswith(f"| @{label} |")), "")
        assert row, f"{label} is not in the index of equations: {RENEW}"
        link = re.search(r"\]\(reference/([\w-]+)\.qmd#([\w.]+)\)", row)
        assert link, f"{label}: the index has no link to the page of {equation.qualified_name}"
        assert link[2].endswith(f".{equation.name}")
        text = known[link[1], link[2]]
        assert f"Derived as @{label};" in text and "\n$$\n" in text
        assert all(f"\n`{name}`\n:   `float or array, {unit}`" in text for name, unit in equation.units.items())
        assert re.search(rf"@{equation.source}[,\]]", text) and "\nRaises " in text and "\nReturns " in text


def test_a_meaning_stands_below_its_name_and_in_no_column() -> None:
    """A table of five columns leaves the last one no room on a phone: 29 pages were half white."""
    assert not [page for page, text in PAGES.items() if re.search(r"^\|.*\bMeaning \|$", text, re.M)]
    assert sum(text.count("\n:   ") for text in PAGES.values()) > 3000


def test_every_example_on_a_page_is_one_that_the_tests_run() -> None:
    docstrings = "".join(
        ast.get_docstring(node) or ""
        for path in (ROOT / "mlsysim").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
    )
    blocks = [b for text in PAGES.values() for b in re.findall(r"^```python\n(>>> .*?)\n```$", text, re.S | re.M)]
    lines = [line for block in blocks for line in block.splitlines() if line.startswith(">>> ")]
    assert len(lines) > 500
    assert not [line for line in lines if line not in docstrings]


def parsers(parser: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not below:
        yield " ".join(words), parser
    for action in below:
        for word, one in action.choices.items():
            yield from parsers(one, (*words, word))


def test_every_command_and_option_is_on_its_page_with_its_default() -> None:
    known, seen = sections(), 0
    for command, parser in parsers(cli._parser("")):
        section = known["command-line", f"sec-command-{command.replace(' ', '-')}"]
        terms = re.findall(r"^(`.*)\n:   (.*)$", section, re.M)
        by_name = Known((name, told) for names, told in terms for name in re.findall(r"`([^`]+)`", names))
        for action in parser._actions:
            for name in [*action.option_strings] or [action.dest]:
                if action.dest == "help" or action.help == argparse.SUPPRESS:
                    assert name not in by_name
                    continue
                seen += 1
                facts, _, meaning = by_name[name].rpartition(": ")
                assert (meaning or facts).strip(), f"{command} {name} has no help"
                if action.required:
                    assert "must be given" in by_name[name]
                elif action.default not in (None, False, True, "", []):
                    shown = f"{action.default:g}" if isinstance(action.default, float) else action.default
                    assert f"default `{shown}`" in by_name[name]
    assert seen > 300


@pytest.mark.slow
def test_the_pages_say_what_the_library_says() -> None:
    import make_reference

    made = {Path(name).stem: text for name, text in make_reference.texts().items()}
    assert set(made) == set(PAGES)
    assert [name for name, text in made.items() if text != PAGES[name]] == [], "run scripts/make_reference.py"


def test_no_page_is_large() -> None:
    assert max(len(text.encode()) for text in PAGES.values()) < 300_000


SHEET = (ROOT / "book" / "_cheatsheet.qmd").read_text("utf-8")


@pytest.mark.independent
def test_rules_of_thumb_of_the_cheat_sheet_are_off_by_what_one_calculates_by_hand() -> None:
    ring = [f"+{100 * (n / (n - 1) - 1):.1f}\N{NO-BREAK SPACE}%" for n in (8, 64)]
    bubble = [f"+{100 * ((m + 7) / m - 1):.1f}\N{NO-BREAK SPACE}%" for m in (8, 64)]
    said = SHEET.replace(" %", "\N{NO-BREAK SPACE}%")
    assert f"{ring[0]} on 8 ranks, {ring[1]} on 64" in said
    assert f"{bubble[0]} at 8 micro-batches, {bubble[1]} at 64" in said


@pytest.mark.published
def test_ridge_points_of_the_cheat_sheet_are_those_of_the_datasheets() -> None:
    rows = {
        r[0]: r for r in re.findall(r"^\| ([\w-]+) \| (\d{4}) \| .*? \| .*? \| (\S+) \| .*? \| (\S+) \|$", SHEET, re.M)
    }
    assert rows["H100-SXM5-80GB"][2:] == ("295", "591")  # 989.5 and 1979 TFLOP/s, dense, over 3.35 TB/s
    assert rows["A100-SXM4-80GB"][2:] == ("153", "306")  # 312 and 624 over 2.039 TB/s


@pytest.mark.slow
def test_the_cheat_sheet_says_what_the_library_says() -> None:
    import make_reference
    from reference import sheet

    assert SHEET.endswith(sheet.text(make_reference.latex_by_label())), "run scripts/make_book_parts.py"


def test_the_cheat_sheet_counts_every_published_figure_once() -> None:
    with (ROOT / "book" / "reality-summary.csv").open(encoding="utf-8", newline="") as file:
        groups = [row for row in csv.DictReader(file) if not row["group"].startswith("(")]
    table = SHEET.partition("## How wrong")[2]
    figures = [int(n) for n in re.findall(r"^\| [a-z ]+ \| \d+ \| (\d+) \|", table, re.M)]
    assert sum(figures) == sum(int(row["predicted"]) for row in groups)
