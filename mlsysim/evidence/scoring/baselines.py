"""What a structureless estimate of a training step would score on the same rows, by leaving one group out as ours does.

Three of them: one MFU per device and precision; another for every way of recomputing; and a ten-minute model, which
counts the FLOPs that are done (recomputation with them), adds the pipeline's bubble, and divides by one efficiency per
generation and precision. Each takes its efficiency, a median, from the other groups; a class that they lack takes that of
all rows.
"""

import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlsysim import flops
from mlsysim.evidence.cases import Case, CaseFile
from mlsysim.evidence.metrics import signed_error
from mlsysim.evidence.predictors.base import Row, Unsupported
from mlsysim.evidence.predictors.training_rows import Step, step_of
from mlsysim.evidence.scoring import ScoredRow, Summary, summarise
from mlsysim.parallelism import bubble_ratio
from mlsysim.results import Result
from mlsysim.training import FLASH_BACKWARD


@dataclass(frozen=True)
class Baseline(Result):
    """An estimate: the time at an efficiency of one, and which rows share an efficiency."""

    name: str
    ideal: Callable[[Step], float]
    classes: Callable[[Mapping[str, Any], Step], Hashable]


def _work(step: Step, matrix_passes: float, core_passes: float) -> float:
    """FLOPs of a step per device at the peak of its precision, in seconds."""
    w, p, m = step.work, step.layout, step.machine
    core = flops.attention_core_flops(w.layers, p.attended, w.heads, w.qk_dim, w.v_dim)
    layers = flops.forward_matmul_flops(w.layers * (w.dense_params + w.active_expert_params))
    head = (2.0 + p.weight_gradients) * flops.forward_matmul_flops(w.head_params)
    devices = p.tp * p.pp * p.cp * p.dp
    tokens = p.global_batch * p.seq / devices
    return float(tokens * (matrix_passes * layers + core_passes * core + head) / m.peak_flops)


def model_time(step: Step) -> float:
    """Model FLOPs: nothing twice, the attention's backward as 2."""
    return _work(step, 2.0 + step.layout.weight_gradients, 3.0)


def _physics(step: Step) -> float:
    """FLOPs that are done, and the bubble."""
    p = step.layout
    again = p.recompute_full + p.recompute_selective
    done = _work(step, 2.0 + p.weight_gradients + p.recompute_full, 1.0 + FLASH_BACKWARD + again)
    micro_batches = max(1.0, p.global_batch / (p.dp * p.micro_batch))
    return float(done * (1.0 + bubble_ratio(p.pp, micro_batches, p.virtual_stages)))


def _precision(inputs: Mapping[str, Any], step: Step) -> str:
    return "8-bit" if step.narrow else "16-bit"


BASELINES = (
    Baseline("one MFU per device and precision", model_time, lambda r, s: (r.get("device"), _precision(r, s))),
    Baseline(
        "one MFU per device, precision and recompute",
        model_time,
        lambda r, s: (r.get("device"), _precision(r, s), r.get("recompute")),
    ),
    Baseline("ten-minute physics model", _physics, lambda r, s: (s.generation, _precision(r, s))),
)


def _efficiency(rows: Sequence[tuple[float, float]]) -> float:
    """Median of ideal over measured."""
    return statistics.median(ideal / measured for ideal, measured in rows)


def score_baseline(baseline: Baseline, file: CaseFile) -> Summary:
    """Score a baseline on training rows, each group with the efficiencies of the others."""
    known: list[tuple[Case, float, Hashable]] = []
    scored: dict[str, ScoredRow] = {}
    for case in file.cases:
        try:
            step = step_of(Row(case.inputs))
            known.append((case, baseline.ideal(step), baseline.classes(case.inputs, step)))
        except Unsupported as why:
            scored[case.id] = ScoredRow(case.id, case.group, case.measured, None, None, False, str(why), ())
    for case, ideal, kind in known:
        others = [(c, i, k) for c, i, k in known if c.group != case.group]
        alike = [(i, c.measured) for c, i, k in others if k == kind]
        every = [(i, c.measured) for c, i, _ in others]
        predicted = ideal / _efficiency(alike or every)
        error = float(signed_error(predicted, case.measured))
        scored[case.id] = ScoredRow(case.id, case.group, case.measured, predicted, error, True, "", ())
    rows = [scored[case.id] for case in file.cases]
    return summarise(rows, [case.tolerance for case in file.cases])


def score_baselines(file: CaseFile) -> dict[str, Summary]:
    """Every baseline's summary on a file of training rows, by name."""
    return {baseline.name: score_baseline(baseline, file) for baseline in BASELINES}
