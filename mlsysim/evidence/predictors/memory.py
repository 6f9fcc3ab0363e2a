"""Class memory: parameters, model state, activations, caches and checkpoints by closed form, and two measured peaks.

Only one number is fitted: what a process on a phone holds beside its weights. What a server's runtime holds is a sourced
figure of another server's log, and its buffers are counted.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlsysim import memory, transformer
from mlsysim.catalog import Device
from mlsysim.catalog.sourced import Sourced
from mlsysim.evidence.predictors.base import Constants, Prediction, Predictor, Row, Sample, Unsupported
from mlsysim.evidence.predictors.fitting import votes
from mlsysim.evidence.predictors.shapes import model_of

_PRINTED_GB = 1e9 / 2**30  # what is printed as GB was 2^30 bytes, and the row counts 1e9 for it
_ON_DEVICE = 1e9  # bytes that a process on a phone holds beside its weights, before any row is seen
# What a printed size covers: all that a device has in use, or what an allocator knows of, which is not the driver's.
_COUNTED = ("in_use", "reserved", "allocated")
_SHARDINGS = {
    None: "none",
    "none": "none",
    "zero1": "zero1",
    "zero2": "zero2",
    "zero3": "zero3",
    "fsdp": "fsdp",
    "zero3/fsdp": "fsdp",
    "hsdp": "hsdp",
}


def _params(row: Row, constants: Constants) -> float:
    each = float(row.number("bytes_per_param"))
    if not row.has("layers"):
        return row.number("params") * each
    count = transformer.parameter_count(model_of(row, tied=False))
    total = count.total
    if row.inputs.get("count") == "non_embedding":
        total -= count.embedding + count.positions + count.lm_head
    return total * each


def _model_state(row: Row, constants: Constants) -> float:
    stage = int(row.number_or("zero_stage", 0.0))
    if stage not in (0, 1, 2, 3):
        raise Unsupported(f"zero_stage {stage} is not one of 0, 1, 2, 3")
    recipe = memory.Recipe(
        name="the row's bytes",
        weight=row.number("param_bytes"),
        gradient=row.number("grad_bytes"),
        gradient_copy=row.optional("fp32_grad_bytes", 0.0),
        master=row.number("optimizer_bytes"),  # the row gives the optimizer's bytes as one sum
        momentum=0.0,
        variance=0.0,
        compute=row.number("param_bytes"),
        source="",
        where="",
    )
    sharding = ("none", "zero1", "zero2", "zero3")[stage]
    ranks = row.number_or("dp", 1.0)
    return float(memory.model_state_memory(row.number("params"), recipe, sharding, ranks).total)


def _activation_layer(row: Row, constants: Constants) -> float:
    seq, batch, hidden = row.number("seq"), row.number_or("micro_batch", 1.0), row.number("hidden")
    tp = row.number_or("tp", 1.0)
    split = bool(row.or_assume("seq_parallel", False))
    recompute = row.or_assume("recompute", "none")
    if recompute == "full":
        return float(memory.activation_memory_full(seq, batch, hidden))
    if recompute == "selective":
        return float(memory.activation_memory_selective(seq, batch, hidden, tp, tp if split else 1.0))
    if recompute != "none":
        raise Unsupported(f"recompute {str(recompute)[:40]!r} is not one of none, selective, full")
    form = memory.activation_memory_sp if split else memory.activation_memory_tp
    return float(form(seq, batch, hidden, row.number("heads"), tp))


def _activation_stage(row: Row, constants: Constants) -> float:
    pp, chunks = row.number_or("pp", 1.0), row.number_or("virtual_stages", 1.0)
    full = 2 * pp * chunks  # micro-batches enough to fill the pipeline
    return float(
        memory.activation_memory_pipeline(_activation_layer(row, constants), row.number("layers"), pp, chunks, full)
    )


def _kv_cache(row: Row, constants: Constants) -> float:
    layers, size = row.number("layers"), row.number_or("dtype_bytes", 2.0)
    batch, tokens = row.number_or("batch", 1.0), row.number("tokens")
    if row.has("kv_lora_rank"):
        return float(
            memory.kv_cache_mla(layers, batch, tokens, row.number("kv_lora_rank"), row.number("rope_dim"), size)
        )
    return float(memory.kv_cache(layers, batch, tokens, row.number("kv_heads"), row.number("head_dim"), size))


def _checkpoint(row: Row, constants: Constants) -> float:
    precision, optimizer = row.or_assume("precision", "bf16"), str(row.or_assume("optimizer", "adam"))
    master = 0.0 if precision == "fp32" else 4.0
    moments = {"adam": (4.0, 4.0), "adamw": (4.0, 4.0), "sgd": (4.0, 0.0), "none": (0.0, 0.0)}.get(optimizer)
    if moments is None:
        raise Unsupported(f"the state of optimizer {optimizer[:40]!r} is not known")
    if optimizer == "none":
        master = 0.0
    row.assume("bytes per parameter", (4.0 if precision == "fp32" else 2.0) + master + sum(moments), "weights + state")
    row.assume("unit", "GiB", "what tools of a file system print as GB, which the rows took for 1e9 bytes")
    size = memory.checkpoint_bytes(row.number("params"), 4.0 if precision == "fp32" else 2.0, master, *moments)
    return float(size) * _PRINTED_GB


def _training_peak(row: Row, constants: Constants) -> float:
    sharding = _SHARDINGS.get(row.inputs.get("sharding"))
    if sharding is None:
        raise Unsupported(f"sharding {row.inputs.get('sharding')!r} is not known")
    sharded = sharding in ("fsdp", "zero3", "hsdp")
    recompute = str(row.or_assume("recompute", "none"))
    if sharded and recompute == "selective":
        recompute = "matmuls"  # what frameworks that shard weights call selective
    recipes: tuple[str, ...] = ("fsdp-mixed",) if sharded else ("megatron-bf16",)
    if sharded and recompute == "none":  # who keeps everything may hold autocast's copies of all weights too
        recipes = ("fsdp-mixed", "fsdp-autocast")
    loss = "unfused" if sharded else "one-copy"  # PyTorch's cross entropy, or Megatron's over a split vocabulary
    row.assume("recipe", f"{' or '.join(recipes)}, loss {loss}", "usual for this sharding; of two the geometric mean")
    degree: dict[str, Any] = {name: row.number_or(name, 1.0) for name in ("tp", "pp", "cp", "dp")}
    batch = row.optional("batch_per_dp_rank", row.optional("micro_batch", 1.0))
    # A pipeline of which nothing else is said is given as many micro-batches as it has stages.
    micro = row.number_or("micro_batch", max(1.0, batch // degree["pp"]), "as many micro-batches as stages")
    capacity = Sourced(row.optional("hbm_bytes", 1.0), "byte", "the row")
    totals = [
        memory.training_memory(
            model_of(row, tied=False),
            Device(name="the row's device", fields={"memory_capacity": capacity}),
            seq=row.number("seq"),
            micro_batch=micro,
            micro_batches=max(1.0, batch // micro),
            ep=row.optional("ep", 1.0),
            virtual_stages=row.optional("virtual_stages", 1.0),
            recipe=recipe,
            sharding=sharding,
            recompute=recompute,
            logit_bytes=memory.LOGIT_BYTES[loss],
            **degree,
        ).total
        for recipe in recipes
    ]
    return float(math.prod(totals) ** (1.0 / len(totals)))


def _inference_total(row: Row, constants: Constants) -> float:
    """A serving process, all devices together: weights, cache, buffers, and what the runtime holds besides."""
    if row.has("weight_bytes"):
        weights = row.number("weight_bytes")
    else:
        weights = row.number("params") * row.number_or("weight_dtype_bytes", 2.0)
    if not row.has("layers"):
        return weights + _on_device(row, constants)
    prompt, size, batch = row.number("input_len"), row.number_or("kv_dtype_bytes", 2.0), row.number_or("batch", 1.0)
    tokens, layers = prompt + row.number_or("output_len", 0.0), row.number("layers")
    if row.has("kv_lora_rank"):
        rope = row.number("rope_dim" if row.has("rope_dim") else "qk_rope_head_dim")
        cache = memory.kv_cache_mla(layers, batch, tokens, row.number("kv_lora_rank"), rope, size)
    else:
        cache = memory.kv_cache(layers, batch, tokens, row.number("kv_heads"), row.number("head_dim"), size)
    hidden = row.number("hidden")
    heads = row.optional("heads", hidden / row.number_or("head_dim", 128.0))
    counted = row.or_assume("counted", "in_use", "all that the device has in use")
    if counted not in _COUNTED:
        raise Unsupported(f"counted = {str(counted)[:40]!r} is not one of {', '.join(_COUNTED)}")
    runtime = 0.0
    if counted == "in_use":
        runtime = memory.release().runtime_parallel
        row.assume("runtime", runtime, "driver and collectives, as a server's start-up log prints them")
    return float(weights + cache + memory.static_workspace(batch, prompt, hidden, heads) + runtime)


def _on_device(row: Row, constants: Constants) -> float:
    """What a process of a phone or a laptop holds beside its weights, in however many bits these are."""
    own = constants.get("serving process", {}).get("on_device")
    if own is None:
        row.assume("on_device", _ON_DEVICE, "bytes beside the weights, before any row is seen")
    return _ON_DEVICE if own is None else own


_KINDS: Mapping[str, Callable[[Row, Constants], float]] = {
    "params": _params,
    "model_state": _model_state,
    "activation_layer": _activation_layer,
    "activation_stage": _activation_stage,
    "kv_cache": _kv_cache,
    "checkpoint": _checkpoint,
    "training_peak": _training_peak,
    "inference_total": _inference_total,
}


def _row(inputs: Mapping[str, Any]) -> tuple[str, Row]:
    return str(inputs.get("kind")), Row(inputs.get("inputs") or {})


def predict(inputs: Mapping[str, Any], constants: Constants) -> Prediction:
    """Bytes of one row of class memory."""
    kind, row = _row(inputs)
    if kind not in _KINDS:
        raise Unsupported(f"kind {kind[:40]!r} is not modelled ({', '.join(_KINDS)})")
    return Prediction(_KINDS[kind](row, constants), assumptions=tuple(row.assumptions))


def fit(rows: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """What a process without a shape holds beside its weights; a gigabyte has one vote, as each group."""
    beside = [
        (math.log(over), group)
        for inputs, measured, group in rows
        if inputs["kind"] == "inference_total"
        and not (row := Row(inputs["inputs"])).has("layers")
        and row.has("weight_bytes")
        and (over := measured - row.number("weight_bytes")) > 0
    ]
    if not beside:
        return {}
    shares = votes([g for _, g in beside])
    mean = (math.log(_ON_DEVICE) + sum(v * x for v, (x, _) in zip(shares, beside, strict=True))) / (1 + sum(shares))
    return {"serving process": {"on_device": float(f"{math.exp(mean):.3g}")}}


PREDICTOR = Predictor(predict, fit, "log mean with a start of one vote; every group of rows has one vote")
