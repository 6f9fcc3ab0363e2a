"""What is lost between representations: the equations of chapter 23, and the steps between two predictions."""

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlsysim import collectives, hlo, units
from mlsysim.evidence.studies.brackets import ACCEL_SIM, STEPS, Bracket, brackets
from mlsysim.evidence.studies.case_studies import figure
from mlsysim.hlo import chakra, losses
from mlsysim.hlo.chakra import steps

# Rounding


@pytest.mark.independent
@given(st.lists(st.floats(0, 1e-2), min_size=1, max_size=200))
def test_no_sum_of_rounded_times_is_further_off_than_the_bound(times: list[float]) -> None:
    rounded = math.fsum(round(t / 1e-6) * 1e-6 for t in times)
    assert abs(rounded - math.fsum(times)) <= losses.rounding_bound(len(times), 1e-6) * (1 + 1e-9)


@pytest.mark.independent
def test_the_bound_is_reached() -> None:
    """400 times of 0.499 us each become nothing."""
    assert math.isclose(400 * 0.499e-6, losses.rounding_bound(400, 1e-6), rel_tol=0.003)


@pytest.mark.independent
def test_the_spread_is_that_of_a_thousand_sums() -> None:
    """A thousand sums of 48 times that are anywhere up to a millisecond, rounded to 10 us, with a fixed seed."""
    draw = random.Random(23)
    errors = []
    for _ in range(1000):
        times = [draw.uniform(0, 1e-3) for _ in range(48)]
        errors.append(math.fsum(round(t / 1e-5) * 1e-5 - t for t in times))
    assert math.isclose(statistics.pstdev(errors), losses.rounding_spread(48, 1e-5), rel_tol=0.05)
    assert math.isclose(losses.rounding_spread(48, 1e-5), 2e-5, rel_tol=1e-12)


@pytest.mark.published
def test_one_rounding_is_that_of_the_guide() -> None:
    """jcgm2008gum, sec. F.2.2.1: u = 0.29 steps."""
    assert round(losses.rounding_spread(1, 1.0), 2) == 0.29


@pytest.mark.independent
def test_short_and_equal_regions_lose_more_than_is_typical_and_carried_rounding_does_not() -> None:
    """A compiled layer has many regions shorter than half a microsecond; the layers of a Llama are equal."""
    for name in ("tf1l_train_fsdp8.gpuopt_a100_sxm_40", "llama200m_train_fsdp4.sm"):
        program = hlo.sample(name)
        near = chakra.trace(program, "A100-SXM4-40GB", rounding="nearest").to_dict()
        carried = chakra.trace(program, "A100-SXM4-40GB").to_dict()
        n, exact = near["compute_nodes"], near["compute_s"] * 1e6
        assert abs(exact - near["compute_us"]) > 2 * losses.rounding_spread(n, 1)
        assert abs(carried["compute_us"] - exact) <= 0.5


# Loops and sizes


@pytest.mark.independent
def test_a_scanned_step_is_written_out_to_so_many_nodes() -> None:
    """Two loops of seven turns: one forward, one backward."""
    program = hlo.sample("llama100m_train_fsdp4.scan")
    parts = hlo.estimate(program, "A100-SXM4-40GB").parts
    loops = [r for r in parts if r.kind == "loop"]
    assert [r.count for r in loops] == [7, 7]
    body = sum(steps.count(r.body) for r in loops)
    outside = steps.count([r for r in parts if r.kind != "loop"])
    nodes = len(chakra.trace(program, "A100-SXM4-40GB").ranks[0].nodes)
    assert losses.unrolled_nodes(outside, 7, body) == nodes > 2 * (outside + body)
    assert losses.unrolled_nodes(10, 0, 5) == 10


@pytest.mark.independent
def test_a_wrong_size_in_limits() -> None:
    assert losses.wrong_size_factor(0.0, 1e-5, 4) == 4
    assert losses.wrong_size_factor(1.0, 1e-9, 4) == pytest.approx(1, abs=1e-8)
    assert losses.wrong_size_factor(3e-6, 1e-6, 1) == 1
    assert losses.wrong_size_factor(1e-5, 1e-5, 1 / 4) == 0.625


@pytest.mark.independent
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_wrong_size_against_the_time_of_a_ring(ranks: int) -> None:
    """A ring all-gather timed with the shard, and with the whole array in its place."""
    shard, bandwidth, latency = 1e6, 100e9, 5e-6
    right = collectives.ring_all_gather(ranks * shard, ranks, bandwidth, latency)
    wrong = collectives.ring_all_gather(ranks * ranks * shard, ranks, bandwidth, latency)
    t0, tw = (ranks - 1) * latency, (ranks - 1) * shard / bandwidth
    assert math.isclose(losses.wrong_size_factor(t0, tw, ranks), wrong / right, rel_tol=1e-12)


# What a campaign takes


@pytest.mark.independent
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60))
def test_no_campaign_takes_less_than_its_median_allows(times: list[float]) -> None:
    least = losses.campaign_least(len(times), statistics.median(times))
    assert math.fsum(times) >= least * (1 - 1e-12)


@pytest.mark.independent
def test_the_least_campaign_is_possible() -> None:
    """Half of the kernels in no time, half at the median and a trifle more."""
    times = [0.0] * 10 + [2.0] * 11
    assert statistics.median(times) == 2.0
    assert losses.campaign_least(21, 2.0) <= sum(times) <= 1.05 * losses.campaign_least(21, 2.0)


def test_the_claims_about_accel_sim_say_where_they_stand() -> None:
    assert [ACCEL_SIM[k].value for k in ("kernels", "edited", "simulated")] == [42, 38, 20]
    assert ACCEL_SIM["median"].value == units.parse("2.1 h", "s")
    assert all(c.source == "hespas2026" and "VI-A" in c.where for c in ACCEL_SIM.values())


# Brackets


@pytest.mark.independent
def test_positions_between_two_predictions() -> None:
    assert losses.bracket_position(3.0, 2.0, 6.0) == 0.25
    assert losses.bracket_position(2.0, 2.0, 6.0) == 0
    assert losses.bracket_position(6.0, 2.0, 6.0) == 1
    assert losses.bracket_position(1.0, 2.0, 6.0) == -0.25
    # from the other end it is one minus it
    assert losses.bracket_position(3.0, 6.0, 2.0) == 0.75


@pytest.mark.slow
@pytest.mark.published
def test_eight_published_steps_between_our_roofline_and_their_profile() -> None:
    """Measurements and profiles by the authors of hespas2026 (hespas2026code, hespas2026workloads); rooflines are ours."""
    found = brackets()
    assert len(found) == len(STEPS) == 8
    assert all(b.measured.kind == "measured" for b in found)
    assert [b.verdict for b in found].count("inside") == 7
    undecided = next(b for b in found if b.verdict == "undecided")
    assert (undecided.workload, undecided.system) == ("llama3-100m", "4 x H100")
    assert undecided.ends[0] < undecided.high < undecided.ends[1]
    assert all(0.3 < b.position < 0.9 for b in found)


@pytest.mark.slow
@pytest.mark.published
def test_the_roofline_of_a_program_as_exported_is_no_lower_side() -> None:
    """As the authors found too: 215 ms as exported, where 90 ms were measured (hespas2026code)."""
    assert all(b.verdict == "outside" and b.low > b.measured.high for b in brackets("off"))
    assert figure("tool-roofline-raw").value > figure("a100-llama3-100m").high


@pytest.mark.slow
def test_a_printed_deviation_widens_the_range_as_half_a_digit_does() -> None:
    digits = brackets()[0]
    assert digits.ends == pytest.approx((0.085, 0.095))
    bench = Bracket("x", "y", figure("a100-resnet50-bench"), 0.0, 1.0)
    assert bench.ends == pytest.approx((0.101198 - 0.001508, 0.101198 + 0.001508), abs=1e-6)
    for low, high, verdict in (
        (0.05, 0.2, "inside"),
        (0.11, 0.2, "outside"),
        (0.05, 0.09, "outside"),
        (0.1012, 0.2, "undecided"),
        (0.05, 0.1012, "undecided"),
    ):
        assert Bracket("x", "y", figure("a100-resnet50-bench"), low, high).verdict == verdict
