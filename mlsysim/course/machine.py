"""The reader's own machine on the book's roofline, from what the page of chapter 1 measured on it."""

from collections.abc import Mapping, Sequence
from datetime import date
from html import escape
from typing import Any

from mlsysim import catalog, kernels, roofline, units
from mlsysim.course.readings import Reading, listed, written
from mlsysim.course.views import roofline_chart
from mlsysim.errors import InputError
from mlsysim.evidence.measuring import machines
from mlsysim.evidence.measuring.measured import Measured

BESIDE = "H100-SXM5-80GB"
MATRIX = (8192, 57344)  # the one that the chapter begins with
_PRECISION, _BYTES = "fp32", 4
_KINDS = {"cpu": "the processor, one thread of WebAssembly", "gpu": "the graphics processor, through WebGPU"}
_MOST = 1000  # repeats of a pass, and letters of a text


def _measured(run: Mapping[str, Any], name: str) -> Measured:
    values = run.get(name)
    if not isinstance(values, Sequence) or not 3 <= len(values) <= _MOST:
        raise InputError(f"{name}: give 3 to {_MOST} rates, one per repeat")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e20:
            raise InputError(f"{name} = {value!r:.30} must be a rate in (0, 1e20)")
    return Measured.of([float(v) for v in values])


def _spread(value: Measured, unit: str) -> str:
    return f"{written(value.median, unit)} (half of {value.repeats} repeats within {value.spread:.0%})".replace(
        "%", " %"
    )


def shown(runs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What a page shows of its measurements, as HTML, and the same as a file of the catalogue.

    Parameters
    ----------
    runs : sequence of mappings
        One of the processor and, where the browser has WebGPU, one of the graphics processor: ``kind``, ``notes``, and the rates
        of each repeat of ``copy`` and ``triad`` in byte/s and of ``product`` in FLOP/s.

    Raises
    ------
    InputError
        A rate that is none, or another kind.
    """
    texts: list[str] = []
    devices: list[catalog.Device] = []
    for run in runs[:2]:
        if run.get("kind") not in _KINDS:
            raise InputError(f"kind = {run.get('kind')!r:.30} must be one of {', '.join(_KINDS)}")
        copy, triad, product = (_measured(run, name) for name in ("copy", "triad", "product"))
        fastest = max(copy, triad, key=lambda value: value.median)
        notes = str(run.get("notes", ""))[:_MOST]
        device = machines.entry(
            f"My-{run['kind']}-in-the-browser",
            run["kind"],
            _PRECISION,
            date.today().isoformat(),
            product,
            {"copy": copy, "triad": triad},
            notes,
        )
        devices.append(device)
        ridge = roofline.ridge_point(product.median, fastest.median)
        ends = product.low / fastest.high, product.high / fastest.low
        reading = Reading(
            None,
            ("copy", copy.median, "byte/s", _spread(copy, "byte/s")),
            ("triad", triad.median, "byte/s", _spread(triad, "byte/s")),
            ("product", product.median, "FLOP/s", _spread(product, "FLOP/s")),
            ("ridge point", ridge, "FLOP/byte", f"{ridge:.3g} FLOP/byte ({ends[0]:.3g} to {ends[1]:.3g})"),
        )
        weights = MATRIX[0] * MATRIX[1] * _BYTES
        read = roofline.memory_time(weights, fastest.median)
        per_row = roofline.compute_time(kernels.gemm_flops(1, *MATRIX), product.median)
        beside = roofline.memory_time(weights, catalog.device(BESIDE).memory_bandwidth)
        texts.append(
            f'<p class="live-title">{escape(_KINDS[run["kind"]][0].upper() + _KINDS[run["kind"]][1:])}</p><dl>{listed(reading.rows())}</dl>'
            f'<p class="note">Work below {ridge:.3g} FLOP per byte waits for the memory here. Reading the matrix that this chapter begins with, in '
            f"32 bits, takes {units.format(read, 's', 3)} ({units.format(beside, 's', 3)} on an H100 by its datasheet), and the arithmetic of "
            f"{max(1, int(read / per_row))} tokens takes as long. {escape(notes)}</p>"
        )
    chart = roofline_chart([(device, _PRECISION, 1.0, 1.0) for device in (*devices, catalog.device(BESIDE))])
    return {
        "html": f'<figure class="live-figure">{chart.svg()}</figure>' + "".join(texts),
        "toml": machines.toml(*devices),
    }
