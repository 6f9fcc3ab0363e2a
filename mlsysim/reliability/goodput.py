"""Where the time of a fleet goes: work that lasts, checkpoints, work done twice, restarts, waiting, and spares."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlsysim import units
from mlsysim._numeric import Num, all_true, is_array, widening
from mlsysim.equations import NON_NEGATIVE, POSITIVE, Domain, check_argument, equation
from mlsysim.errors import InputError, unknown_name
from mlsysim.reliability.checkpoints import (
    checkpoint_overhead,
    exact_goodput,
    first_order_goodput,
    lost_work,
    restart_share,
    stall_time,
    write_time,
)
from mlsysim.reliability.failures import cluster_mtbf, expected_failures, spare_availability, unavailability
from mlsysim.reliability.intervals import best_interval
from mlsysim.results import CALLER, Explanation, Input, Result, Term, labelled, plain, share, shown

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

# Whether training waits for a checkpoint or goes on meanwhile.
METHODS = ("waits", "background")
_POSITIVE, _NON_NEGATIVE = Domain.of(POSITIVE), Domain.of(NON_NEGATIVE)


@equation(
    "eq-fleet-goodput",
    formula="nodes / (nodes + spares) * availability * goodput",
    domain={"goodput": "[0, 1]", "availability": "[0, 1]", "nodes": "[1, inf)"},
)
def fleet_goodput(goodput: Num, availability: Num, nodes: Num, spares: Num = 0.0) -> Num:
    """Share of all node-hours, spares included, that is work that lasts.

    Formula: nodes / (nodes + spares) x availability x goodput.

    Parameters
    ----------
    goodput : float or array, 1
        Share of the job's time that is work that lasts, while it has its nodes.
    availability : float or array, 1
        Share of the time that it has them.
    nodes : float or array, 1
        Nodes that the job needs.
    spares : float or array, 1
        Nodes that stand by.

    Returns
    -------
    float or array, 1

    Assumptions: a spare does nothing else while it stands by.

    >>> round(fleet_goodput(0.95, 0.999, 128, 12), 4)
    0.8677

    Source: kokolis2024reliability, effective training time ratio; the spares are added here.
    """
    return nodes / (nodes + spares) * availability * goodput


@dataclass(frozen=True)
class Goodput(Result):
    """What :func:`training_goodput` returns; SI units, floats or arrays. ``parts`` sum to 1."""

    method: str
    mtbf: Num
    write_time: Num
    stall: Num
    lag: Num
    interval: Num
    goodput: Num  # of the job's time while it has its nodes
    first_order: Num | None  # None where its losses would exceed the whole time
    lost_work: Num  # seconds per failure
    availability: Num
    fleet: Num  # of all node-hours
    terms: tuple[Term, ...]
    given: Mapping[str, Num]
    origins: Mapping[str, str]

    @property
    def parts(self) -> dict[str, Num]:
        """Shares of all node-hours, spares included; they sum to 1."""
        nodes, spares = self.given["nodes"], self.given["spares"]
        running = nodes / (nodes + spares) * self.availability
        restarting = restart_share(self.given["restart"], self.mtbf)
        return {
            "work": self.fleet,
            "checkpoints": self.fleet * checkpoint_overhead(self.stall, self.interval),
            "rework": running * (1 - restarting) * self.lost_work / self.mtbf,
            "restarts": running * restarting,
            "waiting for nodes": nodes / (nodes + spares) * (1 - self.availability),
            "idle spares": spares / (nodes + spares),
        }

    def failures(self, duration: Num) -> Num:
        """Failures to expect in so much elapsed time."""
        return expected_failures(duration, self.mtbf)

    def summary(self) -> list[str]:
        lost = {name: value for name, value in self.parts.items() if name != "work" and not all_true(value == 0)}
        largest = sorted(lost, key=lambda name: -float(lost[name].mean() if is_array(lost[name]) else lost[name]))
        return labelled(
            f"goodput {share(self.fleet)} of all node-hours, {share(self.goodput)} of the job's own time",
            ("lost to", ", ".join(f"{name} {share(lost[name])}" for name in largest)),
            ("failures", f"one every {shown(self.mtbf, 's')}, each costs {shown(self.lost_work, 's')} of work"),
            (
                "checkpoints",
                f"every {shown(self.interval, 's')}, training {_WORDS[self.method]} of {shown(self.write_time, 's')}",
            ),
            ("availability", share(self.availability)),
        )

    def chart(self) -> "Drawing | None":
        """Where the node-hours go."""
        from mlsysim.drawing import shapes

        parts = {name: 100.0 * value for name, value in self.parts.items()}
        return shapes.terms("all node-hours", parts, "share of the node-hours, %", "1")

    def explain(self) -> Explanation:
        """Each step with its equation and numbers, the source of each input, and where the node-hours go."""
        shares = ", ".join(f"{name} {_percent(value)}" for name, value in self.parts.items())
        return Explanation(
            title=f"goodput {_percent(self.fleet)} of all node-hours; checkpoints: training {_WORDS[self.method]}",
            terms=self.terms,
            inputs=tuple(
                Input(name, value, _UNITS[name], self.origins.get(name, CALLER)) for name, value in self.given.items()
            ),
            notes=(
                f"Of all node-hours: {shares}.",
                _FAR_OFF
                if self.first_order is None
                else f"To first order the job's goodput is {_percent(self.first_order)} "
                f"(off by {_points(self.first_order - self.goodput)}).",
                "Assumed: failures at a constant rate, independent, noticed at once unless restart says otherwise; "
                "no silent corruption.",
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers in SI units, for JSON."""
        found = {
            "method": self.method,
            "mtbf_s": self.mtbf,
            "write_time_s": self.write_time,
            "stall_s": self.stall,
            "lag_s": self.lag,
            "interval_s": self.interval,
            "lost_work_per_failure_s": self.lost_work,
            "goodput": self.goodput,
            "goodput_first_order": self.first_order,
            "availability": self.availability,
            "fleet_goodput": self.fleet,
            "parts": self.parts,
            "inputs": dict(self.given),
        }
        return dict(plain(found))


_FAR_OFF = (
    "The first-order form (eq-goodput-checkpoint) says nothing here: its losses would add up to more than the whole time. "
    "It holds where a write is much shorter than the interval, and the interval than the time between failures."
)
_WORDS = {"waits": "waits for the write", "background": "goes on while it is written"}
_UNITS = {
    "nodes": "1",
    "node_mtbf": "s",
    "restart": "s",
    "checkpoint_bytes": "byte",
    "writers": "1",
    "writer_bandwidth": "byte/s",
    "storage_bandwidth": "byte/s",
    "copy_bandwidth": "byte/s",
    "spares": "1",
    "repair": "s",
}


def _percent(value: Num) -> str:
    if is_array(value):
        return f"{_percent(float(value.min()))} to {_percent(float(value.max()))}"
    return units.percent(value, signed=False)


def _points(value: Num) -> str:
    if is_array(value):
        return f"{_points(float(value.min()))} to {_points(float(value.max()))}"
    return f"{100 * value:+.2g} percentage points"


@widening
def training_goodput(
    nodes: Num,
    node_mtbf: Num,
    restart: Num,
    checkpoint_bytes: Num,
    writer_bandwidth: Num,
    storage_bandwidth: Num,
    writers: Num | None = None,
    interval: Num | None = None,
    method: str = "waits",
    copy_bandwidth: Num | None = None,
    spares: Num = 0,
    repair: Num = 0.0,
    origins: Mapping[str, str] | None = None,
) -> Goodput:
    """Goodput of a long training job: how much of all node-hours becomes work that lasts.

    Parameters
    ----------
    nodes : float or array, 1
        Nodes of the job; it stops when any of them fails.
    node_mtbf : float or array, s
        Mean time between failures of one node (not of a device, not of the cluster), as in ``"264 day"``.
    restart : float or array, s
        Time from a failure until the job works again, with a node at hand: notice, replace, load, warm up.
    checkpoint_bytes : float or array, byte
        Whole checkpoint, optimizer state included (:func:`mlsysim.memory.checkpoint_bytes`), as in ``"5.7 TB"``.
    writer_bandwidth : float or array, byte/s
        Bandwidth of one writer of a checkpoint.
    storage_bandwidth : float or array, byte/s
        Bandwidth that the storage takes in altogether.
    writers : float or array, 1, optional
        Writers at the same time (default: one per node).
    interval : float or array, s, optional
        Work between two checkpoints (default: the best).
    method : str, one of METHODS
        Whether training waits until a checkpoint is written, or goes on in the background. With ``background`` it waits for the copy
        into the host's memory only, and the checkpoint counts once it is written.
    copy_bandwidth : float or array, byte/s, optional
        Bandwidth of one writer's copy into its host's memory, with method background.
    spares : float or array, 1
        Nodes that stand by.
    repair : float or array, s
        Mean time until a failed node is back (default: 0, a replacement is always at hand).
    origins : mapping, optional
        Where the numbers came from, by name, for ``explain()``.

    Returns
    -------
    Goodput
        Frozen result with ``goodput``, ``fleet``, ``parts`` (they sum to 1) and ``explain()``.

    Raises
    ------
    InputError, UnknownNameError
        A value out of range; an unknown method; a copy bandwidth that is missing or not needed.

    Assumptions: failures are Poisson, independent, noticed; checkpoints are taken after equal intervals and are good; a
    spare is in place within ``restart``; nodes fail while they wait as they do at work.

    >>> g = training_goodput(2048, 2048 * 11135.0, restart=600.0, checkpoint_bytes=5.67e12, writer_bandwidth=5e9,
    ...     storage_bandwidth=2e12)
    >>> round(g.goodput, 3), round(g.interval), round(sum(g.parts.values()), 12)
    (0.926, 249, 1.0)
    """
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    if (method == "background") != (copy_bandwidth is not None):
        raise InputError("training_goodput: copy_bandwidth is needed with method='background', and only there")
    writers = nodes if writers is None else writers
    for name, value, domain in (("repair", repair, _NON_NEGATIVE), ("interval", interval, _POSITIVE)):
        if value is not None:
            check_argument("training_goodput", name, value, "s", domain)
    at = {
        "bytes": checkpoint_bytes,
        "writers": writers,
        "writer_bandwidth": writer_bandwidth,
        "storage_bandwidth": storage_bandwidth,
    }
    mtbf, write = cluster_mtbf(node_mtbf, nodes), write_time(**at)
    terms = [
        Term("MTBF of the job", mtbf, "eq-cluster-mtbf", {"node_mtbf": node_mtbf, "nodes": nodes}),
        Term("checkpoint written in", write, "eq-checkpoint-write", at),
    ]
    if method == "waits":
        stall, lag, floor = write, 0.0 * write, 0.0 * write
    else:
        copying = {**at, "writer_bandwidth": copy_bandwidth, "storage_bandwidth": writers * copy_bandwidth}
        copy, lag, floor = write_time(**copying), write, write
        terms.append(Term("copied in", copy, "eq-checkpoint-write", copying))
        stall = copy
    chosen = best_interval(stall, mtbf, floor) if interval is None else interval
    if not all_true(chosen > 0):
        raise InputError("training_goodput: a checkpoint of 0 bytes needs an interval; give one above 0 s")
    if interval is None and all_true(stall > 0) and all_true(chosen > floor):
        terms.append(Term("best interval", chosen, "eq-optimal-interval", {"write_time": stall, "mtbf": mtbf}))
    if method == "background":
        waiting = {"copy_time": stall, "write_time": write, "interval": chosen}
        stall = stall_time(**waiting)
        terms.append(Term("training waits", stall, "eq-checkpoint-stall", waiting))
    cycle = {"interval": chosen, "write_time": stall, "mtbf": mtbf}
    lost, gone = lost_work(**cycle, lag=lag), {**cycle, "restart": restart, "lag": lag}
    goodput, first = exact_goodput(**gone), _first_order(gone)
    down = {"node_mtbf": node_mtbf, "repair": repair}
    away = unavailability(**down)
    standing = {"nodes": nodes, "spares": spares, "unavailability": away}
    availability = spare_availability(**standing)
    whole = {"goodput": goodput, "availability": availability, "nodes": nodes, "spares": spares}
    fleet = fleet_goodput(**whole)
    overhead = {"write_time": stall, "interval": chosen}
    coming_back = {"restart": restart, "mtbf": mtbf}
    terms += [
        Term("checkpoints over work", checkpoint_overhead(**overhead), "eq-checkpoint-overhead", overhead),
        Term("lost per failure", lost, "eq-lost-work", {**cycle, "lag": lag}),
        Term("restarts", restart_share(**coming_back), "eq-restart-share", coming_back),
        Term("goodput of the job", goodput, "eq-goodput-exact", gone),
        *([] if first is None else [Term("the same, first order", first, "eq-goodput-checkpoint", gone)]),
        Term("a node is away", away, "eq-unavailability", down),
        Term("nodes at hand", availability, "eq-spares", standing),
        Term("goodput of the fleet", fleet, "eq-fleet-goodput", whole),
    ]
    given: dict[str, Num] = {
        "nodes": nodes,
        "node_mtbf": node_mtbf,
        "restart": restart,
        "checkpoint_bytes": checkpoint_bytes,
        "writers": writers,
        "writer_bandwidth": writer_bandwidth,
        "storage_bandwidth": storage_bandwidth,
        **({} if copy_bandwidth is None else {"copy_bandwidth": copy_bandwidth}),
        "spares": spares,
        "repair": repair,
    }
    return Goodput(
        method=method,
        mtbf=mtbf,
        write_time=write,
        stall=stall,
        lag=lag,
        interval=chosen,
        goodput=goodput,
        first_order=first,
        lost_work=lost,
        availability=availability,
        fleet=fleet,
        terms=tuple(terms),
        given=given,
        origins=dict(origins or {}),
    )


def _first_order(gone: Mapping[str, Num]) -> Num | None:
    """What the first-order form says, or nothing where it refuses."""
    try:
        return first_order_goodput(**gone)
    except InputError:
        return None
