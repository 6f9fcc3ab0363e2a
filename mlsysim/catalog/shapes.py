"""Model shapes: what a transformer is made of, exactly enough to count its parameters to the last one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from mlsysim._numeric import all_true
from mlsysim.catalog import entries, kept, shown
from mlsysim.catalog.sourced import Sourced, read_toml, sourced
from mlsysim.errors import InputError, unknown_name
from mlsysim.results import Report, Result, plain

_TYPES = {"int": int, "str": str, "bool": bool}
NORMS = ("rmsnorm", "layernorm")
_MOST = {"tower_parameters": 10**11, "rotary_rows": 10**8, "table_parameters": 10**12}  # of any other size: ten million
_MOST |= {"other_matrices": 10**12, "other_vectors": 10**11}
RECURRENCES = ("gated-delta", "kimi-delta", "lightning", "mamba", "mamba2", "mlstm", "rg-lru", "short-conv")
_WITHOUT_KEYS = ("mamba", "rg-lru", "short-conv")  # whose convolutions see values alone


class Attention(NamedTuple):
    """The attention that some layers of a model share."""

    layers: int
    heads: int
    kv_heads: int
    size: int  # of a query and a key of one head, in latent attention without the rotary part
    value: int
    windowed: bool
    own: int  # of these layers, those with keys and values of their own; the others read what another layer has cached


@dataclass(frozen=True)
class Model(Result):
    """The shape of a decoder-only language model. Sizes are counts; 0 means that the model has no such part.

    Attention is multi-head (``kv_heads == heads``), grouped-query, multi-query (``kv_heads == 1``) or, when
    ``kv_lora_rank > 0``, multi-head latent attention (then ``head_dim`` is the non-rotary query and key size).
    Instead of attention, or beside it, a layer may have a recurrence (linear attention, a state space), which keeps a state
    of constant size: ``recurrent_heads`` matrices of ``recurrent_head_dim`` by ``recurrent_state`` numbers.
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
    moe_hidden: int = 0  # what routed experts read and write, projected from hidden and back; 0: hidden
    n_shared_experts: int = 0
    shared_ffn: int = 0  # width of one shared expert; 0: the same as moe_ffn
    shared_gate: bool = False  # a learned scalar gate on the shared expert (Qwen)
    router_bias: bool = False  # DeepSeek-V3's load-balancing bias
    n_dense_layers: int = 0  # leading layers with a dense MLP
    moe_every: int = 1  # every n-th of the remaining layers is a mixture of experts
    n_zero_experts: int = 0  # experts without weights, which give a token back as it came; top_k does not count them
    attn_window: int = 0  # tokens a sliding-window layer looks back
    n_windowed_layers: int = 0
    window_heads: int = 0  # of the layers with a window, where they differ from the others; 0: the same
    window_kv_heads: int = 0
    window_head_dim: int = 0
    window_v_head_dim: int = 0
    shared_kv: bool = False  # values are the keys in layers without a window (Gemma 4)
    n_reused_layers: int = (
        0  # layers without a window that read the keys and values of another layer and have none of their own
    )
    n_reused_windowed: int = 0  # the same of layers with a window
    attention_width: int = 0  # numbers that queries, keys and values are made from, where not hidden; 0: hidden
    n_shared_blocks: int = (
        0  # blocks of attention and MLP that the layers with attention take in turn; 0: each has its own
    )
    n_indexed_layers: int = 0  # layers whose attention reads only the keys that an indexer picks (DeepSeek-V3.2)
    n_indexers: int = 0  # layers with an indexer of their own; 0: each of them
    index_heads: int = 0
    index_head_dim: int = 0  # also the numbers that an indexer caches of a token
    index_top_k: int = 0  # keys that it picks
    index_weights: bool = True  # a weight for each of its heads, made from the token
    n_attention_free_layers: int = 0
    n_mlp_free_layers: int = 0
    recurrence: str = ""  # one of RECURRENCES
    n_recurrent_layers: int = 0
    recurrent_heads: int = 0  # states of a layer: value heads; the inner width, in a Mamba of the first kind
    recurrent_head_dim: int = 0  # rows of a state: the size of a value
    recurrent_key_heads: int = 0  # heads of keys and queries that they share: groups
    recurrent_state: int = 0  # columns of a state: the size of a key
    state_bits: int = 0  # of a number of a state, where a server keeps it wider than what it computes in; 0: the same
    recurrent_conv: int = 0  # width of the causal convolution before it
    recurrent_rank: int = 0  # of the factorised step size (Mamba) or gates (Kimi)
    recurrent_bias: bool = False  # of the projections
    conv_bias: bool = False
    recurrent_norm: bool = True  # weights of a norm on its results
    attention_gate: str = ""  # a gate on the results of attention: "full" (each number) or "head" (one a head)
    attention_sinks: bool = False  # a learned score per head that takes no value (gpt-oss)
    parallel_block: bool = False  # attention and MLP read the same input (no effect on counts of matrices)
    n_mtp_layers: int = 0  # modules that predict further tokens, beside the model; not in its count
    tower_parameters: int = 0  # what reads images or sound, beside the language model; not in its count
    table_parameters: int = 0  # further tables that a token looks rows up in, such as embeddings of each layer
    other_matrices: int = (
        0  # weights of all layers that no other field says and that each token is multiplied with once
    )
    other_vectors: int = 0  # the same of scales, norms, biases and decays
    counts_only: str = (
        ""  # what of cache and work no field says, so that only parameters can be counted; empty: nothing
    )
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
        """``mha``, ``gqa``, ``mqa`` or ``mla``; ``none`` without."""
        if not self.n_attention_layers:
            return "none"
        if self.is_mla:
            return "mla"
        if self.kv_heads == self.heads:
            return "mha"
        return "mqa" if self.kv_heads == 1 else "gqa"

    @property
    def n_attention_layers(self) -> int:
        """Layers with attention, over all tokens, a window or those that an indexer picks."""
        return self.layers - self.n_attention_free_layers

    @property
    def n_mlp_layers(self) -> int:
        """Layers with an MLP, dense or a mixture of experts."""
        return self.layers - self.n_mlp_free_layers

    @property
    def n_moe_layers(self) -> int:
        """Layers whose MLP is a mixture of experts."""
        return (self.n_mlp_layers - self.n_dense_layers) // self.moe_every if self.is_moe else 0

    @property
    def attention_kinds(self) -> "tuple[Attention, ...]":
        """The attention of layers without a window, and of those with one where there are such layers."""
        size = self.head_dim
        value, near = self.v_head_dim or size, self.window_head_dim or size
        value_near = self.window_v_head_dim or self.window_head_dim or value
        heads, kv_heads = self.window_heads or self.heads, self.window_kv_heads or self.kv_heads
        wide = self.n_attention_layers - self.n_windowed_layers
        own, own_near = wide - self.n_reused_layers, self.n_windowed_layers - self.n_reused_windowed
        every = (
            Attention(wide, self.heads, self.kv_heads, size, value, False, own),
            Attention(self.n_windowed_layers, heads, kv_heads, near, value_near, True, own_near),
        )
        return tuple(kind for kind in every if kind.layers)

    @property
    def reach(self) -> int:
        """Keys that a query reads at most where it does not read all: of a window, or as an indexer picks them."""
        return self.attn_window or self.index_top_k

    @property
    def n_near_layers(self) -> int:
        """Layers with a window or an indexer, whose attention grows no further than its reach."""
        return self.n_windowed_layers + self.n_indexed_layers

    @property
    def n_mixed_layers(self) -> int:
        """Layers in which tokens meet: with attention, a recurrence, or both."""
        return min(self.layers, self.n_attention_layers + self.n_recurrent_layers)

    @property
    def state_elements(self) -> int:
        """Numbers of the states of a sequence in one layer with a recurrence, however long the sequence is."""
        return self.recurrent_heads * self.recurrent_head_dim * self.recurrent_state

    @property
    def conv_channels(self) -> int:
        """Channels that the convolution of a recurrence works on: values, and keys and queries where it has them."""
        values = self.recurrent_heads * self.recurrent_head_dim
        both = 0 if self.recurrence in _WITHOUT_KEYS else 2
        return values + both * self.recurrent_key_heads * self.recurrent_state

    @property
    def conv_elements(self) -> int:
        """Numbers that the convolution of a layer keeps of a sequence: its last inputs."""
        return max(self.recurrent_conv - 1, 0) * self.conv_channels

    def check_whole(self, owner: str) -> None:
        """Raise an InputError for a shape of which only parameters can be counted.

        >>> from mlsysim import catalog
        >>> catalog.model("Llama-3.1-8B").check_whole("prefill")
        """
        if self.counts_only:
            raise InputError(
                f"{owner}: of {self.name} only parameters can be counted, because no field of a shape says its {self.counts_only}; "
                "for an estimate without that part, give a shape by hand with catalog.define('model', ...) and counts_only = ''"
            )

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
    for name in ("layers", "hidden", "vocab"):
        need(getattr(m, name) >= 1, name, "must be at least 1")
    for name in ("n_attention_free_layers", "n_mlp_free_layers", "n_recurrent_layers"):
        need(getattr(m, name) <= m.layers, name, f"must not exceed layers = {m.layers}")
    for name in ("heads", "kv_heads", "head_dim"):
        least = 1 if m.n_attention_layers else 0
        need(getattr(m, name) >= least, name, "must be at least 1")
        need(m.n_attention_layers > 0 or getattr(m, name) == 0, name, "must be 0 in a model without attention")
    need(not m.n_attention_layers or m.heads % m.kv_heads == 0, "kv_heads", f"must divide heads = {m.heads}")
    need(m.norm in NORMS, "norm", f"must be one of {', '.join(NORMS)}")
    need(m.qk_norm in ("", "head", "full"), "qk_norm", "must be '', 'head' or 'full'")
    need(m.moe_every >= 1, "moe_every", "must be at least 1")
    need(m.n_dense_layers <= m.n_mlp_layers, "n_dense_layers", f"must not exceed layers = {m.n_mlp_layers}")
    if m.is_moe:
        need(1 <= m.top_k <= m.n_experts, "top_k", f"must lie in [1, {m.n_experts}], the number of experts")
        need(m.moe_ffn >= 1, "moe_ffn", "must be at least 1 in a mixture of experts")
    else:
        for name in ("top_k", "moe_ffn", "moe_hidden", "n_shared_experts"):
            need(getattr(m, name) == 0, name, "needs n_experts > 0")
    need(m.ffn >= 1 or m.n_mlp_layers == m.n_moe_layers, "ffn", "must be at least 1")
    need(not m.is_mla or m.qk_rope_head_dim >= 1, "qk_rope_head_dim", "must be at least 1 with kv_lora_rank > 0")
    attended = f"must not exceed layers = {m.n_attention_layers}"
    need(m.n_windowed_layers <= m.n_attention_layers, "n_windowed_layers", attended)
    need((m.n_windowed_layers > 0) == (m.attn_window > 0), "attn_window", "needs n_windowed_layers, and the reverse")
    either = "must be 0 beside layers with a window; a shape has the one or the other"
    need(not (m.n_windowed_layers and m.n_indexed_layers), "n_indexed_layers", either)
    for name in ("window_heads", "window_kv_heads", "window_head_dim", "window_v_head_dim"):
        need(getattr(m, name) == 0 or m.n_windowed_layers > 0, name, "needs n_windowed_layers > 0")
    if m.n_windowed_layers:
        heads, kv = m.window_heads or m.heads, m.window_kv_heads or m.kv_heads
        need(heads % kv == 0, "window_kv_heads", f"must divide the {heads} heads of the layers with a window")
    near = m.n_windowed_layers
    reused = f"must be below {m.n_attention_layers - near}, the layers without a window, of which one has keys at least"
    need(m.n_reused_layers < max(m.n_attention_layers - near, 1), "n_reused_layers", reused)
    need(m.n_reused_windowed < max(near, 1), "n_reused_windowed", f"must be below n_windowed_layers = {near}")
    need(not (m.is_mla and m.n_reused_layers), "n_reused_layers", "must be 0 with latent attention")
    need(not (m.is_mla and m.attention_width), "attention_width", "must be 0 with latent attention")
    need(m.n_shared_blocks <= m.n_attention_layers, "n_shared_blocks", attended)
    alike = m.n_attention_layers == m.n_mlp_layers and not m.is_moe
    need(
        not m.n_shared_blocks or alike, "n_shared_blocks", "needs a dense MLP in each layer with attention and no other"
    )
    need(m.is_moe or not m.n_zero_experts, "n_zero_experts", "needs n_experts > 0")
    need(m.attention_gate in ("", "full", "head"), "attention_gate", "must be '', 'full' or 'head'")
    need(
        m.n_indexed_layers <= m.n_attention_layers - m.n_windowed_layers,
        "n_indexed_layers",
        attended + " over all tokens",
    )
    need(m.n_indexers <= m.n_indexed_layers, "n_indexers", f"must not exceed n_indexed_layers = {m.n_indexed_layers}")
    for name in ("index_heads", "index_head_dim", "index_top_k"):
        need((getattr(m, name) > 0) == (m.n_indexed_layers > 0), name, "needs n_indexed_layers, and the reverse")
    need(m.state_bits in (0, 16, 32), "state_bits", "must be 0, 16 or 32")
    need(m.recurrence in ("", *RECURRENCES), "recurrence", f"must be '' or one of {', '.join(RECURRENCES)}")
    need((m.recurrence != "") == (m.n_recurrent_layers > 0), "recurrence", "needs n_recurrent_layers, and the reverse")
    sizes = {
        "": (),
        "short-conv": ("recurrent_heads", "recurrent_head_dim", "recurrent_conv"),
        "lightning": ("recurrent_heads", "recurrent_head_dim", "recurrent_key_heads", "recurrent_state"),
        "mamba": ("recurrent_heads", "recurrent_head_dim", "recurrent_state", "recurrent_conv", "recurrent_rank"),
        "mlstm": ("recurrent_heads", "recurrent_head_dim", "recurrent_key_heads", "recurrent_state"),
    }
    every = ("recurrent_heads", "recurrent_head_dim", "recurrent_key_heads", "recurrent_state", "recurrent_conv")
    needed = sizes.get(m.recurrence, every)
    for name in (*every, "recurrent_rank"):
        if name in needed:
            need(getattr(m, name) >= 1, name, f"must be at least 1 in a recurrence of the kind {m.recurrence!r}")
        elif not m.recurrence:
            need(getattr(m, name) == 0, name, "needs a recurrence")
    if m.recurrent_key_heads:
        shared = f"must divide recurrent_heads = {m.recurrent_heads}"
        need(m.recurrent_heads % m.recurrent_key_heads == 0, "recurrent_key_heads", shared)


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


def _elsewhere(name: object) -> str:
    """Where the catalogue has that name, if it is of something that is no language model; else nothing."""
    from mlsysim.catalog import beyond  # here: whoever makes no mistake need not read them
    from mlsysim.catalog.convnets import convnets

    found = {
        "catalog.patch_transformer": beyond.patch_transformers(),
        "beyond.diffusion_unet": beyond.diffusion_unets(),
        "catalog.recommender": beyond.recommenders(),
        "catalog.convnet": convnets(),
    }
    wanted = kept.fold(str(name))
    for kind, known in found.items():
        for entry in known:
            if wanted in (kept.fold(entry), kept.fold(entry).replace("/", "-")):
                return f"{entry} is no language model: {kind}({entry!r}), and mlsysim.beyond or flops for its work"
    return ""


def model(name: "str | Model") -> Model:
    """The model of that name or alias; spelling ignores case, blanks and underscores.

    Of a name with its owner before it, as a hub writes it, the part behind the last slash has to be known; and an alias that
    has its owner before it is known without it as well.

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
    given = name
    if isinstance(name, str) and kept.fold(name) not in found.names:
        name = name.rpartition("/")[2] or name
        name = next((owned for owned in found.names if owned.rpartition("/")[2] == kept.fold(name)), name)
    if not isinstance(name, str) or kept.fold(name) not in found.names:
        hint = _elsewhere(given) or "a Hugging Face config.json can stand in for it"
        raise unknown_name("model", given, models(), hint, found.aliases)
    return found[found.names[kept.fold(name)]]


_asked: dict[
    tuple[int, str], tuple[Model, Model]
] = {}  # by the entry and the name asked for, with the entry that the key names


def asked_for(name: "str | Model") -> Model:
    """The model of that name or alias, under the name that was asked for: for answers, which name what was asked.

    >>> asked_for("DeepSeek-R1").name, asked_for("meta-llama/Llama-3.3-70B-Instruct").name, asked_for("deepseek-v3").name
    ('DeepSeek-R1', 'Llama-3.3-70B-Instruct', 'DeepSeek-V3')
    """
    found = model(name)
    if isinstance(name, Model):
        return found
    short = kept.fold(name.rpartition("/")[2])
    names = (found.name, *(alias.rpartition("/")[2] for alias in found.aliases))
    said = next((known for known in names if kept.fold(known) == short), found.name)
    if said == found.name:
        return found
    if (id(found), said) not in _asked:
        _asked[id(found), said] = found, replace(found, name=said)
    return _asked[id(found), said][1]
