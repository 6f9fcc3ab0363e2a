"""Reading a Hugging Face config.json: every family against the catalogue, and everything that must be refused."""

import json
import os
import re
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlsysim import catalog, flops, inference, memory, serving_steps, training
from mlsysim.catalog import from_hf_config, hf
from mlsysim.catalog.hf import FAMILIES, MAX_CONFIG_BYTES
from mlsysim.catalog.operations import Attention, Norm, Product
from mlsysim.errors import InputError
from mlsysim.transformer import matrix_count, mtp_parameters, parameter_count

Config = dict[str, Any]


def sizes(layers: int, hidden: int, heads: int, vocab: int, **more: Any) -> Config:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "vocab_size": vocab,
        **more,
    }


def llama(*args: int, ffn: int, **more: Any) -> Config:
    return {"model_type": "llama", **sizes(*args), "intermediate_size": ffn, **more}


def gpt2(layers: int, hidden: int, heads: int) -> Config:
    head = {"model_type": "gpt2", "n_layer": layers, "n_embd": hidden, "n_head": heads}
    return head | {"n_positions": 1024, "n_ctx": 1024, "vocab_size": 50257, "n_inner": None}


def qwen3(layers: int, hidden: int, heads: int, ffn: int, tied: bool) -> Config:
    size = sizes(layers, hidden, heads, 151936, num_key_value_heads=8, head_dim=128, intermediate_size=ffn)
    return {"model_type": "qwen3", **size, "attention_bias": False, "tie_word_embeddings": tied, "sliding_window": None}


MLA = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
EXPERTS = {"n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1, "moe_layer_freq": 1}
ALIBI = {"alibi": True, "attn_type": "multihead_attention", "qk_ln": False}

# Written from the published facts, key names and omissions as in the files on the hub.
CONFIGS: dict[str, Config] = {
    "Llama-2-7B": llama(32, 4096, 32, 32000, ffn=11008, num_key_value_heads=32),
    "Llama-3.1-8B": llama(32, 4096, 32, 128256, ffn=14336, num_key_value_heads=8, attention_bias=False, mlp_bias=False),
    "Llama-3.1-405B": llama(126, 16384, 128, 128256, ffn=53248, num_key_value_heads=8),
    "Llama-3.2-1B": llama(16, 2048, 32, 128256, ffn=8192, num_key_value_heads=8, head_dim=64, tie_word_embeddings=True),
    "CodeLlama-34B": llama(48, 8192, 64, 32000, ffn=22016, num_key_value_heads=8, rope_scaling=None),
    "Llama-4-Scout": {
        "model_type": "llama4",
        "text_config": {
            "model_type": "llama4_text",
            **sizes(48, 5120, 40, 202048, num_key_value_heads=8, head_dim=128, intermediate_size=8192),
            "intermediate_size_mlp": 16384,
            "interleave_moe_layer_step": 1,
            "num_local_experts": 16,
            "num_experts_per_tok": 1,
            "use_qk_norm": True,
        },
    },
    "Llama-4-Maverick": {
        "model_type": "llama4_text",
        **sizes(48, 5120, 40, 202048, num_key_value_heads=8, head_dim=128, intermediate_size=8192),
        "intermediate_size_mlp": 16384,
        "interleave_moe_layer_step": 2,
        "moe_layers": list(range(1, 48, 2)),
        "num_local_experts": 128,
        "num_experts_per_tok": 1,
    },
    "Mistral-7B": {"model_type": "mistral", **sizes(32, 4096, 32, 32000, num_key_value_heads=8, intermediate_size=14336, sliding_window=4096)},
    "Mistral-7B-v0.3": {"model_type": "mistral", **sizes(32, 4096, 32, 32768, num_key_value_heads=8, intermediate_size=14336, sliding_window=None)},
    "Mixtral-8x7B": {
        "model_type": "mixtral",
        **sizes(32, 4096, 32, 32000, num_key_value_heads=8, intermediate_size=14336, sliding_window=None),
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
    },
    "Mixtral-8x22B": {
        "model_type": "mixtral",
        **sizes(56, 6144, 48, 32768, num_key_value_heads=8, intermediate_size=16384),
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
    },
    "Qwen2.5-7B": {
        "model_type": "qwen2",
        **sizes(28, 3584, 28, 152064, num_key_value_heads=4, intermediate_size=18944),
        "sliding_window": 131072,
        "use_sliding_window": False,
        "max_window_layers": 28,
    },
    "Qwen3-0.6B": qwen3(28, 1024, 16, 3072, True),
    "Qwen3-8B": qwen3(36, 4096, 32, 12288, False),
    "Qwen3-32B": qwen3(64, 5120, 64, 25600, False),
    "Qwen3-30B-A3B": {
        "model_type": "qwen3_moe",
        **sizes(48, 2048, 32, 151936, num_key_value_heads=4, head_dim=128, intermediate_size=6144),
        "moe_intermediate_size": 768,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    },
    "MiniMax-M2": {
        "model_type": "minimax_m2",
        **sizes(62, 3072, 48, 200064, num_key_value_heads=8, head_dim=128, intermediate_size=1536),
        "num_local_experts": 256,
        "num_experts_per_tok": 8,
        "use_qk_norm": True,
        "use_routing_bias": True,
    },
    "OLMo-2-7B": {"model_type": "olmo2", **sizes(32, 4096, 32, 100352, num_key_value_heads=32, intermediate_size=11008)},
    "DeepSeek-V3": {
        "model_type": "deepseek_v3",
        **sizes(61, 7168, 128, 129280, num_key_value_heads=128, intermediate_size=18432, q_lora_rank=1536),
        **MLA,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "first_k_dense_replace": 3,
        "moe_intermediate_size": 2048,
        "topk_method": "noaux_tc",
        "num_nextn_predict_layers": 1,
    },
    "DeepSeek-V2": {
        "model_type": "deepseek_v2",
        **sizes(60, 5120, 128, 102400, num_key_value_heads=128, intermediate_size=12288, q_lora_rank=1536),
        **MLA,
        **EXPERTS,
        "n_routed_experts": 160,
        "moe_intermediate_size": 1536,
    },
    "DeepSeek-V2-Lite": {
        "model_type": "deepseek_v2",
        **sizes(27, 2048, 16, 102400, num_key_value_heads=16, intermediate_size=10944, q_lora_rank=None),
        **MLA,
        **EXPERTS,
        "n_routed_experts": 64,
        "moe_intermediate_size": 1408,
    },
    "GPT-2-124M": gpt2(12, 768, 12),
    "GPT-2-1.5B": gpt2(48, 1600, 25),
    "GPT-NeoX-20B": {
        "model_type": "gpt_neox",
        **sizes(44, 6144, 64, 50432, intermediate_size=24576, use_parallel_residual=True, tie_word_embeddings=False),
    },
    "Falcon-7B": {
        "model_type": "falcon",
        **sizes(32, 4544, 71, 65024, multi_query=True, parallel_attn=True, new_decoder_architecture=False, bias=False),
    },
    "Falcon-40B": {
        "model_type": "falcon",
        **sizes(60, 8192, 128, 65024, num_kv_heads=8, parallel_attn=True, new_decoder_architecture=True, bias=False),
    },
    "Gemma-2b": {"model_type": "gemma", **sizes(18, 2048, 8, 256000, num_key_value_heads=1, head_dim=256, intermediate_size=16384)},
    "Gemma-7b": {"model_type": "gemma", **sizes(28, 3072, 16, 256000, num_key_value_heads=16, head_dim=256, intermediate_size=24576)},
    "Gemma-2-27b": {
        "model_type": "gemma2",
        **sizes(46, 4608, 32, 256000, num_key_value_heads=16, head_dim=128, intermediate_size=36864),
        "sliding_window": 4096,
    },
    "OPT-350M": {
        "model_type": "opt",
        **sizes(24, 1024, 16, 50272, ffn_dim=4096, max_position_embeddings=2048, word_embed_proj_dim=512),
        "do_layer_norm_before": False,
        "_remove_final_layer_norm": False,
    },
    "OPT-6.7B": {
        "model_type": "opt",
        **sizes(32, 4096, 32, 50272, ffn_dim=16384, max_position_embeddings=2048, word_embed_proj_dim=4096),
        "do_layer_norm_before": True,
    },
    "BLOOM-176B": {"model_type": "bloom", "n_embed": 14336, "n_layer": 70, "num_attention_heads": 112, "vocab_size": 250880},
    "MPT-7B": {
        "model_type": "mpt",
        "d_model": 4096,
        "n_heads": 32,
        "n_layers": 32,
        "expansion_ratio": 4,
        "vocab_size": 50432,
        "max_seq_len": 2048,
        "no_bias": True,
        "learned_pos_emb": True,
        "attn_config": ALIBI,
        "norm_type": "low_precision_layernorm",
    },
    "MPT-30B": {
        "model_type": "mpt",
        "d_model": 7168,
        "n_heads": 64,
        "n_layers": 48,
        "expansion_ratio": 4,
        "vocab_size": 50432,
        "max_seq_len": 8192,
        "no_bias": True,
        "learned_pos_emb": True,
        "attn_config": ALIBI,
    },
    "Granite-3.3-8B": {"model_type": "granite", **sizes(40, 4096, 32, 49159, num_key_value_heads=8, intermediate_size=12800), "tie_word_embeddings": True, "max_position_embeddings": 131072},
    "Phi-2": {"model_type": "phi", **sizes(32, 2560, 32, 51200, num_key_value_heads=32, intermediate_size=10240), "partial_rotary_factor": 0.4, "max_position_embeddings": 2048, "qk_layernorm": False},
    "Phi-4": {"model_type": "phi3", **sizes(40, 5120, 40, 100352, num_key_value_heads=10, intermediate_size=17920), "max_position_embeddings": 16384, "sliding_window": None},
    "Phi-4-mini": {"model_type": "phi3", **sizes(32, 3072, 24, 200064, num_key_value_heads=8, intermediate_size=8192), "max_position_embeddings": 131072, "sliding_window": 262144, "partial_rotary_factor": 0.75, "tie_word_embeddings": True},
    "Gemma-3-1b": {"model_type": "gemma3_text", **sizes(26, 1152, 4, 262144, num_key_value_heads=1, head_dim=256, intermediate_size=6912), "sliding_window": 512, "sliding_window_pattern": 6, "max_position_embeddings": 32768},
    "Gemma-3-27b": {
        "model_type": "gemma3",
        "text_config": {
            "model_type": "gemma3_text",
            **sizes(62, 5376, 32, 262208, num_key_value_heads=16, head_dim=128, intermediate_size=21504),
            "sliding_window": 1024,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        },
        "vision_config": {"hidden_size": 1152, "image_size": 896, "intermediate_size": 4304, "num_hidden_layers": 27, "patch_size": 14},
    },
    "gpt-oss-20B": {
        "model_type": "gpt_oss",
        **sizes(24, 2880, 64, 201088, num_key_value_heads=8, head_dim=64, intermediate_size=2880),
        "num_local_experts": 32,
        "num_experts_per_tok": 4,
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"] * 12,
        "max_position_embeddings": 131072,
        "rope_scaling": {"factor": 32.0, "original_max_position_embeddings": 4096, "rope_type": "yarn"},
        "quantization_config": {"quant_method": "mxfp4"},
        "tie_word_embeddings": False,
    },
    "Kimi-K2": {
        "model_type": "kimi_k2",
        **sizes(61, 7168, 64, 163840, num_key_value_heads=64, intermediate_size=18432, q_lora_rank=1536),
        **MLA,
        "n_routed_experts": 384,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "first_k_dense_replace": 1,
        "moe_intermediate_size": 2048,
        "max_position_embeddings": 131072,
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    },
    "Kimi-VL-A3B": {
        "model_type": "kimi_vl",
        "text_config": {
            "model_type": "deepseek_v3",
            **sizes(27, 2048, 16, 163840, num_key_value_heads=16, intermediate_size=11264, q_lora_rank=None),
            **MLA,
            **EXPERTS,
            "n_routed_experts": 64,
            "moe_intermediate_size": 1408,
            "max_position_embeddings": 131072,
        },
        "vision_config": {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "patch_size": 14, "init_pos_emb_height": 64, "init_pos_emb_width": 64},
    },
    "Mistral-Small-3.1-24B": {
        "model_type": "mistral3",
        "spatial_merge_size": 2,
        "text_config": {"model_type": "mistral", **sizes(40, 5120, 32, 131072, num_key_value_heads=8, head_dim=128, intermediate_size=32768, sliding_window=None), "max_position_embeddings": 131072},
        "vision_config": {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "patch_size": 14},
    },
    "Qwen2.5-VL-7B": {
        "model_type": "qwen2_5_vl",
        **sizes(28, 3584, 28, 152064, num_key_value_heads=4, intermediate_size=18944),
        "use_sliding_window": False,
        "max_position_embeddings": 128000,
        "vision_config": {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "patch_size": 14, "spatial_merge_size": 2},
    },
    "Qwen3-VL-8B": {
        "model_type": "qwen3_vl",
        "tie_word_embeddings": False,
        "text_config": {"model_type": "qwen3_vl_text", **sizes(36, 4096, 32, 151936, num_key_value_heads=8, head_dim=128, intermediate_size=12288), "max_position_embeddings": 262144},
        "vision_config": {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "patch_size": 16, "spatial_merge_size": 2, "num_position_embeddings": 2304, "deepstack_visual_indexes": [8, 16, 24]},
    },
}  # fmt: skip


def told(m: catalog.Model, fact: str) -> Any:
    """What the operations of a model say of it, or one of its fields."""
    layer = m.layers[0].operations
    near = [(n, core.window) for n, core in m.cores if core.window]
    facts: dict[str, Any] = {
        "window": max((width for _, width in near), default=0),
        "windowed": sum(n for n, _ in near),
        "norms": sum(isinstance(o, Norm) and not o.inner for o in layer),
        "norm bias": any(isinstance(o, Norm) and o.bias for o in layer),
        "final norm": any(isinstance(o, Norm) for o in m.after),
        "qkv bias": any(o.bias > 0 for _, o in m.products("attention", "k")),
        "output bias": any(o.bias > 0 for _, o in m.products("attention", "output")),
        "dense": m.n_mlp_layers - m.n_moe_layers,
        "shared": sum(o.copies for _, o in m.products("shared_experts", "up")),
    }
    return facts[fact] if fact in facts else getattr(m, fact)


NOT_SHAPE = ("name", "aliases", "family", "notes", "source", "where", "published", "estimated")
SERVED = (
    "tower_parameters",
    "rotary_rows",
    "rotary_dim",
    "stored",
)  # of the checkpoint as a server loads it; tested below
LLAMA = CONFIGS["Llama-3.1-8B"]


@pytest.mark.published
@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_gives_the_shape_and_the_published_count_of_the_catalogue(name: str) -> None:
    read, known = from_hf_config(CONFIGS[name]), catalog.model(name)
    for f in fields(known):
        if f.name not in (*NOT_SHAPE, *SERVED, "layers"):
            assert getattr(read, f.name) == getattr(known, f.name), f.name
    assert set(read.layers) == set(known.layers)  # in the order in which they first come, which a table need not keep
    published = known.published["parameters"]
    if "rounded" not in published.transform:
        assert parameter_count(read).total == published.value


@pytest.mark.published
@pytest.mark.parametrize(
    "name", [n for n, c in CONFIGS.items() if catalog.model(n).tower_parameters and "vision_config" in c]
)
def test_a_tower_beside_the_text_is_that_of_the_catalogue(name: str) -> None:
    read, known = from_hf_config(CONFIGS[name]), catalog.model(name)
    off = 27 * 64 if name == "Kimi-VL-A3B" else 0  # rotary frequencies that the layers store
    assert read.tower_parameters + off == known.tower_parameters


@pytest.mark.published
@pytest.mark.parametrize(
    "name", [n for n, c in CONFIGS.items() if "position" in str(c) and n not in ("GPT-2-124M", "GPT-2-1.5B")]
)
def test_rotary_tables_are_those_of_the_catalogue(name: str) -> None:
    read, known = from_hf_config(CONFIGS[name]), catalog.model(name)
    assert (read.rotary_rows, read.rotary_dim) == (known.rotary_rows, known.rotary_dim)


@pytest.mark.independent
@pytest.mark.parametrize(
    ("how", "stored"),
    [
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "fp8"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "int4"),
        ({"quant_method": "gptq", "bits": 8}, "int8"),
        ({"quant_method": "awq", "bits": 4}, "int4"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "fbgemm_fp8"}, "fp8"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"type": "float", "num_bits": 8, "strategy": "channel"}}}}, "fp8"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"type": "float", "num_bits": 8, "strategy": "block"}}}}, "fp8-block"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"type": "int", "num_bits": 8}}}}, "int8"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"type": "int", "num_bits": 4}}}}, "int4"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"type": "int", "num_bits": 4, "group_size": 32, "symmetric": True}}}}, "int4-sym-g32"),
        ({"quant_method": "something"}, "something"),
    ],
)  # fmt: skip
def test_the_format_of_a_checkpoint_is_read(how: Config, stored: str) -> None:
    assert from_hf_config(LLAMA | {"quantization_config": how}).stored == stored
    assert from_hf_config(LLAMA).stored == ""


@pytest.mark.independent
def test_a_context_of_ten_million_positions_is_read() -> None:
    assert from_hf_config(LLAMA | {"max_position_embeddings": 10_485_760}).rotary_rows == 10_485_760
    with pytest.raises(InputError, match="max_position_embeddings"):
        from_hf_config(LLAMA | {"max_position_embeddings": 10**9})


RECENT = json.loads((Path(__file__).parent / "recent.json").read_text("utf-8"))


@pytest.mark.published
@pytest.mark.parametrize(("part", "name"), [(part, name) for part in ("defaults", "variants") for name in RECENT[part]])
def test_a_type_has_as_many_parameters_as_its_own_code_builds(part: str, name: str) -> None:
    found = RECENT[part][name]
    read = from_hf_config(found["config"])
    assert parameter_count(read).total == found["parameters"] + found["router_bias"]
    assert read.tower_parameters == found.get("tower", read.tower_parameters)


@pytest.mark.published
@pytest.mark.parametrize("name", RECENT["published"])
def test_a_recent_config_gives_the_stored_count(name: str) -> None:
    found = RECENT["published"][name]
    read = from_hf_config(found["config"])
    assert (mtp_parameters(read), read.tower_parameters) == (found["mtp"], found["tower"])
    beside = (
        found["mtp"] + found["tower"] + found["scales"]
    )  # scales of the stored format, copies of embedding and head
    assert parameter_count(read).total + beside == found["stored"]


@pytest.mark.independent
def test_every_family_is_compared_with_a_real_model_or_with_its_own_code() -> None:
    real = {c["config"]["model_type"] for c in RECENT["published"].values()} | {
        c["model_type"] for c in CONFIGS.values()
    }
    by_hand = {"qwen2_moe", "mamba_ssm", "minimax_text_01", "minimax_m1", "step3p5", "glm4v", "glm4v_moe", "qwen2_vl"}
    by_hand |= {"mimo_v2_flash", "minimax_m3", "kimi_k3"}
    built = {c["config"]["model_type"] for part in ("defaults", "variants") for c in RECENT[part].values()}
    assert set(FAMILIES) == real | built | by_hand


@pytest.mark.published
def test_kimi_k3_by_hand() -> None:
    """A card says 2.8 T parameters and 104 B a token meets: 69 layers of delta attention, 24 of latent attention."""
    h, latent, experts, width, inner = 7168, 3584, 896, 3072, 96 * 128
    linear = {"num_heads": 96, "head_dim": 128, "short_conv_kernel_size": 4, "use_full_rank_gate": True}
    full = [*range(4, 93, 4), 93]
    linear |= {"full_attn_layers": full, "kda_layers": [i for i in range(1, 94) if i not in full]}
    text = sizes(93, h, 96, 163840, num_key_value_heads=96, intermediate_size=33792, q_lora_rank=1536)
    text |= {**MLA, "linear_attn_config": linear, "mla_use_output_gate": True, "attn_res_block_size": 12}
    text |= {
        "num_experts": experts,
        "num_experts_per_token": 16,
        "num_shared_experts": 2,
        "moe_intermediate_size": width,
    }
    text |= {"first_k_dense_replace": 1, "routed_expert_hidden_size": latent, "latent_moe_use_norm": True}
    vision = {"vt_hidden_size": 1024, "vt_intermediate_size": 4096, "vt_num_hidden_layers": 27, "qkv_hidden_size": 1536}
    read = from_hf_config({"model_type": "kimi_k3", "text_config": text, "vision_config": vision})
    delta = h * (4 * inner + 96) + h * 128 + 128 * inner + h * inner + 3 * 4 * inner + 128 + inner + 128
    mla = h * 1536 + 1536 * 96 * 192 + h * 576 + 512 * 96 * 256 + 2 * 96 * 128 * h + 1536 + 512
    mixture = experts * 3 * latent * width + 2 * h * latent + latent + 2 * 3 * h * width + h * experts + experts
    layers = 69 * delta + 24 * mla + 92 * mixture + 3 * h * 33792 + 93 * (2 * h + 4 * h)
    assert parameter_count(read).total == layers + 2 * 163840 * h + h + 2 * h
    assert round(parameter_count(read).total / 1e12, 1) == 2.8
    assert round((flops.active_parameters(read) - 163840 * h) / 1e9) == 104  # without the rows of the embedding
    block = 4 * 1024 * 1536 + 2 * 1024 * 4096 + 2 * 1024
    joined = 4096 * 4096 + 4096 * h + h
    assert read.tower_parameters == 588 * 1024 + 64 * 64 * 1024 + 27 * block + 1024 + joined
    assert memory.kv_cache_of(read, 1, 1000) == 24 * 1000 * 576 * 2


@pytest.mark.independent
def test_minimax_m3_keeps_its_first_layers_dense_and_without_an_indexer() -> None:
    config = {
        "model_type": "minimax_m3",
        **sizes(60, 6144, 64, 200064, num_key_value_heads=4, head_dim=128, intermediate_size=3072),
    }
    first = [0] * 3 + [1] * 57
    config |= {
        "dense_intermediate_size": 12288,
        "moe_layer_freq": first,
        "n_shared_experts": 1,
        "shared_intermediate_size": 3072,
    }
    config |= {"num_local_experts": 128, "num_experts_per_tok": 4, "num_nextn_predict_layers": 1}
    sparse = {
        "sparse_attention_freq": first,
        "sparse_num_index_heads": 4,
        "sparse_index_dim": 128,
        "sparse_block_size": 128,
    }
    read = from_hf_config(
        config | {"sparse_attention_config": sparse | {"sparse_topk_blocks": 16, "sparse_local_block": 1}}
    )
    built = RECENT["defaults"]["minimax_m3_vl_text"]
    assert parameter_count(read).total == built["parameters"] + built["router_bias"]
    # the layers with an indexer are those with experts
    assert [(x.count, [o.picked for o in x.operations if isinstance(o, Attention)]) for x in read.layers] == [
        (3, [0]),
        (57, [17 * 128]),
    ]
    assert (sum(n for n, _ in read.indexers), told(read, "dense"), read.n_mtp_layers) == (57, 3, 1)


@pytest.mark.independent
def test_blocks_that_layers_share_are_counted_once_and_worked_through_in_each() -> None:
    read = from_hf_config(
        RECENT["published"]["Zyphra/Zamba2-1.2B-instruct"]["config"]
    )  # one block for six of 38 layers
    shared = [(x.count, next(o.stored for o in x.operations if isinstance(o, Product) and o.name == "up")) for x in read.layers
              if any(isinstance(o, Attention) for o in x.operations)]  # fmt: skip
    assert (read.n_attention_layers, read.n_mlp_layers, shared) == (6, 6, [(1, True), (5, False)])
    h, wide, ffn, rank = 2048, 4096, 8192, 128
    attention, mlp = 3 * wide * wide + wide * h, 3 * h * ffn
    count, work = parameter_count(read), matrix_count(read)
    assert (count.attention, count.dense_mlp) == (attention, mlp)
    assert (work.attention, work.dense_mlp) == (6 * attention, 6 * mlp)
    assert work.other == 6 * (h * h + 3 * rank * 2 * wide + rank * (h + 2 * ffn))
    assert memory.kv_cache_of(read, 2, 1000) == 2 * 1000 * 6 * 2 * 32 * 128 * 2  # each use has a cache of its own
    assert memory.state_of(read) == 38 * 2 * (64 * 64 * 128 + 3 * (4096 + 2 * 128))
    assert float(inference.work_of(read).kv_elements) * 38 == 6 * 2 * 32 * 128


@pytest.mark.independent
def test_layers_that_borrow_keys_have_none_and_tables_are_looked_up() -> None:
    read = from_hf_config(
        {"model_type": "gemma3n"}
    )  # 35 layers, the last 15 borrow: of the 20 before every fifth sees all
    borrowed = {core.window: n for n, core in read.cores if not core.cached}
    assert (read.n_attention_layers, borrowed) == (35, {0: 3, 512: 12})
    far, near = 4, 16
    assert memory.kv_cache_of(read, 1, 10_000) == (far * 10_000 + near * 512) * 2 * 2 * 256 * 2
    assert parameter_count(read).attention == 35 * 2 * 2048 * 2048 + 20 * 2 * 512 * 2048
    table = 262_144 * 35 * 256
    assert parameter_count(read).embedding == 262_400 * 2048 + table
    rest = flops.matmul_parameters(read) - 262_400 * 2048  # the head, tied to the embedding
    altup = 35 * (16 + 64 + 4 * 2048) + 6 * 2048**2
    gates = 3 * 35 * 256 * 2048 + 35 * 2 * 64 * 2048
    assert rest == parameter_count(read).attention + 35 * 3 * 2048 * 16_384 + gates + altup


@pytest.mark.independent
def test_a_recurrence_of_numbers_keeps_one_each() -> None:
    sized = {"intermediate_size": 15_360, "num_key_value_heads": 1}
    read = from_hf_config({"model_type": "recurrent_gemma", **sized})  # RecurrentGemma-2b
    assert memory.state_of(read, 3) == 3 * 18 * (2560 * 4 + 3 * 2560 * 2)
    assert (told(read, "windowed"), told(read, "window")) == (8, 2048)
    assert memory.kv_cache_of(read, 1, 10**6) == 8 * 2048 * 2 * 256 * 2


@pytest.mark.published
def test_experts_without_weights_are_picked_and_cost_nothing() -> None:
    """LongCat-Flash: of 12 picks among 768 the 512 with weights get 8 on average; its paper says 18.6 to 31.3 B, about 27 B."""
    read = from_hf_config(RECENT["published"]["meituan-longcat/LongCat-Flash-Chat"]["config"])
    ((_, router),) = read.products("router")
    assert (read.top_k, read.n_experts, router.n, read.n_moe_layers) == (8, 512, 512 + 256, 28)
    assert parameter_count(read).router == 28 * (6144 + 1) * 768
    assert round((flops.active_parameters(read) - 131072 * 6144) / 1e9) == 27  # without the rows of the embedding
    # a module for multi-token prediction, dense, and a copy of the embedding are what the hub stores beside it
    mla = 1536 * 6144 + 12288 * 1536 + 576 * 6144 + 16384 * 512 + 6144 * 8192
    module = mla + 3 * 6144 * 12288 + 2 * 6144**2 + (1536 + 512 + 5 * 6144)
    assert RECENT["published"]["meituan-longcat/LongCat-Flash-Chat"]["scales"] == module + 131072 * 6144


@pytest.mark.independent
def test_latent_attention_of_two_sizes_caches_a_window_and_what_an_indexer_reads() -> None:
    """dots3_note: layers 0, 1, 5, ... meet 2,048 picked keys of all, the other 33 the last 512; 64 rotary numbers in both."""
    read = from_hf_config(RECENT["defaults"]["dots3_note_text"]["config"])
    for tokens in (300, 100_000):
        picked, near = 13 * (512 + 64 + 128) * tokens, 33 * (1024 + 64) * min(tokens, 512)
        assert memory.kv_cache_of(read, 1, tokens) == 2 * (picked + near)
    cores = {(c.window, c.picked): (n, c.heads, c.qk_dim) for n, c in read.cores}
    assert cores == {(0, 2048): (13, 128, 128 + 64), (512, 0): (33, 64, 192 + 64)}
    longer = [
        inference.decode_step(inference.deploy(read, "B200", tp=8), context=n, batch=8).time for n in (4_000, 64_000)
    ]
    assert longer[0] < longer[1] < 2 * longer[0]
    given = RECENT["defaults"]["dots3_note_text"]["config"] | {"sliding_window": 256, "index_topk": 1024}
    assert {(c.window, c.picked) for _, c in from_hf_config(given).cores} == {(0, 1024), (256, 0)}


@pytest.mark.parametrize(
    "kind",
    [
        "diffllama",
        "doge",
        "inkling_text",
        "jetmoe",
        "mistral_large4",
        "mllama",
    ]
    + ["qwen4_exp_text", "rwkv", "zaya"],
)
def test_what_can_only_be_counted_says_so(kind: str) -> None:
    read = from_hf_config(RECENT["defaults"][kind]["config"])
    for ask in (
        lambda: memory.kv_cache_of(read, 1, 1000),
        lambda: memory.state_of(read),
        lambda: flops.training_flops_per_token(read, 1000, True),
        lambda: inference.work_of(read),
        lambda: training.work_of(read),
        lambda: serving_steps.layer_products(read),
        lambda: memory.server_memory(read, "B300", tp=8),
    ):
        with pytest.raises(InputError, match="only parameters can be counted, because no operation says its"):
            ask()
    assert "only counted" in "\n".join(read.summary())


@pytest.mark.published
def test_the_first_mamba_2_has_a_config_without_a_type() -> None:
    # state-spaces/mamba2-2.7b: 64 layers of 2,560; 80 states of 64 by 128; a vocabulary filled up to a multiple of 16
    config = {"d_model": 2560, "n_layer": 64, "vocab_size": 50277, "ssm_cfg": {"layer": "Mamba2"}, "rms_norm": True}
    config |= {
        "attn_layer_idx": [],
        "attn_cfg": {},
        "d_intermediate": 0,
        "pad_vocab_size_multiple": 16,
        "tie_embeddings": True,
    }
    read, h, inner = from_hf_config(config), 2560, 5120
    channels = inner + 2 * 128
    layer = h * (inner + channels + 80) + 4 * channels + channels + 3 * 80 + inner + inner * h + h
    assert parameter_count(read).total == 50288 * h + 64 * layer + h == 2_702_599_680
    assert read.attention == "none" and [(n, x.heads, x.rows, x.columns) for n, x, _ in read.recurrences] == [
        (64, 80, 64, 128)
    ]
    with pytest.raises(InputError, match="attn_layer_idx"):
        from_hf_config(config | {"attn_layer_idx": [3]})


@pytest.mark.published
def test_minimax_text_01_by_hand() -> None:
    # 80 layers, every eighth with softmax; the hub and the report say 456 B
    config = {"model_type": "minimax_text_01", **sizes(80, 6144, 64, 200064, num_key_value_heads=8, head_dim=128)}
    config |= {"attn_type_list": [int((i + 1) % 8 == 0) for i in range(80)], "intermediate_size": 9216}
    config |= {"num_local_experts": 32, "num_experts_per_tok": 2, "tie_word_embeddings": False}
    h, inner = 6144, 64 * 128
    softmax = h * 128 * (2 * 64 + 2 * 8)
    lightning = h * 3 * inner + h * inner + inner * h + inner
    experts = 32 * 3 * h * 9216 + 32 * h
    by_hand = 2 * 200064 * h + 10 * softmax + 70 * lightning + 80 * (experts + 2 * h) + h
    assert parameter_count(from_hf_config(config)).total == by_hand == 456_089_655_296


@pytest.mark.independent
def test_layers_with_a_window_may_have_heads_of_their_own() -> None:
    # MiMo-V2-Flash's way: more key-value heads near than far, values narrower than keys
    config = {"model_type": "mimo_v2_flash", **sizes(3, 64, 4, 100, num_key_value_heads=1, head_dim=24, v_head_dim=16)}
    config |= {"swa_num_attention_heads": 4, "swa_num_key_value_heads": 2, "swa_head_dim": 24, "swa_v_head_dim": 16}
    config |= {"hybrid_layer_pattern": [0, 1, 1], "moe_layer_freq": [0, 1, 1], "sliding_window": 128}
    config |= {"intermediate_size": 128, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    far, near = (64 * (4 * 24 + kv * 24 + kv * 16 + 4 * 16) for kv in (1, 2))
    experts = 2 * (8 * 3 * 64 * 32 + 8 * 64 + 8)
    read = from_hf_config(config)
    assert parameter_count(read).total == 2 * 100 * 64 + far + 2 * near + 3 * 64 * 128 + experts + 7 * 64
    assert memory.kv_cache_of(read, 1, 1000) == 2 * (1000 * 40 + 2 * 128 * 2 * 40)


GLM_AIR: Config = {
    "model_type": "glm4_moe",
    **sizes(46, 4096, 96, 151552, num_key_value_heads=8, head_dim=128, intermediate_size=10944),
    "moe_intermediate_size": 1408,
    "n_routed_experts": 128,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 1,
    "attention_bias": True,
    "use_qk_norm": False,
    "num_nextn_predict_layers": 1,
    "partial_rotary_factor": 0.5,
    "tie_word_embeddings": False,
}


@pytest.mark.published
def test_glm4_moe_by_hand() -> None:
    # GLM-4.5-Air: the hub counts 110,468,824,832 stored numbers; its module for multi-token prediction is one more layer of
    # experts, a projection of two widths to one, three norms, and copies of the embedding and of the head.
    read = from_hf_config(GLM_AIR)
    h, vocab, bias = 4096, 151552, (96 + 2 * 8) * 128
    layer = h * bias + bias + 96 * 128 * h + 129 * 3 * h * 1408 + 128 * (h + 1) + 2 * h
    module = layer + 2 * h * h + 3 * h + 2 * vocab * h
    assert parameter_count(read).total + module == 110_468_824_832
    assert read.rotary_dim == 0 or read.rotary_dim == 64
    with pytest.raises(InputError, match="first_k_dense_replace"):
        from_hf_config(GLM_AIR | {"first_k_dense_replace": 47})


@pytest.mark.published
def test_olmo3_by_hand() -> None:
    # OLMo-3-7B is OLMo-2-7B with 74 rows less in both tables, and three of four layers look back 4,096 tokens.
    config = {"model_type": "olmo3", **sizes(32, 4096, 32, 100278, intermediate_size=11008)}
    read = from_hf_config(config)
    published = catalog.model("OLMo-2-7B").published["parameters"].value
    assert parameter_count(read).total == published - 2 * 4096 * (100352 - 100278)
    assert (told(read, "window"), told(read, "windowed")) == (4096, 24)
    assert told(from_hf_config(config | {"sliding_window": None}), "windowed") == 0


@pytest.mark.parametrize(
    ("config", "part"),
    [
        ({**LLAMA, "layer_types": ["linear_attention"]}, "layers of linear attention"),
        ({"model_type": "of tomorrow", "mamba_d_state": 128}, "layers of a state space"),
        (
            {"model_type": "of tomorrow", "text_config": {"layer_types": ["linear_attention"]}},
            "layers of linear attention",
        ),
        ({**LLAMA, "index_topk": 2048}, "the indexer of sparse attention"),
    ],
)
def test_a_part_that_a_reader_does_not_ask_for_is_named(config: Config, part: str) -> None:
    with pytest.raises(InputError, match=f"has what its reader does not ask for yet, {part}.*catalog.load_models"):
        from_hf_config(config)
    with pytest.raises(InputError, match=r"unknown model_type 'of tomorrow'.*catalog.load_models"):
        from_hf_config({"model_type": "of tomorrow"})


@pytest.mark.published
def test_qwen2_moe_by_hand() -> None:
    # Qwen1.5-MoE-A2.7B as its config.json has it: 60 experts of 1408, a shared one of 5632 behind a gate.
    c = {
        "model_type": "qwen2_moe",
        **sizes(24, 2048, 16, 151936, num_key_value_heads=16, intermediate_size=5632),
        "moe_intermediate_size": 1408,
        "shared_expert_intermediate_size": 5632,
        "num_experts": 60,
        "num_experts_per_tok": 4,
        "decoder_sparse_step": 1,
    }
    h = 2048
    attention = 4 * h * h + 3 * h
    mixture = 60 * 3 * h * 1408 + 3 * h * 5632 + 60 * h + h  # experts, shared expert, router, gate
    total = 24 * (attention + mixture + 2 * h) + 2 * 151936 * h + h
    assert parameter_count(from_hf_config(c)).total == total
    assert round(total / 1e9, 1) == 14.3  # "It has 14.3B parameters in total", says the model card
    windowed = from_hf_config(c | {"use_sliding_window": True, "max_window_layers": 21})
    assert told(windowed, "windowed") == 11  # layers 0, 2, ..., 20


@pytest.mark.independent
@pytest.mark.parametrize(
    ("config", "field", "expected"),
    [
        ({**LLAMA, "num_key_value_heads": None}, "kv_heads", 32),
        ({k: v for k, v in LLAMA.items() if k != "num_key_value_heads"}, "kv_heads", 32),
        ({k: v for k, v in CONFIGS["Mistral-7B"].items() if k != "num_key_value_heads"}, "kv_heads", 8),
        ({k: v for k, v in CONFIGS["Mistral-7B"].items() if k != "sliding_window"}, "window", 4096),
        ({k: v for k, v in CONFIGS["Gemma-7b"].items() if k != "head_dim"}, "head_dim", 256),
        ({**CONFIGS["GPT-2-124M"], "n_inner": 1000}, "ffn", 1000),
        ({**CONFIGS["GPT-2-124M"], "tie_word_embeddings": False}, "tied_embeddings", False),
        ({**CONFIGS["Falcon-7B"], "multi_query": False}, "kv_heads", 71),
        ({**CONFIGS["Falcon-7B"], "parallel_attn": False}, "norms", 2),
        ({**CONFIGS["Falcon-40B"], "num_ln_in_parallel_attn": 1}, "norms", 1),
        ({**CONFIGS["OPT-6.7B"], "_remove_final_layer_norm": True}, "final norm", False),
        ({**CONFIGS["OPT-6.7B"], "enable_bias": False}, "qkv bias", False),
        ({**CONFIGS["MPT-7B"], "no_bias": False}, "norm bias", True),
        ({**CONFIGS["MPT-7B"], "attn_config": {"alibi": False}}, "learned_positions", 2048),
        ({**CONFIGS["MPT-7B"], "attn_config": {"attn_type": "multiquery_attention"}}, "kv_heads", 1),
        (
            {**CONFIGS["MPT-7B"], "attn_config": {"attn_type": "grouped_query_attention", "kv_n_heads": 8}},
            "kv_heads",
            8,
        ),
        ({**CONFIGS["Qwen2.5-7B"], "use_sliding_window": True, "max_window_layers": 20}, "windowed", 8),
        ({**CONFIGS["Qwen3-8B"], "use_sliding_window": True, "max_window_layers": 99}, "windowed", 0),
        (
            {**CONFIGS["Qwen3-30B-A3B"], "use_sliding_window": True, "sliding_window": 512},
            "windowed",
            48,
        ),
        ({**CONFIGS["Qwen3-30B-A3B"], "num_experts": None, "num_local_experts": 64}, "n_experts", 64),
        ({**CONFIGS["Qwen3-30B-A3B"], "mlp_only_layers": [0, 1]}, "dense", 2),
        ({**CONFIGS["Qwen3-30B-A3B"], "decoder_sparse_step": 2}, "n_moe_layers", 24),
        ({**CONFIGS["DeepSeek-V3"], "n_routed_experts": None}, "n_experts", 0),
        ({**CONFIGS["DeepSeek-V3"], "n_shared_experts": None}, "shared", 0),
        ({k: v for k, v in CONFIGS["Llama-4-Maverick"].items() if k != "head_dim"}, "head_dim", 128),
        (
            {**CONFIGS["Gemma-2-27b"], "layer_types": ["full_attention"] * 40 + ["sliding_attention"] * 6},
            "windowed",
            6,
        ),
        ({**LLAMA, "attention_bias": True}, "output bias", True),
        ({**LLAMA, "_name_or_path": "org/My-Model-1B\n"}, "name", "My-Model-1B"),
        ({**LLAMA, "_name_or_path": "../../etc/passwd"}, "name", "passwd"),
        ({**LLAMA, "_name_or_path": 7}, "name", "llama model of config"),
    ],
)
def test_defaults_and_variants_as_the_families_have_them(config: Config, field: str, expected: Any) -> None:
    assert told(from_hf_config(config), field) == expected


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ([], "holds a list, not an object"),
        ({}, "no model_type; give the config.json as it was published"),
        ({"model_type": 3}, "model_type = 3 must be text"),
        ({"model_type": "lama"}, "unknown model_type 'lama'; did you mean 'llama'"),
        ({"model_type": "llama"}, "no num_hidden_layers; add it"),
        ({**LLAMA, "vocab_size": None}, "no vocab_size; add it"),
        ({**LLAMA, "hidden_size": "4096"}, "hidden_size = '4096' must be a whole number"),
        ({**LLAMA, "hidden_size": 4096.0}, "hidden_size = 4096.0 must be a whole number"),
        ({**LLAMA, "hidden_size": True}, "hidden_size = true must be a whole number"),
        ({**LLAMA, "hidden_size": {"a": 1}}, "hidden_size = an object must be a whole number"),
        ({**LLAMA, "hidden_size": -1}, "must lie in [1, 10,000,000]"),
        ({**LLAMA, "hidden_size": 10**30}, "hidden_size = a huge number must lie in"),
        ({**LLAMA, "num_attention_heads": 0}, "num_attention_heads = 0 must lie in"),
        (
            {**LLAMA, "num_attention_heads": 33, "num_key_value_heads": 3},
            "does not divide hidden = 4096 and there is no",
        ),
        ({**LLAMA, "num_key_value_heads": 5}, "num_key_value_heads = 5 must divide the number of heads, 32"),
        ({**LLAMA, "tie_word_embeddings": 1}, "tie_word_embeddings = 1 must be true or false"),
        ({**LLAMA, "num_local_experts": 8}, "num_local_experts = 8 contradicts model_type 'llama'"),
        ({**CONFIGS["Mixtral-8x7B"], "num_experts_per_tok": 9}, "must not exceed the number of experts, 8"),
        ({**CONFIGS["Mixtral-8x7B"], "num_local_experts": None}, "no num_local_experts"),
        ({**CONFIGS["Qwen3-30B-A3B"], "moe_intermediate_size": None}, "no moe_intermediate_size"),
        ({**CONFIGS["Qwen3-30B-A3B"], "mlp_only_layers": [48]}, "mlp_only_layers = a list must list layers below 48"),
        ({**CONFIGS["Qwen3-30B-A3B"], "mlp_only_layers": 3}, "mlp_only_layers = 3 must list layers below 48"),
        ({**CONFIGS["DeepSeek-V3"], "first_k_dense_replace": 62}, "must not exceed num_hidden_layers = 61"),
        ({**CONFIGS["DeepSeek-V3"], "moe_layer_freq": 2}, "moe_layer_freq = 2 is not supported"),
        ({**CONFIGS["DeepSeek-V3"], "attention_bias": True}, "attention_bias = true is not supported"),
        ({**CONFIGS["DeepSeek-V3"], "kv_lora_rank": None}, "no kv_lora_rank"),
        (
            {k: v for k, v in CONFIGS["DeepSeek-V3"].items() if k != "n_routed_experts"},
            "no n_routed_experts; add it",
        ),
        (
            {k: v for k, v in CONFIGS["DeepSeek-V3"].items() if k != "first_k_dense_replace"},
            "no first_k_dense_replace; add it",
        ),
        (
            {k: v for k, v in CONFIGS["DeepSeek-V3"].items() if k != "n_shared_experts"},
            "no n_shared_experts; add it",
        ),
        ({**CONFIGS["GPT-2-124M"], "hidden_size": 512}, "hidden_size = 512 contradicts n_embd = 768; keep one"),
        ({**CONFIGS["GPT-2-124M"], "add_cross_attention": True}, "add_cross_attention = true is not supported"),
        ({**CONFIGS["OPT-6.7B"], "layer_norm_elementwise_affine": False}, "is not supported (norms without weights)"),
        ({**CONFIGS["Gemma-2-27b"], "layer_types": ["sliding_attention"]}, "must be a list of 46 names"),
        ({**CONFIGS["MPT-7B"], "attn_config": {"qk_ln": True}}, "attn_config: qk_ln = true is not supported"),
        ({**CONFIGS["MPT-7B"], "attn_config": []}, "attn_config: holds a list, not an object"),
        ({**CONFIGS["MPT-7B"], "norm_type": "batchnorm"}, "norm_type = 'batchnorm' must be one of"),
        ({**CONFIGS["MPT-7B"], "expansion_ratio": 10**6}, "width = 4096000000 must lie in"),
        ({"model_type": "llama4"}, "no text_config"),
        ({**CONFIGS["Llama-4-Maverick"], "moe_layers": [0, 1]}, "moe_layers = a list is not what"),
        ({**CONFIGS["Falcon-40B"], "num_ln_in_parallel_attn": 3}, "must be 1 or 2"),
    ],
)
def test_what_contradicts_itself_or_is_not_known_is_refused(config: Any, says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        from_hf_config(config)


def read(folder: Path, data: bytes | str) -> catalog.Model:
    file = folder / "config.json"
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    return from_hf_config(file)


def test_a_file_is_read_and_named(tmp_path: Path) -> None:
    m = read(tmp_path, json.dumps(LLAMA))
    assert m.name == "llama model of config.json"
    assert m.source == "config.json"
    assert from_hf_config(str(tmp_path / "config.json")) == m


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        (b"\xff\xfe{}", "not UTF-8 at byte 0"),
        ('{"model_type": "gpt2", "n_layer": NaN}', "n_layer = nan must be a whole number"),
        ('{"model_type": "gpt2", "n_layer": -Infinity}', "n_layer = -inf must be a whole number"),
        ('{"a": 1e999}', "1e999 is not finite"),
        ('{"a": ' + "9" * 5000 + "}", "a whole number of 5000 digits"),
        ('{"model_type": "llama", "model_type": "gpt2"}', "key 'model_type' stands twice"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 50_000 + "1" + "}" * 50_000, "nested too deeply"),
        (b" " * (MAX_CONFIG_BYTES + 1), "larger than 1,000,000 bytes"),
        ("'__import__(\"os\")'", "not valid JSON"),
        ("3", "holds 3, not an object"),
    ],
)
def test_a_hostile_file_is_refused_with_its_name(tmp_path: Path, data: bytes | str, says: str) -> None:
    start = time.process_time()
    with pytest.raises(InputError, match=re.escape("config.json") + "[:,] " + ".*" + re.escape(says)):
        read(tmp_path, data)
    assert time.process_time() - start < 2.0


@pytest.mark.parametrize("path", ["nowhere.json", ".", "/dev/zero", "a\0b", "x" * 5000])
def test_a_path_that_is_no_file_is_refused(path: str) -> None:
    with pytest.raises(InputError, match=r"not a file|cannot be read"):
        from_hf_config(path)


def test_nothing_in_a_config_is_followed_or_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("top")
    monkeypatch.setattr("builtins.eval", None)
    config = LLAMA | {
        "auto_map": {"AutoConfig": f"{secret}--evil.py"},
        "_name_or_path": str(secret),
        "tokenizer_file": "../../secret",
        "trust_remote_code": True,
    }
    opened: list[Path] = []
    for owner in (Path, os):  # both ways to open a file
        real = owner.open
        monkeypatch.setattr(
            owner, "open", lambda path, *a, real=real, **k: (opened.append(path), real(path, *a, **k))[1]
        )
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    opened.clear()
    assert from_hf_config(file).n_layers == 32
    assert opened == [file]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 200)
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(FAMILIES),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
KEYS = sorted({key for c in CONFIGS.values() for key in c} | {"kv_n_heads", "layer_types", "moe_layers", "n_inner"})


@pytest.mark.slow
@settings(max_examples=150, deadline=10_000, suppress_health_check=[HealthCheck.too_slow])
@given(JSON)
def test_any_json_value_gives_a_model_or_an_input_error(value: Any) -> None:
    message = ""
    try:
        from_hf_config(value)
    except InputError as error:
        message = str(error)
    assert len(message) < 600


@pytest.mark.slow
@settings(max_examples=400, deadline=10_000, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(CONFIGS)), st.dictionaries(st.sampled_from(KEYS), JSON, max_size=3), st.data())
def test_a_damaged_config_gives_a_model_or_an_input_error(name: str, damage: Config, data: st.DataObject) -> None:
    config = CONFIGS[name] | damage
    for key in data.draw(st.lists(st.sampled_from(sorted(config)), max_size=2)):
        config.pop(key, None)
    message = ""
    try:
        assert parameter_count(from_hf_config(config)).total > 0
    except InputError as error:
        message = str(error)
    assert len(message) < 600


def test_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^config\.json: num_key_value_heads = 5 must divide"):
        read(tmp_path, json.dumps(LLAMA | {"num_key_value_heads": 5}))
    assert "qwen3_moe" in hf.FAMILIES


@pytest.mark.independent
def test_window_and_mixture_of_a_layer_are_those_that_the_config_gives_it() -> None:
    # layers 0 and 2 look back, layer 3 has a dense MLP: three kinds of layers, whatever the counts of each part are
    kinds = ["sliding_attention", "full_attention"] * 2
    sized = sizes(4, 64, 4, 100, num_key_value_heads=2, head_dim=16, intermediate_size=128, moe_intermediate_size=32)
    config = {"model_type": "qwen3_moe", **sized, "num_experts": 8, "num_experts_per_tok": 2, "mlp_only_layers": [3]}
    read = from_hf_config(config | {"use_sliding_window": True, "sliding_window": 8, "layer_types": kinds})
    found = {}
    for layer in read.layers:
        (core,) = (o for o in layer.operations if isinstance(o, Attention))
        found[core.window, any(isinstance(o, Product) and o.part == "experts" for o in layer.operations)] = layer.count
    assert found == {(8, True): 2, (0, True): 1, (0, False): 1}
    h, attention = 64, 64 * (2 * 64 + 2 * 32) + 2 * 16
    mixture, dense = 8 * 3 * h * 32 + 8 * h, 3 * h * 128
    assert parameter_count(read).total == 2 * 100 * h + 4 * (attention + 2 * h) + 3 * mixture + dense + h


@pytest.mark.independent
def test_heads_and_widths_may_differ_from_layer_to_layer() -> None:
    laguna = RECENT["defaults"]["laguna"]["config"]
    layers, heads = laguna["num_hidden_layers"], laguna["num_attention_heads"]
    listed = [2 * heads if i % 3 == 0 else heads for i in range(layers)]
    read = from_hf_config(laguna | {"num_attention_heads_per_layer": listed})
    assert sum(n * core.heads for n, core in read.cores) == sum(listed)
    nas = RECENT["published"]["nvidia/Llama-3_3-Nemotron-Super-49B-v1"]
    widths = [n for n, o in from_hf_config(nas["config"]).products("dense_mlp", "down")]
    assert len(widths) > 3 and sum(widths) == sum(not b["ffn"].get("no_op") for b in nas["config"]["block_configs"])


def test_a_model_deeper_than_any_is_refused_at_once() -> None:
    start = time.process_time()
    with pytest.raises(InputError, match=r"num_hidden_layers = 10001 must lie in \[1, 10,000\]"):
        from_hf_config(LLAMA | {"num_hidden_layers": 10_001})
    assert from_hf_config(LLAMA | {"num_hidden_layers": 10_000}).n_layers == 10_000
    assert time.process_time() - start < 2.0
