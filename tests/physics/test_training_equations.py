"""The equations of the training step: limits, identities, a pipeline and a straggler drawn at random, published runs."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlsysim import collectives, flops, parallelism, training, transformer
from mlsysim.errors import InputError

DAY = 86_400.0
TIME = st.floats(1e-6, 1e6)
SHARE = st.floats(0.0, 1.0)
COUNT = st.integers(1, 10_000)


# The work of a layer that is no matrix product


@pytest.mark.independent
def test_elementwise_traffic_by_hand() -> None:
    """Korthikanti's 34 s b h bytes of a layer, written and read once: 68 bytes per token and unit, 34 passes of 2 bytes."""
    ours = training.elementwise_time(tokens=2048, hidden=12288, passes=34, bandwidth=2e12)
    assert ours == pytest.approx(2048 * 12288 * 68 / 2e12)
    # a copy reads and writes: two passes are one STREAM copy of the tensor
    tensor = 2048 * 12288 * 2
    assert training.elementwise_time(2048, 12288, 2, 1e12) == pytest.approx(2 * tensor / 1e12)
    assert training.elementwise_time(2048, 12288, 2, 1e12, element_bytes=4) == pytest.approx(4 * tensor / 1e12)


# What hides


@pytest.mark.independent
@given(TIME, TIME, SHARE)
def test_hidden_time_is_never_more_than_either(communication: float, behind: float, overlap: float) -> None:
    left = training.exposed_time(communication, behind, overlap)
    assert 0 <= left <= communication
    assert communication - left <= overlap * behind + 1e-9 * communication
    assert training.exposed_time(communication, behind, 0.0) == communication
    assert training.exposed_time(communication, 0.0, overlap) == communication


@pytest.mark.independent
def test_exposed_time_by_a_schedule() -> None:
    """Two queues, event by event: a message of 5 starts with arithmetic of 4, of whose time a share can carry messages."""
    for share, left in ((1.0, 1.0), (0.5, 3.0), (0.0, 5.0)):
        assert training.exposed_time(5.0, 4.0, share) == pytest.approx(left)
    assert training.exposed_time(3.0, 4.0) == 0.0


# The step


@pytest.mark.independent
@pytest.mark.parametrize(("pp", "m", "virtual"), [(1, 1, 1), (8, 32, 1), (8, 32, 2), (16, 16, 4), (16, 4, 8)])
def test_the_step_is_the_pipeline_of_chapter_five(pp: int, m: int, virtual: int) -> None:
    """Equal stages: m of them and the others once, which is what the event-by-event simulation of chapter 5 confirms."""
    stage = 0.25
    ours = training.pipelined_step(stage, m, pp, virtual)
    assert ours == pytest.approx(parallelism.pipeline_time(stage, stage * (pp - 1), m, virtual))
    assert ours / (m * stage) - 1 == pytest.approx(parallelism.bubble_ratio(pp, m, virtual))


@pytest.mark.independent
@pytest.mark.parametrize(
    ("pp", "m", "virtual", "stages"), [(16, 4, 8, 16.375), (16, 1, 7, 16.0), (20, 16, 3, 25.0), (20, 16, 2, 27.5)]
)
def test_no_chunks_are_thin_enough_to_skip_a_stage(pp: int, m: int, virtual: int, stages: float) -> None:
    """Simulated in tests/physics/test_parallelism.py, and by the readers who found it missing."""
    assert training.pipelined_step(1.0, m, pp, virtual) == pytest.approx(stages)


@pytest.mark.independent
def test_what_follows_the_pipeline_is_added_once() -> None:
    bare = training.pipelined_step(1.0, 4)
    assert bare == 4.0
    assert training.pipelined_step(1.0, 4, gradients=0.5) == pytest.approx(4.5)
    assert training.pipelined_step(1.0, 4, optimizer=0.25) == pytest.approx(4.25)


@pytest.mark.independent
def test_a_stage_is_its_layers_and_the_rest() -> None:
    assert training.stage_time(8, 0.5) == 4.0
    assert training.stage_time(8, 0.5, extra=1.0) == 5.0
    assert training.stage_time(0, 0.5, extra=1.0) == 1.0


@pytest.mark.independent
def test_the_optimizer_moves_thirty_bytes_a_parameter() -> None:
    """Adam in FP32 reads a gradient, a master weight and two moments (16) and writes the three and a BF16 weight (14)."""
    read, written = 4 * 4, 3 * 4 + 2
    assert training.optimizer_time(1e9, 2e12) == pytest.approx(1e9 * (read + written) / 2e12)
    assert training.optimizer_time(1e9, 2e12, 16) == pytest.approx(8e-3)


# Three totals, and the slip of the source


@pytest.mark.independent
@given(TIME, TIME, TIME)
def test_the_limits_of_the_three_totals(compute: float, communication: float, bubble: float) -> None:
    perfect = training.step_time(compute, communication, bubble, overlap=1.0)
    assert perfect == pytest.approx(max(compute, communication) + bubble)
    none = training.step_time(compute, communication, bubble, overlap=0.0)
    assert none == pytest.approx(compute + communication + bubble)
    assert perfect <= training.step_time(compute, communication, bubble) <= none * (1 + 1e-12)


@pytest.mark.independent
def test_nothing_hides_the_bubble() -> None:
    """P 8, m 32, no messages: 1 + 7/32 = 1.22. With the bubble among the messages, 1 + 0.2 x 7/32 = 1.04."""
    bubble = 7 / 32
    assert training.step_time(1.0, 0.0, bubble) == pytest.approx(1.21875)
    assert training.step_time(1.0, 0.0, bubble) == pytest.approx(training.pipelined_step(1 / 32, 32, 8))
    assert training.step_time(1.0, bubble) == pytest.approx(1.04375)


# Waiting for the slowest


@pytest.mark.independent
@pytest.mark.parametrize(("devices", "high"), [(2, 1.2), (100, 0.25), (1024, 0.18), (16_384, 0.13)])
def test_the_slowest_of_many_normal_times_lies_below_the_bound(devices: int, high: float) -> None:
    """Monte Carlo: the excess of the expected maximum is at most the bound, and the bound at most the stated share above."""
    draws = np.random.default_rng(6)
    trials = 1_000_000 // devices if devices < 2000 else 400
    slowest = np.concatenate([draws.normal(10.0, 0.2, (trials // 4, devices)).max(axis=1) for _ in range(4)]).mean()
    bound = training.straggler_time(10.0, 0.02, devices)
    assert slowest < bound
    assert (bound - 10) / (slowest - 10) - 1 < high


@pytest.mark.independent
def test_the_limits_of_the_slowest() -> None:
    assert training.straggler_time(3.0, 0.1, 1) == 3.0
    assert training.straggler_time(3.0, 0.0, 1000) == 3.0
    # e^(k^2 / 2) devices: the bound lies k standard deviations above the mean
    for k in (1, 2, 3, 4):
        assert training.straggler_time(1.0, 0.1, math.exp(k * k / 2)) == pytest.approx(1 + 0.1 * k)


# Utilisation


@pytest.mark.independent
def test_utilisation_by_hand() -> None:
    assert training.mfu(312e12, 1.0, 1, 312e12) == 1.0
    assert training.mfu(8 * 312e12, 4.0, 4, 312e12) == pytest.approx(0.5)
    assert training.hfu(6.0, 2.0, 1.0, 16, 1.0) == pytest.approx(0.5)
    assert training.hfu(6.0, 0.0, 3.0, 16, 1.0) == training.mfu(6.0, 3.0, 16, 1.0)


@pytest.mark.published
@pytest.mark.parametrize(
    ("layers", "hidden", "batch", "devices", "time", "printed"),
    [
        (48, 6144, 4, 8, 1.10, 0.415),
        (96, 12288, 64, 64, 13.75, 0.514),
        (105, 20480, 280, 280, 37.83, 0.560),
        (128, 25600, 512, 512, 71.49, 0.563),
    ],
)
def test_the_mfu_of_korthikanti(
    layers: int, hidden: int, batch: int, devices: int, time: float, printed: float
) -> None:
    """Korthikanti 2022, Table 5: MFU from the iteration time, every key counted, against 312 TFLOP/s."""
    counted = 72 * batch * 2048 * layers * hidden**2 * (1 + 2048 / (6 * hidden) + 51200 / (12 * layers * hidden))
    assert training.mfu(counted, time, devices, 312e12) == pytest.approx(printed, abs=0.003)


@pytest.mark.published
def test_the_mfu_of_llama3_405b() -> None:
    """Grattafiori 2024, Table 4: 430 TFLOP/s on each of 8,192 GPUs are a BF16 MFU of 43 %; 400 are 41 %, 380 are 38 %."""
    for rate, printed in ((430e12, 0.43), (400e12, 0.41), (380e12, 0.38)):
        assert training.mfu(rate, 1.0, 1, 989.5e12) == pytest.approx(printed, abs=0.0075)


@pytest.mark.published
def test_palm_without_attention() -> None:
    """Chowdhery 2022, Table 3: PaLM 540B at 238.3k tokens/s on 6,144 TPU v4: 46.2 %, and 45.7 % without self-attention."""
    per_token = 6 * 540.35e9
    bare = training.mfu(238.3e3 * per_token, 1.0, 6144, 275e12)
    full = training.mfu(238.3e3 * (per_token + 12 * 118 * 48 * 256 * 2048), 1.0, 6144, 275e12)
    assert bare == pytest.approx(0.457, abs=0.001)
    assert full == pytest.approx(0.462, abs=0.001)


# A run


@pytest.mark.published
def test_gpt3_on_1024_a100_takes_34_days() -> None:
    """Narayanan 2021, sec. 5.1: 175B parameters, 300B tokens, 1,024 A100 at 140 TFLOP/s, 8 T P: 34 days."""
    assert training.run_time(8 * 175e9 * 300e9, 1024, 140e12) / DAY == pytest.approx(34, abs=0.5)


@pytest.mark.published
def test_a_trillion_parameters_take_84_days() -> None:
    """Narayanan 2021, sec. 5.1: 1T parameters, 450B tokens, 3,072 A100 at 163 TFLOP/s: 84 days."""
    assert training.run_time(8 * 1e12 * 450e9, 3072, 163e12) / DAY == pytest.approx(84, abs=1)


@pytest.mark.independent
def test_the_page_that_says_28_days_computes_25() -> None:
    """Roofline page, sec. 4 and 6: 6 N D at 45 % of 312 TFLOP/s."""
    assert training.run_time(6 * 175e9 * 300e9, 1024, 0.45 * 312e12) / DAY == pytest.approx(25.4, abs=0.05)


@pytest.mark.independent
@given(st.floats(1e9, 1e14), st.floats(1e3, 1e8), TIME)
def test_steps_and_rates_tell_the_same_run(tokens: float, per_step: float, step: float) -> None:
    """A rate that is the step's FLOPs over its time gives the run that its steps give."""
    work, devices = 6 * 7e9, 64
    rate = work * per_step / (devices * step)
    by_rate = training.run_time(work * tokens, devices, rate)
    assert training.time_to_train(tokens, per_step, step) == pytest.approx(by_rate, rel=1e-9)


@pytest.mark.published
def test_the_gpt3_example_of_megatron() -> None:
    """Megatron-LM, README: 1,024 A100, batch 1536, about 32 s a step; the script trains 146,484,375 samples of 2,048."""
    tokens = 146_484_375 * 2048
    assert tokens == pytest.approx(300e9, rel=1e-4)
    days = training.time_to_train(tokens, 1536 * 2048, 32) / DAY
    assert days == pytest.approx(146_484_375 / 1536 * 32 / DAY)
    assert days == pytest.approx(34, abs=1.5)
    # the same page: 138 TFLOP/s, 44 % of the peak, repetition counted
    work = flops.megatron_flops(1536, 2048, 96, 12288, 51200)
    assert training.hfu(work, 0.0, 32, 1024, 312e12) == pytest.approx(0.44, abs=0.005)


# The same numbers as the chapters before


@pytest.mark.independent
def test_gradients_that_hide_are_those_of_chapter_four() -> None:
    """70B, TP 8, PP 4, 64 replicas over 50 GB/s: what the ring of chapter 4 takes, less what the last backward covers."""
    shard = transformer.parameter_count("Llama-3.1-70B").total / 32 * 4
    ring = collectives.ring_all_reduce(shard, 64, 50e9)
    assert training.exposed_time(ring, ring) == 0
    assert training.exposed_time(ring, ring / 4) == pytest.approx(0.75 * ring)


# Bad input, arrays


@pytest.mark.independent
def test_bad_input_names_the_argument() -> None:
    calls: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: training.exposed_time(1.0, 1.0, 1.5), "overlap"),
        (lambda: training.step_time(1.0, 1.0, overlap=-0.1), "overlap"),
        (lambda: training.pipelined_step(1.0, 0.5), "micro_batches"),
        (lambda: training.pipelined_step(1.0, 4, pp=0), "pp"),
        (lambda: training.straggler_time(1.0, 0.1, 0), "devices"),
        (lambda: training.mfu(1.0, 0.0, 1, 1.0), "time"),
        (lambda: training.hfu(1.0, 0.0, 1.0, 1, 0.0), "peak_flops"),
        (lambda: training.time_to_train(1e9, 0.0, 1.0), "tokens_per_step"),
        (lambda: training.run_time(1.0, 1, 0.0), "achieved_flops"),
        (lambda: training.elementwise_time(1.0, 1.0, 1.0, 0.0), "bandwidth"),
        (lambda: training.optimizer_time(-1.0, 1.0), "parameters"),
        (lambda: training.stage_time(1, math.nan), "layer"),
    )
    for call, name in calls:
        with pytest.raises(InputError, match=name):
            call()


@pytest.mark.independent
def test_arrays_are_floats_side_by_side() -> None:
    devices = np.array([1, 8, 1024])
    assert training.straggler_time(2.0, 0.05, devices).tolist() == [
        training.straggler_time(2.0, 0.05, int(n)) for n in devices
    ]
    overlap = np.linspace(0, 1, 5)
    assert training.step_time(2.0, 1.0, 0.5, overlap).tolist() == [
        training.step_time(2.0, 1.0, 0.5, float(o)) for o in overlap
    ]


@pytest.mark.independent
def test_muon_multiplies_what_its_iteration_says() -> None:
    """X X^T, its square, and that times X: 2 n n m, 2 n n n, 2 n n m; five times. At most Tm/B of a step (jordan2024muon)."""
    n, m = 3.0, 7.0
    assert training.muon_flops(n, m) == 5 * (2 * n * n * m + 2 * n**3 + 2 * n * n * m)
    tokens = 524_288
    assert training.muon_flops(768, 768) / (6 * 768 * 768 * tokens) == pytest.approx(5 * 768 / tokens)
