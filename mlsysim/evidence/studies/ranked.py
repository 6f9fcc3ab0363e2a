"""Published plans among all plans for their jobs: the place of each in our ranking, and its time beside our best.

``python -m mlsysim.evidence.studies.ranked`` prints the table.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from mlsysim import units
from mlsysim.efficiencies import DEFAULT
from mlsysim.errors import InputError
from mlsysim.explore.planner import TIE, describe_row
from mlsysim.explore.recipes import Recipe, recipes
from mlsysim.results import Result, format_rows
from mlsysim.tables import Table, table
from mlsysim.training import Efficiencies

LEAST = 16  # devices: with fewer there is little to choose


def jobs() -> tuple[Recipe, ...]:
    """A recipe for every model, device and number format that was trained on nodes of the catalogue, the one on the fewest devices.

    >>> len(jobs())
    67
    """
    known = [r for r in recipes() if r.devices >= LEAST and r.machines is not None]
    by = {r.job: r for r in sorted(known, key=lambda r: (-r.devices, r.global_batch * r.seq / r.time))}
    return tuple(by[job] for job in dict.fromkeys(r.job for r in known))


@dataclass(frozen=True)
class Ranked(Result):
    """A published plan among all: its step in seconds and its place, the first plan and the recommended one."""

    recipe: Recipe
    time: float  # s, of the published plan by the same model
    place: int
    fitting: int
    first: float  # s
    simple: float  # s, of the recommended plan
    first_plan: str
    simple_plan: str
    cp: tuple[int, int, int]  # of the published, the first and the recommended plan

    @property
    def ratio(self) -> float:
        """Time of the published plan over that of the first."""
        return self.time / self.first


@dataclass(frozen=True)
class Ranking(Result):
    """All jobs, and those whose published plan is no plan by our count, each with the reason."""

    rows: tuple[Ranked, ...]
    left: tuple[tuple[str, str], ...]

    @cached_property
    def place(self) -> float:
        """Median place of the published plans."""
        return median(r.place for r in self.rows)

    @cached_property
    def ratio(self) -> float:
        """Median of their times over those of the first plans."""
        return median(r.ratio for r in self.rows)

    @cached_property
    def recommended(self) -> float:
        """Median of their times over those of the recommended plans."""
        return median(r.time / r.simple for r in self.rows)

    @property
    def cp(self) -> tuple[int, ...]:
        """Jobs with context parallelism in the published, the first and the recommended plan."""
        return tuple(sum(r.cp[k] > 1 for r in self.rows) for k in range(3))

    def summary(self) -> list[str]:
        published, first, simple = self.cp
        return format_rows(
            f"{len(self.rows)} published plans: median place {self.place:g}, median time {self.ratio:.3f} times that of our first plan",
            ("recommended", f"{self.recommended:.3f} times that of the plan we recommend"),
            ("context parallelism", f"in {published} published, {first} first and {simple} recommended plans"),
            ("no plans by our count", "; ".join(f"{name}: {why}" for name, why in self.left)),
        )

    def rows_table(self) -> Table:
        """A row per job."""
        cells = [
            (f"{r.recipe.id} {r.recipe.model}", f"{r.recipe.devices} {r.recipe.device}", r.recipe.precision, f"{r.place:,} of {r.fitting:,}",
             f"{r.ratio:.2f}", f"{r.time / r.simple:.2f}", r.recipe.plan_words, r.first_plan, r.simple_plan)
            for r in self.rows
        ]  # fmt: skip
        heads = (
            "Job",
            "Devices",
            "Format",
            "Place",
            "Beside first",
            "Beside recommended",
            "Published",
            "First",
            "Recommended",
        )
        return table(heads, cells)


def ranking(efficiencies: Efficiencies | str = DEFAULT) -> Ranking:
    """Every published plan of :func:`jobs` among all plans for its job.

    The published plan may take the whole memory, since it ran; its rivals leave room for what is not counted. What a source does not say of
    its plan is as fast as fits.
    """
    left: list[tuple[str, str]] = []
    return Ranking(tuple(_ranked(left, efficiencies)), tuple(left))


def _ranked(left: list[tuple[str, str]], efficiencies: Efficiencies | str) -> Iterator[Ranked]:
    for recipe in jobs():
        try:
            own, found = recipe.as_run(efficiencies), recipe.search(efficiencies)
            first, simple = found.best().row(0), found.simplest()
        except InputError as error:
            left.append((recipe.id, str(error)[:120]))
            continue
        place = int((found.fitting["time"] * (1 + TIE) < own["time"]).sum()) + 1
        cps = (own["cp"], first["cp"], simple["cp"])
        texts = describe_row(first), describe_row(simple)
        yield Ranked(recipe, own["time"], place, len(found.fitting), first["time"], simple["time"], *texts, cps)


if __name__ == "__main__":
    told = ranking()
    print(told.rows_table(), told, sep="\n\n")
    print(
        units.percent(sum(r.ratio < 1.1 for r in told.rows) / len(told.rows), signed=False),
        "of them within a tenth of our first",
    )
