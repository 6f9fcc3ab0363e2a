"""One training step: published runs, bounds, identities, and every term noticed when it is missing."""

import math
import time
import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made import left_out
from support import ROOT, resized

from mlsysim import catalog, collectives, efficiencies, evidence, flops, training
from mlsysim.catalog import Model, decoder
from mlsysim.efficiencies import clock_of
from mlsysim.errors import InputError
from mlsysim.evidence import rows as shipped_rows
from mlsysim.evidence import scoring
from mlsysim.evidence.predictors import PREDICTORS, shipped_constants
from mlsysim.evidence.scoring import baselines
from mlsysim.memory import TrainingMemory
from mlsysim.parallelism import Plan, bubble_ratio
from mlsysim.training import BOUND, Efficiencies, Layout, Machine, StepTerms, Work, layout_of, step_terms

DAY = 86_400.0
WORK = Work(
    layers=32,
    hidden=4096,
    dense_params=2e8,
    heads=32,
    qk_dim=128,
    v_dim=128,
    kv_heads=8,
    head_params=128_000 * 4096,
    embedding_params=1e9,
    active_expert_params=1e7,
    expert_params=4e7,
    top_k=2,
    last_params=5e7,
)
LAYOUT = Layout(256, 4096, micro_batch=1, tp=4, pp=4, cp=2, dp=8, ep=4, recompute_full=1, attended=2048)
MACHINE = Machine(1e15, 1e15, 3e12, 4e11, 5e10, 8)
REAL = Efficiencies(
    gemm=0.7,
    head=0.6,
    attention=0.4,
    memory=0.9,
    link=0.8,
    elementwise=40.0,
    layer_overhead=1e-4,
    selective_recompute=0.4,
    tp_overlap=0.3,
    dp_overlap=0.8,
    variation=0.01,
)
BARE = Work(10, 1000, 1e7, 0, 0, 0, 0, 0, 0)  # products only
H100 = catalog.cluster("DGX-H100", 32)


def step(layout: Layout = LAYOUT, work: Work = WORK, machine: Machine = MACHINE, eff: Efficiencies = REAL) -> StepTerms:
    return step_terms(work, layout, machine, eff)


# Published runs


@pytest.mark.published
def test_gpt3_on_1024_a100_takes_34_days() -> None:
    """Narayanan 2021, sec. 5.1: 175B parameters, 300B tokens, 1024 A100 at 140 TFLOP/s, 8 T P: 34 days."""
    days = training.run_time(8.0 * 300e9 * 175e9, 1024, 140e12) / DAY
    assert days == pytest.approx(34, abs=0.5)
    assert training.run_time(6.0 * 300e9 * 175e9, 1024, 140e12) / DAY == pytest.approx(25, abs=0.6)


@pytest.mark.published
def test_a_trillion_parameters_on_3072_a100_take_84_days() -> None:
    """Narayanan 2021, sec. 5.1: 1T parameters, 450B tokens, 3072 A100 at 163 TFLOP/s: 84 days."""
    assert training.run_time(8.0 * 450e9 * 1e12, 3072, 163e12) / DAY == pytest.approx(84, abs=1)


# Identities and limits


@pytest.mark.independent
def test_compute_alone_is_flops_over_peak() -> None:
    t = step_terms(BARE, Layout(8, 100), MACHINE, replace(BOUND, optimizer_bytes=0.0))
    assert t.time == pytest.approx(
        6 * 1e7 * 10 * 8 * 100 / 1e15 * max(1.0, 1e15 / 3e12 / 100)
    )  # or the weights' reading
    long = step_terms(BARE, Layout(8, 10_000), MACHINE, replace(BOUND, optimizer_bytes=0.0))
    assert long.time == pytest.approx(6 * 1e7 * 10 * 8 * 10_000 / 1e15)


@pytest.mark.independent
def test_nothing_hides_the_bubble() -> None:
    """P 8, m 32: the step is 1.22 times its arithmetic, not 1.04."""
    bare = replace(BARE, layers=16)
    fast = replace(MACHINE, inter_bandwidth=1e30, intra_bandwidth=1e30)
    t = step_terms(bare, Layout(32, 10_000, pp=8), fast, replace(BOUND, optimizer_bytes=0.0))
    assert t.time / t.gemm == pytest.approx(1 + 7 / 32)
    assert t.bubble / t.gemm == pytest.approx(bubble_ratio(8, 32))
    twice = step_terms(bare, Layout(32, 10_000, pp=8, virtual_stages=2), fast, BOUND)
    assert twice.bubble == pytest.approx(t.bubble / 2)


@pytest.mark.independent
def test_a_pipeline_fills_by_whole_chunks() -> None:
    """126 layers in 112 chunks: some chunks have 2 layers, so 7 of them fill no sooner than 4 of 2 layers each."""
    bare = replace(BARE, layers=126)
    fast = replace(MACHINE, inter_bandwidth=1e30, intra_bandwidth=1e30)

    def layers_waited(virtual: int) -> float:
        t = step_terms(bare, Layout(32, 10_000, pp=16, virtual_stages=virtual), fast, BOUND)
        return t.bubble / (t.gemm / 32 / 8)

    waits = {v: layers_waited(v) for v in (1, 2, 4, 7, 8)}
    assert waits == pytest.approx({v: 15.0 * n for v, n in ((1, 8), (2, 4), (4, 2), (7, 2), (8, 1))})


@pytest.mark.independent
@pytest.mark.parametrize("virtual", [2, 4, 7, 8])
def test_one_micro_batch_of_llama_3_passes_every_layer_however_it_is_interleaved(virtual: int) -> None:
    """TP 8, PP 16, one micro-batch: 126 layers (128 places), forward and backward, one after the other."""
    cluster = catalog.cluster("DGX-H100", 128)
    plain, interleaved = (
        training.training_step(
            "Llama-3.1-405B",
            Plan(tp=8, pp=16, dp=8, virtual_stages=v),
            cluster,
            global_batch=8,
            seq=8192,
            efficiencies="bound",
        )
        for v in (1, virtual)
    )
    assert interleaved.time >= plain.time
    one_stage = plain.terms.gemm + plain.terms.attention + plain.terms.tensor_parallel
    assert interleaved.time > 126 / 8 * one_stage


@pytest.mark.independent
def test_the_fullest_stage_binds() -> None:
    even, uneven = (step(replace(LAYOUT, pp=16), replace(WORK, layers=n)) for n in (128, 126))
    assert even.gemm == uneven.gemm


@pytest.mark.independent
def test_all_experts_active_is_a_dense_model() -> None:
    one = replace(LAYOUT, ep=1)
    moe = replace(WORK, dense_params=1e8, active_expert_params=1e8, expert_params=1e8, top_k=4)
    dense = replace(WORK, dense_params=2e8, active_expert_params=0, expert_params=0, top_k=0)
    assert step(one, moe).time == pytest.approx(step(one, dense).time, rel=1e-12)


@pytest.mark.independent
@pytest.mark.parametrize("name", ["tp", "pp", "cp", "dp", "ep"])
def test_a_group_of_one_sends_nothing(name: str) -> None:
    term = {
        "tp": "tensor_parallel",
        "pp": "pipeline_transfer",
        "cp": "context_parallel",
        "dp": "data_parallel",
        "ep": "expert_parallel",
    }
    degrees: dict[str, Any] = {name: 1} | ({"cp": 1} if name == "dp" else {})
    alone = step(replace(LAYOUT, **degrees))
    assert getattr(alone, term[name]) == 0


@pytest.mark.independent
@pytest.mark.parametrize(
    "name", ["peak_flops", "half_peak_flops", "memory_bandwidth", "intra_bandwidth", "inter_bandwidth"]
)
def test_faster_is_never_slower(name: str) -> None:
    for layout in (LAYOUT, replace(LAYOUT, tp=16), replace(LAYOUT, pp=1, weight_shards=16)):
        times = [step(layout, machine=replace(MACHINE, **{name: getattr(MACHINE, name) * f})).time for f in (1, 2, 8)]
        assert times == sorted(times, reverse=True)


@pytest.mark.independent
@pytest.mark.parametrize("plan", [Plan(tp=8), Plan(tp=2, pp=4, virtual_stages=2), Plan(dp=8, sharding="fsdp")])
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_achieved_is_never_above_peak(plan: Plan, recompute: str) -> None:
    r = training.training_step(
        "Llama-3.1-8B",
        replace(plan, recompute=recompute),
        "H100",
        global_batch=64,
        seq=8192,
        inter_bandwidth=50e9,
        efficiencies="bound",
    )
    assert 0 < r.mfu <= r.hfu <= 1
    assert r.time == pytest.approx(sum(r.to_dict()["terms_s"].values()))
    assert (recompute == "none") == (r.mfu == r.hfu)
    assert r.binding == "gemm"


@pytest.mark.independent
def test_the_counts_of_a_catalogue_model_are_those_of_its_shape() -> None:
    for name in ("Llama-3.1-8B", "Mixtral-8x7B", "DeepSeek-V3"):
        w = training.work_of(name)
        m = catalog.model(name)
        total = w.layers * (w.dense_params + w.expert_params) + w.embedding_params
        assert total == pytest.approx(m.published["parameters"].value, rel=0.03)


@pytest.mark.independent
def test_a_plan_that_leaves_the_domain_needs_a_network() -> None:
    with pytest.raises(InputError, match="inter_bandwidth"):
        training.training_step("Llama-3.1-8B", Plan(dp=16), "H100", global_batch=16, seq=4096, efficiencies="bound")


@pytest.mark.independent
def test_a_group_across_nodes_shares_their_network_cards() -> None:
    """Eight cards of 5e10 side by side carry what one device's link does; two carry a quarter."""
    assert collectives.ring_bandwidth(8, 4e11, 5e10) == 4e11
    assert collectives.ring_bandwidth(2, 4e11, 5e10) == 1e11
    bound = replace(MACHINE, inter_bandwidth=1e9)
    eight, one = (step(Layout(64, 4096, tp=tp, dp=64), BIG, bound).data_parallel for tp in (1, 8))
    # a rank alone in its node has one card for an eighth of the gradients; eight ranks have eight cards for all of them
    assert one == pytest.approx(eight, rel=0.2)


@pytest.mark.independent
def test_the_order_of_ranks_decides_who_crosses_the_network() -> None:
    usual, turned = (step(replace(LAYOUT, cp=1, ep=1, order=o)) for o in ("tp-cp-ep-dp-pp", "dp-cp-tp-pp"))
    assert usual.tensor_parallel < turned.tensor_parallel
    cluster = catalog.cluster("DGX-H100", 4)
    plans = [Plan(tp=4, dp=8, order=order) for order in ("tp-cp-ep-dp-pp", "dp-cp-tp-pp")]
    inside, across = (
        training.training_step(
            "Llama-3.1-8B", p, cluster, global_batch=32, seq=4096, efficiencies="bound"
        ).terms.tensor_parallel
        for p in plans
    )
    assert across == pytest.approx(inside * 9)  # 450 GB/s inside a DGX H100, 50 out of it


# Every term, by hand: a term set to zero, or a factor lost, must show here

BIG = replace(WORK, active_expert_params=0, expert_params=0, top_k=0)
TOKENS = 4096 / 2
N = 8 * 32  # layers of a stage x micro-batches
BANDWIDTH = 3e12 * 0.9
SPLIT = 10 / 34 + 24 / 34 / 4  # traffic of a layer on one of four ranks, without sequence parallelism


@pytest.mark.independent
def test_each_term_by_hand() -> None:
    t = step()
    forward = 2 * 2.1e8 * TOKENS / 4 / 0.7e15
    assert t.gemm == pytest.approx(N * 4 * forward)
    attend = 4 * 2048 * 4096 * TOKENS / 4 / 0.4e15
    assert t.attention == pytest.approx(N * 4.5 * attend)
    touch = 2 * TOKENS * 40 * 4096 / 4 / BANDWIDTH
    assert t.elementwise == pytest.approx(N * 3 * touch)
    assert step(replace(LAYOUT, sequence_parallel=0)).elementwise == pytest.approx(N * 3 * touch * 4 * SPLIT)
    assert t.head == pytest.approx(32 * 128_000 * TOKENS / 4 * 6 * 4096 / 0.6e15)
    assert t.overhead == pytest.approx(N * 1e-4 * 4 / 3)
    activation = 2 * TOKENS * 4096
    assert t.tensor_parallel == pytest.approx(N * 6 * 2 * 0.75 * activation / (0.8 * 4e11) * 0.7)
    assert t.context_parallel == 0
    # two of four experts' ranks share the domain: a token leaves it unless both its experts are here
    assert t.expert_parallel == pytest.approx(N * 6 * 0.75 * activation / 4 / (0.8 * 5e10) * 0.7)
    assert t.pipeline_transfer == pytest.approx(32 * 2 * activation / 4 / (0.8 * 5e10))
    inside = t.gemm + t.attention + t.elementwise + t.head + t.overhead + t.tensor_parallel + t.context_parallel
    stage = (inside + t.expert_parallel + t.weight_gather + t.pipeline_transfer) / 32
    assert t.bubble == pytest.approx(stage * 3)
    dense, experts = (32 * 2e8 + 1e9) / 16, 32 * 4e7 / 4 / 16
    assert t.optimizer == pytest.approx((dense + experts) * 30 / BANDWIDTH)
    mean = t.time - t.straggler
    assert t.straggler == pytest.approx(mean * 0.01 * math.sqrt(2 * math.log(4 * 4 * 2 * 8)))
    assert t.time == pytest.approx(sum(getattr(t, f.name) for f in fields(t)))


@pytest.mark.independent
def test_gradients_show_when_the_network_is_slow() -> None:
    slow = replace(MACHINE, inter_bandwidth=1e9)
    dense, experts = (32 * 2e8 + 1e9) / 16, 32 * 4e7 / 4 / 16
    t = step(machine=slow)
    hidden = 0.8 * t.bubble / 3 * 2 / 3
    # 16 replicas, two in a domain, of the dense weights; four, each in a domain of its own, of the experts
    sent = dense * 8 * 15 / 16 / (0.8 * 2e9) + experts * 8 * 3 / 4 / (0.8 * 1e9)
    assert t.data_parallel == pytest.approx(sent - hidden)
    zero = step(replace(LAYOUT, optimizer_shards=16), machine=slow)
    assert zero.data_parallel == pytest.approx(sent * 6 / 8 - hidden)  # 4 bytes out, and a 16-bit weight back
    assert zero.optimizer == pytest.approx((dense / 16 + experts / 4) * 30 / BANDWIDTH)
    assert step(replace(LAYOUT, weight_gradients=0), machine=slow).data_parallel == 0


@pytest.mark.independent
def test_context_parallel_keys_show_when_the_link_is_slow() -> None:
    wide = replace(LAYOUT, tp=8)
    slow = step(wide, machine=replace(MACHINE, inter_bandwidth=1e9))
    block = 2 * (4096 / 2) * 2048 / 8 / (0.8 * 1e9)  # keys and values of half the sequence, in 16 bits
    attend = 4 * 2048 * 4096 * TOKENS / 8 / 0.4e15 / 2  # with one of two blocks
    forward, backward = block - attend, 2 * block - 2.5 * attend
    assert min(forward, backward) > 0
    assert slow.context_parallel == pytest.approx(N * (2 * forward + backward))  # full recomputation goes round twice


def _ring(cp: int, hop: float, attend: float) -> float:
    """Time that CP ranks wait in one pass round a ring, event by event: block k + 1 is on its way while k is computed."""
    arrives, free = [0.0] * cp, [0.0] * cp  # of the block that each rank works on next; when the rank is done
    for k in range(cp):
        begins = [max(free[r], arrives[r]) for r in range(cp)]
        free = [t + attend for t in begins]
        if k < cp - 1:
            arrives = [begins[r - 1] + hop for r in range(cp)]
    return max(free) - cp * attend


@pytest.mark.independent
@pytest.mark.parametrize("cp", [2, 3, 4, 16])
@pytest.mark.parametrize("bandwidth", [1e9, 2e10, 4e11])
def test_every_hop_of_the_ring_hides_behind_one_block(cp: int, bandwidth: float) -> None:
    """Against an event simulation; with hops of another length no mean over the passes would agree."""
    machine = replace(MACHINE, intra_bandwidth=bandwidth, domain=1024)
    layout = Layout(8, 3 * 4096, cp=cp, attended=6144)
    found = step(layout, BIG, machine, replace(REAL, cp_start=8e-6, ring_node_step=3e-6, ring_network_step=1.0))
    block = 2 * 2 * 12288 / cp * 1024 / (0.8 * bandwidth)
    attend = 4 * 6144 * 4096 * (12288 / cp) / 0.4e15 / cp
    waits = _ring(cp, 11e-6 + block, attend) + _ring(cp, 11e-6 + 2 * block, 2.5 * attend)
    assert found.context_parallel == pytest.approx(32 * 8 * waits, rel=1e-9, abs=1e-12)


@pytest.mark.independent
def test_a_hop_over_a_boundary_leaves_by_one_adapter_and_a_gathering_by_all() -> None:
    """Sixteen ranks on two domains of eight: the ring's slowest hop has one device's share, the gathering eight of them."""
    instant = replace(REAL, attention=1.0, cp_start=8e-6, ring_node_step=3e-6, ring_network_step=14e-6)
    work = replace(BIG, heads=1e-6)  # nothing to hide behind
    layout = Layout(8, 16384, cp=16, attended=8192)
    block = 2 * 2 * 1024 * 1024
    waits = 3 * 15 * block / (0.8 * 5e10) + 2 * 15 * (8e-6 + 14e-6)
    assert step(layout, work, MACHINE, instant).context_parallel == pytest.approx(32 * 8 * waits, rel=1e-4)
    # 14 of a gathering's 15 steps stay inside; each adapter carries the pieces of its own ring
    gathers = 3 * (15 * block / (0.8 * 4e11) + 8e-6 + 14 * 3e-6 + 14e-6)
    gathered = step(replace(layout, cp_gather=1), work, MACHINE, instant)
    assert gathered.context_parallel == pytest.approx(32 * 8 * gathers, rel=1e-9)
    # with the attention's arithmetic back it still shows whole: it comes first
    assert step(replace(layout, cp_gather=1), BIG, MACHINE, instant).context_parallel == gathered.context_parallel
    again = step(replace(layout, cp_gather=1, recompute_selective=1), work, MACHINE, instant)
    assert again.context_parallel == pytest.approx(
        gathered.context_parallel * 4 / 3
    )  # attention again needs keys again


@pytest.mark.independent
def test_weights_and_keys_hide_once_on_the_same_links_and_both_on_others() -> None:
    """Where gathering weights outlasts all arithmetic, a layer takes the gathering; on the same links the ring adds all of its way."""
    slow = replace(MACHINE, intra_bandwidth=4e9, inter_bandwidth=1e6)
    dense = replace(WORK, expert_params=0.0, active_expert_params=0.0, top_k=0)
    gather = 3 * 2 * 2e8 * 31 / 32 / (0.8 * 8e6)  # forward, backward and the gradients, one rank per adapter of eight

    def layer(attention: float, **changes: int) -> float:
        layout = Layout(32, 16384, dp=16, cp=2, weight_shards=32, optimizer_shards=32, attended=8192)
        t = step(replace(layout, **changes), dense, slow, replace(REAL, attention=attention))
        return float(t.gemm + t.attention + t.elementwise + t.context_parallel + t.weight_gather) / (32 * 2)

    # the ring of two stays in the domain, and travels while weights come over the network, whether attention hides it or not
    assert layer(0.4) == layer(0.04) == pytest.approx(gather)
    # 16 ranks of one copy on two domains: keys and values cross the same adapters, hidden or not
    block = 2 * 2 * 16384 / 16 * 8 * 128
    ring = 3 * 15 * block / (0.8 * 1e6)
    far: dict[str, int] = {"dp": 2, "cp": 16}
    copies = 16  # sequences of the batch on each of the two data-parallel ranks, where there were two
    assert layer(0.4, **far) * 2 / copies == pytest.approx(gather + ring)
    assert layer(4e-9, **far) * 2 / copies > gather + ring


@pytest.mark.independent
def test_both_ways_of_context_parallelism_as_arrays() -> None:
    """A vector of plans gives what its elements give, also where the ways differ from plan to plan."""
    cp, gather = np.array([1, 2, 8, 16, 16]), np.array([1.0, 0.0, 0.0, 1.0, 0.0])
    eff = replace(REAL, cp_start=8e-6, ring_node_step=3e-6, ring_network_step=14e-6)
    layout = Layout(8, 16384, cp=cp, cp_gather=gather, attended=8192)
    several = step(layout, BIG, MACHINE, eff).context_parallel
    single = [
        step(replace(layout, cp=int(c), cp_gather=float(g)), BIG, MACHINE, eff).context_parallel
        for c, g in zip(cp, gather, strict=True)
    ]
    assert list(several) == pytest.approx(single)
    assert single[0] == 0


@pytest.mark.independent
def test_long_rings_are_not_free() -> None:
    """What the search used to tie: 8,192 tokens of Llama 3.1 70B over 4 or over 32 devices of nodes of eight."""
    times = {}
    for cp in (4, 32):
        plan = Plan(cp=cp, dp=512 // cp, sharding="fsdp", recompute="full")
        times[cp] = training.training_step(
            "Llama-3.1-70B", plan, catalog.cluster("DGX-H100", 64), global_batch=512, seq=8192,
            efficiencies="calibrated",
        ).terms.context_parallel  # fmt: skip
    # 128 tokens of each of 8 heads of 128: one block of 256 takes 1 MiB; a pass is 31 of them through one adapter, and
    # what hides behind the attention of one block is little
    block = 2 * 2 * 256 * 8 * 128
    one_adapter = 80 * 16 * 3 * 31 * block / 50e9
    # Hops that hide stop arithmetic for as long as their bytes are on the links inside the node, of which 0.824 is planned with:
    # three blocks of 2,048 tokens in each of four micro-batches, forward twice and backward with their gradients
    hidden = 80 * 4 * 3 * (2 + 2) * (2 * 2 * 2048 * 8 * 128) / (0.824 * 450e9)
    assert times[4] == pytest.approx(hidden, rel=2e-3)
    assert times[32] > one_adapter / 2
    assert "CP hop, forward" in str(
        training.training_step(
            "Llama-3.1-70B", Plan(cp=8), catalog.cluster("DGX-H100", 1), global_batch=8, seq=8192, efficiencies="bound"
        ).explain()
    )


@pytest.mark.independent
def test_every_block_from_a_ring_starts_kernels() -> None:
    """Five forward and ten backward (nvidia2026tecp) of 4.05 us each, as kernels alone start; a gathering brings one block for all."""

    def overhead(**more: Any) -> float:
        plan = Plan(dp=8 // more.get("cp", 1), sharding="zero1", **more)
        return float(training.training_step("Llama-3.1-8B", plan, "DGX-H100", global_batch=8, seq=8192).terms.overhead)

    start = training.efficiencies_of("H100").layer_overhead / 36
    for cp in (2, 4, 8):
        micro_batches = cp
        assert overhead(cp=cp) == pytest.approx(32 * micro_batches * (36 + 15 * (cp - 1)) * start)
    assert (
        overhead(cp=4, cp_comm_type="all_gather")
        == overhead(cp=4, cp_comm_type="a2a")
        == pytest.approx(32 * 4 * 36 * start)
    )


@pytest.mark.published
def test_adapters_of_70b_on_72_devices_come_right() -> None:
    """Llama-2-70B LoRA in MLPerf 5.0 on a GB200 rack with context parallelism of eight: 0.24 s, for which 0.18 s was said as long as
    the blocks of 1,024 tokens started no kernels."""
    rows = shipped_rows.cases("training_step", group="MLPT50_lora").cases
    (row,) = (c for c in rows if c.inputs["n_devices"] == 72)
    predicted = PREDICTORS["training_step"].predict(row.inputs, efficiencies.shipped("training_step")).predicted
    assert predicted == pytest.approx(row.measured, rel=0.12)


def test_unknown_ways_of_context_parallelism_are_refused() -> None:
    with pytest.raises(InputError, match=r"cp_comm_type = 'ring' is not one of p2p, all_gather"):
        Plan(cp=2, cp_comm_type="ring")


@pytest.mark.independent
def test_gathered_weights_show_when_the_link_is_slow() -> None:
    layout = Layout(64, 4096, dp=16, weight_shards=16, optimizer_shards=16, attended=2048)
    fast, slow = (step(layout, machine=replace(MACHINE, inter_bandwidth=b)) for b in (1e12, 1e6))
    gather = 2 * 2.4e8 * 15 / 16 / (0.8 * 8e6)
    hidden = (slow.gemm + slow.attention + slow.elementwise) / (32 * 4)
    assert fast.weight_gather == 0
    assert slow.weight_gather == pytest.approx(32 * 4 * (3 * gather - hidden))
    none, some, full = (
        step(replace(layout, recompute_selective=s, recompute_full=f)) for s, f in ((0, 0), (1, 0), (0, 1))
    )
    assert some.gemm / none.gemm == pytest.approx(3.4 / 3)
    assert full.gemm / none.gemm == pytest.approx((4 - 5e7 / 2.1e8) / 3)  # the layer's last product is not repeated
    assert step(replace(layout, weight_gradients=0)).gemm / none.gemm == pytest.approx(2 / 3)
    assert step(replace(layout, weight_shards=1)).weight_gather == 0


@pytest.mark.independent
def test_a_gathering_over_many_devices_pays_for_its_steps() -> None:
    """128 ranks on 16 domains of eight: 15 of the 127 steps cross the network, in each of three passes of each layer."""
    late = replace(REAL, ring_node_step=1e-3, ring_network_step=1e-2)
    layout = Layout(128, 4096, dp=128, weight_shards=128, optimizer_shards=128, attended=2048)
    slow = replace(MACHINE, inter_bandwidth=1e6)
    dense = replace(WORK, expert_params=0.0, active_expert_params=0.0, top_k=0)
    free, paid = (step(layout, dense, slow, e).weight_gather for e in (REAL, late))
    assert paid - free == pytest.approx(32 * 3 * (112 * 1e-3 + 15 * 1e-2))
    experts = replace(layout, ep=8)  # 16 ranks share an expert, each in another domain
    free, paid = (step(experts, WORK, slow, e).weight_gather for e in (REAL, late))
    assert paid - free == pytest.approx(32 * 3 * (112 * 1e-3 + 15 * 1e-2 + 15 * 1e-2))


@pytest.mark.independent
def test_weights_that_stay_are_gathered_once() -> None:
    """Kept until the backward pass: one gather less for each micro-batch; in a pipeline, one gather and one scatter a step."""
    slow = replace(MACHINE, inter_bandwidth=1e6)
    layout = Layout(64, 4096, dp=16, weight_shards=16, optimizer_shards=16, attended=2048)
    gather = 2 * 2.4e8 * 15 / 16 / (0.8 * 8e6)
    for pp in (1, 4):
        freed, kept = (step(replace(layout, pp=pp, keeps_gathered=k), machine=slow) for k in (0, 1))
        layers = 32 // pp
        busy = (kept.gemm + kept.attention + kept.elementwise) / (layers * 4)
        first = (kept.gemm / 3 + kept.attention / 3.5 + kept.elementwise / 2) / (layers * 4)  # of a forward pass
        assert freed.weight_gather == pytest.approx(layers * 4 * (3 * gather - busy))
        if pp == 1:
            assert kept.weight_gather == pytest.approx(layers * 4 * (2 * gather - busy))
            assert kept.data_parallel == freed.data_parallel == 0
            continue
        assert kept.weight_gather == pytest.approx(layers * (gather - first))  # of one micro-batch
        parameters = (32 * 2.4e8 + 1e9) / pp  # added up in FP32, and scattered once
        stage = (kept.gemm + kept.attention + kept.elementwise + kept.overhead + kept.head + kept.weight_gather) / 4
        stage += kept.pipeline_transfer / 4
        hidden = 0.8 * stage * 2 / 3
        assert kept.data_parallel == pytest.approx(4 * parameters * 15 / 16 / (0.8 * 8e6) - hidden)
        assert (kept.gemm, kept.attention) == (freed.gemm, freed.attention)
    work = replace(WORK, dense_params=1.0, embedding_params=1.0, expert_params=4e9, active_expert_params=1e3)
    shared = Layout(128, 4096, dp=64, pp=2, ep=8, weight_shards=64, optimizer_shards=64, attended=1, keeps_gathered=1)
    mixture = step(shared, work, slow)  # the shards of an expert lie in eight domains, one card each
    stage = (
        0.8
        * 2
        / 3
        * (mixture.time - mixture.straggler - mixture.bubble - mixture.data_parallel - mixture.optimizer)
        / 2
    )
    assert mixture.data_parallel == pytest.approx(4 * 32 * 4e9 / 8 / 2 * 7 / 8 / (0.8 * 1e6) - stage, rel=1e-3)
    plan = Plan(dp=16, pp=2, sharding="fsdp")
    assert layout_of(plan, 64, 4096).keeps_gathered == 1
    assert layout_of(replace(plan, reshard_after_forward=True), 64, 4096).keeps_gathered == 0
    assert layout_of(replace(plan, pp=1), 64, 4096).keeps_gathered == 0
    assert layout_of(replace(plan, sharding="zero1"), 64, 4096).keeps_gathered == 0


@pytest.mark.independent
def test_experts_are_gathered_from_the_ranks_that_share_them() -> None:
    """Eight experts over the eight ranks of a domain: the shards of one lie in 16 domains, one card each."""
    work = replace(WORK, dense_params=1.0, expert_params=4e9, active_expert_params=1e3)
    t = step(Layout(128, 4096, dp=128, ep=8, weight_shards=128, optimizer_shards=128, attended=1), work)
    gather = 2 * 4e9 / 8 * 15 / 16 / (0.8 * 5e10)
    busy = (t.gemm + t.attention + t.elementwise) / 32
    assert t.weight_gather == pytest.approx(32 * (3 * gather - busy), rel=1e-3)


@pytest.mark.independent
def test_shards_in_a_group_of_nodes_are_copied_across() -> None:
    """HSDP: weights travel inside the group only, and gradients of a shard between the groups."""
    slow = replace(MACHINE, inter_bandwidth=1e7)
    group = Layout(64, 4096, dp=16, weight_shards=8, optimizer_shards=8)
    t = step(group, BIG, slow)
    assert t.weight_gather == 0
    shard = (32 * 2e8 + 1e9) / 8
    hidden = 0.8 * (t.time - t.straggler - t.data_parallel - t.optimizer) / 4 * 2 / 3
    assert t.data_parallel == pytest.approx(shard * 4 / 2 / (0.8 * 1e7) - hidden)


# Mixtures of experts and latent attention, which no open case measures


def moe(n_experts: int, top_k: int, ffn: int = 2048) -> Model:
    return decoder("moe", 8, 2048, 16, 8, 128, 0, 32_000, n_experts=n_experts, top_k=top_k, moe_ffn=ffn)


@pytest.mark.independent
def test_a_mixture_with_every_expert_active_is_the_dense_model() -> None:
    dense = decoder("dense", 8, 2048, 16, 8, 128, 8192, 32_000)
    kwargs: Any = {"global_batch": 64, "seq": 4096, "efficiencies": replace(REAL, selective_recompute=0.0)}
    for plan in (Plan(dp=8), Plan(tp=2, dp=4, recompute="full"), Plan(dp=8, sharding="fsdp")):
        one, other = (training.training_step(m, plan, "H100", **kwargs) for m in (moe(4, 4), dense))
        router = flops.matmul_parameters(moe(4, 4)) - flops.matmul_parameters(dense)
        assert router == 8 * 2048 * 4
        assert one.terms.gemm == pytest.approx(other.terms.gemm, rel=2e-3)  # the router
        copied = one.time - one.terms.elementwise + other.terms.elementwise
        assert copied == pytest.approx(other.time, rel=3e-3 if plan.recompute == "none" else 4e-3)
        # Four copies of a token are written before the experts and after them: 8 h more than the 16 w that a block keeps
        width = other.work.width
        assert one.terms.elementwise == pytest.approx(other.terms.elementwise * (width + 8 * 2048 / 16) / width)
        assert one.terms.expert_parallel == other.terms.expert_parallel == 0  # ep = 1 sends nothing


@pytest.mark.independent
def test_inactive_experts_cost_memory_but_no_products() -> None:
    few, many = (
        training.training_step(
            moe(n, 2), Plan(dp=8, micro_batch=8), "H100", global_batch=64, seq=4096, efficiencies="bound"
        )
        for n in (4, 64)
    )
    assert many.model_flops == pytest.approx(few.model_flops, rel=0.02)  # the router grows
    assert many.terms.gemm == pytest.approx(few.terms.gemm, rel=0.02)
    assert many.memory.state > 8 * few.memory.state
    assert many.terms.data_parallel > few.terms.data_parallel


@pytest.mark.independent
def test_experts_apart_send_tokens_and_keep_the_arithmetic() -> None:
    cluster = catalog.cluster("DGX-H100", 8)
    inside, across = (
        training.training_step(
            moe(64, 4), Plan(dp=64, ep=ep), cluster, global_batch=512, seq=4096, efficiencies="bound"
        )
        for ep in (8, 64)
    )
    assert inside.terms.gemm == pytest.approx(across.terms.gemm)
    tokens, token = 8 * 4096, 2 * 2048  # of a step on one device; bytes
    rng = np.random.default_rng(5)  # experts of a token, all different, by eights: on node or device 0 it starts
    places = np.stack([rng.permutation(64)[:4] // 8 for _ in range(40_000)])
    reached = np.mean([np.any(places == place, axis=1) for place in range(1, 8)]) * 7
    assert inside.terms.expert_parallel == pytest.approx(8 * 4 * tokens * token * reached / 450e9, rel=5e-3)
    assert across.terms.expert_parallel == pytest.approx(8 * 4 * tokens * token * reached / 50e9, rel=5e-3)
    assert inside.terms.optimizer == pytest.approx(across.terms.optimizer)
    every = training.training_step(
        moe(64, 4),
        Plan(dp=64, ep=64, dispatcher="per-expert"),
        cluster,
        global_batch=512,
        seq=4096,
        efficiencies="bound",
    )
    assert every.terms.expert_parallel == pytest.approx(8 * 4 * tokens * token * 4 * 7 / 8 / 50e9), "four copies each"


@pytest.mark.independent
def test_a_latent_router_sends_narrow_tokens_from_the_layers_that_have_one() -> None:
    """Nemotron-3-Super: 40 of 88 layers send 1,024 numbers of a token to 22 of 512 experts; seven other nodes get it once."""
    r = training.training_step(
        "Nemotron-3-Super-120B-A12B",
        Plan(dp=64, ep=64),
        "8 x DGX-H100",
        global_batch=512,
        seq=4096,
        efficiencies="bound",
    )
    missed = math.prod((448 - drawn) / (512 - drawn) for drawn in range(22))
    once = 40 * 8 * 4096 * 2 * 1024 * 7 * (1 - missed) / 50e9
    assert r.terms.expert_parallel == pytest.approx(4 * once), "there and back, forward and backward"


@pytest.mark.published
@pytest.mark.parametrize(
    ("model", "cluster", "plan", "job", "measured", "before", "within"),
    [
        # automodel2026: DeepEP, everything computed again, and a gate that sends a token to 22 neighbours of 512: 1.3 nodes
        (
            "Nemotron-3-Super-120B-A12B",
            "8 x DGX-H100",
            {"dp": 64, "ep": 64, "micro_batch": 2, "sharding": "fsdp", "recompute": "full", "node_limit": 1},
            (512, 4096, "bf16"),
            7.286,
            2.38,
            0.25,
        ),
        # megatronbridge2026, 26.04.01, recipe: HybridEP, 22 of 512 drawn at random
        (
            "Nemotron-3-Super-120B-A12B",
            "8 x DGX-B200",
            {
                "dp": 64,
                "ep": 64,
                "recompute": "selective",
                "recompute_modules": ("layernorm", "moe_act"),
            },
            (512, 8192, "mxfp8"),
            512 * 8192 / 64 / 6400,
            1.52,
            0.3,
        ),
        # the same table, recipe: DeepEP, overlap_moe_expert_parallel_comm
        (
            "DeepSeek-V3",
            "32 x DGX-B200",
            {
                "pp": 8,
                "dp": 32,
                "ep": 32,
                "virtual_stages": 2,
                "recompute": "selective",
                "recompute_modules": ("mla_up_proj",),
                "overlap_experts": True,
            },
            (4096, 4096, "mxfp8"),
            4096 * 4096 / 256 / 3328,
            0.46,
            0.1,
        ),
    ],
)
def test_experts_over_nodes_as_their_recipes_send_them(
    model: str,
    cluster: str,
    plan: dict[str, Any],
    job: tuple[int, int, str],
    measured: float,
    before: float,
    within: float,
) -> None:
    batch, seq, precision = job
    found = training.training_step(model, Plan(**plan), cluster, global_batch=batch, seq=seq, precision=precision)
    error = float(found.time) / measured - 1
    assert abs(error) < within < before


@pytest.mark.published
def test_a_container_without_deepep_sent_every_copy() -> None:
    """megatronbridge2026, gpt-oss-120B on 64 B200: 8,047 tokens/s over nodes in 26.02, which had no DeepEP, 13,722 in a node after.

    What the wider exchange added, 4.2 s, is what copies of their own take; of one copy to a node it is a fifth less.
    """

    def sent(ep: int, dispatcher: str) -> float:
        plan = Plan(dp=64, ep=ep, micro_batch=4, dispatcher=dispatcher)
        step = training.training_step("gpt-oss-120B", plan, "8 x DGX-B200", global_batch=1280, seq=4096)
        return float(step.terms.expert_parallel)

    added = 1280 * 4096 / 64 * (1 / 8047 - 1 / 13722)
    every, once = (sent(64, name) - sent(8, "per-node") for name in ("per-expert", "per-node"))
    assert every == pytest.approx(added, rel=0.1)
    assert once < 0.9 * added


@pytest.mark.independent
def test_messages_to_experts_hide_behind_another_micro_batch() -> None:
    """One with a partner waits for the longer of both; of 16 micro-batches on one stage two passes have none."""

    def terms(**words: Any) -> StepTerms:
        plan = Plan(dp=64, ep=64, **words)
        return training.training_step("Qwen3-30B-A3B", plan, "8 x DGX-H100", global_batch=1024, seq=4096).terms

    plain, hidden = terms(), terms(overlap_experts=True)
    left = 1 - training.efficiencies_of("H100").messengers
    alone = 2 / 16
    assert hidden.gemm == pytest.approx(plain.gemm * (alone + (1 - alone) / left))
    behind = plain.gemm / left + plain.attention / left + plain.elementwise + plain.overhead
    open_ = max(0.0, plain.expert_parallel - behind)
    assert hidden.expert_parallel == pytest.approx(alone * plain.expert_parallel + (1 - alone) * open_)


@pytest.mark.independent
def test_latent_attention_works_as_its_expanded_form() -> None:
    """DeepSeek-V3: 128 heads, keys of 128 + 64, values of 128; the core is that of multi-head attention."""
    w, m = training.work_of("DeepSeek-V3"), catalog.model("DeepSeek-V3")
    assert (w.heads, w.qk_dim, w.v_dim, w.kv_heads) == (128, 192, 128, 128)
    tokens, keys = 4096, 2048.5
    core = sum(2 * keys * size for size in (192, 128)) * 128 * tokens
    bare = step(Layout(1, 4096, attended=keys), replace(w, dense_params=1, active_expert_params=0), eff=BOUND)
    assert bare.attention == pytest.approx(61 * 3.5 * core / 1e15)
    latent = 7168 * 1536 + 1536 * 128 * 192 + 7168 * (512 + 64) + 512 * 128 * (128 + 128) + 128 * 128 * 7168
    assert w.dense_params * 61 == pytest.approx(
        61 * latent + 3 * 3 * 7168 * 18432 + 58 * (3 * 7168 * 2048 + 256 * 7168)
    )
    assert w.expert_params * 61 == 58 * 256 * 3 * 7168 * 2048
    assert w.top_k == pytest.approx(8 * 58 / 61)
    assert w.layers * w.active_expert_params == pytest.approx(58 * 8 * 3 * 7168 * 2048)
    assert m.is_mla


@pytest.mark.independent
def test_a_sliding_window_saves_attention_and_nothing_else() -> None:
    full = decoder("full", 8, 2048, 16, 8, 128, 8192, 32_000)
    half = resized(full, attn_window=1024, n_windowed_layers=4)
    a, b = (
        training.training_step(m, Plan(), "H100", global_batch=4, seq=16_384, efficiencies="bound")
        for m in (full, half)
    )
    seen = np.minimum(np.arange(1, 16_385), 1024).mean()
    everything = np.arange(1, 16_385).mean()
    assert b.terms.attention / a.terms.attention == pytest.approx((seen + everything) / 2 / everything)
    assert b.terms.gemm == a.terms.gemm
    assert b.model_flops < a.model_flops


# The whole and its parts


@pytest.mark.independent
def test_the_devices_together_do_the_work_of_one() -> None:
    """Products, attention, head and optimizer of all shards sum to those of the whole, whatever the plan."""
    eff = Efficiencies(elementwise=40.0)
    alone = training.training_step("Llama-3.1-8B", Plan(), "H100", global_batch=64, seq=8192, efficiencies=eff)
    for plan in (Plan(tp=8), Plan(pp=8), Plan(cp=8), Plan(dp=8), Plan(tp=2, pp=2, dp=2), Plan(dp=8, sharding="fsdp")):
        r = training.training_step("Llama-3.1-8B", plan, "H100", global_batch=64, seq=8192, efficiencies=eff)
        for name in ("gemm", "attention", "elementwise"):
            assert 8 * getattr(r.terms, name) == pytest.approx(getattr(alone.terms, name)), (plan, name)
        assert r.terms.head * 8 / plan.pp == pytest.approx(alone.terms.head)  # the last stage has it all
        owners = 8 if plan.sharding != "none" else plan.tp * plan.pp
        assert r.terms.optimizer * owners == pytest.approx(alone.terms.optimizer)
        assert r.model_flops == alone.model_flops


@pytest.mark.independent
def test_permuting_ranks_inside_a_node_changes_nothing() -> None:
    orders = ("tp-cp-ep-dp-pp", "cp-tp-ep-dp-pp", "cp-ep-dp-tp-pp", "dp-tp-cp-pp")
    results = [
        training.training_step(
            "Mixtral-8x7B",
            Plan(tp=2, cp=2, dp=2, pp=4, ep=4, order=order),
            catalog.cluster("DGX-H100", 4),
            global_batch=64,
            seq=8192,
            efficiencies="bound",
        ).terms
        for order in orders
    ]
    assert all(r == results[0] for r in results)


@pytest.mark.published
def test_a_wide_domain_spares_tensor_parallelism_the_network() -> None:
    """At TP 16 an HGX node must cross the network; the source prices that at 1.40 for every model, an NVL72 at nothing."""
    node = catalog.node("DGX-H100")
    plan = Plan(tp=16, dp=4)
    kwargs: Any = {"global_batch": 64, "seq": 4096, "efficiencies": "calibrated"}
    cluster = catalog.cluster(node, 8)
    hgx = training.training_step("Llama-2-70B", replace(plan, tp=8, dp=8), cluster, **kwargs)
    beyond = training.training_step("Llama-2-70B", plan, cluster, **kwargs)
    wide = training.training_step("Llama-2-70B", plan, cluster, domain=72, **kwargs)
    assert wide.terms.tensor_parallel < beyond.terms.tensor_parallel
    assert wide.time < beyond.time
    assert hgx.time < beyond.time  # the same devices, better placed
    rack = catalog.cluster("GB200-NVL72", 1)
    nvl = training.training_step("Llama-2-70B", plan, rack, **{**kwargs, "efficiencies": "calibrated"})
    small = training.training_step("Llama-2-70B", plan, rack, domain=8, **{**kwargs, "efficiencies": "calibrated"})
    assert small.time / nvl.time > 1


# The solver


@pytest.mark.independent
def test_a_cluster_and_its_device_give_the_same_step() -> None:
    plan = Plan(tp=8, dp=32)
    cluster = training.training_step("Llama-3.1-8B", plan, H100, global_batch=64, seq=8192, efficiencies="bound")
    device = training.training_step(
        "Llama-3.1-8B", plan, "H100", global_batch=64, seq=8192, inter_bandwidth=50e9, efficiencies="bound"
    )
    assert cluster.terms == device.terms
    with pytest.raises(InputError, match="256"):
        training.training_step(
            "Llama-3.1-8B", replace(plan, dp=64), H100, global_batch=64, seq=8192, efficiencies="bound"
        )
    with pytest.raises(InputError, match="task"):
        training.training_step(
            "Llama-3.1-8B", plan, H100, global_batch=64, seq=8192, task="dream", efficiencies="bound"
        )


@pytest.mark.independent
def test_a_step_explains_itself() -> None:
    r = training.training_step(
        "Mixtral-8x7B",
        Plan(tp=2, cp=2, pp=2, dp=8, ep=4, sharding="fsdp", recompute="full"),
        catalog.cluster("DGX-H100", 8),
        global_batch=64,
        seq=8192,
        efficiencies=REAL,
    )
    e = r.explain()
    labels = {t.label for t in e.terms}
    assert labels >= {
        "eq-compute-time",
        "eq-attention-flops",
        "eq-elementwise-time",
        "eq-tp-message",
        "eq-ring-allreduce",
        "eq-cp-exchange",
        "eq-moe-dispatch",
        "eq-ring-all-gather",
        "eq-exposed-time",
        "eq-pp-transfer",
        "eq-stage-time",
        "eq-pipeline-bubble-ratio",
        "eq-optimizer-time",
        "eq-pipelined-step",
        "eq-straggler",
        "eq-mfu",
        "eq-hfu",
    }
    by_name = {t.name: t for t in e.terms}
    assert by_name["slowest device"].value == pytest.approx(r.time)
    assert by_name["HFU"].value == r.hfu > r.mfu == by_name["MFU"].value
    assert [t.name for t in e.terms if t.binding] and r.binding in ("gemm", "expert_parallel")
    text = str(e)
    numbers = " ".join(t.substituted() for t in e.terms)
    assert "flops_per_mac" not in numbers and "latency" not in numbers  # defaults stand there as numbers, too
    assert "InfiniBand" in text and "given by the caller" in text and "matmul-causal" in text
    assert r.reason in text
    assert "step" in str(r.shares())


@pytest.mark.independent
def test_a_term_that_binds_is_marked() -> None:
    slow = training.training_step(
        "Llama-3.1-8B", Plan(dp=16), "H100", global_batch=16, seq=512, inter_bandwidth=1e8, efficiencies="bound"
    )
    assert slow.binding == "data_parallel"
    assert [t.name for t in slow.explain().terms if t.binding] == ["exposed DP"]


@pytest.mark.independent
def test_whether_a_plan_fits_is_the_memory_chapters_answer() -> None:
    alone = training.training_step("Llama-3.1-70B", Plan(), "H100", global_batch=1, seq=8192, efficiencies="bound")
    assert not alone.fits and "does not fit" in alone.reason
    plan = Plan(tp=8, pp=4, dp=8, virtual_stages=2)
    split = training.training_step("Llama-3.1-70B", plan, H100, global_batch=64, seq=8192, efficiencies="bound")
    assert split.fits and split.memory.total < alone.memory.total / 16
    assert (
        split.memory.total == training.training_memory("Llama-3.1-70B", plan, "H100", seq=8192, global_batch=64).total
    )
    shared = Plan(dp=64, sharding="hsdp", hsdp_group=16)
    given = training.training_memory("Llama-3.1-8B", shared, "H100", seq=8192).given
    assert given["replicas"] == 4
    frozen = training.training_memory("Llama-3.1-8B", Plan(), "H100", seq=8192, task="lora")
    assert frozen.gradients == frozen.optimizer == 0 and frozen.weights == pytest.approx(2 * 8.03e9, rel=0.01)
    few, many = (training.training_memory("Llama-3.1-8B", Plan(pp=4), "H100", seq=8192, global_batch=b) for b in (1, 8))
    assert few.activations < many.activations
    with pytest.raises(InputError, match="task"):
        training.training_memory("Llama-3.1-8B", Plan(), "H100", seq=8192, task="dream")


@pytest.mark.independent
def test_frozen_weights_have_no_gradients() -> None:
    plan = Plan(dp=8)
    tune, lora = (
        training.training_step("Llama-3.1-8B", plan, "H100", global_batch=32, seq=4096, task=task, efficiencies="bound")
        for task in ("sft", "lora")
    )
    assert lora.terms.gemm == pytest.approx(tune.terms.gemm * 2 / 3)
    assert lora.terms.attention == tune.terms.attention
    assert lora.terms.data_parallel == lora.terms.optimizer == 0
    assert 0 < lora.mfu < 1 and lora.model_flops < tune.model_flops


@pytest.mark.independent
def test_the_slowest_device_is_waited_for() -> None:
    plan = Plan(tp=8, dp=32)
    calm, wild = (
        training.training_step("Llama-3.1-8B", plan, H100, global_batch=64, seq=8192, variation=v, efficiencies="bound")
        for v in (None, 0.02)
    )
    assert wild.time == pytest.approx(calm.time * (1 + 0.02 * math.sqrt(2 * math.log(256))))
    assert wild.terms.straggler > 0 == calm.terms.straggler


@pytest.mark.independent
def test_a_device_without_a_link_trains_alone() -> None:
    r = training.training_step("Llama-3.2-1B", Plan(), "L40S", global_batch=4, seq=2048, efficiencies="bound")
    assert 0 < r.mfu <= 1
    with pytest.raises(InputError, match="inter_bandwidth"):
        training.training_step(
            "Llama-3.2-1B", Plan(dp=2), "DGX-Spark-GB10", global_batch=4, seq=2048, efficiencies="bound"
        )


@pytest.mark.independent
def test_random_plans_never_beat_the_peak_nor_a_better_network() -> None:
    draw = np.random.default_rng(11)
    size = {"tp": (1, 2, 4, 8), "pp": (1, 2, 4, 8), "cp": (1, 2, 4), "dp": (8, 16, 64), "micro_batch": (1, 2)}
    degrees = {name: draw.choice(np.array(c), 2000) for name, c in size.items()}
    for sharding in ("none", "zero1", "fsdp"):
        for recompute in ("none", "selective", "full"):
            plan = Plan(**degrees, sharding=sharding, recompute=recompute)
            slow, fast = (
                training.training_step(
                    "Llama-3.1-70B", plan, "H100", global_batch=4096, seq=8192, inter_bandwidth=b, efficiencies=REAL
                )
                for b in (50e9, 100e9)
            )
            assert bool((slow.hfu <= 1).all()) and bool((slow.mfu <= slow.hfu + 1e-15).all())
            assert bool((fast.time <= slow.time).all())
            assert slow.fits.shape == (2000,)


# Arrays


def random_plans(n: int) -> dict[str, Any]:
    r = np.random.default_rng(3)
    choices = {
        "micro_batch": (1, 2, 4),
        "tp": (1, 2, 4, 8),
        "pp": (1, 2, 4, 8),
        "cp": (1, 2, 4),
        "dp": (8, 16, 64),
        "ep": (1, 4, 8),
        "virtual_stages": (1, 2),
        "sequence_parallel": (0, 1),
        "recompute_full": (0, 1),
        "weight_shards": (1, 8),
        "weight_gradients": (0, 1),
    }
    return {name: r.choice(np.array(c, float), n) for name, c in choices.items()}


@pytest.mark.slow
@pytest.mark.independent
def test_arrays_equal_the_scalar_path() -> None:
    plans = random_plans(1000)
    many = step(Layout(4096, 4096, attended=2048, **plans))
    for i in range(1000):
        each: dict[str, Any] = {name: float(v[i]) for name, v in plans.items()}
        one = step(Layout(4096, 4096, attended=2048, **each))
        for f in fields(one):
            both = np.broadcast_to(getattr(many, f.name), 1000)[i], getattr(one, f.name)
            assert both[0] == pytest.approx(both[1], rel=1e-12, abs=1e-15), f.name


@pytest.mark.independent
def test_blocks_change_nothing() -> None:
    plans = random_plans(20_000)
    whole, tail = (step(Layout(4096, 4096, attended=2048, **{k: v[i:] for k, v in plans.items()})) for i in (0, 19_000))
    assert np.array_equal(whole.time[19_000:], tail.time)


@pytest.mark.independent
def test_a_hundred_thousand_plans_take_one_call() -> None:
    """At 10^6 plans/s it would be 0.1 s; a busy machine may need longer. `make bench` measures it."""
    start = time.process_time()
    assert step(Layout(4096, 4096, attended=2048, **random_plans(100_000))).time.shape == (100_000,)
    assert time.process_time() - start < 1.0


# Against the shipped rows


@pytest.mark.nightly  # by day the sheet of both rounds is fitted anew, and beats its baselines
@pytest.mark.slow
def test_leave_one_group_out_beats_the_baselines(capsys: pytest.CaptureFixture[str], shared: Path) -> None:
    file = shipped_rows.cases("training_step", set="first")
    ours = left_out(shared, "training_step", "first").sources.summary
    plain = scoring.score(file, "datasheet").summary
    others = baselines.score_baselines(file)
    with capsys.disabled():
        print(
            f"\ntraining_step, mean over groups, leave one group out: {ours.mape_mean_over_groups:.1%} calibrated; "
            f"{plain.mape_mean_over_groups:.1%} datasheet (bias {plain.bias_mean_over_groups:+.1%}); "
            + ", ".join(f"{name} {s.mape_mean_over_groups:.1%}" for name, s in others.items())
        )
    assert ours.supported == ours.n
    assert ours.mape_mean_over_groups <= 0.105
    assert all(ours.mape_mean_over_groups < s.mape_mean_over_groups - 0.04 for s in others.values())


@pytest.mark.independent
def test_the_constants_are_few_and_physical() -> None:
    constants = {(c, n): v for c, names in shipped_constants("training_step").items() for n, v in names.items()}
    assert 0 < len(constants) <= 20
    for (group, name), value in constants.items():
        if name not in ("elementwise", "contention"):
            assert 0 <= value <= 1, f"{group}.{name} leaves physics"


# Recipes, contention, experts' launches, and whose constants a device takes


@pytest.mark.independent
def test_casts_follow_what_products_read_and_write() -> None:
    """By hand: forward the inputs, backward the gradients of the outputs, each 2 + 2 x 1 bytes in FP8."""
    work = replace(BARE, inputs=7_000.0, outputs=9_000.0)
    layout = Layout(8, 1000)
    bare = step(layout, work, eff=BOUND)
    fp8 = step(layout, work, eff=replace(BOUND, name="own", cast_bytes=4.0))
    assert fp8.gemm - bare.gemm == pytest.approx(10 * 8 * 1000 * 4 * (7_000 + 9_000) / MACHINE.memory_bandwidth)
    again = step(replace(layout, recompute_full=1.0), work, eff=replace(BOUND, name="own", cast_bytes=4.0))
    without = step(replace(layout, recompute_full=1.0), work, eff=BOUND)
    assert again.gemm - without.gemm == pytest.approx(
        10 * 8 * 1000 * 4 * (2 * 7_000 + 9_000) / MACHINE.memory_bandwidth
    )
    assert (
        training.cast_bytes("mxfp8") == 4.0
        and training.cast_bytes("nvfp4") == 3.0
        and training.cast_bytes("fp16") == 0.0
    )


@pytest.mark.independent
def test_what_products_write_waits_for_memory() -> None:
    work, layout = replace(BARE, inputs=7_000.0, outputs=9_000.0), Layout(8, 1000)
    more = step(layout, work, eff=replace(BOUND, name="own", written=1.0)).gemm - step(layout, work, eff=BOUND).gemm
    assert more == pytest.approx(3 * 10 * 8 * 1000 * 2 * 9_000 / MACHINE.memory_bandwidth)


@pytest.mark.independent
def test_experts_launch_one_by_one_and_few_tokens_leave_tiles_half_empty() -> None:
    work = replace(WORK, experts=64.0)
    layout = replace(LAYOUT, recompute_full=0.0, pp=1)
    none = step(layout, work, eff=replace(REAL, layer_overhead=0.0)).overhead
    launched = step(layout, work, eff=replace(REAL, layer_overhead=0.0, expert_overhead=1e-4)).overhead
    micro_batches = 256 / 8
    assert none == 0 and launched == pytest.approx(32 * micro_batches * 1e-4 * 64 / 4)  # 16 experts on a device
    full, tiled = (step(layout, work, eff=replace(REAL, tile=t)).gemm for t in (0.0, 128.0))
    rows = 4096 / 2 * 4 * 2 / 64  # tokens of the four ranks that share the experts, two experts each
    forward = 32 * micro_batches * 3 * 2 * 1e7 * (4096 / 2) / 4 / (0.7 * 1e15)
    assert tiled - full == pytest.approx(forward * (64 / rows), rel=1e-9)


@pytest.mark.independent
@pytest.mark.parametrize(("adapter", "share"), [(5e10, 63 / 64), (4e10, 1.0)])
def test_hidden_gatherings_slow_the_arithmetic_and_no_more_than_their_bytes_take(adapter: float, share: float) -> None:
    """Eight adapters as quick as the fast link carry all but a rank's own share; slower ones keep memory no busier."""
    layout = replace(LAYOUT, tp=1, pp=1, cp=1, ep=1, dp=64, weight_shards=64, micro_batch=8, recompute_full=0.0)
    work = replace(WORK, active_expert_params=0, expert_params=0, top_k=0)
    machine = replace(MACHINE, inter_bandwidth=adapter)
    free, not_free = (step(layout, work, machine, replace(REAL, contention=k)).weight_gather for k in (0.0, 0.5))
    moved = 3 * 2 * 2e8 / (0.8 * 4e11)  # two gatherings and one scattering of 16-bit numbers on the fast link
    assert free == 0
    assert not_free == pytest.approx(32 * 0.5 * moved * share)  # 32 layers, one micro-batch


@pytest.mark.independent
def test_the_last_stage_has_the_head_and_a_layer_less_where_layers_do_not_divide() -> None:
    even = step(replace(LAYOUT, pp=4))
    work = replace(WORK, layers=31)  # 8 + 8 + 8 + 7
    uneven = step(replace(LAYOUT, pp=4), work)
    layer = (even.gemm + even.attention + even.elementwise + even.overhead) / (8 * 32)
    assert even.head > 0
    assert uneven.head == 0 if even.head / 32 < layer else uneven.head < even.head
    assert uneven.gemm == even.gemm  # the fullest stage is as full


@pytest.mark.independent
def test_memory_demands_a_share_of_recomputation() -> None:
    assert training.recomputed_share(10.0, 10.0, 1.0) == 0
    assert training.recomputed_share(10.0, -5.0, 1.0) == 1
    assert training.recomputed_share(11.0, 6.0, 1.0) == pytest.approx(0.5)
    share = training.recomputed_share(11.0, 6.0, 1.0)
    assert 11.0 * (1 - share) + 1.0 * share == pytest.approx(6.0)  # what is then kept fills the room


@pytest.mark.independent
@pytest.mark.parametrize(
    ("device", "whose"),
    [("MI300X", ""), ("V100-32GB", "NVIDIA"), ("H20", "Hopper"), ("TPU-v3", "TPU"), ("Trainium2", "accelerator")],
)
def test_a_device_without_rows_takes_its_relatives_constants_and_says_so(device: str, whose: str) -> None:
    e = training.efficiencies_of(device, "fp16")
    assert e.name == "calibrated" and 0.2 < e.gemm < 0.95
    assert ("no row ran on" in e.source) == bool(whose)


@pytest.mark.independent
def test_links_carry_what_libraries_plan_with_and_adapters_all_that_is_printed() -> None:
    """NCCL plans with 240 of an A100's 300 GB/s and 370 of an H100's 450 (nccl2026tuning); a TPU's library is not known."""
    for device, planned in (("A100-SXM4-80GB", 240 / 300), ("H100", 370 / 450)):
        e = training.efficiencies_of(device)
        assert e.link == pytest.approx(planned, rel=0.01) and e.network == 1.0
    unknown = training.efficiencies_of("TPU-v5e").link
    assert 0.7 < unknown < 0.85 and training.efficiencies_of("GB300").link == training.efficiencies_of("GB200").link


@pytest.mark.independent
def test_a_network_may_have_a_share_of_its_own() -> None:
    """Gradients of two nodes with one rank each of the group travel at the network's share; 0 means that of the links."""
    layout = replace(LAYOUT, tp=8, pp=1, cp=1, ep=1, dp=16, recompute_full=0.0)
    work = replace(WORK, active_expert_params=0, expert_params=0, top_k=0)
    alike, same, full = (
        step(layout, work, eff=replace(REAL, dp_overlap=0.0, network=n)).data_parallel for n in (0.0, 0.8, 1.0)
    )
    assert alike == same and full == pytest.approx(0.8 * alike)


@pytest.mark.independent
def test_messages_inside_a_layer_pay_for_the_steps_of_their_ring() -> None:
    """By hand: four all-reduces of 2 x 7 steps inside a node; over two nodes one step in fifteen crosses the network."""
    layout = replace(LAYOUT, tp=8, pp=1, cp=1, ep=1, dp=16, recompute_full=0.0)
    work = replace(WORK, active_expert_params=0, expert_params=0, top_k=0)
    eff = replace(REAL, tp_overlap=0.0)
    slow = replace(eff, ring_node_step=3e-6, ring_network_step=14e-6)
    runs = 32 * 256 / 16  # layers and micro-batches
    inside = step(layout, work, eff=slow).tensor_parallel - step(layout, work, eff=eff).tensor_parallel
    assert inside == pytest.approx(runs * 4 * 2 * 7 * 3e-6)
    wide = replace(layout, tp=16, dp=8)
    across = step(wide, work, eff=slow).tensor_parallel - step(wide, work, eff=eff).tensor_parallel
    assert across == pytest.approx(2 * runs * 4 * 2 * (14 * 3e-6 + 14e-6))


@pytest.mark.independent
def test_products_and_attention_run_as_their_kernels_alone_and_a_step_keeps_one_part_of_both() -> None:
    """No constant of training's own beside what a step keeps: by hand from kernels.toml, shah2024flashattention3's abstract, and
    the 0.63 of 0.73 of dao2023flashattention2."""
    kept = efficiencies.shipped("training_step")["software"]["in_step"]
    table = tomllib.loads((ROOT / "mlsysim/efficiencies/kernels.toml").read_text(encoding="utf-8"))
    own = {name: table[name]["attention"]["value"] for name in ("any", "Hopper")}
    for name, generation in (("H100", "Hopper"), ("A100-SXM4-80GB", "Ampere")):
        eff = training.efficiencies_of(name)
        assert eff.gemm == eff.head == pytest.approx(kept * table[generation]["products_16"]["value"])
        assert eff.exponential == pytest.approx(
            table.get(generation, {}).get("exponential", {"value": 0.0})["value"] / kept
        )
        assert eff.attention_backward == pytest.approx(0.63 / 0.73)
        assert eff.layer_overhead == pytest.approx(36 * table["Hopper"]["start"]["value"])
    h100, a100, tpu = (training.efficiencies_of(d) for d in ("H100", "A100-SXM4-80GB", "TPU-v5p"))
    assert training.efficiencies_of("H100", "fp8").gemm == pytest.approx(kept * table["Hopper"]["products_8"]["value"])
    four = training.efficiencies_of("GB200", "nvfp4").gemm / clock_of(catalog.device("GB200"))
    assert four == pytest.approx(kept * table["Blackwell"]["products_4"]["value"])
    assert a100.attention == a100.attention_sharded == pytest.approx(kept * own["any"])
    older = evidence.measurement("flashattention2-h100-forward").value
    assert h100.attention_sharded == pytest.approx(kept * older)
    assert h100.attention == pytest.approx(kept * (older * own["Hopper"]) ** 0.5)
    assert tpu.attention == pytest.approx(own["any"]) and (tpu.array, h100.array) == (1.0, 1.0)


@pytest.mark.published
@pytest.mark.parametrize(
    ("seq", "cp", "dp", "measured"), [(32_768, 1, 8, 14.67), (131_072, 8, 1, 138.2), (262_144, 8, 1, 485.4)]
)
def test_long_sequences_on_a100_come_right(seq: int, cp: int, dp: int, measured: float) -> None:
    """Llama-2-7B on eight A100s, full recomputation: xtuner's benchmark page, rows of the third set. With a share of training's own
    attention was up to 76 % too slow."""
    row = {
        "device": "A100-SXM4-80GB",
        "n_devices": 8.0,
        "devices_per_node": 8.0,
        "tp": 1.0,
        "pp": 1.0,
        "cp": float(cp),
        "dp": float(dp),
    }
    row |= {
        "layers": 32.0,
        "hidden": 4096.0,
        "ffn": 11008.0,
        "heads": 32.0,
        "kv_heads": 32.0,
        "head_dim": 128.0,
        "vocab": 32000.0,
    }
    row |= {
        "params": 6738415616.0,
        "active_params": 6738415616.0,
        "gated_mlp": True,
        "tied_embeddings": False,
        "attn_type": "mha",
    }
    row |= {
        "sharding": "fsdp",
        "micro_batch": 1.0,
        "global_batch": 8.0,
        "seq": float(seq),
        "recompute": "full",
        "task": "sft",
    }
    predicted = (
        PREDICTORS["training_step"]
        .predict(row | {"precision": "fp16"}, efficiencies.shipped("training_step"))
        .predicted
    )
    assert predicted == pytest.approx(measured, rel=0.17)  # its ranks swap tokens for heads, which no column says


@pytest.mark.independent
def test_a_head_narrower_than_the_matrix_unit_leaves_part_of_it_idle() -> None:
    """Trillium multiplies 256 x 256 (google2026tpuv6e): heads of 128 take as long as heads of 256, and backward with them."""
    eff, plain = replace(REAL, array=256.0, attention_backward=0.8), replace(REAL, attention_backward=0.8)
    times = [
        step(LAYOUT, replace(WORK, qk_dim=d, v_dim=d), eff=e).attention
        for d, e in ((128, plain), (128, eff), (256, plain))
    ]
    assert times[1] == pytest.approx(2 * times[0]) and times[1] == pytest.approx(times[2])
    assert training.efficiencies_of("TPU-v6e").array == 256.0


@pytest.mark.independent
def test_backward_attention_pays_for_its_kernels() -> None:
    """By hand: forward, again, and five products beside two at four fifths of the rate."""
    layout = replace(LAYOUT, cp=1, dp=LAYOUT.dp * LAYOUT.cp, recompute_full=1.0)
    one, slow = (step(layout, WORK, eff=replace(REAL, attention_backward=b)).attention for b in (1.0, 0.8))
    assert slow / one == pytest.approx((2 + 2.5 / 0.8) / 4.5)


@pytest.mark.independent
@pytest.mark.parametrize("precision", ["nvfp4", "mxfp8", "fp8"])
def test_narrow_products_are_faster_than_16_bits_and_slower_than_their_ratio(precision: str) -> None:
    def time(p: str) -> Any:
        return training.training_step(
            "Llama-3.1-8B", Plan(dp=8, micro_batch=2), "GB300", global_batch=128, seq=8192, precision=p
        ).time

    ratio = 6.0 if precision == "nvfp4" else 2.0
    assert time("bf16") / ratio < time(precision) < time("bf16")


# DeepSeek-V3's published plan: words of its report, with nothing fitted to its time.
V3 = Plan(
    pp=16,
    dp=128,
    ep=64,
    schedule="dualpipe",
    recompute="selective",
    recompute_modules=("layernorm", "mla_up_proj", "moe_act"),
    node_limit=4,
    dispatch="fp8",
    optimizer="adamw-bf16",
)
V3_JOB: dict[str, Any] = {"global_batch": 15_360, "seq": 4096, "precision": "fp8-blockwise"}


@pytest.mark.published
def test_deepseek_v3_fits_its_cluster_and_comes_near_its_time() -> None:
    """deepseek2024v3report, table 1 and sec. 1: 180K H800 hours per trillion tokens, on 2,048 of them."""
    step = training.training_step("DeepSeek-V3", V3, "256 x H800-node", **V3_JOB)
    hours = step.devices * step.time / 3600 / step.tokens * 1e12
    assert step.fits and hours == pytest.approx(180e3, rel=0.15)
    names = [i.name for i in step.explain().inputs]
    assert len(names) == len(set(names))  # a rate and its share have names of their own


@pytest.mark.independent
def test_modules_for_multi_token_prediction_are_a_layer_a_projection_and_a_head_more() -> None:
    """On one stage everything adds up; the other jobs of a model that has modules train none."""

    def step(task: str = "pretrain", **words: Any) -> training.TrainingStep:
        plan = Plan(dp=64, ep=64, **words)
        return training.training_step(
            "DeepSeek-V3", plan, "8 x DGX-H100", global_batch=64, seq=4096, task=task, efficiencies="bound"
        )

    with_, without = step(), step(mtp=False)
    a, b, tokens, rate = with_.terms, without.terms, 4096, 989e12
    layer = sum(getattr(b, n) for n in ("gemm", "attention", "elementwise", "overhead", "expert_parallel")) / 61
    projection = 3 * 2 * 2 * 7168**2 * tokens / rate
    assert a.head == pytest.approx(2 * b.head + layer + projection, rel=1e-3)
    assert (a.gemm, a.attention) == (b.gemm, b.attention)
    assert a.optimizer / b.optimizer == pytest.approx(62 / 61, rel=2e-3)
    attention = 7168 * (1536 + 576) + 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168
    active = attention + 9 * 3 * 7168 * 2048 + 2 * 7168**2 + 129_280 * 7168
    again = (with_.model_flops - without.model_flops) / with_.tokens
    assert again == pytest.approx(6 * active + 3 * 2 * 2048.5 * 128 * (192 + 128), rel=2e-3)
    assert active == pytest.approx(2.4e9 - 0.9e9, rel=0.08)  # deepseek2025v3, README_WEIGHTS.md, less the embedding
    assert step("sft").terms == step("sft", mtp=False).terms and step("sft").model_flops == without.model_flops
    job: dict[str, Any] = {"seq": 4096, "global_batch": 64}
    held = [training.training_memory("DeepSeek-V3", Plan(dp=64, ep=64, mtp=m), "H200", **job) for m in (True, False)]
    routed, rest = 256 * 3 * 7168 * 2048, attention + 3 * 7168 * 2048 + 256 * 7168 + 2 * 7168**2
    assert held[0].weights - held[1].weights == pytest.approx(2 * (routed / 64 + rest), rel=1e-3)
    assert routed + rest == pytest.approx(11.5e9, rel=0.02)  # the same page's count
    assert held[0].output == pytest.approx(2 * held[1].output, rel=0.06)
    assert training.training_step("Llama-3.1-8B", Plan(dp=8), "DGX-H100", global_batch=8, seq=4096).layout.mtp == 0
    with pytest.raises(InputError, match="mtp = 2 must be True"):
        Plan(mtp=2)  # type: ignore[arg-type]


@pytest.mark.independent
def test_a_pipeline_makes_room_for_the_modules_behind_its_last_layer() -> None:
    """61 layers on 16 stages of 4 leave three: the end may have one layer, and a module, instead of four."""

    def parts(**words: Any) -> tuple[StepTerms, TrainingMemory]:
        plan = Plan(pp=16, dp=64, ep=64, **words)
        step = training.training_step(
            "DeepSeek-V3", plan, "128 x DGX-H100", global_batch=1024, seq=4096, efficiencies="bound"
        )
        return step.terms, step.memory

    (a, held), (b, other) = parts(), parts(mtp=False)
    layer = sum(getattr(b, n) for n in ("gemm", "attention", "elementwise", "overhead", "expert_parallel")) / 4
    head = 6 * 129_280 * 7168 * 4096 * 16 / 989e12
    projection = 6 * 2 * 7168**2 * 4096 * 16 / 989e12
    assert a.head == pytest.approx(max(0.0, 2 * head + layer + projection - 3 * layer), rel=1e-6)
    assert b.head == pytest.approx(max(0.0, head - layer), rel=1e-6)
    assert held.total >= other.total


@pytest.mark.independent
def test_attention_of_blackwell_ultra_waits_half_as_long_for_exponentials() -> None:
    """nvidia2026softmax, together2026fa4: 512 FLOP at the peak of Blackwell in the time of an exponential, half as many on Ultra.

    By hand for heads of 128, whose pair takes 512 FLOP: both clocks meet in a corner of the third power."""
    kept = efficiencies.shipped("training_step")["software"]["in_step"]
    share, times = efficiencies.kernel_shares(("Blackwell", "any")).values["attention"], []
    for name, forgone in (("GB300", 256), ("GB200", 512)):
        eff, device = training.efficiencies_of(name), catalog.device(name)
        lost = kept * clock_of(device)
        assert eff.exponential == pytest.approx(forgone / lost) and eff.attention == pytest.approx(share * lost)
        times.append(step(LAYOUT, WORK, eff=replace(eff, attention_sharded=0.0, joined=0.0)).attention * lost)
    ratio = ((share**-3 + 1) / (share**-3 + 0.5**3)) ** (1 / 3)
    assert times[1] / times[0] == pytest.approx(ratio)


@pytest.mark.independent
def test_no_product_is_faster_than_its_maker_s_best() -> None:
    """sander2025maf, table 1, over the datasheet's dense peaks; NVIDIA prints no such figure."""
    for name, bf16, fp8 in (("MI300X", 708e12, 1273e12), ("MI325X", 843e12, 1519e12)):
        eff, wide = (training.efficiencies_of(name, p) for p in ("fp8", "bf16"))
        peak = catalog.device(name).peak_flops
        assert eff.gemm * peak["fp8"] <= fp8 * (1 + 1e-9) and wide.gemm * peak["bf16"] <= bf16 * (1 + 1e-9)
        assert eff.head * peak["bf16"] <= bf16 * (1 + 1e-9)
    kept = efficiencies.shipped("training_step")["software"]["in_step"]
    assert training.efficiencies_of("MI300X", "fp8").gemm == pytest.approx(kept * 1273 / 2614.9, rel=1e-3)
    assert training.efficiencies_of("MI300X", "fp8", "datasheet").gemm == pytest.approx(1273 / 2614.9, rel=1e-3)


@pytest.mark.independent
def test_what_a_plan_adds_is_seen_in_its_term() -> None:
    def terms(**words: Any) -> StepTerms:
        options = {name: words.pop(name) for name in ("host_bandwidth",) if name in words}
        return training.training_step("DeepSeek-V3", replace(V3, **words), "256 x H800-node", **V3_JOB, **options).terms

    own = terms()
    eff = training.efficiencies_of("H800", "fp8-blockwise")
    plain = terms(schedule="1f1b")
    left, alone = 1 - eff.messengers, 17 / 120
    assert own.gemm == pytest.approx(plain.gemm * (alone + (1 - alone) / left))
    assert own.expert_parallel == pytest.approx(plain.expert_parallel * alone)  # the others hide
    assert own.pipeline_transfer == pytest.approx(plain.pipeline_transfer * alone)
    stage = (plain.time - plain.bubble - plain.straggler - plain.data_parallel - plain.optimizer) / 120
    dense = [
        training.training_step(
            "Llama-3.1-70B", Plan(tp=4, pp=8, dp=8, schedule=name), "32 x DGX-H100", global_batch=256, seq=8192
        ).terms
        for name in ("1f1b", "dualpipe")
    ]
    assert dense[0].gemm == pytest.approx(dense[1].gemm)  # no experts, no multiprocessors that send to them
    h1, v = terms(schedule="zb-h1"), terms(schedule="zb-v")
    assert 0 < v.bubble < h1.bubble < plain.bubble == pytest.approx(15 * stage)
    missed, near = (math.prod((n - n // k - i) / (n - i) for i in range(8)) for n, k in ((256, 8), (128, 4)))
    assert terms(schedule="1f1b", node_limit=None).expert_parallel / plain.expert_parallel == pytest.approx(
        8 * (1 - missed) / (4 * (1 - near))
    )
    bf16 = terms(schedule="1f1b", dispatch="bf16")  # two bytes out and two back, for one and a factor out and two back
    assert bf16.expert_parallel / plain.expert_parallel == pytest.approx((2 + 2) / (1 + 4 / 128 + 2))
    adamw, muon = terms(optimizer="adamw"), terms(optimizer="muon")
    assert own.optimizer == pytest.approx(adamw.optimizer * 22 / 30) and muon.optimizer > 5 * adamw.optimizer
    host = terms(offload="both", host_bandwidth=25e9)
    assert host.overhead > own.overhead and host.optimizer > own.optimizer
    assert terms(offload="both", host_bandwidth=1e15).overhead == pytest.approx(own.overhead)
    with pytest.raises(InputError, match="pass host_bandwidth"):
        terms(offload="optimizer")
    some, all_ = (
        terms(recompute="full", recompute_modules=(), recompute_layers=1),
        terms(recompute="full", recompute_modules=()),
    )
    none = terms(recompute="none", recompute_modules=())
    assert some.attention - none.attention == pytest.approx((all_.attention - none.attention) / 4)
    assert own.elementwise > none.elementwise and own.gemm > none.gemm and own.attention == none.attention


@pytest.mark.independent
def test_cut_in_half_dualpipe_waits_for_half_stages() -> None:
    """(P - 1) / 2 times what a pair leaves, for P / 2 - 1 times; 2 P + 1 of 2 m chunks without a partner; weights once."""

    def step(schedule: str, **words: Any) -> training.TrainingStep:
        plan = replace(V3, schedule=schedule, **words)
        return training.training_step("DeepSeek-V3", plan, "256 x H800-node", **V3_JOB)

    both, v = step("dualpipe"), step("dualpipe-v")
    assert v.terms.bubble / both.terms.bubble == pytest.approx(7.5 / 7, rel=1e-6)
    plain = step("1f1b").terms.expert_parallel
    assert v.terms.expert_parallel == pytest.approx(plain * 33 / 240)
    assert v.memory.total < both.memory.total
    with pytest.raises(InputError, match="needs at least 2 x pp = 32"):
        step("dualpipe-v", micro_batch=6)
    with pytest.raises(InputError, match="gives every device two chunks"):
        step("dualpipe-v", pp=32, dp=64)


@pytest.mark.independent
def test_a_cut_context_is_swapped_or_passed_round() -> None:
    eff = training.efficiencies_of("H100")

    def terms(joined: float = 0.0, **words: Any) -> StepTerms:
        plan, own = Plan(tp=2, cp=4, dp=2, **words), replace(eff, joined=joined)
        job: dict[str, Any] = {"global_batch": 16, "seq": 131_072, "efficiencies": own}
        return training.training_step("Llama-3.1-8B", plan, "2 x DGX-H100", **job).terms

    ring, row, swap = terms(), terms(cp_balance="contiguous"), terms(cp_comm_type="a2a")
    assert row.attention == pytest.approx(ring.attention * 7 / 4) and swap.attention == ring.attention
    # Of three blocks that came round, three quarters of a rank's queries have a part to add: 32 heads forward and again
    # backward, and the gradients of 2 x 8 heads of keys and values; each read, and the sum read and written, in 2 bytes.
    numbers = 3 * 0.75 * 131_072 / 4 * (2 * 32 + 2 * 8) * 128 / 2
    added = terms(eff.joined).attention - ring.attention
    assert added == pytest.approx(32 * 8 * numbers * 3 * 2 / (eff.memory * 3.35e12))
    assert terms(eff.joined, cp_comm_type="all_gather").attention == ring.attention  # it meets all keys at once
    assert terms(eff.joined, cp_comm_type="a2a").attention == ring.attention
    sent = 131_072 * (16 + 4) * 256 * 2 * 3 / 16  # of a layer, in one direction
    passed = sent / (eff.link * 450e9) + 2 * eff.cp_start
    assert swap.context_parallel == pytest.approx(32 * 8 * 2 * passed)


def test_recipes_of_narrow_products_are_words() -> None:
    times = {
        word: training.training_step(
            "Llama-3.1-8B", Plan(dp=8), "DGX-H100", global_batch=64, seq=8192, precision=word
        ).time
        for word in ("bf16", "fp8", "fp8-delayed", "fp8-tensorwise", "fp8-rowwise", "fp8-blockwise")
    }
    assert times["fp8"] == pytest.approx(times["fp8-delayed"], rel=1e-6)
    assert times["fp8"] < times["fp8-blockwise"] < times["fp8-tensorwise"] < times["bf16"]
