"""Chapter 5, splitting a model."""

from typing import Any

from chapter_numbers import share
from mlsysim import catalog, collectives, evidence, parallelism, pipelines, training, transformer, units
from mlsysim.catalog import Model

THREE_B = catalog.decoder("3B", layers=28, hidden=3072, heads=32, kv_heads=32, head_dim=96, ffn=8192, vocab=128256)


def _context() -> dict[str, str]:
    """Keys and values of one layer, forward, round a ring and gathered; what products reach as measured, NCCL's latencies."""
    node = catalog.node("DGX-H100")

    def layer(model: str, seq: int, cp: int, way: str, mode: str = "datasheet") -> dict[str, Any]:
        step = training.training_step(
            model,
            parallelism.Plan(cp=cp, cp_comm_type=way),
            catalog.cluster(node, max(1, cp // node.devices)),
            global_batch=1,
            seq=seq,
            efficiencies=mode,
        )
        return {term.name: term for term in step.explain().terms}

    def time(value: float) -> str:
        return units.format(value, "s", digits=3)

    short, long = 8192, 131072
    eight, sixteen = (layer("Llama-3.1-70B", short, cp, "p2p") for cp in (8, 16))
    gathered, big = layer("Llama-3.1-70B", short, 16, "all_gather"), layer("Llama-3.1-405B", long, 16, "all_gather")
    hidden = layer("Llama-3.1-405B", long, 16, "p2p")["exposed CP hop, forward"].value
    if hidden or eight["exposed CP hop, forward"].value:
        raise ValueError("chapter 5 says that these hops hide; they no longer do")
    return {
        "one": units.format(node.scale_out_bandwidth, "byte/s"),
        "all": units.format(node.nics * node.scale_out.bandwidth, "byte/s"),
        "short": f"{short:,}",
        "long": f"{long:,}",
        "start_8": time(eight["CP hop, forward"].arguments["latency"]),
        "start_16": time(sixteen["CP hop, forward"].arguments["latency"]),
        "bound_8": time(layer("Llama-3.1-70B", short, 8, "p2p", "bound")["CP hop, forward"].value),
        "bound_16": time(layer("Llama-3.1-70B", short, 16, "p2p", "bound")["CP hop, forward"].value),
        "hop_8": time(eight["CP hop, forward"].value),
        "behind_8": time(eight["exposed CP hop, forward"].arguments["behind"]),
        "hop_16": time(sixteen["CP hop, forward"].value),
        "behind_16": time(sixteen["exposed CP hop, forward"].arguments["behind"]),
        "ring_16": time(15 * sixteen["exposed CP hop, forward"].value),
        "gather_16": time(gathered["exposed CP gathering"].value),
        "gather_long": time(big["exposed CP gathering"].value),
        "attention_long": time(big["attention"].value),
    }


def _schedules() -> dict[str, str]:
    """Waits and micro-batches kept of 16 stages, a unit for each part, from the orders as they run."""
    ran = {kind: pipelines.timed(kind, 16, 32) for kind in ("1f1b", "zb-h1", "zb-v", "dualpipe", "dualpipe-v")}
    named = dict(zip(("plain", "h1", "v", "dual", "cut"), ran.values(), strict=True))
    waits = {name: f"{t.wait:g}" for name, t in named.items()}
    return waits | {f"kept_{name}": f"{max(t.kept):g}" for name, t in named.items()}


def _cuts() -> dict[str, str]:
    seq, cp = 131072, 8
    ring = parallelism.cp_exchange_bytes(seq, 1, 8, 128, 1, cp, passes=1)
    swap = parallelism.ulysses_bytes(seq, 1, 64, 8, 128, 128, 1, cp)
    return {
        "seq": f"{seq:,}",
        "ring": units.format(ring, "byte", 3),
        "swap": units.format(swap, "byte", 3),
        "free": f"{7 / 8 * collectives.places_reached(256, 8, 8):.1f}",
        "limited": f"{parallelism.limited_nodes(8, 8, 4):.1f}",
    }


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 5."""
    llama, mtnlg = evidence.published_plan("llama3-405b-16k"), evidence.published_plan("mtnlg-280")
    last, megatron = evidence.published_plan("mtnlg-420"), evidence.published_plan("megatron-530b")
    efficiency = catalog.preset("mlsysim-page-training").efficiency.value
    penalty = parallelism.TP_PENALTY.value
    h100 = catalog.node("DGX-H100")

    def cost(
        tp: int, domain: int | None = None, model: Model | str = THREE_B, node: str = "DGX-H100"
    ) -> parallelism.TensorParallelCost:
        return parallelism.tensor_parallel_cost(model, tp, node, seq=4096, efficiency=efficiency, domain=domain)

    def loss(small: int, large: int, domain: int | None = None) -> float:
        return float(cost(large, domain).token_rate / cost(small, domain).token_rate - 1)

    def factor(model: Model | str, node: str) -> str:
        return f"{cost(16, 8, model, node).time / cost(16, 72, model, node).time:.2f}"

    unit = mtnlg.step_time.value / (mtnlg.micro_batches + mtnlg.plan.pp - 1)
    predicted = parallelism.pipeline_time(unit, (last.plan.pp - 1) * unit, last.micro_batches)
    perfect = mtnlg.step_time.value * mtnlg.devices.value / last.devices.value
    measured = evidence.measurement("playbook-tp8-to-tp16").value
    seventy = transformer.parameter_count("Llama-3.1-70B").total
    message = parallelism.dp_gradient_bytes(seventy, 8, 4)
    placed = collectives.ring_all_reduce(message, 64, h100.scale_out_bandwidth)
    charged = collectives.ring_all_reduce(message, 64, h100.scale_up_bandwidth)
    whole = collectives.ring_all_reduce(parallelism.dp_gradient_bytes(seventy, 8, 1), 64, h100.scale_out_bandwidth)
    v3 = parallelism.Plan(pp=16, dp=128, ep=64)
    slow, others = 8.0, 118.0
    step_plan = llama.plan
    tp_message = parallelism.tp_allreduce_bytes(llama.seq, 1, 16384, step_plan.slowest_stage_layers(126))
    tp_sent = parallelism.tp_volume(tp_message, step_plan.tp)
    spent = (10.0, 1.0, 0.5, 1.0)  # s of arithmetic, gradients, sums and bubble, in round numbers
    even = parallelism.pipeline_time(126 / 16, 126 / 16 * 15, llama.micro_batches)
    return {
        "context": _context(),
        "llama": {
            "devices": str(llama.plan.devices),
            "micro_batches": str(llama.micro_batches),
            "batch": f"{llama.global_batch:,}",
            "dp": str(llama.plan.dp),
            "share": share(parallelism.bubble_fraction(16, llama.micro_batches), 0),
            "ratio_8": share(parallelism.bubble_ratio(16, llama.micro_batches, 8)),
            "share_8": share(parallelism.bubble_fraction(16, llama.micro_batches, 8)),
            "share_4": share(parallelism.bubble_fraction(16, llama.micro_batches, 4)),
            "fullest": str(llama.plan.slowest_stage_layers(126)),
            "average": f"{126 / 16:g}",
            "uneven": share(parallelism.pipeline_time(slow, others, llama.micro_batches) / even - 1),
            "beat": share(8 / (126 / 16) - 1),
        },
        "schedules": _schedules(),
        "cuts": _cuts(),
        "toy": {
            "work": "18",
            "wait": f"{parallelism.pipeline_time(3.0, 9.0, 6) - 18:g}",
            "ratio": share(parallelism.bubble_ratio(4, 6), 0),
            "share": share(parallelism.bubble_fraction(4, 6), 0),
        },
        "bytes": {
            "layers": str(step_plan.slowest_stage_layers(126)),
            "seq": f"{llama.seq:,}",
            "hidden": "16,384",
            "tp_message": units.format(tp_message, "byte", 2),
            "tp_sent": units.format(tp_sent, "byte", 2),
            "tp_step": units.format(tp_sent * llama.micro_batches, "byte", 3),
        },
        "eta": {
            "compute": units.format(spent[0], "s", 2),
            "dp": units.format(spent[1], "s", 2),
            "tp": units.format(spent[2], "s", 2),
            "bubble": units.format(spent[3], "s", 2),
            "share": share(parallelism.scaling_efficiency(*spent), 0),
        },
        "few": {
            "micro_batches": "4",
            "stages": f"{parallelism.pipeline_time(1.0, 15.0, 4, 8):.1f}",
            "promised": f"{4 + 15 / 8:.1f}",
            "two_promised": share(1 / 101),
        },
        "megatron": {
            "micro_batches": str(megatron.micro_batches),
            "ratio": share(parallelism.bubble_ratio(35, megatron.micro_batches, 3)),
            "plain": share(parallelism.bubble_ratio(35, megatron.micro_batches)),
        },
        "p8m32": {
            "share": share(parallelism.bubble_fraction(8, 32)),
            "ratio": share(parallelism.bubble_ratio(8, 32)),
        },
        "five": {
            "times": f"{0.95 / 0.05:.0f}",
            "times_ideal": f"{1 / 0.05:.0f}",
        },
        "mtnlg": {
            "predicted": units.format(predicted, "s", 3),
            "measured": units.format(last.step_time.value, "s"),
            "first": units.format(mtnlg.step_time.value, "s"),
            "kept_bubble": share((mtnlg.step_time.value - predicted) / (mtnlg.step_time.value - perfect), 0),
            "kept": share((mtnlg.step_time.value - last.step_time.value) / (mtnlg.step_time.value - perfect), 0),
            "error": units.percent(predicted / last.step_time.value - 1),
            "perfect": units.format(perfect, "s", 3),
            "perfect_error": units.percent(perfect / last.step_time.value - 1),
            "first_share": share(parallelism.bubble_fraction(35, mtnlg.micro_batches)),
            "last_share": share(parallelism.bubble_fraction(35, last.micro_batches)),
        },
        "moe": {
            "devices": str(v3.devices),
            "data": str(v3.data_parallel),
            "replicas": f"{parallelism.expert_replicas(v3.devices, 1, 16, 64):g}",
            "fifth": str(v3.devices * v3.ep),
            "lost": f"{v3.data_parallel / parallelism.expert_replicas(v3.devices, 1, 16, 64):g}",
        },
        "gradients": {
            "message": units.format(message, "byte", 3),
            "placed": units.format(placed, "s", 3),
            "charged": units.format(charged, "s", 3),
            "ratio": f"{placed / charged:.0f}",
            "whole": units.format(whole, "s", 3),
            "whole_ratio": f"{whole / placed:.0f}",
        },
        "tp": {
            "penalty": f"{penalty:.2f}",
            "penalty_loss": share(1 - 1 / penalty),
            "measured": share(measured),
            "measured_time": f"{1 / (1 - measured):.2f}",
            "derived": share(-loss(8, 16)),
            "stay": share(-loss(8, 16, 72)),
            "measured_before": share(evidence.measurement("playbook-tp4-to-tp8").value),
            "derived_before": share(-loss(4, 8)),
            "efficiency": f"{efficiency:g}",
            "small_h100": factor(THREE_B, "DGX-H100"),
            "large_h100": factor("Llama-3.1-405B", "DGX-H100"),
            "small_gb200": factor(THREE_B, "GB200-NVL72"),
            "large_gb200": factor("Llama-3.1-405B", "GB200-NVL72"),
            "hgx": units.format(cost(16, None, "Llama-3.1-405B").time, "s", 3),
            "rack": units.format(cost(16, None, "Llama-3.1-405B", "GB200-NVL72").time, "s", 3),
            "hgx_share": share(
                cost(16, None, "Llama-3.1-405B").communication_time / cost(16, None, "Llama-3.1-405B").time, 0
            ),
            "rack_share": share(
                cost(16, None, "Llama-3.1-405B", "GB200-NVL72").communication_time
                / cost(16, None, "Llama-3.1-405B", "GB200-NVL72").time,
                0,
            ),
            "ratio": f"{h100.bandwidth_ratio:.0f}",
        },
    }
