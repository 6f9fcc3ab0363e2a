"""Closed forms of networks: against enumeration, the simulation, sums over dimensions, and published figures."""

from itertools import pairwise, product

import pytest

from mlsysim import catalog, collectives, network
from mlsysim.network import Dimension, Task, collective_time, parse


@pytest.mark.independent
def test_a_message_over_hops() -> None:
    """1 MB at 50 GB/s is 20 us; three links of 1 us are waited for one after the other, and the bytes stream through once."""
    assert network.message_time(1e6, 3.0, 50e9, 1e-6) == pytest.approx(23e-6)
    assert network.message_time(1e6, 1.0, 50e9, 1e-6) == pytest.approx(collectives.transfer_time(1e6, 50e9, 1e-6))
    # direct among two ranks that hang on a switch: one message of half the buffer each
    r = collective_time("reduce_scatter", 2e6, "switch:2", "direct", 50e9, 1e-6)
    assert r.time == pytest.approx(22e-6)


@pytest.mark.independent
@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 8, 15, 32])
def test_mean_hops_of_a_ring_by_counting(ranks: int) -> None:
    ring = Dimension("ring", ranks)
    counted = sum(ring.hops(0, k) for k in range(1, ranks)) / (ranks - 1)
    assert network.ring_hops(float(ranks)) == pytest.approx(counted)


def loads(d: Dimension) -> list[int]:
    """Messages over every link when every rank sends one to every other."""
    count = dict.fromkeys(d.edges(), 0)
    for a, b in product(range(d.ranks), repeat=2):
        for link in pairwise(d.route(a, b)):
            count[link] += 1
    return list(count.values())


@pytest.mark.independent
@pytest.mark.parametrize("text", ["ring:7", "ring:8", "ring:9", "fullyconnected:6", "switch:6"])
def test_congestion_is_the_mean_load_of_a_link(text: str) -> None:
    d = parse(text).dimensions[0]
    n = float(d.ranks)
    hops = sum(d.hops(0, k) for k in range(1, d.ranks)) / (n - 1)
    mean = sum(loads(d)) / d.links
    assert network.congestion(n - 1, hops, d.links / n) == pytest.approx(mean)
    if text != "ring:8":  # where two ways are as long all take the same, and its links carry more
        assert max(loads(d)) == pytest.approx(mean)


@pytest.mark.independent
@pytest.mark.parametrize("ranks", [5, 9, 15])
def test_shared_links_slow_a_direct_all_to_all_on_a_ring_by_the_congestion(ranks: int) -> None:
    n = float(ranks)
    aware, alone = (
        collective_time("all_to_all", 1e6 * n, f"ring:{ranks}", "direct", 1e9, congestion=c).time
        for c in ("aware", "unaware")
    )
    assert alone == pytest.approx(1e-3)
    slower = network.congestion(n - 1, network.ring_hops(n), 2.0)
    assert slower <= aware / alone <= 2 * slower
    assert network.congestion(n - 1, 1.0, n - 1) == network.congestion(1.0, 1.0, 4.0) == 1.0


@pytest.mark.independent
@pytest.mark.parametrize("text", ["ring:8", "mesh:8", "fullyconnected:8", "switch:8", "ring:4xring:2", "dragonfly:4/2"])
def test_the_bisection_bounds_an_all_to_all(text: str) -> None:
    """Half of 8 ranks send half of their 8 pieces of 1 MB: 16 MB over the links that join the halves."""
    t = parse(text)
    bound = network.bisection_time(8e6, 8.0, float(t.bisection), 1e9)
    assert bound == pytest.approx(16e6 / t.bisection / 1e9)
    assert collective_time("all_to_all", 8e6, t, "direct", 1e9).time >= bound * (1 - 1e-12)
    # where every link is as busy as those in the middle, the mean load says the same
    if text == "ring:8":
        assert network.congestion(7.0, network.ring_hops(8.0), 2.0) * 1e6 / 1e9 == pytest.approx(bound)


@pytest.mark.independent
def test_dimensions_add_up() -> None:
    assert network.rings_all_reduce(8e9, (8, 4), (450e9, 50e9), (1e-6, 5e-6)) == pytest.approx(
        collectives.hierarchical_all_reduce(8e9, 8, 4, 450e9, 50e9, 1e-6, 5e-6)
    )
    rates, waits = (100e9, 50e9, 25e9), (1e-6, 2e-6, 3e-6)
    played = collective_time("all_reduce", 1e8, "ring:4x3x2", "ring", rates, waits)
    assert network.rings_all_reduce(1e8, (4, 3, 2), rates, waits) == pytest.approx(played.time)
    # by hand: 2 x 1 x (100 MB / (12 x 2) / 25 GB/s + 3 us) of the last one
    assert network.dimension_all_reduce(1e8, 12.0, 2.0, 25e9, 3e-6) == pytest.approx(2 * (1e8 / 24 / 25e9 + 3e-6))
    assert network.dimension_all_reduce(1e8, 1.0, 8.0, 50e9) == collectives.ring_all_reduce(1e8, 8.0, 50e9)
    assert network.dimension_all_reduce(1e8, 4.0, 1.0, 50e9, 1e-6) == 0.0


@pytest.mark.published
@pytest.mark.parametrize(
    ("device", "printed"), [("A100-SXM4-80GB", 100e9), ("H100", 150e9), ("H200", 150e9), ("B200", 300e9)]
)
def test_the_links_of_table_iv_are_those_to_one_peer(device: str, printed: float) -> None:
    """hespas2026, Table IV: "NVLink BW" of four GPUs that are all connected."""
    links = catalog.device(device).scale_up_bandwidth
    assert network.peer_bandwidth(links, 4.0) == pytest.approx(printed)
    assert 3 * network.peer_bandwidth(links, 4.0) == pytest.approx(links)
    # direct exchange over all peers at once is as fast as a switch at the bandwidth of all links
    one = collective_time("all_gather", 4e9, "fullyconnected:4", "direct", printed).time
    all_links = collective_time("all_gather", 4e9, "switch:4", "ring", links).time
    assert one == pytest.approx(all_links)


@pytest.mark.independent
def test_overlap_between_its_bounds() -> None:
    def step(*after: str) -> network.StreamSchedule:
        return network.schedule(
            [Task("a", "compute", 2.0), Task("send", "communication", 3.0, after), Task("b", "compute", 4.0, ("a",))]
        )

    apart, half = step("b"), step("a")
    free = network.schedule([Task("send", "communication", 3.0), Task("b", "compute", 6.0)])
    for s, hidden, exposed in ((apart, 0.0, 3.0), (half, 1.0, 0.0), (free, 1.0, 0.0)):
        assert network.hidden_share(s.time, s.compute, s.communication) == pytest.approx(hidden)
        assert network.exposed_communication(s.time, s.compute) == pytest.approx(exposed) == pytest.approx(s.exposed)
    late = network.schedule(
        [Task("a", "compute", 4.0), Task("b", "compute", 2.0, ("a",)), Task("send", "communication", 3.0, ("a",))]
    )
    assert late.time == 7.0
    assert network.hidden_share(late.time, 6.0, 3.0) == pytest.approx(2 / 3)
    assert network.hidden_share(9.0, 3.0, 6.0) == 0.0 and network.hidden_share(6.0, 3.0, 6.0) == 1.0
