"""The measurements that ship with the package, as cases: what notebooks score, since the open cases stay outside."""

from types import MappingProxyType
from typing import Any

from mlsysim.evidence.cases import CLASSES, Case, CaseFile
from mlsysim.evidence.measured.checks import check
from mlsysim.evidence.measured.measurements import Measurement, measurements
from mlsysim.evidence.measured.plans import PublishedPlan, published_plans


def _inputs(m: Measurement) -> dict[str, Any]:
    out = "bf16" if m.precision == "fp8" else m.precision
    shape = {name: float(m.inputs[name]) for name in ("m", "n", "k")}
    return {"device": m.device, "precision": m.precision, "out_precision": out, "groups": 1.0, **shape}


def gemm_cases() -> CaseFile:
    """Every shipped product that somebody else than its maker measured.

    >>> sorted({case.group for case in gemm_cases().cases})
    ['azure', 'user', 'vidur']
    """
    found = [m for m in measurements().values() if m.kind == "gemm" and m.group != "maker"]
    cases = [Case(m.name, m.group, check(m).measured, None, MappingProxyType(_inputs(m))) for m in found]
    return CaseFile("shipped products", CLASSES["gemm"], tuple(cases))


_SHARDING = {"fsdp": "zero3/fsdp"}  # what the case files call it


def _step_inputs(row: PublishedPlan) -> dict[str, Any]:
    m, p, n = row.shape, row.plan, row.node
    return {
        "model": row.model,
        "layers": float(m.n_layers),
        "hidden": float(m.hidden),
        "ffn": float(m.ffn),
        "heads": float(m.heads),
        "kv_heads": float(m.kv_heads),
        "head_dim": float(m.head_dim),
        "vocab": float(m.vocab),
        "gated_mlp": m.gated_mlp,
        "tied_embeddings": m.tied_embeddings,
        "device": n.device.name,
        "n_devices": float(p.devices),
        "devices_per_node": float(n.domain),
        "intra_node_bandwidth": n.scale_up_bandwidth,
        "inter_node_bandwidth": n.scale_out_bandwidth,
        **{axis: float(getattr(p, axis)) for axis in ("tp", "pp", "cp", "dp")},
        "sharding": _SHARDING.get(p.sharding, p.sharding),
        "virtual_stages": float(p.virtual_stages) if row.schedule_stated else None,
        "micro_batch": float(p.micro_batch),
        "global_batch": float(row.global_batch),
        "seq": float(row.seq),
        "precision": row.precision,
        "recompute": p.recompute,
        **({"cp_comm_type": p.cp_comm_type} if p.cp > 1 else {}),
        "seq_parallel": p.sequence_parallel,
        "task": "pretrain",
    }


def training_cases() -> CaseFile:
    """Every published step of a dense model whose time can be read or computed; one group per source.

    >>> len({case.group for case in training_cases().cases})
    5
    """
    cases = [
        Case(row.name, row.devices.source, row.measured, None, MappingProxyType(_step_inputs(row)))
        for row in published_plans().values()
    ]
    return CaseFile("shipped training steps", CLASSES["training_step"], tuple(cases))
