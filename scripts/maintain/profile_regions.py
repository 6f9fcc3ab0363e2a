"""Measure the compute regions of StableHLO programs on this processor and record them in the package.

    python scripts/maintain/profile_regions.py FILE.mlir ... --new-memory FILE.mlir

Every region is run in three rounds, each in a new process, and so is the whole program with its collectives left out (each is
turned into one over a single rank, which moves nothing). Figures of all rounds are pooled, so the quartiles hold what changed
between them. Needs the extra `hlo`; run it on an idle machine.
"""

import argparse
import json
import os
import re
import sys
from datetime import date
from pathlib import Path
from statistics import quantiles
from typing import Any

from mlsysim import evidence
from mlsysim.evidence.measuring.microbench import stolen
from mlsysim.hlo.estimators.roofline import RooflineEstimator, weighted
from mlsysim.hlo.fusing import slicing
from mlsysim.hlo.fusing.fusion import kernels
from mlsysim.hlo.fusing.items import Work
from mlsysim.hlo.profiler import profiled
from mlsysim.hlo.profiler.clone import Input, Standalone
from mlsysim.hlo.profiler.extract import Extractor
from mlsysim.hlo.profiler.profiling import Effort, Measurement, ProfilingEstimator

ROUNDS = 3
EFFORT = Effort(warmups=3, repeats=30, budget=2.0)
PROFILE = "epyc-zen4-vm-1-thread"
_GROUPS = re.compile(r"replica_groups = dense<[^>]*> : tensor<\d+x\d+xi64>")
_SMALLEST = """module {
  func.func @main(%arg0: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.negate %arg0 : tensor<f32>
    return %0 : tensor<f32>
  }
}
"""
OUT = Path(profiled.__file__).with_name(profiled.FILE)


def spread(times: list[float]) -> list[float]:
    low, middle, high = quantiles(times, n=4, method="inclusive")
    return [*(float(f"{t:.4g}") for t in (middle, low, high)), len(times)]


def alone(text: str) -> str:
    """The program with every collective over one rank, which leaves what computes."""
    single = _GROUPS.sub("replica_groups = dense<0> : tensor<1x1xi64>", text)
    return re.sub(r"mhlo\.num_(partitions|replicas) = \d+", r"mhlo.num_\1 = 1", single)


def whole(extractor: Extractor, text: str) -> Standalone:
    """The whole program as one to run."""
    program = Extractor(text).program
    body = program.functions[program.main]
    given = {i.type: i.below for r in regions(extractor) for i in extractor.standalone(r).inputs}
    inputs = tuple(Input(t, given.get(t, 2)) for t in map(program.type_of, body.arguments))
    return Standalone(text, inputs, tuple(map(program.type_of, body.results)), (), ())


def regions(extractor: Extractor) -> list[slicing.Region]:
    pieces = kernels(extractor.graph, not extractor.graph.optimised)
    return [r for r in slicing.slices(pieces, "linear") if r.kind == "compute"]


def measure(path: Path, keep_memory: bool = True) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    extractor = Extractor(text, path.stem)
    mine = regions(extractor)
    clock = RooflineEstimator(evidence.profile(PROFILE).device, run_as={"bf16": "fp32", "f32": "fp32"})
    programs = [extractor.standalone(r) for r in mine]
    together = whole(extractor, alone(text))
    found: dict[str, list[Measurement]] = {}
    for _ in range(ROUNDS):
        with ProfilingEstimator(extractor, effort=EFFORT, keep_memory=keep_memory) as estimator:
            for program in [*programs, together]:
                estimator.measure(program)
            for key, measurement in estimator.measured.items():
                found.setdefault(key, []).append(measurement)

    def times(program: Standalone) -> list[float]:
        return spread([t for m in found[program.text] for t in m.times])

    rows = []
    for region, program in zip(mine, programs, strict=True):
        work = Work.total((k.work, n) for k, n in weighted(region.pieces))
        rows.append(
            {
                "flops": work.flops,
                "matrix_flops": sum(work.matrix.values()),
                "bytes": work.bytes,
                "kernels": sum(n for _, n in weighted(region.pieces)),
                "roofline_s": float(f"{clock.get_run_time_estimate(region).seconds:.6g}"),
                "measured": times(program),
                "compile_s": float(f"{min(m.compile_s for m in found[program.text]):.3g}"),
                "inputs": sum(i.type.bytes for i in program.inputs),
                "outputs": sum(t.bytes for t in program.outputs),
                "temporary": found[program.text][0].temp_bytes,
            }
        )
    return {
        "comm_regions": sum(r.kind == "comm" for r in slicing.slices(kernels(extractor.graph), "linear")),
        "evaluated": len({p.text for p in programs}),
        "whole": times(together),
        "whole_compile_s": float(f"{min(m.compile_s for m in found[together.text]):.3g}"),
        "regions": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument(
        "--new-memory", action="append", default=[], type=Path, help="measure this one on new pages, too"
    )
    args = parser.parse_args()
    before = stolen()
    programs = {}
    for path in args.files:
        print(path.stem, file=sys.stderr)
        programs[path.stem] = measure(path)
    for path in args.new_memory:
        programs[f"{path.stem}, new memory"] = measure(path, keep_memory=False)
    times: list[float] = []
    smallest = Extractor(_SMALLEST)
    for _ in range(ROUNDS):
        with ProfilingEstimator(smallest, effort=EFFORT) as estimator:
            times += estimator.measure(smallest.standalone(regions(smallest)[0])).times
            compile_args, exec_args = estimator.get_compile_args(), estimator.get_exec_args()
    after = stolen()
    taken = (after[0] - before[0]) / max(1.0, after[1] - before[1])
    document = {
        "format": profiled.FORMAT,
        "date": str(date.today()),
        "conditions": (
            f"{os.cpu_count()} processors seen; a virtual machine, which shares its host with others; {taken:.1%} of processor"
            f" time stolen meanwhile; load average {os.getloadavg()[1]:.1f} over the last five minutes; {ROUNDS} rounds, each in a"
            " new process, pooled"
        ),
        "compile_args": dict(compile_args),
        "exec_args": dict(exec_args),
        "roofline_device": PROFILE,
        "start": spread(times),
        "programs": programs,
    }
    OUT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
