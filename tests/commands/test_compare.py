"""Devices side by side: one kind of price, the odds that one beats the other, and what a measurement would settle."""

import bisect
import math
import random
from collections.abc import Mapping
from typing import Any

import pytest

import mlsysim
from mlsysim import SLO, intervals
from mlsysim.api import devices as comparing
from mlsysim.api.devices import Effect, cheaper
from mlsysim.api.serving import _answer
from mlsysim.cli import main
from mlsysim.errors import InputError

independent = pytest.mark.independent
JOB: Mapping[str, Any] = {
    "rate": 40.0,
    "input_len": 6000,
    "output_len": 700,
    "slo": SLO(ttft=1.5, itl=0.03, quantile=0.95),
}
THREE = ("H200", "B200", "MI355X")
ASKED = [
    "--rate",
    "40",
    "--input-len",
    "6000",
    "--output-len",
    "700",
    "--ttft",
    "1.5 s",
    "--itl",
    "30 ms",
    "--quantile",
    "0.95",
]


def said(found: Any) -> str:
    return " ".join("\n".join(found.summary()).split())


@pytest.fixture(scope="module")
def three() -> comparing.Compared:
    return mlsysim.compare_devices("gpt-oss-120B", THREE, **JOB)


@independent
def test_the_engineer_s_comparison_is_of_one_seller_and_kind(
    three: comparing.Compared, capsys: pytest.CaptureFixture[str]
) -> None:
    """J3: three runs side by side said 142, 114 and 14.7 USD/h: two list prices on demand and an estimate for three years."""
    kinds = {s.bill.rent.kind for s in three.answers if s.bill.rent}
    assert len(kinds) == 1 and kinds.pop().startswith("on demand") and three.kind in said(three)
    for s, name in zip(three.answers, THREE, strict=True):
        alone = mlsysim.serve("gpt-oss-120B", name, **JOB)
        assert s.devices == alone.devices and s.devices_range == alone.devices_range
        assert f"{s.question.device.name} {s.devices} (" in said(three)
    assert main(["serve", "--model", "gpt-oss-120B", "--device", "H200, B200,MI355X", *ASKED]) == 0
    assert capsys.readouterr().out.strip() == str(three).strip()
    assert len(str(three).strip().split("\n")) <= 15
    # the formats of the first device stood there for all of them
    assert "--precision fp4 --weights mxfp4" in said(three) and "(B200-SXM-180GB, MI355X)" in said(three)


@independent
def test_one_rent_for_all_or_another_kind(three: comparing.Compared) -> None:
    same = mlsysim.compare_devices("gpt-oss-120B", THREE, price="3 USD/h", **JOB)
    for s in same.answers:
        assert s.bill.cost_rate == pytest.approx(3 * s.devices / 3600)
    years = mlsysim.compare_devices("gpt-oss-120B", THREE, price="estimate", **JOB)
    assert "estimate of a contract of 3 years" in said(years)
    none = mlsysim.compare_devices("Llama-3.1-8B", ("GB300", "L4"), rate=2)  # an estimate, and a list price
    assert none.rents is None and not none.odds and "no kind of price that the catalogue has of all" in said(none)
    with pytest.raises(InputError, match="that of one device"):
        mlsysim.compare_devices("Llama-3.1-8B", THREE, rate=2, price="H200-AWS-on-demand-2026")
    with pytest.raises(InputError, match="two at least"):
        mlsysim.compare_devices("Llama-3.1-8B", "H200", rate=2)
    with pytest.raises(InputError, match="H100-SXM5-80GB twice"):
        mlsysim.compare_devices("Llama-3.1-8B", ["H100", "DGX-H100"], rate=2)


@independent
def test_of_equal_slopes_the_shared_part_cancels() -> None:
    one, other = Effect(0.0, 1.3, 0.25), Effect(0.1, 1.3, 0.25)
    assert cheaper(one, other, 1 - 1e-12) == pytest.approx(1.0)  # all is shared: the smaller bill is the smaller bill
    chances = [cheaper(one, other, share) for share in (0.0, 0.3, 0.6, 0.9)]
    assert chances == sorted(chances) and 0.5 < chances[0] < chances[-1] < 1
    assert cheaper(other, one, 0.3) == pytest.approx(1 - cheaper(one, other, 0.3))
    assert cheaper(one, Effect(0.0, 1.3, 0.4), 0.3) == pytest.approx(0.5)  # equal bills


@independent
@pytest.mark.parametrize("share", [0.0, 0.7])
def test_odds_are_those_of_questions_asked_again_with_drawn_errors(share: float, three: comparing.Compared) -> None:
    """Monte Carlo: an error that all share and one of each device's own are drawn, and every answer is solved again."""
    h200, b200 = three.answers[:2]
    spread = [three.effects[i].scale for i in (0, 1)]  # type: ignore[union-attr]
    grid = [math.exp(x / 12) for x in range(-13, 14)]  # factors on the times
    bills = []
    for s in (h200, b200):
        found = [_answer(s.question, f) for f in grid]
        bills.append([a.bill.cost_rate if a.answered else math.inf for a in found])
    rng, wins, draws = random.Random(7), 0, 20_000
    for _ in range(draws):
        u, size = rng.gauss(0.0, math.sqrt(share)), rng.expovariate(1.0) ** -0.5
        at = []
        for i in (0, 1):
            factor = math.exp(-spread[i] * size * (u + rng.gauss(0.0, math.sqrt(1 - share))))
            at.append(bills[i][min(bisect.bisect(grid, factor), len(grid) - 1)])
        wins += at[1] < at[0]
    a, b = three.effects[1], three.effects[0]
    assert a is not None and b is not None
    assert cheaper(a, b, share) == pytest.approx(wins / draws, abs=0.06)


@independent
def test_what_a_measurement_settles_by_drawing_it() -> None:
    """Monte Carlo: draw both errors, tell the first, choose by the mean of what is left, and count the right choices."""
    a, b, share = Effect(0.0, 1.2, 0.25), Effect(0.1, 0.9, 0.3), 0.4
    rng, right, draws = random.Random(5), 0, 100_000
    for _ in range(draws):
        u, size = rng.gauss(0, math.sqrt(share)), rng.expovariate(1.0) ** -0.5
        e_a = 0.25 * size * (u + rng.gauss(0, math.sqrt(1 - share)))
        e_b = 0.3 * size * (u + rng.gauss(0, math.sqrt(1 - share)))
        truth = (0.0 - 1.2 * e_a) - (0.1 - 0.9 * e_b)
        guess = (0.0 - 1.2 * e_a) - (0.1 - 0.9 * share * 0.3 / 0.25 * e_a)
        right += (truth < 0) == (guess < 0)
    told = intervals.odds_once_measured(0.1, a.spread, b.spread, share)
    assert told == pytest.approx(right / draws, abs=0.006)
    assert told > max(cheaper(a, b, share), 1 - cheaper(a, b, share))


@independent
def test_a_scale_is_that_of_the_range() -> None:
    """80 % of Student's law with two degrees of freedom lie within 1.8856 (the table of quantiles: t of 0.90), 90 % within 2.9200."""
    assert intervals.scale_of(1.8856, 0.8) == pytest.approx(1.0, rel=1e-4) == intervals.scale_of(2.9200, 0.9)
    assert intervals.odds(1.8856, 1.0) == pytest.approx(0.90, abs=1e-4) and intervals.odds(
        -2.9200, 1.0
    ) == pytest.approx(0.05, abs=1e-4)
    assert intervals.log_gap(0.95, 0.5) == pytest.approx(1.46, abs=1e-3)
    assert 0 <= comparing.shared_part() <= 1
