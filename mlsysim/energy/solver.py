"""A job or a server with its watts, joules, kilograms and litres, part by part, and where every number came from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlsysim import catalog, units
from mlsysim._numeric import Num, all_true, is_array, widening
from mlsysim.catalog import Device, Facility, Grid
from mlsysim.energy import footprint, power
from mlsysim.equations import NON_NEGATIVE, POSITIVE, Domain, check_argument
from mlsysim.errors import InputError
from mlsysim.results import CALLER, Explanation, Input, Result, Term, Terms, format_rows, format_value, top_shares

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

_TEXT = {
    "carbon_location": "carbon, location-based",
    "carbon_market": "carbon, market-based",
    "carbon_embodied": "carbon of making it",
    "water_site": "water on the site",
    "water_source": "water of the electricity",
    "energy_per_token": "energy per token",
}


@dataclass(frozen=True)
class Footprint(Result):
    """What :func:`run` returns; SI units, floats or arrays. The ``parts`` sum to ``energy``; None is "not asked for"."""

    NUMBERS = (
        "it_power_w it_energy_j energy_j parts_j carbon_location_kg carbon_market_kg carbon_embodied_kg water_site_l "
        "water_source_l energy_per_token_j not_counted=notes"
    )

    it_power: Num
    it_energy: Num
    energy: Num
    parts: Mapping[str, Num]
    carbon_location: Num | None
    carbon_market: Num | None
    carbon_embodied: Num | None
    water_site: Num | None
    water_source: Num | None
    energy_per_token: Num | None
    terms: tuple[Term, ...]
    inputs: tuple[Input, ...]
    notes: tuple[str, ...]

    def summary(self) -> list[str]:
        asked = (
            ("carbon", "location-based", self.carbon_location, "kg"),
            ("", "market-based", self.carbon_market, "kg"),
            ("", "of making it", self.carbon_embodied, "kg"),
            ("water", "on the site", self.water_site, "L"),
            ("", "of the electricity", self.water_source, "L"),
        )
        rows: dict[str, list[str]] = {"carbon": [], "water": []}
        for name, what, value, unit in asked:
            if value is not None:
                rows["water" if unit == "L" else name or "carbon"].append(f"{format_value(value, unit)} {what}")
        each = "" if self.energy_per_token is None else format_value(self.energy_per_token, "J/token")
        return format_rows(
            f"{_mwh(self.energy)} of facility energy, {_mwh(self.it_energy)} of it in the machines at {format_value(self.it_power, 'W')}",
            ("parts", top_shares(self.parts, 6)),
            *((name, "; ".join(said)) for name, said in rows.items()),
            ("per token", each),
            ("not counted", "; ".join(note.removeprefix("not counted: ") for note in self.notes)),
        )

    def chart(self) -> "Drawing | None":
        """The parts of the energy as bars."""
        from mlsysim.drawing import shapes

        return shapes.terms("facility energy", self.parts, "energy", "J")

    def explain(self) -> Explanation:
        """Each part with its equation, the numbers in it, and the source of each input."""
        return Explanation(f"{_kwh(self.energy)} of facility energy", self.terms, self.inputs, self.notes)


def _mwh(joules: Num) -> str:
    """Energy in the unit of bills; of an array its range."""
    if is_array(joules):
        low, high = _mwh(joules.min()), _mwh(joules.max())
        return low if low == high else f"{low} to {high}"
    name, size = ("MWh", units.MWh) if joules >= units.MWh else ("kWh", units.kWh)
    value = joules / size
    return f"{value:,.0f} {name}" if value >= 1e4 else f"{value:.4g} {name}"


def _kwh(joules: Num) -> str:
    unit = "MWh" if all_true(joules >= units.MWh) else "kWh"
    return units.format(joules / {"MWh": units.MWh, "kWh": units.kWh}[unit], "1") + f" {unit}"


@widening
def run(
    devices: Num,
    time: Num,
    *,
    device: str | Device | None = None,
    peak_power: Num | None = None,
    idle_power: Num | None = None,
    utilisation: Num = 1.0,
    nodes: Num | None = None,
    host_power: Num | None = None,
    network_power: Num | None = None,
    facility: str | Facility | None = None,
    pue: Num | None = None,
    wue: Num | None = None,
    grid: str | Grid | None = None,
    carbon_intensity: Num | None = None,
    water_intensity: Num | None = None,
    covered: Num | None = None,
    contract_intensity: Num = 0.0,
    residual_intensity: Num | None = None,
    embodied: Num | None = None,
    device_embodied: Num | None = None,
    lifetime: Num | None = None,
    busy_share: Num = 1.0,
    token_rate: Num | None = None,
) -> Footprint:
    """Energy, carbon and water of devices that run for some time, from the parts that the caller names.

    Parameters
    ----------
    devices : float or array
        Accelerators of the job.
    time : float or array, s
        How long they are held, as in ``"54 day"``.
    device : str or Device, optional
        Device, by name or alias, whose thermal design power is the peak power unless ``peak_power`` is given.
    peak_power : float or array, W, optional
        Power of one device at full load.
    idle_power : float or array, W, optional
        Power of one device at rest. A utilisation below 1 needs it.
    utilisation : float or array, 1, [0, 1]
        Where mean power lies between the two: 0 at rest, 1 at full load.
    nodes : float or array, optional
        Servers; with host_power. Left out, hosts are not counted, and the result says so.
    host_power : float or array, W, optional
        Power of one server without its accelerators.
    network_power : float or array, W, optional
        Power of the whole network.
    facility : str or Facility, optional
        Facility of the catalogue, as in ``"industry-2025"``; or pue. One of the two is needed.
    pue : float or array, 1, [1, inf), optional
        Power usage effectiveness (facility / IT energy).
    wue : float or array, L/J, optional
        Water usage effectiveness: litres per IT kilowatt-hour, as in ``"0.4 L/kWh"``.
    grid : str or Grid, optional
        Grid of the catalogue, as in ``"France"`` (mlsysim grids lists them).
    carbon_intensity : float or array, kg/J, optional
        Carbon intensity of the electricity instead of a grid, as in ``"400 g/kWh"``.
    water_intensity : float or array, L/J, optional
        Water intensity of the electricity, as in ``"3 L/kWh"``.
    covered : float or array, 1, [0, 1], optional
        Share under contracts: adds the market-based carbon.
    contract_intensity : float or array, kg/J
        Carbon intensity of the contracts.
    residual_intensity : float or array, kg/J, optional
        Carbon intensity of the residual mix (default: the grid's own, and the result says so).
    embodied : float or array, kg, optional
        Carbon of making all the equipment.
    device_embodied : float or array, kg, optional
        Carbon of making one device with its share of the server.
    lifetime : float or array, s, optional
        Life of the equipment, as in ``"6 year"``; needed with device_embodied.
    busy_share : float or array, 1, (0, 1]
        Share of that life in which the equipment is held.
    token_rate : float or array, token/s, optional
        Tokens of all devices together, for the energy per token.

    Returns
    -------
    Footprint
        Frozen result; its parts sum to the energy.

    Raises
    ------
    InputError, UnknownNameError
        A value out of range, or one that is needed and missing: nothing is filled in.

    >>> f = run(16384, 54 * 86400.0, device="H100", facility="Meta-LLaMA", grid="USA")
    >>> round(f.energy / 3.6e9), round(f.carbon_location / 1e3)  # MWh, t
    (16350, 6041)
    """
    origins: dict[str, str] = {}
    notes: list[str] = []
    terms = Terms()
    peak_power = _peak(peak_power, device, origins)
    place = catalog.facility(facility) if facility is not None else None
    mix = catalog.grid(grid) if grid is not None else None
    pue, wue = (_taken(name, value, place, origins) for name, value in (("pue", pue), ("wue", wue)))
    carbon_intensity = _taken("carbon_intensity", carbon_intensity, mix, origins)
    own_water = place if place is not None and place.has("water_intensity") else mix
    water_intensity = _taken("water_intensity", water_intensity, own_water, origins)
    embodied = _embodied(devices, embodied, device_embodied, lifetime)
    _check(time, pue, (idle_power, peak_power, utilisation), (nodes, host_power))
    it_power, parts = _machines(
        terms, notes, time, devices, (idle_power, peak_power, utilisation), (nodes, host_power), network_power
    )
    it_energy = power.facility_energy(it_power, time, 1.0)
    energy = terms("energy", power.facility_energy, it_power=it_power, time=time, pue=pue)
    parts["facility"] = energy - it_energy

    def asked(name: str, figure: Num | None, function: Callable[..., Num], **arguments: Num) -> Num | None:
        return None if figure is None else terms(_TEXT[name], function, **arguments)

    location = {"energy": energy, "carbon_intensity": carbon_intensity}
    found = {"carbon_location": asked("carbon_location", carbon_intensity, footprint.carbon, **location)}
    if covered is not None:
        residual_intensity = _residual(residual_intensity, mix, carbon_intensity, origins, notes)
        contract = {"contract_intensity": contract_intensity, "residual_intensity": residual_intensity}
        market = terms("intensity by contract", footprint.market_intensity, covered=covered, **contract)
        found["carbon_market"] = asked(
            "carbon_market", market, footprint.carbon, **location | {"carbon_intensity": market}
        )
    making = {"embodied": embodied, "time": time, "lifetime": lifetime, "busy_share": busy_share}
    found["carbon_embodied"] = asked("carbon_embodied", embodied, footprint.embodied_carbon, **making)
    found["water_site"] = asked("water_site", wue, footprint.onsite_water, it_energy=it_energy, wue=wue)
    found["water_source"] = asked(
        "water_source", water_intensity, footprint.source_water, energy=energy, water_intensity=water_intensity
    )
    each = {"it_power": it_power, "token_rate": token_rate, "pue": pue}
    found["energy_per_token"] = asked("energy_per_token", token_rate, power.energy_per_token, **each)
    figures = (
        devices, time, peak_power, idle_power, utilisation, nodes, host_power, network_power, pue, wue, carbon_intensity,
        water_intensity, covered, residual_intensity, embodied, lifetime, token_rate,
    )  # fmt: skip
    inputs = zip(_GIVEN, figures, strict=True)
    return Footprint(
        it_power=it_power,
        it_energy=it_energy,
        energy=energy,
        parts=parts,
        terms=tuple(terms),
        inputs=tuple(Input(n, v, u, origins.get(n, CALLER)) for (n, u), v in inputs if v is not None),
        notes=tuple(notes),
        **dict.fromkeys(_TEXT) | found,
    )


# Name and unit of what an explanation lists as given.
_GIVEN = (
    ("devices", "1"), ("time", "s"), ("peak_power", "W"), ("idle_power", "W"), ("utilisation", "1"), ("nodes", "1"),
    ("host_power", "W"), ("network_power", "W"), ("pue", "1"), ("wue", "L/J"), ("carbon_intensity", "kg/J"),
    ("water_intensity", "L/J"), ("covered", "1"), ("residual_intensity", "kg/J"), ("embodied", "kg"), ("lifetime", "s"),
    ("token_rate", "token/s"),
)  # fmt: skip
_Of = tuple[Num | None, Num, Num]  # watts of a device at rest and at full load, and where between them it lies


def _peak(peak_power: Num | None, device: str | Device | None, origins: dict[str, str]) -> Num:
    """Watts of a device at full load: as given, or its thermal design power."""
    d = catalog.device(device) if device is not None else None
    if peak_power is not None:
        return peak_power
    if d is None:
        raise InputError("run: give peak_power in W, or a device whose thermal design power stands for it")
    origins["peak_power"] = f"thermal design power, a limit and not a measurement: {d.origin('tdp')}"
    return d.tdp


def _embodied(devices: Num, embodied: Num | None, device_embodied: Num | None, lifetime: Num | None) -> Num | None:
    """Kilograms for making all the equipment, or None where nobody asks."""
    if embodied is not None and device_embodied is not None:
        raise InputError("run: embodied is of all the equipment and device_embodied of one device; give one of them")
    found = embodied if device_embodied is None else devices * device_embodied
    if found is not None:
        if lifetime is None:
            raise InputError(
                "run: embodied carbon needs lifetime in s; without one it has no share to give to this job"
            )
        check_argument("run", "lifetime", lifetime, "s", Domain.of(POSITIVE))
    return found


def _check(time: Num, pue: Num | None, of: _Of, hosts: tuple[Num | None, Num | None]) -> None:
    """Refuse what is missing, or does not go together."""
    idle_power, peak_power, utilisation = of
    if idle_power is None and not all_true(utilisation == 1):
        raise InputError("run: a utilisation below 1 needs idle_power in W; the catalogue holds none")
    if (hosts[0] is None) != (hosts[1] is None):
        raise InputError("run: nodes and host_power belong together; give both or neither")
    if pue is None:
        raise InputError("run: give pue (1 for the IT equipment alone) or a facility")
    check_argument("run", "time", time, "s", Domain.of(NON_NEGATIVE))
    idle = 0.0 if idle_power is None else idle_power
    if not all_true(idle <= peak_power):
        raise InputError(
            f"run: idle_power = {str(idle)[:60]} W must not exceed the {str(peak_power)[:60]} W of full load; give what a "
            "device draws at rest"
        )


def _machines(
    terms: Terms,
    notes: list[str],
    time: Num,
    devices: Num,
    of: _Of,
    hosts: tuple[Num | None, Num | None],
    network: Num | None,
) -> tuple[Num, dict[str, Num]]:
    """Watts of the machines, and the joules of each part; what was not given is noted."""
    idle, peak_power, utilisation = of
    rest = peak_power if idle is None else idle
    each = terms(
        "power of a device", power.device_power, idle_power=rest, peak_power=peak_power, utilisation=utilisation
    )
    nodes, host_power, wires = (0.0 if x is None else x for x in (*hosts, network))
    racks = {"nodes": nodes, "host_power": host_power, "network_power": wires}
    it_power = terms("power of the IT", power.it_power, devices=devices, device_power=each, **racks)
    parts: dict[str, Num] = {}
    if idle is None:
        parts["devices"] = devices * each * time
    else:
        parts["devices, at rest"] = devices * idle * time
        parts["devices, working"] = devices * (each - idle) * time
    for name, value, given in (("hosts", nodes * host_power, hosts[1]), ("network", wires, network)):
        if given is None:
            notes.append(f"not counted: {name}")
        else:
            parts[name] = value * time
    return it_power, parts


def _residual(
    given: Num | None, mix: Grid | None, carbon_intensity: Num | None, origins: dict[str, str], notes: list[str]
) -> Num:
    """Kilograms per joule of what no contract covers: as given, the grid's residual mix, or the grid's own."""
    if given is not None:
        return given
    if mix is not None and mix.has("residual_intensity"):
        origins["residual_intensity"] = mix.origin("residual_intensity")
        return mix.residual_intensity
    notes.append("no residual mix known: the grid's own intensity stands for it")
    if carbon_intensity is None:
        raise InputError("run: the market-based method needs residual_intensity in kg/J, or a grid")
    return carbon_intensity


def _taken(name: str, value: Num | None, entry: Grid | Facility | None, origins: dict[str, str]) -> Num | None:
    """A figure of the caller's, or of a catalogue entry that has it; None when neither does."""
    if value is not None or entry is None or not entry.has(name):
        return value
    origins[name] = f"{entry.name}: {entry.origin(name)}"
    return entry.fields[name].value
