"""Collectives in ASTRA-sim's units and rounding: equal to its own times, to the nanosecond."""

import csv
import json
from collections import defaultdict
from collections.abc import Mapping

import pytest
from support import ROOT

from mlsysim import cli
from mlsysim.errors import InputError
from mlsysim.evidence.measured import astrasim_runs
from mlsysim.network import astrasim

REFERENCE = ROOT.parent / "shared" / "reference" / "astrasim" / "collectives.csv"
needs_reference = pytest.mark.skipif(
    not REFERENCE.is_file(), reason="ASTRA-sim's times are not beside this checkout (../shared/reference/astrasim)"
)

ROWS = [check.text for check in astrasim_runs.compared().collectives]


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
    recorded = astrasim_runs.compared().counts["collectives"]  # what the book prints
    assert recorded == (sum(map(sum, exact.values())), len(rows))


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
    options += ["--endpoint-delay", endpoint, "--optimization", optimization, "--memory-bandwidth", memory]
    assert cli.main(["collective", *options, "--congestion", backend, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["time_s"] == pytest.approx(int(time) / 1e9, rel=1e-12)
