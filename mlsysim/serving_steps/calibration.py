"""Tier 1: what one measured trace says about the requests that a simulation gets wrong, read and applied.

A calibration belongs to one model, device, tensor-parallel degree, engine and version of that engine, and says so.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlsysim.errors import InputError, unknown_name
from mlsysim.results import Result
from mlsysim.serving_steps import documents
from mlsysim.serving_steps.residuals import overfitting_ratio, residual_time

KIND, VERSION = "mlsysim-calibration", 1
LEAST_REQUESTS = 100  # tam2026, sec. 2: "one trace (>= 100 requests)"
METRICS = ("ttft_s", "e2e_s")


@dataclass(frozen=True)
class Subject:
    """What a calibration was fitted on, and the only thing that it may be used for."""

    model: str
    device: str
    tp: int
    engine: str
    engine_version: str


@dataclass(frozen=True)
class Coefficients(Result):
    """The residual of one metric, and how the fit did."""

    per_output: float  # s/token
    per_prompt: float  # s/token
    constant: float  # s
    tier0_error: float = 0.0  # mean absolute relative error on the trace, before
    training_error: float = 0.0  # after
    validation_error: float = 0.0  # on folds left out of the fit, each in turn
    spread: float = 0.0  # s, standard deviation of what is left

    def residual(self, output_len: float, input_len: float) -> float:
        """eq-tier1-residual, s."""
        return float(residual_time(output_len, input_len, self.per_output, self.per_prompt, self.constant))

    @property
    def helps(self) -> bool:
        """Whether requests left out of the fit are predicted better than at Tier 0."""
        return self.validation_error < self.tier0_error

    @property
    def overfitting(self) -> float:
        """eq-overfitting-ratio; 1 where the fit is exact on both sides."""
        if self.training_error == 0:
            return 1.0 if self.validation_error == 0 else float("inf")
        return float(overfitting_ratio(self.validation_error, self.training_error))


@dataclass(frozen=True)
class Calibration(Result):
    """Fitted residuals of one subject. ``mlsysim calibrate`` makes it, and :func:`load_calibration` reads it."""

    subject: Subject
    requests: int
    prompt_range: tuple[float, float]
    output_range: tuple[float, float]
    metrics: Mapping[str, Coefficients]

    def check(self, **server: object) -> None:
        """Refuse another ``model``, ``device``, ``tp``, ``engine`` or ``engine_version``; what is None is not compared.

        Raises
        ------
        InputError
            Naming every difference.
        """
        mine = asdict(self.subject)
        for name in server:
            if name not in mine:
                raise unknown_name("property of a server", name, mine)
        different = [f"{n} is {v!r} and was {mine[n]!r}" for n, v in server.items() if v is not None and v != mine[n]]
        if different:
            raise InputError(f"this calibration belongs to another server: {'; '.join(different)}; calibrate again")

    def inside(self, input_len: float, output_len: float) -> bool:
        """Whether a request lies among the sizes that were fitted."""
        return (
            self.prompt_range[0] <= input_len <= self.prompt_range[1]
            and self.output_range[0] <= output_len <= self.output_range[1]
        )

    def apply(self, input_len: float, output_len: float, predicted: Mapping[str, float]) -> dict[str, float]:
        """Tier 1 times of a request from its Tier 0 times ``ttft_s`` and ``e2e_s``; the others follow from them.

        Raises
        ------
        InputError
            A corrected time that cannot be: not positive, or an answer that ends before it begins.
        """
        after = {m: predicted[m] + c.residual(output_len, input_len) for m, c in self.metrics.items()}
        ttft, e2e = after["ttft_s"], after["e2e_s"]
        if output_len == 1:  # the first token is the answer; two fits would contradict each other
            ttft = e2e
        if not 0 < ttft <= e2e:
            raise InputError(
                f"Tier 1 gives TTFT {ttft:.4g} s and E2E {e2e:.4g} s for a request of {input_len:g} + "
                f"{output_len:g} tokens; the calibration was fitted on {self.prompt_range[0]:g} to "
                f"{self.prompt_range[1]:g} + {self.output_range[0]:g} to {self.output_range[1]:g}: calibrate on requests "
                "like these"
            )
        found = {"ttft_s": ttft, "e2e_s": e2e, "e2e_per_token_s": e2e / output_len}
        return found | ({"itl_s": (e2e - ttft) / (output_len - 1)} if output_len > 1 else {})

    def to_dict(self) -> dict[str, Any]:
        """The calibration as it stands in its file."""
        return {
            "subject": asdict(self.subject),
            "requests": self.requests,
            "input_len": list(self.prompt_range),
            "output_len": list(self.output_range),
            "metrics": {n: asdict(c) for n, c in self.metrics.items()},
        }

    def save(self, path: str | Path) -> None:
        """Write the calibration as JSON."""
        documents.write(path, KIND, VERSION, self.to_dict())


def load_calibration(path: str | Path) -> Calibration:
    """Read a calibration file; every field is checked.

    Raises
    ------
    InputError
        Naming the file and the field.
    """
    f = documents.read(path, KIND, VERSION)
    f.only("format", "version", "subject", "requests", "input_len", "output_len", "metrics")
    s = f.object("subject").only(*Subject.__dataclass_fields__)
    subject = Subject(s.text("model"), s.text("device"), s.whole("tp", 1), s.text("engine"), s.text("engine_version"))
    metrics = f.object("metrics").only(*METRICS)
    found = {}
    for name in METRICS:
        one = metrics.object(name).only(*Coefficients.__dataclass_fields__)
        found[name] = Coefficients(**{n: one.number(n, -1e6, 1e6) for n in Coefficients.__dataclass_fields__})
    return Calibration(
        subject,
        f.whole("requests", LEAST_REQUESTS),
        f.pair("input_len"),
        f.pair("output_len"),
        MappingProxyType(found),
    )
