"""Networks drawn from their topology: who is wired to whom, how far it is, what a link carries, and phases in time."""

import math
from collections.abc import Sequence
from itertools import pairwise

from mlsysim import network, units
from mlsysim.drawing.scenes import Arrow, Box, Curve, Point, Scene, Shape, Stretch, Words, around, tracks
from mlsysim.errors import InputError
from mlsysim.network import topology
from mlsysim.network.timing import NetworkTime
from mlsysim.network.topology import Topology

GALLERY = ("ring:8", "mesh:8", "fullyconnected:8", "switch:8", "torus:4x4", "ring:4xswitch:2")
_DOT = 12.0


def wirings(texts: Sequence[str] = GALLERY) -> Scene:
    """Small wirings beside one another, each with its links, its longest way, and its links across the middle."""
    if not 2 <= len(texts) <= 6:
        raise InputError(f"wirings: {len(texts)} topologies; a drawing shows 2 to 6")
    shapes: list[Shape] = []
    said = []
    for i, text in enumerate(texts):
        made = topology.parse(text)
        if made.ranks > 16:
            raise InputError(f"wirings: {text} has {made.ranks} ranks; a small drawing shows at most 16")
        x, y = 2 + 200.0 * (i % 2), 4 + 192.0 * (i // 2)
        shapes += _panel(made, x, y)
        facts = f"{made.links} links, {made.diameter} hops,\n{made.bisection} across the middle"
        shapes += [Words(x + 97, y + 10, text, bold=True), Words(x + 97, y + 166, facts, size=12)]
        said.append(f"{text} has " + facts.replace("\n", " "))
    return Scene(shapes, "Small networks, devices as dots: " + "; ".join(said) + ".")


def _panel(made: Topology, x: float, y: float) -> list[Shape]:
    """One wiring in a room of 194 by 148: cables, switches, devices."""
    shapes: list[Shape] = []
    one = made.dimensions[0]
    places: dict[int, Point]
    if len(made.dimensions) == 2:
        columns, rows = made.shape
        dx, dy = 124 / max(1, columns - 1), 84 / max(1, rows - 1)
        places = {r: (x + 35 + dx * (r % columns), y + 44 + dy * (r // columns)) for r in range(made.ranks)}
    elif one.kind == "mesh":
        places = {r: (x + 14 + 166 * r / (made.ranks - 1), y + 84) for r in range(made.ranks)}
    elif one.kind == "switch":
        places = {r: (x + 14 + 166 * r / (made.ranks - 1), y + 126) for r in range(made.ranks)}
    else:
        places = dict(enumerate(around(made.ranks, x + 97, y + 85, 56)))
    for at, dimension in enumerate(made.dimensions):
        stride = made.stride(at)
        for rank in range(made.ranks):
            own = made.address(rank)[at]
            base = rank - own * stride
            if dimension.kind == "switch":
                if own:
                    continue
                group = [places[base + i * stride] for i in range(dimension.ranks)]
                middle = sum(p[0] for p in group) / len(group), sum(p[1] for p in group) / len(group)
                if len(made.dimensions) == 1:
                    middle = x + 97, y + 52
                shapes += [Arrow([p, middle], kind="network", width=1.4, head=False) for p in group]
                shapes.append(Box(middle[0] - 13, middle[1] - 9, 26, 18, kind="network"))
                continue
            for a, b in sorted(dimension.edges()):
                if own == a and a < b:
                    shapes.append(
                        _cable(
                            places[base + a * stride],
                            places[base + b * stride],
                            abs(b - a) > 1 and len(made.dimensions) > 1,
                        )
                    )
    for px, py in places.values():
        shapes.append(Box(px - _DOT / 2, py - _DOT / 2, _DOT, _DOT, kind="compute", rounded=True, full=True))
    return shapes + _middle(made, x, y)  # fmt: skip


def _cable(p: Point, q: Point, bowed: bool) -> Shape:
    """A cable; one that joins the ends of a row or a column runs round those between."""
    if not bowed:
        return Arrow([p, q], kind="network", width=1.4, head=False)
    far = 15.0
    if abs(p[1] - q[1]) < 1:
        return Arrow([p, (p[0] + 8, p[1] - far), (q[0] - 8, q[1] - far), q], kind="network", width=1.4, head=False)
    return Arrow([p, (p[0] + far, p[1] + 8), (q[0] + far, q[1] - 8), q], kind="network", width=1.4, head=False)


def _middle(made: Topology, x: float, y: float) -> list[Shape]:
    """A dashed line between the two halves."""
    if len(made.dimensions) == 1 and made.dimensions[0].kind == "switch":
        return [Curve([(x + 62, y + 32), (x + 97, y + 146)], "waiting", 1.5, True)]
    if len(made.dimensions) == 1 and made.dimensions[0].kind == "mesh":
        return [Curve([(x + 97, y + 60), (x + 97, y + 108)], "waiting", 1.5, True)]
    # a little to the side, past the devices at the top and the bottom of a circle
    lean = 20.0 if len(made.dimensions) == 1 else 0.0
    return [Curve([(x + 97 + lean, y + 22), (x + 97 - lean, y + 148)], "waiting", 1.5, True)]


def dragonfly_route(groups: int = 4, routers: int = 3, hosts: int = 2) -> Scene:
    """A dragonfly with its ranks, and the longest way that its routes take, hop by hop."""
    made = topology.dragonfly(groups, routers, hosts)
    if not (2 <= groups <= 5 and 2 <= routers <= 4 and 1 <= hosts <= 2):
        raise InputError(
            f"dragonfly_route: {groups}/{routers}/{hosts}; a drawing shows 2 to 5 groups of 2 to 4 routers with 1 or 2 ranks"
        )
    way = max((made.route(0, r) for r in range(made.ranks)), key=len)
    places: dict[int, Point] = {}
    for g, (cx, cy) in enumerate(around(groups, 200, 178, 104)):
        for i, p in enumerate(around(routers, cx, cy, 27)):
            router = made.ranks + g * routers + i
            places[router] = p
            out = math.atan2(p[1] - cy, p[0] - cx)
            for h in range(hosts):
                turn = out + (h - (hosts - 1) / 2) * 0.75
                places[(g * routers + i) * hosts + h] = (p[0] + 27 * math.cos(turn), p[1] + 27 * math.sin(turn))
    shapes: list[Shape] = [
        Arrow([places[a], places[b]], kind="network", width=1.3, head=False) for a, b in sorted(made.edges()) if a < b
    ]
    for a, b in pairwise(way):
        shapes.append(Arrow([places[a], places[b]], kind="other", width=4, head=False))
    for node, (px, py) in places.items():
        if node >= made.ranks:
            shapes.append(Box(px - 8, py - 8, 16, 16, kind="network"))
        else:
            own = node in (way[0], way[-1])
            kind = "other" if own else "compute"
            shapes.append(Box(px - 5.5, py - 5.5, 11, 11, kind=kind, rounded=True, full=True))
    low = max(s.room[3] for s in shapes)
    facts = f"{groups} groups of {routers} routers, {hosts} ranks on each; the thick way has {len(way) - 1} hops"
    shapes.append(Words(200, low + 24, facts.replace("; ", ";\n"), size=12))
    return Scene(
        shapes,
        f"A dragonfly of {facts}: rank to router, to the router with the cable, to the other group, to the router of the receiver, to the rank.",
    )


def fat_tree(text: str = "fattree:4") -> Scene:
    """A wide switch made of small ones: ranks, pods of two layers of switches, and switches that join the pods.

    Parameters
    ----------
    text : str
        The fat tree, of at most 16 ranks and not oversubscribed.
    """
    made = topology.parse(text)
    tree = made.dimensions[0]
    if made.shape != (tree.ranks,) or tree.kind != "fattree" or tree.oversubscription != 1 or tree.ranks > 16:
        raise InputError(
            f"fat_tree: {text} is no single fat tree of at most 16 ranks without oversubscription; give one, as fattree:4"
        )
    n, half = made.ranks, tree.radix // 2
    lower = tree.radix * half
    counts = {"edge": lower, "upper": lower, "core": half * half}
    rows = {"core": 30.0, "upper": 96.0, "edge": 162.0}
    ranks = [(8 + 384 * (r + 0.5) / n, 216.0) for r in range(n)]
    nodes = [(8 + 384 * (i + 0.5) / counts[kind], rows[kind]) for kind in counts for i in range(counts[kind])]
    places = [*ranks, *nodes]
    cables = sorted((a, b) for a, b in tree.edges() if a < b)
    way = tree.route(0, n - 1)
    shapes: list[Shape] = [Arrow([places[a], places[b]], kind="network", width=1.3, head=False) for a, b in cables]
    shapes += [Arrow([places[a], places[b]], kind="other", width=4, head=False) for a, b in pairwise(way)]
    shapes += [Box(x - 11, y - 9, 22, 18, kind="network") for x, y in nodes]
    for node, (x, y) in enumerate(ranks):
        own = node in (0, n - 1)
        shapes.append(Box(x - 5.5, y - 5.5, 11, 11, kind="other" if own else "compute", rounded=True, full=True))
    facts = (
        f"{tree.switches} switches of {tree.radix} ports; {tree.bisection} cables to each half, as in switch:{n};\n"
        f"{tree.diameter} hops at most, where one switch has {topology.Dimension('switch', n).diameter}"
    )
    shapes.append(Words(200, 248, facts, size=12))
    return Scene(
        shapes,
        f"A fat tree of {n} ranks: "
        + facts.replace("\n", " ")
        + ". The thick way climbs three layers and comes down again.",
    )


def cut_through(hops: int = 4, latency: float = 1.0, transfer: float = 6.0) -> Scene:
    """A message over several links: passed on while it still comes, or stored at every node first."""
    if not 2 <= hops <= 5 or min(latency, transfer) <= 0:
        raise InputError(f"cut_through: {hops} hops; a drawing shows 2 to 5, with times above 0")
    cut = float(network.message_time(transfer, float(hops), 1.0, latency))
    stored = hops * float(network.message_time(transfer, 1.0, 1.0, latency))
    shapes: list[Shape] = []
    top = 12.0
    for name, total, lag in (("cut through", cut, latency), ("stored at every node", stored, latency + transfer)):
        rows: list[tuple[str, list[Stretch]]] = []
        for i in range(hops):
            start = i * lag
            rows.append(
                (
                    f"link {i + 1}",
                    [
                        Stretch(start, start + latency, "", "waiting"),
                        Stretch(start + latency, start + latency + transfer, "", "network"),
                    ],
                )
            )
        shapes.append(Words(56, top, f"{name}: {total:g}", "start", bold=True))
        shapes += tracks(0, top + 12, 396, rows, until=stored, height=18, gap=4, names=56)
        top += 26 + 22.0 * hops
    shapes.append(
        Words(56, top + 2, f"grey: {latency:g} for each link; orange: {transfer:g} for the bytes", "start", 12)
    )
    return Scene(
        shapes,
        f"A message over {hops} links in time. Cut through, each link starts {latency:g} after the one before and all ends at {cut:g}; stored at every node it ends at {stored:g}.",
        tall=top + 16,
    )


def ring_distances(ranks: int = 8) -> Scene:
    """How far everybody is from one rank of a ring, and how many messages a link carries if everybody sends to everybody."""
    if not 4 <= ranks <= 12:
        raise InputError(f"ring_distances: {ranks} ranks; a drawing shows 4 to 12")
    ring = topology.Dimension("ring", ranks)
    hops = [ring.hops(0, r) for r in range(ranks)]
    spots = around(ranks, 112, 118, 86)
    shapes: list[Shape] = []
    for a, b in zip(spots, [*spots[1:], spots[0]], strict=True):
        shapes.append(Arrow([a, b], kind="network", width=2, head=False))
    for r, (x, y) in enumerate(spots):
        own = r == 0
        shapes.append(
            Box(x - 15, y - 15, 30, 30, "from" if own else str(hops[r]), "other" if own else "compute", True, size=12 if own else 14)
        )  # fmt: skip
    passed = sum(hops) * ranks
    lines = [
        f"hops from one rank: {sum(hops)}",
        f"from all {ranks}: {passed}",
        f"links, one way each: {ring.links}",
        f"messages on a link: {passed / ring.links:g}",
    ]
    for i, line in enumerate(lines):
        shapes.append(Words(222, 74 + 28.0 * i, line, "start", 13, bold=i == 3))
    return Scene(
        shapes,
        f"A ring of {ranks}: the others are {', '.join(map(str, hops[1:]))} hops away, {sum(hops)} together; {passed} for all ranks, over {ring.links} links, so {passed / ring.links:g} messages on each.",
        tall=222,
    )


def phases_in_time(results: Sequence[tuple[str, NetworkTime]]) -> Scene:
    """Phases of collectives, one below the other: which dimension works when, for one and the same axis of time."""
    if not 1 <= len(results) <= 3 or any(not 1 <= len(r.phases) <= 6 for _, r in results):
        raise InputError("phases_in_time: give 1 to 3 collectives of 1 to 6 phases each")
    kinds = ("compute", "memory", "network", "other")
    names = {"reduce_scatter": "reduce-scatter", "all_reduce": "all-reduce", "all_gather": "all-gather"}
    end = max(r.time for _, r in results)
    shapes: list[Shape] = []
    top = 12.0
    said = []
    for title, r in results:
        time = units.format(r.time, "s", 3)
        shapes.append(Words(8, top, f"{title}: {time}", "start", bold=True))
        dims = [str(d) for d in r.topology.dimensions]
        order = _dimension_of_phases(r)
        rows = [
            (
                f"{names.get(p.op, p.op)}, {at + 1}",
                [Stretch(p.start, p.end, units.format(p.sent, "byte", 2), kinds[at % 4])],
            )
            for p, at in zip(r.phases, order, strict=True)
        ]
        shapes += tracks(0, top + 12, 396, rows, until=end, height=20, gap=3, names=122, size=12)
        top += 32 + 23.0 * len(rows)
        said.append(f"{title} on {' x '.join(dims)} takes {time}")
    shapes.append(Words(8, top, "number: the dimension; in a bar: what a rank sends", "start", 12))
    return Scene(shapes, "Phases of an all-reduce in time, a row each: " + "; ".join(said) + ".", tall=top + 14)


def _dimension_of_phases(r: NetworkTime) -> list[int]:
    """Phases of an all-reduce go up the dimensions and down again."""
    working = [i for i, d in enumerate(r.topology.dimensions) if d.ranks > 1]
    n = len(r.phases)
    if n == 2 * len(working) - 1:
        return [*working, *working[-2::-1]] if len(working) > 1 else working
    if n == len(working):
        return working
    raise InputError(
        f"phases_in_time: {n} phases over {len(working)} dimensions; give an all-reduce or one of its halves"
    )
