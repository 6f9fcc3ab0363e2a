"""A model from a table of its blocks, and a decoder from its usual sizes."""

from collections.abc import Mapping
from inspect import Parameter, signature
from typing import Any

from mlsysim.catalog import blocks
from mlsysim.catalog.blocks import BLOCKS, Block
from mlsysim.catalog.operations import Layer
from mlsysim.errors import InputError, unknown_name

_TYPES = {"int": int, "bool": bool, "str": str}
NORMS = ("rmsnorm", "layernorm")
# What a table gives beside its blocks: a layer norm has a bias besides its weight, unless norm_bias says otherwise.
SIZES: Mapping[str, Any] = {
    "hidden": int,
    "vocab": int,
    "embedding_width": 0,  # of an embedding narrower than hidden, with a projection to hidden and one back (OPT-350m)
    "tied_embeddings": False,  # the LM head is the embedding matrix
    "head_bias": False,
    "learned_positions": 0,
    "table_parameters": 0,  # of further tables that a token looks rows up in
    "norm": "rmsnorm",
    "norm_bias": True,
    "norms_per_layer": 2,
    "final_norm": True,
    "embedding_norm": False,  # BLOOM
    "parallel": False,  # attention and MLP of a layer read the same input
}
_LARGEST = 10**7  # of a size; the largest vocabulary in use is below 300,000


def _check_row(row: Any) -> None:
    """Refuse what is no kind of layers."""
    if not isinstance(row, Mapping):
        raise InputError(
            f"layers: {str(row)[:40]!r} must be a table such as {{count = 3, attention = {{}}, mlp = {{}}}}"
        )
    for key in row:
        if key not in (*BLOCKS, "count", "norms") or key == "streams":
            raise InputError(f"layers: {unknown_name('block', key, (*BLOCKS, 'count', 'norms')).args[0]}")


def build(given: Mapping[str, Any]) -> dict[str, Any]:
    """The layers of a Model, and what stands before, behind and beside them, from a table of blocks.

    ``layers`` is a number, of layers that are alike and have every block of the table once, or a list of
    ``{count = 3, attention = {}, mlp = {width = 512}}``: a layer has the blocks that are named there, with the sizes of the
    table and those that differ. ``modules`` is such a layer too: one for multi-token prediction.

    Raises
    ------
    InputError
        Naming the key, its value and what it must be.
    """
    for key in given:
        if key not in (*SIZES, *BLOCKS, "layers", "modules"):
            raise InputError(unknown_name("field", key, (*SIZES, *BLOCKS, "layers", "modules")).args[0])
    sizes = {key: sized(key, given.get(key, kind), kind) for key, kind in SIZES.items()}
    hidden, vocab, norm = sizes["hidden"], sizes["vocab"], sizes["norm"]
    for key in ("hidden", "vocab"):
        _least(key, sizes[key])
    if norm not in NORMS:
        raise InputError(f"norm = {norm!r} must be one of {', '.join(NORMS)}")
    biased = norm == "layernorm" and sizes["norm_bias"]
    shared = {kind: _table(kind, given[kind]) for kind in BLOCKS if kind in given}
    layers = given.get("layers")
    rows = [{"count": layers} | {kind: {} for kind in shared if kind != "streams"}] if type(layers) is int else layers
    if not isinstance(rows, list) or not 0 < len(rows) <= 100:
        raise InputError(f"layers = {str(layers)[:40]!r} must be a number, or a list of 1 to 100 kinds of layers")

    def layer(row: Any, norms: int) -> Layer:
        _check_row(row)
        count = _least("count", sized("count", row.get("count", 1), int))
        mixers = [_made(kind, hidden, shared.get(kind, {}), row[kind]) for kind in _MIXERS if kind in row]
        mlps = [_made(kind, hidden, shared.get(kind, {}), row[kind]) for kind in _MLPS if kind in row]
        mixer: Block = ()
        for one in mixers:
            mixer = blocks.beside(mixer, one)
        of = blocks.joined(mixer, sum(mlps, ()), sizes["parallel"])
        around = blocks.streams(hidden, **shared["streams"]) * 2 if "streams" in shared else ()
        more = blocks.norms(hidden, sized("norms", row.get("norms", norms), int), biased)
        return Layer(count, (*of, *more, *around))

    found: dict[str, Any] = {"hidden": hidden, "vocab": vocab}
    found["layers"] = tuple(layer(row, sizes["norms_per_layer"]) for row in rows)
    found["before"] = blocks.embedding(
        hidden,
        vocab,
        width=sizes["embedding_width"],
        positions=sizes["learned_positions"],
        tables=sizes["table_parameters"],
        norm=sizes["embedding_norm"],
        norm_bias=biased,
    )
    found["after"] = blocks.head(
        hidden,
        vocab,
        width=sizes["embedding_width"],
        tied=sizes["tied_embeddings"],
        bias=sizes["head_bias"],
        norm=sizes["final_norm"],
        norm_bias=biased,
    )
    if "streams" in shared:
        found["after"] = (*blocks.summed(hidden, shared["streams"]["count"]), *found["after"])
    if "modules" in given:
        one = layer(given["modules"], sizes["norms_per_layer"] + 1)
        ends = blocks.summed(hidden, shared["streams"]["count"]) if "streams" in shared else ()
        found["modules"] = blocks.module(hidden, (*one.operations, *ends), one.count)
    return found


_MIXERS = ("attention", "latent_attention", "compressed_attention", "recurrence")
_MLPS = ("mlp", "experts")


def _made(kind: str, hidden: int, shared: Mapping[str, Any], given: Any) -> Block:
    """A block of a layer: the sizes of the table, and those in which it differs."""
    options = {**shared, **_table(kind, given)}
    picks = options.pop("indexer", None)
    if picks is not None:
        options["indexer"] = _call("indexer", hidden, {**picks, "q_rank": options.get("q_rank", 0)})
    return _call(kind, hidden, options)


def _call(kind: str, hidden: int, options: Mapping[str, Any]) -> Block:
    for name, p in _parameters(kind).items():
        if p.default is Parameter.empty and name not in options:
            raise InputError(f"{kind}: no {name}; add it")
    try:
        return _BUILDERS[kind](hidden, **options)
    except InputError as error:
        raise InputError(f"{kind}: {error}") from error


_BUILDERS = {**BLOCKS, "indexer": blocks.indexer}


def _parameters(kind: str) -> dict[str, Parameter]:
    return {name: p for name, p in signature(_BUILDERS[kind]).parameters.items() if name != "hidden"}


def _table(kind: str, given: Any) -> dict[str, Any]:
    """Options of a block, by name and of the type that its builder asks for."""
    if not isinstance(given, Mapping):
        raise InputError(f"{kind} = {str(given)[:40]!r} must be a table of sizes, such as {{width = 512}}")
    known, found = _parameters(kind), {}
    for name, value in given.items():
        if name not in known:
            raise InputError(f"{kind}: {unknown_name('field', name, known).args[0]}")
        if name == "indexer":
            found[name] = _table("indexer", value)
        else:
            found[name] = sized(f"{kind}.{name}", value, _TYPES[known[name].annotation.__name__])
    return found


def sized(name: str, value: Any, kind: Any) -> Any:
    """The value, if it is of the type (or of that of the default) and not beyond any size in use."""
    expected: type = kind if isinstance(kind, type) else type(kind)
    if value is kind and isinstance(kind, type):
        raise InputError(f"no {name}; give the missing sizes")
    if type(value) is not expected:
        raise InputError(f"{name} = {str(value)[:40]!r} must be of type {expected.__name__}")
    most = 10**12 if name == "table_parameters" else _LARGEST
    if isinstance(value, int) and not 0 <= value <= most:
        raise InputError(f"{name} = {value} must lie in [0, {most:,}]")
    return value


def _least(name: str, value: int) -> int:
    if value < 1:
        raise InputError(f"{name} = {value} must be at least 1")
    return value
