"""The measured products that ship with the package, as cases: what notebooks score, since the open cases stay outside."""

from types import MappingProxyType
from typing import Any

from mlsysim.validation.cases import CLASSES, Case, CaseFile
from mlsysim.validation.checks import check
from mlsysim.validation.measurements import Measurement, measurements


def _inputs(m: Measurement) -> dict[str, Any]:
    out = "bf16" if m.precision == "fp8" else m.precision
    shape = {name: float(m.inputs[name]) for name in ("m", "n", "k")}
    return {"device": m.device, "precision": m.precision, "out_precision": out, "groups": 1.0, **shape}


def gemm_cases() -> CaseFile:
    """Every shipped product that somebody else than its maker measured.

    >>> sorted({case.group for case in gemm_cases().cases})
    ['azure', 'vidur']
    """
    found = [m for m in measurements().values() if m.kind == "gemm" and m.group != "maker"]
    cases = [Case(m.name, m.group, check(m).measured, None, MappingProxyType(_inputs(m))) for m in found]
    return CaseFile("shipped products", CLASSES["gemm"], tuple(cases))
