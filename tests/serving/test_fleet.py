"""A fleet: limits in which it is the plain engine or a closed form, what a hand can count, and what never happens."""

import json
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from test_serving import CONFIGS, MODELS, REQUESTS, Steps

import mlsysim
from mlsysim import cli, inference, serving
from mlsysim.api import FleetSpec
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.serving import Config, Request, Simulation
from mlsysim.serving.blocks import Blocks, Job, TreeBlocks
from mlsysim.serving.fleet import (
    Autoscaler,
    Cache,
    Conversation,
    Fleet,
    FleetResult,
    Link,
    ModelReplica,
    PrefixTree,
    Router,
    Servers,
    Speculation,
    Tier,
    Turn,
    agents,
    beside_draft,
    chats,
    rank_limits,
    read_traffic,
    run,
    shared_memory,
    single,
    swap_seconds,
    write_traffic,
)
from mlsysim.serving.fleet.simulator import EventLoop, Turns
from mlsysim.serving.scheduler import Rank
from mlsysim.serving_steps import step_model

independent = pytest.mark.independent
EVEN = Steps(0.01)  # every step the same
MODEL = MODELS["Llama-2-7B"]
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
ROOMY = Config(kv_blocks=100_000)


def same(one: Simulation, other: Simulation) -> None:
    """To the last bit."""
    for name in ("scheduled", "first_token", "finished", "replica", "preemptions"):
        assert repr(getattr(one.records, name)) == repr(getattr(other.records, name)), name
    for name in ("steps", "prefill_tokens", "decode_tokens", "preemptions", "most_blocks", "busy", "clock"):
        assert getattr(one, name) == getattr(other, name), name
    assert [r.rejected for r in one.records] == [r.rejected for r in other.records]


def fresh(requests: Sequence[Request]) -> list[Request]:
    return [replace(r, cached_len=0) for r in requests]


def talk(*turns: tuple[int, int, float], start: float = 0.0, **more: object) -> Conversation:
    return Conversation(start, tuple(Turn(*t) for t in turns), **more)  # type: ignore[arg-type]


def alone(steps: object = EVEN, config: Config = ROOMY, **more: object) -> Servers:
    return Servers(ModelReplica(steps, config), **more)  # type: ignore[arg-type]


# Everything left out


@independent
@pytest.mark.parametrize("name", MODELS)
@given(requests=REQUESTS, config=CONFIGS, replicas=st.integers(1, 3), routing=st.sampled_from(list(serving.ROUTING)))
@settings(max_examples=25, deadline=None, phases=PHASES)
def test_with_every_part_left_out_it_is_the_plain_engine(
    name: str, requests: list[Request], config: Config, replicas: int, routing: str
) -> None:
    requests, config = fresh(requests), replace(config, prefix_caching=False)
    plain = serving.simulate(MODELS[name], requests, config, replicas=replicas, routing=routing)
    servers = alone(MODELS[name], config, replicas=replicas)
    same(run(Fleet(servers, router=Router(routing)), single(requests)), plain)
    # and so it is with parts that are there and can do nothing
    scaled = replace(servers, autoscaler=Autoscaler(least=replicas, most=replicas, every=0.3))
    idle = Fleet(scaled, router=Router(routing), cache=Cache(blocks=0, tiers=(Tier(10),)))
    same(run(idle, single(requests)), plain)
    silent = replace(scaled, hosted=(ModelReplica(MODELS[name], config, Speculation(())),))
    same(run(replace(idle, servers=silent), single(requests)), plain)


@independent
def test_a_closed_loop_of_single_turns_is_the_plain_one() -> None:
    load = [Request(0.0, 40 + 7 * i % 50, 5 + i % 9) for i in range(40)]
    config = Config(kv_blocks=20, max_num_seqs=6, max_num_batched_tokens=64, prefix_caching=False)
    found = run(Fleet(alone(MODEL, config)), single(load), concurrency=9)
    same(found, serving.simulate(MODEL, load, config, concurrency=9))
    assert found.preemptions  # so that more than the easy way was gone


# Drafted tokens


@independent
def test_speculation_that_accepts_nothing_gives_one_token_a_step() -> None:
    load = single([Request(0.05 * i, 100, 20 + i) for i in range(30)])
    plain = run(Fleet(alone()), load)
    never = Fleet(Servers(ModelReplica(EVEN, ROOMY, Speculation.even(0.0, 4))))
    found = run(never, load)
    assert list(found.records.finished) == list(plain.records.finished)
    assert found.accepted_tokens == 0 and found.drafted_tokens == 4 * found.sequence_steps
    assert found.tokens_per_step == 1.0


@independent
@pytest.mark.parametrize(("draft_len", "output_len"), [(1, 40), (3, 41), (4, 42), (7, 8)])
def test_speculation_that_accepts_all_takes_so_much_fewer_steps(draft_len: int, output_len: int) -> None:
    """Steps of verifying and drafting by hand, at the rates of the step model."""
    share, speculation = 0.05, Speculation.even(1.0, draft_len, draft_share=0.05)
    found = run(Fleet(Servers(ModelReplica(MODEL, ROOMY, speculation))), single([Request(0.0, 100, output_len)]))
    steps = -(-(output_len - 1) // (draft_len + 1))
    assert found.sequence_steps == steps and found.decode_tokens == output_len - 1
    prompt = serving.simulate(MODEL, [Request(0.0, 100, 1)]).makespan
    now = prompt * (1 + share)
    for k in range(steps):
        context = 101.0 + k * (draft_len + 1)
        now += MODEL.decoding(1.0 + draft_len)(context + draft_len, context + draft_len)
        now += draft_len * share * MODEL.decoding(1.0)(context, context)
    assert found.records[0].finished == pytest.approx(now, rel=1e-12)


@independent
def test_speculation_has_the_speed_of_its_closed_form() -> None:
    """Long answers, chances alike: eq-speculative-tokens and eq-speculative-speedup."""
    alpha, draft_len, cost = 0.8, 4, 0.05
    speculation = Speculation.even(alpha, draft_len, draft_share=cost, seed=5)
    load = single([Request(0.0, 10, 4001) for _ in range(8)])
    plain, fast = run(Fleet(alone()), load), run(Fleet(Servers(ModelReplica(EVEN, ROOMY, speculation))), load)
    assert fast.tokens_per_step == pytest.approx(inference.speculative_tokens(alpha, draft_len), rel=0.01)
    assert speculation.tokens == pytest.approx(float(inference.speculative_tokens(alpha, draft_len)), rel=1e-12)
    slow, quick = (statistics.mean(r.itl_s for r in f.records) for f in (plain, fast))
    assert slow / quick == pytest.approx(inference.speculative_speedup(alpha, draft_len, cost), rel=0.01)


@independent
def test_acceptance_by_position_is_counted_by_position() -> None:
    speculation = Speculation((0.9, 0.5, 0.0, 1.0))
    assert speculation.survival == pytest.approx((0.9, 0.45, 0.0, 0.0))
    found = run(Fleet(Servers(ModelReplica(EVEN, ROOMY, speculation))), single([Request(0.0, 10, 20_000)]))
    assert found.tokens_per_step == pytest.approx(1 + 0.9 + 0.45, rel=0.02)


@independent
def test_draws_belong_to_the_request_however_it_is_scheduled() -> None:
    load = single([Request(0.01 * i, 50, 60) for i in range(25)])
    spec = Speculation((0.7, 0.6), seed=3)
    counts = {
        run(Fleet(Servers(ModelReplica(EVEN, replace(ROOMY, max_num_seqs=n), spec), replicas=k)), load).sequence_steps
        for n, k in ((1, 1), (8, 1), (64, 3))
    }
    assert len(counts) == 1
    other = Servers(ModelReplica(EVEN, ROOMY, replace(spec, seed=4)))
    assert run(Fleet(other), load).sequence_steps not in counts


@independent
def test_a_draft_model_takes_steps_of_its_own() -> None:
    draft = Steps(0.001, prompt=1e-5)
    found = run(
        Fleet(Servers(ModelReplica(EVEN, ROOMY, Speculation.even(1.0, 3, draft=draft)))), single([Request(0.0, 100, 9)])
    )
    assert found.records[0].ttft_s == pytest.approx(0.01 + 0.001 + 1e-5 * 100)
    assert found.records[0].e2e_s == pytest.approx(0.01 + 0.002 + 2 * (0.01 + 3 * 0.001))


@independent
def test_drafted_tokens_take_rows_of_the_budget_and_blocks_of_the_cache() -> None:
    """Ten sequences with three drafted tokens leave 24 of 64 tokens to a prompt; blocks for rows are there before they are made."""
    config = Config(kv_blocks=1000, max_num_batched_tokens=64)
    spec = ModelReplica(EVEN, config, Speculation.even(0.0, 3))
    load = [*[Request(0.0, 4, 200) for _ in range(10)], Request(0.5, 240, 1)]
    assert run(Fleet(Servers(spec)), single(load)).records[10].prefill_s == pytest.approx(0.01 * 10)
    assert run(Fleet(alone(EVEN, config)), single(load)).records[10].prefill_s == pytest.approx(0.01 * 5)
    # 13 tokens of a prompt, the first made one and three drafted ones: a second block of 16, from the first step on
    tight = ModelReplica(EVEN, Config(kv_blocks=3, prefix_caching=False), Speculation.even(0.0, 3))
    two = [Request(0.0, 13, 10), Request(0.0, 13, 10)]
    assert run(Fleet(Servers(tight)), single(two)).preemptions > 0
    assert run(Fleet(Servers(replace(tight, config=Config(kv_blocks=4)))), single(two)).preemptions == 0
    started = [Request(0.0, 13, 10), Request(0.0, 12, 4)]  # a block for each alone, and the third for the first
    assert run(Fleet(Servers(tight)), single(started)).preemptions == 0
    assert run(Fleet(Servers(replace(tight, config=Config(kv_blocks=2)))), single(started)).preemptions > 0
    short = [Request(0.0, 13, 3), Request(0.0, 13, 3)]  # an answer of three tokens has no use for three drafted ones
    assert run(Fleet(Servers(replace(tight, config=Config(kv_blocks=2)))), single(short)).preemptions == 0


# Pools apart


@independent
def test_pools_with_an_endless_link_are_the_plain_engine_for_one_request_at_a_time() -> None:
    load = [Request(20.0 * i, 300 + 40 * i, 50 + i) for i in range(5)]
    plain = serving.simulate(MODEL, load, ROOMY)
    found = run(Fleet(alone(MODEL), alone(MODEL)), single(load))
    assert list(found.records.first_token) == list(plain.records.first_token)
    assert list(found.records.finished) == list(plain.records.finished)
    assert found.moved_bytes == sum(r.input_len for r in load) * MODEL.deployment.token_bytes


@independent
def test_the_pool_for_prompts_is_a_plain_engine_of_answers_of_one_token() -> None:
    load = [Request(t, 200 + 31 * i % 700, 90) for i, t in enumerate(serving.poisson(60.0, 80, seed=2))]
    config = replace(ROOMY, max_num_batched_tokens=512, prefix_caching=False)
    found = run(Fleet(alone(MODEL, ROOMY), alone(MODEL, config, replicas=2)), single(load))
    first = serving.simulate(MODEL, [replace(r, output_len=1) for r in load], config, replicas=2)
    assert list(found.records.first_token) == list(first.records.first_token)
    # the other decodes from then on: with even steps a token in each of them
    even = run(Fleet(alone(EVEN), alone(MODEL, config, replicas=2), Link(token_bytes=0.0)), single(load))
    for r in even.records:
        assert 0.01 * 89 - 1e-9 <= r.finished - r.first_token <= 0.01 * 90 + 1e-9


@independent
def test_a_cache_crosses_by_size_over_bandwidth_after_those_before_it() -> None:
    link = Link(bandwidth=1e6, latency=0.003, token_bytes=1000.0)
    fleet = Fleet(alone(), alone(), link)
    one = run(fleet, single([Request(0.0, 200, 2)])).records[0]
    crossing = float(inference.kv_transfer_time(200 * 1000.0, 1e6, latency=0.003))
    assert one.first_token == 0.01 and one.finished == pytest.approx(0.01 + crossing + 0.01, rel=1e-12)
    # two prompts of one step: the second cache leaves when the first has left, and arrives its latency later
    both = run(fleet, single([Request(0.0, 200, 100), Request(0.0, 100, 2)]))
    assert both.link_wait == pytest.approx(0.2)
    joins = 0.01 + 0.2 + 0.1 + 0.003  # in the middle of a step of the first, and waits for its end
    begun = 0.01 + crossing
    steps = math.ceil((joins - begun) / 0.01 - 1e-9)
    assert both.records[1].finished == pytest.approx(begun + (steps + 1) * 0.01, rel=1e-9)
    # from two servers that prefill, each has a link of its own
    apart = Fleet(alone(), alone(replicas=2), link)
    assert run(apart, single([Request(0.0, 200, 100), Request(0.0, 100, 2)])).link_wait == 0.0


@independent
@pytest.mark.parametrize(("bandwidth", "layers"), [(1e9, 1), (1e9, 10), (4e7, 2), (4e7, 10), (1e6, 10), (math.inf, 10)])
def test_a_cache_that_crosses_by_layers_is_there_but_for_the_last_one(bandwidth: float, layers: int) -> None:
    """A prompt of one step of 10 ms: of S bytes max(S / (L B), S / B - T (L - 1) / L) is left to wait for."""
    size, step = 200 * 1000.0, 0.01
    link = Link(bandwidth, 0.003, 1000.0, layers)
    one = run(Fleet(alone(), alone(), link), single([Request(0.0, 200, 2)]))
    left = max(size / (layers * bandwidth), size / bandwidth - step * (layers - 1) / layers)
    assert one.records[0].finished == pytest.approx(step + left + 0.003 + step, rel=1e-9)
    assert one.moved_bytes == pytest.approx(size)


@independent
def test_one_layer_is_the_whole_cache_and_a_prompt_of_many_steps_sends_as_it_goes() -> None:
    load = [Request(t, 200 + 31 * i % 700, 40) for i, t in enumerate(serving.poisson(60.0, 80, seed=2))]
    whole, same, layers = (
        run(Fleet(alone(MODEL, ROOMY), alone(MODEL, ROOMY, replicas=2), link), single(load))
        for link in (
            Link(1e8, token_bytes=1e4),
            Link(1e8, token_bytes=1e4, layers=1),
            Link(1e8, token_bytes=1e4, layers=32),
        )
    )
    assert list(whole.records.finished) == list(same.records.finished)
    assert math.fsum(layers.records.finished) < math.fsum(whole.records.finished)
    assert layers.moved_bytes == pytest.approx(whole.moved_bytes)
    # four steps of 100 tokens: three chunks and nine tenths of the last leave meanwhile, at 20 ms a chunk 35 ms later than that
    config = replace(ROOMY, max_num_batched_tokens=100, prefix_caching=False)
    link = Link(5e6, 0.0, 1000.0, 10)
    found = run(Fleet(alone(), alone(config=config), link), single([Request(0.0, 400, 2)])).records[0]
    assert found.first_token == pytest.approx(0.04)
    # the link is never idle from the first layer of the first chunk on, 1 ms after the beginning
    assert found.finished == pytest.approx(0.001 + 400 * 1000.0 / 5e6 + 0.01, rel=1e-9)
    # over a quick link only the last layer of the last chunk is left, 100 tokens of 1 kB over 10, and nothing crosses twice
    quick = run(Fleet(alone(), alone(config=config), replace(link, bandwidth=1e8)), single([Request(0.0, 400, 2)]))
    assert quick.records[0].finished == pytest.approx(0.04 + 100 * 1000.0 / 10 / 1e8 + 0.01, rel=1e-9)
    assert quick.moved_bytes == pytest.approx(400 * 1000.0)


@independent
def test_conversations_that_forget_find_only_what_they_share_again() -> None:
    turns = tuple(Turn(100, 60, 1.0) for _ in range(8))
    kept = Conversation(0.0, (Turn(420, 60), *turns[1:]), "text", 320)
    cut, summed = replace(kept, history_len=480), replace(kept, history_len=480, summary_len=80)
    assert cut.prompts == (420, 580, 740, 900, *[900] * 4) and max(cut.rewritten) == 4
    # three turns, then a summary: 80 tokens and what the turn adds, again and again
    assert summed.prompts == (420, 580, 740, 900, 500, 660, 820, 500)
    assert replace(kept, history_len=10_000).prompts == kept.prompts == tuple(420 + 160 * i for i in range(8))

    def found(c: Conversation) -> int:
        return run(Fleet(alone(MODEL), cache=Cache()), [c]).found_tokens

    # what was said before, in whole blocks of 16, but for its last token: of a turn that was rewritten the shared 320
    before = [c.prompts[i - 1] + 59 for c in (kept,) for i in range(1, 8)]
    assert found(kept) == sum(b // 16 * 16 for b in before)
    assert found(cut) == sum(b // 16 * 16 for b in before[:3]) + 4 * 320
    assert found(summed) == sum(b // 16 * 16 for b in before[:3]) + 2 * 320 + sum(
        (p + 59) // 16 * 16 for p in (500, 660)
    )
    assert found(replace(kept, history_len=10_000)) == found(kept)


def test_a_trace_says_what_is_forgotten(tmp_path: Path) -> None:
    talks = chats(2.0, 20, turns=6.0, history_len=600, summary_len=100, seed=4)
    assert read_traffic(write_traffic(talks, tmp_path / "talks.csv")) == talks
    assert any(t.rewritten[-1] for t in talks)
    with pytest.raises(InputError, match="summary_len = 600 must be below history_len = 600"):
        chats(2.0, 20, history_len=600, summary_len=600)


@independent
def test_decoding_takes_a_cache_in_when_its_blocks_are_free() -> None:
    """Blocks for one: the second begins to cross when the first has ended."""
    link = Link(bandwidth=1e6, token_bytes=1000.0)
    servers = alone(EVEN, Config(kv_blocks=15))
    found = run(Fleet(servers, alone(), link), single([Request(0.0, 200, 20), Request(0.0, 200, 20)]))
    first, second = found.records
    assert first.finished == pytest.approx(0.01 + 0.2 + 19 * 0.01)
    assert second.finished == pytest.approx(first.finished + 0.2 + 19 * 0.01)
    assert found.most_blocks <= 100_000 and found.link_wait == 0.0
    # the blocks of the prompt stay where it was computed until its cache has crossed
    tight = Fleet(servers, alone(EVEN, Config(kv_blocks=13)), link)
    third = run(tight, single([Request(0.0, 200, 20), Request(0.0, 200, 20)])).records[1]
    assert third.scheduled == pytest.approx(0.01 + 0.2)


@independent
def test_pools_in_the_ratio_of_the_closed_form_are_busy_alike() -> None:
    """eq-disaggregation: prompts of 0.1 s, and 64 places that answer 200 tokens in steps of 32 ms, want one server each."""
    assert inference.prefill_replicas(0.1, 64, 201, 0.032) == pytest.approx(1.0)
    prompts = alone(Steps(1e-9, prompt=1e-4), Config(kv_blocks=10**6, max_num_batched_tokens=1000, max_num_seqs=100))
    answers = alone(Steps(0.032), Config(kv_blocks=10**6, max_num_seqs=64))
    found = run(Fleet(answers, prompts, Link(token_bytes=0.0)), single([Request(0.0, 1000, 201)] * 1500))
    prefill, decode = found.busy
    assert prefill == pytest.approx(150.0, rel=1e-6) and decode == pytest.approx(prefill, rel=0.05)
    assert found.makespan == pytest.approx(150.0, rel=0.06)


# Ranks that step together


@independent
def test_one_rank_is_the_plain_engine_and_the_slowest_of_several_binds() -> None:
    steps = Steps(0.01, prompt=1e-4)
    both = Servers(ModelReplica(steps, ROOMY), ranks=2)
    found = run(Fleet(both), single([Request(0.0, 100, 3), Request(0.0, 500, 1)]))
    # one rank prefills 100 tokens while the other has 500: the step is as long as theirs
    assert [r.first_token for r in found.records] == [pytest.approx(0.06)] * 2
    assert found.records[0].finished == pytest.approx(0.06 + 2 * 0.01)
    assert found.busy == (pytest.approx(0.08),)
    one = run(Fleet(Servers(ModelReplica(steps, ROOMY), ranks=1)), single([Request(0.0, 100, 3), Request(0.0, 500, 1)]))
    assert one.records[0].first_token == pytest.approx(0.07)


@independent
def test_ranks_of_a_deployment_hold_their_share_of_the_experts() -> None:
    """More ranks: fewer experts on each, so more blocks; a step of the server is that of the batch of one rank."""
    config, blocks = Config(), []
    for n in (2, 4):
        model = step_model(inference.deploy("Qwen3-30B-A3B", "DGX-H100", dp=n, ep=n))
        blocks.append(rank_limits(config, model).blocks)
    assert blocks[1] > 1.2 * blocks[0]
    tensor = step_model(inference.deploy("Qwen3-30B-A3B", "DGX-H100"))
    assert rank_limits(config, tensor) == serving.limits(config, tensor)


# The tree


class Naive:
    """A cache of blocks by their whole text, each with when it was last used: what the tree is, written apart."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.kept, self.users, self.clock = capacity, {}, {}, 0  # type: ignore[var-annotated]

    @staticmethod
    def texts(path: tuple[tuple[str, int], ...], blocks: int) -> list[tuple[tuple[str, int], ...]]:
        names, start = [], 0
        for key, end in path:
            names += [key] * (min(end, blocks) - start)
            start = min(end, blocks)
        return [tuple((n, i) for i, n in enumerate(names[: k + 1])) for k in range(blocks)]

    def use(self, path, blocks, by: int) -> None:  # type: ignore[no-untyped-def]
        self.clock += 1
        for text in self.texts(path, blocks):
            run = [t for t in self.kept if t[-1][0] == text[-1][0] and (t[: len(text)] == text or text[: len(t)] == t)]
            for other in (*run, text):  # a run was used when any of it was
                self.kept[other] = self.clock
            self.users[text] = self.users.get(text, 0) + by
        idle = lambda: [t for t in self.kept if not self.users.get(t)]  # noqa: E731
        while len(idle()) > self.capacity:
            leaves = [t for t in idle() if not any(o[: len(t)] == t and len(o) > len(t) for o in self.kept)]
            begins = lambda t: next(i for name, i in t if name == t[-1][0])  # noqa: E731  # the run that it ends
            del self.kept[min(leaves, key=lambda t: (self.kept[t], -begins(t), -len(t)))]

    def match(self, path, most: int) -> int:  # type: ignore[no-untyped-def]
        return next((k for k, t in enumerate(self.texts(path, most)) if t not in self.kept), most)


@independent
@given(
    st.lists(
        st.tuples(st.sampled_from("xyz"), st.integers(0, 3), st.sampled_from("abcd"), st.integers(1, 8), st.booleans()),
        max_size=30,
    ),
    st.integers(0, 12),
)
@example([("x", 3, "a", 3, True), ("x", 1, "a", 2, False), ("y", 0, "b", 8, False)], 1)  # texts leave one at two places
@settings(max_examples=200, deadline=None, phases=PHASES)
def test_the_tree_is_a_list_of_blocks_with_the_least_recent_leaf_first_to_go(
    uses: list[tuple[str, int, str, int, bool]], capacity: int
) -> None:
    tree, naive, held = PrefixTree(capacity), Naive(capacity), []
    for text, trunk, own, blocks, stays in uses:
        path = ((text, trunk), (own, 10**9)) if trunk else ((own + "!", 10**9),)
        assert tree.match(path, blocks) == naive.match(path, blocks)
        tree.insert(path, blocks)
        tree.lock(path, blocks)
        naive.use(path, blocks, 1)
        held.append((path, blocks))
        if not stays:
            gone = held.pop(0)
            tree.unlock(*gone)
            naive.use(*gone, -1)
        assert tree.blocks == len(naive.kept)
        assert tree.locked == sum(1 for n in naive.users.values() if n)
    for path, blocks in held:
        tree.unlock(path, blocks)
    assert tree.locked == 0 and tree.blocks <= capacity


def test_a_tree_lists_its_runs_from_the_trunk_on() -> None:
    tree = PrefixTree(6)
    tree.insert((("all", 3), ("a", 5)), 5)
    tree.insert((("all", 3), ("b", 6)), 6)
    assert list(tree.runs()) == [(("all",), 0, 3), (("all", "a"), 3, 2), (("all", "b"), 3, 3)]
    tree.trim()  # two above the capacity: the branch that was used first goes
    assert list(tree.runs()) == [(("all",), 0, 3), (("all", "b"), 3, 3)] and tree.blocks == 6


@independent
def test_a_cache_without_end_computes_what_the_equation_says() -> None:
    """Turn after turn: eq-prompt-computed of the prompt, with all cached that was said but the last token."""
    turns = [(687, 33, 0.0), (50, 61, 5.0), (9, 17, 5.0), (400, 5, 5.0)]
    c = talk(*turns)
    found = run(Fleet(alone(MODEL), cache=Cache()), [c])
    cached = [0, *(p + t.output_len - 1 for p, t in zip(c.prompts, c.turns, strict=True))]
    new = [float(serving.prompt_computed(p, x)) for p, x in zip(c.prompts, cached, strict=False)]
    assert found.prefill_tokens == sum(new) and found.asked_tokens - found.found_tokens == sum(new)
    # the plain engine, told what is cached, takes the same times
    for r, x in zip(found.records, cached, strict=False):
        plain = serving.simulate(MODEL, [replace(r.request, cached_len=x)], ROOMY).records[0]
        assert r.ttft_s == pytest.approx(plain.ttft_s, rel=1e-12)
        assert r.e2e_s == pytest.approx(plain.e2e_s, rel=1e-12)
    assert run(Fleet(alone(MODEL), cache=Cache(blocks=0)), [c]).prefill_tokens == sum(c.prompts)


@independent
def test_those_that_begin_alike_share_blocks_while_they_run_and_after() -> None:
    """64 tokens in common: the second computes the rest, and the cache holds those blocks once."""
    steps = Steps(0.01)
    two = [talk((96, 50, 0.0), shared="s", shared_len=70), talk((96, 50, 0.0), start=0.2, shared="s", shared_len=70)]
    found = run(Fleet(alone(steps), cache=Cache()), two)
    assert found.prefill_tokens == 96 + 32 and found.found_tokens == 64
    # while both run: 4 blocks in common, and for each 96 + 20 or so tokens less those 64, never all twice
    assert found.most_blocks <= 4 + 2 * math.ceil((96 + 50 - 64) / 16)
    other = [two[0], replace(two[1], shared="t")]
    assert run(Fleet(alone(steps), cache=Cache()), other).found_tokens == 0


@independent
def test_blocks_make_room_when_they_are_needed_and_the_least_recent_go_first() -> None:
    """13 blocks hold two of three texts of 96 tokens, five whole blocks each. The third needs six and takes three of the first, whose
    head stays; when it comes back it takes one more, so that the first finds one block, and takes all of the second's."""
    config = Config(kv_blocks=13)
    texts = [talk((90, 6, 0.0), (1, 1, back), start=float(at)) for at, back in ((0, 10.0), (1, 20.0), (2, 3.0))]
    found = run(Fleet(alone(EVEN, config), cache=Cache()), texts)
    assert found.found_tokens == (5 + 1) * 16 and found.evicted_blocks == 3 + 1 + 5 + found.evicted_blocks - 9
    roomy = run(Fleet(alone(EVEN, Config(kv_blocks=40)), cache=Cache()), texts)
    assert roomy.found_tokens == 3 * 5 * 16


@independent
def test_what_a_tier_has_is_loaded_or_computed_again_as_the_policy_says() -> None:
    """160 tokens at 1000 bytes over 1 MB/s take 0.16 s; to compute them takes 0.01 s and a ten-thousandth each."""
    steps = Steps(0.01, prompt=1e-3)
    turns = talk((160, 2, 0.0), (16, 2, 100.0))
    other = talk((180, 2, 0.0), start=50.0)  # drives the first out
    small = alone(steps, Config(kv_blocks=12))

    def second(loading: str, tier: Tier) -> tuple[float, FleetResult]:
        found = run(Fleet(small, cache=Cache(tiers=(tier,), loading=loading, token_bytes=1000.0)), [turns, other])
        return found.records[1].ttft_s or 0.0, found

    slow, fast = Tier(None, 1e6, 0.002), Tier(None, 1e7, 0.002)
    new = 178 - 160  # found are ten whole blocks of the 161 that were computed
    ttft, found = second("load", slow)
    assert ttft == pytest.approx(0.16 + 0.002 + 0.01 + new * 1e-3) and found.loaded_tokens == 160
    ttft, found = second("recompute", slow)
    assert ttft == pytest.approx(0.01 + 178e-3) and found.loaded_tokens == 0
    assert second("faster", fast)[0] == pytest.approx(0.016 + 0.002 + 0.01 + new * 1e-3)
    assert second("faster", Tier(None, 0.9e6, 0.002))[1].loaded_tokens == 0  # 0.178 s against 0.17
    assert second("load", Tier(0, 1e7))[1].loaded_tokens == 0
    # without a bound on bandwidth a tier is a larger cache
    endless = second("load", Tier())[1]
    roomy = run(Fleet(alone(steps, Config(kv_blocks=100)), cache=Cache()), [turns, other])
    assert list(endless.records.finished) == pytest.approx(list(roomy.records.finished), rel=1e-12)


@independent
def test_a_store_of_the_fleet_is_found_by_every_server_and_a_tier_of_one_by_itself() -> None:
    turns = talk((160, 2, 0.0), (16, 2, 100.0))  # in turn: the second goes to the other server
    servers = alone(replicas=2)

    def loaded(shared: bool) -> int:
        cache = Cache(tiers=(Tier(None, shared=shared),), loading="load", token_bytes=1.0)
        return run(Fleet(servers, cache=cache), [turns]).loaded_tokens

    assert loaded(True) == 160 and loaded(False) == 0
    by_prefix = run(Fleet(servers, router=Router("prefix"), cache=Cache()), [turns])
    assert by_prefix.records.replica[0] == by_prefix.records.replica[1] and by_prefix.found_tokens == 160


# Routers, servers that come and go, several models


@independent
def test_routers_with_one_server_are_alike_and_by_prefix_more_is_found() -> None:
    talks = chats(3.0, 40, turns=4, added_len=60, output_len=20, pause=1.0, shared_len=100, texts=4, seed=2)
    one = [run(Fleet(alone(MODEL), router=Router(p), cache=Cache()), talks) for p in ("round-robin", "prefix")]
    same(*one)
    four = {
        p: run(Fleet(alone(MODEL, replicas=4), router=Router(p), cache=Cache()), talks) for p in serving.fleet.POLICIES
    }
    assert four["prefix"].found_share > max(four[p].found_share for p in four if p != "prefix") + 0.1
    # nobody is sent to a server that is ahead of the others by more than that
    burst = [talk((100, 400, 0.0), start=0.05 * i, shared="s", shared_len=96) for i in range(20)]
    spread = run(Fleet(alone(replicas=2), router=Router("prefix", imbalance=3), cache=Cache()), burst)
    homes = list(spread.records.replica)
    assert abs(homes.count(0) - homes.count(1)) <= 4
    herded = run(Fleet(alone(replicas=2), router=Router("prefix", imbalance=50), cache=Cache()), burst)
    assert set(herded.records.replica[1:]) == {herded.records.replica[0]}


@independent
def test_servers_come_after_their_start_up_and_go_after_the_cool_down() -> None:
    """Twelve requests at once for servers of four: two more are asked for at the first look and serve 7 s later."""
    scaler = Autoscaler(1, 3, target=4.0, start_up=7.0, cool_down=5.0, every=2.0)
    config = Config(kv_blocks=1000, max_num_seqs=1)
    load = [*[Request(0.0, 10, 301)] * 12, *[Request(9.5, 10, 301)] * 4, Request(100.0, 10, 2)]
    found = run(Fleet(alone(EVEN, config, autoscaler=scaler)), single(load))
    changes = [(s.time, s.servers) for s in found.scaling]
    assert changes[:2] == [(9.0, 2), (9.0, 3)]  # both at once
    late = {r.replica for r in found.records if r.request.arrival == 9.5}
    assert late >= {1, 2}  # the four that come then go to the new ones too
    gone = [c for c in changes if c[0] > 9.0]
    assert gone[-1][1] == 1 and gone[0][0] >= 9.0
    end = found.makespan
    # one server all the time, the others from the look to the one at which their requests were done
    assert end < found.server_seconds < end + 2 * (gone[-1][0] + 10.0)
    never = replace(scaler, cool_down=1000.0)
    kept = run(Fleet(alone(EVEN, config, autoscaler=never)), single(load))
    assert kept.server_seconds == pytest.approx(end + 2 * (end - 2.0), rel=1e-9)  # from the look at 2 s on
    assert [s.servers for s in kept.scaling] == [2, 3]


@independent
def test_a_server_that_is_sent_away_while_it_starts_is_paid_for_and_told_of() -> None:
    """Two requests at once, one done before the second server could serve: it was paid for from 1 s to 6 s, and never served."""
    scaler = Autoscaler(1, 2, target=1.0, start_up=60.0, cool_down=5.0, every=1.0)
    load = [Request(0.0, 10, 200), Request(0.0, 10, 450), Request(20.0, 10, 2)]
    found = run(Fleet(alone(autoscaler=scaler)), single(load))
    assert [(s.time, s.servers) for s in found.scaling] == [(6.0, 1)]
    assert found.server_seconds == pytest.approx(found.makespan + 5.0)
    assert any(name == "servers" for name, _ in found.parts())


@independent
def test_a_server_that_leaves_first_ends_what_it_has() -> None:
    scaler = Autoscaler(1, 2, target=1.0, start_up=0.0, cool_down=0.0, every=1.0)
    load = [Request(0.0, 10, 400), Request(0.0, 10, 400), Request(1.5, 10, 1000), Request(1.6, 10, 30)]
    found = run(Fleet(alone(autoscaler=scaler)), single(load))
    assert len(found.served) == 4 and all(r.preemptions == 0 for r in found.records)
    ends = [s.time for s in found.scaling if s.servers == 1]
    assert ends and found.server_seconds < 2 * found.makespan


@independent
def test_several_models_take_turns_or_are_swapped() -> None:
    one, two = (
        ModelReplica(Steps(0.01), ROOMY, name="a", swap_time=3.0),
        ModelReplica(Steps(0.03), ROOMY, name="b", swap_time=2.0),
    )
    both = [talk((10, 11, 0.0), model="a"), talk((10, 11, 0.0), model="b")]
    found = run(Fleet(Servers((one, two))), both)
    a, b = found.records
    assert a.first_token == pytest.approx(0.01) and b.first_token == pytest.approx(0.04)
    assert a.finished == pytest.approx(0.01 + 10 * 0.04) and b.finished == pytest.approx(11 * 0.04)
    swapped = run(Fleet(Servers((one, two), weights="swapped", patience=100.0)), both)
    a, b = swapped.records
    assert a.finished == pytest.approx(0.11) and b.first_token == pytest.approx(0.11 + 2.0 + 0.03)
    assert swapped.swaps == 1
    # who waits longer than the patience: the other takes no more in, and is finished first
    more = [both[1], *[talk((10, 101, 0.0), start=0.2 * i, model="a") for i in range(20)]]
    swapped = run(Fleet(Servers((one, two), weights="swapped", patience=1.0)), more)
    waited = swapped.records[0].queue_s or 0.0
    assert 1.0 + 2.0 <= waited <= 1.0 + 1.0 + 2.0 + 0.1 and swapped.swaps == 2
    with pytest.raises(UnknownNameError, match="model of a conversation"):
        run(Fleet(alone()), both)


@independent
def test_weights_that_lie_together_leave_less_cache() -> None:
    small, large = (step_model(inference.deploy(m, "H100")) for m in ("Llama-3.2-1B", "Llama-3.1-8B"))
    found = shared_memory({"s": (Config(), small), "l": (Config(), large)})
    for name, model in (("s", small), ("l", large)):
        alone_blocks = serving.limits(Config(), model).blocks
        assert 0.3 * alone_blocks < (found[name].kv_blocks or 0) < 0.5 * alone_blocks
    big = step_model(inference.deploy("Llama-3.1-70B", "H100", tp=2))
    with pytest.raises(InputError, match="no room"):
        shared_memory({"l": (Config(), big), "again": (Config(), big)})
    assert swap_seconds(large, 50e9) == pytest.approx(large.deployment.weight_memory / 50e9)


# Traffic


@independent
def test_traffic_is_written_and_read_and_plain_readers_read_it(tmp_path: Path) -> None:
    talks = (*agents(0.5, 12, turns=5, seed=3, models=("a", "b"), texts=2), *single([Request(1.5, 9, 9)]))
    path = write_traffic(talks, tmp_path / "t.csv")
    assert read_traffic(path) == talks
    plain = serving.read_trace(path)
    assert [r.input_len for r in plain] == [p for c in talks for p in c.prompts]
    bare = tmp_path / "plain.csv"
    bare.write_text("arrival_s,input_len,output_len\n0.5,7,8\n0.25,9,1\n")
    assert read_traffic(bare) == single(serving.read_trace(bare))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "conversation,arrival_s,input_len,output_len\nx,0,10,5\nx,0,15,5\n",
            "line 3, column 'input_len': 15 must exceed the 15",
        ),
        ("arrival_s,input_len,output_len,shared_len,shared\n0,10,5,11,s\n", "'shared_len': 11 exceed"),
        ("arrival_s,input_len,output_len,shared_len\n0,10,5,7\n", "give the text of 7 tokens a name"),
        ("arrival_s,input_len,output_len,pause_s\n0,10,5,-1\n", "column 'pause_s'"),
        ("arrival_s,input_len,output_len,pauses\n0,10,5,1\n", "did you mean 'pause_s'"),
    ],
)
def test_traffic_that_is_wrong_says_where(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_traffic(path)


@independent
def test_drawn_traffic_has_the_means_it_is_asked_for() -> None:
    talks = chats(2.0, 2000, turns=5.0, added_len=100, output_len=80, pause=7.0, shared_len=50, seed=1)
    assert statistics.mean(len(c.turns) for c in talks) == pytest.approx(5.0, rel=0.05)
    later = [t for c in talks for t in c.turns[1:]]
    assert statistics.mean(t.pause for t in later) == pytest.approx(7.0, rel=0.05)
    assert statistics.mean(t.added_len for t in later) == pytest.approx(100, rel=0.05)
    assert len(talks) / talks[-1].start == pytest.approx(2.0, rel=0.1)
    assert chats(2.0, 50, seed=9) == chats(2.0, 50, seed=9) != chats(2.0, 50, seed=10)
    found = run(Fleet(alone()), [talk((10, 5, 3.0), (20, 4, 2.5))])  # the first pause counts for nothing
    assert found.records[0].request.arrival == 0.0
    assert found.records[1].request.arrival == pytest.approx(0.05 + 2.5)


# What never happens


@pytest.mark.regression
def test_a_prompt_goes_on_with_the_blocks_of_one_that_started_later() -> None:
    """A cache came from another server meanwhile: it gives its blocks up, and the step is one of the prompt, not none."""
    rank = Rank(EVEN, serving.Limits(tokens=2, sequences=4, blocks=3, block_tokens=2), Blocks(3, 2))
    prompt, crossed, source = Job(0, 6, 1), Job(1, 3, 3), Rank(EVEN, serving.limits(ROOMY, EVEN), Blocks(2, 2))
    rank.waiting.append(prompt)
    assert rank.plan(0.0)
    rank.commit()
    rank.end(0.01)
    crossed.source, crossed.generated, crossed.blocks = source, 1, 2
    source.held[crossed], rank.loading[crossed] = (0, 0), None
    rank.blocks.take(2)
    rank.arrive(crossed)
    assert rank.plan(0.01) and (crossed.preemptions, list(rank.running)) == (1, [prompt])
    rank.commit()
    assert prompt.computed == 3


@independent
@given(
    data=st.data(),
    seed=st.integers(0, 1000),
    blocks=st.integers(12, 60),
    apart=st.booleans(),
    ranks=st.integers(1, 2),
    drafted=st.integers(0, 3),
    policy=st.sampled_from(serving.fleet.POLICIES),
    loading=st.sampled_from(serving.fleet.LOADING),
    swapped=st.booleans(),
    scaled=st.booleans(),
)
@settings(max_examples=25, deadline=None, phases=PHASES, suppress_health_check=list(HealthCheck))
def test_with_all_of_it_nothing_is_lost_and_nothing_overflows(
    data: st.DataObject,
    seed: int,
    blocks: int,
    apart: bool,
    ranks: int,
    drafted: int,
    policy: str,
    loading: str,
    swapped: bool,
    scaled: bool,
) -> None:
    draw = random.Random(seed)
    config = Config(kv_blocks=blocks, max_num_seqs=draw.randint(1, 6), max_num_batched_tokens=draw.randint(8, 60))
    spec = Speculation.even(0.6, drafted, draft_share=0.1, seed=seed)
    steps = Steps(0.01, 1e-4, 1e-3)
    hosted = tuple(ModelReplica(steps, config, spec, name, 0.05) for name in ("a", "b"))
    weights = "swapped" if swapped else "resident"
    scaler = Autoscaler(1, 3, target=2.0, start_up=0.2, cool_down=0.3, every=0.1) if scaled else None
    servers = Servers(hosted, 2, ranks, weights, 0.1, scaler)
    tiers = (Tier(20, 1e6, 1e-3), Tier(None, 1e5, 1e-2, shared=True))
    fleet = Fleet(
        servers,
        replace(servers, replicas=1) if apart else None,
        Link(1e5, 0.001, 100.0),
        Router(policy, 4),
        Cache(draw.choice((None, 5, 30)), tiers, loading, 100.0),
    )
    talks = chats(
        8.0, 12, turns=3, added_len=40, output_len=12, pause=0.3, shared_len=40, texts=2, models=("a", "b"), seed=seed
    )
    loop = EventLoop(fleet, min(t.start for t in talks), None)
    records = loop.play(Turns(talks, fleet, loop.bounds, loop.block), lambda n: None)
    assert loop.open == 0
    ranks_of = loop.ranks
    for r in ranks_of:
        assert not (r.running or r.waiting or r.loading or r.held or r.decodes)
        assert isinstance(r.blocks, TreeBlocks)
        assert r.blocks.used == 0 and r.most_blocks <= blocks
        assert r.blocks.tree.locked == 0 and r.blocks.tree.blocks <= blocks
        assert len(r.tiers) == 2 and r.tiers[0][0].blocks <= 20
    for index, record in enumerate(records):
        if record.rejected:
            continue
        assert record.request.arrival <= record.scheduled < record.first_token <= record.finished, index
    done = [r for r in records if not r.rejected]
    made = sum(r.request.output_len for r in done)
    assert sum(r.decode_tokens for r in ranks_of) <= made
    again = run(fleet, talks)
    same(again, run(fleet, talks))
    assert repr(again.records.finished) == repr(records.finished)


def test_what_makes_no_sense_is_refused() -> None:
    host = ModelReplica(EVEN, ROOMY)
    cases = [
        (lambda: Speculation((0.5, 1.5)), "acceptance = 1.5 at position 2"),
        (lambda: Speculation.even(0.5, -1), "draft_len = -1"),
        (lambda: Speculation((0.5,), EVEN, 0.1), "leave out draft_share or draft"),
        (lambda: Link(0.0), "bandwidth = 0.0 must be a number above 0"),
        (lambda: Link(1.0, -1.0), "latency = -1.0"),
        (lambda: Tier(-1), "blocks = -1"),
        (lambda: Cache(loading="both"), "loading"),
        (lambda: Router("nearest"), "routing"),
        (lambda: Autoscaler(3, 2), "most = 2 must be a whole number from 3"),
        (lambda: Autoscaler(every=0.0), "every = 0.0"),
        (lambda: Servers(()), "hosted"),
        (lambda: Servers((host, host)), "two models of one name"),
        (lambda: Servers(host, weights="shared"), "weights"),
        (lambda: Servers(host, ranks=0), "ranks = 0"),
        (lambda: Fleet(Servers(host), Servers(replace(host, name="b"))), "must run the same models"),
        (lambda: run(Fleet(alone(), alone()), single([Request(0.0, 9, 9)])), "token_bytes is missing"),
        (lambda: run(Fleet(alone()), (), concurrency=0), "concurrency = 0"),
        (lambda: single([Request(0.0, 9, 9, 3)]), "cached_len = 3"),
        (lambda: Conversation(0.0, ()), "turns is empty"),
        (lambda: Conversation(0.0, (Turn(5, 5),), "", 3), "needs shared"),
        (lambda: Turn(0, 1), "added_len = 0"),
        (lambda: chats(1.0, 5, turns=0.5), "turns = 0.5"),
        (lambda: swap_seconds(EVEN, 1.0), "give swap_time"),
    ]  # fmt: skip
    for call, message in cases:
        with pytest.raises((InputError, UnknownNameError), match=message):
            call()
    assert len(run(Fleet(alone()), ()).records) == 0
    too_long = run(Fleet(alone(EVEN, Config(kv_blocks=5))), [talk((70, 5, 0.0), (5, 5, 0.0), (5, 5, 0.0))])
    assert [bool(r.rejected) for r in too_long.records] == [False, True, True]
    assert "was refused" in too_long.records[2].rejected


def test_a_fleet_tells_what_its_parts_did() -> None:
    spec = Speculation.even(0.7, 2)
    fleet = Fleet(Servers(ModelReplica(MODEL, ROOMY, spec)), alone(MODEL), Link(1e9), cache=Cache())
    found = run(fleet, chats(2.0, 10, seed=1))
    text = str(found)
    for word in ("prefix cache", "link", "speculation", "prefill 1, decode 1"):
        assert word in text, text
    assert len(text.split("\n")) <= 20
    numbers = found.to_dict()["fleet"]
    assert numbers["moved_bytes"] > 0 and 1 < numbers["tokens_per_step"] < 3 and numbers["scaling"] == []
    assert found.chart() is not None and str(found.explain())


# Doors and the command line


ASK = ["simulate", "--model", "Llama-3.2-1B", "--device", "H100"]
ALL_OF_IT = [
    *("--rate", "4", "--requests", "40", "--traffic", "agents", "--turns", "5", "--pause", "1 s", "--shared-len", "600"),
    *("--prefill-replicas", "1", "--link-latency", "1 ms", "--acceptance", "0.8,0.5", "--prefix-tree", "--kv-blocks", "900"),
    *("--host-memory", "1 GB", "--host-bandwidth", "20 GB/s", "--store-memory", "1 TB", "--store-bandwidth", "5 GB/s"),
    *("--routing", "prefix", "--autoscaler", "1:3", "--target", "4", "--start-up", "5 s", "--also-models", "Llama-3.2-3B"),
    *("--no-resident", "--swap-bandwidth", "50 GB/s"),
]  # fmt: skip


def test_the_command_plays_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*ASK, *ALL_OF_IT, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    fleet = found["fleet"]
    assert (
        fleet["found_tokens"] > 0
        and fleet["moved_bytes"] > 0
        and fleet["drafted_tokens"] > fleet["accepted_tokens"] > 0
    )
    assert fleet["swaps"] > 0 and fleet["pools"] == {"prefill": 1, "decode": 1} and found["saturation"] is None
    assert all(r["ttft_s"] > 0 for r in found["requests"])
    assert cli.main([*ASK, *ALL_OF_IT, "--explain"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "a tree of blocks" in text and "drafted tokens accepted" in text


def test_a_trace_of_conversations_is_plain_without_a_part_and_has_turns_with_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_traffic([talk((300, 20, 0.0), (30, 5, 4.0), shared="s", shared_len=100)], tmp_path / "t.csv")

    def asked(*more: str) -> dict[str, object]:
        assert cli.main([*ASK, "--trace", str(path), "--json", *more]) == 0
        return dict(json.loads(capsys.readouterr().out))

    plain = asked()
    model = step_model(inference.deploy("Llama-3.2-1B", "H100"))
    assert plain["requests"] == serving.simulate(model, serving.read_trace(path)).to_dict()["requests"]
    assert "fleet" not in plain and set(plain["layout"]) == {"replicas", "tp", "ep"}  # type: ignore[call-overload]
    turns = asked("--prefix-tree")
    assert turns["fleet"]["found_tokens"] == 16 * ((300 + 20 - 1) // 16)  # type: ignore[index]
    one, two = turns["requests"]  # type: ignore[misc]
    assert one == serving.simulate(model, serving.read_trace(path)[:1]).to_dict()["requests"][0]
    assert two["ttft_s"] < plain["requests"][1]["ttft_s"]  # type: ignore[index]


@independent
def test_a_draft_model_takes_its_memory_from_the_cache() -> None:
    """By hand: 1,235,814,400 weights of two bytes lie on each device, and each token has 16 layers of 8 heads of 64 more."""
    steps = step_model(inference.deploy("Llama-3.1-8B", "H100"))
    draft = step_model(inference.deploy("Llama-3.2-1B", "H100"))
    alone = rank_limits(Config(), steps)
    pool = alone.blocks * 16 * (2 * 32 * 8 * 128 * 2)
    left = (pool - 2 * 1_235_814_400) / (16 * (2 * 32 * 8 * 128 * 2 + 2 * 16 * 8 * 64 * 2))
    beside = beside_draft(Config(), steps, draft)
    assert beside.kv_blocks == pytest.approx(left, abs=2)  # the pool is not a whole number of blocks
    assert left < 0.8 * alone.blocks
    half = beside_draft(Config(kv_blocks=alone.blocks // 2), steps, draft)  # what models that share memory leave it
    assert half.kv_blocks is not None and half.kv_blocks < beside.kv_blocks / 2
    big = step_model(inference.deploy("Llama-3.1-70B", "H100", weights="int4"))
    with pytest.raises(InputError, match=r"draft_model: .* GB of weights for Llama-3.1-8B leave no room"):
        beside_draft(Config(kv_blocks=1000), big, steps)
    found = mlsysim.simulate(
        "Llama-3.1-8B", "H100", rate=1, requests=2, parts=FleetSpec(acceptance=(0.5,), draft_model="Llama-3.2-1B")
    )
    assert found.simulation is not None and found.simulation.limits.blocks == beside.kv_blocks


def test_layers_and_forgetting_have_a_door() -> None:
    parts = FleetSpec(prefill_replicas=1, link_bandwidth=1e9, traffic="chats", history_len=300, summary_len=50)
    whole, layers = (
        mlsysim.simulate("Llama-3.1-8B", "H100", rate=2, requests=12, parts=replace(parts, transfer=t)).simulation
        for t in ("whole", "layers")
    )
    assert isinstance(whole, FleetResult) and isinstance(layers, FleetResult)
    assert statistics.mean(layers.records.finished) < statistics.mean(whole.records.finished)
    assert {(c.history_len, c.summary_len) for c in parts.drawn(2.0, 12, 200.0, 1.0, ("",), 0)} == {(300, 50)}
    with pytest.raises(UnknownNameError, match="transfer"):
        FleetSpec(prefill_replicas=1, transfer="slices")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--link-bandwidth", "1 GB/s"], "--link-bandwidth requires --prefill-replicas"),
        (["--transfer", "layers"], "--transfer requires --prefill-replicas"),
        (["--history-len", "500"], "--history-len requires --traffic"),
        (["--summary-len", "50", "--traffic", "chats"], "--summary-len requires --history-len"),
        (["--host-memory", "1 GB", "--prefix-tree"], "--host-memory needs --host-bandwidth"),
        (["--host-memory", "1 GB"], "--host-memory requires --prefix-tree"),
        (["--draft-model", "Llama-3.2-1B"], "--draft-model requires --acceptance"),
        (["--acceptance", "0.5,2"], "--acceptance = 2.0 at position 2"),
        (["--acceptance", "often"], "not a list of numbers"),
        (["--routing", "prefix"], "needs a cache that says what is in it"),
        (["--autoscaler", "3"], "not two whole numbers"),
        (["--autoscaler", "3:2"], "most = 2"),
        (["--autoscaler", "1:2", "--replicas", "2"], "leave out --replicas"),
        (["--target", "5"], "--target requires --autoscaler"),
        (["--turns", "5"], "--turns requires --traffic"),
        (["--traffic", "chats", "--input-len", "9"], "give that instead of --input-len"),
        (["--also-models", "Llama-3.1-8B", "--no-resident"], "need --swap-bandwidth"),
        (["--swap-bandwidth", "1 GB/s"], "--swap-bandwidth requires --also-models"),
        (["--also-models", "Lama"], "did you mean"),
    ],
)
def test_the_command_says_what_is_wrong_with_parts(
    more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = cli.main([*ASK, "--rate", "4", "--requests", "5", *more])
    except SystemExit as stopped:
        status = int(stopped.code or 0)
    assert status == 2 and message in capsys.readouterr().err


@independent
def test_the_door_plays_what_the_rooms_play() -> None:
    asked = [Request(0.3 * i, 200, 30) for i in range(12)]
    plain = mlsysim.simulate("Llama-3.2-1B", "H100", trace=asked)
    same_parts = mlsysim.simulate("Llama-3.2-1B", "H100", trace=asked, parts=FleetSpec())
    assert plain.rows == same_parts.rows and type(same_parts.simulation) is Simulation
    found = mlsysim.simulate(
        "Llama-3.2-1B", "H100", trace=asked, parts=FleetSpec(acceptance=(0.9,), prefill_replicas=1)
    )
    model = step_model(inference.deploy("Llama-3.2-1B", "H100"))
    spec = Speculation((0.9,), draft_share=1 / model.model.n_layers)
    servers = Servers(ModelReplica(model, speculation=spec))
    assert found.simulation is not None and found.devices == 2
    same(found.simulation, run(Fleet(servers, servers, Link(serving.ADAPTER)), single(asked)))
    scaled = mlsysim.simulate(
        "Llama-3.2-1B", "H100", rate=5, requests=60, parts=FleetSpec(autoscaler=Autoscaler(1, 4, 1.0, 1.0, 5.0, 1.0))
    )
    assert scaled.mean("servers") > 1 and scaled.bill.devices > 1
    many = mlsysim.simulate(
        "Llama-3.2-1B", "H100", rate=5, requests=20, runs=2, parts=FleetSpec(traffic="chats", prefix_tree=True)
    )
    assert many.error("ttft_s.mean") > 0
    ranks = mlsysim.simulate("Qwen3-30B-A3B", "4 H100", rate=5, requests=20, tp=1, ep=4, parts=FleetSpec(dp=4))
    assert ranks.devices == 4 and ranks.fits
