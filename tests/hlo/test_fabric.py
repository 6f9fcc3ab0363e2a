"""A program's collectives on a topology: which part a group covers, by hand and beside ASTRA-sim's times of whole steps."""

import csv
import json
from collections.abc import Iterator
from functools import cache

import pytest
from support import ROOT

from mlsysim import cli, hlo
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.evidence.measured import astrasim_runs
from mlsysim.hlo import Fabric, fabric
from mlsysim.hlo.fusing.items import Collective
from mlsysim.network import Dimension, Task, collective_time, dragonfly, schedule

STEPS = ROOT.parent / "shared" / "reference" / "hespas"
needs_steps = pytest.mark.skipif(
    not STEPS.is_dir(), reason="the steps that ASTRA-sim ran are not beside this checkout (../shared/reference/hespas)"
)
EVERYBODY = (tuple(range(8)),)
ROWS = ((0, 1, 2, 3), (4, 5, 6, 7))
PAIRS = ((0, 4), (1, 5), (2, 6), (3, 7))


SYSTEMS = {
    "A100_SXM_40GB_8GPU": Fabric(*astrasim_runs.A100),
    "B200_180GB_8GPU": Fabric(
        "switch:8", 900 * 2**30, 1e-6, "ring", 1, 1, 1e-9, 7680e9, congestion="unaware", compat="astrasim"
    ),
    "TPUv3_4_2": Fabric(
        "ring:4xring:2", (82 * 2**30, 5000 * 2**30), 1e-9, "ring", 1, 1, 1e-9, congestion="unaware", compat="astrasim"
    ),
}


def message(op: str, size: int, groups: tuple[tuple[int, ...], ...] = EVERYBODY, out: int | None = None) -> Collective:
    ranks = len({d for g in groups for d in g}) if op == "collective_permute" else max(map(len, groups))
    return Collective(op, (0,), (1,), size, size if out is None else out, groups, ranks)


@pytest.mark.independent
def test_sizes_are_those_of_each_operation() -> None:
    """A ring of 4 at 1 GB/s without latency, 3 steps of a quarter of the whole: of 4 MB in, or gathered; the all-reduce twice."""
    ring = Fabric("ring:4", 1e9)
    four = ((0, 1, 2, 3),)
    assert ring(message("all_reduce", 4_000_000, four)) == pytest.approx(6e-3)
    assert ring(message("cross-replica-sum", 4_000_000, four)) == pytest.approx(6e-3)
    assert ring(message("reduce_scatter", 4_000_000, four, out=1_000_000)) == pytest.approx(3e-3)
    assert ring(message("all_gather", 1_000_000, four, out=4_000_000)) == pytest.approx(3e-3)
    # of 4 pieces those for the ranks 1, 2 and 3 ahead go round in 1, 2 and 3 steps
    assert ring(message("all_to_all", 4_000_000, four)) == pytest.approx(6e-3)
    assert ring(message("all_reduce", 0, four)) == ring(message("all_reduce", 8, ((0,),))) == 0.0


@pytest.mark.independent
def test_sizes_are_those_of_each_operation_with_compat_too() -> None:
    ours, theirs = (Fabric("ring:4", 2**30, compat=compat, congestion="unaware") for compat in (None, "astrasim"))
    for op, size, out in (
        ("all_reduce", 2**22, 2**22),
        ("all_gather", 2**20, 2**22),
        ("reduce_scatter", 2**22, 2**20),
        ("all_to_all", 2**22, 2**22),
    ):
        c = message(op, size, ((0, 1, 2, 3),), out)
        assert theirs(c) == pytest.approx(ours(c), abs=12e-9)


@pytest.mark.independent
def test_groups_along_a_dimension_use_its_links_only() -> None:
    both = Fabric("ring:4xswitch:2", bandwidth=(2e9, 1e9), latency=(1e-6, 5e-6))
    assert both(message("all_reduce", 10**6, ROWS)) == pytest.approx(6 * (10**6 / 4 / 2e9 + 1e-6))
    assert both(message("all_reduce", 10**6, PAIRS)) == pytest.approx(2 * (10**6 / 2 / 1e9 + 2 * 5e-6))
    whole = 6 * (10**6 / 4 / 2e9 + 1e-6) + 2 * (10**6 / 8 / 1e9 + 2 * 5e-6)  # a quarter of the buffer on the switch
    assert both(message("all_reduce", 10**6)) == pytest.approx(whole)
    # one long group and three short ones: the slowest counts
    assert both(message("all_reduce", 10**6, (ROWS[0], (4, 5)))) == pytest.approx(6 * (10**6 / 4 / 2e9 + 1e-6))


@pytest.mark.independent
@pytest.mark.parametrize("bandwidth", [(50e9, 50e9, 25e9), (25e9, 50e9, 50e9)])
def test_all_wait_for_the_slowest_group(bandwidth: tuple[float, ...]) -> None:
    """Pairs along the first dimension and pairs along the last: one megabyte over the slower of the two links."""
    pairs = ((0, 1), (4, 5), (2, 6), (3, 7))
    apart = Fabric("switch:2xswitch:2xswitch:2", bandwidth=bandwidth)
    assert apart(message("all_gather", 10**6, pairs, 2 * 10**6)) == pytest.approx(10**6 / 25e9)


@pytest.mark.independent
def test_some_ranks_of_a_dimension() -> None:
    """A line of four sends its last piece three hops back; every fourth rank of a ring of eight is four hops and four groups away."""
    line = Fabric("ring:8", 1e9, 1e-6)
    assert line(message("all_reduce", 4_000_000, ROWS)) > 6 * (1e-3 + 1e-6)
    assert line.parts((2, 3, 4, 5))[0].wiring == Dimension("mesh", 4)
    assert line.parts((7, 0, 1, 6))[0].wiring == Dimension("mesh", 4)  # round the end
    pairs = line(message("all_reduce", 4_000_000, PAIRS))
    assert pairs == pytest.approx(2 * (4 * 2e-3 + 4 * 1e-6))
    assert line.notes == ("groups of ranks that are no neighbours on ring:8: links 4 hops long, shared by 4 groups",)
    alone = Fabric("ring:8", 1e9, 1e-6, congestion="unaware")
    assert alone(message("all_reduce", 4_000_000, PAIRS)) == pytest.approx(2 * (2e-3 + 4 * 1e-6))
    star = Fabric("switch:8", 1e9, 1e-6)
    assert star(message("all_reduce", 4_000_000, ((0, 3, 5, 6),))) == pytest.approx(6 * (1e-3 + 2e-6))
    assert Fabric("fullyconnected:8", 1e9).parts((0, 3, 5))[0].wiring == Dimension("fullyconnected", 3)
    assert Fabric("mesh:8", 1e9).parts((1, 3, 5)) == (fabric.Part(Dimension("mesh", 3), 2, 2, 0),)


@pytest.mark.independent
def test_parts_of_a_dragonfly() -> None:
    """Four groups of two routers with two ranks each: ranks 0 to 3 are the first group."""
    fly = Fabric("dragonfly:4/2/2", 1e9)
    assert fly.parts((0, 1))[0].wiring == Dimension("switch", 2)  # one router
    assert fly.parts((0, 1, 2, 3))[0].wiring == dragonfly(1, 2, 2)
    assert fly.parts(tuple(range(8)))[0].wiring == dragonfly(2, 2, 2)
    assert fly.parts(tuple(range(16)))[0].wiring == dragonfly(4, 2, 2)
    assert Fabric("dragonfly:4/2", 1e9).parts((2, 3))[0].wiring == Dimension("fullyconnected", 2)
    assert fly.parts((1, 5, 9)) == (fabric.Part(Dimension("fullyconnected", 3), 5, 4, 0),)
    for group in ((0, 5), (0, 2), (1, 2, 3)):
        with pytest.raises(InputError, match="whole groups, or of one group or router in dragonfly:4/2/2"):
            fly.parts(group)


@pytest.mark.independent
def test_permutations_and_broadcasts_by_hand() -> None:
    ring, size = Fabric("ring:8", 1e9, 1e-6), 1_000_000
    around = tuple((i, (i + 1) % 8) for i in range(8))
    across = tuple((i, (i + 4) % 8) for i in range(8))
    assert ring(message("collective_permute", size, around)) == pytest.approx(1e-3 + 1e-6)
    assert ring(message("collective_permute", size, across)) == pytest.approx(4 * 1e-3 + 4 * 1e-6)
    alone = Fabric("ring:8", 1e9, 1e-6, congestion="unaware")
    assert alone(message("collective_permute", size, across)) == pytest.approx(1e-3 + 4 * 1e-6)
    assert ring(message("collective_permute", size, ((3, 3),))) == 0.0
    two = Fabric("ring:4xswitch:2", (2e9, 1e9), (1e-6, 5e-6), endpoint_delay=1e-7)
    assert two(message("collective_permute", size, ((0, 5),))) == pytest.approx(1e-3 + 1e-6 + 2 * 5e-6 + 2e-7)
    assert two(message("collective_broadcast", size)) == pytest.approx(1e-3 + 2 * 1e-6 + 2 * 5e-6 + 2e-7)
    assert two(message("collective_broadcast", size, ROWS)) == pytest.approx(5e-4 + 2 * 1e-6 + 2e-7)


@pytest.mark.independent
def test_what_an_algorithm_cannot_do_is_done_directly_and_said() -> None:
    trees = Fabric("switch:8", 1e9, algorithm="double_binary_tree")
    assert (
        trees(message("all_reduce", 8_000_000))
        == collective_time("all_reduce", 8e6, "switch:8", "double_binary_tree", 1e9).time
    )
    assert not trees.notes
    assert trees(message("all_gather", 10**6, out=8 * 10**6)) == pytest.approx(7e-3)
    assert trees.notes == ("double_binary_tree cannot do all_gather on switch:8; direct does it there",)
    odd = Fabric("switch:6", 1e9, algorithm="halvingDoubling")
    assert odd(message("all_gather", 10**6, (tuple(range(6)),), 6 * 10**6)) == pytest.approx(5e-3)
    inner = Fabric(
        "switch:4x2", 1e9, algorithm="double_binary_tree"
    )  # a reduce-scatter is no tree's, the last dimension is
    inner(message("all_reduce", 8_000_000))
    assert inner.notes == ("double_binary_tree cannot do reduce_scatter on switch:4; direct does it there",)


def test_natural_algorithms_and_memory() -> None:
    f = Fabric("ring:4xfullyconnected:2xdragonfly:2/2", 1e9)
    assert f.algorithm == ("ring", "direct", "direct")
    c = message("all_reduce", 10**6, (tuple(range(32)),))
    assert f(c) == f(c) and len(f._known) == 1
    f(message("all_reduce", 10**6, (tuple(range(4)),)))
    assert len(f._known) == 2  # as large, among others


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"topology": "ring:"}, "not a dimension"),
        ({"bandwidth": (1e9, 1e9)}, "bandwidth has 2 values"),
        ({"bandwidth": 0.0}, "bandwidth = 0"),
        ({"latency": -1.0}, "latency = -1"),
        ({"compat": "ns3"}, "it can be 'astrasim'"),
        ({"splits": 0}, "splits = 0"),
        ({"endpoint_delay": float("nan")}, "endpoint_delay"),
    ],
)
def test_bad_networks_are_named_at_once(change: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Fabric(**({"topology": "ring:8", "bandwidth": 1e9} | change))  # type: ignore[arg-type]


def test_collectives_that_do_not_fit() -> None:
    with pytest.raises(UnknownNameError, match="rinq"):
        Fabric("ring:8", 1e9, algorithm="rinq")
    f = Fabric("ring:4xring:2", 1e9)
    with pytest.raises(InputError, match="takes in device 8, but ring:4xring:2 has 8 ranks"):
        f(message("all_reduce", 8, (tuple(range(9)),)))
    with pytest.raises(InputError, match="every combination"):
        f(message("all_reduce", 8, ((0, 5),)))
    with pytest.raises(InputError, match="evenly spaced in ring:8"):
        Fabric("ring:8", 1e9)(message("all_reduce", 8, ((0, 1, 3),)))
    with pytest.raises(InputError, match="no schedule for"):
        f(message("all_flip", 8))


@pytest.mark.independent
def test_a_program_whose_groups_differ_in_size_only_by_place() -> None:
    """Two tensor-parallel ranks beside each other, or four places apart: the same bytes and ranks, and not the same time."""
    program = hlo.sample("tf1l_train_dp2tp4.gpuopt_a100_sxm_40")
    fast, slow = (
        hlo.estimate(program, "A100", network=Fabric("switch:4xswitch:2", rates, 1e-6))
        for rates in ((300e9, 300e9), (300e9, 25e9))
    )
    by_size = {
        (m.ranks, m.bytes): (m.time_s, other.time_s)
        for m, other in zip(fast.collectives, slow.collectives, strict=True)
    }
    assert all(before == after for (ranks, _), (before, after) in by_size.items() if ranks == 4)
    assert all(before < after for (ranks, _), (before, after) in by_size.items() if ranks == 2)
    assert (
        slow.total_s > fast.total_s and max(slow.compute_s, slow.comm_s) <= slow.total_s <= slow.compute_s + slow.comm_s
    )


@pytest.mark.independent
def test_equal_sizes_over_other_groups_take_another_time() -> None:
    """Four devices on a fast pair and a slow one: the same buffer summed along each."""
    kind = hlo.TensorType("f32", (1_000_000,))
    ops = tuple(
        hlo.Op("stablehlo.all_reduce", (i,), (i + 1,), {"groups": groups})
        for i, groups in enumerate((((0, 1), (2, 3)), ((0, 2), (1, 3))))
    )
    program = hlo.Program("p", (kind,), (0, 0, 0), {"main": hlo.Block((0,), ops, (2,))}, partitions=4)
    done = hlo.estimate(program, "H100", network=Fabric("ring:2xring:2", (100e9, 10e9)))
    assert [m.time_s for m in done.collectives] == pytest.approx([4e6 / 100e9, 4e6 / 10e9])


@pytest.mark.published
def test_a_communicator_of_fewer_ranks_has_the_default_delay() -> None:
    """An all-reduce of 1,058,304 byte over two of eight ranks on a switch, as ASTRA-sim plans it with its delay set to 1 ns.

    Two messages of half the buffer at 300 x 2^30 byte/s after 2 us, one addition of three passes at 1555.2 GB/s, and three delays:
    2 (2000 + 1642) + 3 x 340 + 3 x 10, each part cut to whole nanoseconds.
    """
    a100 = SYSTEMS["A100_SXM_40GB_8GPU"]
    assert round(1e9 * a100(message("all_reduce", 1_058_304, PAIRS))) == 2 * 3642 + 1020 + 30
    assert round(1e9 * a100(message("all_reduce", 7_454_764))) == 81_082  # of all eight, as ASTRA-sim prints it


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(ROOT / "mlsysim" / "hlo" / "samples" / "tf1l_train_dp2tp4.gpuopt_a100_sxm_40.json")
    start = ["hlo", "estimate", file, "--device", "A100"]
    options = ["--topology", "ring:4xswitch:2", "--bandwidth", "100,50", "--latency", "500,1000"]
    assert cli.main([*start, *options, "--algorithm", "ring,direct", "--congestion", "unaware", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    expected = hlo.estimate(
        hlo.read(file),
        "A100",
        network=Fabric("ring:4xswitch:2", (100e9, 50e9), (5e-7, 1e-6), ("ring", "direct"), congestion="unaware"),
    )
    assert shown["total_s"] == expected.total_s and shown["comm_s"] == expected.comm_s
    assert (
        cli.main([*start, "--topology", "ring:8", "--bandwidth", "1", "--compat", "astrasim", "--endpoint-delay", "1"])
        == 0
    )
    assert "no neighbours on ring:8" in capsys.readouterr().out
    for wrong, says in (
        (["--splits", "4"], "--splits needs --topology"),
        (["--algorithm", "ring"], "--algorithm needs --topology"),
        (["--bandwidth", "100,50"], "need --topology"),
        (["--topology", "ring:2xring:4"], "give the bandwidth of a link of each"),
        (["--topology", "ring:4", "--bandwidth", "50"], "takes in device"),
    ):
        assert cli.main([*start, *wrong]) == 2
        assert says in capsys.readouterr().err


# Whole training steps: HeSPaS's compute times and sizes, ASTRA-sim's collectives and scheduler, and ours.


def rows(name: str) -> Iterator[dict[str, str]]:
    with (STEPS / name).open(encoding="utf-8") as file:
        yield from csv.DictReader(file)


@cache
def regions(program: str, split: str) -> list[dict[str, str]]:
    return [r for r in rows("regions.csv") if (r["workload"], r["split"]) == (program, split)]


def communication_ns(region: dict[str, str], network: Fabric) -> int:
    """Its size is what that tool passes on: the bytes that come out, whatever the operation."""
    groups = tuple(map(tuple, json.loads(region["groups"])))
    size = int(float(region["bytes"]))
    return round(1e9 * network(message(region["op"].removeprefix("stablehlo."), size, groups)))


def compute_ns(region: dict[str, str]) -> int:
    """Whole microseconds, and one nanosecond where that is none."""
    return round(float(region["runtime_s"]) * 1e6) * 1000 or 1


def waits_for(program: str) -> dict[str, tuple[str, ...]]:
    """Who waits for whom in the dependency split, where the counts of the file leave one way only.

    Every communication waits for the one large region before it; an update for its own communication (the file lists the pairs
    side by side) or for the only one; the last region for the last communication.
    """
    listed = sorted(regions(program, "individual_merge"), key=lambda r: int(r["region"]))
    large = max((r for r in listed if r["kind"] == "COMP"), key=lambda r: float(r["runtime_s"]))["region"]
    sent = [r["region"] for r in listed if r["kind"] == "COMM"]
    found: dict[str, tuple[str, ...]] = {}
    after = [r["region"] for r in listed if r["kind"] == "COMP" and r["deps"] != "0"]
    small = [r["region"] for r in listed if r["kind"] == "COMP" and r["deps"] == "0" and r["region"] != large]
    for r in listed:
        if r["kind"] == "COMM":
            found[r["region"]] = (large,)
        elif r["region"] in after:
            own = after.index(r["region"]) if len(after) == len(sent) else 0 if r["region"] != after[-1] else -1
            found[r["region"]] = (sent[own], *(small if int(r["deps"]) > 1 else ()))
        else:
            found[r["region"]] = ()
        assert len(found[r["region"]]) == int(r["deps"])
    return found


@pytest.mark.published
@pytest.mark.parametrize("step", astrasim_runs.compared().steps, ids=lambda s: str(s.split))
def test_shipped_steps_to_the_nanosecond(step: astrasim_runs.StepRow) -> None:
    assert step.ours == step.printed


@needs_steps
@pytest.mark.published
def test_every_step_spends_the_same_time_on_collectives() -> None:
    """78 of 78: 13 programs, two splits, three systems; groups of a part of the ranks among them."""
    found = [
        sum(
            communication_ns(r, SYSTEMS[s["system"]]) for r in regions(s["workload"], s["split"]) if r["kind"] == "COMM"
        )
        == int(float(s["comm_ns"]))
        for s in rows("systems.csv")
    ]
    assert (sum(found), len(found)) == (78, 78) == astrasim_runs.compared().counts["totals"]


@needs_steps
@pytest.mark.published
def test_whole_steps_to_the_nanosecond() -> None:
    """Compute times are at hand for the A100. 13 of 13 steps in program order, 6 of 6 where the file fixes who waits for whom."""
    exact = {"linear": 0, "individual_merge": 0}
    for s in rows("systems.csv"):
        simple = s["workload"].startswith("mlp") or s["workload"].startswith("tf1l_train_dp8.gpuopt")
        if not s["system"].startswith("A100") or (s["split"] == "individual_merge" and not simple):
            continue
        network = SYSTEMS[s["system"]]
        listed = sorted(regions(s["workload"], s["split"]), key=lambda r: int(r["region"]))
        before = {r["region"]: tuple(str(i) for i in [int(r["region"]) - 1] if i >= 0) for r in listed}
        if s["split"] == "individual_merge":
            before = waits_for(s["workload"])
        tasks = [
            Task(
                r["region"],
                "communication" if r["kind"] == "COMM" else "compute",
                communication_ns(r, network) if r["kind"] == "COMM" else compute_ns(r),
                before[r["region"]],
            )
            for r in listed
        ]
        time = schedule(tasks).time
        print(s["workload"], s["split"], time, s["wall_ns"])
        exact[s["split"]] += time == int(float(s["wall_ns"]))
    assert exact == {"linear": 13, "individual_merge": 6}
    assert astrasim_runs.compared().counts["steps"] == (19, 19)


@needs_steps
@pytest.mark.published
def test_every_step_lies_between_the_bounds_of_overlap() -> None:
    for s in rows("systems.csv"):
        wall, compute, comm = (int(float(s[name])) for name in ("wall_ns", "gpu_ns", "comm_ns"))
        assert max(compute, comm) <= wall <= compute + comm
        assert int(float(s["overlap_ns"] or 0)) == compute + comm - wall
