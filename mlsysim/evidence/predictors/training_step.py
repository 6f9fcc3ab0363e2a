"""Class training_step: one optimizer step of a dense or mixture transformer on many devices.

The time is the sum of ``training.step_terms``. Products and attention run as their kernels were measured alone
(``efficiencies.kernel_shares``). Four constants are fitted: what a step keeps of that rate, the share of the peak that products
reach on TPUs, of which no table of kernels knows, start-up per expert, and variation. The rest is counted or planned by a
library (``training.shares.counted_software``).
Without constants (datasheet mode) everything is sourced, counted or the bound.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mlsysim import training
from mlsysim.evidence.predictors.base import Constants, Prediction, Predictor, Row, Sample, made_once
from mlsysim.evidence.predictors.fitting import gauss_newton
from mlsysim.evidence.predictors.training_rows import step_of
from mlsysim.evidence.predictors.training_structures import SHIPPED, Rows, Variant
from mlsysim.training.shares import from_constants, kin_of, rows_ran_on


def predict(inputs: Mapping[str, Any], constants: Constants) -> Prediction:
    """Time of one row of class training_step in seconds."""
    row = Row(inputs)
    step = step_of(row)
    eff = from_constants(step.line, step.generation, step.precision, step.clock, constants, most=step.most)
    if constants and not rows_ran_on(constants, step.line):
        row.assume("efficiencies", eff.name, kin_of(step.line))
    if not step.updated:
        eff = replace(eff, optimizer_bytes=0.0)
        row.assume("optimizer", "none", "without a vocabulary: layers alone, forward and backward")
    time = training.step_terms(step.work, step.layout, step.machine, eff).time
    return Prediction(float(time), assumptions=tuple(row.assumptions))


def fit(rows: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """Fit the constants; every group has one vote; needs NumPy."""
    import numpy as np

    steps = [made_once(step_of, inputs) for inputs, _, _ in rows]
    known = [len(s.line) > 1 for s in steps]  # a device nobody knows says nothing of others
    rows = [row for row, use in zip(rows, known, strict=True) if use]
    steps = [s for s, use in zip(steps, known, strict=True) if use]
    variant = Variant(Rows([inputs for inputs, _, _ in rows], steps), SHIPPED)
    measured = np.array([m for _, m, _ in rows])

    def log_errors(constants: Any) -> Any:
        return np.log(variant.times(constants) / measured)

    fitted: dict[str, dict[str, float]] = {f"seen: {s.line[0]}": {} for s in steps}
    found = gauss_newton(variant.ranges, log_errors, [g for _, _, g in rows], soft=variant.soft)
    for (group, name), value in zip(variant.names, found, strict=True):
        fitted.setdefault(group, {})[name] = value
    return fitted


PREDICTOR = Predictor(
    predict,
    fit,
    "Gauss-Newton on a robust log error within physical ranges, linear from 5 %; every group of rows has one vote",
)
