"""Which weights a narrow format holds: the parts of a model that published checkpoints store in few bits, and those they keep.

One rule for every place that takes a format by one name: deployments, fronts, servers, the rows of class serving_tpot.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from mlsysim import units
from mlsysim.catalog import Device, Model
from mlsysim.catalog.sourced import shipped
from mlsysim.errors import InputError
from mlsysim.results import Result

# Parts of a model that a recipe stores alike; norms are small and stay wide in all of them.
PARTS = ("attention", "dense", "shared", "experts", "router", "embedding", "head")
# Formats in which the routed experts of a mixture are narrow and all else keeps 16 bits, as in the checkpoints of
# quantised.toml. The formats of GPTQ and AWQ, with zero points, and those of 8 bits hold all matrices of the layers.
EXPERTS_ALONE = ("fp4", "mxfp4", "nvfp4", "int4-sym-g32")
WIDE = "bf16"
_UNQUANTISED = ("fp32", "bf16", "fp16")


@dataclass(frozen=True)
class PublishedRecipe(Result):
    """What a published checkpoint, or the recipe that writes it, stores in few bits."""

    name: str
    model: str
    weights: str  # number format
    narrow: tuple[str, ...]  # of PARTS
    source: str
    where: str
    size: float | None = None  # bytes, where the source prints them

    @property
    def kept(self) -> tuple[str, ...]:
        """Parts that stay in 16 bits."""
        return tuple(part for part in PARTS if part not in self.narrow)


@dataclass(frozen=True)
class StoredParts(Result):
    """Number formats of a checkpoint: of the layers without their routed experts, of these, of embedding and head."""

    layers: str
    experts: str
    head: str


def experts_alone(weights: str, mixture: bool) -> bool:
    """Whether a checkpoint in a format has only its routed experts in it.

    >>> experts_alone("nvfp4", mixture=True), experts_alone("nvfp4", mixture=False), experts_alone("fp8", mixture=True)
    (True, False, False)
    """
    return mixture and weights in EXPERTS_ALONE


def stored_parts(weights: str, mixture: bool, *, experts: str | None = None, head: str | None = None) -> StoredParts:
    """The formats of a checkpoint's parts, from the one name that it goes by.

    Parameters
    ----------
    weights : str
        Number format, as checkpoints are called by it.
    mixture : bool
        Whether the model has routed experts.
    experts : str, optional
        Format of the routed experts; where it is given, ``weights`` is that of everything else in the layers.
    head : str, optional
        Of embedding and head: 16 bits unless given, or ``weights`` where these are not quantised.

    Returns
    -------
    StoredParts

    Assumptions: norms and router are as the layers, which changes nothing that matters.

    >>> found = stored_parts("mxfp4", mixture=True)
    >>> found.layers, found.experts, found.head
    ('bf16', 'mxfp4', 'bf16')
    >>> stored_parts("nvfp4", mixture=True, experts="nvfp4").layers  # attention as well, as LLM Compressor does
    'nvfp4'

    Source: modelopt2025deepseek, transformers2026mxfp4, tokenspeed2026kimi; quantised.toml has them part by part.
    """
    alone = experts is None and experts_alone(weights, mixture)
    return StoredParts(
        layers=WIDE if alone else weights,
        experts=weights if experts is None else experts,
        head=head or (weights if weights in _UNQUANTISED else WIDE),
    )


@cache
def published_recipes() -> Mapping[str, PublishedRecipe]:
    """Checkpoints and recipes of others, by name, each with the parts that it stores in few bits.

    >>> published_recipes()["gpt-oss"].narrow
    ('experts',)
    """
    return shipped(__package__, "quantised.toml", _recipe)


def _recipe(name: str, raw: Mapping[str, Any], file: str) -> PublishedRecipe:
    for part in raw["narrow"]:
        if part not in PARTS:
            raise InputError(f"{file}: {name}: narrow has {part!r}, which is none of {', '.join(PARTS)}")
    size = units.parse(raw["size"], "byte", f"{file}: {name}, size") if "size" in raw else None
    return PublishedRecipe(name, raw["model"], raw["weights"], tuple(raw["narrow"]), raw["source"], raw["where"], size)


@dataclass(frozen=True)
class Formats:
    """Number formats of products, of matrices as stored, of experts and of embedding and head where theirs are others, and of the cache."""

    precision: str
    weights: str | None = None
    experts: str | None = None
    head: str | None = field(default=None, kw_only=True)
    kv: str = field(default="bf16", kw_only=True)


# Checkpoints in four bits whose products are in 16: of a mixture the experts alone, of others all matrices.
_EXPERTS = ("mxfp4", "int4-sym-g32")
_DENSE = {"mxfp4": "mxfp4", "int4": "int4-g128", "int8": "int8", "nvfp4": "nvfp4"}


def served_formats(model: Model, device: Device) -> Formats:
    """In which formats a checkpoint is served on a device.

    >>> from mlsysim import catalog
    >>> served_formats(catalog.model("gpt-oss-120B"), catalog.device("B200")).precision
    'fp4'
    """
    stored, wide = model.stored, default_precision(device)
    if model.stored_experts:
        rest = served_formats(replace(model, stored_experts=""), device)
        return replace(rest, weights=rest.weights or rest.precision, experts=model.stored_experts)
    if stored.startswith("fp8"):
        return Formats("fp8") if device.has("peak_flops.fp8") else Formats(wide, "fp8")
    if device.has("peak_flops.fp4") and (stored == "nvfp4" or (stored == "mxfp4" and model.is_moe)):
        return Formats("fp4", stored)
    if model.is_moe and stored in _EXPERTS:
        return Formats(wide, WIDE, stored)
    if stored in _DENSE:
        return Formats(wide, _DENSE[stored])
    return Formats(wide, WIDE) if wide == "fp32" else Formats(wide)


def default_precision(device: Device) -> str:
    """bf16 where the device has it, else the widest of 16 bits or fewer that it lists."""
    return next((p for p in (WIDE, "fp16", "fp8", "int8", "fp32") if device.has(f"peak_flops.{p}")), WIDE)
