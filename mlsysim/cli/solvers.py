"""The solvers that ``mlsysim sweep`` knows: what each may be asked, in which unit, and which of its answers become columns."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mlsysim import catalog, cost, energy, inference, memory, reliability, roofline, training, transformer
from mlsysim.api.serving import serve
from mlsysim.cli.arguments import number, pick_model
from mlsysim.declared import parameters
from mlsysim.efficiencies import DEFAULT, check_mode, has_range
from mlsysim.equations import Domain, check_argument, registered
from mlsysim.errors import InputError, unknown_name
from mlsysim.parallelism import Plan

_OWNING = tuple(n for n, p in parameters(cost.ownership_cost).items() if p.required and n not in ("devices", "price"))


@dataclass(frozen=True)
class Swept:
    """A solver as the command line sees it. Numbers become vectors; words and whole numbers are taken one at a time."""

    solve: Callable[..., Mapping[str, Any]]
    numbers: Mapping[str, str]  # argument and unit
    answers: tuple[str, ...]
    words: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    endless: tuple[str, ...] = ()  # answers that may be infinite: "never", null in JSON
    unknown: tuple[str, ...] = ()  # answers that there may be none of: nan, null in JSON

    def parse(self, name: str, text: str) -> float:
        """A number of the command line in SI units; a price may be the name of one in the catalogue."""
        return number(text, self.numbers.get(name, "1"), f"sweep: {name}")

    @property
    def arguments(self) -> tuple[str, ...]:
        return (*self.words, *self.whole, *self.numbers)


def _range(used: Any, range_of: Callable[[], Any]) -> dict[str, Any]:
    """Which efficiencies an answer rests on, and the ends of its range, which only calibrated ones have."""
    low, high = range_of().ends if has_range(used.name) else (math.nan, math.nan)
    return {"efficiencies_used": used.name, "low_s": low, "high_s": high}


_RANGE = ("efficiencies_used", "low_s", "high_s")


def _kernel(device: str, **given: Any) -> Mapping[str, Any]:
    result = roofline.kernel_time(device, **given)
    return {"time_s": result.time, "bound": result.bound}


def _train(
    model: str, node: str, global_batch: int, nodes: int = 1, efficiencies: str = DEFAULT, **given: Any
) -> Mapping[str, Any]:
    m, cluster = pick_model(model), catalog.cluster(node, nodes)
    split = {name: given.pop(name) for name in parameters(Plan) if name in given}
    Plan(**{axis: split[axis] for axis in ("tp", "pp", "cp") if axis in split})  # whole numbers of at least 1
    group = split.get("tp", 1) * split.get("pp", 1) * split.get("cp", 1)
    if cluster.devices % group:
        raise InputError(f"plan: tp x pp x cp = {group} must divide the {cluster.devices} devices of {nodes} x {node}")
    plan = Plan(dp=cluster.devices // group, **split).check(m, cluster.devices, global_batch)
    efficiencies = check_mode("sweep", efficiencies)
    result = training.training_step(m, plan, cluster, global_batch=global_batch, efficiencies=efficiencies, **given)
    return {
        "dp": plan.dp,
        "time_s": result.time,
        **_range(result.efficiencies, result.interval),
        "tokens_per_s": result.tokens / result.time,
        "mfu": result.mfu,
        "memory_bytes": result.memory.total,
        "fits": result.fits,
    }


_BATCH = parameters(inference.generate)
_UNDER_LOAD = [
    n for n in parameters(serve) if n not in {**parameters(inference.deploy), **_BATCH}
]  # not of a static batch


def _serve(model: str, device: str, efficiencies: str = DEFAULT, **given: Any) -> Mapping[str, Any]:
    efficiencies = check_mode("sweep", efficiencies)
    asked = {"batch": 1.0} | {n: given.pop(n) for n in _BATCH if n in given}
    served = inference.deploy(pick_model(model), device, efficiencies=efficiencies, **given)
    result = inference.generate(served, **asked)
    return {
        "ttft_s": result.ttft,
        "itl_s": result.itl,
        "e2e_s": result.e2e,
        **_range(served.efficiencies, result.interval),
        "tokens_per_s": result.tokens_per_s,
        "memory_bytes": result.memory,
        "fits": result.fits,
    }


def _energy(**given: Any) -> Mapping[str, Any]:
    result = energy.run(**given)
    found = {name: value for name, value in result.to_dict().items() if name in _ENERGY_ANSWERS}
    return {name: value for name, value in found.items() if value is not None}


_ENERGY_ANSWERS = (
    *("it_power_w", "energy_j", "carbon_location_kg", "carbon_market_kg", "carbon_embodied_kg", "water_site_l"),
    *("water_source_l", "energy_per_token_j"),
)


def _cost(
    devices: Any,
    time: Any,
    price: Any = None,
    rental_rate: Any = None,
    utilisation: Any = 1.0,
    token_rate: Any = None,
    interest: Any = None,
    **parts: Any,
) -> Mapping[str, Any]:
    check_argument("cost", "utilisation", utilisation, "1", Domain.of("[0, 1]"))
    if price is None and rental_rate is None:
        raise InputError("sweep: cost needs price to own, rental_rate to rent, or both to compare")
    if price is None and parts:
        raise InputError(f"sweep: {next(iter(parts))} belongs to owning; add price=..., or leave it out")
    found: dict[str, Any] = {}
    rates: dict[str, Any] = {}
    if price is not None:
        missing = [name for name in _OWNING if name not in parts]
        if missing:
            raise InputError(
                f"sweep: owning needs {', '.join(missing)}: a missing price is not 0; say 0 where you mean it"
            )
        owned = cost.ownership_cost(devices, price=price, utilisation=utilisation, interest=interest, **parts)
        rates["owned"] = owned.rate
        found["owned_usd"] = owned.cost(time)
    if rental_rate is not None:
        rates["rented"] = cost.rental_cost(devices, utilisation, rental_rate)
        found["rented_usd"] = cost.rental_cost(devices, time * utilisation, rental_rate)
        if price is not None:
            choice = cost.own_or_rent(owned, rental_rate, utilisation)
            found["break_even_utilisation"] = choice.break_even_utilisation
            found["break_even_time_s"] = choice.break_even_time
            found["cheaper"] = choice.cheaper
    if token_rate is not None:
        for name, rate in rates.items():
            found[f"{name}_usd_per_token"] = cost.cost_per_token(rate, token_rate, utilisation)
    return found


def _reliability(
    model: str | None = None, checkpoint_bytes: Any = None, duration: Any = None, **given: Any
) -> Mapping[str, Any]:
    if (model is None) == (checkpoint_bytes is None):
        raise InputError("sweep: reliability needs either model or checkpoint_bytes")
    if model is not None:
        size = transformer.parameter_count(pick_model(model)).total
        checkpoint_bytes = memory.checkpoint_bytes(size, 2, 4, 4, 4)
    given = {"writer_bandwidth": 5e9, "checkpoint_bytes": checkpoint_bytes} | given  # as in mlsysim reliability
    result = reliability.training_goodput(**given)
    found = {
        "mtbf_s": result.mtbf,
        "write_time_s": result.write_time,
        "interval_s": result.interval,
        "lost_work_per_failure_s": result.lost_work,
        "goodput": result.goodput,
        "availability": result.availability,
        "fleet_goodput": result.fleet,
    }
    return found if duration is None else found | {"expected_failures": result.failures(duration)}


def _declared(
    solve: Callable[..., Mapping[str, Any]],
    answers: tuple[str, ...],
    *functions: Callable[..., Any],
    leave: str = "",
    required: str = "",
    whole: str = "",
    words: str = "",
    numbers: Mapping[str, str] | None = None,
    **more: tuple[str, ...],
) -> Swept:
    """A solver whose axes are the parameters that functions declare, but for those to ``leave``; the other words name exceptions."""
    known = {name: p for function in functions for name, p in parameters(function).items()}
    kinds = {
        name: p.kind for name, p in known.items() if name not in leave.split() and p.kind in ("text", "whole", "number")
    }
    kinds |= dict.fromkeys(words.split(), "text") | dict.fromkeys(whole.split(), "whole")
    units_of = {n: known[n].unit for n, kind in kinds.items() if kind == "number"} | dict(numbers or {})
    needed = required.split() or [n for n in kinds if n in known and known[n].required]
    names = {kind: tuple(n for n in kinds if kinds[n] == kind) for kind in ("text", "whole")}
    return Swept(solve, units_of, answers, names["text"], names["whole"], tuple(needed), **more)


SOLVERS: Mapping[str, Swept] = {
    "kernel": _declared(_kernel, ("time_s", "bound"), roofline.kernel_time),
    "train": _declared(
        _train,
        ("dp", "time_s", *_RANGE, "tokens_per_s", "mfu", "memory_bytes", "fits"),
        training.training_step,
        Plan,
        leave="plan cluster domain host_bandwidth dp reshard_after_forward offload",
        words="node",
        whole="nodes global_batch",
        required="model node global_batch seq",
        unknown=_RANGE[1:],
    ),
    "serve": _declared(
        _serve,
        ("ttft_s", "itl_s", "e2e_s", *_RANGE, "tokens_per_s", "memory_bytes", "fits"),
        serve,
        leave=" ".join((*_UNDER_LOAD, "inter_bandwidth")),  # a deployment has one network
        required="model device input_len output_len",
        unknown=_RANGE[1:],
    ),
    "energy": _declared(_energy, _ENERGY_ANSWERS, energy.run, leave="contract_intensity embodied busy_share"),
    "cost": _declared(
        _cost,
        (
            *("owned_usd", "rented_usd", "break_even_utilisation", "break_even_time_s", "cheaper"),
            *("owned_usd_per_token", "rented_usd_per_token"),
        ),
        cost.ownership_cost,
        leave="origins",
        numbers={"time": "s", "rental_rate": "USD/s", "token_rate": "token/s"},
        required="devices time",
        endless=("break_even_utilisation", "break_even_time_s"),
    ),
    "reliability": _declared(
        _reliability,
        (
            *("mtbf_s", "write_time_s", "interval_s", "lost_work_per_failure_s", "goodput", "availability"),
            *("fleet_goodput", "expected_failures"),
        ),
        reliability.training_goodput,
        leave="origins",
        words="model",
        numbers={"duration": "s"},
        required="nodes node_mtbf restart storage_bandwidth",
    ),
}


def find(name: str) -> Swept:
    """A solver by its name, or any equation of the book by its label.

    >>> find("eq-kv-cache").numbers["head_dim"]
    '1'
    """
    if name in SOLVERS:
        return SOLVERS[name]
    equations = registered()
    if name not in equations:
        raise unknown_name("solver", name, [*SOLVERS, *equations])
    found = equations[name]
    optional = {p for p, v in _parameters(found.function).items() if v.default is not v.empty}
    numbers = {argument: unit for argument, unit in found.units.items() if argument != "return"}

    def solve(**given: Any) -> Mapping[str, Any]:
        return {found.name: found.function(**given)}

    required = tuple(n for n in numbers if n not in optional)
    return Swept(solve, numbers, (found.name,), required=required)


def _parameters(function: Callable[..., Any]) -> Mapping[str, Any]:
    import inspect

    return inspect.signature(function).parameters
