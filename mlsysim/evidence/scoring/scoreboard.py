"""The scoreboard: errors by class and by what was known of the target, decisions, and peers, all from what other files here record.

``python -c "from mlsysim.evidence.scoring import scoreboard; print(scoreboard.told())"`` prints it. Nothing is fitted here:
score sheets, blind predictions, points and the record of peers are written by scripts/maintain.
"""

import math
import statistics
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlsysim import intervals, units
from mlsysim.evidence.rows import cases
from mlsysim.evidence.scoring import decisions, own_points
from mlsysim.evidence.scoring.scores import shipped_scores
from mlsysim.results import Result
from mlsysim.tables import Table, table

PEERS = Path(__file__).with_name("peers.toml")
CLASSES = ("training_step", "inference", "serving_tpot", "serving_ttft", "gemm", "attention", "collective", "memory")
_PUBLISHED = "published"  # figures of peers that nobody ran here


@dataclass(frozen=True)
class Standing(Result):
    """Errors of a class as more is known of the target; fractions, means over groups, ranges at 80 %."""

    name: str
    rows: int
    datasheet: float  # nothing measured anywhere: figures of datasheets alone
    stranger: float  # constants without the row's source and without its whole domain: the target's kind is new
    source: float  # constants without the row's source: its kind is known
    middle: float | None  # median of the rows that questions of decisions ask, without their sources and domains
    point: float | None  # and one point of one's own
    bias: float | None  # signed, without the source
    held: float | None  # share of rows without their source inside their range
    rule: float | None  # simplest rule, on the rows of which it says something
    beside: float | None  # ours on those


@cache
def standings() -> tuple[Standing, ...]:
    """Every class, by its score sheet and by what points of one's own were worth.

    >>> found = {s.name: s for s in standings()}["training_step"]
    >>> found.source < found.rule
    True
    """
    found = []
    for name in CLASSES:
        sheet, points = shipped_scores(name), {w.points: w for w in own_points.shipped().get(name, ())}
        found.append(
            Standing(
                name,
                sheet.rows,
                sheet.datasheet.mape,
                sheet.ladder.new_ground,
                sheet.ladder.without_source,
                _middle(name),
                points[1].error if 1 in points else None,
                sheet.leave_one_group_out.bias,
                intervals.checks(name).get("coverage_sources"),
                sheet.rule.error,
                sheet.rule.ours,
            )
        )
    return tuple(found)


def _middle(name: str) -> float | None:
    """Median absolute error of a class's blind predictions; a row that several kinds of question ask counts once."""
    said = {i: t for kind in decisions.KINDS for (of, i), t in decisions.blind(kind).items() if of == name}
    errors = [abs(said[c.id] / c.measured - 1.0) for c in cases(name).cases if c.id in said]
    return statistics.median(errors) if errors else None


@cache
def peers() -> Mapping[str, Mapping[str, Any]]:
    """What peers said of the rows that ship, beside ours on the same rows; and, under ``published``, figures of their own tables."""
    return MappingProxyType(tomllib.loads(PEERS.read_text(encoding="utf-8")))


def _share(value: float | None, signed: bool = False) -> str:
    return "–" if value is None or math.isnan(value) else units.percent(value, 0, signed=signed)


def standings_table() -> Table:
    """Errors by what was known."""
    head = (
        "class", "rows", "datasheets alone", "kind new", "kind known", "middle row, blind", "one own point", "signed", "in range", "simplest rule (ours there)",
    )  # fmt: skip
    rows = [
        (
            s.name, f"{s.rows:,}", _share(s.datasheet), _share(s.stranger), _share(s.source), _share(s.middle), _share(s.point), _share(s.bias, True),
            _share(s.held), "–" if s.rule is None else f"{_share(s.rule)} ({_share(s.beside)})",
        )
        for s in standings()
    ]  # fmt: skip
    return table(head, rows)


def peers_table() -> Table:
    """Peers by class: what they answered, their errors, and ours on the same rows without their sources."""
    head = ("peer", "class", "answered", "groups", "error", "signed", "ours", "could not answer")
    rows = []
    for key, peer in peers().items():
        for name in CLASSES:
            if key != _PUBLISHED and name in peer:
                p = peer[name]
                rows.append(
                    (
                        f"{peer['name']} {peer['version']}", name, f"{p['answered']:,} of {p['rows']:,}", str(p["groups"]),
                        _share(p["error"]), _share(p["bias"], True), _share(p["ours"]), p["why_not"],
                    )
                )  # fmt: skip
    return table(head, rows)


def published_table() -> Table:
    """Figures that peers print of themselves, and what a run of them gave again where somebody ran them."""
    head = ("peer", "what", "printed", "again", "where")
    found = [
        (p["name"], p["what"], p["printed"], p.get("again", "–"), p["where"]) for p in peers()[_PUBLISHED].values()
    ]
    return table(head, found)


def decisions_table() -> Table:
    """First choices of servers: ours, rules, chance, and peers."""
    found = [s for s in decisions.scores() if s.kind == "serving"]
    rows = [
        (decisions.WAYS[s.way], f"{s.regret:.2f}", _share(s.missed), _share(s.refused), _share(s.pairs)) for s in found
    ]
    for key, peer in peers().items():
        if key != _PUBLISHED and "decisions" in peer:
            d = peer["decisions"]
            rows.append(
                (peer["name"], f"{d['regret']:.2f}", _share(d["missed"]), _share(d["refused"]), _share(d["pairs"]))
            )
    return table(("way", "regret", "missed", "refused", "pairs right"), rows)


def told() -> str:
    """All tables."""
    parts = (standings_table(), decisions_table(), peers_table(), published_table())
    return "\n\n".join(map(str, parts))
