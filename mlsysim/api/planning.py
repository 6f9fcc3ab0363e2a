"""``mlsysim.plan``: the plan search with names, and what would fit where nothing does."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mlsysim import catalog, units
from mlsysim._chains import chain
from mlsysim._numeric.traced import given, made
from mlsysim.api.arguments import Defaults, fitted, typed, wrap_lines
from mlsysim.api.asked import networked
from mlsysim.api.training import (
    PRECISION,
    SEQ,
    TrainSpec,
    check_integer,
    default_batch,
    step_of,
    suggestions_of,
)
from mlsysim.catalog import Cluster, Device, Machines, Model, Node
from mlsysim.catalog.shapes import asked_for
from mlsysim.declared import in_si
from mlsysim.efficiencies import DEFAULT, describe
from mlsysim.errors import unknown_name
from mlsysim.explore import PlanSearch
from mlsysim.explore import plan as search
from mlsysim.explore.planner import TIE
from mlsysim.explore.recipes import NearestRecipe, nearest_recipe
from mlsysim.results import Explanation
from mlsysim.tables import Table
from mlsysim.training import Efficiencies

OPTIONS = (
    *("micro_batch", "sharding", "recompute", "only", "most", "sequence_parallel", "capacity"),
    *("price_per_device_second", "store", "client", "chunk", "schedule", "base", "host_bandwidth"),
)


@dataclass(frozen=True, repr=False)
class Planned(PlanSearch):
    """What :func:`plan` returns: a ``PlanSearch`` that knows what was assumed, and what would fit where nothing does."""

    question: TrainSpec | None = None
    assumed: tuple[str, ...] = ()

    @property
    def answered(self) -> bool:
        return self.fits

    @cached_property
    def suggestions(self) -> tuple[str, ...]:
        """What would fit: more nodes, shorter sequences, larger devices."""
        return () if self.question is None else tuple(suggestions_of(self.question))

    def summary(self) -> list[str]:
        """The search's own summary, with what was assumed; where nothing fits, that, and what would."""
        if not self.fits:
            return wrap_lines(
                [*self.refusal(), describe(self.efficiencies.name, self.efficiencies.source), *self.assumed]
            )
        near = [] if self.nearest is None else wrap_lines([self.nearest.words(self)])
        return fitted([*super().summary(), *near, *wrap_lines(self.assumed)], (), near)

    @cached_property
    def nearest(self) -> "NearestRecipe | None":
        """The published recipe that lies nearest to the job."""
        q = self.question
        return None if q is None else nearest_recipe(q.model, q.machines, q.precision, q.global_batch, q.seq)

    def refusal(self) -> list[str]:
        """That nothing fits, and what would, in lines."""
        least = self.rows.smallest("memory").row(0)["memory"]
        have = units.format(self.capacity, "byte")
        where = f"{self.model.name} on {catalog.where(self.cluster)}"
        return [
            f"DOES NOT FIT: {where}: none of {len(self.rows):,} plans; the smallest needs {units.format(least, 'byte')} of {have} (capacity; "
            "by default it leaves room for what is not counted)",
            *(f"  would fit: {line}" for line in self.suggestions),
        ]

    def explain(self, count: int = 5) -> Table | Explanation:
        """The chain from the first plan's step to its sources, beside the next plans; the smallest ones where none fits."""
        if not self.fits or self.question is None:
            return self.table(count)
        best = self.best(max(count, 2))
        rows = [best.row(k) for k in range(len(best))]
        step, _ = step_of(self.question, self.plan()).traced_time()
        next_ones = tuple(float(row["time"]) for row in rows[1:]) or (float(rows[0]["time"]),)
        inputs = {
            "x0": step,
            "x1": given(
                next_ones, "steps of the next plans", "s", "the same lines with another plan; 'Loses by' names the term"
            ),
            "x2": given(TIE, "tie", "1", "plans within it are equally fast; the simplest of them comes first"),
            "x3": given(
                float(rows[0]["memory"]),
                "memory of the plan",
                "byte",
                f"counted from the shape of {self.model.name}: memory.training_memory",
            ),
            "x4": given(self.capacity, "device memory", "byte", "the devices, or capacity= of the caller"),
        }
        root = made(float(step), "fastest_that_fits", inputs, unit="s").called("step of the first plan")
        notes = (f"First: {self.why_first()}.", self.rates, *str(self.table(count)).split("\n"))
        return chain(
            f"{self.model.name}: the best of {len(self.rows):,} plans, of which {len(self.fitting):,} fit", root, notes
        )

    def to_dict(self) -> dict[str, Any]:
        """The job, how many plans there are, the ten best of them, and what would fit where none does."""
        more = {
            "fits": self.fits,
            "would_fit": [] if self.fits else list(self.suggestions),
            "recommended": self.simplest() if self.fits else None,
            "nearest_recipe": None if self.nearest is None else self.nearest.to_dict(),
            "assumed": list(self.assumed),
        }
        return super().to_dict() | more


@typed
def plan(
    model: Model | str,
    cluster: Device | Node | Cluster | Machines | str,
    *,
    global_batch: int | None = None,
    seq: int | None = None,
    precision: str | None = None,
    efficiencies: Efficiencies | str = DEFAULT,
    **options: Any,
) -> Planned:
    """Every way to split a model over a cluster: the fastest that fit, and why the others lose.

    Parameters
    ----------
    model : Model or str
        A catalogue entry, its name, or a shape of your own.
    cluster : str, Cluster or Node
        What ``catalog.where`` reads, with a number: ``"8 x DGX-H100"``, ``"64 H100"``, ``"DGX-H100"``.
    global_batch : int, optional
        As in :func:`mlsysim.train`.
    seq : int, optional
        As in :func:`mlsysim.train`.
    precision : str, optional
        As in :func:`mlsysim.train`.
    efficiencies : str or Efficiencies
        As in :func:`mlsysim.train`.
    **options
        Of ``explore.plan``: ``micro_batch``, ``sharding``, ``recompute``, ``schedule``, ``base``, ``host_bandwidth``, ``only``, ``most``,
        ``sequence_parallel``, ``capacity``, ``price_per_device_second``, ``store``, ``client``, ``chunk``.

    Returns
    -------
    Planned
        A ``PlanSearch``: ``best()``, ``plan()``, ``front()``, ``rank(plan)``, ``why(plan)``, ``losers()``, ``explain()``; printed, it
        is the answer. Where nothing fits ``fits`` is False and ``suggestions`` says what would.

    Raises
    ------
    InputError, UnknownNameError
        A value out of range; nothing divides; an unknown name, with the nearest ones.

    >>> p = plan("Llama-3.1-8B", "DGX-H100", global_batch=64, seq=4096)
    >>> p.fits, p.plan().devices
    (True, 8)
    """
    taken = Defaults()
    m, machines = asked_for(model), networked(catalog.where(cluster), taken)
    seq = check_integer("seq", taken.resolve("seq", seq, min(SEQ, m.learned_positions or SEQ)))
    batch = check_integer(
        "global_batch", taken.resolve("global_batch", global_batch, default_batch(machines.devices, seq))
    )
    precision = taken.resolve("precision", precision, PRECISION)
    for name in options:
        if name not in OPTIONS:
            raise unknown_name("option of plan", name, OPTIONS)
    found = search(
        m,
        machines,
        global_batch=batch,
        seq=seq,
        precision=precision,
        efficiencies=efficiencies,
        **in_si(search, options),
    )
    question = TrainSpec(
        model=m,
        machines=machines,
        global_batch=batch,
        seq=seq,
        tokens=None,
        plan=None,
        degrees={},
        limits={},
        precision=precision,
        efficiencies=efficiencies,
        rent=None,
        pue=1.0,
        options={},
    )
    values = {name: getattr(found, name) for name in PlanSearch.__dataclass_fields__}
    return Planned(**values, question=question, assumed=taken.lines)
