"""Networks beyond language: parameters and multiply-adds against published counts and a walk over the tensors."""

import math

import pytest

from mlsysim import catalog, other_workloads
from mlsysim.catalog.other_models import PatchTransformer, diffusion_unets
from mlsysim.errors import UnknownNameError

PATCHES = catalog.patch_transformers()


def tensors(e: PatchTransformer) -> list[tuple[int, ...]]:
    """Shape of every trained tensor, as a state dict would list them."""
    h, cells = e.hidden, e.channels * e.patch * e.patch
    layer = [(3 * h, h), (3 * h,), (h, h), (h,), (e.ffn, h), (e.ffn,), (h, e.ffn), (h,)]
    if e.kind == "vit":
        norm = [(h,), (h,)]
        ends = [(h, cells), (h,), (h,), (e.tokens, h), *norm, (e.classes, h), (e.classes,)]
        return ends + e.layers * (layer + 2 * norm)
    steer = [(6 * h, h), (6 * h,)]
    ends = [(h, cells), (h,), (h, 256), (h,), (h, h), (h,), (e.classes + 1, h)]
    return ends + e.layers * (layer + steer) + [(2 * h, h), (2 * h,), (2 * cells, h), (2 * cells,)]


@pytest.mark.published
@pytest.mark.parametrize("name", PATCHES)
def test_parameters_and_multiply_adds_of_patch_transformers(name: str) -> None:
    e = PATCHES[name]
    assert e.parameters == sum(math.prod(shape) for shape in tensors(e))
    if "parameters" in e.published:
        assert e.parameters == e.published["parameters"].value
    printed = e.published["macs"].printed
    decimals = len(printed.partition(".")[2])
    assert round(e.macs / 1e9, decimals) == float(printed) == e.published["macs"].value / 1e9


@pytest.mark.published
def test_a_u_net_has_the_parameters_that_loaders_print_and_the_work_that_a_profiler_counts() -> None:
    """2,567,463,684 of SDXL; of Stable Diffusion 1.4 also multiply-adds, as thop counts them."""
    xl, first = diffusion_unets().values()
    assert xl.parameters == 2_567_463_684 and round(xl.parameters / 1e6) == xl.published["parameters"].value / 1e6
    assert first.parameters == first.published["parameters"].value
    without = sum(part.macs for part in first.parts() if part.kind != "attention")
    levels = [
        (64, 320, 5),
        (32, 640, 5),
        (16, 1280, 5),
        (8, 1280, 1),
    ]  # side, channels, transformers, three norms in each
    norms = sum(3 * count * side**2 * c for side, c, count in levels)
    assert without + 4 * norms == first.published["macs"].value  # thop: four operations a number of a layer norm
    attention = sum(2 * count * side**2 * (side**2 + 77) * c for side, c, count in levels)
    assert first.macs == without + attention


@pytest.mark.independent
def test_a_step_of_sdxl_by_hand() -> None:
    """Ten layers at 1,024 positions of 1,280 channels six times, two at 4,096 of 640 five times: that is most of its work."""
    xl = other_workloads.diffusion_unet("sdxl-base-1.0")
    attention = sum(2 * layers * n * (n + 77) * c for layers, n, c in ((60, 1024, 1280), (10, 4096, 640)))
    assert sum(part.macs for part in xl.parts() if part.kind == "attention") == attention
    matrices = sum(
        layers * (n * (18 * c * c) + 2 * 77 * 2048 * c) + blocks * 2 * n * c * c
        for layers, blocks, n, c in ((60, 6, 1024, 1280), (10, 5, 4096, 640))
    )
    made = other_workloads.diffusion_image("SDXL", "H100", steps=50)
    assert made.flops == pytest.approx(50 * 2 * 2 * xl.macs)
    assert 0.5 < (attention + matrices) / xl.macs < 0.8  # the rest are convolutions
    with pytest.raises(UnknownNameError, match="SDXLL"):
        other_workloads.diffusion_image("SDXLL", "H100")


@pytest.mark.regression
def test_a_diffusion_transformer_of_extra_large_size() -> None:
    e = catalog.patch_transformer("DiT-XL/2")
    assert e.tokens == 256 and catalog.patch_transformer("DiT-XL/2-512").parameters == e.parameters
    assert e.parameters == 674_834_720  # the authors' README prints work and no count


@pytest.mark.published
def test_the_tables_are_nearly_all_of_a_recommendation_model() -> None:
    e = catalog.recommender("dlrm-v2")
    rows, features = 204_184_588, 27 * 128
    assert sum(e.tables) == rows and len(e.tables) == len(e.pooled) == 26
    mlps = [(13, 512), (512, 256), (256, 128), (features, 1024), (1024, 1024), (1024, 512), (512, 256), (256, 1)]
    dense = sum(a * b + b for a, b in mlps) + 3 * (2 * features * 512 + features)
    assert e.parameters == rows * 128 + dense
    assert e.looked_up_bytes() == 214 * 128 * 4
    # the stored weights, as du prints them, miss 0.12 % of the count in 32 bits
    stored = e.published["stored_bytes"].value
    assert stored == pytest.approx(97.31 * 2**30, rel=1e-4)
    assert 4 * e.parameters / stored - 1 == pytest.approx(0.0012, abs=0.0001)


def test_an_unknown_network_is_named() -> None:
    with pytest.raises(UnknownNameError, match="ViT-L/16"):
        catalog.patch_transformer("ViT-L/61")
    with pytest.raises(UnknownNameError):
        catalog.recommender("of music")
