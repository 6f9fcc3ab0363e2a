"""Models with a tower for images or sound beside a text model of any family, whose parameters are counted apart."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mlsysim.catalog.hf import families, own_parts, recurrent, sound_towers, sparse_attention
from mlsysim.catalog.hf.config import Config
from mlsysim.catalog.hf.decoder import Plan, Reader, plan
from mlsysim.catalog.hf.sound_towers import affine
from mlsysim.errors import unknown_name

TEXT: Mapping[str, Reader] = {**families.READERS, **recurrent.READERS, **sparse_attention.READERS, **own_parts.READERS}
Tower = Callable[[Config, Config, Plan], int]  # of the file, of its part for images, of the text

# Where the text model stands


def nested(read: "str | Reader") -> Reader:
    """A text model of one family, in ``text_config`` or, in older files, beside the rest; the outer key for tying counts."""

    def reader(c: Config) -> Plan:
        text = c.part("text_config")
        p = (TEXT[read] if isinstance(read, str) else read)(text)
        return _tied(c, p) if text is not c else p

    return reader


def _tied(c: Config, p: Plan) -> Plan:
    if c.has("tie_word_embeddings"):
        p.head["tied"] = c.flag("tie_word_embeddings", False)
    return p


# What the classes of transformers take for a key that the file of such a model leaves out of its text part.
_SIZES = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("vocab_size", "num_key_value_heads"),
)
_ABSENT: Mapping[str, Mapping[str, int]] = {
    kind: dict(zip(_SIZES, sizes, strict=False))
    for kind, sizes in {
        "llama": (4096, 11_008, 32, 32, 32_000),
        "mistral": (4096, 14_336, 32, 32, 32_000, 8),
        "qwen2": (4096, 22_016, 32, 32, 151_936, 32),
        "gemma": (3072, 24_576, 28, 16, 256_000, 16),
        "gemma2": (2304, 9216, 26, 8, 256_000, 4),
    }.items()
}


def any_text(usual: str, outer: bool = False, **absent: int) -> Reader:
    """The text model, of whatever family its part says; ``outer``: the outer key for tying counts even beside its own."""

    def reader(c: Config) -> Plan:
        text = c.part("text_config", "llm_config")
        kind = text.text("model_type", usual) if text is not c else usual
        if kind not in TEXT:
            text.fail("model_type", f"is not known here: {unknown_name('model_type', kind, TEXT)}")
        p = TEXT[kind](text.given(**{**_ABSENT.get(kind, {}), **absent}))
        return _tied(c, p) if outer or not text.has("tie_word_embeddings") else p

    return reader


def towered(text: Reader, tower: Tower, needed: str = "") -> Reader:
    """A text model and what stands beside it; ``needed``: the part without which there is no tower."""

    def reader(c: Config) -> Plan:
        p = text(c)
        p.tower = tower(c, c.inner("vision_config"), p) if not needed or c.has(needed) else 0
        return p

    return reader


# Towers of plain layers, by their own type


def plain_tower(hidden: int, ffn: int, layers: int, patch: int, positions: int) -> int:
    """Parameters of a tower of plain layers with biases and layer norms: SigLIP and what was made from it."""
    layer = 4 * (hidden * hidden + hidden) + 2 * hidden * ffn + ffn + hidden + 4 * hidden
    return patch * hidden + hidden + positions * hidden + layers * layer


def pooling_head(hidden: int, ffn: int) -> int:
    """Parameters of a head that pools with one query, and of the MLP behind it."""
    return hidden + 4 * (hidden * hidden + hidden) + 2 * hidden + 2 * hidden * ffn + ffn + hidden


def rms_tower(hidden: int, ffn: int, layers: int, patch: int) -> int:
    """Parameters of a tower without biases: gated MLPs, RMS norms, and one in front of the layers (Pixtral)."""
    return patch * hidden + hidden + layers * (4 * hidden * hidden + 3 * hidden * ffn + 2 * hidden)


def _side(value: Any) -> Any:
    """Sizes of an image or a patch, which some configs give twice."""
    return value[0] if isinstance(value, list) and len(value) == 2 and value[0] == value[1] else value


def _sizes(v: Config, h: int, f: int, layers: int, patch: int, image: int) -> list[int]:
    squared = Config({k: _side(value) for k, value in v.raw.items()}, v.file)
    return squared.sizes(
        hidden_size=h, intermediate_size=f, num_hidden_layers=layers, patch_size=patch, image_size=image
    )


def _clip(v: Config) -> tuple[int, int]:
    h, f, layers, patch, image = _sizes(v, 1024, 4096, 24, 14, 336)  # of LLaVA; a class token, and a norm at both ends
    return plain_tower(h, f, layers, 3 * patch**2, (image // patch) ** 2 + 1) + 4 * h, h


def _siglip(v: Config) -> tuple[int, int]:
    h, f, layers, patch, image = _sizes(v, 768, 3072, 12, 16, 224)
    places, head = v.size("num_patches", default=(image // patch) ** 2), v.flag("vision_use_head", True)
    return plain_tower(h, f, layers, 3 * patch**2, places) + 2 * h + head * pooling_head(h, f), h


def _idefics3_tower(v: Config) -> tuple[int, int]:
    h, f, layers, patch, image = _sizes(v, 1152, 3072, 12, 32, 224)
    return plain_tower(h, f, layers, 3 * patch**2, (image // patch) ** 2) + 2 * h, h


def _internvl_tower(v: Config) -> tuple[int, int]:
    h, f, layers, patch, image = _sizes(v, 1024, 4096, 24, 14, 448)
    norm = 2 * h if v.text("norm_type", "layer_norm") == "layer_norm" else h
    layer = 4 * h * h + h + 3 * h * v.flag("attention_bias", False) + 2 * h * v.flag("use_qk_norm", False)
    layer += 2 * h * f + f + h + 2 * norm + 2 * h
    last = 0 if v.flag("use_mean_pooling", True) else 2 * h
    return h + ((image // patch) ** 2 + 1) * h + 3 * patch**2 * h + h + layers * layer + last, h


def _pixtral(v: Config) -> tuple[int, int]:
    h, f, layers, patch, _ = _sizes(v, 1024, 4096, 24, 16, 1024)
    return rms_tower(h, f, layers, 3 * patch**2), h


_TOWERS: Mapping[str, Callable[[Config], tuple[int, int]]] = {
    "clip_vision_model": _clip,
    "idefics3": _idefics3_tower,
    "idefics3_vision": _idefics3_tower,
    "internvl_vision": _internvl_tower,
    "pixtral": _pixtral,
    "siglip2_vision_model": _siglip,
    "siglip_vision_model": _siglip,
    "smolvlm": _idefics3_tower,
    "smolvlm_vision": _idefics3_tower,
}


def any_tower(v: Config, usual: str) -> tuple[int, int]:
    """Parameters and width of a tower of whatever type its part says."""
    kind = v.text("model_type", usual)
    if kind not in _TOWERS:
        v.fail("model_type", f"is not known here: {unknown_name('model_type', kind, _TOWERS)}")
    return _TOWERS[kind](v)


# What stands before the text: one tower of any type and a projection


def _llava(newline: bool, usual: str) -> Tower:
    def tower(c: Config, v: Config, p: Plan) -> int:
        (size, h), layers = any_tower(v, usual), c.raw.get("vision_feature_layer", -2)
        taken = h * (len(layers) if isinstance(layers, list) else 1)
        bias = c.flag("multimodal_projector_bias", True)
        return size + affine(taken, p.hidden, bias) + affine(p.hidden, p.hidden, bias) + newline * p.hidden

    return tower


def behind(usual: str, projected: Callable[[Config, int, int], int], **absent: Any) -> Tower:
    """A tower of any type, and what is projected from its width to that of the text."""

    def tower(c: Config, v: Config, p: Plan) -> int:
        size, h = any_tower(v.given(**absent), usual)
        return size + projected(c, h, p.hidden)

    return tower


def _idefics2(c: Config, v: Config, p: Plan) -> int:
    """A tower as in Idefics 3, a gated projection, and layers in which few latent vectors ask the image."""
    v = v.given(hidden_size=768, intermediate_size=3072, image_size=224)
    (size, h), wide, ffn = _idefics3_tower(v), p.hidden, int(p.mlp.get("width", 0))
    asks = c.inner("perceiver_config")
    heads, kv, each = asks.sizes(resampler_n_heads=16, num_key_value_heads=4, resampler_head_dim=96)
    latents, depth = asks.sizes(resampler_n_latents=64, resampler_depth=3)
    layer = 2 * wide * each * (heads + kv) + 3 * wide * 4 * wide + 3 * wide
    return size + 2 * h * ffn + ffn * wide + latents * wide + depth * layer + wide


def _shuffled(c: Config, key: str) -> int:
    """How many features a shuffle of pixels brings together."""
    value = c.raw.get(key, 0.5)
    if type(value) is not float or not 0 < value <= 1:
        c.fail(key, "must lie in (0, 1]")
    return round(1 / value**2)


def _internvl(c: Config, h: int, text: int) -> int:
    """A projection of four patches at once."""
    taken = h * _shuffled(c, "downsample_ratio")
    return 2 * taken + affine(taken, text) + affine(text, text)


def _internvl_chat(c: Config, v: Config, p: Plan) -> int:
    """InternVL as its own code has it: InternViT, and a projection of four patches at once."""
    h, f, layers, patch = v.sizes(hidden_size=3200, intermediate_size=12_800, num_hidden_layers=48, patch_size=14)
    places = (v.size("image_size", default=224) // patch) ** 2 + 1
    norm = h if v.text("norm_type", "rms_norm") == "rms_norm" else 2 * h
    layer = 3 * h * h + 3 * h * v.flag("qkv_bias", False) + affine(h, h) + 2 * h * v.flag("qk_normalization", True)
    layer += affine(h, f) + affine(f, h) + 2 * norm + 2 * h
    return h + places * h + 3 * patch**2 * h + h + layers * layer + _internvl(c, h, p.hidden)


def _lfm2_vl(c: Config, h: int, text: int) -> int:
    factor, wide = c.sizes(downsample_factor=2, projector_hidden_size=2560)
    taken, bias, norm = h * factor**2, c.flag("projector_bias", True), c.flag("projector_use_layernorm", True)
    return 2 * norm * taken + affine(taken, wide, bias) + affine(wide, text, bias)


def _cohere2(c: Config, h: int, text: int) -> int:
    factor, wide = c.sizes(downsample_factor=2, alignment_intermediate_size=36_864)
    return affine(h * factor**2, wide) + affine(wide // 2, text)


def _aya(c: Config, h: int, text: int) -> int:
    factor, wide = c.sizes(downsample_factor=2, alignment_intermediate_size=text)
    taken = h * factor**2
    return 2 * taken + affine(taken, wide) + affine(wide // 2, text)


def _aya_text(c: Config) -> Plan:
    p = any_text("cohere2")(c)
    if not c.has("tie_word_embeddings") and not c.inner("text_config").has("tie_word_embeddings"):
        p.head["tied"] = True
    return p


def _aria(c: Config, h: int, text: int) -> int:
    """Queries that ask the tower through a layer of attention."""
    asked = c.size("max_value_projector_patch_to_query_dict", default=256) * h
    attention = 3 * h * h + 4 * (h * h + h) + affine(h, h) + 2 * 2 * h
    return asked + attention + 2 * h + h * text + text * text


# Towers of one family each


def _gemma3(c: Config, v: Config, p: Plan) -> int:
    h, f, layers, patch, image = _sizes(v, 1152, 4304, 27, 14, 896)
    head = pooling_head(h, f) if v.flag("vision_use_head", False) else 0
    return plain_tower(h, f, layers, 3 * patch**2, (image // patch) ** 2) + 2 * h + head + h + h * p.hidden


def _gemma4(c: Config, v: Config, p: Plan) -> int:
    h, f, layers, patch = v.sizes(hidden_size=1152, intermediate_size=4304, num_hidden_layers=27, patch_size=16)
    heads, places = v.sizes(num_attention_heads=16, position_embedding_size=10_240)
    layer = 4 * h * h + 3 * h * f + 4 * h + 2 * (h // heads)
    return 3 * patch**2 * h + 2 * places * h + layers * layer + h * p.hidden


def _gemma4_unified(c: Config, v: Config, p: Plan) -> int:
    """No tower: patches and sound enter through one matrix."""
    size = 0
    if c.has("vision_config"):
        wide, patch, pooled, places = v.sizes(mm_embed_dim=3840, patch_size=16, pooling_kernel_size=3, mm_posemb_size=1120)  # fmt: skip
        patch = 3 * (patch * pooled) ** 2
        size = 2 * places * wide + 2 * patch + affine(patch, wide) + 4 * wide
        size += v.size("output_proj_dims", default=wide) * p.hidden
    if c.has("audio_config"):
        size += c.inner("audio_config").size("audio_embed_dim", default=640) * p.hidden
    return size


_VISION_3N = 294_126_912  # MobileNetV5-300M: what the hub stores of Gemma 3n E4B less everything else that is counted


def _gemma3n(c: Config, v: Config, p: Plan) -> int:
    a = c.inner("audio_config")
    v.must_be("architecture", "mobilenetv5_300m_enc", "another tower")
    (size, wide), (words,) = sound_towers.conformer(c), a.sizes(vocab_size=128)
    seen, rows = v.sizes(hidden_size=2048, vocab_size=128)

    def joined(width: int, rows: int) -> int:  # a table of its own, two norms, and a projection to the text
        return rows * width + 2 * width + width * p.hidden

    return size + joined(wide, words) + _VISION_3N + joined(seen, rows)


def _mistral3(c: Config, v: Config, p: Plan) -> int:
    h, f, layers, patch, _ = _sizes(v, 1024, 4096, 24, 14, 1)
    merge = c.size("spatial_merge_size", default=2) ** 2
    return rms_tower(h, f, layers, 3 * patch**2) + h + merge * h * h + h * p.hidden + p.hidden**2


def _mistral_large4(c: Config, v: Config, p: Plan) -> int:
    h, f, layers, patch, _ = _sizes(v, 2048, 6144, 30, 14, 1)
    merge, bias = c.size("spatial_merge_size", default=2) ** 2, c.flag("multimodal_projector_bias", False)
    seen = rms_tower(h, f, layers, 3 * patch**2) + h + merge * h * h
    return seen + affine(h, p.hidden, bias) + affine(p.hidden, p.hidden, bias)


def _qwen2_vl(c: Config, v: Config, p: Plan) -> int:
    h, times, layers, patch, side = v.sizes(embed_dim=1280, mlp_ratio=4, depth=32, patch_size=14, spatial_merge_size=2)
    wide, out = h * side**2, v.size("hidden_size", default=p.hidden)  # not the width of the tower
    seen = plain_tower(h, h * times, layers, 3 * 2 * patch**2, 0) - h  # no bias of patches
    return seen + 2 * h + affine(wide, wide) + affine(wide, out)


def _qwen2_5_vl(c: Config, v: Config, p: Plan) -> int:
    h, f, layers, patch = v.sizes(hidden_size=1280, intermediate_size=3420, depth=32, patch_size=14)
    wide, out = h * v.size("spatial_merge_size", default=2) ** 2, v.size("out_hidden_size", default=p.hidden)
    layer = 4 * (h * h + h) + 3 * h * f + 2 * f + h + 2 * h
    return 3 * 2 * patch**2 * h + layers * layer + h + affine(wide, wide) + affine(wide, out)


def _exaone4_5(c: Config, v: Config, p: Plan) -> int:
    """The tower of Qwen 2.5 VL with fewer heads of keys and values."""
    h, f, layers, patch = v.sizes(hidden_size=3584, intermediate_size=3420, depth=32, patch_size=14)
    side, heads, kv, frames = v.sizes(spatial_merge_size=2, num_heads=16, num_key_value_heads=8, temporal_patch_size=2)
    wide, out = h * side**2, v.size("out_hidden_size", default=3584)
    layer = affine(h, h) + affine(h, h + 2 * kv * (h // heads)) + 3 * h * f + 2 * f + h + 2 * h
    return 3 * frames * patch**2 * h + layers * layer + h + affine(wide, wide) + affine(wide, out)


def _qwen3_vl(c: Config, v: Config, p: Plan) -> int:
    """Beside dense layers, experts or recurrences, the same tower, whose features may enter at several depths."""
    h, f, layers, patch = v.sizes(hidden_size=1152, intermediate_size=4304, depth=27, patch_size=16)
    side, places = v.sizes(spatial_merge_size=2, num_position_embeddings=2304)
    taken = v.raw.get("deepstack_visual_indexes") or []
    if not isinstance(taken, list):
        v.fail("deepstack_visual_indexes", "must be a list of layers")
    wide, out = h * side**2, v.size("out_hidden_size", default=p.hidden)
    merger = affine(wide, wide) + affine(wide, out)
    mergers = 2 * h + merger + len(taken) * (2 * wide + merger)
    return plain_tower(h, f, layers, 3 * 2 * patch**2, places) + mergers


def _moon_vit(prefix: str) -> Tower:
    def tower(c: Config, v: Config, p: Plan) -> int:
        usual = {f"{prefix}hidden_size": 1152, f"{prefix}intermediate_size": 4304, f"{prefix}num_hidden_layers": 27}
        h, f, layers = v.sizes(**usual)
        patch, high, broad = v.sizes(patch_size=14, init_pos_emb_height=64, init_pos_emb_width=64)
        seen, both = plain_tower(h, f, layers, 3 * patch**2, high * broad) + 2 * h, 4 * h
        return seen + 2 * h + affine(both, both) + affine(both, p.hidden)

    return tower


def _kimi_k3(c: Config, v: Config, p: Plan) -> int:
    """A MoonViT without biases, whose heads are wider than its stream."""
    h, f, layers = v.sizes(vt_hidden_size=1024, vt_intermediate_size=4096, vt_num_hidden_layers=27)
    patch, wide, high, broad = v.sizes(patch_size=14, qkv_hidden_size=1536, init_pos_emb_height=64, init_pos_emb_width=64)  # fmt: skip
    merged = 4 * v.size("mm_hidden_size", default=h)
    seen = 3 * patch**2 * h + high * broad * h + layers * (4 * h * wide + 2 * h * f + 2 * h) + h
    return seen + merged * merged + affine(merged, p.hidden)


def _llama4(c: Config, v: Config, p: Plan) -> int:
    """Patches are unfolded and multiplied; a shuffle of pixels and two matrices stand behind the layers."""
    h, f, layers, patch, image = _sizes(v, 768, 5632, 34, 14, 448)
    wide, out, given = v.sizes(projector_input_dim=4096, projector_output_dim=4096, vision_output_dim=7680)
    _shuffled(v, "pixel_shuffle_ratio")
    encoder = plain_tower(h, f, layers, 3 * patch**2, (image // patch) ** 2 + 1) + 4 * h
    return encoder + f * wide + wide * out + given * p.hidden


def _glm4v(c: Config, v: Config, p: Plan) -> int:
    h, f, layers, patch, out = v.sizes(hidden_size=1536, intermediate_size=13696, depth=24, patch_size=14, out_hidden_size=4096)  # fmt: skip
    side, frames, image = v.sizes(spatial_merge_size=2, temporal_patch_size=2, image_size=336)
    patches = 3 * frames * patch**2 * h + h + h + (image // patch) ** 2 * h + h
    layer = 4 * h * h + 3 * h * out + 2 * h
    return patches + layers * layer + affine(side**2 * h, out) + out * out + 2 * out + 3 * out * f


def _glm46v(c: Config) -> Plan:
    """GLM 4.6V, large with experts and small without."""
    return nested("glm4_moe" if c.inner("text_config").has("n_routed_experts") else "glm4")(c)


def _glm_tower(*widths: tuple[str, int]) -> Tower:
    """GLM's newer tower: norms of queries and keys, and an MLP of its own behind the layers."""

    def tower(c: Config, v: Config, p: Plan) -> int:
        wide = 1
        for key, default in widths:
            wide *= v.size(key, default=default)
        h, f, layers, patch, out = v.sizes(hidden_size=1024, intermediate_size=4096, depth=24, patch_size=14, out_hidden_size=1536)  # fmt: skip
        side, frames, heads = v.sizes(spatial_merge_size=2, temporal_patch_size=2, num_heads=16)
        bias = v.flag("attention_bias", True)
        layer = 4 * h * h + 3 * h * f + bias * (4 * h + 2 * f + h) + 2 * (h // heads) + 2 * h
        merger = out * out + 2 * out + 3 * out * wide
        return 3 * frames * patch**2 * h + h + layers * layer + affine(side**2 * h, out) + merger + h

    return tower


def _glm_ocr_text(c: Config) -> Plan:
    return plan(c, replace(families.GLM_4, head_dim=None, qkv_bias=("attention_bias", False)))


def _ovis2(c: Config, v: Config, p: Plan) -> int:
    """An image becomes words of a vocabulary of its own, which has a table beside the tower."""
    h, f, layers, patch, image = _sizes(v, 1024, 2816, 24, 14, 224)
    words, marks, stride = v.sizes(vocab_size=16_384, num_visual_indicator_tokens=5, hidden_stride=1)
    layer = 4 * h * h + 4 * h * v.flag("qkv_bias", False) + 3 * h * f
    layer += (2 * f + h) * v.flag("mlp_bias", False) + 2 * h
    seen = 3 * patch**2 * h + h + (image // patch) ** 2 * h + h + layers * layer + h
    out = words - marks
    return seen + h * stride**2 * out + 2 * out + words * c.size("hidden_size", default=1536)


def _minimax_m3_vl(c: Config, v: Config, p: Plan) -> int:
    text = p.hidden
    h, f, layers, patch = v.sizes(hidden_size=1280, intermediate_size=5120, num_hidden_layers=32, patch_size=14)
    frames = v.size("temporal_patch_size", default=2)
    seen = plain_tower(h, f, layers, 3 * frames * patch**2, 0) + h  # no bias of patches, a norm before the layers
    wide, merged = c.sizes(projector_hidden_size=text, merged_hidden_size=4 * text)
    return seen + affine(h, wide) + affine(wide, text) + affine(merged, wide) + affine(wide, text)


def _step3p7(c: Config, v: Config, p: Plan) -> int:
    h, layers = v.size("hidden_size", "width", default=1536), v.size("num_hidden_layers", "layers", default=47)
    patch, image = v.sizes(patch_size=14, image_size=728)
    f = int(h * v.factor("mlp_ratio", 8960 / 1536))
    layer = 4 * (h * h + h) + 2 * h * f + f + h + 4 * h + 2 * h
    down = affine(9 * h, 2 * h) + affine(9 * 2 * h, 4 * h)
    embedded = 3 * patch**2 * h + (image // patch) ** 2 * h + 2 * h
    return embedded + layers * layer + down + affine(4 * h, p.hidden, c.flag("projector_bias", False))


def _muse(heard: bool) -> Tower:
    """The same tower for both, and for the larger one convolutions over sound."""

    def tower(c: Config, v: Config, p: Plan) -> int:
        h, f, layers, patch = v.sizes(hidden_size=1536, intermediate_size=8960, num_hidden_layers=50, patch_size=14)
        frames, high, broad = v.sizes(patch_temporal=2, pos_emb_height=32, pos_emb_width=32)
        seen = plain_tower(h, f, layers, 3 * frames * patch**2, high * broad) - h + 4 * h  # no bias of patches
        out, wide = c.sizes(out_hidden_size=4 * h, projector_hidden_size=4096)
        sound = sound_towers.muse(c) if heard and c.has("audio_config") else 0
        return seen + out * wide + wide * wide + wide * p.hidden + sound

    return tower


def _lfm3_vl(c: Config, v: Config, p: Plan) -> int:
    """A tower of convolutions over the image and of attention in turn."""
    h, f, layers, patch, frames = v.sizes(hidden_size=1024, intermediate_size=2560, num_hidden_layers=14, patch_size=16, temporal_patch_size=2)  # fmt: skip
    heads, kv, kernel, side = v.sizes(num_attention_heads=16, num_key_value_heads=8, conv_kernel_size=3, spatial_merge_size=2)  # fmt: skip
    kinds = v.raw.get("layer_types")
    if not isinstance(kinds, list) or len(kinds) != layers:
        v.fail("layer_types", f"must list each of {layers} layers")
    convs, size = kinds.count("conv"), h // heads
    mixed = convs * (4 * h * h + h * kernel**2) + (layers - convs) * (2 * h * size * (heads + kv) + 2 * size)
    seen = 3 * frames * patch**2 * h + h + mixed + layers * (3 * h * f + 2 * h)
    wide, bias = c.size("projector_hidden_size", default=4096), c.flag("projector_bias", True)
    return seen + 2 * h + affine(h * side**2, wide, bias) + affine(wide, p.hidden, bias)


def _dots_ocr(c: Config, v: Config, p: Plan) -> int:
    """A tower without biases, whose patches have a norm."""
    h, f, layers, patch = v.sizes(embed_dim=1536, intermediate_size=4224, num_hidden_layers=42, patch_size=14)
    wide, bias = h * v.size("spatial_merge_size", default=2) ** 2, v.flag("use_bias", False)
    seen = rms_tower(h, f, layers, 3 * patch**2) + h + layers * bias * (4 * h + 2 * f + h)
    return seen + v.flag("post_norm", True) * h + 2 * h + affine(wide, wide) + affine(wide, p.hidden)


def _mllama(c: Config, v: Config, p: Plan) -> int:
    h, f, layers, patch, image = _sizes(v, 1280, 5120, 32, 14, 448)
    upper, tiles, out = v.sizes(num_global_layers=8, max_num_tiles=4, vision_output_dim=7680)
    if tiles > 100:
        v.fail("max_num_tiles", "must lie in [1, 100]")
    ratios = 1 + sum(tiles // i for i in range(1, tiles + 1))  # ways to lay out so many tiles, and none
    places = (image // patch) ** 2 + 1
    layer = 4 * h * h + 2 * h * f + f + h + 4 * h
    tables = places * h + 1 + ratios * tiles * places * h + 2 * (ratios * tiles * h + 1)
    seen = h + 3 * patch**2 * h + tables + 4 * h + (layers + upper) * layer + 2 * upper
    return seen + affine(out, p.hidden)


def ernie4_5_vl(c: Config) -> Plan:
    """ERNIE 4.5 with images: tokens of an image have experts of their own, which stand with the tower."""
    p, seen = own_parts.ernie4_5_vl_text(c.part("text_config"))
    _tied(c, p)
    v = c.inner("vision_config")
    h, layers, patch, side = v.sizes(hidden_size=1280, depth=32, patch_size=14, spatial_merge_size=2)
    frames, f = v.size("temporal_merge_size", default=2), v.size("intermediate_size", default=4 * h)
    tower, wide = plain_tower(h, f, layers, 3 * patch**2, 0) + h, h * side**2
    resampled = 2 * affine(wide, wide) + 2 * wide + affine(frames * wide, wide) + affine(wide, wide) + 2 * wide
    p.tower = tower + resampled + affine(wide, p.hidden) + p.hidden + seen
    return p


# Sound, or images and sound


def _qwen2_audio(c: Config, v: Config, p: Plan) -> int:
    size, h, _ = sound_towers.whisper(c)
    return size + affine(h, p.hidden)


def _voxtral(c: Config, v: Config, p: Plan) -> int:
    size, _, f = sound_towers.whisper(c)
    return size + f * p.hidden + p.hidden * p.hidden


_EMU3_TOKENS = 270740287  # the tokenizer of images as its code builds it by default


def _emu3(c: Config, v: Config, p: Plan) -> int:
    """Images are tokens of the same vocabulary; what makes them is a network of convolutions, counted as its code builds it."""
    usual = {"codebook_size": 32_768, "embed_dim": 4, "latent_channels": 4, "base_channels": 256, "num_res_blocks": 2}
    for key, value in {**usual, "temporal_downsample_factor": 4}.items():
        c.inner("vq_config").must_be(key, value, "another tokenizer of images")
    return _EMU3_TOKENS


def _phi4(c: Config, v: Config, p: Plan) -> int:
    """A tower for images, an encoder of sound, and two ways from sound to the text."""
    (size, heard), wide = sound_towers.phi4(c), p.hidden
    h, f, layers, patch = v.sizes(hidden_size=1152, intermediate_size=4304, num_hidden_layers=27, patch_size=14)
    places = (v.size("crop_size", default=448) // patch) ** 2
    seen = plain_tower(h, f, layers, 3 * patch**2, places) + 2 * h + pooling_head(h, f)
    return seen + size + 2 * h + affine(h, wide) + 2 * affine(heard, wide) + 3 * affine(wide, wide)


def _phi4mm(c: Config, v: Config, p: Plan) -> int:
    """The same as published first: adapters of low rank for images and for sound stand beside the weights."""
    bias = c.inner("audio_processor").inner("config").inner("relative_attention_bias_args")
    sound = {"bias_max_distance": bias.size("t5_bias_max_distance", default=500)}
    h, f, a = p.hidden, int(p.mlp["width"]), p.attention
    queries, heads = a["heads"] * a["head_dim"], (a["heads"] + 2 * a["kv_heads"]) * a["head_dim"]
    sides = (h + heads) + (queries + h) + (h + 2 * f) + (f + h)
    ranks = sum(c.inner(key).size("r", default=usual) for key, usual in (("vision_lora", 256), ("speech_lora", 320)))
    adapters: int = p.layers * ranks * sides
    return _phi4(c.but(audio_config=sound), Config({}, v.file), p) + adapters


def _omni(text: str, tower: Tower, heard: Callable[[Config], int], **seen: Any) -> Reader:
    """What listens and thinks; what speaks has a model of its own, which is not counted here."""

    def reader(c: Config) -> Plan:
        c = c.part("thinker_config")
        words = c.inner("text_config").given(num_key_value_heads=4)
        if text == "qwen3_moe":  # unlike the plain class, this one divides
            words = words.given(head_dim=words.size("hidden_size") // words.size("num_attention_heads"))
        p = TEXT[text](words)
        p.head["tied"] = c.flag("tie_word_embeddings", False)
        p.tower = tower(c, c.inner("vision_config").given(out_hidden_size=3584, **seen), p) + heard(c)
        return p

    return reader


def _omni_whisper(c: Config) -> int:
    (size, h, _), a = sound_towers.whisper(c), c.inner("audio_config")
    out, places = a.sizes(output_dim=3584, max_source_positions=1500)  # computed here, learned in Whisper
    return size - places * h + 2 * out + affine(h, out)


_SEEN = "vision_config"
_QWEN_2_5_OMNI = _omni("qwen2", _qwen2_5_vl, _omni_whisper, hidden_size=3584)
_QWEN_3_OMNI = _omni("qwen3_moe", _qwen3_vl, sound_towers.omni, deepstack_visual_indexes=[8, 16, 24])
_SIGLIP, _CLIP = "siglip_vision_model", "clip_vision_model"
_AYA = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 26, "patch_size": 14, "image_size": 384}
_IDEFICS_3 = towered(
    any_text("llama"), behind("idefics3_vision", lambda c, h, text: c.size("scale_factor", default=2) ** 2 * h * text)
)
_PALIGEMMA = behind(  # whose class builds the tower without that head
    _SIGLIP, lambda c, h, text: affine(h, c.size("projection_dim", default=2048)), vision_use_head=False
)
READERS: dict[str, Reader] = {
    "aria": towered(any_text("aria_text"), behind("idefics3_vision", _aria)),
    "aya_vision": towered(_aya_text, behind(_SIGLIP, _aya, **_AYA, vision_use_head=False)),
    "cohere2_vision": towered(any_text("cohere2"), behind(_SIGLIP, _cohere2)),
    "deepseek_vl": towered(
        any_text("llama", outer=True), behind(_SIGLIP, lambda c, h, text: affine(h, text) + affine(text, text))
    ),
    "dots_ocr": towered(TEXT["qwen2"], _dots_ocr),
    "emu3": towered(lambda c: TEXT["llama"](c.part("text_config").given(num_key_value_heads=8)), _emu3),
    "ernie4_5_moe_vl": ernie4_5_vl,
    "ernie4_5_vl_moe": ernie4_5_vl,
    "exaone4_5": towered(any_text("exaone4", hidden_size=4096, intermediate_size=16_384), _exaone4_5, _SEEN),
    "fuyu": towered(
        nested("persimmon"),
        lambda c, v, p: affine(c.size("patch_size", default=30) ** 2 * c.size("num_channels", default=3), p.hidden),
    ),
    "gemma3": towered(nested("gemma3_text"), _gemma3),
    "gemma3n": towered(nested("gemma3n_text"), _gemma3n),
    "gemma4": towered(nested("gemma4_text"), _gemma4, _SEEN),
    "gemma4_unified": towered(nested("gemma4_text"), _gemma4_unified),
    "glm46v": towered(_glm46v, _glm4v, _SEEN),
    "glm4v": towered(nested("glm4"), _glm4v, _SEEN),
    "glm4v_moe": towered(nested("glm4_moe"), _glm4v, _SEEN),
    "glm5_next": towered(nested("glm5_next_text"), _glm_tower(("projection_intermediate_size", 10_240)), _SEEN),
    "glm_ocr": towered(nested(_glm_ocr_text), _glm_tower(("out_hidden_size", 1536), ("in_channels", 3)), _SEEN),
    "idefics2": towered(any_text("mistral"), _idefics2),
    "idefics3": _IDEFICS_3,
    "internvl": towered(any_text("qwen2"), behind("internvl_vision", _internvl)),
    "internvl_chat": towered(any_text("qwen2"), _internvl_chat),
    "kimi_k25": towered(nested("deepseek_v3"), _moon_vit("vt_")),
    "kimi_k3": towered(nested(lambda c: plan(c, recurrent.KIMI_K3)), _kimi_k3, _SEEN),
    "kimi_vl": towered(nested("deepseek_v3"), _moon_vit("")),
    "lfm2_vl": towered(any_text("lfm2"), behind("siglip2_vision_model", _lfm2_vl)),
    "lfm3_vl": towered(any_text("lfm3"), _lfm3_vl),
    "llama4": towered(families.llama4, _llama4, _SEEN),
    "llava": towered(any_text("llama"), _llava(False, _CLIP)),
    "llava_next": towered(any_text("llama"), _llava(True, _CLIP)),
    "llava_onevision": towered(any_text("qwen2"), _llava(True, _SIGLIP)),
    "minimax_m3_vl": towered(any_text("minimax_m3_vl_text"), _minimax_m3_vl, _SEEN),
    "mistral3": towered(nested(lambda c: plan(c, replace(families.MISTRAL, window=None))), _mistral3),
    "mistral_large4": towered(nested("mistral_large4_text"), _mistral_large4, _SEEN),
    "mllama": towered(lambda c: plan(c.part("text_config"), own_parts.MLLAMA), _mllama, _SEEN),
    "muse_glimmer": towered(nested("muse_glimmer_text"), _muse(False), _SEEN),
    "muse_spark": towered(nested("muse_spark_text"), _muse(True), _SEEN),
    "ovis2": towered(any_text("qwen2", outer=True), _ovis2),
    "paligemma": towered(any_text("gemma"), _PALIGEMMA),
    "phi4_multimodal": towered(lambda c: plan(c, families.PHI_3), _phi4),
    "phi4mm": towered(lambda c: plan(c, families.PHI_3), _phi4mm),
    "qwen2_5_omni": _QWEN_2_5_OMNI,
    "qwen2_5_omni_thinker": _QWEN_2_5_OMNI,
    "qwen2_5_vl": towered(nested("qwen2"), _qwen2_5_vl),
    "qwen2_audio": towered(any_text("qwen2"), _qwen2_audio),
    "qwen2_vl": towered(nested("qwen2"), _qwen2_vl, _SEEN),
    "qwen3_5": towered(nested("qwen3_5_text"), _qwen3_vl, _SEEN),
    "qwen3_5_moe": towered(nested("qwen3_5_moe_text"), _qwen3_vl, _SEEN),
    "qwen3_omni_moe": _QWEN_3_OMNI,
    "qwen3_omni_moe_thinker": _QWEN_3_OMNI,
    "qwen3_vl": towered(nested("qwen3"), _qwen3_vl, _SEEN),
    "qwen3_vl_moe": towered(nested("qwen3_moe"), _qwen3_vl, _SEEN),
    "qwen4_exp": towered(
        nested("qwen4_exp_text"), lambda c, v, p: _qwen3_vl(c, v.given(out_hidden_size=3584), p), _SEEN
    ),
    "smolvlm": _IDEFICS_3,
    "step3p7": towered(any_text("step3p5"), _step3p7),
    "voxtral": towered(any_text("llama"), _voxtral),
}
