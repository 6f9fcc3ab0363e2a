"""Networks beyond language, each to the last parameter and multiply-add: transformers over patches, U-Nets, recommendation models."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from mlsysim.catalog.display import Catalogue, ShownEntry
from mlsysim.catalog.entries import find
from mlsysim.catalog.sourced import Sourced, published, shipped

_UNITS = {"parameters": "1", "macs": "1", "stored_bytes": "byte"}


@dataclass(frozen=True)
class PatchTransformer(ShownEntry):
    """A transformer over patches of an image (``vit``), or of its latent in a step of diffusion (``dit``).

    Layers have plain attention over all patches and an MLP, with biases. A diffusion transformer has no class token; norms
    have no weights, their shift, scale and gate come from time step and class by one matrix a layer.
    """

    name: str
    kind: str  # "vit" or "dit"
    layers: int
    hidden: int
    heads: int
    ffn: int
    patch: int
    image: int  # side of what is cut into patches: of the image, or of its latent
    channels: int
    source: str
    where: str
    classes: int = 1000
    frequencies: int = 256  # that a time step is spread over
    notes: str = ""
    aliases: tuple[str, ...] = ()
    published: Mapping[str, Sourced] = field(default_factory=dict, repr=False)  # parameters; macs of a forward pass

    def _words(self) -> str:
        return f"{self.parameters:,} parameters, {self.macs / 1e9:.4g} billion multiply-adds an image, {self.layers} layers over {self.tokens} tokens"

    @property
    def tokens(self) -> int:
        """Patches, and the class token of a vision transformer."""
        return (self.image // self.patch) ** 2 + (self.kind == "vit")

    @property
    def parameters(self) -> int:
        """All that is trained; the table of positions of a diffusion transformer is not.

        >>> patch_transformer("ViT-L/16").parameters
        304326632
        """
        h, f = self.hidden, self.ffn
        cells = self.channels * self.patch**2
        layer = 4 * h * h + 4 * h + 2 * h * f + f + h
        if self.kind == "vit":
            ends = cells * h + h + h + self.tokens * h + 2 * h + h * self.classes + self.classes
            return ends + self.layers * (layer + 4 * h)
        time = self.frequencies * h + h + h * h + h
        table = (self.classes + 1) * h  # one row more: no class
        last = 2 * h * h + 2 * h + h * 2 * cells + 2 * cells  # noise and its variance
        return cells * h + h + time + table + self.layers * (layer + 6 * h * h + 6 * h) + last

    @property
    def macs(self) -> int:
        """Multiply-adds of the forward pass on one image, those of attention included.

        >>> round(patch_transformer("DiT-XL/2").macs / 1e9, 1)
        118.6
        """
        h, n, cells = self.hidden, self.tokens, self.channels * self.patch**2
        layer = n * (4 * h * h + 2 * h * self.ffn) + 2 * n * n * h
        if self.kind == "vit":
            return (n - 1) * cells * h + self.layers * layer + h * self.classes
        steered = self.frequencies * h + h * h + self.layers * 6 * h * h + 2 * h * h
        return n * cells * h + self.layers * layer + steered + n * h * 2 * cells


class UNetPart(NamedTuple):
    """A kernel of a U-Net: a convolution or a matrix, or the attention of some positions to others."""

    kind: str  # "convolution", "matrix" or "attention"
    came: int  # positions that it reads; of attention those of keys
    inputs: int
    positions: int  # that it writes
    outputs: int
    kernel: int = 1
    bias: bool = True

    @property
    def parameters(self) -> int:
        if self.kind == "attention":
            return 0
        return self.kernel**2 * self.inputs * self.outputs + self.bias * self.outputs

    @property
    def macs(self) -> int:
        if self.kind == "attention":  # queries with keys, and what comes of it with values
            return 2 * self.positions * self.came * self.outputs
        return self.kernel**2 * self.inputs * self.outputs * self.positions


@dataclass(frozen=True)
class DiffusionUNet(ShownEntry):
    """A U-Net that takes noise from a latent: levels of halved sides, each with residual blocks and transformers over its positions.

    The way down has ``blocks`` residual blocks a level, the way up one more, which also reads what the way down left there. A
    transformer attends to all positions and to the tokens of the prompt, and has a gated MLP of four times its width.
    """

    name: str
    widths: tuple[int, ...]  # channels of each level
    depths: tuple[int, ...]  # layers of each transformer of a level; 0: none
    middle_depth: int
    text_width: int  # of a token of the prompt
    image: int  # side of the latent
    source: str
    where: str
    blocks: int = 2
    channels: int = 4
    text_tokens: int = 77  # of the prompt
    added: int = 0  # numbers about size and prompt that are embedded beside the time step
    notes: str = ""
    aliases: tuple[str, ...] = ()
    published: Mapping[str, Sourced] = field(default_factory=dict, repr=False)

    def _words(self) -> str:
        return f"{self.parameters:,} parameters, {self.macs / 1e12:.3g} trillion multiply-adds a pass, {len(self.widths)} levels"

    @property
    def _time(self) -> int:
        """Width of the embedding of a time step."""
        return 4 * self.widths[0]

    def _transformer(self, c: int, depth: int, n: int) -> Iterator[UNetPart]:
        if not depth:
            return
        yield UNetPart("matrix", n, c, n, c)
        for _ in range(depth):
            for keys, width in ((n, c), (self.text_tokens, self.text_width)):
                yield UNetPart("matrix", n, c, n, c, bias=False)
                yield UNetPart("matrix", keys, width, keys, 2 * c, bias=False)
                yield UNetPart("attention", keys, c, n, c)
                yield UNetPart("matrix", n, c, n, c)
            yield UNetPart("matrix", n, c, n, 8 * c)
            yield UNetPart("matrix", n, 4 * c, n, c)
        yield UNetPart("matrix", n, c, n, c)

    def _residual(self, came: int, c: int, n: int) -> Iterator[UNetPart]:
        yield UNetPart("convolution", n, came, n, c, 3)
        yield UNetPart("matrix", 1, self._time, 1, c)
        yield UNetPart("convolution", n, c, n, c, 3)
        if came != c:
            yield UNetPart("convolution", n, came, n, c)

    def _places(self) -> Iterator[tuple[int, int, int, int]]:
        """Channels that come, that leave, depth of the transformer and side, of every residual block."""
        last, side, came = len(self.widths) - 1, self.image, self.widths[0]
        for level, c in enumerate(self.widths):
            for block in range(self.blocks):
                yield (c if block else came), c, self.depths[level], side
            came, side = c, side // 2 if level < last else side
        yield came, came, self.middle_depth, side
        yield came, came, 0, side
        for level in range(last, -1, -1):
            c, below = self.widths[level], self.widths[max(0, level - 1)]
            for block in range(self.blocks + 1):
                left = below if block == self.blocks else c  # by the way down, at the same side
                yield (c if block else came) + left, c, self.depths[level], side
            came, side = c, side * 2 if level else side

    def parts(self) -> Iterator[UNetPart]:
        """Every convolution, matrix and attention of a pass, in no order."""
        e, first, pixels = self._time, self.widths[0], self.image**2
        for width in (first, self.added):
            if width:
                yield UNetPart("matrix", 1, width, 1, e)
                yield UNetPart("matrix", 1, e, 1, e)
        yield UNetPart("convolution", pixels, self.channels, pixels, first, 3)
        for came, c, depth, side in self._places():
            yield from self._residual(came, c, side * side)
            yield from self._transformer(c, depth, side * side)
        for level, c in enumerate(self.widths):  # between two levels, once down and once up
            n = (self.image >> level) ** 2
            if level < len(self.widths) - 1:
                yield UNetPart("convolution", n, c, n // 4, c, 3)
            if level:
                yield UNetPart("convolution", 4 * n, c, 4 * n, c, 3)
        yield UNetPart("convolution", pixels, first, pixels, self.channels, 3)

    @property
    def parameters(self) -> int:
        """All that is trained: every kernel's, and two numbers a channel of each norm.

        >>> diffusion_unet("SDXL").parameters
        2567463684
        """
        norms = 2 * self.widths[0]
        for came, c, depth, _ in self._places():
            norms += 2 * came + 2 * c + (2 * c + 6 * c * depth if depth else 0)
        return norms + sum(part.parameters for part in self.parts())

    @property
    def macs(self) -> int:
        """Multiply-adds of a pass over one latent, those of attention included.

        >>> round(diffusion_unet("SDXL").macs / 1e12, 2)
        3.38
        """
        return sum(part.macs for part in self.parts())


@dataclass(frozen=True)
class Recommender(ShownEntry):
    """A recommendation model: tables of embeddings, an MLP before and one behind, and crossings of low rank between them."""

    name: str
    tables: tuple[int, ...]  # rows
    pooled: tuple[int, ...]  # rows of each table that a sample looks up
    width: int  # of a row
    dense: int  # numbers of a sample that are no look-up
    bottom: tuple[int, ...]  # widths of the MLP before
    top: tuple[int, ...]
    crossings: int
    rank: int
    source: str
    where: str
    notes: str = ""
    aliases: tuple[str, ...] = ()
    published: Mapping[str, Sourced] = field(default_factory=dict, repr=False)

    def _words(self) -> str:
        return f"{self.parameters:,} parameters, {self.table_parameters / self.parameters:.2%} of them in {len(self.tables)} tables, {self.macs / 1e6:.3g} million multiply-adds a sample"

    @property
    def features(self) -> int:
        """Numbers of a sample between the MLPs: one row of each table, and the dense part."""
        return (len(self.tables) + 1) * self.width

    @property
    def table_parameters(self) -> int:
        return sum(self.tables) * self.width

    @property
    def _layers(self) -> list[tuple[int, int]]:
        return [*pairwise((self.dense, *self.bottom)), *pairwise((self.features, *self.top))]

    @property
    def products(self) -> list[tuple[int, int]]:
        """Width before and behind every matrix: the layers of both MLPs, and two thin ones a crossing."""
        crossing = [(self.features, self.rank), (self.rank, self.features)]
        return [*self._layers, *(self.crossings * crossing)]

    @property
    def macs(self) -> int:
        """Multiply-adds of one sample; a look-up has none.

        >>> round(recommender("DLRM-DCNv2").macs / 1e6, 1)
        16.0
        """
        return sum(a * b for a, b in self.products)

    @property
    def parameters(self) -> int:
        """Tables, and the MLPs and crossings with their biases."""
        biases = sum(b for _, b in self._layers) + self.crossings * self.features
        return self.table_parameters + self.macs + biases

    def looked_up_bytes(self, element_bytes: float = 4.0) -> float:
        """Bytes of the rows that one sample reads.

        >>> recommender("DLRM-DCNv2").looked_up_bytes() / 1e3
        109.568
        """
        return sum(self.pooled) * self.width * element_bytes


@cache
def _entries() -> tuple[Mapping[str, PatchTransformer], Mapping[str, Recommender], Mapping[str, DiffusionUNet]]:
    found = shipped(__package__, "other_models.toml", _entry)
    patches = {n: e for n, e in found.items() if isinstance(e, PatchTransformer)}
    recommended = {n: e for n, e in found.items() if isinstance(e, Recommender)}
    unets = {n: e for n, e in found.items() if isinstance(e, DiffusionUNet)}
    return (
        Catalogue("patch transformer", patches),
        Catalogue("recommender", recommended),
        Catalogue("diffusion U-Net", unets),
    )


def _entry(name: str, raw: Any, file: str) -> PatchTransformer | Recommender | DiffusionUNet:
    given = published(raw, _UNITS, name, file)
    if "widths" in raw:
        return DiffusionUNet(**given)
    return Recommender(**given) if "tables" in raw else PatchTransformer(**given)


def patch_transformers() -> Mapping[str, PatchTransformer]:
    """Every vision and diffusion transformer of the catalogue, by name."""
    return _entries()[0]


def patch_transformer(name: str) -> PatchTransformer:
    """The vision or diffusion transformer of that name or alias.

    Raises
    ------
    UnknownNameError
        With the nearest known names.
    """
    return find("vision or diffusion transformer", name, patch_transformers())


def diffusion_unets() -> Mapping[str, DiffusionUNet]:
    """Every U-Net of the catalogue, by name."""
    return _entries()[2]


def diffusion_unet(name: str) -> DiffusionUNet:
    """The U-Net of that name or alias.

    Raises
    ------
    UnknownNameError
        With the nearest known names.
    """
    return find("U-Net of diffusion", name, diffusion_unets())


def recommenders() -> Mapping[str, Recommender]:
    """Every recommendation model of the catalogue, by name."""
    return _entries()[1]


def recommender(name: str) -> Recommender:
    """The recommendation model of that name or alias.

    Raises
    ------
    UnknownNameError
        With the nearest known names.
    """
    return find("recommendation model", name, recommenders())
