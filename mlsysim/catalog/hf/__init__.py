"""Reading a Hugging Face ``config.json`` into a model shape. The file is untrusted: JSON only, bounded, never run.

Sizes must be given; where a family's code derives one from another (the MLP of GPT-2 is four times hidden) so does this
module. A key that is absent or null otherwise has the default that ``transformers`` gives it in that family.
"""

import string
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from mlsysim.catalog.hf import beside, counted, dense, mixtures, more, rare, recurrent, seeing, sensing, towers, unlike
from mlsysim.catalog.hf.config import MAX_CONFIG_BYTES as MAX_CONFIG_BYTES
from mlsysim.catalog.hf.config import MAX_SIZE, Config, Shape, read_json
from mlsysim.catalog.hf.lowering import lower
from mlsysim.catalog.shapes import Model
from mlsysim.errors import InputError, unknown_name

_PRINTABLE = set(string.ascii_letters + string.digits + "-._ ")
_UNROTATED = {"bloom", "gpt2", "mpt", "opt"}  # families without rotary positions
_UNROTATED |= {"falcon_mamba", "jamba", "kimi_linear", "mamba", "mamba2", "mamba_ssm", "nemotron_h"}
_GEMMA_3 = {"gemma3", "gemma3_text"}  # a second table for the layers with a window
_MAX_ROWS = 10**8  # positions; the longest context in use is ten million
_QUANTISED = {
    ("float", 8): "fp8",
    ("int", 8): "int8",
    ("int", 4): "int4",
    ("float", 4): "nvfp4",
}


def _rotary(c: Config, kind: str, shape: Shape) -> Shape:
    """Rows and width of the tables of sines and cosines that a server makes."""
    text = c.inner("text_config") if c.has("text_config") else c
    if kind in _UNROTATED or shape.get("learned_positions"):
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
    part = round(share * shape["head_dim"]) if type(share) is float and 0 < share < 1 else 0
    return ({"rotary_rows": rows} if rows else {}) | ({"rotary_dim": part} if part else {})


def _stored(c: Config) -> str:
    """The number format of the checkpoint's matrices; a method that this module does not know stands as it is called."""
    text = c.inner("text_config") if c.has("text_config") else c
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


_READERS: dict[str, Callable[[Config], Shape]] = dict(
    sorted(
        (
            {"mamba_ssm": recurrent.original_mamba}
            | dense.READERS
            | mixtures.READERS
            | recurrent.READERS
            | more.READERS
            | unlike.READERS
            | dict(counted.READERS)
            | towers.READERS
            | seeing.READERS
            | dict(beside.READERS)
            | dict(rare.READERS)
            | dict(sensing.READERS)
        ).items()
    )
)
FAMILIES = tuple(_READERS)

# Parts that no field of a shape expresses: which key of a config tells of them, and what a shape would need to say.
_INDEXER = "the indexer of sparse attention: its heads, their width and how many tokens it picks"
_LINEAR = (
    "layers of linear attention: how many, their key and value heads and widths, and the width of their convolution"
)
_STATE = "layers of a state space: how many, their inner width, state, heads, groups and convolution"
_NO_FIELD: Mapping[str, str] = {
    "index_n_heads": _INDEXER,
    "index_topk": _INDEXER,
    "linear_num_value_heads": _LINEAR,
    "linear_attn_config": _LINEAR,
    "attn_type_list": _LINEAR,
    "ssm_cfg": _STATE,
    "state_size": _STATE,
    "mamba_d_state": _STATE,
    "ssm_state_size": _STATE,
}
# Readers that know what to make of those keys.
_AWARE = {
    *counted.READERS,
    *recurrent.READERS,
    *more.READERS,
    *rare.READERS,
    *sensing.READERS,
    *seeing.READERS,
    *unlike.READERS,
    "mamba_ssm",
    "deepseek_v32",
    "glm_moe_dsa",
    "minimax_m2",
    "qwen3_5",
    "qwen3_5_moe",
}


def _inexpressible(c: Config, kind: str) -> str:
    """What a config has that no field of a shape says, or that the reader of its type does not ask for; empty without."""
    if kind in _AWARE:
        return ""
    text = c.inner("text_config") if isinstance(c.raw.get("text_config"), Mapping) else c
    found = [part for key, part in _NO_FIELD.items() if text.has(key)]
    kinds = text.raw.get("layer_types")
    if isinstance(kinds, list) and "linear_attention" in kinds:
        found.append(_LINEAR)
    return found[0] if found else ""


def _refuse(c: Config, kind: str) -> NoReturn:
    """Say of an unknown type which field it would need, and how to write a shape by hand."""
    by_hand = (
        "write its sizes by hand with catalog.define('model', ...), or in a file for catalog.load_models (the page Your own "
        "shows how)"
    )
    if part := _inexpressible(c, kind):
        raise InputError(
            f"{c.file}: model_type {kind[:40]!r} has what no field of a shape says yet, {part}; read as plain attention its "
            f"parameters, cache and work would all be wrong. For an estimate without that part, {by_hand}"
        )
    raise InputError(f"{c.file}: {unknown_name('model_type', kind, FAMILIES)}; or {by_hand}")


def _name(c: Config, file: str) -> str:
    """The last part of ``_name_or_path``, reduced to harmless characters; else the model_type."""
    given = c.raw.get("_name_or_path")
    text = given[-200:].rstrip("/").rsplit("/", 1)[-1] if isinstance(given, str) else ""
    return "".join(ch for ch in text if ch in _PRINTABLE).strip()[:80] or f"{c.text('model_type')} model of {file}"


def from_hf_config(source: str | Path | Mapping[str, Any]) -> Model:
    """The shape that a Hugging Face ``config.json`` describes.

    Parameters
    ----------
    source : path or mapping
        Path of the file, or its content already parsed.

    Returns
    -------
    Model
        Not in the catalogue, with no published count; ``source`` is the name of the file.

    Raises
    ------
    InputError
        Naming file, key and value, and how to mend it: a ``model_type`` this module does not know, a size that is
        missing, of the wrong type or out of range, keys that contradict each other, a variant the shape cannot express.

    >>> from_hf_config({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    ...                 "intermediate_size": 128, "vocab_size": 1000}).head_dim
    16
    """
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
    if kind not in _READERS or _inexpressible(c, kind):
        _refuse(c, kind)
    shape = _READERS[kind](c)
    shape |= _rotary(c, kind, shape) | {"stored": _stored(c)}
    try:
        return Model(
            **lower(
                {"name": _name(c, file), "family": kind, "source": file, "where": "read by from_hf_config", **shape}
            )
        )
    except InputError as error:
        raise InputError(f"{file}: {error}") from error
