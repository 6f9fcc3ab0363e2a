"""A job or a server with its watts, joules, kilograms and litres, part by part, and where every number came from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlsysim import catalog, units
from mlsysim._numeric import Num, all_true, is_array, widening
from mlsysim.catalog import Device, Facility, Grid
from mlsysim.energy import footprint, power
from mlsysim.equations import NON_NEGATIVE, POSITIVE, Domain, check_argument
from mlsysim.errors import InputError
from mlsysim.results import CALLER, Explanation, Input, Result, Term, labelled, largest, plain, shown

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
                rows["water" if unit == "L" else name or "carbon"].append(f"{shown(value, unit)} {what}")
        each = "" if self.energy_per_token is None else shown(self.energy_per_token, "J/token")
        return labelled(
            f"{_mwh(self.energy)} of facility energy, {_mwh(self.it_energy)} of it in the machines at {shown(self.it_power, 'W')}",
            ("parts", largest(self.parts, 6)),
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

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers in SI units, for JSON."""
        found = {
            "it_power_w": self.it_power,
            "it_energy_j": self.it_energy,
            "energy_j": self.energy,
            "parts_j": dict(self.parts),
            "carbon_location_kg": self.carbon_location,
            "carbon_market_kg": self.carbon_market,
            "carbon_embodied_kg": self.carbon_embodied,
            "water_site_l": self.water_site,
            "water_source_l": self.water_source,
            "energy_per_token_j": self.energy_per_token,
            "not_counted": list(self.notes),
        }
        return dict(plain(found))


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
    d = catalog.device(device) if device is not None else None
    if peak_power is None:
        if d is None:
            raise InputError("run: give peak_power in W, or a device whose thermal design power stands for it")
        peak_power = d.tdp
        origins["peak_power"] = f"thermal design power, a limit and not a measurement: {d.origin('tdp')}"
    if idle_power is None and not all_true(utilisation == 1):
        raise InputError("run: a utilisation below 1 needs idle_power in W; the catalogue holds none")
    if (nodes is None) != (host_power is None):
        raise InputError("run: nodes and host_power belong together; give both or neither")
    place = catalog.facility(facility) if facility is not None else None
    pue = _taken("pue", pue, place, origins)
    if pue is None:
        raise InputError("run: give pue (1 for the IT equipment alone) or a facility")
    wue = _taken("wue", wue, place, origins)
    mix = catalog.grid(grid) if grid is not None else None
    carbon_intensity = _taken("carbon_intensity", carbon_intensity, mix, origins)
    own_water = place if place is not None and place.has("water_intensity") else mix
    water_intensity = _taken("water_intensity", water_intensity, own_water, origins)

    check_argument("run", "time", time, "s", Domain.of(NON_NEGATIVE))
    if device_embodied is not None:
        if embodied is not None:
            raise InputError(
                "run: embodied is of all the equipment and device_embodied of one device; give one of them"
            )
        embodied = devices * device_embodied
    idle = 0.0 if idle_power is None else idle_power
    if not all_true(idle <= peak_power):
        raise InputError(
            f"run: idle_power = {str(idle)[:60]} W must not exceed the {str(peak_power)[:60]} W of full load; give what a "
            "device draws at rest"
        )
    device_power = power.device_power(idle, peak_power, utilisation)
    network = 0.0 if network_power is None else network_power
    servers, of_a_server = (0.0, 0.0) if nodes is None or host_power is None else (nodes, host_power)
    it_power = power.it_power(devices, device_power, servers, of_a_server, network)
    it_energy = power.facility_energy(it_power, time, 1.0)
    energy = power.facility_energy(it_power, time, pue)

    parts: dict[str, Num] = {}
    if idle_power is None:
        parts["devices"] = devices * device_power * time
    else:
        parts["devices, at rest"] = devices * idle * time
        parts["devices, working"] = devices * (device_power - idle) * time
    notes = []
    for name, value, given in (("hosts", servers * of_a_server, host_power), ("network", network, network_power)):
        if given is None:
            notes.append(f"not counted: {name}")
        else:
            parts[name] = value * time
    parts["facility"] = energy - it_energy

    power_arguments = {"idle_power": idle, "peak_power": peak_power, "utilisation": utilisation}
    if idle_power is None:
        power_arguments = {"idle_power": peak_power, "peak_power": peak_power, "utilisation": utilisation}
    it_arguments = {
        "devices": devices,
        "device_power": device_power,
        "nodes": servers,
        "host_power": of_a_server,
        "network_power": network,
    }
    terms = [
        Term("power of a device", device_power, "eq-device-power", power_arguments),
        Term("power of the IT", it_power, "eq-it-power", it_arguments),
        Term("energy", energy, "eq-energy", {"it_power": it_power, "time": time, "pue": pue}),
    ]
    found: dict[str, Num | None] = dict.fromkeys(_TEXT)

    def add(name: str, value: Num, label: str, arguments: Mapping[str, Num]) -> None:
        found[name] = value
        terms.append(Term(_TEXT[name], value, label, arguments))

    if carbon_intensity is not None:
        arguments = {"energy": energy, "carbon_intensity": carbon_intensity}
        add("carbon_location", footprint.carbon(**arguments), "eq-carbon", arguments)
    if covered is not None:
        if residual_intensity is None and mix is not None and mix.has("residual_intensity"):
            residual_intensity = mix.residual_intensity
            origins["residual_intensity"] = mix.origin("residual_intensity")
        if residual_intensity is None:
            residual_intensity = carbon_intensity
            notes.append("no residual mix known: the grid's own intensity stands for it")
        if residual_intensity is None:
            raise InputError("run: the market-based method needs residual_intensity in kg/J, or a grid")
        given = {
            "covered": covered,
            "contract_intensity": contract_intensity,
            "residual_intensity": residual_intensity,
        }
        market = footprint.market_intensity(**given)
        terms.append(Term("intensity by contract", market, "eq-market-intensity", given))
        arguments = {"energy": energy, "carbon_intensity": market}
        add("carbon_market", footprint.carbon(**arguments), "eq-carbon", arguments)
    if embodied is not None:
        if lifetime is None:
            raise InputError(
                "run: embodied carbon needs lifetime in s; without one it has no share to give to this job"
            )
        check_argument("run", "lifetime", lifetime, "s", Domain.of(POSITIVE))
        arguments = {"embodied": embodied, "time": time, "lifetime": lifetime, "busy_share": busy_share}
        add("carbon_embodied", footprint.embodied_carbon(**arguments), "eq-embodied-carbon", arguments)
    if wue is not None:
        arguments = {"it_energy": it_energy, "wue": wue}
        add("water_site", footprint.onsite_water(**arguments), "eq-water", arguments)
    if water_intensity is not None:
        arguments = {"energy": energy, "water_intensity": water_intensity}
        add("water_source", footprint.source_water(**arguments), "eq-source-water", arguments)
    if token_rate is not None:
        arguments = {"it_power": it_power, "token_rate": token_rate, "pue": pue}
        add("energy_per_token", power.energy_per_token(**arguments), "eq-energy-per-token", arguments)

    shown = (
        ("devices", devices, "1"),
        ("time", time, "s"),
        ("peak_power", peak_power, "W"),
        ("idle_power", idle_power, "W"),
        ("utilisation", utilisation, "1"),
        ("nodes", nodes, "1"),
        ("host_power", host_power, "W"),
        ("network_power", network_power, "W"),
        ("pue", pue, "1"),
        ("wue", wue, "L/J"),
        ("carbon_intensity", carbon_intensity, "kg/J"),
        ("water_intensity", water_intensity, "L/J"),
        ("covered", covered, "1"),
        ("residual_intensity", residual_intensity, "kg/J"),
        ("embodied", embodied, "kg"),
        ("lifetime", lifetime, "s"),
        ("token_rate", token_rate, "token/s"),
    )
    return Footprint(
        it_power=it_power,
        it_energy=it_energy,
        energy=energy,
        parts=parts,
        terms=tuple(terms),
        inputs=tuple(Input(n, v, u, origins.get(n, CALLER)) for n, v, u in shown if v is not None),
        notes=tuple(notes),
        **found,
    )


def _taken(name: str, value: Num | None, entry: Grid | Facility | None, origins: dict[str, str]) -> Num | None:
    """A figure of the caller's, or of a catalogue entry that has it; None when neither does."""
    if value is not None or entry is None or not entry.has(name):
        return value
    origins[name] = f"{entry.name}: {entry.origin(name)}"
    return entry.fields[name].value
