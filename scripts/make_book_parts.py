"""Write what the book must not type: numbers in prose, the equation index, the device tables.

    python scripts/make_book_parts.py [--check]

Writes ``_variables.yml``, ``book/_equations.qmd`` and ``book/_devices.qmd`` from the library; ``--check`` fails if one
of them is not what the library says today.
"""

import argparse
import importlib
import pkgutil
import re
import sys
from pathlib import Path
from typing import Any

import yaml

import mlsysim
from mlsysim import catalog, kernels, roofline, units, validation
from mlsysim.catalog import Device
from mlsysim.equations import REGISTRY

ROOT = Path(__file__).resolve().parent.parent
HEADER = "<!-- Written by scripts/make_book_parts.py from the library: change the library, not this file. -->\n\n"


def iron_law() -> dict[str, Any]:
    """Every number in the prose of chapter 1."""
    h100, a100 = catalog.device("H100"), catalog.device("A100-SXM4-80GB")
    row = validation.check("vidur-h100-mlp-up-256")
    decode = validation.check("gpt-fast-llama2-7b-bf16")
    int8 = validation.check("gpt-fast-llama2-7b-int8")
    claim = validation.measurement("harvard-70b-itl")
    floors = {b: roofline.memory_time(claim.inputs["parameters"] * b / 8, h100.memory_bandwidth) for b in (16, 8, 4)}
    launch = [validation.measurement(f"pegainfer-launch-{end}").value.value for end in ("low", "high")]
    swept = [
        validation.check(m, validation.gemm_efficiency(short), validation.stream_efficiency(short, "dot"))
        for short in ("h100", "a100")
        for m in validation.measurements().values()
        if m.name.startswith(f"vidur-{short}-")
    ]
    worst = max(swept, key=lambda c: abs(c.error))

    def corner(device: Device) -> float:
        """Tokens at which the 8192 x 57344 product reaches the ridge: solve I(m) = I*."""
        n, k = 57344, 8192
        ridge = roofline.ridge_point(device.peak_flops["fp16"], device.memory_bandwidth)
        return float(ridge * n * k / (n * k - ridge * (n + k)))

    def mean_error(short: str, borrowed: bool) -> str:
        factors = (
            (validation.gemm_efficiency(short), validation.stream_efficiency(short, "dot")) if borrowed else (1.0, 1.0)
        )
        errors = [
            abs(validation.check(m, *factors).error)
            for m in validation.measurements().values()
            if m.group == "vidur" and m.name.startswith(f"vidur-{short}-")
        ]
        return units.percent(sum(errors) / len(errors), signed=False)

    return {
        "h100": {
            "peak_bf16": units.format(h100.peak_flops["bf16"], "FLOP/s", prefix="T"),
            "printed_bf16": h100.fields["peak_flops.bf16"].printed,
            "bandwidth": units.format(h100.memory_bandwidth, "byte/s"),
            "ridge_bf16": f"{roofline.ridge_point(h100.peak_flops['bf16'], h100.memory_bandwidth):.0f}",
            "ridge_fp8": f"{roofline.ridge_point(h100.peak_flops['fp8'], h100.memory_bandwidth):.0f}",
            "ridge_sparse": f"{roofline.ridge_point(2 * h100.peak_flops['bf16'], h100.memory_bandwidth):.0f}",
            "gemm": f"{validation.gemm_efficiency('h100'):.2f}",
            "dot": f"{validation.stream_efficiency('h100', 'dot'):.2f}",
            "corner_tokens": f"{corner(h100):.0f}",
            "error_bound": mean_error("h100", borrowed=False),
            "error_borrowed": mean_error("h100", borrowed=True),
        },
        "a100": {
            "gemm": f"{validation.gemm_efficiency('a100'):.2f}",
            "gemm_small": f"{validation.gemm_efficiency('a100', 1024):.2f}",
            "dot": f"{validation.stream_efficiency('a100', 'dot'):.2f}",
            "corner_tokens": f"{corner(a100):.0f}",
            "error_bound": mean_error("a100", borrowed=False),
            "error_borrowed": mean_error("a100", borrowed=True),
        },
        "gemm": {
            "work": units.format(row.prediction.flops, "FLOP"),
            "traffic": units.format(row.prediction.bytes, "byte"),
            "compute": units.format(row.prediction.compute_time, "s"),
            "memory": units.format(row.prediction.memory_time, "s"),
            "intensity": f"{row.prediction.intensity:.0f}",
            "measured": units.format(row.measured, "s"),
            "error": units.percent(row.error),
            "square_1024": f"{roofline.arithmetic_intensity(kernels.gemm_flops(1024, 1024, 1024), kernels.gemm_bytes(1024, 1024, 1024, 2)):.0f}",
        },
        "worst": {
            "error": units.percent(worst.error),
            "device": worst.prediction.device.name,
            "tokens": str(worst.measurement.inputs["m"]),
            "larger": units.format(worst.predicted, "s"),
            "sum": units.format(worst.prediction.compute_time + worst.prediction.memory_time, "s"),
            "measured": units.format(worst.measured, "s"),
        },
        "one": units.format(validation.check("vidur-h100-mlp-up-1").measured, "s"),
        "sixtyfour": units.format(validation.check("vidur-h100-mlp-up-64").measured, "s"),
        "fp32_fallback": f"{h100.peak_flops['bf16'] / h100.peak_flops['fp32']:.0f}",
        "gib": units.percent(units.GiB / units.GB - 1, 0, signed=False),
        "decode": {
            "weights": units.format(decode.prediction.bytes, "byte"),
            "bound": units.format(decode.predicted, "s"),
            "compute": units.format(decode.prediction.compute_time, "s"),
            "intensity": f"{decode.prediction.intensity:.0f}",
            "measured": units.format(decode.measured, "s"),
            "error": units.percent(decode.error),
            "share": f"{decode.prediction.bytes / decode.measured / a100.memory_bandwidth:.2f}",
            "int8_error": units.percent(int8.error),
            "crossing": f"{decode.predicted / (10 * units.us):.0f}",
        },
        "claim": {
            "printed": claim.value.printed.removeprefix("~").removesuffix("/token"),
            **{f"floor_{b}": units.format(t, "s", digits=3) for b, t in floors.items()},
            "floor_16_by_8": units.format(floors[16] / 8, "s", digits=3),
            "ratio_16": f"{floors[16] / claim.value.value:.0f}",
            "ratio_4": f"{floors[4] / claim.value.value:.1f}",
        },
        "launch": {"low": f"{launch[0] / units.us:g}", "high": f"{launch[1] / units.us:g}"},
    }


def errata() -> dict[str, Any]:
    """Both sides of every slip in the sources that this edition already computes."""
    h100, a40 = catalog.device("H100"), catalog.device("A100-SXM4-40GB")
    v3 = catalog.device("TPU-v3")
    return {
        "h100_dense": units.format(h100.peak_flops["bf16"], "FLOP/s", prefix="T"),
        "a100_40_bandwidth": units.format(a40.memory_bandwidth, "byte/s"),
        "b200_dense": units.format(catalog.device("B200").peak_flops["bf16"], "FLOP/s", prefix="T"),
        # two 128 x 128 systolic arrays per core at 940 MHz, a multiply-accumulate per cell and cycle
        "tpuv3_core": units.format(kernels.gemm_flops(2, 128, 128) * 0.94e9, "FLOP/s", prefix="T"),
        "tpuv3_peak": units.format(v3.peak_flops["bf16"], "FLOP/s", prefix="T"),
        "devices": str(len(catalog.devices())),
        "ici_v5e": units.format(catalog.device("TPU-v5e").scale_up_bandwidth, "byte/s"),
        "ici_v5p": units.format(catalog.device("TPU-v5p").scale_up_bandwidth, "byte/s"),
        "ici_v6e": units.format(catalog.device("TPU-v6e").scale_up_bandwidth, "byte/s"),
        "b200_memory": units.format(catalog.device("B200").memory_capacity, "byte"),
        "b200_bandwidth": units.format(catalog.device("B200").memory_bandwidth, "byte/s"),
        "gb200_peak": units.format(catalog.device("GB200").peak_flops["bf16"], "FLOP/s", prefix="T"),
        "node_gb": units.format(8 * h100.memory_capacity, "byte"),
    }


def variables() -> str:
    text = yaml.safe_dump({"iron": iron_law(), "errata": errata()}, allow_unicode=True, sort_keys=True, width=120)
    text = re.sub(r"(?<=\d) (?=[^\W\d]|%)", "\u00a0", text)  # a number and its unit stay on one line
    return "# Written by scripts/make_book_parts.py from the library: change the library, not this file.\n" + text


def _import_everything() -> None:
    for module in pkgutil.walk_packages(mlsysim.__path__, "mlsysim."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def latex_by_label() -> dict[str, str]:
    """The LaTeX of every labelled equation, from the one place it stands: its chapter."""
    found = {}
    for chapter in sorted((ROOT / "book").glob("[0-9]*.qmd")):
        for body, label in re.findall(r"\$\$(.*?)\$\$\s*\{#(eq-[\w-]+)\}", chapter.read_text(encoding="utf-8"), re.S):
            found[label] = " ".join(body.split()).rstrip(" .,")
    return found


def equation_index() -> str:
    _import_everything()
    latex = latex_by_label()
    rows = []
    order = list(latex)
    for e in sorted(REGISTRY.values(), key=lambda e: order.index(e.label) if e.label in latex else len(order)):
        call = f"{e.qualified_name.removeprefix('mlsysim.')}({', '.join(e.units)})"
        cells = (
            f"@{e.label}",
            f"${latex.get(e.label, '')}$",
            f"`{call}`",
            f"`{e.result}`",
            f"[@{e.source}, {e.where}]",
        )
        rows.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    head = "| Equation | Formula | Function in `mlsysim` | Unit | Source |\n|:--|:----------|:----------|:-|:------|\n"
    return (
        HEADER
        + head
        + "\n".join(rows)
        + "\n\n: Every equation of the book, its function and its source. {#tbl-equations}\n"
    )


def _cell(device: Device, field: str, unit: str, prefix: str | None = None) -> str:
    return units.format(device.fields[field].value, unit, prefix=prefix) if device.has(field) else "–"


def device_tables() -> str:
    parts = [HEADER, "| Device | Year | BF16 or FP16, dense | Memory | Bandwidth | Link, one way | Domain | TDP |\n"]
    parts.append("|:--|--:|--:|--:|--:|--:|--:|--:|\n")
    for d in catalog.devices().values():
        half = next((f"peak_flops.{p}" for p in ("bf16", "fp16") if d.has(f"peak_flops.{p}")), "")
        cells = (
            d.name,
            str(d.year) if d.has("year") else "–",
            _cell(d, half, "FLOP/s", "T"),
            _cell(d, "memory_capacity", "byte"),
            _cell(d, "memory_bandwidth", "byte/s"),
            _cell(d, "scale_up_bandwidth", "byte/s"),
            str(d.scale_up_domain) if d.has("scale_up_domain") else "–",
            _cell(d, "tdp", "W", ""),
        )
        parts.append("| " + " | ".join(cells) + " |\n")
    parts.append("\n: The device catalogue. A dash means that no source we read gives the figure. {#tbl-devices}\n")
    for d in catalog.devices().values():
        parts.append(f'\n::: {{.callout-note collapse="true" title="{d.name} ({d.vendor} {d.architecture})"}}\n')
        if d.notes:
            parts.append(d.notes + "\n\n")
        parts.append("| Field | Value | As printed | Changed | Source |\n|:---|:---|:---|:-----|:--------|\n")
        for name, s in d.fields.items():
            value = str(int(s.value)) if s.unit == "1" else units.format(s.value, s.unit)
            cite = f"[@{s.source}, {s.where.replace(']', ')').replace('[', '(')}]" + (
                " (secondary)" if s.read == "secondary" else ""
            )
            row = (f"`{name}`", value, s.printed, s.transform, f"{cite}, read {s.retrieved}")
            parts.append("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |\n")
        parts.append("\n:::\n")
    return "".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    files = {"_variables.yml": variables, "book/_equations.qmd": equation_index, "book/_devices.qmd": device_tables}
    stale = []
    for name, write in files.items():
        path, text = ROOT / name, write()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not check:
                path.write_text(text, encoding="utf-8")
    if stale:
        print(("not what the library says today: " if check else "written: ") + ", ".join(stale), file=sys.stderr)
    return 1 if check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
