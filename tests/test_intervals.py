"""Intervals: the quantiles hold what they promise on sources they have not seen, and say so when they cannot."""

import math
from typing import Any

import numpy as np
import pytest

from mlsysim.errors import InputError
from mlsysim.validation.conformal import GroupedErrors


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
    assert 0.77 <= np.mean(held) <= 0.90


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


def test_too_few_sources_are_refused() -> None:
    with pytest.raises(InputError, match="too few"):
        GroupedErrors(((0.1,), (0.2,), (0.3,))).quantiles(0.8)
    with pytest.raises(InputError, match="nominal"):
        GroupedErrors(((0.1,),) * 30).quantiles(1.0)


@pytest.mark.independent
def test_the_quantiles_are_order_statistics() -> None:
    """19 sources of one row: weights 1/20, half of a twentieth beyond each end, 10 % on each side: the second on each side."""
    errors = GroupedErrors(tuple((float(i),) for i in range(19)))
    assert errors.quantiles(0.8) == (1.0, 17.0)
    assert math.isclose(errors.quantiles(0.9)[0], 0.0)
