"""Intervals: the quantiles hold what they promise on sources they have not seen, and say so when they cannot."""

import dataclasses
import math
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made import left_out

from mlsysim import catalog, inference, intervals, training
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.evidence import rows as shipped_rows
from mlsysim.evidence.cases import CLASSES as CASE_CLASSES
from mlsysim.evidence.cases import Case, CaseFile
from mlsysim.evidence.scoring import Report, ScoredRow, domains, ranges, summarise
from mlsysim.evidence.scoring.conformal import MIN_GROUPS, GroupedErrors, most_held, row_weight
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
@pytest.mark.parametrize("k", [10, 20])
def test_sources_whose_rows_do_not_resemble_each_other_are_held_more_than_promised(k: int) -> None:
    """200 worlds of k sources of 40 rows that share nothing, drawn here: (k + 1) / k of the promise, not the promise."""
    rng = np.random.default_rng(k)
    held = []
    for _ in range(200):
        world = np.abs(rng.normal(0.0, 1.0, (k, 40)))
        _, high = GroupedErrors(tuple(map(tuple, world))).quantiles(0.8)
        held.append((np.abs(rng.normal(0.0, 1.0, 1000)) <= high).mean())
    assert np.mean(held) == pytest.approx(0.8 * (k + 1) / k, abs=0.01)
    assert most_held(k) == pytest.approx(0.8 * (k + 1) / k) and most_held(k, 0.5) == pytest.approx(0.5 * (k + 1) / k)


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


KNOWN, NEW = (intervals.error_quantiles(domain) for domain in ("known", "new"))
CLASSES = sorted(NEW)


@pytest.mark.parametrize("name", CLASSES)
def test_the_shipped_ranges_hold_what_they_promise(name: str) -> None:
    """On left-out sources, on domains left out whole, and on what was published later; the new range is nowhere narrower."""
    found, new = intervals.checks(name), NEW[name]
    assert found["coverage_sources"] >= 0.75
    assert found["coverage_domains"] >= 0.70
    assert found.get("coverage_later", 1.0) >= 0.60
    assert new.groups >= MIN_GROUPS and new.nominal == 0.8
    for known in (KNOWN[name],) if name in KNOWN else ():
        assert known.groups >= MIN_GROUPS and new.low <= known.low < known.high <= new.high
        assert 1.0 < known.width <= new.width


KERNELS = {"attention", "collective", "gemm"}  # hold more than that: chapter 13 says why they are not made narrower


@pytest.mark.parametrize("name", CLASSES)
def test_the_shipped_ranges_do_not_hold_by_being_wide(name: str) -> None:
    """Issue 15: at most 90 % of left-out sources and 92 % of left-out domains. What a pool made is judged by the pool."""
    found = intervals.checks(name)
    assert found["coverage_sources"] <= (0.95 if name in KERNELS else 0.90)
    assert found["coverage_domains"] <= (1.00 if name in KERNELS else 0.92)
    pooled = len(NEW[name].pool) > 1
    assert ("coverage_pool_domains" in found) == ("coverage_pool_sources" in found) == pooled
    if pooled:
        assert NEW[name].coverage == found["coverage_pool_domains"] <= 0.96
        assert found["coverage_pool_sources"] <= 0.92 and found["judged_pool_sources"] > found["judged_sources"]
    else:
        assert NEW[name].coverage == found["coverage_domains"]
    width = {"training_step": 1.35, "inference": 1.6}.get(name)
    assert width is None or KNOWN[name].width <= width


def test_the_shipped_new_range_is_the_wider_of_two_and_its_check_has_an_error() -> None:
    told = [name for name in CLASSES if "domains_alone" in intervals.checks(name)]
    assert set(told) >= {"gemm", "attention", "collective", "memory", "scalar"}
    for name in told:
        found = intervals.checks(name)
        known = KNOWN[name].high if name in KNOWN else 0.0
        assert NEW[name].high == pytest.approx(max(known, found["domains_alone"]))
        assert found["coverage_domains_alone"] <= found["coverage_domains"] + 1e-9
        assert ("error_sources" in found) == (found["judged_sources"] > 1) and found.get("error_sources", 0.0) < 0.12
    own = (_left(known=12, domains=9),)
    assert ranges.levels(own).domains == ranges.levels(own).new == pytest.approx((-0.8, 0.8))
    small = ranges.held_domains(own, alone=True)
    assert ranges.held_domains(own).keys() == small.keys()


def test_every_class_has_a_range_or_a_reason() -> None:
    from mlsysim.evidence.cases import CLASSES

    assert set(intervals.class_names()) | set(intervals.refusals()) == set(CLASSES)
    for name, why in intervals.refusals().items():
        assert "are needed" in why
        with pytest.raises(InputError, match="has none"):
            intervals.interval(name, 1.0)
    for ask in (intervals.seen, intervals.checks):
        with pytest.raises(UnknownNameError):
            ask("weather")
    with pytest.raises(UnknownNameError):
        intervals.interval("weather", 1.0)
    with pytest.raises(UnknownNameError):
        intervals.error_quantiles("wide")
    with pytest.raises(InputError, match="predicted"):
        intervals.interval("training_step", 0.0)


PLACE = {"generation": "Hopper", "kind": "dense", "precision": "16-bit", "phase": "pretrain"}


def test_an_answer_says_on_which_ground_it_lies() -> None:
    known = intervals.interval("training_step", 10.0, PLACE)
    assert (known.domain, known.missing, known.where) == ("known", (), "in domain")
    for part, value in (("generation", "Volta"), ("kind", "sparse"), ("precision", "2-bit"), ("phase", "distilling")):
        new = intervals.interval("training_step", 10.0, PLACE | {part: value})
        assert (new.domain, new.missing) == ("new", (f"{part} {value!r}",))
        assert f"out of domain: no source covers {part} {value!r}" in str(new) and new.to_dict()["domain"] == "new"
        assert new.low <= known.low and known.high <= new.high
    assert intervals.interval("training_step", 10.0).domain == "new"  # nobody said where
    step = training.training_step("Llama-3.1-8B", Plan(tp=8), "V100", global_batch=16, seq=2048, precision="fp16")
    if step.efficiencies.name == "calibrated":
        assert "no source covers generation 'Volta'" in str(step.interval()) and "out of domain" in str(step.explain())


def test_arithmetic_has_a_range_of_its_own() -> None:
    counted = intervals.interval(
        "memory", 1e9, {"generation": "", "kind": "kv_cache", "precision": "16-bit", "phase": ""}
    )
    measured = intervals.interval(
        "memory", 1e9, {"generation": "", "kind": "training_peak", "precision": "16-bit", "phase": ""}
    )
    assert counted.quantiles.width < 1.1 < measured.quantiles.width
    assert "between x0.99" in str(counted) and "between x0.80 and x1.25" in str(measured)


# Two levels, by hand


def _left(name: str = "gemm", known: int = 12, domains: int = 10) -> ranges.Left:
    """Sources with errors 0.01, -0.02, 0.03 ..., and domains with ten times as much."""
    sources = tuple(ranges.LeftError(f"s{i}", f"S{i}", 0.01 * i * (-1) ** i, "known") for i in range(1, known + 1))
    whole = {
        f"generation: {i}": (ranges.LeftError(f"s{i}", f"S{i}", 0.1 * i * (-1) ** i, "known"),)
        for i in range(1, domains + 1)
    }
    return ranges.Left(name, sources, whole, {"generation": ("a",)})


@pytest.mark.independent
def test_each_level_is_an_order_statistic_of_its_own_votes() -> None:
    """12 sources: 13 votes, one beyond the end, 20 % are 2.6 of them: the eleventh size. 10 domains: the ninth."""
    found = ranges.levels([_left()])
    assert found.known == pytest.approx((-0.11, 0.11))
    assert found.new == pytest.approx((-0.9, 0.9))
    assert found.votes == {"known": 12, "new": 10, "counted": 0}
    assert ranges.levels([_left(known=8)]).known is None and ranges.levels([_left(domains=8)]).new is None
    pooled = ranges.levels([_left(known=8), _left("attention", known=8)])
    assert pooled.votes["known"] == 16 and pooled.known is not None


@pytest.mark.independent
def test_new_ground_is_nowhere_narrower() -> None:
    assert ranges.wider_quantile(0.2, 0.1) == 0.2 and ranges.wider_quantile(0.2, 0.5) == 0.5
    narrow = dataclasses.replace(
        _left(), domains={f"d{i}": (ranges.LeftError(f"x{i}", "S", 0.001, "new"),) for i in range(9)}
    )
    assert ranges.levels([narrow]).new == ranges.levels([narrow]).known


@pytest.mark.independent
def test_who_is_judged_has_no_vote() -> None:
    """Without the source of the largest error the end moves in; without a domain its rows are gone from all others."""
    left = _left(known=13)
    assert ranges.levels([left]).known == pytest.approx((-0.12, 0.12))
    without = ranges.levels([left], without_source="S13")
    assert without.known == pytest.approx((-0.11, 0.11)) and without.votes["known"] == 12
    both = ranges.levels([left, _left("attention", known=13)], without_source="S13")
    assert both.votes == {
        "known": 24,
        "new": 20,
        "counted": 0,
    }  # a source that measured two classes has no vote in either
    shared = dataclasses.replace(
        _left(), domains={**_left().domains, "precision: b": _left().domains["generation: 10"]}
    )
    found = ranges.levels([shared], without_domain=("gemm", "generation: 10"))
    assert found.new == pytest.approx((-0.8, 0.8)) and found.votes["new"] == 9
    # S10's row is gone from known ground too: of 1 to 12 without 10 the second from the end stays
    assert found.known == pytest.approx((-0.11, 0.11)) and found.votes["known"] == 11


@pytest.mark.independent
def test_a_domains_vote_is_split_over_its_sources_and_theirs_over_rows() -> None:
    """Nine domains of two sources, A with one row of size 0.1, B with nine of size 1.1 to 1.9.

    Ten votes, one beyond: two halves of B's, of the domains of 1.9 and 1.8, fill the other tenth, and 1.7 is the end. Split
    over rows, B would have nine tenths of each vote, and the end were 1.8.
    """
    domains = {
        f"d{i}": (
            ranges.LeftError(f"a{i}", "A", 0.1, "new"),
            *(ranges.LeftError(f"b{i}{j}", "B", 1.0 + 0.1 * i, "new") for j in range(9)),
        )
        for i in range(1, 10)
    }
    left = dataclasses.replace(_left(), domains=domains)
    assert ranges.levels([left]).domains == pytest.approx((-1.7, 1.7))
    by_rows = GroupedErrors(tuple(tuple(e.error for e in errors) for errors in domains.values()))
    assert by_rows.quantiles() == pytest.approx((-1.8, 1.8))
    assert ranges.share_held(domains["d9"], (-1.0, 1.0)) == 0.5  # one of two sources, though one row of ten
    split = GroupedErrors.by_source([(e.source, e.error) for e in errors] for errors in domains.values())
    assert split.rows == 90 and {n for group in split.parts for n in group} == {2, 18}
    ten = GroupedErrors.by_source([[("A", 0.1), ("B", 1.0 + i), ("B", 0.0)] for i in range(10)])
    assert ten.left_out()[0] == pytest.approx((-6.0, 6.0)) and ten.left_out()[9] == pytest.approx((-5.0, 5.0))
    # without its own a domain of 1 to 5 meets an end of 6, one of 6 to 10 an end of 5: a quarter of five votes is beyond
    assert ten.coverage() == pytest.approx((5 * 1.0 + 5 * 0.75) / 10)


@pytest.mark.independent
def test_a_new_domain_falls_inside_as_often_as_promised() -> None:
    """150 worlds of 14 domains with one to five sources of one to twenty rows, drawn here; a new domain's sources vote alike."""
    rng = np.random.default_rng(12)

    def domain() -> list[tuple[int, float]]:
        centre = rng.normal(0.0, 0.1)
        each = [(s, rng.normal(centre, 0.1), int(rng.integers(1, 21))) for s in range(int(rng.integers(1, 6)))]
        return [(s, float(e)) for s, middle, n in each for e in rng.normal(middle, 0.05, n)]

    held = []
    for _ in range(150):
        _, high = GroupedErrors.by_source(domain() for _ in range(14)).quantiles()
        new = domain()
        by = [np.mean([abs(e) <= high for s, e in new if s == own]) for own in {s for s, _ in new}]
        held.append(np.mean(by))
    assert 0.80 <= np.mean(held) <= 0.80 * 15 / 14 + 0.04


@pytest.mark.independent
def test_a_domain_without_which_no_range_is_left_is_not_judged() -> None:
    """Ten domains judge one by nine others; nine by left-out sources without the domain's rows; with nine of both nobody judges."""
    assert set(ranges.held_domains([_left(known=13, domains=10)])) == {f"generation: {i}" for i in range(1, 11)}
    few = ranges.held_domains([_left(known=13, domains=9)])
    # sizes 0.01 to 0.13 but the judged one's: the end is 0.11 or 0.12, and only the domain of 0.1 lies within
    assert few == {f"generation: {i}": float(i == 1) for i in range(1, 10)}
    assert ranges.held_domains([_left(known=9, domains=9)]) == {}


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
    found = ranges.left_errors(Leaving(file, {}, report(cases), report(cases), every))
    assert set(found.domains) == {"kind: cost", "kind: mfu"}


@pytest.mark.independent
def test_the_check_over_domains_can_fail() -> None:
    """Domains that lie ever further out: each lies outside what the others make only if it is an extreme one."""
    far = {f"d{i}": (ranges.LeftError(f"x{i}", f"S{i}", 2.0**i, "new"),) for i in range(12)}
    held = ranges.held_domains([dataclasses.replace(_left(), domains=far)])
    assert held["d11"] == 0.0 and held["d5"] == 1.0


@pytest.mark.independent
def test_rows_of_a_new_kind_are_judged_by_the_wide_range() -> None:
    left = _left()
    odd = ranges.LeftError("o", "ODD", 0.5, "new")
    assert ranges.held_sources([dataclasses.replace(left, sources=(*left.sources, odd))])["ODD"] == 1.0
    known = dataclasses.replace(odd, ground="known")
    assert ranges.held_sources([dataclasses.replace(left, sources=(*left.sources, known))])["ODD"] == 0.0


def test_a_domain_that_holds_most_is_not_left_out() -> None:
    assert ranges._most(["a", "a", "b"], ["a", "a", "b", "c"]) is True
    assert ranges._most(["a", "a", "a"], ["a", "a", "a", "b", "c"]) is False  # most rows, not most sources


def test_sources_are_split_by_their_month(tmp_path: Path) -> None:
    cases = tuple(Case(str(i), group, 1.0, 0.1, {}) for i, group in enumerate(("KORT", "MB2511", "LL3")))
    file = CaseFile("x.csv", CASE_CLASSES["training_step"], cases)
    early, later = ranges.split_by_time(file, "2025-01")
    assert ([c.group for c in early], [c.group for c in later]) == (["KORT", "LL3"], ["MB2511"])
    with pytest.raises(InputError, match="no month for source 'NOBODY'"):
        ranges.split_by_time(dataclasses.replace(file, cases=(Case("1", "NOBODY", 1.0, 0.1, {}),)), "2025-01")
    timed = {
        c.source for name in ("training_step", "inference", "gemm", "attention") for c in shipped_rows.cases(name).cases
    }
    for name in timed:
        source = shipped_rows.sources()[name]
        assert re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", source.month) and source.dated


def test_later_rows_have_no_part_in_what_judges_them() -> None:
    """Products of three early sources and one late: the late one's measurement moves nothing but its own verdict."""
    groups = ["VIDUR"] * 4 + ["AZURE"] * 4 + ["DGEMM"] * 3
    rows = [
        Case(
            str(i), g, t, 0.1, {"device": "H100", "precision": "bf16", "m": 4096.0, "n": 4096.0, "k": 4096.0 + 512 * i}
        )
        for i, (g, t) in enumerate(zip(groups, [3e-4] * 11, strict=True))
    ]
    file = CaseFile("x.csv", CASE_CLASSES["gemm"], tuple(rows))
    held = ranges.held_later([file], "2025-01")
    assert set(held) == {"DGEMM"} and held["DGEMM"] == 0.0  # too few votes for a range: nothing is held
    with pytest.raises(InputError, match="nothing was published from 2030-01 on"):
        ranges.held_later([file], "2030-01")
    with pytest.raises(InputError, match="nothing was published before 2020-01"):
        ranges.held_later([file], "2020-01")


def test_a_class_that_nobody_had_published_is_judged_by_its_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products make the range; the first collectives lie on new ground, where ten domains hold 0.9: ln 1.2 is within, ln 3 is not."""
    early = CaseFile("x.csv", CASE_CLASSES["gemm"], (Case("g", "VIDUR", 1.0, 0.1, {"device": "H100"}),))
    inputs = {"op": "all_reduce", "device": "H100", "n_ranks": 8.0, "ranks_per_node": 8.0}
    cases = tuple(Case(str(m), "INFSIM", m, 0.1, inputs) for m in (1.0, 2.5))
    file = CaseFile("y.csv", CASE_CLASSES["collective"], cases)
    asked = []

    def score_with(late: CaseFile, _: object) -> Report:
        rows = tuple(ScoredRow(c.id, c.group, c.measured, 1.2 * c.measured**2, 1.0, True, "", ()) for c in late.cases)
        return Report("collective", "calibrated", rows, summarise(rows, [0.1] * len(rows)))

    monkeypatch.setattr(ranges, "left_errors", lambda found: _left(known=12, domains=10))
    monkeypatch.setattr(ranges, "score_with", score_with)
    held = ranges.held_later([file, early], "2025-01", lambda one: asked.append(one.name))  # type: ignore[func-returns-value,arg-type,return-value]
    assert asked == ["x.csv"] and held == {"INFSIM": 0.5}


@pytest.mark.slow
def test_the_shipped_quantiles_are_those_of_the_rows(shared: Path) -> None:
    """Without refitting: the quick check that the file belongs to these rows and to this model."""
    report, cases = left_out(shared, "training_step").sources, shipped_rows.cases("training_step").cases
    errors: dict[str, list[float]] = {}
    for row, ground in zip(report.rows, domains.grounds("training_step", cases), strict=True):
        if ground == "known" and row.predicted:
            errors.setdefault(row.group, []).append(math.log(row.predicted / row.measured))
    found, q = GroupedErrors(tuple(map(tuple, errors.values()))), KNOWN["training_step"]
    assert (len(found.groups), found.rows) == (q.groups, q.rows)
    assert found.quantiles(q.nominal) == pytest.approx((q.low, q.high), abs=0.02)


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
        q = (KNOWN if result.interval().domain == "known" else NEW)["inference"]
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
