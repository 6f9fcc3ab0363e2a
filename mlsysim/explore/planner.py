"""The best plan for a model on a cluster: every plan there is, its time and memory, the front, and why the others lose."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

import numpy as np

from mlsysim import catalog, training, units
from mlsysim.catalog import Cluster, Model
from mlsysim.errors import InputError
from mlsysim.explore.columns import Columns
from mlsysim.parallelism import RECOMPUTES, SHARDINGS, Plan
from mlsysim.tables import Table, table
from mlsysim.training import DATASHEET, Efficiencies, StepTerms

DEGREES = ("tp", "pp", "cp", "dp", "ep", "virtual_stages", "micro_batch", "hsdp_group")
CHOICES = ("sharding", "recompute")
TERMS = tuple(f.name for f in fields(StepTerms))


def _divisors(n: int) -> list[int]:
    small = [d for d in range(1, int(n**0.5) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})


def possible_degrees(
    model: Model | str, devices: int, global_batch: int, seq: int, micro_batches: Sequence[int] = (1, 2, 4, 8)
) -> Columns:
    """Every combination of degrees that :meth:`Plan.check` would accept, and that Megatron's interleaving could run.

    Interleaving is offered where the micro-batches are a multiple of the stages; context parallelism where it divides the
    sequence.

    >>> toy = Model("toy", layers=4, hidden=64, heads=4, kv_heads=4, head_dim=16, ffn=256, vocab=1000)
    >>> c = possible_degrees(toy, devices=8, global_batch=8, seq=128, micro_batches=[1])
    >>> bool((c["tp"] * c["pp"] * c["cp"] * c["dp"] == 8).all()), c["tp"].max().item()
    (True, 4)
    """
    m = catalog.model(model)
    for name, value in (("devices", devices), ("global_batch", global_batch), ("seq", seq)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"plan search: {name} = {value!r} must be a whole number of at least 1")
    axes = _divisors(devices)
    tps = [
        t
        for t in axes
        if m.heads % t == 0 and (m.is_mla or m.kv_heads % t == 0 or t % m.kv_heads == 0) and not (m.ffn and m.ffn % t)
    ]
    pps = [p for p in axes if p <= m.layers]
    cps = [c for c in axes if seq % c == 0]
    eps = _divisors(m.n_experts) if m.is_moe else [1]
    chunks = range(1, m.layers + 1)
    rows = []
    for tp, pp, cp in product(tps, pps, cps):
        if devices % (tp * pp * cp):
            continue
        dp = devices // (tp * pp * cp)
        for b, ep in product(micro_batches, eps):
            if global_batch % (dp * b) or (dp * cp) % ep:
                continue
            count = global_batch // (dp * b)
            most = m.layers // pp if pp > 1 and count % pp == 0 else 1
            rows += [(tp, pp, cp, dp, ep, v, b) for v in chunks[:most]]
    if not rows:
        raise InputError(
            f"plan search: no plan splits {m.name} over {devices} devices with a global batch of {global_batch}; change "
            "the devices or the batch so that they share divisors"
        )
    data = np.array(rows, dtype=np.int64).T
    return Columns(dict(zip(DEGREES[:-1], data, strict=True)))


@dataclass(frozen=True)
class PlanSearch:
    """What :func:`plan` returns: every plan as a row, with its step in seconds by term and its memory in bytes."""

    model: Model
    cluster: Cluster
    global_batch: int
    seq: int
    rows: Columns
    capacity: float
    sequence_parallel: bool = True

    def where(self, chosen: Callable[[Columns], Any]) -> "PlanSearch":
        """The same search over fewer plans: those for which ``chosen`` gives true, as ``lambda c: c["cp"] == 1``."""
        return replace(self, rows=self.rows.take(chosen(self.rows)))

    def within(self, factor: float) -> int:
        """How many of the plans that fit take at most so many times the best step; 1.01 asks for one per cent.

        Raises
        ------
        InputError
            A factor below 1.
        """
        if not factor >= 1:
            raise InputError(f"plan search: factor = {factor!r} must be at least 1; 1.01 is one per cent slower")
        return int((self.fitting["time"] <= factor * self.best()["time"][0]).sum())

    @property
    def fitting(self) -> Columns:
        """The plans that fit into the devices' memory."""
        return self.rows.take(self.rows["memory"] <= self.capacity)

    def best(self, count: int = 1) -> Columns:
        """The fastest plans that fit; of equally fast ones those that need less memory come first."""
        fits = self.fitting
        if not len(fits):
            least = self.rows.smallest("memory").row(0)
            raise InputError(
                f"plan search: none of {len(self.rows)} plans fits; the smallest needs "
                f"{units.format(least['memory'], 'byte')} of {units.format(self.capacity, 'byte')}; take more devices or "
                "larger ones"
            )
        order = np.lexsort((fits["memory"], fits["time"]))[:count]
        return fits.take(order)

    def plan(self, rank: int = 1) -> Plan:
        """The plan of that rank, 1 being the fastest that fits."""
        return plan_of(self.best(rank).row(rank - 1), self.sequence_parallel)

    def front(self, *by: str) -> Columns:
        """The plans that fit and that no other beats in time and memory (or in the columns named)."""
        return self.fitting.pareto(*(by or ("time", "memory")))

    def find(self, wanted: Plan) -> dict[str, Any]:
        """The row of a plan.

        Raises
        ------
        InputError
            When the search did not try it.
        """
        tried = wanted.cp == 1 or wanted.cp_comm_type == Plan.cp_comm_type  # every row passes keys round a ring
        mask: Any = np.full(len(self.rows), tried and wanted.sequence_parallel == self.sequence_parallel)
        for name in (*DEGREES, *CHOICES):
            mask &= self.rows[name] == getattr(wanted, name)
        found = np.flatnonzero(mask)
        if not len(found):
            raise InputError(f"plan search: {wanted} was not among the {len(self.rows)} plans tried")
        return self.rows.row(int(found[0]))

    def rank(self, wanted: Plan) -> tuple[int, float]:
        """Place of a plan among those that fit (1 is the fastest), and how much slower it is than the best, as a share.

        The place counts the plans that are strictly faster, whether or not the plan itself fits.
        """
        time = self.find(wanted)["time"]
        return int((self.fitting["time"] < time).sum()) + 1, float(time / self.best()["time"][0] - 1)

    def why(self, wanted: Plan) -> str:
        """Why a plan loses to the best one: by how much, and which term differs most, as a share of the best step."""
        return self._reason(self.find(wanted), self.best().row(0))

    def _reason(self, row: dict[str, Any], best: dict[str, Any]) -> str:
        if row["memory"] > self.capacity:
            over = units.format(row["memory"] - self.capacity, "byte")
            return f"does not fit: {over} too much"
        if row["time"] <= best["time"]:
            return "nothing is faster"
        worst = max(TERMS, key=lambda name: row[name] - best[name])
        share = (row[worst] - best[worst]) / best["time"]
        gap = row["time"] / best["time"] - 1
        return f"{units.percent(gap)} slower, {worst.replace('_', ' ')} alone {units.percent(share)}"

    def losers(self) -> dict[str, int]:
        """How many plans lose for which reason: memory, or the term that costs most beside the best plan."""
        fits, best = self.fitting, self.best().row(0)
        excess = np.stack([fits[name] - best[name] for name in TERMS])
        slower = fits["time"] > best["time"]
        names = [TERMS[i] for i in np.argmax(excess, axis=0)[slower]]
        counted = {"does not fit": len(self.rows) - len(fits)} | dict(Counter(names).most_common())
        return {reason: n for reason, n in counted.items() if n}

    def explain(self, count: int = 5) -> Table:
        """The best plans, what they need and what the next ones lose by."""
        found = self.best(count)
        best = found.row(0)
        rows = [
            (
                str(i + 1),
                _describe(row),
                units.format(row["time"], "s"),
                units.percent(row["mfu"], signed=False),
                units.format(row["memory"], "byte"),
                "" if i == 0 else self._reason(row, best),
            )
            for i, row in enumerate(found.row(k) for k in range(len(found)))
        ]
        return table(("Rank", "Plan", "Step", "MFU", "Memory", "Loses by"), rows)


def _describe(row: dict[str, Any]) -> str:
    degrees = " ".join(f"{name.upper()}{row[name]}" for name in ("tp", "pp", "cp", "dp", "ep") if row[name] > 1)
    chunks = f" V{row['virtual_stages']}" if row["virtual_stages"] > 1 else ""
    return f"{degrees or 'one device'}{chunks}, micro-batch {row['micro_batch']}, {row['sharding']}, recompute {row['recompute']}"


def plan_of(row: dict[str, Any], sequence_parallel: bool = True) -> Plan:
    """A row of a search as a plan."""
    return Plan(**{name: row[name] for name in (*DEGREES, *CHOICES)}, sequence_parallel=sequence_parallel)


def plan(
    model: Model | str,
    cluster: Cluster,
    *,
    global_batch: int,
    seq: int,
    precision: str = "bf16",
    efficiencies: Efficiencies = DATASHEET,
    micro_batches: Sequence[int] = (1, 2, 4, 8),
    shardings: Sequence[str] = ("zero1", "fsdp", "hsdp"),
    recomputes: Sequence[str] = RECOMPUTES,
    sequence_parallel: bool = True,
    capacity: float | None = None,
    price_per_device_second: float | None = None,
) -> PlanSearch:
    """Search every plan of a model on a cluster for the fastest step that fits into memory.

    Parameters
    ----------
    model : Model or str
        A catalogue entry, its name, or a shape of your own.
    cluster : Cluster
        As from ``catalog.cluster("DGX-H100", 2048)``; all its devices are used.
    global_batch, seq : int, 1
        Sequences per step; tokens per sequence.
    precision : str
        Of the linear layers.
    efficiencies : Efficiencies
        The datasheet, or calibrated ones.
    micro_batches, shardings, recomputes : sequences
        What to try. With hsdp, a group of ranks that shares the weights fills a scale-up domain.
    sequence_parallel : bool
        Whether tensor parallelism splits what lies between the products as well.
    capacity : float, byte, optional
        Memory that a plan may take; the device's own when not given. Leave room for what is not counted.
    price_per_device_second : float, USD/s, optional
        Adds a column ``cost``, USD per step.

    Returns
    -------
    PlanSearch
        All rows, ``best()``, ``front()``, ``rank(plan)``, ``why(plan)``, ``losers()``, ``within(factor)``, ``where(...)``,
        ``explain()``.

    Raises
    ------
    InputError
        Nothing divides, or nothing fits (on ``best``).

    Assumptions: those of training_step and training_memory; the order of ranks is tp-cp-ep-dp-pp.
    """
    m = catalog.model(model)
    for name, choices, known in (("shardings", shardings, SHARDINGS), ("recomputes", recomputes, RECOMPUTES)):
        for choice in choices:
            if choice not in known:
                raise InputError(f"plan search: {name} holds {choice!r}; choose from {', '.join(known)}")
    degrees = possible_degrees(m, cluster.devices, global_batch, seq, micro_batches)
    parts = []
    for sharding, recompute in product(shardings, recomputes):
        rows = _with_groups(degrees, sharding, cluster.domain)
        if not len(rows):
            continue
        degrees_of = {name: rows[name] for name in DEGREES}
        chosen = Plan(**degrees_of, sharding=sharding, recompute=recompute, sequence_parallel=sequence_parallel)
        step = training.training_step(
            m, chosen, cluster, global_batch=global_batch, seq=seq, precision=precision, efficiencies=efficiencies
        )
        memory = training.training_memory(m, chosen, cluster.node.device, seq=seq, global_batch=global_batch)
        columns = dict(rows.data) | dict.fromkeys(CHOICES)
        columns |= {"sharding": np.full(len(rows), sharding), "recompute": np.full(len(rows), recompute)}
        columns |= {"time": step.time, "mfu": step.mfu, "memory": memory.total}
        columns |= {name: np.broadcast_to(getattr(step.terms, name), len(rows)) for name in TERMS}
        if price_per_device_second is not None:
            columns["cost"] = step.time * cluster.devices * price_per_device_second
        parts.append(Columns(columns))
    room = cluster.node.device.memory_capacity if capacity is None else capacity
    return PlanSearch(m, cluster, global_batch, seq, Columns.join(parts), room, sequence_parallel)


def _with_groups(degrees: Columns, sharding: str, domain: int) -> Columns:
    """The degrees with the group that hsdp shares weights in: the data-parallel ranks of one scale-up domain."""
    ranks = degrees["dp"] * degrees["cp"]
    group = np.ones_like(ranks)
    if sharding == "hsdp":
        group = np.gcd(ranks, np.maximum(1, domain // degrees["tp"]))
        useful = (group > 1) & (group < ranks)  # one rank shares nothing, and all ranks are fsdp
        degrees, group = degrees.take(useful), group[useful]
    return Columns(dict(degrees.data) | {"hsdp_group": group})
