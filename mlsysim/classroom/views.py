"""Charts and tables that chapters, notebooks and sliders share; every number comes from a library function."""

from collections.abc import Sequence

from mlsysim import catalog, units
from mlsysim.catalog import Device
from mlsysim.drawing import DASHES, PALETTE, Chart, Line, Marks, draw, log_space
from mlsysim.roofline import attainable_flops, effective_bandwidth, ridge_point


def roofline_chart(
    roofs: Sequence[tuple[Device | str, str, float, float]],
    points: Sequence[tuple[str, float, float]] = (),
    title: str = "",
    intensities: tuple[float, float] = (0.3, 1e4),
) -> Chart:
    """A roofline plot.

    Parameters
    ----------
    roofs : sequence of (device, precision, efficiency, memory efficiency)
        One roof each; efficiencies below 1 give lower ceilings of the same device.
    points : sequence of (text, intensity in FLOP/byte, achieved FLOP/s)
        Measured or predicted kernels.
    """
    lines = []
    for i, (name, precision, efficiency, memory_efficiency) in enumerate(roofs):
        device = catalog.device(name)
        bandwidth = effective_bandwidth(device.memory_bandwidth, memory_efficiency)
        corner = ridge_point(device.peak_flops[precision] * efficiency, bandwidth)
        xs = sorted({*log_space(*intensities), corner})
        ys = [attainable_flops(x, device.peak_flops[precision], bandwidth, efficiency) / units.TFLOP for x in xs]
        label = f"{device.name}, {precision}"
        if (efficiency, memory_efficiency) != (1.0, 1.0):
            label += f", {efficiency:g} of peak, {memory_efficiency:g} of bandwidth"
        lines.append(Line(xs, ys, label, PALETTE[i % len(PALETTE)], DASHES[i % len(DASHES)]))
    marks = []
    if points:
        texts, x, y = zip(*points, strict=True)
        marks.append(Marks(x, [v / units.TFLOP for v in y], "kernels", texts, PALETTE[1], "o"))
    return Chart("arithmetic intensity (FLOP/byte)", "attainable performance (TFLOP/s)", lines, marks, title)


draw_bars = draw_swings = draw  # one function draws them all
