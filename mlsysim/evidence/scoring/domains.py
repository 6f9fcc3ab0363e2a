"""Where a row lies: device generation, kind of model, precision, phase. Seen in other sources, each of them, or new.

An error counted in domain promises nothing out of it. So every row is placed, and a row is in domain (*known*) when
each of its four parts was seen in a source other than its own; else its domain is *new*.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from mlsysim.efficiencies import lineage
from mlsysim.efficiencies.domains import DENSE, MIXTURE, PARTS, PHASES, loop_domain, stored_as, width_of
from mlsysim.errors import UnknownNameError, unknown_name
from mlsysim.evidence.cases import Case
from mlsysim.intervals import KNOWN, NEW
from mlsysim.memory.serving import checkpoint

__all__ = ["PARTS", "domain_of", "domains_left_out", "ground", "grounds", "sources_of_parts"]

Domain = Mapping[str, str]  # the four parts; an empty one does not apply to the class


def __dir__() -> list[str]:
    return __all__


def _generation(row: Mapping[str, Any]) -> str:
    if not row.get("device"):
        return ""
    return lineage(str(row["device"]), row.get("peak_flops"), row.get("hbm_bandwidth"))[0]


def _model(row: Mapping[str, Any]) -> str:
    return MIXTURE if row.get("n_experts") else DENSE


def _stored(row: Mapping[str, Any]) -> str:
    return f"{stored_as(row.get('weight_bits') or 16.0)} weights, {width_of(row.get('compute_precision'))} products"


def _serving(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Generation, kind of model, format of the products, prompts and answers together or apart."""
    try:
        model, _ = checkpoint(str(row.get("model")))
        mixture, latent = model.is_moe, model.is_mla
    except UnknownNameError:
        mixture = latent = False
    precision = str(row.get("gemm_quant") or row.get("precision") or "")
    found = loop_domain(_generation(row), mixture, latent, precision, row.get("mode") == "disagg")
    generation, kind, width, phase = (found[part] for part in PARTS)
    return generation, kind, width, phase


def _span(row: Mapping[str, Any]) -> str:
    ranks = row.get("n_ranks") or 1.0
    return "inside a domain" if ranks <= (row.get("ranks_per_node") or ranks) else "across domains"


_PLACES: Mapping[str, Callable[[Mapping[str, Any]], tuple[str, str, str, str]]] = {
    "training_step": lambda r: (
        _generation(r),
        _model(r),
        width_of(r.get("precision")),
        str(r.get("task") or "pretrain"),
    ),
    "inference": lambda r: (_generation(r), _model(r), _stored(r), PHASES.get(str(r.get("phase")), "")),
    "gemm": lambda r: (
        _generation(r),
        "grouped" if (r.get("groups") or 1) > 1 else "plain",
        width_of(r.get("precision")),
        "",
    ),
    "attention": lambda r: (
        _generation(r),
        str(r.get("kind") or ""),
        width_of(r.get("precision")),
        str(r.get("phase") or ""),
    ),
    "collective": lambda r: (_generation(r), str(r.get("op") or ""), "", _span(r)),
    "serving_tpot": _serving,
    "serving_ttft": _serving,
    "memory": lambda r: ("", str(r.get("kind") or ""), width_of((r.get("inputs") or {}).get("precision")), ""),
    "scalar": lambda r: ("", str(r.get("quantity") or ""), "", str(r.get("basis") or "")),
}


def domain_of(class_name: str, row: Mapping[str, Any]) -> Domain:
    """The four parts of a row's domain, from its inputs.

    >>> dict(domain_of("training_step", {"device": "GB300", "n_experts": 256, "precision": "mxfp8"}))
    {'generation': 'Blackwell Ultra', 'kind': 'mixture', 'precision': '8-bit in blocks', 'phase': 'pretrain'}
    """
    if class_name not in _PLACES:
        raise unknown_name("class of cases", class_name, _PLACES)
    return MappingProxyType(dict(zip(PARTS, _PLACES[class_name](row), strict=True)))


def sources_of_parts(class_name: str, cases: Iterable[Case]) -> dict[str, dict[str, set[str]]]:
    """Part to value to the sources whose rows have it."""
    found: dict[str, dict[str, set[str]]] = {part: {} for part in PARTS}
    for case in cases:
        for part, value in domain_of(class_name, case.inputs).items():
            found[part].setdefault(value, set()).add(case.group)
    return found


def ground(domain: Domain, seen: Mapping[str, Mapping[str, set[str]]], own: str = "") -> str:
    """``known`` when every part was seen in a source other than ``own``, else ``new``."""
    return KNOWN if all(seen[part].get(value, set()) - {own} for part, value in domain.items()) else NEW


def grounds(class_name: str, cases: Iterable[Case]) -> list[str]:
    """For every case, whether the sources of the others know its domain."""
    cases = list(cases)
    seen = sources_of_parts(class_name, cases)
    return [ground(domain_of(class_name, case.inputs), seen, case.group) for case in cases]


def domains_left_out(class_name: str, cases: Iterable[Case]) -> dict[str, list[Case]]:
    """Every value of every part with its rows, for leaving whole domains out; not one that holds all rows."""
    cases = list(cases)
    found: dict[str, list[Case]] = {}
    for case in cases:
        for part, value in domain_of(class_name, case.inputs).items():
            if value:
                found.setdefault(f"{part}: {value}", []).append(case)
    return {name: rows for name, rows in sorted(found.items()) if len(rows) < len(cases)}
