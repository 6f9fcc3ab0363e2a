"""Where the time of a fleet goes: work that lasts, checkpoints, work done twice, restarts, waiting, and spares."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
from mlsysim.results import CALLER, Explanation, Input, Result, Term, Terms, format_rows, format_value, share

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


@equation(
    "eq-ettr",
    formula="goodput * mtbf / (mtbf + queue)",
    domain={"goodput": "[0, 1]", "mtbf": POSITIVE, "queue": NON_NEGATIVE},
)
def effective_training_time(goodput: Num, mtbf: Num, queue: Num = 0.0) -> Num:
    """Effective training time ratio (ETTR): work that lasts, over all time in which the job runs or waits to run again.

    Formula: G x M / (M + q).

    Parameters
    ----------
    goodput : float or array, 1
        Share of the job's own time that is work that lasts, as by ``exact_goodput``.
    mtbf : float or array, s
        Mean time M between failures of the job while it has its nodes.
    queue : float or array, s
        Mean time q that it waits in the scheduler's queue after each failure, those of a restart included.

    Returns
    -------
    float or array, 1

    Assumptions: those of eq-goodput-exact; a job that waits does not fail. The wait before the first start is left out.

    >>> round(effective_training_time(0.95, 3 * 3600, 600), 4)
    0.9

    Source: kokolis2024reliability, effective training time ratio; for the metric, the form with a queue is derived in the chapter.
    """
    return goodput * mtbf / (mtbf + queue)


@dataclass(frozen=True)
class Goodput(Result):
    """What :func:`training_goodput` returns; SI units, floats or arrays. ``parts`` sum to 1."""

    NUMBERS = (
        "method mtbf_s write_time_s stall_s lag_s interval_s lost_work_per_failure_s=lost_work goodput "
        "goodput_first_order=first_order availability fleet_goodput=fleet parts inputs=given"
    )

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
        return format_rows(
            f"goodput {share(self.fleet)} of all node-hours, {share(self.goodput)} of the job's own time",
            ("lost to", ", ".join(f"{name} {share(lost[name])}" for name in largest)),
            (
                "failures",
                f"one every {format_value(self.mtbf, 's')}, each costs {format_value(self.lost_work, 's')} of work",
            ),
            (
                "checkpoints",
                f"every {format_value(self.interval, 's')}, training {_WORDS[self.method]} of {format_value(self.write_time, 's')}",
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
    at = {"bytes": checkpoint_bytes, "writers": writers, "writer_bandwidth": writer_bandwidth}
    at["storage_bandwidth"] = storage_bandwidth
    terms = Terms()
    mtbf = terms("MTBF of the job", cluster_mtbf, node_mtbf=node_mtbf, nodes=nodes)
    stall = write = terms("checkpoint written in", write_time, **at)
    lag = floor = 0.0 * write
    if method == "background":
        copying = {**at, "writer_bandwidth": copy_bandwidth, "storage_bandwidth": writers * copy_bandwidth}
        stall, lag, floor = terms("copied in", write_time, **copying), write, write
    chosen = best_interval(stall, mtbf, floor) if interval is None else interval
    if not all_true(chosen > 0):
        raise InputError("training_goodput: a checkpoint of 0 bytes needs an interval; give one above 0 s")
    if interval is None and all_true(stall > 0) and all_true(chosen > floor):
        terms.append(Term("best interval", chosen, "eq-optimal-interval", {"write_time": stall, "mtbf": mtbf}))
    if method == "background":
        stall = terms("training waits", stall_time, copy_time=stall, write_time=write, interval=chosen)
    cycle = {"interval": chosen, "write_time": stall, "mtbf": mtbf}
    gone = {**cycle, "restart": restart, "lag": lag}
    terms("checkpoints over work", checkpoint_overhead, write_time=stall, interval=chosen)
    lost = terms("lost per failure", lost_work, **cycle, lag=lag)
    terms("restarts", restart_share, restart=restart, mtbf=mtbf)
    goodput, first = terms("goodput of the job", exact_goodput, **gone), _first_order(gone)
    if first is not None:
        terms.append(Term("the same, first order", first, "eq-goodput-checkpoint", gone))
    away = terms("a node is away", unavailability, node_mtbf=node_mtbf, repair=repair)
    standing = {"nodes": nodes, "spares": spares}
    availability = terms("nodes at hand", spare_availability, **standing, unavailability=away)
    fleet = terms("goodput of the fleet", fleet_goodput, goodput=goodput, availability=availability, **standing)
    given = {"nodes": nodes, "node_mtbf": node_mtbf, "restart": restart, "checkpoint_bytes": checkpoint_bytes}
    given |= {"writers": writers, "writer_bandwidth": writer_bandwidth, "storage_bandwidth": storage_bandwidth}
    given |= {} if copy_bandwidth is None else {"copy_bandwidth": copy_bandwidth}
    return Goodput(
        method=method, mtbf=mtbf, write_time=write, stall=stall, lag=lag, interval=chosen, goodput=goodput,
        first_order=first, lost_work=lost, availability=availability, fleet=fleet, terms=tuple(terms),
        given=given | {"spares": spares, "repair": repair}, origins=dict(origins or {}),
    )  # fmt: skip


def _first_order(gone: Mapping[str, Num]) -> Num | None:
    """What the first-order form says, or nothing where it refuses."""
    try:
        return first_order_goodput(**gone)
    except InputError:
        return None
