"""Every public result shows itself: short text, well-formed HTML, a figure with and without matplotlib, numbers for JSON, a table."""

import importlib
import inspect
import json
import math
import pkgutil
import re
import subprocess
import sys
import tempfile
import types
import typing
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlsysim
from mlsysim import (
    capacity,
    catalog,
    communication,
    cost,
    energy,
    evidence,
    explore,
    flops,
    hlo,
    inference,
    intervals,
    kernel_times,
    memory,
    network,
    other_workloads,
    parallelism,
    pipelines,
    posttraining,
    reliability,
    roofline,
    serving,
    serving_steps,
    training,
    transformer,
)
from mlsysim.api import SLO
from mlsysim.drawing import Bars, Chart, Lanes, Line, Panels, Span
from mlsysim.efficiencies import lineage, pooled
from mlsysim.errors import InputError
from mlsysim.evidence import calibrating, reality, rows, scoring
from mlsysim.evidence.cases import CLASSES
from mlsysim.evidence.hypotheses import hypotheses, infersim, sweeps
from mlsysim.evidence.hypotheses.measured import kernel_tables
from mlsysim.evidence.measured import astrasim_runs, clocks, fronts, service
from mlsysim.evidence.measured.memory import server_start
from mlsysim.evidence.reality.leave_one_out import HonestScore
from mlsysim.evidence.reality.published import case_file
from mlsysim.evidence.scoring import baselines, conformal, decisions, nested, rules, scoreboard, scores
from mlsysim.evidence.studies import brackets, case_studies, experiments, ladder, peers, ranked, searched, tiers, tools
from mlsysim.explore import recipes
from mlsysim.hlo import chakra
from mlsysim.hlo.estimators import recorded
from mlsysim.hlo.estimators.arrays import arrays
from mlsysim.hlo.profiler.profiled import profiled
from mlsysim.hlo.samples import sample
from mlsysim.hlo.work.counts import xla_counts
from mlsysim.parallelism import Plan
from mlsysim.results import (
    MOST_CHARACTERS,
    MOST_LINES,
    Displayable,
    Explanation,
    Input,
    Report,
    Result,
    Term,
    fitted,
    format_value,
    plain,
    share,
    unrolled,
)
from mlsysim.serving import fleet
from mlsysim.serving_steps.expert_layer import expert_layer

A = np.array
YEAR = 365.25 * 86400


@cache
def deployment() -> inference.Deployment:
    return inference.deploy("Llama-3.1-8B", "H100", efficiencies="bound")


@cache
def steps() -> serving_steps.StepModel:
    return serving_steps.step_model(deployment(), serving_steps.TIER_0)


@cache
def load(rate: float = 10.0, count: int = 300) -> tuple[serving.Request, ...]:
    lengths = (serving.lengths(mean, count, 0.5, seed) for seed, mean in ((2, 1000), (3, 200)))
    return serving.load(serving.poisson(rate, count, 1), *lengths)


def step(**more: Any) -> training.TrainingStep:
    given = {"tp": 2, "dp": 8} | more.pop("plan", {})
    cluster = catalog.cluster("DGX-H100", 2)
    return training.training_step("Llama-3.1-8B", Plan(**given), cluster, global_batch=64, seq=8192, **more)


def simulations() -> Iterator[Any]:
    whole = serving.simulate(steps(), load(), keep_steps=True)
    yield whole
    yield whole.records[0]
    yield serving.simulate(steps(), load(40.0), serving.Config(kv_blocks=3000))
    yield serving.simulate(steps(), load(), serving.Config(kv_blocks=3))  # all are rejected
    yield serving.simulate(steps(), ())
    hosted = fleet.ModelReplica(steps(), serving.Config(kv_blocks=2000), fleet.Speculation((0.8, 0.5)))
    servers = fleet.Servers(hosted, autoscaler=fleet.Autoscaler(1, 3, 2.0, 1.0, 5.0, 1.0))
    cache = fleet.Cache(tiers=(fleet.Tier(None, 50e9),))
    played = fleet.run(fleet.Fleet(servers, servers, fleet.Link(50e9), cache=cache), fleet.chats(5.0, 60))
    yield played
    yield played.scaling[0]
    yield serving.saturation(steps(), load(), serving.limits(serving.Config(), steps()))
    yield serving.saturation(
        steps(), [replace(r, arrival=0.0) for r in load()], serving.limits(serving.Config(), steps())
    )


def capacities() -> Iterator[Any]:
    yield capacity.queue(rate=9.0, service_time=0.2, servers=2)
    yield capacity.queue(rate=A([3.0, 9.0]), service_time=0.2, servers=2)
    replica = capacity.replica_of(deployment(), input_len=1024, output_len=256)
    yield replica
    yield capacity.serving_curve(replica)
    yield capacity.load(replica, 10.0, ttft=0.5, itl=0.04)
    yield capacity.load(replica, A([5.0, 10.0]))
    yield capacity.max_rate(replica, ttft=0.5, itl=0.04)
    yield capacity.sequences(deployment(), input_len=1000, output_len=200)
    yield capacity.sequences(deployment(), input_len=A([1000.0, 2000.0]), output_len=200)


def money_and_energy() -> Iterator[Any]:
    owned = cost.ownership_cost(
        8,
        price=30e3,
        lifetime=4 * YEAR,
        power=1000.0,
        pue=1.25,
        electricity_price=0.08 / 3.6e6,
        cooling=1.5,
        building=1.0,
        plant_lifetime=15 * YEAR,
        devices_per_engineer=1000,
        salary=200e3 / YEAR,
        network=3e3,
    )
    yield owned
    for rented in (2.0 / 3600, 0.01 / 3600, A([0.01, 2.0]) / 3600):
        yield cost.own_or_rent(owned, rented, 0.5)
    for devices in (16384, A([8.0, 16384.0])):
        yield energy.run(devices, 54 * 86400.0, device="H100", facility="Meta-LLaMA", grid="USA")
    for nodes in (2048, A([512.0, 2048.0])):
        given = {"checkpoint_bytes": 5.67e12, "writer_bandwidth": 5e9, "storage_bandwidth": 2e12}
        yield reliability.training_goodput(nodes, 2048 * 11135.0, restart=600.0, **given)


def of_catalogue() -> Iterator[Any]:
    kinds = ("devices", "models", "links", "nodes", "protocols", "grids", "facilities", "prices", "presets", "traces")
    for kind in (*kinds, "targets", "convnets"):
        entries = getattr(catalog, kind)()
        yield entries
        yield from entries.values()
    yield catalog.device("H100").peak_flops
    d = deployment()
    pool = serving.Pool(d.split, d.machine, d.efficiencies)
    yield pool
    yield serving.closed_loop(d.work, pool, concurrency=8.0, input_len=1000.0, output_len=200.0)
    yield catalog.patch_transformer("ViT-L/16")
    yield catalog.recommender("DLRM-DCNv2")
    yield other_workloads.diffusion_unet("SDXL")
    yield other_workloads.vision_batch("ViT-L/16", "H100", batch=64)
    yield other_workloads.vision_batch("resnet50", "H100", batch=64).phases[0]
    yield other_workloads.diffusion_image("DiT-XL/2", "H100", once_time=0.01)
    yield other_workloads.recommendation_batch("DLRM", "H100", devices=8, bandwidth=450e9)
    yield catalog.cluster("DGX-H100", 4)
    yield from evidence.published_costs().values()
    yield from evidence.published_footprints().values()


def of_programs() -> Iterator[Any]:
    program = sample("mlp_train_dp8.spmd")
    yield program
    yield hlo.estimate(program, "A100")
    yield hlo.estimate(sample("scan"), "H100")
    yield hlo.estimate(sample("llama100m_train_fsdp4.gpuopt_a100_sxm_40"), "A100")
    yield chakra.trace(program, "A100")
    yield chakra.trace(program, "A100").ranks[0]
    yield chakra.trace(program, "A100").ranks[0].nodes[0]
    yield profiled()
    yield next(iter(xla_counts().values()))
    yield recorded.scalesim_runs()[0]
    yield hlo.estimators.RunTime.exactly(1e-3, "roofline")
    yield next(iter(arrays().values()))
    yield hlo.Links(50e9)
    yield hlo.Fabric("ring:4xswitch:2", bandwidth=(50e9, 25e9), latency=1e-6)
    yield program.type_of(0)


def of_claims() -> Iterator[Any]:
    step_model = steps()
    batch = serving_steps.Batch.of(step_model.model, prefills=[(1000, 0)], decodes=[500] * 10)
    yield step_model
    yield step_model.terms(batch)
    yield from step_model.kernels(batch)
    yield serving_steps.layer_products(step_model.model, 1)[0]
    yield serving_steps.products_table()
    yield next(iter(evidence.shipped_profiles().values()))
    experts = inference.deploy("DeepSeek-V3", "H100", dp=32, ep=32, precision="fp8", inter_bandwidth=50e9)
    yield expert_layer(experts, tokens=128)
    yield expert_layer(experts, tokens=A([16.0, 128.0]))
    tried = next(iter(hypotheses.hypotheses().values()))
    yield tried
    yield hypotheses.judge(tried, {c.number: 1.0 for c in tried.accept})
    shape = infersim.Setup(
        infersim.shape_of("DeepSeek-V3"), "H800", devices=8, tokens=64, fp8=True, tables=kernel_tables("H800")
    )
    yield infersim.answer(shape)
    yield kernel_tables("H800")
    yield sweeps.granularity_curve(deployment(), 1, [128, 8192])
    clock = ({"ttft_s": 0.1 * n, "e2e_s": 1.0 + 0.01 * n * n} for n in range(1, 121))
    measured = [
        calibrating.Request(100.0 * n, 10.0 * (n % 7 + 2), t, t | {"e2e_s": 0.9}) for n, t in enumerate(clock, 1)
    ]
    yield calibrating.fit(measured, serving_steps.Subject("m", "H100", 1, "vLLM", "0.11"))
    yield calibrating.Freshness(0.2, 0.1, False, False)


def of_validation() -> Iterator[Any]:
    yield reality.check_class("collective")
    yield reality.check_class("gemm", "datasheet")
    yield scoring.score(case_file("collective"), "calibrated")
    yield case_file("collective")
    yield rows.sources()["KORT"]
    yield rows.counts()[0]
    yield next(iter(CLASSES.values()))
    yield scores.shipped_scores("training_step")
    yield HonestScore(0.1, None, 0.9, {"a": 0.1})
    yield pooled({"NVIDIA gpu": {"gemm": 0.6}}, lineage("GB300"))
    yield next(iter(evidence.measurements().values()))
    yield next(iter(evidence.published_plans().values()))
    run = next(iter(evidence.serving_runs().values()))
    yield run
    yield run.requests[0]
    yield evidence.check(next(n for n, m in evidence.measurements().items() if m.kind == "gemm"))
    yield evidence.check("azure-a100-8g")
    yield evidence.check("torchao-step-h100-tensorwise")
    yield server_start("gemma-2-9b")
    point = fronts.front_runs()["r1-b200"][0]
    yield point
    yield fronts.check_front(point)["itl"]
    yield service.decode_step()
    yield service.day()
    yield clocks.clock_runs()[clocks.FITTED]
    yield posttraining.rl_step("Llama-3.1-8B", "1 x DGX-H100", samples=64, mean_len=500)
    yield posttraining.rl_split("Llama-3.1-8B", "1 x DGX-H100", samples=64, mean_len=500)
    yield tools.questions()["cache-dense"]
    yield tools.questions()["cache-dense"].answers["size-it"]
    yield tools.tools()["size-it"]
    yield astrasim_runs.compared()
    yield astrasim_runs.compared().collectives[0]
    yield astrasim_runs.compared().steps[0]
    yield peers.comparison()
    yield case_studies.Comparison(0.09, next(iter(case_studies.figures().values())))
    yield brackets.Bracket("a", "A100", next(iter(case_studies.figures().values())), 0.01, 9.0)
    scored = ladder.RunScore(run, {"ttft": 0.4, "e2e": 17.0})
    yield ladder.LadderScore(serving_steps.TIER_0, (scored,))
    yield tiers.TierScore("a", "loaded", 3, "e2e", 0.2, 0.1, 0.1, 0.05)
    yield experiments.Split(1e-3, 0.1, 0.1, 0.0)
    yield baselines.BASELINES[0]
    yield rules.RULES["gemm"]
    yield scores.shipped_scores("gemm").rule
    yield nested.shipped_nested()
    yield conformal.GroupedErrors(tuple((x / 10,) for x in range(-9, 10)))
    yield scoring.predict("gemm", {"m": 1}, {})


def of_solvers() -> Iterator[Any]:
    for work in (1e12, np.logspace(9, 13, 20)):
        yield roofline.kernel_time("H100", work, 1e9)
        yield kernel_times.product_time(
            work / 1e9, 4096.0, 4096.0, 989.5e12, 3.35e12, multiprocessors=132, sharpness=3.0
        )
    for size in (1e9, np.logspace(3, 9, 12)):
        yield communication.collective("all_reduce", "ring", size, 8, 50e9, 5e-7)
    over_nodes = communication.library_time("all_reduce", 1e8, communication.wires("P5", 16))
    yield from (over_nodes, over_nodes.candidates[0], over_nodes.wires, over_nodes.cost)
    yield transformer.parameter_count("Llama-2-7B")
    for length in (4096, A([4096.0, 8192.0])):
        yield flops.training_flops_per_token("Llama-2-7B", seq=length, causal=True)
    for ranks in (64, A([8, 64])):
        yield memory.model_state_memory(7.5e9, "zero-fp16", "zero2", ranks=ranks)
    for tp in (2, A([1, 2, 4, 8])):
        yield memory.training_memory("Llama-2-7B", "H100", seq=4096, tp=tp, dp=4)
    yield pipelines.timed("zb-h1", 4, 8)
    yield memory.server_memory("Llama-3.1-8B", "H100")
    yield memory.server_memory("Llama-3.1-70B", "H100", pp=2)
    yield memory.release("vllm", "0.17.0")
    for word in ("bound", "calibrated"):
        yield step(efficiencies=word)
        yield step(plan={"tp": A([1, 2, 4]), "dp": 2}, efficiencies=word)
    yield intervals.interval("training_step", 10.0)
    yield deployment()
    calibrated = inference.deploy("Llama-3.1-8B", "H100", efficiencies="calibrated")
    too_big = inference.deploy("Llama-3.1-70B", "H100")
    yield too_big
    for d in (deployment(), calibrated, too_big):
        for batch in (8, A([1.0, 8.0])):
            yield inference.prefill(d, input_len=2000, batch=batch)
            yield inference.decode_step(d, context=2000, batch=batch)
            yield inference.generate(d, input_len=1000, output_len=100, batch=batch)
    task = network.Task
    yield network.schedule([task("a", "compute", 2.0), task("b", "communication", 3.0, ("a",))])
    yield network.schedule([])
    yield network.collective_time(
        "all_reduce", 1e9, "ring:4xswitch:8", "ring", bandwidth=50e9, latency=500e-9, splits=4
    )
    yield parallelism.placement(Plan(tp=2, dp=8), 8)
    yield parallelism.tensor_parallel_cost("Llama-3.1-8B", 4, "DGX-H100", seq=8192.0)


def of_searches() -> Iterator[Any]:
    cluster = catalog.cluster("DGX-H100", 2)
    only = {"pp": [1], "cp": [1]}
    for word in ("bound", "calibrated"):
        yield explore.plan("Llama-3.1-8B", cluster, global_batch=64, seq=8192, only=only, efficiencies=word)
    yield explore.plan("Llama-3.1-405B", catalog.cluster("DGX-H100", 1), global_batch=64, seq=8192, only=only)
    found = explore.plan("Llama-2-7B", cluster, global_batch=64, seq=4096, only=only | {"tp": [8]})
    yield searched.Searched(next(iter(evidence.published_plans().values())), Plan(tp=8, dp=2), found, found)
    near = recipes.nearest_recipe(catalog.model("Llama-3.1-8B"), catalog.where("2 x DGX-H100"), "bf16", 256, 8192)
    assert near is not None
    row = ranked.Ranked(near.recipe, 2.0, 3, 10, 1.9, 1.95, "TP4 DP4", "DP16", (1, 2, 1))
    yield from (near, near.recipe, row, ranked.Ranking((row, row), (("X", "no plan fits"),)))
    yield explore.Columns({"tp": A([1, 2, 4]), "time": A([3.0, 1.5, 1.0]), "name": A(["a", "b", "c"])})
    yield explore.Columns({"a": np.arange(1000.0), "b": np.full(1000, np.inf)})
    yield explore.Columns({})
    yield explore.frontier("Llama-3.1-8B", "H100", modes=["aggregated"], max_devices=2)
    yield explore.tornado(lambda a, b: a**2 / b, {"a": 2.0, "b": 2.0}, {"a": (1.0, 3.0), "b": (1.0, 3.0)})


def of_doors() -> Iterator[Any]:
    yield (served := mlsysim.serve("Llama-3.1-8B", "H100", slo=SLO(ttft=0.5, itl=0.03), rate=20, price="6 USD/h"))
    yield served.nearest
    yield mlsysim.serve("Llama-3.1-405B", "L4")  # does not fit
    yield mlsysim.train("Llama-3.1-8B", "DGX-H100", global_batch=64, seq=4096)
    yield mlsysim.simulate("Llama-3.1-8B", "H100", rate=4, requests=50, input_len=1000, output_len=100)
    yield mlsysim.plan("Llama-3.1-8B", "DGX-H100", global_batch=64, seq=4096)
    yield mlsysim.equations.lookup("eq-prompt-steps")
    yield lookup_table()


def lookup_table() -> Any:
    from mlsysim.tables import table

    return table(("a",), [("1",)])


def of_runs_and_choices() -> list[Any]:
    """A run of one's own beside its prediction, an answer that it moved, and choices."""
    figures = {"mean_ttft_ms": 60.0, "mean_tpot_ms": 19.0, "max_concurrency": 4, "total_input_tokens": 40_000}
    told = {
        "model_id": "meta-llama/Llama-3.1-8B",
        "completed": 40,
        "total_output_tokens": 8000,
        "duration": 20.0,
        **figures,
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.json"
        path.write_text(json.dumps(told), encoding="utf-8")
        compared = mlsysim.compare(path, device="H100")
    moved = mlsysim.serve("Llama-3.1-8B", "H100", batch=4, measured=compared)
    question = decisions.questions("gemm")[0]
    chosen = decisions.outcomes("gemm", "ours")
    return [
        compared.rows[0],
        *compared.reasons[:1],
        moved,
        moved.question.own,
        question,
        decisions.KINDS["gemm"],
        chosen[0],
        decisions.summarise("gemm", "ours", chosen),
        scoreboard.standings()[0],
        next(iter(rows.withdrawn()["serving"].values())),
    ]


ROOMS = (
    of_runs_and_choices,
    of_doors,
    of_solvers,
    capacities,
    money_and_energy,
    simulations,
    of_claims,
    of_searches,
    of_catalogue,
    of_programs,
    of_validation,
)
# What goes in rather than comes out: its repr is how it is written, with at most 2,000 characters.
INPUTS = {
    "Attention", "Compressor", "Convolution", "Gather", "Indexer", "Layer", "Message", "Norm", "Scan", "Streams", "Vector", "Bars", "Batch", "Chart", "Choice", "Config", "Convention", "Dimension", "Efficiencies", "Fabric", "Lanes", "Limits",
    "Line", "Links", "Plan", "Relation", "SLO", "LogSlider", "Marks", "Predictor", "Recipe", "Request", "Moments", "StepOptions", "Scaling", "ServerOverheads", "Slider", "Subject", "TornadoChart", "PublishedRecipe", "StoredParts",
    "Autoscaler", "Cache", "Conversation", "Fleet", "ModelReplica", "Link", "FleetSpec", "Router", "Servers", "Speculation", "Tier", "Turn",
    "SystolicArray", "Task", "TensorType", "Topology", "Product", "Scene", "Frames", "Server", "MixedCost", "MixedSteps",
}  # fmt: skip
# Small parts of results that have one line and no shape of their own, and what explain() itself returns.
PARTS = {
    "Report",
    "Scaled",
    "Swing",
    "Table",
    "Domain",
    "Equation",
    "Relation",
    "Measured",
    "RankTime",
    "Record",
    "Step",
    "Node",
    "Sourced",
}


@cache
def samples() -> dict[type, list[Any]]:
    """One of each at least: those above, and every result that they hold."""
    found: dict[type, list[Any]] = {}

    def add(thing: Any, depth: int = 0) -> None:
        kind = type(thing)
        if kind.__module__.startswith("mlsysim") and (is_dataclass(thing) or isinstance(thing, Displayable)):
            if depth and len(found.get(kind, ())) > 1:
                return
            found.setdefault(kind, []).append(thing)
            for field in fields(thing) if is_dataclass(thing) else ():
                add(getattr(thing, field.name), depth + 1)
        elif isinstance(thing, (tuple, list)) and thing and depth:
            add(thing[0], depth + 1)
        elif isinstance(thing, dict | types.MappingProxyType) and thing and depth:
            add(next(iter(thing.values())), depth + 1)

    for room in ROOMS:
        for thing in room():
            add(thing)
    for interval in found[intervals.Interval]:
        add(interval.quantiles)
    return found


def every(kind: type) -> Iterator[Any]:
    """What was made of results of that kind or below."""
    for known, things in samples().items():
        if issubclass(known, kind):
            yield from things


def public() -> dict[type, str]:
    """Classes with an ``explain`` and those that an ``__all__`` names or a function named there returns."""
    found: dict[type, str] = {}

    def add(kind: Any, why: str) -> None:
        for part in typing.get_args(kind):
            add(part, why)
        ours = isinstance(kind, type) and kind.__module__.startswith("mlsysim.") and "course" not in kind.__module__
        if ours and is_dataclass(kind):
            found.setdefault(kind, why)

    for module in pkgutil.walk_packages(mlsysim.__path__, "mlsysim."):
        if ".exercises." in module.name or module.name.endswith(("__main__", "xla_worker")):
            continue
        loaded = importlib.import_module(module.name)
        for name, kind in list(vars(loaded).items()):
            if inspect.isclass(kind) and not name.startswith("_") and hasattr(kind, "explain"):
                add(kind, f"{module.name}.{name} has an explain")
        for name in getattr(loaded, "__all__", ()):
            thing = getattr(loaded, name)
            add(thing, f"{module.name}.{name} is public")
            if inspect.isfunction(thing):
                try:
                    add(typing.get_type_hints(thing).get("return"), f"{module.name}.{name} returns it")
                except NameError:
                    continue  # a name that only the type checker imports
    return {kind: why for kind, why in found.items() if kind not in (catalog.entries.Entry,)}


def test_no_public_result_is_missing_from_the_table() -> None:
    known = {kind.__name__ for kind in samples()}
    missing = {
        f"{kind.__module__}.{kind.__name__}": why
        for kind, why in public().items()
        if kind.__name__ not in known | INPUTS
    }
    assert not missing
    without = [
        why
        for kind, why in public().items()
        if not issubclass(kind, Displayable) and kind.__name__ not in INPUTS | PARTS
    ]
    assert not without, "make it a Result, or name it among INPUTS or PARTS"


@pytest.mark.slow
def test_texts_are_short_and_no_dump_of_fields() -> None:
    for kind, things in samples().items():
        for thing in things:
            text = repr(thing)
            assert len(text) <= MOST_CHARACTERS and len(text.splitlines()) <= MOST_LINES, f"{kind}: {text}"
            if isinstance(thing, Displayable):
                assert not re.search(r"\b[A-Z]\w+\((?!.*rows: )[a-z_]+=|<.* object at 0x", text), text
                assert "more lines" not in text, f"{kind} says more than fits: {text}"
                assert "nan" not in text.split() and "\t" not in text, text


@pytest.mark.slow
def test_html_is_well_formed_and_holds_the_text() -> None:
    for thing in every(Displayable):
        root = ElementTree.fromstring(thing._repr_html_())
        assert "".join(root.itertext()).startswith(repr(thing).split("\n")[0])


@pytest.mark.slow
def test_numbers_survive_json_and_fit_a_table() -> None:
    for thing in every(Displayable):
        found = thing.to_dict()
        assert json.loads(json.dumps(found, allow_nan=False)) == found, type(thing)
        assert repr(thing.explain()), type(thing)
        explained = thing.explain()
        if hasattr(explained, "to_dict"):
            json.dumps(explained.to_dict(), allow_nan=False)
            assert len(explained.to_frame()) == len(
                explained.terms if isinstance(explained, Explanation) else explained.tables[0].rows
            )
    seen = set()
    for thing in every(Displayable):
        if type(thing) not in seen and not isinstance(thing, explore.Columns):
            seen.add(type(thing))
            frame = thing.to_frame()
            assert (
                len(frame) == len(list(thing.frame_rows()))
                if not isinstance(thing, explore.PlanSearch)
                else len(frame) > 5
            )


@pytest.mark.slow
def test_what_has_a_shape_draws_with_matplotlib() -> None:
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.use("Agg")
    plt.close("all")  # what tests before this one left open
    drawn = set()
    for thing in every(Displayable):
        if type(thing) in drawn:
            continue
        if thing.chart() is None:
            with pytest.raises(InputError, match="no shape to draw"):
                thing.plot()
            continue
        drawn.add(type(thing))
        figure = thing.plot()
        panels = [axes for axes in figure.axes if axes.lines or axes.patches]
        assert panels, type(thing)
        assert not plt.get_fignums(), "a notebook would show the figure twice"
    assert {t.__name__ for t in drawn} >= {
        "KernelTime", "CollectiveTime", "NetworkTime", "StreamSchedule", "TrainingStep", "TrainingMemory", "ModelState", "Pass",
        "Generation", "Deployment", "Load", "Queue", "Curve", "Replica", "Concurrency", "Footprint", "Ownership", "OwnOrRent",
        "Goodput", "Simulation", "Saturation", "StepModel", "StepTerms", "ExpertLayer", "Estimate", "PlanSearch", "Columns",
        "Tornado", "ClassCheck", "Report", "Device", "TokenFlops", "ParameterCount",
    }  # fmt: skip


def test_without_matplotlib_the_same_is_an_svg(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for thing in every(Displayable):
        if thing.chart() is None:
            continue
        picture = thing.plot()
        root = ElementTree.fromstring(picture._repr_svg_())
        inked = [e for e in root.iter() if e.tag.endswith(("polyline", "circle", "rect"))]
        assert len(inked) > 1, type(thing)
        assert "nan" not in picture._repr_svg_()
    kept = roofline.kernel_time("H100", 1e12, 1e9).plot().savefig(tmp_path / "roof.svg")
    assert kept.read_text().startswith("<svg")
    with pytest.raises(InputError, match=r"roof\.png.*mlsysim-book\[plot\]"):
        roofline.kernel_time("H100", 1e12, 1e9).plot().save(tmp_path / "roof.png")


def test_results_need_no_numpy_and_no_matplotlib_to_show_themselves() -> None:
    script = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['numpy'] = None; sys.modules['pandas'] = None\n"
        "from mlsysim import inference, serving, serving_steps, roofline, catalog\n"
        "model = serving_steps.step_model(inference.deploy('Llama-2-7B', 'H100'))\n"
        "s = serving.simulate(model, serving.load((0.0, 0.1), 500, 20))\n"
        "for r in (s, model, roofline.kernel_time('H100', 1e12, 1e9), catalog.device('H100')):\n"
        "    assert len(repr(r)) < 2000 and '<svg' in r._repr_html_() and r.plot()._repr_svg_(), r\n"
        "try:\n    s.to_frame()\nexcept ValueError as error:\n    assert 'mlsysim-book[frames]' in str(error)\n"
        "else:\n    raise AssertionError\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_an_array_says_its_range_and_shape_and_not_its_numbers() -> None:
    many = roofline.kernel_time("H100", np.logspace(9, 13, 1000).reshape(10, 100), 1e9)
    first = repr(many).splitlines()[0]
    assert "(array 10x100)" in first and len(repr(many)) < 1000
    assert many.to_frame().shape[0] == 1 and len(many.to_dict()["time_s"]) == 10
    several = step(plan={"tp": A([1, 2, 4]), "dp": 2})
    assert "2 of 3 fit" in repr(several)
    assert len(several.to_frame()) == 3
    assert several.to_frame()["time_s"].is_monotonic_decreasing
    assert (several.to_frame()["interval_s.low"] < several.to_frame()["time_s"]).all()
    assert len(step().to_frame()) == 1


@pytest.mark.independent
def test_the_answer_stands_in_the_first_line_and_what_binds_below() -> None:
    kernel = roofline.kernel_time("H100", 989.5e12, 1e9)  # the dense peak for one second
    assert repr(kernel).splitlines()[0] == "H100-SXM5-80GB, bf16: 1 s, compute-bound"
    text = repr(step(efficiencies="calibrated"))
    assert re.search(r"binds +gemm", text) and re.search(r"efficiencies +calibrated: ", text)
    low, high = map(float, re.findall(r"range +([\d.]+) s to ([\d.]+) s, where 80% of", text)[0])
    time = float(re.findall(r": ([\d.]+) s a step", text)[0])
    assert low < time < high
    plain = repr(step(efficiencies="bound"))
    assert re.search(r"range +none: errors", plain) and re.search(r"efficiencies +bound: ", plain)


@pytest.mark.independent
def test_what_does_not_fit_says_so_first() -> None:
    too_big = inference.deploy("Llama-3.1-70B", "H100")  # 70.6 billion weights of two bytes
    assert "DO NOT FIT: 141.1 GB of 84.94 GB" in " ".join(repr(too_big).split("\n  "))
    for passed in (inference.prefill(too_big, input_len=100), inference.generate(too_big, input_len=10, output_len=10)):
        assert "DOES NOT FIT" in " ".join(repr(passed).splitlines()[:2])
    assert "DOES NOT FIT" not in repr(inference.prefill(deployment(), input_len=100))
    none = next(s for s in samples()[explore.PlanSearch] if not len(s.fitting))
    assert "NONE OF" in repr(none).splitlines()[0]


@pytest.mark.independent
def test_a_simulation_says_what_bound_the_server() -> None:
    idle = serving.simulate(steps(), serving.load((0.0, 100.0), 100, 10))
    assert "binds" in repr(idle) and "the load: no step is under way 99" in repr(idle)
    crowd = [serving.Request(0.0, 100, 200) for _ in range(64)]
    assert "places: " in repr(serving.simulate(steps(), crowd, serving.Config(max_num_seqs=4)))
    thrown = serving.simulate(steps(), crowd, serving.Config(kv_blocks=100))
    assert thrown.preemptions and f"{thrown.preemptions:,} times a sequence was thrown out" in " ".join(
        repr(thrown).split()
    )
    prompts = [serving.Request(0.0, 4000, 2) for _ in range(64)]
    assert "the budget of a step" in repr(
        serving.simulate(steps(), prompts, serving.Config(max_num_batched_tokens=512))
    )
    cached = [serving.Request(float(i), 1600, 10, cached_len=800) for i in range(10)]
    # 800 of 1,600 tokens are 50 whole blocks of 16
    assert "16,000 prompt tokens asked for, 8,000 computed: 50 % found in the cache" in " ".join(
        repr(serving.simulate(steps(), cached)).split()
    )
    told = str(thrown.explain())
    assert "preemptions" in told and "Llama-3.1-8B" in told and "waiting" in told
    frame = thrown.to_frame()
    assert len(frame) == 64 and frame["preemptions"].sum() == thrown.preemptions
    assert serving.simulate(steps(), crowd, serving.Config(kv_blocks=2)).to_frame()["ttft_s"].isna().all()


@pytest.mark.independent
def test_a_timeline_counts_who_waits_and_who_runs() -> None:
    four = serving.simulate(
        steps(), [serving.Request(0.0, 100, 200) for _ in range(12)], serving.Config(max_num_seqs=4)
    )
    chart = four.chart().parts[0]
    running, waiting = (line.y for line in chart.lines)
    assert max(running) == 4 and max(waiting) == 8  # of twelve at once
    assert all(r + w <= 12 for r, w in zip(running, waiting, strict=True))
    assert running[-1] == waiting[-1] == 0


@pytest.mark.independent
def test_text_is_cut_and_says_so() -> None:
    text = fitted([f"line {i}" for i in range(30)])
    assert text.splitlines()[-1] == "… and 11 more lines" and len(text.splitlines()) == 20
    assert len(fitted(["x" * 500] * 30)) <= 2000
    terms = [
        Term(f"t{i}", 1.0, "eq-compute-time", {"flops": 1.0, "peak_flops": 1.0, "efficiency": 1.0}) for i in range(40)
    ]
    told = Explanation("a title", terms, [Input("flops", 1.0, "FLOP")])
    assert len(repr(told).splitlines()) == 20 and "print(...)" in repr(told) and len(str(told).splitlines()) == 43
    assert len(told.to_dict()["terms"]) == 40


@pytest.mark.independent
def test_values_are_written_for_people_and_for_json() -> None:
    assert format_value(A([1e-3, 5e-3]), "s") == "1 to 5 ms (array 2)"
    assert format_value(math.inf, "s") == "without limit" and format_value(math.nan, "s") == "undefined"
    assert format_value(8030261248, "1") == "8,030,261,248" and format_value(0.0, "s") == "0 s"
    assert share(A([0.1, 0.5])) == "10 % to 50 %"
    assert plain({"a": math.inf, "b": A([1, 2]), "c": np.float64(2.5), "d": (1, math.nan)}) == {
        "a": None, "b": [1, 2], "c": 2.5, "d": [1, None],
    }  # fmt: skip
    assert unrolled({"a": 1, "b": {"c": [1, 2]}}) == [{"a": 1, "b.c": 1}, {"a": 1, "b.c": 2}]
    assert unrolled({"a": [1, 2], "b": [1, 2, 3]}) == [{"a": [1, 2], "b": [1, 2, 3]}]


def test_a_model_without_bias_does_not_speak_of_one() -> None:
    text = repr(catalog.model("Llama-3.1-8B"))
    assert "bias" not in text and "8,030,261,248 parameters, 32 layers" in text.splitlines()[0]
    assert "with bias" in repr(catalog.model("GPT-2-124M"))
    assert "256 of width 2,048, 8 a token" in repr(catalog.model("DeepSeek-V3"))
    assert repr(catalog.devices()).startswith(f"{len(catalog.devices())} of kind device")


@pytest.mark.independent
def test_lanes_and_limits_stand_where_they_belong() -> None:
    lanes = Lanes([Span("a", 0.0, 1.0, "x"), Span("b", 1.0, 4.0, "y")], "time (s)")
    root = ElementTree.fromstring(lanes.svg())
    rects = [r for r in root.iter() if r.tag.endswith("rect") and r.get("height") == "18"]
    widths = [float(r.get("width") or 0) for r in rects]
    assert widths[1] == pytest.approx(3 * widths[0], rel=1e-3)
    assert float(rects[1].get("x") or 0) == pytest.approx(float(rects[0].get("x") or 0) + widths[0], abs=0.02)
    bars = Bars(["a"], {"one": [1.0]}, "GB", limit=(2.0, "capacity"))
    pieces = [r for r in ElementTree.fromstring(bars.svg()).iter() if r.get("height") == "22"]
    assert float(pieces[0].get("x") or 0) + 2 * float(pieces[0].get("width") or 0) == pytest.approx(
        382, abs=0.2
    )  # the limit ends the axis
    assert "capacity" in bars.svg()
    ticks = [
        e.text
        for e in ElementTree.fromstring(
            Chart("x", "y", [Line([0, 7.3], [0, 1], "a")], x_log=False, y_log=False).svg()
        ).iter()
    ]
    assert {"0", "2", "4", "6"} <= set(ticks)
    both = Panels(Chart("x", "y", [Line([1, 10], [1, 10], "a")]), bars)
    assert both.height == pytest.approx(3.8 + bars.height) and both.small is both.parts[0]
    assert ElementTree.fromstring(both.svg()) is not None
    for spans in ([], [Span("a", 0.0, 1.0, str(i)) for i in range(7)]):
        with pytest.raises(InputError, match="Lanes"):
            Lanes(spans, "time")


def test_a_new_result_cannot_forget_its_summary() -> None:
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Mine(Result):
        time: float

        def summary(self) -> list[str]:
            return [f"it takes {self.time:g} s"]

    assert repr(Mine(2.0)) == str(Mine(2.0)) == "it takes 2 s"
    assert "Mine" not in Mine(2.0)._repr_html_()

    @dataclass(frozen=True)
    class Plain(Result):
        name: str
        values: tuple[float, ...]
        nothing: str = ""

    thing = Plain("x", (1.0, 2.0, 3.0, 4.0))
    assert repr(thing) == "plain x\n  values  4 of them: 1, 2, 3, …"
    assert thing.to_dict() == {"name": "x", "values": [1.0, 2.0, 3.0, 4.0], "nothing": ""}
    assert isinstance(thing.explain(), Report)
