"""A kernel of a step with its work, traffic and rate, and the terms that kernels sum to."""

from dataclasses import dataclass

from mlsysim import kernels, roofline
from mlsysim._numeric import Num
from mlsysim.results import Explanation, Result, Term, Timed
from mlsysim.serving_steps.equations import serving_step_time
from mlsysim.serving_steps.rates import Rate


@dataclass(frozen=True)
class Kernel(Result):
    """One kernel on one device, run once by each of so many layers."""

    name: str
    part: str  # the term that it belongs to
    layers: Num
    flops: Num
    bytes: Num
    rate: Rate
    peak_flops: float
    memory_bandwidth: float
    starts: float = 1.0  # launches in it

    @property
    def compute_time(self) -> Num:
        """Arithmetic alone, s, over all layers."""
        return self.layers * roofline.compute_time(self.flops, self.rate.compute * self.peak_flops)

    @property
    def memory_time(self) -> Num:
        """Traffic alone, s, over all layers."""
        return self.layers * roofline.memory_time(self.bytes, self.rate.memory * self.memory_bandwidth)

    @property
    def start_time(self) -> Num:
        return self.layers * self.starts * self.rate.start

    @property
    def arguments(self) -> dict[str, Num]:
        """Of eq-kernel-time."""
        return {
            "flops": self.flops,
            "bytes": self.bytes,
            "peak_flops": self.peak_flops,
            "memory_bandwidth": self.memory_bandwidth,
            "compute_efficiency": self.rate.compute,
            "memory_efficiency": self.rate.memory,
            "startup_time": self.starts * self.rate.start,
            "unhidden_bytes": 0.0,
        }

    @property
    def time(self) -> Num:
        """eq-kernel-time over all layers, s."""
        return self.layers * kernels.measured_kernel_time(**self.arguments)


@dataclass(frozen=True)
class StepTerms(Timed):
    """Seconds of one step by term; they sum to its time."""

    OF = "one step"
    projections: Num = 0.0
    mlp: Num = 0.0
    experts: Num = 0.0
    head: Num = 0.0
    prefill_attention: Num = 0.0
    decode_attention: Num = 0.0
    elementwise: Num = 0.0
    messages: Num = 0.0
    overhead: Num = 0.0

    @property
    def time(self) -> Num:
        """eq-serving-step, s."""
        return serving_step_time(**vars(self))

    def explain(self) -> Explanation:
        """The sum; where its parts come from says ``StepModel.explain(batch)``."""
        return Explanation("one step of a server", (Term("step", self.time, "eq-serving-step", vars(self)),), ())
