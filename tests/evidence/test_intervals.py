"""Intervals: the quantiles hold what they promise on sources they have not seen, and say so when they cannot."""

import dataclasses
import datetime
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mlsysim import catalog, inference, intervals, training
from mlsysim.cli import main
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.evidence.cases import CLASSES as CASE_CLASSES
from mlsysim.evidence.cases import Case, CaseFile
from mlsysim.evidence.scoring import Report, ScoredRow, domains, leaving, ranges, summarise
from mlsysim.evidence.scoring.conformal import GroupedErrors, row_weight, vote
from mlsysim.evidence.scoring.leaving import Leaving
from mlsysim.parallelism import Plan


def sources(rng: Any, k: int, between: float, within: float) -> GroupedErrors:
    """k sources of unequal size whose rows share most of their error."""
    centres = rng.normal(0.1, between, k)
    return GroupedErrors(tuple(tuple(rng.normal(c, within, int(rng.integers(1, 30)))) for c in centres))


@pytest.mark.independent
@pytest.mark.parametrize(("between", "within"), [(0.2, 0.02), (0.05, 0.2), (0.1, 0.1)])
def test_a_new_source_falls_inside_as_often_as_promised(between: float, within: float) -> None:
    """Drawn here, not by the code under test: 400 worlds of 15 sources, one new source each."""
    rng = np.random.default_rng(7)
    held = []
    for _ in range(400):
        low, high = sources(rng, 15, between, within).quantiles(0.8)
        new = np.array(sources(rng, 1, between, within).groups[0])
        held.append(((low <= new) & (new <= high)).mean())
    assert 0.80 <= np.mean(held) <= 0.90  # 13 of 16 ranks when rows of a source do not differ


@pytest.mark.independent
@pytest.mark.parametrize("k", [9, 10, 14, 15, 19, 24, 29, 30, 100])
def test_one_row_a_source_holds_exactly_what_the_ranks_say(k: int) -> None:
    """The size of a further draw is equally likely to fall into each of the k + 1 gaps between k sizes.

    So the share held is the number of gaps below the end over k + 1: at least 80 %, and at most one gap more than needed.
    """
    low, high = GroupedErrors(tuple((float(i),) for i in range(1, k + 1))).quantiles(0.8)
    gaps = Fraction(int(high), k + 1)
    assert low == -high
    assert Fraction(4, 5) <= gaps < Fraction(4, 5) + Fraction(1, k + 1)
    assert high == math.ceil(Fraction(4, 5) * (k + 1))
    signs = tuple(((-1.0) ** i * i,) for i in range(1, k + 1))
    assert GroupedErrors(signs).quantiles(0.8) == (low, high)  # the size is ranked, not the sign


@pytest.mark.independent
def test_24_sources_hold_80_per_cent_of_new_ones_in_20000_worlds() -> None:
    """The ends by sorting here: the 20th of 24 sizes."""
    rng = np.random.default_rng(24)
    worlds = rng.normal(0.3, 1.0, (20_000, 25))
    past = np.sort(np.abs(worlds[:, :24]), axis=1)
    held = np.abs(worlds[:, 24]) <= past[:, 19]
    assert abs(held.mean() - 0.80) < 0.01
    for world in worlds[:20]:
        end = np.sort(np.abs(world[:24]))[19]
        assert GroupedErrors(tuple((float(e),) for e in world[:24])).quantiles(0.8) == (-end, end)


@pytest.mark.independent
def test_leaving_out_sources_of_one_row_prints_the_same_for_any_data() -> None:
    """Why ``coverage`` is no evidence of its own: it counts ranks. 24 draws of anything positive give 20 of 24."""
    rng = np.random.default_rng(5)
    for draws in (rng.lognormal(0, 1, 24), rng.uniform(0, 1, 24), np.arange(24.0)):
        assert GroupedErrors(tuple((float(e),) for e in draws)).coverage() == pytest.approx(20 / 24)


@pytest.mark.independent
def test_counting_rows_as_independent_would_promise_too_much() -> None:
    """One source with many rows: naive quantiles of all rows hold far less than their 80 % of a new source."""
    rng = np.random.default_rng(8)
    naive, ours = [], []
    for _ in range(300):
        groups = [rng.normal(c, 0.01, n) for c, n in zip(rng.normal(0, 0.2, 9), [200] + [2] * 8, strict=True)]
        rows = np.concatenate(groups)
        new = rng.normal(rng.normal(0, 0.2), 0.01)
        low, high = np.quantile(rows, [0.1, 0.9])
        naive.append(low <= new <= high)
        low, high = GroupedErrors(tuple(map(tuple, groups))).quantiles(0.8)
        ours.append(low <= new <= high)
    assert np.mean(naive) < 0.5 < 0.7 < np.mean(ours)


@pytest.mark.independent
def test_copies_of_a_row_change_nothing() -> None:
    one = GroupedErrors(tuple((e,) for e in np.linspace(-1, 1, 12)))
    many = GroupedErrors((*one.groups[:-1], one.groups[-1] * 50))
    assert one.quantiles() == many.quantiles()


@pytest.mark.independent
def test_coverage_leaves_each_source_out() -> None:
    """21 sources close together and one far away: that one is outside, and of the others at most four."""
    errors = GroupedErrors((*(((0.01 * i),) for i in range(-10, 11)), (9.0,)))
    assert errors.quantiles() == (-0.09, 0.09)
    assert 17 / 22 <= errors.coverage() <= 21 / 22
    twenty = GroupedErrors(tuple((float(i),) for i in range(20)))
    assert twenty.left_out()[0] == (-16.0, 16.0)  # of 1 to 19: the sixteenth
    assert twenty.left_out()[19] == (-15.0, 15.0)  # of 0 to 18


def test_too_few_sources_are_refused() -> None:
    with pytest.raises(InputError, match=r"too few.*9 are needed"):
        GroupedErrors(((0.1,), (0.2,), (0.3,))).quantiles(0.8)
    eight = tuple((float(i),) for i in range(8))
    with pytest.raises(InputError, match="too few"):
        GroupedErrors(eight).quantiles(0.8)
    assert GroupedErrors((*eight, (8.0,))).quantiles(0.8) == (-7.0, 7.0)
    with pytest.raises(InputError, match="nominal"):
        GroupedErrors(((0.1,),) * 30).quantiles(1.0)


@pytest.mark.independent
def test_the_quantiles_are_order_statistics() -> None:
    """19 sources of one row: weights 1/20, one of them beyond the end, 20 % outside: the fourth from the end."""
    errors = GroupedErrors(tuple((float(i),) for i in range(19)))
    assert errors.quantiles(0.8) == (-15.0, 15.0)
    assert errors.quantiles(0.9) == (-17.0, 17.0)


@pytest.mark.independent
def test_twice_and_half_are_equally_far_off() -> None:
    assert intervals.log_error(2.0, 1.0) == -intervals.log_error(1.0, 2.0) == pytest.approx(math.log(2))
    assert intervals.log_error(1.01, 1.0) == pytest.approx(0.01, rel=0.01)


@pytest.mark.independent
def test_an_end_of_a_range_has_that_quantile_as_its_error() -> None:
    for q in (-0.3, 0.0, 0.2):
        assert intervals.log_error(7.0, intervals.interval_end(7.0, q)) == pytest.approx(q, abs=1e-12)


@pytest.mark.independent
def test_the_weights_of_all_rows_leave_one_vote_for_the_next_source() -> None:
    sizes = (1, 5, 200)
    assert sum(n * row_weight(len(sizes), n) for n in sizes) == pytest.approx(3 / 4)
    assert row_weight(3, 1) == 1 / 4
    assert row_weight(3, 200) == row_weight(3, 1) / 200


WIDE = intervals.error_quantiles()


@pytest.mark.parametrize("name", sorted(CASE_CLASSES))
def test_the_shipped_ranges_hold_what_they_promise_and_not_by_being_wide(name: str) -> None:
    """Issue 32: 70 to 90 % of sources and of domains that had no vote; where we do not know, nothing is held.

    Of few sources the share is good to two standard errors only.
    """
    found = intervals.checks(name)
    for what in ("sources", "domains"):
        slack = 2.0 * found.get(f"error_{what}", 0.25) if found[f"judged_{what}"] < 20 else 0.05
        assert found[f"coverage_{what}"] >= 0.70 - slack - found["unknown"]
        assert found[f"coverage_{what}"] <= 0.90 + max(slack, 0.09)
    assert WIDE[name].nominal == 0.8 and WIDE[name].groups >= 4


def test_every_class_has_a_range() -> None:
    assert set(intervals.class_names()) == set(CASE_CLASSES) == set(WIDE)
    for ask in (intervals.seen, intervals.checks, intervals.came):
        with pytest.raises(UnknownNameError):
            ask("weather")
    with pytest.raises(UnknownNameError):
        intervals.interval("weather", 1.0)
    with pytest.raises(InputError, match="predicted"):
        intervals.interval("training_step", 0.0)


PLACE = {"generation": "Hopper", "kind": "dense", "precision": "16-bit", "phase": "pretrain"}


def test_an_answer_says_on_which_ground_it_lies() -> None:
    known = intervals.interval("training_step", 10.0, PLACE)
    assert (known.domain, known.missing, known.where) == ("known", (), "in domain")
    assert f"{known.quantiles.near} of them here" in str(known) and known.quantiles.near > 5
    for part, value in (("generation", "Volta"), ("kind", "sparse"), ("precision", "2-bit"), ("phase", "distilling")):
        new = intervals.interval("training_step", 10.0, PLACE | {part: value})
        assert (new.domain, new.missing) == ("new", (f"{part} {value!r}",))
        assert f"out of domain: no source covers {part} {value!r}" in str(new) and new.to_dict()["domain"] == "new"
        assert new.low <= known.low and known.high <= new.high
        assert new.ends == pytest.approx(intervals.interval("training_step", 10.0).ends)  # where nobody said where
    assert intervals.interval("training_step", 10.0).domain == "new"
    step = training.training_step("Llama-3.1-8B", Plan(tp=8), "V100", global_batch=16, seq=2048, precision="fp16")
    if step.efficiencies.name == "calibrated":
        assert "no source covers generation 'Volta'" in str(step.interval()) and "out of domain" in str(step.explain())


@pytest.mark.independent
def test_ground_is_known_only_if_its_left_out_rows_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources of six votes err in one place by half as much as those of the class, and in another by twice as much: ends by hand."""
    entry = {
        "spread": 0.2, "spreads": 1.5, "groups": 12, "rows": 99, "coverage_sources": 0.8,
        "places": {"a | x |  | ": [0.1, 6.0, 8], "b | x |  | ": [0.4, 6.0, 8]},
        "seen": {"generation": ["a", "b"], "kind": ["x", "y"]},
    }  # fmt: skip
    shared = {"nominal": 0.8, "spreads": 1.5, "date": "2026-11-23", "sources": 12, "rows": 99}
    monkeypatch.setattr(intervals, "_file", lambda: {"ranges": shared, "made": entry})
    intervals.error_quantiles.cache_clear(), intervals.seen.cache_clear(), intervals.class_names.cache_clear()
    try:
        found = {
            (g, k): intervals.interval("made", 1.0, {"generation": g, "kind": k, "precision": "", "phase": ""})
            for g, k in (("a", "x"), ("b", "x"), ("a", "y"), ("c", "x"))
        }
    finally:
        intervals.error_quantiles.cache_clear(), intervals.seen.cache_clear(), intervals.class_names.cache_clear()
    drawn = {size: size**0.6 * 0.2**0.4 for size in (0.1, 0.4)}  # six votes against four
    assert math.log(found["a", "x"].high) == pytest.approx(1.5 * drawn[0.1])
    assert math.log(found["b", "x"].high) == pytest.approx(1.5 * drawn[0.4])
    assert math.log(found["a", "y"].high) == math.log(found["c", "x"].high) == pytest.approx(1.5 * 0.2)
    assert [f.domain for f in found.values()] == ["known", "new", "new", "new"]
    assert "its own sources err more than strangers do" in found["b", "x"].where
    assert found["a", "y"].missing == ("these parts together",) and found["c", "x"].missing == ("generation 'c'",)


@pytest.mark.independent
def test_a_range_wider_than_two_and_a_half_says_that_we_do_not_know() -> None:
    def made(end: float) -> intervals.Interval:
        q = intervals.ErrorQuantiles("made", "new", 0.8, -end, end, 9, 9, 0.8, "2026-11-23")
        return intervals.Interval(1.0, math.exp(-end), math.exp(end), q, ("a thing",))

    says = "we do not know"
    for end, unknown in ((math.log(2.49), False), (math.log(2.51), True)):
        found = made(end)
        assert found.unknown is found.to_dict()["unknown"] is found.quantiles.to_dict()["unknown"] is unknown
        texts = (str(found), found.whose, found.words("s"), " ".join(" ".join(found.quantiles.summary()).split()))
        assert [says in text for text in texts] == [unknown] * 4
    row = ScoredRow("1", "A", 1.0, 1.0, 0.0, True, "", (), low=0.3, high=3.0, domain="new")
    near = dataclasses.replace(row, id="2", low=0.5, high=2.0)
    assert (row.unknown, row.inside) == (True, False) and (near.unknown, near.inside) == (False, True)
    s = summarise([row, near], [0.1, 0.1])
    assert (s.unknown, s.coverage) == (0.5, 0.5) and "of 50.0 % we do not know" in " ".join(str(s).split())


def test_arithmetic_has_a_range_of_its_own() -> None:
    counted = intervals.interval(
        "memory", 1e9, {"generation": "", "kind": "kv_cache", "precision": "16-bit", "phase": ""}
    )
    measured = intervals.interval(
        "memory", 1e9, {"generation": "", "kind": "training_peak", "precision": "16-bit", "phase": ""}
    )
    assert counted.quantiles.width < 1.1 < measured.quantiles.width
    assert "between x0.99" in str(counted) and "between x0.8" in str(measured)


def test_every_command_that_prints_a_range_says_that_we_do_not_know(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With ranges of any width too wide, each says so; with none, nobody does."""
    commands = (
        "train --model Llama-3.1-8B --node DGX-H100 --tp 8 --global-batch 64 --seq 8192",
        "serve --model Llama-3.1-8B --device H100 --batch 8 --input-len 1000 --output-len 100",
        "plan --model Llama-3.1-8B --node DGX-H100 --global-batch 64 --seq 4096 --max-cp 1",
        "frontier --model Llama-3.1-8B --device H200 --input-len 1024 --output-len 1024",
    )

    def said(limit: float) -> list[bool]:
        monkeypatch.setattr(intervals, "LARGEST", limit)
        found = []
        for command in commands:
            main(command.split())
            found.append("we do not know" in " ".join(capsys.readouterr().out.split()))
        return found

    assert said(1.001) == [True] * len(commands) and said(1e9) == [False] * len(commands)


# Spreads, by hand


def _left(name: str, *errors: tuple[str, str, float]) -> ranges.Left:
    """Rows of source, place and error; the domains of the first parts, twice as far off."""
    rows = tuple(ranges.LeftError(f"{name}{i}", s, e, place) for i, (s, place, e) in enumerate(errors))
    by: dict[str, list[ranges.LeftError]] = {}
    for e in rows:
        by.setdefault(f"generation: {e.place}", []).append(dataclasses.replace(e, error=2.0 * e.error))
    return ranges.Left(name, rows, {label: tuple(each) for label, each in by.items()}, {"generation": ("a",)})


@pytest.mark.independent
def test_four_fifths_of_a_source_are_no_further_off_than_its_size() -> None:
    """Of eleven the ninth, which neither its sign nor two runs that went wrong make larger; of one and two rows the last."""
    errors = [0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.7, -0.8, 0.9, 4.0, -5.0]
    rows = [ranges.LeftError(str(i), "A", e, "") for i, e in enumerate(errors)]
    assert ranges.sizes(rows) == {"A": (0.9, pytest.approx(11 / 13))}
    assert [ranges.sizes(rows[:n])["A"] for n in (1, 2)] == [(0.1, pytest.approx(1 / 3)), (0.2, 0.5)]
    assert ranges.sizes([ranges.LeftError("1", "A", 0.0, "")])["A"][0] > 0  # nothing is printed to more digits


@pytest.mark.independent
def test_the_middle_of_sizes_is_that_of_their_logarithms_by_votes() -> None:
    """Sources of 2, 2 and 18 rows have 0.5, 0.5 and 0.9 of a vote."""
    assert [vote(n) for n in (2, 18)] == [0.5, 0.9]
    logs = 0.5 * math.log(0.1) + 0.5 * math.log(0.4) + 0.9 * math.log(0.2)
    assert ranges.middle([(0.1, 0.5), (0.4, 0.5), (0.2, 0.9)]) == (
        pytest.approx(math.exp(logs / 1.9)),
        pytest.approx(1.9),
    )


@pytest.mark.independent
def test_a_class_takes_the_wider_of_sets_and_domains_and_is_drawn_to_the_others() -> None:
    """Six sources of size 0.1, without their domains 0.2; the other class has twelve of 0.4, without them 0.8. One row has a third of a vote."""
    assert ranges.wider_spread(0.2, 0.1) == 0.2 and ranges.wider_spread(0.2, 0.5) == 0.5
    lefts = {
        "gemm": _left("gemm", *((f"S{i}", "a", 0.1) for i in range(6))),
        "attention": _left("attention", *((f"T{i}", "b", 0.4) for i in range(12))),
    }
    spreads = ranges.Spreads(lefts)
    approx = pytest.approx
    assert spreads.own == {"gemm": (approx(0.2), approx(2.0)), "attention": (approx(0.8), approx(4.0))}
    gemm = math.exp(
        (2 * math.log(0.2) + 4 * math.log(0.8)) / 6
    )  # all classes have four votes, as has a class for a place
    assert spreads.of_class("gemm") == pytest.approx(gemm)
    assert spreads.of("gemm")("a") == pytest.approx(math.exp((2 * math.log(0.1) + 4 * math.log(gemm)) / 6))
    assert spreads.places("gemm") == {"a": (approx(0.1), approx(2.0), 6)}
    assert spreads.of("gemm")("elsewhere") == pytest.approx(gemm)
    narrow = dataclasses.replace(lefts["gemm"], domains={})
    assert ranges.Spreads({"gemm": narrow}).own["gemm"] == (approx(0.1), approx(2.0))


@pytest.mark.independent
def test_who_is_judged_has_no_vote_in_any_class() -> None:
    """A source of size 3 in both classes; without it each has only small ones, and it is held nowhere."""
    far, near = ("FAR", "a", 3.0), [(f"S{i}", "a", 0.1 * (-1) ** i) for i in range(10)]
    lefts = {name: _left(name, far, *near) for name in ("gemm", "attention")}
    without = ranges.Spreads(lefts, "FAR")
    assert {round(votes, 9) for _, votes in without.own.values()} == {round(10 / 3, 9)}
    assert without.of("gemm")("a") < ranges.Spreads(lefts).of("gemm")("a")
    standard = ranges.in_spreads(lefts)
    assert standard["gemm", "FAR"] == [pytest.approx(3.0 / without.of("gemm")("a"))]
    assert ranges.quantile(standard, source="FAR") < ranges.quantile(standard) or ranges.quantile(standard) < 3.0
    held = ranges.held_sources(lefts, standard)
    assert held["gemm"]["FAR"] == held["attention"]["FAR"] == 0.0 and held["gemm"]["S1"] == 1.0
    rows = frozenset(e.id for e in lefts["gemm"].domains["generation: a"])
    assert "gemm" not in ranges.Spreads(lefts, rows=rows).own  # all its rows lie in the judged domain


@pytest.mark.independent
def test_a_class_with_many_sources_moves_to_a_width_of_its_own() -> None:
    """Nine sources of one class end at 9 spreads; with nine more all end at 15, and the class halfway between by logarithms."""
    few = {("a", f"A{i}"): [float(i)] for i in range(1, 10)}
    all_ = few | {("b", f"B{i}"): [float(i)] for i in range(10, 20)}
    common = ranges.quantile(all_)
    assert common == 16.0  # the sixteenth of nineteen
    assert ranges.quantile(all_, "a") == pytest.approx((8.0 * 16.0) ** 0.5)  # the eighth of nine
    assert ranges.quantile(all_, "a", "A9") == ranges.quantile(all_, source="A9")  # eight are too few


@pytest.mark.independent
def test_a_domain_is_judged_without_its_rows_and_by_its_sources() -> None:
    """Domain b has one source far off of one row and one near of nine: half of it is held, not nine tenths."""
    near = [(f"S{i}", "a", 0.1 * (-1) ** i) for i in range(12)]
    lefts = {"gemm": _left("gemm", *near, ("B1", "b", 2.0), *[("B2", "b", 0.02)] * 9)}
    held = ranges.held_domains(lefts, ranges.in_spreads(lefts))
    assert held["gemm"]["generation: b"] == 0.5


@pytest.mark.independent
def test_a_new_source_of_a_small_class_is_held_as_often_as_promised() -> None:
    """60 worlds of four classes of 3 to 30 sources whose spreads differ by three, drawn here; half of the rows in places of their own."""
    rng = np.random.default_rng(32)
    inside: dict[int, list[float]] = {}
    for _ in range(60):
        lefts, coming = {}, {}
        for name, k in (("gemm", 3), ("attention", 6), ("memory", 12), ("scalar", 30)):
            spread = rng.lognormal(math.log(0.2), 0.35)
            drawn = [(f"{name}{i}", f"p{i % 2}", rng.normal(0.0, spread)) for i in range(k + 1)]
            rows = [(s, p, float(rng.normal(c, spread / 2))) for s, p, c in drawn for _ in range(5)]
            new = f"{name}{k}"
            lefts[name] = dataclasses.replace(_left(name, *(r for r in rows if r[0] != new)), domains={})
            coming[name] = [(p, e) for s, p, e in rows if s == new]
        standard, spreads = ranges.in_spreads(lefts), ranges.Spreads(lefts)
        for n, (name, rows) in enumerate(coming.items()):
            inside.setdefault(n, []).append(
                np.mean([abs(e) <= ranges.quantile(standard, name) * spreads.of(name)(p) for p, e in rows])
            )
    assert 0.76 <= np.mean([np.mean(shares) for shares in inside.values()]) <= 0.88
    assert all(0.68 <= np.mean(shares) <= 0.92 for shares in inside.values())


@pytest.mark.independent
def test_a_range_too_wide_to_say_anything_holds_nothing() -> None:
    """Errors of 0.5 and 1.0 in turn: ranges that would hold them reach beyond ln 2.5, and hold none."""
    assert [ranges.held(0.1, end) for end in (0.2, 0.05, 0.91, 0.92)] == [1.0, 0.0, 1.0, 0.0]
    lefts = {"gemm": _left("gemm", *((f"S{i}", "a", 0.5 + 0.5 * (i % 2)) for i in range(12)))}
    assert set(ranges.held_sources(lefts, ranges.in_spreads(lefts))["gemm"].values()) == {0.0}
    found = ranges.entries(lefts, datetime.date(2026, 11, 23))["gemm"]
    assert (found["unknown"], found["coverage_sources"]) == (1.0, 0.0)


@pytest.mark.independent
def test_sets_are_left_out_whole_and_a_source_is_in_none_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three sets the fits see the other two, less the sources of the judged one; of a single set the other sources."""
    kind, seen = CASE_CLASSES["gemm"], []
    cases = tuple(
        Case(str(i), group, 1.0, 0.1, {}, set=order)
        for i, (group, order) in enumerate(
            (("A", "first"), ("B", "first"), ("A", "second"), ("C", "second"), ("D", "third"))
        )
    )

    def fit(name: str, kept: Any) -> dict[str, Any]:
        seen.append("".join(c.id for c in kept))
        return {}

    monkeypatch.setattr(leaving, "fit", fit)
    report = leaving.by_set(CaseFile("x", kind, cases))
    assert [r.id for r in report.rows] == ["0", "1", "2", "3", "4"]
    assert seen == ["34", "14", "0123"]
    seen.clear()
    leaving.by_set(CaseFile("x", kind, cases[:2]))
    assert seen == ["1", "0"]
    seen.clear()  # three of four sources are of one set: each is left out alone, the fourth with its set
    most = tuple(
        dataclasses.replace(c, id=str(i), group=g, set=o)
        for i, (c, g, o) in enumerate(zip(cases[:4], "ABCD", ("second",) * 3 + ("third",), strict=True))
    )
    leaving.by_set(CaseFile("x", kind, most))
    assert seen == ["123", "023", "013", "012"]


@pytest.mark.independent
def test_what_came_is_judged_by_what_was_there_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve sources of the first set err by 0.1, predicted 1.1; of the second, one measured 1.0 is held and one of 3.0 is not."""
    kind = CASE_CLASSES["gemm"]
    first = tuple(
        Case(f"f{i}", f"F{i}", math.exp(0.1 * (i % 3)), 0.1, {"device": "H100"}, set="first") for i in range(12)
    )
    second = tuple(Case(f"s{m}", f"S{m}", m, 0.1, {"device": "H100"}, set="second") for m in (1.0, 3.0))
    fits = []

    def scored(file: CaseFile, _: Any) -> Report:
        rows = tuple(
            ScoredRow(c.id, c.group, c.measured, 1.1, 1.1 / c.measured - 1.0, True, "", ()) for c in file.cases
        )
        return Report("gemm", "calibrated", rows, summarise(rows, [0.1] * len(rows)))

    for module in (ranges, leaving):
        monkeypatch.setattr(module, "fit", lambda name, cases: fits.append({c.set for c in cases}) or {})
        monkeypatch.setattr(module, "score_with", scored)
    found = ranges.foretold({"gemm": CaseFile("x", kind, first + second)})["gemm"]
    assert list(found) == ["second"] and {"second"} not in fits and {"first", "second"} not in fits
    assert (found["second"].held, found["second"].sources) == (0.5, 2)
    assert found["second"].error == pytest.approx((0.1 + (1 - 1.1 / 3.0)) / 2)
    assert found["second"].promised == pytest.approx(np.mean([abs(1.1 / c.measured - 1.0) for c in first]))


def test_a_domain_that_holds_most_is_not_left_out() -> None:
    assert ranges._most(["a", "a", "b"], ["a", "a", "b", "c"]) is True
    assert ranges._most(["a", "a", "a"], ["a", "a", "a", "b", "c"]) is False  # most rows, not most sources


@pytest.mark.independent
def test_a_domain_is_small_or_large_among_rows_that_are_asked_about() -> None:
    """Four measured figures beside six of arithmetic: what holds all four is no domain, what holds two is one."""
    rows = [(f"c{i}", f"C{i}", "closed_form", "mtbf") for i in range(6)]
    rows += [(f"e{i}", f"E{i}", "empirical", "mfu" if i < 2 else "cost") for i in range(4)]
    cases = tuple(Case(i, source, 1.0, 0.1, {"basis": basis, "quantity": kind}) for i, source, basis, kind in rows)
    file = CaseFile("x.csv", CASE_CLASSES["scalar"], cases)

    def report(some: tuple[Case, ...]) -> Report:
        scored = tuple(ScoredRow(c.id, c.group, 1.0, 2.0, 1.0, True, "", ()) for c in some)
        return Report("scalar", "calibrated", scored, summarise(scored, [0.1] * len(scored)))

    every = {label: report(tuple(some)) for label, some in domains.domains_left_out("scalar", cases).items()}
    assert {"phase: empirical", "phase: closed_form", "kind: mtbf"} < set(every)
    found = ranges.left_errors(Leaving(file, {}, *[report(cases)] * 3, every))
    assert set(found.domains) == {"kind: cost", "kind: mfu"}
    assert [e.counted for e in found.sets] == [True] * 6 + [False] * 4


def test_a_step_has_a_range_when_its_efficiencies_have_a_record() -> None:
    def step(efficiencies: training.Efficiencies) -> training.TrainingStep:
        cluster = catalog.cluster("DGX-H100", 16)
        plan = Plan(tp=8, dp=16)
        return training.training_step(
            "Llama-3.1-8B", plan, cluster, global_batch=128, seq=8192, efficiencies=efficiencies
        )

    known = step(training.efficiencies_of("H100"))
    low, high = known.interval().ends
    assert low < known.time < high
    assert "expected between" in str(known.explain())
    assert known.to_dict()["interval_s"] == [low, high]
    plain = step(training.efficiencies_of("H100", efficiencies="datasheet"))
    assert "expected between" not in str(plain.explain())
    assert plain.to_dict()["interval_s"] is None
    with pytest.raises(InputError, match='efficiencies="calibrated"'):
        plain.interval()


@pytest.mark.independent
def test_an_answer_has_a_range_when_its_efficiencies_have_a_record() -> None:
    """The ends are the prediction over the factors e^q of the shipped quantiles, each by the number itself."""
    known = inference.generate(
        inference.deploy("Llama-3.1-8B", "H100", efficiencies="calibrated"),
        input_len=1000,
        output_len=100,
    )
    for result, value in ((known.prefill, known.ttft), (known.decode, known.itl), (known, known.e2e)):
        q = result.interval().quantiles
        low, high = result.interval().ends
        assert (low, high) == pytest.approx((value / math.exp(q.high), value / math.exp(q.low)))
        assert low < value < high
        assert str(result.explain()).count("expected between") == 1
        assert str(result.interval()) in str(result.explain())
        assert result.to_dict()["interval_s"] == [low, high]
    plain = inference.generate(
        inference.deploy("Llama-3.1-8B", "H100", efficiencies="bound"), input_len=1000, output_len=100
    )
    for without in (plain, plain.prefill, plain.decode):
        assert "expected between" not in str(without.explain())
        assert without.to_dict()["interval_s"] is None
        with pytest.raises(InputError, match='efficiencies="calibrated"'):
            without.interval()


def test_many_answers_have_many_ranges() -> None:
    served = inference.deploy("Llama-3.1-8B", "H100", efficiencies="calibrated")
    steps = inference.decode_step(served, context=np.array([512.0, 4096.0]), batch=8)
    low, high = steps.interval().ends
    one = inference.decode_step(served, context=4096.0, batch=8).interval()
    assert (low[1], high[1]) == pytest.approx(one.ends)  # type: ignore[index]
    assert "expected between" not in str(steps.explain())


@pytest.mark.published
def test_shipped_steps_of_others_fall_into_their_ranges() -> None:
    """18 published steps of five sources; 80 % are promised on average over sources, though these were in the fit."""
    from mlsysim.evidence.scoring import score
    from mlsysim.evidence.studies.shipped import training_cases

    rows = [r for r in score(training_cases(), "calibrated").rows if r.predicted is not None]
    assert len(rows) >= 15
    assert np.mean([bool(r.inside) for r in rows]) >= 0.6


# A jackknife, not data that were set apart


def _held(bias: Callable[[int], float], sources: int, worlds: int = 1500) -> float:
    """Share of new sources that are held, where constants fitted to n sources are their mean plus a bias that depends on n."""
    errors = np.random.default_rng(5).standard_normal((worlds, sources + 1))
    held = 0
    for past, new in zip(errors[:, :-1], errors[:, -1], strict=True):
        left = [(past.sum() - x) / (sources - 1) + bias(sources - 1) - x for x in past]
        low, high = GroupedErrors(tuple((float(e),) for e in left)).quantiles()
        held += low <= past.mean() + bias(sources) - new <= high
    return held / worlds


@pytest.mark.independent
@pytest.mark.parametrize("sources", [9, 18, 38])
def test_the_range_holds_about_what_it_promises_where_a_source_moves_the_fit_little(sources: int) -> None:
    assert 0.77 < _held(lambda n: 0.0, sources) < 0.88


@pytest.mark.independent
def test_the_range_has_no_guarantee_for_any_fit() -> None:
    """A fit that does one thing with an even and another with an odd number of sources, in the manner of Barber and others (2021)."""
    assert _held(lambda n: 100.0 * (n % 2), 11) == 0.0  # ten fit well, eleven do not, and none of the errors says so


@pytest.mark.independent
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("plans", [False, True])
def test_what_two_devices_or_plans_share_of_an_error_is_found_again(share: float, plans: bool) -> None:
    """Drawn here: an error of each question and source, and one of each device or plan in it; rows of one make no pair."""
    rng, cases, errors = np.random.default_rng(3), [], []
    for source in range(40):
        scale = 0.05 * (1 + source % 5)  # sources whose errors are larger count no more
        for question in range(20):
            u = rng.normal(0, scale * share**0.5)
            for device in ("A", "B"):
                name = f"{source} {question} {device}"
                inputs: dict[str, Any] = {"model": "m", "batch": question}
                inputs |= (
                    {"tp": device, "note": name} if plans else {"device": device, "peak_flops": 1.0 + (device == "A")}
                )
                cases.append(Case(id=name, group=f"S{source}", measured=1.0, tolerance=None, inputs=inputs))
                errors.append(
                    ranges.LeftError(name, f"S{source}", u + rng.normal(0, scale * (1 - share) ** 0.5), "known")
                )
    asked = (ranges._PLAN, "shared_plans") if plans else (ranges._MACHINE, "shared")
    found = ranges.shared_error(cases, errors, *asked)
    assert found[asked[1]] == pytest.approx(share, abs=0.06)
    assert (found[f"{asked[1]}_sources"], found[f"{asked[1]}_pairs"]) == (40, 800)
    assert ranges.shared_error([c for c in cases if c.id.endswith("A")], errors, *asked) == {}


@pytest.mark.independent
@pytest.mark.parametrize("nominal", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("skewed", [False, True])
def test_nobody_expects_less_than_with_the_range_in_which_he_believes(nominal: float, skewed: bool) -> None:
    """Drawn here, of a belief that is normal or lopsided: no other ends on a grid cost less than its own quantiles."""
    rng = np.random.default_rng(11)
    draws = rng.exponential(0.4, 20_000) if skewed else rng.normal(0.1, 0.3, 20_000)
    honest = np.quantile(draws, [(1 - nominal) / 2, (1 + nominal) / 2])
    measured = np.exp(draws)

    def mean_score(low: float, high: float) -> float:
        return float(np.mean(intervals.interval_score(math.exp(low), math.exp(high), measured, nominal)))

    least = mean_score(*honest)
    for low_by in (-0.2, -0.05, 0.0, 0.05, 0.2):
        for high_by in (-0.2, -0.05, 0.0, 0.05, 0.2):
            if (low_by, high_by) != (0.0, 0.0) and honest[0] + low_by < honest[1] + high_by:
                assert mean_score(honest[0] + low_by, honest[1] + high_by) > least
    # By hand: the ends 4 and 6 of 80 %, and 7.8 measured; then a range that holds, which costs its width alone.
    assert intervals.interval_score(4.0, 6.0, 7.8, 0.8) == pytest.approx(math.log(1.5) + 10 * math.log(7.8 / 6))
    assert intervals.interval_score(4.0, 6.0, 5.0, 0.8) == pytest.approx(math.log(1.5))
