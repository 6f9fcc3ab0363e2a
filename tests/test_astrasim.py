"""Collectives in ASTRA-sim's units and rounding: equal to its own times, to the nanosecond."""

import csv
import json
from collections import defaultdict
from collections.abc import Mapping

import pytest
from support import ROOT

from mlsysim import cli
from mlsysim.errors import InputError
from mlsysim.network import astrasim

REFERENCE = ROOT.parent / "shared" / "reference" / "astrasim" / "collectives.csv"
needs_reference = pytest.mark.skipif(
    not REFERENCE.is_file(), reason="ASTRA-sim's times are not beside this checkout (../shared/reference/astrasim)"
)

# Our own runs of ASTRA-sim's analytical back ends (MIT licence), one row for each back end, topology and algorithm: back end, operation,
# communication size in byte, topology, algorithms, GB/s, ns, splits, active chunks, endpoint delay in ns, optimisation, memory in GB/s;
# and the time in ns that it printed.
ROWS = """
aware all_to_all 3145728 fullyconnected:4 direct 150 999.9999999999999 1 1 1 localBWAware 4838.4 5884
aware all_reduce 1073741824 fullyconnected:4 doubleBinaryTree 50 500 1 1 10 localBWAware 1600 86041842
aware all_gather 1048576 fullyconnected:2 halvingDoubling 50 500 1 1 10 localBWAware 1600 20051
aware reduce_scatter 1073741824 fullyconnected:2 ring 50 500 1 1 10 localBWAware 1600 11007152
aware reduce_scatter 16777216 ring:4 direct 50 500 1 1 10 localBWAware 1600 243258
aware all_reduce 268435456 ring:16 doubleBinaryTree 50 500 1 1 10 localBWAware 1600 153538302
aware reduce_scatter 65536 ring:8 halvingDoubling 50 500 1 1 10 localBWAware 1600 5413
aware all_gather 268435456 ring:8 ring 50 500 2 4 10 localBWAware 1600 35000520
aware all_reduce 1073741824 switch:4 direct 50 500 1 1 10 localBWAware 1600 40505346
aware all_reduce 1073741824 switch:16 doubleBinaryTree 50 500 1 1 10 localBWAware 1600 454100938
aware all_gather 268435456 switch:16 halvingDoubling 50 500 1 1 10 localBWAware 1600 150004050
aware reduce_scatter 268435456 switch:8 ring 50 500 2 4 10 localBWAware 1600 4914765
unaware all_to_all 65536 fullyconnected:4 direct 100 999.9999999999999 1 1 1 localBWAware 1555.2 1154
unaware all_reduce 65536 fullyconnected:4 doubleBinaryTree 50 500 1 1 10 localBWAware 1600 7290
unaware all_reduce 268435456 fullyconnected:8 halvingDoubling 50 500 1 1 10 localBWAware 1600 8941812
unaware reduce_scatter 65536 fullyconnected:3 ring 50 500 1 1 10 localBWAware 1600 1920
unaware all_reduce 16777216 fullyconnected:4xswitch:32 direct,direct 100,100 1000,1000 4 1 10 localBWAware 1600 94140
unaware all_reduce 65536 fullyconnected:4xswitch:32 halvingDoubling,halvingDoubling 100,100 1000,1000 16 1 10 baseline 1600 326986
unaware all_reduce 16777216 fullyconnected:4xswitch:4 ring,ring 100,25 1000,5000 4 1 10 localBWAware 1600 551073
unaware all_gather 16777216 ring:8 direct 50 500 1 1 10 localBWAware 1600 314520
unaware all_reduce 1048576 ring:2 doubleBinaryTree 50 500 1 1 10 localBWAware 1600 42057
unaware all_reduce 65536 ring:8 halvingDoubling 50 500 1 1 10 localBWAware 1600 9249
unaware all_to_all 1048576 ring:8 ring 50 500 2 4 10 localBWAware 1600 48450
unaware all_gather 16777216 ring:2xfullyconnected:8xswitch:4 direct,direct,direct 200,100,50 500,700,1000 4 1 10 localBWAware 1600 2739195
unaware reduce_scatter 65536 ring:2xfullyconnected:8xswitch:4 halvingDoubling,halvingDoubling,halvingDoubling 200,100,50 500,700,1000 4 1 10 localBWAware 1600 18939
unaware reduce_scatter 1048576 ring:2xfullyconnected:8xswitch:4 ring,ring,ring 200,100,50 500,700,1000 4 1 10 localBWAware 1600 32771
unaware all_reduce 1048576 ring:8xring:8 direct,direct 82,82 500,500 4 1 10 localBWAware 1600 21356
unaware all_gather 1048576 ring:4xring:2 halvingDoubling,halvingDoubling 82,5000 1,1 4 1 10 localBWAware 1600 71653
unaware reduce_scatter 1073741824 ring:8xring:8 ring,ring 82,82 500,500 4 1 10 localBWAware 1600 12838680
unaware all_reduce 1073741824 ring:4xring:4xring:4 direct,direct,direct 100,100,100 500,500,500 4 1 10 baseline 1600 8264154
unaware all_reduce 16777216 ring:4xring:4xring:4 halvingDoubling,halvingDoubling,halvingDoubling 100,100,100 500,500,500 16 1 10 baseline 1600 327330
unaware all_gather 16777216 ring:4xring:4xring:4 ring,ring,ring 100,100,100 500,500,500 16 1 10 localBWAware 1600 7674201
unaware all_gather 1048576 switch:2 direct 50 500 1 1 10 localBWAware 1600 20551
unaware all_reduce 1048576 switch:2 doubleBinaryTree 50 500 1 1 10 localBWAware 1600 43057
unaware all_reduce 1048576 switch:2 halvingDoubling 50 500 1 1 10 localBWAware 1600 21560
unaware all_gather 268435456 switch:8 ring 50 500 8 4 10 localBWAware 1600 8764160
unaware reduce_scatter 1048576 switch:8xswitch:4 direct,direct 450,50 1000,2000 4 1 10 localBWAware 1600 18895
unaware all_gather 1048576 switch:8xswitch:16 halvingDoubling,halvingDoubling 450,50 1000,2000 16 1 10 localBWAware 1600 570958
unaware reduce_scatter 1048576 switch:8xswitch:4 ring,ring 450,50 1000,2000 4 1 10 localBWAware 1600 72417
""".strip().splitlines()


def numbers(text: str) -> list[float]:
    return [float(x) for x in text.split(",")]


def simulated_ns(row: str) -> float:
    backend, op, size, topology, names, rates, waits, splits, active, endpoint, optimization, memory, _ = row.split()
    return (
        1e9
        * astrasim.collective_time(
            op,
            int(size),
            topology,
            names.split(","),
            numbers(rates),
            numbers(waits),
            splits=int(splits),
            active_chunks=int(active),
            endpoint_delay_ns=int(endpoint),
            local_mem_bandwidth_GBps=float(memory),
            optimization=optimization,
            congestion=backend,
        ).time
    )


def test_the_rows_cover_every_algorithm_and_topology() -> None:
    assert len(ROWS) == len(set(ROWS)) >= 36
    assert {a for row in ROWS for a in row.split()[4].split(",")} == {
        "ring",
        "direct",
        "halvingDoubling",
        "doubleBinaryTree",
    }
    assert {row.split()[1] for row in ROWS} == {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}


@pytest.mark.published
@pytest.mark.parametrize("row", ROWS)
def test_shipped_rows_to_the_nanosecond(row: str) -> None:
    assert simulated_ns(row) == pytest.approx(int(row.split()[-1]), abs=0.5)


def as_row(r: Mapping[str, str]) -> str:
    kinds = zip(r["topology_per_dim"].lower().split("x"), r["npus_per_dim"].split("x"), strict=True)
    topology = "x".join(f"{kind}:{n}" for kind, n in kinds)
    parts = [r["backend"].removeprefix("congestion_"), r["collective"], r["size_bytes"], topology]
    parts += [r[name].replace("x", ",") for name in ("algo_per_dim", "bw_GBps_per_dim", "latency_ns_per_dim")]
    parts += [r[name] for name in ("splits", "active_chunks", "endpoint_delay_ns", "optimization")]
    return " ".join([*parts, r["local_mem_bw_GBps"], r["time_ns"]])


@needs_reference
@pytest.mark.slow
@pytest.mark.published
def test_every_row_of_the_reference_to_the_nanosecond() -> None:
    """The issue asks for 98 % of the rows of one dimension, 95 % of several, and 10 % where congestion is counted."""
    with REFERENCE.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 3600
    exact: dict[tuple[str, ...], list[bool]] = defaultdict(list)
    for r in rows:
        kind = (r["backend"], r["topology_per_dim"], r["collective"], r["algo_per_dim"])
        exact[kind].append(abs(simulated_ns(as_row(r)) - int(r["time_ns"])) < 0.5)
    for kind, hits in sorted(exact.items()):
        print(*kind, f"{sum(hits)} of {len(hits)} exact")
    assert [kind for kind, hits in exact.items() if not all(hits)] == []


@pytest.mark.independent
def test_a_ring_by_hand() -> None:
    """4 ranks, 1 GB/s of 2^30 byte/s, 1 MiB: a piece of 2^18 byte takes 2^18 / 1.073741824 ns = 244140.6, with 500 ns cut to 244640.

    Its addition is three passes of 2^18 byte at 1600 byte/ns = 163.8 cut to 163; the endpoint's 10 ns come before the first and after
    each of the six messages, of which three are added up.
    """
    r = astrasim.collective_time("all_reduce", 2**20, "ring:4", "ring", 1, 500, local_mem_bandwidth_GBps=1600)
    assert r.time * 1e9 == pytest.approx(6 * 244_640 + 3 * 489 + 7 * 10, abs=0.5)


@pytest.mark.independent
def test_chunks_are_whole_bytes_and_the_last_is_a_full_one() -> None:
    """10 bytes in 4 splits on 2 ranks are 5 chunks of 2 bytes; fewer bytes than ranks count as one per rank and split."""
    ten = astrasim.collective_time("all_reduce", 10, "ring:2", "ring", 1, 0, splits=4, endpoint_delay_ns=1)
    assert ten.phases[0].bytes == 10 and ten.traffic == (2 * 1 * 5,)
    few = astrasim.collective_time("all_reduce", 3, "ring:8", "ring", 1, 0, splits=4, endpoint_delay_ns=1)
    assert few.phases[0].bytes == 8 * 4


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"size_bytes": 1.5}, "whole number"),
        ({"size_bytes": 0}, "whole number in"),
        ({"size_bytes": float("nan")}, "whole number"),
        ({"endpoint_delay_ns": 0.5}, "endpoint_delay = 0.5"),
        ({"op": "all_gather", "splits": 8, "size_bytes": 4}, "at most 4 splits"),
        ({"bandwidth_GBps": 0}, "bandwidth = 0"),
        ({"latency_ns": (1, 2, 3)}, "ring:4 has 1 dimension;"),
        ({"splits": 0}, "splits = 0"),
    ],
)
def test_bad_input_is_named(change: dict[str, object], says: str) -> None:
    good: dict[str, object] = {
        "op": "all_reduce",
        "size_bytes": 1024,
        "topology": "ring:4",
        "algorithm": "ring",
        "bandwidth_GBps": 50,
    }
    with pytest.raises(InputError, match=says):
        astrasim.collective_time(**(good | change))  # type: ignore[arg-type]


@pytest.mark.parametrize("row", [ROWS[0], ROWS[len(ROWS) // 2], ROWS[-1]])
def test_the_command_takes_the_columns_of_the_file(row: str, capsys: pytest.CaptureFixture[str]) -> None:
    backend, op, size, topology, names, rates, waits, splits, active, endpoint, optimization, memory, time = row.split()
    options = ["--compat", "astrasim", "--op", op, "--bytes", size, "--topology", topology, "--algorithm", names]
    options += ["--bandwidth", rates, "--latency", waits, "--splits", splits, "--active-chunks", active]
    options += ["--endpoint-delay", endpoint, "--optimization", optimization, "--local-mem-bandwidth", memory]
    assert cli.main(["collective", *options, "--congestion", backend, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["time_s"] == pytest.approx(int(time) / 1e9, rel=1e-12)
