"""Write what the book must not type: numbers in prose, the equation index, the tables of devices and models.

    python scripts/make_book_parts.py [--check]

Writes ``_variables.yml``, ``book/_equations.qmd``, the glossary, the tables of the data appendices and the scores of the reality
checks (``book/_reality.qmd``, ``book/reality-summary.csv``) and the reference (``book/reference/``) from the library;
``--check`` fails if one of them is not what the library says today.
"""

import importlib
import math
import pkgutil
import re
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import book_glossary
import book_reality
import book_scoreboard
import chapter_numbers
import course_plan
import make_reference
import yaml
from chapter_numbers import whole
from reference import assistant, pages, sheet, surface, tools

import mlsysim
from mlsysim import catalog, flops, units
from mlsysim.catalog import Convnet, Device, Link, Model, Node, Price, Protocol, Sourced
from mlsysim.catalog.other_models import PatchTransformer, Recommender
from mlsysim.course import pictures
from mlsysim.equations import registered
from mlsysim.evidence import rows
from mlsysim.transformer import mtp_parameters, parameter_count

HEADER = "<!-- Written by scripts/make_book_parts.py from the library: change the library, not this file. -->\n\n"


def _numbers(chapter: str) -> dict[str, Any]:
    found: dict[str, Any] = importlib.import_module(f"chapter_numbers.{chapter}").numbers()
    return found


def variables() -> str:
    """The numbers of every chapter; those that play a server are long, and stand at the end of the alphabet."""
    found = sorted((module.name for module in pkgutil.iter_modules(chapter_numbers.__path__)), reverse=True)
    with ProcessPoolExecutor() as pool:
        values = dict(zip(found, pool.map(_numbers, found), strict=True))
    text = yaml.safe_dump(values, allow_unicode=True, sort_keys=True, width=120)
    text = re.sub(r"(?<=\d) (?=[^\W\d]|%)", "\u00a0", text)  # a number and its unit stay on one line
    return "# Written by scripts/make_book_parts.py from the library: change the library, not this file.\n" + text


def equation_index() -> str:
    latex = make_reference.latex_by_label()
    rows = []
    order = list(latex)
    for e in sorted(registered().values(), key=lambda e: order.index(e.label) if e.label in latex else len(order)):
        name = surface.of(e.function)
        called = name.dotted if name else e.qualified_name.removeprefix("mlsysim.")
        call = f"`{called}({', '.join(e.units)})`"
        if name:
            call = f"[{call}](reference/{pages.address(name)})"
        cells = (
            f"@{e.label}",
            f"${latex.get(e.label, '')}$<br>{call}, in `{e.result}`",
            f"[@{e.source}, {e.where}]",
        )
        rows.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    head = "| Equation | Formula, function in `mlsysim` and unit | Source |\n|:--|:----------------|:-----|\n"
    return (
        HEADER
        + head
        + "\n".join(rows)
        + "\n\n: Every equation of the book, its function and its source. {#tbl-equations}\n"
    )


def _cell(device: Device, field: str, unit: str, prefix: str | None = None) -> str:
    return units.format(device.fields[field].value, unit, prefix=prefix) if device.has(field) else "–"


def _row(*cells: str) -> str:
    return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |\n"


def _at(key: str, where: str) -> str:
    """A citation with the place; brackets would end it early, a semicolon would begin another."""
    return f"[@{key}, {where.replace(']', ')').replace('[', '(').replace(';', ',')}]"


def _cite(s: Sourced) -> str:
    """The source with its place, where we read it, and the other places with the same value."""
    first = f"[@{s.source}], in {_at(s.read_in, s.where)}" if s.read_in else _at(s.source, s.where)
    agree = [_at(*a.split(", ", 1)) for a in s.agree]
    alike = f", the same in {', '.join(agree)}" if agree else ""
    return first + ("" if s.primary else " (secondary)") + f", read {s.retrieved}" + alike


def device_tables() -> str:
    parts = [
        HEADER,
        "| Device | Year | BF16 or FP16, dense | Memory | Usable | Bandwidth | Link, one way | Domain | TDP |\n",
    ]
    parts.append("|:--|--:|--:|--:|--:|--:|--:|--:|--:|\n")
    devices = sorted(catalog.devices().values(), key=lambda d: (d.vendor, d.year if d.has("year") else math.inf))
    for d in devices:
        half = next((f"peak_flops.{p}" for p in ("bf16", "fp16") if d.has(f"peak_flops.{p}")), "")
        cells = (
            d.name,
            str(d.year) if d.has("year") else "–",
            _cell(d, half, "FLOP/s", "T"),
            _cell(d, "memory_capacity", "byte"),
            _cell(d, "usable_memory", "byte"),
            _cell(d, "memory_bandwidth", "byte/s"),
            _cell(d, "scale_up_bandwidth", "byte/s"),
            str(d.scale_up_domain) if d.has("scale_up_domain") else "–",
            _cell(d, "tdp", "W", ""),
        )
        parts.append("| " + " | ".join(cells) + " |\n")
    parts.append(
        "\n: The device catalogue, by maker and year. Memory is what the datasheet prints, usable what the driver reports to a program. A dash means that no source we read gives the figure; the printed memory is then taken as usable. {#tbl-devices}\n"
    )
    for d in devices:
        parts.append(f'\n::: {{.callout-note collapse="true" title="{d.name} ({d.vendor} {d.architecture})"}}\n')
        if d.notes:
            parts.append(d.notes + "\n\n")
        parts.append("| Field | Value | As printed | Changed | Source |\n|:---|:---|:---|:-----|:--------|\n")
        for name, s in d.fields.items():
            value = str(int(s.value)) if s.unit == "1" else units.format(s.value, s.unit)
            row = (f"`{name}`", value, s.printed, s.transform, _cite(s))
            parts.append(_row(*row))
        parts.append("\n:::\n")
    return "".join(parts)


def _table(caption: str, label: str, heads: dict[str, str], rows: list[tuple[str, ...]]) -> str:
    """A table whose columns are given by title and Markdown rule; × and / never end a line."""
    lines = [_row(*heads), "|" + "|".join(heads.values()) + "|\n", *(_row(*row) for row in rows)]
    text = "".join(lines).replace(" × ", "\u00a0×\u00a0").replace(" / ", "\u00a0/\u00a0")
    return f"{text}\n: {caption} {{#{label}}}\n\n"


def _model_row(m: Model) -> tuple[str, ...]:
    heads = f"{m.heads}" if m.is_mla or m.kv_heads == m.heads else f"{m.heads} / {m.kv_heads}"
    mlp = f"{m.n_experts} × {m.moe_ffn:,}" if m.is_moe else f"{m.ffn:,}"
    none = not m.n_attention_layers
    kind = "–" if none else m.attention.upper() + (" *" if m.recurrences or m.indexers else "")
    head = (m.name + (" (estimated)" if m.estimated else ""), str(m.n_layers), f"{m.hidden:,}", kind)
    return (
        *head,
        "–" if none else f"{heads} × {m.head_dim}",
        mlp if m.n_mlp_layers else "–",
        f"{m.vocab:,}",
        f"{parameter_count(m).total:,}",
    )


def _mixture_row(m: Model) -> tuple[str, ...]:
    shared = next((f"{o.copies} × {o.k:,}" for _, o in m.products("shared_experts", "down")), "–")
    routed = (f"{m.n_experts} × {m.moe_ffn:,}", str(m.top_k), shared, f"{m.n_moe_layers} / {m.n_layers}")
    return (m.name, *routed, f"{flops.active_parameters(m):,}")


def _unlike_row(m: Model) -> tuple[str, ...]:
    """Layers that are not plain attention over all tokens, and what a model's stored weights hold beside it."""
    state = kept = picked = "–"
    for n, scan, conv in m.recurrences:
        state = f"{scan.kind}, {n} / {m.n_layers}"
        kept = f"{scan.heads * scan.rows * scan.columns + max(conv.width - 1, 0) * conv.channels:,}"
    for n, core in m.cores:
        picked = f"{core.picked:,} keys, {n} / {m.n_layers}" if core.picked else picked
    further = f"{mtp_parameters(m):,}" if m.n_mtp_layers else "–"
    return (
        m.name,
        f"{m.n_attention_layers} / {m.n_layers}",
        state,
        kept,
        picked,
        further,
        f"{m.tower_parameters:,}" if m.tower_parameters else "–",
    )


def _beyond_rows() -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for e in catalog.patch_transformers().values():
        shape = f"{e.layers} layers of {e.hidden:,} over {e.tokens:,} tokens"
        rows.append((e.name, shape, f"{e.parameters:,}", f"{e.macs / 1e9:,.1f} G"))
    r = catalog.recommender("DLRM-DCNv2")
    rows.append((r.name, f"{len(r.tables)} tables of width {r.width}", f"{r.parameters:,}", f"{r.macs / 1e9:,.3f} G"))
    return rows


def _model_notes(m: Model | Convnet | PatchTransformer | Recommender) -> str:
    """One paragraph: where the shape and each figure were read, what was changed, what is odd."""
    sentences = [f"**{m.name}.** Shape: {_at(m.source, m.where)}."]
    for name, s in m.published.items():
        printed = f", printed as {s.printed}" if s.printed and s.printed != f"{int(s.value):,}" else ""
        changed = f" ({s.transform})" if s.transform else ""
        figure = name.replace("_", " ").capitalize()
        sentences.append(f"{figure}: {int(s.value):,}{printed}{changed}, {_cite(s)}.")
    return " ".join([*sentences, m.notes]).rstrip() + "\n\n"


def model_tables() -> str:
    models = catalog.models().values()
    columns = {"Model": ":----", "Layers": "--:", "Hidden": "--:", "Kind": ":--", "Heads": "---:", "MLP": "---:"}
    columns |= {"Vocabulary": "---:", "Parameters": "----:"}
    mixtures = {"Model": ":----", "Routed experts": "---:", "Active": "--:", "Shared": "---:", "Layers": "---:"}
    mixtures |= {"Active parameters": "----:"}
    parts = [
        HEADER,
        _table("The models catalogue.", "tbl-models", columns, [_model_row(m) for m in models]),
        _table(
            "The mixtures of experts: routed experts and their width, how many of them a token meets, shared experts, "
            "layers that are mixtures, and the parameters one token meets.",
            "tbl-mixtures",
            mixtures,
            [_mixture_row(m) for m in models if m.is_moe],
        ),
    ]
    unlike = {"Model": ":----", "With attention": "--:", "Recurrence": ":---", "State of a layer": "---:"}
    unlike |= {"Keys picked": "---:", "Further tokens": "---:", "Towers": "---:"}
    parts.append(
        _table(
            "Models whose layers are unlike, marked with a star above, or which hold more than the language model: layers "
            "with attention, recurrences and how many numbers each keeps of a sequence, keys that an indexer picks, and the "
            "parameters of modules for multi-token prediction and of towers, which no count includes.",
            "tbl-unlike",
            unlike,
            [_unlike_row(m) for m in models if m.recurrences or m.indexers or m.n_mtp_layers or m.tower_parameters],
        )
    )
    parts.append(_convnet_table())
    beyond = {"Network": ":----", "Shape": ":----", "Parameters": "----:", "Multiply-adds": "---:"}
    parts.append(
        _table(
            "Vision, diffusion and recommendation: one forward pass of one image or sample.",
            "tbl-beyond",
            beyond,
            _beyond_rows(),
        )
    )
    others: list[PatchTransformer | Recommender] = [
        *catalog.patch_transformers().values(),
        catalog.recommender("DLRM-DCNv2"),
    ]
    notes = "".join(_model_notes(e) for e in others)
    parts.append(f'::: {{.callout-note collapse="true" title="Beyond language"}}\n{notes}:::\n\n')
    for family in dict.fromkeys(m.family for m in models):
        parts.append(f'::: {{.callout-note collapse="true" title="{family}"}}\n')
        parts += [_model_notes(m) for m in models if m.family == family]
        parts.append(":::\n\n")
    return "".join(parts)


def _convnet_table() -> str:
    heads = {"Network": ":----", "Blocks": "---:", "Block": ":---", "Parameters": "----:", "Published": "----:"}
    heads |= {"Multiply-adds": "---:", "Published ": "---:"}
    rows: list[tuple[str, ...]] = []
    for c in catalog.convnets().values():
        count, macs = c.published.get("parameters"), c.published.get("macs")
        shape = (c.name, "–".join(map(str, c.blocks)), "bottleneck" if c.bottleneck else "basic")
        printed = (count.printed or f"{int(count.value):,}") if count else "–"
        counted = (f"{c.parameters:,}", printed, f"{c.macs / 1e9:.3f} G")
        rows.append((*shape, *counted, f"{macs.value / 1e9:.2f} G" if macs else "–"))
    caption = (
        "Residual networks of version 1.5 for images of 224 × 224 and 1,000 classes: blocks per stage, parameters, and the "
        "multiply-adds of one forward pass (torchvision prints these under the head GFLOPS)."
    )
    notes = "".join(_model_notes(c) for c in catalog.convnets().values())
    return _table(caption, "tbl-convnets", heads, rows) + (
        f'::: {{.callout-note collapse="true" title="Residual networks"}}\n{notes}:::\n\n'
    )


def _figure(s: Sourced) -> str:
    if s.unit == "1":
        return f"{s.value:g}"
    return units.format(s.value, s.unit)


def _entry_notes(name: str, notes: str, fields: Mapping[str, Sourced]) -> str:
    """One paragraph: every figure of a link, node or protocol with its source and what was changed."""
    sentences = [f"**{name}.** {notes}".rstrip()]
    for key, s in fields.items():
        printed = f", printed as {s.printed}" if s.printed else ""
        changed = f" ({s.transform})" if s.transform else ""
        sentences.append(f"{key.replace('_', ' ').capitalize()}: {_figure(s)}{printed}{changed}, {_cite(s)}.")
    return " ".join(sentences) + "\n\n"


def network_tables() -> str:
    links, nodes = catalog.links().values(), catalog.nodes().values()

    def link_row(k: Link) -> tuple[str, ...]:
        each = f"{k.links} × {units.format(k.link_bandwidth, 'byte/s')}" if k.has("link_bandwidth") else "–"
        plan = units.format(k.planned_bandwidth, "byte/s") if k.has("planned_bandwidth") else "–"
        domain = str(k.domain) if k.has("domain") else "–"
        return (k.name, k.kind, k.topology, units.format(k.bandwidth, "byte/s"), each, plan, domain)

    def node_row(n: Node) -> tuple[str, ...]:
        out = f"{n.nics} × {next(iter(n.scale_out.aliases), n.scale_out.name)}"
        inside = units.format(n.scale_up_bandwidth, "byte/s") if n.scale_up is not None else "–"
        rates = (inside, units.format(n.scale_out_bandwidth, "byte/s"))
        return (
            n.name,
            f"{n.devices} × {n.device.name}",
            str(n.domain),
            rates[0],
            out,
            rates[1],
            f"{n.bandwidth_ratio:.3g}" if n.scale_up is not None else "–",
        )

    def protocol_row(p: Protocol) -> tuple[str, ...]:
        steps = [units.format(p.fields[f].value, "s") if p.has(f) else "–" for f in ("scale_up_step", "scale_out_step")]
        return (p.name, p.algorithm.replace("_", " "), units.format(p.base_latency, "s"), *steps, f"{p.payload:g}")

    link_heads = {"Link": ":---", "Kind": ":--", "Topology": ":--", "One way": "--:", "Links": "--:"}
    link_heads |= {"Planned by NCCL": "--:", "Domain": "--:"}
    node_heads = {"Node": ":---", "Devices": ":----", "Domain": "-:", "Inside": "--:", "Adapters": ":--"}
    node_heads |= {"Out": "--:", "Ratio": "-:"}
    step_heads = {"Protocol": ":---", "Algorithm": ":--", "Call": "--:", "Step inside": "--:", "Step outside": "--:"}
    step_heads |= {"Payload": "--:"}
    parts = [
        HEADER,
        _table(
            "Links, one way: of one device with all its links (scale-up, host), or of one adapter (scale-out).",
            "tbl-links",
            link_heads,
            [link_row(k) for k in links],
        ),
        _table(
            "Nodes: bandwidths per device and one way, inside the scale-up domain and out of the node, and their ratio.",
            "tbl-nodes",
            node_heads,
            [node_row(n) for n in nodes],
        ),
        _table(
            "What NCCL's own cost model charges for a call and for a step, and the share of its planned bandwidth that is payload.",
            "tbl-protocols",
            step_heads,
            [protocol_row(p) for p in catalog.protocols().values()],
        ),
    ]
    for title, entries in (("Links", links), ("Nodes", nodes), ("Protocols", catalog.protocols().values())):
        parts.append(f'::: {{.callout-note collapse="true" title="{title}: sources"}}\n')
        parts += [_entry_notes(e.name, e.notes, e.fields) for e in entries]
        parts.append(":::\n\n")
    return "".join(parts)


def place_tables() -> str:
    """The appendix on grids, facilities and prices."""
    grids = sorted(catalog.grids().values(), key=lambda g: (g.kind, g.carbon_intensity))
    facilities, prices = catalog.facilities().values(), catalog.prices().values()

    def price_row(p: Price) -> tuple[str, ...]:
        value = "a set of assumptions" if p.kind == "rule" else units.format(p.value, p.fields[p.kind].unit)
        return (p.name, p.kind, p.date, value)

    grid_heads = {"Grid": ":---", "Kind": ":--", "Year": "--:", "Location-based": "--:"}
    facility_heads = {"Facility": ":---", "PUE": "--:", "WUE": "--:"}
    price_heads = {"Price": ":----", "Kind": ":--", "Date": ":--", "Value": "--:"}
    parts = [
        HEADER,
        _table(
            "Carbon intensity of electricity: countries and other places in one year, and sources of electricity.",
            "tbl-places-grids",
            grid_heads,
            [(g.name, g.kind, str(g.year), units.format(g.carbon_intensity, "kg/J", 3)) for g in grids],
        ),
        _table(
            "Facilities: energy over IT energy, and litres on the site per IT kilowatt-hour. A dash: no source we read gives it.",
            "tbl-places-facilities",
            facility_heads,
            [(f.name, f"{f.pue:g}", units.format(f.wue, "L/J") if f.has("wue") else "–") for f in facilities],
        ),
        _table(
            "Dated prices, in USD: of a device, of a device and hour, of a kilowatt-hour.",
            "tbl-places-prices",
            price_heads,
            [price_row(p) for p in prices],
        ),
    ]
    for title, entries in (("Grids", grids), ("Facilities", facilities), ("Prices", prices)):
        parts.append(f'::: {{.callout-note collapse="true" title="{title}: sources"}}\n')
        parts += [_entry_notes(e.name, e.notes, e.fields) for e in entries]
        parts.append(":::\n\n")
    return "".join(parts)


def row_tables() -> str:
    """The appendix on the rows that constants are fitted to."""
    of: dict[str, Counter[str]] = {}
    for name in rows.TABLES:
        for row in rows.row_table(name):
            if row.get("source"):
                of.setdefault(row["source"], Counter())[name] += 1
    counted: list[tuple[str, ...]] = [
        (c.name, f"{c.rows:,}", str(c.sources), *(f"{c.sets.get(s, 0):,}" for s in rows.SETS)) for c in rows.counts()
    ]
    known: list[tuple[str, ...]] = [
        (s.name, f"[{s.title}]({s.address})" if s.address else s.title, s.month, ", ".join(sorted(of.get(s.name, ()))))
        for s in rows.sources().values()
    ]
    count_heads = {
        "Table": ":---",
        "Rows": "--:",
        "Sources": "--:",
        "First set": "--:",
        "Second": "--:",
        "Third": "--:",
    }
    source_heads = {"Source": ":--", "Title": ":-----", "Published": ":--", "Tables": ":---"}
    parts = [
        HEADER,
        _table("Rows that ship, by table and by the set that they came in.", "tbl-rows", count_heads, counted),
        '::: {.callout-note collapse="true" title="All sources of the rows"}\n',
        _table("Sources of the rows.", "tbl-row-sources", source_heads, known),
        ":::\n",
    ]
    return "".join(parts)


def first_answer() -> str:
    """The answer and its derivation that the first page shows, as a reader's terminal prints them."""
    code = 'answer = mlsysim.serve("Llama-3.1-8B", "H100", rate=20)'
    answer = mlsysim.serve("Llama-3.1-8B", "H100", rate=20)
    lines = str(answer.explain()).split("\n")
    chain = "\n".join([*lines[:20], f"… and {len(lines) - 20} more lines, down to the source of every figure"])
    return (
        f"{HEADER}```python\nimport mlsysim\n\n{code}\nprint(answer)\n```\n\n```{{.text .prose}}\n{answer}\n```\n\n"
        '::: {.callout-note collapse="true" title="Where does it come from? print(answer.explain())"}\n'
        f"```text\n{chain}\n```\n:::\n"
    )


def texts() -> dict[str, str]:
    """Every generated part of the book by its path, the reference with them."""
    made = {
        "_variables.yml": variables,
        "book/_equations.qmd": equation_index,
        "book/_devices.qmd": device_tables,
        "book/_models.qmd": model_tables,
        "book/_networks.qmd": network_tables,
        "book/_places.qmd": place_tables,
        "book/_rows.qmd": row_tables,
        "book/_first.qmd": first_answer,
        "book/_ways.qmd": lambda: HEADER + whole.ways(),
        "book/_syllabi.qmd": lambda: HEADER + course_plan.book(),
        "book/assets/journey.svg": lambda: pictures.journey().svg() + "\n",
        "book/_glossary.qmd": lambda: HEADER + book_glossary.text(),
        "book/_cheatsheet.qmd": lambda: HEADER + sheet.text(make_reference.latex_by_label()),
        "book/_assistant.qmd": lambda: HEADER + assistant.text(),
        "book/_tools.qmd": lambda: HEADER + tools.text(),
        "book/_scoreboard.qmd": lambda: HEADER + book_scoreboard.text(),
        "book/_reality.qmd": lambda: HEADER + book_reality.text(),
        "book/reality-summary.csv": book_reality.summary,
    }
    return {name: text() for name, text in made.items()} | make_reference.texts()


if __name__ == "__main__":
    raise SystemExit(make_reference.write(texts))
