"""Chapter 25, sub-quadratic attention."""

from typing import Any

from chapter_numbers import whole_share as share
from mlsysim import catalog, evidence, inference, memory, units
from mlsysim.evidence.measured import fronts
from mlsysim.evidence.measured.contexts import step_share
from mlsysim.inference import deploy
from mlsysim.memory.serving import layer_cache_bytes

LONG = 131_072  # the running context: 128 Ki tokens
TOKEN = memory.kv_cache(1, 1, 1, 8, 128)  # the running layer: eight key-value heads of 128, 16-bit
PAIR = 32 * (128 + 128)  # and 32 query heads
BANDWIDTH = 3.35e12  # H100


def times(value: float, digits: int = 1) -> str:
    """A ratio as text."""
    return f"{value:.{digits}f}"


def _sparse(tokens: float) -> tuple[float, float]:
    """Bytes of a layer of DeepSeek-V3.2, with the indexer and with all keys."""
    m = catalog.model("DeepSeek-V3.2")
    token = layer_cache_bytes(catalog.model("DeepSeek-V3"), 1, 2.0)
    index = layer_cache_bytes(m, 1, 2.0) - token
    return (
        float(inference.context_reading(tokens, token, m.reach, index)),
        float(inference.context_reading(tokens, token, tokens)),
    )


def _served() -> dict[str, str]:
    """Published points of DeepSeek-V4: those with few users and guesses, and those of full servers."""
    quick, full = [], []
    for run, points in fronts.front_runs(25).items():
        if points[0].drafted:
            none, every = fronts.check_run(run, 1.0), fronts.check_run(run, 1.0 + points[0].drafted)
            quick += [
                b["itl"].predicted <= a["itl"].measured <= a["itl"].predicted for a, b in zip(none, every, strict=True)
            ]
        else:
            full += [
                c["device_rate"] for p, c in zip(points, fronts.check_run(run), strict=True) if p.concurrency >= 1000
            ]
    off = [c.predicted / c.measured for c in full]
    return {
        "points": str(sum(map(len, fronts.front_runs(25).values()))),
        "quick": str(len(quick)),
        "between": str(sum(quick)),
        "least": times(min(off)),
        "most": times(max(off)),
    }


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 25."""
    v32, v3, nxt, gemma = (
        catalog.model(n) for n in ("DeepSeek-V3.2", "DeepSeek-V3", "Qwen3-Next-80B-A3B", "Gemma-3-27b")
    )
    token, index = layer_cache_bytes(v3, 1, 2.0), layer_cache_bytes(v32, 1, 2.0) - layer_cache_bytes(v3, 1, 2.0)
    sparse, all_keys = _sparse(LONG)
    (_, core), (_, indexer) = v32.cores[0], v32.indexers[0]
    latent = core.heads * (core.latent_qk + core.latent_v)
    expanded = core.heads * (core.qk_dim + core.v_dim)
    indexing = indexer.heads * indexer.size
    full = float(inference.context_reading(LONG, TOKEN, LONG))
    window = float(inference.context_reading(LONG, TOKEN, 1024))
    state = float(memory.state_of(nxt)) / nxt.n_recurrent_layers
    near = layer_cache_bytes(nxt, 1, 2.0)
    held = [
        float(memory.kv_cache_of(gemma, 1, LONG)),
        float(memory.kv_cache(gemma.n_layers, 1, LONG, gemma.kv_heads, 128)),
    ]
    delta = {"heads": 32, "key_heads": 32, "key_dim": 128, "value_dim": 128}
    kinds = {"key_products": 3, "value_products": 2, "touches": 3}
    one, chunked = (float(inference.chunk_work(c, **delta, **kinds)) for c in (0, 64))
    attention = float(inference.context_work(LONG / 2, PAIR, LONG))
    servers = {
        "llama": deploy("Llama-3.3-70B", "H200", tp=8),
        "gemma": deploy("Gemma-3-27b", "H200", tp=8),
        "next": deploy("Qwen3-Next-80B-A3B", "H200", tp=8),
        "sparse": deploy("DeepSeek-V3.2", "H200", tp=8, precision="fp8"),
        "dense": deploy("DeepSeek-V3", "H200", tp=8, precision="fp8"),
    }
    users = {f"users_{n}": f"{float(d.max_batch(LONG)):.0f}" for n, d in servers.items()}
    for name in ("sparse", "dense"):  # as they are served: attention in data parallelism, an 8-bit cache
        apart = deploy(servers[name].model, "H200", dp=8, ep=8, precision="fp8", kv="fp8")
        users[f"apart_{name}"] = f"{float(apart.max_batch(LONG)):.0f}"
    steps = {
        n: [float(inference.decode_step(servers[n], context=s, batch=4).time) for s in (4096, LONG)]
        for n in ("llama", "next", "sparse", "dense")
    }
    prompts = {n: float(inference.prefill(servers[n], input_len=LONG).time) for n in ("sparse", "dense")}
    checks = {
        n: evidence.check(n)
        for n in (
            "flashmla-token",
            "kimi-linear-cache",
            "kimi-linear-decode",
            "minimax-m1-flops",
            "minimax-m1-flops-latent",
        )
    }
    v4, sides = catalog.model("DeepSeek-V4-Pro"), {c.ratio: c for _, c in catalog.model("DeepSeek-V4-Pro").cores}
    entry, picks = 2.0 * sides[4].cached, v4.indexers[0][1]
    assert picks.size == indexer.size  # the index of V3.2, of one entry for four tokens
    shape = {"tokens": LONG, "token_bytes": entry, "window": sides[4].window}
    reads = inference.compressed_reading(**shape, ratio=4, picked=sides[4].picked, index_bytes=index)
    holds = memory.kv_cache_compressed(1, 1, LONG, sides[4].window, 4, sides[4].cached, index / 2.0)
    v4_checks = {
        n: evidence.check(f"v4-{n}")
        for n in ("pro-million", "pro-times-less", "pro-cache-share", "pro-step", "flash-step")
    }
    return {
        "compressed": {
            "reads": units.format(float(reads), "byte", 2),
            "holds": units.format(float(holds), "byte", 2),
            "heavy": units.format(float(inference.compressed_reading(**shape, ratio=128)), "byte", 2),
            "other": units.format((token + index) * LONG, "byte", 3),
            "less": times(v4_checks["pro-times-less"].measured),
            "printed": f"{v4_checks['pro-million'].measured / 2**30:.2f} GiB",
            "million": f"{v4_checks['pro-million'].predicted / 2**30:.2f} GiB",
            "share": units.percent(v4_checks["pro-cache-share"].predicted, 1, signed=False),
            "step_pro": units.percent(v4_checks["pro-step"].predicted, 0, signed=False),
            "step_flash": units.percent(v4_checks["flash-step"].predicted, 0, signed=False),
            "plain_pro": units.percent(step_share("DeepSeek-V4-Pro"), 0, signed=False),
            "plain_flash": units.percent(step_share("DeepSeek-V4-Flash"), 0, signed=False),
        },
        "served": _served(),
        "layer": {
            "token": units.format(TOKEN, "byte", 2),
            "full": units.format(full, "byte", 2),
            "time": units.format(full / BANDWIDTH, "s", 2),
            "all": units.format(32 * full / BANDWIDTH, "s", 2),
            "bandwidth": units.format(BANDWIDTH, "byte/s", 3),
        },
        "window": {
            "reads": units.format(window, "byte", 2),
            "gain": f"{full / window:.0f}",
            "held": units.format(held[0], "byte", 2),
            "unwindowed": units.format(held[1], "byte", 2),
            "saved": times(held[1] / held[0]),
            "bound": times(gemma.n_layers / sum(n for n, core in gemma.cores if not core.window)),
        },
        "sparse": {
            "token": units.format(token, "byte"),
            "index": units.format(index, "byte"),
            "reads": units.format(sparse, "byte", 2),
            "full": units.format(all_keys, "byte", 3),
            "picked": units.format(token * core.picked, "byte", 2),
            "indexed": units.format(index * LONG, "byte", 2),
            "gain": times(all_keys / sparse),
            "promised": f"{LONG / core.picked:.0f}",
            "cross": f"{float(inference.context_crossover(token * core.picked, token, index)):,.0f}",
            "share": share(index / token),
            "pair_more": times(latent / expanded),
            "prompt_cross": f"{float(inference.context_crossover(latent * core.picked, expanded, indexing)):,.0f}",
            "gathered": units.format(token * core.picked, "byte", 2),
            "work_expanded": share(indexing / expanded),
            "bound": times(token / index),
            "work_of_index": share(indexing * LONG / (indexing * LONG + latent * core.picked)),
        },
        "state": {
            "bytes": units.format(state, "byte", 2),
            "near": units.format(near, "byte"),
            "held": f"{float(inference.context_crossover(state, near)):.0f}",
            "read": f"{float(inference.context_crossover(2 * state, near)):,.0f}",
            "gain": f"{float(inference.context_reading(LONG, near, LONG)) / (2 * state):.0f}",
            "mamba": units.format(float(memory.state_of("Mamba-2-2.7B")), "byte", 2),
        },
        "chunk": {
            "one": units.format(one, "FLOP", 2),
            "chunked": units.format(chunked, "FLOP", 2),
            "more": times(chunked / one),
            "attention": units.format(attention, "FLOP", 2),
            "gain": f"{attention / chunked:.0f}",
        },
        "hybrid": {
            "next": times(float(inference.hybrid_gain(LONG * near, state, 0.25)), 2),
            "next_short": times(float(inference.hybrid_gain(2048 * near, state, 0.25)), 2),
        },
        "serve": {
            **users,
            **{f"{n}_short": units.format(t[0], "s", 2) for n, t in steps.items()},
            **{f"{n}_long": units.format(t[1], "s", 2) for n, t in steps.items()},
            **{f"prompt_{n}": units.format(t, "s", 2) for n, t in prompts.items()},
        },
        "checks": {
            "mla": units.percent(checks["flashmla-token"].error, 0),
            "kimi_cache": share(checks["kimi-linear-cache"].predicted),
            "kimi_decode": times(checks["kimi-linear-decode"].predicted),
            "m1_expanded": share(checks["minimax-m1-flops"].predicted),
            "m1_latent": share(checks["minimax-m1-flops-latent"].predicted),
        },
    }
