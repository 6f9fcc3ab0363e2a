"""Chakra traces: the bytes against the wire format, the nodes against the program, the replay against the schedule."""

import json
import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import PROGRAMS

from mlsysim import catalog, hlo
from mlsysim.cli import main
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.hlo import chakra
from mlsysim.hlo.chakra import Node, Trace, TraceSet, encoding, files, schema, steps
from mlsysim.hlo.chakra.lowering import _Ranks
from mlsysim.hlo.estimators.pricing import running
from mlsysim.hlo.fusing.fusion import Kernel
from mlsysim.hlo.fusing.items import Collective
from mlsysim.hlo.fusing.slicing import Region
from mlsysim.hlo.reader.program import Program
from mlsysim.network.astrasim import GB

LINKS = hlo.Links(catalog.device("A100").scale_up_bandwidth)
PER_DEVICE = sorted(n for n in PROGRAMS if not n.endswith(".ann"))
TRAINING = sorted(n for n in PER_DEVICE if "train" in n)

# A loop of three turns with an all-reduce in its body, and a permute behind it that leaves out the last rank.
LOOP = """
module @loop attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<512x512xf32>) -> tensor<512x512xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %first = stablehlo.dot_general %arg0, %arg0, contracting_dims = [1] x [0] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %out:2 = stablehlo.while(%i = %zero, %x = %first) : tensor<i32>, tensor<512x512xf32>
     cond {
      %c = stablehlo.compare LT, %i, %three, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
      %s = "stablehlo.all_reduce"(%y) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %ab = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %ab : tensor<f32>
      }) : (tensor<512x512xf32>) -> tensor<512x512xf32>
      %n = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %n, %s : tensor<i32>, tensor<512x512xf32>
    }
    %p = "stablehlo.collective_permute"(%out#1) <{source_target_pairs = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>}> : (tensor<512x512xf32>) -> tensor<512x512xf32>
    %last = stablehlo.dot_general %p, %p, contracting_dims = [1] x [0] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    return %last : tensor<512x512xf32>
  }
}
"""


def load(name: str) -> Program:
    return hlo.read(PROGRAMS[name])


@pytest.fixture(scope="module")
def loop() -> Program:
    return hlo.parse(LOOP)


# The wire format, read without protobuf


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def raw(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Fields of a message as the encoding defines them: number, wire type, and a number or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        wire = key & 7
        value: int | bytes
        if wire == 0:
            value, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(wire)
            if size is None:
                size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        yield key >> 3, wire, value


def framed(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size, at = varint(data, at)
        yield data[at : at + size]
        at += size


def packed(value: int | bytes) -> list[int]:
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        one, at = varint(value, at)
        found.append(one)
    return found


@pytest.mark.independent
def test_a_small_trace_byte_by_byte() -> None:
    """Written by hand from the encoding's rules: key = number * 8 + wire type, then a varint or a length and bytes."""
    node = Node(1, "g", "COMM_COLL_NODE", 300, (0,), (), {"comm_type": 2, "is_cpu_op": False, "pg_name": "7"})
    trace = Trace((Node(0, "c", "COMP_NODE", 2), node), {}, "0.0.4")
    metadata = b"\x0a\x050.0.4"  # field 1, 5 bytes
    compute = b"\x12\x01c\x18\x04\x38\x02"  # name, type 4, 2 us; an id of 0 is not written
    collective = (
        b"\x08\x01\x12\x01g\x18\x07\x2a\x01\x00\x38\xac\x02"  # id, name, type 7, packed data_deps, 300 us
        b"\x52\x0d\x0a\x09comm_type\x48\x02"  # attr: name, int64_val is field 9
        b"\x52\x0e\x0a\x09is_cpu_op\xd8\x01\x00"  # bool_val is field 27; false, but set
        b"\x52\x0d\x0a\x07pg_name\xea\x01\x017"  # string_val is field 29
    )
    by_hand = b"".join(bytes([len(m)]) + m for m in (metadata, compute, collective))
    assert b"".join(chakra.encode(trace)) == by_hand
    assert chakra.decode(by_hand) == trace


@pytest.mark.independent
def test_numbers_of_the_fields_follow_the_public_schema() -> None:
    """A few of them as the schema prints them."""
    numbers = {f.name: f.number for f in schema.VALUES}
    assert (numbers["double_val"], numbers["int64_val"], numbers["uint64_val"], numbers["bool_list"]) == (3, 9, 13, 28)
    assert (numbers["string_val"], numbers["bytes_list"], len(numbers)) == (29, 32, 30)
    assert (schema.NODE_TYPES.index("COMP_NODE"), schema.COLLECTIVES.index("REDUCE_SCATTER")) == (4, 7)


@pytest.mark.independent
@pytest.mark.parametrize("split", ["linear", "dependency"])
@pytest.mark.parametrize("name", TRAINING)
def test_the_file_read_without_protobuf_is_the_program(name: str, split: str, tmp_path: Path) -> None:
    program = load(name)
    found = hlo.estimate(program, "A100", split)
    paths = chakra.write(chakra.trace(program, "A100", split), tmp_path)
    messages = list(framed(paths[0].read_bytes()))
    nodes = []
    for message in messages[1:]:
        fields = list(raw(message))
        node = {n: v for n, _, v in fields if n in (1, 3, 7)}
        deps = [d for n, _, v in fields if n == 5 for d in packed(v)]
        attributes = {}
        for n, _, value in fields:
            if n == 10:
                assert isinstance(value, bytes)
                one = {k: v for k, _, v in raw(value)}
                key = one[1]
                assert isinstance(key, bytes)
                attributes[key.decode()] = one[next(k for k in one if k > 2)]
        nodes.append((node.get(1, 0), node[3], tuple(deps), attributes))
    # no loop of these communicates: a region is a node, or a chain of the messages that a compiler would join
    ends: list[int] = []
    at = 0
    for region in found.parts:
        parts = max(1, len(steps.messages(region)))
        assert nodes[at][2] == tuple(ends[d] for d in region.after)
        assert [deps for _, _, deps, _ in nodes[at + 1 : at + parts]] == [(n,) for n in range(at, at + parts - 1)]
        assert {kind for _, kind, _, _ in nodes[at : at + parts]} == {{"compute": 4, "comm": 7}[region.kind]}
        at += parts
        ends.append(at - 1)
    assert at == len(nodes)
    sizes: Counter[str] = Counter()
    for _, kind, _, attributes in nodes:
        if kind == 7:
            number = attributes["comm_type"]
            size = attributes["comm_size"]
            assert isinstance(number, int) and isinstance(size, int)
            sizes[schema.COLLECTIVES[number].lower()] += size
    said: Counter[str] = Counter()
    for m in found.collectives:
        said[m.op] += m.bytes * m.count
    assert sizes == said


@pytest.mark.independent
def test_sizes_are_what_goes_in_on_one_rank() -> None:
    """Fully sharded on 8: an all-gather takes a shard, a reduce-scatter all of it; the other way is a factor of 8."""
    found = hlo.estimate(load("tf1l_train_fsdp8.gpuopt_a100_sxm_40"), "A100")
    by = {m.op: m for m in found.collectives}
    nodes = chakra.trace(load("tf1l_train_fsdp8.gpuopt_a100_sxm_40"), "A100").ranks[0].nodes
    gathers = [n.attributes["comm_size"] for n in nodes if n.collective == "all_gather"]
    scatters = [n.attributes["comm_size"] for n in nodes if n.collective == "reduce_scatter"]
    assert [8 * g for g in gathers if isinstance(g, int)] == [by["all_gather"].output_bytes]
    total = sum(m.output_bytes * m.count for m in found.collectives if m.op == "reduce_scatter")
    assert sum(s for s in scatters if isinstance(s, int)) == 8 * total


# Ranks, groups and permutes


@pytest.mark.independent
def test_every_rank_finds_its_own_groups() -> None:
    """2 x 4 devices: rows of four for tensors, columns of two for data."""
    traces = chakra.trace(load("tf1l_train_dp2tp4.spmd"), "A100")
    assert set(traces.groups.values()) == {(0, 1, 2, 3), (4, 5, 6, 7), (0, 4), (1, 5), (2, 6), (3, 7)}
    assert min(traces.groups) == 1  # 0 is everybody
    for rank, trace in enumerate(traces.ranks):
        assert all(rank in traces.groups[n.group] for n in trace.nodes if n.collective)
    # the same collectives in the same order, whatever the rank
    kinds = {tuple((n.type, n.attributes.get("comm_size")) for n in t.nodes) for t in traces.ranks}
    assert len(kinds) == 1


def test_a_permute_is_a_send_and_a_receive() -> None:
    traces = chakra.trace(load("sm_coll"), "A100")
    pairs = {0: 1, 1: 2, 2: 3, 3: 0, 4: 5, 5: 6, 6: 7, 7: 4}
    for rank, trace in enumerate(traces.ranks):
        sends = [n for n in trace.nodes if n.type == "COMM_SEND_NODE"]
        receives = [n for n in trace.nodes if n.type == "COMM_RECV_NODE"]
        assert [(n.attributes["comm_src"], n.attributes["comm_dst"]) for n in sends] == [(rank, pairs[rank])]
        assert [n.attributes["comm_src"] for n in receives] == [{v: k for k, v in pairs.items()}[rank]]
        assert sends[0].id < receives[0].id and sends[0].attributes["comm_size"] == 8 * 16 * 4
        after = [n for n in trace.nodes if sends[0].id in n.data_deps]
        assert after and all(receives[0].id in n.data_deps for n in after)


def test_a_rank_that_a_permute_leaves_out_waits_for_what_it_waited_for(loop: Program) -> None:
    traces = chakra.trace(loop, "A100")
    assert [sum(n.type.startswith("COMM_S") for n in t.nodes) for t in traces.ranks] == [1, 1, 0, 0]
    assert [sum(n.type.startswith("COMM_R") for n in t.nodes) for t in traces.ranks] == [0, 1, 1, 0]
    last = traces.ranks[3].nodes[-1]
    assert "all_reduce" in {traces.ranks[3].nodes[d].collective for d in last.data_deps}


# Loops


@pytest.mark.independent
def test_a_loop_that_communicates_is_written_out(loop: Program) -> None:
    """One region before; three turns of the product, its sum over ranks and the counter; the permute's send; one behind."""
    found = hlo.estimate(loop, "A100")
    assert [r.kind for r in found.parts] == ["compute", "loop", "comm", "compute"]
    traces = chakra.trace(loop, "A100")
    nodes = traces.ranks[0].nodes
    assert len(nodes) == 1 + 3 * 3 + 1 + 1
    assert sum(n.collective == "all_reduce" for n in nodes) == 3
    # turn by turn: what begins a turn waits for what ends the one before, and says that this is the order only
    later = [n for n in nodes if "@1." in n.name]
    ends = {n.id for n in nodes if "@0." in n.name} - {d for n in nodes if "@0." in n.name for d in n.data_deps}
    begins = [n for n in later if n.ctrl_deps]
    assert begins and all(set(n.ctrl_deps) == ends == set(n.data_deps) for n in begins)
    assert all(set(n.data_deps) & {m.id for m in later} for n in later if not n.ctrl_deps)
    replayed = chakra.replay(traces, LINKS, ranks=[0])
    assert math.isclose(replayed.time, hlo.estimate(loop, "A100", network=LINKS).timeline.total, rel_tol=1e-12)


def test_a_loop_that_is_too_long_is_refused_before_it_is_unrolled(loop: Program) -> None:
    with pytest.raises(InputError, match=r"loops unrolled is 12, more than the 8 .* communicate outside of loops"):
        chakra.trace(loop, "A100", max_nodes=8)
    body = (Region("compute", (), ()),)
    endless = [Region("loop", (), (), body, 10**15)]
    with pytest.raises(InputError, match="1,000,000,000,000,000"):
        steps.unroll(endless, lambda r: 0.0)


@settings(max_examples=40, deadline=None)
@given(st.data())
@pytest.mark.slow
def test_any_loops_replay_as_they_are_scheduled(data: st.DataObject) -> None:
    """Against ``hlo.schedule``, which never unrolls: regions, loops and loops in loops with any dependencies."""
    from mlsysim.hlo.schedule import schedule

    message = Collective("all_reduce", (), (), 10**6, 10**6, ((0, 1),), 2)
    times: dict[int, float] = {}

    def regions(depth: int) -> tuple[Region, ...]:
        made: list[Region] = []
        for i in range(data.draw(st.integers(1, 4))):
            after = tuple(sorted(data.draw(st.sets(st.integers(0, i - 1), max_size=2)))) if i else ()
            kind = data.draw(st.sampled_from(["compute", "comm", "loop"][: 3 if depth else 2]))
            if kind == "loop":
                made.append(Region("loop", (), after, regions(depth - 1), data.draw(st.integers(1, 3))))
                continue
            made.append(Region(kind, (message,) if kind == "comm" else (None,), after))  # type: ignore[arg-type]
            times[id(made[-1])] = data.draw(st.integers(1, 9)) * 1e-3
        return tuple(made)

    top = regions(2)

    def seconds(r: Region) -> float:
        return 2e-3 if r.kind == "comm" else times[id(r)]

    class Ranks(_Ranks):
        def attributes(self, step: steps.Step) -> dict[str, chakra.nodes.Value]:
            return {schema.SECONDS: step.seconds}

    unrolled = steps.unroll(top, seconds)
    traces = Ranks("drawn", unrolled, 2, None).traces({})
    total = schedule(top, seconds).total
    assert math.isclose(chakra.replay(traces, lambda c: 2e-3).time, total, rel_tol=1e-9)


# Replay


@pytest.mark.slow
@pytest.mark.independent
@pytest.mark.parametrize("split", ["linear", "dependency"])
@pytest.mark.parametrize("name", PER_DEVICE)
def test_a_trace_replays_to_the_schedule_of_its_program(name: str, split: str, tmp_path: Path) -> None:
    program = load(name)
    found = hlo.estimate(program, "A100", split, network=LINKS)
    written = chakra.trace(program, "A100", split)
    chakra.write(written, tmp_path, "step")
    traces = chakra.load(tmp_path, "step")
    assert traces.ranks == written.ranks and traces.groups == written.groups
    alone, all_of_them = chakra.replay(traces, LINKS, ranks=[0]).time, chakra.replay(traces, LINKS).time
    assert math.isclose(alone, found.timeline.total, rel_tol=1e-12)  # sums of other orders
    assert alone == all_of_them  # ranks are alike, and wait for each other
    whole = chakra.replay(traces, LINKS, "micros", ranks=[0])
    n = sum(times for _, times in running(found.parts))
    assert abs(whole.compute - found.compute_s) <= 0.5e-6 * (1 + 1e-9)  # rounding is carried on
    nearest = chakra.replay(chakra.trace(program, "A100", split, rounding="nearest"), LINKS, "micros", ranks=[0])
    assert abs(nearest.compute - found.compute_s) <= 0.5e-6 * n + 1e-15


def test_a_node_of_no_time_takes_a_nanosecond_there() -> None:
    traces = TraceSet("t", (Trace((Node(0, "a", "COMP_NODE"), Node(1, "b", "COMP_NODE", 2, (0,)))),), {})
    assert chakra.replay(traces, LINKS, "micros").time == 2e-6
    assert chakra.replay(traces, LINKS, "astrasim").time == 1e-9 + 2e-6


def test_what_cannot_be_replayed_says_why() -> None:
    size = {"comm_type": 0, "comm_size": 8, "pg_name": "1"}
    alone = Trace((Node(0, "a", "COMM_COLL_NODE", attributes=size),))
    two = TraceSet("t", (alone, Trace(())), {1: (0, 1)})
    with pytest.raises(InputError, match="rank 1 never reaches collective communicator 1 turn 1"):
        chakra.replay(two, LINKS)
    assert chakra.replay(two, LINKS, ranks=[0]).time > 0
    circle = Trace((Node(0, "a", "COMP_NODE", 1, (1,)), Node(1, "b", "COMP_NODE", 1, (0,))))
    with pytest.raises(InputError, match="wait for each other in a circle"):
        chakra.replay(TraceSet("t", (circle,), {}), LINKS)
    for node, says in (
        (Node(0, "a", "MEM_LOAD_NODE"), "only nodes that compute or communicate"),
        (Node(0, "a", "COMM_COLL_NODE", attributes={"comm_type": 0}), "no comm_size"),
        (Node(0, "a", "COMM_COLL_NODE", attributes={"comm_type": 99, "comm_size": 1}), "without a comm_type"),
        (Node(0, "a", "COMM_COLL_NODE", attributes={**size, "pg_name": "9"}), "communicator 9, which is not listed"),
    ):
        with pytest.raises(InputError, match=says):
            chakra.replay(TraceSet("t", (Trace((node,)),), {}), LINKS)
    with pytest.raises(UnknownNameError, match="unknown times"):
        chakra.replay(two, LINKS, "ticks")
    for ranks in ([], [2], [0, 0]):
        with pytest.raises(InputError, match="give different ones of 0 to 1"):
            chakra.replay(two, LINKS, ranks=ranks)


# Wall times in ns of ASTRA-sim itself (518bd51, congestion-unaware; feeder of astra-sim/chakra at f37c2bb), given our files of
# ``drawn`` and their comm_groups.json on 2026-11-21: fully connected, 100 of its GB/s and 1 us a link, endpoint delay 1 ns, local
# memory 1555.2 GB/s, all-to-all direct and the others as told. Every rank ended at the same time.
ASTRA_SIM = [
    (1, "ring", 510_416),
    (1, "direct", 282_176),
    (2, "ring", 373_854),
    (2, "direct", 281_139),
    (3, "ring", 406_287),
    (3, "direct", 220_318),
    (4, "ring", 249_949),
    (4, "direct", 240_001),
    (5, "ring", 310_001),
    (5, "direct", 276_585),
    (6, "ring", 485_329),
    (6, "direct", 263_160),
    (7, "ring", 270_367),
    (7, "direct", 262_989),
    (8, "ring", 357_804),
    (8, "direct", 255_881),
]


def drawn(seed: int, everybody: bool) -> tuple[Region, ...]:
    """Regions of eight ranks from a seed: compute, the four collectives over all, fours and twos, and a loop of them."""
    draw = random.Random(seed)
    rows, columns = ((0, 1, 2, 3), (4, 5, 6, 7)), ((0, 4), (1, 5), (2, 6), (3, 7))

    def regions(n: int, loops: bool) -> tuple[Region, ...]:
        made: list[Region] = []
        for i in range(n):
            after = tuple(sorted({draw.randrange(i) for _ in range(2)})) if i else ()
            kind = draw.choice(("compute", "compute", "comm"))
            if loops and i == n // 2:
                made.append(Region("loop", (), after, regions(6, False), 3))
            elif kind == "compute":
                made.append(Region("compute", (_priced(draw.random() * 20e-6),), after))
            else:
                groups = draw.choice((rows, columns, (tuple(range(8)),)))
                groups = (tuple(range(8)),) if everybody else groups
                op = draw.choice(("all_reduce", "all_gather", "reduce_scatter", "all_to_all"))
                size = 8 * draw.randrange(1, 200_000)
                ranks = len(groups[0])
                out = {"all_gather": size * ranks, "reduce_scatter": size // ranks}.get(op, size)
                made.append(Region("comm", (Collective(op, (), (), size, out, groups, ranks),), after))
        return tuple(made)

    return regions(20, True)


def _priced(seconds: float) -> Kernel:
    """A kernel whose traffic is its time in attoseconds, so that a price of one of them per byte is that time."""
    return Kernel([], {0: float(round(seconds * 1e18))}, {})


def traced(seed: int, everybody: bool, rounding: str = "carried") -> TraceSet:
    unrolled = steps.unroll(
        drawn(seed, everybody), lambda r: sum(p.bytes for p in r.pieces if isinstance(p, Kernel)) * 1e-18
    )
    micros = steps.whole_micros([s.seconds for s in unrolled if s.region.kind == "compute"], rounding)
    timed = [replace(s, micros=next(micros)) if s.region.kind == "compute" else s for s in unrolled]
    return _Ranks("drawn", timed, 8, None).traces({})


@pytest.mark.independent
@pytest.mark.parametrize(("seed", "algorithm", "ns"), ASTRA_SIM)
def test_our_replay_is_what_astra_sim_makes_of_our_files(seed: int, algorithm: str, ns: int) -> None:
    def wire(c: Collective) -> float:
        how = "direct" if c.op == "all_to_all" else algorithm
        return hlo.Fabric(
            "fully_connected:8",
            100 * GB,
            1e-6,
            how,
            endpoint_delay=1e-9,
            memory_bandwidth=1555.2e9,
            congestion="unaware",
            compat="astrasim",
        )(c)

    assert round(chakra.replay(traced(seed, algorithm == "direct"), wire, "astrasim").time * 1e9) == ns


# Whole microseconds


@pytest.mark.independent
@given(st.lists(st.floats(0, 1e-3), min_size=1, max_size=60))
def test_carried_sums_are_right_to_half_a_microsecond(times: list[float]) -> None:
    carried, nearest = list(steps.whole_micros(times)), list(steps.whole_micros(times, "nearest"))
    assert all(n >= 0 for n in carried)
    for k in range(len(times)):
        exact = math.fsum(times[: k + 1])
        assert abs(sum(carried[: k + 1]) * 1e-6 - exact) <= 0.5e-6 * (1 + 1e-6)
        assert abs(nearest[k] * 1e-6 - times[k]) <= 0.5e-6 * (1 + 1e-6)


def test_times_that_are_none_are_refused() -> None:
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="finite and at least 0"):
            list(steps.whole_micros([bad]))
    with pytest.raises(UnknownNameError, match="unknown rounding"):
        list(steps.whole_micros([1.0], "up"))


# A program that has no trace


def test_shapes_of_a_whole_mesh_are_refused() -> None:
    with pytest.raises(InputError, match=r"shapes are those of the whole mesh"):
        chakra.trace(load("mlp_train_dp8.ann"), "A100")


def made(piece: Collective, ranks: int = 4) -> TraceSet:
    step = steps.Step(Region("comm", (piece,), ()), "comm r0", (), message=piece)
    return _Ranks("p", (step,), ranks, LINKS).traces({})


def test_collectives_that_a_trace_cannot_name() -> None:
    with pytest.raises(InputError, match="'collective_dance' has no name"):
        made(Collective("collective_dance", (), (), 8, 8, (), 4))
    with pytest.raises(InputError, match="rank 1 is in two groups"):
        made(Collective("all_reduce", (), (), 8, 8, ((0, 1), (1, 2)), 2))
    with pytest.raises(InputError, match="list of pairs"):
        made(Collective("collective_permute", (), (), 8, 8, ((0, 1, 2),), 3))
    with pytest.raises(InputError, match=r"number of ranks is 1,000,000"):
        made(Collective("all_reduce", (), (), 8, 8, ((0, 999_999),), 2))


def test_what_sends_nothing_is_not_written() -> None:
    """ASTRA-sim would run a node without a communicator over all ranks; and it refuses a trace without any node."""
    partial = made(Collective("all_reduce", (), (), 8, 8, ((0, 1), (2,)), 2))
    assert [[n.name for n in t.nodes] for t in partial.ranks] == [["comm r0"], ["comm r0"], ["idle"], ["idle"]]
    nothing = made(Collective("all_reduce", (), (), 0, 0, (), 4))
    itself = made(Collective("collective_permute", (), (), 8, 8, ((1, 1),), 1))
    for traces in (nothing, itself):
        assert {n.name for t in traces.ranks for n in t.nodes} == {"idle"} and chakra.replay(traces, LINKS).time == 0


def test_a_broadcast_carries_its_time_because_it_is_replayed_there() -> None:
    node = made(Collective("collective_broadcast", (), (), 10**9, 10**9, (), 4)).ranks[0].nodes[0]
    assert node.collective == "broadcast" and node.duration_us == round(1e9 / LINKS.bandwidth * 1e6)


def test_numbers_of_work_are_never_zero() -> None:
    """Their roofline divides by both."""
    for name in PER_DEVICE:
        for node in chakra.trace(load(name), "A100").ranks[0].nodes:
            if node.type == "COMP_NODE":
                work, moved = node.attributes["num_ops"], node.attributes["tensor_size"]
                assert isinstance(work, int) and isinstance(moved, int) and work >= 1 and moved >= 1


# Files


def test_files_are_not_replaced_without_force(tmp_path: Path) -> None:
    traces = chakra.trace(load("scan"), "A100")
    chakra.write(traces, tmp_path, "scan")
    with pytest.raises(InputError, match=r"scan\.0\.et is in .* already"):
        chakra.write(traces, tmp_path, "scan")
    with pytest.raises(InputError, match=r"comm_groups\.json is in .* already"):
        chakra.write(traces, tmp_path, "other")
    assert len(chakra.write(traces, tmp_path, "scan", force=True)) == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["comm_groups.json", "scan.0.et"]
    (tmp_path / "scan.1.et").write_bytes(b"")
    with pytest.raises(InputError, match=r"scan\.1\.et is of an earlier trace"):
        chakra.write(traces, tmp_path, "scan", force=True)


@pytest.mark.parametrize("name", ["../x", "a/b", "/x", "", ".x", "-x", "x" * 200, "a\0b", "x\n"])
def test_a_name_is_no_path(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="name"):
        chakra.write(chakra.trace(load("scan"), "A100"), tmp_path / "d", name)
    with pytest.raises(InputError, match="name"):
        chakra.load(tmp_path, name)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@given(st.text(max_size=150))
def test_any_program_name_becomes_a_file_name(text: str) -> None:
    assert files._NAME.fullmatch(files.plain_name(text))


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    out = tmp_path / "out"
    out.mkdir()
    (out / "scan.0.et").symlink_to(precious)
    traces = chakra.trace(load("scan"), "A100")
    with pytest.raises(InputError, match="already"):
        chakra.write(traces, out, "scan")
    chakra.write(traces, out, "scan", force=True)
    assert precious.read_text() == "kept" and not (out / "scan.0.et").is_symlink()
    (out / "other").mkdir()
    (out / "other" / "scan.0.et").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="already"):  # a link to nothing is something
        chakra.write(traces, out / "other", "scan")


def test_a_directory_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        chakra.write(chakra.trace(load("scan"), "A100"), tmp_path / "file" / "below")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[", "not JSON"),
        ("[]", "communicators are numbers"),
        ('{"0": [0]}', "communicators are numbers"),
        ('{"x": [0]}', "communicators are numbers"),
        ('{"1": []}', "communicators are numbers"),
        ('{"1": [0, 0]}', "communicators are numbers"),
        ('{"1": [9]}', "communicators are numbers"),
        ('{"1": [true]}', "communicators are numbers"),
        ('{"2": [0]}', "names communicator 1, which is not listed"),
    ],
)
def test_communicators_that_are_none(text: str, says: str, tmp_path: Path) -> None:
    node = Node(0, "a", "COMM_COLL_NODE", attributes={"comm_type": 0, "comm_size": 8, "pg_name": "1"})
    (tmp_path / "t.0.et").write_bytes(b"".join(chakra.encode(Trace((node,)))))
    (tmp_path / "comm_groups.json").write_text(text)
    with pytest.raises(InputError, match=says):
        chakra.load(tmp_path, "t")


def test_a_trace_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"t\.0\.et: not in"):
        chakra.load(tmp_path, "t")


# Untrusted bytes

GOOD = b"".join(
    chakra.encode(
        Trace(
            (
                Node(0, "a", "COMP_NODE", 5, (), (), {"num_ops": 1, schema.SECONDS: 5e-6}),
                Node(1, "b", "COMM_COLL_NODE", 0, (0,), (0,), {"comm_type": 0, "comm_size": 8, "pg_name": "1"}),
            ),
            {"producer": "test"},
        )
    )
)


def with_node(**fields: object) -> bytes:
    message = schema.message_class("Node")(id=7, type=4)
    attributes = fields.pop("attr", ())
    assert isinstance(attributes, tuple)
    for key, value in fields.items():
        if isinstance(value, list):
            getattr(message, key).extend(value)
        else:
            setattr(message, key, value)
    for attribute in attributes:
        message.attr.add(**attribute)
    data = message.SerializeToString()
    return GOOD + bytes([len(data)]) + data


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "empty"),
        (GOOD[:-3], "ends after the file"),
        (b"\x80", "no length of a message at byte 0"),
        (b"\xff\xff\xff\xff\xff\x01", "no length of a message"),
        (b"\xff\xff\xff\xff\x0f", "the size of the message"),
        (b"\x02\xff\xff", "is not a GlobalMetadata"),
        (b"\x03\x9a\x06\x00", "fields that Chakra's schema does not have"),
        (GOOD + b"\x02\x0a\xff", "is not a Node"),
        (GOOD + b"\x05\x12\x03\xff\xfe\xfd", "is not a Node"),
        (GOOD + b"\x04\x08\x07\x18\x63", "of type 99"),
        (GOOD + b"\x02\x08\x07", "of type 0"),
        (with_node(id=1), "two nodes have one id"),
        (with_node(data_deps=[5]), "waits for 5, which is not there"),
        (with_node(ctrl_deps=[0, 9]), "waits for 9"),
        (with_node(attr=({"name": "x"},)), "without a value"),
        (with_node(attr=({"name": "", "bool_val": True},)), "without a name"),
        (with_node(attr=({"name": "x", "bool_val": True}, {"name": "x", "bool_val": True})), "or twice"),
        (with_node(attr=({"name": "comm_size", "string_val": "8"},)), "where a int64 should be"),
        (with_node(attr=({"name": "comm_size", "int64_val": -8},)), "where a int64 should be"),
        (with_node(attr=({"name": "pg_name", "int64_val": 1},)), "where a string should be"),
        (with_node(attr=({"name": schema.SECONDS, "double_val": math.inf},)), "where a double should be"),
    ],
)
def test_bytes_that_are_no_trace(data: bytes, says: str) -> None:
    with pytest.raises(InputError, match=says):
        chakra.decode(data)


@pytest.mark.parametrize(
    ("limit", "value", "says"),
    [
        ("MAX_BYTES", 20, "size in bytes"),
        ("MAX_MESSAGE", 20, "size of the message"),
        ("MAX_NODES", 0, "number of nodes"),
        ("MAX_ATTRIBUTES", 1, "number of attributes"),
        ("MAX_DEPS", 0, "number of dependencies"),
    ],
)
def test_every_bound_of_the_reader_is_kept(limit: str, value: int, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, limit, value)
    with pytest.raises(InputError, match=says):
        chakra.decode(GOOD)


def test_other_attributes_are_read_as_they_are() -> None:
    message = schema.message_class("Node")(id=7, type=4)
    message.attr.add(name="shape").int32_list.values.extend([2, 3])
    message.attr.add(name="note", bytes_val=b"\xff")
    data = message.SerializeToString()
    node = chakra.decode(GOOD + bytes([len(data)]) + data).nodes[-1]
    assert node.attributes == {"shape": (2, 3), "note": b"\xff"}


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda b: GOOD + b))
def test_any_bytes_are_a_trace_or_an_error_of_ours(data: bytes) -> None:
    try:
        trace = chakra.decode(data)
    except InputError:
        return
    assert b"".join(chakra.encode(replace(trace, nodes=()))) is not None


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255), st.integers(0, len(GOOD)))
def test_a_damaged_trace_is_a_trace_or_an_error_of_ours(at: int, byte: int, cut: int) -> None:
    damaged = bytearray(GOOD)
    damaged[at] = byte
    for data in (bytes(damaged), bytes(damaged[:cut])):
        try:
            trace = chakra.decode(data)
            chakra.replay(TraceSet("t", (trace,), {1: (0,)}), LINKS)
        except InputError:
            pass


@pytest.mark.parametrize(
    ("node", "says"),
    [
        (Node(-1, "a", "COMP_NODE"), "cannot be written"),
        (Node(0, "a", "OTHER_NODE"), "cannot be written"),
        (Node(0, "a", "COMP_NODE", attributes={"comm_size": 2**70}), "is not a int64"),
        (Node(0, "a", "COMP_NODE", attributes={"x": (1, 2)}), "of type tuple is not written"),
    ],
)
def test_nodes_that_cannot_be_written(node: Node, says: str) -> None:
    with pytest.raises(InputError, match=says):
        list(chakra.encode(Trace((node,))))


def test_without_protobuf_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "google.protobuf.descriptor_pool", None)
    with pytest.raises(InputError, match="install the extra 'hlo'"):
        schema.protobuf()


# The command


def test_the_command_writes_what_the_library_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(PROGRAMS["tf1l_train_dp2tp4.spmd"])
    out = tmp_path / "traces"
    call = ["hlo", "chakra", file, "--device", "A100", "-o", str(out), "--name", "step"]
    assert main([*call, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    traces = chakra.load(out, "step")
    assert traces.ranks == chakra.trace(load("tf1l_train_dp2tp4.spmd"), "A100").ranks
    assert (said["ranks"], said["distinct"], said["groups"]) == (8, 8, 6)
    assert said["compute_nodes"] + said["comm_nodes"] == len(traces.ranks[0].nodes)
    assert abs(said["compute_s"] - said["compute_us"] * 1e-6) <= 0.5e-6
    assert [Path(f).name for f in said["files"]] == [f"step.{r}.et" for r in range(8)] + ["comm_groups.json"]
    assert main(call) == 2
    assert "already" in capsys.readouterr().err
    assert main([*call, "--force", "--rounding", "nearest", "--split", "linear"]) == 0
    assert "51 communication" not in capsys.readouterr().out
    assert chakra.load(out, "step").ranks[0].attributes["rounding"] == "nearest"


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (["--name", "../x"], "name '../x'"),
        (["--max-nodes", "3"], "loops unrolled is"),
        (["--max-nodes", "0"], "'0' must lie in [1, 9999999]"),
        (["--split", "diagonal"], "argument --split: invalid choice: 'diagonal'"),
        (["--rounding", "up"], "invalid choice"),
    ],
)
def test_options_that_are_wrong(
    option: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(PROGRAMS["tf1l_train_dp2tp4.spmd"])
    assert main(["hlo", "chakra", file, "--device", "A100", "-o", str(tmp_path / "d"), *option]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "d").exists() or not list((tmp_path / "d").iterdir())


def test_the_command_takes_every_estimator_of_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The options reach the trace: it holds what the estimate with the same options says."""
    program = str(PROGRAMS["mlp_train_dp8.spmd"])
    options = ["--device", "TPU-v3", "--estimator", "systolic", "--array", "tpu-v3-chip", "--json"]
    assert main(["hlo", "estimate", program, *options]) == 0
    estimated = json.loads(capsys.readouterr().out)
    assert main(["hlo", "chakra", program, *options, "-o", str(tmp_path)]) == 0
    traced = json.loads(capsys.readouterr().out)
    assert estimated["pricing"]["estimator"] == "systolic"
    assert traced["compute_s"] == pytest.approx(estimated["compute_s"])
    assert traced["comm_nodes"] == sum(c["count"] for c in estimated["collectives"])
