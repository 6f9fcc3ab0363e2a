"""Where a machine stands: grids with the carbon of their electricity, and facilities with their overheads; one source per field."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mlsysim.catalog import entries, registry
from mlsysim.catalog.entries import Entry, count, figure
from mlsysim.errors import InputError

GRID_KINDS = ("country", "later", "region", "site", "source")  # later: a country in a year after its plain entry's


@dataclass(frozen=True, kw_only=True)
class Grid(Entry):
    """Electricity of one place (or one source) in one year: carbon by the location-based method, residual mix, water.

    >>> round(grid("France").carbon_intensity * 3.6e9)  # g/kWh
    56
    """

    kind: str

    year = count("The year that the figures belong to.")
    carbon_intensity = figure("kg/J", "Mean of what is generated there, kg of CO2 equivalent per J (location-based).")
    residual_intensity = figure(
        "kg/J", "What is left without everybody's contracts, kg/J (market-based), where a source gives it."
    )
    water_intensity = figure("L/J", "Water consumed to make the electricity, L/J, where a source gives it.")


@dataclass(frozen=True, kw_only=True)
class Facility(Entry):
    """A data centre, or a mean over many: PUE, and WUE per IT kilowatt-hour."""

    pue = figure("1", "Energy of the facility over that of its IT equipment.")
    wue = figure("L/J", "Water on the site per unit of IT energy, L/J.")
    water_intensity = figure(
        "L/J", "Water consumed to make its electricity, L/J, where a source gives it; a grid's mean is not its own."
    )


def read_grid(name: str, raw: Any, file: str) -> Grid:
    """A grid from its table; errors name file, entry and field."""
    needed = ("kind", "year", "carbon_intensity")
    return entries.read(Grid, "grids", name, raw, file, needed=needed, choices={"kind": GRID_KINDS})


def read_facility(name: str, raw: Any, file: str) -> Facility:
    """A facility from its table; errors name file, entry and field."""
    found = entries.read(Facility, "facilities", name, raw, file)
    if found.has("pue") and found.fields["pue"].value < 1:
        raise InputError(
            f"{file}: {name[:60]}, pue = {found.pue:g} is below 1; it is the facility's energy over that of its IT equipment"
        )
    return found


def load_grids(path: str | Path) -> dict[str, Grid]:
    """Read grids from a TOML file in the catalogue's form: as data, never executed, of bounded size.

    Raises
    ------
    InputError
        Naming the file, the entry and the field, and how to mend it.
    """
    return entries.load(Path(path), read_grid)


def load_facilities(path: str | Path) -> dict[str, Facility]:
    """Read facilities from a TOML file in the catalogue's form.

    Raises
    ------
    InputError
        Naming the file, the entry and the field, and how to mend it.
    """
    return entries.load(Path(path), read_facility)


def grids() -> Mapping[str, Grid]:
    """Every grid and every source of electricity of the catalogue, by name.

    >>> grids()["Poland"].year
    2023
    """
    return registry.joined("grid", _grids())


@cache
def _grids() -> Mapping[str, Grid]:
    return entries.LazyTable("grid", "sites/grids.toml", read_grid)


def facilities() -> Mapping[str, Facility]:
    """Every facility of the catalogue, by name.

    >>> facilities()["industry-2023"].pue
    1.58
    """
    return registry.joined("facility", _facilities())


@cache
def _facilities() -> Mapping[str, Facility]:
    return entries.LazyTable("facility", "sites/facilities.toml", read_facility)


def grid(name: str | Grid) -> Grid:
    """The grid of that name or alias; a Grid is passed through.

    >>> grid("pol").name
    'Poland'
    """
    return name if isinstance(name, Grid) else entries.find("grid", name, grids(), "'mlsysim grids' lists them")


def facility(name: str | Facility) -> Facility:
    """The facility of that name; a Facility is passed through.

    >>> facility("google 2025").pue
    1.09
    """
    return name if isinstance(name, Facility) else entries.find("facility", name, facilities())
