"""Two capstones: size a training run and a serving fleet from a brief, with a budget, a carbon limit and error bars.

A report is plain data. What can be checked is checked against the library; what a person must read is in the rubric.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from mlsysim import units
from mlsysim.course.exercises import tasks
from mlsysim.course.exercises.definitions import Prompt, _index, normalise_seed
from mlsysim.errors import InputError, unknown_name
from mlsysim.parallelism import Plan
from mlsysim.tables import Table, table

_TRAINING: Mapping[str, tuple[Any, ...]] = {
    "model": ("Llama-3.1-8B", "Llama-2-13B", "Qwen3-14B", "Qwen3-8B"),
    "tokens": (1e12, 0.6e12, 1.5e12, 2e12),
    "nodes": (16, 8, 32),
    "price": (2.5, 2.1, 3.0),
    "pue": (1.2, 1.1, 1.3),
    "intensity": (0.38, 0.056, 0.25),
}
_SERVING: Mapping[str, tuple[Any, ...]] = {
    "model": ("Qwen3-32B", "Llama-3.1-8B", "Qwen3-14B"),
    "rate": (40.0, 25.0, 60.0),
    "input_len": (1000, 1600, 700),
    "output_len": (300, 200, 400),
    "ttft": (0.5, 0.8),
    "itl": (0.03, 0.04),
    "pue": (1.2, 1.3),
    "intensity": (0.38, 0.056, 0.25),
}
DEVICES = {"H100": 2.5, "H200": 3.4, "B200": 6.0}  # dollars an hour that the briefs offer
RUBRIC = (
    "2 points: the report names its assumptions and says which of them it would check first, and how.",
    "2 points: every figure carries a range, and the text says where the range comes from.",
    "2 points: at least one alternative (other device, plan or precision) is priced and turned down for a reason.",
    "2 points: what binds is named (arithmetic, memory, network, waiting), with the term that shows it.",
    "1 point: says what would change the decision: price, grid, model or load.",
    "1 point: reads as one page that somebody who signs the order can follow.",
)


# A sample page for each, in the words of somebody who signs nothing that they cannot explain; the figures stand in the report.
PAGES = {
    "training": (
        "We order the nodes in the report and run them as pure data parallelism where the model fits, with its degree of tensor "
        "parallelism where it does not. The likely duration comes from efficiencies fitted to published steps; the range is that of "
        "past errors on sources that were left out, and it is what the deadline is held against. The products bind most of the step, "
        "so a faster network buys little, and fp8 would buy more; we turn it down because nobody here has trained this model in fp8. "
        "Half the nodes would cost about the same and take twice as long, past the deadline. Failures are not in the figures: at one "
        "every few days a restart and half an interval between checkpoints are lost each time, which the long end of the range "
        "covers. We would check one assumption first: an hour on two nodes, whose step time either lies in our range or ends the plan. "
        "A dirtier grid, a dearer device or twice the tokens would change the decision; a longer deadline would not."
    ),
    "serving": (
        "We rent the devices in the report. The number is what carries the load within both targets in the library's model of a current "
        "server; its range comes from past errors, and we ask the supplier for an option on the high end. What the report "
        "names binds: if it is a target, relaxing it would save devices; if it is the rate, no target alone costs anything. We priced all three offers and took the cheapest "
        "that carries the load; fp8 weights would need fewer devices, and wait until somebody has judged the answers. The carbon is that "
        "of the boards at their design power, an upper bound. First we would check the length of prompts: the number of devices goes with "
        "them, and nobody has counted them yet. A load half as large again needs a new order, not a new decision."
    ),
}


def _drawn(name: str, seed: object) -> dict[str, Any]:
    options = {"training": _TRAINING, "serving": _SERVING}.get(name)
    if options is None:
        raise unknown_name("capstone", name, ["training", "serving"])
    text = normalise_seed(seed)
    return {n: v[_index(f"capstone|{name}|{text}|{n}", len(v)) if text else 0] for n, v in options.items()}


def _train(g: Mapping[str, Any], nodes: int, plan: Plan | None = None) -> Any:
    return _trained(tuple(g.items()), nodes, plan)


@lru_cache(maxsize=64)
def _trained(given: tuple[tuple[str, Any], ...], nodes: int, plan: Plan | None) -> Any:
    import mlsysim

    g = dict(given)

    return mlsysim.train(
        g["model"], f"{nodes} x DGX-H100", tokens=g["tokens"], global_batch=512, seq=4096, price=f"{g['price']} USD/h",
        pue=g["pue"], plan=plan,
    )  # fmt: skip


def _figures(g: Mapping[str, Any], nodes: int, made: Any) -> dict[str, tuple[float, float, float]]:
    """Days, dollars and tonnes of a training run: low, likely, high."""
    steps = g["tokens"] / (512 * 4096)
    days = [t * steps / units.day for t in (made.range[0], made.step.time, made.range[1])]
    dollars = [d * 24 * 8 * nodes * g["price"] for d in days]
    tonnes = [d * units.day * made.bill.power / units.kWh * g["intensity"] / 1e3 for d in days]
    return {n: (v[0], v[1], v[2]) for n, v in (("days", days), ("dollars", dollars), ("tonnes", tonnes))}


def _serve(g: Mapping[str, Any], device: str) -> Any:
    return _served(tuple(g.items()), device)


@lru_cache(maxsize=64)
def _served(given: tuple[tuple[str, Any], ...], device: str) -> Any:
    import mlsysim

    g = dict(given)

    return mlsysim.serve(
        g["model"], device, slo=mlsysim.SLO(ttft=g["ttft"], itl=g["itl"]), rate=g["rate"], input_len=g["input_len"],
        output_len=g["output_len"], price=f"{DEVICES[device]} USD/h", pue=g["pue"],
    )  # fmt: skip


def limits(name: str, seed: object = "") -> dict[str, float]:
    """What a brief allows: by how much more than one way to do it needs."""
    g = _drawn(name, seed)
    if name == "training":
        found = _figures(g, g["nodes"], _train(g, g["nodes"]))
        return {what: float(f"{1.2 * found[what][2]:.2g}") for what in ("days", "dollars", "tonnes")}
    hourly = {d: _serve(g, d).devices * price for d, price in DEVICES.items() if _serve(g, d).fits}
    return {"dollars_per_hour": float(f"{1.25 * min(hourly.values()):.2g}")}


def brief(name: str, seed: object = "") -> Prompt:
    """The brief with a reader's numbers, as a client writes it.

    >>> "tokens" in brief("training", "ada")
    True
    """
    g, most = _drawn(name, seed), limits(name, seed)
    if name == "training":
        text = (
            f"We want to train **{g['model']}** from scratch on {g['tokens'] / 1e12:g} trillion tokens, sequences of 4,096, steps of "
            f"512 sequences, in bf16. We can rent DGX-H100 nodes at ${g['price']:.2f} per device and hour, as many as you ask for. The hall "
            f"has a PUE of {g['pue']}, the grid {g['intensity'] * 1000:g} g per kWh; count the boards' power. It must be done, even "
            f"at the long end of your range, in **{most['days']:g} days**, for at most **${most['dollars']:,.0f}** and **{most['tonnes']:g} t** "
            "of CO2 equivalent. How many nodes do we order, how are they used, how long will it take, and how sure are you? Leave "
            "failures out of the numbers, and say in words what they would do. Report: `nodes`, `plan` (a "
            "mapping: the arguments of `mlsysim.parallelism.Plan`), and `days`, `dollars`, `tonnes`, each as [low, likely, high]."
        )
    else:
        offers = ", ".join(f"{d} at ${p:.2f}" for d, p in DEVICES.items())
        text = (
            f"We want to serve **{g['model']}** for {g['rate']:g} requests per second, prompts of {g['input_len']} and answers of "
            f"{g['output_len']} tokens on average. 99 of 100 requests get their first token within {g['ttft']:g} s, and tokens then come every "
            f"{1e3 * g['itl']:g} ms on average. Offers per device and hour: {offers}. The hall has a PUE of {g['pue']}, the grid "
            f"{g['intensity'] * 1000:g} g per kWh; count the boards' power. We have **${most['dollars_per_hour']:g} per hour**. Which device, "
            "how many, and how sure are you? Report: `device`, `devices` as [low, likely, high], `dollars_per_hour` for the likely "
            "number, `tonnes_per_month` (30 days) for it, and `binds` (one word: what the number hangs on, a target, the rate or the memory)."
        )
    return Prompt(text)


@dataclass(frozen=True, repr=False)
class Findings:
    """What a check of a report found; prints as a table."""

    rows: tuple[tuple[str, float, float, str], ...]

    @property
    def points(self) -> float:
        return sum(r[1] for r in self.rows)

    @property
    def full(self) -> float:
        return sum(r[2] for r in self.rows)

    def table(self) -> Table:
        """What was looked at, points, and a sentence."""
        return table(("looked at", "points", "of", ""), [(a, f"{b:g}", f"{c:g}", d) for a, b, c, d in self.rows])

    def __repr__(self) -> str:
        return f"{self.table()}\n{self.points:g} of {self.full:g} points; a person reads the rest."

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def _near(given: Any, wanted: float, within: float) -> bool:
    return abs(float(given) - wanted) <= within * abs(wanted)


def _training(
    report: Mapping[str, Any], g: Mapping[str, Any], most: Mapping[str, float]
) -> list[tuple[str, float, float, str]]:
    nodes = int(report["nodes"])
    if not 1 <= nodes <= 512:
        raise InputError(f"nodes = {nodes} is outside [1, 512]")
    plan = Plan(**{n: tuple(v) if isinstance(v, list) else v for n, v in report["plan"].items() if v is not None})
    if plan.devices != 8 * nodes:
        raise InputError(f"plan: its degrees make {plan.devices} devices, and {nodes} nodes have {8 * nodes}")
    made = _train(g, nodes, plan)
    rows = [("the plan fits", 2.0 * made.fits, 2.0, "" if made.fits else "it does not fit: count its memory")]
    if not made.fits:
        return rows
    found = _figures(g, nodes, made)
    for what, points in (("days", 2.0), ("dollars", 1.0), ("tonnes", 1.0)):
        low, likely, high = (float(x) for x in report[what])
        right = _near(likely, found[what][1], 0.1)
        rows.append(
            (
                f"{what}, likely",
                points * right,
                points,
                "" if right else "not what the library says for this plan; within 10 % counts",
            )
        )
        ordered = low < likely < high and _near(low, found[what][0], 0.15) and _near(high, found[what][2], 0.15)
        rows.append(
            (
                f"{what}, range",
                1.0 * ordered,
                1.0,
                "" if ordered else "the ends of the range of past errors; within 15 % count",
            )
        )
        kept = high <= most[what]
        rows.append((f"{what}, limit", 1.0 * kept, 1.0, "" if kept else f"your long end is above {most[what]:g}"))
    best = min(_figures(g, n, m)["dollars"][1] for n in (g["nodes"], 2 * g["nodes"]) if (m := _train(g, n)).fits)
    cheap = float(report["dollars"][1]) <= 1.1 * best
    rows.append(
        (
            "beside the best that a search finds",
            2.0 * cheap,
            2.0,
            "" if cheap else "a search finds a plan that costs a tenth less",
        )
    )
    return rows


def _serving(
    report: Mapping[str, Any], g: Mapping[str, Any], most: Mapping[str, float]
) -> list[tuple[str, float, float, str]]:
    device = str(report["device"])
    if device not in DEVICES:
        raise unknown_name("device", device, list(DEVICES))
    made = _serve(g, device)
    low, likely, high = (int(x) for x in report["devices"])
    enough, range_ = made.fits and likely >= made.devices, made.devices_range
    tonnes = likely * made.bill.power / made.devices * 30 * units.day / units.kWh * g["intensity"] / 1e3
    within = low <= likely <= high and abs(low - range_[0]) <= 1 and abs(high - range_[1]) <= 1
    paid = _near(report["dollars_per_hour"], likely * DEVICES[device], 0.01)
    kept = float(report["dollars_per_hour"]) <= most["dollars_per_hour"]
    best = min(_serve(g, d).devices * p for d, p in DEVICES.items() if _serve(g, d).fits)
    cheap = enough and likely * DEVICES[device] <= 1.1 * best
    word = str(report.get("binds", "")).casefold()
    said = bool(word) and word in str(made.binds).casefold()
    return [
        ("the fleet carries the load", 3.0 * enough, 3.0, "" if enough else f"it takes more of {device}"),
        (
            "the range",
            2.0 * within,
            2.0,
            "" if within else "how many would it take at the ends of the range of past errors?",
        ),
        ("dollars", 1.0 * paid, 1.0, "" if paid else "devices times the price of the offer"),
        ("the budget", 2.0 * kept, 2.0, "" if kept else f"above ${most['dollars_per_hour']:g} per hour"),
        (
            "tonnes",
            1.0 * _near(report["tonnes_per_month"], tonnes, 0.05),
            1.0,
            "boards' power x PUE x 720 h x intensity",
        ),
        (
            "what binds",
            1.0 * said,
            1.0,
            "" if said else "the answer of the library says what: a target, the rate or the memory?",
        ),
        (
            "beside the best that a search finds",
            2.0 * cheap,
            2.0,
            "" if cheap else "another device carries it for a tenth less",
        ),
    ]


_LOOK: Mapping[str, Callable[..., list[tuple[str, float, float, str]]]] = {"training": _training, "serving": _serving}


def check_report(name: str, report: object, seed: object = "") -> Findings:
    """What can be checked of a report: is it allowed, are its figures those of its own plan, does it carry its range.

    Raises
    ------
    InputError
        A report without the parts that the brief asks for.
    """
    g, most = _drawn(name, seed), limits(name, seed)
    try:
        data = tasks.plain(report)
        return Findings(tuple(_LOOK[name](data, g, most)))
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"report: {type(error).__name__}: {error}; give the parts that the brief names") from error


def sample(name: str, seed: object = "") -> dict[str, Any]:
    """A report that the check passes in full: one good answer, not the only one."""
    g = _drawn(name, seed)
    if name == "training":
        nodes = min((g["nodes"], 2 * g["nodes"]), key=lambda n: _figures(g, n, _train(g, n))["dollars"][1])
        most = limits(name, seed)
        if _figures(g, nodes, _train(g, nodes))["days"][2] > most["days"]:
            nodes = g["nodes"]
        made = _train(g, nodes)
        plan = {f.name: v for f in fields(Plan) if (v := getattr(made.plan, f.name)) != f.default}
        return {"nodes": nodes, "plan": plan, **{n: list(v) for n, v in _figures(g, nodes, made).items()}}
    device = min((d for d in DEVICES if _serve(g, d).fits), key=lambda d: _serve(g, d).devices * DEVICES[d])
    made = _serve(g, device)
    return {
        "device": device,
        "devices": [made.devices_range[0], made.devices, made.devices_range[1]],
        "dollars_per_hour": made.devices * DEVICES[device],
        "tonnes_per_month": made.bill.power * 30 * units.day / units.kWh * g["intensity"] / 1e3,
        "binds": next(
            w
            for w in ("ITL", "TTFT", "memory", "load", "rate", "capacity", "")
            if w.casefold() in str(made.binds).casefold()
        ),
    }
