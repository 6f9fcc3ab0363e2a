"""Chapter 2, counting."""

from typing import Any

from mlsysim import catalog, evidence, flops, transformer, units

_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def _billion(count: float, digits: int = 2) -> str:
    return f"{count / 1e9:.{digits}f}"


def _scientific(work: float) -> str:
    mantissa, exponent = f"{work:.2e}".split("e")
    return f"{float(mantissa):g} × 10{str(int(exponent)).translate(_SUPERSCRIPT)} FLOP"


def _resized(m: catalog.Model, **sizes: int) -> catalog.Model:
    """A dense model with other sizes."""
    biased = any(o.bias for _, o in m.products("attention", "q"))
    own = {"layers": m.n_layers} | {
        k: getattr(m, k) for k in ("hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab")
    }
    return catalog.decoder(
        m.name, **own | sizes, gated_mlp=m.gated_mlp, tied_embeddings=m.tied_embeddings, qkv_bias=biased
    )


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 2."""
    counts = evidence.measurements("counts")
    llama = {s: catalog.model(f"Llama-3.1-{s}") for s in ("8B", "70B", "405B")}
    eight, gpt2, mixtral = llama["8B"], catalog.model("GPT-2-124M"), catalog.model("Mixtral-8x7B")
    gpt3 = catalog.model("GPT-3-175B")
    a3b = catalog.model("Qwen3-30B-A3B")
    v3, palm, code = catalog.model("DeepSeek-V3"), catalog.model("PaLM-540B"), catalog.model("CodeLlama-34B")

    def formula_error(size: str) -> str:
        m = llama[size]
        formula = transformer.gpt2_parameters(m.hidden, m.vocab, m.n_layers)
        return units.percent(evidence.signed_error(formula, transformer.parameter_count(m).total))

    def token(seq: int, causal: bool = True, recompute: str = "none") -> flops.TokenFlops:
        return flops.training_flops_per_token(eight, seq, causal, recompute)

    def rule(run: str) -> float:
        i = counts[run].inputs
        return float(flops.total_flops(flops.matmul_flops_per_token(i["parameters"]), i["tokens"]))

    def budget_error(run: str) -> str:
        return units.percent(evidence.signed_error(rule(run), counts[run].value), 2)

    def exact_error(run: str, name: str, seq: int) -> str:
        work = flops.training_flops_per_token(name, seq, causal=False).model_flops
        exact = flops.total_flops(work, counts[run].inputs["tokens"])
        return units.percent(evidence.signed_error(exact, counts[run].value), 2)

    def printed(run: str) -> str:
        return _scientific(counts[run].value)

    lora = counts["lora-gpt3-rate"]
    wrong_heads = _resized(code, heads=48)
    qwen = catalog.model("Qwen2.5-7B")
    qwen_mha = _resized(qwen, kv_heads=qwen.heads)
    hfu, i = counts["korthikanti-22b-hfu"].value, counts["korthikanti-22b-hfu"].inputs
    gpt22 = _resized(
        gpt3, layers=i["layers"], hidden=i["hidden"], heads=i["heads"], kv_heads=i["heads"], ffn=4 * i["hidden"],
        head_dim=i["hidden"] // i["heads"], vocab=i["vocab"],
    )  # fmt: skip
    rate = i["batch"] * i["seq"] / (i["step_time"] * i["devices"] * i["peak_flops"])
    once = flops.training_flops_per_token(gpt22, i["seq"], False, "selective").hardware_flops * rate
    gpt3_full = flops.training_flops_per_token(gpt3, 2048, False, "full")
    lookup = flops.active_parameters(eight) - flops.matmul_parameters(eight)
    short, long = token(2048), token(131072)
    parts = transformer.parameter_count(eight)
    one_layer = (parts.attention + parts.dense_mlp) // eight.n_layers
    multiplied, h100 = flops.matmul_parameters(eight), catalog.device("H100")
    run = float(flops.total_flops(flops.matmul_flops_per_token(multiplied), 15e12))
    return {
        "l8": {
            "total": _billion(transformer.parameter_count(eight).total, 3),
            "attention": f"{parts.attention / eight.n_layers / 1e6:.1f}",
            "mlp": f"{parts.dense_mlp / eight.n_layers / 1e6:.1f}",
            "layer": f"{one_layer / 1e6:.0f}",
            "layers": _billion(eight.n_layers * one_layer),
            "forward": units.format(flops.matmul_flops_per_token(multiplied) / 3, "FLOP", 2),
            "six": units.format(flops.matmul_flops_per_token(multiplied), "FLOP", 2),
            "run": _scientific(run),
            "run_years": f"{run / (0.5 * h100.peak_flops['bf16']) / (365.25 * 86400):.0f}",
            "embedding": _billion(transformer.parameter_count(eight).embedding),
            "multiplied": _billion(flops.matmul_parameters(eight)),
            "lookup": units.percent(lookup / flops.matmul_parameters(eight), signed=False),
            "bytes": units.format(transformer.weight_bytes(transformer.parameter_count(eight).total, 2), "byte"),
            "growth": f"{long.model_flops / short.model_flops:.1f}",
            "short": units.format(short.model_flops, "FLOP", 3),
            "long": units.format(long.model_flops, "FLOP", 3),
            "core_8k": units.percent(token(8192).core_share, signed=False),
            "core_128k": units.percent(long.core_share, 0, signed=False),
            "exact_8k": units.format(token(8192).model_flops, "FLOP", 3),
            "sixn": units.format(flops.counted_flops(eight, 8192, "6N"), "FLOP", 3),
            "full_over_causal": f"{token(131072, causal=False).model_flops / long.model_flops:.2f}",
            "full_8k": units.format(flops.counted_flops(eight, 8192, "matmul-full"), "FLOP", 3),
            "recompute": units.percent(token(8192, recompute="full").hardware_flops / token(8192).model_flops - 1),
            "selective": units.percent(token(8192, recompute="selective").hardware_flops / token(8192).model_flops - 1),
            "lora_8k": units.percent(
                flops.training_flops_per_token(eight, 8192, True, adapters=40e6).model_flops / token(8192).model_flops
                - 1
            ),
        },
        "formula": {
            "e8": formula_error("8B"),
            "e70": formula_error("70B"),
            "e405": formula_error("405B"),
            "gpt2": f"{transformer.gpt2_parameters(gpt2.hidden, gpt2.vocab, gpt2.n_layers):,}",
            "positions": f"{gpt2.learned_positions * gpt2.hidden:,}",
            "gpt2_exact": f"{transformer.parameter_count(gpt2).total:,}",
        },
        "moe": {
            "mixtral_stored": _billion(transformer.parameter_count(mixtral).total, 1),
            "mixtral_met": _billion(flops.active_parameters(mixtral), 1),
            "v3_stored": f"{transformer.parameter_count(v3).total / 1e9:.0f}",
            "v3_met": _billion(flops.active_parameters(v3), 1),
            "v3_without": _billion(flops.active_parameters(v3) - v3.vocab * v3.hidden, 1),
            "a3b_with": _billion(flops.active_parameters(a3b), 1),
            "a3b_without": _billion(flops.active_parameters(a3b) - a3b.vocab * a3b.hidden, 1),
            "v3_bytes": units.format(transformer.weight_bytes(transformer.parameter_count(v3).total, 1), "byte", 3),
        },
        "runs": {
            "gpt3_n": _billion(counts["gpt3-175b-training"].inputs["parameters"], 1),
            "gpt3": printed("gpt3-175b-training"),
            "gpt3_rule": budget_error("gpt3-175b-training"),
            "gpt3_exact": exact_error("gpt3-175b-training", "GPT-3-175B", 2048),
            "palm": printed("palm-540b-training"),
            "palm_rule": budget_error("palm-540b-training"),
            "palm_exact": exact_error("palm-540b-training", palm.name, 2048),
            "chinchilla": printed("chinchilla-70b-training"),
            "chinchilla_rule": budget_error("chinchilla-70b-training"),
            "llama": printed("llama3-405b-training"),
            "llama_rule": budget_error("llama3-405b-training"),
            "llama_exact": exact_error("llama3-405b-training", "Llama-3.1-405B", 8192),
        },
        "lora": {
            "full": f"{lora.inputs['full_rate']:g}",
            "rate": f"{lora.value:g}",
            "measured": f"{lora.value / lora.inputs['full_rate']:.2f}",
            "bound": f"{flops.matmul_flops_per_token(1.0) / flops.lora_flops(1.0, 0.0):.2f}",
        },
        "hfu": {
            "printed": units.percent(hfu, signed=False),
            "once": units.percent(once, signed=False),
        },
        "gpt3_ratio": f"{gpt3_full.hardware_flops / gpt3_full.model_flops:.3f}",
        "qwen": {
            "heads": str(qwen.heads),
            "kv_heads": str(qwen.kv_heads),
            "cache": f"{qwen_mha.kv_heads / qwen.kv_heads:g}",
            "exact": f"{transformer.parameter_count(qwen).total:,}",
            "wrong": f"{transformer.parameter_count(qwen_mha).total:,}",
        },
        "code": {
            "heads": str(code.heads),
            "layers": str(code.n_layers),
            "exact": f"{transformer.parameter_count(code).total:,}",
            "wrong": f"{transformer.parameter_count(wrong_heads).total:,}",
            "error": units.percent(
                evidence.signed_error(
                    transformer.parameter_count(wrong_heads).total, transformer.parameter_count(code).total
                )
            ),
        },
    }
