"""Tier 2, the measurement: bandwidth by access pattern, products, attention and starts on the processor at hand.

NumPy is imported inside the functions, after :func:`use_threads` has had its chance. Every array that stands for main
memory is several times larger than the last cache.
"""

import os
import platform
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from functools import partial
from itertools import cycle
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Any

from mlsysim.errors import InputError
from mlsysim.fidelity.profiles import Measured, Point, Profile

UNKNOWN_CACHE = 32 * 2**20  # where the system does not tell
CACHES, MOST_BYTES = 4, 512 * 2**20  # an array is so many caches large, and never larger than this
CHUNK = 32_768  # floats that a pass works on at a time: three such chunks fit a second-level cache
BLOCKS = (256, 1024, 4096, 16_384, 65_536, 262_144)  # bytes
SHARES = (0.25, 0.5, 0.75)
MIXED_BLOCK = 4096
ROWS = (1, 16, 64, 256, 1024)
SIZE = 2048  # columns, and inner size, of the products
HEADS, GROUP, WIDTH = 4, 4, 64  # key-value heads, queries of each, size of a head
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    repeats: int
    seconds: float  # after which a point stops repeating, once it has five
    blocks: tuple[int, ...] = BLOCKS
    rows: tuple[int, ...] = ROWS


FULL = Effort(25, 4.0)
QUICK = Effort(5, 0.5, blocks=(256, 4096, 65_536), rows=(1, 64, 512))


def use_threads(threads: int) -> None:
    """Ask the products of NumPy for so many threads; only possible before NumPy is imported."""
    most = os.cpu_count() or 1
    if not 1 <= threads <= most:
        raise InputError(f"threads = {threads} must lie in [1, {most}], the processors of this machine")
    if "numpy" in sys.modules and os.environ.get(_THREADS[0]) != str(threads):
        raise InputError(
            f"threads = {threads} comes too late, NumPy is loaded already; set {_THREADS[0]}={threads} and start again"
        )
    for name in _THREADS:
        os.environ[name] = str(threads)


def cache_bytes() -> tuple[float, bool]:
    """Size of the last cache, and whether the system told it."""
    found = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        match = re.fullmatch(r"(\d+)([KMG]?)", path.read_text().strip())
        if match:
            found.append(int(match[1]) * {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}[match[2]])
    return (float(max(found)), True) if found else (float(UNKNOWN_CACHE), False)


def memory_bytes() -> float:
    """Main memory of the machine."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # a system without these names
        return float(8 * 2**30)


def stolen() -> tuple[float, float]:
    """Ticks that the hypervisor gave to others, and all ticks, since the machine started; zeros when unknown."""
    try:
        ticks = [float(t) for t in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return 0.0, 0.0
    return (ticks[7], sum(ticks)) if len(ticks) == 8 else (0.0, 0.0)


def seconds(work: Callable[[], object], effort: Effort) -> list[float]:
    """Times of repeated runs, after one that warms up."""
    work()
    found: list[float] = []
    while len(found) < effort.repeats and (len(found) < 5 or sum(found) < effort.seconds):
        start = perf_counter()
        work()
        found.append(perf_counter() - start)
    return found


class Memory:
    """Passes over large arrays, split over threads (NumPy lets go of the interpreter while it copies)."""

    def __init__(self, bytes: float, threads: int, effort: Effort) -> None:
        import numpy as np

        self.np, self.threads, self.effort = np, threads, effort
        self.rng = np.random.default_rng(0)
        self.count = int(bytes) // 4 // CHUNK * CHUNK
        self.a: Any = np.full(self.count, 1.0, np.float32)
        self.b: Any = np.full(self.count, 2.0, np.float32)
        self.c: Any = np.full(self.count, 3.0, np.float32)
        self.pool = ThreadPoolExecutor(threads)

    def _rate(self, passes: Callable[[slice], None], bytes_per_float: float) -> Measured:
        """Run a pass over all chunks, each thread its share of them."""
        step = -(-self.count // CHUNK // self.threads) * CHUNK
        parts = [slice(i, min(i + step, self.count)) for i in range(0, self.count, step)]
        times = seconds(lambda: list(self.pool.map(passes, parts)), self.effort)
        return Measured.of([bytes_per_float * self.count / t for t in times])

    @staticmethod
    def _chunks(part: slice) -> Iterator[slice]:
        return (slice(i, i + CHUNK) for i in range(part.start, part.stop, CHUNK))

    def sequential(self) -> dict[str, Measured]:
        """Read only (a dot product), copy, and STREAM's triad; bytes as STREAM counts them, each array once."""
        np, a, b, c = self.np, self.a, self.b, self.c

        def read(part: slice) -> None:
            for i in self._chunks(part):
                np.dot(a[i], a[i])

        def copy(part: slice) -> None:
            for i in self._chunks(part):
                np.copyto(b[i], a[i])

        def triad(part: slice) -> None:
            inner = np.empty(CHUNK, np.float32)  # stays in the cache, so that memory sees two readings and a writing
            for i in self._chunks(part):
                np.multiply(c[i], np.float32(3.0), out=inner)
                np.add(inner, b[i], out=a[i])

        return {"read": self._rate(read, 4), "copy": self._rate(copy, 8), "triad": self._rate(triad, 12)}

    def gather(self, block: int, share: float = 1.0) -> Measured:
        """Read blocks into a buffer that stays in the cache: a share of them in random places, the others in order."""
        np = self.np
        blocks = self.a.reshape(-1, block // 4)
        order = np.arange(len(blocks))
        if share > 0:
            # the first so many bytes in order, the rest in random places
            cut = int(len(order) * (1.0 - share))
            order[cut:] = self.rng.permutation(order[cut:])
        at_once = max(1, CHUNK * 4 // block)

        def run(part: slice) -> None:
            buffer = np.empty((at_once, block // 4), np.float32)
            for i in range(part.start * 4 // block, part.stop * 4 // block, at_once):
                chosen = order[i : i + at_once]
                np.take(blocks, chosen, axis=0, out=buffer[: len(chosen)], mode="clip")

        return self._rate(run, 4)


def _products(bytes: float, effort: Effort) -> Iterator[Point]:
    """Products of m rows with matrices that no cache holds: each run takes the next one."""
    import numpy as np

    rng = np.random.default_rng(1)
    matrices = [rng.random((SIZE, SIZE), dtype=np.float32) for _ in range(max(2, round(bytes / (4 * SIZE * SIZE))))]
    for m in effort.rows:
        out: Any = np.empty((m, SIZE), np.float32)
        x, ring = rng.random((m, SIZE), dtype=np.float32), cycle(matrices)
        times = seconds(partial(_multiply, x, ring, out), effort)
        yield Point({"m": m, "n": SIZE, "k": SIZE}, Measured.of([2.0 * m * SIZE * SIZE / t for t in times]))


def _multiply(x: Any, ring: Iterator[Any], out: Any) -> None:
    import numpy as np

    np.matmul(x, next(ring), out=out)


def attend(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    """softmax(q k / sqrt(d)) v over the last two axes."""
    import numpy as np

    scores = q @ k.swapaxes(-1, -2)
    scores *= q.shape[-1] ** -0.5
    if mask is not None:
        scores += mask
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores @ v


def causal_mask(tokens: int) -> Any:
    """Zero where a query may look, minus infinity elsewhere."""
    import numpy as np

    return np.triu(np.full((tokens, tokens), -np.inf, np.float32), 1)


def _prefill_attention(effort: Effort) -> Iterator[Point]:
    import numpy as np

    rng, heads = np.random.default_rng(2), HEADS * GROUP
    for tokens in (256, 512):
        q, k, v = (rng.random((heads, tokens, WIDTH), dtype=np.float32) for _ in range(3))
        mask = causal_mask(tokens)
        flops = 2.0 * heads * tokens * (tokens + 1) / 2 * 2 * WIDTH
        times = seconds(partial(attend, q, k, v, mask), effort)
        yield Point({"tokens": tokens, "heads": heads, "width": WIDTH}, Measured.of([flops / t for t in times]))


def _decode_attention(bytes: float, effort: Effort) -> Iterator[Point]:
    import numpy as np

    rng = np.random.default_rng(3)
    for batch, context in ((1, 1024), (8, 1024)):
        one = 2.0 * batch * HEADS * context * WIDTH * 4
        shape = (batch, HEADS, context, WIDTH)
        caches = [
            (rng.random(shape, dtype=np.float32), rng.random(shape, dtype=np.float32))
            for _ in range(max(2, round(bytes / one)))
        ]
        q = rng.random((batch, HEADS, GROUP, WIDTH), dtype=np.float32)
        times = seconds(partial(_attend_next, q, cycle(caches)), effort)
        at = {"batch": batch, "context": context, "heads": HEADS, "width": WIDTH}
        yield Point(at, Measured.of([one / t for t in times]))


def _attend_next(q: Any, ring: Iterator[tuple[Any, Any]]) -> None:
    attend(q, *next(ring))


def _start(effort: Effort) -> Measured:
    """A product of 8 x 8: its arithmetic is nothing, so what is left is the call."""
    import numpy as np

    calls = 1000
    x: Any = np.ones((8, 8), np.float32)
    out: Any = np.empty((8, 8), np.float32)

    def run() -> None:
        for _ in range(calls):
            np.matmul(x, x, out=out)

    return Measured.of([t / calls for t in seconds(run, effort)])


def _processor() -> str:
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        match = None
    return (match[1] if match else platform.processor() or platform.machine()).strip()


def _conditions(before: tuple[float, float], told: bool) -> str:
    gone, ticks = (b - a for a, b in zip(before, stolen(), strict=True))
    parts = [f"{os.cpu_count()} processors seen"]
    if Path("/proc/cpuinfo").exists() and " hypervisor" in Path("/proc/cpuinfo").read_text():
        parts.append("a virtual machine, which shares its host with others")
    if ticks:
        parts.append(f"{100 * gone / ticks:.1f} % of processor time stolen meanwhile")
    if hasattr(os, "getloadavg"):
        parts.append(f"load average {os.getloadavg()[0]:.1f} at the end")
    if not told:
        parts.append(f"size of the last cache unknown, {UNKNOWN_CACHE // 2**20} MiB assumed")
    return "; ".join(parts)


def _software() -> Mapping[str, str]:
    import numpy as np

    config: Any = np.show_config(mode="dicts")
    blas = config.get("Build Dependencies", {}).get("blas", {}) if isinstance(config, dict) else {}
    name = f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()
    return MappingProxyType(
        {"python": platform.python_version(), "numpy": np.__version__, "blas": name, "system": platform.system()}
    )


def measure(threads: int = 1, quick: bool = False, say: Callable[[str], None] = lambda text: None) -> Profile:
    """Measure this processor through NumPy, in single precision.

    Parameters
    ----------
    threads : int
        Of products and of passes over memory. The rest of NumPy always runs on one.
    quick : bool
        Fewer points and repeats: seconds instead of a minute or two.
    say : callable
        Told what is measured next.

    Raises
    ------
    InputError
        Threads that NumPy cannot be given any more.
    """
    from mlsysim.fidelity import tiny

    use_threads(threads)
    effort = QUICK if quick else FULL
    before = stolen()
    cache, told = cache_bytes()
    capacity = memory_bytes()
    bytes = min(max(CACHES * cache, 64 * 2**20), MOST_BYTES, capacity / 16)
    say("bandwidth in sequence")
    memory = Memory(bytes, threads, effort)
    bandwidth = memory.sequential()
    say("bandwidth of blocks")
    bandwidth["gather_in_order"] = memory.gather(effort.blocks[-1], 0.0)
    scattered = tuple(Point({"block_bytes": b}, memory.gather(b)) for b in effort.blocks)
    mixed = tuple(
        Point({"block_bytes": MIXED_BLOCK, "scattered_share": s}, memory.gather(MIXED_BLOCK, s)) for s in SHARES
    )
    memory.pool.shutdown()
    del memory
    say("products")
    products = tuple(_products(bytes, effort))
    say("attention")
    prefill, decode = tuple(_prefill_attention(effort)), tuple(_decode_attention(bytes, effort))
    say("starts")
    start = _start(effort)
    say("a small transformer, to check what the profile predicts")
    checks = tiny.measure(effort)
    return Profile(
        name=f"{_processor()}, {threads} thread{'s' * (threads > 1)}, NumPy",
        kind="cpu",
        date=date.today().isoformat(),
        conditions=_conditions(before, told),
        software=_software(),
        threads=threads,
        precision="fp32",
        element_bytes=4,
        memory_capacity=capacity,
        cache_bytes=cache,
        bandwidth=MappingProxyType(bandwidth),
        scattered=scattered,
        mixed=mixed,
        products=products,
        prefill_attention=prefill,
        decode_attention=decode,
        start=start,
        checks=checks,
    )
