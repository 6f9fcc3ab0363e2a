"""Networks beyond language, each to the last parameter and multiply-add: transformers over patches, recommendation models."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

from mlsysim.catalog.entries import find
from mlsysim.catalog.shown import Catalogue, ShownEntry
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
def _entries() -> tuple[Mapping[str, PatchTransformer], Mapping[str, Recommender]]:
    found = shipped(__package__, "beyond.toml", _entry)
    patches = {n: e for n, e in found.items() if isinstance(e, PatchTransformer)}
    recommended = {n: e for n, e in found.items() if isinstance(e, Recommender)}
    return Catalogue("patch transformer", patches), Catalogue("recommender", recommended)


def _entry(name: str, raw: Any, file: str) -> PatchTransformer | Recommender:
    given = published(raw, _UNITS, name, file)
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
