"""Collectives: small machines that really pass chunks around, limits, published figures, and the solver on top."""

import csv
import itertools
import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import ROOT

from mlsysim import catalog, collectives, communication, evidence
from mlsysim.communication import ALGORITHMS, collective, fastest_all_reduce, library_all_reduce
from mlsysim.course.exercises import assignment
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.evidence import rows as shipped_rows
from mlsysim.evidence.measured.collectives import printed_range

GB = 1e9


# A machine that passes chunks around. It knows nothing of formulas: it moves numbers, counts bytes per rank and steps.


class Machine:
    """Ranks with a buffer of ``ranks`` chunks each; a step's time is one latency plus the busiest rank's bytes."""

    def __init__(self, ranks: int, chunk_bytes: float, bandwidth: float, latency: float) -> None:
        rng = random.Random(ranks)
        self.ranks, self.chunk_bytes, self.bandwidth, self.latency = ranks, chunk_bytes, bandwidth, latency
        self.data = [[float(rng.randrange(1000)) for _ in range(ranks)] for _ in range(ranks)]
        self.total = [sum(column) for column in zip(*self.data, strict=True)]
        self.time, self.steps = 0.0, 0
        self.sent: Counter[int] = Counter()

    def step(self, messages: list[tuple[int, int, list[int], bool]]) -> None:
        """Exchange (sender, receiver, chunks, add) messages at once: all read what was there before the step."""
        out, into = Counter[int](), Counter[int]()
        payloads = [(to, {c: self.data[frm][c] for c in chunks}, add) for frm, to, chunks, add in messages]
        for frm, to, chunks, _ in messages:
            out[frm] += len(chunks)
            into[to] += len(chunks)
        for to, payload, add in payloads:
            for c, value in payload.items():
                self.data[to][c] = self.data[to][c] + value if add else value
        for rank, chunks_sent in out.items():
            self.sent[rank] += chunks_sent
        busiest = max([*out.values(), *into.values()], default=0)
        self.time += self.latency + busiest * self.chunk_bytes / self.bandwidth
        self.steps += 1

    def is_reduced(self) -> bool:
        return all(row == self.total for row in self.data)


def ring_reduce_scatter(m: Machine) -> None:
    n = m.ranks
    for s in range(n - 1):
        m.step([(r, (r + 1) % n, [(r - s) % n], True) for r in range(n)])


def ring_all_gather(m: Machine) -> None:
    n = m.ranks
    for s in range(n - 1):
        m.step([(r, (r + 1) % n, [(r + 1 - s) % n], False) for r in range(n)])


def ring(m: Machine) -> None:
    ring_reduce_scatter(m)
    ring_all_gather(m)


def halving_doubling(m: Machine) -> None:
    n = m.ranks
    parts = {r: list(range(n)) for r in range(n)}
    masks = [1 << i for i in range(n.bit_length() - 1)]
    for mask in reversed(masks):
        messages = []
        for r in range(n):
            give = [c for c in parts[r] if (c & mask) != (r & mask)]
            messages.append((r, r ^ mask, give, True))
        m.step(messages)
        parts = {r: [c for c in parts[r] if (c & mask) == (r & mask)] for r in range(n)}
    for mask in masks:
        m.step([(r, r ^ mask, list(parts[r]), False) for r in range(n)])
        parts = {r: sorted(parts[r] + parts[r ^ mask]) for r in range(n)}


def tree(m: Machine) -> None:
    n, everything = m.ranks, list(range(m.ranks))
    masks = [1 << i for i in range(n.bit_length() - 1)]
    for mask in masks:
        m.step([(r, r - mask, everything, True) for r in range(n) if r & mask and r % mask == 0])
    for mask in reversed(masks):
        m.step([(r, r + mask, everything, False) for r in range(n) if r % (2 * mask) == 0])


def direct(m: Machine) -> None:
    pairs = [(r, o) for r in range(m.ranks) for o in range(m.ranks) if r != o]
    if pairs:
        m.step([(r, o, [o], True) for r, o in pairs])
        m.step([(r, o, [r], False) for r, o in pairs])


CASES: list[tuple[Callable[[Machine], None], Callable[..., Any], tuple[int, ...]]] = [
    (ring, collectives.ring_all_reduce, (1, 2, 3, 5, 8, 13)),
    (halving_doubling, collectives.halving_doubling_all_reduce, (1, 2, 4, 8, 16)),
    (tree, collectives.tree_all_reduce, (1, 2, 4, 8, 16)),
    (direct, collectives.direct_all_reduce, (1, 2, 3, 8)),
]


@pytest.mark.independent
@pytest.mark.parametrize(
    ("play", "equation", "n"), [pytest.param(p, e, n, id=f"{p.__name__}-{n}") for p, e, ns in CASES for n in ns]
)
def test_a_machine_that_passes_chunks_takes_as_long_as_the_equation_says(
    play: Callable[[Machine], None], equation: Callable[..., float], n: int
) -> None:
    size, bandwidth, latency = 1e6, 50 * GB, 3e-6
    m = Machine(n, size / n, bandwidth, latency)
    play(m)
    assert m.is_reduced(), "every rank holds the sum"
    assert m.time == pytest.approx(equation(size, n, bandwidth, latency), rel=1e-12)


@pytest.mark.independent
@pytest.mark.parametrize("n", [2, 3, 8])
def test_the_halves_of_the_ring_machine(n: int) -> None:
    m = Machine(n, 1e6 / n, 50 * GB, 3e-6)
    ring_reduce_scatter(m)
    assert [m.data[r][(r + 1) % n] for r in range(n)] == [m.total[(r + 1) % n] for r in range(n)]
    assert m.time == pytest.approx(collectives.ring_reduce_scatter(1e6, n, 50 * GB, 3e-6), rel=1e-12)
    halfway = m.time
    ring_all_gather(m)
    assert m.is_reduced()
    assert m.time - halfway == pytest.approx(collectives.ring_all_gather(1e6, n, 50 * GB, 3e-6), rel=1e-12)
    assert set(m.sent.values()) == {2 * (n - 1)}, "every rank sends the same, 2 (N - 1) chunks: no link idles"
    assert m.steps == 2 * (n - 1)


@pytest.mark.independent
def test_a_pipelined_tree_of_many_chunks_approaches_its_closed_form() -> None:
    """One chain of log2 N levels up and down, each level one step behind the one before; two trees share the links."""
    depth, size, bandwidth, latency = 3, 64e6, 50 * GB, 1e-6
    closed = collectives.pipelined_tree_all_reduce(size, 2**depth, bandwidth, latency)

    def filled(chunks: int) -> float:
        """The last chunk arrives after its turn and one trip up or down; the latency of a turn hides behind the next."""
        turn = size / chunks / bandwidth
        return 2 * (depth * (latency + turn) + (chunks - 1) * turn)

    times = [filled(k) for k in (1, 16, 256, 65536)]
    assert times == sorted(times, reverse=True)
    assert times[0] == pytest.approx(collectives.tree_all_reduce(size, 2**depth, bandwidth, latency), rel=1e-12)
    assert times[-1] == pytest.approx(closed, rel=1e-4)
    assert min(times) > closed


@pytest.mark.independent
@pytest.mark.parametrize("n", [2, 4, 8, 72])
def test_bytes_through_a_switch_that_reduces(n: int) -> None:
    """Count both directions of one rank's cable, per chunk of the buffer (N chunks, one owned by each rank)."""
    up, down = 0, 0
    for owner in range(n):  # seen from rank 0
        up += 1  # the switch reads this chunk from everybody, the owner included
        down += owner == 0  # and gives the sum to its owner,
        up += owner == 0  # who sends it back once
        down += 1  # for the switch to copy to all
    assert up == down == n + 1
    assert collectives.in_switch_all_reduce(8e9, n, 450 * GB) == pytest.approx(up * (8e9 / n) / (450 * GB), rel=1e-12)


@pytest.mark.independent
def test_an_all_to_all_machine() -> None:
    n, size, bandwidth, latency = 6, 6e6, 50 * GB, 2e-6
    inbox: dict[tuple[int, int], str] = {}
    time = 0.0
    for shift in range(1, n):  # everybody sends to the rank `shift` places on
        for r in range(n):
            inbox[((r + shift) % n, r)] = f"from {r} to {(r + shift) % n}"
        time += latency + size / n / bandwidth
    assert len(inbox) == n * (n - 1)
    assert all(text == f"from {frm} to {to}" for (to, frm), text in inbox.items())
    assert collectives.all_to_all(size, n, bandwidth, latency) == pytest.approx(time, rel=1e-12)


@pytest.mark.independent
@pytest.mark.parametrize(("g", "nodes"), [(2, 2), (4, 3), (8, 1), (1, 5), (1, 1)])
def test_a_hierarchical_machine(g: int, nodes: int) -> None:
    """Three phases on real numbers: rings inside nodes, rings between equal shards, rings inside nodes again."""
    size, inside, outside, li, lo = 8e6, 450 * GB, 50 * GB, 1e-6, 7e-6
    rng = random.Random(g)
    data = [[[float(rng.randrange(99)) for _ in range(g)] for _ in range(g)] for _ in range(nodes)]
    total = [sum(data[n][r][c] for n in range(nodes) for r in range(g)) for c in range(g)]
    time = 0.0
    shard = [[sum(data[n][r][c] for r in range(g)) for c in range(g)] for n in range(nodes)]  # rank c owns shard c
    time += (g - 1) * (li + size / g / inside)
    for _ in range(2 * (nodes - 1)):
        time += lo + size / g / nodes / outside
    result = [sum(shard[n][c] for n in range(nodes)) for c in range(g)]
    time += (g - 1) * (li + size / g / inside)
    assert result == total
    got = collectives.hierarchical_all_reduce(size, g, nodes, inside, outside, li, lo)
    assert got == pytest.approx(time, rel=1e-12)


# Limits and identities


@pytest.mark.independent
def test_the_ring_approaches_twice_the_buffer_over_the_bandwidth() -> None:
    assert collectives.ring_all_reduce(8e9, 10**9, 50 * GB) == pytest.approx(2 * 8e9 / (50 * GB), rel=1e-8)
    factors = [collectives.ring_all_reduce(1.0, n, 1.0) for n in (1, 2, 4, 8, 1024)]
    assert factors == [0, 1, 1.5, 1.75, 2 * 1023 / 1024]


@pytest.mark.independent
def test_the_switch_halves_the_ring_when_there_are_many_and_gains_nothing_for_three() -> None:
    def gain(n: int) -> float:
        return float(collectives.ring_all_reduce(1e9, n, GB) / collectives.in_switch_all_reduce(1e9, n, GB))

    assert gain(3) == pytest.approx(1.0)
    assert gain(2) < 1 < gain(4) < gain(8) < gain(10**6) < 2
    assert gain(10**6) == pytest.approx(2, rel=1e-5)


@pytest.mark.independent
@pytest.mark.parametrize(("op", "algorithm"), [(o, a) for o, names in ALGORITHMS.items() for a in names])
def test_one_rank_costs_nothing_and_nothing_is_faster_than_its_bytes(op: str, algorithm: str) -> None:
    assert collective(op, algorithm, 1e9, 1, 50 * GB, 1e-6).time == 0
    for n in (2, 4, 16, 64):
        slow = collective(op, algorithm, 1e9, n, 50 * GB, 1e-6)
        assert slow.time == pytest.approx(slow.latency_time + slow.bandwidth_time, rel=1e-12)
        least = 1e9 * (n - 1) / n / (50 * GB)  # each rank must at least send all it does not keep
        assert slow.time >= least
        assert collective(op, algorithm, 1e9, n, 51 * GB, 1e-6).time < slow.time, "more bandwidth is never slower"
        assert collective(op, algorithm, 1e9, n, 50 * GB, 2e-6).time > slow.time
        assert collective(op, algorithm, 2e9, n, 50 * GB, 1e-6).time > slow.time


@pytest.mark.independent
def test_no_algorithm_without_help_from_the_switch_beats_the_ring_s_bandwidth_term() -> None:
    for algorithm, n in itertools.product(ALGORITHMS["all_reduce"], (2, 4, 8, 64)):
        t = collective("all_reduce", algorithm, 1e9, n, 50 * GB).time
        floor = collectives.ring_all_reduce(1e9, n, 50 * GB)
        assert t >= floor * (1 - 1e-12) or algorithm == "in_switch"


@pytest.mark.independent
def test_one_node_makes_the_hierarchy_a_ring_and_one_device_per_node_too() -> None:
    one_node = collectives.hierarchical_all_reduce(1e9, 8, 1, 450 * GB, 50 * GB, 1e-6, 9e-6)
    assert one_node == pytest.approx(collectives.ring_all_reduce(1e9, 8, 450 * GB, 1e-6), rel=1e-12)
    lone = collectives.hierarchical_all_reduce(1e9, 1, 8, 450 * GB, 50 * GB, 1e-6, 9e-6)
    assert lone == pytest.approx(collectives.ring_all_reduce(1e9, 8, 50 * GB, 9e-6), rel=1e-12)
    level = collectives.hierarchical_all_reduce(1e9, 8, 4, 50 * GB, 50 * GB)
    assert level == pytest.approx(collectives.ring_all_reduce(1e9, 32, 50 * GB), rel=1e-12), (
        "equal links: nothing gained"
    )


@pytest.mark.independent
def test_at_the_half_size_the_two_terms_are_equal() -> None:
    for n in (2, 8, 1000):
        size = collectives.half_size(50 * GB, 5e-6, pieces=n)
        r = collective("all_reduce", "ring", size, n, 50 * GB, 5e-6)
        assert r.latency_time == pytest.approx(r.bandwidth_time, rel=1e-12)
        assert r.bound == "bandwidth", "the corner belongs to the bandwidth"
        assert collective("all_reduce", "ring", size * 0.99, n, 50 * GB, 5e-6).bound == "latency"
    message = collectives.half_size(50 * GB, 5e-6)
    assert collectives.transfer_time(message, 50 * GB, 5e-6) == pytest.approx(2 * 5e-6, rel=1e-12)


@pytest.mark.independent
def test_the_bus_bandwidth_of_a_ring_is_the_wire_whatever_the_ranks() -> None:
    for n in (2, 3, 8, 1000):
        t = collectives.ring_all_reduce(1e9, n, 50 * GB)
        assert collectives.bus_bandwidth(1e9, t, n) == pytest.approx(50 * GB, rel=1e-12)
        for half in (collectives.ring_all_gather, collectives.ring_reduce_scatter, collectives.all_to_all):
            t = half(1e9, n, 50 * GB)
            assert collectives.bus_bandwidth(1e9, t, n, phases=1) == pytest.approx(50 * GB, rel=1e-12)
    switched = collectives.in_switch_all_reduce(1e9, 8, 450 * GB)
    assert collectives.bus_bandwidth(1e9, switched, 8) == pytest.approx(700 * GB), "above the wire: 2 (N-1)/(N+1)"


@pytest.mark.independent
def test_sequence_parallelism_moves_the_same_bytes() -> None:
    """Four reduce-scatters and four all-gathers per layer cost what four all-reduces cost (Korthikanti, sec. 4.2.2)."""
    tp = collectives.tensor_parallel_time(96, 2048, 1, 12288, 8, 300 * GB, 3e-6)
    size = 2048 * 12288 * 2.0
    scatter = collectives.ring_reduce_scatter(size, 8, 300 * GB, 3e-6)
    gather = collectives.ring_all_gather(size, 8, 300 * GB, 3e-6)
    assert tp == pytest.approx(96 * (4 * scatter + 4 * gather), rel=1e-12)
    by_hand = 96 * 4 * 2 * 7 * (2048 * 12288 * 2 / 8 / 300e9 + 3e-6)
    assert tp == pytest.approx(by_hand, rel=1e-12)
    six = collectives.tensor_parallel_time(96, 2048, 1, 12288, 8, 300 * GB, 3e-6, all_reduces=6)
    assert six == pytest.approx(1.5 * tp, rel=1e-12)
    assert collectives.tensor_parallel_time(96, 2048, 1, 12288, 1, 300 * GB, 3e-6) == 0


@pytest.mark.independent
def test_dispatch_waits_for_the_slower_of_its_two_levels() -> None:
    network_bound = collectives.moe_dispatch(4096, 7168, 3, 8, 50 * GB, 200 * GB, 20e-6)
    assert network_bound == pytest.approx(4096 * 7168 * 3 / 50e9 + 20e-6, rel=1e-12)
    node_bound = collectives.moe_dispatch(4096, 7168, 1, 8, 50 * GB, 160 * GB, 20e-6)
    assert node_bound == pytest.approx(4096 * 7168 * 8 / 160e9 + 20e-6, rel=1e-12)
    # DeepSeek caps a token's nodes at four; without the cap top-8 over many nodes sends nearly eight copies
    assert collectives.moe_dispatch(1, 1, 8, 0, 1.0, 1.0) == 8


# Published


@pytest.mark.published
def test_the_hierarchical_example_of_the_open_book() -> None:
    """Bekman, Inter-node speed: 4 GiB over 4 nodes of 8: 3.5 GiB, 0.75 GiB and 3.5 GiB per accelerator; 16.1 ms at 50 GB/s."""
    size = 4 * 2**30
    inter = collectives.ring_all_reduce(size / 8, 4, 50 * GB)
    assert inter == pytest.approx(16.1e-3, rel=0.005)
    whole = collectives.hierarchical_all_reduce(size, 8, 4, 1e30, 50 * GB)
    assert whole == pytest.approx(inter, rel=1e-9), "an infinitely fast node leaves the network's phase"
    assert collectives.ring_all_reduce(size, 32, 50 * GB) == pytest.approx(166.4e-3, rel=0.001)
    assert collectives.ring_all_reduce(size, 32, 400 * GB) == pytest.approx(20.8e-3, rel=0.002)


@pytest.mark.published
def test_a_gather_in_the_scaling_book() -> None:
    """GPU chapter, quiz 2, question 3: 536 MB over eight H100 at 450 GB/s takes 1.04 ms."""
    assert collectives.ring_all_gather(4096 * 65536 * 2, 8, 450 * GB) == pytest.approx(1.04e-3, rel=0.005)


@pytest.mark.published
def test_the_printed_bandwidths_of_deepep_follow_from_its_times() -> None:
    """7168 numbers of one byte and a 4-byte scale per 128 of them reproduce 98, 63, 48, 43, 39 and 39 GB/s."""
    printed = {8: 98, 16: 63, 32: 48, 64: 43, 128: 39, 256: 39}
    for ranks, rate in printed.items():
        row = evidence.measurement(f"deepep-dispatch-{ranks}")
        moved = row.inputs["tokens"] * row.inputs["token_bytes"] * row.inputs["copies"]
        assert moved / row.value == pytest.approx(rate * GB, rel=0.02)


@pytest.mark.published
@pytest.mark.parametrize(
    ("name", "busbw"), [("azure-a100-8g", 231.58), ("azure-h100-8g", 478.87), ("bekman-b200-nvls-8", 838.0)]
)
def test_some_rows_are_as_printed(name: str, busbw: float) -> None:
    assert evidence.check(name).measurement.value == pytest.approx(busbw * GB)


def inside_nodes() -> list[str]:
    return [name for name, row in evidence.measurements("collectives").items() if row.kind == "all_reduce"]


@pytest.mark.published
@pytest.mark.parametrize("name", inside_nodes())
def test_no_measurement_lies_below_the_bound(name: str) -> None:
    assert evidence.check(name).error_of("bound") < 0


@pytest.mark.published
def test_a_ring_alone_is_no_bound_where_the_switch_reduces() -> None:
    """Bus bandwidth above 450 GB/s on an H100: the ring's bytes did not cross the wire."""
    assert evidence.check("azure-h100-8g").error_of("ring") > 0
    assert evidence.check("azure-a100-8g").error_of("ring") < 0


@pytest.mark.published
def test_large_messages_follow_the_plan_without_a_fitted_number() -> None:
    """8 GiB on H200 and B200, ring and switch, three to eight devices: the plan's error stays within 7 %."""
    errors = {n: evidence.check(n).error for n in inside_nodes() if n.startswith("bekman")}
    assert len(errors) == 18
    assert all(abs(e) < 0.07 for e in errors.values()), errors
    switched = [e for n, e in errors.items() if "nvls" in n]
    assert max(map(abs, switched)) < 0.04


@pytest.mark.published
def test_small_messages_take_longer_than_the_plan() -> None:
    """The plan knows the wire and the steps; a call from a host costs more: every row up to 1 MB is too fast by a third."""
    for name in inside_nodes():
        c = evidence.check(name)
        if c.measurement.inputs["bytes"] <= 1e6:
            assert -0.7 < c.error < -0.3, (name, c.error)


@pytest.mark.independent
@pytest.mark.parametrize(("experts", "top_k", "places"), [(8, 2, 8), (128, 4, 8), (256, 8, 64), (512, 22, 8)])
def test_places_of_a_token_by_drawing(experts: int, top_k: int, places: int) -> None:
    rng, own, draws = random.Random(experts), experts // places, 20_000
    met = sum(len({e // own for e in rng.sample(range(experts), top_k)}) for _ in range(draws)) / draws
    assert collectives.places_reached(experts, top_k, places) == pytest.approx(met, rel=4e-3)
    assert collectives.places_reached(experts, 1, places) == pytest.approx(1.0)
    assert collectives.places_reached(experts, experts, places) == places


@pytest.mark.independent
def test_copies_of_a_token_on_both_levels() -> None:
    """Tokens of one device, sent copy by copy: over the network to the peer with their device's number, then on inside."""
    experts, top_k, ranks, inside, draws = 128, 4, 32, 8, 20_000
    rng = random.Random(16)
    crossings = {True: [0, 0], False: [0, 0]}
    for _ in range(draws):
        home = rng.randrange(ranks)
        held = [expert // (experts // ranks) for expert in rng.sample(range(experts), top_k)]
        for device in held:
            crossings[False][0] += device // inside != home // inside
            crossings[False][1] += device // inside == home // inside and device != home
        crossings[True][0] += len({device // inside for device in held} - {home // inside})
        crossings[True][1] += sum(device % inside != home % inside for device in set(held))
    for once, (out, near) in crossings.items():
        remote, local = collectives.copies_sent(experts, top_k, ranks, inside, float(once))
        assert remote == pytest.approx(out / draws, rel=0.02)
        assert local == pytest.approx(near / draws, rel=0.03)


@pytest.mark.published
def test_several_nodes_lie_between_full_overlap_and_none() -> None:
    c = evidence.check("bekman-b200-4-nodes-16g")
    wires = 2 * 7 / 8 * 2**34 / 900e9 + 2 * 3 / 4 * 2**34 / 8 / 50e9
    assert c.others["hierarchical"] == pytest.approx(wires), (
        "at the full rate of the links, as the table's caption says"
    )
    for size in ("1g", "4g", "16g"):
        c = evidence.check(f"bekman-b200-4-nodes-{size}")
        assert c.others["overlapped"] < c.measured < c.others["hierarchical"] < c.others["flat"] / 4
        assert -0.10 < c.others["rings"] / c.measured - 1 < 0, "eight rings, each by its own adapter, explain it best"
    small = evidence.check("bekman-b200-4-nodes-32k")
    assert small.others["hierarchical"] < 0.01 * small.measured, "latency is all there is"


@pytest.mark.published
def test_the_share_of_the_in_switch_bound_does_not_depend_on_the_ranks() -> None:
    """Why N + 1 and not N: measured on 5 to 8 H200, the share of the (N + 1) bound varies by 2 %, of an N bound by 5 %."""
    shares, naive = [], []
    for n in (5, 6, 7, 8):
        c = evidence.check(f"bekman-h200-nvls-{n}")
        shares.append(c.others["bound"] / c.measured)
        naive.append(c.measurement.inputs["bytes"] / (450 * GB) / c.measured)
    assert max(shares) / min(shares) < 1.025
    assert max(naive) / min(naive) > 1.04


# The solver


def test_explain_names_the_equation_the_parts_and_the_sources() -> None:
    text = str(library_all_reduce(1e6, 8, "DGX-A100", "nccl-ring-ll").explain())
    for part in ("eq-ring-allreduce", "latency part", "bandwidth part", "nccl2026tuning", "latency-bound", "overhead"):
        assert part in text
    assert "0.5 of the all-reduce by direct" in str(collective("all_gather", "direct", 1e6, 8, 50 * GB).explain())


def test_arrays_give_the_same_as_floats() -> None:
    sizes = np.array([1e3, 1e6, 1e9])
    r = collective("all_reduce", "ring", sizes, 8, 50 * GB, 5e-7)
    assert list(r.bound) == ["latency", "bandwidth", "bandwidth"]
    for size, time in zip(sizes, r.time, strict=True):
        assert time == collective("all_reduce", "ring", float(size), 8, 50 * GB, 5e-7).time
    assert "2 bandwidth-bound" in str(r.explain())
    assert (collective("all_reduce", "tree", 1e6, np.array([2, 4, 8]), GB).time > 0).all()


def test_halves_are_halves() -> None:
    for algorithm in ("ring", "direct", "halving_doubling"):
        whole = collective("all_reduce", algorithm, 1e6, 8, 50 * GB, 1e-6).time
        parts = sum(collective(op, algorithm, 1e6, 8, 50 * GB, 1e-6).time for op in ("reduce_scatter", "all_gather"))
        assert parts == pytest.approx(whole, rel=1e-12)


@pytest.mark.independent
@pytest.mark.parametrize("algorithm", ["tree", "pipelined_tree"])
def test_a_tree_of_any_size_has_whole_steps(algorithm: str) -> None:
    """Five ranks need the steps of eight, as numbers and as arrays, by name and by equation: a step at most doubles."""
    equation = {"tree": collectives.tree_all_reduce, "pipelined_tree": collectives.pipelined_tree_all_reduce}[algorithm]
    ranks = [2, 3, 4, 5, 8, 9, 1000, 1024, 1025]
    steps = []
    for n in ranks:
        reached = count = 1
        while reached < n:
            reached, count = 2 * reached, count + 1
        steps.append(count - 1)
    wanted = [2 * s * 1e-6 for s in steps]
    assert [equation(0.0, n, GB, 1e-6) for n in ranks] == pytest.approx(wanted, rel=1e-12)
    assert list(equation(0.0, np.array(ranks), GB, 1e-6)) == pytest.approx(wanted, rel=1e-12)
    assert [collective("all_reduce", algorithm, 0.0, n, GB, 1e-6).time for n in ranks] == pytest.approx(wanted)
    assert list(collective("all_reduce", algorithm, 0.0, np.array(ranks), GB, 1e-6).time) == pytest.approx(wanted)


@pytest.mark.independent
@pytest.mark.parametrize("n", [3, 5, 6, 7, 12])
def test_a_binomial_tree_of_any_size_passes_every_sum_on(n: int) -> None:
    """The machine that passes chunks, with masks up to the first power of two that is not below N."""
    m = Machine(n, 1e6 / n, 50 * GB, 3e-6)
    everything, masks = list(range(n)), [1 << i for i in range((n - 1).bit_length())]
    for mask in masks:
        m.step([(r, r - mask, everything, True) for r in range(n) if r & mask and r % mask == 0])
    for mask in reversed(masks):
        m.step([(r, r + mask, everything, False) for r in range(0, n, 2 * mask) if r + mask < n])
    assert m.is_reduced()
    assert m.time == pytest.approx(collectives.tree_all_reduce(1e6, n, 50 * GB, 3e-6), rel=1e-12)


@pytest.mark.published
@pytest.mark.parametrize(("nodes", "gpus"), [(1, 8), (2, 8), (16, 8), (128, 8), (64, 1), (3, 4)])
def test_latencies_over_nodes_are_those_of_the_librarys_source(nodes: int, gpus: int) -> None:
    """nccl2026tuning, tuning.cc: (nsteps - nInterSteps) intraLat + nInterSteps interLat, and the tree's own sum."""
    n, intra, inter = nodes * gpus, 3.4e-6, 14e-6
    for phases, ring in ((2, collectives.ring_all_reduce), (1, collectives.ring_all_gather)):
        steps, across = phases * (n - 1), phases * (nodes - 1)
        mean = collectives.ring_latency(n, gpus, intra, inter)
        assert ring(0.0, n, GB, mean) == pytest.approx((steps - across) * intra + across * inter, rel=1e-12)
    r = collective("all_reduce", "ring", 0.0, n, GB, inter, ranks_per_node=gpus, node_latency=intra)
    assert r.time == pytest.approx(2 * (n - nodes) * intra + 2 * (nodes - 1) * inter, rel=1e-12)
    depth = {1: 0, 2: 1, 3: 2, 16: 4, 64: 6, 128: 7}[nodes]  # of getBtree in trees.cc; log2i(3) in tuning.cc would be 1
    t = collective("all_reduce", "pipelined_tree", 0.0, n, GB, inter, ranks_per_node=gpus, node_latency=intra)
    assert t.time == pytest.approx(2 * ((gpus - 1) * intra + depth * inter), rel=1e-12)


@pytest.mark.published
def test_the_plan_over_nodes_against_the_source_and_measurements() -> None:
    """128 nodes of eight, from the constants of tuning.cc by hand; and three measured sizes on four nodes of B200."""
    ring = library_all_reduce(1e9, 1024, "DGX-H100", "nccl-ring-simple")
    assert ring.latency_time + ring.overhead == pytest.approx(1.4 * (8.4e-6 + 1792 * 3.4e-6 + 254 * 14e-6), rel=1e-12)
    assert ring.bandwidth_time == pytest.approx(2 * 1023 / 1024 * 1e9 / 370.8e9, rel=1e-12)
    low = library_all_reduce(1e9, 1024, "DGX-H100", "nccl-ring-ll")
    assert low.latency_time == pytest.approx(1792 * 1.0e-6 + 254 * 2.7e-6, rel=1e-12), (
        "posting takes longer than 0.6 us"
    )
    tree = library_all_reduce(1e9, 1024, "DGX-H100", "nccl-tree-simple")
    assert tree.latency_time == pytest.approx(2 * (7 * 4e-6 + 7 * 14e-6), rel=1e-12)
    assert tree.bandwidth_time == pytest.approx(2e9 / (0.92 * 370.8e9), rel=1e-12)
    inside = library_all_reduce(1e6, 8, "DGX-H100", "nccl-tree-ll128")
    assert inside.latency_time == pytest.approx(14 * 1.25e-6, rel=1e-12), "one node is a chain without a tree above it"
    for size, busbw in ((2**30, 361.99e9), (2**32, 377.34e9), (2**34, 381.8e9)):
        measured = 2 * 31 / 32 * size / busbw
        assert fastest_all_reduce(size, 32, "P6-B200").time == pytest.approx(measured, rel=0.06)


@pytest.mark.published
def test_a_bandwidth_of_one_digit_is_a_range_of_times() -> None:
    """0.01 GB/s for 32 KiB on 32 devices, printed to a hundredth, is anything from 4.2 to 12.7 ms."""
    row = evidence.check("bekman-b200-4-nodes-32k")
    moved = 2 * 31 / 32 * 32768
    assert printed_range(row.measurement) == pytest.approx((moved / 0.015e9, moved / 0.005e9))
    assert printed_range(row.measurement)[0] < row.measured < printed_range(row.measurement)[1]
    low, high = printed_range(evidence.measurement("bekman-b200-4-nodes-1g"))
    assert high / low < 1.0001
    assert evidence.check("bekman-b200-4-nodes-256k").measured < printed_range(row.measurement)[0] / 10, (
        "a latency does not shrink"
    )


def test_nodes_are_whole_and_only_rings_and_trees_know_them() -> None:
    with pytest.raises(InputError, match=r"ranks = 12 must be a multiple of ranks_per_node = 8"):
        collective("all_reduce", "ring", 1e6, 12, GB, 1e-6, ranks_per_node=8)
    with pytest.raises(InputError, match="goes with ring and pipelined_tree, not with direct"):
        collective("all_reduce", "direct", 1e6, 16, GB, 1e-6, ranks_per_node=8)
    with pytest.raises(InputError, match="ranks_per_node = 0 must be at least 1"):
        collective("all_reduce", "ring", 1e6, 16, GB, 1e-6, ranks_per_node=0)
    with pytest.raises(InputError, match="ranks_per_node = 16 exceeds ranks = 8"):
        collectives.ring_latency(8, 16, 1e-6, 1e-5)
    with pytest.raises(InputError, match="below 1"):
        collective("all_reduce", "ring", 1e6, np.array([0, 8]), GB)
    many = collective(
        "all_gather", "ring", 0.0, np.array([8, 16, 1024]), GB, 14e-6, ranks_per_node=8, node_latency=3e-6
    )
    assert list(many.time) == pytest.approx([7 * 3e-6, 14 * 3e-6 + 14e-6, 896 * 3e-6 + 127 * 14e-6])
    assert "ranks_per_node" in str(many.explain()) and "node_latency_s" in many.to_dict()


def test_halving_refuses_what_is_no_power_of_two() -> None:
    with pytest.raises(InputError, match="ranks = 6 is not a power of two"):
        collective("all_reduce", "halving_doubling", 1e6, 6, GB)
    with pytest.raises(InputError, match="powers of two in an array"):
        collective("all_reduce", "halving_doubling", 1e6, np.array([2, 6]), GB)


@pytest.mark.parametrize("ranks", [0, -1, 2.5, math.nan, math.inf, True, "8", None, np.array([2.5])])
def test_ranks_are_whole(ranks: Any) -> None:
    with pytest.raises(InputError, match="ranks"):
        collective("all_reduce", "ring", 1e6, ranks, GB)


def test_bad_input_is_refused_by_name() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'all_reduce'"):
        collective("allreduce", "ring", 1e6, 8, GB)
    with pytest.raises(UnknownNameError, match="algorithm of all_gather"):
        collective("all_gather", "tree", 1e6, 8, GB)
    for name in ("bytes", "bandwidth", "latency", "overhead"):
        with pytest.raises(InputError, match=name):
            collective("all_reduce", "ring", **{"bytes": 1e6, "ranks": 8, "bandwidth": GB, name: -1.0})
    with pytest.raises(InputError, match="exceeds the 8 devices"):
        library_all_reduce(1e6, 12, "DGX-H100", "nccl-ring-ll")
    with pytest.raises(InputError, match="its switch sums nothing"):
        library_all_reduce(1e6, 16, "DGX-H100", "nccl-nvls")
    with pytest.raises(UnknownNameError, match="NVLink-3 has no in_switch_efficiency"):
        library_all_reduce(1e6, 8, "DGX-A100", "nccl-nvls")
    with pytest.raises(UnknownNameError, match="unknown measurement"):
        evidence.check("azure-a100-9g")
    with pytest.raises(InputError, match="is of kind 'moe_dispatch'"):
        evidence.check("deepep-dispatch-8")
    with pytest.raises(InputError, match="efficiency: rows of kind 'all_reduce' take none"):
        evidence.check("azure-a100-8g", 0.9)


def test_the_library_chooses_low_latency_first_and_the_switch_last() -> None:
    overheads = [fastest_all_reduce(size, 8, "DGX-H100").overhead for size in (1e3, 1e7, 1e9)]
    assert overheads == [6.6e-6, 25e-6, 25e-6]
    assert fastest_all_reduce(1e9, 8, "DGX-H100", in_switch=False).algorithm == "ring"
    assert fastest_all_reduce(1e9, 8, "H800-node").bandwidth == pytest.approx(370.8e9 * 0.85 * 200 / 450)


@pytest.mark.independent
def test_each_device_has_its_share_of_the_adapters_and_the_link_ends_at_the_domain() -> None:
    assert catalog.node("P5").scale_out_bandwidth == 32 * 100e9 / 8 / 8
    assert catalog.node("P4d").scale_out_bandwidth == 4 * 100e9 / 8 / 8
    four = catalog.cluster("DGX-H100", 4)
    assert (four.bandwidth(8), four.bandwidth(9)) == (450e9, 50e9)


def test_to_dict_is_plain_numbers() -> None:
    d = collective("all_reduce", "ring", 1e9, 8, 50 * GB, 5e-7).to_dict()
    assert d["time_s"] == pytest.approx(14 * (1e9 / 8 / 50e9 + 5e-7))
    assert d["bus_bandwidth_bytes_per_s"] < 50e9
    assert collective("all_reduce", "ring", 1e9, 1, 50 * GB).to_dict()["bus_bandwidth_bytes_per_s"] is None


# The exercises by hand: the public demo's numbers and the arithmetic, typed; nothing of the library stands on this side.

BY_HAND: dict[str, float] = {
    "04.1": 2 * 31 * (96e6 / 32 / 50e9 + 10e-6),
    "04.2": 16 * 14e-6 * 50e9,
    "04.3": 2 * 63 * (64e3 / 64 / 50e9 + 14e-6) / (2 * 6 * (64e3 / 50e9 + 14e-6)),
    "04.4": 2 * (4 * 14e-6 + 15 / 16 * 12e6 / 25e9),
    "04.5": 2 * 7 / 8 * 8e9 / 0.03841,
    "04.6": 2 * 7 / 9 * 450e9,
    "04.7": (2 * 31 / 32 * 8e9 / 50e9) / (2 * 7 / 8 * 8e9 / 450e9 + 2 * 3 / 4 * 1e9 / 50e9),
    "04.8": 96 * 4 * 2 * 7 / 8 * (2 * 2048 * 12288 * 2) / 300e9,
    "04.9": max(4096 * 7168 * 3.5 / 50e9, 4096 * 7168 * 8 / 200e9),
    "04.10": 8e6 / 50e9 + 7 * 10e-6 + 2 * (8e6 / 50e9 * 7 * 10e-6) ** 0.5,
    "04.11": 2 * 4e9 / 8 / 50e9,
    "04.14": 3 * (1 - math.prod((192 - i) / (256 - i) for i in range(8))),
    "04.15": (4e6 * 63 / 64 / 50e9 + 63 * 14e-6) / (6 * 4e-6 + 64 * 2.8e-6 + 4e6 * 63 / 64 / 37.5e9),
}


@pytest.mark.independent
@pytest.mark.parametrize("id", BY_HAND)
def test_the_demo_of_each_exercise_agrees_with_arithmetic_by_hand(id: str) -> None:
    chapter = {e.id: e for e in assignment("04-communication") if e.form == "number"}  # tasks: tests/book/test_tasks.py
    assert set(chapter) == set(BY_HAND)
    assert chapter[id].solve(chapter[id].draw()) == pytest.approx(BY_HAND[id], rel=1e-12)


# Other people's data, where it is at hand


def reference(name: str) -> list[dict[str, str]]:
    path = Path(ROOT).parent / "shared" / "reference" / name
    if not path.exists():
        pytest.skip(f"{name} is not beside this checkout (it is reference data, not part of the project)")
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.independent
def test_astra_sim_on_one_ring() -> None:
    """Its GB is 2^30 byte, its all-gather size one shard; it adds an endpoint delay and a memory that we leave out."""
    seen = Counter[str]()
    for row in reference("astrasim/collectives.csv"):
        simple = row["splits"] == row["active_chunks"] == "1" and row["bw_GBps_per_dim"] == "50.0"
        if (row["backend"], row["topology_per_dim"], row["algo_per_dim"]) != ("congestion_aware", "Ring", "ring"):
            continue
        if not simple or row["collective"] == "all_to_all":
            continue
        n, bandwidth = int(row["npus_per_dim"]), 50 * 2.0**30
        size = float(row["size_bytes"]) * (n if row["collective"] == "all_gather" else 1)
        ours = collective(row["collective"], "ring", size, n, bandwidth, 500e-9).time
        assert -0.10 < ours / (float(row["time_ns"]) * 1e-9) - 1 < 0, row
        seen[row["collective"]] += 1
    assert min(seen[op] for op in ("all_reduce", "reduce_scatter", "all_gather")) >= 10


@pytest.mark.independent
def test_shipped_rows_lie_above_the_bound_and_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Measured all-reduces of other people: bounds hold; errors of the plan are printed, nothing is fitted to them."""
    nodes = {"A100-SXM4-80GB": "DGX-A100", "H100-SXM5-80GB": "DGX-H100", "H200-SXM-141GB": "DGX-H200"}
    errors: dict[str, list[float]] = {}
    for case in shipped_rows.cases("collective", set="first", op="all_reduce", device=tuple(nodes)).cases:
        row = case.inputs
        node, n, size = catalog.node(nodes[row["device"]]), int(row["n_ranks"]), row["bytes"]
        reduces = node.scale_up.has("in_switch_efficiency") and row["algo"] != "Ring"
        wire = node.scale_up_bandwidth
        bound = min(
            collectives.ring_all_reduce(size, n, wire),
            collectives.in_switch_all_reduce(size, n, wire) if reduces else math.inf,
        )
        took = case.measured
        assert bound < took, case.id
        plan = communication.fastest_all_reduce(size, n, node, in_switch=reduces)
        errors.setdefault(case.group, []).append(plan.time / took - 1)
    with capsys.disabled():
        for group, found in errors.items():
            mape, bias = sum(map(abs, found)) / len(found), sum(found) / len(found)
            print(f"\n{group}: {len(found)} all-reduces, NCCL's plan off by {mape:.1%}, signed {bias:+.1%}", end="")
    assert sum(map(len, errors.values())) >= 40
