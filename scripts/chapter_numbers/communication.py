"""Chapter 4, communication, and the appendix on networks."""

from collections.abc import Sequence
from typing import Any

from mlsysim import catalog, collectives, communication, evidence, units
from mlsysim.evidence.measured import collectives as measured
from mlsysim.evidence.predictors import shipped_fit
from mlsysim.evidence.scoring.tried import read_log


def _time(value: float, digits: int = 3) -> str:
    return units.format(value, "s", digits=digits)


def _rate(value: float, digits: int = 4) -> str:
    return units.format(value, "byte/s", digits=digits)


def _size(value: float, digits: int = 3) -> str:
    return units.format(value, "byte", digits=digits)


def _mean(values: Sequence[float]) -> str:
    return units.percent(sum(map(abs, values)) / len(values), signed=False)


def _rows(prefix: str) -> list[evidence.Check]:
    return [
        evidence.check(n)
        for n, r in evidence.measurements("collectives").items()
        if n.startswith(prefix) and r.kind == "all_reduce"
    ]


def _ring_example() -> dict[str, str]:
    """One gigabyte over eight H100 at the wire; then a ring over the network with NCCL's steps, on nodes of eight and of one."""
    wire, nic = catalog.link("NVLink-4").bandwidth, catalog.link("NDR").bandwidth
    plan = catalog.protocol("nccl-ring-simple")
    step, step_inside = plan.scale_out_step, plan.scale_up_step
    inside = collectives.half_size(wire, step_inside, pieces=8)

    def ring(ranks: int, per_node: int) -> tuple[float, float]:
        """Half size, and time of all steps."""
        mean = collectives.ring_latency(ranks, per_node, step_inside, step)
        return collectives.half_size(nic, mean, ranks), collectives.ring_all_reduce(0.0, ranks, nic, mean)

    half, (large, steps), (alone, steps_alone) = ring(64, 8)[0], ring(1024, 8), ring(1024, 1)
    return {
        "latency_share_1024": units.percent(1 / (1 + 1e9 / large), 0, signed=False),
        "latency_share_1024_alone": units.percent(1 / (1 + 1e9 / alone), 0, signed=False),
        "claim_inside": f"{1e9 / inside:.0f}",
        "claim_64": f"{1e9 / half:.0f}",
        "claim_1024": f"{1e9 / large:.1f}",
        "claim_1024_alone": f"{1e9 / alone:.1f}",
        "gigabyte": _time(collectives.ring_all_reduce(1e9, 8, wire)),
        "factor_8": f"{collectives.ring_all_reduce(1.0, 8, 1.0):g}",
        "factor_1024": f"{collectives.ring_all_reduce(1.0, 1024, 1.0):.3f}",
        "step": _time(step),
        "step_inside": _time(step_inside),
        "large_ranks": "1024",
        "steps_1024": _time(steps),
        "steps_1024_alone": _time(steps_alone),
        "plateau": f"{plan.network_factor:g}",
        "half_message": _size(collectives.half_size(nic, step)),
    }


def _toy() -> dict[str, str]:
    """A megabyte over an adapter; and a gigabyte that eight devices send to one of them, which sends the sum back."""
    wire, nic = catalog.link("NVLink-4").bandwidth, catalog.link("NDR").bandwidth
    return {
        "bytes": _time(collectives.transfer_time(1e6, nic, 0.0), 2),
        "naive": _time(2 * collectives.transfer_time(7 * 1e9, wire, 0.0), 2),
    }


def _tree_example() -> dict[str, str]:
    """NCCL's plan for a gigabyte over 1024 H100, as rings and as trees."""
    tree = catalog.protocol("nccl-tree-simple")
    ring = min(
        communication.library_all_reduce(1e9, 1024, "DGX-H100", p).time
        for p in ("nccl-ring-ll", "nccl-ring-ll128", "nccl-ring-simple")
    )
    fastest = communication.fastest_all_reduce(1e9, 1024, "DGX-H100")
    if fastest.algorithm != "pipelined_tree":
        raise ValueError("chapter 4 says that NCCL plans a gigabyte over 1024 H100 as trees; it no longer does")
    return {
        "share": units.percent(tree.payload, 0, signed=False),
        "chunks_1024": _time(communication.library_all_reduce(1e9, 1024, "DGX-H100", "nccl-ring-simple").time),
        "ring_1024": _time(ring),
        "tree_1024": _time(fastest.time),
    }


def _measured() -> dict[str, Any]:
    a100, h100 = _rows("azure-a100"), _rows("azure-h100")
    h200, b200 = _rows("bekman-h200-nvls"), _rows("bekman-b200-nvls")
    rings = [*_rows("bekman-h200-ring"), *_rows("bekman-b200-ring")]
    eight = evidence.check("azure-h100-8g")
    wire = catalog.link("NVLink-4").bandwidth

    def of(rows: list[evidence.Check], low: float, high: float) -> list[float]:
        return [c.error for c in rows if low <= c.measurement.inputs["bytes"] <= high]

    shares = [c.others["bound"] / c.measured for c in h200]
    return {
        "a100_share": f"{catalog.link('NVLink-3').planned_bandwidth / catalog.link('NVLink-3').bandwidth:.2f}",
        "h100_share": f"{catalog.link('NVLink-4').planned_bandwidth / wire:.3f}",
        "a100_small": _mean(of(a100, 0, 1e6)),
        "a100_large": _mean(of(a100, 2.6e8, 1e12)),
        "a100_8g": units.percent(evidence.check("azure-a100-8g").error),
        "h100_8g_bus": _rate(eight.measurement.value, 3),
        "h100_8g": units.percent(eight.error),
        "h100_8g_ring": units.percent(eight.error_of("ring")),
        "h100_ceiling": _rate(collectives.bus_bandwidth(1.0, collectives.in_switch_all_reduce(1.0, 8, wire), 8)),
        "h100_small": _mean(of(h100, 0, 1e6)),
        "h100_large": _mean(of(h100, 2.6e8, 1e12)),
        "switched": _mean([c.error for c in (*h200, *b200)]),
        "switched_n": str(len(h200) + len(b200)),
        "rings": _mean([c.error for c in rings]),
        "rings_n": str(len(rings)),
        "share_low": f"{min(shares):.3f}",
        "share_high": f"{max(shares):.3f}",
        "shortest_a100": _time(evidence.check("azure-a100-1k").measured),
        "shortest_a100_plan": _time(evidence.check("azure-a100-1k").predicted),
        "shortest_h100": _time(evidence.check("azure-h100-1k").measured),
    }


def _levels() -> dict[str, str]:
    node = catalog.node("P6-B200")
    four, one = evidence.check("bekman-b200-4-nodes-16g"), evidence.check("bekman-b200-1-node-16g")
    h100 = catalog.node("DGX-H100")
    flat = collectives.ring_all_reduce(16e9, 128, h100.scale_out_bandwidth)
    levels = collectives.hierarchical_all_reduce(16e9, 8, 16, h100.scale_up_bandwidth, h100.scale_out_bandwidth)
    small, quarter, mega = (evidence.check(f"bekman-b200-4-nodes-{size}") for size in ("32k", "256k", "1m"))
    large = [evidence.check(f"bekman-b200-4-nodes-{size}") for size in ("1g", "4g", "16g")]
    inside = collectives.ring_all_reduce(1.0, 8, node.scale_up_bandwidth)
    second = collectives.ring_all_reduce(1.0 / 8, 4, node.scale_out_bandwidth) / inside
    return {
        "ratio": f"{node.bandwidth_ratio:.0f}",
        "second": f"{second:.1f}",
        "foretold": f"{1 + second:.1f}",
        "one": _time(one.measured),
        "four": _time(four.measured),
        "slowdown": f"{four.measured / one.measured:.1f}",
        "hierarchical": _time(four.others["hierarchical"]),
        "hierarchical_error": units.percent(four.others["hierarchical"] / four.measured - 1),
        "overlapped": _time(four.others["overlapped"]),
        "overlapped_error": units.percent(four.others["overlapped"] / four.measured - 1),
        "flat": _time(four.others["flat"]),
        "rings": _time(four.others["rings"]),
        "rings_error": units.percent(four.others["rings"] / four.measured - 1),
        "flat_factor": f"{four.others['flat'] / four.measured:.1f}",
        "h100_flat": _time(flat),
        "h100_levels": _time(levels),
        "h100_gain": f"{flat / levels:.1f}",
        "plan_large": _mean([c.predicted / c.measured - 1 for c in large]),
        "small_low": _time(measured.printed_range(small.measurement)[0], 2),
        "small_high": _time(measured.printed_range(small.measurement)[1], 2),
        "quarter_measured": _time(quarter.measured),
        "mega_measured": _time(mega.measured),
        "mega_bytes": _time(mega.others["hierarchical"], 2),
        "mega_plan": _time(mega.predicted, 2),
    }


def _chunks() -> dict[str, str]:
    """What passing eight stages adds to a millisecond of bytes, and to ten."""
    chunk = communication.call_cost().chunk
    return {
        "latency": _time(chunk),
        "millisecond": _time(collectives.chunked_transfer(1e-3, 1.0, 8.0, chunk)),
        "ten": _time(collectives.chunked_transfer(10e-3, 1.0, 8.0, chunk), 4),
    }


def _switches() -> dict[str, str]:
    """8 GB on two and on four nodes of eight H100, at printed rates."""
    node = catalog.node("DGX-H100")

    def over(nodes: int) -> str:
        rates = node.scale_up_bandwidth, node.scale_out_bandwidth
        return _time(collectives.in_switch_tree_all_reduce(8e9, 8, nodes, *rates))

    if over(2) != _time(collectives.in_switch_all_reduce(8e9, 8, node.scale_up_bandwidth)):
        raise ValueError("chapter 4 says that two nodes of H100 are as fast as one; they no longer are")
    return {"two": over(2), "four": over(4)}


def _library() -> dict[str, str]:
    """The fitted cost of a call, and what the log of tried variants says about it."""
    cost, fit = communication.call_cost(), shipped_fit("collective")
    log = read_log("collective")
    kept = [line for line in log if line.kept][-1]
    if cost.unnamed != "EFA" or kept.rows != fit["rows"]:
        raise ValueError(
            "chapter 4 says whose network an unnamed one is taken for, and scores the fit; they have changed"
        )
    node, refuted = catalog.node("P6-B200"), catalog.protocol("efa-tree-simple").scale_out_step
    assert node.scale_up is not None
    rate = node.scale_up.planned_bandwidth * node.scale_up.in_switch_efficiency
    trees = collectives.in_switch_tree_all_reduce(262144, 8, 4, rate, node.scale_out_bandwidth, cost.start, refuted)

    quarter = communication.library_time("all_reduce", 262144.0, communication.wires("P6-B200", 32))
    pairs = communication.library_time("all_reduce", 16e3, communication.wires("MI300X-platform", 8))
    if not pairs.protocol == "rccl-pairs-ll":
        raise ValueError("chapter 4 says that eight MI300X write to all at once; they no longer do")
    if not trees < quarter.time:
        raise ValueError("chapter 4 says that the refuted tree would be the fastest; it no longer would")

    def share(value: float) -> str:
        return units.percent(value, signed=False)

    return {
        "start": _time(cost.start or 0.0),
        "chunk": _time(cost.chunk),
        "efa_step": _time(catalog.protocol("efa-ring-ll").scale_out_step),
        "nccl_ll_step": _time(catalog.protocol("nccl-ring-ll").scale_out_step),
        "unnamed": "AWS's",
        "rows": str(fit["rows"]),
        "groups": str(len(fit["groups"])),
        "error": share(kept.error),
        "left_out": share(kept.left_out_source),
        "before": share(log[0].left_out_source),
        "plain": share(log[1].left_out_source),
        "steps": share(log[2].left_out_source),
        "refuted": _time(trees, 2),
        "quarter": _time(quarter.time),
        "refit": share(next(line for line in log if "refitted to three sets" in line.variant).left_out_source),
        "pairs": _time(pairs.time),
        "amd_ring": _time(next(c.time for c in pairs.candidates if c.protocol == "rccl-ring-ll")),
        "tree_step": _time(catalog.protocol("efa-nvls-tree").scale_out_step),
        "mega": _time(communication.library_time("all_reduce", 2.0**20, communication.wires("P6-B200", 32)).time),
    }


def _experts() -> dict[str, str]:
    node = catalog.node("H800-node")
    row = {n: evidence.measurement(f"deepep-dispatch-{n}") for n in (16, 256)}
    i = row[16].inputs
    moved = i["tokens"] * i["token_bytes"] * i["copies"]

    def floor(n: int, remote: float) -> float:
        return float(
            collectives.moe_dispatch(
                i["tokens"], i["token_bytes"], remote, 0, node.scale_out_bandwidth, node.scale_up_bandwidth
            )
        )

    all_out = floor(16, 8)
    return {
        "moved": _size(moved),
        "all_out": _time(all_out),
        "sixteen": _time(row[16].value),
        "sixteen_rate": _rate(moved / row[16].value, 2),
        "sixteen_floor": _time(floor(16, 8 * (1 - 8 / 16))),
        "many_floor": _time(floor(256, 8 * (1 - 8 / 256))),
        "many_error": units.percent(floor(256, 8 * (1 - 8 / 256)) / row[256].value - 1),
        "once_out": f"{collectives.copies_sent(256, 8, 64, 8, 1.0)[0]:.1f}",
        "once_in": f"{collectives.copies_sent(256, 8, 64, 8, 1.0)[1]:.1f}",
        # eight nodes: a copy, or a node of the four, is the own one with a chance of an eighth
        "copies_out": f"{8 * (1 - 1 / 8):g}",
        "nodes_out": f"{4 * (1 - 1 / 8):g}",
    }


def _spreading() -> dict[str, str]:
    """All-to-all of a kilobyte over 1,024 H100, and what nccl2024alltoall prints for 64 H800 (8 MiB: out of place, in place)."""
    few, many = (communication.library_time("all_to_all", 1e3, communication.wires("DGX-H100", n)) for n in (8, 1024))
    short, chunks = (catalog.protocol(f"nccl-ring-{name}") for name in ("ll", "simple"))
    links = communication.Wires(64, 8, 200e9, 50e9, catalog.link("NVLink-4"), catalog.link("InfiniBand-NDR"))
    return {
        "in_turn": _time(collectives.all_to_all(0.0, 1024, 1.0, chunks.scale_out_step)),
        "step": _time(short.scale_out_step),
        "post": _time(short.network_post),
        "chunk_step": _time(chunks.scale_out_step),
        "chunk_post": _time(chunks.network_post),
        "kilobyte": _time(many.time),
        "waits": _time(many.candidates[0].latency_time),
        "eight": _time(few.time),
        "measured_low": _time(295.6e-6),
        "measured_high": _time(337.8e-6),
        "predicted": _time(communication.library_time("all_to_all", 2.0**23, links).time),
    }


def _gather() -> dict[str, str]:
    """An all-gather over 64 nodes with one rank in each, by NCCL's plan."""
    pat = catalog.protocol("nccl-pat")
    links = communication.Wires(64, 1, 50e9, 50e9, None, catalog.link("InfiniBand-NDR"))

    def both(size: float) -> tuple[float, float]:
        return tuple(communication.library_time("all_gather", size, links, word).time for word in ("pat", "ring"))  # type: ignore[return-value]

    low, high = 1e6, 1e10
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        trees, ring = both(middle)
        low, high = (middle, high) if trees < ring else (low, middle)
    trees, ring = both(1e6)
    return {
        "step": _time(pat.scale_out_step),
        "rank": _time(pat.rank_step),
        "pat": _time(trees),
        "ring": _time(ring),
        "even": _size(low, 2),
    }


def _tensor() -> dict[str, str]:
    """GPT-3 on eight A100: 96 layers of width 12288, sequences of 2048 tokens."""
    inside, outside = catalog.node("DGX-A100").scale_up_bandwidth, catalog.node("DGX-A100").scale_out_bandwidth
    args = (96, 2048, 1, 12288, 8)
    return {
        "message": _size(2048 * 12288 * 2.0),
        "inside": _time(collectives.tensor_parallel_time(*args, inside)),
        "outside": _time(collectives.tensor_parallel_time(*args, outside)),
    }


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 4 and of the appendix on networks."""
    h100 = catalog.node("DGX-H100")
    return {
        "catalogue": {"links": str(len(catalog.links())), "nodes": str(len(catalog.nodes()))},
        "toy": _toy(),
        "ring": _ring_example(),
        "tree": _tree_example(),
        "measured": _measured(),
        "levels": _levels(),
        "chunks": _chunks(),
        "switches": _switches(),
        "library": _library(),
        "experts": _experts(),
        "tensor": _tensor(),
        "spreading": _spreading(),
        "gather": _gather(),
        "symmetric": {"hopper": "4.5 to 7.8 µs", "blackwell": "8.5 to 19.5 µs"},  # nccl2026symmetric, baseLat by kernel
        "h100": {
            "wire": _rate(h100.scale_up_bandwidth),
            "two_way": _rate(2 * h100.scale_up_bandwidth),
            "out": _rate(h100.scale_out_bandwidth),
            "ratio": f"{h100.bandwidth_ratio:g}",
            "ratio_mixed": f"{2 * h100.bandwidth_ratio:g}",
        },
        "ratios": {
            "a100": f"{catalog.node('DGX-A100').bandwidth_ratio:g}",
            "b200": f"{catalog.node('DGX-B200').bandwidth_ratio:g}",
            "p4d": f"{catalog.node('P4d').bandwidth_ratio:g}",
        },
        "azure": {
            "per_gpu": _rate(catalog.node("DGX-A100").scale_out_bandwidth),
            "per_vm": _rate(8 * catalog.node("DGX-A100").scale_out_bandwidth),
        },
    }
