"""The cheat sheet: laws, conventions, ridge points and rules of thumb with their error, every number computed here."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from mlsysim import catalog, collectives, flops, memory, parallelism, reliability, roofline, transformer, units

ROOT = Path(__file__).resolve().parents[2]
LAWS = {
    "Iron law": "eq-iron-law",
    "Ridge point": "eq-ridge-point",
    "Attainable rate": "eq-attainable",
    "Training work of a token": "eq-train-flops-per-token",
    "Work of a run": "eq-total-flops",
    "Bytes of the weights": "eq-weight-bytes",
    "Training state": "eq-training-state",
    "Cache of keys and values": "eq-kv-cache",
    "Ring all-reduce": "eq-ring-allreduce",
    "Pipeline bubble": "eq-pipeline-bubble",
    "Young's interval": "eq-young",
}
SINCE = 2020
MODELS = ("Llama-3.1-8B", "Llama-3.1-70B", "Llama-3.1-405B")
SEQ, LONG, OWN = 8192, 131_072, "matmul-causal"
CLASSES = {
    "gemm": "matrix products",
    "attention": "attention kernels",
    "collective": "collectives",
    "memory": "memory",
    "training_step": "training steps",
    "inference": "inference",
    "scalar": "scalars",
}


def _table(heads: Mapping[str, str], rows: Sequence[tuple[str, ...]], caption: str, label: str) -> str:
    lines = [tuple(heads), tuple(heads.values()), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines).replace("| :", "|:").replace(" | -", "|-") + (
        f"\n: {caption} {{#{label}}}\n\n"
    )


def laws(latex: Mapping[str, str]) -> str:
    rows = [(name, f"${latex[label]}$", f"@{label}") for name, label in LAWS.items()]
    return _table(
        {"Law": ":---", "Formula": ":-------", "Derived as": ":---"},
        rows,
        "The laws that most answers come from.",
        "tbl-sheet-laws",
    )


def conventions() -> str:
    """Ways to count the work of a training token, each at one length against the book's own."""
    own = flops.counted_flops(MODELS[0], SEQ, OWN)
    rows = [
        (f"`{c.name}`", c.parameters, c.attention, "yes" if c.repeated else "no", _off(flops.counted_flops(MODELS[0], SEQ, c.name), own), f"{c.used_by} [@{c.source}]")
        for c in flops.CONVENTIONS.values()
    ]  # fmt: skip
    heads = {
        "Convention": ":---",
        "Parameters": ":---",
        "Attention": ":---",
        "Recomputed work": ":---",
        "Against ours": "--:",
        "Used by": ":------",
    }
    return _table(
        heads,
        rows,
        f"Conventions for the work of a token, and how they differ from the book's, `{OWN}`, for {MODELS[0]} at {SEQ:,} tokens.",
        "tbl-sheet-conventions",
    )


def ridges() -> str:
    """Devices that have been sold since 2020: peak of the 16-bit and 8-bit products over the bandwidth of the memory."""
    rows = []
    found = [
        d
        for d in catalog.devices().values()
        if not d.status and d.has("year") and d.year >= SINCE and d.has("memory_bandwidth")
    ]
    for d in sorted(found, key=lambda d: (d.year, d.name)):
        cells = [d.name, str(d.year), units.format(d.memory_bandwidth, "byte/s")]
        for names in (("bf16", "fp16"), ("fp8", "int8")):
            precision = next((p for p in names if d.has(f"peak_flops.{p}")), "")
            if not precision:
                cells += ["–", "–"]
                continue
            peak = d.fields[f"peak_flops.{precision}"].value
            cells += [units.format(peak, "FLOP/s", prefix="T"), f"{roofline.ridge_point(peak, d.memory_bandwidth):.0f}"]
        if set(cells[3:]) != {"–"}:  # a device whose makers print no peak has no ridge
            rows.append(tuple(cells))
    heads = {
        "Device": ":----",
        "Year": "--:",
        "Bandwidth": "--:",
        "16-bit peak": "--:",
        "Ridge": "--:",
        "8-bit peak": "--:",
        "Ridge ": "--:",
    }
    return _table(
        heads,
        rows,
        f"Dense peaks and ridge points, in FLOP per byte, of devices since {SINCE}; 16 bits are BF16 or FP16, 8 bits FP8 or INT8.",
        "tbl-sheet-ridges",
    )


def _off(rule: float, full: float) -> str:
    return units.percent(rule / full - 1, signed=True)


def _range(values: list[str]) -> str:
    return values[0] if len(set(values)) == 1 else f"{values[0]} to {values[-1]}"


def rules() -> str:
    """What people calculate in their heads, beside what the book's equation gives."""
    work = {
        s: [_off(6.0 * transformer.parameter_count(m).total, flops.counted_flops(m, s, OWN)) for m in MODELS]
        for s in (SEQ, LONG)
    }
    forward = [_off(2.0 * transformer.parameter_count(m).total, flops.forward_flops(m, SEQ, True)) for m in MODELS]
    states = sorted(r.bytes_per_parameter for r in memory.RECIPES.values())
    ring = [_off(2.0, collectives.ring_all_reduce(1e9, n, 1e9)) for n in (8, 64)]
    bubbles = [_off((8 - 1) / m, parallelism.bubble_fraction(8, m)) for m in (8, 64)]
    write, few, many = 300.0, units.hour, units.day
    young = [_off(reliability.young_interval(write, t), reliability.optimal_interval(write, t)) for t in (few, many)]
    shapes = ", ".join(MODELS)
    rows = [
        ("Training takes $6N$ FLOP a token", f"{_range(work[SEQ])} at {SEQ:,} tokens, {_range(work[LONG])} at {LONG:,}", f"against the products with causal attention, {shapes}"),
        ("A forward pass takes $2N$ FLOP a token", f"{_range(forward)} at {SEQ:,} tokens", f"the same, {shapes}"),
        ("Training state takes 16 bytes a parameter", f"{_off(16.0, states[-1])} to {_off(16.0, states[0])}", f"against {len(states)} recipes of frameworks, {states[0]:g} to {states[-1]:g} bytes"),
        ("An all-reduce takes $2B/\\beta$", f"{ring[0]} on 8 ranks, {ring[1]} on 64", "against the ring without latency"),
        ("A pipeline idles $(p-1)/m$ of its time", f"{bubbles[0]} at 8 micro-batches, {bubbles[1]} at 64", "of the whole step, 8 stages; it is exact as a share of the busy time"),
        ("Save every $\\sqrt{2 \\delta M}$", f"{young[0]} at one failure an hour, {young[1]} at one a day", "against the exact optimum, five minutes to write"),
    ]  # fmt: skip
    heads = {"Rule of thumb": ":-----", "Off by": ":-----", "Against what": ":------"}
    return _table(
        heads, rows, "Rules of thumb and how far they are off: the rule over the equation, less one.", "tbl-sheet-rules"
    )


def errors() -> str:
    """How far the book's own predictions are off published figures, by class: from the scores of the reality checks."""
    with (ROOT / "book" / "reality-summary.csv").open(encoding="utf-8", newline="") as file:
        found = [row for row in csv.DictReader(file) if row["class"] in CLASSES and row["mape"]]
    rows = []
    for name, title in CLASSES.items():
        here = [row for row in found if row["class"] == name]
        whole = next(row for row in here if row["group"] == "(all)")
        groups = [float(row["mape"]) for row in here if not row["group"].startswith("(")]
        errors = [units.percent(e, signed=False) for e in (float(whole["mape"]), median(groups), max(groups))]
        rows.append((title, str(len(groups)), whole["predicted"], whole["in_fit"], *errors))
    heads = {
        "Class": ":----",
        "Groups": "--:",
        "Figures": "--:",
        "In our fits": "--:",
        "Mean error": "--:",
        "Of the middle group": "--:",
        "Of the worst": "--:",
    }
    return _table(
        heads,
        rows,
        "How far our predictions are off published figures, means over groups; figures in our fits are no test of them.",
        "tbl-sheet-errors",
    )


def text(latex: Mapping[str, str]) -> str:
    """What the page includes."""
    return (
        "## Laws\n\n" + laws(latex) + "## Conventions\n\n" + conventions() + "## Ridge points\n\nWork with fewer FLOP per byte than the ridge point is bound by memory, with more by arithmetic.\n\n"
        + ridges() + "## Rules of thumb\n\n" + rules() + "## How wrong we are\n\nOf published figures; @sec-reality has every row.\n\n" + errors()
    )  # fmt: skip
