"""Our library beside Harvard's package of the same import name, each in a process of its own; writes evidence/peers.toml.

Run by hand, never by the tests: it makes a temporary environment and installs ``mlsysim==0.3.0`` from the package index.
Both packages run in that environment's Python, ours from a copy of this tree. Which measured rows are asked about follows
from a rule on inputs (``measured_cases``); which function answers stands beside each question, so that it can be looked up
in the installed package.

    python scripts/maintain/peers/compare_peers.py [--python python3.12]
"""

import argparse
import importlib
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
OUT = ROOT / "mlsysim" / "evidence" / "studies" / "peers.toml"
PEER = "mlsysim==0.3.0"
REPEATS = 5  # processes per import time; the median counts
SECONDS = 1.0  # of processor time to repeat a solve for

# What a question asks for in the peer's package: function, and what its answer counts.
ASKED = {
    "training": "engine.solvers.distributed.DistributedModel.solve, efficiency 0.5 (its default): step_latency_total",
    "inference": "engine.solvers.serving.ServingModel.solve, efficiency 0.5 (its default): ttft + (output - 1) x itl",
    "all_reduce": "physics.communication.calc_ring_allreduce_time with the node's own latency",
    "parameters": "models.registry.Models: parameters",
    "kv_cache": "models.types.TransformerWorkload.get_kv_cache_size",
    "itl": "engine.solvers.serving.ServingModel.solve: itl",
    "interval": "physics.reliability.calc_young_daly_interval",
    "goodput": "engine.solvers.reliability.ReliabilityModel.solve: goodput_ratio",
    "wait": "engine.solvers.serving.TailLatencyModel.solve: p99_latency less the service time",
    "water": "engine.solvers.economics.SustainabilityModel.solve: water_usage_liters",
    "tco": "engine.solvers.economics.EconomicsModel.solve: capex_usd + opex_energy_usd",
}


# In the peer's process


def _peer(module: str = "") -> Any:
    """A module of the peer's package, of which our type checker knows nothing."""
    return importlib.import_module(f"mlsysim.{module}" if module else "mlsysim")


def peer_answers(questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the peer says to each question: a value, or the error it raises."""
    found: list[dict[str, Any]] = []
    for q in questions:
        try:
            found.append(globals()[f"_peer_{q['kind']}"](**q["ask"]))
        except Exception as error:
            found.append({"error": f"{type(error).__name__}: {error}"})
    return found


def _peer_workload(m: dict[str, Any]) -> Any:
    Q_ = _peer("core.units").Q_
    ureg = _peer("core.units").ureg
    SparseTransformerWorkload = _peer("models.types").SparseTransformerWorkload
    TransformerWorkload = _peer("models.types").TransformerWorkload

    shape = {
        "name": m["model"],
        "architecture": "Transformer",
        "parameters": Q_(m["params"], ureg.count),
        "layers": int(m["layers"]),
        "hidden_dim": int(m["hidden"]),
        "heads": int(m["heads"]),
        "kv_heads": int(m["kv_heads"]),
        "head_dim": int(m["head_dim"]),
    }
    if m.get("n_experts"):
        active = Q_(m["active_params"], ureg.count)
        return SparseTransformerWorkload(
            **shape, active_parameters=active, experts=int(m["n_experts"]), active_experts_per_token=int(m["top_k"])
        )
    return TransformerWorkload(**shape)


def _peer_device(name: str) -> Any:
    Hardware = _peer().Hardware

    return {"A100-SXM4-80GB": Hardware.Cloud.A100, "H100-SXM5-80GB": Hardware.Cloud.H100}[name]


def _peer_node(name: str) -> Any:
    Systems = _peer().Systems

    return {"A100-SXM4-80GB": Systems.Nodes.DGX_A100, "H100-SXM5-80GB": Systems.Nodes.DGX_H100}[name]


def _peer_fleet(device: str, devices: float, bandwidth: float) -> Any:
    Q_ = _peer("core.units").Q_
    Fleet = _peer("systems.types").Fleet
    NetworkFabric = _peer("systems.types").NetworkFabric

    Systems = _peer().Systems

    like = Systems.Fabrics.InfiniBand_HDR if device.startswith("A100") else Systems.Fabrics.InfiniBand_NDR
    fabric = NetworkFabric(name="as in the row", bandwidth=Q_(bandwidth, "byte/s"), latency=like.latency)
    return Fleet(name="as in the row", node=_peer_node(device), count=int(devices) // 8, fabric=fabric)


def _peer_training(row: dict[str, Any]) -> dict[str, Any]:
    DistributedModel = _peer("solvers").DistributedModel

    pieces = int(row["global_batch"] / row["dp"] / row["micro_batch"])
    pipelined = row["pp"] > 1
    result = DistributedModel().solve(
        _peer_workload(row),
        _peer_fleet(row["device"], row["n_devices"], row.get("inter_node_bandwidth") or 25e9),  # unused within a node
        batch_size=int(row["global_batch"]),
        precision=row["precision"],
        tp_size=int(row["tp"]),
        pp_size=int(row["pp"]),
        v_stages=int(row.get("virtual_stages") or 1),
        microbatch_count=pieces if pipelined else 1,
        gradient_accumulation_steps=1 if pipelined else pieces,
        zero_stage={"none": 0, "zero1": 1, "zero2": 2, "zero3/fsdp": 3}[row["sharding"]],
        activation_recomputation=row["recompute"] == "full",
        seq_len=int(row["seq"]),
    )
    return {"value": result.step_latency_total.m_as("s")}


def _peer_inference(row: dict[str, Any]) -> dict[str, Any]:
    ServingModel = _peer("solvers").ServingModel

    def solve(tokens: float) -> Any:
        return ServingModel().solve(
            _peer_workload(row),
            _peer_device(row["device"]),
            seq_len=int(tokens),
            batch_size=int(row["batch"]),
            precision=row["weight_precision"],
        )

    first = solve(row["input_len"])
    step = solve(row["input_len"] + row["output_len"] / 2)
    return {"value": first.ttft.m_as("s") + (row["output_len"] - 1) * step.itl.m_as("s")}


def _peer_all_reduce(row: dict[str, Any]) -> dict[str, Any]:
    Q_ = _peer("core.units").Q_
    _intra_node_latency = _peer("engine.solvers.utils")._intra_node_latency
    calc_ring_allreduce_time = _peer("physics").calc_ring_allreduce_time

    node = _peer_node(row["device"])
    took = calc_ring_allreduce_time(
        Q_(row["bytes"], "byte"), int(row["n_ranks"]), node.intra_node_bw, _intra_node_latency(node)
    )
    return {"value": took.m_as("s")}


def _peer_parameters(name: str) -> dict[str, Any]:
    Models = _peer().Models

    return {"value": getattr(Models.Language, name).parameters.m_as("count")}


def _peer_kv_cache(name: str, tokens: int, batch: int) -> dict[str, Any]:
    Models = _peer().Models

    return {"value": getattr(Models.Language, name).get_kv_cache_size(tokens, batch).m_as("byte")}


def _peer_itl(name: str, tokens: int) -> dict[str, Any]:
    ServingModel = _peer("solvers").ServingModel

    Hardware = _peer().Hardware
    Models = _peer().Models

    result = ServingModel().solve(getattr(Models.Language, name), Hardware.Cloud.H100, seq_len=tokens)
    return {"value": result.itl.m_as("s")}


def _peer_interval(write_time: float, mtbf: float) -> dict[str, Any]:
    Q_ = _peer("core.units").Q_
    calc_young_daly_interval = _peer("physics").calc_young_daly_interval

    return {"value": calc_young_daly_interval(Q_(write_time, "s"), Q_(mtbf, "s")).m_as("s")}


def _peer_goodput(devices: int, write_time: float, restart: float) -> dict[str, Any]:
    ReliabilityModel = _peer("solvers").ReliabilityModel

    fleet = _peer_fleet("H100-SXM5-80GB", devices, 50e9)
    result = ReliabilityModel().solve(fleet, 720.0, checkpoint_time_s=write_time, avg_recovery_time_s=restart)
    return {
        "value": result.goodput_ratio,
        "mtbf": result.fleet_mtbf.m_as("s"),
        "interval": result.optimal_checkpoint_interval.m_as("s"),
    }


def _peer_wait(servers: int, rate: float, service_time: float) -> dict[str, Any]:
    TailLatencyModel = _peer("solvers").TailLatencyModel

    result = TailLatencyModel().solve(rate, 1e3 * service_time, num_replicas=servers)
    return {"value": result.p99_latency.m_as("s") - service_time}


def _peer_water(devices: int, days: float) -> dict[str, Any]:
    Grids = _peer("infrastructure.registry").Grids
    SustainabilityModel = _peer("solvers").SustainabilityModel

    grid = Grids.US_Avg
    result = SustainabilityModel().solve(_peer_fleet("H100-SXM5-80GB", devices, 50e9), days, datacenter=grid)
    energy = result.it_energy_kwh.m_as("kWh")
    return {"value": float(result.water_usage_liters), "energy": energy, "wue": float(grid.wue), "pue": result.pue}


def _peer_tco(devices: int, days: float, price: float) -> dict[str, Any]:
    Grids = _peer("infrastructure.registry").Grids
    EconomicsModel = _peer("solvers").EconomicsModel

    fleet = _peer_fleet("H100-SXM5-80GB", devices, 50e9)
    result = EconomicsModel().solve(fleet, days, kwh_price=price, grid=Grids.US_Avg)
    device = fleet.node.accelerator
    return {
        "value": float(result.capex_usd + result.opex_energy_usd),
        "pue": result.pue,
        "cost": device.unit_cost.magnitude,
        "power": device.tdp.m_as("W"),
    }


# Speeds, in either process


def _per_second(call: Callable[[], Any]) -> float:
    call()  # the first one reads catalogues
    count, start = 0, time.process_time()
    while (took := time.process_time() - start) < SECONDS:
        call()
        count += 1
    return count / took


def peer_speeds() -> dict[str, float]:
    """Solves per second of the peer's package."""
    DistributedModel = _peer("solvers").DistributedModel
    ServingModel = _peer("solvers").ServingModel

    Hardware = _peer().Hardware
    Models = _peer().Models

    model, fleet = Models.Language.Llama3_70B, _peer_fleet("H100-SXM5-80GB", 512, 50e9)
    job = {"batch_size": 512, "tp_size": 8, "pp_size": 4, "microbatch_count": 32, "seq_len": 8192, "zero_stage": 1}
    return {
        "step of training": _per_second(lambda: DistributedModel().solve(model, fleet, **job)),
        "prompt and decode step": _per_second(lambda: ServingModel().solve(model, Hardware.Cloud.H100, seq_len=2048)),
    }


def own_speeds() -> dict[str, float]:
    """Solves per second of this library, one by one and as arrays."""
    import numpy as np

    from mlsysim import catalog, inference, training
    from mlsysim.parallelism import Plan

    plan, cluster = Plan(tp=8, pp=4, dp=16, sharding="zero1"), catalog.cluster("DGX-H100", 64)
    job: dict[str, Any] = {"global_batch": 512, "seq": 8192}
    served = inference.deploy("Llama-3.1-70B", "H100", tp=8, efficiencies="bound")
    many = 100_000
    widths = np.linspace(10e9, 100e9, many)

    def both() -> None:
        _ = inference.prefill(served, input_len=2048).time, inference.decode_step(served, context=2048).time

    def array() -> None:
        _ = training.training_step("Llama-3.1-70B", plan, "H100", inter_bandwidth=widths, **job).time

    return {
        "step of training": _per_second(lambda: training.training_step("Llama-3.1-70B", plan, cluster, **job).time),
        "prompt and decode step": _per_second(both),
        "step of training, as an array": many * _per_second(array),
    }


def _peer_version() -> str:
    return f"mlsysim=={_peer().__version__}"


INSIDE = {
    "version": _peer_version,
    "answers": lambda: peer_answers(json.load(sys.stdin)),
    "peer-speeds": peer_speeds,
    "own-speeds": own_speeds,
}


# In ours: the questions, their truths, and what we answer


def measured_cases() -> Iterable[tuple[dict[str, Any], float]]:
    """The first row of every source that both can answer, with our answer when its source was left out of the fit.

    Both can: whole training steps in pre-training without experts or context parallelism, on A100 or H100 in nodes of eight, in 16 bits, with
    recomputation, sharding and micro-batch stated; batches and single requests on one A100 or H100 with a prompt and an answer; all-reduces in a node.
    """
    from mlsysim import catalog
    from mlsysim.evidence import reality

    def fits(class_name: str, row: Any) -> bool:
        known = row.get("device") in ("A100-SXM4-80GB", "H100-SXM5-80GB")
        if class_name == "collective":
            return known and row["op"] == "all_reduce"
        if class_name == "inference":
            single = row.get("n_devices") == 1 and bool(row.get("input_len")) and bool(row.get("output_len"))
            return known and single and row["weight_precision"] in ("fp16", "bf16", "fp8", "int8")
        stated = all(row.get(name) for name in ("recompute", "sharding", "micro_batch"))
        dense = not row.get("n_experts") and row.get("cp") == 1 and row["layers"] > 1
        return known and stated and dense and row["task"] == "pretrain" and row["precision"] in ("fp16", "bf16")

    names = {"training_step": "training", "inference": "inference", "collective": "all_reduce"}
    for class_name, kind in names.items():
        seen = set()
        for r in reality.check_class(class_name, leave_one_group_out=True).rows:
            row = dict(r.row.case.inputs)
            if r.row.case.group in seen or not fits(class_name, row):
                continue
            seen.add(r.row.case.group)
            if row.get("n_experts"):
                row["top_k"] = catalog.model(row["model"]).top_k
            what = _wording(kind, r.row.model, row)
            yield (
                {
                    "kind": kind,
                    "what": what,
                    "ask": {"row": row},
                    "unit": "s",
                    "truth": r.score.measured,
                    "basis": "measured",
                    "source": r.row.source,
                    "where": r.row.where,
                },
                r.score.predicted or math.nan,
            )


def _wording(kind: str, model: str, row: dict[str, Any]) -> str:
    from mlsysim import units

    device = row["device"].partition("-")[0]
    if kind == "training":
        return f"step of {model} on {row['n_devices']:g} {device}"
    if kind == "inference":
        return f"{model} on one {device}, batch {row['batch']:g}, {row['input_len']:g} + {row['output_len']:g} tokens, {row['weight_precision']}"
    return f"all-reduce of {units.format(row['bytes'], 'byte', 3)} over {row['n_ranks']:g} {device}"


def closed_cases(answer: Callable[[str, dict[str, Any]], dict[str, Any]]) -> Iterable[tuple[dict[str, Any], float]]:
    """Questions whose answer is arithmetic, written out here; where it needs figures of the peer's catalogue, both get them."""
    yield from _model_cases()
    yield from _job_cases(answer)


def case(kind: str, what: str, unit: str, truth: float, source: str, **ask: Any) -> dict[str, Any]:
    """A question in closed form, with its answer written out."""
    return {
        "kind": kind, "what": what, "ask": ask, "unit": unit, "truth": truth, "basis": "closed form", "source": source,
    }  # fmt: skip


def _model_cases() -> Iterable[tuple[dict[str, Any], float]]:
    from mlsysim import inference, memory, transformer

    for name, theirs, count in (
        ("Llama-3.1-8B", "Llama3_8B", 8_030_261_248),
        ("Mixtral-8x7B", "Mixtral_8x7B", 46_702_792_704),
    ):
        yield (
            case("parameters", f"parameters of {name}", "1", count, "its weights", name=theirs),
            float(transformer.parameter_count(name).total),
        )
    truth: float = 2 * 80 * 8 * 128 * 2 * 8192 * 16
    yield (
        case("kv_cache", "cache of 16 sequences of 8,192 tokens, Llama-3.1-70B", "byte", truth, "2 x layers x heads x size x 2 bytes", name="Llama3_70B", tokens=8192, batch=16),
        float(memory.kv_cache_of("Llama-3.1-70B", 16, 8192)),
    )  # fmt: skip
    bound = (2 * (8_030_261_248 - 128_256 * 4096) + 2 * 32 * 8 * 128 * 2 * 2048) / 3.35e12
    step = inference.decode_step(inference.deploy("Llama-3.1-8B", "H100", efficiencies="bound"), context=2048)
    yield (
        case("itl", "decode step of Llama-3.1-8B on one H100, 2,048 tokens, beside its bound", "s", bound, "weights but the input embedding, and cache, over 3.35 TB/s", name="Llama3_8B", tokens=2048),
        float(step.time),
    )  # fmt: skip


def _job_cases(answer: Callable[[str, dict[str, Any]], dict[str, Any]]) -> Iterable[tuple[dict[str, Any], float]]:
    from mlsysim import capacity, cost, energy, reliability

    yield (
        case("interval", "best checkpoint interval, 60 s to write, MTBF 4 h", "s", math.sqrt(2 * 60 * 14400), "young1974first", write_time=60.0, mtbf=14400.0),
        float(reliability.young_interval(60.0, 14400.0)),
    )  # fmt: skip
    asked = {"devices": 8192, "write_time": 60.0, "restart": 300.0}
    g = answer("goodput", asked)
    m, tau = g["mtbf"], g["interval"]
    exact = tau / (m * math.exp(300 / m) * math.expm1((tau + 60) / m))
    yield (
        case("goodput", "share of time that 8,192 H100 make progress, at its own MTBF and interval", "1", exact, "daly2006higher", **asked),
        float(reliability.exact_goodput(tau, 60.0, m, 300.0)),
    )  # fmt: skip
    load = 18.0 * 0.4
    series = sum(load**i / math.factorial(i) for i in range(8))
    last = load**8 / math.factorial(8) / (1 - load / 8)
    truth: float = math.log(last / (series + last) / 0.01) / (8 / 0.4 - 18.0)
    delayed = capacity.erlang_c(8, load)
    yield (
        case("wait", "wait that 99 % keep below: 8 servers, 18 requests/s of 0.4 s", "s", truth, "Erlang C, term by term", servers=8, rate=18.0, service_time=0.4),
        float(capacity.wait_quantile(delayed, 8 / 0.4, load / 8, 0.99)),
    )  # fmt: skip
    asked = {"devices": 1024, "days": 30.0}
    w = answer("water", asked)
    litres = float(energy.onsite_water(w["energy"] * 3.6e6, w["wue"] / 3.6e6))
    yield (
        case("water", "water of 1,024 H100 in 30 days at its own energy and WUE, litres", "1", w["energy"] * w["wue"], "greengrid2011wue", **asked),
        litres,
    )  # fmt: skip
    asked = {"devices": 1024, "days": 365.0, "price": 0.08}
    t = answer("tco", asked)
    truth = 1024 * t["cost"] / 3 + 1024 * t["power"] / 1e3 * 8760 * t["pue"] * 0.08
    rate = cost.straight_line(1024 * t["cost"], 3 * 365 * 86400.0)
    power = cost.power_cost(1024 * t["power"], t["pue"], 0.08 / 3.6e6)
    yield (
        case("tco", "a year of 1,024 H100 at full power: price over three years, and electricity (dollars)", "1", truth, "the sum itself", **asked),
        float((rate + power) * 365 * 86400.0),
    )  # fmt: skip


# Running


def run_json(python: Path, what: str, given: Any = None, path: Path | None = None) -> Any:
    """One of INSIDE in the temporary environment; with a path, the package that lies there comes first."""
    command = [str(python), "-s", str(Path(__file__).resolve()), "--inside", what]
    ran = subprocess.run(
        command, input=json.dumps(given), capture_output=True, text=True, env=_environment(path), cwd=python.parent
    )
    if ran.returncode:
        raise SystemExit(ran.stderr[-3000:])
    return json.loads(ran.stdout.strip().splitlines()[-1])


def _environment(path: Path | None) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return kept | ({"PYTHONPATH": str(path)} if path else {})


def import_times(python: Path, package: Path, path: Path | None) -> tuple[float, float]:
    """Median processor time of importing the package with its bytecode at hand, and without, in seconds."""
    code = "import time; t = time.process_time(); import mlsysim; print(time.process_time() - t, mlsysim.__file__)"
    where: dict[str, Any] = {"env": _environment(path), "cwd": python.parent}  # not here, where ours would come first

    def once(*options: str) -> float:
        command = [str(python), "-s", *options, "-c", code]
        took, found = subprocess.run(command, check=True, capture_output=True, text=True, **where).stdout.split()
        if Path(found).parent != package:
            raise SystemExit(f"the import of {package} found {found}")
        return float(took)

    for cache in package.rglob("__pycache__"):
        shutil.rmtree(cache)
    cold = statistics.median(once("-B") for _ in range(REPEATS))  # what it depends on keeps its bytecode
    once()
    return statistics.median(once() for _ in range(REPEATS)), cold


def write(cases: list[dict[str, Any]], speeds: list[dict[str, Any]], conditions: dict[str, str]) -> None:
    """The data file, by hand: the standard library reads TOML and does not write it."""

    def table(head: str, entry: dict[str, Any]) -> str:
        return "\n".join([head, *(f"{k} = {json.dumps(v, ensure_ascii=False)}" for k, v in entry.items())])

    parts = ["# Written by scripts/maintain/peers/compare_peers.py. Do not edit.", table("[conditions]", conditions)]
    parts += [table("[[speed]]", s) for s in speeds] + [table("[[case]]", c) for c in cases]
    OUT.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="interpreter of the temporary environment")
    parser.add_argument("--inside", choices=INSIDE, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        print(json.dumps(INSIDE[args.inside]()))
        return
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        subprocess.run([args.python, "-m", "venv", str(home / "peer")], check=True)
        python = home / "peer" / "bin" / "python"
        subprocess.run([str(python), "-m", "pip", "install", "-q", PEER], check=True)
        if run_json(python, "version") != PEER:
            raise SystemExit(f"the environment has {run_json(python, 'version')}, not {PEER}")
        theirs = next((home / "peer" / "lib").glob("python*/site-packages/mlsysim"))
        shutil.copytree(ROOT / "mlsysim", home / "ours" / "mlsysim", ignore=shutil.ignore_patterns("__pycache__"))

        def answer(kind: str, ask: dict[str, Any]) -> dict[str, Any]:
            found: dict[str, Any] = run_json(python, "answers", [{"kind": kind, "ask": ask}])[0]
            return found

        asked = [*measured_cases(), *closed_cases(answer)]
        answers = run_json(python, "answers", [q for q, _ in asked])
        cases = []
        for (q, ours), theirs_said in zip(asked, answers, strict=True):
            about = {k: v for k, v in q.items() if k != "ask"} | {"function": ASKED[q["kind"]]}
            if "error" in theirs_said:
                raise SystemExit(f"{q['what']}: {theirs_said['error']}")
            cases.append(about | {"ours": ours, "peer": theirs_said["value"]})
        peer, own = run_json(python, "peer-speeds"), run_json(python, "own-speeds", path=home / "ours")
        speeds = [{"what": n, "unit": "1/s", "ours": own[n]} | ({"peer": peer[n]} if n in peer else {}) for n in own]
        times = import_times(python, home / "ours" / "mlsysim", home / "ours"), import_times(python, theirs, None)
        for i, name in enumerate(("import, bytecode at hand", "import, first time")):
            speeds.insert(i, {"what": name, "unit": "s", "ours": times[0][i], "peer": times[1][i]})
    conditions = {
        "peer": PEER,
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        "machine": f"{os.cpu_count()} cores ({platform.machine()}), shared with other work",
        "times": f"processor time: medians of {REPEATS} processes for imports, {SECONDS:g} s of repetition for solves",
        "ours": "calibrated, with the constants refitted without the row's source, for measured rows; datasheet otherwise",
    }
    write(cases, speeds, conditions)
    for c in [*speeds, *cases]:
        print(c["what"], "|", c.get("truth"), "|", c["ours"], "|", c.get("peer"))


if __name__ == "__main__":
    main()
