"""The errata appendix: both sides of every slip that an edition can compute."""

from typing import Any

from mlsysim import catalog, kernels, units


def numbers() -> dict[str, Any]:
    """Both sides of every slip in the sources that this edition already computes."""
    h100, a40 = catalog.device("H100"), catalog.device("A100-SXM4-40GB")
    v3 = catalog.device("TPU-v3")
    return {
        "h100_dense": units.format(h100.peak_flops["bf16"], "FLOP/s", prefix="T"),
        "a100_40_bandwidth": units.format(a40.memory_bandwidth, "byte/s"),
        "b200_dense": units.format(catalog.device("B200").peak_flops["bf16"], "FLOP/s", prefix="T"),
        # two 128 x 128 systolic arrays per core at 940 MHz, a multiply-accumulate per cell and cycle
        "tpuv3_core": units.format(kernels.gemm_flops(2, 128, 128) * 0.94e9, "FLOP/s", prefix="T"),
        "tpuv3_peak": units.format(v3.peak_flops["bf16"], "FLOP/s", prefix="T"),
        "devices": str(len(catalog.devices())),
        "ici_v5e": units.format(catalog.device("TPU-v5e").scale_up_bandwidth, "byte/s"),
        "ici_v5p": units.format(catalog.device("TPU-v5p").scale_up_bandwidth, "byte/s"),
        "ici_v6e": units.format(catalog.device("TPU-v6e").scale_up_bandwidth, "byte/s"),
        "b200_memory": units.format(catalog.device("B200").memory_capacity, "byte"),
        "b200_bandwidth": units.format(catalog.device("B200").memory_bandwidth, "byte/s"),
        "gb200_peak": units.format(catalog.device("GB200").peak_flops["bf16"], "FLOP/s", prefix="T"),
        "node_gb": units.format(8 * h100.memory_capacity, "byte"),
    }
