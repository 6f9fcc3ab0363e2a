"""Chapter 04, communication: objectives, and the exercises that grade them.

Every option is such that each classic mistake differs from the right answer, and from the other mistakes, by more
than the tolerance; a test walks all of them.
"""

import math
from collections.abc import Mapping
from typing import Any

from mlsysim import catalog, collectives, units
from mlsysim._numeric import Num
from mlsysim.classroom.exercises.engine import Exercise, Given, Inputs, Mistake, Options

SLUG = "04-communication"
_TIME = "Compute the time of a collective, and name what binds it: latency or bandwidth."
_CHOOSE = "Choose an algorithm by the size of the buffer and the number of ranks."
_MEASURE = "Convert a measured time into bus bandwidth, and tell when the switch did the sum."
_LEVELS = "Compare a hierarchy with a flat ring on a cluster of nodes."
_TRAFFIC = "Price the traffic of tensor and of expert parallelism."

OBJECTIVES: tuple[tuple[str, str], ...] = (
    (_TIME, "04.1"),
    (_CHOOSE, "04.3"),
    (_MEASURE, "04.5"),
    (_LEVELS, "04.7"),
    (_TRAFFIC, "04.8"),
)

_TWO_WAY = (
    "You used the bandwidth of both directions together. Every rank sends and receives at the same time, and the "
    "figure that counts is the one of a single direction."
)
_BITS = "The adapter's rate is in Gbit/s. Eight bits are one byte."


def _wire(chosen: Mapping[str, Any]) -> dict[str, Given | None]:
    """An adapter's rate in bit/s, shown as its datasheet does, and the same as bytes for the answer."""
    gigabit = chosen["gigabit"]
    return {"gigabit": None, "adapter": Given(f"{gigabit:g} Gbit/s", "", "rate of one adapter, one way, per device")}


def _bandwidth(g: Inputs) -> float:
    return units.parse(g["adapter"], "byte/s")


# 04.1 a ring over the network


def _ring(g: Inputs, bandwidth: float = 1.0, latency: float = 1.0) -> Num:
    return collectives.ring_all_reduce(g["bytes"], g["ranks"], _bandwidth(g) * bandwidth, g["latency"] * latency)


_RING_OPTIONS = {
    "bytes": Options((96e6, 48e6, 192e6, 384e6), "byte", "size of the gradients on each rank"),
    "ranks": Options((32, 24, 48, 128), "1", "devices that take part"),
    "gigabit": Options((400, 200, 800), "1", "rate of the adapter"),
    "latency": Options((10e-6, 5e-6, 20e-6), "s", "cost of one step"),
}

_E1 = Exercise(
    id="04.1",
    slug=SLUG,
    title="How long is the all-reduce?",
    objective=_TIME,
    points=2,
    prompt="{ranks} devices, each with an adapter of {adapter} one way, sum {bytes} of gradients around a ring. One step "
    "costs {latency} besides its bytes. How long does the all-reduce take, in seconds (or as text, like '1.5 ms')?",
    unit="s",
    options=_RING_OPTIONS,
    derive=_wire,
    solve=_ring,
    mistakes=(
        Mistake("bits", _BITS, (lambda g: _ring(g, bandwidth=8.0),)),
        Mistake("two-way", _TWO_WAY, (lambda g: _ring(g, bandwidth=2.0),)),
        Mistake(
            "one-phase",
            "That is one of its two halves. After the reduce-scatter every rank holds one piece of the sum; the others "
            "still have to be gathered.",
            (
                lambda g: collectives.ring_reduce_scatter(g["bytes"], g["ranks"], _bandwidth(g), g["latency"]),
                lambda g: collectives.ring_all_gather(g["bytes"], g["ranks"], _bandwidth(g), g["latency"]),
            ),
        ),
        Mistake(
            "uncut",
            "You sent the whole buffer in every step. A ring cuts it into one piece per rank, and a step moves one piece.",
            (lambda g: 2 * (g["ranks"] - 1) * (g["bytes"] / _bandwidth(g) + g["latency"]),),
        ),
        Mistake(
            "one-step",
            "You charged the latency once for each half. Every one of the 2 (N - 1) steps costs it.",
            (lambda g: _ring(g, latency=0.0) + 2 * g["latency"], lambda g: _ring(g, latency=0.0) + g["latency"]),
        ),
        Mistake(
            "once-over-the-wire",
            "That is the time to send the buffer once to one neighbour.",
            (lambda g: collectives.transfer_time(g["bytes"], _bandwidth(g), g["latency"]),),
        ),
    ),
    nudge="A reduce-scatter and an all-gather, each of N - 1 steps; each step moves an N-th of the buffer and costs one "
    "latency.",
    solution="""\
g = inputs("04.1", seed=SEED)
bandwidth = units.parse(g["adapter"], "byte/s")
answer = collectives.ring_all_reduce(g["bytes"], g["ranks"], bandwidth, g["latency"])""",
    tolerance=0.004,
)


# 04.2 where latency stops to matter


def _half(g: Inputs, pieces: float | None = None, bandwidth: float = 1.0) -> Num:
    return collectives.half_size(_bandwidth(g) * bandwidth, g["latency"], g["ranks"] if pieces is None else pieces)


_E2 = Exercise(
    id="04.2",
    slug=SLUG,
    title="From which size on does bandwidth bind?",
    objective=_TIME,
    points=1,
    prompt="The same kind of ring: {ranks} devices, {adapter} one way, {latency} per step. For which size of the buffer "
    "do latency and bandwidth cost the same, in bytes (or as text, like '3 MB')?",
    unit="byte",
    options={
        "ranks": Options((16, 32, 64, 128, 48), "1", "devices that take part"),
        "gigabit": Options((400, 100, 200, 800), "1", "rate of the adapter"),
        "latency": Options((14e-6, 6e-6, 30e-6), "s", "cost of one step"),
    },
    derive=_wire,
    solve=_half,
    mistakes=(
        Mistake("bits", _BITS, (lambda g: _half(g, bandwidth=8.0),)),
        Mistake(
            "one-message",
            "That is the size of a single message. A ring cuts the buffer into {ranks} pieces, and it is the piece that "
            "has to be that large.",
            (lambda g: _half(g, pieces=1.0),),
        ),
        Mistake(
            "factor-two",
            "Both halves of the all-reduce have the same steps, so the 2 stands on both sides and falls out. So does a "
            "second direction: only one counts.",
            (lambda g: _half(g, bandwidth=2.0), lambda g: _half(g, bandwidth=0.5)),
        ),
        Mistake(
            "squared",
            "You multiplied by the number of ranks twice: once as pieces, once as steps. Both terms have the same steps.",
            (lambda g: _half(g, pieces=g["ranks"] * (g["ranks"] - 1)), lambda g: _half(g, pieces=g["ranks"] ** 2)),
        ),
    ),
    nudge="Set the time of one piece, M / (N x bandwidth), equal to the latency of one step.",
    solution="""\
g = inputs("04.2", seed=SEED)
bandwidth = units.parse(g["adapter"], "byte/s")
answer = collectives.half_size(bandwidth, g["latency"], pieces=g["ranks"])""",
)


# 04.3 ring or tree


def _tree(g: Inputs) -> Num:
    return collectives.tree_all_reduce(g["bytes"], g["ranks"], g["bandwidth"], g["latency"])


def _fast(g: Inputs) -> Num:
    ring = collectives.ring_all_reduce(g["bytes"], g["ranks"], g["bandwidth"], g["latency"])
    return ring / _tree(g)


def _messages(g: Inputs, function: Any) -> Num:
    return function(g["bytes"], g["ranks"], g["bandwidth"], g["latency"])


_E3 = Exercise(
    id="04.3",
    slug=SLUG,
    title="Ring or tree?",
    objective=_CHOOSE,
    points=2,
    prompt="{ranks} devices all-reduce {bytes} over links of {bandwidth} one way, {latency} per step. A ring and a "
    "binomial tree that does not cut the buffer are at hand. How many times as long as the tree does the ring take "
    "(below 1 when the ring is faster)?",
    unit="1",
    options={
        "bytes": Options((64e3, 1e6, 16e6, 256e6), "byte", "size of the buffer"),
        "ranks": Options((64, 128, 256, 1024), "1", "devices that take part"),
        "bandwidth": Options((50e9, 25e9), "byte/s", "one way, per device"),
        "latency": Options((14e-6, 5e-6), "s", "cost of one step"),
    },
    solve=_fast,
    mistakes=(
        Mistake(
            "upside-down",
            "That is the tree's time over the ring's. The question asks the other way round.",
            (lambda g: 1 / _fast(g),),
        ),
        Mistake(
            "natural-logarithm",
            "A binomial tree doubles the ranks that it reaches in every step: the logarithm is to base 2.",
            (lambda g: _fast(g) / math.log(2),),
        ),
        Mistake(
            "up-only",
            "Your tree goes up and not down again (or your ring stops halfway). Both need two passes.",
            (lambda g: 2 * _fast(g), lambda g: _fast(g) / 2),
        ),
        Mistake(
            "steps-only",
            "You compared the numbers of steps. A step of the tree moves the whole buffer, one of the ring an N-th of it.",
            (lambda g: (g["ranks"] - 1) / math.log2(g["ranks"]),),
        ),
    ),
    nudge="The ring takes 2 (N - 1) steps of M / N bytes, the tree 2 log2 N steps of M bytes.",
    solution="""\
g = inputs("04.3", seed=SEED)
four = g["bytes"], g["ranks"], g["bandwidth"], g["latency"]
answer = collectives.ring_all_reduce(*four) / collectives.tree_all_reduce(*four)""",
)


# 04.4 halving and doubling


def _halving(g: Inputs) -> Num:
    return _messages(g, collectives.halving_doubling_all_reduce)


_E4 = Exercise(
    id="04.4",
    slug=SLUG,
    title="Halving and doubling",
    objective=_CHOOSE,
    points=1,
    prompt="{ranks} devices behind one switch all-reduce {bytes} by recursive halving and doubling, {bandwidth} one way "
    "and {latency} per step. How long does it take, in seconds?",
    unit="s",
    options={
        "bytes": Options((12e6, 2e6, 24e6), "byte", "size of the buffer"),
        "ranks": Options((16, 8, 32), "1", "devices that take part"),
        "bandwidth": Options((25e9, 100e9), "byte/s", "one way, per device"),
        "latency": Options((14e-6, 10e-6, 20e-6), "s", "cost of one step"),
    },
    solve=_halving,
    mistakes=(
        Mistake(
            "ring",
            "Those are the steps of a ring, one for every rank. Halving and doubling needs log2 N for each half.",
            (lambda g: _messages(g, collectives.ring_all_reduce),),
        ),
        Mistake(
            "tree",
            "Those are the bytes of a tree, the whole buffer in every step. Here a step exchanges a half, then a quarter, "
            "and so on: (N - 1) / N of the buffer in all.",
            (lambda g: _messages(g, collectives.tree_all_reduce),),
        ),
        Mistake(
            "pipelined-tree",
            "You moved the whole buffer once for each half. The pieces add up to (N - 1) / N of it: what a rank keeps, it "
            "does not send.",
            (lambda g: _messages(g, collectives.pipelined_tree_all_reduce),),
        ),
        Mistake(
            "direct",
            "You counted one latency for each half, as if everybody talked to everybody at once. Partners come one after "
            "the other.",
            (lambda g: _messages(g, collectives.direct_all_reduce),),
        ),
        Mistake(
            "half",
            "That is one of its two halves: the reduce-scatter, or the all-gather.",
            (lambda g: _halving(g) / 2,),
        ),
    ),
    nudge="log2 N steps down and as many up; the sizes are M/2, M/4, M/8 …",
    solution="""\
g = inputs("04.4", seed=SEED)
answer = collectives.halving_doubling_all_reduce(g["bytes"], g["ranks"], g["bandwidth"], g["latency"])""",
    tolerance=0.004,
)


# 04.5 bus bandwidth


def _bus(g: Inputs, phases: float | None = None) -> Num:
    wanted = {"all-reduce": 2.0, "all-gather": 1.0, "reduce-scatter": 1.0}[g["operation"]]
    return collectives.bus_bandwidth(g["bytes"], g["time"], g["ranks"], wanted if phases is None else phases)


def _took(chosen: Mapping[str, Any]) -> dict[str, Given | None]:
    phases = 2 if chosen["operation"] == "all-reduce" else 1
    n = chosen["ranks"]
    exact = phases * (n - 1) / n * chosen["bytes"] / (chosen["reached"] * 450e9)
    return {"reached": None, "time": Given(float(f"{exact:.4g}"), "s", "measured time")}


_E5 = Exercise(
    id="04.5",
    slug=SLUG,
    title="What would nccl-tests print?",
    objective=_MEASURE,
    points=2,
    prompt="An {operation} of {bytes} over {ranks} devices takes {time}. For the halves of an all-reduce, the size is "
    "that of the whole buffer. Which bus bandwidth is that, in bytes per second (or as text, like '200 GB/s')?",
    unit="byte/s",
    options={
        "operation": Options(("all-reduce", "all-gather", "reduce-scatter"), "", "what is measured"),
        "bytes": Options((8e9, 1e9, 2e9), "byte", "size of the whole buffer"),
        "ranks": Options((8, 4, 6), "1", "devices that take part"),
        "reached": Options((0.81, 0.77, 0.84), "1", "share of the wire"),
    },
    derive=_took,
    solve=_bus,
    mistakes=(
        Mistake(
            "algorithm-bandwidth",
            "That is the algorithm bandwidth, size over time. It cannot be held against the wire, because it falls as "
            "ranks are added.",
            (lambda g: g["bytes"] / g["time"],),
        ),
        Mistake(
            "phases",
            "The factor 2 belongs to the all-reduce, which scatters and gathers, and to nothing else.",
            (lambda g: _bus(g, phases=1.0 if g["operation"] == "all-reduce" else 2.0),),
        ),
        Mistake(
            "inverted-factor",
            "The factor (N - 1) / N is upside down: a rank sends less than the buffer, not more.",
            (lambda g: _bus(g) * (g["ranks"] / (g["ranks"] - 1)) ** 2,),
        ),
        Mistake(
            "shard",
            "You took the size for one rank's share. For nccl-tests it is that of the whole buffer.",
            (lambda g: _bus(g) * g["ranks"], lambda g: _bus(g) / g["ranks"]),
        ),
    ),
    nudge="Size over time, times the number of phases, times (N - 1) / N.",
    solution="""\
g = inputs("04.5", seed=SEED)
phases = 2 if g["operation"] == "all-reduce" else 1
answer = collectives.bus_bandwidth(g["bytes"], g["time"], g["ranks"], phases)""",
)


# 04.6 above the wire


def _wire_of(g: Inputs) -> float:
    return catalog.link(g["link"]).bandwidth


def _ceiling(g: Inputs) -> Num:
    time = collectives.in_switch_all_reduce(1e9, g["ranks"], _wire_of(g))
    return collectives.bus_bandwidth(1e9, time, g["ranks"])


_E6 = Exercise(
    id="04.6",
    slug=SLUG,
    title="Above the wire",
    objective=_MEASURE,
    points=2,
    prompt="A switch sums the all-reduce of {ranks} devices with {link}. Bus bandwidth keeps its definition. What is the "
    "largest that can be printed, at full wire and without latency, in bytes per second?",
    unit="byte/s",
    options={
        "link": Options(("NVLink-4", "NVLink-5"), "", "link of the catalogue, one way"),
        "ranks": Options((8, 6, 7, *range(9, 24)), "1", "devices that take part"),
    },
    solve=_ceiling,
    mistakes=(
        Mistake(
            "wire",
            "That is the wire, the ceiling of a ring. With the sum in the switch fewer bytes cross it than the definition "
            "assumes.",
            (_wire_of,),
        ),
        Mistake(
            "twice",
            "That is twice the wire, the limit for very many ranks (or the two-way figure of the link).",
            (lambda g: 2 * _wire_of(g),),
        ),
        Mistake(
            "sends-n",
            "You let each rank send its buffer exactly once. The owner of a piece also passes the sum back to the switch: "
            "N + 1 pieces cross the cable, not N.",
            (lambda g: 2 * (g["ranks"] - 1) / g["ranks"] * _wire_of(g),),
        ),
        Mistake(
            "algorithm-bandwidth",
            "That is the algorithm bandwidth, size over time. Multiply by 2 (N - 1) / N, as nccl-tests does.",
            (lambda g: 1e9 / collectives.in_switch_all_reduce(1e9, g["ranks"], _wire_of(g)),),
        ),
    ),
    nudge="Time of any size with the sum in the switch, then the definition of bus bandwidth. The size falls out.",
    solution="""\
g = inputs("04.6", seed=SEED)
time = collectives.in_switch_all_reduce(1e9, g["ranks"], catalog.link(g["link"]).bandwidth)
answer = collectives.bus_bandwidth(1e9, time, g["ranks"])""",
)


# 04.7 two levels


def _levels(g: Inputs, network: float = 1.0, inside: float = 1.0) -> Num:
    node = catalog.node(g["node"])
    return collectives.hierarchical_all_reduce(
        g["bytes"], node.devices, g["nodes"], node.scale_up_bandwidth * inside, node.scale_out_bandwidth * network
    )


def _flat(g: Inputs) -> Num:
    node = catalog.node(g["node"])
    return collectives.ring_all_reduce(g["bytes"], node.devices * g["nodes"], node.scale_out_bandwidth)


def _between(g: Inputs, share: bool = True) -> Num:
    node = catalog.node(g["node"])
    size = g["bytes"] / (node.devices if share else 1)
    return collectives.ring_all_reduce(size, g["nodes"], node.scale_out_bandwidth)


def _within(g: Inputs) -> Num:
    node = catalog.node(g["node"])
    return collectives.ring_all_reduce(g["bytes"], node.devices, node.scale_up_bandwidth)


_E7 = Exercise(
    id="04.7",
    slug=SLUG,
    title="What does the hierarchy save?",
    objective=_LEVELS,
    points=3,
    prompt="{nodes} nodes of the kind {node} all-reduce {bytes}. Compare one flat ring over all devices, at the bandwidth "
    "that a device has out of its node, with the three phases of a hierarchy, one after the other. Leave out latency. "
    "How many times faster is the hierarchy?",
    unit="1",
    options={
        "node": Options(("DGX-H100", "DGX-A100", "P6-B200", "H800-node", "P5en"), "", "node of the catalogue"),
        "nodes": Options((4, 6, 12, 16, 32), "1", "number of nodes"),
        "bytes": Options((8e9, 16e9, 2e9), "byte", "size of the gradients on each device"),
    },
    solve=lambda g: _flat(g) / _levels(g),
    mistakes=(
        Mistake(
            "network-only",
            "You left out the two phases inside the node. They are short, not free.",
            (lambda g: _flat(g) / _between(g),),
        ),
        Mistake(
            "whole-buffer",
            "You sent the whole buffer between the nodes. After the first phase each device holds only its share of it.",
            (lambda g: _flat(g) / (_within(g) + _between(g, share=False)),),
        ),
        Mistake(
            "one-phase-inside",
            "Inside the node there are two phases: scatter before, gather after.",
            (lambda g: _flat(g) / (_within(g) / 2 + _between(g)),),
        ),
        Mistake(
            "bandwidth-ratio",
            "That is the ratio of the two bandwidths. The hierarchy gains because all devices of a node share the network, "
            "not because the node is fast.",
            (lambda g: catalog.node(g["node"]).bandwidth_ratio,),
        ),
        Mistake(
            "upside-down",
            "That is the hierarchy's time over the ring's. The question asks the other way round.",
            (lambda g: _levels(g) / _flat(g),),
        ),
    ),
    nudge="Scatter inside, all-reduce an eighth between the nodes, gather inside. The flat ring moves nearly the whole "
    "buffer twice through every adapter.",
    solution="""\
g = inputs("04.7", seed=SEED)
node = catalog.node(g["node"])
inside, outside = node.scale_up_bandwidth, node.scale_out_bandwidth
flat = collectives.ring_all_reduce(g["bytes"], node.devices * g["nodes"], outside)
answer = flat / collectives.hierarchical_all_reduce(g["bytes"], node.devices, g["nodes"], inside, outside)""",
)


# 04.8 tensor parallelism


def _tensor(g: Inputs, element_bytes: float = 2.0, all_reduces: float | None = None, bandwidth: float = 1.0) -> Num:
    node = catalog.node(g["node"])
    count = {"kept": 4.0, "recomputed": 6.0}[g["activations"]] if all_reduces is None else all_reduces
    return collectives.tensor_parallel_time(
        g["layers"],
        g["sequence"],
        g["batch"],
        g["hidden"],
        g["ranks"],
        node.scale_up_bandwidth * bandwidth,
        0.0,
        count,
        element_bytes,
    )


def _other(g: Inputs) -> float:
    return 6.0 if g["activations"] == "kept" else 4.0


_E8 = Exercise(
    id="04.8",
    slug=SLUG,
    title="What does tensor parallelism send?",
    objective=_TRAFFIC,
    points=2,
    prompt="A model of {layers} layers and width {hidden} trains on {ranks} devices of one {node} by tensor parallelism, "
    "in BF16, with micro-batches of {batch} sequences of {sequence} tokens; all activations are {activations} for the "
    "backward pass. How long do the ring all-reduces of one micro-batch take in all, at full wire and without latency, "
    "in seconds?",
    unit="s",
    options={
        "layers": Options((96, 80, 48), "1", "layers"),
        "hidden": Options((12288, 8192, 6144), "1", "width"),
        "sequence": Options((2048, 4096), "1", "tokens of a sequence"),
        "batch": Options((2, 4), "1", "sequences of a micro-batch"),
        "ranks": Options((8, 6), "1", "tensor-parallel devices"),
        "node": Options(("DGX-A100", "DGX-H100"), "", "node of the catalogue"),
        "activations": Options(("kept", "recomputed"), "", "what happens to the activations"),
    },
    solve=_tensor,
    mistakes=(
        Mistake(
            "half",
            "You have half of it. A BF16 number has two bytes, a rank sends in one direction at a time, and the backward "
            "pass communicates as much as the forward passes before it: one of these is missing.",
            (
                lambda g: _tensor(g, element_bytes=1.0),
                lambda g: _tensor(g, bandwidth=2.0),
                lambda g: _tensor(g, all_reduces=(10.0 - _other(g)) / 2),
            ),
        ),
        Mistake(
            "recomputation",
            "Count the all-reduces of a layer again: two forward and two backward, and two more where the forward pass "
            "is run a second time.",
            (lambda g: _tensor(g, all_reduces=_other(g)),),
        ),
        Mistake(
            "sharded",
            "You divided the activations by the number of devices. An all-reduce sums the whole of them on every device.",
            (lambda g: _tensor(g) / g["ranks"],),
        ),
        Mistake(
            "algorithm",
            "You sent the buffer once per all-reduce. A ring sends nearly twice its size.",
            (lambda g: _tensor(g) * g["ranks"] / (2 * (g["ranks"] - 1)),),
        ),
    ),
    nudge="The size of one all-reduce is sequence x batch x width x 2 bytes; how many are there in all layers?",
    solution="""\
g = inputs("04.8", seed=SEED)
per_layer = 4 if g["activations"] == "kept" else 6
wire = catalog.node(g["node"]).scale_up_bandwidth
answer = collectives.tensor_parallel_time(
    g["layers"], g["sequence"], g["batch"], g["hidden"], g["ranks"], wire, 0.0, per_layer
)""",
)


# 04.9 experts


def _dispatch(g: Inputs, remote: float | None = None, token_bytes: float | None = None, network: float = 1.0) -> Num:
    node = catalog.node("H800-node")
    return collectives.moe_dispatch(
        g["tokens"],
        g["hidden"] * 1.0 if token_bytes is None else token_bytes,
        g["remote_nodes"] if remote is None else remote,
        g["experts"],
        node.scale_out_bandwidth * network,
        node.scale_up_bandwidth,
    )


_E9 = Exercise(
    id="04.9",
    slug=SLUG,
    title="Tokens to their experts",
    objective=_TRAFFIC,
    points=2,
    prompt="Each device of a cluster of H800-node holds {tokens} tokens of width {hidden} and dispatches them in FP8 "
    "(one byte per number; leave out scales) to {experts} experts each, on {remote_nodes} other nodes on average. A "
    "token crosses the network once for every node and is copied on over NVLink inside it. Both levels run as a "
    "pipeline, without latency. How long does the dispatch take, in seconds?",
    unit="s",
    options={
        "tokens": Options((4096, 8192, 2048, 1024), "1", "tokens on each device"),
        "hidden": Options((7168, 5120, 4096), "1", "width of a token"),
        "experts": Options((8, 6), "1", "experts of a token, each on another device"),
        "remote_nodes": Options((3.5, 3.2, 2.5), "1", "other nodes that a token goes to, on average"),
    },
    solve=_dispatch,
    mistakes=(
        Mistake(
            "every-copy",
            "You sent every copy over the network. It crosses once per node, and NVLink makes the copies.",
            (lambda g: _dispatch(g, remote=g["experts"]),),
        ),
        Mistake(
            "sum",
            "You added the two levels. As a pipeline they overlap: the slower one sets the time.",
            (lambda g: _dispatch(g) + collectives.transfer_time(g["tokens"] * g["hidden"] * g["experts"], 200e9),),
        ),
        Mistake(
            "bf16",
            "FP8 has one byte per number; you took two (or one direction for both).",
            (lambda g: _dispatch(g, token_bytes=2.0 * g["hidden"]), lambda g: _dispatch(g, network=2.0)),
        ),
        Mistake("bits", _BITS, (lambda g: g["tokens"] * g["hidden"] * g["remote_nodes"] / 400e9,)),
        Mistake(
            "plain-all-to-all",
            "That is an all-to-all of one copy of each token over all nodes. A token goes to several.",
            (lambda g: collectives.all_to_all(g["tokens"] * g["hidden"], 1e6, 50e9),),
        ),
    ),
    nudge="Bytes over the network: tokens x width x other nodes. Bytes over NVLink: tokens x width x experts. Which takes "
    "longer?",
    solution="""\
g = inputs("04.9", seed=SEED)
node = catalog.node("H800-node")
answer = collectives.moe_dispatch(
    g["tokens"], g["hidden"], g["remote_nodes"], g["experts"], node.scale_out_bandwidth, node.scale_up_bandwidth
)""",
)

EXERCISES = (_E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9)
