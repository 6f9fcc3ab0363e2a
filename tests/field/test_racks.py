"""Racks and watts: clocks, caps, swings, coolant, hours, tiers of checkpoints and elastic jobs, by limits and by hand."""

import math

import numpy as np
import pytest

from mlsysim import collectives, energy, evidence, reliability
from mlsysim.course.exercises import assignment
from mlsysim.errors import InputError
from mlsysim.evidence.measured.clocks import (
    FITTED,
    clock_runs,
    errors,
    fitted_curve,
    on_curve,
    shifted,
    swing,
)


@pytest.mark.independent
def test_power_at_a_clock_by_hand() -> None:
    assert energy.clock_power(100.0, 300.0, 1.0, 0.8, 2.5) == 400.0
    assert energy.clock_power(100.0, 300.0, 0.5) == 100 + 300 / 8  # voltage with the clock: a cube
    assert energy.clock_power(100.0, 300.0, 0.4, 0.64, 2.5) == pytest.approx(100 + 300 * 0.4 * 0.8**3, rel=1e-12)
    above, below = (float(energy.clock_power(0.0, 1.0, x, 0.7, 2.5)) for x in (0.7 + 1e-9, 0.7 - 1e-9))
    assert above == pytest.approx(below, rel=1e-7)  # no jump at the knee


@pytest.mark.independent
@pytest.mark.parametrize(("cap", "knee"), [(120.0, 0.0), (180.0, 0.75), (260.0, 0.75), (399.0, 0.75)])
def test_a_capped_device_draws_its_cap(cap: float, knee: float) -> None:
    clock = energy.capped_clock(cap, 100.0, 300.0, knee, 2.6)
    assert 0 < clock < 1 and energy.clock_power(100.0, 300.0, clock, knee, 2.6) == pytest.approx(cap, rel=1e-12)


def test_a_cap_that_does_not_bind_and_one_that_cannot_be_kept() -> None:
    assert energy.capped_clock(700.0, 100.0, 300.0, 0.8, 2.5) == 1.0
    with pytest.raises(InputError, match="static < cap"):
        energy.capped_clock(90.0, 100.0, 300.0)


@pytest.mark.independent
@pytest.mark.parametrize(("static", "knee", "exponent"), [(100.0, 0.0, 3.0), (38.0, 0.81, 2.6), (450.0, 0.6, 2.6), (2000.0, 0.5, 2.0)])  # fmt: skip
def test_no_other_clock_is_cheaper(static: float, knee: float, exponent: float) -> None:
    """Against a search over the energy itself."""
    xs = np.linspace(0.05, 1.0, 19_001)
    joules = (static + 300.0 * xs * np.maximum(knee, xs) ** (exponent - 1)) / xs
    assert energy.cheapest_clock(static, 300.0, knee, exponent) == pytest.approx(float(xs[joules.argmin()]), abs=6e-5)
    assert energy.cheapest_clock(75.0, 300.0) == 0.5  # the root of 75 / 600


def test_what_waits_for_memory_is_not_slower() -> None:
    assert energy.clock_time(3.0, 0.0, 0.5) == 3.0 and energy.clock_time(3.0, 1.0, 0.5) == 6.0
    assert energy.clock_time(10.0, 0.25, 0.5) == 12.5


@pytest.mark.independent
def test_a_store_gives_what_it_takes() -> None:
    """The wave summed up step by step: what is above the mean, and what is below."""
    high, low, period, share, n = 1000.0, 400.0, 4.0, 0.75, 16384
    power = np.where(np.arange(4000) < 4000 * share, high, low)
    above = np.maximum(power - power.mean(), 0.0).sum() * period / 4000 * n
    assert energy.smoothing_energy(n, high, low, period, share) == pytest.approx(above, rel=1e-9)
    assert energy.smoothing_energy(n, high, low, period, 1.0) == 0.0
    with pytest.raises(InputError, match="low_power <= high_power"):
        energy.smoothing_energy(n, low, high, period, share)


@pytest.mark.independent
def test_the_peak_of_a_line_is_that_of_drawn_servers() -> None:
    """Servers whose draws share a part, drawn many times: the mean and three standard deviations of their sum."""
    rng, count, mean, spread, alike = np.random.default_rng(28), 30, 700.0, 120.0, 0.25
    shared = rng.normal(0, 1, (100_000, 1)) * math.sqrt(alike)
    drawn = mean + spread * (shared + rng.normal(0, 1, (100_000, count)) * math.sqrt(1 - alike))
    total = drawn.sum(axis=1)
    assert energy.hall_peak(count, mean, spread, alike) == pytest.approx(total.mean() + 3 * total.std(), rel=0.003)
    assert energy.hall_peak(count, mean, spread, 1.0) == pytest.approx(count * (mean + 3 * spread))
    assert energy.hall_peak(1, mean, spread, alike, quantile=2.0) == mean + 2 * spread


@pytest.mark.independent
def test_coolant_by_hand() -> None:
    assert energy.coolant_flow(41840.0, 10.0) == 1.0  # 4.184 J a gram, a kilogram a litre
    assert energy.coolant_flow(100.0, 5.0, 10.0) == 2.0


@pytest.mark.independent
@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9])
def test_the_cleanest_hours_of_a_wave(share: float) -> None:
    """Against the mean of a sampled wave over its lowest part."""
    wave = np.sort(1 - 0.3 * np.cos(np.linspace(0, 2 * math.pi, 40_000, endpoint=False)))
    low = wave[: int(share * len(wave))].mean()
    assert energy.shift_saving(0.3, share) == pytest.approx(1 - low, abs=1e-4)
    assert energy.shift_saving(0.3, 1.0) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.independent
def test_two_tiers_have_one_tier_as_their_limits() -> None:
    far = {"interval": 4000.0, "write_time": 20.0, "mtbf": 50_000.0, "restart": 300.0}
    alone = reliability.first_order_goodput(**far)
    assert reliability.two_tier_goodput(1000.0, 0.0, 4000.0, 20.0, 0.0, 50_000.0, 300.0) == pytest.approx(alone)
    assert reliability.two_tier_goodput(4000.0, 20.0, 1e9, 0.0, 1.0, 50_000.0, 300.0) == pytest.approx(alone)


@pytest.mark.independent
def test_each_tier_is_best_at_youngs_interval_for_its_failures() -> None:
    near, far = math.sqrt(2 * 1.0 * 10800 / 0.95), math.sqrt(2 * 30.0 * 10800 / 0.05)
    best = reliability.two_tier_goodput(near, 1.0, far, 30.0, 0.95, 10800.0)
    for a, b in ((0.9, 1.0), (1.1, 1.0), (1.0, 0.9), (1.0, 1.1)):
        assert reliability.two_tier_goodput(a * near, 1.0, b * far, 30.0, 0.95, 10800.0) < best
    with pytest.raises(InputError):
        reliability.two_tier_goodput(1.0, 30.0, far, 30.0, 0.95, 10800.0)


@pytest.mark.independent
def test_an_elastic_job_second_by_second() -> None:
    repair, reconfigure, missing = 600, 40, 0.25
    pace = [0.0] * reconfigure + [1 - missing] * (repair - reconfigure) + [0.0] * reconfigure
    assert reliability.elastic_loss(repair, reconfigure, missing) == pytest.approx(len(pace) - sum(pace))
    assert reliability.elastic_loss(600.0, 40.0, 1.0) == 640.0  # nothing is left to go on with
    with pytest.raises(InputError, match="reconfigure <= repair"):
        reliability.elastic_loss(30.0, 40.0, 0.1)


@pytest.mark.published
def test_the_curve_meets_runs_that_it_was_not_fitted_to() -> None:
    curve = fitted_curve()
    assert 0 < curve.static < 0.2 * curve.dynamic and 0.7 < curve.knee < 0.9 and 2 < curve.exponent < 3
    for run in ("a100-bloom-forward", "a100-bloom-backward"):
        assert max(map(abs, errors(run, "energy"))) < 0.12 and max(map(abs, errors(run, "time"))) < 0.05
        assert abs(on_curve(run).cheapest - clock_runs()[run].cheapest) <= 30  # MHz
    # a cube without a floor would go far below any clock that was measured
    assert 1380 * energy.cheapest_clock(curve.static, curve.dynamic) < 0.6 * min(clock_runs()[FITTED].settings)
    assert max(map(abs, errors("v100-ncf", "time"))) < 0.07  # a cap that never acts
    assert on_curve("v100-ncf").time == (19.3,) * 7
    assert on_curve("v100-ncf").power[-1] == pytest.approx(
        clock_runs()["v100-ncf"].power[-1]
    )  # the curve takes its height


@pytest.mark.published
def test_printed_figures() -> None:
    r = {name: m.value for name, m in evidence.measurements("racks").items()}
    assert r["async-checkpoint-waits"] / r["async-checkpoint-copies"] == pytest.approx(23.62, abs=0.005)  # as printed
    assert r["decode-power-high"] < 0.5 * 700 and r["cap-150-time"] < r["cap-150-energy"]
    for grid in ("grid-germany", "grid-great-britain-2020", "grid-great-britain", "grid-france"):
        assert 0 < shifted(grid, 8) < swing(grid) < 0.21
        assert list(clock_runs()[grid].chosen) == sorted(clock_runs()[grid].chosen, reverse=True)
        assert clock_runs()[grid].chosen[1] > shifted(grid, 8)  # each day's own hours beat those of the mean day


def test_nine_times_less_leaves_a_rack() -> None:
    by = {g: collectives.in_switch_tree_all_reduce(1e12, g, 576 / g, 1e18, 50e9) for g in (8, 72)}
    assert by[8] / by[72] == pytest.approx(9.0)


# The exercises by hand: the public demo's numbers and the arithmetic, typed; nothing of the library stands on this side.

_U = 1 / (180 + 1)
_Q, _M = 0.9, 10800.0
_T1, _T2 = math.sqrt(2 * 1 * _M / _Q), math.sqrt(2 * 15 * _M / (1 - _Q))
BY_HAND: dict[str, float] = {
    "28.1": ((1 - _U) ** 18 + 18 * _U * (1 - _U) ** 17) ** 16,
    "28.2": (60 + 340 * 0.7**3) * 20 * (0.6 + 0.4 / 0.7),
    "28.3": 2 / (120 / 340 / 0.78**1.4),
    "28.5": 8192 * 450 * 3.0 * 0.7 * 0.3,
    "28.6": 120e3 * 0.85 / (8 * 4184),
    "28.7": 3.6e9 * 1.1e-7 * (1 - 0.12 * math.sin(math.pi / 4) / (math.pi / 4)),
    "28.8": 1 - 1 / _T1 - 15 / _T2 - (300 + _Q * _T1 / 2 + (1 - _Q) * _T2 / 2) / _M,
    "28.9": 1200 - (2 * 30 + (1200 - 30) / 8),
    "28.11": 100 * 6000 + 3 * 1200 * math.sqrt(100 * (1 + 99 * 0.3)),
}


@pytest.mark.independent
@pytest.mark.parametrize("id", BY_HAND)
def test_the_demo_of_each_exercise_agrees_with_arithmetic_by_hand(id: str) -> None:
    chapter = {e.id: e for e in assignment("28-racks-watts") if e.form == "number"}
    assert set(chapter) == set(BY_HAND)
    assert chapter[id].solve(chapter[id].draw()) == pytest.approx(BY_HAND[id], rel=1e-9)
