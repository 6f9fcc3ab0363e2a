"""Chapter 29, beyond language."""

import math
from dataclasses import replace
from typing import Any

from chapter_numbers import whole_share as share
from mlsysim import catalog, evidence, other_workloads, roofline, units
from mlsysim.evidence.measured.other_workloads import carried_over

VIT, DIT, LARGE = (catalog.patch_transformer(n) for n in ("ViT-L/16", "DiT-XL/2", "DiT-XL/2-512"))
DLRM, H100, H200 = catalog.recommender("DLRM-DCNv2"), catalog.device("H100"), catalog.device("H200")
BATCH, LINK = 8192, 450e9


def _reached(name: str, precision: str = "") -> str:
    row = evidence.measurement(name)
    return share(evidence.check(replace(row, precision=precision or row.precision)).reached)


def _patches() -> dict[str, str]:
    work = [float(other_workloads.patch_flops(n, VIT.layers, VIT.hidden, VIT.ffn)) for n in (197, 785)]
    equal = float(other_workloads.attention_parity(VIT.hidden, VIT.ffn))
    shares = [n / (n + equal) for n in (197, 785)]
    square = other_workloads.vision_batch(VIT, H100, batch=256)
    return {
        "tokens": f"{float(other_workloads.patch_tokens(224, 224, 16)):.0f}",
        "latent": f"{float(other_workloads.patch_tokens(512, 512, 2, 8)):,.0f}",
        "cells": f"{3 * 16 * 16}",
        "work": units.format(work[0], "FLOP", 3),
        "more": f"{work[1] / work[0]:.1f}",
        "parity": f"{equal:,.0f}",
        "side": f"{16 * equal**0.5:,.0f}",
        "share": share(shares[0]),
        "share_double": share(shares[1]),
        "attention_intensity": f"{square.phases[0].intensity:.0f}",
        "attention_time": share(square.phases[0].time / square.time),
    }


def _clips() -> dict[str, str]:
    clip = float(other_workloads.clip_tokens(129, 720, 1280, 2, extra_tokens=256))
    equal = float(other_workloads.attention_parity(3072, 12288))
    patches = float(other_workloads.patch_tokens(1008, 1008, 14))
    layers, h = 5, 512  # of DLRMv3, whose token meets 7 h^2 weights a layer, and half of the square
    matrices, square = 2.0 * layers * 7 * h * h, 2.0 * layers * h
    history = (math.sqrt(matrices**2 + 4 * square * 260e9) - matrices) / (2 * square)
    return {
        "tokens": f"{clip:,.0f}",
        "beyond": f"{clip / equal:.1f}",
        "share": share(clip / (clip + equal)),
        "prompt": f"{float(other_workloads.patch_tokens(1008, 1008, 28)):,.0f}",
        "encoder": units.format(float(other_workloads.patch_flops(patches, 32, 1280, 5120)), "FLOP", 2),
        "prefill": units.format(2 * 7.6e9 * patches / 4, "FLOP", 2),
        "history": f"{history:,.0f}",
        "candidate": units.format(matrices + 2 * square * history, "FLOP", 2),
        "gathered": units.format(history * h * 2, "byte", 2),
        "intensity": f"{260e9 / (history * h * 2):,.0f}",
    }


def _convnets() -> dict[str, str]:
    fused, bare = (other_workloads.vision_batch("resnet50", "RTX-4090", 1024, "fp16", fused=f) for f in (True, False))
    stages: dict[str, list[other_workloads.Phase]] = {p.name.partition(":")[0]: [] for p in fused.phases}
    for p in fused.phases:
        stages[p.name.partition(":")[0]].append(p)
    first, last = (sum(p.flops for p in stages[s]) / sum(p.bytes for p in stages[s]) for s in ("stage 1", "stage 4"))
    norms = sum(p.time for p in bare.phases if p.name.startswith("norms"))
    device = catalog.device("RTX-4090")
    return {
        "macs": f"{catalog.convnet('resnet50').macs / 1e9:.1f}",
        "first": f"{first:.0f}",
        "last": f"{last:.0f}",
        "ridge": f"{float(roofline.ridge_point(device.peak_flops['fp16'], device.memory_bandwidth)):.0f}",
        "fused": f"{fused.rate:,.0f}",
        "bare": f"{bare.rate:,.0f}",
        "norms": share(norms / bare.time),
    }


def _pictures() -> dict[str, str]:
    one = 2.0 * LARGE.macs
    whole = float(other_workloads.denoising_flops(50, one))
    made = other_workloads.diffusion_image(LARGE, H100, steps=50)
    small, two = (other_workloads.diffusion_image(DIT, H100, steps=50, batch=b) for b in (1, 8))
    weights = 2.0 * DIT.parameters
    alone = other_workloads.diffusion_image(DIT, H100, steps=50, guidance=False)
    step = 2 * 2.0 * DIT.macs / H100.peak_flops["bf16"]
    return {
        "one": units.format(one, "FLOP", 3),
        "whole": units.format(whole, "FLOP", 3),
        "time": units.format(made.time, "s", 3),
        "weights": units.format(weights, "byte", 3),
        "handed": units.format(small.phases[0].bytes / 50 - weights, "byte", 2),
        "moved_time": units.format(small.time / 50, "s", 2),
        "weights_time": units.format(weights / H100.memory_bandwidth, "s", 2),
        "step": units.format(step, "s", 2),
        "intensity": f"{small.phases[0].intensity:.0f}",
        "intensity_batch": f"{two.phases[0].intensity:.0f}",
        "ridge": f"{float(roofline.ridge_point(H100.peak_flops['bf16'], H100.memory_bandwidth)):.0f}",
        "guidance": f"{small.time / alone.time:.1f}",
        "few": units.format(float(other_workloads.denoising_flops(4, one, 1)), "FLOP", 2),
    }


def _tables() -> dict[str, str]:
    row = DLRM.width * 4.0
    gathered = float(other_workloads.gathered_bytes(1, sum(DLRM.pooled), row))
    batch = other_workloads.recommendation_batch(DLRM, H100, BATCH, 8, LINK)
    times = {p.name: p.time for p in batch.phases}
    single = {
        d.name: other_workloads.recommendation_batch(DLRM, d, 16384, precision="fp16", row_element_bytes=2)
        for d in (H100, H200)
    }
    bound = single[H200.name].rate / single[H100.name].rate
    return {
        "tables": f"{len(DLRM.tables)}",
        "size": units.format(4.0 * DLRM.table_parameters, "byte", 3),
        "share": f"{100 * DLRM.table_parameters / DLRM.parameters:.2f} %",
        "lookups": f"{sum(DLRM.pooled)}",
        "most": f"{max(DLRM.pooled)}",
        "row": units.format(row, "byte", 3),
        "gathered": units.format(gathered, "byte", 3),
        "narrow": share(4 * 1 / float(other_workloads.gathered_bytes(1, 1, 4 * 1)), 1),
        "flops": units.format(2.0 * DLRM.macs, "FLOP", 2),
        "pooling": f"{batch.phases[0].intensity:.2f}",
        "whole_intensity": f"{2.0 * DLRM.macs / gathered:.0f}",
        "sent": units.format(float(other_workloads.pooled_exchange(BATCH, len(DLRM.tables), row, 8)), "byte", 2),
        "gathering": units.format(times["gathering"], "s", 3),
        "exchange": units.format(times["exchange"], "s", 3),
        "products": units.format(times["products"], "s", 3),
        "bandwidth_more": share(H200.memory_bandwidth / H100.memory_bandwidth - 1),
        "bound_more": share(bound - 1),
        "crossings": share(DLRM.crossings * 2 * DLRM.features * DLRM.rank / DLRM.macs),
    }


def _measured() -> dict[str, str]:
    h200, h100 = (evidence.check(f"mlperf-dlrm-{d}-99").measured for d in ("h200", "h100"))
    slow, fast = (evidence.check(f"timm-resnet50-4090-{m}").measured for m in ("eager", "compiled"))
    rows = [evidence.check(f"torchrec-dlrm-a100-{n}").measured for n in ("2k", "16k")]
    return {
        "h200_more": share(h200 / h100 - 1),
        "vit": _reached("timm-vith14-5090-compiled"),
        "convnet": _reached("timm-resnet50-4090-compiled"),
        "compiler": f"{fast / slow:.1f}",
        "compiler_bound": f"{evidence.check('timm-resnet50-4090-compiled').predicted / evidence.check('timm-resnet50-4090-eager').predicted:.1f}",
        "flux_eager": _reached("flux-dev-h100-eager"),
        "flux": _reached("flux-dev-h100-compiled"),
        "video": _reached("hunyuan-video-720p-h100"),
        "video_h20": _reached("hunyuan-video-720p-h20"),
        "video_l20": _reached("hunyuan-video-720p-l20"),
        "video_time": f"{evidence.check('hunyuan-video-720p-h100').measured / 60:.0f} minutes",
        "video_eight": f"{evidence.check('hunyuan-video-720p-h100').measured / evidence.check('hunyuan-video-720p-h100-8').measured:.1f}",
        "dit_training": _reached("dit-xl2-training"),
        "vit_training": _reached("vit-h14-core-days"),
        "dlrm_low": _reached("mlperf-dlrm-h200-99"),
        "dlrm_high": _reached("mlperf-dlrm-h100-99-9"),
        "flux_time_eager": units.format(evidence.check("flux-dev-h100-eager").measured, "s", 3),
        "flux_time": units.format(evidence.check("flux-dev-h100-compiled").measured, "s", 3),
        "dit_rate": f"{evidence.check('dit-xl2-training').measured:.1f}",
        "torchrec": _reached("torchrec-dlrm-a100-16k"),
        "torchrec_small": _reached("torchrec-dlrm-a100-2k"),
        "torchrec_fp32": _reached("torchrec-dlrm-a100-16k", precision="fp32"),
        "torchrec_small_fp32": _reached("torchrec-dlrm-a100-2k", precision="fp32"),
        "torchrec_batch": f"{rows[1] / rows[0]:.1f}",
        "carried_vit": units.percent(carried_over("timm-vith14-5090-compiled", "timm-vith14-4090-compiled"), 0),
        "carried_net": units.percent(carried_over("timm-resnet152-5090-compiled", "timm-resnet152-4090-compiled"), 0),
        "carried_flux": units.percent(carried_over("flux-dev-h100-compiled", "timm-vith14-4090-compiled"), 0),
        "dlrm_flops": units.percent(evidence.check("dlrm-dcnv2-flops").error, 0),
        "dlrm_size": units.format(evidence.check("dlrm-dcnv2-size").predicted, "byte", 3),
        "dlrm_size_printed": units.format(evidence.check("dlrm-dcnv2-size").measured, "byte", 2),
    }


def _unets() -> dict[str, str]:
    xl = other_workloads.diffusion_unet("SDXL")
    attention = sum(part.macs for part in xl.parts() if part.kind == "attention")
    return {
        "parameters": f"{xl.parameters:,}",
        "macs": f"{xl.macs / 1e12:.2f}",
        "attention": units.percent(attention / xl.macs, 0, signed=False),
        "bound": units.format(other_workloads.diffusion_image(xl, H100, steps=50).time, "s", 3),
    }


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 29."""
    return {
        "patches": _patches(),
        "clips": _clips(),
        "convnets": _convnets(),
        "pictures": _pictures(),
        "tables": _tables(),
        "measured": _measured(),
        "unets": _unets(),
    }
