"""Vision, diffusion and recommendation: hand values, limits, walks over the tensors, and what others count and measure."""

import itertools
import math
from dataclasses import replace

import pytest

from mlsysim import catalog, collectives, evidence, other_workloads
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.evidence.measured.other_workloads import carried_over

H100 = catalog.device("H100")
PEAK, BANDWIDTH = 989.5e12, 3.35e12


@pytest.mark.independent
def test_patches_by_hand() -> None:
    assert other_workloads.patch_tokens(224, 224, 16, extra_tokens=1) == 14 * 14 + 1
    assert other_workloads.patch_tokens(512, 256, 2, downscale=8) == 32 * 16
    for name in ("ViT-L/16", "ViT-H/14", "DiT-XL/2", "DiT-XL/2-512"):
        e = catalog.patch_transformer(name)
        assert other_workloads.patch_tokens(e.image, e.image, e.patch, extra_tokens=int(e.kind == "vit")) == e.tokens


@pytest.mark.independent
def test_tokens_of_a_clip_are_those_of_its_layers() -> None:
    """Frame by frame: the first begins a layer, and so does every fourth of the others."""
    frames, height, width = 17, 64, 96
    layers = [0] + [1 + (f - 1) // 4 for f in range(1, frames)]
    cells = {(layer, y // 16, x // 16) for layer in layers for y in range(0, height, 16) for x in range(0, width, 16)}
    assert other_workloads.clip_tokens(frames, height, width, 2) == len(cells)
    assert other_workloads.clip_tokens(frames, height, width, 2, extra_tokens=7) == len(cells) + 7
    assert other_workloads.clip_tokens(1, 512, 256, 2) == other_workloads.patch_tokens(512, 256, 2, 8)


@pytest.mark.independent
def test_work_over_patches_is_that_of_its_products() -> None:
    """The products of one layer as shapes (rows, depth, columns); heads share the width, so that their number does not matter."""
    n, h, f, layers, heads = 50, 96, 320, 3, 4
    products = [(n, h, 3 * h), (n, h, h), (n, h, f), (n, f, h)]
    products += heads * [(n, h // heads, n), (n, n, h // heads)]
    assert other_workloads.patch_flops(n, layers, h, f) == layers * sum(2 * a * b * c for a, b, c in products)
    equal = other_workloads.attention_parity(h, f)
    square = 2 * equal * equal * h
    assert other_workloads.patch_flops(equal, 1, h, f) == 2 * (2 * square)


@pytest.mark.published
def test_layers_make_nearly_all_of_a_published_pass() -> None:
    for name, ends in (("ViT-L/16", 0.004), ("ViT-H/14", 0.003), ("DiT-XL/2", 0.006)):
        e = catalog.patch_transformer(name)
        inside = other_workloads.patch_flops(e.tokens, e.layers, e.hidden, e.ffn) / 2
        assert 0 < 1 - inside / e.published["macs"].value < ends


@pytest.mark.independent
def test_pictures_by_hand() -> None:
    assert other_workloads.denoising_flops(20, 3e12, 2, 5e12) == 20 * 2 * 3e12 + 5e12
    given = {"pass_bytes": 2e9, "peak_flops": 1e15, "memory_bandwidth": 2e12}
    assert other_workloads.denoising_time(10, 1e12, **given) == pytest.approx(10 * 2e-3)  # arithmetic
    assert other_workloads.denoising_time(10, 1e11, **given, passes=1, once_time=0.5) == pytest.approx(
        10 * 1e-3 + 0.5
    )  # weights
    assert other_workloads.denoising_time(10, 1e12, **given, batch=3, efficiency=0.5) == pytest.approx(
        6 * 2 * 10 * 1e-3
    )


@pytest.mark.independent
def test_rows_by_hand() -> None:
    assert other_workloads.gathered_bytes(7, 3, 512) == 7 * 3 * 512
    assert other_workloads.gathered_bytes(7, 3, 40) == 7 * 3 * 64 and other_workloads.gathered_bytes(1, 1, 4) == 32
    held = 26 / 8  # tables of a device; their sums go to the samples of seven others
    assert other_workloads.pooled_exchange(1000, 26, 512, 8) == pytest.approx(7 * held * 1000 * 512)
    assert other_workloads.pooled_exchange(1000, 26, 512, 1) == 0
    sent, whole = other_workloads.pooled_exchange(1000, 26, 512, 8), 1000 * 26 * 512
    assert collectives.all_to_all(whole, 8, 50e9) == pytest.approx(sent / 50e9)


@pytest.mark.independent
def test_a_picture_waits_for_memory_only_if_it_is_small_and_alone() -> None:
    one, many, large = (
        other_workloads.diffusion_image(*given)
        for given in (("DiT-XL/2", H100), ("DiT-XL/2", H100, 50, True, 8), ("DiT-XL/2-512", H100))
    )
    assert [r.bound for r in (one, many, large)] == ["memory", "compute", "compute"]
    assert large.time == pytest.approx(50 * 2 * 2 * catalog.patch_transformer("DiT-XL/2-512").macs / PEAK)
    half = other_workloads.diffusion_image("DiT-XL/2-512", H100, guidance=False, once_time=0.25)
    assert half.time == pytest.approx(large.time / 2 + 0.25) and half.phases[1].bound == "given"
    slow = other_workloads.diffusion_image("DiT-XL/2-512", H100, efficiency=0.5)
    assert slow.peak_fraction == pytest.approx(0.5)
    with pytest.raises(InputError, match="no diffusion transformer"):
        other_workloads.diffusion_image("ViT-L/16", H100)


@pytest.mark.independent
def test_a_convnet_is_timed_layer_by_layer() -> None:
    """The bytes of ResNet-50 by a walk over its shapes; fused, a convolution reads its input and writes its result."""
    net = catalog.convnet("resnet50")
    found = other_workloads.vision_batch(net, H100, batch=64)
    assert sum(p.flops for p in found.phases) == pytest.approx(64 * 2 * net.macs)
    weights = sum(c.kernel**2 * c.inputs * c.outputs for c in net.convolutions()) + 2048 * 1000
    written = sum(c.outputs * c.size**2 for c in net.convolutions())
    # what is read: the image; the pooled stem twice; every block its input (and its projection the same); the inner ones in order
    read, size, arriving = 224**2 * 3, 56, 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            out = -(-size // 2) if stage and not block else size
            read += arriving * size**2 * (2 if not block else 1) + width * size**2 + width * out**2
            size, arriving = out, 4 * width
    moved = 2.0 * (weights + 64 * (written + read + 2048))
    assert sum(p.bytes for p in found.phases) == pytest.approx(moved)
    bare = other_workloads.vision_batch(net, H100, batch=64, fused=False)
    assert bare.time - found.time == pytest.approx(2.0 * 64 * 4 * written / BANDWIDTH)
    with pytest.raises(InputError, match=r"batch = 1\.5"):
        other_workloads.vision_batch(net, H100, batch=1.5)
    with pytest.raises(UnknownNameError):
        other_workloads.vision_batch("resnet51", H100)


@pytest.mark.independent
def test_a_vision_transformer_by_hand() -> None:
    found = other_workloads.vision_batch("ViT-L/16", H100, batch=32)
    attention, matrices = found.phases
    n = 32 * 197
    assert attention.flops == 24 * 2 * 2 * n * 197 * 1024 and attention.bytes == 2 * 24 * n * 4 * 1024
    assert attention.intensity == 197 / 2
    assert matrices.bytes == 2 * (304_326_632 + 24 * n * (8 * 1024 + 2 * 4096))
    assert attention.flops + matrices.flops == 64 * catalog.patch_transformer("ViT-L/16").macs
    assert found.rate == pytest.approx(32 / found.time) and found.fits


@pytest.mark.independent
def test_recommendations_by_hand() -> None:
    found = other_workloads.recommendation_batch("DLRM", H100, 4096, 8, 450e9)
    gathering, exchange, products = found.phases
    assert gathering.time == pytest.approx(4096 * 214 * 512 / BANDWIDTH)
    assert gathering.flops == 4096 * (214 - 26) * 128
    assert exchange.time == pytest.approx(4096 * 26 * 512 * 7 / 8 / 450e9)
    widths = [13, 512, 256, 128, 27 * 128, 1024, 1024, 512, 256, 1]
    layers = [(a, b) for i, (a, b) in enumerate(itertools.pairwise(widths)) if i != 3]
    layers += 3 * [(27 * 128, 512), (512, 27 * 128)]
    assert products.flops == 2 * 4096 * sum(a * b for a, b in layers)
    dense = found.held - 4 * catalog.recommender("DLRM").table_parameters / 8
    assert products.bytes == pytest.approx(dense + 2 * 4096 * sum(a + b for a, b in layers))
    assert found.rate == pytest.approx(8 * 4096 / (gathering.time + exchange.time + products.time))
    assert (
        not other_workloads.recommendation_batch("DLRM", H100).fits
        and len(other_workloads.recommendation_batch("DLRM", H100).phases) == 2
    )
    with pytest.raises(InputError, match="bandwidth"):
        other_workloads.recommendation_batch("DLRM", H100, devices=2)
    with pytest.raises(InputError, match="efficiency = 2"):
        other_workloads.recommendation_batch("DLRM", H100, efficiency=2)
    one_hot = replace(catalog.recommender("DLRM"), pooled=26 * (1,))
    assert other_workloads.recommendation_batch(one_hot, H100).phases[0].flops == 0


@pytest.mark.published
def test_printed_figures_beyond_language() -> None:
    found = {c.measurement.name: c for c in evidence.checks("other_workloads")}
    assert len(found) == 41 and all(c.measurement.sourced.source for c in found.values())
    for name, most in (
        ("dit-xl2-256", 5e-4),
        ("dit-xl2-512", 5e-4),
        ("dit-xl2-128-steps", 2e-3),
        ("vit-h14-pretraining", 2e-3),
    ):
        assert abs(found[name].error) < most, name
    measured = [c for c in found.values() if c.measurement.group != "counts"]
    assert all(c.reached < 1 for c in measured)  # no measurement is faster than the bound
    # by hand: 57 layers of 3,072 over 4,096 patches and 512 tokens, 28 passes
    n, h = 4096 + 512, 3072
    flux = 28 * 2 * 57 * (n * 12 * h * h + 2 * n * n * h) / PEAK
    assert found["flux-dev-h100-compiled"].predicted == pytest.approx(flux)
    n = 33 * 45 * 80 + 256  # of a video
    video = 50 * 2 * 60 * (n * 12 * h * h + 2 * n * n * h) / PEAK
    assert found["hunyuan-video-720p-h100"].predicted == pytest.approx(video)
    assert found["hunyuan-video-720p-h100-8"].predicted == pytest.approx(video / 8)
    assert found["qwen2-vl-tokens"].error == 0  # as published: wang2024qwen2vl
    reached = [found[f"hunyuan-video-720p-{d}"].reached for d in ("h100", "h20", "l20")]
    assert 0.25 < reached[0] < reached[1] < reached[2] < 1  # a bound, and nearer to it where arithmetic is scarce
    assert found["dit-xl2-training"].reached == pytest.approx(5.7 * 256 * 6 * 118.64e9 / (128 * 123e12), rel=1e-3)
    assert found["vit-h14-core-days"].reached == pytest.approx(4262e18 / 61.5e12 / (2500 * 86400), rel=1e-3)
    plain = evidence.check(
        replace(evidence.measurement("torchrec-dlrm-a100-16k"), precision="fp32")
    ).reached  # 16,384 samples in 110 ms, 19.5 TFLOP/s
    assert plain == pytest.approx(
        (3 * (2 * 16_384 * 16.03e6 / 19.5e12 + 16_384 * 26 * 512 / 1.555e12) + 1.27e-3) / 0.11013, rel=0.01
    )
    pairs = 390_953 / 8 * 270.06
    arithmetic = pairs * 2 * catalog.recommender("DLRM").macs / PEAK
    memory = pairs * 214 * 256 / 4.8e12
    assert found["mlperf-dlrm-h200-99-9"].reached == pytest.approx(arithmetic + memory, rel=1e-3)
    faster = found["mlperf-dlrm-h200-99"].measured / found["mlperf-dlrm-h100-99"].measured
    assert faster < 1.1 < math.sqrt(4.8 / 3.35)  # far from what bandwidth alone would bring


@pytest.mark.published
def test_a_share_carries_over_to_the_same_work_only() -> None:
    near = [
        carried_over(f"timm-{m}-5090-compiled", f"timm-{m}-4090-compiled")
        for m in ("vitl16", "vith14", "resnet50", "resnet152")
    ]
    assert max(map(abs, near)) < 0.11
    assert carried_over("flux-dev-h100-compiled", "timm-vith14-4090-compiled") == pytest.approx(
        evidence.check("flux-dev-h100-compiled").reached / evidence.check("timm-vith14-4090-compiled").reached - 1
    )
    with pytest.raises(InputError, match="row to be judged"):
        carried_over("flux-dev-h100-eager", "flux-dev-h100-eager")
