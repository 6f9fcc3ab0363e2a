"""Chapter 21, networks."""

from typing import Any

from mlsysim import catalog, hlo, network, units
from mlsysim.evidence.measured import astrasim_runs
from mlsysim.evidence.studies import case_runs
from mlsysim.hlo import estimators
from mlsysim.network import collective_time, parse


def _time(value: float) -> str:
    return units.format(value, "s", 3)


def _percent(value: float) -> str:
    return units.percent(value, 0, signed=False)


def _predict() -> dict[str, str]:
    """Sixteen devices, 300 GB/s each: an all-to-all of 256 MB on a ring, on a switch, and if messages waited for nobody."""
    ring, switch = (
        collective_time("all_to_all", 256e6, text, "direct", link, 500e-9).time
        for text, link in (("ring:16", 150e9), ("switch:16", 300e9))
    )
    paper = collective_time("all_to_all", 256e6, "ring:16", "direct", 150e9, 500e-9, congestion="unaware").time
    return {
        "piece": _time(256e6 / 16 / 150e9),
        "ring": _time(ring),
        "switch": _time(switch),
        "ratio": f"{ring / switch:.2g}",
        "paper": _time(paper),
        "paper_ratio": f"{ring / paper:.2g}",
    }


def _congestion() -> dict[str, str]:
    found = {}
    for n in (8, 32):
        whole = 1e6 * n
        aware = collective_time("all_to_all", whole, f"ring:{n}", "direct", 1e9).time / 1e-3
        around = collective_time("all_to_all", whole, f"ring:{n}", "ring", 1e9).time / 1e-3
        found[f"load_{n}"] = f"{network.congestion(n - 1.0, network.ring_hops(float(n)), 2.0):.0f}"
        one_way = collective_time("all_to_all", whole, f"ring:{n}", "direct", 1e9, optimization="baseline").time / 1e-3
        found[f"simulated_{n}"] = f"{aware:.0f}"
        found[f"one_way_{n}"] = f"{one_way:.0f}"
        found[f"around_{n}"] = f"{around:.0f}"
    return found


def _fat_tree() -> dict[str, str]:
    small, large, more = (network.fat_tree(*sizes) for sizes in ((4,), (48,), (48, 3)))
    down = 48 * 3 // 4
    low = more.ranks // (48 * down)
    return {
        "small": f"{small.ranks} ranks and {small.switches} switches",
        "large": f"{large.ranks:,} ranks with {large.switches:,} switches",
        "more": f"{more.ranks:,} ranks with {more.switches:,} switches",
        "share": f"{more.bisection / more.ranks:.3g}",
        "down": str(down),
        "up": str(48 - down),
        "low": str(low),
        "middle": str(48 - down),
        "top": str(more.switches - 48 * (low + 48 - down)),
    }


def _dimensions() -> dict[str, str]:
    small = [
        collective_time("all_reduce", 64e3, text, "ring", 50e9, 500e-9).time for text in ("ring:64", "torus:4x4x4")
    ]
    shares = [network.dimension_all_reduce(64e6, p, 4.0, 50e9, 500e-9) for p in (1.0, 4.0, 16.0)]
    return {
        "small_flat": _time(small[0]),
        "small_cube": _time(small[1]),
        "first": _percent(shares[0] / sum(shares)),
    }


def _wired() -> dict[str, str]:
    def reduce(text: str, algorithm: str, link: float, size: float) -> float:
        return collective_time("all_reduce", size, text, algorithm, link, 500e-9).time

    def exchange(text: str, link: float, optimization: str = "localBWAware") -> float:
        return collective_time("all_to_all", 256e6, text, "direct", link, 500e-9, optimization=optimization).time

    ring = reduce("ring:16", "ring", 150e9, 256e6)
    return {
        "ring": _time(ring),
        "ring_both_ways": _time(reduce("ring:16", "ring", 150e9, 128e6)),
        # four quarters, each with a direction and a first dimension of its own: every link is in use all the time
        "torus": _time(reduce("torus:4x4", "ring", 75e9, 256e6)),
        "torus_all_ways": _time(reduce("torus:4x4", "ring", 75e9, 64e6)),
        "exchange_ring": _time(exchange("ring:16", 150e9)),
        "exchange_torus": _time(exchange("torus:4x4", 75e9)),
        "exchange_in_turn": _time(exchange("torus:4x4", 75e9, "baseline")),
        "full": _time(reduce("fullyconnected:16", "direct", 20e9, 256e6)),
        "small_ring": _time(reduce("ring:16", "direct", 150e9, 64e3)),
        "small_full": _time(reduce("fullyconnected:16", "direct", 20e9, 64e3)),
        "middle_ring": units.format(2 * 150e9, "byte/s"),
        "middle_switch": units.format(parse("switch:16").bisection * 300e9, "byte/s"),
    }


def _peers() -> dict[str, str]:
    links = catalog.device("A100-SXM4-80GB").scale_up_bandwidth
    peer = network.peer_bandwidth(links, 4.0)
    right = collective_time("all_gather", 1e9, "fullyconnected:4", "direct", peer).time
    wrong = collective_time("all_gather", 1e9, "switch:4", "ring", peer).time
    return {
        "right": _time(right),
        "wrong": _time(wrong),
    }


def _overlap() -> dict[str, str]:
    found: dict[str, str] = {}
    for short, name, text, link in (
        ("switch", "tf1l_train_dp8.spmd", "switch:8", 300e9),
        ("ring", "tf1l_train_dp8.spmd", "ring:8", 150e9),
        ("fused", "tf1l_train_dp8.gpuopt_a100_sxm_40", "switch:8", 300e9),
    ):
        fabric = hlo.Fabric(text, link, 500e-9, "ring" if short == "ring" else "direct")
        linear, free = (
            hlo.estimate(hlo.sample(name), "A100", split=split, fusion="off", network=fabric)
            for split in ("linear", "dependency")
        )
        found |= {
            f"{short}_linear": _time(linear.total_s),
            f"{short}_dependency": _time(free.total_s),
            f"{short}_exposed": _time(network.exposed_communication(free.total_s, free.compute_s)),
            f"{short}_hidden": _percent(network.hidden_share(free.total_s, free.compute_s, free.comm_s)),
            f"{short}_compute": _time(free.compute_s),
            f"{short}_comm": _time(free.comm_s),
            f"{short}_count": str(sum(m.count for m in free.collectives)),
            f"{short}_bytes": units.format(sum(m.bytes * m.count for m in free.collectives), "byte", 2),
        }
    waiting = hlo.estimate(
        hlo.sample("tf1l_train_dp8.spmd"), "A100", fusion="off", network=hlo.Fabric("switch:8", 1e30, 500e-9, "direct")
    )
    found["switch_waits"] = _time(waiting.comm_s)
    smaller = hlo.estimate(hlo.sample("tf1l_train_dp8.spmd"), "A100-40GB", fusion="off", network=lambda _: 0.0)
    found |= {
        "small_card": _time(smaller.compute_s),
        "card": units.format(catalog.device("A100").memory_capacity, "byte"),
    }
    unused = {"ring_" + k for k in ("linear", "exposed", "hidden", "compute", "count", "bytes")} | {
        "fused_linear",
        "fused_exposed",
        "fused_bytes",
    }
    return {name: value for name, value in found.items() if name not in unused}


def _compared() -> dict[str, str]:
    compared = astrasim_runs.compared()
    return {
        **{name: f"{equal:,} of {of:,}" for name, (equal, of) in compared.counts.items()},
        "regions": str(len(compared.steps[0].regions)),
    }


def _breaks() -> dict[str, str]:
    mixed = ("ring:4xswitch:4", "ring", (100e9, 25e9), (500e-9, 2e-6))
    shared, paper = (
        collective_time("all_reduce", 64e6, *mixed, splits=8, active_chunks=4, congestion=c)
        for c in ("aware", "unaware")
    )
    one = collective_time("all_reduce", 64e6, *mixed)
    eight = collective_time("all_reduce", 64e6, *mixed, splits=8)
    stored = 4 * network.message_time(1e6, 1.0, 50e9, 500e-9)
    # 8 ranks gather shards of 1 MB, then reduce and scatter 8 MB; a tool that passes on the bytes that come out
    gather = [astra_size(op, size) for op, size in (("all_gather", 10**6), ("all_gather", 8 * 10**6))]
    scatter = [astra_size(op, size) for op, size in (("reduce_scatter", 8 * 10**6), ("reduce_scatter", 10**6))]
    return {
        "one": _time(one.time),
        "eight": _time(eight.time),
        "least": _time(one.least_time),
        "paper": _time(paper.time),
        "shared": _time(shared.time),
        "factor": f"{shared.time / paper.time:.2g}",
        "cut": _time(network.message_time(1e6, 4.0, 50e9, 500e-9)),
        "stored": _time(stored),
        "gather": f"{gather[1] / gather[0]:.2g}",
        "scatter": f"{scatter[0] / scatter[1]:.2g}",
        "binary": units.percent(2**30 / 1e9 - 1, 1, signed=False),
    }


def astra_size(op: str, size: int) -> float:
    """Time of an operation on eight ranks behind a switch, its size given as ASTRA-sim takes it; no latency."""
    found = network.astrasim.collective_time(op, size, "switch:8", "ring", 100, 0, endpoint_delay_ns=0)
    return found.time


def _toy() -> dict[str, str]:
    """A megabyte over four hops; and six tasks on two streams, those of the chapter's drawing, in units of time."""
    hops, latency, rate = 4, 500e-9, 50e9
    tasks = [
        network.Task("a", "compute", 2.0),
        network.Task("b", "compute", 3.0, ("a",)),
        network.Task("send a", "communication", 4.0, ("a",)),
        network.Task("c", "compute", 2.0, ("send a",)),
        network.Task("send b", "communication", 2.0, ("b",)),
        network.Task("d", "compute", 2.0, ("send b", "c")),
    ]
    done = network.schedule(tasks)
    shows = network.exposed_communication(done.time, done.compute)
    return {
        "latency": _time(latency),
        "bytes": _time(1e6 / rate),
        "waits": _time(hops * latency),
        "compute": f"{done.compute:g}",
        "communicate": f"{done.communication:g}",
        "total": f"{done.time:g}",
        "exposed": f"{shows:g}",
        "hidden": _percent(network.hidden_share(done.time, done.compute, done.communication)),
    }


def _tpu() -> dict[str, str]:
    """One step on eight cores of a TPU v3, wired as the paper says and as its tool is configured."""
    peak = estimators.array("tpu-v3-core").peak
    return {
        name: _time(case_runs.tpu_step(peak, wiring=w).total_s)
        for name, w in (("rings", "ring:4xring:2"), ("mesh", "mesh:4x2"))
    }


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 21."""
    return {
        "predict": _predict(),
        "congestion": _congestion(),
        "dimensions": _dimensions(),
        "fat_tree": _fat_tree(),
        "wired": _wired(),
        "peers": _peers(),
        "overlap": _overlap(),
        "toy": _toy(),
        "tpu": _tpu(),
        "compared": _compared(),
        "breaks": _breaks(),
    }
