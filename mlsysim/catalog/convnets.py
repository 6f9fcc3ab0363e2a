"""Residual networks for images: their blocks, and with them every parameter and every multiply-add."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from mlsysim.catalog.display import Catalogue, ShownEntry
from mlsysim.catalog.entries import find
from mlsysim.catalog.sourced import Sourced, published, shipped

_UNITS = {"parameters": "1", "macs": "1"}


class Convolution(NamedTuple):
    """One convolution without bias, and the batch norm behind it."""

    name: str
    kernel: int
    inputs: int
    outputs: int
    size: int  # of the square that comes out


@dataclass(frozen=True)
class Convnet(ShownEntry):
    """A residual network of version 1.5: a bottleneck has its stride in the 3x3 convolution, a basic block in the first."""

    name: str
    blocks: tuple[int, ...]  # per stage; a stage halves the image, but for the first
    bottleneck: bool  # three convolutions a block, the last four times as wide, instead of two
    source: str
    where: str
    notes: str = ""
    width: int = 64  # channels of the first stage; each stage has twice as many
    classes: int = 1000
    image: int = 224
    aliases: tuple[str, ...] = ()
    published: Mapping[str, Sourced] = field(default_factory=dict, repr=False)  # parameters; macs of one image

    def convolutions(self) -> Iterator[Convolution]:
        """Every convolution, in order; the name says stage and block.

        >>> [c.name for c in convnet("resnet18").convolutions()][:4]
        ['stem', '0.0.conv1', '0.0.conv2', '0.1.conv1']
        """
        size = -(-self.image // 2)
        yield Convolution("stem", 7, 3, self.width, size)
        size = -(-size // 2)  # the pooling
        arriving = self.width
        for stage, count in enumerate(self.blocks):
            width = self.width << stage
            leaving = width * (4 if self.bottleneck else 1)
            for block in range(count):
                at, before = f"{stage}.{block}", size
                size = -(-size // 2) if stage and not block else size
                if self.bottleneck:
                    yield Convolution(f"{at}.conv1", 1, arriving, width, before)
                    yield Convolution(f"{at}.conv2", 3, width, width, size)
                    yield Convolution(f"{at}.conv3", 1, width, leaving, size)
                else:
                    yield Convolution(f"{at}.conv1", 3, arriving, width, size)
                    yield Convolution(f"{at}.conv2", 3, width, width, size)
                if not block and (stage or arriving != leaving):
                    yield Convolution(f"{at}.project", 1, arriving, leaving, size)
                arriving = leaving

    def _words(self) -> str:
        """What it is made of."""
        kind = "bottleneck" if self.bottleneck else "basic"
        return f"{self.parameters:,} parameters, {self.macs / 1e9:.4g} billion multiply-adds an image, {sum(self.blocks)} {kind} blocks"

    @property
    def features(self) -> int:
        """Channels that the last stage leaves."""
        return (self.width << len(self.blocks) - 1) * (4 if self.bottleneck else 1)

    @property
    def parameters(self) -> int:
        """Weights of the convolutions, scale and shift of each norm, and the last layer with its bias.

        >>> convnet("resnet50").parameters
        25557032
        """
        convolved = sum(c.kernel * c.kernel * c.inputs * c.outputs + 2 * c.outputs for c in self.convolutions())
        return convolved + (self.features + 1) * self.classes

    @property
    def macs(self) -> int:
        """Multiply-adds of the forward pass on one image, every tap counted, also those that meet padding.

        >>> convnet("resnet50").macs
        4089184256
        """
        convolved = sum(c.kernel * c.kernel * c.inputs * c.outputs * c.size**2 for c in self.convolutions())
        return convolved + self.features * self.classes


@cache
def convnets() -> Mapping[str, Convnet]:
    """Every residual network of the catalogue, by name."""
    return Catalogue("convnet", shipped(__package__, "convnets.toml", _convnet))


def _convnet(name: str, raw: Any, file: str) -> Convnet:
    return Convnet(**published(raw, _UNITS, name, file))


def convnet(name: str) -> Convnet:
    """The residual network of that name or alias.

    Raises
    ------
    UnknownNameError
        With the nearest known names.
    """
    return find("residual network", name, convnets())
