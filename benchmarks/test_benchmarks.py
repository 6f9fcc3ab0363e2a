"""`make bench`: what things cost. These are measurements, not tests; nothing here asserts a time."""

import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import live_pages
import numpy as np
import pytest
import slider_views
from support import long_program

from mlsysim import catalog, explore, hlo, inference, roofline, serving, serving_steps, training
from mlsysim.explore import Columns
from mlsysim.parallelism import Plan

ROOT = Path(__file__).resolve().parent.parent


def run_python(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def processor_s(code: str) -> float:
    """Processor time of a fresh interpreter: what a busy machine leaves alone."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def megabytes(code: str) -> float:
    """Most memory of a fresh interpreter that runs the code, by Linux's own count: getrusage gives that of its parent too."""
    if not Path("/proc/self/status").exists():
        return float("nan")
    ask = "; print([line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')][0])"
    done = subprocess.run([sys.executable, "-c", code + ask], check=True, capture_output=True, text=True)
    return int(done.stdout.split()[-1]) * 1024 / 1e6


@pytest.mark.benchmark(group="import")
def test_import_beyond_the_bare_interpreter(benchmark: Any) -> None:
    def both() -> float:
        return run_python("import mlsysim") - run_python("pass")

    extra = [both() for _ in range(5)]
    benchmark.extra_info["median_extra_ms"] = 1e3 * statistics.median(extra)
    print(f"\nimport mlsysim beyond the bare interpreter, median of 5: {1e3 * statistics.median(extra):.1f} ms")
    benchmark.pedantic(lambda: run_python("import mlsysim"), rounds=5)


@pytest.mark.benchmark(group="import")
def test_import_and_one_solve(benchmark: Any) -> None:
    benchmark.pedantic(
        lambda: run_python("from mlsysim import roofline; roofline.kernel_time('H100', 1e12, 1e9)"), rounds=5
    )


FIRST = {
    "kernel": ("roofline", "m.roofline.kernel_time('H100', 1e12, 1e9)"),
    "training step": (
        "training",
        "m.training.training_step('Llama-3.1-8B', m.parallelism.Plan(tp=8, dp=16), '16 x DGX-H100', global_batch=128, seq=8192)",
    ),
    "deployment": ("inference", "m.inference.deploy('Llama-3.1-8B', 'H100')"),
    "served request": (
        "serving",
        "m.serving.simulate(m.serving_steps.step_model(m.inference.deploy('Llama-3.1-8B', 'H100')), [m.serving.Request(0.0, 100, 10)])",
    ),
}


@pytest.mark.benchmark(group="import")
@pytest.mark.parametrize("what", FIRST)
def test_the_first_solve_after_import(benchmark: Any, what: str) -> None:
    """With what is read of the catalogue; in processor time beyond the bare interpreter, and beyond the import of its module."""
    room, solve = FIRST[what]
    codes = ("pass", f"import mlsysim as m; m.{room}", f"import mlsysim as m; {solve}")
    bare, imported, solved = (statistics.median(processor_s(code) for _ in range(5)) for code in codes)
    benchmark.extra_info |= {"beyond_bare_ms": 1e3 * (solved - bare), "beyond_import_ms": 1e3 * (solved - imported)}
    print(
        f"\nfirst {what}: {1e3 * (solved - bare):.1f} ms beyond the bare interpreter, {1e3 * (solved - imported):.1f} beyond the import"
    )
    benchmark.pedantic(lambda: run_python(codes[2]), rounds=3)


@pytest.mark.benchmark(group="scalar")
def test_one_equation(benchmark: Any) -> None:
    benchmark(roofline.iron_law, 1e12, 1e9, 1e15, 3e12)


@pytest.mark.benchmark(group="scalar")
def test_one_solve(benchmark: Any) -> None:
    benchmark(roofline.kernel_time, "H100", 1e12, 1e9)


@pytest.mark.benchmark(group="scalar")
def test_explain(benchmark: Any) -> None:
    result = roofline.kernel_time("H100", 1e12, 1e9)
    benchmark(lambda: str(result.explain()))


@pytest.mark.benchmark(group="array")
def test_a_million_kernels_in_one_call(benchmark: Any) -> None:
    flops = np.logspace(6, 15, 1_000_000)
    benchmark(roofline.iron_law, flops, 1e9, 1e15, 3e12)


@pytest.mark.benchmark(group="array")
def test_a_million_training_plans_in_one_call(benchmark: Any) -> None:
    """Every term on: a mixture with latent attention, FSDP, pipeline, context and expert parallelism."""
    draw = np.random.default_rng(0)
    degrees = {"tp": (1, 2, 4, 8), "pp": (1, 2, 4, 8), "cp": (1, 2, 4), "dp": (8, 16, 64), "ep": (1, 4, 8)}
    plan = Plan(
        **{name: draw.choice(np.array(c), 1_000_000) for name, c in degrees.items()}, sharding="fsdp", recompute="full"
    )
    real = training.Efficiencies(
        gemm=0.7,
        head=0.6,
        attention=0.4,
        memory=0.9,
        link=0.8,
        elementwise=40.0,
        layer_overhead=1e-4,
        selective_recompute=0.4,
        tp_overlap=0.3,
        dp_overlap=0.8,
        variation=0.01,
    )
    cluster = catalog.cluster("DGX-H100", 2048)
    benchmark(
        lambda: (
            training.training_step("DeepSeek-V3", plan, cluster, global_batch=4096, seq=4096, efficiencies=real).time
        )
    )
    mean = benchmark.stats.stats.mean
    benchmark.extra_info["plans_per_s"] = 1_000_000 / mean
    print(f"\none million training plans, every term on: {1e-6 * 1_000_000 / mean:.2f} million plans/s")


@pytest.mark.benchmark(group="scalar")
def test_one_training_step(benchmark: Any) -> None:
    cluster = catalog.cluster("DGX-H100", 16)
    benchmark(
        lambda: (
            training.training_step(
                "Llama-3.1-8B", Plan(tp=8, dp=16), cluster, global_batch=128, seq=8192, efficiencies="bound"
            ).time
        )
    )


@pytest.mark.benchmark(group="array")
def test_whether_a_million_plans_fit(benchmark: Any) -> None:
    draw = np.random.default_rng(0)
    degrees = {"tp": (1, 2, 4, 8), "pp": (1, 2, 4, 8), "dp": (8, 16, 64)}
    plan = Plan(**{name: draw.choice(np.array(c), 1_000_000) for name, c in degrees.items()}, sharding="fsdp")
    benchmark(lambda: training.training_memory("Llama-3.1-70B", plan, "H100", seq=8192).fits)


@pytest.mark.benchmark(group="scalar")
def test_explain_a_training_step(benchmark: Any) -> None:
    """With its range and elasticities."""
    efficiencies = training.Efficiencies(name="calibrated", gemm=0.7)
    cluster = catalog.cluster("DGX-H100", 16)
    step = training.training_step(
        "Llama-3.1-8B", Plan(tp=8, dp=16), cluster, global_batch=128, seq=8192, efficiencies=efficiencies
    )
    benchmark(lambda: str(step.explain()))


def _swept(tp: Any, pp: Any, dp: Any, micro_batch: Any, global_batch: Any, seq: Any) -> Any:
    plan = Plan(tp=tp, pp=pp, dp=dp, micro_batch=micro_batch)
    cluster = catalog.cluster("DGX-H100", 2048)
    return training.training_step(
        "Llama-3.1-70B", plan, cluster, global_batch=global_batch, seq=seq, efficiencies="bound"
    )


def _ten_fastest(found: Columns) -> Columns:
    return found.smallest("time", 10)


@pytest.mark.benchmark(group="array")
def test_sweep_a_million_training_plans(benchmark: Any) -> None:
    """In chunks, of which the ten fastest plans are kept: plans per second is a million over the time."""
    axes = {
        "tp": [1, 2, 4, 8],
        "pp": [1, 2, 4, 8, 16],
        "dp": [1, 2, 4, 8],
        "micro_batch": [1, 2, 4, 8, 16],
        "global_batch": np.arange(1024, 1024 + 128 * 50, 128),
        "seq": np.arange(1024, 1024 + 16 * 50, 16),
    }
    benchmark.pedantic(lambda: explore.sweep(_swept, axes, ["time"], keep=_ten_fastest), rounds=3)


@pytest.mark.benchmark(group="search")
def test_search_every_plan_of_405b_on_16384_gpus(benchmark: Any) -> None:
    cluster = catalog.cluster("DGX-H100", 2048)
    searched = benchmark.pedantic(
        lambda: explore.plan("Llama-3.1-405B", cluster, global_batch=2048, seq=8192, efficiencies="bound"), rounds=3
    )
    benchmark.extra_info["plans"] = len(searched.rows)


@pytest.mark.benchmark(group="documents")
def test_build_the_book(benchmark: Any, tmp_path: Path) -> None:
    """The preview build of every page."""
    command = [sys.executable, "-m", "book._preview", "--out", str(tmp_path / "site")]
    benchmark.pedantic(lambda: subprocess.run(command, check=True, cwd=ROOT, capture_output=True), rounds=1)


@pytest.mark.benchmark(group="documents")
def test_run_the_notebooks(benchmark: Any) -> None:
    """Every notebook from cleared outputs, compared with what is committed."""
    command = [sys.executable, str(ROOT / "scripts" / "run_notebooks.py"), "--check"]
    benchmark.pedantic(lambda: subprocess.run(command, check=True, cwd=ROOT, capture_output=True), rounds=1)


@pytest.mark.benchmark(group="documents")
def test_every_slider_view(benchmark: Any) -> None:
    """Processor time of twenty moves of each view of every notebook."""
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    found = benchmark.pedantic(lambda: slider_views.everything(notebooks), rounds=1)
    print("\n" + slider_views.report(found))
    benchmark.extra_info["over"] = [name for name, s in found if slider_views.high(s) > slider_views.LIMIT_S]


@pytest.mark.benchmark(group="documents")
def test_the_pages(benchmark: Any) -> None:
    """First numbers and slider moves in headless Chromium, by the clock, in one chapter of five of the built site."""
    site, chromium = ROOT / "_site", shutil.which("chromium")
    if chromium is None or not any((site / "book/assets/vendor").glob("engine-*")):
        pytest.skip("no Chromium on the PATH, or no site with its engine; make book builds one")
    found = benchmark.pedantic(lambda: live_pages.measure(site, live_pages.chapters(live_pages.QUICK)), rounds=1)
    print("\n" + live_pages.report(found))
    moves = [s for _, _, moved in found.values() for view in moved.values() for s in view]
    benchmark.extra_info["move_95th_ms"] = 1e3 * live_pages.high(moves)


@pytest.mark.benchmark(group="serving")
def test_a_million_requests(benchmark: Any) -> None:
    """200 output tokens each, on one core; without the time of drawing them. Memory with all of it, the summary too."""
    model = serving_steps.step_model(inference.deploy("Llama-3.1-8B", "H100"))
    load = serving.load(serving.poisson(40.0, 1_000_000), 256, 200)
    cpu = time.process_time()
    found = benchmark.pedantic(lambda: serving.simulate(model, load), rounds=1)
    benchmark.extra_info["processor_s"] = time.process_time() - cpu
    print(f"\n{len(found.records)} requests, {found.steps} steps: {time.process_time() - cpu:.1f} s of a processor")
    benchmark.extra_info["peak_mb"] = megabytes(
        "from mlsysim import serving as s, serving_steps as t, inference as i; "
        "s.simulate(t.step_model(i.deploy('Llama-3.1-8B', 'H100')), s.load(s.poisson(40.0, 1_000_000), 256, 200)).summary()"
    )
    print(f"at most {benchmark.extra_info['peak_mb']:.0f} MB")


@pytest.mark.benchmark(group="serving")
def test_a_trace_of_a_million_rows(benchmark: Any, tmp_path: Path) -> None:
    draw, path = random.Random(0), tmp_path / "trace.csv"
    rows = (f"{i / 40:.6f},{draw.randint(1, 4000)},{draw.randint(1, 500)}" for i in range(1_000_000))
    path.write_text("\n".join(("arrival_s,input_len,output_len", *rows)), encoding="utf-8")
    cpu = time.process_time()
    benchmark.pedantic(lambda: serving.read_trace(path), rounds=1)
    benchmark.extra_info["processor_s"] = time.process_time() - cpu
    benchmark.extra_info["peak_mb"] = megabytes(f"from mlsysim import serving; serving.read_trace({str(path)!r})")
    print(f"\n{time.process_time() - cpu:.1f} s of a processor, at most {benchmark.extra_info['peak_mb']:.0f} MB")


@pytest.mark.benchmark(group="serving")
def test_a_hundred_thousand_requests(benchmark: Any) -> None:
    """200 output tokens each, on one core."""
    model = serving_steps.step_model(inference.deploy("Llama-3.1-8B", "H100"))
    load = serving.load(serving.poisson(40.0, 100_000), 256, 200)
    found = benchmark.pedantic(lambda: serving.simulate(model, load), rounds=1)
    benchmark.extra_info["mean_batch"] = found.mean_batch
    print(
        f"\n{len(found.served)} requests in {found.steps} steps, {found.mean_batch:.0f} decoding in a step on average"
    )


@pytest.mark.benchmark(group="serving")
def test_a_hundred_thousand_requests_of_a_fleet(benchmark: Any) -> None:
    """All of it on, on one core: agents that ask two models, pools apart, four attention ranks, drafts, tiers, autoscaling."""
    from mlsysim.serving import Config, fleet

    mixture = serving_steps.step_model(inference.deploy("Qwen3-30B-A3B", "DGX-H100", dp=4, ep=4))
    dense, draft = (serving_steps.step_model(inference.deploy(m, "H100")) for m in ("Llama-3.1-8B", "Llama-3.2-1B"))
    chances, config = (0.8, 0.7, 0.6), Config(kv_blocks=20_000)
    module, model = fleet.Speculation(chances, draft_share=1 / 48), fleet.Speculation(chances, draft)
    hosted = (fleet.ModelReplica(mixture, config, module, "a"), fleet.ModelReplica(dense, config, model, "b"))
    tiers = (fleet.Tier(100_000, 20e9), fleet.Tier(None, 5e9, 2e-3, shared=True))
    everything = fleet.Fleet(
        fleet.Servers(hosted, ranks=4, autoscaler=fleet.Autoscaler(2, 8, target=128.0)),
        fleet.Servers(hosted, ranks=4, autoscaler=fleet.Autoscaler(2, 8, target=16.0)),
        fleet.Link(50e9, 1e-4),
        fleet.Router("prefix"),
        fleet.Cache(tiers=tiers),
    )
    talks = fleet.agents(6.0, 10_000, turns=10, models=("a", "b"))
    cpu = time.process_time()
    found = benchmark.pedantic(lambda: fleet.run(everything, talks), rounds=1)
    benchmark.extra_info["processor_s"] = time.process_time() - cpu
    print(f"\n{len(found.served)} requests, {found.steps} steps: {time.process_time() - cpu:.1f} s of a processor")
    print("\n".join(f"{name}: {text}" for name, text in found.parts()))


@pytest.mark.benchmark(group="programs")
def test_eight_megabytes_of_stablehlo(benchmark: Any) -> None:
    """Parsed, sliced and estimated; needs the extra `hlo`."""
    pytest.importorskip("jaxlib", reason="the extra 'hlo' is not installed")
    text = long_program(600)
    benchmark.pedantic(lambda: hlo.estimate(hlo.parse(text, "p"), "H100"), rounds=3)
    benchmark.extra_info["megabytes"] = len(text) / 1e6


@pytest.mark.benchmark(group="programs")
def test_a_hundred_thousand_operations(benchmark: Any, tmp_path: Path) -> None:
    """Read from a file and estimated: processor time with the import, and memory."""
    pytest.importorskip("jaxlib", reason="the extra 'hlo' is not installed")
    path = tmp_path / "long.mlir"
    path.write_text(long_program(940), encoding="utf-8")
    code = f"from mlsysim import hlo; assert hlo.estimate({str(path)!r}, 'H100').ops > 100_000"
    benchmark.extra_info |= {"processor_s": processor_s(code), "peak_mb": megabytes(code)}
    print(
        f"\n{benchmark.extra_info['processor_s']:.2f} s of a processor, at most {benchmark.extra_info['peak_mb']:.0f} MB"
    )
    benchmark.pedantic(lambda: run_python(code), rounds=1)


@pytest.mark.benchmark(group="programs")
def test_eight_megabytes_again_from_the_cache(benchmark: Any, tmp_path: Path) -> None:
    """A second run of the same file: read, hashed, looked up; nothing is parsed. The first one, which fills the cache, apart."""
    pytest.importorskip("jaxlib", reason="the extra 'hlo' is not installed")
    path, folder = tmp_path / "long.mlir", tmp_path / "cache"
    path.write_text(long_program(600), encoding="utf-8")
    wall, cpu = time.perf_counter(), time.process_time()
    hlo.estimate(path, "H100", cache=folder)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    benchmark.extra_info |= {"first_s": wall, "first_processor_s": cpu, "load": os.getloadavg()[0]}
    print(
        f"\n8 MB, first run with an empty cache: {wall:.2f} s, {cpu:.2f} s of a processor, load {os.getloadavg()[0]:.1f}"
    )
    result = benchmark.pedantic(lambda: hlo.estimate(path, "H100", cache=folder), rounds=5)
    assert result.from_cache
