"""Chapter 20, estimators."""

from typing import Any

from chapter_numbers import whole_share as share
from mlsysim import catalog, hlo, units
from mlsysim.hlo import estimators
from mlsysim.hlo.estimators import systolic
from mlsysim.hlo.fusing.items import Collective
from mlsysim.hlo.profiler.profiled import profiled
from mlsysim.hlo.work.products import Gemm

_LLAMA, _RESNET = "llama100m_train_fsdp4.sm", "resnet50_train_dp4.sm"
_PAPER_CORE = 63.3e12  # hespas2026, peak of a core of TPU v3


def _free(collective: Collective) -> float:
    return 0.0


def _toy() -> dict[str, str]:
    """The array that the chapter draws, 4 x 4 with five rows of inputs, and the peak of the first TPU by the formula."""
    rows, columns, streamed = 4, 4, 5
    cycles = systolic.weight_stationary(streamed, columns, rows, rows, columns) + 1  # counted from zero
    first = estimators.array("tpu-v1")
    return {
        "cycles": f"{cycles}",
        "products": f"{rows * columns * streamed}",
        "possible": f"{rows * columns * cycles}",
        "reached": share(rows * columns * streamed / (rows * columns * cycles)),
        "v1": f"{systolic.array_peak(first.rows, first.columns, first.clock, first.arrays) / 1e12:.3g} TOPS",
    }


class _Apart(estimators.SystolicArray):
    """Arrays that take one product of a batch each, round after round, and leave the last round as it comes."""

    def cycles(self, gemm: Gemm) -> int:
        if gemm.batch < self.arrays:
            return super().cycles(gemm)
        one = systolic.gemm_cycles(gemm.m, gemm.n, gemm.k, self.rows, self.columns, self.dataflow)
        return -(-gemm.batch // self.arrays) * one


def _shared(chip: estimators.SystolicArray, llama: hlo.Estimate) -> dict[str, str]:
    """A batch of products that the arrays do not divide, and what it costs to leave them idle for the rest."""
    batches = {g.batch for g in estimators.products_of(llama.parts) if g.batch > chip.arrays}
    (batch,) = {b for b in batches if b % chip.arrays}
    apart = estimators.SystolicEstimator(
        catalog.device("TPU-v3"), _Apart(chip.rows, chip.columns, chip.clock, chip.arrays, "ws")
    )
    longer = hlo.estimate(hlo.sample(_LLAMA), "TPU-v3", estimator=apart, network=_free).compute_s / llama.compute_s - 1
    return {
        "products": f"{batch}",
        "arrays": f"{chip.arrays}",
        "rounds": f"{-(-batch // chip.arrays)}",
        "llama_apart": share(longer),
    }


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 20."""
    tpu, chip, core = catalog.device("TPU-v3"), estimators.array("tpu-v3-chip"), estimators.array("tpu-v3-core")
    roofline = estimators.RooflineEstimator(tpu, run_as={"f32": "bf16", "f16": "bf16"})

    def flow(name: str) -> estimators.SystolicEstimator:
        array = estimators.SystolicArray(chip.rows, chip.columns, chip.clock, chip.arrays, name)
        return estimators.SystolicEstimator(tpu, array)

    def priced(name: str, estimator: estimators.Estimator, split: str = "dependency") -> hlo.Estimate:
        return hlo.estimate(hlo.sample(name), tpu, split=split, estimator=estimator, network=_free)

    product = {name: priced("gemm_bf16_4096", e) for name, e in (("roofline", roofline), ("ws", flow("ws")))}
    rows_apart = systolic.cycles_time(
        systolic.weight_stationary(4096 // chip.arrays, 4096, 4096, chip.rows, chip.columns), chip.clock
    )
    llama = {name: priced(_LLAMA, e) for name, e in (("roofline", roofline), ("ws", flow("ws")), ("os", flow("os")))}
    resnet = {"roofline": priced(_RESNET, roofline), **{f: priced(_RESNET, flow(f)) for f in ("ws", "os", "is")}}
    conv = next(iter(estimators.products_of(priced("conv_nhwc_3x3_s1", roofline).parts)))
    counted = priced("conv_nhwc_3x3_s1", roofline).matrix_flops
    linear = {name: priced(name, roofline, "linear").pricing for name in (_LLAMA, _RESNET)}
    gradient = max(
        (g for g in estimators.products_of(resnet["ws"].parts) if g.k > 100_000), key=lambda g: chip.seconds(g)
    )
    reached = {
        name: 2 * gradient.m * gradient.n * gradient.k / chip.peak / flow(name).array.seconds(gradient)
        for name in ("ws", "os")
    }
    recorded = profiled()
    apart = recorded.program("tf1l_train_dp8.spmd")
    runs = estimators.scalesim_runs()
    peers = [r for r in estimators.zigzag_runs() if r.m >= 128]
    return {
        "simulated": {"runs": f"{len(runs)}", "arrays": f"{len({(r.rows, r.columns) for r in runs})}"},
        "core": {
            "ours": units.format(core.peak, "FLOP/s", 3),
            "printed": units.format(_PAPER_CORE, "FLOP/s", 3),
            "over": share(_PAPER_CORE / core.peak - 1, 1),
            "clock": f"{_PAPER_CORE / core.peak * core.clock / 1e6:.0f} MHz",
            "clock_printed": f"{core.clock / 1e6:.0f} MHz",
        },
        "small": {
            "ws_128": share(systolic.utilisation(128, 128, 128, 128, 128, "ws")),
            "ws_4096": share(systolic.utilisation(4096, 4096, 4096, 128, 128, "ws")),
            "zigzag": share(max(systolic.array_utilisation(r.m, r.n, r.k, 128, 128, r.cycles) for r in peers)),
            "long_ws": share(systolic.utilisation(16384, 128, 128, 128, 128, "ws")),
            "long_os": share(systolic.utilisation(16384, 128, 128, 128, 128, "os")),
            "one_row_os": share(systolic.utilisation(1, 4096, 4096, 128, 128, "os"), 1),
            "one_row": share(systolic.utilisation(1, 4096, 4096, 128, 128, "ws"), 1),
        },
        "toy": _toy(),
        "shared": _shared(chip, llama["ws"]),
        "product": {
            "peak": units.format(tpu.peak_flops["bf16"], "FLOP/s", 3),
            "roofline": units.format(product["roofline"].compute_s, "s", 3),
            "ws": units.format(product["ws"].compute_s, "s", 3),
            "ratio": f"{product['ws'].compute_s / product['roofline'].compute_s:.2f}",
            "by_rows": f"{rows_apart / product['roofline'].compute_s:.2f}",
        },
        "llama": {
            "roofline": units.format(llama["roofline"].compute_s, "s", 3),
            "ws": units.format(llama["ws"].compute_s, "s", 3),
            "os": units.format(llama["os"].compute_s, "s", 3),
            "arrays": share(llama["ws"].pricing.seconds["systolic"] / llama["ws"].compute_s),
            "regions": f"{llama['ws'].pricing.regions}",
            "distinct": f"{llama['ws'].pricing.distinct}",
            "saved": share(llama["ws"].pricing.saved, 1),
            "saved_linear": share(linear[_LLAMA].saved, 1),
        },
        "resnet": {
            "roofline": units.format(resnet["roofline"].compute_s, "s", 3),
            "ws": units.format(resnet["ws"].compute_s, "s", 3),
            "os": units.format(resnet["os"].compute_s, "s", 3),
            "is": units.format(resnet["is"].compute_s, "s", 3),
            "saved": share(resnet["ws"].pricing.saved, 1),
            "saved_linear": share(linear[_RESNET].saved, 1),
            "linear_regions": f"{linear[_RESNET].regions}",
            "k": f"{gradient.k:,}",
            "m": f"{gradient.m:,}",
            "n": f"{gradient.n:,}",
            "reached_ws": share(reached["ws"]),
            "reached_os": share(reached["os"]),
        },
        "profiled": {
            "regions": f"{len(apart.regions)}",
            "over": f"{apart.seconds / apart.roofline_s:.2f}",
            "whole": f"{apart.seconds / apart.whole.seconds:.2f}",
            "seconds": units.format(apart.seconds, "s", 3),
            "compiling": units.format(apart.compile_s, "s", 2),
        },
        "conv": {
            "m": f"{conv.m:,}",
            "n": f"{conv.n}",
            "k": f"{conv.k}",
            "padding": share(2 * conv.batch * conv.m * conv.n * conv.k / counted - 1, 1),
        },
    }
