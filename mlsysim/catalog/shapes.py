"""Models: what a token passes, operation by operation, exactly enough to count parameters to the last one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlsysim._numeric import all_true
from mlsysim.catalog import display, entries, registry
from mlsysim.catalog.blocks import Block
from mlsysim.catalog.decoders import build, sized
from mlsysim.catalog.operations import (
    Attention,
    Compressor,
    Convolution,
    Gather,
    Indexer,
    Layer,
    Norm,
    Product,
    Scan,
    alike,
    described,
    each,
    parameters,
)
from mlsysim.catalog.sourced import Sourced, read_toml, sourced
from mlsysim.errors import InputError, unknown_name
from mlsysim.results import Report, Result, format_rows, plain
from mlsysim.tables import table


@dataclass(frozen=True)
class Model(Result):
    """A decoder-only language model: what a token passes before its layers, the layers, and what follows them.

    ``layers`` lists the kinds of layers with how many there are of each; every layer lists its operations. All counts
    (parameters, work, cache, messages) are sums over the list.
    """

    name: str
    hidden: int
    vocab: int
    layers: tuple[Layer, ...]
    before: Block = ()
    after: Block = ()
    modules: Layer | None = None  # which predict further tokens, beside the model; not in its count
    tower_parameters: int = 0  # what reads images or sound, beside the language model; not in its count
    rotary_rows: int = 0  # positions that a server tabulates sines and cosines for; 0: none, or not known
    rotary_dim: int = 0  # numbers of a head that are rotated; 0: all (of latent attention, its rotary part)
    parameters_only: str = ""  # what of cache and work no operation says, so that only parameters can be counted
    stored: str = ""  # number format in which the weights are published; empty: 16-bit
    stored_experts: str = ""  # that of the routed experts, where it is another
    aliases: tuple[str, ...] = ()
    family: str = ""
    estimated: bool = False  # a closed model whose shape is inferred; shown wherever it is used
    notes: str = ""
    source: str = ""  # bib key of the shape
    where: str = ""
    published: Mapping[str, Sourced] = field(default_factory=dict, repr=False)  # parameters, active_parameters

    def summary(self) -> list[str]:
        return _lines(self)

    def explain(self) -> Report:
        """Every operation of every kind of layer, and the published counts with their sources."""
        return _report(self)

    def to_dict(self) -> dict[str, Any]:
        """Sizes, layers with their operations, and published counts, for JSON."""
        listed = {
            "layers": [_layer(layer) for layer in self.layers],
            "before": [described(o) for o in self.before],
            "after": [described(o) for o in self.after],
            "modules": _layer(self.modules) if self.modules else None,
            "published": {k: plain(vars(f)) for k, f in self.published.items()},
        }
        held = {f.name: plain(getattr(self, f.name)) for f in fields(self) if f.name not in listed}
        return held | {"n_layers": self.n_layers} | listed

    def frame_rows(self) -> list[dict[str, Any]]:
        """A row per operation of each kind of layer."""
        return [{"model": self.name, "layers": x.count, **described(o)} for x in self.layers for o in x.operations]

    @cached_property
    def n_layers(self) -> int:
        return sum(layer.count for layer in self.layers)

    def products(self, part: str, name: str = "") -> tuple[tuple[int, Product], ...]:
        """Products of a part, and of a name, with how many layers run each."""
        every = ((n, o) for n, o in each(self.layers) if isinstance(o, Product))
        return alike((n, o) for n, o in every if o.part == part and name in ("", o.name))

    @cached_property
    def cores(self) -> tuple[tuple[int, Attention], ...]:
        """The cores of attention with how many layers run each: those over all keys first."""
        found = alike((layer.count, o) for layer in self.layers for o in layer.operations if isinstance(o, Attention))
        return tuple(sorted(found, key=lambda one: one[1].window > 0 and not one[1].ratio))

    @cached_property
    def indexers(self) -> tuple[tuple[int, Indexer], ...]:
        return alike((n, o) for n, o in each(self.layers) if isinstance(o, Indexer))

    @cached_property
    def compressors(self) -> tuple[tuple[int, Compressor], ...]:
        return alike((n, o) for n, o in each(self.layers) if isinstance(o, Compressor))

    @cached_property
    def recurrences(self) -> tuple[tuple[int, Scan, Convolution], ...]:
        """Recurrences with how many layers run each, and the convolution before them; one of no width where there is none."""
        found = []
        for layer in self.layers:
            scans = [o for o in layer.operations if isinstance(o, Scan)]
            before = [o for o in layer.operations if isinstance(o, Convolution)] or [Convolution(0, 0)]
            found += [(layer.count, (scan, before[0])) for scan in scans]
        return tuple((n, *both) for n, both in alike(found))

    @cached_property
    def compresses(self) -> bool:
        """Whether a layer makes one key of several tokens."""
        return any(core.ratio for _, core in self.cores)

    @property
    def core(self) -> Attention | None:
        """The attention of most note: over all keys where a layer has that."""
        return self.cores[0][1] if self.cores else None

    @property
    def is_mla(self) -> bool:
        return self.core is not None and self.core.latent_v > 0

    @property
    def attention(self) -> str:
        """``mha``, ``gqa``, ``mqa`` or ``mla``; ``none`` without."""
        if self.core is None:
            return "none"
        if self.is_mla:
            return "mla"
        if self.core.kv_heads == self.core.heads:
            return "mha"
        return "mqa" if self.core.kv_heads == 1 else "gqa"

    @property
    def heads(self) -> int:
        return self.core.heads if self.core else 0

    @property
    def kv_heads(self) -> int:
        return self.core.kv_heads if self.core else 0

    @property
    def head_dim(self) -> int:
        """Of a query and a key of one head; in latent attention without the rotary part."""
        return self.core.qk_dim - self.core.rope_dim if self.core else 0

    @cached_property
    def experts(self) -> Product | None:
        """The product that routed experts begin with: its copies are the experts, ``used`` of which a token meets."""
        return next((o for _, o in self.products("experts", "up")), None)

    @property
    def is_moe(self) -> bool:
        return self.experts is not None

    @property
    def n_experts(self) -> int:
        return self.experts.copies if self.experts else 0

    @property
    def top_k(self) -> int:
        return self.experts.used if self.experts else 0

    @cached_property
    def moe_ffn(self) -> int:
        """Width of one routed expert."""
        return max((o.k for _, o in self.products("experts", "down")), default=0)

    @cached_property
    def ffn(self) -> int:
        """Width of the dense MLP."""
        return max((o.k for _, o in self.products("dense_mlp", "down")), default=0)

    @cached_property
    def shared_ffn(self) -> int:
        """Width of all shared experts of a layer together."""
        return max((o.k * o.copies for _, o in self.products("shared_experts", "down")), default=0)

    def rank(self, name: str) -> int:
        """Numbers that a product of attention compresses to, such as ``q_down``; 0 without it."""
        return max((o.n for _, o in self.products("attention", name)), default=0)

    @cached_property
    def gated_mlp(self) -> bool:
        """Whether an MLP or an expert has a gate beside its way up."""
        ups, downs = ([o for p in ("dense_mlp", "experts") for _, o in self.products(p, n)] for n in ("up", "down"))
        return any(up.n == 2 * down.k for up, down in zip(ups, downs, strict=True)) or not ups

    @cached_property
    def n_attention_layers(self) -> int:
        return sum(n for n, _ in self.cores)

    @cached_property
    def n_moe_layers(self) -> int:
        return sum(n for n, _ in self.products("experts", "up"))

    @cached_property
    def n_mlp_layers(self) -> int:
        """Layers with an MLP, dense or a mixture of experts."""
        return self.n_moe_layers + sum(n for n, _ in self.products("dense_mlp", "up"))

    @cached_property
    def n_recurrent_layers(self) -> int:
        return sum(n for n, *_ in self.recurrences)

    @cached_property
    def n_mixed_layers(self) -> int:
        """Layers in which tokens meet: with attention, a recurrence, or both."""
        return sum(x.count for x in self.layers if any(isinstance(o, Attention | Scan) for o in x.operations))

    @cached_property
    def reach(self) -> int:
        """Tokens that a query reaches at most where it does not reach all: a window's, or those of the keys that are picked."""
        return max((ratio * most for _, core in self.cores for ratio, most in core.met), default=0)

    @cached_property
    def head(self) -> Product:
        """The LM head."""
        return next(o for o in self.after if isinstance(o, Product) and o.name == "head")

    @property
    def tied_embeddings(self) -> bool:
        """Whether the LM head is the embedding matrix."""
        return not self.head.stored

    @cached_property
    def learned_positions(self) -> int:
        return sum(o.rows for o in self.before if isinstance(o, Gather) and o.part == "positions")

    @property
    def n_mtp_layers(self) -> int:
        return self.modules.count if self.modules else 0

    def check_whole(self, owner: str) -> None:
        """Raise an InputError for a model of which only parameters can be counted.

        >>> from mlsysim import catalog
        >>> catalog.model("Llama-3.1-8B").check_whole("prefill")
        """
        if self.parameters_only:
            raise InputError(
                f"{owner}: of {self.name} only parameters can be counted, because no operation says its {self.parameters_only}; "
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


def _of(count: int, layers: int) -> str:
    return "" if count == layers else f", in {count} of {layers} layers"


def _attention_words(core: Attention) -> str:
    """Heads of an attention and how far it looks."""
    said = f"{core.heads} query and {core.kv_heads} key-value heads of {core.qk_dim}"
    if core.latent_v:
        size = core.qk_dim - core.rope_dim
        said = f"{core.heads} heads of {size} (latent attention, {core.latent_v} cached numbers and {core.rope_dim})"
    elif core.kv_heads == core.heads:
        said = f"{core.heads} heads of {core.qk_dim}"
    elif core.kv_heads == 1:
        said = f"{core.heads} query heads and one key-value head of {core.qk_dim}"
    said += f" that look back {core.window:,} tokens" if core.window else ""
    said += f" on {core.picked:,} keys a query, picked by an indexer" if core.picked else ""
    return said + (" that read the keys of another layer" if not core.cached else "")


def _lines(m: Model) -> list[str]:
    """A model in a few lines: parameters, layers, heads, experts, context, source."""
    count, active = m.published.get("parameters"), m.published.get("active_parameters")
    size = f"{int(count.value):,} parameters, " if count else ""
    about = "ESTIMATED SHAPE; " if m.estimated else ""
    attention = [_attention_words(core) + _of(n, m.n_layers) for n, core in m.cores]
    recurrent = [
        f"{scan.kind}, {scan.heads} states of {scan.rows} by {scan.columns}{_of(n, m.n_layers)}"
        for n, scan, _ in m.recurrences
    ]
    gated = "gated, " if m.gated_mlp else ""
    dense = [f"{gated}{o.k:,} wide{_of(n, m.n_layers)}" for n, o in m.products("dense_mlp", "down")]
    shared = [o for _, o in m.products("shared_experts", "up")]
    experts = [
        f"{o.copies} of width {o.k:,}, {o.used} a token"
        + (f", {shared[0].copies} shared" if shared else "")
        + f", in {n} of {m.n_layers} layers"
        for n, o in m.products("experts", "down")
    ]
    beside = (
        f"{m.n_mtp_layers} module{'s' * (m.n_mtp_layers > 1)} for multi-token prediction" if m.n_mtp_layers else "",
        f"{m.tower_parameters:,} parameters that read images or sound" if m.tower_parameters else "",
    )
    norms = [o for o in m.layers[0].operations if isinstance(o, Norm) and not o.inner]
    biased = " with bias" if any(o.bias for o in norms) else ""
    learned = f"{m.learned_positions:,} learned positions" if m.learned_positions else ""
    return format_rows(
        f"{m.name}: {about}{size}{m.n_layers} layers of width {m.hidden:,}",
        ("attention", "; ".join(attention)),
        ("recurrence", "; ".join(recurrent)),
        ("MLP", "; ".join(dense)),
        ("experts", "; ".join(experts)),
        ("active", f"{int(active.value):,} parameters a token" if active else ""),
        ("only counted", f"no operation says its {m.parameters_only}" if m.parameters_only else ""),
        ("beside it", "; ".join(part for part in beside if part)),
        ("context", learned or "positions are computed: no end in the shape"),
        (
            "vocabulary",
            f"{m.vocab:,}, {'one table for both ends' if m.tied_embeddings else 'embedding and head apart'}",
        ),
        ("norms", f"{len(norms)} a layer{biased}"),
        ("source", ", ".join(part for part in (m.source, m.where) if part)),
        (
            "ask it",
            "transformer.parameter_count(model) counts its parameters to the last one; explain() lists operations",
        ),
        ("notes", display.short(m.notes)),
    )


def _report(m: Model) -> Report:
    """Every operation of every kind of layer with its parameters, and the published counts with their sources."""
    ends = (("before the layers", 1, m.before), ("after the layers", 1, m.after))
    kinds = [(f"{layer.count} layers", layer.count, layer.operations) for layer in m.layers]
    kinds += [("beside: multi-token prediction", m.modules.count, m.modules.operations)] if m.modules else []
    rows = [
        (
            kind,
            one.pop("operation"),
            ", ".join(f"{k} {v}" for k, v in one.items()),
            f"{n * parameters(o):,}" if parameters(o) else "",
        )
        for kind, n, operations in (ends[0], *kinds, ends[1])
        for o in operations
        for one in [described(o)]
    ]
    counts = [(k.replace("_", " "), f"{f.value:,.0f}", str(f)) for k, f in m.published.items()]
    return Report(
        _lines(m)[0],
        (
            table(("Of", "Operation", "Sizes", "Parameters"), rows),
            table(("Published", "Value", "Where from"), counts),
        ),
        [
            f"shape: {m.source}, {m.where}" if m.source else "shape: given by the caller",
            *([m.notes] if m.notes else []),
        ],
    )


def _layer(layer: Layer) -> dict[str, Any]:
    return {"count": layer.count, "operations": [described(o) for o in layer.operations]}


_ABOUT = (
    *(
        "tower_parameters",
        "rotary_rows",
        "rotary_dim",
        "parameters_only",
        "stored",
        "stored_experts",
        "aliases",
        "family",
        "estimated",
    ),
    *("notes", "source", "where", "published"),
)


def decoder(
    name: str,
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    ffn: int,
    vocab: int,
    *,
    gated_mlp: bool = True,
    mlp_bias: bool = False,
    qkv_bias: bool = False,
    output_bias: bool = False,
    qk_norm: str = "",
    v_head_dim: int = 0,
    kv_lora_rank: int = 0,
    q_lora_rank: int = 0,
    qk_rope_head_dim: int = 0,
    attn_window: int = 0,
    n_windowed_layers: int = 0,
    n_experts: int = 0,
    top_k: int = 0,
    moe_ffn: int = 0,
    n_shared_experts: int = 0,
    shared_ffn: int = 0,
    shared_gate: bool = False,
    router_bias: bool = False,
    n_dense_layers: int = 0,
    parallel_block: bool = False,
    **others: Any,
) -> Model:
    """A decoder of the usual kind from the sizes of its layers, which are alike or of a few sorts.

    Parameters
    ----------
    name : str
        What it is called.
    layers, hidden, vocab : int
        Layers, width of the residual stream, rows of the embedding.
    heads, kv_heads, head_dim, v_head_dim : int
        Query heads, key and value heads, numbers of a query or key of one head, and of a value (0: the same).
    ffn : int
        Width of the dense MLP; 0 where every layer is a mixture of experts.
    kv_lora_rank, q_lora_rank, qk_rope_head_dim : int
        Above 0: multi-head latent attention, with these ranks and this rotary part.
    attn_window, n_windowed_layers : int
        So many layers look back no further than so many tokens.
    n_experts, top_k, moe_ffn, n_shared_experts, shared_ffn, n_dense_layers : int
        Routed experts, those that a token meets, their width; shared experts and their width (0: the same); leading layers
        with a dense MLP.
    gated_mlp, mlp_bias, qkv_bias, output_bias, qk_norm, shared_gate, router_bias
        As in :mod:`mlsysim.catalog.blocks`.
    parallel_block : bool
        Attention and MLP of a layer read the same input.
    **others
        ``tied_embeddings``, ``norm``, ``learned_positions`` and what else a table of the catalogue may hold beside its blocks.

    Returns
    -------
    Model

    Raises
    ------
    InputError
        Naming the size, its value and what it must be.

    >>> from mlsysim.transformer import parameter_count
    >>> parameter_count(decoder("toy", 2, 4, 2, 2, 2, 16, 8)).total
    596
    """
    given = {key: value for key, value in locals().items() if key not in ("name", "others")}
    try:
        _check_sizes(given)
    except InputError as error:
        raise InputError(f"model {name!r}: {error}") from error
    common: dict[str, Any] = {"heads": heads, "head_dim": head_dim, "value_dim": v_head_dim}
    mixer = "latent_attention" if kv_lora_rank else "attention"
    if kv_lora_rank:
        sizes = common | {"kv_rank": kv_lora_rank, "q_rank": q_lora_rank, "rope_dim": qk_rope_head_dim}
    else:
        sizes = common | {"kv_heads": kv_heads, "qkv_bias": qkv_bias, "output_bias": output_bias, "qk_norm": qk_norm}
    moe = {"n": n_experts, "top_k": top_k, "width": moe_ffn, "shared": n_shared_experts, "shared_width": shared_ffn}
    moe |= {"shared_gate": shared_gate, "router_bias": router_bias}
    tables: dict[str, Any] = {mixer: sizes, "parallel": parallel_block}
    if n_experts:
        tables["experts"] = moe | {"gated": gated_mlp, "bias": mlp_bias}
    if ffn:
        tables["mlp"] = {"width": ffn, "gated": gated_mlp, "bias": mlp_bias}
    kinds = alike((1, (i >= layers - n_windowed_layers, n_experts > 0 and i >= n_dense_layers)) for i in range(layers))
    tables["layers"] = [
        {"count": n, mixer: {"window": attn_window} if near else {}, "experts" if mixed else "mlp": {}}
        for n, (near, mixed) in kinds
    ]
    return _made(name, f"model {name!r}", tables | {"hidden": hidden, "vocab": vocab} | others)


def _check_sizes(given: Mapping[str, Any]) -> None:
    """Raise an InputError that names the size unless a decoder of these sizes can exist."""

    def need(condition: bool, name: str, why: str) -> None:
        if not condition:
            raise InputError(f"{name} = {given[name]!r} {why}")

    for name, p in signature(decoder).parameters.items():
        if name in given:
            sized(name, given[name], {"int": int, "bool": bool, "str": str}[p.annotation.__name__])
    experts, layers, dense, near = (
        given[key] for key in ("n_experts", "layers", "n_dense_layers", "n_windowed_layers")
    )
    for name in ("layers", "hidden", "heads", "kv_heads", "head_dim", "vocab"):
        need(given[name] >= 1, name, "must be at least 1")
    need(layers <= 10_000, "layers", "must be at most 10,000")
    for name in ("n_dense_layers", "n_windowed_layers"):
        need(given[name] <= layers, name, f"must not exceed layers = {layers}")
    need((near > 0) == (given["attn_window"] > 0), "attn_window", "needs n_windowed_layers, and the reverse")
    need(given["ffn"] >= 1 or (experts > 0 and not dense), "ffn", "must be at least 1")
    for name in ("top_k", "moe_ffn"):
        need(experts == 0 or given[name] >= 1, name, "must be at least 1 in a mixture of experts")
        need(experts > 0 or given[name] == 0, name, "needs n_experts > 0")
    need(experts > 0 or given["n_shared_experts"] == 0, "n_shared_experts", "needs n_experts > 0")
    latent = given["kv_lora_rank"] > 0
    need(not latent or given["qk_rope_head_dim"] >= 1, "qk_rope_head_dim", "must be at least 1 with kv_lora_rank > 0")


def _made(name: str, where: str, given: Mapping[str, Any]) -> Model:
    """A model from a table of blocks and what is told about it."""
    about = {key: value for key, value in given.items() if key in _ABOUT}
    try:
        return Model(name, **build({key: value for key, value in given.items() if key not in about}), **about)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def read_model(name: str, raw: Any, file: str) -> Model:
    """A model from its table; errors name file, model and field."""
    where = f"{file}: {name[:60]}"
    if not isinstance(raw, Mapping):
        raise InputError(f'{where} is not a table; start it with ["{name[:60]}"]')
    given: dict[str, Any] = {}
    published: dict[str, Sourced] = {}
    kinds = {f.name: type(f.default) for f in fields(Model) if f.name in _ABOUT}
    for key, value in raw.items():
        if key in ("parameters", "active_parameters"):
            published[key] = sourced(value, "1", f"{where}, {key}", file)
        elif key == "aliases":
            given[key] = tuple(map(str, value)) if isinstance(value, list) else (str(value),)
        elif key in kinds and type(value) is not kinds[key]:
            raise InputError(f"{where}, {key} = {str(value)[:40]!r} must be of type {kinds[key].__name__}")
        elif key == "published":
            raise InputError(f"{where}: {unknown_name('field', key, ('parameters', 'active_parameters'))}")
        else:
            given[key] = value
    given["published"] = MappingProxyType(published)
    if "config" in raw:  # what the reader of config.json asks for
        from mlsysim.catalog.hf import fields_of

        if not isinstance(config := given.pop("config"), Mapping):
            raise InputError(f"{where}, config = {str(config)[:40]!r} must be a table with the keys of a config.json")
        try:
            return Model(**(fields_of(config) | {"name": name} | given))
        except TypeError as error:
            raise InputError(
                f"{where}: beside config {str(error).rpartition(' ')[2]} is no field of a model"
            ) from error
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
    if "heads" in raw:  # the sizes of a decoder in place of blocks
        try:
            return decoder(name, **given)
        except TypeError as error:
            raise InputError(f"{where}: {str(error).replace('decoder() ', '')}; give the missing sizes") from error
        except InputError as error:
            raise InputError(f"{file}: {error}") from error
    return _made(name, where, given)


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
    from mlsysim.catalog.hf import fields_of

    return Model(**fields_of(source))


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
def shipped_models() -> entries.LazyTable[Model]:
    """All shipped models, in the order of their files."""
    return entries.LazyTable("model", "models", read_model)


def models() -> Mapping[str, Model]:
    """Every model of the catalogue, by canonical name."""
    return registry.joined("model", shipped_models())


def _elsewhere(name: object) -> str:
    """Where the catalogue has that name, if it is of something that is no language model; else nothing."""
    from mlsysim.catalog import other_models  # here: whoever makes no mistake need not read them
    from mlsysim.catalog.convnets import convnets

    found = {
        "catalog.patch_transformer": other_models.patch_transformers(),
        "other_workloads.diffusion_unet": other_models.diffusion_unets(),
        "catalog.recommender": other_models.recommenders(),
        "catalog.convnet": convnets(),
    }
    wanted = registry.fold(str(name))
    for kind, known in found.items():
        for entry in known:
            if wanted in (registry.fold(entry), registry.fold(entry).replace("/", "-")):
                return f"{entry} is no language model: {kind}({entry!r}), and mlsysim.other_workloads or flops for its work"
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
    if (mine := registry.find("model", name)) is not None:
        return mine  # type: ignore[no-any-return]
    found = shipped_models()
    given = name
    if isinstance(name, str) and registry.fold(name) not in found.names:
        name = name.rpartition("/")[2] or name
        name = next((owned for owned in found.names if owned.rpartition("/")[2] == registry.fold(name)), name)
    if not isinstance(name, str) or registry.fold(name) not in found.names:
        hint = _elsewhere(given) or "a Hugging Face config.json can stand in for it"
        raise unknown_name("model", given, models(), hint, found.aliases)
    return found[found.names[registry.fold(name)]]


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
    short = registry.fold(name.rpartition("/")[2])
    names = (found.name, *(alias.rpartition("/")[2] for alias in found.aliases))
    said = next((known for known in names if registry.fold(known) == short), found.name)
    if said == found.name:
        return found
    if (id(found), said) not in _asked:
        _asked[id(found), said] = found, replace(found, name=said)
    return _asked[id(found), said][1]
