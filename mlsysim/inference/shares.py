"""Efficiencies of a forward pass: calibrated, from the datasheet, or the bound, for any device and any way to launch."""

import math
from functools import lru_cache
from typing import Any

from mlsysim import catalog
from mlsysim._numeric import Num
from mlsysim.catalog import Device
from mlsysim.efficiencies import (
    BOUND,
    CALIBRATED,
    DATASHEET,
    DEFAULT,
    Constants,
    Same,
    checked,
    generation_name,
    measured_share,
    shipped,
)
from mlsysim.inference.work import BOUND as ALL_PRINTED
from mlsysim.inference.work import Efficiencies

# korthikanti2022recompute, sec. 4.1 and 4.2: of 34 bytes per token and hidden unit 2 are dropout masks, which inference has
# not; of the rest 8 are not cut by tensor parallelism. Each is written and read once: 32 passes.
PASSES, REPLICATED = 32.0, 8.0 / 32.0
# Share of the link that large messages reach: azure2024a100's all-reduce of 8 GB has 231.6 of 300 GB/s, rounded.
LINK = 0.8
# tam2026, H2, puts the scheduler of a server in Python at 3 to 30 ms a step: the geometric mean.
_EAGER_STEP = math.sqrt(3e-3 * 30e-3)
# reddi2026mathpage, sec. 1, puts a launch at 0.01 to 0.1 ms: the geometric mean, for the kernels of a layer in eager
# mode: norm, product, rotation, cache, attention, product, all-reduce, norm, product, activation, product, all-reduce.
_EAGER_LAUNCH = 12.0 * math.sqrt(0.01e-3 * 0.1e-3)
# How a framework brings kernels to the device: eager Python, a C++ host one by one, or (all others) a captured graph.
_EAGER = ("vllm-2023", "transformers", "huggingface")
_LAUNCHED = ("fastertransformer", "deepspeed")
_EDGE_BANDWIDTH = 600e9  # byte/s; a device that the catalogue does not know and that is slower shares its memory


def host_of(framework: str) -> str:
    """How a framework launches: ``eager``, ``launched`` or ``graph``.

    >>> host_of("vllm-2023"), host_of("TensorRT-LLM")
    ('eager', 'graph')
    """
    name = framework.lower()
    if any(word in name for word in _EAGER):
        return "eager"
    return "launched" if any(word in name for word in _LAUNCHED) else "graph"


def shares_memory(device: Device | None, name: str, bandwidth: float) -> bool:
    """Whether processor and accelerator use one memory: by kind, else by maker, else by bandwidth."""
    return device.kind in ("soc", "cpu") if device else name.startswith("Apple") or bandwidth < _EDGE_BANDWIDTH


def _share_of_peak(balance: Num, peak: Num, bandwidth: Num) -> Num:
    """Share of the peak that arithmetic reaches: 1 / (1 + ridge / balance).

    As if every FLOP dragged 1/balance bytes that nothing hides: operands fetched again, epilogues, tiles that do not
    fill. The further a device's peak has outgrown its memory, the smaller the share.
    """
    return 1.0 / (1.0 + peak / bandwidth / balance)


def from_constants(
    peak: Num,
    half_peak: Num,
    bandwidth: Num,
    *,
    generation: str,
    host: str,
    shared_memory: bool,
    sharded: bool,
    constants: Constants,
) -> Efficiencies:
    """Sourced and counted values, and the constants of a device's classes; without constants the datasheet's.

    Parameters
    ----------
    peak, half_peak, bandwidth : float or array, FLOP/s and byte/s
        Of the products' precision, of the 16-bit formats, of the memory.
    generation : str
        As of ``efficiencies.generation_name``.
    host : str
        As of :func:`host_of`.
    shared_memory, sharded : bool
        Whether a processor uses the same memory; whether activations are cut like the weights, as TPU compilers do.
    constants : Constants
        None for the datasheet.
    """
    stream = measured_share("memory", generation)
    eager = host == "eager"
    sourced: dict[str, Any] = {
        "elementwise": PASSES,
        "replicated": 0.0 if sharded else REPLICATED,
        "link": LINK,
        "launch_time": _EAGER_LAUNCH if eager else 0.0,
        "step_overhead": _EAGER_STEP if eager else 0.0,
    }
    if not constants:
        share = measured_share("gemm", generation)
        source = "measured products, STREAM and links, counted traffic and launches"
        return Efficiencies(DATASHEET, source, gemm=share, attention=share, memory=stream, cache=stream, **sourced)
    balance, shared = constants["balance"], shared_memory
    memory = constants["shared memory"]["memory"] if shared else stream
    software = constants["graph" if host == "graph" else "launched"]
    known = min(peak, bandwidth * 1e6)
    return Efficiencies(
        name=CALIBRATED,
        source="seven constants, fitted by scripts/maintain/fit_constants.py",
        gemm=_share_of_peak(balance["products"], known, bandwidth),
        attention=_share_of_peak(balance["attention"], known * half_peak / peak, bandwidth),
        memory=memory,
        cache=memory,
        link_latency=software["link_latency"],
        layer_overhead=0.0 if shared else software["layer_overhead"],
        **sourced,
    )


def efficiencies_of(
    device: Device | str, precision: str = "bf16", efficiencies: Efficiencies | str = DEFAULT, framework: str = ""
) -> Efficiencies:
    """What software reaches on a device, for :func:`deploy`: by one of the three words of ``mlsysim.efficiencies``.

    Parameters
    ----------
    device : Device or str
        A catalogue entry, its name, or a device of your own.
    precision : str
        Of the matrix products.
    efficiencies : Efficiencies or str
        ``calibrated``, ``datasheet`` or ``bound``; your own pass through. The calibrated constants hold for any device: how
        far arithmetic stays behind the peak follows from how far the peak has outgrown the memory.
    framework : str
        What launches the kernels, as in ``vllm-2023``; a captured graph unless given.

    Raises
    ------
    InputError, UnknownNameError
        Another word, another device, a precision that it has no peak for.

    >>> efficiencies_of("H100").name, efficiencies_of("H100").launch_time, efficiencies_of("H100", efficiencies="bound").gemm
    ('calibrated', 0.0, 1.0)
    """
    if isinstance(efficiencies, Efficiencies):
        return efficiencies
    word = checked("deploy", efficiencies, "inference.Efficiencies")
    return ALL_PRINTED if word == BOUND else _of(Same(catalog.device(device)), precision, word, host_of(framework))


@lru_cache(maxsize=256)
def _of(key: Same, precision: str, word: str, host: str) -> Efficiencies:
    d = key.device
    peak = d.peak_flops[precision]
    return from_constants(
        peak,
        half_peak(d, precision),
        d.memory_bandwidth,
        generation=generation_name(d),
        host=host,
        shared_memory=shares_memory(d, d.name, d.memory_bandwidth),
        sharded=d.kind == "tpu",
        constants={} if word == DATASHEET else shipped("inference"),
    )


def half_peak(device: Device, precision: str) -> float:
    """FLOP/s of attention, which stays in 16 bits: of bf16 where the device lists it, else of the precision."""
    return device.peak_flops["bf16" if device.has("peak_flops.bf16") else precision]
