"""Tier 2 on a GPU through PyTorch, by CUDA or ROCm. Written from the library's documentation and never run: no GPU was at hand.

The same points as on a processor, in bfloat16, timed with events of the device.
"""

from collections.abc import Callable
from datetime import date
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from mlsysim.errors import InputError
from mlsysim.evidence.measuring.measured import Measured
from mlsysim.evidence.measuring.microbench import CACHES, FULL, MIXED_BLOCK, QUICK, SHARES
from mlsysim.evidence.measuring.profiles import Point, Profile
from mlsysim.evidence.measuring.rounds import BLOCKS, ROWS, Effort

SIZE = 8192
UNTRIED = "the makers of mlsysim had no GPU to try this measurement on"
HEADS, GROUP, WIDTH = 8, 4, 128


def available() -> bool:
    """Whether PyTorch is installed and sees a GPU."""
    if find_spec("torch") is None:
        return False
    torch: Any = import_module("torch")
    return bool(torch.cuda.is_available())


def _driver(torch: Any) -> dict[str, str]:
    """PyTorch calls a device of AMD "cuda" too; its build says which of the two it is for."""
    found = {"cuda": torch.version.cuda, "rocm": getattr(torch.version, "hip", None)}
    return {name: str(version) for name, version in found.items() if version}


def _times(torch: Any, work: Callable[[], object], effort: Effort) -> list[float]:
    for _ in range(3):
        work()
    found = []
    for _ in range(effort.repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        found.append(start.elapsed_time(end) * 1e-3)
    return found


def _attention(
    torch: Any, gpu: Any, rate: Callable[[Callable[[], object], float], Measured]
) -> tuple[tuple[Point, ...], tuple[Point, ...]]:
    """Causal attention of prompts in FLOP/s, and of decoding in bytes of cache per second."""
    attention = torch.nn.functional.scaled_dot_product_attention
    heads, prefill, decode = HEADS * GROUP, [], []
    for tokens in (1024, 4096):
        q, k, v = (torch.randn(1, heads, tokens, WIDTH, dtype=torch.bfloat16, device=gpu) for _ in range(3))
        flops = 2.0 * heads * tokens * (tokens + 1) / 2 * 2 * WIDTH
        run = rate(partial(attention, q, k, v, is_causal=True), flops)
        prefill.append(Point({"tokens": tokens, "heads": heads, "width": WIDTH}, run))
    for batch, context in ((8, 4096), (64, 4096)):
        q = torch.randn(batch, HEADS, GROUP, WIDTH, dtype=torch.bfloat16, device=gpu)
        k, v = (torch.randn(batch, HEADS, context, WIDTH, dtype=torch.bfloat16, device=gpu) for _ in range(2))
        run = rate(partial(attention, q, k, v), 4.0 * batch * HEADS * context * WIDTH)
        decode.append(Point({"batch": batch, "context": context, "heads": HEADS, "width": WIDTH}, run))
    return tuple(prefill), tuple(decode)


def measure(quick: bool = False, say: Callable[[str], None] = lambda text: None) -> Profile:
    """Measure the first GPU through PyTorch, in bfloat16."""
    if not available():
        raise InputError("no GPU: PyTorch is missing or sees none; measure the processor instead")
    torch: Any = import_module("torch")

    effort, gpu = (QUICK if quick else FULL), torch.device("cuda:0")
    properties = torch.cuda.get_device_properties(gpu)
    cache = float(getattr(properties, "L2_cache_size", 50 * 2**20))
    count = int(max(CACHES * cache, 2**30)) // 2 // 131_072 * 131_072
    arrays = [torch.ones(count, dtype=torch.bfloat16, device=gpu) for _ in range(3)]
    a, b, c = arrays

    def rate(work: Callable[[], object], bytes: float) -> Measured:
        return Measured.of([bytes / t for t in _times(torch, work, effort)])

    say("bandwidth")
    bandwidth = {
        "read": rate(lambda: a.sum(), 2.0 * count),
        "copy": rate(lambda: b.copy_(a), 4.0 * count),
        "triad": rate(lambda: torch.add(b, c, alpha=3.0, out=a), 6.0 * count),
    }

    def gather(block: int, share: float) -> Measured:
        rows = arrays[0].view(-1, block // 2)
        order, cut = torch.arange(len(rows), device=gpu), int(len(rows) * (1.0 - share))
        order[cut:] = order[cut:][torch.randperm(len(rows) - cut, device=gpu)]
        out = arrays[1].view(-1, block // 2)
        # a gather reads and writes as much; half of its traffic is what was gathered
        return rate(lambda: torch.index_select(rows, 0, order, out=out), 4.0 * count)

    bandwidth["gather_in_order"] = gather(BLOCKS[-1], 0.0)
    scattered = tuple(Point({"block_bytes": n}, gather(n, 1.0)) for n in effort.blocks)
    mixed = tuple(Point({"block_bytes": MIXED_BLOCK, "scattered_share": s}, gather(MIXED_BLOCK, s)) for s in SHARES)
    say("products and attention")
    w = torch.randn(SIZE, SIZE, dtype=torch.bfloat16, device=gpu)
    products = []
    for m in (*ROWS, 8192):
        x = torch.randn(m, SIZE, dtype=torch.bfloat16, device=gpu)
        products.append(Point({"m": m, "n": SIZE, "k": SIZE}, rate(partial(torch.matmul, x, w), 2.0 * m * SIZE * SIZE)))
    prefill, decode = _attention(torch, gpu, rate)
    small = torch.ones(8, 8, dtype=torch.bfloat16, device=gpu)
    start = Measured.of(_times(torch, lambda: small @ small, effort))
    return Profile(
        name=f"{properties.name}, PyTorch",
        kind="gpu",
        date=date.today().isoformat(),
        conditions=f"clocks and other tenants as found; {UNTRIED}",
        software=MappingProxyType({"torch": str(torch.__version__), **_driver(torch)}),
        threads=1,
        precision="bf16",
        element_bytes=2,
        memory_capacity=float(properties.total_memory),
        cache_bytes=cache,
        bandwidth=MappingProxyType(bandwidth),
        scattered=scattered,
        mixed=mixed,
        products=tuple(products),
        prefill_attention=prefill,
        decode_attention=decode,
        start=start,
        checks=(),
    )
