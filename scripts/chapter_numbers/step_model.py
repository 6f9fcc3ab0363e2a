"""Chapter 14, the step model."""

from itertools import pairwise
from typing import Any

from chapter_numbers import whole_share as _share
from mlsysim import catalog, evidence, kernels, serving_steps, units
from mlsysim.inference import deploy
from mlsysim.serving_steps import (
    PRINTED,
    TIER_0,
    Batch,
    Rates,
    StepModel,
    StepOptions,
    products_table,
    rates,
    shipped_rates,
    step_model,
)


def _ms(value: float, digits: int = 3) -> str:
    return units.format(value, "s", digits)


def _alone(
    run: evidence.ServingRun, options: StepOptions | None = None, known: Rates | None = None
) -> tuple[StepModel, Batch]:
    m = step_model(deploy(run.model, "H100", tp=run.tp), options or StepOptions(), known)
    return m, Batch(decodes=1.0, context=run.input_len + run.output_len / 2)


def _vidur(device: str) -> float:
    """Mean size of the error on 16-bit products that no rate was taken from."""
    d, r = catalog.device(device), rates(device).products_16bit
    errors = []
    for row in evidence.measurements().values():
        if (row.group, row.device, row.kind) == ("vidur", device, "gemm"):
            m, n, k = (row.inputs[x] for x in "mnk")
            ours = kernels.measured_kernel_time(
                kernels.gemm_flops(m, n, k),
                kernels.gemm_bytes(m, n, k, 2.0),
                d.peak_flops["bf16"],
                d.memory_bandwidth,
                r.compute,
                r.memory,
                r.start,
            )
            errors.append(abs(ours / row.value - 1))
    return float(sum(errors) / len(errors))


def _products(model: StepModel, batch: Batch) -> float:
    return float(sum(k.time for k in model.kernels(batch) if k.part in ("projections", "mlp")))


def _lookup() -> dict[str, str]:
    """The saw of the nearest entry, and the counts of changes and jumps."""
    batches, lengths = list(range(1, 257)), list(range(128, 8193, 64))
    found: dict[str, str] = {}
    for look in ("nearest", "bilinear", "rates"):
        m = step_model(deploy("Llama-2-7B", "H100", precision="fp8"), StepOptions(lookup=look))
        decoding = [_products(m, Batch(decodes=b, context=512 * b)) for b in batches]
        prompts = [_products(m, Batch.of(m.model, prefills=[(s, 0)])) for s in lengths]
        if look != "rates":
            found[f"{look}_jumps"] = str(serving_steps.jumps(decoding, batches) + serving_steps.jumps(prompts, lengths))
        found[f"{look}_prompt"] = str(sum(abs(b / a - 1) >= 0.05 for a, b in pairwise(prompts)))
        if look == "nearest":
            at = min(range(1, 256), key=lambda i: decoding[i] / decoding[i - 1])
            found |= {"before": str(at), "after": str(at + 1), "fall": _share(1 - decoding[at] / decoding[at - 1])}
    table = products_table()
    return found | {"rows": str(len(table.rows)), "matrices": str(len(table.sizes)), "smallest": f"{table.rows[0]:.0f}"}


def _grain() -> dict[str, str]:
    fine, coarse = (step_model(deploy("Llama-3.1-8B", "H100"), StepOptions(granularity=g)) for g in ("kernel", "step"))
    contexts = [128 * 2 ** (i / 8) for i in range(49)]
    batches = [Batch(decodes=400, context=400 * c) for c in contexts]
    ratios = [fine.time(b) / coarse.time(b) for b in batches]
    worst = max(range(49), key=ratios.__getitem__)
    return {"most": _share(ratios[worst] - 1), "at": f"{contexts[worst]:.0f}", "least": _share(ratios[-1] - 1)}


def _valley(runs: list[evidence.ServingRun]) -> dict[str, str]:
    """Time per layer that fits the runs best for a share of the bandwidth, as in the figure of the notebook."""
    lean = []
    for run in runs:
        m, b = _alone(run, StepOptions(overhead="none"), PRINTED)
        t = m.terms(b)
        lean.append((t.time - t.messages, t.messages, m.model.n_layers, run.mean("itl"), run))

    def misfit(share: float, layer: float) -> float:
        return float(sum(abs((s / share + m + n * layer) / t - 1) for s, m, n, t, _ in lean) / len(lean))

    found: dict[str, str] = {}
    for name, share in (("low", 0.84), ("high", 0.98)):
        layer = min((0.5e-6 * i for i in range(20, 220)), key=lambda o: misfit(share, o))
        found |= {
            f"{name}_share": f"{share:.2f}",
            f"{name}_layer": units.format(layer, "s", 3),
            f"{name}_error": _share(misfit(share, layer), 1),
        }
    stream = rates("H100").products_16bit.memory
    for tp in (1, 2):
        left = [(t - m - s / stream) / n for s, m, n, t, r in lean if r.model == "Llama-2-7B" and r.tp == tp]
        found[f"left_tp{tp}"] = units.format(sum(left) / len(left), "s", 3)
    return found


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 14."""
    eight, seven = (step_model(deploy(m, "H100"), TIER_0) for m in ("Llama-3.1-8B", "Llama-2-7B"))
    answers, prompt = [1000] * 32, [(500, 0)]
    both = Batch.of(eight.model, prompt, answers)
    m = eight.model
    pure, mixed, first = (eight.terms(b) for b in (Batch.of(m, decodes=answers), both, Batch.of(m, prefills=prompt)))
    runs = [r for r in evidence.serving_runs().values() if r.regime == "synchronous"]
    errors, bounds = [], []
    for run in runs:
        ours, b = _alone(run)
        errors.append(ours.time(b) / run.mean("itl") - 1)
        bound, b = _alone(run, known=PRINTED)
        bounds.append(bound.time(b) / run.mean("itl") - 1)
    chat = evidence.serving_run("llama-2-7b-tp1-chat")
    ours, b = _alone(chat)
    terms = ours.terms(b)
    r = rates("H100")
    starts = serving_steps.kernel_starts(32, 9, r.products_16bit.start, 1, r.decode_attention.start)
    h100 = catalog.device("H100")
    known = shipped_rates()
    gemm, decode = known["H100-SXM5-80GB"]["products_8bit"], known["H100-SXM5-80GB"]["decode_attention"]
    small = kernels.gemm_flops(8, 11008, 4096)
    table = products_table()
    low = table.efficiency(8, 4096, 11008)
    cold = evidence.serving_run("llama-2-7b-train-0").requests[0]
    warm = evidence.serving_run("llama-2-7b-train-0").median("ttft") or 0.0
    split = [p.n for p in serving_steps.layer_products(m, fused=False)[:3]]
    return {
        "predict": {
            "answers": _ms(pure.time),
            "prompt": _ms(first.time),
            "both": _ms(mixed.time),
            "sum": _ms(pure.time + first.time),
            "saved": _share(1 - mixed.time / (pure.time + first.time)),
        },
        "shapes": {
            "fused": f"{serving_steps.fused_width(m.heads, m.kv_heads, m.head_dim):,.0f}",
            "query": f"{split[0]:,.0f}",
            "key": f"{split[1]:,.0f}",
        },
        "rates": {
            "gemm_rows": str(gemm.rows),
            "gemm_error": _share(gemm.error or 0.0, 1),
            "decode_rows": str(decode.rows),
            "decode_error": _share(decode.error or 0.0, 1),
            "worst": _share(max(x.error or 0.0 for kinds in known.values() for x in kinds.values()), 1),
            "fp8_memory": _share(gemm.memory),
            "compute_16": _share(r.products_16bit.compute, 1),
            "memory_16": _share(r.products_16bit.memory, 1),
            "start": units.format(gemm.start, "s", 3),
            "vidur_h100": _share(_vidur("H100-SXM5-80GB"), 1),
            "vidur_a100": _share(_vidur("A100-SXM4-80GB")),
            "utilisation": _share(low, 1),
            "small_time": units.format(small / (low * h100.peak_flops["fp8"]), "s", 3),
            "small_bytes": units.format(4096 * 11008, "byte"),
            "small_read": units.format(4096 * 11008 / (gemm.memory * h100.memory_bandwidth), "s", 3),
        },
        "starts": {"llama7": _ms(starts), "share": _share(starts / ours.time(b))},
        "lookup": _lookup(),
        "grain": _grain(),
        "example": {
            "measured": _ms(chat.mean("itl")),
            "ours": _ms(terms.time),
            "error": units.percent(terms.time / chat.mean("itl") - 1),
            "projections": _ms(terms.projections),
            "mlp": _ms(terms.mlp),
            "attention": _ms(terms.decode_attention),
            "vectors": _ms(terms.elementwise),
            "head": _ms(terms.head),
            "mean": _share(sum(map(abs, errors)) / len(errors), 1),
            "worst": _share(max(map(abs, errors)), 1),
            "runs": str(len(runs)),
            "bound": _share(-sum(bounds) / len(bounds)),
        },
        "valley": _valley(runs),
        "breaks": {
            "cold": units.format(cold.ttft_s, "s", 3),
            "warm": units.format(warm, "s", 3),
            "infersim": units.format(0.80 * 3430e9, "byte/s", 4),
            "infersim_base": units.format(3430e9, "byte/s", 4),
            "stream_low": units.format(evidence.measurement("azure-h100-stream-copy").value, "byte/s", 3),
            "stream_high": units.format(evidence.measurement("azure-h100-stream-dot").value, "byte/s", 3),
            "stream_low_share": _share(evidence.stream_efficiency("h100", "copy")),
            "stream_high_share": _share(evidence.stream_efficiency("h100", "dot")),
            "claimed_low": _share(2650e9 / h100.memory_bandwidth),
            "claimed_high": _share(2750e9 / h100.memory_bandwidth),
            "split": _share(
                step_model(deploy("Llama-2-7B", "H100"), StepOptions(projections="split")).time(b) / seven.time(b) - 1,
                1,
            ),
        },
    }
