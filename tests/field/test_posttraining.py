"""After pre-training: adapters and their memory, the longest of many answers, pools, weights on their way, and feeding."""

import math
import random
from functools import cache
from statistics import NormalDist

import numpy as np
import pytest

from mlsysim import evidence, flops, posttraining
from mlsysim.errors import InputError
from mlsysim.evidence.measured.posttraining import sync_rate
from mlsysim.inference import decode_step, deploy
from mlsysim.parallelism import Plan
from mlsysim.posttraining import RLStep, rl_split, rl_step
from mlsysim.training import training_step


@pytest.mark.independent
def test_an_adapter_has_two_thin_factors() -> None:
    rows, columns, rank = 12, 20, 3
    one = rows * rank + rank * columns
    assert posttraining.adapter_parameters(rank, 5, rows, columns) == 5 * one
    full = posttraining.adapter_parameters(rows * columns / (rows + columns), 1, rows, columns)
    assert full == pytest.approx(rows * columns)  # from this rank on, nothing is saved


@pytest.mark.independent
def test_memory_of_frozen_and_trained_weights_by_hand() -> None:
    assert posttraining.fine_tuning_state(10.0, 3.0, 2.0, 16.0) == 20.0 + 48.0
    assert posttraining.fine_tuning_state(0.0, 7.0) == 7 * 16.0  # all are trained
    assert posttraining.fine_tuning_state(7.0, 0.0, 0.5) == 3.5  # none is


@pytest.mark.independent
def test_the_longest_of_one_and_of_two_has_a_closed_form() -> None:
    for variation in (0.0, 0.1, 0.5, 1.0, 3.0):
        spread = math.sqrt(math.log1p(variation**2))
        assert posttraining.longest_rollout(1000.0, variation, 1) == pytest.approx(1000.0, rel=1e-11)
        two = 2000.0 * NormalDist().cdf(spread / math.sqrt(2))  # E[max] of two lognormal variables
        assert posttraining.longest_rollout(1000.0, variation, 2) == pytest.approx(two, rel=1e-11)
    assert posttraining.longest_rollout(5.0, 0.0, 1e6) == pytest.approx(5.0)  # all alike


@pytest.mark.independent
def test_the_longest_of_many_is_what_drawing_them_gives() -> None:
    spread = math.sqrt(math.log1p(0.25))
    drawn = np.exp(np.random.default_rng(7).normal(-0.5 * spread**2, spread, (4000, 64))).max(axis=1)
    error = drawn.std() / math.sqrt(len(drawn))
    assert posttraining.longest_rollout(1.0, 0.5, 64) == pytest.approx(drawn.mean(), abs=4 * error)


@pytest.mark.independent
def test_steps_of_a_batch_that_shrinks_add_up() -> None:
    """Answers that end one after the other, decode step by decode step."""
    rng = random.Random(3)
    lengths = [rng.randint(1, 40) for _ in range(9)]
    floor, token = 0.01, 0.002
    walked = sum(floor + token * sum(n > s for n in lengths) for s in range(max(lengths)))
    mean = sum(lengths) / len(lengths)
    assert posttraining.rollout_time(max(lengths), mean, len(lengths), floor, token) == pytest.approx(walked)


@pytest.mark.independent
def test_groups_that_teach_are_counted_out() -> None:
    for group in (1, 2, 3, 5):
        for pass_rate in (0.0, 0.2, 0.5, 1.0):
            mixed = 0.0
            for outcome in range(2**group):
                right = outcome.bit_count()
                if 0 < right < group:
                    mixed += pass_rate**right * (1 - pass_rate) ** (group - right)
            assert posttraining.useful_groups(pass_rate, group) == pytest.approx(mixed, abs=1e-12)


@pytest.mark.independent
def test_weights_of_answers_are_worth_what_drawing_them_gives() -> None:
    """The square of the sum of weights over the sum of squares, of products of random ratios."""
    tokens, spread = 40, 0.1
    ratios = np.random.default_rng(11).normal(-spread * spread / 2, spread, (200_000, tokens))
    for logs, count in ((ratios.sum(axis=1), tokens), (ratios[:, 0], 1), (ratios.mean(axis=1), 1 / tokens)):
        weights = np.exp(logs)
        drawn = weights.sum() ** 2 / (weights**2).sum() / len(weights)
        assert posttraining.effective_share(count, spread) == pytest.approx(drawn, rel=0.01)
    assert posttraining.effective_share(100, 0.1) == pytest.approx(1 / math.e)


@pytest.mark.independent
def test_two_pools_gain_nothing_where_both_scale() -> None:
    generation, training = 60.0, 20.0
    best = min(posttraining.two_pools_step(generation, training, x / 1000) for x in range(1, 1000))
    assert best == pytest.approx(generation + training)  # what one after the other takes on all devices
    assert posttraining.two_pools_step(generation, training, 0.75) == pytest.approx(best)
    assert posttraining.two_pools_step(generation, training, 0.5) == 120.0
    assert posttraining.two_pools_step(generation, training, 0.9) == pytest.approx(200.0)


@pytest.mark.independent
def test_answers_are_as_old_as_the_queue_says() -> None:
    """A trainer takes four answers a step; eight are always being written, each for as long as two steps take."""
    started = [max(0, n // 4 - 2) for n in range(400)]  # answer n begins when a place is free: two steps before it ends
    ages = [n // 4 - started[n] for n in range(40, 400)]
    assert posttraining.rollout_staleness(8, 4) == sum(ages) / len(ages) == 2.0
    assert posttraining.rollout_staleness(8, 4, waiting=4) == 3.0
    assert posttraining.rollout_staleness(0, 4) == 0.0


@pytest.mark.independent
def test_weights_and_evaluations_and_bytes_by_hand() -> None:
    assert posttraining.weight_sync(120.0, 60.0, 4.0, 20.0) == 2.0  # four of 20 would do 80, the software does 60
    assert posttraining.weight_sync(120.0, 60.0, 2.0, 20.0, setup=0.5) == 3.5  # two of 20
    assert posttraining.evaluation_share(10.0, 5, 2.0) == 0.5
    assert posttraining.evaluation_share(10.0, 1e9, 2.0) == pytest.approx(0.0, abs=1e-8)
    assert posttraining.evaluation_share(0.0, 5, 2.0) == 0.0
    assert posttraining.reader_rate(8, 400 / 0.224, 114_660.07) == pytest.approx(1.638e9, rel=1e-3)  # ResNet-50, 8 H100


@cache
def synchronous() -> RLStep:
    return rl_step("Llama-3.1-8B", "2 x DGX-H100", samples=512, mean_len=4000, variation=0.5)


@pytest.mark.independent
def test_a_step_is_made_of_the_serving_model_and_the_training_step() -> None:
    s = synchronous()
    served = deploy("Llama-3.1-8B", "2 x DGX-H100")
    for answers in (1, 32):  # the line goes through both ends
        step = float(decode_step(served, context=512 + 2000, batch=answers).time)
        assert s.step_time + answers * s.token_time == pytest.approx(step)
    assert (
        s.time
        == pytest.approx(s.generation + s.scoring + s.training + s.syncing)
        == pytest.approx(sum(s.parts.values()))
    )
    assert s.steps == s.longest == pytest.approx(4000 * posttraining.longest_rollout(1.0, 0.5, 512))
    assert s.tail == pytest.approx((s.steps - 4000) * s.step_time)
    assert s.scoring == pytest.approx(s.training / 4) and s.staleness == 0.0
    assert rl_step("Llama-3.1-8B", "2 x DGX-H100", samples=512, mean_len=4000, scorings=0).scoring == 0.0


@pytest.mark.independent
def test_with_equal_lengths_and_one_version_two_pools_win_nothing_but_what_does_not_scale() -> None:
    asked = {"samples": 512, "mean_len": 4000, "variation": 0.0}
    one, two = rl_step("Llama-3.1-8B", "2 x DGX-H100", **asked), rl_split("Llama-3.1-8B", "2 x DGX-H100", **asked)
    assert one.tail == pytest.approx(0.0, abs=1e-6)
    tailed = rl_split("Llama-3.1-8B", "2 x DGX-H100", samples=512, mean_len=4000, variation=0.5)
    assert tailed.time == pytest.approx(two.time)  # the pool does not feel the tail
    assert synchronous().time / tailed.time > 2 > one.time / two.time  # all who wait do
    assert two.staleness == pytest.approx(1.0)


@pytest.mark.independent
def test_the_best_split_is_found_among_all() -> None:
    asked = {"samples": 256, "mean_len": 1000}
    every = [rl_step("Llama-3.1-8B", "1 x DGX-H100", generators=n, **asked) for n in range(1, 8)]
    found = rl_split("Llama-3.1-8B", "1 x DGX-H100", **asked)
    assert found.time == min(r.time for r in every)
    assert found.time == pytest.approx(max(found.generation, found.scoring + found.training) + found.syncing)


@pytest.mark.independent
def test_a_limit_on_length_and_a_small_memory_are_felt() -> None:
    asked = {"samples": 512, "mean_len": 4000, "variation": 0.5}
    cut = rl_step("Llama-3.1-8B", "2 x DGX-H100", longest=8000, **asked)
    assert cut.steps == 8000 and cut.generation < synchronous().generation
    crowded = rl_step("Llama-3.1-70B", "1 x DGX-H100", tp=4, samples=4096, mean_len=4000, variation=0.5)
    assert crowded.concurrency < 4096 / 2 and crowded.steps > 2048 * 4000 / crowded.concurrency  # waves
    young = rl_step("Llama-3.1-8B", "2 x DGX-H100", generators=8, staleness=0.25, **asked)
    old = rl_step("Llama-3.1-8B", "2 x DGX-H100", generators=8, staleness=2.0, **asked)
    assert young.staleness == pytest.approx(0.25) and young.generation > 2 * old.generation


@pytest.mark.independent
def test_a_step_takes_the_layout_and_the_format_that_it_is_given() -> None:
    asked = {"samples": 512, "mean_len": 1000}
    plan = Plan(tp=2, dp=8, sharding="zero1", recompute="none", sequence_parallel=True)
    planned = rl_step("Llama-3.1-8B", "2 x DGX-H100", plan=plan, **asked)
    by_hand = training_step("Llama-3.1-8B", plan, "2 x DGX-H100", global_batch=512, seq=1512)
    assert planned.training == pytest.approx(float(by_hand.time))
    assert planned.scoring == pytest.approx(planned.training / 3)  # nothing is repeated: one of three passes
    narrow = rl_step("Llama-3.1-8B", "2 x DGX-H100", plan=plan, precision="fp8", **asked)
    assert narrow.generation < planned.generation and narrow.training == planned.training
    tables, weights = 2 * 128256 * 4096, 8_030_261_248  # embedding and head keep two bytes
    assert planned.syncing == pytest.approx(2 * weights / 60e9)
    assert narrow.syncing == pytest.approx((weights + tables) / 60e9, rel=1e-3)
    with pytest.raises(InputError, match="plan = 8 devices must be the 16 that train"):
        rl_step("Llama-3.1-8B", "2 x DGX-H100", plan=Plan(dp=8), **asked)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"generators": 16}, r"generators = 16 must be a whole number in \[0, 15\]"),
        ({"samples": 0}, "samples = 0 is outside"),
        ({"tp": 3}, "tp = 3 must divide the 16 devices"),
        ({"longest": 10}, "longest = 10 tokens must not be below mean_len"),
        ({"cluster": "H100"}, "names no number of nodes"),
        ({"model": "Llama-3.1-405B"}, "no answer fits beside Llama-3.1-405B"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, object], says: str) -> None:
    asked = {"model": "Llama-3.1-8B", "cluster": "2 x DGX-H100", "samples": 64, "mean_len": 500, **change}
    with pytest.raises(InputError, match=says):
        rl_step(asked.pop("model"), asked.pop("cluster"), **asked)  # type: ignore[arg-type]


def test_a_split_needs_two_pools() -> None:
    with pytest.raises(InputError, match="generators is what it looks for"):
        rl_split("Llama-3.1-8B", "2 x DGX-H100", samples=64, mean_len=500, generators=3)
    with pytest.raises(InputError, match="no devices left to train"):
        rl_split("Llama-3.1-8B", "1 x DGX-H100", samples=64, mean_len=500, tp=8)


@pytest.mark.published
def test_printed_figures_of_post_training() -> None:
    found = {c.measurement.name: c for c in evidence.checks("posttraining")}
    assert len(found) == 46 and all(c.measurement.sourced.source for c in found.values())
    # by hand: 2 x 96 matrices of 12,288 squared, rank 1; the library's own count; 12 bytes for each of 65 billion
    assert found["lora-gpt3-r1"].predicted == 192 * 2 * 12288
    assert found["peft-mt0-large"].error == 0.0 and found["qlora-65b-full"].predicted == 780e9
    assert found["lora-deberta-xxl"].predicted * 2 == pytest.approx(4.7e6, rel=0.01)  # the appendix has half the rank
    assert found["lora-gpt3-speed"].predicted == pytest.approx(8 / 6)  # with the forward pass repeated, else 6 / 4
    assert flops.matmul_flops_per_token(1.0) / flops.lora_flops(1.0, 0.0) == 1.5
    assert abs(found["laion-longest"].error) < 0.15
    assert all(abs(c.error) < 0.2 for c in found.values() if c.measurement.kind == "sync")
    # a terabyte to 128 adapters of 400 Gbit/s; copies and casts, which are not counted, take eight times as long
    assert found["perplexity-kimi"].predicted == pytest.approx(1.0e12 / (128 * 50e9), rel=0.05)
    assert -0.9 < found["perplexity-kimi"].error < -0.8
    assert all(c.error > 0.5 for c in found.values() if c.measurement.kind == "pools")  # refuted, and told so
    assert found["verl-64"].predicted == pytest.approx(2 * 150.72)
    whole = [c.error for c in found.values() if c.measurement.kind == "step"]
    assert (
        len(whole) == 14 and -0.6 < min(whole) < max(whole) < -0.15
    )  # a sum of parts is too short, and by no factor of three


@pytest.mark.independent
def test_a_rate_is_not_judged_by_itself() -> None:
    rows = {n: sync_rate(r) for n, r in evidence.measurements("posttraining").items() if r.kind == "sync"}
    others = sorted(v for n, v in rows.items() if n != "ckpt-kimi-16")
    row = evidence.measurements("posttraining")["ckpt-kimi-16"]
    bytes_ = rows["ckpt-kimi-16"] * (row.value - 1.33)
    assert evidence.check("ckpt-kimi-16").predicted == pytest.approx(bytes_ / others[2] + 1.33)
