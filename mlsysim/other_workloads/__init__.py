"""Workloads that are no language models: images as patches, pictures by diffusion, recommendations from tables.

:func:`vision_batch`, :func:`diffusion_image` and :func:`recommendation_batch` put a model of the catalogue on a device; :func:`diffusion_unet` is
one of those models.
"""

from mlsysim.catalog.other_models import diffusion_unet
from mlsysim.other_workloads.equations import (
    attention_parity,
    clip_tokens,
    denoising_flops,
    denoising_time,
    gathered_bytes,
    patch_flops,
    patch_tokens,
    pooled_exchange,
)
from mlsysim.other_workloads.solver import Phase, PhasedTime, diffusion_image, recommendation_batch, vision_batch

__all__ = [
    "Phase",
    "PhasedTime",
    "attention_parity",
    "clip_tokens",
    "denoising_flops",
    "denoising_time",
    "diffusion_image",
    "diffusion_unet",
    "gathered_bytes",
    "patch_flops",
    "patch_tokens",
    "pooled_exchange",
    "recommendation_batch",
    "vision_batch",
]


def __dir__() -> list[str]:
    return __all__
