#!/usr/bin/env python3
"""The tables of the scoreboard page.

python scripts/book_scoreboard.py [--write]        prints them, or writes book/_scoreboard.qmd as scripts/make_book_parts.py does
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from mlsysim.evidence.scoring import decisions, scoreboard
from mlsysim.tables import Table

_PARTS = (
    ("Errors by what was known", scoreboard.standings_table, "Mean absolute errors, each group (mostly a source) a vote; *kind new*: without the row's source and its whole domain; *kind known*: without its source; *one own point*: moved by one measured point; *signed* and *in range* without the source. *Middle row, blind*: the median row of those that questions ask, without their sources and their domains. A few groups of served points err by factors, which means show and medians do not.", "tbl-scoreboard-known"),
    ("First choices of a server", scoreboard.decisions_table, "Regret, missed targets, refusals, and pairs in the right order (@eq-regret).", "tbl-scoreboard-choices"),
    ("Peers on the same rows", scoreboard.peers_table, "Each peer on the rows that it answers, beside ours on those rows, refitted without the source of each; of servers blind, without their domains too.", "tbl-scoreboard-peers"),
    ("What peers print of themselves", scoreboard.published_table, "Figures of their own tables, and where they were run again, what came.", "tbl-scoreboard-published"),
)  # fmt: skip


def _markdown(found: Table, caption: str, label: str) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"

    head, *rows = [list(map(str, row)) for row in (found.head, *found.rows)]
    return "\n".join([line(head), "|:--" * len(head) + "|", *map(line, rows), "", f": {caption} {{#{label}}}", ""])


def _odds() -> str:
    """Odds beside what came."""
    bins = {
        "to keep a target": decisions.reliability("serving"),
        "to be worth more than another": decisions.pair_reliability("serving"),
    }
    rows = [f"| {what} | {said:.0%} | {came:.0%} | {n:,} |" for what, of in bins.items() for said, came, n in of]
    head = "| odds | said | came | answers |\n|:--|--:|--:|--:|\n"
    return head + "\n".join(rows) + "\n\n: Odds of servers whose group none of them has seen. {#tbl-scoreboard-odds}\n"


def text() -> str:
    """All tables as Markdown."""
    parts = [f"## {title}\n\n{_markdown(made(), caption, label)}" for title, made, caption, label in _PARTS]
    return "\n".join([*parts[:2], _odds(), *parts[2:]])


if __name__ == "__main__":
    if "--write" in sys.argv:
        import make_book_parts

        path = Path(__file__).resolve().parents[1] / "book" / "_scoreboard.qmd"
        path.write_text(make_book_parts.HEADER + text(), encoding="utf-8")
    else:
        print(text())
