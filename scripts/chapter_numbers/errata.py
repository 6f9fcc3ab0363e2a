"""The errata appendix: both sides of every slip that an edition can compute."""

from typing import Any

from mlsysim import catalog, collectives, kernels, network, units


def numbers() -> dict[str, Any]:
    """Both sides of every slip in the sources that this edition already computes."""
    h100, a40 = catalog.device("H100"), catalog.device("A100-SXM4-40GB")
    v3, plan = catalog.device("TPU-v3"), catalog.protocol("nccl-ring-simple")
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
        "node_gb": units.format(8 * h100.usable_memory, "byte"),
        **{
            f"{which}_{name}": units.format(bandwidth, "byte/s")
            for name, device in (("a100", "A100-SXM4-80GB"), ("h100", "H100"), ("b200", "B200"))
            for which, bandwidth in (
                ("links", catalog.device(device).scale_up_bandwidth),
                ("peer", network.peer_bandwidth(catalog.device(device).scale_up_bandwidth, 4.0)),
            )
        },
        "scheduler_low": f"{3e-3 / 50e-6:.0f}",
        "scheduler_high": f"{30e-3 / 50e-6:.0f}",
        "node_ratio_h100": f"{catalog.node('DGX-H100').bandwidth_ratio:g}",
        "node_ratio_a100": f"{catalog.node('DGX-A100').bandwidth_ratio:g}",
        "node_ratio_b200": f"{catalog.node('DGX-B200').bandwidth_ratio:g}",
        # a gigabyte against the half size of a ring with NCCL's steps: how many times bandwidth exceeds latency
        **{
            f"latency_claim_{ranks}": f"{1e9 / collectives.half_size(catalog.link(link).bandwidth, step, ranks):.2g}"
            for ranks, link in ((8, "NVLink-4"), (1024, "NDR"))
            for step in (collectives.ring_latency(ranks, 8, plan.scale_up_step, plan.scale_out_step),)
        },
    }
