"""Display of catalogue entries: a few lines, and every figure with its source."""

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar

from mlsysim import units
from mlsysim.catalog.operations import Norm, described, parameters
from mlsysim.catalog.sourced import Sourced
from mlsysim.results import Displayable, Report, Result, format_rows, plain
from mlsysim.results import format_value as written
from mlsysim.tables import table

if TYPE_CHECKING:
    from mlsysim.catalog.hardware import Device
    from mlsysim.catalog.operations import Attention
    from mlsysim.catalog.shapes import Model
    from mlsysim.drawing import Drawing

Kind = TypeVar("Kind")
_MOST_FIGURES, _MOST_PEAKS, _MOST_LETTERS = 12, 4, 1300


class Named(Mapping[str, Kind], Displayable):
    """A mapping of entries of one kind that shows their names, not all that they hold."""

    _kind: str

    def _lines(self) -> list[str]:
        names = list(self)
        fit = sum(end <= _MOST_LETTERS for end in accumulate(len(name) + 2 for name in names))
        said = ", ".join(names[:fit]) + (f" and {len(names) - fit} more" if len(names) > fit else "")
        return format_rows(
            f"{len(names)} of kind {self._kind}", ("names", said), ("ask it", f"catalog.{self._kind}(name)")
        )

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return {**self, **other}

    def explain(self) -> Report:
        """Every entry by the first line of what it shows."""
        rows = [(name, repr(entry).split("\n")[0]) for name, entry in self.items()]
        return Report(f"{len(rows)} of kind {self._kind}", (table(("Name", "Entry"), rows),))

    def to_dict(self) -> dict[str, Any]:
        """Every entry, for JSON."""
        return dict(plain(dict(self)))

    def frame_rows(self) -> list[dict[str, Any]]:
        """A row per entry with the values of its figures."""
        rows = []
        for name, entry in self.items():
            figures = figures_of(entry)
            rows.append({"name": name, **({k: f.value for k, f in figures.items()} if figures else plain(entry))})
        return rows


class Catalogue(Named[Kind]):
    """Entries of one kind by name, as a dictionary holds them."""

    def __init__(self, kind: str, entries: Mapping[str, Kind]) -> None:
        self._kind, self._entries = kind, entries

    def __getitem__(self, name: str) -> Kind:
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def keys(self) -> KeysView[str]:
        return self._entries.keys()

    def values(self) -> ValuesView[Kind]:
        return self._entries.values()

    def items(self) -> ItemsView[str, Kind]:
        return self._entries.items()


def figures_of(entry: Any) -> dict[str, Sourced]:
    """The sourced figures that an entry holds, by name."""
    held = {name: value for name, value in vars(entry).items() if isinstance(value, Sourced)}
    for name in ("fields", "published"):
        found = getattr(entry, name, None)
        held |= {k: v for k, v in found.items() if isinstance(v, Sourced)} if isinstance(found, Mapping) else {}
    return held


class ShownEntry(Result):
    """An entry with sourced figures: a line for each, and a table that says where each was read."""

    name: str

    def _words(self) -> str:
        """What is said of the entry beside its name."""
        said = [
            str(getattr(self, n))
            for n in ("kind", "vendor", "date", "item", "algorithm", "applies_to")
            if getattr(self, n, "")
        ]
        return ", ".join(said)

    def summary(self) -> list[str]:
        words, figures = self._words(), figures_of(self)
        rows = [
            (name.replace("_", " "), f"{figure.value:.0f}" if name == "year" else figure.words)
            for name, figure in list(figures.items())[:_MOST_FIGURES]
        ]
        left = len(figures) - len(rows)
        note = str(getattr(self, "notes", "") or getattr(self, "note", ""))
        more = ("more", f"{left} other figures: explain()" if left else "")
        return format_rows(self.name + (f": {words}" if words else ""), *rows, more, ("notes", _short(note)))

    def explain(self) -> Report:
        """Every figure, where it was read, what was changed of it, and where else it stands."""
        rows = [
            (
                name,
                f"{f.value:.0f}" if name == "year" else written(f.value, f.unit, 6),
                f.printed,
                str(f),
                "; ".join(f.agree),
                f.retrieved,
            )
            for name, f in figures_of(self).items()
        ]
        notes = [str(getattr(self, n)) for n in ("notes", "note") if getattr(self, n, "")]
        return Report(
            self.summary()[0],
            (table(("Figure", "Value", "Printed", "Where from", "The same in", "Read on"), rows),),
            notes,
        )

    def to_dict(self) -> dict[str, Any]:
        """Name, words, and figures in SI units with their sources, for JSON."""
        figures = figures_of(self)
        held: dict[str, Any] = {
            k: _plain(v) for k, v in vars(self).items() if k not in ("fields", "published", *figures)
        }
        return held | {"figures": {k: plain(vars(f)) for k, f in figures.items()}}

    def frame_rows(self) -> list[dict[str, Any]]:
        """A row per figure."""
        return [{"name": self.name, "figure": k, **plain(vars(f))} for k, f in figures_of(self).items()]


def _plain(value: Any) -> Any:
    return getattr(value, "name", None) if isinstance(value, Displayable) else plain(value)


def _short(text: str, most: int = 240) -> str:
    return text if len(text) <= most else text[: most - 1].rsplit(" ", 1)[0] + " …"


def device_lines(d: "Device") -> list[str]:
    """A device in a few lines: peaks, memory, links, power."""
    peaks = dict(d.peak_flops)
    born = f", {d.year}" if d.has("year") else ""
    first = next((p for p in ("bf16", "fp16", "int8") if p in peaks), next(iter(peaks), ""))
    fastest = f"{written(peaks[first], 'FLOP/s')} dense in {first}" if peaks else ""
    maker = " ".join(word for word in (d.vendor, d.architecture) if word)
    have = [fastest, written(d.memory_bandwidth, "byte/s")]
    memory = ""
    if d.has("memory_capacity") or d.has("usable_memory"):
        have.append(written(d.usable_memory, "byte"))
        memory = f"{written(d.usable_memory, 'byte')} for everything: {d.origin('usable_memory')}"
    link = (
        f"{written(d.scale_up_bandwidth, 'byte/s')} one way, all links together" if d.has("scale_up_bandwidth") else ""
    )
    if link and d.has("scale_up_domain"):
        link += f", between {d.scale_up_domain} devices"
    given = (
        "memory_bandwidth",
        "memory_capacity",
        "usable_memory",
        "scale_up_bandwidth",
        "scale_up_domain",
        "tdp",
        "year",
    )
    more = [name for name in d.fields if name not in given and not name.startswith("peak_flops.")]
    return format_rows(
        f"{d.name} ({maker or d.kind}{born}{', ' + d.status if d.status else ''}): {', '.join(part for part in have if part)}",
        ("dense peaks", ", ".join(f"{p} {written(v, 'FLOP/s')}" for p, v in peaks.items())),
        ("memory", memory),
        ("links", link),
        ("power", written(d.tdp, "W") if d.has("tdp") else ""),
        ("source", str(d.fields["memory_bandwidth"]) if d.has("memory_bandwidth") else ""),
        ("more", ", ".join(more[:12])),
        ("notes", _short(d.notes)),
    )


def device_chart(d: "Device") -> "Drawing | None":
    """Its rooflines: a roof for each of its first precisions."""
    from mlsysim.drawing import DASHES, PALETTE, Chart, Line, log_space

    lines = []
    peaks = dict(d.peak_flops)
    first: list[str] = [
        p for p in ("bf16", "fp16", "fp8", "fp4", "fp32") if p in peaks and (p != "fp16" or "bf16" not in peaks)
    ]
    for i, precision in enumerate((first or list(peaks))[:_MOST_PEAKS]):
        peak = peaks[precision]
        ridge = peak / d.memory_bandwidth
        xs = sorted({*log_space(0.1, 1e4), ridge})
        roof = [min(peak, x * d.memory_bandwidth) / units.TFLOP for x in xs]
        lines.append(Line(xs, roof, precision, PALETTE[i], DASHES[i]))
    return Chart("arithmetic intensity (FLOP/byte)", "at most (TFLOP/s)", lines, title=d.name) if lines else None


def _of(count: int, layers: int) -> str:
    return "" if count == layers else f", in {count} of {layers} layers"


def _attention_words(core: "Attention") -> str:
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


def model_lines(m: "Model") -> list[str]:
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
        ("notes", _short(m.notes)),
    )


def model_report(m: "Model") -> Report:
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
        model_lines(m)[0],
        (
            table(("Of", "Operation", "Sizes", "Parameters"), rows),
            table(("Published", "Value", "Where from"), counts),
        ),
        [
            f"shape: {m.source}, {m.where}" if m.source else "shape: given by the caller",
            *([m.notes] if m.notes else []),
        ],
    )
