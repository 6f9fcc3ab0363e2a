"""The models catalogue: every shape against a published count, tensor by tensor, and the contradictions kept in sight.

The TOML files are read directly and counted by this file's own walk over the weight tensors; the library has to agree.
"""

import datetime
import math
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlsysim import catalog
from mlsysim.catalog.shapes import Model, load_models
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.evidence import rows as shipped_rows
from mlsysim.flops import active_parameters
from mlsysim.transformer import mtp_parameters, parameter_count

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "mlsysim" / "catalog" / "models"
EVERY = {n: e for path in sorted(FOLDER.glob("*.toml")) for n, e in tomllib.loads(path.read_text("utf-8")).items()}
MODELS = {n: e for n, e in EVERY.items() if "config" not in e}
CONFIGS = {n: e for n, e in EVERY.items() if "config" in e}  # read by catalog.hf, whose counts test_hf.py has
BIBLIOGRAPHY = ROOT / "references.bib"
Entry = dict[str, Any]

each_model = pytest.mark.parametrize("name", MODELS)
EXACT = [n for n, e in MODELS.items() if "rounded" not in e["parameters"].get("transform", "")]
ROUNDED = [n for n in MODELS if n not in EXACT]
# Mixtures of which no source that we could read prints the active parameters.
NO_ACTIVE = {
    "Kimi-K3",
    "GLM-4.5-Air",
    "Nemotron-3-Nano-30B-A3B",
    "Nemotron-3-Super-120B-A12B",
    "Qwen3.5-35B-A3B",
    "Qwen3.5-122B-A10B",
    "DeepSeek-V3.2",
    "Kimi-K2.5",
    "Qwen3-Next-80B-A3B",
    "Qwen3.5-397B-A17B",
    "Granite-3.1-1B-A400M",
    "MiniMax-M2",
    "Qwen3-VL-30B-A3B",
    "DeepSeek-V2-Lite",
    "Kimi-K2",
    "Kimi-VL-A3B",
    "Moonlight-16B-A3B",
    "Qwen1.5-MoE-A2.7B",
    "Qwen3-Coder-480B-A35B",
    "gpt-oss-20B",
    "gpt-oss-120B",
}
MIXTURES = [n for n, e in MODELS.items() if "experts" in e]


def linear(rows: int, columns: int, bias: bool = False) -> list[tuple[int, ...]]:
    return [(rows, columns), *([(rows,)] if bias else [])]


def rows(e: Entry) -> Iterator[tuple[str, Entry]]:
    """The blocks of each layer, one after the other, with their sizes; a norm of the residual stream as a block."""
    kinds = ("attention", "latent_attention", "compressed_attention", "recurrence", "mlp", "experts")
    shared = {kind: e[kind] for kind in kinds if kind in e}
    listed = e["layers"] if isinstance(e["layers"], list) else [{"count": e["layers"], **{key: {} for key in shared}}]
    for row in listed:
        for _ in range(row["count"]):
            yield from ((kind, {**shared.get(kind, {}), **row[kind]}) for kind in kinds if kind in row)
            yield from [("norm", {})] * row.get("norms", e.get("norms_per_layer", 2))


def tensors(e: Entry) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Part and shape of every weight tensor, one at a time, as a state dict would list them."""
    h, width = e["hidden"], e.get("embedding_width", e["hidden"])

    def norm(size: int) -> list[tuple[int, ...]]:
        both = e.get("norm", "rmsnorm") == "layernorm" and e.get("norm_bias", True)
        return [(size,)] * (2 if both else 1)

    def mlp(b: Entry, size: int, h: int = h) -> list[tuple[int, ...]]:
        bias = b.get("bias", False)
        return linear(size, h, bias) * (2 if b.get("gated", True) else 1) + linear(h, size, bias)

    def attention(b: Entry) -> list[tuple[int, ...]]:
        d, q, kv = b["head_dim"], b["heads"] * b["head_dim"], b["kv_heads"] * b["head_dim"]
        qkv = linear(q, h, b.get("qkv_bias", False)) + linear(kv, h, b.get("qkv_bias", False)) * 2
        qkv += linear(h, q, b.get("output_bias", False)) + [(b["heads"],)] * b.get("sinks", False)
        qkv += {"full": [(q, h)], "head": [(b["heads"], h)]}.get(b.get("gate"), [])
        return qkv + {"head": norm(d) * 2, "full": norm(q) + norm(kv)}.get(b.get("qk_norm"), [])

    def latent(b: Entry) -> list[tuple[int, ...]]:
        nope, rope, r, heads, low = b["head_dim"], b["rope_dim"], b["kv_rank"], b["heads"], b.get("q_rank", 0)
        v, queries = b.get("value_dim", nope), heads * (nope + rope)
        down = linear(low, h) + norm(low) + linear(queries, low) if low else linear(queries, h)
        return down + linear(r + rope, h) + norm(r) + linear(heads * (nope + v), r) + linear(h, heads * v)

    def compressed(b: Entry) -> Iterator[tuple[str, tuple[int, ...]]]:
        """DeepSeek-V4: queries from a low rank, one vector that is key and value, results in groups; compressors."""
        n, d, low = b["heads"], b["head_dim"], b["q_rank"]
        own = [(low, h), (low,), (n * d, low), (d, h), (d,), (n,)]
        own += [(b["output_rank"], n * d // b["groups"])] * b["groups"] + [(h, b["groups"] * b["output_rank"])]
        yield from (("attention", s) for s in own)

        def compressor(size: int) -> list[tuple[int, ...]]:  # values and gates of this group and the one before it
            wide = size * (2 if b.get("overlap") else 1)
            return [(wide, h), (wide, h), (b["ratio"], wide), (size,)]

        if "ratio" in b:
            yield from (("attention", s) for s in compressor(d))
        if "picked" in b:
            heads, size = b["index_heads"], b["index_dim"]
            yield from (("indexer", s) for s in [*compressor(size), (heads * size, low), (heads, h)])

    def streams(c: int) -> list[tuple[int, ...]]:  # weights of c streams into one, of one into c, and of c into c
        return [(c + c + c * c, c * h), (c + c + c * c,), (3,)]

    def indexer(
        b: Entry,
    ) -> list[tuple[int, ...]]:  # DeepSeek's: queries from the low rank, one key with a layer norm, weights
        n, size = b["indexer"]["heads"], b["indexer"]["size"]
        return [(n * size, b.get("q_rank", h)), (size, h), (size,), (size,), (n, h)]

    def recurrence(b: Entry) -> list[tuple[int, ...]]:
        n, dv, groups, dk = (b[s] for s in ("heads", "head_dim", "key_heads", "state"))
        channels = n * dv + 2 * groups * dk
        conv = linear(channels, b["conv"], b.get("conv_bias", False))
        if b["kind"] == "gated-delta":  # q, k, v, z; b, a; decay and its bias; norm of a head; output
            return [(channels + n * dv, h), (2 * n, h), *conv, (n,), (n,), (dv,), (h, n * dv)]
        assert b["kind"] == "mamba2"  # z, x, B, C, dt; A, D and the bias of dt; norm; output
        return [(channels + n * dv + n, h), *conv, (n,), (n,), (n,), (n * dv,), (h, n * dv)]

    def mixture(b: Entry) -> Iterator[tuple[str, tuple[int, ...]]]:
        narrow = b.get("narrow", h)
        yield from (("expert", s) for s in mlp(b, b["width"], narrow) * b["n"])
        yield from (("shared", s) for s in [(h, narrow)] * (2 * ("narrow" in b)))
        yield from (("shared", s) for s in mlp(b, b.get("shared_width", b["width"])) * b.get("shared", 0))
        yield from (("shared", (h,)) for _ in range(b.get("shared_gate", False)))
        yield "router", (b["n"], h)
        yield from (("router", (b["n"],)) for _ in range(b.get("router_bias", False)))

    yield "embedding", (e["vocab"], width)
    yield from (("embedding", (h, width)) for _ in range(width != h))
    if "learned_positions" in e:
        yield "positions", (e["learned_positions"], h)
    yield from (("norm", s) for s in norm(h) * e.get("embedding_norm", False))
    for kind, b in rows(e):
        if kind in ("attention", "latent_attention"):
            yield from (("attention", s) for s in (attention(b) if kind == "attention" else latent(b)))
            yield from (("indexer", s) for s in (indexer(b) if "indexer" in b else []))
        elif kind == "compressed_attention":
            yield from compressed(b)
        elif kind == "recurrence":
            yield from (("recurrence", s) for s in recurrence(b))
        elif kind == "mlp":
            yield from (("mlp", s) for s in mlp(b, b["width"]))
        elif kind == "experts":
            yield from mixture(b)
        else:
            yield from (("norm", s) for s in norm(h))
    if "streams" in e:
        c = e["streams"]["count"]
        layers = sum(row["count"] for row in e["layers"])
        yield from (("streams", s) for s in [*streams(c) * 2 * layers, (c, c * h), (c,), (1,)])
    yield from (("norm", s) for s in norm(h) * e.get("final_norm", True))
    if not e.get("tied_embeddings", False):
        yield "head", (e["vocab"], width)
    yield from (("head", (e["vocab"],)) for _ in range(e.get("head_bias", False)))
    yield from (("head", (h, width)) for _ in range(width != h))


def count(e: Entry, *parts: str) -> int:
    return sum(math.prod(shape) for part, shape in tensors(e) if not parts or part in parts)


def active(e: Entry) -> float:
    return count(e) - count(e, "expert") * (1 - e["experts"]["top_k"] / e["experts"]["n"])


@pytest.mark.published
@pytest.mark.parametrize("name", EXACT)
def test_exact_count(name: str) -> None:
    assert count(MODELS[name]) == parameter_count(name).total == MODELS[name]["parameters"]["value"]


def half_unit(printed: str) -> float:
    """Half a unit of the last digit of a figure such as "175.0B"."""
    number, unit = re.match(r"([\d.]+) ?([MmBbT])", printed).groups()  # type: ignore[union-attr]
    decimals = len(number.partition(".")[2])
    return 0.5 * 10**-decimals * {"m": 1e6, "b": 1e9, "t": 1e12}[unit.lower()]


# What a published figure does not say, although it should: our count over the printed one, and a word of the notes.
CONTRADICTED = {
    "GPT-3-175B": (174_604_259_328, "does not round to"),
    "OPT-350M": (331_196_416, "far from its name"),
    "MPT-7B": (6_649_286_656, "misses the printed"),
    "PaLM-540B": (540_356_474_880, "truncates"),
    "Llama-3-200M": (341_496_896, "far from its name"),
    "Llama-3-500M": (813_344_000, "far from its name"),
    "Llama-3-100M": (190_724_544, "Far from its name"),
    "Granite-3.1-2B": (2_533_531_648, "does not round to"),
    "Granite-3.3-2B": (2_533_539_840, "does not round to"),
    "Granite-Vision-3.3-2B": (2_533_533_696, "does not round to"),
}


@pytest.mark.published
@pytest.mark.parametrize("name", ROUNDED)
def test_rounded_count(name: str) -> None:
    entry, ours = MODELS[name], count(MODELS[name])
    assert parameter_count(name).total == ours
    off = abs(ours - float(entry["parameters"]["value"]))
    if name in CONTRADICTED:
        known, words = CONTRADICTED[name]
        assert ours == known and words in entry["notes"]
        assert off > half_unit(entry["parameters"]["printed"]), "no contradiction any more: say so in the notes"
    else:
        assert off <= half_unit(entry["parameters"]["printed"])


@pytest.mark.published
@pytest.mark.parametrize("name", [n for n in MIXTURES if "active_parameters" in MODELS[n]])
def test_active_parameters(name: str) -> None:
    entry, figure = MODELS[name], MODELS[name]["active_parameters"]
    ours = active(entry)
    if name == "DeepSeek-V3":  # the card leaves the input embedding out
        assert ours == 37_552_297_472
        assert ours - float(figure["value"]) > half_unit(figure["printed"])
        ours -= count(entry, "embedding")
    if name.startswith("DeepSeek-V4"):  # nor do these
        assert ours - float(figure["value"]) > half_unit(figure["printed"])
        ours -= count(entry, "embedding")
    if name in ("GLM-4.5", "GLM-5"):  # its card leaves both ends out
        assert ours - float(figure["value"]) > half_unit(figure["printed"])
        ours -= count(entry, "embedding", "head")
    assert abs(ours - float(figure["value"])) <= half_unit(figure["printed"])


# Entries with the keys of a config.json: parameters in all, and those that a token meets; then what the printed figures count besides
# or leave out, which the notes say.
READ = {
    "Kimi-Linear-48B-A3B": (49_122_681_728, 3_484_459_904, -0.7e9, 0),  # no part of this size is known to be left out
    "Kimi-K3": (2_779_484_478_208, 105_364_019_968, 0, 0),
    "MiniMax-M3": (426_174_572_928, 25_962_473_856, 0.6e9, 0),  # a tower for images of that size
    "GLM-5.2": (743_377_019_904, 41_250_530_304, 0, -2 * 154_880 * 6144),
    "Gemma-4-26B-A4B": (25_233_141_760, 3_822_530_560, 572_792_112, 0),
    "Gemma-4-31B": (30_697_345_280, 30_697_345_280, 0, 0),
    "Nemotron-3-Ultra-550B-A55B": (549_308_968_960, 56_058_818_560, 0.5e9, -131_072 * 8192),  # rounded to tens
}


@pytest.mark.published
@pytest.mark.parametrize("name", CONFIGS)
def test_a_model_from_its_config_has_the_printed_counts(name: str) -> None:
    total, met, besides, without = READ[name]
    assert (parameter_count(name).total, active_parameters(name)) == (total, met)
    for key, ours in (("parameters", total + besides), ("active_parameters", met + without)):
        if figure := CONFIGS[name].get(key):
            assert abs(ours - float(figure["value"])) <= half_unit(figure["printed"])


@pytest.mark.published
def test_deepseeks_own_notes_do_not_give_the_active_parameters() -> None:
    # README_WEIGHTS.md: 36.7 B, "including 0.9B for Embedding and 0.9B for the output Head".
    assert active(MODELS["DeepSeek-V3"]) / 36.7e9 - 1 == pytest.approx(0.023, abs=0.001)


def printed(name: str) -> int:
    return int(MODELS[name]["parameters"]["printed"].replace(",", ""))


@pytest.mark.published
def test_stored_weights_hold_buffers_and_copies_as_well() -> None:
    # What the hub counts, less what is no parameter of the model.
    assert printed("Llama-2-7B") - 32 * 64 == 6_738_415_616  # rotary tables
    assert printed("Falcon-7B") - 65024 * 4544 == 6_921_720_704  # the tied head again
    assert printed("Falcon-40B") - 65024 * 8192 == 41_303_293_952
    assert printed("OPT-1.3B") + 2 * 2048 == 1_315_758_080  # a port without the padding positions
    lora = 32 * 2 * 2 * 16 * 4096  # rank 16 on queries and values of 32 layers
    assert f"trainable params: {lora}" in MODELS["OPT-6.7B"]["parameters"]["printed"]
    assert 6_666_862_592 - lora == 6_658_473_984
    for size, layers, stored in (("124M", 12, 137_022_720), ("355M", 24, 379_988_992)):
        e = MODELS[f"GPT-2-{size}"]
        assert count(e) + layers * 1024**2 == stored and f"{stored:,}" in e["notes"]  # causal masks
    for size, layers, stored in (("774M", 36, 811_778_816), ("1.5B", 48, 1_607_942_848)):
        e = MODELS[f"GPT-2-{size}"]
        assert count(e) + layers * 1024**2 == stored and f"{stored:,}" in e["notes"]
    for size, hidden, stored in (("0.6B", 1024, 751_632_384), ("1.7B", 2048, 2_031_739_904)):
        e = MODELS[f"Qwen3-{size}"]
        assert count(e) + 151936 * hidden == stored and f"{stored:,}" in e["notes"]


@pytest.mark.published
@pytest.mark.parametrize("name", ["Llama-4-Scout", "Llama-4-Maverick"])
def test_llama_4_with_its_vision_encoder_is_the_stored_count(name: str) -> None:
    # vision_config of config.json: 34 layers of 1408, MLP 5632, patches of 14 x 14 on 336 x 336, all with biases.
    h, f, out, text = 1408, 5632, 4096, 5120
    patches = (336 // 14) ** 2
    layer = 4 * (h * h + h) + (f * h + f) + (h * f + h) + 2 * 2 * h
    encoder = 3 * 14 * 14 * h + h + (patches + 1) * h + 2 * 2 * h + 34 * layer
    adapter = f * out + out * out  # pixel shuffle and its MLP, without biases
    assert count(MODELS[name]) + encoder + adapter + out * text == printed(name)


@pytest.mark.published
@pytest.mark.parametrize("size", ["4b", "12b", "27b"])
def test_gemma_3_with_its_vision_tower_is_the_stored_count(size: str) -> None:
    # SigLIP: 27 layers of 1152, MLP 4304, patches of 14 x 14 on 896 x 896, all with biases; a norm and a projection behind it.
    e, h, f = MODELS[f"Gemma-3-{size}"], 1152, 4304
    layer = 4 * (h * h + h) + (f * h + f) + (h * f + h) + 2 * 2 * h
    tower = 3 * 14 * 14 * h + h + (896 // 14) ** 2 * h + 27 * layer + 2 * h + h + h * e["hidden"]
    assert tower == e["tower_parameters"]
    assert count(e) + tower == printed(f"Gemma-3-{size}")


@pytest.mark.published
def test_towers_that_stand_beside_a_text_model_that_stores_them_apart() -> None:
    # Pixtral in Mistral Small 3.1: 24 layers of 1024, gated MLP 4096, patches of 14 x 14; a projector that merges 2 x 2 patches.
    h, out = 1024, 5120
    pixtral = 3 * 14 * 14 * h + h + 24 * (4 * h * h + 3 * h * 4096 + 2 * h)
    projector = h + 4 * h * h + h * out + out * out
    assert MODELS["Mistral-Small-3.1-24B"]["tower_parameters"] == pixtral + projector
    # SigLIP for 384 x 384 in Granite Vision, and two matrices from four of its layers
    h, f, text = 1152, 4304, 2048
    siglip = 3 * 14 * 14 * h + h + (384 // 14) ** 2 * h + 27 * (4 * (h * h + h) + 2 * h * f + f + h + 4 * h) + 2 * h
    merged = 4 * h * text + text + text * text + text + text  # the last: the vector that ends a row of patches
    assert MODELS["Granite-Vision-3.3-2B"]["tower_parameters"] == siglip + merged
    assert count(MODELS["Moonlight-16B-A3B"]) + 27 * 64 == printed("Moonlight-16B-A3B")
    assert count(MODELS["Granite-3.1-8B"]) + 4 * 4096 == printed("Granite-3.1-8B")


@pytest.mark.published
@pytest.mark.parametrize(
    "name", [n for n, e in MODELS.items() if "minus the vision tower" in e["parameters"].get("transform", "")]
)
def test_text_and_tower_are_the_stored_count(name: str) -> None:
    assert count(MODELS[name]) + MODELS[name]["tower_parameters"] == printed(name)


def prediction_module(e: Entry) -> int:
    """One more layer with attention and experts, a projection of two streams to one, a norm on each and one behind it."""
    one = {**e, "layers": [{"count": 1, "norms": e.get("norms_per_layer", 2) + 1, **e["modules"]}], "final_norm": False}
    return (
        count(one, *{part for part, _ in tensors(one)} - {"embedding", "head"}) + 2 * e["hidden"] ** 2 + 2 * e["hidden"]
    )


@pytest.mark.published
@pytest.mark.parametrize("name", [n for n in EXACT if "modules" in MODELS[n]])
def test_the_prediction_module_is_one_more_layer(name: str) -> None:
    e, towers = MODELS[name], MODELS[name].get("tower_parameters", 0)
    copies = 2 * e["vocab"] * e["hidden"]  # of embedding and head
    assert prediction_module(e) == mtp_parameters(name)
    beside = {"DeepSeek-V3": 41_540_496 + copies, "DeepSeek-V3.2": 41_591_584 + copies}  # scales of the 8-bit format
    beside |= {"GLM-4.5": copies, "GLM-4.5-Air": copies}
    assert count(e) + prediction_module(e) + towers + beside.get(name, 0) == printed(name)


@pytest.mark.published
def test_kimi_k2_5_with_its_scales_and_shapes_is_the_stored_count() -> None:
    e = MODELS["Kimi-K2.5"]
    matrices = 60 * 384 * 3
    scales = matrices * 7168 * 2048 // 32
    assert (matrices, scales, 8 * 2 * matrices) == (69_120, 31_708_938_240, 1_105_920)
    assert count(e) + scales + 8 * 2 * matrices + e["tower_parameters"] == printed("Kimi-K2.5")
    h, f, text = 1152, 4304, 7168  # the tower's layers have biases and layer norms; 2 x 2 patches enter the projector
    layer = 4 * (h * h + h) + 2 * h * f + f + h + 4 * h
    tower = 3 * 14 * 14 * h + h + 64 * 64 * h + 27 * layer + 2 * h
    assert tower + 2 * h + 16 * h * h + 4 * h + 4 * h * text + text == e["tower_parameters"]


@pytest.mark.published
def test_minimax_with_its_scales_is_the_stored_count() -> None:
    h, width, q, kv = (n // 128 for n in (3072, 1536, 6144, 1024))  # in blocks of 128 x 128
    scales = 62 * (256 * 3 * h * width + 2 * h * q + 2 * h * kv)
    assert count(MODELS["MiniMax-M2"]) + scales == printed("MiniMax-M2")


@pytest.mark.published
def test_deepseek_v3_with_its_prediction_module_and_scales_is_the_stored_count() -> None:
    e = MODELS["DeepSeek-V3"]
    h, v = e["hidden"], e["vocab"]
    one_layer = {**e, "layers": [{"count": 1, "latent_attention": {}, "experts": {}}]}
    layer = count(one_layer, "attention", "expert", "shared", "router") + 2 * h
    module = (
        layer + 2 * h * h + 3 * h + 2 * v * h
    )  # projection of two streams, three norms, copies of embedding and head

    def scales(rows: int, columns: int) -> int:  # one for each block of 128 x 128
        return math.ceil(rows / 128) * math.ceil(columns / 128)

    attention = [(1536, h), (128 * 192, 1536), (512 + 64, h), (128 * 256, 512), (h, 128 * 128)]
    of_attention = sum(scales(*s) for s in attention)
    of_mlp = {w: 3 * scales(w, h) for w in (2048, 18432)}
    eight_bit = 62 * of_attention + 3 * of_mlp[18432] + 59 * 257 * of_mlp[2048]
    assert (module, eight_bit) == (13_463_426_304, 41_540_496)
    assert count(e) + module + eight_bit == printed("DeepSeek-V3")


@pytest.mark.published
def test_deepseek_v2_with_its_scales_is_the_stored_count() -> None:
    matrices = 60 * 5 + 59 * (160 + 1) * 3 + 3  # two shared experts are stored as one
    assert matrices == 28_800
    assert count(MODELS["DeepSeek-V2"]) + 2 * matrices == printed("DeepSeek-V2")


@pytest.mark.independent
@pytest.mark.parametrize(
    ("name", "by_hand"),
    [
        ("GPT-2-124M", 50257 * 768 + 1024 * 768 + 12 * (12 * 768**2 + 13 * 768) + 2 * 768),
        ("GPT-3-175B", 50257 * 12288 + 2048 * 12288 + 96 * (12 * 12288**2 + 13 * 12288) + 2 * 12288),
        ("Llama-3.1-8B", 2 * 128256 * 4096 + 32 * (4096 * 128 * (32 + 8 + 8 + 32) + 3 * 4096 * 14336 + 2 * 4096) + 4096),
        ("Llama-3.2-1B", 128256 * 2048 + 16 * (2048 * 64 * (32 + 8 + 8 + 32) + 3 * 2048 * 8192 + 2 * 2048) + 2048),
        ("Mixtral-8x7B", 2 * 32000 * 4096 + 32 * (4096 * 128 * 80 + 8 * 3 * 4096 * 14336 + 8 * 4096 + 2 * 4096) + 4096),
        ("Qwen2.5-7B", 2 * 152064 * 3584 + 28 * (3584 * 128 * 64 + 128 * 36 + 3 * 3584 * 18944 + 2 * 3584) + 3584),
        ("Qwen3-0.6B", 151936 * 1024 + 28 * (1024 * 128 * 48 + 2 * 128 + 3 * 1024 * 3072 + 2 * 1024) + 1024),
        ("BLOOM-176B", 250880 * 14336 + 70 * (12 * 14336**2 + 13 * 14336) + 2 * 14336 + 2 * 14336),
        ("Falcon-7B", 65024 * 4544 + 32 * (4544 * (71 + 2 + 71) * 64 + 8 * 4544**2 + 2 * 4544) + 2 * 4544),
        ("MPT-30B", 50432 * 7168 + 48 * (12 * 7168**2 + 2 * 7168) + 7168),
        ("PaLM-540B", 256000 * 18432 + 118 * (18432 * 256 * (48 + 2 + 48) + 3 * 18432 * 73728 + 18432) + 18432),
        ("OPT-350M", 50272 * 512 + 2 * 512 * 1024 + 2050 * 1024 + 24 * (12 * 1024**2 + 13 * 1024)),
        (
            "DeepSeek-V2-Lite",
            2 * 102400 * 2048
            + 27 * (2048 * 16 * 192 + 2048 * 576 + 512 + 512 * 16 * 256 + 16 * 128 * 2048 + 2 * 2048)
            + 3 * 2048 * 10944
            + 26 * (66 * 3 * 2048 * 1408 + 64 * 2048)
            + 2048,
        ),
    ],
)  # fmt: skip
def test_counts_by_hand(name: str, by_hand: int) -> None:
    assert parameter_count(name).total == by_hand


@pytest.mark.independent
@each_model
def test_parts_are_those_of_the_tensors(name: str) -> None:
    e, c = MODELS[name], parameter_count(name)
    inside = count(e, "attention") - c.attention  # norms inside the attention count as norms
    assert (c.embedding, c.positions, c.lm_head) == (count(e, "embedding"), count(e, "positions"), count(e, "head"))
    assert (c.dense_mlp, c.experts, c.shared_experts) == (count(e, "mlp"), count(e, "expert"), count(e, "shared"))
    assert (c.router, c.norms) == (count(e, "router"), count(e, "norm") + inside)


@pytest.fixture(scope="module")
def keys() -> set[str]:
    if not BIBLIOGRAPHY.exists():
        pytest.skip("a copy of the package without the book")
    return set(re.findall(r"^@\w+\{([^,]+),", BIBLIOGRAPHY.read_text("utf-8"), re.M))


@pytest.mark.independent
@pytest.mark.parametrize("name", EVERY)
def test_provenance(name: str, keys: set[str]) -> None:
    e = EVERY[name]
    assert e["source"] in keys and e["where"].strip()
    for key in ("parameters", "active_parameters"):
        figure = e.get(key)
        if figure is None:
            assert key == "active_parameters" and (name not in MIXTURES or name in NO_ACTIVE)
            continue
        assert figure["source"] in keys and figure["where"].strip()
        assert datetime.date.fromisoformat(figure["retrieved"]).year in (2025, 2026)
        assert figure.get("read", "secondary") == "secondary"
        assert figure.get("transform", "as printed").startswith(("as printed", "derived: "))
        assert ("transform" in figure) == ("printed" in figure)
    assert not e.get("estimated"), "no closed model is in the catalogue; GPT-3 and PaLM published their shapes"


@pytest.mark.independent
def test_names_and_aliases_are_unique() -> None:
    names = [n.casefold().replace("_", "-").replace(" ", "-") for m, e in EVERY.items() for n in (m, *e["aliases"])]
    assert sorted(names) == sorted(set(names))


ATTENTION = {
    "mha": {"GPT-2-124M", "GPT-3-175B", "Llama-2-7B", "Llama-2-13B", "OPT-175B", "BLOOM-176B", "GPT-NeoX-20B", "MPT-7B", "Gemma-7b"},
    "mqa": {"DeepSeek-V4-Flash", "DeepSeek-V4-Pro", "Falcon-7B", "Gemma-2b", "Gemma-3-1b", "PaLM-540B"},
    "gqa": {"Llama-2-70B", "Llama-3.1-405B", "Llama-4-Scout", "Mistral-7B", "Mixtral-8x22B", "Qwen2.5-7B", "Qwen3-32B", "CodeLlama-34B", "Falcon-40B"},
    "mla": {"DeepSeek-V2", "DeepSeek-V2-Lite", "DeepSeek-V3", "DeepSeek-V3.2", "GLM-5", "Kimi-K2", "Kimi-K2.5", "Kimi-VL-A3B", "Moonlight-16B-A3B"},
}  # fmt: skip


@pytest.mark.published
@pytest.mark.parametrize(("kind", "names"), ATTENTION.items())
def test_kind_of_attention(kind: str, names: set[str]) -> None:
    assert {catalog.model(n).attention for n in names} == {kind}
    if kind in ("mla", "mqa"):
        assert {n for n in MODELS if catalog.model(n).attention == kind} == names


@pytest.mark.published
def test_what_a_source_of_this_book_has_wrong() -> None:
    code, qwen = catalog.model("CodeLlama-34B"), catalog.model("Qwen2.5-7B")
    assert (code.heads, code.n_layers) == (64, 48)
    assert (qwen.heads, qwen.kv_heads) == (28, 4)


SPEC = [
    "GPT-2",
    "GPT-3",
    "Llama-2-7B",
    "Llama-2-13B",
    "Llama-2-70B",
    "Llama-3-8B",
    "Llama-3-70B",
    "Llama-3.1-8B",
    "Llama-3.1-70B",
    "Llama-3.1-405B",
    "Llama-3.2-1B",
    "Llama-3.2-3B",
    "Llama-4-Scout",
    "Llama-4-Maverick",
    "Mixtral-8x7B",
    "Mixtral-8x22B",
    "Mistral-7B",
    "Mistral-Large-2",
    "DeepSeek-V3",
    "DeepSeek-R1",
    "DeepSeek-V2",
    "Qwen3-0.6B",
    "Qwen3-32B",
    "Qwen3-30B-A3B",
    "Qwen3-235B-A22B",
    "CodeLlama-34B",
    "Qwen2.5-7B",
    "OPT-125M",
    "OPT-175B",
    "BLOOM",
    "PaLM",
    "MPT-7B",
    "MPT-30B",
    "Falcon-7B",
    "Falcon-40B",
    "Gemma-7b",
    "GPT-NeoX-20B",
]


@pytest.mark.independent
@pytest.mark.parametrize("name", SPEC)
def test_names_people_use(name: str) -> None:
    assert catalog.model(name.lower().replace("-", "_")) is catalog.model(name)


@pytest.mark.independent
@each_model
def test_the_loader_reads_the_same(name: str) -> None:
    m, e = catalog.model(name), MODELS[name]
    for key, value in e.items():
        if key in ("parameters", "active_parameters"):
            assert m.published[key].value == float(value["value"])
        elif key in ("hidden", "vocab", "learned_positions", "tied_embeddings") or (
            type(value) is str and key != "norm"
        ):
            assert getattr(m, key) == value
    assert m.n_layers == (e["layers"] if isinstance(e["layers"], int) else sum(row["count"] for row in e["layers"]))
    assert m.aliases == tuple(e["aliases"])
    assert all(catalog.model(alias) is m for alias in e["aliases"])


@pytest.mark.published
def test_shapes_of_the_shipped_rows_agree() -> None:
    seen = set()
    for name in ("training_step", "inference"):
        for case in shipped_rows.cases(name, set="first").cases:
            row = case.inputs
            try:
                m = catalog.model(row["model"])
            except UnknownNameError:
                continue
            if m.family == "MPT":  # MosaicML's throughput tables use other heads and another vocabulary
                continue
            seen.add(m.name)
            for key in ("n_layers", "hidden", "heads", "kv_heads", "head_dim"):
                assert row[key.removeprefix("n_")] == getattr(m, key), f"{case.id}: {key}"
            assert row["ffn"] == (m.ffn or m.moe_ffn)
            assert row["vocab"] == m.vocab or m.family == "GPT-3"
    assert len(seen) >= 8


SMALL = '["X"]\nlayers = 2\nhidden = 8\nheads = 4\nkv_heads = 2\nhead_dim = 2\nffn = 16\nvocab = 10\n'


def load(folder: Path, text: str) -> Model:
    file = folder / "mine.toml"
    file.write_text(text)
    return load_models(file)["X"]


@pytest.mark.independent
def test_a_users_file(tmp_path: Path) -> None:
    m = load(tmp_path, SMALL + 'aliases = ["x"]\nparameters = 1234\n')
    assert parameter_count(m).total == 2 * 10 * 8 + 2 * (8 * 2 * 12 + 3 * 8 * 16 + 2 * 8) + 8
    assert m.published["parameters"].value == 1234


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("X = 3\n", "is not a table"),
        ('["X"]\nlayers = 2\n', "no hidden; give the missing sizes"),
        (SMALL + "layer = 2\n", "did you mean 'layers'"),
        (SMALL + "top_k = 1\n", "top_k = 1 needs n_experts > 0"),
        (SMALL + "n_experts = 4\ntop_k = 5\nmoe_ffn = 8\n", r"top_k = 5 must lie in [1, 4]"),
        (SMALL + "n_experts = 4\ntop_k = 2\n", "moe_ffn = 0 must be at least 1"),
        (SMALL + "n_dense_layers = 3\n", "n_dense_layers = 3 must not exceed layers = 2"),
        (SMALL + "kv_lora_rank = 4\n", "qk_rope_head_dim = 0 must be at least 1"),
        (SMALL + "attn_window = 4\n", "needs n_windowed_layers"),
        (SMALL + 'norm = "batchnorm"\n', "must be one of rmsnorm, layernorm"),
        (SMALL + 'qk_norm = "all"\n', "qk_norm = 'all' must be"),
        (SMALL + "gated_mlp = 1\n", "gated_mlp = '1' must be of type bool"),
        (SMALL + "notes = 1\n", "must be of type str"),
        (SMALL + 'parameters = "8 GB"\n', "is not"),
        (SMALL.replace("layers = 2", "layers = 2.5"), "layers = '2.5' must be of type int"),
        (SMALL.replace("layers = 2", "layers = -2"), "must lie in [0, 10,000,000]"),
        (SMALL.replace("layers = 2", "layers = 0"), "layers = 0 must be at least 1"),
        (SMALL.replace("kv_heads = 2", "kv_heads = 3"), "kv_heads = 3 must divide heads = 4"),
        (SMALL.replace("ffn = 16", "ffn = 0"), "ffn = 0 must be at least 1"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises((InputError, UnknownNameError), match=re.escape(says)):
        load(tmp_path, text)


def test_a_model_is_passed_through_and_an_unknown_one_is_named() -> None:
    m = catalog.model("gpt2")
    assert catalog.model(m) is m
    with pytest.raises(UnknownNameError, match=r"did you mean 'Llama-3\.1-8B'"):
        catalog.model("Llama-3.1-8")
