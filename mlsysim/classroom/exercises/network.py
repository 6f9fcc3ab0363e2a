"""Chapter 21, networks: objectives, and the exercises that grade them.

Every option is such that each classic mistake differs from the right answer, and from the other mistakes, by more
than the tolerance; a test walks all of them.
"""

from collections.abc import Mapping
from typing import Any

from mlsysim import collectives, network
from mlsysim._numeric import Num
from mlsysim.classroom.exercises.engine import Exercise, Given, Inputs, Mistake, Options

SLUG = "21-network"
_WAY = "Compute the time of a message over hops, and of an all-reduce over several dimensions."
_SHARED = "Say by how much links that are shared slow a pattern of messages."
_WIRED = "Compare topologies by the bandwidth of a device, to one peer, and across the middle."
_OVERLAP = "Bound a step between no overlap and all of it, and say what of its communication is exposed."

OBJECTIVES: tuple[tuple[str, str], ...] = ((_WAY, "21.1"), (_SHARED, "21.3"), (_WIRED, "21.5"), (_OVERLAP, "21.7"))

# 21.1 and 21.2 hops and dimensions


def _hops(g: Inputs) -> float:
    across, up = min(g["x"], g["width"] - g["x"]), min(g["y"], g["height"] - g["y"])
    return float(across + up)


_E1 = Exercise(
    id="21.1",
    slug=SLUG,
    title="Across a torus",
    objective=_WAY,
    points=1,
    prompt="On a torus of {width} x {height} devices, device (0, 0) sends {bytes} to device ({x}, {y}). Every link has {bandwidth} "
    "and {latency}, nobody else sends, and nodes cut the message through. How long does it take?",
    unit="s",
    options={
        "width": Options((16, 20), "1", "devices in the first dimension"),
        "height": Options((12, 16), "1", "devices in the second dimension"),
        "x": Options((13, 14), "1", "place of the receiver in the first dimension"),
        "y": Options((3, 4), "1", "place of the receiver in the second dimension"),
        "bytes": Options((0.5e6, 0.75e6), "byte", "message"),
        "bandwidth": Options((50e9, 90e9), "byte/s", "of a link, one way"),
        "latency": Options((2e-6, 3e-6), "s", "of a link"),
    },
    solve=lambda g: network.message_time(g["bytes"], _hops(g), g["bandwidth"], g["latency"]),
    mistakes=(
        Mistake(
            "long-way",
            "You went the long way in the first dimension: its ends are joined.",
            (lambda g: network.message_time(g["bytes"], float(g["x"] + g["y"]), g["bandwidth"], g["latency"]),),
        ),
        Mistake(
            "stored-at-every-node",
            "You let every node take the whole message before it sends it on. Cut through, the bytes are paid once.",
            (lambda g: _hops(g) * network.message_time(g["bytes"], 1.0, g["bandwidth"], g["latency"]),),
        ),
        Mistake(
            "one-latency",
            "Every link on the way has its {latency}.",
            (lambda g: network.message_time(g["bytes"], 1.0, g["bandwidth"], g["latency"]),),
        ),
    ),
    nudge="Count the links by the shorter way in each dimension; each costs its latency, the bytes are paid once.",
    solution="""\
g = inputs("21.1", seed=SEED)
hops = min(g["x"], g["width"] - g["x"]) + min(g["y"], g["height"] - g["y"])
answer = network.message_time(g["bytes"], float(hops), g["bandwidth"], g["latency"])""",
)


def _levels(g: Inputs) -> tuple[tuple[int, ...], tuple[float, ...]]:
    return (g["inner"], g["middle"], g["outer"]), (g["fast"], g["fair"], g["slow"])


def _three(g: Inputs) -> float:
    shape, rates = _levels(g)
    return network.rings_all_reduce(g["bytes"], shape, rates, (0.0, 0.0, 0.0))


_E2 = Exercise(
    id="21.2",
    slug=SLUG,
    title="Three dimensions",
    objective=_WAY,
    points=2,
    prompt="{bytes} are summed over rings of {inner}, then {middle}, then {outer} devices: reduce-scatter up the dimensions, all-gather "
    "down again. Their links have {fast}, {fair} and {slow}, one way; leave latency out. How long does one chunk take?",
    unit="s",
    options={
        "inner": Options((4, 8), "1", "devices in the first dimension"),
        "middle": Options((3, 6), "1", "devices in the second"),
        "outer": Options((5, 10), "1", "devices in the third"),
        "fast": Options((200e9, 300e9), "byte/s", "bandwidth of the first"),
        "fair": Options((60e9, 80e9), "byte/s", "of the second"),
        "slow": Options((20e9, 25e9), "byte/s", "of the third"),
        "bytes": Options((2e9, 5e9), "byte", "buffer of a device"),
    },
    solve=_three,
    mistakes=(
        Mistake(
            "whole-buffer",
            "You sent the whole buffer through every dimension. After a reduce-scatter only a shard goes on.",
            (
                lambda g: sum(
                    float(collectives.ring_all_reduce(g["bytes"], float(n), b))
                    for n, b in zip(*_levels(g), strict=True)
                ),
            ),
        ),
        Mistake("up-only", "That is the way up. The sum has to come down again.", (lambda g: _three(g) / 2,)),
        Mistake(
            "one-flat-ring",
            "That is one ring over all devices, as fast as its slowest link.",
            (
                lambda g: collectives.ring_all_reduce(
                    g["bytes"], float(g["inner"] * g["middle"] * g["outer"]), g["slow"]
                ),
            ),
        ),
        Mistake(
            "slowest-dimension",
            "That is the last dimension alone; the others come on top, one after the other.",
            (
                lambda g: network.dimension_all_reduce(
                    g["bytes"], float(g["inner"] * g["middle"]), float(g["outer"]), g["slow"]
                ),
            ),
        ),
    ),
    nudge="Each dimension: 2 (N - 1)/N of the shard that the inner dimensions left, over its bandwidth. Add the three.",
    solution="""\
g = inputs("21.2", seed=SEED)
shape, rates = (g["inner"], g["middle"], g["outer"]), (g["fast"], g["fair"], g["slow"])
answer = network.rings_all_reduce(g["bytes"], shape, rates, (0.0, 0.0, 0.0))""",
)

# 21.3 and 21.4 sharing


def _load(g: Inputs, hops: float | None = None, links: float = 2.0) -> Num:
    n = float(g["ranks"])
    return network.congestion(n - 1, network.ring_hops(n) if hops is None else hops, links)


_RING = Options((15, 19, 23, 27, 31, 35, 39, 43), "1", "devices on the ring")
_E3 = Exercise(
    id="21.3",
    slug=SLUG,
    title="How many to a link?",
    objective=_SHARED,
    points=1,
    prompt="Each of {ranks} devices on a ring sends a message of {piece} to every other at once, by the shorter way. How many messages "
    "pass each directed link?",
    unit="1",
    options={"ranks": _RING, "piece": Options((1e6, 2e6, 4e6, 8e6), "byte", "message")},
    solve=_load,
    mistakes=(
        Mistake(
            "one-way-round",
            "A ring has links in both directions, two for every device.",
            (lambda g: _load(g, links=1.0),),
        ),
        Mistake(
            "hops-forgotten", "A message passes several links, and counts on each.", (lambda g: _load(g, hops=1.0),)
        ),
        Mistake(
            "furthest-for-mean",
            "You let every message go as far as the furthest. Take the mean of all distances.",
            (lambda g: _load(g, hops=float(g["ranks"] // 2)),),
        ),
    ),
    nudge="Messages of a device x mean hops, over its two links.",
    solution="""\
g = inputs("21.3", seed=SEED)
n = float(g["ranks"])
answer = network.congestion(n - 1, network.ring_hops(n), links=2.0)""",
)


def _piece_time(g: Inputs, size: float = 1.0) -> float:
    return float(size * g["bytes"] / g["ranks"] / g["bandwidth"])


_E4 = Exercise(
    id="21.4",
    slug=SLUG,
    title="Everybody to everybody",
    objective=_SHARED,
    points=2,
    prompt="An all-to-all of {bytes} (what each device holds, a piece for everyone) runs on a ring of {ranks} devices with links of {bandwidth}, "
    "one way; leave latency out. Every device sends its pieces directly, by the shorter way. How long does it take at least?",
    unit="s",
    options={
        "ranks": _RING,
        "bytes": Options((1e9, 3e9), "byte", "buffer of a device"),
        "bandwidth": Options((50e9, 90e9), "byte/s", "of a link, one way"),
    },
    solve=lambda g: _load(g) * _piece_time(g),
    mistakes=(
        Mistake(
            "nobody-waits",
            "That is the time of one piece, as if no link were shared.",
            (_piece_time,),
        ),
        Mistake(
            "full-device",
            "You gave every device all the others at its full bandwidth, as a switch would.",
            (
                lambda g: (g["ranks"] - 1) * _piece_time(g),
                lambda g: (g["ranks"] - 1) * _piece_time(g) / 2,
            ),
        ),
        Mistake(
            "buffer-for-piece",
            "A message is a piece of the buffer, one for each of {ranks} devices.",
            (lambda g: _load(g) * _piece_time(g) * g["ranks"],),
        ),
        Mistake("one-way-round", "A ring has links both ways round.", (lambda g: 2 * _load(g) * _piece_time(g),)),
    ),
    nudge="Messages per link, times the time of one piece on a link.",
    solution="""\
g = inputs("21.4", seed=SEED)
n = float(g["ranks"])
answer = network.congestion(n - 1, network.ring_hops(n), 2.0) * g["bytes"] / n / g["bandwidth"]""",
)

# 21.5 and 21.6 the same devices wired differently


def _middle(g: Inputs, cut: float, share: float = 1.0) -> Num:
    return share * network.bisection_time(g["bytes"], float(g["long"] * g["short"]), cut, g["bandwidth"])


_E5 = Exercise(
    id="21.5",
    slug=SLUG,
    title="Across the middle",
    objective=_WIRED,
    points=2,
    prompt="An all-to-all of {bytes} (what each device holds) runs on a torus of {long} x {short} devices with links of {bandwidth}, one way. "
    "How long do the bytes need at least to cross its middle?",
    unit="s",
    options={
        "long": Options((14, 18, 22, 26), "1", "devices in the longer dimension"),
        "short": Options((4, 6, 10), "1", "devices in the shorter dimension"),
        "bytes": Options((1e9, 3e9), "byte", "buffer of a device"),
        "bandwidth": Options((50e9, 90e9), "byte/s", "of a link, one way"),
    },
    solve=lambda g: _middle(g, 2.0 * g["short"]),
    mistakes=(
        Mistake(
            "twice",
            "Twice too long: the rings of a torus are cut in two places, a mesh in one; and of a device's bytes half stay in its half.",
            (lambda g: _middle(g, 1.0 * g["short"]),),
        ),
        Mistake(
            "wrong-cut",
            "You cut across the shorter rings; there are fewer links the other way.",
            (lambda g: _middle(g, 2.0 * g["long"]),),
        ),
        Mistake(
            "both-ways",
            "A link carries one direction at {bandwidth}; the other half's bytes have the links back.",
            (lambda g: _middle(g, 4.0 * g["short"]),),
        ),
        Mistake(
            "everybody-sends-everything",
            "Half of the devices send a half of their bytes this way.",
            (lambda g: _middle(g, 2.0 * g["short"], 4.0),),
        ),
    ),
    nudge="A half of the devices sends a half of its bytes; two links of every ring along the longer dimension carry them.",
    solution="""\
g = inputs("21.5", seed=SEED)
links = network.parse(f"torus:{g['long']}x{g['short']}").bisection
answer = network.bisection_time(g["bytes"], float(g["long"] * g["short"]), float(links), g["bandwidth"])""",
)
_E6 = Exercise(
    id="21.6",
    slug=SLUG,
    title="For one peer",
    objective=_WIRED,
    points=1,
    prompt="A datasheet says {printed} for all links of a device, both directions together. {ranks} such devices are all connected with each "
    "other, without a switch. At which bandwidth does one send to one other?",
    unit="byte/s",
    options={
        "printed": Options((600e9, 900e9, 1200e9, 1500e9, 1800e9, 2400e9, 3000e9, 3600e9), "byte/s", "as printed"),
        "ranks": Options((4, 6, 7, 9), "1", "devices"),
    },
    solve=lambda g: network.peer_bandwidth(g["printed"] / 2, float(g["ranks"])),
    mistakes=(
        Mistake(
            "both-directions",
            "{printed} counts both directions; one sends at half of it.",
            (lambda g: network.peer_bandwidth(g["printed"], float(g["ranks"])),),
        ),
        Mistake(
            "a-share-for-itself",
            "A device has no link to itself: there is one peer fewer than devices.",
            (lambda g: g["printed"] / 2 / g["ranks"],),
        ),
        Mistake("all-links", "That is the bandwidth of all its links together.", (lambda g: g["printed"] / 2,)),
    ),
    nudge="One way, over the number of the others.",
    solution="""\
g = inputs("21.6", seed=SEED)
answer = network.peer_bandwidth(g["printed"] / 2, float(g["ranks"]))""",
    tolerance=0.005,
)

# 21.7 and 21.8 overlap


def _total(chosen: Mapping[str, Any]) -> float:
    compute, communication = chosen["compute"], chosen["communication"]
    return float(compute + communication - chosen["hidden"] * min(compute, communication))


def _step(chosen: Mapping[str, Any]) -> Mapping[str, Given | None]:
    return {"total": Given(_total(chosen), "s", "time of the step"), "hidden": None}


_STEP = {
    "compute": Options((0.060, 0.085, 0.110), "s", "time of computing"),
    "communication": Options((0.036, 0.049, 0.145), "s", "time of communicating"),
    "hidden": Options((0.3, 0.4, 0.7, 0.8), "1", "share that is hidden"),
}
_E7 = Exercise(
    id="21.7",
    slug=SLUG,
    title="What shows",
    objective=_OVERLAP,
    points=1,
    prompt="A device computes for {compute} of a training step and communicates for {communication}; the step takes {total}. How long does it "
    "wait for communication without computing?",
    unit="s",
    options=_STEP,
    derive=_step,
    solve=lambda g: network.exposed_communication(g["total"], g["compute"]),
    mistakes=(
        Mistake(
            "all-communication",
            "That is all of its communication. Some of it runs while the device computes.",
            (lambda g: g["communication"],),
        ),
        Mistake(
            "what-is-hidden",
            "That is what is hidden. The rest shows.",
            (lambda g: g["compute"] + g["communication"] - g["total"],),
        ),
        Mistake(
            "other-stream",
            "That is how long it does not communicate.",
            (lambda g: g["total"] - g["communication"],),
        ),
    ),
    nudge="The step, less the time in which the device computes.",
    solution="""\
g = inputs("21.7", seed=SEED)
answer = network.exposed_communication(g["total"], g["compute"])""",
)
_E8 = Exercise(
    id="21.8",
    slug=SLUG,
    title="Of what could be hidden",
    objective=_OVERLAP,
    points=2,
    prompt="A device computes for {compute} of a training step and communicates for {communication}; the step takes {total}. Which share of what "
    "could be hidden is hidden?",
    unit="1",
    options=_STEP,
    derive=_step,
    solve=lambda g: network.hidden_share(g["total"], g["compute"], g["communication"]),
    mistakes=(
        Mistake(
            "over-the-longer",
            "No more than the shorter of the two can be hidden; that is what to divide by.",
            (
                lambda g: (g["compute"] + g["communication"] - g["total"]) / max(g["compute"], g["communication"]),
                lambda g: (g["compute"] + g["communication"] - g["total"]) / g["total"],
            ),
        ),
        Mistake(
            "what-shows",
            "That is the share that still shows.",
            (lambda g: 1 - network.hidden_share(g["total"], g["compute"], g["communication"]),),
        ),
    ),
    nudge="(computing + communicating - step) over the shorter of computing and communicating.",
    solution="""\
g = inputs("21.8", seed=SEED)
answer = network.hidden_share(g["total"], g["compute"], g["communication"])""",
)

EXERCISES: tuple[Exercise, ...] = (_E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8)
