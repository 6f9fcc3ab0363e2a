"""Fit what kernels sustain to the rows of measured kernel times; ``fit_all.py`` writes it to ``mlsysim/serving_steps/rates.toml``.

For each device and kind of kernel three constants: the shares of peak and of bandwidth in eq-kernel-time, and its
start. The fit takes the mean size of the logarithmic error, so every row counts alike and an outlier counts once.

Principles, stated here once:

1. A share that fewer than FEWEST rows depend on is not fitted. It is that of the same kind of kernel on the same
   silicon (H100 and H800), else that of another attention kernel of the device, and the origin says so.
2. Products in 16 bits, of which there is no table: the largest plain product and the plainest traffic that somebody
   measured on the silicon, Azure's product of 8192 and STREAM triad; the start is that of the 8-bit table. On H100
   that product ran in 8 bits, and its share of that peak is taken over. A device
   without these two takes the shares of its 8-bit table.
3. Rows whose printed MFU is 0 are left out: nearly all are the first of their file, measured before warming up.
4. No measurement of a server comes near this script.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlsysim import catalog, evidence
from mlsysim.evidence.rows import row_table

OUT = Path(__file__).resolve().parents[2] / "mlsysim" / "serving_steps" / "rates.toml"
SOURCES = {
    "H100-SXM5-80GB": "inferencesim2026kernels",
    "H800-SXM": "infersim2026bench",
    "H20": "infersim2026bench",
}
SAME_SILICON = {"H100-SXM5-80GB": "H800-SXM", "H800-SXM": "H100-SXM5-80GB"}
AZURE = {"H100-SXM5-80GB": "h100", "H800-SXM": "h100"}
# Kinds whose share stands in, on the same device, for one that no row of a kind's own depends on.
STAND_IN = {
    "prefill_attention": {"memory": "decode_attention"},
    "decode_attention": {"compute": "prefill_attention"},
    "latent_attention": {"compute": "prefill_attention", "memory": "decode_attention"},
}
BYTES = 2.0  # of an activation and of a cached number, as the step model counts them
FEWEST = 5  # rows that must depend on a share before it is fitted
HEADER = """\
# What kernels sustain, by device: shares of a printed rate, and the time that a kernel takes however small its work.
# Written by scripts/maintain/fit_all.py. No figure here was read from, or fitted to, a measurement of a server.
# compute: share of the dense peak; memory: share of the datasheet bandwidth; start: seconds.
# rows, error: rows of the table and mean size of the relative error on them.
"""


@dataclass(frozen=True)
class Rows:
    """Work, traffic and measured time of the rows of one kind, and how many were left out."""

    flops: Any
    bytes: Any
    time: Any
    dropped: int = 0


@dataclass(frozen=True)
class Fit:
    compute: float
    memory: float
    start: float
    rows: int
    error: float  # mean size of the relative error on the rows of the fit
    bound: Mapping[str, int]  # rows that depend on each share
    origin: str = ""


def modelled(p: tuple[float, ...], r: Rows, peak: float, bandwidth: float) -> Any:
    c, m, start = p
    return np.maximum(r.flops / (c * peak), r.bytes / (m * bandwidth)) + start


def fit(r: Rows, peak: float, bandwidth: float, fixed: Mapping[str, float] | None = None) -> Fit:
    """Pattern search from a coarse grid, in logarithms; shares are at most 1."""
    held = fixed or {}

    def loss(p: tuple[float, ...]) -> float:
        return float(np.mean(np.abs(np.log(modelled(p, r, peak, bandwidth) / r.time))))

    grid = [
        (held.get("compute", c), held.get("memory", m), s)
        for c in (0.3, 0.5, 0.7, 0.9)
        for m in (0.3, 0.5, 0.7, 0.9)
        for s in (2e-6, 5e-6, 15e-6, 30e-6)
    ]
    best: tuple[float, ...] = min(grid, key=loss)
    step, names = 0.2, ("compute", "memory", "start")
    while step > 1e-5:
        tries = []
        for i, name in enumerate(names):
            if name in held:
                continue
            for factor in (1 + step, 1 / (1 + step)):
                p = list(best)
                p[i] = p[i] * factor if name == "start" else min(1.0, p[i] * factor)
                tries.append(tuple(p))
        # moves of two constants at once, so that a bent valley does not stop the search
        tries += [tuple(a * b / c for a, b, c in zip(s, t, best, strict=True)) for s in tries for t in tries]
        tries = [t for t in tries if max(t[:2]) <= 1.0]
        found = min(tries, key=loss)
        if loss(found) < loss(best) - 1e-12:
            best = found
        else:
            step /= 2
    c, m, s = best
    error = float(np.mean(np.abs(modelled(best, r, peak, bandwidth) / r.time - 1)))
    compute_bound = r.flops / (c * peak) > r.bytes / (m * bandwidth)
    bound = {"compute": int(compute_bound.sum()), "memory": int((~compute_bound).sum())}
    return Fit(c, m, s, len(r.time), error, bound)


def rows_of(table: str, device: str, **equal: str) -> Iterator[dict[str, float]]:
    """The numbers of the rows of a device, where texts have these values; caches in 16 bits only."""
    for row in row_table(table):
        wanted = equal | {"device": device}
        if row.get("kv_precision") in (None, "bf16") and all(row[name] == value for name, value in wanted.items()):
            yield {k: v for k, v in row.items() if isinstance(v, float)}


def _rows(found: list[tuple[float, float, float, float]]) -> Rows:
    """Of (flops, bytes, time, MFU as printed); a printed MFU of 0 is left out."""
    kept = np.array([f[:3] for f in found if f[3] > 0]).reshape(-1, 3)
    return Rows(kept[:, 0], kept[:, 1], kept[:, 2], len(found) - len(kept))


def products(device: str) -> Rows:
    found = []
    for r in rows_of("kernel_products", device):
        m, k, n = r["m"], r["k"], r["n"]
        found.append((2 * m * k * n, k * n + m * (k + n) * BYTES, r["measured_time_s"], r["printed_mfu"]))
    return _rows(found)


def decode(device: str) -> Rows:
    found = []
    for r in rows_of("kernel_attention", device, kind="gqa", phase="decode"):
        heads, kv, d = r["q_heads"] / r["tp"], max(1.0, r["kv_heads"] / r["tp"]), r["head_dim"]
        seen = r["batch"] * r["kv_len"]
        found.append((4 * seen * heads * d, seen * 2 * kv * d * BYTES, r["measured_time_s"], r["printed_mfu"]))
    return _rows(found)


def prefill(device: str) -> Rows:
    found = []
    for r in rows_of("kernel_attention", device, kind="gqa", phase="prefill"):
        heads, kv, d, s = r["q_heads"], r["kv_heads"], r["head_dim"], r["q_len"]
        found.append((4 * s * (s + 1) / 2 * heads * d, s * 2 * kv * d * BYTES, r["measured_time_s"], r["printed_mfu"]))
    return _rows(found)


def latent(device: str) -> Rows:
    """Decode attention over latent vectors: each head meets rank + rotary part, and rank."""
    found = []
    for r in rows_of("kernel_attention", device, kind="mla", phase="decode"):
        rank, rope, seen = r["kv_lora_rank"], r["rope_dim"], r["batch"] * r["kv_len"]
        flops = 2 * seen * r["q_heads"] * (2 * rank + rope)
        found.append((flops, seen * (rank + rope) * BYTES, r["measured_time_s"], r["printed_mfu"]))
    return _rows(found)


def grouped(device: str) -> Rows:
    """Up and down products of experts, each a row. The printed MFU tells the rows that really ran, and the weights of
    as many experts as there are rows, at most all local ones, are read."""
    found = []
    peak = catalog.device(device).peak_flops["fp8"]
    for part, n in (("up", 2.0), ("down", 1.0)):
        for r in rows_of("kernel_experts", device, part=part):
            time, mfu = r["measured_time_s"], r["printed_mfu"]
            width, half = r["hidden"] * r["moe_ffn"], r["hidden"] + r["moe_ffn"]
            io = half + (r["moe_ffn"] if part == "up" else 0.0)
            flops = mfu * peak * time
            ran = flops / (2 * n * width)
            found.append((flops, min(ran, r["local_experts"]) * n * width + ran * io * BYTES, time, mfu))
    return _rows(found)


KINDS: dict[str, tuple[Callable[[str], Rows], str]] = {
    "products_8bit": (products, "fp8"),
    "prefill_attention": (prefill, "bf16"),
    "decode_attention": (decode, "bf16"),
    "latent_attention": (latent, "bf16"),
    "grouped_products": (grouped, "fp8"),
}


def fit_all() -> dict[str, dict[str, Fit]]:
    """First what each table tells by itself, then again with the shares that it cannot tell."""
    rows: dict[tuple[str, str], Rows] = {}
    first: dict[tuple[str, str], Fit] = {}
    for device in SOURCES:
        d = catalog.device(device)
        for kind, (get, precision) in KINDS.items():
            if len((r := get(device)).time):
                rows[device, kind] = r
                first[device, kind] = fit(r, d.peak_flops[precision], d.memory_bandwidth)

    def told(device: str, kind: str, share: str) -> bool:
        return (device, kind) in first and first[device, kind].bound[share] >= FEWEST

    found: dict[str, dict[str, Fit]] = {device: {} for device in SOURCES}
    for (device, kind), own in first.items():
        d = catalog.device(device)
        left_out = f", {rows[device, kind].dropped} left out" if rows[device, kind].dropped else ""
        origin, held = f"table of {own.rows} kernels{left_out}, {SOURCES[device]}", {}
        for share in ("compute", "memory"):
            if told(device, kind, share):
                continue
            twin, other = SAME_SILICON.get(device, ""), STAND_IN[kind][share]
            options = [(twin, kind), (device, other), (twin, other)]
            whose = next(o for o in options if told(*o, share))
            held[share] = getattr(first[whose], share)
            origin += f"; {share} share of {whose[1].replace('_', ' ')} on {whose[0]}"
        again = fit(rows[device, kind], d.peak_flops[KINDS[kind][1]], d.memory_bandwidth, held) if held else own
        found[device][kind] = Fit(**{**vars(again), "origin": origin})
    return found


def sixteen_bit(device: str, start: Fit) -> dict[str, Any]:
    """Principle 2."""
    if device not in AZURE:
        shares = {"compute": start.compute, "memory": start.memory}
        origin = "no product in 16 bits was measured: the shares of the table of 8-bit products"
    else:
        azure = AZURE[device]
        shares = {
            "compute": evidence.gemm_efficiency(azure),
            "memory": evidence.stream_efficiency(azure, "triad"),
        }
        origin = f"azure2024{azure}: measured product of 8192 and STREAM triad; start of the table of 8-bit products"
    return {**shares, "start": start.start, "origin": origin}


def line(kind: str, values: Mapping[str, Any]) -> str:
    shown = [f"compute = {values['compute']:.3f}", f"memory = {values['memory']:.3f}", f"start = {values['start']:.3g}"]
    if values.get("rows"):
        shown += [f"rows = {values['rows']}", f"error = {values['error']:.3f}"]
    return f'{kind} = {{ {", ".join(shown)}, origin = "{values["origin"]}" }}\n'


def text() -> str:
    found, parts = fit_all(), [HEADER]
    for device, kinds in found.items():
        parts.append(f'\n["{device}"]\n')
        parts.append(line("products_16bit", sixteen_bit(device, kinds["products_8bit"])))
        parts += [line(kind, vars(kinds[kind])) for kind in KINDS if kind in kinds]
    start = found["H100-SXM5-80GB"]["products_8bit"].start
    a100 = {
        "compute": evidence.gemm_efficiency("a100"),
        "memory": evidence.stream_efficiency("a100", "triad"),
        "start": start,
        "origin": "azure2024a100: measured product of 8192 and STREAM triad; start of the products of H100-SXM5-80GB",
    }
    return "".join([*parts, '\n["A100-SXM4-80GB"]\n', line("products_16bit", a100)])


def write() -> None:
    """Renew the file of rates."""
    OUT.write_text(text(), encoding="utf-8")
