"""Messages between devices: collectives step by step, who is wired to whom, and which way the bytes go."""

import math

from mlsysim.course.pictures.machines.devices import format_quantity
from mlsysim.drawing.scenes import Arrow, Box, Frames, Piece, Point, Scene, Shape, Words, around, bar
from mlsysim.errors import InputError
from mlsysim.network.schedules import Phase, message_count
from mlsysim.network.topology import Topology

_MOST = 8  # devices that a drawing can tell apart


def _ranks(name: str, n: int, least: int = 2) -> None:
    if not least <= n <= _MOST:
        raise InputError(f"{name}: {n} devices; a drawing tells {least} to {_MOST} apart")


def ring_held(ranks: int) -> list[list[list[set[int]]]]:
    """What each device holds of each piece before and after every step of a ring all-reduce: whose shares are in the sum.

    >>> [len(piece) for piece in ring_held(4)[-1][0]]
    [4, 4, 4, 4]
    """
    held = [[{rank} for _ in range(ranks)] for rank in range(ranks)]
    states = [held]
    for step in range(2 * (ranks - 1)):
        new = [list(row) for row in held]
        for rank in range(ranks):
            piece = (rank - step) % ranks if step < ranks - 1 else (rank + 1 - (step - ranks + 1)) % ranks
            new[(rank + 1) % ranks][piece] = held[(rank + 1) % ranks][piece] | held[rank][piece]
        held = new
        states.append(held)
    return states


def ring_all_reduce(ranks: int = 4) -> Frames:
    """A ring all-reduce, step by step: the pieces that travel, and how full each sum is."""
    _ranks("ring_all_reduce", ranks, 3)
    states = ring_held(ranks)
    assert len(states) - 1 == message_count(Phase("all_reduce", "ring", 0, ranks, float(ranks), float(ranks)))
    centres = around(ranks, 200, 178, 118)
    scenes, says = [], []
    for step, held in enumerate(states):
        shapes: list[Shape] = []
        for rank, (x, y) in enumerate(centres):
            nx, ny = centres[(rank + 1) % ranks]
            if step:
                piece = (rank - step + 1) % ranks if step < ranks else (rank + 1 - (step - ranks)) % ranks
                far = math.dist((x, y), (nx, ny))
                ux, uy = (nx - x) / far, (ny - y) / far
                cut = 46.0
                ends = [(x + cut * ux, y + cut * uy), (nx - cut * ux, ny - cut * uy)]
                shapes.append(Arrow(ends, "abcdefgh"[piece], "network", 4, beside=(10 * uy, -10 * ux)))
            shapes.append(Box(x - 40, y - 30, 80, 60, f"{rank}", rounded=True, at="top"))
            for piece, shares in enumerate(held[rank]):
                wide = 68 / ranks
                tall = 26 * len(shares) / ranks
                full = len(shares) == ranks
                shapes.append(Box(x - 34 + piece * wide, y + 24 - tall, wide - 2, tall, kind="memory", full=full))
        done = sum(len(s) == ranks for row in held for s in row)
        scenes.append(Scene(shapes, f"A ring of {ranks} devices after step {step}", tall=340))
        if step == 0:
            says.append(f"Each of {ranks} devices holds its own gradient, cut into {ranks} pieces. Nobody has a sum.")
        elif step < ranks:
            says.append(f"Step {step}: each hands one piece to its right neighbour, which adds it to its own.")
        else:
            says.append(
                f"Step {step}: each hands on a finished piece; {done} of {ranks * ranks} places hold the whole sum."
            )
    return Frames(scenes, says, f"A ring all-reduce of {ranks} devices in {len(states) - 1} steps")


def tree_all_reduce() -> Scene:
    """Seven devices as a tree: sums go up, the result comes down, in as many steps as the tree is high."""
    places = {0: (200, 34), 1: (104, 112), 2: (296, 112), 3: (56, 190), 4: (152, 190), 5: (248, 190), 6: (344, 190)}
    shapes: list[Shape] = []
    for child in range(1, 7):
        (x, y), (px, py) = places[child], places[(child - 1) // 2]
        shapes.append(Arrow([(x, y - 18), (px + (6 if x > px else -6), py + 19)], kind="network", width=2, both=True))
    shapes += [Box(x - 22, y - 18, 44, 36, f"{n}", rounded=True) for n, (x, y) in places.items()]
    shapes += [Words(8, 34, "sums go up,\nthe result comes down", "start", 12)]
    return Scene(
        shapes,
        "Seven devices in a binary tree; arrows between each and its parent, up with sums and down with the result.",
    )


def tree_sends(ranks: int) -> list[list[tuple[int, int]]]:
    """Step by step, who sends its sum to whom in a binomial tree towards rank 0.

    >>> tree_sends(4)
    [[(1, 0), (3, 2)], [(2, 0)]]
    """
    steps, far = [], 1
    while far < ranks:
        steps.append([(low + far, low) for low in range(0, ranks, 2 * far) if low + far < ranks])
        far *= 2
    return steps


def binomial_tree(ranks: int = 8) -> Scene:
    """A sum on its way up a binomial tree, step by step: half of the devices send and are done, the other half go on."""
    _ranks("binomial_tree", ranks, 3)
    xs = [84 + 296 * i / (ranks - 1) for i in range(ranks)]
    held = dict.fromkeys(range(ranks), 1)
    shapes: list[Shape] = [Words(8, 12, "numbers: how many devices are in the sum", "start", 12)]
    y = 44.0
    steps = tree_sends(ranks)
    for at, sends in enumerate([*steps, []]):
        for rank, shares in held.items():
            full = shares == ranks
            shapes.append(Box(xs[rank] - 14, y - 13, 28, 26, f"{shares}", "memory", rounded=True, full=full, size=12))
        for sender, receiver in sends:
            shapes.append(Arrow([(xs[sender], y + 13), (xs[receiver] + 7, y + 43)], kind="network", width=2))
        if sends:
            shapes.append(Words(8, y + 28, f"step {at + 1}", "start", 12))
        for sender, receiver in sends:
            held[receiver] += held.pop(sender)
        y += 56.0
    return Scene(
        shapes,
        f"{ranks} devices in a row, and below them the {len(steps)} steps of a tree: in each, every second device sends its sum to a "
        f"neighbour and is done, until the first holds all {ranks}.",
    )


def hierarchical_all_reduce(nodes: int = 2, per_node: int = 4) -> Scene:
    """All-reduce in two levels: inside each node first, then the same piece across nodes, then inside again."""
    if not (2 <= nodes <= 3 and per_node == 4):
        raise InputError(f"hierarchical_all_reduce: {nodes} nodes of {per_node}; a drawing shows 2 or 3 of 4")
    shapes: list[Shape] = []
    for node in range(nodes):
        y = 16 + 92.0 * node
        shapes.append(Box(60, y, 332, 62, rounded=True))
        shapes.append(Words(8, y + 31, f"node {node}", "start", 12))
        for i in range(per_node):
            x = 76 + 80.0 * i
            shapes.append(Box(x, y + 14, 52, 34, f"{node * per_node + i}", rounded=True))
            if i:
                shapes.append(Arrow([(x - 28, y + 31), (x, y + 31)], kind="network", width=5, both=True))
            if node:
                shapes.append(Arrow([(x + 26, y + 14), (x + 26, y - 44)], kind="network", width=1.6, both=True))
    bottom = 16 + 92.0 * nodes
    shapes.append(Words(60, bottom, "wide arrows: all of it, inside the node", "start", 12))
    shapes.append(Words(60, bottom + 18, f"thin ones: a {per_node}th of it each, between nodes", "start", 12))
    return Scene(
        shapes,
        f"{nodes} nodes of {per_node} devices: wide arrows inside each node, thin ones between devices of the same place in two nodes.",
    )


def in_switch_all_reduce(ranks: int = 4) -> Scene:
    """The switch adds: every device sends once and receives once."""
    _ranks("in_switch_all_reduce", ranks)
    gap = 384 / ranks
    shapes: list[Shape] = [Box(110, 20, 180, 46, "switch, which adds", "network", rounded=True)]
    for i in range(ranks):
        x = 8 + gap * (i + 0.5)
        at = 120 + 160 * (i + 0.5) / ranks
        shapes.append(Arrow([(x - 6, 150), (at - 6, 66)], kind="network", width=2.5))
        shapes.append(Arrow([(at + 8, 66), (x + 8, 150)], kind="memory", width=2.5))
        shapes.append(Box(x - 28, 150, 56, 36, f"{i}", rounded=True))
    shapes += [
        Words(8, 44, "up: my share", "start", 12, "network"),
        Words(392, 44, "down: the sum", "end", 12, "memory"),
    ]
    return Scene(shapes, f"{ranks} devices below a switch; each sends its share up once and gets the sum down once.")


def all_to_all(ranks: int = 4) -> Scene:
    """Every device sends another piece to every other: a transposition of a table."""
    _ranks("all_to_all", ranks, 3)
    side = 150 / ranks
    names = "abcdefgh"
    shapes: list[Shape] = [Words(87, 14, "before"), Words(313, 14, "after")]
    for rank in range(ranks):
        for piece in range(ranks):
            kinds = ("compute", "memory", "network", "other", "extra", "waiting", "plain", "plain")
            y = 28 + rank * side
            one, two = f"{names[rank]}{piece}", f"{names[piece]}{rank}"
            shapes.append(Box(12 + piece * side, y, side, side, one, kinds[rank], size=12))
            shapes.append(Box(238 + piece * side, y, side, side, two, kinds[piece], size=12))
    shapes.append(Arrow([(172, 103), (228, 103)], "", "network", 5))
    shapes.append(Words(200, 84, "all-to-all", size=12))
    shapes.append(Words(200, 196, "a row is what one device holds", size=12))
    return Scene(
        shapes,
        f"Two tables of {ranks} by {ranks} pieces; rows are devices. After the all-to-all the table is transposed.",
    )


def _places(made: Topology) -> tuple[dict[int, Point], dict[int, Point]]:
    """Where ranks, and switches (below zero), stand."""
    first = made.dimensions[0]
    if len(made.dimensions) == 2:
        columns, rows = made.shape
        dx, dy = min(84.0, 330 / max(1, columns - 1)), min(64.0, 220 / max(1, rows - 1))
        grid = {r: (36 + dx * (r % columns), 34 + dy * (r // columns)) for r in range(made.ranks)}
        return grid, {}
    if first.kind == "mesh":
        return {r: (26 + 348 * r / max(1, made.ranks - 1), 40.0) for r in range(made.ranks)}, {}
    if first.kind == "switch":
        below = {r: (26 + 348 * r / max(1, made.ranks - 1), 120.0) for r in range(made.ranks)}
        return below, {-1: (200.0, 30.0)}
    if first.kind == "dragonfly" and not first.hosts:
        centres = around(first.groups, 200, 150, 100)
        per = first.routers
        return {g * per + i: p for g, (x, y) in enumerate(centres) for i, p in enumerate(around(per, x, y, 34))}, {}
    return dict(enumerate(around(made.ranks, 200, 140, 112))), {}


def message_life(start: float, size: float, bandwidth: float) -> Scene:
    """What a message costs: a start that does not depend on its size, then its bytes one behind another."""
    both = start + size / bandwidth
    pieces = [
        Piece(f"start\n{format_quantity(start, 's')}", start, "waiting"),
        Piece(f"bytes\n{format_quantity(size / bandwidth, 's')}", both - start, "network"),
    ]
    shapes: list[Shape] = [*bar(20, 40, 360, 48, pieces)]
    shapes.append(
        Words(20, 22, f"{format_quantity(size, 'byte')} over {format_quantity(bandwidth, 'byte/s')}", "start")
    )
    shapes.append(Arrow([(20, 104), (380, 104)], f"time: {format_quantity(both, 's')}", beside=(0, 14)))
    return Scene(
        shapes,
        f"A bar of time: {format_quantity(start, 's')} to start, then {format_quantity(both - start, 's')} for the bytes.",
    )
