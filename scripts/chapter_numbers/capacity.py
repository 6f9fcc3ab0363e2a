"""Chapter 8, serving capacity."""

import math
from typing import Any

from chapter_numbers import whole_share as share
from mlsysim import capacity, catalog, evidence, inference, memory, serving, transformer, units
from mlsysim.serving_steps import step_model

MET = (2, 2, 2, 8)  # tokens of the answers in the drawing of who is met


def _admission(replica: capacity.Replica, ttft: float) -> dict[str, str]:
    """A replica that gets a fifth more than it can complete and takes nobody who would wait too long."""
    rate, patience, blocking = 1.2 * replica.capacity, ttft - replica.prefill_time, 1.0
    for throughput in replica.throughputs[1:]:
        blocking = float(capacity.erlang_b_step(blocking, rate, throughput))
    away = float(serving.turned_away(rate, replica.capacity, blocking, patience))
    return {
        "rate": f"{rate:.3g}",
        "patience": units.format(patience, "s", 2),
        "away": share(away, 1),
        "least": share(1 - replica.capacity / rate, 1),
        "served": f"{rate * (1 - away):.3g}",
        "after": units.format(float(serving.overload_wait(rate, replica.capacity, 600.0)), "s", 3),
    }


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 8."""
    trace, code = catalog.trace("azure-conversation-2023"), catalog.trace("azure-code-2023")
    target = catalog.target("mlperf-llama2-70b-interactive")
    server = inference.deploy("Llama-3.1-70B", "H100", tp=4, efficiencies="bound")
    lengths: dict[str, Any] = {
        "input_len": trace.input_len.value,
        "output_len": trace.output_len.value,
        "variation": trace.output_variation.value,
    }
    requests: dict[str, Any] = {**lengths, "prompt_variation": trace.prompt_variation.value}
    aims: dict[str, Any] = {"ttft": target.ttft.value, "itl": target.itl.value}

    def time(value: float) -> str:
        return units.format(value, "s", 3)

    fit = capacity.sequences(server, **lengths)
    whole = capacity.replica_of(server, **requests, max_num_seqs=10_000)
    chosen = capacity.replica_of(server, **requests, itl=aims["itl"])
    best = capacity.max_rate(chosen, **aims)
    wanted = {name: capacity.replicas_needed(chosen, 100.0, routing=name, **aims) for name in capacity.ROUTING}
    first_only = capacity.max_rate(chosen, ttft=aims["ttft"])
    mean_kept = capacity.load(chosen, first_only.rate, **aims)
    mixing = serving.saturation(
        step_model(server),
        serving.load((0.0, 1.0), round(trace.input_len.value), round(trace.output_len.value)),
        serving.Config(max_num_seqs=chosen.max_running),
    )
    if mixing is None:
        raise AssertionError("chapter 8 says what a full server with mixed steps completes")
    decode = capacity.replica(
        lambda n: whole.step_times[n - 1], whole.max_running, prefill_time=0.0, output_len=trace.output_len.value
    )
    lone = capacity.load(whole, 1e-3)
    naive = fit.concurrency / lone.residence
    held = capacity.held_tokens(trace.input_len.value, trace.output_len.value, trace.output_variation.value)

    expected = inference.deploy("Llama-3.1-70B", "H100", tp=4, efficiencies="calibrated")
    slow = capacity.replica_of(expected, **requests, itl=aims["itl"])
    fixed, spread = slow.own_prompt
    if fixed + spread * math.log(100) < aims["ttft"]:
        raise AssertionError(
            "chapter 8 says that four devices at measured rates miss the target with nobody in the queue"
        )
    eight = inference.deploy("Llama-3.1-70B", "H100", tp=8, efficiencies="bound")
    doubled = capacity.max_rate(capacity.replica_of(eight, **requests, itl=aims["itl"]), **aims)
    h200 = inference.deploy("Llama-3.1-70B", "H200", tp=4, efficiencies="bound")
    wider = capacity.max_rate(capacity.replica_of(h200, **requests, itl=aims["itl"], max_num_seqs=1024), **aims)

    vllm: dict[str, Any] = {}
    for name in ("opt13b", "opt66b", "opt175b"):
        cache, slots = (evidence.measurements("budgets")[f"vllm-{name}-{what}"] for what in ("cache", "slots"))
        model, x = catalog.model(cache.inputs["model"]), cache.inputs
        token, weights = memory.kv_cache_of(model, 1, 1), 2 * transformer.parameter_count(model).total
        budget = {
            size: capacity.kv_budget(x["capacity_gib"] * size, weights, x["devices"], capacity.USABLE)
            for size in (units.GiB, units.GB)
        }
        binary, decimal = (capacity.concurrency(room, 1, token, 1) for room in budget.values())
        vllm[name] = {"error": units.percent(binary / slots.value - 1)}
        if name == "opt66b":
            vllm[name]["lost"] = share(1 - decimal / binary)
    printed = evidence.measurements("budgets")["vllm-opt13b-cache"]
    token = memory.kv_cache_of("OPT-13B", 1, 1)

    def wall(places: int, busy: float) -> float:
        return float(capacity.queue(busy * places, 1.0, places).wait_quantile)

    return {
        "target": {"ttft": time(aims["ttft"]), "itl": time(aims["itl"])},
        "admission": _admission(chosen, aims["ttft"]),
        "trace": {
            "prompt": f"{trace.input_len.value:,.0f}",
            "output": f"{trace.output_len.value:.0f}",
            "output_variation": f"{trace.output_variation.value:.2f}",
            "prompt_variation": f"{trace.prompt_variation.value:.2f}",
            "arrivals": f"{trace.arrival_variation.value:.2f}",
            "held": f"{trace.held.value:,.0f}",
            "held_ours": f"{held:,.0f}",
            "held_error": units.percent(held / trace.held.value - 1, 0),
            "code_arrivals": f"{code.arrival_variation.value:.0f}",
            "code_factor": f"{capacity.general_wait(1.0, code.prompt_variation.value, code.arrival_variation.value):.0f}",
        },
        "met": {"mean": f"{sum(MET) / len(MET):g}", "moment": f"{sum(x * x for x in MET) / sum(MET):.1f}"},
        "wall": {
            "one": f"{wall(1, 0.9):.0f}",
            "eight": f"{wall(8, 0.9):.1f}",
            "many": f"{wall(256, 0.9):.2f}",
        },
        "example": {
            "weights": units.format(server.weight_memory, "byte", 3),
            "budget": units.format(fit.budget, "byte", 3),
            "token": units.format(fit.token_bytes, "byte", 3),
            "token_all": units.format(server.token_bytes, "byte", 4),
            "fit": f"{fit.concurrency:.0f}",
            "reserved": f"{fit.reserved:.0f}",
            "places": f"{chosen.max_running}",
            "prompt": time(chosen.prefill_time),
            "step_one": time(whole.step_times[0]),
            "step_full": time(chosen.step_times[-1]),
            "round_prompts": units.format(chosen.max_running * chosen.prefill_time, "s", 2),
            "round_steps": units.format(chosen.steps * chosen.step_times[-1], "s", 2),
            "full": f"{chosen.capacity:.1f}",
            "best": f"{best.rate:.1f}",
            "busy": share(best.utilisation),
            "running": f"{best.running:.0f}",
            "mean_ttft": time(best.ttft),
            "prompts_busy": share(best.rate * chosen.prefill_time),
            "late": share(best.late, 1),
            "slow": share(1 - best.in_pace, 1),
            "itl": time(best.itl),
            "itl_99": time(best.itl_quantile),
            "ttft_99": time(best.ttft_quantile),
            "first_only": f"{first_only.rate:.1f}",
            "broken": f"{1 / (1 - mean_kept.in_pace):.0f}",
            "replicas": f"{wanted['round-robin'].replicas}",
            "replicas_least": f"{wanted['least-loaded'].replicas}",
            "replicas_random": f"{wanted['random'].replicas}",
            "devices": f"{4 * wanted['round-robin'].replicas}",
            "each": f"{100.0 / wanted['round-robin'].replicas:.1f}",
            "alone": time(lone.residence),
            "tokens_alone": f"{1 / whole.step_times[0]:.0f}",
            "naive": f"{naive:.0f}",
            "naive_ratio": f"{naive / best.rate:.0f}",
            "decode_ratio": f"{decode.capacity / best.rate:.0f}",
        },
        "mixed": {"rate": f"{mixing.capacity:.1f}", "more": share(mixing.capacity / chosen.capacity - 1)},
        "eight": {
            "each": f"{doubled.rate / 8:.2f}",
            "four": f"{best.rate / 4:.2f}",
        },
        "h200": {
            "gain": units.percent(wider.rate / best.rate - 1),
            "bandwidth": share(h200.device.memory_bandwidth / server.device.memory_bandwidth - 1),
        },
        "vllm": {
            **vllm,
            "slots_gib": f"{capacity.concurrency(printed.value, 1, token, 1):,.0f}",
            "slots_gb": f"{capacity.concurrency(12 * units.GB, 1, token, 1):,.0f}",
        },
        "overflow": f"{next(n for n in range(1, 400) if math.log10(2) * 1024 < math.lgamma(n + 1) / math.log(10))}",
    }
