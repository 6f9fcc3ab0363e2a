"""The best plan for a model on a cluster: every plan there is, its time and memory, the front, and why the others lose."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsysim import catalog, intervals, training, units
from mlsysim._numeric import arrays, bare, grouped
from mlsysim.catalog import Cluster, Machines, Model
from mlsysim.efficiencies import DEFAULT, describe, has_range
from mlsysim.efficiencies.domains import training_domain
from mlsysim.equations import POSITIVE, Domain, check_argument
from mlsysim.errors import InputError
from mlsysim.explore.columns import Columns
from mlsysim.explore.sweeping import CHUNK, sweep
from mlsysim.intervals import Interval
from mlsysim.memory import COUNTED_SHARE
from mlsysim.parallelism import SCHEDULES, SHARDINGS, Plan
from mlsysim.parallelism.plan import AGAIN, MICRO_BATCHES, SOME
from mlsysim.results import Result, format_rows, plain
from mlsysim.tables import Table, table
from mlsysim.training import BOUND, Efficiencies, StepTerms, efficiencies_of

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

np = arrays()
DEGREES = ("tp", "pp", "cp", "dp", "ep", "virtual_stages", "micro_batch", "hsdp_group")
CHOICES = ("sharding", "recompute", "schedule")
# Words of a plan that a search takes from its base, as they are, for every plan it tries.
SHARED = (
    *("sequence_parallel", "reshard_after_forward", "cp_comm_type", "cp_balance", "node_limit", "dispatch"),
    *("dispatcher", "overlap_experts"),
    *("recompute_layers", "recompute_modules", "optimizer", "offload", "mtp"),
)
TERMS = tuple(f.name for f in fields(StepTerms))
LIMITED = ("tp", "pp", "cp", "dp", "ep", "virtual_stages")  # degrees that a search can be limited in
KINDS = ("tp", "pp", "cp", "ep")  # ways to split a model beside the batch: each is software that has to run
_KEPT = 50_000  # rows of a search that keeps those that fit: more would be held twice
TIE = 1e-3  # a thousandth of a step, far below any error of the model: plans closer than that are equally fast
_MOST = {"devices": 10**7, "global_batch": 10**9, "seq": 10**9}  # beyond, columns of integers would not be exact


def _divisors(n: int) -> list[int]:
    small = [d for d in range(1, int(n**0.5) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})


def _whole(name: str, value: object, most: float = float("inf")) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        shown = (
            f"an integer of {value.bit_length()} bits"
            if isinstance(value, int) and abs(value) > 10**18
            else repr(value)
        )
        raise InputError(f"plan search: {name} = {shown} must be a whole number in [1, {most:g}]")


def _several(values: Any) -> Sequence[Any]:
    """One of them stands for a sequence of one."""
    return (values,) if isinstance(values, (str, int)) else values


def _interleavings(layers: int, pp: int, micro_batches: int, modules: int = 0) -> list[int]:
    """Chunks per device: as Megatron runs them, with micro-batches in groups of the stages, and chunks of equal size, of
    which the first and the last may have a layer less (they hold the embedding and the head), and the last one more for each
    module for multi-token prediction."""
    if pp == 1 or micro_batches % pp:
        return [1]
    most = (layers + 2) // pp
    return [v for v in range(1, most + 1) if v == 1 or -layers % (pp * v) <= 2 + modules]


def _limits(
    only: Mapping[str, Sequence[int]] | None, most: Mapping[str, int] | None
) -> dict[str, Callable[[int], bool]]:
    """What each degree may be, from lists and maxima."""
    for kind, given in (("only", only or {}), ("most", most or {})):
        if not isinstance(given, Mapping):
            raise InputError(f"plan search: {kind} = {repr(given)[:40]} must name degrees, as in {{'tp': 8}}")
        for name, values in given.items():
            if name not in LIMITED:
                raise InputError(f"plan search: {kind} names {name!r}; choose from {', '.join(LIMITED)}")
            for value in values if isinstance(values, Sequence) else [values]:
                _whole(f"{kind}[{name!r}]", value)
    listed = {name: frozenset(values) for name, values in (only or {}).items()}
    highest = dict(most or {})
    return {
        name: lambda n, name=name: n in listed.get(name, (n,)) and n <= highest.get(name, n)  # type: ignore[misc]
        for name in LIMITED
    }


def possible_degrees(
    model: Model | str,
    devices: int,
    global_batch: int,
    seq: int,
    micro_batch: int | Sequence[int] = MICRO_BATCHES,
    only: Mapping[str, Sequence[int]] | None = None,
    most: Mapping[str, int] | None = None,
) -> Columns:
    """Every combination of degrees that :meth:`Plan.check` would accept, and that Megatron's interleaving could run.

    Expert parallelism divides the ranks of tensor, context and data parallelism together: experts are whole where it takes in
    tensor-parallel ones. Interleaving is offered where the micro-batches are a multiple of the stages and the chunks are equal, but for a layer
    that the first and the last may lack; context parallelism where it divides the sequence. ``only`` lists what a degree
    may be, ``most`` gives its largest value.

    >>> from mlsysim.catalog import decoder
    >>> toy = decoder("toy", layers=4, hidden=64, heads=4, kv_heads=4, head_dim=16, ffn=256, vocab=1000)
    >>> c = possible_degrees(toy, devices=8, global_batch=8, seq=128, micro_batch=1)
    >>> bool((c["tp"] * c["pp"] * c["cp"] * c["dp"] == 8).all()), c["tp"].max().item()
    (True, 4)
    """
    m = catalog.model(model)
    for name, value in (("devices", devices), ("global_batch", global_batch), ("seq", seq)):
        _whole(name, value, _MOST[name])
    sizes = list(dict.fromkeys(_several(micro_batch)))
    for b in sizes:
        _whole("micro_batch", b, _MOST["global_batch"])
    allowed = _limits(only, most)
    axes = _divisors(devices)
    tps = [
        t
        for t in axes
        if m.heads % t == 0 and (m.is_mla or m.kv_heads % t == 0 or t % m.kv_heads == 0) and not (m.ffn and m.ffn % t)
    ]
    pps = [p for p in axes if p <= m.n_layers]
    cps = [c for c in axes if seq % c == 0]
    eps = _divisors(m.n_experts) if m.is_moe else [1]
    chunks = {v for p in pps for v in _interleavings(m.n_layers, p, 0, m.n_mtp_layers)}
    possible = {"tp": tps, "pp": pps, "cp": cps, "dp": axes, "ep": eps, "virtual_stages": sorted(chunks)}
    for name, values in (only or {}).items():
        for value in values:
            if value not in possible[name]:
                raise InputError(
                    f"plan search: {name} = {value} cannot split {m.name} with {seq} tokens on {devices} devices; choose "
                    f"from {_listed(possible[name])}"
                )
    tps, pps, cps, eps = ([n for n in possible[name] if allowed[name](n)] for name in ("tp", "pp", "cp", "ep"))
    rows = []
    for tp, pp, cp in product(tps, pps, cps):
        if devices % (tp * pp * cp):
            continue
        dp = devices // (tp * pp * cp)
        if not allowed["dp"](dp):
            continue
        for b, ep in product(sizes, eps):
            if global_batch % (dp * b) or (tp * dp * cp) % ep:
                continue
            splits = _interleavings(m.n_layers, pp, global_batch // (dp * b), m.n_mtp_layers)
            rows += [(tp, pp, cp, dp, ep, v, b) for v in splits if allowed["virtual_stages"](v)]
    if not rows:
        within = " within the limits given" if only or most else ""
        raise InputError(
            f"plan search: no plan splits {m.name} over {devices} devices with a global batch of {global_batch}{within}; "
            f"change the devices or the batch so that they share divisors{', or allow more' if within else ''}"
        )
    data = [np.array(column) for column in zip(*rows, strict=True)]
    return Columns(dict(zip(DEGREES[:-1], data, strict=True)))


def _listed(values: Sequence[int]) -> str:
    """Values in an error: all of a few, the ends of many."""
    return ", ".join(map(str, values if len(values) <= 24 else [*values[:12], "…", values[-1]]))


@dataclass(frozen=True)
class PlanSearch(Result):
    """What :func:`plan` returns: every plan as a row, with its step in seconds by term and its memory in bytes.

    Plans whose steps differ by less than a thousandth (:data:`TIE`) count as equally fast. Of those the one comes first that
    splits the model in the fewest ways (TP, PP, CP, EP), then the one with the smallest product of these degrees, the fewest
    chunks per device, the least recomputation, and the least memory.
    """

    model: Model
    cluster: Cluster | Machines
    global_batch: int
    seq: int
    rows: Columns
    capacity: float
    sequence_parallel: bool = True
    efficiencies: Efficiencies = BOUND
    precision: str = "bf16"
    base: Plan = field(default_factory=Plan)

    def summary(self) -> list[str]:
        what = f"{self.model.name} on {catalog.where(self.cluster)}"
        fits = len(self.fitting)
        if not fits:
            least = self.rows.smallest("memory").row(0) if len(self.rows) else None
            need = (
                f"; the smallest needs {units.format(least['memory'], 'byte')} of {units.format(self.capacity, 'byte')}"
                if least
                else ""
            )
            return [f"{what}: NONE OF {len(self.rows):,} PLANS FITS{need}"]
        best, known = self.best(2), self.interval()
        first = best.row(0)
        lost = ", ".join(f"{reason.replace('_', ' ')} {n:,}" for reason, n in list(self.losers().items())[:4])
        unknown = f"none: errors of past predictions were counted with calibrated efficiencies, these are {self.efficiencies.name}"
        return format_rows(
            f"{what}: {units.format(first['time'], 's')} a step by {describe_row(first)}; MFU {units.percent(first['mfu'], signed=False)}",
            (
                "range",
                unknown
                if known is None
                else f"{' to '.join(units.format(e, 's', 3) for e in known.ends)}, {known.whose}",
            ),
            ("memory", f"fits: {units.format(first['memory'], 'byte')} of {units.format(self.capacity, 'byte')}"),
            ("recommended", self.recommendation() if known else ""),
            ("next", "" if len(best) < 2 else f"{describe_row(best.row(1))}: {self._reason(best.row(1), first)}"),
            ("tried", f"{len(self.rows):,} plans, {fits:,} fit; the others lose by: {lost}"),
        )

    def chart(self) -> "Drawing | None":
        """Plans that fit by memory and time, and the front that no other beats."""
        from mlsysim.drawing import shapes

        fits, front = self.fitting, self.front() if len(self.fitting) else self.fitting
        pairs = list(zip(fits["memory"].tolist(), fits["time"].tolist(), strict=True))
        kinds = {"fits": shapes.sampled(pairs)} | {
            "front": sorted(zip(front["memory"].tolist(), front["time"].tolist(), strict=True))
        }
        return shapes.points(f"{self.model.name}: {len(pairs):,} plans", kinds, ("memory", "byte"), ("step", "s"))

    def to_dict(self) -> dict[str, Any]:
        """The job, how many plans there are, and the ten best of them; ``rows`` has them all."""
        best = self.best(10) if len(self.fitting) else self.fitting
        found = {
            "model": self.model.name,
            "machines": str(catalog.where(self.cluster)),
            "devices": self.cluster.devices,
            "global_batch": self.global_batch,
            "seq": self.seq,
            "capacity_bytes": self.capacity,
            "efficiencies": self.efficiencies.name,
            "plans": len(self.rows),
            "fitting": len(self.fitting),
            "best": [best.row(i) for i in range(len(best))],
        }
        return dict(plain(found))

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row per plan."""
        return self.rows.to_pandas()

    def where(self, chosen: Callable[[Columns], Any]) -> "PlanSearch":
        """The same search over fewer plans: those for which ``chosen`` gives true, as ``lambda c: c["cp"] == 1``."""
        return replace(self, rows=self.rows.take(chosen(self.rows)))

    def within(self, factor: float) -> int:
        """How many of the plans that fit take at most so many times the fastest step; 1.01 asks for one per cent.

        Raises
        ------
        InputError
            A factor below 1.
        """
        if not factor >= 1:
            raise InputError(f"plan search: factor = {factor!r} must be at least 1; 1.01 is one per cent slower")
        return int((self.fitting["time"] <= factor * self.fastest).sum())

    @property
    def fits(self) -> bool:
        """Whether any plan fits into the devices' memory."""
        return bool((self.rows["memory"] <= self.capacity).any())

    @property
    def fitting(self) -> Columns:
        """The plans that fit into the devices' memory."""
        return self._fitting if len(self.rows) <= _KEPT else self.rows.take(self.rows["memory"] <= self.capacity)

    @cached_property
    def _fitting(self) -> Columns:
        return self.rows.take(self.rows["memory"] <= self.capacity)

    @property
    def fastest(self) -> float:
        """Seconds of the fastest step that fits. The first plan may be slower by less than a tie."""
        return float(self._fits()["time"].min())

    def best(self, count: int = 1) -> Columns:
        """The fastest plans that fit; of equally fast ones the simplest come first (see the class)."""
        fits = self._fits()
        order = np.argsort(fits["time"], kind="stable")
        times, start = fits["time"][order], 0
        chosen: list[int] = []
        while start < len(order) and len(chosen) < count:
            end = int(np.searchsorted(times, times[start] * (1 + TIE), side="right"))
            chosen += _simplest_first(fits, order[start:end])
            start = end
        return fits.take(chosen[:count])

    def _fits(self) -> Columns:
        fits = self.fitting
        if not len(fits):
            least = self.rows.smallest("memory").row(0)
            raise InputError(
                f"plan search: none of {len(self.rows)} plans fits; the smallest needs "
                f"{units.format(least['memory'], 'byte')} of {units.format(self.capacity, 'byte')}; take more devices or "
                "larger ones"
            )
        return fits

    def plan(self, rank: int = 1) -> Plan:
        """The plan of that rank, 1 being the fastest that fits."""
        return plan_of(self.best(rank).row(rank - 1), self.sequence_parallel, self.base)

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
        alone = ("cp_comm_type", "cp_balance") if wanted.cp == 1 else ()
        some = wanted.recompute_layers is not None and self.base.recompute_layers is None
        alike = like(self.base, wanted.recompute, wanted.sharding)
        if some:
            alone, wanted_again = (*alone, "recompute_layers"), SOME
        tried = all(getattr(wanted, n) == getattr(alike, n) for n in SHARED[1:] if n not in alone)
        mask: Any = np.full(len(self.rows), tried and wanted.sequence_parallel == self.sequence_parallel)
        for name in (*DEGREES, *CHOICES):
            if name == "schedule" and name not in self.rows:  # rows of one's own, all in the usual order
                mask &= wanted.schedule == Plan.schedule
                continue
            mask &= self.rows[name] == (wanted_again if some and name == "recompute" else getattr(wanted, name))
        if "etp" in self.rows:
            mask &= self.rows["etp"] == (wanted.etp or wanted.tp)
        if some:
            mask &= self.rows["recompute_layers"] == wanted.recompute_layers
        found = np.flatnonzero(mask)
        if not len(found):
            raise InputError(f"plan search: {wanted} was not among the {len(self.rows)} plans tried")
        return self.rows.row(int(found[0]))

    def rank(self, wanted: Plan) -> tuple[int, float]:
        """Place of a plan among those that fit (1 is the fastest), and how much slower it is than the fastest, as a share.

        The place counts the plans that are faster by more than a tie, whether or not the plan itself fits.
        """
        time = self.find(wanted)["time"]
        return int((self.fitting["time"] * (1 + TIE) < time).sum()) + 1, float(time / self.fastest - 1)

    def why(self, wanted: Plan) -> str:
        """Why a plan loses to the best one: by how much, and which term differs most, as a share of the best step."""
        return self._reason(self.find(wanted), self.best().row(0))

    def _reason(self, row: dict[str, Any], best: dict[str, Any]) -> str:
        if row["memory"] > self.capacity:
            over = units.format(row["memory"] - self.capacity, "byte")
            return f"does not fit: {over} too much"
        if row["time"] <= best["time"] * (1 + TIE):
            return "nothing is faster"
        worst = max(TERMS, key=lambda name: row[name] - best[name])
        share = (row[worst] - best[worst]) / best["time"]
        gap = row["time"] / best["time"] - 1
        return f"{units.percent(gap)} slower, {worst.replace('_', ' ')} alone {units.percent(share)}"

    def losers(self) -> dict[str, int]:
        """How many plans lose for which reason: memory, or the term that costs most beside the best plan."""
        fits, best = self.fitting, self.best().row(0)
        slower = fits["time"] > best["time"] * (1 + TIE)
        excess = [(fits[name][slower] - best[name]).tolist() for name in TERMS]
        names = [TERMS[row.index(max(row))] for row in zip(*excess, strict=True)]
        counted = {"does not fit": len(self.rows) - len(fits)} | dict(Counter(names).most_common())
        return {reason: n for reason, n in counted.items() if n}

    def why_first(self) -> str:
        """Why the first plan stands first: it is faster than the next by so much, or the simplest of so many."""
        fits, first = self._fits(), self.best().row(0)
        alike = int((fits["time"] <= self.fastest * (1 + TIE)).sum())
        if alike > 1:
            return (
                f"{alike:,} plans are equally fast, within {units.percent(TIE, signed=False)}; the first splits the model in "
                f"the fewest ways ({_ways(first)}), then by the smallest degrees, the fewest chunks and the least recomputation"
            )
        if len(fits) == 1:
            return "it is the only plan that fits"
        second = self.best(2).row(1)
        worst = max(TERMS, key=lambda name: second[name] - first[name])
        share = (second[worst] - first[worst]) / first["time"]
        return (
            f"it is {units.percent(second['time'] / first['time'] - 1, signed=False)} faster than the next, which loses "
            f"{units.percent(share, signed=False)} of the step by {worst.replace('_', ' ')}"
        )

    def interval(self) -> Interval | None:
        """The range in which the first plan's measured step is expected; None without calibrated efficiencies."""
        if not has_range(self.efficiencies.name):
            return None
        device = catalog.where(self.cluster).device
        place = training_domain(device, bool(self.model.n_experts), self.precision, "pretrain")
        return intervals.interval("training_step", bare(self.best()["time"][0]), place)

    @cached_property
    def clear(self) -> float:
        """How many times as long as the fastest a step must take for odds of two in three that it is the slower one."""
        known = self.interval()
        if known is None:
            return 1.0 + TIE
        return max(1.0 + TIE, known.told_apart(intervals.checks("training_step").get("shared_plans", 0.0)))

    def alike(self) -> int:
        """How many plans that fit the error cannot tell from the fastest (:attr:`clear`); 0 without a range."""
        return 0 if self.interval() is None else self.within(self.clear)

    def simplest(self) -> dict[str, Any]:
        """The recommended plan: of those that the error cannot tell from the fastest, which split the model in the fewest ways, the first."""
        fits = self._fits()
        near = fits.take(fits["time"] <= self.fastest * self.clear)
        ways = _count_ways(near)
        return replace(self, rows=near.take(ways == ways.min())).best().row(0)

    def recommendation(self) -> str:
        """The recommended plan, and what it stands beside, in a sentence."""
        row, first = self.simplest(), self.best().row(0)
        if row == first:
            return f"{describe_row(row)}: the fastest, and the simplest of {self.alike():,} plans that the error cannot tell from it"
        gap = units.percent(row["time"] / first["time"] - 1, signed=False)
        return f"{describe_row(row)}: the simplest of {self.alike():,} plans that the error cannot tell from the fastest, {gap} slower than that"

    @property
    def rates(self) -> str:
        """The efficiencies behind the steps and their source, in a sentence."""
        return describe(self.efficiencies.name, self.efficiencies.source)

    def caution(self, count: int = 5) -> str:
        """Confidence in the order of the first plans, in a sentence or two."""
        known, found = self.interval(), self.best(count)
        if known is None:
            return (
                f"The order is that of {self.efficiencies.name} efficiencies, whose errors are unknown; with calibrated "
                "ones there is a range."
            )
        gap = found["time"].max() / found["time"].min() - 1
        low, high = (units.format(end, "s") for end in known.ends)
        says = f"The first should take {low} to {high}, in which {known.quantiles.nominal:.0%} of past errors lie{known.caveat}."
        if len(found) > 1:
            slow = units.percent(self.clear - 1, signed=False)
            says += (
                f" Plans share part of their error, which cancels: one that takes {slow} longer is slower in two cases of three. "
                f"Those above differ by {units.percent(gap, signed=False)}, and {self.alike():,} plans by less than {slow}. Recommended: "
                f"{self.recommendation()}."
            )
        return says

    def explain(self, count: int = 5) -> Any:
        """The best plans beside each other, as :meth:`table`."""
        return self.table(count)

    def table(self, count: int = 5) -> Table:
        """The best plans, what they need and what the next ones lose by; those that need least where none fits."""
        found = self.best(count) if len(self.fitting) else self.rows.smallest("memory", count)
        best = found.row(0)
        rows = [
            (
                str(i + 1),
                describe_row(row),
                units.format(row["time"], "s"),
                units.percent(row["mfu"], signed=False),
                units.format(row["memory"], "byte"),
                "" if i == 0 and len(self.fitting) else self._reason(row, best),
            )
            for i, row in enumerate(found.row(k) for k in range(len(found)))
        ]
        return table(("Rank", "Plan", "Step", "MFU", "Memory", "Loses by"), rows)


def _simplest_first(fits: Columns, places: Any) -> list[int]:
    """Rows that are equally fast, the simplest first."""
    ways = _count_ways(fits)[places]
    product_ = prod(fits[name][places] for name in KINDS)
    again = np.array([AGAIN.index(r) for r in fits["recompute"][places]])
    chunks, memory, time = (fits[name][places] for name in ("virtual_stages", "memory", "time"))
    return [int(i) for i in places[np.lexsort((time, memory, again, chunks, product_, ways))]]


def _count_ways(rows: Columns) -> Any:
    """How many ways to split the model each plan has."""
    return sum((rows[name] > 1).astype(int) for name in KINDS)


def _ways(row: dict[str, Any]) -> str:
    return " ".join(f"{name.upper()}{row[name]}" for name in KINDS if row[name] > 1) or "not at all"


def describe_row(row: dict[str, Any]) -> str:
    degrees = " ".join(f"{name.upper()}{row[name]}" for name in ("tp", "pp", "cp", "dp", "ep") if row[name] > 1)
    chunks = f" V{row['virtual_stages']}" if row["virtual_stages"] > 1 else ""
    order = f" {row['schedule']}" if row.get("schedule", "1f1b") != "1f1b" else ""
    whole = " ETP1" if row.get("etp", row["tp"]) != row["tp"] else ""
    again = row["recompute"]
    if again == SOME:
        n = row["recompute_layers"]
        again = f"{n} layer{'s' * (n > 1)} of a stage"
    return (
        f"{degrees or 'one device'}{whole}{chunks}{order}, micro-batch {row['micro_batch']}, {row['sharding']}, "
        f"recompute {again}"
    )


def like(base: Plan, recompute: str, sharding: str) -> Plan:
    """What every plan of a search shares, as far as it goes with a way to recompute and to shard."""
    whole = sharding not in ("fsdp", "hsdp")
    return Plan(
        sharding=sharding,
        recompute=recompute,
        sequence_parallel=base.sequence_parallel,
        reshard_after_forward=None if whole else base.reshard_after_forward,
        cp_comm_type=base.cp_comm_type,
        cp_balance=base.cp_balance,
        node_limit=base.node_limit,
        dispatch=base.dispatch,
        dispatcher=base.dispatcher,
        overlap_experts=base.overlap_experts,
        recompute_layers=base.recompute_layers if recompute == "full" else None,
        recompute_modules=base.recompute_modules if recompute == "selective" and whole else (),
        optimizer=base.optimizer,
        offload=base.offload,
        mtp=base.mtp,
    )


def plan_of(row: dict[str, Any], sequence_parallel: bool = True, base: Plan | None = None) -> Plan:
    """A row of a search as a plan; what all its plans share comes from the search's base."""
    words = {name: row[name] for name in (*DEGREES, *CHOICES) if name in row}
    if words["recompute"] == SOME:
        words |= {"recompute": "full", "recompute_layers": row["recompute_layers"]}
    if row.get("etp", row["tp"]) != row["tp"]:
        words["etp"] = row["etp"]
    shared = like(Plan() if base is None else base, words["recompute"], row["sharding"])
    return replace(shared, **words, sequence_parallel=sequence_parallel)


def _tried(**asked: tuple[Any, Sequence[str]]) -> dict[str, Any]:
    """The words to try by name, of those that are known."""
    found: dict[str, Any] = {name: list(_several(choices)) for name, (choices, _) in asked.items()}
    for name, (_, known) in asked.items():
        for choice in found[name]:
            if choice not in known:
                raise InputError(f"plan search: {name} holds {choice!r}; choose from {', '.join(known)}")
    return found


def plan(
    model: Model | str,
    cluster: Cluster | Machines | str,
    *,
    global_batch: int,
    seq: int,
    precision: str = "bf16",
    efficiencies: Efficiencies | str = DEFAULT,
    micro_batch: int | Sequence[int] = MICRO_BATCHES,
    sharding: str | Sequence[str] = ("zero1", "fsdp", "hsdp"),
    recompute: str | Sequence[str] = AGAIN,
    schedule: str | Sequence[str] = "1f1b",
    base: Plan | None = None,
    only: Mapping[str, Sequence[int]] | None = None,
    most: Mapping[str, int] | None = None,
    sequence_parallel: bool = True,
    capacity: float | None = None,
    price_per_device_second: float | None = None,
    host_bandwidth: float | None = None,
    store: str | Path | None = None,
    client: Any = None,
    chunk: int = CHUNK,
) -> PlanSearch:
    """Search every plan of a model on a cluster for the fastest step that fits into memory.

    Parameters
    ----------
    model : Model or str
        A catalogue entry, its name, or a shape of your own.
    cluster : Cluster, Machines or str
        What ``catalog.where`` reads, with a number: ``"2048 x DGX-H100"``, ``"4 H100"``; all its devices are used.
    global_batch : int
        Sequences per step.
    seq : int
        Tokens per sequence.
    precision : str
        Number format of the linear layers.
    efficiencies : Efficiencies or str
        What software reaches: ``calibrated`` (default), ``datasheet``, ``bound`` (see ``mlsysim.efficiencies``), or your own.
    micro_batch : sequence of int, or one
        Sequences in a micro-batch to try.
    sharding : sequence of str, or one, one of parallelism.SHARDINGS
        Shardings of the training state to try. With hsdp, a group of ranks that shares the weights fills a scale-up domain.
    recompute : sequence of str, or one, one of AGAIN
        What the backward pass may compute again, to try. With some, as few layers of every stage as make a plan fit.
    schedule : sequence of str, or one, one of parallelism.SCHEDULES
        Orders of a pipeline to try. Those beside 1f1b are tried where they can run: with a
        pipeline, without chunks of interleaving, and with whole weights.
    base : Plan, optional
        A plan whose other words all plans take: ``node_limit``, ``dispatch``, ``dispatcher``, ``overlap_experts``, ``optimizer``, ``offload``,
        ``mtp``, ``cp_comm_type``, ``cp_balance``, ``recompute_layers`` (with full) and ``recompute_modules`` (with selective).
    only, most : mappings, optional
        Limits by name of the degree (tp, pp, cp, dp, ep, virtual_stages): the values it may take, as
        ``only={"tp": (1, 2, 4, 8)}``, or the largest, as ``most={"cp": 8}``. No limit when not given.
    sequence_parallel : bool
        Whether tensor parallelism splits what lies between the products as well.
    capacity : float or str, byte, (0, inf), optional
        Memory of a device that the counted parts of a plan may take, as in ``"60 GB"`` (default: ``memory.COUNTED_SHARE`` of
        what its driver reports; the rest is for what is not counted).
    price_per_device_second : float, USD/s, optional
        Adds a column ``cost``, USD per step.
    host_bandwidth : float or str, byte/s, (0, inf), optional
        Bandwidth of the link to the host's memory, one way, where the base offloads, as in ``"50 GB/s"`` (default: the
        catalogue's).
    store : path, optional
        Folder that a search can go on from, as in :func:`mlsysim.explore.sweep`.
    client : str, optional
        Dask cluster (``"local:4"``, an address), as in :func:`mlsysim.explore.sweep`.
    chunk : int, optional
        Plans per array call.

    Returns
    -------
    PlanSearch
        All rows, ``best()``, ``front()``, ``rank(plan)``, ``why(plan)``, ``why_first()``, ``caution()``, ``losers()``,
        ``within(factor)``, ``where(...)``, ``explain()``.

    Raises
    ------
    InputError
        Nothing divides, a limit that no plan can meet, or nothing fits (on ``best``).

    Assumptions: those of training_step and training_memory; the order of ranks is tp-cp-ep-dp-pp.
    """
    m, machines = catalog.model(model), catalog.where(cluster)
    if capacity is not None:
        check_argument("plan search", "capacity", capacity, "byte", Domain.of(POSITIVE))
    tried = _tried(sharding=(sharding, SHARDINGS), recompute=(recompute, AGAIN), schedule=(schedule, SCHEDULES))
    if base is not None and base.recompute_layers is not None:  # who says how many does not ask
        tried["recompute"] = [word for word in tried["recompute"] if word != SOME]
    room = COUNTED_SHARE * machines.device.usable_memory if capacity is None else capacity
    degrees = possible_degrees(m, machines.devices, global_batch, seq, micro_batch, only, most)
    reached = efficiencies_of(machines.device, precision, efficiencies)
    steps = _Steps(
        m,
        machines,
        grouped(dict(degrees.data)),
        global_batch,
        seq,
        precision,
        reached,
        sequence_parallel,
        price_per_device_second,
        Plan() if base is None else base,
        room,
        host_bandwidth,
    )
    tried["experts"] = ["cut", "whole"] if m.is_moe and (degrees["tp"] > 1).any() else ["cut"]
    axes = tried | {"row": np.arange(len(degrees))}
    found = sweep(steps, axes, keep=_useful, chunk=chunk, store=store, client=client)
    order = (*DEGREES, *CHOICES, *(name for name in found if name not in (*DEGREES, *CHOICES)))
    rows = Columns({name: found[name] for name in order})
    where = machines.cluster or machines
    return PlanSearch(m, where, global_batch, seq, rows, room, sequence_parallel, reached, precision, steps.base)


@dataclass(frozen=True)
class _Steps:
    """Steps and memory of the plans of some rows, as a sweep asks for them; a row that is no plan of its own has no group."""

    model: Model
    machines: Machines
    degrees: Mapping[str, Any]
    global_batch: int
    seq: int
    precision: str
    efficiencies: Efficiencies
    sequence_parallel: bool
    price: float | None
    base: Plan = field(default_factory=Plan)
    room: float = float("inf")
    host_bandwidth: float | None = None

    def __call__(self, row: Any, sharding: str, recompute: str, schedule: str, experts: str) -> dict[str, Any]:
        every = {name: column[row] for name, column in self.degrees.items()}
        every["hsdp_group"], useful = _groups(every, sharding, self.machines.domain)
        useful = useful & _runs(every, schedule, sharding, self.model, self.global_batch) & self._swaps(every)
        if self.base.recompute_layers is not None and recompute == "full":
            useful = useful & (self.base.recompute_layers <= -(-self.model.n_layers // every["pp"]))
        if experts == "cut":
            useful = useful & (every["dp"] * every["cp"] % every["ep"] == 0)
        else:
            useful = useful & (every["tp"] > 1)
        whole = bool(useful.all())
        degrees = every if whole else {name: column[useful] for name, column in every.items()}
        shared: dict[str, Any] = {
            "schedule": schedule,
            "sequence_parallel": self.sequence_parallel,
            "etp": 1 if experts == "whole" else None,
        }
        layers: Any = every["pp"] * 0
        if recompute == SOME and bool(useful.any()):
            again, fits = self._least_again(degrees, sharding, shared)
            if whole:
                layers, useful = again, fits
            else:
                layers[useful] = again
                useful[useful] = fits
            whole = bool(useful.all())
            degrees = every | {"recompute_layers": layers}
            degrees = degrees if whole else {name: column[useful] for name, column in degrees.items()}
        found = every | {
            "etp": every["tp"] * 0 + 1 if experts == "whole" else every["tp"],
            "recompute_layers": layers,
            "useful": useful,
        }
        if not useful.any():
            return found | dict.fromkeys(self._answers, np.nan)
        chosen = replace(like(self.base, "full" if recompute == SOME else recompute, sharding), **degrees, **shared)
        step = training.training_step(
            self.model,
            chosen,
            self.machines,
            global_batch=self.global_batch,
            seq=self.seq,
            precision=self.precision,
            efficiencies=self.efficiencies,
            host_bandwidth=self.host_bandwidth,
        )
        answers = {"time": step.time, "mfu": step.mfu, "memory": self._memory(chosen)}
        answers |= {name: getattr(step.terms, name) for name in TERMS}
        if self.price is not None:
            answers["cost"] = step.time * self.machines.devices * self.price
        if whole:
            return found | answers
        for name in self._answers:
            found[name] = np.full(len(row), np.nan)
            found[name][useful] = answers[name]
        return found

    def _memory(self, chosen: Plan) -> Any:
        return training.training_memory(
            self.model,
            chosen,
            self.machines.device,
            seq=self.seq,
            global_batch=self.global_batch,
            precision=self.precision,
        ).total

    def _least_again(self, degrees: Mapping[str, Any], sharding: str, shared: Mapping[str, Any]) -> tuple[Any, Any]:
        """How few layers of a stage must be computed again for each plan to fit, and where that is some of them and not all.

        Every layer frees as much as the next one, on the first stage and on the last, so the larger of the two lies below the
        straight line between one layer and all.
        """
        stage = -(-self.model.n_layers // degrees["pp"])

        def need(layers: Any) -> Any:
            return self._memory(
                replace(like(self.base, "full", sharding), **degrees, **shared, recompute_layers=layers)
            )

        one, every = need(stage * 0 + 1), need(stage)
        none = self._memory(replace(like(self.base, "none", sharding), **degrees, **shared))
        freed = np.where(one > every, (one - every) / np.maximum(1, stage - 1), 1.0)
        more = np.where(one > self.room, -((self.room - one) // freed), 0.0)
        fits = (none > self.room) & (one > every) & (1.0 + more < stage)
        return np.where(fits, 1.0 + more, 1.0).astype("int64"), fits

    def _swaps(self, every: Mapping[str, Any]) -> Any:
        """Whether tokens can be swapped for heads, where the base asks for that."""
        if self.base.cp_comm_type != "a2a":
            return True
        return (every["cp"] == 1) | (self.model.heads % (every["tp"] * every["cp"]) == 0)

    @property
    def _answers(self) -> tuple[str, ...]:
        return ("time", "mfu", "memory", *TERMS, *(("cost",) if self.price is not None else ()))


def _useful(columns: Columns) -> Columns:
    """The rows that are plans, without what only numbered them."""
    if "useful" not in columns.data:  # gone through here already
        return columns
    useful = columns["useful"]
    kept = columns if useful.all() else columns.take(useful)
    return Columns({name: column for name, column in kept.data.items() if name not in ("useful", "row", "experts")})


def _runs(degrees: Mapping[str, Any], schedule: str, sharding: str, m: Model, global_batch: int) -> Any:
    """Whether a schedule can run each row, as ``Plan.check`` has it."""
    if schedule == "1f1b":
        return True
    if sharding in ("fsdp", "hsdp"):
        return np.full(len(degrees["pp"]), False)
    pp = degrees["pp"]
    runs = (pp > 1) & (degrees["virtual_stages"] == 1)
    if schedule.endswith("-v"):
        runs &= 2 * pp <= m.n_layers + 2
    if schedule == "dualpipe":
        micro_batches = global_batch // (degrees["dp"] * degrees["micro_batch"])
        runs &= (pp % 2 == 0) & (micro_batches % 2 == 0) & (micro_batches >= 2 * pp)
    if schedule == "dualpipe-v":
        runs &= global_batch // (degrees["dp"] * degrees["micro_batch"]) >= 2 * pp
    return runs


def _groups(degrees: Mapping[str, Any], sharding: str, domain: int) -> tuple[Any, Any]:
    """The group that hsdp shares weights in, the data-parallel ranks of one scale-up domain, and whether it is one."""
    ranks = degrees["dp"] * degrees["cp"]
    if sharding != "hsdp":
        return np.ones_like(ranks), np.full(len(ranks), True)
    group = np.gcd(ranks, np.maximum(1, domain // degrees["tp"]))
    return group, (group > 1) & (group < ranks)  # one rank shares nothing, and all ranks are fsdp
