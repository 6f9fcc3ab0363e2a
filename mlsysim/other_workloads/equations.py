"""Workloads other than language models: images and videos as patches, diffusion in many passes, embedding look-ups in large tables."""

from mlsysim._numeric import Num, maximum
from mlsysim.equations import AT_LEAST_ONE, COUNT, FRACTION, POSITIVE, equation


@equation(
    "eq-patch-tokens",
    formula="(height / (downscale * patch)) * (width / (downscale * patch)) + extra_tokens",
    domain={"patch": POSITIVE, "downscale": POSITIVE},
)
def patch_tokens(height: Num, width: Num, patch: Num, downscale: Num = 1.0, extra_tokens: Num = 0.0) -> Num:
    """Tokens that a transformer makes of an image: its patches, and what is set beside them.

    Formula: n = H / (d p) x W / (d p) + n_x.

    Parameters
    ----------
    height, width : float or array, 1
        Sides H and W of the image, in pixels.
    patch : float or array, 1
        Side p of a patch, in pixels of the image, or in cells of its latent where it has one.
    downscale : float or array, 1
        Pixels d of the image along a side of a cell of the latent: 8 for the usual autoencoders, 1 without one.
    extra_tokens : float or array, 1
        Tokens n_x that are no patches: the class token of a vision transformer, the prompt of a picture.

    Returns
    -------
    float or array, 1

    Assumptions: patches tile the image, without overlap and without a rest.

    >>> patch_tokens(224, 224, 16), patch_tokens(512, 512, 2, downscale=8)
    (196.0, 1024.0)

    Source: dosovitskiy2021vit, sec. 3.1; for latents peebles2023dit.
    """
    return (height / (downscale * patch)) * (width / (downscale * patch)) + extra_tokens


@equation(
    "eq-clip-tokens",
    formula="(1 + (frames - 1) / stride) * (height / (downscale * patch)) * (width / (downscale * patch)) + extra_tokens",
    domain={"frames": AT_LEAST_ONE, "stride": AT_LEAST_ONE, "patch": POSITIVE, "downscale": POSITIVE},
)
def clip_tokens(
    frames: Num, height: Num, width: Num, patch: Num, downscale: Num = 8.0, stride: Num = 4.0, extra_tokens: Num = 0.0
) -> Num:
    """Tokens that a transformer makes of a video: the first frame's patches, and as many for every few frames after it.

    Formula: n = (1 + (F - 1) / d_t) x H / (d p) x W / (d p) + n_x.

    Parameters
    ----------
    frames : float or array, 1
        Frames F of the clip.
    height, width : float or array, 1
        Sides H and W of a frame, in pixels.
    patch : float or array, 1
        Side p of a patch, in cells of the latent.
    downscale : float or array, 1
        Pixels d along a side of a cell of the latent.
    stride : float or array, 1
        Frames d_t after the first that share a layer of the latent.
    extra_tokens : float or array, 1
        Tokens n_x that are no patches: the prompt.

    Returns
    -------
    float or array, 1

    Assumptions: a causal autoencoder, which keeps the first frame to itself; patches of one layer of the latent, without a rest.

    >>> clip_tokens(81, 720, 1280, 2), clip_tokens(1, 512, 512, 2)
    (75600.0, 1024.0)

    Source: kong2024hunyuanvideo, README, 3D VAE, and hyvideo/config.py, --video-length, which is one frame more than a multiple.
    """
    return (1 + (frames - 1) / stride) * patch_tokens(height, width, patch, downscale) + extra_tokens


@equation(
    "eq-patch-flops",
    formula="flops_per_mac * layers * (tokens * (4 * hidden**2 + 2 * hidden * ffn) + 2 * tokens**2 * hidden)",
)
def patch_flops(tokens: Num, layers: Num, hidden: Num, ffn: Num, flops_per_mac: Num = 2.0) -> Num:
    """FLOPs of one pass of a transformer in which every token attends to every other.

    Formula: F = 2 L (n (4 h^2 + 2 h f) + 2 n^2 h).

    Parameters
    ----------
    tokens : float or array, 1
        Tokens n of one image.
    layers : float or array, 1
        Layers L.
    hidden, ffn : float or array, 1
        Width h of a token, and width f inside the MLP, which has two matrices.
    flops_per_mac : float or array, FLOP
        Operations of one multiply-add: a multiplication and an addition.

    Returns
    -------
    float or array, FLOP

    Assumptions: no causal mask; what cuts the image into patches, steers the layers and reads the result is left out.

    >>> round(patch_flops(197, layers=24, hidden=1024, ffn=4096) / 2e9, 1)  # ViT-L/16, in billion multiply-adds
    61.4

    Source: dosovitskiy2021vit, app. A; the products are counted in the chapter.
    """
    return flops_per_mac * layers * (tokens * (4 * hidden**2 + 2 * hidden * ffn) + 2 * tokens**2 * hidden)


@equation("eq-attention-parity", formula="2 * hidden + ffn")
def attention_parity(hidden: Num, ffn: Num) -> Num:
    """Tokens at which attention does as much work as all matrices of a layer.

    Formula: n* = 2 h + f.

    Parameters
    ----------
    hidden, ffn : float or array, 1
        Width h of a token, and width f inside the MLP.

    Returns
    -------
    float or array, 1

    Assumptions: those of eq-patch-flops; as many keys as queries.

    >>> attention_parity(hidden=1024, ffn=4096)
    6144

    Source: dosovitskiy2021vit, app. A; both terms set equal in the chapter.
    """
    return 2 * hidden + ffn


@equation("eq-denoising-flops", formula="steps * passes * pass_flops + once_flops")
def denoising_flops(steps: Num, pass_flops: Num, passes: Num = 2.0, once_flops: Num = 0.0) -> Num:
    """FLOPs of one picture that is made by diffusion.

    Formula: F = S g F_p + F_o.

    Parameters
    ----------
    steps : float or array, 1
        Steps S of denoising.
    pass_flops : float or array, FLOP
        One pass F_p of the denoiser over one picture.
    passes : float or array, 1
        Passes g per step: 2 with classifier-free guidance, with the prompt and without; 1 without guidance, or where
        guidance was distilled into the model.
    once_flops : float or array, FLOP
        What is done once: the prompt is read, the latent is decoded.

    Returns
    -------
    float or array, FLOP

    Assumptions: all steps cost the same; nothing is carried over from one to the next.

    >>> denoising_flops(steps=50, pass_flops=2e11)
    20000000000000.0

    Source: peebles2023dit, sample.py; forward_with_cfg runs a pass with the class and one without in every step.
    """
    return steps * passes * pass_flops + once_flops


@equation(
    "eq-denoising-time",
    formula="steps * max(batch * passes * pass_flops / (peak_flops * efficiency), pass_bytes / memory_bandwidth) + once_time",
    domain={"peak_flops": POSITIVE, "memory_bandwidth": POSITIVE, "efficiency": FRACTION, "batch": COUNT},
)
def denoising_time(
    steps: Num,
    pass_flops: Num,
    pass_bytes: Num,
    peak_flops: Num,
    memory_bandwidth: Num,
    passes: Num = 2.0,
    batch: Num = 1.0,
    efficiency: Num = 1.0,
    once_time: Num = 0.0,
) -> Num:
    """Time until a batch of pictures is made by diffusion.

    Formula: T = S max(b g F_p / (e P), B / BW) + T_o.

    Parameters
    ----------
    steps : float or array, 1
        Steps S of denoising, one after the other.
    pass_flops : float or array, FLOP
        One pass F_p of the denoiser over one picture.
    pass_bytes : float or array, byte
        What a step moves: the weights, once for all that run together.
    peak_flops : float or array, FLOP/s
        Dense peak of the precision that runs.
    memory_bandwidth : float or array, byte/s
        Memory bandwidth.
    passes : float or array, 1
        Passes g per step and picture; the two of guidance run as one batch.
    batch : float or array, 1
        Pictures b that are made together.
    efficiency : float or array, 1
        Share of the peak that is reached, in (0, 1].
    once_time : float or array, s
        What is done once: the prompt is read, the latent is decoded.

    Returns
    -------
    float or array, s

    Assumptions: the iron law for each step; steps wait for each other, so that no batch of steps can be made.

    >>> denoising_time(steps=50, pass_flops=1e12, pass_bytes=1e9, peak_flops=1e15, memory_bandwidth=2e12)
    0.1

    Source: williams2009roofline, sec. 3; applied step by step. That both passes of guidance run as one batch is seen in
    sample.py of peebles2023dit.
    """
    work = batch * passes * pass_flops / (peak_flops * efficiency)
    return steps * maximum(work, pass_bytes / memory_bandwidth) + once_time


@equation(
    "eq-gathered-bytes",
    formula="batch * lookups * -(-row_bytes // sector_bytes) * sector_bytes",
    domain={"sector_bytes": POSITIVE},
)
def gathered_bytes(batch: Num, lookups: Num, row_bytes: Num, sector_bytes: Num = 32.0) -> Num:
    """Bytes that memory delivers when rows are gathered from tables of embeddings.

    Formula: B = b k ceil(r / q) q.

    Parameters
    ----------
    batch : float or array, 1
        Samples b.
    lookups : float or array, 1
        Rows k that a sample looks up, over all tables.
    row_bytes : float or array, byte
        Size r of one row: its width times the bytes of a number.
    sector_bytes : float or array, byte
        Least piece q that memory delivers: 32 B on GPUs.

    Returns
    -------
    float or array, byte

    Assumptions: rows start at the border of a sector; no row is in a cache already.

    >>> gathered_bytes(batch=1, lookups=214, row_bytes=512)
    109568.0

    Source: naumov2019dlrm, dlrm_s_pytorch.py, apply_emb; every row of a bag is read; the transactions of 32 B are those of
    nvidia2026cupti.
    """
    return batch * lookups * -(-row_bytes // sector_bytes) * sector_bytes


@equation("eq-pooled-exchange", formula="batch * tables * row_bytes * (ranks - 1) / ranks", domain={"ranks": COUNT})
def pooled_exchange(batch: Num, tables: Num, row_bytes: Num, ranks: Num) -> Num:
    """Bytes that each device sends to give every sample the embeddings of the tables that other devices hold.

    Formula: E = b T r (N - 1) / N.

    Parameters
    ----------
    batch : float or array, 1
        Samples b of one device.
    tables : float or array, 1
        Tables T, spread evenly over the devices.
    row_bytes : float or array, byte
        Size r of one row; the rows that a sample looks up in one table are added up before they are sent.
    ranks : float or array, 1
        Devices N that hold tables and work on samples.

    Returns
    -------
    float or array, byte

    Assumptions: whole tables on each device, T/N of them; each device needs all tables for its own samples.

    >>> pooled_exchange(batch=8192, tables=26, row_bytes=512, ranks=8)
    95420416.0

    Source: naumov2019dlrm, dlrm_s_pytorch.py, parallel_forward; its butterfly shuffle, from tables to samples.
    """
    return batch * tables * row_bytes * (ranks - 1) / ranks
