"""The request simulator: a token-by-token server written apart, invariants, queueing theory, and traces that are wrong."""

import heapq
import itertools
import json
import math
import random
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from naive_server import serve
from support import resized

from mlsysim import capacity, catalog, cli, serving
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.inference import deploy
from mlsysim.serving import Config, Request, simulate
from mlsysim.serving_steps import Batch, StepModel, step_model

independent, published = pytest.mark.independent, pytest.mark.published
SHORT_SIGHTED = resized(catalog.model("Mistral-7B"), attn_window=24, n_windowed_layers=16)
MODELS = {
    "Llama-2-7B": step_model(deploy("Llama-2-7B", "H100")),
    "a window of 24": step_model(deploy(SHORT_SIGHTED, "H100")),
}


# A counterexample is not made smaller: planted mistakes are found in seconds then
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


class Steps:
    """Step times by a formula of our own."""

    def __init__(self, fixed: float, prompt: float = 0.0, decode: float = 0.0) -> None:
        self.fixed, self.prompt, self.decode = fixed, prompt, decode

    def time(self, batch: Batch) -> float:
        return float(self.fixed + self.prompt * batch.prefill_tokens + self.decode * batch.decodes)


REQUESTS = st.lists(
    st.builds(
        lambda at, prompt, output, share: Request(at / 16, prompt, output, int(share * prompt)),
        st.integers(0, 40),
        st.integers(1, 60),
        st.integers(1, 40),
        st.sampled_from([0.0, 0.5, 1.0]),
    ),
    max_size=14,
)
CONFIGS = st.builds(
    lambda tokens, seqs, blocks, prefix: Config(
        max_num_batched_tokens=max(tokens, seqs), max_num_seqs=seqs, kv_blocks=blocks, prefix_caching=prefix
    ),
    st.integers(1, 90),
    st.integers(1, 8),
    st.integers(7, 20),
    st.booleans(),
)


@independent
def test_a_server_beyond_saturation_never_rests() -> None:
    load = serving.load(serving.poisson(30.0, 400, seed=3), 200, 50)
    found = simulate(Steps(0.02, 1e-4), load, Config(max_num_seqs=16, kv_blocks=10_000))
    assert found.utilisation == pytest.approx(1.0, abs=1e-9)
    # 16 places, 49 decode steps and a prompt of 200 tokens each
    steady = serving.saturation_rate(16.0, 49.0, 8192.0, 200.0, 0.02 + 1e-4 * 200 * 16 / 50)
    assert found.requests_per_s == pytest.approx(steady, rel=0.05)
    # the wait grows with the time since the overload began
    late = found.records[300]
    predicted = serving.overload_wait(30.0, found.requests_per_s, late.request.arrival)
    assert late.queue_s == pytest.approx(predicted, rel=0.15)


@pytest.mark.slow
@independent
@pytest.mark.parametrize("rho", [0.3, 0.6, 0.85])
def test_one_place_and_equal_times_is_m_d_1(rho: float) -> None:
    service = 0.1
    waits = []
    for seed in range(2):
        arrivals = serving.poisson(rho / service, 30_000, seed)
        found = simulate(Steps(service), serving.load(arrivals, 8, 1), Config(max_num_seqs=1, kv_blocks=100))
        waits.append(found.summary()["queue_s"]["mean"])
        assert found.utilisation == pytest.approx(rho, rel=0.03)
        # request by request: Lindley's recursion, from the times of arrival alone
        wait, last = 0.0, arrivals[0]
        for i, (record, at) in enumerate(zip(found.records, arrivals, strict=True)):
            wait = max(0.0, wait + service - (at - last)) if i else 0.0
            last = at
            assert record.queue_s == pytest.approx(wait, abs=1e-8)
    assert statistics.mean(w for w in waits if w is not None) == pytest.approx(
        capacity.mg1_wait(service, rho, variation=0.0), rel=0.06
    )


@independent
def test_what_happens_is_known_in_advance_where_nothing_is_random() -> None:
    one = simulate(Steps(1.0), [Request(5.0, 100, 4)], Config(max_num_batched_tokens=40, kv_blocks=20, max_num_seqs=4))
    r = one.records[0]  # 100 tokens in chunks of 40, 40, 20; then three steps
    assert (r.queue_s, r.prefill_s, r.ttft_s, r.e2e_s, r.itl_s) == (0.0, 3.0, 3.0, 6.0, 1.0)
    assert r.e2e_per_token_s == 1.5
    assert serving.prompt_steps(100.0, 40.0) == 3
    # one that decodes takes a token of each budget: chunks of 39
    two = simulate(
        Steps(1.0),
        [Request(0.0, 40, 9), Request(0.5, 79, 1)],
        Config(max_num_batched_tokens=40, kv_blocks=20, max_num_seqs=4),
    )
    assert two.records[1].prefill_s == serving.prompt_steps(79.0, 40.0, running=1.0) == 3
    assert two.records[1].queue_s == 0.5 and two.records[1].itl_s is None
    # requests that come together are in the same step
    same = simulate(Steps(1.0), [Request(2.0, 5, 1)] * 3, Config(kv_blocks=20, max_num_seqs=4))
    assert [r.e2e_s for r in same.records] == [1.0] * 3


@independent
def test_a_cached_prefix_is_computed_from_its_last_whole_block() -> None:
    for prompt, prefix in ((100, 0), (100, 15), (100, 16), (100, 99), (96, 96), (1, 1), (17, 17)):
        found = simulate(Steps(1.0), [Request(0.0, prompt, 1, prefix)], Config(prefix_caching=True, kv_blocks=20))
        blocks = min(prefix, prompt - 1) // 16
        assert found.prefill_tokens == prompt - 16 * blocks == serving.prompt_computed(float(prompt), float(prefix))
        off = simulate(Steps(1.0), [Request(0.0, prompt, 1, prefix)], Config(kv_blocks=20, prefix_caching=False))
        assert off.prefill_tokens == prompt


@independent
def test_the_last_to_start_is_thrown_out_and_starts_again() -> None:
    # 4 blocks of 16: two prompts of 31 tokens take 2 each, and both want a third after two tokens
    load = [Request(0.0, 31, 10), Request(0.0, 31, 10)]
    # it has 33 tokens then, 32 of them in two whole blocks; the first takes the last of these, so that the one before is
    # found again with the prefix cache
    for caching, again in ((False, 33), (True, 17)):
        found = simulate(Steps(1.0), load, Config(kv_blocks=4, max_num_seqs=4, prefix_caching=caching))
        first, second = found.records
        assert (first.preemptions, second.preemptions) == (0, 1)
        assert first.e2e_s == 10.0
        # the second had its first two tokens by step 2, waits for the first, computes again in step 11, then seven more
        assert second.ttft_s == 1.0 and second.e2e_s == 18.0
        assert found.prefill_tokens == 31 + 31 + again


@independent
@pytest.mark.independent
@pytest.mark.parametrize(
    ("servers", "rate", "patience"), [(1, 0.8, 1.5), (4, 5.0, 0.5), (4, 4.0, 0.7), (16, 20.0, 0.2)]
)
def test_a_server_that_takes_nobody_who_would_be_late(servers: int, rate: float, patience: float) -> None:
    """Played: every server has a time at which it is free; who would wait too long goes away."""
    rng, now, away, count = random.Random(8), 0.0, 0, 120_000
    free = [0.0] * servers
    for _ in range(count):
        now += rng.expovariate(rate)
        start = max(now, free[0])
        if start - now > patience:
            away += 1
        else:
            heapq.heapreplace(free, start + rng.expovariate(1.0))
    terms = [rate**k / math.factorial(k) for k in range(servers + 1)]
    blocking = terms[-1] / sum(terms)
    found = float(serving.turned_away(rate, float(servers), blocking, patience))
    assert found == pytest.approx(away / count, rel=0.03)
    assert serving.turned_away(rate, float(servers), blocking, 0.0) == pytest.approx(blocking)
    forever = max(0.0, 1 - servers / rate)
    assert serving.turned_away(rate, float(servers), blocking, 1e5) == pytest.approx(forever, abs=1e-4)


@pytest.mark.parametrize(
    ("blocks", "again", "cold"),
    [
        # The first has 5 blocks, a sixth in step 3, a seventh in step 19, and ends with step 20. The second has 3, and
        # wants a fourth in step 4 and a fifth in step 20.
        (12, 0, 0),  # there are enough
        (
            11,
            1,
            65,
        ),  # thrown out in step 20 with 64 tokens in 4 whole blocks; nobody takes one: its newest token is left
        (10, 16, 64),  # thrown out in step 19 with 63; the first takes the fourth block, which was not full
        (9, 17, 49),  # thrown out in step 4 with 48; in step 19 the first takes the third
    ],
)
def test_a_sequence_that_was_thrown_out_computes_what_others_took(blocks: int, again: int, cold: int) -> None:
    load = [Request(0.0, 79, 20), Request(0.0, 46, 40)]
    for caching, missing in ((True, again), (False, cold)):
        config = Config(kv_blocks=blocks, max_num_seqs=4, prefix_caching=caching)
        found = simulate(Steps(1.0), load, config)
        assert [r.preemptions for r in found.records] == [0, int(missing > 0)]
        assert found.prefill_tokens == 79 + 46 + missing
        # with a price on prompt tokens the difference is time: nothing runs beside it then
        slow = simulate(Steps(1.0, prompt=1.0), load, config).records[1]
        steps = found.records[1].e2e_s
        assert steps is not None and slow.e2e_s == steps + 79 + 46 + missing


@independent
def test_only_whole_blocks_of_a_prompt_under_way_are_found_again() -> None:
    # Steps of 22 tokens, 4 blocks. The long prompt gets 12 tokens, then 21 beside the other's one: 33, in 3 blocks. In
    # step 3 it wants a fourth, which the other has, and goes; its third block held one token. The other ends, and it
    # finds 32 tokens again: 22 and 6 are left.
    config = Config(max_num_batched_tokens=22, max_num_seqs=4, kv_blocks=4)
    found = simulate(Steps(1.0), [Request(0.0, 10, 3), Request(0.0, 60, 1)], config)
    assert [r.preemptions for r in found.records] == [0, 1]
    assert found.prefill_tokens == 10 + 12 + 21 + 22 + 6 and found.records[1].ttft_s == 5.0


@independent
def test_a_request_that_can_never_fit_is_turned_away_with_its_reason() -> None:
    load = [Request(0.0, 100, 10), Request(0.0, 300, 50), Request(1.0, 10, 1)]
    found = simulate(Steps(1.0), load, Config(kv_blocks=20))
    assert [bool(r.rejected) for r in found.records] == [False, True, False]
    assert "22 blocks of 16" in found.records[1].rejected and "holds 20" in found.records[1].rejected
    assert found.records[1].to_dict()["ttft_s"] is None
    assert found.summary()["e2e_s"]["mean"] is not None
    long = simulate(Steps(1.0), load, Config(kv_blocks=200, max_model_len=120))
    assert "max_model_len = 120" in long.records[1].rejected
    whole = simulate(Steps(1.0), [Request(0.0, 300, 20)], Config(kv_blocks=20))
    assert not whole.records[0].rejected and whole.most_blocks == 20


@independent
def test_nothing_comes_and_nothing_happens() -> None:
    found = simulate(Steps(1.0), [], Config(kv_blocks=1))
    assert found.records == () and found.utilisation == 0 == found.requests_per_s == found.mean_batch
    assert found.summary()["ttft_s"] == {"mean": None, "p50": None, "p90": None, "p99": None}
    ones = simulate(Steps(1.0), [Request(0.0, 3, 1)], Config(kv_blocks=1))
    assert ones.summary()["itl_s"]["p99"] is None and ones.summary()["e2e_s"]["p99"] == 1.0


@independent
def test_percentiles_are_those_of_numpy() -> None:
    np = pytest.importorskip("numpy")
    rng = random.Random(1)
    for n in (1, 2, 3, 10, 101):
        values = [rng.random() for _ in range(n)]
        for share in (0.0, 0.01, 0.5, 0.9, 0.99, 1.0):
            assert serving.quantile(values, share) == pytest.approx(float(np.quantile(values, share)))
    summary = serving.summarise(values)
    assert summary["mean"] == pytest.approx(statistics.mean(values))
    assert summary["p90"] == pytest.approx(float(np.quantile(values, 0.9)))
    with pytest.raises(InputError, match="at least one"):
        serving.quantile([], 0.5)
    with pytest.raises(InputError, match="between 0 and 1"):
        serving.quantile([1.0], 1.5)


@independent
def test_the_equations_by_hand() -> None:
    assert serving.saturation_rate(256.0, 200.0, 2048.0, 1000.0, 0.05) == pytest.approx(
        25.6
    )  # 1.28 against 1.71 a step
    # 2.56 against 512 / 2100 in a step; so few places that they limit; never below nought
    assert serving.saturation_rate(256.0, 100.0, 512.0, 2000.0, 0.1) == pytest.approx(512 / 210)
    assert serving.saturation_rate(24.0, 100.0, 512.0, 2000.0, 0.1) == pytest.approx(2.4)
    assert serving.saturation_rate(65.0, 100.0, 64.0, 2000.0, 0.1) == pytest.approx(64 / 210)
    assert serving.overload_wait(12.0, 10.0, 600.0) == pytest.approx(1200 / 10)  # 1200 in front of it
    assert serving.overload_wait(8.0, 10.0, 600.0) == 0
    assert serving.sample_quantile(3.25, 8.0, 16.0) == 10.0


# Load and routing


@independent
def test_arrivals_have_the_rate_and_the_spread_they_are_asked_for() -> None:
    for name, times, cv in (
        ("poisson", serving.poisson(5.0, 40_000, seed=2), 1.0),
        ("bursts", serving.gamma(5.0, 40_000, variation=3.0, seed=2), 3.0),
        ("even", serving.gamma(5.0, 40_000, variation=0.25, seed=2), 0.25),
        ("constant", serving.constant(5.0, 40_000), 0.0),
    ):
        gaps = [b - a for a, b in itertools.pairwise(times)]
        assert statistics.mean(gaps) == pytest.approx(0.2, rel=0.05), name
        assert statistics.pstdev(gaps) / statistics.mean(gaps) == pytest.approx(cv, rel=0.05, abs=1e-9), name
    drawn = serving.lengths(200, 40_000, variation=0.8, seed=3)
    assert statistics.mean(drawn) == pytest.approx(200, rel=0.02)
    assert statistics.pstdev(drawn) / statistics.mean(drawn) == pytest.approx(0.8, rel=0.03)
    assert min(serving.lengths(2, 1000, variation=3.0)) >= 1


@independent
def test_the_same_seed_gives_the_same_records() -> None:
    def play(seed: int) -> serving.Simulation:
        load = serving.load(serving.gamma(20.0, 80, 2.0, seed), serving.lengths(50, 80, 1.0, seed), 20)
        return simulate(Steps(0.02, 1e-4), load, Config(kv_blocks=60), replicas=2, routing="least-loaded")

    assert play(1) == play(1) != play(2)


@independent
def test_routers() -> None:
    load = [Request(0.0, 10, 100), Request(0.1, 10, 1), Request(0.2, 10, 1), Request(5.0, 10, 1), Request(5.5, 10, 1)]

    def places(routing: str) -> list[int]:
        found = simulate(Steps(1.0), load, Config(kv_blocks=20, max_num_seqs=1), replicas=2, routing=routing)
        return [r.replica for r in found.records]

    assert places("round-robin") == [0, 1, 0, 1, 0]
    # at 0.2 both replicas run one and nobody waits, so the first takes the third; at 5.0 it holds two, the other none
    assert places("least-loaded") == [0, 1, 0, 1, 1]
    assert places("fewest-queued") == [0, 1, 0, 1, 1]
    many = [Request(float(k), 10, 1) for k in range(4000)]
    drawn = [r.replica for r in simulate(Steps(0.01), many, Config(kv_blocks=20), replicas=2, routing="random").records]
    assert 1900 < sum(drawn) < 2100 and 900 < sum(a != b for a, b in itertools.pairwise(drawn[::2])) < 1100
    with pytest.raises(UnknownNameError, match="did you mean 'round-robin'"):
        places("roundrobin")


@independent
def test_two_replicas_share_the_work_of_one() -> None:
    load = serving.load(serving.poisson(10.0, 300, seed=5), 100, 20)
    one, two = (simulate(Steps(0.02, 1e-4), load, Config(kv_blocks=1000, max_num_seqs=8), replicas=n) for n in (1, 2))
    waits = [s.summary()["queue_s"]["mean"] for s in (one, two)]
    assert waits[0] is not None and waits[1] is not None and waits[1] < waits[0]
    assert len(two.busy) == 2 and all(b > 0 for b in two.busy)


# Limits of a server


@published
def test_defaults_are_those_of_vllm_0_11() -> None:
    big = serving.limits(Config(), MODELS["Llama-2-7B"])
    assert (big.tokens, big.sequences, big.block_tokens) == (8192, 1024, 16)
    small = serving.limits(Config(), step_model(deploy("Llama-2-7B", "A100-80GB")))
    assert (small.tokens, small.sequences) == (2048, 256)
    assert serving.limits(Config(max_num_batched_tokens=512), MODELS["Llama-2-7B"]).sequences == 512


@published
def test_memory_is_what_the_driver_reports() -> None:
    """An H100 of 80 GB: issue 27508 of vLLM. An H200 of 141 GB, by nvidia-smi: 143,771 MiB, and 139.8 GiB to a program."""
    assert serving.device_memory(catalog.device("H100")) == pytest.approx(79.11 * 2**30)
    own = replace(catalog.device("H100"), fields={})
    assert not own.fields


@published
@pytest.mark.parametrize(("name", "printed", "off"), [("Llama-2-7B", 7438, 0.001), ("CodeLlama-34B", 2537, 0.002)])
def test_blocks_that_a_server_printed(name: str, printed: int, off: float) -> None:
    """num_gpu_blocks in the logs of vLLM 0.11.0 on an H100: inference-sim, eval/ground_truth/*-train-1 and -prefill-*."""
    config = Config(max_num_batched_tokens=4096, max_num_seqs=256, engine_version="0.11.0")
    ours = serving.limits(config, step_model(deploy(name, "H100"))).blocks
    assert ours == pytest.approx(printed, rel=off)


@independent
def test_blocks_are_what_the_memory_leaves() -> None:
    memory, model = 79.11 * 2**30, catalog.model("Llama-2-7B")
    found = serving.limits(Config(reserve=0.0, gpu_memory_utilization=0.8), MODELS["Llama-2-7B"]).blocks
    block = 2 * 32 * 32 * 128 * 2 * 16  # keys and values, layers, heads, width, bytes, tokens
    tables = 2 * 4096 * 128  # sines and cosines, on every rank as the norms are
    weights = 2 * 6_738_415_616 + tables
    assert found == (0.8 * memory - weights) // block
    half = serving.limits(Config(reserve=0.0, gpu_memory_utilization=0.8), step_model(deploy(model, "H100", tp=2)))
    copied = 2 * 65 * 4096 + tables
    assert half.blocks == (0.8 * memory - (weights + copied) / 2) // (block / 2)
    less = serving.limits(Config(gpu_memory_utilization=0.8), MODELS["Llama-2-7B"]).blocks
    layers, drawing = 2 * 8192 * (4 * 4096 + 3 * 11008), 2 * 8192 * 2 * 4096 + 1024 * 32000 * 14
    kept = 2**25 + max(layers, drawing) + 0.25 * 2**30  # workspace, trial step, runtime
    assert less == (0.8 * memory - weights - kept) // block
    with pytest.raises(InputError, match="no room"):
        serving.limits(Config(), step_model(deploy("Llama-3.1-70B", "H100")))
    with pytest.raises(InputError, match="kv_blocks is missing"):
        simulate(Steps(1.0), [])
    with pytest.raises(InputError, match="dp = 2"):
        serving.limits(Config(), step_model(deploy("Llama-2-7B", "H100", dp=2)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_num_seqs": 0}, "max_num_seqs = 0"),
        ({"max_num_batched_tokens": 8, "max_num_seqs": 9}, "at least max_num_seqs"),
        ({"gpu_memory_utilization": 1.2}, "gpu_memory_utilization"),
        ({"reserve": -1.0}, "reserve"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Config(**options)  # type: ignore[arg-type]


def test_arguments_that_make_no_sense() -> None:
    with pytest.raises(InputError, match="replicas = 0"):
        simulate(Steps(1.0), [], Config(kv_blocks=1), replicas=0)
    with pytest.raises(InputError, match="finite and above zero"):
        simulate(Steps(0.0), [Request(0.0, 1, 1)], Config(kv_blocks=1))
    with pytest.raises(InputError, match="finite and above zero"):
        simulate(Steps(math.nan), [Request(0.0, 1, 1)], Config(kv_blocks=1))
    for bad in ({"arrival": -1.0}, {"input_len": 0}, {"output_len": 1.5}, {"cached_len": 9}):
        with pytest.raises(InputError, match=next(iter(bad))):
            Request(**({"arrival": 0.0, "input_len": 8, "output_len": 1} | bad))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="rate"):
        serving.poisson(0.0, 3)
    with pytest.raises(InputError, match="requests"):
        serving.constant(1.0, -3)
    with pytest.raises(InputError, match="variation"):
        serving.lengths(1.0, 3, variation=-1.0)
    for odd in (math.nan, math.inf, 0.0, 1e-7, 101.0):
        with pytest.raises(InputError, match="variation"):
            serving.gamma(1.0, 3, variation=odd)
    for least in (1e-6, 100.0):
        assert all(t >= 0 and math.isfinite(t) for t in serving.gamma(1e-3, 50, variation=least))
        assert all(n >= 1 for n in serving.lengths(20.0, 50, variation=least))
    with pytest.raises(InputError, match="2 output_len for 3 arrivals"):
        serving.load((0.0, 1.0, 2.0), 5, (1, 2))
    with pytest.raises(UnknownNameError, match="metric"):
        simulate(Steps(1.0), [], Config(kv_blocks=1)).values("tpot")


# Traces


def test_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\ufeffprompt_tokens,arrival_s,output_len,cached_len,note\n10,1.5,3,,x\n\n20,0.5,1,16,y\n")
    assert serving.read_trace(path) == (Request(1.5, 10, 3), Request(0.5, 20, 1, 16))
    path.write_text("arrival_s,input_len,output_len\n")
    assert serving.read_trace(path) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: a column 'arrival_s' is missing"),
        ("arrival_s,input_len\n", "line 1: a column 'output_len' is missing"),
        ("arrival_s,input_len,output_len,arrival_s\n", "line 1, column 4: 'arrival_s' stands there twice"),
        ("arrival_s,input_len,output_len,prefix_token\n", "line 1, column 4: 'prefix_token'; did you mean"),
        ("arrival_s,input_len,output_len\n0,1,1\n0,x,1\n", "line 3, column 'input_len': 'x'"),
        ("arrival_s,input_len,output_len\n0,1,1.5\n", "line 2, column 'output_len': '1.5'"),
        ("arrival_s,input_len,output_len\n0,1,0\n", "line 2, column 'output_len': 0 must lie between 1"),
        ("arrival_s,input_len,output_len\n0,99999999999,1\n", "line 2, column 'input_len': 99999999999"),
        ("arrival_s,input_len,output_len\n-1,1,1\n", "line 2, column 'arrival_s': '-1'"),
        ("arrival_s,input_len,output_len\nnan,1,1\n", "line 2, column 'arrival_s': 'nan'"),
        ("arrival_s,input_len,output_len\ninf,1,1\n", "line 2, column 'arrival_s': 'inf'"),
        ("arrival_s,input_len,output_len\n0,1\n", "line 2, column 'input_len': 2 cells under 3"),
        ("arrival_s,input_len,output_len\n0,1,1,7\n", "line 2, column 'output_len': 4 cells under 3"),
        ('arrival_s,input_len,output_len\n0,1,"1\n', "line 2, column 1: not valid CSV"),
        ("arrival_s,input_len,output_len,cached_len\n0,4,1,5\n", "line 2, column 'cached_len': 5 exceed"),
    ],
)
def test_a_trace_that_is_wrong_says_where(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        serving.read_trace(path)
    assert message in str(error.value) and "t.csv" in str(error.value)


def test_a_trace_that_is_no_text_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"arrival_s,input_len,output_len\n0,\xff,1\n")
    with pytest.raises(InputError, match=r"line 2, column 3: not UTF-8"):
        serving.read_trace(path)
    with pytest.raises(InputError, match="cannot be read"):
        serving.read_trace(tmp_path / "none.csv")
    with pytest.raises(InputError, match="cannot be read"):
        serving.read_trace(tmp_path)


def test_a_trace_is_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    path.write_text("arrival_s,input_len,output_len\n" + "0,1,1\n" * 5)
    monkeypatch.setattr("mlsysim.serving.requests.MAX_ROWS", 3)
    with pytest.raises(InputError, match="line 5: more than 3 rows"):
        serving.read_trace(path)
    monkeypatch.setattr("mlsysim.serving.requests.MAX_FILE_BYTES", 30)
    with pytest.raises(InputError, match="larger than 30 bytes"):
        serving.read_trace(path)


# What a full server completes


@independent
def test_saturation_is_that_of_the_mean_step() -> None:
    bounds = serving.limits(Config(max_num_seqs=64, max_num_batched_tokens=512, kv_blocks=10_000), Steps(1.0))
    load = serving.load((0.0, 0.5, 1.0), 1000, 200)
    found = serving.saturation(Steps(0.01, 1e-5, 1e-4), load, bounds)
    assert found is not None
    # 64 places, 199 steps of decoding: 64/199 prompts of 1,000 tokens begin in a step
    step = 0.01 + 1e-5 * 1000 * 64 / 199 + 1e-4 * 64
    assert found.running == pytest.approx(64) and found.step_time == pytest.approx(step)
    assert found.capacity == pytest.approx(64 / 199 / step)
    assert found.offered == pytest.approx(2.0) and found.growth == 0
    assert serving.saturation(Steps(0.01, 1e-5, 1e-4), load, bounds, replicas=3).capacity == pytest.approx(
        3 * 64 / 199 / step
    )  # type: ignore[union-attr]
    # 100 blocks: a sequence that decodes attends to 1,100 tokens in the mean, 68.75 blocks and half of its last: one place
    tight = serving.saturation(Steps(0.01), load, replace(bounds, blocks=100))
    assert tight is not None and tight.running == pytest.approx(1) and tight.capacity == pytest.approx(1 / 199 / 0.01)
    # a cached prefix shares its blocks and leaves less to compute: 38 blocks shared, 31.2 of its own, and 408 tokens
    shared = serving.saturation(
        Steps(0.01, 1e-5), serving.load((0.0, 0.5), 1000, 200, 608), replace(bounds, blocks=100)
    )
    assert shared is not None and shared.running == pytest.approx(1)
    assert shared.step_time == pytest.approx(0.01 + 1e-5 * (1000 - 608) / 199)
    # the budget lets in 512 tokens a step, of which a request takes 1,000 + 199: fewer decode than the 144 that fit
    narrow = serving.saturation(Steps(0.01), load, replace(bounds, sequences=500))
    assert narrow is not None and narrow.running == pytest.approx(199 * 512 / 1199)
    assert narrow.capacity == pytest.approx(512 / 1199 / 0.01)


@independent
@pytest.mark.parametrize(
    ("input_len", "output_len", "places", "budget"),
    [(2000, 100, 256, 2048), (3000, 41, 128, 640), (8000, 20, 64, 512), (4000, 200, 256, 1024),
     (1000, 200, 1024, 512), (600, 20, 1024, 512)],
)  # fmt: skip
def test_a_server_whose_prompts_limit_completes_what_it_is_said_to(
    input_len: int, output_len: int, places: int, budget: int
) -> None:
    """A burst of equal requests: where prompts limit, fewer sequences decode than there are places, and every step is alike."""
    model = step_model(deploy("Llama-3.1-8B", "H100"))
    config = Config(max_num_seqs=min(places, budget), max_num_batched_tokens=budget)
    load = serving.load((0.0,) * 1000, input_len, output_len)
    played = simulate(model, load, config)
    found = serving.saturation(model, load, config)  # of options, as of their limits
    assert found == serving.saturation(model, load, played.limits) and found is not None
    done = sorted(played.records.finished)
    assert 600 / (done[799] - done[199]) == pytest.approx(found.capacity, rel=0.003)
    decoding = played.decode_tokens / played.steps
    assert decoding == pytest.approx(found.running, rel=0.12) and found.running < 0.4 * places


class Reading:
    """Steps that take a time for each token whose keys and values their prompts read, and each part of a prompt."""

    def time(self, batch: Batch) -> float:
        return float(0.001 + 1e-6 * batch.prefill_read + 1e-4 * batch.prefills)


@independent
def test_parts_of_a_prompt_read_those_before_them_at_saturation() -> None:
    config = Config(max_num_seqs=64, max_num_batched_tokens=512, kv_blocks=10_000, prefix_caching=False)
    load = serving.load((0.0,) * 400, 8000, 20)
    done = sorted(simulate(Reading(), load, config).records.finished)
    found = serving.saturation(Reading(), load, config)
    # 16 parts of 500 tokens read 8.5 prompts; in the server parts also end where a prompt does, so that there are a few more
    assert found is not None and 240 / (done[319] - done[79]) == pytest.approx(found.capacity, rel=0.05)


@pytest.mark.parametrize(
    "asked",
    [
        "--rate 5 --requests 500 --input-len 1000 --output-len 200 --max-num-batched-tokens 512",
        "--rate 40 --requests 500 --input-len 600 --output-len 20 --max-num-batched-tokens 512",
        "--rate 8 --requests 500 --input-len 3000 --output-len 41 --max-num-batched-tokens 640 --max-num-seqs 128",
    ],
)
def test_a_load_that_is_carried_is_not_called_too_many(asked: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They were: "completes 3.6/s" of 23 that it does, "0.06/s" of 57."""
    assert cli.main(["simulate", "--model", "Llama-3.1-8B", "--device", "H100", *asked.split()]) == 0
    text = capsys.readouterr().out
    assert "too many" not in text and "binds: the rate" not in text
    assert cli.main(["simulate", "--model", "Llama-3.1-8B", "--device", "3 H100", *asked.split(), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["saturation"]
    assert found["wait_growth"] == 0 and found["capacity_per_s"] > 3 * float(asked.split()[1])


def test_servers_are_counted_where_their_rate_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["simulate", "--model", "Llama-3.1-8B", "--rate", "4", "--requests", "20", "--device"]
    for device, said in (("H100", "(a full server completes "), ("3 H100", "(3 full servers complete ")):
        assert cli.main([*asked, device]) == 0
        assert said in capsys.readouterr().out


@independent
def test_saturation_beside_a_server_that_is_full() -> None:
    for rate, says in ((3.0, False), (40.0, True)):
        load = serving.load(
            serving.poisson(rate, 1500, 5), serving.lengths(300, 1500, 0.6, 6), serving.lengths(150, 1500, 0.6, 7)
        )
        config = Config(max_num_seqs=32, max_num_batched_tokens=512, kv_blocks=2000)
        model = MODELS["Llama-2-7B"]
        played = simulate(model, load, config)
        found = serving.saturation(model, load, played.limits)
        assert found is not None and (found.growth > 0) == says
        if says:
            assert played.requests_per_s == pytest.approx(found.capacity, rel=0.1)
            assert found.growth == pytest.approx(found.offered / found.capacity - 1)
            assert played.records[-1].queue_s == pytest.approx(
                found.growth * played.records[-1].request.arrival, rel=0.15
            )


@independent
def test_where_there_is_no_saturation_rate() -> None:
    bounds = serving.limits(Config(kv_blocks=20, max_num_seqs=4), Steps(1.0))
    assert serving.saturation(Steps(1.0), [], bounds) is None
    assert serving.saturation(Steps(1.0), [Request(0.0, 5, 1)], bounds) is None  # nothing decodes
    lone = serving.saturation(Steps(1.0), [Request(0.0, 5, 9)], replace(bounds, tokens=1))
    assert lone is not None and lone.capacity == pytest.approx(1 / 13)  # five tokens and eight steps, one at a time
    assert serving.saturation(Steps(1.0), [Request(0.0, 5000, 9)], bounds) is None  # refused
    once = serving.saturation(Steps(1.0), [Request(0.0, 5, 9)] * 2, bounds)
    assert once is not None and once.offered == math.inf == once.growth
    assert once.to_dict()["offered_per_s"] is None is once.to_dict()["wait_growth"]
    with pytest.raises(InputError, match="replicas"):
        serving.saturation(Steps(1.0), [], bounds, replicas=0)


# Correction and command line


def test_a_correction_moves_the_first_and_the_last_token() -> None:
    found = simulate(Steps(1.0), [Request(3.0, 8, 3), Request(3.0, 999, 3)], Config(kv_blocks=20))

    def later(prompt: float, output: float, times: object) -> dict[str, float]:
        assert (prompt, output, times) == (8.0, 3.0, {"ttft_s": 1.0, "e2e_s": 3.0})
        return {"ttft_s": 1.5, "e2e_s": 4.5, "ignored": 0.0}

    after = found.corrected(later)
    assert after.utilisation == found.utilisation == 1  # of the steps as they were played
    r = after.records[0]
    assert (r.ttft_s, r.e2e_s, r.itl_s, r.queue_s, r.e2e_per_token_s) == (1.5, 4.5, 1.5, 0.0, 1.5)
    assert after.records[1] == found.records[1] and after.records[1].rejected


def trace(folder: Path, text: str = "0,482,100\n0.5,20,1\n0,999999,5\n") -> str:
    path = folder / "trace.csv"
    path.write_text("arrival_s,input_len,output_len\n" + text)
    return str(path)


def test_simulate_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["simulate", "--model", "Llama-2-7B", "--device", "H100", "--tp", "1", "--trace", trace(tmp_path), "--json"]
    assert cli.main(args) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"requests", "summary", "efficiencies", "rates", "method", "saturation", "layout", "bill", "fits"} <= set(
        found
    )
    assert found["efficiencies"] == "calibrated" and "kernels as measured alone" in found["rates"]
    assert found["saturation"]["capacity_per_s"] == found["saturation"]["rate_per_s"] > 0
    first, second, third = found["requests"]
    assert set(first) == set(serving.METRICS) == set(found["summary"])
    assert 5e-3 < first["itl_s"] < 7e-3 and 10e-3 < first["ttft_s"] < 20e-3
    assert first["e2e_s"] == pytest.approx(first["ttft_s"] + 99 * first["itl_s"])
    assert first["e2e_per_token_s"] == pytest.approx(first["e2e_s"] / 100)
    assert second["itl_s"] is None and second["queue_s"] >= 0
    assert third["ttft_s"] is None and "blocks of 16" in third["rejected"]
    assert set(found["summary"]["ttft_s"]) == {"mean", "p50", "p90", "p99"}


def test_simulate_prints_text_and_draws_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = ["simulate", "--model", "Llama-2-7B", "--device", "H100"]
    assert cli.main([*both, "--trace", trace(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "1 rejected; all of the trace" in text and "tokens a step" not in text  # the rest is asked for
    more = ["--max-num-batched-tokens", "512", "--prefix-caching", "--explain"]
    assert cli.main([*both, "--trace", trace(tmp_path), *more]) == 0
    text = capsys.readouterr().out
    assert "512 tokens a step, 512 sequences" in text and "2 requests served" in text and "rejected: input_len" in text
    at_once = trace(tmp_path, "0,482,100\n0,20,1\n")  # no rate: nothing grows by infinity
    assert cli.main([*both, "--trace", at_once]) == 0
    text = capsys.readouterr().out
    assert "binds: all requests come at once; a full server completes" in text and "inf" not in text
    drawn = [*both, "--rate", "5", "--requests", "20", "--input-len", "300", "--output-len", "20"]
    assert (
        cli.main(
            [
                *drawn,
                "--replicas",
                "2",
                "--routing",
                "least-loaded",
                "--arrival-variation",
                "2",
                "--length-variation",
                "1",
                "--explain",
            ]
        )
        == 0
    )
    assert "20 requests served" in capsys.readouterr().out


def test_simulate_says_whose_rates_and_how_full(capsys: pytest.CaptureFixture[str]) -> None:
    drawn = [
        "simulate",
        "--model",
        "Llama-3.1-8B",
        "--requests",
        "60",
        "--input-len",
        "300",
        "--output-len",
        "20",
        "--explain",
    ]
    assert cli.main([*drawn, "--device", "H100", "--rate", "2"]) == 0
    text = capsys.readouterr().out
    assert (
        text.count("\nEfficiencies: ") == 1
        and "kernels as measured alone" in text
        and "'serve' has closed forms" in text
    )
    assert text.count("\noffered ") == 1 and "by eq-saturation-rate" in text and "too many" not in text
    assert cli.main([*drawn, "--device", "B200", "--rate", "1e4", "--kv-blocks", "77"]) == 0
    text = capsys.readouterr().out
    assert (
        "kernels as measured alone" in " ".join(text.split())
        and "77 blocks of 16" in text
        and "too many, the wait grows by" in text
    )
    assert cli.main([*drawn, "--device", "H100", "--rate", "2", "--no-prefix-caching"]) == 0
    assert ", prefix cache" not in capsys.readouterr().out


DRAWN = ["--rate", "2", "--requests", "9", "--input-len", "50", "--output-len", "5"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--trace", "none.csv"], "cannot be read"),
        ([], "give --trace FILE.csv, or"),
        (["--requests", "9"], "give --trace FILE.csv, or"),
        (["--trace", "x.csv", "--rate", "2"], "leave out --rate"),
        (["--trace", "x.csv", "--tier", "1"], "--tier 1 needs --calibration"),
        (["--trace", "x.csv", "--calibration", "c.json"], "add --tier 1"),
        (["--trace", "x.csv", "--tier", "2"], "invalid choice"),
        ([*DRAWN, "--requests", "100000000"], "above 2,097,152, as many as a trace may have"),
        ([*DRAWN, "--requests", "1" + 30 * "0"], "is beyond 2^53"),
        ([*DRAWN, "--arrival-variation", "1e308"], "between 1e-06 and 100"),
        ([*DRAWN, "--arrival-variation", "5e-324"], "between 1e-06 and 100"),
        ([*DRAWN, "--length-variation", "5e-324"], "or be 0 for equal lengths"),
        ([*DRAWN, "--input-len", "1e308"], "--input-len: '1e308' must lie in"),
        ([*DRAWN, "--input-len", "0.3"], "between 1 and 10,000,000 tokens"),
        ([*DRAWN, "--input-len", "1e7", "--length-variation", "1"], "give a smaller mean or variation"),
        ([*DRAWN, "--rate", "1e-320"], "beyond any float"),
        ([*DRAWN, "--kv-blocks", "0"], "--kv-blocks: 0 must be a whole number of at least 1"),
    ],
)
def test_simulate_says_what_is_wrong(more: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["simulate", "--model", "Llama-2-7B", "--device", "H100", *more]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


# Any load, any limits


@pytest.mark.slow  # last, after those that say what is wrong
@independent
@pytest.mark.parametrize("name", MODELS)
@given(requests=REQUESTS, config=CONFIGS, slow=st.sampled_from([1.0, 40.0]))
@settings(max_examples=120, deadline=None, phases=PHASES)
def test_the_sums_are_those_of_a_server_that_goes_token_by_token(
    name: str, requests: list[Request], config: Config, slow: float
) -> None:
    model = MODELS[name]

    class Slow:
        deployment = model.deployment

        def time(self, batch: Batch) -> float:
            return slow * float(model.time(batch))

    found = simulate(Slow(), requests, config)
    assert config.max_num_batched_tokens and config.max_num_seqs and config.kv_blocks
    jobs = serve(
        Slow().time,
        model.model,
        requests,
        budget=config.max_num_batched_tokens,
        most=config.max_num_seqs,
        blocks=config.kv_blocks,
        block=16,
        prefix=config.prefix_caching,
    )
    for record, job in zip(found.records, jobs, strict=True):
        assert record.preemptions == job.preemptions
        assert record.scheduled == pytest.approx(job.scheduled, abs=1e-9)
        assert record.first_token == pytest.approx(job.times[0], abs=1e-9)
        assert record.finished == pytest.approx(job.times[-1], abs=1e-9)


@pytest.mark.slow
@independent
@pytest.mark.parametrize("name", MODELS)
@given(requests=REQUESTS, config=CONFIGS, replicas=st.integers(1, 3), routing=st.sampled_from(list(serving.ROUTING)))
@settings(max_examples=100, deadline=None, phases=PHASES)
def test_steps_in_one_stretch_are_the_steps_one_by_one(
    name: str, requests: list[Request], config: Config, replicas: int, routing: str
) -> None:
    """With a log every step is planned by itself; without one those that only decode are played together."""
    one, together = (
        simulate(MODELS[name], requests, config, replicas=replicas, routing=routing, keep_steps=log)
        for log in (True, False)
    )
    assert one.log and not together.log if requests else not one.log
    assert replace(one, log=()) == together  # to the last bit


def test_records_are_a_sequence() -> None:
    found = simulate(Steps(0.1), [Request(0.0, 10, 2), Request(0.0, 400, 1), Request(0.5, 10, 1)], Config(kv_blocks=4))
    first, rejected, last = found.records
    assert len(found.records) == 3 and found.records[-1] == last and found.records[1:] == (rejected, last)
    assert found.records == (first, rejected, last) != found.records[:2] and found.records != [first]
    assert [r.rejected != "" for r in found.records] == [False, True, False] and found.served == (first, last)
    assert repr(found.records) == "<3 records>"
    with pytest.raises(IndexError):
        found.records[3]


@independent
@given(requests=REQUESTS, config=CONFIGS, replicas=st.integers(1, 3), routing=st.sampled_from(list(serving.ROUTING)))
@settings(max_examples=150, deadline=None, phases=PHASES)
def test_nothing_is_lost_and_nothing_overflows(
    requests: list[Request], config: Config, replicas: int, routing: str
) -> None:
    found = simulate(Steps(0.05, 1e-3, 1e-3), requests, config, replicas=replicas, routing=routing, keep_steps=True)
    assert [r.request for r in found.records] == requests  # none lost, in their order
    for r in found.records:
        assert not r.rejected
        assert r.request.arrival <= r.scheduled < r.first_token <= r.finished
        assert (r.first_token == r.finished) == (r.request.output_len == 1)
        assert r.queue_s is not None and r.prefill_s is not None
        assert r.ttft_s == pytest.approx(r.queue_s + r.prefill_s)
    tokens, seqs, blocks = config.max_num_batched_tokens, config.max_num_seqs, config.kv_blocks
    assert tokens and seqs and blocks
    for s in found.log:
        assert 0 < s.prefill_tokens + s.decode_tokens <= tokens
        assert 0 < s.running <= seqs and 0 < s.blocks <= blocks
    assert found.most_blocks == max((s.blocks for s in found.log), default=0)
    # every token is made once: by the end of a prompt pass, or by a step of decoding
    made = sum(r.request.output_len for r in found.records)
    passes = len(requests) + found.preemptions
    assert made - passes <= found.decode_tokens <= made - len(requests)
    computed = sum(r.request.input_len for r in found.records)
    if not config.prefix_caching and not found.preemptions:
        assert found.prefill_tokens == computed and found.decode_tokens == made - len(requests)
    if not config.prefix_caching:
        assert found.prefill_tokens >= computed
    assert 0 <= found.utilisation <= 1
    rested = max((r.finished for r in found.records), default=0.0) - min(
        (r.request.arrival for r in found.records), default=0.0
    )
    assert all(b <= rested for b in found.busy)
    assert sum(found.busy) == pytest.approx(sum(s.duration for s in found.log))


@independent
@given(requests=REQUESTS, config=CONFIGS)
@settings(max_examples=100, deadline=None, phases=PHASES)
def test_first_come_first_scheduled(requests: list[Request], config: Config) -> None:
    found = simulate(Steps(0.05, 1e-3), requests, config)
    order = sorted(found.records, key=lambda r: r.request.arrival)
    assert all(a.scheduled <= b.scheduled for a, b in itertools.pairwise(order))
    if not found.preemptions:
        assert all(a.first_token <= b.first_token for a, b in itertools.pairwise(order))


@independent
@given(
    requests=st.lists(st.tuples(st.integers(1, 3000), st.integers(1, 200)), min_size=1, max_size=8),
    faster=st.floats(1.0, 4.0),
)
@settings(max_examples=40, deadline=None, phases=PHASES)
def test_more_bandwidth_is_never_slower_on_a_synchronous_load(requests: list[tuple[int, int]], faster: float) -> None:
    slow = MODELS["Llama-2-7B"]
    machine = replace(slow.deployment.machine, memory_bandwidth=faster * slow.deployment.machine.memory_bandwidth)
    fast = StepModel(replace(slow.deployment, machine=machine), slow.rates, slow.options)
    load = [Request(100.0 * i, p, n) for i, (p, n) in enumerate(requests)]  # one at a time
    for a, b in zip(simulate(slow, load).records, simulate(fast, load).records, strict=True):
        assert b.e2e_s is not None and a.e2e_s is not None and a.ttft_s is not None and b.ttft_s is not None
        assert b.e2e_s <= a.e2e_s * (1 + 1e-12) and b.ttft_s <= a.ttft_s * (1 + 1e-12)
        assert a.queue_s == 0
