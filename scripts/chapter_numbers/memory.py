"""Chapter 3, memory, and the rows of the errata that it computes."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mlsysim import catalog, evidence, memory, transformer, units
from mlsysim.evidence import signed_error
from mlsysim.memory import fit


def _gb(value: Any) -> str:
    return units.format(value, "byte")


def _state() -> dict[str, str]:
    h100 = catalog.device("H100")
    totals = {name: memory.model_state_memory(70e9, name).total for name in memory.RECIPES}
    return {
        "weights": _gb(memory.checkpoint_bytes(70e9, 2)),
        "weights_devices": f"{math.ceil(memory.checkpoint_bytes(70e9, 2) / h100.usable_memory)}",
        "sixteen": _gb(totals["zero-fp16"]),
        "eighteen": _gb(totals["megatron-bf16"]),
        "twenty": units.format(totals["ultrascale-bf16"], "byte"),
        "eighteen_devices": f"{totals['megatron-bf16'] / h100.usable_memory:.2f}",
        "sixteen_devices_whole": f"{math.ceil(totals['zero-fp16'] / h100.usable_memory)}",
        "eighteen_devices_whole": f"{math.ceil(totals['megatron-bf16'] / h100.usable_memory)}",
        "twenty_devices_whole": f"{math.ceil(totals['ultrascale-bf16'] / h100.usable_memory)}",
        "capacity": _gb(h100.memory_capacity),
        "usable": units.format(h100.usable_memory, "byte"),
        "usable_gib": f"{h100.usable_memory / units.GiB:.2f} GiB",
        "usable_more": units.percent(h100.usable_memory / h100.memory_capacity - 1, 0, signed=False),
    }


def _toy() -> dict[str, str]:
    """The 8B model that runs through the chapter, on one device and on eight; and round numbers that its text works out."""
    run = {"model": "Llama-3.1-8B", "device": "H100", "seq": 8192, "micro_batch": 1, "recompute": "full"}
    shared = {"dp": 8, "sharding": "zero3", "recipe": "fsdp-mixed", "logit_bytes": memory.LOGIT_BYTES["unfused"]}
    per_parameter = [float(memory.model_state_memory(1.0, name).total) for name in memory.RECIPES]
    m = catalog.model("Llama-3.1-8B")
    token = memory.kv_cache_of(m, 1, 1)
    return {
        "alone": units.format(memory.training_memory(**run).total, "byte", 3),  # type: ignore[arg-type]
        "shared": units.format(memory.training_memory(**run, **shared).total, "byte", 2),  # type: ignore[arg-type]
        "low": f"{min(per_parameter):.0f}",
        "high": f"{max(per_parameter):.0f}",
        "next_bf16": f"{1 + 2**-7:.4f}",  # eight significant bits, the first of them not stored
        "token8": units.format(token, "byte", 3),
        "users": units.format(1000 * 8192 * token, "byte", 2),
        "logits_token": units.format(memory.output_activations(1, 1, m.hidden, m.vocab, 1, 12), "byte", 3),
    }


def _activations() -> dict[str, str]:
    shape, layers = {"seq": 2048, "micro_batch": 1, "hidden": 12288}, 96
    whole = memory.activation_memory(**shape, heads=96)
    selective = memory.activation_memory_selective(**shape)
    long = 5 * 96 * 8192 / 12288
    full = memory.activation_memory_full(**shape)
    per_channel = 2048 * 12288
    # The attention core is 4 b s^2 h of the 24 b s h^2 + 4 b s^2 h forward FLOPs; a forward pass is a third of a step.
    core = 2048 / (6 * 12288 + 2048) / 3
    return {
        "scores": f"{(whole - selective) / per_channel:.0f}",
        "scores_long": f"{long:.0f}",
        "factor": f"{whole / selective:.1f}",
        "factor_long": f"{(34 + long) / 34:.1f}",
        "gpt3_layer": _gb(whole),
        "gpt3_model": _gb(layers * whole),
        "selective_saves": units.percent(1 - selective / whole, 0, signed=False),
        "full_saves": units.percent(1 - full / whole, 0, signed=False),
        "selective_flops": units.percent(core, 1, signed=False),
        "full_flops": units.percent(1 / 3, 0, signed=False),
    }


_MIXED = memory.recipe("fsdp-mixed")
_GATHER8 = replace(_MIXED, name="the same, gathered in 8 bits", compute=1)


def _deep_errors(rows: Sequence[evidence.Check], **changed: Any) -> list[float]:
    """Errors of the pipelined runs with something counted differently."""
    return [
        float(signed_error(memory.training_memory(device=c.measurement.device, **inputs).total, c.measured))
        for c in rows
        for inputs in [dict(c.measurement.inputs) | changed]
    ]


def _measured() -> dict[str, str]:
    peaks = evidence.checks(group="torchtitan")
    small = [c for c in peaks if "8b" in c.measurement.name]
    large = [c for c in peaks if "70b" in c.measurement.name]
    eight, many = evidence.check("torchtitan-8b-8-compile"), evidence.check("torchtitan-8b-128-compile")
    ours, theirs = eight.prediction.state - many.prediction.state, eight.measured - many.measured
    state, peak = evidence.check("dgxc-8b-state"), evidence.check("dgxc-8b-peak")
    count = transformer.parameter_count("Llama-3.1-8B").total
    eighteen = memory.model_state_memory(count, "megatron-bf16", "zero1", 8).total
    inputs = {k: v for k, v in eight.measurement.inputs.items() if k != "model"}
    thin = memory.training_memory(
        "Llama-3.1-8B", eight.measurement.device, **(inputs | {"logit_bytes": memory.LOGIT_BYTES["one-copy"]})
    )
    contexts = [evidence.check(f"torchtitan-8b-cp{cp}") for cp in (1, 2, 4, 8)]
    deep = [c for c in peaks if "405b" in c.measurement.name]
    freed, eight_bits = _deep_errors(deep, reshard_after_forward=True), _deep_errors(deep, recipe=_GATHER8)
    first = deep[0].prediction
    assert first is not None
    freed_run = memory.training_memory(
        device=deep[0].measurement.device, reshard_after_forward=True, **deep[0].measurement.inputs
    )
    return {
        "rows": str(len(peaks)),
        "whole": _gb(first.gathered + first.gradients),
        "pipelined": _gb(deep[0].predicted),
        "freed_back": _gb(freed_run.gathered + freed_run.gradients),
        "freed_pipeline": _gb(freed_run.total),
        "freed_best": units.percent(max(freed), 0),
        "freed_worst": units.percent(min(freed), 0),
        "pipeline_best": units.percent(max(c.error for c in deep)),
        "pipeline_worst": units.percent(min(c.error for c in deep)),
        "gather8_best": units.percent(max(eight_bits)),
        "gather8_worst": units.percent(min(eight_bits)),
        "state_logged": _gb(state.measured),
        "state_ours": _gb(state.predicted),
        "state_error": units.percent(state.error, 2),
        "state_bytes": f"{state.measured / count:.2f}",
        "state_formats": f"{state.predicted / count:.1f}",
        "state_eighteen_error": units.percent(signed_error(eighteen, state.measured), 0),
        "peak_logged": _gb(peak.measured),
        "peak_ours": _gb(peak.predicted),
        "peak_error": units.percent(peak.error),
        "small_best": units.percent(max(c.error for c in small)),
        "small_worst": units.percent(min(c.error for c in small)),
        "large_worst": units.percent(min(c.error for c in large)),
        "large_best": units.percent(max(c.error for c in large)),
        "mean": units.percent(sum(abs(c.error) for c in peaks) / len(peaks), signed=False),
        "freed_ours": _gb(ours),
        "freed_measured": _gb(theirs),
        "freed_error": units.percent(signed_error(ours, theirs)),
        "thin_error": units.percent(signed_error(thin.total, eight.measured)),
        "logits": _gb(eight.prediction.output),
        "logits_thin": _gb(thin.output),
        "cp_low": units.format(min(c.measured for c in contexts), "byte", digits=3),
        "cp_high": units.format(max(c.measured for c in contexts), "byte", digits=3),
        "cp_ours": units.format(contexts[0].predicted, "byte", digits=3),
    }


def _cache() -> dict[str, str]:
    h100 = catalog.device("H100")
    mha, gqa = (memory.kv_cache(80, 32, 4096, heads, 128) for heads in (64, 8))
    window, full = memory.kv_cache_of("Mistral-7B", 1, 32768), memory.kv_cache(32, 1, 32768, 8, 128)
    return {
        "token_opt13b": f"{memory.kv_cache(40, 1, 1, 40, 128) / units.KiB:.0f}",
        "token_v3": f"{memory.kv_cache_of('DeepSeek-V3', 1, 1):,.0f}",
        "groups_v2": f"{memory.kv_cache_mla(1, 1, 1, 512, 64) / memory.kv_cache(1, 1, 1, 1, 128):.2f}",
        "seed1": _gb(memory.kv_cache_of("Llama-2-70B", 16, 8192)),
        "mha_540": units.format(mha, "byte"),
        "gqa_540": units.format(gqa, "byte", digits=3),
        "heads_ratio": f"{mha / gqa:.0f}",
        "node": _gb(8 * h100.usable_memory),
        "window_saves": f"{full / window:.0f}",
    }


def _checkpoints() -> dict[str, str]:
    weights, full = evidence.check("bloom-checkpoint-weights"), evidence.check("bloom-checkpoint-full")
    return {
        "weights": _gb(memory.checkpoint_bytes(70e9, 2)),
        "twelve": _gb(memory.checkpoint_bytes(70e9, 0, 4, 4, 4)),
        "fourteen": _gb(memory.checkpoint_bytes(70e9, 2, 4, 4, 4)),
        "bloom_weights": f"{weights.measured / units.GiB:.0f} GiB",
        "bloom_full": f"{full.measured / units.TiB:.1f} TiB",
        "bloom_weights_error": units.percent(weights.error),
        "bloom_full_error": units.percent(full.error),
        "times_low": f"{memory.checkpoint_bytes(70e9, 0, 4, 4, 4) / memory.checkpoint_bytes(70e9, 2):.0f}",
        "times_high": f"{memory.checkpoint_bytes(70e9, 2, 4, 4, 4) / memory.checkpoint_bytes(70e9, 2):.0f}",
        "bloom_decimal": f"{2.3e12 / full.measurement.inputs['parameters']:.2f}",
    }


def _stored() -> dict[str, str]:
    """A layer of DeepSeek-V3, kept whole, without what modules compute again, and narrow."""
    v3 = catalog.model("DeepSeek-V3")
    again: dict[str, Any] = {"recompute": "selective", "recompute_modules": ("layernorm", "mla_up_proj", "moe_act")}

    def layer(**words: Any) -> str:
        kept = memory.training_memory(v3, "H800", seq=4096, dp=64, ep=64, **words).activations
        return units.format(kept / v3.n_layers, "byte", 3)

    widths = fit._Widths.of(v3)
    modules = again["recompute_modules"]
    plain, fewer, slim = (
        fit._Kept.of(v3, widths, names, narrow, True)
        for names, narrow in (((), False), (modules, False), (modules, True))
    )

    return {
        "a": f"{plain.whole_wide:,.0f}",
        "b": f"{plain.whole_narrow:,.0f}",
        "c": f"{plain.cut_wide:,.0f}",
        "d": f"{plain.cut_narrow:,.0f}",
        "copies": f"{fewer.cut_narrow:,.0f}",
        "c_again": f"{fewer.cut_wide:,.0f}",
        "c_narrow": f"{slim.cut_wide:,.0f}",
        "d_narrow": f"{slim.cut_narrow:,.0f}",
        "blockwise": f"{memory.SCALINGS['fp8-blockwise'].stored_bytes:.3f}",
        "nvfp4": f"{memory.SCALINGS['nvfp4'].stored_bytes:.4g}",
        "all": layer(),
        "modules": layer(**again),
        "narrow": layer(**again, precision="fp8-blockwise"),
    }


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 3."""
    return {
        "stored": _stored(),
        "state": _state(),
        "toy": _toy(),
        "zero": {
            s: units.format(memory.model_state_memory(7.5e9, "zero-fp16", s, 64).total, "byte", digits=3)
            for s in ("none", "zero1", "zero2", "zero3")
        },
        "activations": _activations(),
        "measured": _measured(),
        "cache": _cache(),
        "checkpoint": _checkpoints(),
    }
