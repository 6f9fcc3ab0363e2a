"""Model shapes: what a transformer is made of, exactly enough to count its parameters to the last one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlsysim._numeric import all_true
from mlsysim.catalog import entries, kept, shown
from mlsysim.catalog.sourced import Sourced, read_toml, sourced
from mlsysim.errors import InputError, unknown_name
from mlsysim.results import Report, Result, plain

_TYPES = {"int": int, "str": str, "bool": bool}
NORMS = ("rmsnorm", "layernorm")
_MOST = {"tower_parameters": 10**11, "rotary_rows": 10**8}  # of any other size: ten million


@dataclass(frozen=True)
class Model(Result):
    """The shape of a decoder-only transformer. Sizes are counts; 0 means that the model has no such part.

    Attention is multi-head (``kv_heads == heads``), grouped-query, multi-query (``kv_heads == 1``) or, when
    ``kv_lora_rank > 0``, multi-head latent attention (then ``head_dim`` is the non-rotary query and key size).
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int  # width of the dense MLP (of the leading dense layers, in a mixture of experts)
    vocab: int
    gated_mlp: bool = True  # three matrices (SwiGLU, GeGLU) instead of two
    tied_embeddings: bool = False  # the LM head is the embedding matrix
    embedding_width: int = 0  # narrower embedding with a projection to hidden and one back (OPT-350m); 0: hidden
    norm: str = "rmsnorm"  # a layernorm has a bias besides its weight, unless norm_bias says otherwise
    norm_bias: bool = True
    norms_per_layer: int = 2
    final_norm: bool = True
    embedding_norm: bool = False  # BLOOM
    qk_norm: str = (
        ""  # weights of a norm on queries and keys: "head" (one vector of head_dim each) or "full" (all heads)
    )
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False
    learned_positions: int = 0
    q_lora_rank: int = 0
    kv_lora_rank: int = 0
    qk_rope_head_dim: int = 0
    v_head_dim: int = 0  # 0: the same as head_dim
    n_experts: int = 0
    top_k: int = 0
    moe_ffn: int = 0  # width of one expert
    n_shared_experts: int = 0
    shared_ffn: int = 0  # width of one shared expert; 0: the same as moe_ffn
    shared_gate: bool = False  # a learned scalar gate on the shared expert (Qwen)
    router_bias: bool = False  # DeepSeek-V3's load-balancing bias
    n_dense_layers: int = 0  # leading layers with a dense MLP
    moe_every: int = 1  # every n-th of the remaining layers is a mixture of experts
    attn_window: int = 0  # tokens a sliding-window layer looks back
    n_windowed_layers: int = 0
    attention_sinks: bool = False  # a learned score per head that takes no value (gpt-oss)
    parallel_block: bool = False  # attention and MLP read the same input (no effect on counts of matrices)
    tower_parameters: int = 0  # what reads images or sound, beside the language model; not in its count
    rotary_rows: int = 0  # positions that a server tabulates sines and cosines for; 0: none, or not known
    rotary_dim: int = 0  # numbers of a head that are rotated; 0: all (of latent attention, its rotary part)
    stored: str = ""  # number format in which the weights are published; empty: 16-bit
    aliases: tuple[str, ...] = ()
    family: str = ""
    estimated: bool = False  # a closed model whose shape is inferred; shown wherever it is used
    notes: str = ""
    source: str = ""  # bib key of the shape
    where: str = ""
    published: Mapping[str, Sourced] = field(default_factory=dict, repr=False)  # parameters, active_parameters

    def __post_init__(self) -> None:
        check_shape(self)

    def summary(self) -> list[str]:
        return shown.model_lines(self)

    def explain(self) -> Report:
        """Every size and flag of the shape, and the published counts with their sources."""
        return shown.model_report(self)

    def to_dict(self) -> dict[str, Any]:
        """The shape and its published counts, for JSON."""
        held = {k: v for k, v in vars(self).items() if k != "published"}
        return dict(plain(held)) | {"published": {k: plain(vars(f)) for k, f in self.published.items()}}

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row: the shape."""
        return [{k: v for k, v in self.to_dict().items() if k not in ("published", "aliases")}]

    @property
    def is_moe(self) -> bool:
        return self.n_experts > 0

    @property
    def is_mla(self) -> bool:
        return self.kv_lora_rank > 0

    @property
    def attention(self) -> str:
        """``mha``, ``gqa``, ``mqa`` or ``mla``."""
        if self.is_mla:
            return "mla"
        if self.kv_heads == self.heads:
            return "mha"
        return "mqa" if self.kv_heads == 1 else "gqa"

    @property
    def n_moe_layers(self) -> int:
        """Layers whose MLP is a mixture of experts."""
        return (self.layers - self.n_dense_layers) // self.moe_every if self.is_moe else 0

    def check_length(self, owner: str, tokens: Any) -> None:
        """Raise an InputError for a sequence beyond the positions that the model has learned; others have no such end.

        >>> from mlsysim import catalog
        >>> catalog.model("Llama-3.1-8B").check_length("prefill", 1_000_000)
        """
        if self.learned_positions and not all_true(tokens <= self.learned_positions):
            raise InputError(
                f"{owner}: a sequence of {tokens} tokens is beyond the {self.learned_positions:,} positions that {self.name} "
                "has learned; shorten it, or take a model whose positions are computed"
            )


def check_shape(m: Model) -> None:
    """Raise an InputError that names the field unless the shape is one that can exist."""

    def need(condition: bool, name: str, why: str) -> None:
        if not condition:
            raise InputError(f"model {m.name!r}: {name} = {getattr(m, name)!r} {why}")

    for one in fields(m):
        value = getattr(m, one.name)
        if one.type in ("int", int):
            need(isinstance(value, int) and not isinstance(value, bool), one.name, "must be a whole number")
            most = _MOST.get(one.name, 10**7)
            need(0 <= value <= most, one.name, f"must lie in [0, {most:,}]")
    for name in ("layers", "hidden", "heads", "kv_heads", "head_dim", "vocab"):
        need(getattr(m, name) >= 1, name, "must be at least 1")
    need(m.heads % m.kv_heads == 0, "kv_heads", f"must divide heads = {m.heads}")
    need(m.norm in NORMS, "norm", f"must be one of {', '.join(NORMS)}")
    need(m.qk_norm in ("", "head", "full"), "qk_norm", "must be '', 'head' or 'full'")
    need(m.moe_every >= 1, "moe_every", "must be at least 1")
    need(m.n_dense_layers <= m.layers, "n_dense_layers", f"must not exceed layers = {m.layers}")
    if m.is_moe:
        need(1 <= m.top_k <= m.n_experts, "top_k", f"must lie in [1, {m.n_experts}], the number of experts")
        need(m.moe_ffn >= 1, "moe_ffn", "must be at least 1 in a mixture of experts")
    else:
        for name in ("top_k", "moe_ffn", "n_shared_experts"):
            need(getattr(m, name) == 0, name, "needs n_experts > 0")
    need(m.ffn >= 1 or (m.is_moe and m.n_dense_layers == 0 and m.moe_every == 1), "ffn", "must be at least 1")
    need(not m.is_mla or m.qk_rope_head_dim >= 1, "qk_rope_head_dim", "must be at least 1 with kv_lora_rank > 0")
    need(m.n_windowed_layers <= m.layers, "n_windowed_layers", f"must not exceed layers = {m.layers}")
    need((m.n_windowed_layers > 0) == (m.attn_window > 0), "attn_window", "needs n_windowed_layers, and the reverse")


def read_model(name: str, raw: Any, file: str) -> Model:
    """A model from its table; errors name file, model and field."""
    where = f"{file}: {name[:60]}"
    if not isinstance(raw, Mapping):
        raise InputError(f'{where} is not a table; start it with ["{name[:60]}"]')
    known = {f.name: f.type for f in fields(Model)} | {"parameters": "", "active_parameters": ""}
    given: dict[str, Any] = {}
    published: dict[str, Sourced] = {}
    for key, value in raw.items():
        if key not in known or key in ("name", "published"):
            raise InputError(f"{where}: {unknown_name('field', key, known)}")
        if key in ("parameters", "active_parameters"):
            published[key] = sourced(value, "1", f"{where}, {key}", file)
        elif key == "aliases":
            given[key] = tuple(map(str, value)) if isinstance(value, list) else (str(value),)
        else:
            expected = _TYPES[str(getattr(known[key], "__name__", known[key]))]
            if type(value) is not expected:
                raise InputError(f"{where}, {key} = {str(value)[:40]!r} must be of type {expected.__name__}")
            given[key] = value
    try:
        return Model(name=name, published=MappingProxyType(published), **given)
    except TypeError as error:
        raise InputError(f"{where}: {str(error).replace('Model.__init__() ', '')}; give the missing sizes") from error


def load_models(path: str | Path) -> dict[str, Model]:
    """Read model shapes from a TOML file, the catalogue's or your own; sizes are whole numbers, flags true or false.

    Raises
    ------
    InputError
        Naming the file, the model and the field, and how to mend it.
    """
    path = Path(path)
    return {name: read_model(name, raw, path.name) for name, raw in read_toml(path).items()}


@cache
def shelf() -> entries.Shelf[Model]:
    """All shipped models, in the order of their files."""
    return entries.Shelf("model", "models", read_model)


def models() -> Mapping[str, Model]:
    """Every model of the catalogue, by canonical name."""
    return kept.joined("model", shelf())


def model(name: "str | Model") -> Model:
    """The model of that name or alias; spelling ignores case, blanks and underscores.

    Of a name with its owner before it, as a hub writes it, the part behind the last slash has to be known.

    Raises
    ------
    UnknownNameError
        With the nearest known names.
    """
    if isinstance(name, Model):
        return name
    if (mine := kept.find("model", name)) is not None:
        return mine  # type: ignore[no-any-return]
    found = shelf()
    if isinstance(name, str) and "/" in name and kept.fold(name) not in found.names:
        name = name.rpartition("/")[2] or name
    if not isinstance(name, str) or kept.fold(name) not in found.names:
        raise unknown_name("model", name, models(), "a Hugging Face config.json can stand in for it", found.aliases)
    return found[found.names[kept.fold(name)]]
