"""What a file of another tool says: the question that was measured, by the names of our options, and its figures in SI units."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from mlsysim import units
from mlsysim.errors import InputError
from mlsysim.results import Result, format_rows, plain

# What a figure is of: its words and its unit. Rates count as what they are; a time is shorter where they are larger.
QUANTITIES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "ttft_s": ("time to the first token", "s"),
        "itl_s": ("time per output token", "s"),
        "e2e_s": ("end to end", "s"),
        "requests_per_s": ("requests", "1/s"),
        "tokens_per_s": ("output tokens", "1/s"),
        "prompt_s": ("prompt pass", "s"),
        "decode_s": ("decode step", "s"),
        "mixed_s": ("prompt and answer", "s"),
        "time_s": ("collective", "s"),
        "step_s": ("training step", "s"),
        "device_tokens_per_s": ("tokens of a device", "1/s"),
        "kernels_s": ("kernels", "s"),
    }
)
# What a file is of, by the word that a reader gives it.
KINDS: Mapping[str, str] = MappingProxyType(
    {
        "serving": "a server under load",
        "batch": "single passes of one batch",
        "collective": "one collective by size",
        "step": "training steps",
        "kernels": "the kernels of a trace",
    }
)


@dataclass(frozen=True)
class Figure(Result):
    """One measured figure, in SI units."""

    name: str  # of QUANTITIES
    value: float
    where: str  # key or line in the file
    noise: float = 0.0  # standard error of the value, over it
    statistic: str = "mean"
    at: Mapping[str, Any] = field(
        default_factory=lambda: MappingProxyType({})
    )  # what it was measured at, within the file

    @property
    def is_rate(self) -> bool:
        return QUANTITIES[self.name][1] != "s"

    @property
    def words(self) -> str:
        """What it is of."""
        said = ", ".join(
            units.format(v, "byte", 3) if n == "bytes" else f"{v:g} {n}" if isinstance(v, (int, float)) else str(v)
            for n, v in self.at.items()
        )
        name = QUANTITIES[self.name][0] + ("" if self.statistic == "mean" else f" ({self.statistic})")
        return name if not said else said if self.name in ("kernels_s", "time_s") else f"{name}, {said}"


@dataclass(frozen=True)
class Measured(Result):
    """What :func:`read_run` found in a file."""

    file: str
    tool: str
    kind: str  # of KINDS
    asked: Mapping[str, Any]  # by the names of our options
    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = ()  # what was left aside, and doubts

    def summary(self) -> Sequence[str]:
        said = ", ".join(f"{n.replace('_', '-')} {_shown(v)}" for n, v in self.asked.items())
        figures = "; ".join(f"{f.words} {units.format(f.value, QUANTITIES[f.name][1], 3)}" for f in self.figures[:6])
        more = f"; and {len(self.figures) - 6} more" if len(self.figures) > 6 else ""
        return format_rows(
            f"{self.file}: {self.tool}, {KINDS[self.kind]}",
            ("says", said or "nothing of the question"),
            ("figures", figures + more),
            *(("note", text) for text in self.notes),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers in SI units, for JSON."""
        return {
            "file": self.file,
            "tool": self.tool,
            "kind": self.kind,
            "asked": dict(plain(dict(self.asked))),
            "figures": [plain({**vars(f), "at": dict(f.at)}) for f in self.figures],
            "notes": list(self.notes),
        }


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def positive(file: str, where: str, value: Any) -> float:
    """A finite number above zero, or an error that names its place."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not (0 < value < 1e30):
        raise InputError(
            f"{file}, {where}: {str(value)[:40]!r} must be a finite number above 0; the file is damaged or of a run that failed"
        )
    return float(value)


def error_of_mean(mean: float, deviation: Any, count: float) -> float:
    """Standard error over the mean of so many values; 0 where nobody says how they spread."""
    if (
        isinstance(deviation, bool)
        or not isinstance(deviation, (int, float))
        or not 0 <= deviation < math.inf
        or count < 1
    ):
        return 0.0
    return float(deviation) / math.sqrt(count) / mean
