"""Does a measurement lie between the roofline and the profile of its parts? A claim of hespas2026, tested on figures with few digits."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from mlsysim import hlo
from mlsysim.catalog.sourced import Sourced
from mlsysim.evidence.studies.case_studies import Figure, figure
from mlsysim.hlo.losses import bracket_position
from mlsysim.results import Result

# Steps of hespas2026 of which both a measurement and a profile are published, with our program of the same shape
STEPS: tuple[tuple[str, str, str, str], ...] = (
    ("a100-llama3-100m", "a100-llama3-100m-profiled", "llama100m_train_fsdp4.sm", "A100-SXM4-40GB"),
    ("a100-llama3-200m", "a100-llama3-200m-profiled", "llama200m_train_fsdp4.sm", "A100-SXM4-40GB"),
    ("a100-llama3-500m", "a100-llama3-500m-profiled", "llama500m_train_fsdp4.sm", "A100-SXM4-40GB"),
    ("h100-llama3-100m", "h100-llama3-100m-profiled", "llama100m_train_fsdp4.sm", "H100-SXM5-80GB"),
    ("h100-llama3-200m", "h100-llama3-200m-profiled", "llama200m_train_fsdp4.sm", "H100-SXM5-80GB"),
    ("h100-llama3-500m", "h100-llama3-500m-profiled", "llama500m_train_fsdp4.sm", "H100-SXM5-80GB"),
    ("a100-resnet18-bench", "a100-resnet18-profiled", "resnet18_train_dp4.sm", "A100-SXM4-40GB"),
    ("a100-resnet50-bench", "a100-resnet50-profiled", "resnet50_train_dp4.sm", "A100-SXM4-40GB"),
)


def _claim(value: float, unit: str, where: str) -> Sourced:
    return Sourced(value, unit, "hespas2026", where, "2026-11-21", read="primary")


# What hespas2026 tells of its attempt to simulate a small transformer kernel by kernel. Claims: nobody can recompute them.
ACCEL_SIM: Mapping[str, Sourced] = {
    "parameters": _claim(4e6, "1", "sec. VI-A, about"),
    "kernels": _claim(42, "1", "sec. VI-A"),
    "edited": _claim(38, "1", "sec. VI-A"),
    "simulated": _claim(20, "1", "sec. VI-A"),
    "median": _claim(2.1 * 3600, "s", "sec. VI-A, exceeded"),
}


@dataclass(frozen=True)
class Bracket(Result):
    """A measured step between two predictions. ``low`` is our roofline of its program, ``high`` the sum of its regions'
    profiles without communication, which their prediction is never below."""

    workload: str
    system: str
    measured: Figure
    low: float
    high: float

    @property
    def position(self) -> float:
        """eq-bracket-position of the figure as printed."""
        return float(bracket_position(self.measured.value, self.low, self.high))

    @property
    def ends(self) -> tuple[float, float]:
        """The shortest and the longest time that the printed digits and the printed deviation allow."""
        return self.measured.low - self.measured.spread, self.measured.high + self.measured.spread

    @property
    def verdict(self) -> str:
        """``inside`` or ``outside`` when every such time is; otherwise the digits do not tell."""
        shortest, longest = self.ends
        if self.low <= shortest and longest <= self.high:
            return "inside"
        if longest < self.low or shortest > self.high:
            return "outside"
        return "undecided"


@cache
def brackets(fusion: str = "on") -> tuple[Bracket, ...]:
    """Every step of ``STEPS``. ``fusion``, ``on`` or ``off``, says whether the roofline is that of the fused program or of the program as exported.

    >>> [b.verdict for b in brackets()].count("outside")
    0
    """
    found = []
    for measured, profiled, sample, device in STEPS:
        step = figure(measured)
        low = hlo.estimate(hlo.sample(sample), device, fusion=fusion).total_s
        found.append(Bracket(step.workload, step.system, step, low, figure(profiled).value))
    return tuple(found)
