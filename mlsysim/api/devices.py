"""``mlsysim.compare_devices``: the same job on several devices, at one kind of price, and the odds that one beats the other."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

from mlsysim import intervals, units
from mlsysim.api.arguments import fitted, wrap_lines
from mlsysim.api.asked import AS_PUBLISHED
from mlsysim.api.serving import Served, serve
from mlsysim.catalog import Cluster, Device, Machines, Model, Node, Price, where
from mlsysim.cost.rent import Rent, rents_of
from mlsysim.errors import InputError
from mlsysim.results import Result, plain
from mlsysim.tables import Table, table

_SEPARATOR = re.compile(r"\s*,(?!\d{3}\b)\s*")


@dataclass(frozen=True)
class Effect:
    """The logarithm of a bill, and how an error of the predicted times moves it."""

    log_cost: float
    slope: float  # of the logarithm of the bill by that of the times
    scale: float  # of the log error of the times, as of intervals.scale_of

    @property
    def spread(self) -> float:
        """Scale of the log error of the bill."""
        return self.slope * self.scale


def cheaper(a: Effect, b: Effect, share: float) -> float:
    """The chance that the bill of a is the smaller one: the part of the errors that both share cancels, as far as slopes are alike.

    >>> round(cheaper(Effect(0.0, 1.0, 0.2), Effect(0.1, 1.0, 0.2), 0.5), 3)
    0.667
    """
    return intervals.odds(b.log_cost - a.log_cost, intervals.apart(a.spread, b.spread, share))


def shared_part(class_name: str = "inference") -> float:
    """The share of the variance of a log error that two devices have in common, as the file of ranges has it; 0 where it has none.

    Assumptions: a negative estimate is none; the errors of devices that nobody measured share as much as those of others do.
    """
    return max(0.0, float(intervals.checks(class_name).get("shared", 0.0)))


@dataclass(frozen=True, repr=False)
class Compared(Result):
    """What :func:`compare_devices` returns: an answer per device, all at one kind of price."""

    answers: tuple[Served, ...]
    rents: tuple[Rent, ...] | None  # None where there is no kind of price that the catalogue has of all

    @property
    def answered(self) -> bool:
        return all(s.answered for s in self.answers)

    @property
    def fits(self) -> bool:
        return all(s.fits for s in self.answers)

    @cached_property
    def effects(self) -> tuple[Effect | None, ...]:
        """Of each device its bill and what an error does to it; None where the bill or an end of its range is not known."""
        return tuple(map(_effect, self.answers))

    @cached_property
    def shared(self) -> float:
        """The share of the variance that the errors of two devices have in common."""
        return shared_part()

    @cached_property
    def odds(self) -> dict[tuple[str, str], float]:
        """For every two devices whose bills are known, the likely cheaper one first: the chance that it is."""
        found = {}
        for (s, a), (t, b) in combinations(zip(self.answers, self.effects, strict=True), 2):
            if a is not None and b is not None:
                chance, names = cheaper(a, b, self.shared), (s.question.device.name, t.question.device.name)
                found[names if chance >= 0.5 else names[::-1]] = max(chance, 1.0 - chance)
        return found

    @cached_property
    def settles(self) -> tuple[str, float] | None:
        """Of the closest two, the device whose measurement tells most, and the chance to choose well once it is measured."""
        if not self.odds:
            return None
        names = min(self.odds, key=lambda pair: self.odds[pair])
        of = {s.question.device.name: e for s, e in zip(self.answers, self.effects, strict=True) if e is not None}
        tried = {
            a: intervals.odds_once_measured(of[b].log_cost - of[a].log_cost, of[a].spread, of[b].spread, self.shared)
            for a, b in (names, names[::-1])
        }
        best = max(tried, key=lambda name: tried[name])
        return best, tried[best]

    @property
    def kind(self) -> str:
        """The kind of price that all bills are of."""
        if self.rents is None:
            return "no kind of price that the catalogue has of all of them; give one rent for all, as in '2.5 USD/h'"
        return "; ".join(dict.fromkeys(r.kind for r in self.rents))

    def rows(self) -> Table:
        """A row per device."""
        return table(
            ("device", "how many", "USD/h each", "USD a month", "at most", "error near"), list(map(_row, self.answers))
        )

    @property
    def words(self) -> list[str]:
        """The odds, what a measurement would settle, and what is not known, a sentence each."""
        said = [f"{a} costs less than {b}: {_chance(chance)}" for (a, b), chance in self.odds.items()]
        if self.settles is not None:
            (device, chance), now = self.settles, _chance(min(self.odds.values()))
            said.append(
                f"of the closest two a measurement of this job on {device} settles most: the chance to choose the cheaper one goes from "
                f"{now} to {_chance(chance)}"
                if _chance(chance) != now
                else f"of the closest two no measurement of one device changes the choice: it is right with {now}"
            )
        if self.odds:
            said.append(
                f"odds: errors as wide as the ranges, most of them small and a few large, of which devices share {self.shared:.0%} of the variance"
            )
        pairs = zip(self.answers, self.effects, strict=True)
        return said + [f"{s.question.device.name}: {_missing(s)}" for s, e in pairs if e is None]

    def summary(self) -> Sequence[str]:
        q = self.answers[0].question
        work = f"{q.input_len:g} + {q.output_len:g} tokens"
        rate = "" if q.rate is None else f" at {q.rate:g} requests/s"
        targets = "" if q.slo is None else f", {q.slo}"
        head = wrap_lines([f"{q.model.name}{rate} of {work}{targets}; price: {self.kind}"])
        by: dict[tuple[str, ...], list[str]] = {}  # formats differ between devices
        for s in self.answers:
            said = tuple(line.replace(f" ({AS_PUBLISHED})", "") for line in s.assumed)
            by.setdefault(said, []).append(s.question.device.name)
        each = [
            f"{' '.join(lines)} ({', '.join(names)})" if len(by) > 1 else " ".join(lines) for lines, names in by.items()
        ]
        assumed = ["; ".join([each[0], *(one.removeprefix("assumed: ") for one in each[1:])])]
        spare = [w for w in self.words if w.startswith("odds: ")]
        return fitted([*head, *str(self.rows()).split("\n"), *wrap_lines([*self.words, *assumed])], (), spare)

    def to_dict(self) -> dict[str, Any]:
        """The answers, and the odds of every two."""
        return {
            "price_kind": None if self.rents is None else self.kind,
            "answers": [s.to_dict() for s in self.answers],
            "odds": [{"cheaper": a, "than": b, "chance": plain(p)} for (a, b), p in self.odds.items()],
            "settles": None if self.settles is None else {"measure": self.settles[0], "chance": plain(self.settles[1])},
            "shared": self.shared,
        }


def _chance(value: float) -> str:
    return "over 99 in 100" if value > 0.99 else f"{100 * value:.0f} in 100"


def _effect(s: Served) -> Effect | None:
    rates = s.cost_ends
    if s.bill.cost_rate is None or rates is None:
        return None
    (low, high), (least, most) = s.interval.ends, rates
    q = s.interval.quantiles
    scale = intervals.scale_of((q.high - q.low) / 2.0, q.nominal)
    return Effect(math.log(s.bill.cost_rate), math.log(most / least) / math.log(high / low), scale)


def _missing(s: Served) -> str:
    """Why there are no odds."""
    if not s.answered:
        return s.reason
    if s.bill.cost_rate is None:
        return "no odds without a price"
    return (
        "no odds: its range has no bill at the slow end" if s.load is not None else "no odds: it has no rate to carry"
    )


def _row(s: Served) -> tuple[str, ...]:
    if not s.answered:
        return s.question.device.name, "no answer", "-", "-", "-", "-"
    known, ends, bill = s.devices_range, s.cost_ends, s.bill
    many = f"{s.devices:,}" + ("" if known is None else f" ({known[0]} to {known[1] or s.too_few})")
    month = "not known" if bill.cost_per_month is None else units.rounded(bill.cost_per_month)
    if ends is not None:
        month += " ({} to {})".format(*(units.rounded(e * units.month) for e in ends))
    near = s.nearest
    said = "no point" if near is None or not near.near else units.percent(near.point.error, 0)
    watts = "not known" if bill.power is None else units.format(bill.power, "W", 3)
    each = "-" if bill.rent is None else units.rounded(bill.rent.rate * units.hour)
    return s.question.device.name, many, each, month, watts, said


def places(text: str) -> list[str]:
    """Devices one after the other, with commas between them.

    >>> places("H200, B200"), places("1,000 H100")
    (['H200', 'B200'], ['1,000 H100'])
    """
    return _SEPARATOR.split(text.strip())


def compare_devices(
    model: Model | str,
    devices: Sequence[Device | Node | Cluster | Machines | str],
    *,
    price: "str | Price | None" = None,
    **asked: Any,
) -> Compared:
    """The same job on several devices: how many of each, their bills at one kind of price, and the odds that one beats the other.

    Parameters
    ----------
    model : Model or str
        As in :func:`mlsysim.serve`.
    devices : sequence of str, Device, Node or Cluster
        What ``catalog.where`` reads, two at least.
    price : str, optional
        A kind of price, or one rent for all (default: the first kind that the catalogue has of all, by one seller where one
        sells them all). Where there is none, no bills are compared.
    **asked
        As in :func:`mlsysim.serve`.

    Returns
    -------
    Compared
        ``answers``, ``odds``, ``settles``; printed, it is a table.

    Raises
    ------
    InputError, UnknownNameError
        As in :func:`mlsysim.serve`; fewer than two devices, or one twice; a price of one device alone.

    Assumptions: those of :func:`mlsysim.serve`, and of the odds those of ``intervals.odds``: log errors as wide as the ranges, with a
    part that all devices share; the bill goes with a power of the times.

    >>> found = compare_devices("Llama-3.1-8B", ["H100", "H200"], rate=20, price="3 USD/h")
    >>> [s.question.device.name for s in found.answers]
    ['H100-SXM5-80GB', 'H200-SXM-141GB']
    """
    if isinstance(devices, str) or len(devices) < 2:
        raise InputError(
            f"compare_devices: devices = {str(devices)[:40]!r} must be two at least, as in ['H200', 'B200']"
        )
    found_at = [where(d) for d in devices]
    names = [p.device.name for p in found_at]
    if twice := sorted({n for n in names if names.count(n) > 1}):
        raise InputError(
            f"compare_devices: devices names {twice[0]} twice; an answer stands under its device's name: name each once"
        )
    rents = rents_of([p.device for p in found_at], price)
    found = [serve(model, p, **asked) for p in found_at]
    known: Sequence[Rent | None] = rents if rents is not None else [None] * len(found)
    priced = (replace(s, question=replace(s.question, rent=r)) for s, r in zip(found, known, strict=True))
    return Compared(tuple(priced), rents)
