"""Residual networks: parameters and multiply-adds of each shape against published counts."""

import pytest
from test_models import half_unit

from mlsysim import catalog
from mlsysim.errors import UnknownNameError

PUBLISHED = {n: c for n, c in catalog.convnets().items() if c.published["parameters"].source == "torchvision2026"}


def by_hand(blocks: tuple[int, ...], bottleneck: bool) -> int:
    """Parameters, a stage at a time: the blocks of a stage after its first are alike."""
    grown, total, arriving = 4 if bottleneck else 1, 7 * 7 * 3 * 64 + 2 * 64, 64
    for stage, count in enumerate(blocks):
        w = 64 * 2**stage
        out = w * grown
        inner = 9 * w * w + 2 * w  # the 3x3 convolution that both kinds have
        rest = (w * out + 2 * out) if bottleneck else inner
        first = (arriving * w if bottleneck else 9 * arriving * w) + 2 * w
        later = (out * w if bottleneck else 9 * out * w) + 2 * w
        middle = inner if bottleneck else 0
        projection = arriving * out + 2 * out if arriving != out else 0
        total += first + (count - 1) * later + count * (middle + rest) + projection
        arriving = out
    return total + 1000 * arriving + 1000


@pytest.mark.published
@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_and_multiply_adds_are_those_that_torchvision_prints(name: str) -> None:
    c = PUBLISHED[name]
    assert c.parameters == by_hand(c.blocks, c.bottleneck) == c.published["parameters"].value
    printed = float(c.published["macs"].printed.split()[0])
    assert round(c.macs / 1e9, 2) == printed == c.published["macs"].value / 1e9


@pytest.mark.published
def test_the_ends_of_the_papers_range() -> None:
    # hespas2026, Table III: ResNet 18-200 have 11-65M parameters. The lower end is 11.69, so it was cut and not rounded.
    assert catalog.convnet("resnet18").parameters // 10**6 == 11
    deepest = catalog.convnet("ResNet-200")
    assert deepest.parameters == by_hand((3, 24, 36, 3), True) == 64_673_832
    assert abs(deepest.parameters - deepest.published["parameters"].value) < half_unit("65M")


@pytest.mark.independent
def test_layers_are_what_the_name_counts() -> None:
    for name, c in catalog.convnets().items():
        weighted = [one for one in c.convolutions() if not one.name.endswith("project")]
        assert len(weighted) + 1 == int(name.removeprefix("ResNet-"))  # and the last layer


def test_an_unknown_network_is_named() -> None:
    with pytest.raises(UnknownNameError, match="resnet50"):
        catalog.convnet("resnet51")
    with pytest.raises(UnknownNameError):
        catalog.convnet(50)  # type: ignore[arg-type]


def test_every_figure_says_where_it_was_read() -> None:
    for c in catalog.convnets().values():
        assert c.source and c.where
        for figure in c.published.values():
            assert figure.source and figure.where and figure.retrieved
            assert figure.read in ("", "secondary")
