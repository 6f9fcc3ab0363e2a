"""Chapter 19, StableHLO."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from chapter_numbers import share as _share
from mlsysim import catalog, hlo, roofline, units
from mlsysim.hlo import Estimate
from mlsysim.hlo.fusing.fusion import Kernel, kernels
from mlsysim.hlo.fusing.graph import build
from mlsysim.hlo.fusing.items import Node
from mlsysim.hlo.work import counts, equations
from mlsysim.hlo.work.convolution import valid_positions

_STEPS = {"mlp": "mlp_train_dp8", "dp8": "tf1l_train_dp8", "fsdp8": "tf1l_train_fsdp8", "tp4": "tf1l_train_dp2tp4"}
_TOKENS = (32768, 64)  # of a router: tokens and experts
_SPLITS = ("linear", "dependency")
_OPTIMISED = "gpuopt_a100_sxm_40"


def _moved(value: float) -> str:
    return units.format(value, "byte", 3)


def _ppm(value: float) -> str:
    return f"{abs(value) * 1e6:.0f}"


def _differences(suffix: str) -> list[float]:
    """Our FLOPs, with XLA's one per all-reduced element added, over XLA's, less one."""
    found = []
    for name in _STEPS.values():
        program = hlo.sample(f"{name}.{suffix}")
        ours = hlo.estimate(program, "A100-40GB").flops + counts.reduced_elements(program)
        found.append(ours / counts.xla_count(f"{name}.{suffix}").flops - 1)
    return found


def _saved(result: Estimate) -> str:
    """Share of the computing regions that a cache does not evaluate."""
    computing = [r.signature() for r in result.parts if r.kind == "compute"]
    return _share(equations.reuse_share(len(computing), len(set(computing))))


def _running_sum(length: int, width: int) -> hlo.Program:
    """A cumulative sum down the columns of a matrix, as JAX writes it: a window as long as the column, padded above."""
    types = (hlo.TensorType("f32", (length, width)), hlo.TensorType("f32"))
    held = {"window_dimensions": (length, 1), "padding": ((length - 1, 0), (0, 0))}
    add = hlo.Block((3, 4), (hlo.Op("stablehlo.add", (3, 4), (5,), {}),), (5,))
    op = hlo.Op("stablehlo.reduce_window", (0, 1), (2,), held, (add,))
    return hlo.Program("cumsum", types, (0, 1, 0, 1, 1, 1), {"main": hlo.Block((0, 1), (op,), (2,))})


def _decode(donated: tuple[int, ...]) -> Estimate:
    """A step that writes a row into a cache and multiplies the cache with a query."""
    types = [hlo.TensorType("bf16", shape) for shape in ((8192, 1024), (1, 1024), (1024,), (8192,))]
    write = hlo.Op("stablehlo.dynamic_update_slice", (0, 1, 3, 3), (4,), {})
    contracting = {"lhs_contracting_dimensions": (1,), "rhs_contracting_dimensions": (0,)}
    read = hlo.Op("stablehlo.dot_general", (4, 2), (5,), contracting)
    block = hlo.Block((0, 1, 2, 3), (write, read), (4, 5))
    values = (0, 1, 2, 4, 0, 3)
    program = hlo.Program("decode", (*types, hlo.TensorType("i32")), values, {"main": block}, donated=donated)
    return hlo.estimate(program, "H100")


def _in_place() -> dict[str, str]:
    """What donating the cache saves a decode step."""
    kept, copied = _decode((0,)).bytes, _decode(()).bytes
    cache = hlo.TensorType("bf16", (8192, 1024)).bytes
    return {"cache": _moved(cache), "moved": _moved(kept), "copied": _moved(copied), "times": f"{copied / kept:.1f}"}


def _torch() -> dict[str, str]:
    """A layer's decode step as torch.export wrote it, without and with the marks of two caches that it may write over."""
    path = Path(__file__).parents[2] / "tests/data/hlo/torch_decode_step.json"
    program = hlo.from_json(path.read_text(encoding="utf-8"))
    copied, kept = (hlo.estimate(replace(program, donated=marks), "H100").bytes for marks in ((), (2, 3)))
    held = hlo.TensorType("bf16", (32, 4096, 128)).bytes
    least = 2 * held + hlo.TensorType("bf16", (16384, 4096)).bytes
    return {
        "cache": _moved(held),
        "copied": _moved(copied),
        "saved": _moved(copied - kept),
        "times": f"{kept / least:.1f}",
    }


def _splats() -> dict[str, str]:
    """What reading the constants of an exact GELU from memory would cost, beside its one array in and one out."""
    constants, wide, narrow = (
        28,
        4,
        2,
    )  # those that JAX 0.10.2 exports for CUDA, arrays in f32; the GELU's own are in bf16
    return {"constants": str(constants), "times": f"{(constants * wide + 2 * narrow) / (2 * narrow):.0f}"}


def _combining() -> float:
    """Traffic of the kernels of the compiled MLP step that only put arrays side by side or take them apart."""
    pieces = kernels(build(hlo.sample(f"mlp_train_dp8.{_OPTIMISED}")), False)
    return sum(
        piece.bytes
        for piece in pieces
        if isinstance(piece, Kernel) and {node.base for node in piece.nodes} <= {"concatenate", "slice"}
    )


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 19."""
    device = catalog.device("A100-40GB")
    program = hlo.sample("mlp_train_dp8.spmd")
    nodes = [item for item in build(program).items if isinstance(item, Node)]
    work, traffic = (sum(getattr(n.cost, key) for n in nodes) for key in ("flops", "bytes"))
    products = [n for n in nodes if n.cost.matrix_flops]

    apart: dict[str, Estimate] = {}
    fused: dict[str, Estimate] = {}
    joined: dict[str, Estimate] = {}
    theirs: dict[str, Estimate] = {}
    for key, name in _STEPS.items():
        raw = hlo.sample(f"{name}.spmd")
        apart[key], fused[key] = (hlo.estimate(raw, device, fusion=fusion) for fusion in ("off", "on"))
        joined[key] = hlo.estimate(raw, device, join=True)
        theirs[key] = hlo.estimate(hlo.sample(f"{name}.{_OPTIMISED}"), device)
    llama = ("dp8", "fsdp8", "tp4")
    over = [apart[k].bytes / fused[k].bytes for k in llama]
    off = [joined[k].bytes / theirs[k].bytes - 1 for k in llama]
    below = [1 - fused[k].bytes / theirs[k].bytes for k in llama]
    cumsum = hlo.estimate(_running_sum(*_TOKENS), "H100")
    windows = equations.reduction_flops(_TOKENS[1] * math.comb(_TOKENS[0] + 1, 2), _TOKENS[0] * _TOKENS[1])
    linear, dependent = (hlo.estimate(hlo.sample("tf1l_train_fsdp8.spmd"), device, split=s) for s in _SPLITS)

    same = [counts.xla_count(f"mlp_train_dp8.{s}").flops for s in ("sm", "spmd", "opt", _OPTIMISED)]
    scanned, unrolled = counts.xla_count("scan"), counts.xla_count("unrolled")
    row, table = 4096 * 2, 128256 * 4096 * 2

    def over_table(tokens: float) -> float:
        whole = equations.op_bytes(table + 4 * tokens, tokens * row)
        return float(whole / equations.gather_bytes(tokens * row, 4 * tokens))

    resnet = hlo.sample("resnet50_train_dp4.sm")
    shortcut = counts.kernels_as_hwio_flops(resnet)
    convolved = sum(
        item.cost.matrix_flops for item in build(resnet).items if isinstance(item, Node) and item.base == "convolution"
    )
    resnet_ours, resnet_theirs = hlo.estimate(resnet, device), counts.xla_count("resnet50_train_dp4.sm")
    scans = {form: hlo.estimate(hlo.sample(f"llama100m_train_fsdp4.{form}"), device) for form in ("scan", "sm")}
    llama_linear = hlo.estimate(hlo.sample("llama100m_train_fsdp4.sm"), device, split="linear")
    llama_theirs = {form: counts.xla_count(f"llama100m_train_fsdp4.{form}").flops for form in scans}
    # the second kernel of the step: a bias and a tanh, drawn in the chapter
    together = [k for k in kernels(build(program), True) if isinstance(k, Kernel)][1]
    apart_bytes = sum(node.cost.bytes for node in together.nodes)
    met = valid_positions(3, 56, 56, 1, 1, 1, 1)
    right = equations.convolution_flops(32, met**2, 64, 128)
    gathers = [m for m in fused["fsdp8"].collectives if m.op == "all_gather"]
    sent = [sum(m.count * getattr(m, size) for m in gathers) for size in ("bytes", "output_bytes")]
    whole, local = (hlo.estimate(hlo.sample(f"mlp_train_dp8.{s}"), device) for s in ("ann", "spmd"))
    return {
        "program": {
            "ops": str(sum(1 for _ in program.ops())),
            "products": str(len(products)),
            "products_work": _share(sum(n.cost.flops for n in products) / work),
            "products_traffic": _share(sum(n.cost.bytes for n in products) / traffic, 0),
        },
        "donated": _in_place(),
        "torch": _torch(),
        "splat": _splats(),
        "conv": {
            "met": str(met),
            "pairs": str(3 * 56),
            "padding": units.percent(equations.convolution_flops(32, (3 * 56) ** 2, 64, 128) / right - 1),
            "wrong": f"{counts.kernel_as_hwio_flops((128, 64, 3, 3), (32, 128, 56, 56)) / right:.1f}",
            "resnet": units.percent(shortcut / convolved - 1, 0),
            "resnet_ours": units.format(convolved, "FLOP", 3),
            "resnet_wrong": units.format(shortcut, "FLOP", 3),
            "hwio": units.percent(counts.kernel_as_hwio_flops((3, 3, 64, 128), (32, 56, 56, 128)) / right - 1),
        },
        "gather": {
            "decode": f"{over_table(8):,.0f}",
            "train": f"{over_table(8 * 4096):.2f}",
            "table": _moved(table),
        },
        "fused": {
            "least": f"{min(over):.1f}",
            "most": f"{max(over):.1f}",
            "dp8": f"{over[0]:.1f}",
            "kernels_apart": str(apart["dp8"].kernels),
            "kernels_fused": str(fused["dp8"].kernels),
            "kernels_joined": str(joined["dp8"].kernels),
            "kernels_xla": str(theirs["dp8"].kernels),
            "below_least": _share(min(below), 0),
            "below_most": _share(max(below), 0),
            "intensity_apart": f"{roofline.arithmetic_intensity(apart['dp8'].flops, apart['dp8'].bytes):.1f}",
            "intensity_fused": f"{roofline.arithmetic_intensity(fused['dp8'].flops, fused['dp8'].bytes):.1f}",
            "ridge": f"{roofline.ridge_point(device.peak_flops['tf32'], device.memory_bandwidth):.0f}",
            "low": units.percent(min(off), 0),
            "high": units.percent(max(off), 0),
            "mlp": units.percent(joined["mlp"].bytes / theirs["mlp"].bytes - 1, 0),
            "mlp_combining": _moved(_combining()),
            "mlp_xla": _moved(theirs["mlp"].bytes),
            "more_work": _share(theirs["dp8"].flops / fused["dp8"].flops - 1),
        },
        "region": {"apart": _moved(apart_bytes), "fused": _moved(together.bytes)},
        "windows": {
            "tokens": f"{_TOKENS[0]:,}",
            "width": str(_TOKENS[1]),
            "as_windows": units.format(windows, "FLOP", 3),
            "as_scan": units.format(cumsum.flops, "FLOP", 3),
            "time": units.format(cumsum.total_s, "s", 2),
            "window_time": units.format(windows / catalog.device("H100").vector_flops["fp32"], "s", 2),
        },
        "loop": {
            "scan_bytes": _moved(scans["scan"].bytes),
            "sm_bytes": _moved(scans["sm"].bytes),
            "slower": _share(scans["scan"].compute_s / scans["sm"].compute_s - 1, 0),
            "turns": f"{equations.trip_count(0, 7, 1):g}",
            "xla": units.format(scanned.flops, "FLOP", 4),
            "right": units.format(unrolled.flops, "FLOP", 4),
            "llama_short": _share(1 - llama_theirs["scan"] / llama_theirs["sm"], 0),
            "llama_products": units.format(scans["scan"].matrix_flops, "FLOP", 4),
            "written": f"{sum(1 for _ in hlo.sample('llama100m_train_fsdp4.scan').ops()):,}",
            "written_out": f"{sum(1 for _ in hlo.sample('llama100m_train_fsdp4.sm').ops()):,}",
        },
        "regions": {
            "linear": str(linear.regions),
            "dependent": str(dependent.regions),
            "linear_saved": _saved(linear),
            "dependent_saved": _saved(dependent),
            "llama_linear": _saved(llama_linear),
            "llama_saved": _saved(scans["sm"]),
            "linear_time": f"{linear.total_s * 1e6:.1f} µs",
            "dependent_time": f"{dependent.total_s * 1e6:.1f} µs",
        },
        "shapes": {
            "ratio": f"{whole.matrix_flops / local.matrix_flops:g}",
            "all": f"{whole.flops / local.flops:.2f}",
            "collectives": str(sum(m.count for m in local.collectives)),
        },
        "xla": {
            "worst": _share(max(map(abs, _differences("spmd") + _differences(_OPTIMISED))), 2),
            "resnet": _ppm((resnet_ours.flops + counts.reduced_elements(resnet)) / resnet_theirs.flops - 1),
            "bytes": _share(
                max(abs(apart[k].bytes / counts.xla_count(f"{n}.spmd").bytes - 1) for k, n in _STEPS.items())
            ),
            "itself": _share(max(same) / min(same) - 1, 2),
            "apart": f"{max(same) - min(same):,.0f}",
            "reduced": f"{counts.reduced_elements(program):,}",
        },
        "messages": {
            "inside": _moved(sent[0]),
            "outside": _moved(sent[1]),
        },
    }
