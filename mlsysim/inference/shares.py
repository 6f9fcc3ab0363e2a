"""Efficiencies of a forward pass: calibrated, from the datasheet, or the bound, for any device and any way to launch."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

from mlsysim import _chains, catalog
from mlsysim._numeric import Num
from mlsysim._numeric.traced import given
from mlsysim.catalog import Device
from mlsysim.efficiencies import (
    BOUND,
    CALIBRATED,
    DATASHEET,
    DEFAULT,
    Constants,
    Same,
    Server,
    check_mode,
    fitted_to,
    kernel_shares,
    lineage,
    measured_share,
    pooled,
    server_of,
    shipped,
    traced_constants,
)
from mlsysim.inference.equations import unpack_time
from mlsysim.inference.work import BOUND as ALL_PRINTED
from mlsysim.inference.work import Efficiencies

# korthikanti2022recompute, sec. 4.1 and 4.2: of 34 bytes per token and hidden unit 2 are dropout masks, which inference has
# not; of the rest 8 are not cut by tensor parallelism. Each is written and read once: 32 passes.
PASSES, REPLICATED = 32.0, 8.0 / 32.0
# Share of the link that large messages reach: azure2024a100's all-reduce of 8 GB has 231.6 of 300 GB/s, rounded.
LINK = 0.8
# tam2026, H2, puts the scheduler of a server in Python at 3 to 30 ms a step: the geometric mean.
_EAGER_STEP = math.sqrt(3e-3 * 30e-3)
# reddi2026mathpage, sec. 1, puts a launch at 0.01 to 0.1 ms: the geometric mean, for each kernel of a layer in eager mode. A
# server with kernels of its own has twelve (efficiencies.Server.launches): norm, product, rotation, cache, attention, product,
# all-reduce, norm, product, activation, product, all-reduce.
_EAGER_LAUNCH = math.sqrt(0.01e-3 * 0.1e-3)
_EDGE_BANDWIDTH = 600e9  # byte/s; a device that nobody knows and that is slower shares its memory
# Rows of a tile of grouped products, on which deepgemm2025 works.
TILE = 128.0
# Vector operations that make a number of a narrow weight: taking its zero point off, and multiplying with its scale.
UNPACKED = 2.0


def shares_memory(device: Device | None, bandwidth: float, line: Sequence[str] = ()) -> bool:
    """Whether CPU and accelerator share one memory: by kind, else by bandwidth for unknown devices."""
    if device is not None:
        return device.kind in _SHARING
    return any(kind in line for kind in _SHARING) if len(line) > 1 else bandwidth < _EDGE_BANDWIDTH


_SHARING = ("soc", "cpu")


def vector_rate(device: Device | None, half_peak: Num, line: Sequence[str]) -> Num:
    """FLOP/s of the vector units: the catalogue's, else the share of the 16-bit rate that its relatives have."""
    if device is not None and device.has("vector_flops.fp32"):
        return device.vector_flops["fp32"]
    return half_peak * kernel_shares(line).values["vector"]


def _without_constants(
    line: Sequence[str], server: Server, started: Num, between: Num, known: dict[str, Any]
) -> Efficiencies:
    """The datasheet's rates times what others' benchmarks reach."""
    generation = next((name for name in line if name in ("Ampere", "Hopper")), "")
    share, stream = measured_share("gemm", generation), measured_share("memory", generation)
    source = "measured products, STREAM and links, counted traffic and launches"
    eager = {"launch_time": started, "step_overhead": between} if server.decode == "eager" else {}
    prompts = {"prompt_launch_time": started} if server.prompts == "eager" else {}
    return Efficiencies(
        DATASHEET, source, gemm=share, attention=share, latent=share, memory=stream, cache=stream,
        grouped=share, grouped_memory=stream, latent_cache=stream, **known, **eager, **prompts
    )  # fmt: skip


def _products(own: Mapping[str, Num], k: Mapping[str, Num], server: Server, peak: Num, half_peak: Num) -> Num:
    """The share of the peak that products reach: fitted on runs of the family, else that of their kernels in the format."""
    narrow = k.get("products_4", k["products_8"]) if peak > 3.0 * half_peak else k["products_8"]
    gemm = own.get("products", narrow if peak > 1.5 * half_peak else k["products_16"])
    if server.prompt_rate:
        gemm = min(gemm, server.prompt_rate / peak)
    return gemm


def _stream(server: Server, streamed: Num, shared_memory: bool, bandwidth: Num) -> Num:
    """The share of the bandwidth with which weights are read; some servers read whole rows at a rate of their own."""
    memory = (not shared_memory and server.stream) or streamed
    return min(memory, server.row_bandwidth / bandwidth) if server.row_bandwidth else memory


def from_constants(
    peak: Num,
    half_peak: Num,
    bandwidth: Num,
    *,
    line: Sequence[str],
    server: Server,
    shared_memory: bool,
    sharded: bool,
    vector_flops: Num,
    constants: Constants,
    traced: bool = False,
) -> Efficiencies:
    """Sourced and counted values, and the constants of a device's classes; without constants the datasheet's.

    Parameters
    ----------
    peak, half_peak, bandwidth : float or array, FLOP/s and byte/s
        Of the products' precision, of the 16-bit formats, of the memory.
    line : sequence of str
        As of ``efficiencies.lineage``.
    server : Server
        As of ``efficiencies.server_of``.
    shared_memory, sharded : bool
        Whether a processor uses the same memory; whether activations are cut like the weights, as TPU compilers do.
    vector_flops : float or array, FLOP/s
        Of the vector units.
    constants : Constants
        None for the datasheet.
    traced : bool
        Whether every figure knows its source, for an explanation.
    """
    started = server.launches * _EAGER_LAUNCH
    between = _EAGER_STEP if server.scheduler else 0.0
    sourced: dict[str, Any] = {"elementwise": PASSES, "replicated": 0.0 if sharded else REPLICATED, "link": LINK}
    if not constants:
        return _without_constants(line, server, started, between, sourced)
    shares = kernel_shares(line, traced)
    k, software = dict(shares.values), constants["software"]
    family = pooled({name: v for name, v in constants.items() if name not in _SOFTWARE}, line)
    own = family.values if family is not None else {}
    streamed = k.get("shared_memory", constants["shared memory"]["memory"]) if shared_memory else k["memory"]
    memory = _stream(server, streamed, shared_memory, bandwidth)
    whole = own.get("layer_overhead", server.kernels * k["start"])  # of all kernels of a layer together
    launches = {"eager": started, "launched": software["launch_time"]}
    whose = "" if shares.own else f"; {shares.describe('no kernel timed on')}"
    named = "" if server.known else f"; a server that the table does not have, {server.decode} as its name says"
    return Efficiencies(
        name=CALIBRATED,
        source=f"kernels as measured alone, software {fitted_to('inference')}{whose}{named}",
        gemm=(gemm := _products(own, k, server, peak, half_peak)),
        grouped=min(gemm, k["grouped"]),
        grouped_memory=memory if shared_memory else min(memory, k["grouped_memory"]),
        latent_cache=memory if shared_memory else k["latent_memory"],
        tile=TILE,
        attention=own.get("attention", k["attention"]),
        exponential=k.get("exponential", 0.0),
        latent=k["latent"],
        memory=memory,
        cache=memory if shared_memory else k["cache"],
        link_latency=software["library_latency" if server.decode in launches else "link_latency"],
        network_start=(traced_constants if traced else shipped)("collective")["call"]["startup_s"],
        short_link=software["short_link"],
        switch_time=software["switch_time"],
        layer_overhead=whole,
        kernel_start=0.0 if whole else k["start"],
        grouped_start=0.0 if whole else k["grouped_start"],
        attention_start=0.0 if whole else k["attention_start"],
        launch_time=launches.get(server.decode, 0.0),
        prompt_launch_time=launches.get(server.prompts, 0.0),
        step_overhead=between if server.decode == "eager" else 0.0,
        sequence_overhead=software["sequence_overhead"] if server.decode == "eager" and server.scheduler else 0.0,
        score_bytes=server.score_bytes,
        unpack_time=unpack_time(UNPACKED, vector_flops),
        ungrouped=0.0 if server.grouped else software["ungrouped"],
        overlap=1.0 if sharded else 0.0,
        spread=1.0 if sharded else 0.0,
        **sourced,
    )


_SOFTWARE = ("software", "shared memory")  # classes of constants that are no devices


def efficiencies_of(
    device: Device | str, precision: str = "bf16", efficiencies: Efficiencies | str = DEFAULT, framework: str = ""
) -> Efficiencies:
    """What software reaches on a device, for :func:`deploy`: by one of the three modes of ``mlsysim.efficiencies``.

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
        The server that launches the kernels, as in ``"TensorRT-LLM 0.5"``; a current one unless given. A name that
        the table does not have says itself whether it is eager or captured.

    Raises
    ------
    InputError, UnknownNameError
        Another word, another device, a precision that it has no peak for.

    >>> efficiencies_of("H100").name, efficiencies_of("H100").launch_time, efficiencies_of("H100", efficiencies="bound").gemm
    ('calibrated', 0.0, 1.0)
    """
    if isinstance(efficiencies, Efficiencies):
        return efficiencies
    word = check_mode("deploy", efficiencies, "inference.Efficiencies")
    return ALL_PRINTED if word == BOUND else _of(Same(catalog.device(device)), precision, word, server_of(framework))


@lru_cache(maxsize=256)
def _of(key: Same, precision: str, word: str, server: Server, traced: bool = False) -> Efficiencies:
    d, line = key.device, lineage(key.device)
    half = half_peak(d, precision)
    vector = vector_rate(d, half, line)
    constants = {} if word == DATASHEET else (traced_constants if traced else shipped)("inference")
    return from_constants(
        d.peak_flops[precision],
        half,
        d.memory_bandwidth,
        line=line,
        server=server,
        shared_memory=shares_memory(d, d.memory_bandwidth),
        sharded=d.kind == "tpu",
        vector_flops=given(vector, "vector rate", "FLOP/s", "the device's vector units") if traced else vector,
        constants=constants,
        traced=traced,
    )


# Where figures come from that no kernel was timed for and no row fitted.
_ORIGINS = {
    "elementwise": "counted: korthikanti2022recompute, sec. 4.1 and 4.2",
    "replicated": "counted: korthikanti2022recompute, sec. 4.2",
    "link": "azure2024a100: its all-reduce of 8 GB over what the links print",
    "tile": "deepgemm2025: rows of a tile of grouped products",
    "step_overhead": "tam2026, H2: geometric mean of its range",
    "launch_time": "reddi2026mathpage, sec. 1: geometric mean of its range, for the kernels of a layer",
}


def traced_efficiencies(
    device: Device, precision: str, efficiencies: Efficiencies, framework: str = ""
) -> Efficiencies:
    """The same efficiencies, each figure with its source: what it was measured on, or fitted to."""
    used = efficiencies
    if efficiencies.name in (CALIBRATED, DATASHEET):
        known = _of(Same(device), precision, efficiencies.name, server_of(framework), True)
        used = known if known == efficiencies else efficiencies
    origins = {f.name: f"{used.name}: {used.source}" for f in fields(used)}
    return _chains.traced(
        used, origins | (_ORIGINS if used.name in (CALIBRATED, DATASHEET) else {}), _UNITS, "efficiencies: {}"
    )


_UNITS = {
    name: "s"
    for name in Efficiencies.__dataclass_fields__
    if name.endswith(("_overhead", "_time", "_start", "_latency"))
}


def half_peak(device: Device, precision: str) -> float:
    """FLOP/s of attention, which stays in 16 bits: of bf16 where the device lists it, else of the precision."""
    return device.peak_flops["bf16" if device.has("peak_flops.bf16") else precision]
