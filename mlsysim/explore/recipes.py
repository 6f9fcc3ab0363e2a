"""The published training recipe that lies nearest to a job, what the step model says of it, and what it would take on the job.

The rows are data of ``mlsysim/evidence`` that are read as files here: nothing of that wing is imported.
"""

import csv
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

from mlsysim import catalog, units
from mlsysim._numeric import arrays
from mlsysim.catalog import Machines, Model
from mlsysim.efficiencies import DEFAULT, lineage
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.explore.columns import Columns
from mlsysim.explore.planner import PlanSearch, describe_row, plan
from mlsysim.parallelism import SHARDINGS
from mlsysim.parallelism.plan import AGAIN
from mlsysim.results import Result, format_rows, plain
from mlsysim.training import Efficiencies
from mlsysim.transformer import parameter_count

np = arrays()
_FILE = "evidence/rows/training_step.csv"
_DEGREES = ("tp", "pp", "cp", "dp", "ep", "micro_batch")  # that every recipe states
_SHARDING = {"zero3/fsdp": "fsdp", "zero3": "fsdp"}
_NEAR = 2.0  # times the devices, the tokens of a sequence or those of a device and step, up to which a recipe is near


@dataclass(frozen=True)
class Recipe(Result):
    """A published step of pretraining: the job, the plan as far as its source states it, and the seconds measured."""

    id: str
    model: str
    device: str
    devices: int
    domain: int
    precision: str
    global_batch: int
    seq: int
    stated: Mapping[str, Any]  # columns of a search, as the source has them
    sequence_parallel: bool
    time: float  # s
    source: str
    where: str

    @property
    def job(self) -> tuple[str, str, str]:
        """Model, device and number format."""
        return self.model, self.device, self.precision

    @cached_property
    def machines(self) -> Machines | None:
        """Its devices in nodes of the catalogue, of a rack as many as all racks use alike; None where it has none of that size."""
        node = next((n for n in catalog.nodes_with(self.device) if n.domain == self.domain), None)
        if node is None:
            return None
        if self.devices <= self.domain:
            return Machines(node.device, self.devices)
        if self.devices % node.devices == 0:
            return Machines(node.device, self.devices, node)
        used = math.gcd(self.devices, 1 << (node.devices.bit_length() - 1))
        one_each = node.nics == node.devices
        fewer = {name: replace(node.fields["devices"], value=used) for name in ("devices", "domain")}
        fewer |= {"nics": fewer["devices"]} if one_each else {}
        return Machines(node.device, self.devices, replace(node, fields={**node.fields, **fewer}))

    def same(self, rows: Columns, leave: tuple[str, ...] = ()) -> Any:
        """Which rows of a search have all that the source states of the plan."""
        found: Any = np.full(len(rows), True)
        for name, value in self.stated.items():
            if name not in leave:
                found = found & (rows[name] == value)
        return found

    def search(self, efficiencies: Efficiencies | str = DEFAULT, **options: Any) -> PlanSearch:
        """Every plan for its job, those of its own sharding and micro-batch among them.

        Raises
        ------
        InputError
            Its devices are in no node of the catalogue.
        """
        if self.machines is None:
            raise InputError(
                f"{self.id}: no node of the catalogue joins {self.domain} x {self.device}; ask for another recipe"
            )
        asked: dict[str, Any] = {
            "global_batch": self.global_batch,
            "seq": self.seq,
            "precision": self.precision,
            "efficiencies": efficiencies,
        }
        return plan(self.model, self.machines, **asked | {"sequence_parallel": self.sequence_parallel} | options)

    def as_run(self, efficiencies: Efficiencies | str = DEFAULT) -> dict[str, Any]:
        """Its plan as a row of a search; what the source leaves open as fast as the device's whole memory lets it, since it ran.

        Raises
        ------
        InputError
            A plan that cannot be, by the catalogue or by our count of memory.
        """
        limits = {name: (self.stated[name],) for name in ("tp", "pp", "cp", "dp", "ep")}
        room = catalog.device(self.device).usable_memory
        again = self.stated.get("recompute", AGAIN)
        ways = {"sharding": self.stated["sharding"], "micro_batch": self.stated["micro_batch"], "recompute": again}
        found = self.search(efficiencies, only=limits, capacity=room, **ways)
        own = found.where(self.same)
        if not len(own.rows):
            raise InputError(
                f"{self.id}: the search has no plan like {self.plan_words} among {len(found.rows)}; ask for another recipe"
            )
        return own.best().row(0)

    @cached_property
    def predicted(self) -> float | None:
        """Seconds of a step; None where its plan does not fit by our count."""
        try:
            return float(self.as_run()["time"])
        except InputError:
            return None

    @property
    def plan_words(self) -> str:
        """Its plan, as its source states it."""
        return describe_row({"virtual_stages": 1, "recompute": ""} | dict(self.stated)).removesuffix(", recompute ")

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return dict(plain({n: getattr(self, n) for n in self.__dataclass_fields__})) | {"predicted_s": self.predicted}


def recipes_of(rows: Iterable[Mapping[str, str]]) -> Iterable[Recipe]:
    """The recipes in a table with the columns of ``evidence/rows/training_step.csv``: pretraining with its plan stated, of a model and
    a device of the catalogue, whose sequences are not packed."""
    for row in rows:
        numbers = {name: float(row[name] or 1) for name in ("pp", "cp", "ep")}
        if (
            row["task"] != "pretrain"
            or row["attn_len"] not in ("", row["seq"])
            or not all(row[n] for n in ("tp", "dp", "micro_batch"))
        ):
            continue
        numbers |= {name: float(row[name]) for name in ("tp", "dp", "micro_batch", "global_batch", "seq", "n_devices")}
        sharding = _SHARDING.get(row["sharding"], row["sharding"])
        if (
            any(value != int(value) for value in numbers.values())
            or sharding not in SHARDINGS
            or not row["devices_per_node"]
        ):
            continue
        if not _known(row["model"], row["device"]):
            continue
        stated: dict[str, Any] = {name: int(numbers[name]) for name in _DEGREES} | {"sharding": sharding}
        if row["virtual_stages"]:
            stated["virtual_stages"] = int(float(row["virtual_stages"]))
        if row["recompute"]:
            stated["recompute"] = row["recompute"]
        m = catalog.model(row["model"])
        if m.is_moe and stated["tp"] > 1 and (stated["dp"] * stated["cp"]) % stated["ep"]:
            stated["etp"] = 1  # no other way to have so many
        yield Recipe(
            row["id"], m.name, catalog.device(row["device"]).name, int(numbers["n_devices"]), int(float(row["devices_per_node"])),
            row["precision"], int(numbers["global_batch"]), int(numbers["seq"]), stated, row["seq_parallel"] != "false",
            float(row["measured_step_time_s"]), row["source"], row["where"],
        )  # fmt: skip


@cache
def _known(model: str, device: str) -> bool:
    try:
        return bool(catalog.model(model).name and catalog.device(device).name)
    except UnknownNameError:
        return False


@cache
def recipes() -> tuple[Recipe, ...]:
    """Every published recipe that ships.

    >>> len({r.source for r in recipes()}) > 10
    True
    """
    file = files("mlsysim").joinpath(_FILE)
    if not file.is_file():
        return ()
    text = file.read_text(encoding="utf-8")
    return tuple(recipes_of(csv.DictReader(io.StringIO(text, newline=""), strict=True)))


@dataclass(frozen=True)
class NearestRecipe(Result):
    """The nearest recipe, and the job that it is near to."""

    recipe: Recipe
    model: Model
    machines: Machines
    precision: str
    global_batch: int
    seq: int

    @property
    def near(self) -> bool:
        """The same model on the same device, and sizes that are at most twice as large or half."""
        distance = self.distance
        return distance[:2] == (0.0, 0.0) and max(self._sizes) <= math.log(_NEAR)

    @property
    def _sizes(self) -> tuple[float, ...]:
        """Logarithms of devices, of tokens of a sequence and of tokens of a device and step, apart."""
        r, n = self.recipe, self.machines.devices
        tokens = r.global_batch * r.seq / r.devices, self.global_batch * self.seq / n
        return tuple(abs(math.log(a / b)) for a, b in ((r.devices, n), (r.seq, self.seq), tokens))

    @property
    def distance(self) -> tuple[float, ...]:
        """What is compared in order: another model, another device, other products, and sizes; of other models their parameters."""
        r, own = self.recipe, lineage(self.machines.device)
        apart = (
            0
            if r.device == self.machines.device.name
            else 1 + next(i for i, of in enumerate(own) if of in lineage(r.device))
        )
        other = r.model != self.model.name
        size = abs(math.log(_parameters(r.model) / float(parameter_count(self.model).total))) if other else 0.0
        return float(other), float(apart), float(r.precision != self.precision), size + sum(self._sizes)

    def words(self, found: PlanSearch | None = None) -> str:
        """The recipe, what we say of it, and in a search of the job what its plan takes there, in a sentence."""
        r = self.recipe
        name = "nearest published recipe" + ("" if self.near else ", not near")
        ours = r.predicted
        we = (
            "we say that it does not fit"
            if ours is None
            else f"we say {units.format(ours, 's', 3)} ({units.percent(ours / r.time - 1.0, 0)})"
        )
        model = "" if r.model == self.model.name else f"{r.model}, "
        said = (
            f"{name}: {model}{r.plan_words} on {r.devices:,} x {r.device}, {r.precision}, {r.global_batch:,} x {r.seq:,} tokens: "
            f"{units.format(r.time, 's', 3)} measured, {we}"
        )
        return said + ("" if found is None else f"; {self.here(found)}")

    def here(self, found: PlanSearch) -> str:
        """What its plan takes on the job, with data parallelism as the devices allow."""
        same = found.where(lambda rows: self.recipe.same(rows, leave=("dp",)))
        if not len(same.rows):
            return "that plan cannot split this job"
        if not same.fits:
            return "that plan leaves too little memory here"
        row = same.best().row(0)
        place = int((found.fitting["time"] < row["time"]).sum()) + 1
        slower = units.percent(row["time"] / found.fastest - 1.0)
        return f"here {units.format(row['time'], 's', 3)}, {slower} beside the fastest, place {place:,}"

    def summary(self) -> list[str]:
        return format_rows(self.words(), ("source", f"{self.recipe.source}, {self.recipe.where}"))

    def to_dict(self) -> dict[str, Any]:
        """The recipe with what we predict there, and whether it is near."""
        return self.recipe.to_dict() | {"near": self.near}


@cache
def _parameters(model: str) -> float:
    return float(parameter_count(model).total)


def nearest_recipe(
    model: Model, machines: Machines, precision: str, global_batch: int, seq: int
) -> NearestRecipe | None:
    """The nearest of the published recipes: first of the same model, then of the device or its next relative, of the format, of sizes.

    Parameters
    ----------
    model : Model
        A shape, under its name.
    machines : Machines
        Where it shall run, with a number.
    precision : str
        Number format of the linear layers.
    global_batch, seq : int, 1
        Sequences of a step, and tokens of each.

    Returns
    -------
    NearestRecipe or None
        None where no recipe ships.
    """
    asked = (model, machines, precision, global_batch, seq)
    return min((NearestRecipe(r, *asked) for r in recipes()), key=lambda n: n.distance, default=None)
