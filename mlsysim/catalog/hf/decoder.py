"""From the keys of a config to the layers of a decoder: what a family says of its keys, and the plan that comes of it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mlsysim.catalog import blocks
from mlsysim.catalog.blocks import Block
from mlsysim.catalog.hf.config import MAX_LAYERS, Config
from mlsysim.catalog.operations import Layer, Operation, Product, Vector
from mlsysim.errors import InputError

Widths = Callable[[Config, int], list[int]]  # the window of each layer; 0: it sees all
Sparse = Callable[[Config, int], list[bool]]  # the layers whose MLP is a mixture of experts
Nth = Callable[[int], bool]
FULL, NEAR, LINEAR = "full_attention", "sliding_attention", "linear_attention"
MAX_TOWER = 10**11  # parameters of what reads images or sound; the largest in use has a few billion


@dataclass(frozen=True, kw_only=True)
class Family:
    """What the configs of a family call things, the defaults of its code, and the blocks of its layers.

    A setting is a value; or the key under which a config has it, or several names of it, of which the last may be the
    default; or a function of the config.
    """

    layers: Any = "num_hidden_layers"
    hidden: Any = "hidden_size"
    heads: Any = "num_attention_heads"
    vocab: Any = "vocab_size"
    kv_heads: Any = None  # as many when the key is absent; None: as many as heads; "": the same, whatever a key says
    head_dim: Any = None  # when absent; None: hidden / heads
    latent: bool = False  # multi-head latent attention
    qkv_bias: Any = ("attention_bias", False)
    output_bias: Any = ("attention_bias", False)
    qk_norm: Any = ""  # or (key, default, kind)
    gate: str = ""
    sinks: bool = False
    window: Widths | None = None
    ffn: Any = "intermediate_size"
    gated: bool = True
    mlp_bias: Any = False
    norms: Any = 2  # of a layer
    norm_bias: Any = False  # as in a layer norm
    final_norm: Any = True
    embedding_norm: bool = False
    embedding_width: Any = 0
    positions: Any = 0  # learned ones
    head_bias: Any = False
    tied: Any = ("tie_word_embeddings", False)
    parallel: Any = False  # attention and MLP read the same
    n_experts: Any = 0
    top_k: tuple[str, ...] = ("num_experts_per_tok",)
    expert_ffn: Any = "moe_intermediate_size"
    shared: Any = 0  # experts that every token meets
    shared_ffn: Any = 0
    shared_gate: bool = False
    router_bias: Any = False
    ignored: bool = False  # what a config says of experts
    sparse: Sparse = lambda c, layers: [True] * layers
    modules: Any = 0  # for multi-token prediction
    refused: tuple[tuple[str, Any, str], ...] = ()  # key, the value that is read, what another would be
    absent: Mapping[str, Any] = field(default_factory=dict)  # what the code takes for sizes that a file leaves out
    then: "Callable[[Plan], None] | None" = None  # what the family does with the plan


@dataclass
class Plan:
    """The sizes of a decoder, and what its layers hold as far as it is no longer the usual."""

    c: Config
    layers: int
    hidden: int
    vocab: int
    attention: dict[str, Any] = field(default_factory=dict)  # arguments of its block
    near: dict[str, Any] = field(default_factory=dict)  # those that differ in layers with a window
    windows: list[int] = field(default_factory=list)  # of each layer
    mlp: dict[str, Any] = field(default_factory=dict)
    experts: dict[str, Any] = field(default_factory=dict)
    sparse: list[bool] = field(default_factory=list)
    norms: int = 2
    norm_bias: bool = False
    embedding: dict[str, Any] = field(default_factory=dict)
    head: dict[str, Any] = field(default_factory=dict)
    parallel: bool = False
    mixers: list[Block] | None = None  # of each layer, where it is not attention
    mlps: list[Block] | None = None
    more: list[Block] = field(default_factory=list)  # further operations of each layer
    before: Block = ()  # further operations in front of the layers
    after: Block = ()
    modules: int = 0
    module_layer: Block = ()  # of those, where it is not one with attention over all
    tower: int = 0
    parameters_only: str = ""

    def attend(self, window: int = 0, **changed: Any) -> Block:
        """The attention of a layer."""
        given = self.attention | {"window": window} | (self.near if window else {}) | changed
        if "kv_rank" in given:
            return blocks.latent_attention(self.hidden, **given)
        return blocks.attention(self.hidden, **given)

    def attended(self) -> list[Block]:
        made = {width: self.attend(width) for width in set(self.windows)}
        return [made[width] for width in self.windows]

    def feed(self, sparse: bool = False, **changed: Any) -> Block:
        """The MLP of a layer, or its mixture of experts."""
        given = (self.experts if sparse else self.mlp) | changed
        return (blocks.experts if sparse else blocks.mlp)(self.hidden, **given)

    def fed(self) -> list[Block]:
        made = {sparse: self.feed(sparse) for sparse in set(self.sparse)}
        return [made[sparse] for sparse in self.sparse]

    def add(self, *operations: Operation) -> None:
        """Further operations of each layer."""
        self.more = [operations] * self.layers

    def state(self, kind: str, **settings: Any) -> Block:
        """A recurrence of a layer."""
        return blocks.recurrence(self.hidden, kind=kind, **{name: self.c.look(how) for name, how in settings.items()})

    def mix(self, recurrent: Block, attended: Iterable[bool]) -> None:
        """A recurrence in the layers that do not attend."""
        both = zip(attended, self.windows, strict=True)
        self.mixers = [self.attend(width) if one else recurrent for one, width in both]

    def full(self, usual: Nth) -> list[bool]:
        """The layers that attend to all before them."""
        return [kind == FULL for kind in self.c.kinds(self.layers, lambda i: FULL if usual(i) else LINEAR)]

    def module(self) -> Layer | None:
        """What predicts further tokens: a layer that sees all, of the kind of the last one."""
        if not self.modules:
            return None
        mixer = self.attend() if self.attention and not self.module_layer else ()
        layer = self.module_layer or blocks.joined(mixer, self.feed(any(self.sparse)), self.parallel)
        norms = self.norms + self.head["norm"] + bool(self.embedding.get("norm"))
        norms += self.mlps is not None and () in self.mlps  # attention and MLP stand in layers of their own
        return blocks.module(self.hidden, (*layer, *blocks.norms(self.hidden, norms, self.norm_bias)), self.modules)

    def fields(self) -> dict[str, Any]:
        """The fields of a model."""
        if not 0 <= self.tower <= MAX_TOWER:
            raise InputError(f"{self.c.file}: tower_parameters = {self.tower} must lie in [0, {MAX_TOWER:,}]")
        mixers = self.attended() if self.mixers is None else self.mixers
        mlps = self.fed() if self.mlps is None else self.mlps
        more = self.more or [()] * self.layers
        normed = blocks.norms(self.hidden, self.norms, self.norm_bias)
        layers = [
            (*blocks.joined(mixer, mlp, self.parallel), *normed, *rest)
            for mixer, mlp, rest in zip(mixers, mlps, more, strict=True)
        ]
        return {
            "hidden": self.hidden,
            "vocab": self.vocab,
            "layers": blocks.stacked(layers),
            "before": (
                *blocks.embedding(self.hidden, self.vocab, norm_bias=self.norm_bias, **self.embedding),
                *self.before,
            ),
            "after": (*self.after, *blocks.head(self.hidden, self.vocab, norm_bias=self.norm_bias, **self.head)),
            "modules": self.module(),
            "tower_parameters": self.tower,
            "parameters_only": self.parameters_only,
        }


def plan(c: Config, f: Family) -> Plan:
    """The plan of a decoder of a family."""
    c = c.without(*(key for key in f.absent if not c.has(key))).given(**f.absent)  # null is absent
    for key, allowed, why in f.refused:
        c.must_be(key, allowed, why)
    if f.n_experts == 0 and not f.ignored:
        c.no_experts()
    layers, hidden, vocab = c.look(f.layers), c.look(f.hidden), c.look(f.vocab)
    if not 1 <= layers <= MAX_LAYERS:
        raise InputError(f"{c.file}: {' or '.join(_names(f.layers))} = {layers} must lie in [1, {MAX_LAYERS:,}]")
    tied, norm = c.look(f.tied), c.look(f.final_norm)
    found = Plan(c, layers, hidden, vocab, norms=c.look(f.norms), norm_bias=c.look(f.norm_bias))
    found.attention = _attention(c, f, hidden)
    found.windows = f.window(c, layers) if f.window else [0] * layers
    found.sparse = f.sparse(c, layers) if f.n_experts else [False] * layers
    found.experts = _experts(c, f) if any(found.sparse) else {}
    if not all(found.sparse):
        found.mlp = {"width": c.look(f.ffn), "gated": f.gated, "bias": c.look(f.mlp_bias)}
    width = c.look(f.embedding_width)
    found.embedding = {"width": width, "positions": c.look(f.positions), "norm": f.embedding_norm}
    found.head = {"width": width, "tied": tied, "bias": c.look(f.head_bias), "norm": norm}
    found.parallel = c.look(f.parallel)
    found.modules = c.look(f.modules, least=0)
    if f.then:
        f.then(found)
    return found


Reader = Callable[[Config], Plan]


def matrix(name: str, k: int, n: int) -> Product:
    """A matrix that no block has."""
    return Product("other", name, k, n, "n")


def vector(name: str, size: int) -> Vector:
    """Scales, norms, biases and decays that no block has."""
    return Vector("other", name, size)


def _names(how: Any) -> tuple[str, ...]:
    """The keys of a setting."""
    return tuple(key for key in (how if isinstance(how, tuple) else (how,)) if isinstance(key, str))


def _attention(c: Config, f: Family, hidden: int) -> dict[str, Any]:
    heads = c.look(f.heads)
    common = {"heads": heads, "gate": f.gate, "sinks": f.sinks}
    if f.latent:
        c.kv_heads(heads, default=heads)  # there are no such heads in latent attention, but the key must make sense
        return common | latent(c)
    kv = f.kv_heads(c, heads) if callable(f.kv_heads) else heads if f.kv_heads == "" else None
    if callable(f.head_dim):
        size = f.head_dim(c, hidden, heads)
    else:
        size = c.head_dim(hidden, heads, *_names(f.heads), default=f.head_dim)
    norm = f.qk_norm
    if isinstance(norm, tuple):
        key, default, kind = norm
        norm = kind if c.flag(key, default) else ""
    return common | {
        "kv_heads": c.kv_heads(heads, default=f.kv_heads) if kv is None else kv,
        "head_dim": size,
        "qkv_bias": c.look(f.qkv_bias),
        "output_bias": c.look(f.output_bias),
        "qk_norm": norm,
        "norm_bias": c.look(f.norm_bias),
    }


def latent(c: Config) -> dict[str, int]:
    """Sizes of latent attention; a rank of queries that is null says that there is none."""
    return {
        "head_dim": c.size("qk_nope_head_dim"),
        "rope_dim": c.size("qk_rope_head_dim"),
        "value_dim": c.size("v_head_dim"),
        "kv_rank": c.size("kv_lora_rank"),
        "q_rank": c.size("q_lora_rank", default=0 if "q_lora_rank" in c.raw else 1536),
    }


def _experts(c: Config, f: Family) -> dict[str, Any]:
    n = c.look(f.n_experts)
    shared = c.look(f.shared, least=0)
    return {
        "n": n,
        "top_k": c.top_k(n, *f.top_k),
        "width": c.look(f.expert_ffn),
        "gated": f.gated,
        "bias": c.look(f.mlp_bias),
        "shared": shared,
        "shared_width": c.look(f.shared_ffn) if shared else 0,
        "shared_gate": f.shared_gate,
        "router_bias": c.look(f.router_bias),
    }


def nth(every: int) -> Nth:
    """Every so many layers the last one."""
    return lambda i: i % every == every - 1


def widths(c: Config, layers: int, width: int, full: Nth) -> list[int]:
    """A window in the layers that ``layer_types`` lists, or in those that are not ``full``."""
    kinds = c.kinds(layers, lambda i: FULL if full(i) else NEAR)
    return [width if kind == NEAR else 0 for kind in kinds]


def window(default: int, full: Nth = lambda i: False, *, null: int = 0) -> Widths:
    """The window of each layer, so wide when the key is absent; ``null``: when it is null."""

    def read(c: Config, layers: int) -> list[int]:
        key = "sliding_window"
        return widths(c, layers, c.size(key, default=null if key in c.raw else default), full)

    return read


def every(default: int, usual: int, *keys: str) -> Widths:
    """The same where a key says how many layers stand between those that see all; null is the default."""

    def read(c: Config, layers: int) -> list[int]:
        return window(default, nth(c.size(*keys, default=usual)), null=default)(c, layers)

    return read


def leading(default: int | None = 0, key: str = "first_k_dense_replace") -> Sparse:
    """Leading layers with a dense MLP, as a number, or what each layer is in a list of newer configs."""

    def read(c: Config, layers: int) -> list[bool]:
        if c.raw.get("mlp_layer_types") is not None and not c.has(key):
            kinds = c.kinds(layers, lambda i: "", "mlp_layer_types")
            if set(kinds) - {"dense", "sparse", "hash_moe"}:
                c.fail("mlp_layer_types", f"must list 'dense' or 'sparse' for each of {layers} layers")
            return [kind != "dense" for kind in kinds]
        dense = c.size(key, default=default, least=0)
        if dense > layers:
            c.fail(key, f"must not exceed num_hidden_layers = {layers}")
        return [i >= dense for i in range(layers)]

    return read


# Parts that a plain row of keys does not ask for: which key of a config tells of them, and what a shape would need to say.
_INDEXER = "the indexer of sparse attention: its heads, their width and how many tokens it picks"
_LINEAR = (
    "layers of linear attention: how many, their key and value heads and widths, and the width of their convolution"
)
_STATE = "layers of a state space: how many, their inner width, state, heads, groups and convolution"
_UNSAID: Mapping[str, str] = {
    **dict.fromkeys(("index_n_heads", "index_topk"), _INDEXER),
    **dict.fromkeys(("linear_num_value_heads", "linear_attn_config", "attn_type_list"), _LINEAR),
    **dict.fromkeys(("ssm_cfg", "state_size", "mamba_d_state", "ssm_state_size"), _STATE),
}
BY_HAND = (
    "write its sizes by hand with catalog.define('model', ...), or in a file for catalog.load_models (the page Your own "
    "shows how)"
)


def refuse_unsaid(c: Config, kind: str) -> None:
    """Raise an InputError for a config with a part that plain attention lacks."""
    text = c.inner("text_config") if isinstance(c.raw.get("text_config"), Mapping) else c
    found = [part for key, part in _UNSAID.items() if text.has(key)]
    kinds = text.raw.get("layer_types")
    if isinstance(kinds, list) and LINEAR in kinds:
        found.append(_LINEAR)
    if found:
        raise InputError(
            f"{c.file}: model_type {kind[:40]!r} has what its reader does not ask for yet, {found[0]}; read as plain attention its "
            f"parameters, cache and work would all be wrong. For an estimate without that part, {BY_HAND}"
        )


def rows(families: "Mapping[str, Family]", plain: bool = True) -> dict[str, Reader]:
    """Readers of families; ``plain``: of those that do not ask for parts beyond attention, and refuse a file with such."""

    def reader(kind: str, family: Family) -> Reader:
        def read(c: Config) -> Plan:
            if plain:
                refuse_unsaid(c, kind)
            return plan(c, family)

        return read

    return {kind: reader(kind, family) for kind, family in families.items()}
