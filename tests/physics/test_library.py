"""A collective as a library runs it: by hand, against the links, at the sizes where it changes, and on machines without a plan."""

import math
from typing import Any

import pytest

from mlsysim import catalog, collectives, communication
from mlsysim.communication import CallCost, Wires, library_time, likely_network, wires
from mlsysim.errors import InputError, UnknownNameError

US = 1e-6
FREE = CallCost(0.0)  # the plan's steps and bytes alone
NODES = (
    "DGX-A100",
    "DGX-H100",
    "P4d",
    "P5",
    "P5en",
    "P6-B200",
    "GB200-NVL72",
    "DGX-Spark-node",
    "MI300X-platform",
    "P3dn",
    "Trn2",
    "Perlmutter-GPU",
)


def ranks_of(node: str) -> tuple[int, ...]:
    domain = catalog.node(node).domain
    return tuple(n for n in (2, domain, 2 * domain, 8 * domain) if n > 1)


def one(result: communication.LibraryTime, protocol: str) -> communication.Candidate:
    return next(c for c in result.candidates if c.protocol == protocol)


# The equations


@pytest.mark.independent
@pytest.mark.parametrize("stages", [2.0, 5.0, 64.0])
@pytest.mark.parametrize("size", [1e3, 1e6, 1e9])
def test_no_cut_of_a_buffer_is_better_than_the_best(size: float, stages: float) -> None:
    """The time of every number of chunks, counted: so many pass the first stage, and the last one then passes the others."""
    latency, bandwidth = 3 * US, 200e9
    found = collectives.chunked_transfer(size, bandwidth, stages, latency)

    def counted(chunks: float) -> float:
        return (chunks + stages - 1) * (latency + size / chunks / bandwidth)

    tried = [counted(2 ** (i / 8)) for i in range(-80, 240)]
    assert found <= min(tried) * (1 + 1e-9)
    assert found == pytest.approx(min(tried), rel=2e-3)


@pytest.mark.independent
def test_chunks_that_cost_nothing_or_have_one_stage_to_pass_take_what_their_bytes_take() -> None:
    assert collectives.chunked_transfer(1e9, 50e9, 9, 0.0) == pytest.approx(0.02)
    assert collectives.chunked_transfer(1e9, 50e9, 1, 1.0) == pytest.approx(0.02)
    assert collectives.chunked_transfer(0.0, 50e9, 4, 2 * US) == pytest.approx(6 * US), (
        "an empty chunk passes three more stages"
    )
    large = collectives.chunked_transfer(1e15, 50e9, 4, 2 * US)
    assert large == pytest.approx(1e15 / 50e9, rel=1e-3)


@pytest.mark.independent
def test_switches_joined_by_trees() -> None:
    call = collectives.in_switch_tree_all_reduce
    alone = call(1e9, 8, 1, 450e9, 50e9, 5 * US, 20 * US)
    assert alone == pytest.approx(5 * US + 9 / 8 * 1e9 / 450e9), "one node: no adapter is in it"
    two, three, many = (call(1e9, 8, n, 1e15, 50e9) for n in (2, 3, 64))
    assert two == pytest.approx(1e9 / 400e9), "half goes up one tree while half comes down the other"
    assert three == many == pytest.approx(2 * two)
    slow = call(1e9, 8, 2, 100e9, 50e9)
    assert slow == pytest.approx(9 / 8 * 1e9 / 100e9), "the switch sets the pace"
    assert call(0.0, 8, 5, 450e9, 50e9, 5 * US, 20 * US) == pytest.approx(5 * US + 2 * 3 * 20 * US)


@pytest.mark.independent
def test_two_nodes_use_an_adapter_one_way_at_a_time() -> None:
    assert collectives.tree_bandwidth(8, 2, 1e15, 25e9) == 400e9
    assert collectives.tree_bandwidth(8, 3, 1e15, 25e9) == 200e9
    assert collectives.tree_bandwidth(8, 2, 100e9, 25e9) == 100e9, "the chain inside the node still binds"
    assert collectives.tree_bandwidth(8, 1, 100e9, 1e15) == 100e9


@pytest.mark.independent
def test_the_slowest_piece_of_a_ring_crosses_every_boundary() -> None:
    """Follow a piece round a ring of nodes: it takes N - 1 of the N steps, and the worst leaves out a step inside a node."""
    for nodes, each in ((2, 8), (4, 8), (3, 2)):
        ranks = nodes * each
        steps = [20.0 if i % each == each - 1 else 1.0 for i in range(ranks)]  # leaving a node is dear
        worst = max(sum(steps) - left_out for left_out in steps)
        found = collectives.ring_latency(float(ranks), float(each), 1.0, 20.0, more_crossings=1.0)
        assert found * (ranks - 1) == pytest.approx(worst)
        best = sum(steps) - max(steps)
        assert collectives.ring_latency(float(ranks), float(each), 1.0, 20.0) * (ranks - 1) == pytest.approx(best)
    assert collectives.ring_latency(8.0, 8.0, 1.0, 20.0, more_crossings=1.0) == pytest.approx(1.0), (
        "one node has no boundary"
    )


# The library's choice


@pytest.mark.independent
@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("op", communication.OPS)
def test_one_rank_costs_nothing_more_bytes_are_never_faster_and_links_are_never_beaten(node: str, op: str) -> None:
    assert library_time(op, 1e9, wires(node, 1)).time == 0.0
    for ranks in ranks_of(node):
        links = wires(node, ranks)
        for word in ("calibrated", "datasheet", "bound"):
            sizes = [2.0 ** (i / 2) for i in range(72)]
            times = [library_time(op, size, links, cost=word).time for size in sizes]
            assert times == sorted(times), (ranks, word)
            for size, time in zip(sizes, times, strict=True):
                own = size / ranks if op in ("all_gather", "reduce_scatter") else size
                inside = own / links.node_bandwidth * (1 if op == "all_reduce" else 0.0)
                out = (
                    size / (links.ranks_per_node * links.network_bandwidth)
                    if op == "all_reduce" and links.nodes > 1
                    else 0
                )
                assert time >= max(inside, out) * (1 - 1e-9), "a rank sends what it has, a node what it has"
        plain = library_time(op, 1e8, links, cost="bound").time
        assert plain <= library_time(op, 1e8, links, cost="datasheet").time
        assert plain <= library_time(op, 1e8, links).time


@pytest.mark.independent
def test_the_sizes_at_which_the_library_changes_are_where_two_straight_lines_cross() -> None:
    """Ring and tree, whole chunks, four nodes over EFA: latencies and rates by hand."""
    links = wires("P6-B200", 32)
    ring_steps = 2 * (4 * 23 + (31 - 4) * 3.4) * US
    tree_steps = 2 * (2 * 23 + 7 * 28) * US
    ring_rate, tree_rate = 400e9 / (2 * 31 / 32), 0.92 * 400e9 / 2
    r = library_time("all_reduce", 0.0, links, cost=FREE)
    assert one(r, "efa-ring-simple").time == pytest.approx(ring_steps)
    assert one(r, "efa-tree-simple").time == pytest.approx(tree_steps)
    assert ring_steps < tree_steps and ring_rate > tree_rate, "four nodes: the ring is better at every size"
    links = wires("P6-B200", 64)  # eight nodes: the tree's few steps win for small buffers
    ring_steps = 2 * (8 * 23 + (63 - 8) * 3.4) * US
    tree_steps = 2 * (3 * 23 + 7 * 28) * US
    ring_rate = 400e9 / (2 * 63 / 64)
    crossing = (ring_steps - tree_steps) / (1 / tree_rate - 1 / ring_rate)
    by = {f: library_time("all_reduce", f * crossing, links, cost=FREE) for f in (0.99, 1.01)}
    gap = [one(r, "efa-ring-simple").time - one(r, "efa-tree-simple").time for r in by.values()]
    assert gap[0] > 0 > gap[1]
    assert by[0.99].protocol == "efa-tree-simple" and by[1.01].protocol == "efa-ring-simple"


@pytest.mark.published
def test_two_nodes_over_efa_cost_what_aws_s_model_says() -> None:
    """awsofinccl2026, nccl_ofi_model.cpp: 2 n steps over the network and the others inside, at 23 and 3.4 us; before P5 at NCCL's 14."""
    r = library_time("all_reduce", 8.0, wires("P4d", 16), cost=FREE)
    assert r.protocol == "efa-ring-simple"
    assert r.time == pytest.approx((4 * 14 + (30 - 4) * 3.4) * US, rel=1e-3)
    later = one(library_time("all_reduce", 8.0, wires("P5", 16), cost=FREE), "efa-ring-simple")
    assert later.time == pytest.approx((4 * 23 + (30 - 4) * 3.4) * US, rel=1e-3)
    assert not any(c.protocol in ("efa-ring-ll", "efa-tree-ll128") for c in r.candidates), (
        "sends keep no order of bytes there"
    )
    tree = library_time("all_reduce", 8.0, wires("P5", 16), cost=FREE)
    assert tree.protocol == "efa-tree-ll" and tree.time == pytest.approx(2 * (7 * 0.6 + 20) * US, rel=1e-3)
    large = library_time("all_reduce", 1e12, wires("P4d", 16), cost=FREE)
    assert large.protocol == "efa-tree-simple" and large.time == pytest.approx(1e12 / (0.92 * 50e9), rel=1e-3)
    switched = one(library_time("all_reduce", 0.0, wires("P5", 32), cost=FREE), "efa-nvls-tree")
    assert switched.time == pytest.approx(2 * 2 * (75 + 75 + 20.9) * US)


@pytest.mark.published
def test_the_plan_of_amds_library() -> None:
    """rccl2024tuning: 48 GB/s a link, seven links, 17 us and 2.1 us a step of whole chunks; low latency at 0.08 of the rate."""
    r = library_time("all_reduce", 1e9, wires("MI300X-platform", 8), cost="datasheet")
    assert [c.protocol for c in r.candidates] == ["rccl-ring-simple", "rccl-ring-ll"]
    assert r.time == pytest.approx(17 * US + 14 * 2.1 * US + 1.75 * 1e9 / 336e9)
    slow = one(r, "rccl-ring-ll")
    assert slow.time == pytest.approx(12 * US + 14 * 0.8 * US + 1.75 * 1e9 / (0.08 * 336e9))
    pair = library_time("all_reduce", 1e9, wires("MI300X-platform", 2), cost="datasheet")
    assert pair.time == pytest.approx(17 * US + 2 * 2.1 * US + 1e9 / 48e9), "two devices have one link of seven"


@pytest.mark.published
def test_eight_devices_of_amd_write_to_all_others_at_once() -> None:
    """rccl2024tuning, tools/msccl-algorithms: for eight ranks, in packets to 524,287 bytes, in chunks to 16 MiB; README: a process for each."""
    links = wires("MI300X-platform", 8)
    small, middle = (library_time("all_reduce", size, links, cost="datasheet") for size in (16e3, 8e6))
    assert small.protocol == "rccl-pairs-ll" and middle.protocol == "rccl-pairs-simple"
    assert small.time == pytest.approx((12 + 2 * 0.8) * US + 1.75 * 16e3 / (0.5 * 336e9))
    assert middle.time == pytest.approx((17 + 2 * 2.1) * US + 1.75 * 8e6 / 336e9)
    for size, ranks in ((16_777_217.0, 8), (16e3, 4), (16e3, 16)):
        names = {c.protocol for c in library_time("all_reduce", size, wires("MI300X-platform", ranks)).candidates}
        assert not names & {"rccl-pairs-ll", "rccl-pairs-simple"}
    assert "rccl-pairs-ll" not in {c.protocol for c in library_time("all_reduce", 524_288.0, links).candidates}
    assert library_time("all_gather", 16e3, links).protocol.startswith("rccl-ring")


@pytest.mark.independent
def test_what_a_call_of_nccl_costs_is_nobody_elses() -> None:
    """The published rows of small buffers are NCCL's: a library of another maker keeps the start of its own plan."""
    fitted = communication.call_cost()
    for op, protocol, start in (
        ("all_reduce", "rccl-pairs-ll", 12 * US),
        ("all_gather", "rccl-ring-ll", 12 * US),
        ("all_to_all", "rccl-sends-ll", 12 * US),
    ):
        assert one(library_time(op, 16e3, wires("MI300X-platform", 8)), protocol).start == pytest.approx(start)
    assert one(library_time("all_gather", 16e3, wires("DGX-H100", 8)), "nccl-ring-ll").start == fitted.start
    own = library_time("all_reduce", 16e3, wires("MI300X-platform", 8), cost=CallCost(5 * US))
    assert one(own, "rccl-pairs-ll").start == 5 * US, "a cost of your own is everybody's"


@pytest.mark.published
def test_one_device_in_each_node() -> None:
    """dgx-spark-playbooks, pull request 103: two GB10 over one cable take 35, 32 and 40 us for 8 to 32 kB. NCCL charges a tree's hop of 5 us."""
    links = wires("DGX-Spark-node", 2)
    ring = one(library_time("all_reduce", 16384.0, links, cost="datasheet"), "nccl-ring-ll")
    assert ring.time == pytest.approx((6.6 + 2 * 5.0) * US + 16384 / (0.5 * 25e9))
    for size, measured in ((8192.0, 35.15), (16384.0, 31.67), (32768.0, 39.56)):
        assert library_time("all_reduce", size, links).time == pytest.approx(measured * US, rel=0.25)
    for op in communication.OPS:
        assert library_time(op, 1e6, links).to_dict()["node_bandwidth_bytes_per_s"] is None
    assert communication.fastest_all_reduce(1e9, 2, "DGX-Spark-node").bandwidth == pytest.approx(25e9)


@pytest.mark.published
def test_a_rack_of_72_fills_more_than_a_node_of_eight() -> None:
    """coreweave/nccl-tests, pull request 43: 1.807 ms for 512 MiB and 20.3 ms for 8 GiB over the 72 devices of a GB200 NVL72."""
    rack = wires("GB200-NVL72", 72)
    for size, measured in ((2.0**29, 1.8067e-3), (2.0**33, 20.299e-3)):
        assert library_time("all_reduce", size, rack).time == pytest.approx(measured, rel=0.12)


@pytest.mark.independent
def test_a_fabric_that_adds_sends_half_of_what_trees_send() -> None:
    """Up to the fabric's switch and down again: once through each adapter, however many nodes; NCCL charges 18 us for it."""
    for nodes in (2, 4, 16):
        links = wires("DGX-H100", 8 * nodes)
        r = library_time("all_reduce", 1e12, links, "sharp", FREE)
        assert r.protocol == "nccl-nvls-sharp"
        assert r.time == pytest.approx(18 * US + max(1e12 / 400e9, 9 / 8 * 1e12 / (0.85 * 370.8e9)))
        assert "nccl-nvls-sharp" not in {c.protocol for c in library_time("all_reduce", 1e12, links).candidates}
    assert library_time("all_reduce", 1e9, wires("P5", 32), "sharp").protocol.startswith("efa-ring"), (
        "AWS's adds nothing"
    )
    assert library_time("all_reduce", 1e9, wires("DGX-H100", 8), "sharp").protocol == "nccl-nvls"


@pytest.mark.independent
@pytest.mark.parametrize("ranks", [2, 3, 5, 8, 12, 64])
def test_trees_side_by_side_bring_every_piece_once(ranks: int) -> None:
    """Played: the farthest first, each rank hands on what it has; pieces by how far they have come."""
    held, steps, sent, distance = {0}, 0, 0, 1 << (ranks - 1).bit_length() - 1
    while distance:
        new = {d + distance for d in held if d + distance < ranks}
        assert not new & held, "no piece comes twice"
        assert steps or len(new) == 1, "one piece goes far"
        held, steps, sent, distance = held | new, steps + 1, sent + len(new), distance // 2
    assert held == set(range(ranks))
    expected = steps * 4.0 + ranks * 0.5 + sent / ranks * 100.0
    assert collectives.logarithmic_gather(100.0, ranks, 1.0, 4.0, 0.5) == pytest.approx(expected)
    assert collectives.logarithmic_gather(100.0, 1, 1.0, 4.0, 0.5) == 0.0


@pytest.mark.published
def test_ranks_alone_in_their_nodes_gather_along_trees() -> None:
    """nccl2026tuning: 8 us, 14 / 3.5 a step, 2.8 a rank and three quarters of the link; only there, and for no all-reduce."""
    links = Wires(64, 1, 50e9, 50e9, None, catalog.link("InfiniBand-NDR"))
    r = library_time("all_gather", 1e6, links, "pat", FREE)
    assert r.protocol == "nccl-pat" and r.time == pytest.approx((6 * 4.0 + 64 * 2.8) * US + 63 / 64 * 1e6 / 37.5e9)
    assert library_time("reduce_scatter", 1e6, links).protocol == "nccl-pat"
    assert "pat" not in library_time("all_reduce", 1e6, links, "pat").protocol
    assert "pat" not in library_time("all_gather", 1e6, wires("DGX-H100", 512), "pat").protocol


@pytest.mark.published
def test_devices_in_slots_of_the_host() -> None:
    """nccl2026tuning: steps over PCIe, 24 GB/s of a slot of the fourth generation, and no 128-byte lines."""
    slot = Wires(4, 4, 31e9, scale_up=catalog.link("PCIe-4-x16"))
    r = library_time("all_reduce", 1e8, slot, cost="datasheet")
    assert {c.protocol for c in r.candidates} == {"nccl-ring-ll", "nccl-ring-simple"}
    assert r.time == pytest.approx((8.4 + 6 * 5.7) * US + 1.5 * 1e8 / 24e9)


@pytest.mark.independent
def test_what_a_call_costs_is_added_once_and_its_pipeline_fills() -> None:
    links = wires("DGX-H100", 8)
    plain, started = (library_time("all_reduce", 1e8, links, "ring", CallCost(s)) for s in (0.0, 30 * US))
    assert started.time - plain.time == pytest.approx(30 * US)
    filled = library_time("all_reduce", 1e8, links, "nvls", CallCost(0.0, 4 * US))
    bare = library_time("all_reduce", 1e8, links, "nvls", FREE).time
    assert filled.time == pytest.approx(bare + 2 * math.sqrt(bare * 7 * 4 * US)), "eight stages at a switch of eight"
    empty = library_time("all_reduce", 0.0, links, "nvls", CallCost(0.0, 4 * US))
    assert empty.time == 0.0, "what the first chunk waits is in the steps, of which a switch has none"
    ring = library_time("all_reduce", 1e8, links, "ring", CallCost(0.0, 4 * US)).candidates[0]
    moving = ring.bandwidth_time
    assert ring.time - ring.latency_time == pytest.approx(moving + 2 * math.sqrt(moving * 7 * 4 * US))
    tree = one(library_time("all_reduce", 1e8, wires("P4d", 32), cost=CallCost(0.0, 1 * US)), "efa-tree-simple")
    assert tree.stages == 1 + 2 * 7 + 2 * 2, "up a chain of eight, up two levels of trees, and down again"
    assert one(library_time("all_reduce", 1e8, wires("P5", 32)), "efa-nvls-tree").stages == 8 + 2 * 2
    assert filled.time == pytest.approx(sum(filled._parts.values()))
    word = communication.call_cost("calibrated")
    assert word.start is not None and 5 * US < word.start < 60 * US and 0 < word.chunk < 5 * US


@pytest.mark.independent
def test_links_without_a_plan_take_the_mean_of_those_that_have_one() -> None:
    own = Wires(8, 8, 100e9)
    calibrated = library_time("all_reduce", 1e12, own, "ring", CallCost(0.0, share=0.8))
    assert calibrated.time == pytest.approx(1.75 * 1e12 / 80e9, rel=1e-3)
    assert library_time("all_reduce", 1e12, own, "ring", FREE).time == pytest.approx(1.75 * 1e12 / 100e9, rel=1e-3)
    share = communication.call_cost("calibrated").share
    assert share is not None and 0.75 < share < 0.83


@pytest.mark.independent
def test_everybody_to_everybody_over_adapters() -> None:
    """Of 16 ranks on two nodes half of the bytes leave the node; of a rank's own nothing is sent, unless copies of tokens lie there."""
    links = Wires(16, 8, 450e9, 50e9)
    spread = library_time("all_to_all", 16e6, links, cost=FREE)
    assert spread._parts["bytes"] == pytest.approx(8e6 / 50e9)
    inside = library_time("all_to_all", 16e6, Wires(8, 8, 450e9), cost=FREE)
    assert inside._parts["bytes"] == pytest.approx(14e6 / 450e9)
    dispatched = library_time("moe_dispatch", 16e6, Wires(8, 8, 450e9), cost=FREE)
    assert dispatched.time == pytest.approx(0.6 * US + 16e6 / 450e9), "a write of one device to another"
    combined = library_time("moe_combine", 16e6, links, cost=CallCost(9 * US))
    assert combined.time == pytest.approx((9 + 2.7) * US + 8e6 / 50e9), "all peers at once: one latency of the network"


@pytest.mark.independent
@pytest.mark.parametrize("nodes", [2, 9, 16, 17, 33, 128])
def test_grouped_sends_are_played_channel_by_channel(nodes: int) -> None:
    """Sixteen channels take peers in turn, eight at a time, and start the next eight when the last have ended."""
    ranks, waiting, ended = 8 * nodes, [0.0] * 16, 0.0
    queues = [list(range(channel, ranks - 1, 16)) for channel in range(16)]
    while any(queues):
        for channel, queue in enumerate(queues):
            if queue:
                del queue[:8]
                waiting[channel] += 14 * US
        ended = max(waiting)
    orders = sum(3 * US for node in range(nodes) if node != 0)
    links = Wires(ranks, 8, 450e9, 50e9, network=catalog.link("InfiniBand-NDR"))
    r = library_time("all_to_all", 1e9, links, cost=FREE)
    assert r.protocol == "nccl-sends-simple"
    assert r._parts["steps"] == pytest.approx(ended + orders)
    assert r.time == pytest.approx(ended + orders + 1e9 * (1 - 1 / nodes) / 50e9)


@pytest.mark.independent
def test_more_ranks_and_more_bytes_never_make_everybody_to_everybody_faster() -> None:
    for size in (0.0, 1e3, 1e6, 1e9):
        times = [
            library_time("all_to_all", size, wires("DGX-H100", n)).time for n in (2, 4, 8, 16, 64, 256, 1024, 4096)
        ]
        assert times == sorted(times)
    small = [library_time("all_to_all", 1e3, wires("DGX-H100", n)).time for n in (8, 1024)]
    assert small[1] > 5 * small[0], "1,024 devices took as long as eight"
    sizes = [10 ** (e / 20) for e in range(200)]  # through the size from which packets are no longer taken
    over = [library_time("all_to_all", size, wires("DGX-H100", 1024)).time for size in sizes]
    assert over == sorted(over)


@pytest.mark.published
def test_an_all_to_all_of_64_devices_as_nccl_tests_timed_it() -> None:
    """nccl2024alltoall, first row: 8 MiB a rank over eight nodes of eight H800, 337.8 us out of place and 295.6 in place."""
    links = Wires(64, 8, 200e9, 50e9, catalog.link("NVLink-4"), catalog.link("InfiniBand-NDR"))
    r = library_time("all_to_all", 8_388_608, links)
    assert r._parts["steps"] == pytest.approx((14 + 7 * 3) * US), "63 peers at once, and an order for each other node"
    assert r.time == pytest.approx(316.7 * US, rel=0.26)
    assert "eq-all-to-all" in {t.label for t in r.explain().terms}


@pytest.mark.published
def test_a_dispatch_waits_no_longer_for_more_devices() -> None:
    """deepep2025, docs/legacy.md, low-latency kernels: 192 us of 128 devices and 194 us of 256, where only bytes grow."""
    times = [library_time("moe_dispatch", 7_569_408, Wires(n, 8, 200e9, 50e9)).time for n in (128, 256)]
    assert times[1] / times[0] == pytest.approx(194 / 192, abs=0.03)


# Networks of no name


@pytest.mark.independent
@pytest.mark.parametrize(
    ("architecture", "bandwidth", "unnamed", "name"),
    [
        ("Ampere", 6.25e9, "", "EFA-v1"),  # P4d alone
        ("Hopper", 50e9, "EFA", "EFA-v2"),  # P5 or a DGX
        ("Blackwell", 50e9, "EFA", "EFA-v4"),
        ("CDNA 3", 50e9, "EFA", "InfiniBand-NDR"),
        ("Hopper", 12e9, "EFA", "EFA-v2"),  # no node fits: the fabric of the generation's own
        ("Unheard of", 12e9, "EFA", "EFA-v1"),
    ],
)
def test_the_bandwidth_may_tell_which_network(architecture: str, bandwidth: float, unnamed: str, name: str) -> None:
    found = likely_network(architecture, bandwidth, unnamed)
    assert found is not None and found.name == name


@pytest.mark.independent
def test_without_a_fabric_to_fall_back_on_an_unclear_network_has_no_name() -> None:
    assert likely_network("Hopper", 50e9) is None
    assert likely_network("Unheard of", 12e9) is None
    assert likely_network("Ampere", 25e9, "EFA") is None, "InfiniBand or Slingshot, but no adapter of AWS's"
    assert likely_network("Ampere", 50e9, "EFA") is None, (
        "no node fits: those with 25 GB/s decide, not AWS's with a quarter"
    )
    assert likely_network("Hopper", 50e9, "EFA", "H20") is None, "AWS rents none"
    assert likely_network("Hopper", 50e9, "EFA", "H100-SXM5-80GB") == catalog.link("EFA-v2")
    assert likely_network("Volta", 1.5625e9, "", "V100-SXM2-32GB") == catalog.link("EFA-v1"), "the rate tells"
    plain = Wires(16, 8, 450e9, 50e9, catalog.link("NVLink-4"))
    named = Wires(16, 8, 450e9, 50e9, catalog.link("NVLink-4"), catalog.link("InfiniBand-NDR"))
    assert library_time("all_reduce", 1e6, plain).time == library_time("all_reduce", 1e6, named).time


# Asked wrongly, and shown


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"op": "broadcast"}, "operation 'broadcast'"),
        ({"algorithm": "rings"}, "did you mean 'ring'"),
        ({"bytes": -1.0}, "at least 0"),
        ({"bytes": float("nan")}, "finite"),
        ({"cost": "calibratd"}, "did you mean 'calibrated'"),
    ],
)
def test_a_wrong_question_says_what_is_wrong(change: dict[str, Any], says: str) -> None:
    asked: dict[str, Any] = {"op": "all_reduce", "bytes": 1e6, "wires": wires("P5", 16)} | change
    with pytest.raises((InputError, UnknownNameError), match=says):
        library_time(**asked)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((0, 1, 1e9), "ranks = 0"),
        ((8, 16, 1e9), "ranks_per_node = 16 exceeds ranks = 8"),
        ((16, 8, 1e9), "no network_bandwidth"),
        ((8, 8, 0.0), "node_bandwidth = 0"),
    ],
)
def test_links_that_cannot_be(given: tuple[float, float, float], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Wires(*given)
    with pytest.raises(InputError, match="multiple of 8"):
        wires("P5", 12)


def test_a_result_explains_itself() -> None:
    r = library_time("all_reduce", 1e6, wires("P5", 16))
    said = str(r.explain())
    assert "eq-pipelined-tree-allreduce" in said and "eq-chunked-transfer" in said and "EFA-v2" in said
    parts = r.to_dict()
    assert parts["time_s"] == pytest.approx(sum(v for k, v in parts.items() if k.endswith("_time_s")))
    assert parts["candidates"][0]["time_s"] == r.time
    assert "efa-tree" in r.summary()[0]
