"""From a figure as printed to the SI value that is predicted: one small function per metric, one FLOP convention each."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from mlsysim import flops
from mlsysim.catalog import Model
from mlsysim.errors import unknown_name

Inputs = Mapping[str, Any]

# Value of one printed unit, where nothing but the unit changes.
UNITS: Mapping[str, float] = MappingProxyType(
    {
        "s": 1.0,
        "ms": 1e-3,
        "us": 1e-6,
        "h": 3600.0,
        "days": 86400.0,
        "device-hours": 3600.0,
        "s for 64 steps": 1.0 / 64.0,
        "byte": 1.0,
        "MB": 1e6,
        "GB": 1e9,
        "KiB": 2.0**10,
        "GiB": 2.0**30,
        "TiB": 2.0**40,
        "GB/s": 1e9,
        "TB/s": 1e12,
        "kWh": 3.6e6,
        "MWh": 3.6e9,
        "W": 1.0,
        "kW": 1e3,
        "t": 1e3,
        "g/kWh": 1e-3 / 3.6e6,
        "USD": 1.0,
        "FLOP": 1.0,
        "FLOP/byte": 1.0,
        "tokens": 1.0,
        "parameters": 1.0,
        "fraction": 1.0,
        "%": 0.01,
        "(1: memory, 2: compute)": 1.0,
    }
)


def _per_device(rate: float, inputs: Inputs) -> float:
    return rate * float(inputs["n_devices"])


def _tokens(inputs: Inputs) -> float:
    return float(inputs["global_batch"] * inputs["seq"])


def _counted(convention: str) -> Callable[[float, Inputs, Model], float]:
    """Step time behind a printed TFLOP/s per device that counts as one of ``flops.CONVENTIONS`` does."""

    def seconds(printed: float, inputs: Inputs, model: Model) -> float:
        work = float(flops.counted_flops(model, inputs["seq"], convention)) * _tokens(inputs)
        return work / _per_device(printed * 1e12, inputs)

    return seconds


def _gemm(printed: float, inputs: Inputs, model: Model) -> float:
    return float(2.0 * inputs["groups"] * inputs["m"] * inputs["n"] * inputs["k"] / (printed * 1e12))


def _bus(printed: float, inputs: Inputs, model: Model) -> float:
    """nccl-tests' bus bandwidth, read backwards."""
    phases, ranks = (2.0 if inputs["op"] == "all_reduce" else 1.0), inputs["n_ranks"]
    return float(phases * (ranks - 1.0) / ranks * inputs["bytes"] / (printed * 1e9))


# From what a source prints to what is compared, by the name of the metric.
CONVERSIONS: Mapping[str, Callable[[float, Inputs, Model], float]] = MappingProxyType(
    {
        # Times of a training step.
        "tokens/s": lambda x, row, model: _tokens(row) / x,
        "tokens/s/device": lambda x, row, model: _tokens(row) / _per_device(x, row),
        "samples/s": lambda x, row, model: float(row["global_batch"]) / x,
        "days for 600,000 steps": lambda x, row, model: 86400.0 * x / 600_000,
        "TFLOP/s/device, megatron": _counted("megatron"),
        "TFLOP/s/device, matmul-full": _counted("matmul-full"),
        "TFLOP/s/device, palm": _counted("palm"),
        # Latencies of a whole batch.
        "output tokens/s": lambda x, row, model: float(row["batch"] * row["output_len"]) / x,
        "output tokens/s/device": lambda x, row, model: float(row["batch"] * row["output_len"]) / _per_device(x, row),
        "prompt tokens/s/device": lambda x, row, model: float(row["batch"] * row["input_len"]) / _per_device(x, row),
        "decode tokens/s": lambda x, row, model: float(row["batch"]) / x,
        "decode tokens/s/device": lambda x, row, model: float(row["batch"]) / _per_device(x, row),
        # Kernels and collectives.
        "TFLOP/s": _gemm,
        "GB/s bus": _bus,
        # Counts and scalars.
        "parameters, as bytes": lambda x, row, model: x * float(row["inputs"]["bytes_per_param"]),
        "% of throughput lost": lambda x, row, model: 1.0 / (1.0 - x / 100.0),
    }
)


def measured(metric: str, printed: float, inputs: Inputs, model: Model | None = None) -> float:
    """The SI value behind a printed figure.

    Parameters
    ----------
    metric : str
        A key of ``UNITS`` or ``CONVERSIONS``.
    printed : float
        The figure as the source prints it.
    inputs : mapping
        The row's inputs.
    model : Model, optional
        The row's model, for metrics that count FLOPs.

    Raises
    ------
    UnknownNameError
        An unknown metric.

    >>> measured("tokens/s/device", 1000.0, {"global_batch": 16, "seq": 1000, "n_devices": 8})
    2.0
    """
    if metric in UNITS:
        return printed * UNITS[metric]
    if metric not in CONVERSIONS:
        raise unknown_name("metric", metric, [*UNITS, *CONVERSIONS])
    return CONVERSIONS[metric](printed, inputs, model)  # type: ignore[arg-type]
