"""Recipes of products below 16 bits: how numbers are scaled, what casting them moves, and what they take where they are kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mlsysim._numeric import Num
from mlsysim.equations import POSITIVE, equation


@equation("eq-scaled-bytes", formula="element_bytes + scale_bytes / block", domain={"block": POSITIVE})
def scaled_bytes(element_bytes: Num, scale_bytes: Num, block: Num) -> Num:
    """Bytes of a number in a narrow format, with its part of the scale factor that a block of them shares.

    Formula: e_q = e_n + e_s / n_s.

    Parameters
    ----------
    element_bytes : float or array, byte
        Of the number alone: 1 in FP8, 0.5 in FP4.
    scale_bytes : float or array, byte
        Of a scale factor: 4 in FP32, 1 in E8M0 (MXFP8) or E4M3 (NVFP4).
    block : float or array, 1
        Numbers that share a factor: 128 in a row, 128 x 128 of a weight, 32 in MXFP8, 16 in NVFP4.

    Returns
    -------
    float or array, byte

    Assumptions: whole blocks; a factor of the whole tensor beside those of blocks (NVFP4) is too small to count.

    >>> scaled_bytes(1.0, 4.0, 128), scaled_bytes(1.0, 1.0, 32), scaled_bytes(0.5, 1.0, 16)
    (1.03125, 1.03125, 0.5625)

    Source: nvidia2026te, FP8 Blockwise Scaling; for a block with a factor of its own; the sum is counted in the chapter.
    """
    return element_bytes + scale_bytes / block


@equation(
    "eq-narrow-cache",
    formula="overhead * bandwidth / (batch * (wide_bytes - narrow_bytes))",
    relations=("narrow_bytes < wide_bytes",),
)
def narrow_cache_context(overhead: Num, bandwidth: Num, wide_bytes: Num, narrow_bytes: Num, batch: Num = 1.0) -> Num:
    """Context from which a cache in few bits makes a decode step shorter, in spite of what its handling adds.

    Formula: s* = t_o BW / (b (kappa - kappa_q)).

    Parameters
    ----------
    overhead : float or array, s
        What a step takes more, t_o: queries, new keys and values are cast, numbers are unpacked.
    bandwidth : float or array, byte/s
        Of the memory, BW.
    wide_bytes : float or array, byte
        Cache of one token over all layers in the wide format, kappa.
    narrow_bytes : float or array, byte
        The same in the narrow one, with its scale factors, kappa_q.
    batch : float or array, 1
        Sequences b of a step, all of that context.

    Returns
    -------
    float or array, 1

    Assumptions: attention waits for the reading of the cache in both formats; the overhead does not grow with the context.

    >>> narrow_cache_context(overhead=1e-4, bandwidth=2e12, wide_bytes=131072.0, narrow_bytes=31072.0, batch=2)
    1000.0

    Source: vllm2026fp8kv, Performance Benchmarking, where both lines and their crossing are measured; derived in the chapter.
    """
    return overhead * bandwidth / (batch * (wide_bytes - narrow_bytes))


@dataclass(frozen=True)
class Scaling:
    """One way to run products below 16 bits, and who describes it."""

    name: str
    peak: str  # the format whose peak the products have
    element_bytes: float
    scale_bytes: float
    block: float  # numbers of an activation that share a factor; of a whole row or tensor a round large number
    weight_block: float
    readings: (
        int  # passes over the 16-bit numbers before a cast is done: one more where the largest must be known first
    )
    narrow: str  # which products run in the format
    keeps: str  # what stays in 16 bits or wider
    source: str
    where: str

    @property
    def stored_bytes(self) -> float:
        """Of an activation that is kept for the gradient of the weights."""
        return float(scaled_bytes(self.element_bytes, self.scale_bytes, self.block))

    @property
    def cast_bytes(self) -> float:
        """Read and written to cast one number: 16 bits in, and the narrow one out, as it lies and transposed."""
        return 2.0 * self.readings + 2.0 * self.stored_bytes

    def __str__(self) -> str:
        return f"{self.name}: {self.source}, {self.where}"


_ROW = 4096.0  # numbers of a row, which changes nothing that matters: 4 bytes are shared by all of them
_TENSOR = 2.0**24
_ALL = "forward, input gradient and weight gradient"
_USUAL = "embedding, head, norms, attention, master weights, gradients and optimizer states"

# Recipes by the word that `precision` takes. Plain "fp8" leaves open which it is.
SCALINGS: Mapping[str, Scaling] = MappingProxyType(
    {
        r.name: r
        for r in (
            Scaling("fp8-delayed", "fp8", 1, 4, _TENSOR, _TENSOR, 1, _ALL, _USUAL, "nvidia2026te", "DelayedScaling"),
            Scaling(
                "fp8-tensorwise", "fp8", 1, 4, _TENSOR, _TENSOR, 2, _ALL, _USUAL, "nvidia2026te", "Float8CurrentScaling"
            ),
            Scaling("fp8-rowwise", "fp8", 1, 4, _ROW, _ROW, 2, _ALL, _USUAL, "torchao2026float8", "rowwise scaling"),
            Scaling(
                "fp8-blockwise",
                "fp8",
                1,
                4,
                128,
                128 * 128,
                1,
                _ALL,
                _USUAL + ", and the router",
                "deepseek2024v3report",
                "sec. 3.3",
            ),
            Scaling("mxfp8", "fp8", 1, 1, 32, 32, 1, _ALL, _USUAL, "nvidia2026te", "MXFP8BlockScaling"),
            Scaling(
                "nvfp4",
                "fp4",
                0.5,
                1,
                16,
                16 * 16,
                2,
                _ALL,
                _USUAL + ", and some layers whole",
                "neuralcompressor2026nvfp4",
                "table of the format; recipe NVFP4BlockScaling of Transformer Engine",
            ),
        )
    }
)
