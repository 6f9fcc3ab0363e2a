"""Efficiencies of a training step: calibrated, from the datasheet, or the bound, for any device."""

import math
from collections.abc import Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

from mlsysim import _chains, catalog
from mlsysim._numeric.traced import given
from mlsysim.catalog import Device, fabrics
from mlsysim.communication import planned_share
from mlsysim.efficiencies import (
    BOUND,
    CALIBRATED,
    DATASHEET,
    DEFAULT,
    Constants,
    Same,
    best_share,
    check_mode,
    clock_of,
    describe_class,
    fitted_to,
    generation_of,
    kernel_shares,
    lineage,
    measured_share,
    shipped,
    traced_constants,
)
from mlsysim.memory import SCALINGS
from mlsysim.training.parts import BOUND as ALL_PRINTED
from mlsysim.training.parts import Efficiencies

# korthikanti2022recompute, sec. 4.1: a layer keeps 34 bytes per token and hidden unit; each is written and read once,
# which makes 34 passes over 16-bit elements.
COUNTED_PASSES = 34.0
# 16-bit logits are read, their 32-bit copy written, read for the largest and for the sum, read and written as a gradient,
# and that written in 16 bits: 1 + 2 + 2 + 4 + 1 passes over 16-bit numbers, the sum and the largest in one reading.
LOSS_PASSES = 10.0
CONTENTION = 1.0  # as long as the bytes of a hidden gathering take on the fast link, no arithmetic advances
# Causal attention with two pieces a rank: half of the blocks that come round the ring meet all queries, the others the later
# half. Each gives a part of the result, which nvidia2026tecp adds to the sum of those before.
JOINED = 0.75
TILE = 128.0  # rows of a tile of grouped products: nvidia2023matmul, sec. 3.1
# Of the multiprocessors, those that all-to-all kernels hold while products run beside them: 20 of the 132 of an H800
# (deepseek2024v3report, sec. 3.2.2).
MESSENGERS = 20.0 / 132.0
NARROW_BYTES = {  # of one number in the formats below 16 bits, scale factors left out
    "fp8": 1.0,
    "mxfp8": 1.0,
    "int8": 1.0,
    "fp6": 0.75,
    "mxfp6": 0.75,
    "fp4": 0.5,
    "mxfp4": 0.5,
    "nvfp4": 0.5,
    "int4": 0.5,
}
# Formats with scale factors per block run at the printed rate of their elements.
PEAK_FORMAT = {"mxfp8": "fp8", "mxfp6": "fp6", "mxfp4": "fp4", "nvfp4": "fp4"} | {
    name: scaling.peak for name, scaling in SCALINGS.items()
}
_16_BIT = 2.0
TPU = "Google tpu"  # whose products no table of kernels has: their share is fitted to steps
# Forward kernels of attention that were written for the generation before, as frameworks that shard weights bring them:
# FlashAttention-2's share of an H100 (shah2024flashattention3, abstract).
OLDER_ATTENTION = {"Hopper": 0.35}
# Backward kernels of attention beside forward ones: FlashAttention-2 on an A100 (dao2023flashattention2, sec. 1).
ATTENTION_BACKWARD = 0.63 / 0.73
# Sides of the matrix units of TPUs that are wider than a head of 128 (google2026tpuv6e: 256 x 256 multipliers).
ARRAY = {"Trillium": 256.0, "Ironwood": 256.0}
# Kernels started, forward and twice as many backward: of a layer 12, as inference.shares counts them. Of a block of keys from a
# ring 5 (nvidia2026tecp): it is sent on, half of it or of the queries is copied, it is attended to, and the normaliser and the
# result are corrected.
STARTED = {"layer_overhead": 3.0 * 12.0, "hop_overhead": 3.0 * 5.0}


def cast_bytes(precision: str) -> float:
    """Bytes to bring one number from 16 bits to the format of the products, as it lies and transposed; 0 in 16 bits.

    The backward pass reads a matrix the other way, and tensor cores want the numbers of one sum side by side. A recipe of
    ``memory.SCALINGS`` adds its scale factors, and a second reading where the largest number must be known first.

    >>> cast_bytes("bf16"), cast_bytes("fp8"), cast_bytes("fp8-blockwise"), cast_bytes("nvfp4")
    (0.0, 4.0, 4.0625, 3.0)
    """
    if precision in SCALINGS and precision not in NARROW_BYTES:
        return SCALINGS[precision].cast_bytes
    return _16_BIT + 2.0 * NARROW_BYTES[precision] if precision in NARROW_BYTES else 0.0


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
    line: Sequence[str],
    generation: str,
    precision: str,
    clock: float,
    constants: Constants,
    asked: str = "",
    most: tuple[float, float] = (math.inf, math.inf),
    traced: bool = False,
) -> Efficiencies:
    """What kernels of a device reach alone, and what a step keeps of it; without constants the datasheet's figures.

    Parameters
    ----------
    line : sequence of str
        Whose constants it may take, as of ``efficiencies.lineage``.
    generation : str
        As of ``efficiencies.generation_of``; whose measured products and STREAM stand for the datasheet's.
    precision : str
        Of the linear layers.
    clock : float
        As of ``efficiencies.clock_of``.
    constants : Constants
        None for the datasheet.
    asked : str
        What else its source should say.
    most : tuple of float
        As of :func:`most_of`: what the maker of the very device reached with products stands before its relatives' figures.
    traced : bool
        Whether every figure knows its source, for an explanation.
    """
    sourced = {
        "memory": measured_share("memory", generation),
        "written": 1.0,
        "cast_bytes": cast_bytes(precision),
        "loss_passes": LOSS_PASSES,
        "tile": TILE,
        "messengers": MESSENGERS,
        "joined": JOINED,
        **cp_times(),
    }
    if not constants:
        share = measured_share("gemm", generation) * clock
        return Efficiencies(
            name=DATASHEET,
            source="measured products and STREAM, counted traffic, NCCL's steps" + asked,
            gemm=min(share, most[0]),
            head=min(share, most[1]),
            attention=share,
            elementwise=COUNTED_PASSES,
            dp_overlap=1.0,
            **sourced,
        )
    kernels, software = kernel_shares(line, traced).values, dict(constants["software"])
    kept, own = software.pop("in_step"), constants.get(TPU, {}).get("gemm") if TPU in line else None
    products = [kernels[name] for name in (product_kernel(precision), "products_16")]
    gemm, head = ((best if best < math.inf else p * clock) * kept for p, best in zip(products, most, strict=True))
    if own is not None:
        gemm = head = own * clock
        kept = 1.0
    whole, sharded = (share * clock * kept for share in attention_shares(line, kernels["attention"]))
    kin = "" if rows_ran_on(constants, line) else f"; {kin_of(line)}"
    return Efficiencies(
        name=CALIBRATED,
        source=f"kernels as measured alone, and what a step keeps of them: {fitted_to('training_step')}; memory as STREAM was "
        "measured, links as libraries plan with them, counted traffic, NCCL's steps" + kin + asked,
        gemm=gemm,
        head=head,
        attention=whole,
        attention_sharded=sharded,
        attention_backward=ATTENTION_BACKWARD,
        exponential=kernels.get("exponential", 0.0) / (clock * kept),
        array=ARRAY.get(line[0], 1.0),
        **{name: count * kernels["start"] for name, count in STARTED.items()},
        **counted_software(line),
        **software,
        **sourced,
    )


def product_kernel(precision: str) -> str:
    """Which products of ``kernels.toml`` those of a precision are.

    >>> product_kernel("nvfp4"), product_kernel("mxfp8"), product_kernel("bf16")
    ('products_4', 'products_8', 'products_16')
    """
    width = NARROW_BYTES.get(PEAK_FORMAT.get(precision, precision), _16_BIT)
    return "products_16" if width >= _16_BIT else "products_8" if width > 0.5 else "products_4"


def most_of(device: Device | None, precision: str) -> tuple[float, float]:
    """Shares of the peak that its maker reached at best: in the format of the products, and in 16 bits.

    >>> [round(share, 3) for share in most_of(catalog.device("MI325X"), "fp8")]
    [0.581, 0.645]
    """
    return best_share(device, PEAK_FORMAT.get(precision, precision)), best_share(device, "bf16")


def counted_software(line: Sequence[str]) -> dict[str, float]:
    """What software costs and no row was asked: each is counted, planned by a library, or the bound.

    Traffic is what a layer keeps, written and read once. Links inside a domain carry what libraries plan with, adapters all
    that is printed. No message inside a layer hides, and gradients hide behind the last backward pass as far as it goes.

    >>> {name: round(value, 3) for name, value in counted_software(("Hopper", "NVIDIA gpu", "gpu", "any")).items()}
    {'elementwise': 34.0, 'link': 0.824, 'network': 1.0, 'tp_overlap': 0.0, 'dp_overlap': 1.0, 'contention': 1.0}
    """
    return {
        "elementwise": COUNTED_PASSES,
        "link": planned_share(line),
        "network": 1.0,
        "tp_overlap": 0.0,
        "dp_overlap": 1.0,
        "contention": CONTENTION,
    }


def attention_shares(line: Sequence[str], own: float) -> tuple[float, float]:
    """Shares of the peak of forward attention: where every device has whole weights, and where they are sharded.

    Parameters
    ----------
    line : sequence of str
        As of ``efficiencies.lineage``.
    own : float
        Of kernels written for the generation.

    Frameworks that shard weights bring kernels of their own, which on Hopper were written for Ampere. Others call the maker's
    library, whose kernels for Hopper came two years after the device; which release a run had is rarely said, and the
    geometric mean of both stands for it.

    >>> attention_shares(("Ampere", "NVIDIA gpu", "gpu", "any"), 0.7)
    (0.7, 0.7)
    >>> [round(share, 2) for share in attention_shares(("Hopper", "NVIDIA gpu", "gpu", "any"), 0.7)]
    [0.49, 0.35]
    """
    older = OLDER_ATTENTION.get(line[0], own)
    return math.sqrt(own * older), older


def rows_ran_on(constants: Constants, line: Sequence[str]) -> bool:
    """Whether some row of the fit ran on the generation."""
    return f"seen: {line[0]}" in constants


def kin_of(line: Sequence[str]) -> str:
    """Whose products a device without rows in the fit takes, in words.

    >>> kin_of(("CDNA 5", "AMD gpu", "gpu", "any"))
    'no row ran on CDNA 5: kernels of all devices'
    """
    what = line[0] if len(line) > 1 else "a device that is known by this name"
    whose = next(name for i, name in enumerate(line) if "products_16" in kernel_shares(line[: i + 1]).values)
    return f"no row ran on {what}: kernels of {describe_class(whose)}"


def efficiencies_of(
    device: Device | str, precision: str = "bf16", efficiencies: Efficiencies | str = DEFAULT
) -> Efficiencies:
    """What software reaches on a device, for :func:`training_step`: by one of the three modes of ``mlsysim.efficiencies``.

    Parameters
    ----------
    device : Device or str
        A catalogue entry, its name, or a device of your own.
    precision : str
        Of the linear layers.
    efficiencies : Efficiencies or str
        ``calibrated``, ``datasheet`` or ``bound``; your own pass through. A generation that none of the fitted rows ran on
        takes the constants of its closest relatives, which their source names.

    Raises
    ------
    InputError, UnknownNameError
        Another word, another device.

    >>> efficiencies_of("H200", "fp8").name, efficiencies_of("V100-32GB").name, efficiencies_of("H100", efficiencies="bound").gemm
    ('calibrated', 'calibrated', 1.0)
    """
    if isinstance(efficiencies, Efficiencies):
        return efficiencies
    word = check_mode("training_step", efficiencies, "training.Efficiencies")
    return ALL_PRINTED if word == BOUND else _of(Same(catalog.device(device)), precision, word)


@lru_cache(maxsize=256)
def _of(key: Same, precision: str, word: str, traced: bool = False) -> Efficiencies:
    d = key.device
    constants = {} if word == DATASHEET else (traced_constants if traced else shipped)("training_step")
    clock, most = clock_of(d), most_of(d, precision)
    if traced:
        clock = given(
            clock, "clock", "1", "the power of the device per FLOP over the most of its generation: datasheets"
        )
        best = "what its maker reached at best with products"
        most = (given(most[0], "best share", "1", best), given(most[1], "best share in 16 bits", "1", best))
    return from_constants(lineage(d), generation_of(d), precision, clock, constants, most=most, traced=traced)


# Where figures come from that no row fitted.
_ORIGINS = {
    "elementwise": "counted: korthikanti2022recompute, sec. 4.1",
    "memory": "BabelStream on the generation, or its kin: azure2024a100, azure2024h100",
    "link": "what libraries plan with",
    "network": "all that adapters print",
    "cast_bytes": "counted: bytes read and written to bring a number to the format",
    "loss_passes": "counted: passes over the logits",
    "tile": "nvidia2023matmul, sec. 3.1",
    "messengers": "deepseek2024v3report, sec. 3.2.2: 20 of 132 multiprocessors",
    "joined": "counted: nvidia2026tecp",
    "attention_backward": "FlashAttention-2's backward beside its forward: dao2023flashattention2, sec. 1",
    "exponential": "units for exponentials beside matrix units: together2026fa4, nvidia2026softmax",
    "array": "sides of the matrix unit: google2026tpuv6e",
    "written": "counted: what products write",
    "contention": "the bound: bytes of a hidden gathering stop arithmetic",
    "optimizer_bytes": "counted: read gradient, master and moments, write them and the weight",
} | dict.fromkeys(("cp_start", "ring_node_step", "ring_network_step"), "NCCL's own figures of its protocols")


def traced_efficiencies(device: Device, precision: str, efficiencies: Efficiencies) -> Efficiencies:
    """The same efficiencies, each figure with its source: what it was fitted to, measured on, or counted from."""
    used = efficiencies
    if efficiencies.name in (CALIBRATED, DATASHEET):
        known = _of(Same(device), precision, efficiencies.name, True)
        used = known if known == efficiencies else efficiencies
    origins = {f.name: f"{used.name}: {used.source}" for f in fields(used)}
    return _chains.traced(
        used, origins | (_ORIGINS if used.name in (CALIBRATED, DATASHEET) else {}), UNITS, "efficiencies: {}"
    )


UNITS = {
    "layer_overhead": "s",
    "hop_overhead": "s",
    "expert_overhead": "s",
    "cast_bytes": "byte",
    "cp_start": "s",
    "ring_node_step": "s",
    "ring_network_step": "s",
    "optimizer_bytes": "byte",
}
