"""Topologies against breadth-first search and enumeration; schedules against equations, bounds and sums."""

import contextlib
import math
from collections import deque
from itertools import combinations, pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlsysim import cli, collectives, network
from mlsysim.errors import InputError, MlsysimError, UnknownNameError
from mlsysim.network import Dimension, Topology, collective_time, dragonfly, fat_tree, parse

ONE_DIMENSION = [
    *(Dimension(kind, n) for kind in ("ring", "torus", "mesh", "fullyconnected", "switch") for n in (1, 2, 3, 4, 7, 8)),
    dragonfly(1, 4),
    dragonfly(4, 1),
    dragonfly(2, 3),
    dragonfly(5, 4),
    dragonfly(9, 4, 2),
    dragonfly(7, 2, 3),
    dragonfly(1, 1, 3),
    fat_tree(2),
    fat_tree(4),
    fat_tree(4, 3),
    fat_tree(6, 2),
]


def nodes_of(d: Dimension) -> range:
    return range(d.ranks + d.switches)


def distances(d: Dimension, source: int) -> dict[int, int]:
    """Breadth-first search over the links."""
    near: dict[int, list[int]] = {v: [] for v in nodes_of(d)}
    for a, b in d.edges():
        near[a].append(b)
    found, queue = {source: 0}, deque([source])
    while queue:
        v = queue.popleft()
        for w in near[v]:
            if w not in found:
                found[w] = found[v] + 1
                queue.append(w)
    return found


@pytest.mark.independent
@pytest.mark.parametrize("d", ONE_DIMENSION, ids=str)
def test_hops_diameter_and_links_against_a_search(d: Dimension) -> None:
    edges = d.edges()
    assert len(edges) == d.links
    furthest = 0
    for a in range(d.ranks):
        found = distances(d, a)
        for b in range(d.ranks):
            way = d.route(a, b)
            assert (way[0], way[-1]) == (a, b) and len(way) - 1 == d.hops(a, b)
            assert set(pairwise(way)) <= edges
            assert found[b] <= d.hops(a, b)
            if d.kind != "dragonfly":  # its minimal routing keeps to the direct link between two groups
                assert d.hops(a, b) == found[b]
            furthest = max(furthest, d.hops(a, b))
    assert furthest == d.diameter
    out = [sum(1 for a, _ in edges if a == rank) for rank in range(d.ranks)]
    assert max(out) == d.ports


@pytest.mark.independent
def test_a_dragonfly_passes_one_link_between_groups() -> None:
    d = dragonfly(5, 4)
    for a, b in product(range(20), repeat=2):
        groups = [node // 4 for node in d.route(a, b)]
        assert sum(g != h for g, h in pairwise(groups)) == (a // 4 != b // 4)
    assert (
        dragonfly(9, 4, 2).ranks == 72 and dragonfly(9, 4, 2).diameter == 5
    )  # Kim et al.: p = h = 2, a = 4, g = ah + 1


def product_edges(t: Topology) -> set[tuple[object, object]]:
    """Links of a product; switches are shared by the ranks that differ in that dimension only."""
    found: set[tuple[object, object]] = set()
    for i, d in enumerate(t.dimensions):
        others = [range(n) if j != i else (None,) for j, n in enumerate(t.shape)]
        for rest in product(*others):

            def name(node: int, rest: tuple[int | None, ...] = rest, i: int = i, d: Dimension = d) -> object:
                return (*rest[:i], node, *rest[i + 1 :]) if node < d.ranks else ("switch", i, rest, node)

            found |= {(name(a), name(b)) for a, b in d.edges()}
    return found


def least_cut(t: Topology) -> int:
    """Fewest links one way between two halves of the ranks, by trying all of them; a node that is no rank stands where it helps."""
    edges = product_edges(t)
    ranks = sorted(product(*map(range, t.shape)))
    extra = sorted({v for e in edges for v in e} - set(ranks), key=str)
    best = len(edges)
    for half in combinations(ranks, len(ranks) // 2):
        for sides in product((False, True), repeat=len(extra)):
            here = set(half) | {v for v, side in zip(extra, sides, strict=True) if side}
            best = min(best, sum(a in here and b not in here for a, b in edges))
    return best


@pytest.mark.independent
@pytest.mark.parametrize(
    "text",
    ["ring:2", "ring:3", "ring:8", "mesh:7", "mesh:8", "fullyconnected:5", "fullyconnected:6", "switch:6", "switch:5"]
    + [
        "ring:4xring:2",
        "mesh:4x2",
        "mesh:2x2x2",
        "fullyconnected:4xring:2",
        "switch:2xring:4",
        "dragonfly:4/1",
        "fattree:2",
    ],
)
def test_the_bisection_against_every_cut(text: str) -> None:
    assert parse(text).bisection == least_cut(parse(text))


@pytest.mark.independent
def test_a_dragonfly_is_cut_between_groups() -> None:
    """Where groups are small another cut is smaller, as its docstring says: 3 links here, through two of the four groups."""
    assert (parse("dragonfly:4/2").bisection, least_cut(parse("dragonfly:4/2"))) == (4, 3)
    assert dragonfly(9, 4, 2).bisection == 20 and dragonfly(2, 8).bisection == 1


@pytest.mark.published
@pytest.mark.parametrize(("ports", "ranks", "switches"), [(4, 16, 20), (48, 27_648, 2880)])
def test_a_fat_tree_has_the_hosts_and_switches_of_its_paper(ports: int, ranks: int, switches: int) -> None:
    """Al-Fares et al.: k^3/4 hosts, 5 k^2/4 switches, and the full bisection of one switch for all."""
    d = fat_tree(ports)
    assert (d.ranks, d.switches, d.diameter, str(d)) == (ranks, switches, 6, f"fattree:{ports}")
    assert d.bisection == Dimension("switch", ranks).bisection and d.links == 6 * ranks


@pytest.mark.independent
def test_a_fat_tree_uses_every_port_and_spreads_what_climbs() -> None:
    for d in (fat_tree(4), fat_tree(6, 2), fat_tree(4, 3)):
        out = [sum(1 for a, _ in d.edges() if a == node) for node in nodes_of(d)]
        assert set(out[: d.ranks]) == {1}
        uppers = d.radix * (d.radix // 2)
        assert set(out[d.ranks : d.ranks + uppers]) == {d.radix}  # the lowest: ranks below and cables up
        assert len(d.edges()) == d.links
    d = fat_tree(4)
    shift = [d.route(r, (r + 4) % 16) for r in range(16)]  # each pod to the next: no cable carries two
    used = [hop for way in shift for hop in pairwise(way)]
    assert len(used) == len(set(used)) == 6 * 16
    # with three ranks to a cable up the layers above carry a third, and an all-to-all waits for them
    assert (fat_tree(4, 3).ranks, fat_tree(4, 3).bisection) == (24, 4) and fat_tree(8, 3).bisection == 2 * 8 * 8 // 4
    assert parse("fat-tree:8/3").ranks == 8 * 4 * 6 and str(parse("fattree:8/3")) == "fattree:8/3"


@pytest.mark.independent
def test_a_collective_on_a_fat_tree_is_that_of_a_switch_with_a_longer_way() -> None:
    """Long messages take as long as on one switch; each step of a ring over pods pays two or four hops more."""
    asked = {"bytes": 2**30, "bandwidth": 50e9}
    wide, tree = (
        collective_time("all_reduce", algorithm="ring", topology=t, latency=0.0, **asked).time
        for t in ("switch:16", "fattree:4")
    )
    assert tree == pytest.approx(wide)
    slow, far = (
        collective_time("all_reduce", algorithm="ring", topology=t, latency=1e-6, **asked).time
        for t in ("switch:16", "fattree:4")
    )
    assert slow < far < slow + 30 * 4e-6 + 1e-9


@pytest.mark.independent
def test_a_product_adds_hops_and_multiplies_links() -> None:
    t = parse("torus:4x4x4")
    assert (t.ranks, t.links, t.diameter, t.bisection) == (64, 6 * 64, 6, 2 * 16)
    assert [t.address(r) for r in (0, 1, 4, 63)] == [(0, 0, 0), (1, 0, 0), (0, 1, 0), (3, 3, 3)]
    assert t.hops(0, 63) == 3
    mixed = parse("mesh:3xswitch:4")
    assert mixed.links == 4 * 4 + 3 * 8 and mixed.diameter == 4 and len(product_edges(mixed)) == mixed.links


def test_topologies_as_text() -> None:
    for text in ("ring:8", "ring:4xswitch:2", "dragonfly:9/4/2", "mesh:2xmesh:3"):
        assert str(parse(text)) == text
    assert str(parse("Fully_Connected:4 x 2")) == "fullyconnected:4xfullyconnected:2"
    assert str(parse("dragonfly:16")) == "dragonfly:4/4" and parse("dragonfly:13").diameter == 1
    assert parse(parse("ring:8")) == parse("ring:8")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not a dimension"),
        ("ring", "is not a dimension"),
        ("8", "is not a dimension"),
        ("ring:0", "whole number in"),
        ("ring:99999999", "whole number in"),
        ("ring:1000xring:1001", "ranks; give at most"),
        ("star:8", "unknown topology 'star'"),
        ("ring:8x", "is not a dimension"),
        ("ring:4/4", "only a dragonfly"),
        ("fattree:5", "ports = 5 must be even"),
        ("fattree:4/2", "divisible by 3"),
        ("fattree:4/1/1", "fattree:ports/oversubscription"),
        ("fattree:1000", "fattree of 250000000 ranks"),
        ("dragonfly:1/2/3/4", "groups/routers"),
        ("dragonfly:0", "at least 1"),
        ("ring:" + "2x" * 9 + "2", "dimensions; give 1 to 8"),
        ("r" * 500, "is not a topology"),
    ],
)
def test_a_wrong_topology_is_named(text: str, says: str) -> None:
    with pytest.raises(MlsysimError, match=says):
        parse(text)


@given(st.text(alphabet="ringmeshx:/0123456789 _", max_size=40))
@pytest.mark.slow
def test_any_text_is_a_topology_or_an_error_of_ours(text: str) -> None:
    with contextlib.suppress(MlsysimError):
        assert 1 <= parse(text).ranks <= 1_000_000


M, B, A = 1e9, 50e9, 500e-9


def time_of(op: str, topology: str, algorithm: str, latency: float = A, size: float = M, **options: object) -> float:
    return collective_time(op, size, topology, algorithm, B, latency, **options).time  # type: ignore[arg-type]


@pytest.mark.independent
@pytest.mark.parametrize("congestion", ["aware", "unaware"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_rings_are_the_equations_of_the_book(ranks: int, congestion: str) -> None:
    equations = {
        "all_reduce": collectives.ring_all_reduce,
        "reduce_scatter": collectives.ring_reduce_scatter,
        "all_gather": collectives.ring_all_gather,
    }
    for op, equation in equations.items():
        for topology, hops in ((f"ring:{ranks}", 1), (f"fullyconnected:{ranks}", 1), (f"switch:{ranks}", 2)):
            got = time_of(op, topology, "ring", congestion=congestion)
            assert got == pytest.approx(equation(M, ranks, B, hops * A), rel=1e-12)


@pytest.mark.independent
@pytest.mark.parametrize("ranks", [2, 8, 32])
def test_other_algorithms_are_the_equations_of_the_book_where_links_are_free(ranks: int) -> None:
    full, hub = f"fullyconnected:{ranks}", f"switch:{ranks}"
    halving = collectives.halving_doubling_all_reduce
    tree = collectives.tree_all_reduce
    for congestion in ("aware", "unaware"):
        assert time_of("all_reduce", full, "halving_doubling", congestion=congestion) == pytest.approx(
            halving(M, ranks, B, A)
        )
        for op in ("reduce_scatter", "all_gather"):
            half = time_of(op, hub, "halving_doubling", congestion=congestion)
            assert half == pytest.approx(halving(M, ranks, B, 2 * A) / 2)
        # every rank has a link to every other, and each carries one piece at a time
        direct = time_of("all_reduce", full, "direct", congestion=congestion)
        assert direct == pytest.approx(2 * (A + M / ranks / B))
        assert time_of("all_to_all", full, "direct", congestion=congestion) == pytest.approx(A + M / ranks / B)
    assert time_of("all_reduce", full, "double_binary_tree") == pytest.approx(tree(M, ranks, B, A))
    # over a switch a rank has one link, and its pieces follow each other: the book's equation with one latency per pass
    direct = time_of("all_reduce", hub, "direct", congestion="aware")
    assert direct == pytest.approx(collectives.direct_all_reduce(M, ranks, B, 2 * A))


@pytest.mark.independent
def test_an_all_to_all_around_a_ring_carries_every_piece_to_its_place() -> None:
    """A piece for the rank k ahead makes k steps: N (N - 1) / 2 steps of one piece."""
    assert time_of("all_to_all", "ring:6", "ring") == pytest.approx(15 * (M / 6 / B + A))


@pytest.mark.independent
def test_a_ring_on_a_line_goes_back_over_all_of_it() -> None:
    """Of 2 (N - 1) steps that wait for each other at most two pass from the last rank to the first, over N - 1 links."""
    assert time_of("all_reduce", "mesh:5", "ring", size=0.0, congestion="unaware") == pytest.approx((6 + 2 * 4) * A)


@pytest.mark.independent
def test_additions_in_memory() -> None:
    """Each step of a ring waits for one; a rank that gets all pieces at once adds them one by one; halving adds M (N - 1) / N."""
    rate = 1e12
    for name, topology in (("ring", "ring:8"), ("direct", "fullyconnected:8"), ("halving_doubling", "switch:8")):
        extra = time_of("reduce_scatter", topology, name, memory_bandwidth=rate) - time_of(
            "reduce_scatter", topology, name
        )
        assert extra == pytest.approx(3 * 7 / 8 * M / rate)
        gather = time_of("all_gather", topology, name, memory_bandwidth=rate)
        assert gather == time_of("all_gather", topology, name)


@pytest.mark.independent
def test_the_endpoint_is_paid_before_the_first_message_and_after_each() -> None:
    plain = time_of("all_reduce", "ring:8", "ring")
    assert time_of("all_reduce", "ring:8", "ring", endpoint_delay=1e-6) == pytest.approx(plain + 15e-6)


SHAPES = ["ring:8", "switch:8", "fullyconnected:4xswitch:2", "torus:4x2x2", "mesh:4xring:2", "dragonfly:2/2xring:4"]
EVERYWHERE = [(op, a, s) for s in SHAPES for a, ops in network.ALGORITHMS.items() for op in ops if a[:6] != "double"]


@pytest.mark.independent
@pytest.mark.parametrize(("op", "algorithm", "topology"), EVERYWHERE)
def test_bytes_are_conserved_and_no_link_is_outrun(op: str, algorithm: str, topology: str) -> None:
    """What a rank sends telescopes over the dimensions: (P - 1) / P of the buffer, twice for an all-reduce, once otherwise."""
    ranks = parse(topology).ranks
    for splits, active in ((1, 1), (4, 1), (4, 3)):
        r = collective_time(op, M, topology, algorithm, B, A, splits=splits, active_chunks=active)
        if op in ("all_reduce", "reduce_scatter", "all_gather"):
            passes = 2 if op == "all_reduce" else 1
            assert sum(r.traffic) == pytest.approx(passes * (ranks - 1) / ranks * M)
        elif algorithm == "direct":
            assert sum(r.traffic) == pytest.approx(sum((n - 1) / n * M for n in r.topology.shape))
        assert r.link_busy is not None and r.least_time * (1 - 1e-12) <= max(r.link_busy) <= r.time * (1 + 1e-12)
        assert r.phases[0].start == 0 and r.phases[-1].end == pytest.approx(r.time)
        assert [p.end for p in r.phases] == sorted(p.end for p in r.phases)


@pytest.mark.independent
@pytest.mark.parametrize(("op", "algorithm", "topology"), EVERYWHERE)
def test_time_scales_with_size_over_bandwidth_and_congestion_costs(op: str, algorithm: str, topology: str) -> None:
    base = time_of(op, topology, algorithm, latency=0.0)
    assert time_of(op, topology, algorithm, latency=0.0, size=3 * M) == pytest.approx(3 * base)
    assert base >= time_of(op, topology, algorithm, latency=0.0, congestion="unaware") * (1 - 1e-12)
    still = time_of(op, topology, algorithm, size=0.0)
    assert still > 0 and time_of(op, topology, algorithm, size=0.0, latency=2 * A) == pytest.approx(2 * still)


@pytest.mark.independent
def test_one_rank_costs_nothing() -> None:
    for name, ops in network.ALGORITHMS.items():
        for op in ops:
            for topology in ("ring:1", "switch:1xring:1", "dragonfly:1"):
                assert time_of(op, topology, name) == 0.0
            beside = time_of(op, "ring:1xring:4", name)
            assert beside == time_of(op, "ring:4", name)
    assert "0 s" in str(collective_time("all_reduce", M, "ring:1", "ring", B).explain())


@pytest.mark.independent
def test_all_reduce_over_dimensions_is_its_phases_in_turn() -> None:
    got = collective_time("all_reduce", M, "ring:4xswitch:2", "ring", (B, B / 2), (A, 2 * A))
    inner = collectives.ring_reduce_scatter(M, 4, B, A) + collectives.ring_all_gather(M, 4, B, A)
    outer = collectives.ring_all_reduce(M / 4, 2, B / 2, 4 * A)
    assert got.time == pytest.approx(inner + outer)
    whole = collective_time("all_reduce", M, "ring:4xswitch:2", "ring", (B, B / 2), (A, 2 * A), optimization="baseline")
    expected = collectives.ring_all_reduce(M, 4, B, A) + collectives.ring_all_reduce(M, 2, B / 2, 4 * A)
    assert whole.time == pytest.approx(expected)
    gather = collective_time("all_gather", M, "ring:4xswitch:2", "ring", (B, B / 2), (A, 2 * A))
    assert [p.dimension for p in gather.phases] == ["switch:2", "ring:4"]  # the small buffer crosses the outer one
    assert gather.phases[0].bytes == pytest.approx(M / 8)


@pytest.mark.independent
def test_splits_let_dimensions_work_at_the_same_time() -> None:
    """Two dimensions that each need a time T for the whole buffer: k chunks take T + T / k, without latency."""
    for k in (1, 2, 5, 50):
        # a reduce-scatter on 2 ranks sends M / 2 and then, of the M / 2 that is left, M / 4: half the bandwidth makes them equal
        r = collective_time("reduce_scatter", M, "ring:2xring:2", "ring", (B, B / 2), splits=k)
        assert r.time == pytest.approx(M / 2 / B * (1 + 1 / k))


@pytest.mark.independent
def test_two_trees_share_the_links() -> None:
    """Every rank is a leaf of one of the two trees, and the root of neither has two children."""
    from mlsysim.network.schedules import Phase, tree

    phase = Phase("all_reduce", "double_binary_tree", 0, 16, M, M)
    even, odd = tree(phase, 0), tree(phase, 1)
    for t in (even, odd):
        assert sum(len(c) for c in t.children) == 15 and t.parents.count(-1) == 1
        depth = [0] * 16
        for rank in range(16):
            up = rank
            while t.parents[up] >= 0:
                up = t.parents[up]
                depth[rank] += 1
        assert max(depth) == math.log2(16)
    assert all((not even.children[r]) != (not odd.children[r]) for r in range(16))


@pytest.mark.independent
def test_a_link_carries_one_message_at_a_time() -> None:
    """All-to-all on a ring of 5: a rank's two messages over two links and two over one load each link with 1 + 2 pieces."""
    r = collective_time("all_to_all", M, "ring:5", "direct", B)
    assert r.link_busy is not None and r.time == pytest.approx(3 * M / 5 / B) == r.link_busy[0]
    assert "  100.0 %" in str(r.explain())
    assert time_of("all_to_all", "ring:5", "direct", latency=0.0, congestion="unaware") == pytest.approx(M / 5 / B)


@pytest.mark.independent
@pytest.mark.parametrize(
    ("wiring", "links", "pieces"), [("torus:4x4", 4, 8), ("ring:16", 2, 32), ("torus:8x8", 4, 64), ("mesh:4x4", 4, 16)]
)
def test_a_direct_all_to_all_uses_all_dimensions_at_once(wiring: str, links: int, pieces: int) -> None:
    """Counted by hand: pieces on the fullest link when ties are balanced, all of which pass it one behind the other.

    On a square torus of side s a piece makes s / 4 x s^2 / (s^2 - 1) hops per dimension on average, over 2 links per rank: s^3 / 8
    pieces on each; on a ring of N, N^2 / 8; over the middle of a 4 x 4 mesh 8 ranks send to 8 others, over 4 links.
    """
    ranks, link = parse(wiring).ranks, 300e9 / links
    r = collective_time("all_to_all", 256e6, wiring, "direct", link, A)
    load = pieces * 256e6 / ranks / link
    assert load <= r.time <= load + parse(wiring).diameter * A
    assert r.time >= network.bisection_time(ranks, 256e6, parse(wiring).bisection, link) * (1 - 1e-12)


@given(
    st.sampled_from(
        [
            "torus:4x4",
            "torus:4x2",
            "mesh:4x2",
            "ring:4xswitch:3",
            "fullyconnected:3x4",
            "torus:3x3x2",
            "dragonfly:3/2xring:2",
        ]
    ),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_straight_pieces_are_never_faster_than_the_links_and_seldom_slower_than_turns(
    wiring: str, splits: int, active: int
) -> None:
    wired = parse(wiring)
    r = collective_time(
        "all_to_all", M, wiring, "direct", B, A, splits=splits, active_chunks=active, endpoint_delay=1e-6
    )
    assert r.time >= r.least_time + 2e-6
    # all bytes times hops, shared evenly by all links of a dimension
    for i, d in enumerate(wired.dimensions):
        hops = (
            sum(d.hops(0, b) for b in range(d.ranks))
            if d.rotates
            else sum(d.hops(a, b) for a in range(d.ranks) for b in range(d.ranks)) / d.ranks
        )
        mean = wired.ranks * M / wired.ranks * hops * (wired.ranks // d.ranks) / (wired.ranks // d.ranks * d.links) / B
        assert r.time >= mean * (1 - 1e-9), (wiring, i)
    in_turn = collective_time("all_to_all", M, wiring, "direct", B, A, optimization="baseline", endpoint_delay=1e-6)
    assert r.time <= in_turn.time * (1 + 1e-9)
    alone = collective_time("all_to_all", M, wiring, "direct", B, A, congestion="unaware", endpoint_delay=1e-6)
    assert alone.time == pytest.approx(wired.diameter * A + M / wired.ranks / B + 2e-6)


@pytest.mark.slow
def test_a_torus_of_the_same_bandwidth_is_not_slower_than_a_ring() -> None:
    """300 GB/s per device on every wiring: what has the wider middle is faster."""
    ring, square, cube = (
        collective_time("all_to_all", 256e6, wiring, "direct", 300e9 / links, 500e-9).time
        for wiring, links in (("ring:64", 2), ("torus:8x8", 4), ("torus:4x4x4", 6))
    )
    assert cube < square < ring


def test_results_explain_themselves() -> None:
    straight = collective_time("all_to_all", M, "torus:4x4", "direct", B, A)
    assert "all at once" in str(straight.explain()) and straight.to_dict()["sent_bytes_per_rank"] == [
        0.75 * M,
        0.75 * M,
    ]
    r = collective_time("all_reduce", M, "switch:8", "direct", B, A, congestion="unaware")
    text = str(r.explain())
    for part in ("all_reduce on switch:8, 8 ranks", "Sent per rank", "1.75 GB", "the time is below that"):
        assert part in text
    assert "<table>" in r.explain()._repr_html_()
    assert r.to_dict()["time_s"] == r.time and r.to_dict()["phases"][0]["sent_bytes"] == pytest.approx(1.75e9)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"op": "broadcast"}, "unknown op"),
        ({"algorithm": "rings"}, "did you mean 'ring'"),
        ({"algorithm": ("ring", "direct")}, "algorithm has 2 values, but ring:8 has 1 dimension;"),
        ({"bandwidth": -1.0}, "bandwidth = -1"),
        ({"latency": math.inf}, "latency = inf"),
        ({"bytes": -1.0}, "bytes = -1"),
        ({"memory_bandwidth": 0.0}, "memory_bandwidth = 0"),
        ({"splits": 2.5}, "splits = 2.5"),
        ({"active_chunks": True}, "active_chunks = True"),
        ({"congestion": "some"}, "unknown congestion"),
        ({"optimization": "none"}, "unknown optimization"),
        ({"op": "all_to_all", "algorithm": "halving_doubling"}, "use ring, direct"),
        ({"topology": "ring:6", "algorithm": "halvingDoubling"}, "power of two"),
        ({"topology": "switch:4096", "algorithm": "direct"}, "messages over links"),
        ({"op": "all_to_all", "topology": "ring:1000000"}, "messages over links"),
        ({"topology": "ring:4xring:4", "algorithm": "double_binary_tree"}, "cannot do reduce_scatter"),
    ],
)
def test_bad_input_is_named(change: dict[str, object], says: str) -> None:
    good = {"op": "all_reduce", "bytes": M, "topology": "ring:8", "algorithm": "ring", "bandwidth": B}
    with pytest.raises((InputError, UnknownNameError), match=says):
        collective_time(**(good | change))  # type: ignore[arg-type]


COMMAND = ["collective", "--op", "all_reduce", "--bytes", "1 GB", "--algorithm", "ring", "--bandwidth", "50"]


def test_the_command_on_a_topology(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*COMMAND, "--topology", "ring:4xswitch:2", "--bandwidth", "50,25", "--latency", "500,1 us"]) == 0
    assert "all_reduce of 1 GB on ring:4xswitch:2, 8 ranks: 40.01 ms" in capsys.readouterr().out
    for extra in (
        ["--algorithm", "ring,direct"],
        ["--splits", "4", "--active-chunks", "2"],
        ["--endpoint-delay", "1 us"],
    ):
        assert cli.main([*COMMAND, "--topology", "ring:4xswitch:2", "--ranks", "8", *extra]) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "give --ranks"),
        (["--ranks", "8", "--splits", "4"], "--splits needs --topology"),
        (["--ranks", "8", "--bandwidth", "50,60"], "has 2 values; without --topology there is one"),
        (["--ranks", "8", "--algorithm", "ring,ring"], "names 2"),
        (["--topology", "ring:8", "--ranks", "4"], "leave --ranks out"),
        (["--topology", "ring:8", "--overhead", "1 us"], "--endpoint-delay"),
        (["--topology", "ring:8", "--compat", "astra"], "it can be astrasim"),
        (["--topology", "ring:8", "--splits", "0"], "argument --splits: 0 must be a whole number"),
        (["--topology", "ring:8", "--splits", "many"], "not a whole number"),
        (["--topology", "ring:8", "--bandwidth", "50 GB"], "is not in GB/s"),
        (["--topology", "rng:8"], "did you mean 'ring'"),
    ],
)
def test_a_wrong_command_is_one_sentence(options: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*COMMAND, *options]) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1
