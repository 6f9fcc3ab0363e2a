"""Efficiencies of a training step: calibrated, from the datasheet, or the bound, for any device."""

from functools import lru_cache
from typing import Any

from mlsysim import catalog
from mlsysim.catalog import Device, fabrics
from mlsysim.efficiencies import (
    BOUND,
    CALIBRATED,
    DATASHEET,
    DEFAULT,
    Constants,
    Same,
    checked,
    clock_of,
    family_of,
    generation_of,
    measured_share,
    shipped,
)
from mlsysim.training.parts import BOUND as ALL_PRINTED
from mlsysim.training.parts import Efficiencies

# korthikanti2022recompute, sec. 4.1: a layer keeps 34 bytes per token and hidden unit; each is written and read once,
# which makes 34 passes over 16-bit elements.
COUNTED_PASSES = 34.0
_NARROW = ("fp8", "mxfp8", "int8", "fp6", "fp4", "mxfp4", "nvfp4", "int4")  # fewer than 16 bits


@lru_cache(maxsize=1)
def cp_times() -> dict[str, Any]:
    """What a context-parallel message costs beside its bytes: NCCL's own figures, fitted to nothing."""
    protocol = fabrics.protocol("nccl-ring-simple")
    return {
        "cp_start": protocol.base_latency,
        "ring_node_step": protocol.scale_up_step,
        "ring_network_step": protocol.scale_out_step,
    }


def from_constants(
    generation: str, family: str, narrow: bool, clock: float, constants: Constants, asked: str = ""
) -> Efficiencies:
    """The constants of a device's classes; for a generation that the fit did not see, only what is sourced or counted.

    Parameters
    ----------
    generation, family, clock
        As of ``efficiencies.generation_of``, ``family_of`` and ``clock_of``.
    narrow : bool
        Whether the linear layers run in 8 bits.
    constants : Constants
        None for the datasheet.
    asked : str
        Why it is the datasheet's after all, for its source.
    """
    if generation not in constants:
        sourced = measured_share("gemm", generation) * clock
        return Efficiencies(
            name=DATASHEET,
            source="measured products and STREAM, counted traffic, NCCL's steps" + asked,
            gemm=sourced,
            head=sourced,
            attention=sourced,
            memory=measured_share("memory", generation),
            elementwise=COUNTED_PASSES,
            dp_overlap=1.0,
            **cp_times(),
        )
    gemm, attention = constants[family]["gemm"] * clock, constants["attention"]
    return Efficiencies(
        name=CALIBRATED,
        source="fitted to published steps (scripts/maintain/fit_constants.py); memory as STREAM was measured, NCCL's steps",
        gemm=gemm * (constants.get("8-bit", {}).get("gemm", 1.0) if narrow else 1.0),
        head=gemm,
        attention=attention.get(family, attention["other"]) * clock,
        memory=measured_share("memory", generation),
        **constants["software"],
        **cp_times(),
    )


def efficiencies_of(
    device: Device | str, precision: str = "bf16", efficiencies: Efficiencies | str = DEFAULT
) -> Efficiencies:
    """What software reaches on a device, for :func:`training_step`: by one of the three words of ``mlsysim.efficiencies``.

    Parameters
    ----------
    device : Device or str
        A catalogue entry, its name, or a device of your own.
    precision : str
        Of the linear layers.
    efficiencies : Efficiencies or str
        ``calibrated``, ``datasheet`` or ``bound``; your own pass through. A generation that none of the fitted rows ran on
        has no calibrated constants: it gets the datasheet's, and their source says so.

    Raises
    ------
    InputError, UnknownNameError
        Another word, another device.

    >>> efficiencies_of("H200", "fp8").name, efficiencies_of("MI300X").name, efficiencies_of("H100", efficiencies="bound").gemm
    ('calibrated', 'datasheet', 1.0)
    """
    if isinstance(efficiencies, Efficiencies):
        return efficiencies
    word = checked("training_step", efficiencies, "training.Efficiencies")
    return ALL_PRINTED if word == BOUND else _of(Same(catalog.device(device)), precision in _NARROW, word)


@lru_cache(maxsize=256)
def _of(key: Same, narrow: bool, word: str) -> Efficiencies:
    d = key.device
    generation = generation_of(d)
    constants, asked = ({}, "") if word == DATASHEET else (shipped("training_step"), _not_fitted(generation))
    return from_constants(generation, family_of(d), narrow, clock_of(d), constants, asked)


def _not_fitted(generation: str) -> str:
    return f"; asked for {CALIBRATED} ones, but no fitted row ran on {generation or 'a device of its kind'}"
