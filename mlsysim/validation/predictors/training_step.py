"""Class training_step: one optimizer step of a dense or mixture transformer on many devices.

The time is the sum of ``training.step_terms``. Fitted are at most fifteen constants, each tied to a class: the share of
the peak that products and attention reach per generation of devices, and what software costs everywhere (traffic
between products, links, start-up per layer, overlaps). A generation without a like in the rows of the fit takes the
sourced share instead. Without constants (datasheet mode) everything is sourced, counted or the bound.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from mlsysim import training
from mlsysim.efficiencies import measured_share
from mlsysim.training import Efficiencies
from mlsysim.training.shares import cp_times, from_constants
from mlsysim.validation.predictors.base import Constants, Prediction, Predictor, Row, Sample
from mlsysim.validation.predictors.fitting import gauss_newton
from mlsysim.validation.predictors.training_rows import step_of

# Physical range of every fitted constant, and where its fit starts.
_RANGES = {
    "gemm": (0.3, 0.9, 0.7),
    "8-bit": (0.5, 1.0, 0.9),
    "attention": (0.1, 0.75, 0.45),
    "elementwise": (5.0, 90.0, 30.0),
    "link": (0.4, 0.95, 0.8),
    "layer_overhead": (1e-6, 1e-3, 1e-4),
    "selective_recompute": (0.0, 1.0, 0.4),
    "tp_overlap": (0.0, 0.95, 0.3),
    "dp_overlap": (0.0, 1.0, 0.8),
    "variation": (0.0, 0.05, 0.01),
}
_SOFTWARE = (
    "elementwise",
    "link",
    "layer_overhead",
    "selective_recompute",
    "tp_overlap",
    "dp_overlap",
    "variation",
)


def predict(inputs: Mapping[str, Any], constants: Constants) -> Prediction:
    """Time of one row of class training_step in seconds."""
    row = Row(inputs)
    step = step_of(row)
    eff = from_constants(step.generation, step.family, step.narrow, step.clock, constants)
    if constants and eff.name == "datasheet":
        row.assume("efficiencies", "datasheet", f"no row of generation {step.generation or 'unknown'!r} in the fit")
    time = training.step_terms(step.work, step.layout, step.machine, eff).time
    return Prediction(float(time), assumptions=tuple(row.assumptions))


def _stack(parts: Sequence[Any]) -> Any:
    import numpy as np

    numbers = [f.name for f in dataclasses.fields(parts[0]) if f.name != "order"]
    return dataclasses.replace(parts[0], **{n: np.array([getattr(p, n) for p in parts]) for n in numbers})


def fit(rows: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """Fit the constants; every group has one vote; needs NumPy."""
    import numpy as np

    rows = [row for row in rows if step_of(Row(row[0])).generation]  # a device nobody knows says nothing of others
    steps = [step_of(Row(inputs)) for inputs, _, _ in rows]
    measured = np.array([m for _, m, _ in rows])
    families = sorted({s.family for s in steps})
    # Attention kernels differ by generation only where both were tuned for: Ampere's own, and one for all others.
    names = [(f, "gemm") for f in families] + [("8-bit", "gemm"), ("attention", "Ampere"), ("attention", "other")]
    names += [("software", n) for n in _SOFTWARE]
    ranges = [_RANGES[c if c in ("attention", "8-bit") else n] for c, n in names]
    work, layout, machine = (_stack([getattr(s, n) for s in steps]) for n in ("work", "layout", "machine"))
    memory = np.array([measured_share("memory", s.generation) for s in steps])
    ampere = np.array([s.family == "Ampere" for s in steps])
    clock = np.array([s.clock for s in steps])
    narrow = np.array([s.narrow for s in steps])
    column = np.array([families.index(s.family) for s in steps])
    k = len(families)

    def log_errors(c: Any) -> Any:
        gemm = c[column] * clock
        eff = Efficiencies(
            gemm=np.where(narrow, gemm * c[k], gemm),
            head=gemm,
            attention=np.where(ampere, c[k + 1], c[k + 2]) * clock,
            memory=memory,
            **cp_times(),
            **dict(zip(_SOFTWARE, c[k + 3 :], strict=True)),
        )
        return np.log(training.step_terms(work, layout, machine, eff).time / measured)

    fitted: dict[str, dict[str, float]] = {s.generation: {} for s in steps}  # seen, even if no constant is its own
    found = gauss_newton(ranges, log_errors, [g for _, _, g in rows])
    for (group, name), value in zip(names, found, strict=True):
        fitted.setdefault(group, {})[name] = value
    return fitted


PREDICTOR = Predictor(
    predict, fit, "Gauss-Newton on a robust log error within physical ranges; every group of rows has one vote"
)
