"""The two calls, a product and attention, from the equations of ``kernels`` and ``roofline``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlsysim._numeric import Num, all_true, is_array, maximum, minimum, where, widening
from mlsysim.errors import InputError
from mlsysim.kernels import (
    attention_kernel_bytes,
    attention_kernel_flops,
    chain_time,
    gemm_flops,
    last_wave_bytes,
    partial_sum_bytes,
    rounded_roof,
    softmax_share,
    tile_padding,
    wave_share,
)
from mlsysim.results import CALLER, Explanation, Input, Result, Term, format_rows, format_value, share
from mlsysim.roofline import compute_time, effective_bandwidth, memory_time

__all__ = [
    "CHAIN_BYTE_TIME",
    "NARROW_ROWS",
    "ROW_TILE",
    "SHARPNESS",
    "TILE",
    "CallTime",
    "attention_time",
    "product_time",
]

ROW_TILE = 16  # rows that one instruction of a warp multiplies, and the smallest tile of queries (flashinfer2026tiles)
TILE, NARROW_TILE = 128, 64  # the sizes that nvidia2023matmul, sec. 2.3, finds typical
NARROW_ROWS = 256  # up to here libraries cut columns or the shared dimension until every multiprocessor has work
SHARPNESS = 3.0  # of the corner; inferencesim2026kernels and infersim2026bench: H100's constants foretell H800's latent decoding
# Slope in k of 64 x 576 x 7168 (9.525 us), 64 x 512 x 16384 (17.678) and 64 x 128 x 65536 (61.117): infersim2026bench, gemm/h800.
CHAIN_BYTE_TIME = (61.117e-6 - 9.525e-6) / (65536 - 7168)


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True)
class CallTime(Result):
    """What :func:`product_time` and :func:`attention_time` return; SI units, floats or arrays."""

    NUMBERS = (
        "what time_s bound flops bytes busy compute_time_s memory_time_s chain_time_s unhidden_time_s startup_time_s"
    )

    what: str
    time: Num
    flops: Num  # with whole tiles
    bytes: Num
    busy: Num  # share of the multiprocessors that have a tile
    compute_time: Num
    memory_time: Num
    chain_time: Num
    unhidden_time: Num
    startup_time: Num
    terms: tuple[Term, ...]
    inputs: tuple[Input, ...]

    @property
    def bound(self) -> Any:
        """The longest of compute, memory, chain, unhidden and start."""
        longest = maximum(*self._parts().values())
        found: Any = "start"
        for name, value in self._parts().items():
            found = where(value == longest, name, found)
        return found

    def _parts(self) -> dict[str, Num]:
        zero = 0.0 * self.time
        return {
            "start": zero + self.startup_time,
            "unhidden": zero + self.unhidden_time,
            "chain": zero + self.chain_time,
            "memory": zero + self.memory_time,
            "compute": zero + self.compute_time,
        }

    def summary(self) -> list[str]:
        bound = self.bound
        told = f", {bound} binds" if isinstance(bound, str) else ""
        clocks = ", ".join(
            f"{name} {format_value(t, 's')}" for name, t in self._parts().items() if not all_true(t == 0)
        )
        return format_rows(
            f"{self.what}: {format_value(self.time, 's')}{told}",
            ("clocks", clocks),
            ("busy", "" if all_true(self.busy == 1.0) else f"{share(self.busy)} of the multiprocessors over all waves"),
            ("work", f"{format_value(self.flops, 'FLOP')} with whole tiles, {format_value(self.bytes, 'byte')}"),
        )

    def explain(self) -> Explanation:
        """Every term with its equation, the numbers in it, and the source of each input."""
        return Explanation(title=self.summary()[0], terms=self.terms, inputs=self.inputs)


@dataclass(frozen=True)
class _Rates:
    """Rates of the device that a kernel runs on, and the shares of them that it sustains."""

    peak_flops: Num
    memory_bandwidth: Num
    compute_efficiency: Num
    memory_efficiency: Num
    startup_time: Num
    sharpness: Num | None
    origins: Mapping[str, str]

    def inputs(self) -> tuple[Input, ...]:
        units = {"peak_flops": "FLOP/s", "memory_bandwidth": "byte/s", "startup_time": "s"}
        names = ("peak_flops", "memory_bandwidth", "compute_efficiency", "memory_efficiency", "startup_time")
        return tuple(Input(n, getattr(self, n), units.get(n, "1"), self.origins.get(n, CALLER)) for n in names)

    @property
    def bandwidth(self) -> Num:
        return effective_bandwidth(self.memory_bandwidth, self.memory_efficiency)

    def clocks(self, flops: Num, busy: Num, hidden: Num, chain: Num) -> dict[str, Num]:
        """What arithmetic, traffic behind it, and the chain would take by themselves."""
        compute = compute_time(flops, self.peak_flops, self.compute_efficiency * busy)
        return {"compute_time": compute, "memory_time": memory_time(hidden, self.bandwidth), "chain_time": chain}

    def roof(self, clocks: Mapping[str, Num]) -> Num:
        """The clocks together."""
        if self.sharpness is None:
            return maximum(*clocks.values())
        return rounded_roof(**clocks, sharpness=self.sharpness)

    def time(
        self, what: str, flops: Num, busy: Num, bytes: Num, unhidden: Num, chain: Num, before: tuple[Term, ...]
    ) -> CallTime:
        """The smoothed roofline of three terms, plus the traffic that is not overlapped and the launch."""
        bandwidth, reached = self.bandwidth, self.compute_efficiency * busy
        clocks = self.clocks(flops, busy, bytes - unhidden, chain)
        compute, memory, end = clocks["compute_time"], clocks["memory_time"], memory_time(unhidden, bandwidth)
        longest, roof = maximum(*clocks.values()), self.roof(clocks)
        time = roof + end + self.startup_time
        rates = {"peak_flops": self.peak_flops, "memory_bandwidth": self.memory_bandwidth}
        shares = {"compute_efficiency": reached, "memory_efficiency": self.memory_efficiency}
        terms = [
            *before,
            Term(
                "compute",
                compute,
                "eq-compute-time",
                {"flops": flops, "peak_flops": self.peak_flops, "efficiency": reached},
                compute == longest,
            ),
            Term(
                "memory",
                memory,
                "eq-memory-time",
                {"bytes": bytes - unhidden, "memory_bandwidth": bandwidth},
                memory == longest,
            ),
        ]
        if self.sharpness is not None:
            terms.append(Term("clocks together", roof, "eq-rounded-roof", {**clocks, "sharpness": self.sharpness}))
        elif all_true(chain == 0):
            work = {"flops": flops, "bytes": bytes - unhidden, **rates, **shares}
            terms.append(
                Term(
                    "time",
                    time,
                    "eq-kernel-time",
                    {**work, "startup_time": self.startup_time, "unhidden_bytes": unhidden},
                )
            )
        terms.append(Term("unhidden", end, "eq-memory-time", {"bytes": unhidden, "memory_bandwidth": bandwidth}))
        return CallTime(
            what, time, flops, bytes, busy, compute, memory, chain, end, self.startup_time, tuple(terms), self.inputs()
        )


@widening
def product_time(
    m: Num,
    n: Num,
    k: Num,
    peak_flops: Num,
    memory_bandwidth: Num,
    *,
    groups: Num = 1.0,
    element_bytes: Num = 2.0,
    weight_bytes: Num | None = None,
    result_bytes: Num | None = None,
    multiprocessors: Num | None = None,
    most_parts: Num | None = None,
    compute_efficiency: Num = 1.0,
    memory_efficiency: Num = 1.0,
    startup_time: Num = 0.0,
    chain_byte_time: Num = 0.0,
    sharpness: Num | None = None,
    tiled: bool = True,
    origins: Mapping[str, str] | None = None,
) -> CallTime:
    """Time of a matrix product, or of a group of equal ones, in whole tiles and whole waves.

    Formula: eq-rounded-roof of eq-compute-time (whole tiles, eq-wave-share), eq-memory-time and eq-chain-time, plus the
    writing of the last wave (eq-last-wave), sums of parts of the shared dimension (eq-partial-sums), and the start.

    Parameters
    ----------
    m : float or array, 1, (0, inf)
        Rows (tokens) of each group.
    n : float or array, 1, (0, inf)
        Columns of each group.
    k : float or array, 1, (0, inf)
        Shared dimension of each group.
    peak_flops : float or array, FLOP/s
        Dense peak of the precision that computes: of 16 bits where 4-bit weights are expanded first.
    memory_bandwidth : float or array, byte/s
        Datasheet bandwidth.
    groups : float or array, 1, (0, inf)
        Independent products that run as one kernel.
    element_bytes, weight_bytes, result_bytes : float or array, byte
        Size of one element of A, of B (as A unless given: 0.5 for weights of 4 bits), of C (as A unless given).
    multiprocessors : float or array, 1
        How many tiles are computed at a time; without it there are no waves, and the writing hides.
    most_parts : float or array, 1
        Parts that the library cuts the shared dimension into at most, 1 if it never does; without it as many as are quickest.
    compute_efficiency, memory_efficiency : float or array, 1
        Shares that the kernels of a library sustain; 1, the bound, unless given.
    startup_time : float or array, s
        Time before the first tile and after the last.
    chain_byte_time : float or array, s/byte
        Time per byte along the shared dimension, where one multiprocessor walks all of it; see ``CHAIN_BYTE_TIME``.
    sharpness : float or array, 1
        Exponent of the round corner (``SHARPNESS``); without it the longest clock counts alone.
    tiled : bool
        Whether a tile that is filled in part costs as much as a full one; not in a bound.
    origins : mapping
        Who says the rates and shares, for ``explain()``.

    Returns
    -------
    CallTime

    Raises
    ------
    InputError
        A size that is not above 0, or a rate or share out of range.

    Assumptions: tiles of 128, of 64 where a side is at most 64. Up to 256 rows a library fills the multiprocessors by
    cutting columns or k, so that waves count beyond; there it cuts k into as many equal parts as are quickest, at most one
    part of a tile for each multiprocessor, and adds their sums up at the end.

    >>> r = product_time(512, 1280, 8192, 2614e12, 5.3e12, element_bytes=1, multiprocessors=304)
    >>> r.busy, r.bound  # 40 tiles in six parts each
    (0.7894736842105263, 'compute')
    """
    for name, size in (("m", m), ("n", n), ("k", k), ("groups", groups)):
        if not all_true(size > 0):
            raise InputError(f"product_time: {name} = {size} must be a number above 0, as every size of a product")
    of_b = element_bytes if weight_bytes is None else weight_bytes
    of_c = element_bytes if result_bytes is None else result_bytes
    rows, columns = -(-m // 1), -(-n // 1)
    tall, wide = (where(x <= NARROW_TILE, NARROW_TILE, TILE) if tiled else 1 for x in (rows, columns))
    padded = tile_padding(rows, tall), tile_padding(columns, wide)
    flops = groups * gemm_flops(*padded, k)
    result = groups * m * n * of_c
    moved = groups * (m * k * element_bytes + k * n * of_b) + result
    tiles = -(-groups // 1) * (padded[0] // tall) * (padded[1] // wide)
    busy: Num = 1.0 + 0.0 * tiles
    unhidden: Num = 0.0 * result
    chain: Num = 0.0 * k
    rates = _Rates(
        peak_flops, memory_bandwidth, compute_efficiency, memory_efficiency, startup_time, sharpness, origins or {}
    )
    terms = [
        Term("rows in tiles", padded[0], "eq-tile-padding", {"size": rows, "tile": tall}),
        Term("columns in tiles", padded[1], "eq-tile-padding", {"size": columns, "tile": wide}),
        Term("work of a group", flops / groups, "eq-gemm-flops", {"m": padded[0], "n": padded[1], "k": k}),
    ]
    if not all_true(chain_byte_time == 0):
        walk = {"depth": k, "element_bytes": element_bytes, "byte_time": chain_byte_time}
        chain = chain_time(**walk)
        terms.append(Term("along k", chain, "eq-chain-time", walk))
    if multiprocessors is not None:
        waves = {"tiles": tiles, "multiprocessors": multiprocessors}
        unhidden = last_wave_bytes(result, **waves)
        terms.append(Term("written at the end", unhidden, "eq-last-wave", {"result_bytes": result, **waves}))

        def cut(parts: Num) -> tuple[Num, Num, Num]:
            """Time with k in so many parts, the share that is busy, and the traffic of their sums."""
            share = where(rows <= NARROW_ROWS, 1.0, wave_share(tiles * parts, multiprocessors))
            sums = groups * partial_sum_bytes(m, n, parts)
            time = rates.roof(rates.clocks(flops, share, moved - unhidden, chain)) + memory_time(sums, rates.bandwidth)
            return time, share, sums

        parts, (quickest, busy, sums) = 1.0 + 0.0 * tiles, cut(1.0 + 0.0 * tiles)
        most = minimum(where(rows <= NARROW_ROWS, 1.0, multiprocessors // tiles), k // 1)
        if most_parts is not None:
            most = minimum(most, most_parts)
        for count in range(2, int(most.max() if is_array(most) else most) + 1):
            time, share, more = cut(1.0 * count + 0.0 * tiles)
            better = (time < quickest) & (count <= most)
            quickest, busy = where(better, time, quickest), where(better, share, busy)
            sums, parts = where(better, more, sums), where(better, 1.0 * count, parts)
        if all_true(rows > NARROW_ROWS):
            told = {"tiles": tiles * parts, "multiprocessors": multiprocessors}
            terms.append(Term("busy multiprocessors", busy, "eq-wave-share", told))
        if not all_true(parts == 1):
            added = {"m": m, "n": n, "parts": parts}
            terms.append(Term("sums of parts, a group", sums / groups, "eq-partial-sums", added))
        moved, unhidden = moved + sums, unhidden + sums
    return rates.time("product", flops, busy, moved, unhidden, chain, tuple(terms))


@widening
def attention_time(
    batch: Num,
    heads: Num,
    q_len: Num,
    cached_len: Num,
    qk_dim: Num,
    v_dim: Num,
    kv_heads: Num,
    kv_width: Num,
    peak_flops: Num,
    memory_bandwidth: Num,
    *,
    causal: Num = 1.0,
    element_bytes: Num = 2.0,
    kv_element_bytes: Num = 2.0,
    mask_tile: Num = TILE,
    row_tile: Num = 1.0,
    compute_efficiency: Num = 1.0,
    memory_efficiency: Num = 1.0,
    startup_time: Num = 0.0,
    exponential_flops: Num = 0.0,
    sharpness: Num | None = None,
    origins: Mapping[str, str] | None = None,
) -> CallTime:
    """Time of attention of one layer: grouped queries, expanded latents, or absorbed latent decoding.

    Formula: eq-rounded-roof of eq-compute-time (at eq-softmax-share) and eq-memory-time, plus the reading of queries and the
    writing of results, and the start.

    Parameters
    ----------
    batch : float or array, 1
        Sequences.
    heads : float or array, 1
        Query heads.
    q_len : float or array, 1, [1, inf)
        New tokens per sequence.
    cached_len : float or array, 1, [0, inf)
        Tokens per sequence that the cache holds.
    qk_dim, v_dim : float or array, 1
        Widths of a query and key, and of a value.
    kv_heads : float or array, 1
        Heads of the cache.
    kv_width : float or array, 1
        Elements of the cache for a token of a head.
    peak_flops : float or array, FLOP/s
        Dense peak of the precision that computes.
    memory_bandwidth : float or array, byte/s
        Datasheet bandwidth.
    causal : float or array, 1
        1 under a causal mask, 0 without.
    element_bytes, kv_element_bytes : float or array, byte
        Size of one element of queries and results, and of the cache.
    mask_tile : float or array, 1
        Tokens along the side of the tiles that the kernel can skip beyond the mask.
    row_tile : float or array, 1
        Rows that an instruction multiplies at least (``ROW_TILE``): queries of all heads that share a key, in whole tiles.
    compute_efficiency, memory_efficiency : float or array, 1
        Shares that the kernels of a library sustain; 1, the bound, unless given.
    startup_time : float or array, s
        Time before and after the work: that of three kernels where a call plans how the cache is cut, attends, and combines.
    exponential_flops : float or array, FLOP
        As of eq-softmax-share; 0 hides the exponentials.
    sharpness : float or array, 1
        Exponent of the round corner (``SHARPNESS``); without it the longer clock counts alone, and queries and results, too, hide.
    origins : mapping
        Who says the rates and shares, for ``explain()``.

    Returns
    -------
    CallTime

    Raises
    ------
    InputError
        A rate or share out of range.

    Assumptions: those of the two equations; the work splits evenly over the multiprocessors.

    >>> r = attention_time(16, 128, 1, 4095, 576, 512, 1, 576, 989e12, 3.35e12, startup_time=17e-6, sharpness=3.0)
    >>> r.bound, round(r.time * 1e6)
    ('memory', 44)
    """
    rows = q_len * heads / kv_heads
    told: tuple[Term, ...] = ()
    multiplied = heads
    if not all_true(row_tile == 1):
        padded = tile_padding(rows, row_tile)
        multiplied = kv_heads * padded / q_len
        told = (Term("rows of a key in tiles", padded, "eq-tile-padding", {"size": rows, "tile": row_tile}),)
    shape = {"batch": batch, "heads": heads, "q_len": q_len, "qk_dim": qk_dim, "v_dim": v_dim}
    work = shape | {"heads": multiplied, "cached_len": cached_len, "causal": causal, "mask_tile": mask_tile}
    read = shape | {"kv_len": q_len + cached_len, "kv_heads": kv_heads, "kv_width": kv_width}
    read |= {"element_bytes": element_bytes, "kv_element_bytes": kv_element_bytes}
    flops, moved = attention_kernel_flops(**work), attention_kernel_bytes(**read)
    terms = [
        *told,
        Term("work", flops, "eq-attention-kernel-flops", work),
        Term("traffic", moved, "eq-attention-kernel-bytes", read),
    ]
    if not all_true(exponential_flops == 0):
        pair = {"pair_flops": gemm_flops(1.0, 1.0, qk_dim + v_dim), "exponential_flops": exponential_flops}
        corner = SHARPNESS if sharpness is None else sharpness
        asked = {"share": compute_efficiency, **pair, "sharpness": corner}
        compute_efficiency = softmax_share(**asked)
        terms.append(Term("share with exponentials", compute_efficiency, "eq-softmax-share", asked))
    zero = 0.0 * flops
    unhidden = zero
    if sharpness is not None:  # a tile reads its queries before its first product, and writes its result after the last
        outside = read | {"kv_width": 0.0 * kv_width}
        unhidden = attention_kernel_bytes(**outside)
        terms.append(Term("queries and results", unhidden, "eq-attention-kernel-bytes", outside))
    rates = _Rates(
        peak_flops, memory_bandwidth, compute_efficiency, memory_efficiency, startup_time, sharpness, origins or {}
    )
    return rates.time("attention", flops, 1.0 + zero, moved, unhidden, zero, tuple(terms))
