"""Reading a Hugging Face ``config.json`` into a model shape. The file is untrusted: JSON only, bounded, never run.

Sizes must be given; where a family's code derives one from another (the MLP of GPT-2 is four times hidden) so does this
module. A key that is absent or null otherwise has the default that ``transformers`` gives it in that family.
"""

import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlsysim.catalog.hf import vision_towers
from mlsysim.catalog.hf.config import MAX_CONFIG_BYTES as MAX_CONFIG_BYTES
from mlsysim.catalog.hf.config import MAX_SIZE, Config, read_json
from mlsysim.catalog.hf.decoder import BY_HAND, Plan, refuse_unsaid
from mlsysim.errors import InputError, unknown_name

_PRINTABLE = set(string.ascii_letters + string.digits + "-._ ")
_UNROTATED = {"bloom", "gpt2", "mpt", "opt"}  # families without rotary positions
_UNROTATED |= {"falcon_mamba", "jamba", "kimi_linear", "mamba", "mamba2", "mamba_ssm", "nemotron_h"}
_GEMMA_3 = {"gemma3", "gemma3_text"}  # a second table for the layers with a window
_MAX_ROWS = 10**8  # positions; the longest context in use is ten million
_QUANTISED = {("float", 8): "fp8", ("int", 8): "int8", ("int", 4): "int4", ("float", 4): "nvfp4"}
_READERS = dict(sorted({**vision_towers.TEXT, **vision_towers.READERS}.items()))
FAMILIES = tuple(_READERS)


def _rotary(c: Config, kind: str, p: Plan) -> dict[str, int]:
    """Rows and width of the tables of sines and cosines that a server makes."""
    text = c.part("text_config")
    if kind in _UNROTATED or p.embedding["positions"]:
        return {}
    # Gemma3TextConfig: 131,072 positions when absent
    rows = text.size("max_position_embeddings", default=131_072 if kind in _GEMMA_3 else 0, least=0, most=_MAX_ROWS)
    newer = text.inner("rope_parameters")  # what transformers 5 calls it, the base frequency among it
    scaling = text.inner("rope_scaling") if text.has("rope_scaling") else newer if newer.raw else None
    if scaling is not None and rows:
        factor: Any = scaling.raw.get("factor")
        way = scaling.text("rope_type") or scaling.text("type")
        if way in ("linear", "dynamic", "yarn") and type(factor) in (int, float) and 1 <= factor <= MAX_SIZE:
            first = scaling.size("original_max_position_embeddings", default=rows) if way == "yarn" else rows
            rows = round(first * factor) + (rows if kind in _GEMMA_3 else 0)
    elif kind in _GEMMA_3:
        rows *= 2
    rows = min(rows, _MAX_ROWS)
    share = text.raw.get("partial_rotary_factor", text.raw.get("rotary_pct", newer.raw.get("partial_rotary_factor")))
    part = round(share * p.attention.get("head_dim", 0)) if type(share) is float and 0 < share < 1 else 0
    return ({"rotary_rows": rows} if rows else {}) | ({"rotary_dim": part} if part else {})


def _stored(c: Config) -> str:
    """The number format of the checkpoint's matrices; a method that this module does not know stands as it is called."""
    text = c.part("text_config")
    holder = c if c.has("quantization_config") else text
    if not holder.has("quantization_config"):
        return ""
    q = holder.inner("quantization_config")
    method = q.text("quant_method", q.text("quant_algo"))[:40]
    if method == "fp8":
        return "fp8-block" if q.has("weight_block_size") else "fp8"
    if method in ("gptq", "awq", "auto-round"):
        return _QUANTISED.get(("int", q.size("bits", "w_bit", default=4)), method)
    if method == "modelopt":
        return {"FP8": "fp8", "NVFP4": "nvfp4"}.get(q.text("quant_algo"), method)
    if method == "compressed-tensors":
        groups = q.inner("config_groups")
        for name in groups.raw:
            weights = groups.inner(name).inner("weights")
            form = _QUANTISED.get((weights.text("type"), weights.size("num_bits", default=8)), method)
            if form == "int4" and weights.size("group_size", default=128) == 32 and weights.flag("symmetric", True):
                return "int4-sym-g32"
            return "fp8-block" if form == "fp8" and weights.text("strategy") == "block" else form
    return {"mxfp4": "mxfp4", "fbgemm_fp8": "fp8"}.get(method, method)


def _stored_experts(c: Config) -> str:
    """The format of the routed experts, where a config says one of their own (DeepSeek-V4)."""
    if c.part("quantization_config").text("moe_quant_algo") == "NVFP4":
        return "nvfp4"
    return "mxfp4" if c.text("expert_dtype") == "fp4" else ""


def _name(c: Config, file: str) -> str:
    """The last part of ``_name_or_path``, reduced to harmless characters; else the model_type."""
    given = c.raw.get("_name_or_path")
    text = given[-200:].rstrip("/").rsplit("/", 1)[-1] if isinstance(given, str) else ""
    return "".join(ch for ch in text if ch in _PRINTABLE).strip()[:80] or f"{c.text('model_type')} model of {file}"


def fields_of(source: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the model that a ``config.json`` describes, as :func:`mlsysim.catalog.from_hf_config` makes it."""
    if isinstance(source, str | Path):
        path = Path(source)
        raw, file = read_json(path), path.name
    else:
        raw, file = source, "config"
    c = Config(raw, file)
    kind = c.text("model_type")
    if not kind and c.has("d_model") and c.has("n_layer"):
        kind = "mamba_ssm"  # whose configs have no type
    if not kind:
        raise InputError(
            f"{file}: no model_type; give the config.json as it was published. This reader knows {len(FAMILIES)} types, which "
            "mlsysim.catalog.hf.FAMILIES lists"
        )
    if kind not in _READERS:
        refuse_unsaid(c, kind)
        raise InputError(f"{file}: {unknown_name('model_type', kind, FAMILIES)}; or {BY_HAND}")
    try:
        p = _READERS[kind](c)
        found = p.fields()
    except InputError as error:  # of a key, which names the file, or of a block
        raise error if str(error).startswith(file) else InputError(f"{file}: {error}") from error
    found |= {"name": _name(c, file), "family": kind, "source": file, "where": "read by from_hf_config"}
    return found | _rotary(c, kind, p) | {"stored": _stored(c), "stored_experts": _stored_experts(c)}
