"""Write the live slider of chapter 1: a Vega-Lite roofline that needs no kernel, no server and no CDN.

    python scripts/make_sliders.py           write the partial and, where missing, the JavaScript bundle
    python scripts/make_sliders.py --bundle  the bundle alone
    python scripts/make_sliders.py --check   exit 1 if the committed partial is stale

Vega's expressions below are a second implementation of three library functions, because a page has no Python in it.
tests/browser/test_chapter.py compares the two on a grid; the table that shows without JavaScript is the library's own.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterable
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

import altair as alt

from mlsysim import catalog, roofline, units

ROOT = Path(__file__).resolve().parents[1]
PARTIAL = ROOT / "book" / "_slider-iron-law.qmd"
VENDOR = ROOT / "book" / "assets" / "vendor"
BUNDLE = VENDOR / "vega-bundle.js"

START: dict[str, Any] = {"device": "H100-SXM5-80GB", "precision": "bf16", "log_intensity": 2.0, "efficiency": 0.8}
INTENSITY = (-1.0, 4.0, 0.05)  # powers of ten: lowest, highest, step
EFFICIENCY = (0.05, 1.0, 0.05)
PREFERRED = ("bf16", "fp16", "fp32")  # the precision shown when a device lacks the one chosen before
TABLE_INTENSITIES = (1.0, 10.0, 100.0, 1000.0)
TABLE_DEVICES = ("A100-SXM4-80GB", "H100-SXM5-80GB", "B200-SXM-180GB", "MI300X", "TPU-v5e")
KEY = "Solid: the roof at this efficiency. Dotted: at efficiency 1. Dashed: the ridge point. Mark: your kernel."

# The second implementation: name, expression, and the library function that it repeats.
EXPRESSIONS = {
    "intensity": "pow(10, log_intensity)",
    "peak_flops": "devices[device].peak_flops[precision]",
    "memory_bandwidth": "devices[device].memory_bandwidth",
    "attainable_flops": "min(peak_flops * efficiency, intensity * memory_bandwidth)",  # roofline.attainable_flops
    "ridge_point": "peak_flops * efficiency / memory_bandwidth",  # roofline.ridge_point
    "bound": "peak_flops * efficiency < intensity * memory_bandwidth ? 'compute' : 'memory'",  # roofline.kernel_time
    # Words for the reader; the numbers above stay unrounded.
    "intensity_text": "format(intensity, '.3~r') + ' FLOP/byte'",
    "efficiency_text": "format(efficiency, '.0%')",
    "attainable_flops_text": "format(attainable_flops / 1e12, ',.4~r') + ' TFLOP/s'",
    "ridge_point_text": "format(ridge_point, ',.4~r') + ' FLOP/byte'",
    "bound_text": "bound + '-bound'",
}


def device_data() -> dict[str, dict[str, Any]]:
    """The catalogue's numbers, for every device that lists a dense peak."""
    return {
        d.name: {"vendor": d.vendor, "memory_bandwidth": d.memory_bandwidth, "peak_flops": dict(d.peak_flops)}
        for d in catalog.devices().values()
        if d.peak_flops
    }


def nice(value: float, up: bool) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    steps = [m * power for m in (1.0, 2.0, 5.0, 10.0)]
    return min(s for s in steps if s >= value) if up else max(s for s in steps if s <= value)


def spec(devices: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The chart. Colours come from slider.css by mark name, so that a page's light and dark mode both reach them."""
    left, right = (10.0 ** INTENSITY[i] for i in (0, 1))
    bottom = nice(left * min(d["memory_bandwidth"] for d in devices.values()) / units.TFLOP, up=False)
    top = nice(max(peak for d in devices.values() for peak in d["peak_flops"].values()) / units.TFLOP, up=True)
    parameters = [alt.param(name="devices", value=devices), *(alt.param(name=n, value=v) for n, v in START.items())]
    parameters += [alt.param(name=n, expr=e) for n, e in EXPRESSIONS.items()]

    def axis(channel: Any, field: str, title: str, domain: tuple[float, float]) -> Any:
        scale = alt.Scale(type="log", domain=domain, nice=False)
        ticks = [10.0**e for e in range(-6, 9) if domain[0] <= 10.0**e <= domain[1]]
        return channel(field, type="quantitative", title=title, scale=scale, axis=alt.Axis(values=ticks, format=",~r"))

    x = axis(alt.X, "x", "arithmetic intensity (FLOP/byte)", (left, right))
    y = axis(alt.Y, "y", "attainable (TFLOP/s)", (bottom, top))

    def layer(x_value: str, y_value: str, rows: int = 1) -> alt.Chart:
        data = alt.Data(values=[{"i": i} for i in range(rows)])
        return alt.Chart(data).transform_calculate(x=x_value, y=y_value).encode(x=x, y=y)

    def roof(name: str, efficiency: str, **style: Any) -> alt.Chart:
        """Three points, since both sides of a roof are straight on logarithmic axes."""
        corner = f"peak_flops * {efficiency} / memory_bandwidth"
        xs = f"datum.i == 0 ? {left} : datum.i == 1 ? {corner} : {right}"
        ys = f"min(peak_flops * {efficiency}, datum.x * memory_bandwidth) / 1e12"
        return layer(xs, ys, 3).mark_line(clip=True, **style).properties(name=name)

    def word(name: str, text: str, x_value: str) -> alt.Chart:
        mark: dict[str, Any] = {"text": text, "baseline": "bottom", "clip": True, "size": 12}
        return layer(x_value, str(bottom * 1.3)).mark_text(**mark).properties(name=name)

    ridge = layer("ridge_point", "peak_flops * efficiency / 1e12").encode(y2=alt.Y2Datum(bottom))
    kernel = layer("intensity", "attainable_flops / 1e12").mark_point(filled=True, size=150, opacity=1)
    chart = alt.layer(
        roof("datasheet_roof", "1", strokeWidth=1.5, strokeDash=[2, 3]),
        roof("roof", "efficiency", strokeWidth=2.5),
        ridge.mark_rule(strokeDash=[5, 4], clip=True).properties(name="ridge"),
        word("left_side", "memory", f"sqrt({left} * ridge_point)"),
        word("right_side", "compute", f"sqrt(ridge_point * {right})"),
        kernel.properties(name="kernel"),
    )
    ink = {f"{part}Color": "currentColor" for part in ("label", "title", "domain", "tick", "grid")}
    made: dict[str, Any] = (
        chart.properties(width="container", height=300, background="transparent")
        .add_params(*parameters)
        .configure(font="system-ui, sans-serif")
        .configure_axis(**ink, gridOpacity=0.15, labelFontSize=12, titleFontSize=13, titleFontWeight="normal")
        .configure_view(stroke=None)
        .configure_text(color="currentColor")
        .to_dict()
    )
    made["autosize"] = {"type": "fit-x", "contains": "padding"}
    made["description"] = (
        "Roofline of the chosen device on logarithmic axes, with the kernel that the sliders describe."
    )
    return made


def options(names: Iterable[str], chosen: str) -> str:
    return "".join(f"<option{' selected' * (n == chosen)}>{escape(n)}</option>" for n in names)


def controls(devices: dict[str, dict[str, Any]]) -> str:
    """Two drop-downs and two sliders, plain HTML so that any keyboard and screen reader can use them."""
    vendors: dict[str, list[str]] = {}
    for name, device in devices.items():
        vendors.setdefault(device["vendor"], []).append(name)
    grouped = "".join(
        f'<optgroup label="{escape(vendor)}">{options(names, START["device"])}</optgroup>'
        for vendor, names in sorted(vendors.items())
    )
    precisions = options(devices[START["device"]]["peak_flops"], START["precision"])

    def choice(name: str, label: str, inner: str) -> str:
        id_ = f"iron-law-{name}"
        return f'<div><label for="{id_}">{label}</label><select id="{id_}" data-signal="{name}">{inner}</select></div>'

    def slider(name: str, shows: str, label: str, bounds: tuple[float, float, float]) -> str:
        low, high, step = bounds
        id_ = f"iron-law-{shows}"
        kind = f'id="{id_}" type="range" min="{low:g}" max="{high:g}" step="{step:g}" value="{START[name]:g}"'
        text = f'<span data-text="{shows}" aria-hidden="true"></span>'
        control = f'<input {kind} data-signal="{name}" data-shows="{shows}">'
        return f'<div><label for="{id_}">{label} {text}</label>{control}</div>'

    return "\n".join(
        [
            choice("device", "Device", grouped),
            choice("precision", "Precision", precisions),
            slider("log_intensity", "intensity", "Arithmetic intensity", INTENSITY),
            slider("efficiency", "efficiency", "Efficiency (share of peak)", EFFICIENCY),
        ]
    )


def results() -> str:
    """The numbers, first as the library computes them for the starting values."""
    device = catalog.device(START["device"])
    peak, bandwidth = device.peak_flops[START["precision"]], device.memory_bandwidth
    intensity, efficiency = 10.0 ** START["log_intensity"], START["efficiency"]
    ridge = roofline.ridge_point(peak * efficiency, bandwidth)
    bound = "compute" if intensity > ridge else "memory"
    rate = roofline.attainable_flops(intensity, peak, bandwidth, efficiency)
    shown = {
        "attainable_flops": ("Attainable", f"{rate / units.TFLOP:,.4g} TFLOP/s", repr(rate)),
        "ridge_point": ("Ridge point of this roof", f"{ridge:,.4g} FLOP/byte", repr(ridge)),
        "bound": ("Bound", f"{bound}-bound", bound),
    }
    made = []
    for name, (label, text, value) in shown.items():
        data = f'data-result="{name}" data-value="{value}"'
        made.append(f'<div><span>{label}</span> <output aria-live="polite" {data}>{text}</output></div>')
    return "\n".join(made)


def table() -> str:
    """Library numbers for a reader without JavaScript, or for one who prefers a table."""
    head = "".join(f'<th scope="col">at {i:,.0f}</th>' for i in TABLE_INTENSITIES)
    rows = []
    for name in TABLE_DEVICES:
        device = catalog.device(name)
        peak, bandwidth = device.peak_flops["bf16"], device.memory_bandwidth
        rates = [roofline.attainable_flops(i, peak, bandwidth) / units.TFLOP for i in TABLE_INTENSITIES]
        cells = "".join(f"<td>{v:,.4g}</td>" for v in [roofline.ridge_point(peak, bandwidth), *rates])
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    caption = "Attainable TFLOP/s in bf16 at efficiency 1. Ridge points and intensities (at …) in FLOP/byte."
    columns = f'<tr><th scope="col">Device</th><th scope="col">Ridge point</th>{head}</tr>'
    return (
        f"<table><caption>{caption}</caption><thead>{columns}</thead><tbody>\n" + "\n".join(rows) + "\n</tbody></table>"
    )


def partial() -> str:
    """The block that chapter 1 includes."""
    devices = device_data()
    data = json.dumps(spec(devices), separators=(",", ":")).replace("</", "<\\/")
    return f"""```{{=html}}
<!-- written by scripts/make_sliders.py from the device catalogue; do not edit -->
<link rel="stylesheet" href="assets/slider.css">
<div class="slider" id="slider-iron-law" role="group" aria-label="Live roofline" data-preferred="{" ".join(PREFERRED)}">
<div class="slider-controls" hidden>
{controls(devices)}
</div>
<div class="slider-chart"></div>
<p class="slider-key">{KEY}</p>
<div class="slider-results">
{results()}
</div>
<noscript><p>The sliders need JavaScript; without it, the table below gives the numbers.</p></noscript>
<details open><summary>The numbers as a table</summary>
<div class="slider-table">{table()}</div>
</details>
<script type="application/json">{data}</script>
</div>
<script defer src="assets/vendor/{BUNDLE.name}"></script>
<script defer src="assets/slider.js"></script>
```
"""


def write_bundle() -> None:
    """Vega, Vega-Lite and Vega-Embed as one file, from the installed vl-convert: no CDN, and file:// works too."""
    maker = f"vl-convert-python {version('vl-convert-python')}"
    banner = f"/* Vega, Vega-Lite and Vega-Embed (BSD-3-Clause), bundled by {maker} */\n"
    if BUNDLE.exists() and BUNDLE.read_text(encoding="utf-8").startswith(banner):
        return
    import vl_convert

    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    VENDOR.mkdir(parents=True, exist_ok=True)
    # A function around it keeps the bundle's own names out of the page.
    BUNDLE.write_text(f"{banner}(() => {{\n{script}\n}})();\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the partial is stale")
    parser.add_argument("--bundle", action="store_true", help="write the JavaScript bundle alone")
    asked = parser.parse_args()
    if asked.bundle:
        write_bundle()
        return
    made, name = partial(), PARTIAL.relative_to(ROOT)
    current = PARTIAL.exists() and PARTIAL.read_text(encoding="utf-8") == made
    if asked.check:
        if not current:
            sys.exit(f"{name} is stale: the catalogue or the script changed; run: python scripts/make_sliders.py")
        return
    if not current:
        PARTIAL.write_text(made, encoding="utf-8")
    write_bundle()
    print(f"{name}: {'already current' if current else 'written'}; bundle: {BUNDLE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
