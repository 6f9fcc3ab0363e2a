"""Tier 2, the measurement: bandwidth by access pattern, products, attention and starts on the processor at hand.

NumPy is imported inside the functions, after :func:`use_threads` has had its chance. Every array that stands for main
memory is several times larger than the last cache.
"""

import os
import platform
import re
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from itertools import cycle
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlsysim.errors import InputError
from mlsysim.evidence.measuring import tiny
from mlsysim.evidence.measuring.measured import Measured
from mlsysim.evidence.measuring.profiles import SEQUENTIAL, Point, Profile
from mlsysim.evidence.measuring.rounds import Effort, Rounds, attend, causal_mask

UNKNOWN_CACHE = 32 * 2**20  # where the system does not tell
CACHES, MOST_BYTES = 4, 512 * 2**20  # an array is so many caches large, and never larger than this
CHUNK = 32_768  # floats that a pass works on at a time: three such chunks fit a second-level cache
SHARES = (0.25, 0.5, 0.75)
MIXED_BLOCK = 4096
SIZE = 2048  # columns, and inner size, of the products
HEADS, GROUP, WIDTH = 4, 4, 64  # key-value heads, queries of each, size of a head
PROMPTS, BATCHES, CONTEXT = (256, 512), (1, 8), 1024
CALLS = 1000  # of a small kernel, timed together
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


FULL = Effort(25, 8.0)
QUICK = Effort(5, 0.5, blocks=(256, 4096, 65_536), rows=(1, 8, 512))


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


class Memory:
    """Passes over large arrays, split over threads (NumPy lets go of the interpreter while it copies)."""

    def __init__(self, bytes: float, threads: int) -> None:
        import numpy as np

        self.np, self.rng = np, np.random.default_rng(0)
        self.count = int(bytes) // 4 // CHUNK * CHUNK
        self.a: Any = np.full(self.count, 1.0, np.float32)
        self.b: Any = np.full(self.count, 2.0, np.float32)
        self.c: Any = np.full(self.count, 3.0, np.float32)
        self.pool = ThreadPoolExecutor(threads)
        step = -(-self.count // CHUNK // threads) * CHUNK
        self.parts = [slice(i, min(i + step, self.count)) for i in range(0, self.count, step)]

    def _all(self, one: Callable[[slice], None]) -> Callable[[], object]:
        """A pass over everything, each thread its part."""
        if len(self.parts) == 1:
            return partial(one, self.parts[0])
        return lambda: list(self.pool.map(one, self.parts))

    @staticmethod
    def _chunks(part: slice) -> Iterator[slice]:
        return (slice(i, i + CHUNK) for i in range(part.start, part.stop, CHUNK))

    def sequential(self) -> dict[str, tuple[Callable[[], object], float]]:
        """Read only (the sum), copy, and STREAM's triad, with their bytes as STREAM counts them: each array once."""
        np, a, b, c = self.np, self.a, self.b, self.c

        def read(part: slice) -> None:
            a[part].sum()

        def copy(part: slice) -> None:
            np.copyto(b[part], a[part])

        def triad(part: slice) -> None:
            inner = np.empty(CHUNK, np.float32)  # stays in the cache, so that memory sees two readings and a writing
            for i in self._chunks(part):
                np.multiply(c[i], np.float32(3.0), out=inner)
                np.add(inner, b[i], out=a[i])

        n = self.count
        return {"read": (self._all(read), 4 * n), "copy": (self._all(copy), 8 * n), "triad": (self._all(triad), 12 * n)}

    def gather(self, block: int, share: float = 1.0) -> tuple[Callable[[], object], float]:
        """Read blocks into a buffer that stays in the cache: a share of them in random places, the others in order."""
        np = self.np
        blocks = self.a.reshape(-1, block // 4)
        order = np.arange(len(blocks))
        if share > 0:
            cut = int(len(order) * (1.0 - share))
            order[cut:] = self.rng.permutation(order[cut:])
        at_once = max(1, CHUNK * 4 // block)

        def run(part: slice) -> None:
            buffer = np.empty((at_once, block // 4), np.float32)
            for i in range(part.start * 4 // block, part.stop * 4 // block, at_once):
                chosen = order[i : i + at_once]
                np.take(blocks, chosen, axis=0, out=buffer[: len(chosen)], mode="clip")

        return self._all(run), 4 * self.count


def _add_products(rounds: Rounds, bytes: float) -> None:
    """Products of m rows with matrices that no cache holds: each run takes the next one."""
    import numpy as np

    rng = np.random.default_rng(1)
    matrices = [rng.random((SIZE, SIZE), dtype=np.float32) for _ in range(max(2, round(bytes / (4 * SIZE * SIZE))))]
    ring = cycle(matrices)
    for m in rounds.effort.rows:
        out: Any = np.empty((m, SIZE), np.float32)
        x = rng.random((m, SIZE), dtype=np.float32)
        rounds.add(("product", m), partial(_multiply, x, ring, out))


def _multiply(x: Any, ring: Iterator[Any], out: Any) -> None:
    import numpy as np

    np.matmul(x, next(ring), out=out)


def product_times(products: Sequence[tuple[int, int, int]]) -> list[float]:
    """Seconds of products in single precision, each (rows, k, n): the median of some rounds, in turn."""
    import numpy as np

    rounds, rng = Rounds(QUICK), np.random.default_rng(3)
    for at, (m, k, n) in enumerate(products):
        a, b = rng.random((m, k), dtype=np.float32), rng.random((k, n), dtype=np.float32)
        out: Any = np.empty((m, n), np.float32)
        rounds.add(at, partial(np.matmul, a, b, out=out))
    rounds.run()
    return [rounds.seconds(at).median for at in range(len(products))]


def _add_attention(rounds: Rounds, bytes: float) -> None:
    """Attention of prompts, and of answers over caches that no cache of the processor holds."""
    import numpy as np

    rng, heads = np.random.default_rng(2), HEADS * GROUP
    for tokens in PROMPTS:
        q, k, v = (rng.random((heads, tokens, WIDTH), dtype=np.float32) for _ in range(3))
        rounds.add(("prefill", tokens), partial(attend, q, k, v, causal_mask(tokens)))
    for batch in BATCHES:
        shape = (batch, HEADS, CONTEXT, WIDTH)
        caches = [
            (rng.random(shape, dtype=np.float32), rng.random(shape, dtype=np.float32))
            for _ in range(max(2, round(bytes / _cache_bytes(batch))))
        ]
        q = rng.random((batch, HEADS, GROUP, WIDTH), dtype=np.float32)
        rounds.add(("decode", batch), partial(_attend_next, q, cycle(caches)))


def _cache_bytes(batch: float) -> float:
    return 2.0 * batch * HEADS * CONTEXT * WIDTH * 4


def _attend_next(q: Any, ring: Iterator[tuple[Any, Any]]) -> None:
    attend(q, *next(ring))


def _small_products() -> None:
    """Products of 8 x 8: their arithmetic is nothing, so what is left is the calls."""
    import numpy as np

    x: Any = np.ones((8, 8), np.float32)
    out: Any = np.empty((8, 8), np.float32)
    for _ in range(CALLS):
        np.matmul(x, x, out=out)


def _processor() -> str:
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        match = None
    return (match[1] if match else platform.processor() or platform.machine()).strip()


def _conditions(before: tuple[float, float], told: bool, threads: int) -> str:
    gone, ticks = (b - a for a, b in zip(before, stolen(), strict=True))
    parts = [f"{os.cpu_count()} processors seen"]
    if threads == 1:
        parts.append("times are processor time of the one thread")
    if Path("/proc/cpuinfo").exists() and " hypervisor" in Path("/proc/cpuinfo").read_text():
        parts.append("a virtual machine, which shares its host with others")
    if ticks:
        parts.append(f"{100 * gone / ticks:.1f} % of processor time stolen meanwhile")
    if hasattr(os, "getloadavg"):
        parts.append(f"load average {os.getloadavg()[0]:.1f} at the end")
    if hasattr(os, "nice") and os.nice(0) != 0:
        parts.append(f"run at niceness {os.nice(0)}")
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


def _passes(memory: Memory, effort: Effort) -> dict[Hashable, tuple[Callable[[], object], float]]:
    """Passes over memory, each with the bytes that it moves."""
    found: dict[Hashable, tuple[Callable[[], object], float]] = {}
    found.update(memory.sequential())
    found["in order"] = memory.gather(effort.blocks[-1], 0.0)
    found |= {("blocks", block): memory.gather(block) for block in effort.blocks}
    return found | {("mixed", share): memory.gather(MIXED_BLOCK, share) for share in SHARES}


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
    use_threads(threads)
    effort = QUICK if quick else FULL
    before = stolen()
    cache, told = cache_bytes()
    capacity = memory_bytes()
    bytes = min(max(CACHES * cache, 64 * 2**20), MOST_BYTES, capacity / 16)
    rounds = Rounds(effort, threads)
    memory = Memory(bytes, threads)
    passes = _passes(memory, effort)
    for key, (work, _) in passes.items():
        rounds.add(key, work)
    _add_products(rounds, bytes)
    _add_attention(rounds, bytes)
    rounds.add("start", _small_products)
    tiny.add(rounds)
    say(f"{len(rounds.works)} points in turn, up to {effort.repeats} times")
    rounds.run()
    memory.pool.shutdown()

    def bandwidth(key: Hashable) -> Measured:
        return rounds.rate(key, passes[key][1])

    pairs = {t: 2.0 * HEADS * GROUP * t * (t + 1) / 2 * 2 * WIDTH for t in PROMPTS}  # FLOP, causal pairs only
    one_start = rounds.seconds("start")
    return Profile(
        name=f"{_processor()}, {threads} thread{'s' * (threads > 1)}, NumPy",
        kind="cpu",
        date=date.today().isoformat(),
        conditions=_conditions(before, told, threads),
        software=_software(),
        threads=threads,
        precision="fp32",
        element_bytes=4,
        memory_capacity=capacity,
        cache_bytes=cache,
        bandwidth=MappingProxyType({n: bandwidth(n) for n in SEQUENTIAL} | {"gather_in_order": bandwidth("in order")}),
        scattered=tuple(Point({"block_bytes": b}, bandwidth(("blocks", b))) for b in effort.blocks),
        mixed=tuple(Point({"block_bytes": MIXED_BLOCK, "scattered_share": s}, bandwidth(("mixed", s))) for s in SHARES),
        products=tuple(
            Point({"m": m, "n": SIZE, "k": SIZE}, rounds.rate(("product", m), 2.0 * m * SIZE * SIZE))
            for m in effort.rows
        ),
        prefill_attention=tuple(
            Point({"tokens": t, "heads": HEADS * GROUP, "width": WIDTH}, rounds.rate(("prefill", t), pairs[t]))
            for t in PROMPTS
        ),
        decode_attention=tuple(
            Point(
                {"batch": b, "context": CONTEXT, "heads": HEADS, "width": WIDTH},
                rounds.rate(("decode", b), _cache_bytes(b)),
            )
            for b in BATCHES
        ),
        start=Measured(one_start.median / CALLS, one_start.low / CALLS, one_start.high / CALLS, one_start.repeats),
        checks=tiny.checks(rounds),
    )
