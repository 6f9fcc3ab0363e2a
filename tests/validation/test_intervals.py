"""Intervals: the quantiles hold what they promise on sources they have not seen, and say so when they cannot."""

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made import left_out

from mlsysim import catalog, inference, intervals, training
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.parallelism import Plan
from mlsysim.validation.scoring.conformal import MIN_GROUPS, GroupedErrors, row_weight

OPEN = Path(__file__).resolve().parents[3] / "shared" / "reference" / "cases"
needs_open_cases = pytest.mark.skipif(not OPEN.is_dir(), reason="the open cases are not on this machine")


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
    assert 0.80 <= np.mean(held) <= 0.95  # 14 of 16 ranks when rows of a source do not differ


@pytest.mark.independent
@pytest.mark.parametrize("k", [9, 10, 14, 15, 19, 24, 29, 30, 100])
def test_one_row_a_source_holds_exactly_what_the_ranks_say(k: int) -> None:
    """A further draw is equally likely to fall into each of the k + 1 gaps between k draws, whatever their distribution.

    So the share held is the number of gaps between the two ends over k + 1: at least 80 %, and at most one gap more at
    either end than needed. Half of the new source's vote at each end gave 76.0 % for 24 sources and 75.0 % for 15.
    """
    low, high = GroupedErrors(tuple((float(i),) for i in range(1, k + 1))).quantiles(0.8)
    gaps = Fraction(int(high) - int(low), k + 1)
    assert Fraction(4, 5) <= gaps <= Fraction(4, 5) + Fraction(2, k + 1)
    assert (low, high) == (k + 1 - math.ceil(Fraction(9, 10) * (k + 1)), math.ceil(Fraction(9, 10) * (k + 1)))
    if k == 24:
        assert gaps == Fraction(21, 25)


@pytest.mark.independent
def test_24_sources_hold_84_per_cent_of_new_ones_in_20000_worlds() -> None:
    """The ends by sorting here: the same worlds, and a share that the half vote (76 %) lies ten deviations below."""
    rng = np.random.default_rng(24)
    worlds = rng.lognormal(0.0, 1.0, (20_000, 25))
    past = np.sort(worlds[:, :24], axis=1)
    held = (past[:, 1] <= worlds[:, 24]) & (worlds[:, 24] <= past[:, -2])
    assert abs(held.mean() - 0.84) < 0.01
    for world in worlds[:20]:
        ends = GroupedErrors(tuple((float(e),) for e in world[:24])).quantiles(0.8)
        assert ends == (np.sort(world[:24])[1], np.sort(world[:24])[-2])


@pytest.mark.independent
def test_leaving_out_sources_of_one_row_prints_the_same_for_any_data() -> None:
    """Why ``coverage`` is no evidence of its own: it counts ranks. 24 draws of anything give 20 of 24."""
    rng = np.random.default_rng(5)
    for draws in (rng.normal(3, 1, 24) ** 3, rng.uniform(0, 1, 24), np.arange(24.0)):
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
    """21 sources close together and one far away: that one is outside, and of the others at most two at either end."""
    errors = GroupedErrors((*(((0.01 * i),) for i in range(-10, 11)), (9.0,)))
    assert errors.quantiles() == (-0.09, 0.10)
    assert 17 / 22 <= errors.coverage() <= 21 / 22
    twenty = GroupedErrors(tuple((float(i),) for i in range(20)))
    assert twenty.left_out()[0] == (2.0, 18.0)  # of 1 to 19: the second on each side


def test_too_few_sources_are_refused() -> None:
    with pytest.raises(InputError, match=r"too few.*9 are needed"):
        GroupedErrors(((0.1,), (0.2,), (0.3,))).quantiles(0.8)
    eight = tuple((float(i),) for i in range(8))
    with pytest.raises(InputError, match="too few"):
        GroupedErrors(eight).quantiles(0.8)
    assert GroupedErrors((*eight, (8.0,))).quantiles(0.8) == (0.0, 8.0)
    with pytest.raises(InputError, match="nominal"):
        GroupedErrors(((0.1,),) * 30).quantiles(1.0)


@pytest.mark.independent
def test_the_quantiles_are_order_statistics() -> None:
    """19 sources of one row: weights 1/20, a twentieth beyond each end, 10 % on each side: the second on each side."""
    errors = GroupedErrors(tuple((float(i),) for i in range(19)))
    assert errors.quantiles(0.8) == (1.0, 17.0)
    assert math.isclose(errors.quantiles(0.9)[0], 0.0)


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


SHIPPED = intervals.error_quantiles()


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_the_shipped_ranges_hold_what_they_promise(name: str) -> None:
    """Coverage of left-out sources no lower than promised, no higher than so few ranks allow, and useful widths."""
    q = SHIPPED[name]
    assert q.groups >= MIN_GROUPS
    assert q.nominal <= q.coverage <= q.nominal + 2 / q.groups + 0.01, f"{name}: {q.coverage:.1%} of left-out sources"
    low, high = q.factors
    assert low < 1 < high or name not in ("training_step", "inference")
    width = {"training_step": 1.5, "inference": 2.0}.get(name, 3.0)
    assert 1 / width <= low <= high <= width


def test_every_class_has_a_range_or_a_reason() -> None:
    from mlsysim.validation.cases import CLASSES

    assert set(SHIPPED) | set(intervals.refusals()) == set(CLASSES)
    for name, why in intervals.refusals().items():
        assert "sources" in why
        with pytest.raises(InputError, match="has none"):
            intervals.interval(name, 1.0)
    with pytest.raises(UnknownNameError):
        intervals.interval("weather", 1.0)
    with pytest.raises(InputError, match="predicted"):
        intervals.interval("training_step", 0.0)


@needs_open_cases
@pytest.mark.slow
def test_the_shipped_quantiles_are_those_of_the_open_cases(shared: Path) -> None:
    """Without refitting: the quick check that the file belongs to these cases and to this model."""
    found = GroupedErrors.of(left_out(shared, OPEN / "training_step.open.csv"))
    q = SHIPPED["training_step"]
    assert (len(found.groups), found.rows) == (q.groups, q.rows)
    assert found.quantiles(q.nominal) == pytest.approx((q.low, q.high), abs=0.02)
    assert found.coverage(q.nominal) == pytest.approx(q.coverage, abs=0.03)


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
    q = SHIPPED["inference"]
    known = inference.generate(
        inference.deploy("Llama-3.1-8B", "H100", efficiencies="calibrated"),
        input_len=1000,
        output_len=100,
    )
    for result, value in ((known.prefill, known.ttft), (known.decode, known.itl), (known, known.e2e)):
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
    from mlsysim.validation.scoring import score
    from mlsysim.validation.studies.shipped import training_cases

    rows = [r for r in score(training_cases(), "calibrated").rows if r.predicted is not None]
    held = [q.low <= r.measured <= q.high for r in rows for q in [intervals.interval("training_step", r.predicted)]]
    assert len(rows) >= 15
    assert np.mean(held) >= 0.6
