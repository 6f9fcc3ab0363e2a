"""A closed loop: its closed form beside requests played one by one, its limits, and what it refuses."""

import bisect
import dataclasses
import heapq
import itertools
import math
import random
import statistics
from pathlib import Path
from typing import Any

import pytest

from mlsysim import inference, serving, simulate
from mlsysim.efficiencies import shipped
from mlsysim.errors import InputError
from mlsysim.inference.work import mixed_cost
from mlsysim.serving import Pool, Request, closed_loop
from mlsysim.serving.closed import batching_delay, lookahead_delay, pass_of, shared_step_delay
from mlsysim.serving_steps import step_model


def pool_of(model: str = "Llama-3.1-70B", device: str = "H100", **how: object) -> tuple[inference.Deployment, Pool]:
    d = inference.deploy(model, device, **how)  # type: ignore[arg-type]
    return d, Pool(d.split, d.machine, d.efficiencies)


def played(d: inference.Deployment, n: int, each: int, requests: list[Request]) -> serving.Simulation:
    assert len(requests) == n * each
    return serving.simulate(step_model(d), requests, serving.Config(), concurrency=n)


@pytest.mark.independent
def test_one_request_at_a_time_is_a_prompt_and_its_steps() -> None:
    """With one request in flight nothing waits and nothing is shared: the simulation and the closed form are the same."""
    d, pool = pool_of(tp=8, precision="fp8")
    found = played(d, 1, 4, [Request(0.0, 1000, 200)] * 4)
    loop = closed_loop(d.work, pool, concurrency=1.0, input_len=1000.0, output_len=200.0, requests_per_user=math.inf)
    assert statistics.mean(r.itl_s for r in found.records) == pytest.approx(loop.tpot, rel=1e-9)
    assert statistics.mean(r.ttft_s for r in found.records) == pytest.approx(loop.ttft, rel=1e-9)
    assert 4 / found.makespan == pytest.approx(loop.requests_per_s, rel=1e-9)


@pytest.mark.independent
@pytest.mark.parametrize(("n", "input_len", "output_len"), [(8, 500, 300), (32, 1000, 400)])
def test_many_requests_complete_at_the_rate_of_the_closed_form(n: int, input_len: int, output_len: int) -> None:
    d, pool = pool_of(tp=8, precision="fp8")
    prompts = serving.lengths(input_len, 12 * n, 0.1, seed=1)
    answers = serving.lengths(output_len, 12 * n, 0.1, seed=2)
    found = played(d, n, 12, list(serving.load((0.0,) * (12 * n), prompts, answers)))
    loop = closed_loop(
        d.work,
        pool,
        concurrency=float(n),
        input_len=float(input_len),
        output_len=float(output_len),
        requests_per_user=12.0,
    )
    assert len(found.records) / found.makespan == pytest.approx(loop.requests_per_s, rel=0.12)
    assert statistics.mean(r.itl_s for r in found.records) == pytest.approx(loop.tpot, rel=0.12)


@pytest.mark.independent
def test_the_loop_obeys_littles_law() -> None:
    """Requests in flight are the rate times how long each stays: what waits for memory included."""
    d, pool = pool_of(tp=8, precision="fp8")
    for slots in (math.inf, 20.0):
        loop = closed_loop(
            d.work, dataclasses.replace(pool, slots=slots), concurrency=64.0, input_len=2000.0, output_len=500.0
        )
        stays = loop.ttft + 499.0 * loop.tpot
        assert loop.requests_per_s * stays == pytest.approx(64.0, rel=1e-9)
    assert loop.decoding <= 20.0


@pytest.mark.independent
@pytest.mark.parametrize("apart", [0.0, 1.0])
def test_with_fewer_requests_than_replicas_nobody_waits_and_some_replicas_idle(apart: float) -> None:
    d, pool = pool_of(tp=8, precision="fp8")
    pool = dataclasses.replace(pool, replicas=8.0)

    def loop(concurrency: float) -> serving.Loop:
        lengths = {"input_len": 2000.0, "output_len": 500.0, "requests_per_user": math.inf}
        return closed_loop(d.work, pool, pool, concurrency=concurrency, disaggregated=apart, **lengths)

    full, few = loop(8.0), loop(2.0)
    assert (few.ttft, few.tpot) == pytest.approx((full.ttft, full.tpot), rel=1e-9)
    for found, concurrency in ((full, 8.0), (few, 2.0)):  # Little's law
        assert found.requests_per_s * (found.ttft + 499.0 * found.tpot) == pytest.approx(concurrency, rel=1e-9)


@pytest.mark.independent
def test_a_pool_for_prompts_that_costs_nothing_leaves_the_bare_step() -> None:
    """With an endless pool for prompts a token takes a step, and the first one a prompt more."""
    d, pool = pool_of(tp=8, precision="fp8")
    many = dataclasses.replace(pool, replicas=1e9)
    loop = closed_loop(
        d.work,
        pool,
        many,
        concurrency=16.0,
        input_len=800.0,
        output_len=400.0,
        disaggregated=1.0,
        requests_per_user=math.inf,
    )
    step = pass_of(d.work, pool, loop.decoding, 1000.0, 0.0, 800.0).time
    prompt = pass_of(d.work, pool, 0.0, 1000.0, 1.0, 800.0).time
    assert loop.tpot == pytest.approx(step, rel=2e-3)
    assert loop.ttft == pytest.approx(prompt + step, rel=2e-3)


@pytest.mark.independent
def test_speculation_with_nothing_drafted_is_none_and_with_all_accepted_free_it_halves_the_steps() -> None:
    d, pool = pool_of(tp=8, precision="fp8")
    question = {"concurrency": 4.0, "input_len": 500.0, "output_len": 400.0}
    plain = closed_loop(d.work, pool, **question)
    same = closed_loop(d.work, pool, drafted=0.0, accepted=1.0, **question)
    assert same.tpot == plain.tpot
    twice = closed_loop(d.work, pool, drafted=1.0, accepted=2.0, **question)
    assert 0.5 * plain.tpot < twice.tpot < 0.6 * plain.tpot  # rows and a layer more, where memory is what takes long


@pytest.mark.independent
def test_uneven_choice_meets_fewer_experts_and_even_choice_is_the_formula() -> None:
    d, pool = pool_of("Qwen3-235B-A22B", "H200", tp=8, precision="fp8")
    times = []
    for routing_cv2 in (0.0, 1e-9, 0.5, 2.0):
        eff = dataclasses.replace(pool.efficiencies, routing_cv2=routing_cv2)
        times.append(pass_of(d.work, dataclasses.replace(pool, efficiencies=eff), 32.0, 1000.0, 0.0, 1.0).time)
    assert times[1] == pytest.approx(times[0], rel=1e-6)
    assert times[0] > times[2] > times[3]


@pytest.mark.independent
def test_served_changes_only_what_it_says() -> None:
    d, pool = pool_of(tp=8)
    by = serving.ServerOverheads(starts=2.0, grouped=3.0, routing_cv2=0.1, sequence=1e-5)
    found = serving.served(pool.efficiencies, by)
    assert found.kernel_start == 2.0 * pool.efficiencies.kernel_start
    assert found.grouped_start == 3.0 * pool.efficiencies.grouped_start
    assert found.sequence_overhead == pool.efficiencies.sequence_overhead + 1e-5
    for kernels in (1.0, 5.0):  # of one call in place of two grouped products
        fused = serving.served(pool.efficiencies, serving.ServerOverheads(grouped=3.0, fused=kernels))
        assert 2.0 * fused.grouped_start == pytest.approx(kernels * pool.efficiencies.kernel_start)
    assert (found.memory, found.gemm) == (pool.efficiencies.memory, pool.efficiencies.gemm)
    assert serving.server_constants(d.work, 0.0, {}) == serving.ServerOverheads()
    assert serving.ttft_constants(d.work, {}) == (0.0, 0.0, 1.0)
    fitted = {"pace": {"experts": 2.0}, "latency": {"kernel": 1e-5, "request": 0.0}}
    mixture = inference.work_of("gpt-oss-120B")
    # a layer of Llama: four products, two norms, rotation, cache, activation, attention
    assert serving.ttft_constants(d.work, fitted) == (0.0, pytest.approx(10.0 * 80.0 * 1e-5), 1.0)
    grouped, called = (serving.ttft_constants(mixture, fitted, fused=f) for f in (0.0, 5.0))
    assert grouped[2] == 2.0
    assert grouped[1] - called[1] == pytest.approx(36.0 * 1e-5)  # one kernel of a layer in place of two
    sent = {"pace": {"experts": 2.0}, "latency": {"kernel": 1e-5, "request": 0.01}}
    assert serving.ttft_constants(d.work, sent, captured=1.0) == (0.01, 0.0, 1.0)  # nothing is launched one by one
    assert mixed_cost.__name__ == "mixed_cost"


@pytest.mark.independent
@pytest.mark.parametrize(("spread", "users"), [(0.0, 64.0), (0.06, 64.0)])
def test_prompts_that_come_in_one_step_share_a_pass(spread: float, users: float) -> None:
    """Where prompts run alone: of users whose lengths are alike eight prompts of 1,000 tokens fill a pass; of others as many as end in a step.

    A pass of eight takes what one takes and seven times what one more takes; played by hand from the times of passes.
    """
    _, pool = pool_of(tp=8, precision="fp8")
    d = inference.deploy("Llama-3.1-70B", "H100", tp=8, precision="fp8")
    zero, one = 0.0, 1.0
    own = pass_of(d.work, pool, zero, 1050.0, one, 1024.0).time
    more = (pass_of(d.work, pool, zero, 1050.0, 4.0, 1024.0).time - own) / 3.0
    loop = closed_loop(
        d.work,
        pool,
        concurrency=users,
        input_len=1024.0,
        output_len=52.0,
        alone=1.0,
        spread=spread,
        requests_per_user=math.inf,
    )
    joint = loop.added
    if spread == 0.0:
        assert joint == pytest.approx((own + 7.0 * more) / 8.0, rel=1e-9)
    else:
        ends = loop.decoding / 51.0  # answers that end in a step, of the last round but one
        assert (own + more * (ends - 1.0)) / max(1.0, ends) == pytest.approx(joint, rel=0.02) and joint <= own


@pytest.mark.independent
def test_slow_kernels_with_block_scales_slow_the_answers_of_their_devices_alone() -> None:
    """MI300X multiplies few rows with block-scaled weights slowly; other formats, other devices and the prompts' own pool do not."""
    from mlsysim.evidence.predictors.base import Row
    from mlsysim.evidence.predictors.serving import _case

    d, pool = pool_of("DeepSeek-V3", "MI300X", tp=8, precision="fp8")
    fitted = {
        "experts": {"starts": 1.0, "routing_cv2": 0.0}, "messages": {"hops": 1.0}, "host": {"prompts": 1.0, "sequence": 0.0},
        "block scales": {"slow": 2.0},
    }  # fmt: skip
    plain, slow = (serving.server_constants(d.work, 0.0, fitted, b) for b in (0.0, 1.0))
    assert (plain.blocks, slow.blocks) == (1.0, 2.0)
    eff = serving.served(pool.efficiencies, slow)
    own = serving.answers(eff, slow)
    assert serving.answers(eff, plain) == eff
    bare = dataclasses.replace(own, attention_start=0.0, link_latency=0.0, switch_time=0.0, elementwise=0.0)
    once = dataclasses.replace(eff, attention_start=0.0, link_latency=0.0, switch_time=0.0, elementwise=0.0)

    def step(e: inference.Efficiencies) -> float:
        free = dataclasses.replace(pool.machine, intra_bandwidth=1e30)
        return float(pass_of(d.work, dataclasses.replace(pool, efficiencies=e, machine=free), 4.0, 1.0, 0.0, 1.0).time)

    assert step(bare) / step(once) == pytest.approx(2.0, rel=0.02)  # all but attention
    row = _ROW | {"gemm_quant": "fp8_block", "moe_quant": "fp8_block"}
    read = [row, row | {"device": "MI300X"}, row | {"device": "MI300X", "gemm_quant": "fp8", "moe_quant": "fp8"}]
    assert [_case(Row(r)).blocks for r in read] == [0.0, 1.0, 0.0]


@pytest.mark.independent
def test_a_step_takes_the_quicker_kernels_to_experts_on_other_domains() -> None:
    """Few rows go straight, many once to each domain; so a prompt never shortens a step, whatever else is in it."""
    d, pool = pool_of("DeepSeek-V3", "H200", tp=1, dp=32, ep=32, precision="fp8", inter_bandwidth=50e9)
    plain = dataclasses.replace(d.efficiencies, link_latency=1e-5, network_start=0.0)
    far, pool = pool, dataclasses.replace(pool, efficiencies=plain)
    layers = d.work.layers * d.work.moe

    def sent(rows: float, prompts: float = 0.0) -> float:
        return float(pass_of(d.work, pool, rows, 1000.0, prompts, 500.0).sent)

    # 24 of 32 devices lie in other domains; a row of 7,168 numbers goes out in one byte each and comes back in two
    row = 3.0 * 7168.0 / (50e9 * plain.link)
    assert sent(4.0) == pytest.approx(layers * (4.0 * row * 8.0 * 0.75 + 2e-5), rel=1e-9)
    domains = 4.0 * (1.0 - math.prod((192 - drawn) / (256 - drawn) for drawn in range(8)))
    assert sent(2000.0) == pytest.approx(layers * (2000.0 * row * domains * 0.75 + 2e-5), rel=1e-9)
    # where a message leaves the domain it starts as any collective does, two for each layer: 28 us instead of 10
    start = shipped("collective")["call"]["startup_s"]
    far = dataclasses.replace(far, efficiencies=dataclasses.replace(d.efficiencies, link_latency=1e-5))
    late = float(pass_of(d.work, far, 4.0, 1000.0, 0.0, 500.0).sent)
    assert start > 2e-5 and late - sent(4.0) == pytest.approx(2.0 * layers * (start - 1e-5), rel=1e-9)
    near, inside = pool_of("DeepSeek-V3", "H200", tp=1, dp=8, ep=8, precision="fp8")
    slow = dataclasses.replace(inside, efficiencies=dataclasses.replace(near.efficiencies, network_start=1.0))
    assert pass_of(d.work, slow, 4.0, 1000.0, 0.0, 500.0).time == pass_of(d.work, inside, 4.0, 1000.0, 0.0, 500.0).time
    for rows in (1.0, 16.0, 64.0, 256.0, 1024.0):
        bare, more = (pass_of(d.work, pool, rows, 1000.0, prompts, 1.0).time for prompts in (0.0, 1.0))
        assert more > bare


@pytest.mark.independent
def test_copies_of_tokens_are_counted_by_hand() -> None:
    """A copy crosses memory three times as narrow as it multiplies and four times in 16 bits, and between its products."""
    d, pool = pool_of("gpt-oss-120B", "H100", precision="fp8")

    def moved(copies: float) -> float:
        eff = dataclasses.replace(pool.efficiencies, copies=copies)
        return float(
            pass_of(d.work, dataclasses.replace(pool, efficiencies=eff), 100.0, 1000.0, 0.0, 1.0)
            .components["elementwise"]
            .bytes
        )

    width = 2880.0  # of the model and of its experts alike; four experts a token, 36 layers
    assert moved(1.0) - moved(0.0) == pytest.approx(
        36 * 100 * 4 * ((3 + 4 * 2) * width + (2 + 6 * 2) * width), rel=2e-3
    )


@pytest.mark.independent
def test_weights_in_16_bits_multiply_at_the_16_bit_peak() -> None:
    d, pool = pool_of("Llama-3.1-70B", "H100", tp=8, precision="fp8")
    wide = dataclasses.replace(pool, split=dataclasses.replace(pool.split, weight_bytes=2.0))
    narrow, broad = (pass_of(d.work, p, 0.0, 1.0, 4.0, 4000.0).components["mlp"].compute_time for p in (pool, wide))
    assert broad / narrow == pytest.approx(2.0, rel=1e-3)


@pytest.mark.independent
def test_products_in_four_bits_unpack_nothing() -> None:
    """On a device that multiplies in four bits they are what it multiplies; on one that does not they become 16-bit numbers."""
    from mlsysim.evidence.predictors.base import Row
    from mlsysim.evidence.predictors.serving import _case

    row = {"model": "gpt-oss-120B", "backend": "trtllm", "mode": "agg", "precision": "fp4", "gemm_quant": "nvfp4"}
    row |= {"moe_quant": "nvfp4", "input_len": 1024.0, "output_len": 1024.0, "concurrency": 8.0, "tp": 1.0}
    for device, unpacked in (("B200-SXM-180GB", False), ("H200-SXM-141GB", True)):
        case = _case(Row(row | {"device": device}))
        pool = Pool(case.decode.split, case.decode.machine, case.decode.efficiencies)
        assert (pass_of(case.work, pool, 8.0, 1000.0, 0.0, 1.0).components["experts"].unpack_time > 0) == unpacked


def first_tokens(users: int, step: float, prompt: float, steps: int, fit: int, alone: bool) -> tuple[float, float]:
    """Mean time from asking to a first token, and the share of time that prompts take, played step by step.

    Prompts and answers share a device. Answers are drawn within 11 % of ``steps`` tokens; whoever has read one asks again
    after a tenth of a second on average.
    """
    rng = random.Random(11)
    reading = [rng.randint(1, steps) for _ in range(users)]  # tokens that are left
    coming: list[float] = []
    asked: list[float] = []
    now, computed, waits = 0.0, 0.0, []
    while len(waits) < 40 * users:
        while coming and coming[0] <= now:
            asked.append(heapq.heappop(coming))
        if not reading and not asked:
            now = coming[0]
            continue
        taken, asked = asked[:fit], asked[fit:]
        now += len(taken) * prompt + (0.0 if alone and taken else step)
        computed += len(taken) * prompt
        waits += [now - at for at in taken]
        if not (alone and taken):
            for _ in range(reading.count(1)):
                heapq.heappush(coming, now + rng.expovariate(10.0))
            reading = [left - 1 for left in reading if left > 1]
        reading += [round(steps * rng.uniform(0.89, 1.11)) for _ in taken]
    return statistics.fmean(waits[len(waits) // 3 :]), computed / now


@pytest.mark.independent
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(
    ("users", "prompt", "steps", "fit"), [(16, 0.3, 400, 1), (64, 0.3, 600, 1), (64, 0.03, 100, 8), (128, 0.03, 300, 8)]
)
def test_prompts_between_answers_played_step_by_step(
    users: int, prompt: float, steps: int, fit: int, alone: bool
) -> None:
    """Answers stand still while prompts run, so that hardly anybody queues, though prompts take up to three quarters of the time."""
    step = 0.02
    played, load = first_tokens(users, step, prompt, steps, fit, alone)
    answer = steps * step / (1.0 - load)
    decoding = users * answer / (answer + played + 0.1)  # Little's law
    found = shared_step_delay(
        float(alone), 0.064, step=step, prompt_time=prompt, decoding=decoding, steps=float(steps), others=users - 1.0,
        load=load, fit=float(fit),
    )  # fmt: skip
    own = prompt + (0.5 if alone else 1.5) * step
    assert own + found == pytest.approx(played, rel=0.15)


@pytest.mark.independent
def test_more_prompts_than_fit_a_step_queue_for_places() -> None:
    """Users for whom a step has one place for a prompt, where an answer has fewer steps than there are users."""
    users, prompt, step, steps = 128, 0.3, 0.02, 100
    played, load = first_tokens(users, step, prompt, steps, 1, alone=False)
    found = shared_step_delay(
        0.0, 0.064, step=step, prompt_time=prompt, decoding=float(steps), steps=float(steps), others=users - 1.0,
        load=load, fit=1.0,
    )  # fmt: skip
    assert played > 20.0 * prompt and prompt + 1.5 * step + found == pytest.approx(played, rel=0.1)


@pytest.mark.independent
def test_the_pace_of_a_first_token_fills_no_pool() -> None:
    """A first token that comes later than its prompt is through is later for its own user, and holds up nobody else."""
    d, pool = pool_of(tp=8, precision="fp8")
    asked = {
        "concurrency": 100.0,
        "input_len": 2000.0,
        "output_len": 300.0,
        "disaggregated": 1.0,
        "requests_per_user": math.inf,
    }
    plain, late = (closed_loop(d.work, pool, pool, prefill_slowdown=pace, **asked) for pace in (1.0, 2.0))
    assert plain.ttft - plain.step > 2.5 * plain.added  # they queue
    assert late.ttft - plain.ttft == pytest.approx(plain.added, rel=0.1)


@pytest.mark.independent
def test_launches_hide_behind_a_long_prompt_and_a_short_one_waits_for_them() -> None:
    d, pool = pool_of(tp=8)

    def first(input_len: float, launches: float) -> float:
        return float(
            closed_loop(d.work, pool, concurrency=1.0, input_len=input_len, output_len=100.0, launches=launches).ttft
        )

    long, short = first(8000.0, 0.0), first(100.0, 0.0)
    assert short < 0.1 < long
    assert first(100.0, 0.1) == pytest.approx(0.1)
    assert first(8000.0, 0.1) == long


@pytest.mark.independent
def test_prompts_of_one_pass_wait_for_its_end() -> None:
    """At the beginning four short prompts share a pass and all come out at its end, twice as late as one by one on average."""
    d, pool = pool_of(tp=8, precision="fp8")
    asked = {"concurrency": 4.0, "output_len": 4000.0}
    for input_len, passes in ((1000.0, 1.0), (16384.0, 8.0)):
        ever, begun = (
            closed_loop(d.work, pool, input_len=input_len, requests_per_user=w, **asked) for w in (math.inf, 10.0)
        )
        prompts = 3.0 * begun.added
        assert begun.ttft - ever.ttft == pytest.approx(prompts * (1.0 + 1.0 / passes) / 20.0, rel=0.05)


@pytest.mark.independent
def test_prompts_that_are_held_back_played_one_by_one() -> None:
    """Prompts that come at random: looked for by a clock, or held until the first of them has waited long enough."""
    draw = random.Random(5)
    rate, held = 8.0, 0.25
    come = list(itertools.accumulate(draw.expovariate(rate) for _ in range(20_000)))
    by_clock = [held - t % held for t in come]
    gathered, start = [], -1.0
    for t in come:
        start = t if t > start + held else start
        gathered.append(start + held - t)
    asked = {"step": held / 20.0, "rate": rate, "decoding": 8.0, "input_len": 900.0, "joint": 9.0}
    assert batching_delay(20.0, 0.0, 0.0, **asked)[0] == pytest.approx(statistics.mean(by_clock), rel=0.02)
    assert batching_delay(0.0, 20.0, 1e9, **asked)[0] == pytest.approx(statistics.mean(gathered), rel=0.02)
    # two prompts fill the pass: the first waits for the second, which comes after an eighth of a second and waits for nobody
    wait, company = batching_delay(0.0, 2000.0, 1808.0, **asked)
    assert (wait, company) == (pytest.approx(0.125 * 1.5 / 2.0), pytest.approx(1.0))
    assert batching_delay(0.0, 0.0, 0.0, **asked) == (0.0, 0.0)


@pytest.mark.independent
def test_a_loop_that_holds_prompts_back() -> None:
    """Held for half of twenty steps, with the company that comes in them; not where nobody else reads, and not in a pool apart."""
    d, pool = pool_of(tp=8, precision="fp8")
    asked = {"concurrency": 32.0, "input_len": 2000.0, "output_len": 4000.0}
    free, held = (closed_loop(d.work, pool, poll=p, **asked) for p in (0.0, 20.0))
    company = 32.0 / (3999.0 * held.tpot + held.added) * 20.0 * held.step
    assert held.ttft - free.ttft == pytest.approx(31.0 / 32.0 * (10.0 * held.step + company * held.added), rel=0.02)
    assert held.tpot == pytest.approx(free.tpot, rel=1e-3)
    alone = asked | {"concurrency": 1.0}
    assert closed_loop(d.work, pool, poll=20.0, gather=20.0, gather_tokens=1e5, **alone) == closed_loop(
        d.work, pool, **alone
    )
    pools = asked | {"disaggregated": 1.0, "prefill": pool}
    assert closed_loop(d.work, pool, poll=20.0, **pools).ttft == closed_loop(d.work, pool, **pools).ttft


@pytest.mark.independent
def test_steps_that_are_launched_ahead_played_one_by_one() -> None:
    """Whoever comes during a pass starts with the one after the next; by hand where every pass or none has a prompt."""
    draw = random.Random(7)
    step, prompt = 0.01, 0.04

    def beyond(prompts: float, ahead: int) -> float:
        ends = list(itertools.accumulate(step + prompt * prompts for _ in range(4_000)))
        come = [draw.uniform(0.0, ends[-3]) for _ in range(20_000)]
        starts = [ends[bisect.bisect_left(ends, t) + ahead] for t in come]
        # half of a step, and of a prompt that is met by chance, are counted elsewhere
        return statistics.mean(s - t for s, t in zip(starts, come, strict=True)) - step / 2.0

    asked = {"step": step, "prompt_time": prompt}
    for ahead in (0, 1):
        assert lookahead_delay(ahead, 0.1, load=0.0, **asked) == pytest.approx(beyond(0.0, ahead), abs=1e-4)
        assert lookahead_delay(ahead, 0.0, load=0.0, **asked) == pytest.approx(beyond(1.0, ahead), abs=4e-4)
        assert lookahead_delay(ahead, 0.1, load=3.0, **asked) == pytest.approx(
            beyond(1.0, ahead) - prompt / 2.0, abs=4e-4
        )
    d, pool = pool_of(tp=8, precision="fp8")
    loop = {"concurrency": 32.0, "input_len": 2000.0, "output_len": 4000.0}
    free, late, alike = (
        closed_loop(d.work, pool, async_steps=a, spread=b, **loop) for a, b in ((0, 0.1), (1, 0.1), (1, 0))
    )
    assert late.ttft - free.ttft > 31.0 / 32.0 * free.step
    assert alike.ttft - free.ttft == pytest.approx(31.0 / 32.0 * (free.step + 1.5 * free.added), rel=0.1)
    assert closed_loop(d.work, pool, async_steps=1.0, spread=0.0, **loop | {"concurrency": 1.0}).ttft == pytest.approx(
        closed_loop(d.work, pool, **loop | {"concurrency": 1.0}).ttft
    )
    pools = loop | {"disaggregated": 1.0, "prefill": pool}
    assert closed_loop(d.work, pool, async_steps=1.0, **pools) == closed_loop(d.work, pool, **pools)


_ROW = {
    "mode": "agg", "precision": "fp8", "input_len": 1024.0, "output_len": 1024.0, "concurrency": 8.0, "tp": 8.0,
    "model": "DeepSeek-R1", "backend": "sglang", "device": "B200-SXM-180GB",
}  # fmt: skip


@pytest.mark.regression
def test_rows_are_read_as_they_state_and_nothing_is_known_of_a_benchmark() -> None:
    """The lengths, the model and the device of a public benchmark mean nothing; its options do where a row states them."""
    from mlsysim.evidence.predictors.base import Row, Unsupported
    from mlsysim.evidence.predictors.serving import _case

    def read(**columns: object) -> Any:
        return _case(Row(_ROW | columns))

    silent, other = read(), read(input_len=1000.0)
    assert (silent.poll, silent.gather, silent.input_len, silent.spread) == (0.0, 0.0, 1024.0, other.spread)
    assert (silent.requests_per_user, silent.ahead, silent.alone) == (10.0, 1.0, 1.0)
    drawn = read(length_range=0.8, poll_steps=30.0, gather_steps=20.0, gather_tokens=1e4)
    assert (drawn.poll, drawn.gather, drawn.gather_tokens) == (30.0, 20.0, 1e4)
    assert (drawn.input_len, drawn.output_len) == (pytest.approx(921.6), pytest.approx(921.6))
    assert drawn.spread == pytest.approx(0.2 / math.sqrt(12.0) / 0.9)
    assert read(length_range=1.0).spread == 0.0  # users in step
    assert read(requests_per_user=5.0).requests_per_user == 5.0
    assert (
        read(statistic="median", requests_per_user=5.0).requests_per_user == math.inf
    )  # the first wave is none of them
    assert read(backend="vllm").ahead == read(backend="vllm").alone == 0.0
    for wrong in ({"length_range": 1.5}, {"statistic": "p99"}, {"requests_per_user": 0.5}):
        with pytest.raises(Unsupported):
            read(**wrong)
    long = {"model": "Llama-3.1-70B", "input_len": 1000.0, "output_len": 8000.0, "kv_precision": "fp8"}
    kept, freed = (read(**long, backend=b).decode.slots for b in ("trtllm", "vllm"))
    assert freed / kept == pytest.approx(9000.0 / 5000.0)  # room for the whole answer, or for the half held on average
    wide, narrow = (read(**long | {"kv_precision": p}, backend="vllm").decode.slots for p in ("bf16", "fp8"))
    assert narrow / wide == pytest.approx(2.0)
    assert read(backend="vllm").decode.split.kv_bytes == 2.0 and read(backend="trtllm").decode.split.kv_bytes == 1.0


@pytest.mark.published
@pytest.mark.parametrize(
    ("model", "device", "precision", "measured"),
    [
        ("Qwen3-235B-A22B", "B200-SXM-180GB", "bf16", 0.09218),
        ("MiniMax-M2.5", "H100-SXM5-80GB", "fp8_block", 0.08038),
        ("Llama-4-Scout", "MI300X", "bf16", 0.06857),
    ],
)
def test_one_request_at_a_time_waits_for_no_others(model: str, device: str, precision: str, measured: float) -> None:
    """SGLang's cookbook, one request in flight: no constant that explains a hundred of them stands in it."""
    from mlsysim.evidence.predictors import PREDICTORS

    row = _ROW | {"model": model, "device": device, "input_len": 610.0, "output_len": 422.0, "concurrency": 1.0,
                  "precision": precision, "gemm_quant": precision, "moe_quant": precision}  # fmt: skip
    found = PREDICTORS["serving_ttft"].predict(row, shipped("serving_ttft")).predicted
    assert found == pytest.approx(measured, rel=0.3)


@pytest.mark.independent
def test_a_row_says_in_its_own_words_which_number_it_prints(tmp_path: Path) -> None:
    from mlsysim.evidence.cases import read_cases

    head = "id,group,source,model,device,backend,mode,input_len,output_len,concurrency,measured_ttft_s,statistic,notes"
    said = ["a page (median)", "a page", "mean lengths; median times", "medians of nothing"]
    rows = [f"{i},g,{text},M,D,vllm,agg,10,10,1,0.1,," for i, text in enumerate(said)]
    rows += ["4,g,a median,M,D,vllm,agg,10,10,1,0.1,mean,", "5,g,a page,M,D,vllm,agg,10,10,1,0.1,,the mean of a run"]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    found = [c.inputs["statistic"] for c in read_cases(path).cases]
    assert found == ["median", None, None, None, "mean", "mean"]


@pytest.mark.independent
def test_reduced_hops_take_less_inside_a_domain_and_as_much_across() -> None:
    """With a tenth of a hop left, the step loses nine tenths of its latency; a group that leaves its domain loses nothing."""
    d, pool = pool_of(tp=8)
    plain = dataclasses.replace(pool.efficiencies, link_latency=1e-5, switch_time=0.0, short_link=0.0)
    less = serving.served(plain, serving.ServerOverheads(hops=0.1))

    def step(eff: inference.Efficiencies, inside: float) -> float:
        machine = dataclasses.replace(pool.machine, tp_inside=inside)
        return float(
            pass_of(d.work, dataclasses.replace(pool, efficiencies=eff, machine=machine), 4.0, 500.0, 0.0, 1.0).time
        )

    starts = 2.0 * d.work.all_reduces * d.work.layers * 1e-5  # an all-reduce is two hops
    assert step(plain, 8.0) - step(less, 8.0) == pytest.approx(0.9 * starts, rel=1e-6)
    assert step(less, 4.0) == step(plain, 4.0)


@pytest.mark.independent
def test_slow_prompts_slow_only_prompts() -> None:
    d, pool = pool_of(tp=8)
    slow = dataclasses.replace(
        pool, efficiencies=serving.served(pool.efficiencies, serving.ServerOverheads(prompts=2.0))
    )
    asked = {"concurrency": 16.0, "input_len": 2000.0, "output_len": 300.0}
    one, two = closed_loop(d.work, pool, **asked), closed_loop(d.work, slow, **asked)
    assert two.added == pytest.approx(2.0 * one.added, rel=0.02) and two.step == pytest.approx(one.step, rel=0.02)
    assert two.tpot > one.tpot and two.ttft > one.ttft


@pytest.mark.independent
def test_a_layer_with_an_indexer_starts_thirteen_kernels_more() -> None:
    """Projections of queries, keys and weights, norm, rotation, two transforms, two casts, weighting, cache, scores, choice."""
    plain, sparse = (inference.work_of(name).kernels for name in ("DeepSeek-V3", "DeepSeek-V3.2"))
    assert sparse - plain == pytest.approx(13.0)


@pytest.mark.independent
def test_the_busiest_device_waits_for_nobody() -> None:
    """Experts that are alike load all devices alike; on one device there is no busiest; uneven ones give one of 32 more work."""
    d = inference.deploy("DeepSeek-V3", "H200", tp=1, dp=32, ep=32, precision="fp8", inter_bandwidth=50e9)

    def work(ep: float, routing_cv2: float) -> float:
        eff = dataclasses.replace(d.efficiencies, routing_cv2=routing_cv2)
        split, machine = (
            dataclasses.replace(d.split, ep=ep, dp=ep),
            dataclasses.replace(d.machine, ep_inside=min(ep, 8.0)),
        )
        return float(pass_of(d.work, Pool(split, machine, eff), 2000.0, 1000.0, 0.0, 1.0).components["experts"].flops)

    # the largest of 32 normal draws, each with the variance of the mean of eight experts
    assert work(32.0, 1.0) / work(32.0, 0.0) == pytest.approx(1.0 + math.sqrt(2.0 * math.log(32.0) / 8.0), rel=1e-9)
    assert work(1.0, 1.0) == pytest.approx(work(1.0, 0.0), rel=1e-9)


@pytest.mark.independent
def test_replicas_share_the_clients_and_each_has_its_own() -> None:
    d, _ = pool_of("Llama-3.1-8B")
    steps = step_model(d)
    asked = [Request(0.0, 300, 50)] * 24
    one = serving.simulate(steps, asked[:12], serving.Config(), concurrency=4)
    two = serving.simulate(steps, asked, serving.Config(), replicas=2, concurrency=8)
    assert two.makespan == pytest.approx(one.makespan, rel=1e-9)
    assert {r.replica for r in two.records} == {0, 1}
    assert sorted(r.request.arrival for r in one.records)[4] > 0.0  # the fifth comes when the first has ended


def test_the_door_draws_ten_requests_for_each_in_flight_and_refuses_what_cannot_be() -> None:
    found = simulate("Llama-3.1-8B", "H100", concurrency=4, input_len=200, output_len=20)
    assert found.fits and found.simulation is not None and len(found.simulation.records) == 40
    assert found.saturation is None
    with pytest.raises(InputError, match="give one"):
        simulate("Llama-3.1-8B", "H100", concurrency=4, rate=1.0)
    with pytest.raises(InputError, match="concurrency = 0 must be a whole number from 1"):
        simulate("Llama-3.1-8B", "H100", concurrency=0)
    with pytest.raises(InputError, match="at least one for each of 8 replicas"):
        simulate("Llama-3.1-8B", "H100", concurrency=4, replicas=8, input_len=200, output_len=20)
    with pytest.raises(InputError, match="leave routing out"):
        simulate("Llama-3.1-8B", "H100", concurrency=4, routing="least-loaded", input_len=200, output_len=20)
    d, pool = pool_of("Llama-3.1-8B")
    with pytest.raises(InputError, match="give prefill"):
        closed_loop(d.work, pool, concurrency=1.0, input_len=10.0, output_len=10.0, disaggregated=1.0)
