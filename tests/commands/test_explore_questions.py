"""Questions asked backwards, and what the answer hangs on."""

import math

import numpy as np
import pytest

from mlsysim import catalog, roofline, training
from mlsysim.errors import InputError
from mlsysim.explore import combined_spread, elasticities, elasticity, solve_for, threshold, tornado
from mlsysim.parallelism import Plan


@pytest.mark.independent
def test_solving_backwards_and_forwards_again() -> None:
    for target in (1e-9, 0.3, 7e11):
        assert solve_for(lambda x: 5 * x**2, target, 1e-12, 1e9) == pytest.approx(math.sqrt(target / 5), rel=1e-10)
        assert solve_for(lambda x: 1 / x, target, 1e-13, 1e12) == pytest.approx(1 / target, rel=1e-10)
    assert solve_for(lambda x: x, 0.5, -2.0, 3.0) == pytest.approx(0.5, rel=1e-10)
    assert solve_for(lambda x: x, 3.0, 0.0, 3.0) == 3.0


@pytest.mark.independent
def test_the_bandwidth_that_makes_a_kernel_compute_bound_is_where_the_ridge_point_meets_it() -> None:
    flops, bytes, peak = 3e13, 2e11, 989.4e12
    found = threshold(lambda bw: roofline.memory_time(bytes, bw) <= roofline.compute_time(flops, peak), 1e11, 1e14)
    assert found == pytest.approx(peak * bytes / flops, rel=1e-10)


@pytest.mark.parametrize(("low", "high"), [(2.0, 1.0), (0.0, math.inf), (math.nan, 1.0)])
def test_a_bad_range_is_an_error(low: float, high: float) -> None:
    for ask in (lambda: threshold(bool, low, high), lambda: solve_for(float, 1.0, low, high)):
        with pytest.raises(InputError, match="range"):
            ask()


def test_what_is_never_reached_is_an_error() -> None:
    with pytest.raises(InputError, match="not reached"):
        solve_for(lambda x: x, 5.0, 1.0, 2.0)
    with pytest.raises(InputError, match="both ends"):
        threshold(lambda x: x > 9, 1.0, 2.0)


@pytest.mark.independent
def test_elasticities_of_powers_are_their_exponents() -> None:
    def f(a: float, b: float, c: float) -> float:
        return a**1.5 * b**-2 + 0 * c

    assert elasticities(f, {"a": 2.0, "b": 7.0, "c": 1.0}) == pytest.approx({"a": 1.5, "b": -2.0, "c": 0.0})


@pytest.mark.independent
def test_a_bound_hangs_on_the_resource_that_binds() -> None:
    def time(flops: float, bytes: float, peak: float, bandwidth: float) -> float:
        return max(roofline.compute_time(flops, peak), roofline.memory_time(bytes, bandwidth))

    at = {"flops": 1e12, "bytes": 1e11, "peak": 1e15, "bandwidth": 3e12}  # memory binds
    assert elasticities(time, at) == pytest.approx({"flops": 0, "bytes": 1, "peak": 0, "bandwidth": -1})


@pytest.mark.parametrize(
    ("arguments", "step", "words"),
    [({"x": 0.0}, 0.01, "x = 0.0"), ({"x": 1.0}, 0.0, "step"), ({"x": 1.0}, 0.5, "answer")],
)
def test_what_has_no_elasticity_is_an_error(arguments: dict[str, float], step: float, words: str) -> None:
    with pytest.raises(InputError, match=words):
        elasticities(lambda x: x - 0.9, arguments, step)


@pytest.mark.independent
def test_the_widest_swing_comes_first() -> None:
    t = tornado(lambda a, b, c: a * b - c, {"a": 2.0, "b": 3.0, "c": 1.0}, {"a": (1, 4), "b": (2, 4), "c": (0, 10)})
    assert t.middle == 5.0
    assert [(s.name, s.at_low, s.at_high) for s in t.swings] == [("c", 6.0, -4.0), ("a", 2.0, 11.0), ("b", 3.0, 7.0)]
    with pytest.raises(InputError, match="no value"):
        tornado(lambda a: a, {"a": 1.0}, {"b": (0, 1)})
    with pytest.raises(InputError, match="outside"):
        tornado(lambda a: a, {"a": 1.0}, {"a": (2, 3)})


@pytest.mark.independent
def test_an_elasticity_is_a_slope_on_logarithmic_axes() -> None:
    """By calculus: ln f = 3 ln x + const, and for 1 + x the slope is x / (1 + x)."""
    assert elasticity(above=1.1**3, below=1.1**-3, step=0.1) == pytest.approx(3.0)
    assert elasticity(above=5 * 1.1**3, below=5 * 1.1**-3, step=0.1) == pytest.approx(3.0)
    x, d = 0.25, 1e-4
    assert elasticity(1 + x * (1 + d), 1 + x / (1 + d), d) == pytest.approx(x / (1 + x), rel=1e-6)


@pytest.mark.independent
def test_two_inputs_that_move_together_spread_as_drawn_ones_do() -> None:
    """A Monte Carlo experiment against the law of propagation: f = x^1.5 / y, with correlated logarithms."""
    rng = np.random.default_rng(3)
    for r in (-0.8, 0.0, 0.9):
        x, y = 0.1 * rng.standard_normal((2, 400_000))
        y = r * x + math.sqrt(1 - r * r) * y
        drawn = np.std(1.5 * x - 2.0 * y)
        assert combined_spread(1.5 * 0.1, -2.0 * 0.1, r) == pytest.approx(drawn, rel=0.01)
    assert combined_spread(0.2, -0.2, 1.0) == 0.0


@pytest.mark.independent
def test_the_step_hangs_on_what_it_waits_for() -> None:
    """One device sends nothing; halving the time of all rates doubles none but the parts that have them."""
    alone = training.training_step("Llama-3.1-8B", Plan(), "H100", global_batch=1, seq=2048, efficiencies="bound")
    assert alone.elasticities()["network"] == alone.elasticities()["scale_up_link"] == 0.0
    cluster = catalog.cluster("DGX-H100", 16)
    step = training.training_step(
        "Llama-3.1-8B", Plan(tp=8, dp=16), cluster, global_batch=128, seq=8192, efficiencies="bound"
    )
    assert sum(step.elasticities().values()) == pytest.approx(-1.0, abs=1e-3)  # no overhead: all rates up, time down
    faster = training.training_step(
        "Llama-3.1-8B",
        Plan(tp=8, dp=16),
        cluster,
        global_batch=128,
        seq=8192,
        inter_bandwidth=50e9 * 1.01,
        efficiencies="bound",
    )
    slope = math.log(faster.time / step.time) / math.log(1.01)
    assert step.elasticities()["network"] == pytest.approx(slope, abs=0.01)
