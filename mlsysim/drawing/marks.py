"""What a chart holds: curves, single points, and words on a line."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlsysim.drawing.style import PALETTE


@dataclass(frozen=True)
class Line:
    """A curve through points."""

    x: Sequence[float]
    y: Sequence[float]
    label: str
    color: str = PALETTE[0]
    dash: str = "solid"


@dataclass(frozen=True)
class Marks:
    """Single points, each with its own text (which may be empty)."""

    x: Sequence[float]
    y: Sequence[float]
    label: str
    texts: Sequence[str] = ()
    color: str = PALETTE[1]
    marker: str = "o"
    above: bool = False  # where the texts stand: right of the points and above them, else below


@dataclass(frozen=True)
class Name(Marks):
    """Words on a line instead of a legend: they start, end or have their middle at the point."""

    anchor: str = "middle"
