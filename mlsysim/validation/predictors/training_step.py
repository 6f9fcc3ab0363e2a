"""Class training_step: one optimizer step of a dense or mixture transformer on many devices.

The time is the sum of ``training.step_terms``. Fitted are at most twenty constants, each tied to a class: the share of the
peak that products reach on the generations of one maker or on another maker's devices, drawn towards that of all; the share
that kernels of attention reach; and what software costs everywhere (traffic between products, links, start-up per layer and
per expert, overlaps, contention). A device without rows takes the constants of its next of kin (``efficiencies.lineage``).
Without constants (datasheet mode) everything is sourced, counted or the bound.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from mlsysim import training
from mlsysim.efficiencies import measured_share
from mlsysim.training import Efficiencies, cast_bytes
from mlsysim.training.shares import LOSS_PASSES, TILE, cp_times, from_constants, kin_of, rows_ran_on
from mlsysim.validation.predictors.base import Constants, Prediction, Predictor, Row, Sample
from mlsysim.validation.predictors.fitting import gauss_newton
from mlsysim.validation.predictors.training_rows import step_of

# Physical range of every fitted constant, and where its fit starts.
_GEMM, _ATTENTION = (0.2, 0.95, 0.62), (0.1, 0.9, 0.4)
_SOFTWARE = {
    "elementwise": (5.0, 120.0, 30.0),
    "link": (0.4, 0.95, 0.8),
    "layer_overhead": (1e-6, 1e-3, 1e-4),
    "expert_overhead": (1e-5, 4e-4, 2e-4),
    "tp_overlap": (0.0, 0.95, 0.3),
    "dp_overlap": (0.0, 1.0, 0.8),
    "contention": (0.0, 2.0, 0.4),
    "variation": (0.0, 0.05, 0.01),
}
_ANY, _FAMILY, _TPU = "any", "NVIDIA gpu", "Google tpu"
_FUSED = "fused_attention"
# Kernels of attention written for one kind of device; on later generations of the family those of its own library (fused)
# are one kind, and what general frameworks use where weights are sharded is another.
_OWN_ATTENTION = ("Ampere", _TPU)


def class_of(line: Sequence[str]) -> str:
    """Whose share of the peak a row tells of: a generation's of the maker with most rows, else a maker's.

    >>> class_of(("Blackwell Ultra", "Blackwell", "NVIDIA gpu", "gpu", "any")), class_of(("CDNA 3", "AMD gpu", "gpu", "any"))
    ('Blackwell', 'AMD gpu')
    """
    return line[-4] if len(line) > 3 and line[-3] == _FAMILY else line[-3]


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

    numbers = [f.name for f in dataclasses.fields(parts[0]) if f.name != "order"]
    return dataclasses.replace(parts[0], **{n: np.array([getattr(p, n) for p in parts]) for n in numbers})


def fit(rows: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """Fit the constants; every group has one vote; needs NumPy."""
    import numpy as np

    steps = [step_of(Row(inputs)) for inputs, _, _ in rows]
    known = [len(s.line) > 1 for s in steps]  # a device nobody knows says nothing of others
    rows = [row for row, use in zip(rows, known, strict=True) if use]
    steps = [s for s, use in zip(steps, known, strict=True) if use]
    measured = np.array([m for _, m, _ in rows])
    classes = [class_of(s.line) for s in steps]
    families = [_ANY, *sorted(set(classes))]
    apart = [name for name in _OWN_ATTENTION if name in families]
    names = [(f, "gemm") for f in families]
    names += [(name, "attention") for name in (_ANY, *apart)] + [(_FAMILY, _FUSED)]
    ranges = [_GEMM if n == "gemm" else _ATTENTION for _, n in names] + list(_SOFTWARE.values())
    names += [("software", n) for n in _SOFTWARE]
    ties = [(names.index((f, "gemm")), 0) for f in families if f not in (_ANY, _TPU)]  # a TPU computes in another way
    work, layout, machine = (_stack([getattr(s, n) for s in steps]) for n in ("work", "layout", "machine"))
    memory = np.array([measured_share("memory", s.generation) for s in steps])
    clock = np.array([s.clock for s in steps])
    casts = np.array([cast_bytes(s.precision) for s in steps])
    column = np.array([families.index(c) for c in classes])
    general = np.array([names.index((c if c in apart else _ANY, "attention")) for c in classes])
    fused = np.array([s.line[-3] == _FAMILY and c not in apart for s, c in zip(steps, classes, strict=True)])
    library = np.where(fused, names.index((_FAMILY, _FUSED)), general)
    first = len(names) - len(_SOFTWARE)

    def log_errors(c: Any) -> Any:
        gemm = c[column] * clock
        eff = Efficiencies(
            gemm=gemm,
            head=gemm,
            attention=c[library] * clock,
            attention_sharded=c[general] * clock,
            memory=memory,
            written=1.0,
            cast_bytes=casts,
            loss_passes=LOSS_PASSES,
            tile=TILE,
            **cp_times(),
            **dict(zip(_SOFTWARE, c[first:], strict=True)),
        )
        return np.log(training.step_terms(work, layout, machine, eff).time / measured)

    fitted: dict[str, dict[str, float]] = {f"seen: {s.line[0]}": {} for s in steps}
    found = gauss_newton(ranges, log_errors, [g for _, _, g in rows], ties=ties)
    for (group, name), value in zip(names, found, strict=True):
        fitted.setdefault(group, {})[name] = value
    return fitted


PREDICTOR = Predictor(
    predict,
    fit,
    "Gauss-Newton on a robust log error within physical ranges; every group of rows has one vote; shares of the peak tied "
    "to that of all GPUs as to one source more",
)
