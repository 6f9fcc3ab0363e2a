"""Pictures as data: charts, bars, tornados and lanes, drawn by matplotlib where it is installed and as plain SVG where it is not."""

from mlsysim._lazy import lazily

_HOMES = {
    "Bars": "bars",
    "Chart": "charts",
    "DASHES": "charts",
    "Drawing": "style",
    "Lanes": "lanes",
    "Line": "marks",
    "Marks": "marks",
    "PALETTE": "style",
    "Panels": "style",
    "Span": "lanes",
    "TornadoChart": "bars",
    "draw": "style",
    "log_space": "style",
    "matplotlib_figure": "style",
}
__all__ = list(_HOMES)
__getattr__, __dir__ = lazily(__name__, _HOMES)
