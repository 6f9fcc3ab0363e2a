"""Class training_step: one optimizer step of a dense or mixture transformer on many devices.

The time is the sum of ``training.step_terms``. Seven constants are fitted, and no generation has one of its own: the share of
the peak that products reach on TPUs and on all other devices; the share that kernels of attention reach that were written
for the device, and others; and what software costs everywhere (start-up per layer and per expert, variation). The rest is
counted or planned by a library (``training.shares.counted_software``). A device without rows needs no next of kin but TPUs.
Without constants (datasheet mode) everything is sourced, counted or the bound.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from mlsysim import training
from mlsysim.efficiencies import measured_share
from mlsysim.training import Efficiencies, cast_bytes
from mlsysim.training.shares import (
    FUSED,
    LOSS_PASSES,
    TILE,
    counted_software,
    cp_times,
    from_constants,
    fused_attention,
    kin_of,
    rows_ran_on,
)
from mlsysim.validation.predictors.base import Constants, Prediction, Predictor, Row, Sample
from mlsysim.validation.predictors.fitting import gauss_newton
from mlsysim.validation.predictors.training_rows import step_of

# Physical range of every fitted constant, and where its fit starts.
_GEMM, _ATTENTION = (0.2, 0.95, 0.62), (0.1, 0.9, 0.4)
_SOFTWARE = {
    "layer_overhead": (1e-6, 1e-3, 1e-4),
    "expert_overhead": (1e-5, 4e-4, 2e-4),
    "variation": (0.0, 0.05, 0.01),
}
_ANY, _TPU = "any", "Google tpu"
_SOFT = 0.05  # log error from which a row counts linearly, as in the score


def predict(inputs: Mapping[str, Any], constants: Constants) -> Prediction:
    """Time of one row of class training_step in seconds."""
    row = Row(inputs)
    step = step_of(row)
    eff = from_constants(step.line, step.generation, step.precision, step.clock, constants)
    if constants and not rows_ran_on(constants, step.line):
        row.assume("efficiencies", eff.name, kin_of(constants, step.line))
    time = training.step_terms(step.work, step.layout, step.machine, eff).time
    return Prediction(float(time), assumptions=tuple(row.assumptions))


def _stack(parts: Sequence[Any]) -> Any:
    import numpy as np

    numbers = [f.name for f in dataclasses.fields(parts[0]) if f.name not in training.SHARED_FIELDS]
    return dataclasses.replace(parts[0], **{n: np.array([getattr(p, n) for p in parts]) for n in numbers})


def fit(rows: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """Fit the constants; every group has one vote; needs NumPy."""
    import numpy as np

    steps = [step_of(Row(inputs)) for inputs, _, _ in rows]
    known = [len(s.line) > 1 for s in steps]  # a device nobody knows says nothing of others
    rows = [row for row, use in zip(rows, known, strict=True) if use]
    steps = [s for s, use in zip(steps, known, strict=True) if use]
    measured = np.array([m for _, m, _ in rows])
    tpu, fused = np.array([_TPU in s.line for s in steps]), np.array([fused_attention(s.line) for s in steps])
    names = [(_ANY, "gemm"), (_ANY, "attention")]
    names += [(_TPU, "gemm")] * bool(tpu.any()) + [(FUSED, "attention")] * bool(fused.any())
    ranges = [*(_GEMM if n == "gemm" else _ATTENTION for _, n in names), *_SOFTWARE.values()]
    products = tpu * (names.index((_TPU, "gemm")) if tpu.any() else 0)
    whole, sharded = np.where(fused, len(names) - 1, 1).T  # which attention: of the last name, or of any
    first = len(names)
    names += [("software", n) for n in _SOFTWARE]
    work, layout, machine = (_stack([getattr(s, n) for s in steps]) for n in ("work", "layout", "machine"))
    memory = np.array([measured_share("memory", s.generation) for s in steps])
    clock = np.array([s.clock for s in steps])
    casts = np.array([cast_bytes(s.precision) for s in steps])
    counted = [counted_software(s.line) for s in steps]
    software = {name: np.array([c[name] for c in counted]) for name in counted[0]}

    def log_errors(c: Any) -> Any:
        gemm = c[products] * clock
        eff = Efficiencies(
            gemm=gemm,
            head=gemm,
            attention=c[whole] * clock,
            attention_sharded=c[sharded] * clock,
            memory=memory,
            written=1.0,
            cast_bytes=casts,
            loss_passes=LOSS_PASSES,
            tile=TILE,
            **cp_times(),
            **software,
            **dict(zip(_SOFTWARE, c[first:], strict=True)),
        )
        return np.log(training.step_terms(work, layout, machine, eff).time / measured)

    fitted: dict[str, dict[str, float]] = {f"seen: {s.line[0]}": {} for s in steps}
    found = gauss_newton(ranges, log_errors, [g for _, _, g in rows], soft=_SOFT)
    for (group, name), value in zip(names, found, strict=True):
        fitted.setdefault(group, {})[name] = value
    return fitted


PREDICTOR = Predictor(
    predict,
    fit,
    "Gauss-Newton on a robust log error within physical ranges, linear from 5 %; every group of rows has one vote",
)
