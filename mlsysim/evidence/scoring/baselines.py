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
from mlsysim.errors import MlsysimError
from mlsysim.evidence.cases import Case, CaseFile
from mlsysim.evidence.metrics import signed_error
from mlsysim.evidence.predictors.base import Row, Unsupported
from mlsysim.evidence.predictors.training_rows import Step, step_of
from mlsysim.evidence.scoring import ScoredRow, Summary, summarise
from mlsysim.evidence.scoring.domains import domain_of
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


def _model(step: Step) -> float:
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
    Baseline("one MFU per device and precision", _model, lambda r, s: (r.get("device"), _precision(r, s))),
    Baseline(
        "one MFU per device, precision and recompute",
        _model,
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


def _filled(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A row's inputs with what an empty cell means for a roofline, the catalogue's peaks among it."""
    row = {name: value for name, value in inputs.items() if value is not None}
    device = Row(inputs).device
    if device is not None:
        precision = row.get("precision") or row.get("compute_precision") or "bf16"
        if device.has(f"peak_flops.{precision}"):
            row.setdefault("peak_flops", device.peak_flops[precision])
        row.setdefault("hbm_bandwidth", device.memory_bandwidth)
        if device.has("scale_up_bandwidth"):
            row.setdefault("intra_node_bandwidth", device.scale_up_bandwidth)
    if "heads" in row:
        row.setdefault("head_dim", row["hidden"] / row["heads"])
        row.setdefault("kv_heads", row["heads"])
    if "params" in row:
        row.setdefault("active_params", row["params"])
    if "head_dim" in row:
        row.setdefault("v_head_dim", row["head_dim"])
    for name, value in (("groups", 1.0), ("ranks_per_node", row.get("n_ranks")), ("batch", 1.0), ("n_devices", 1.0)):
        row.setdefault(name, value)
    row.setdefault("inter_node_bandwidth", row.get("intra_node_bandwidth"))
    return row


def score_per_generation(file: CaseFile) -> Summary:
    """The datasheet's roofline over one constant per device generation, the median of its rows in other groups.

    A generation that no other group has takes the median of all other rows, and 1 where there are none. A row whose cells do not make a roofline has no
    prediction, and counts as 100 % wrong.
    """
    from mlsysim.evidence.reality.simple import roofline

    name = file.case_class.name
    ideals: dict[str, float] = {}
    for case in file.cases:
        try:
            ideals[case.id] = roofline(name, _filled(case.inputs))
        except (KeyError, TypeError, ValueError, MlsysimError):
            continue
    places = {case.id: domain_of(name, case.inputs)["generation"] for case in file.cases}
    rows = []
    for case in file.cases:
        if not (ideal := ideals.get(case.id)):
            rows.append(ScoredRow(case.id, case.group, case.measured, None, None, False, "no roofline", ()))
            continue
        others = [c for c in file.cases if c.group != case.group and ideals.get(c.id)]
        alike = [c for c in others if places[c.id] == places[case.id]]
        kin = alike or others
        share = _efficiency([(ideals[c.id], c.measured) for c in kin]) if kin else 1.0
        predicted = ideal / share
        error = float(signed_error(predicted, case.measured))
        rows.append(ScoredRow(case.id, case.group, case.measured, predicted, error, True, "", ()))
    return summarise(rows, [case.tolerance for case in file.cases])


def score_baselines(file: CaseFile) -> dict[str, Summary]:
    """Every baseline's summary on a file of training rows, by name."""
    return {baseline.name: score_baseline(baseline, file) for baseline in BASELINES}
