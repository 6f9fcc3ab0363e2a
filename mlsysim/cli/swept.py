"""The solvers that ``mlsysim sweep`` knows: what each may be asked, in which unit, and which of its answers become columns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mlsysim import catalog, inference, roofline, training
from mlsysim.cli.arguments import pick_model
from mlsysim.cli.training import MODES, pick_efficiencies
from mlsysim.errors import InputError, unknown_name
from mlsysim.parallelism import Plan


@dataclass(frozen=True)
class Swept:
    """A solver as the command line sees it. Numbers become vectors; words and whole numbers are taken one at a time."""

    solve: Callable[..., Mapping[str, Any]]
    numbers: Mapping[str, str]  # argument and unit
    answers: tuple[str, ...]
    words: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    required: tuple[str, ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        return (*self.words, *self.whole, *self.numbers)


def _mode(mode: str, known: tuple[str, ...]) -> str:
    if mode not in known:
        raise InputError(f"sweep: mode = {mode!r} is not one of {', '.join(known)}")
    return mode


def _kernel(device: str, **given: Any) -> Mapping[str, Any]:
    result = roofline.kernel_time(device, **given)
    return {"time_s": result.time, "bound": result.bound}


def _train(
    model: str,
    node: str,
    global_batch: int,
    seq: Any,
    nodes: int = 1,
    mode: str = "datasheet",
    precision: str = "bf16",
    task: str = "pretrain",
    intra_bandwidth: Any = None,
    inter_bandwidth: Any = None,
    attn_len: Any = None,
    variation: Any = None,
    **split: Any,
) -> Mapping[str, Any]:
    m, cluster = pick_model(model), catalog.cluster(node, nodes)
    group = split.get("tp", 1) * split.get("pp", 1) * split.get("cp", 1)
    if cluster.devices % group:
        raise InputError(f"plan: tp x pp x cp = {group} must divide the {cluster.devices} devices of {nodes} x {node}")
    plan = Plan(dp=cluster.devices // group, **split).check(m, cluster.devices, global_batch)
    efficiencies = pick_efficiencies(_mode(mode, MODES), cluster.node.device, precision)
    result = training.training_step(
        m,
        plan,
        cluster,
        global_batch=global_batch,
        seq=seq,
        intra_bandwidth=intra_bandwidth,
        inter_bandwidth=inter_bandwidth,
        precision=precision,
        efficiencies=efficiencies,
        attn_len=attn_len,
        task=task,
        variation=variation,
    )
    return {
        "dp": plan.dp,
        "time_s": result.time,
        "tokens_per_s": result.tokens / result.time,
        "mfu": result.mfu,
        "memory_bytes": result.memory.total,
        "fits": result.fits,
    }


def _serve(
    model: str,
    device: str,
    input_len: Any,
    output_len: Any,
    batch: Any = 1.0,
    cached_len: Any = 0.0,
    mode: str = "datasheet",
    precision: str = "bf16",
    **split: Any,
) -> Mapping[str, Any]:
    efficiencies = inference.DATASHEET
    if _mode(mode, ("datasheet", "calibrated")) == "calibrated":
        from mlsysim.validation import calibrated

        efficiencies = calibrated(device, precision)
    served = inference.deploy(pick_model(model), device, precision=precision, efficiencies=efficiencies, **split)
    result = inference.generate(served, input_len=input_len, output_len=output_len, batch=batch, cached_len=cached_len)
    return {
        "ttft_s": result.ttft,
        "itl_s": result.itl,
        "e2e_s": result.e2e,
        "tokens_per_s": result.tokens_per_s,
        "memory_bytes": result.memory,
        "fits": result.fits,
    }


SOLVERS: Mapping[str, Swept] = {
    "kernel": Swept(
        _kernel,
        {
            "flops": "FLOP",
            "bytes": "byte",
            "efficiency": "1",
            "memory_efficiency": "1",
            "kernels": "1",
            "launch_overhead": "s",
        },
        ("time_s", "bound"),
        words=("device", "precision"),
        required=("device", "flops", "bytes"),
    ),
    "train": Swept(
        _train,
        {"seq": "1", "intra_bandwidth": "byte/s", "inter_bandwidth": "byte/s", "attn_len": "1", "variation": "1"},
        ("dp", "time_s", "tokens_per_s", "mfu", "memory_bytes", "fits"),
        words=("model", "node", "precision", "mode", "sharding", "recompute", "cp_comm_type", "order", "task"),
        whole=(
            "nodes",
            "tp",
            "pp",
            "cp",
            "ep",
            "virtual_stages",
            "micro_batch",
            "hsdp_group",
            "global_batch",
        ),
        required=("model", "node", "global_batch", "seq"),
    ),
    "serve": Swept(
        _serve,
        {"batch": "1", "input_len": "1", "output_len": "1", "cached_len": "1"},
        ("ttft_s", "itl_s", "e2e_s", "tokens_per_s", "memory_bytes", "fits"),
        words=("model", "device", "precision", "weights", "kv", "mode"),
        whole=("tp", "pp", "dp", "ep"),
        required=("model", "device", "input_len", "output_len"),
    ),
}


def find(name: str) -> Swept:
    """A solver by its name, or any equation of the book by its label.

    >>> find("eq-kv-cache").numbers["head_dim"]
    '1'
    """
    if name in SOLVERS:
        return SOLVERS[name]
    equations = _equations()
    if name not in equations:
        raise unknown_name("solver", name, [*SOLVERS, *equations])
    found = equations[name]
    optional = {p for p, v in _parameters(found.function).items() if v.default is not v.empty}
    numbers = {argument: unit for argument, unit in found.units.items() if argument != "return"}

    def solve(**given: Any) -> Mapping[str, Any]:
        return {found.name: found.function(**given)}

    return Swept(solve, numbers, (found.name,), required=tuple(n for n in numbers if n not in optional))


def _parameters(function: Callable[..., Any]) -> Mapping[str, Any]:
    import inspect

    return inspect.signature(function).parameters


def _equations() -> Mapping[str, Any]:
    """Every registered equation; a module registers its own when it is imported."""
    import importlib
    import pkgutil

    import mlsysim
    from mlsysim.equations import REGISTRY

    for module in pkgutil.iter_modules(mlsysim.__path__):
        if module.name not in ("classroom", "cli", "quantities"):
            importlib.import_module(f"mlsysim.{module.name}")
    return REGISTRY
