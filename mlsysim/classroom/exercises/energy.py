"""Chapter 09, energy and carbon: objectives, and the exercises that grade them.

Every option is such that each classic mistake differs from the right answer, and from the other mistakes, by more
than the tolerance; a test walks all of them.
"""

from mlsysim import energy
from mlsysim._numeric import Num
from mlsysim.classroom.exercises.engine import Exercise, Inputs, Mistake, Options

SLUG = "09-energy-carbon"
_PARTS = "Compute the energy of a job from the power of its parts."
_TOKEN = "Compute the energy of a token, learned from or answered with."
_CARBON = "Turn energy into carbon by both methods, and add the making of the machine."
_WATER = "Count water once, on the base that its figure belongs to."
_JUDGE = "Say what a published energy counts, and whether anybody measured it."

OBJECTIVES: tuple[tuple[str, str], ...] = (
    (_PARTS, "09.1"),
    (_TOKEN, "09.3"),
    (_CARBON, "09.5"),
    (_WATER, "09.8"),
    (_JUDGE, "09.9"),
)

_KWH, _MWH = 3.6e6, 3.6e9  # J
_HOUR, _DAY, _YEAR = 3600.0, 86400.0, 365.25 * 86400.0
_WATTS = "That is the power in W times hours: watt-hours. A joule is a watt-second; write the unit, as in '12 kWh'."
_KILOWATT = "That is a power. Energy is power times time: the time is still missing."


# 09.1 and 09.2 energy of a job


def _job(g: Inputs, device_power: float | None = None, pue: float | None = None, hosts: float = 1.0) -> Num:
    if device_power is None:
        device_power = energy.device_power(g["idle_power"], g["peak_power"], g["utilisation"])
    it = energy.it_power(g["devices"], device_power, hosts * g["nodes"], g["host_power"], g["network_power"])
    return energy.facility_energy(it, g["time"], g["pue"] if pue is None else pue)


_E1 = Exercise(
    id="09.1",
    slug=SLUG,
    title="A job, part by part",
    objective=_PARTS,
    points=3,
    prompt="{devices} accelerators draw {idle_power} each at rest and {peak_power} at full load; on average they stand at "
    "{utilisation} between the two. They sit in {nodes} servers whose hosts draw {host_power} each, and the network "
    "draws {network_power}. The facility has a PUE of {pue}. How much energy does the facility take in {time} (in "
    "joules, or text like '12 MWh')?",
    unit="J",
    options={
        "devices": Options((512, 1024), "1", "accelerators"),
        "idle_power": Options((90.0, 110.0), "W", "of an accelerator at rest"),
        "peak_power": Options((700.0, 750.0), "W", "of an accelerator at full load"),
        "utilisation": Options((0.5, 0.55), "%", "mean load"),
        "nodes": Options((128,), "1", "servers"),
        "host_power": Options((2400.0, 2800.0), "W", "of one host"),
        "network_power": Options((30e3,), "W", "of the whole network"),
        "pue": Options((1.2, 1.3), "1", "power usage effectiveness"),
        "time": Options((10 * _DAY, 30 * _DAY), "s", "length of the job"),
    },
    solve=_job,
    mistakes=(
        Mistake(
            "tdp-as-mean",
            "You let the accelerators draw their full power all the time. On average they stand at {utilisation} between "
            "rest and full load.",
            (lambda g: _job(g, g["peak_power"]),),
        ),
        Mistake(
            "no-idle",
            "You took {utilisation} of the full power. A device at rest is not off: its load goes from {idle_power} up.",
            (lambda g: _job(g, g["utilisation"] * g["peak_power"]),),
        ),
        Mistake(
            "idle-added",
            "You put the whole span up to full power on top of the power at rest. The load moves between the two: only "
            "their difference is scaled.",
            (lambda g: _job(g, g["idle_power"] + g["utilisation"] * g["peak_power"]),),
        ),
        Mistake(
            "no-hosts", "The hosts are missing: {nodes} servers draw {host_power} each.", (lambda g: _job(g, hosts=0),)
        ),
        Mistake(
            "no-pue",
            "That is the energy of the IT equipment. The facility takes more: its PUE.",
            (lambda g: _job(g, pue=1),),
        ),
        Mistake("watt-hours", _WATTS, (lambda g: _job(g) / _HOUR,)),
        Mistake("power", _KILOWATT, (lambda g: _job(g) / g["time"],)),
    ),
    nudge="Power of one device, then of all machines, then of the facility; only then the time.",
    solution="""\
g = inputs("09.1", seed=SEED)
device = energy.device_power(g["idle_power"], g["peak_power"], g["utilisation"])
it = energy.it_power(g["devices"], device, g["nodes"], g["host_power"], g["network_power"])
answer = energy.facility_energy(it, g["time"], g["pue"])""",
)


def _card(g: Inputs, pue: float | None = None) -> Num:
    return energy.facility_energy(g["power"], g["million_hours"] * 1e6 * _HOUR, g["pue"] if pue is None else pue)


_E2 = Exercise(
    id="09.2",
    slug=SLUG,
    title="The arithmetic of a model card",
    objective=_JUDGE,
    points=1,
    prompt="A model card reports {million_hours} million GPU hours on devices with a thermal design power of {power}, and multiplies by a "
    "PUE of {pue}. Which energy does it report (in joules, or text like '12 MWh')? Nothing was measured.",
    unit="J",
    options={
        "million_hours": Options((0.082, 1.02, 0.81, 1.46, 0.18, 0.38, 1.72, 2.88), "1", "million GPU hours"),
        "power": Options((400.0, 700.0, 300.0), "W", "thermal design power"),
        "pue": Options((1.1, 1.2), "1", "power usage effectiveness"),
    },
    solve=_card,
    mistakes=(
        Mistake("watt-hours", _WATTS, (lambda g: _card(g) / _HOUR,)),
        Mistake("no-pue", "The card multiplies by the PUE as well.", (lambda g: _card(g, 1),)),
        Mistake(
            "pue-twice",
            "You multiplied by the PUE twice. It turns the energy of the machines into that of the facility, once.",
            (lambda g: _card(g, g["pue"] ** 2),),
        ),
        Mistake(
            "per-day",
            "You took the GPU hours for days. They are hours already, summed over all GPUs.",
            (lambda g: 24 * _card(g),),
        ),
    ),
    nudge="Hours times 3600 are seconds; watts times seconds are joules; the facility takes PUE times that.",
    solution="""\
g = inputs("09.2", seed=SEED)
answer = energy.facility_energy(g["power"], g["million_hours"] * 1e6 * 3600, g["pue"])""",
)


# 09.3 and 09.4 tokens


def _learned(g: Inputs, factor: float = 6.0, mfu: float | None = None, pue: float | None = None) -> Num:
    work = factor * g["parameters"] * g["tokens"]
    joules = energy.work_energy(work, g["power"], g["peak_flops"], g["mfu"] if mfu is None else mfu)
    return energy.facility_energy(joules, 1.0, g["pue"] if pue is None else pue)


_E3 = Exercise(
    id="09.3",
    slug=SLUG,
    title="Energy of a training run before it runs",
    objective=_TOKEN,
    points=2,
    prompt="A dense model of {parameters} parameters learns from {tokens} tokens, 6 FLOP per parameter and token. Each "
    "device has a dense peak of {peak_flops}, of which {mfu} is reached, and draws {power} with its share of host and "
    "network. The PUE is {pue}. How much energy does the facility take (in joules, or text like '12 MWh')?",
    unit="J",
    options={
        "parameters": Options((7e9, 8e9, 13e9, 70e9), "1", "parameters"),
        "tokens": Options((2e12, 4e12, 15e12), "1", "training tokens"),
        "peak_flops": Options((989.5e12, 312e12), "FLOP/s", "dense peak of a device"),
        "mfu": Options((0.35, 0.4, 0.45), "%", "share of the peak that is reached"),
        "power": Options((900.0, 1100.0), "W", "of a device with its share of host and network"),
        "pue": Options((1.1, 1.25), "1", "power usage effectiveness"),
    },
    solve=_learned,
    mistakes=(
        Mistake(
            "at-peak",
            "You let the devices compute at their peak. They reach {mfu} of it, and draw power all the longer.",
            (lambda g: _learned(g, mfu=1.0),),
        ),
        Mistake(
            "forward-only",
            "You counted the forward pass: 2 FLOP per parameter and token. Learning takes the backward pass as well.",
            (lambda g: _learned(g, 2.0),),
        ),
        Mistake(
            "no-pue",
            "That is the energy of the machines. The facility takes PUE times that.",
            (lambda g: _learned(g, pue=1.0),),
        ),
        Mistake(
            "mfu-times",
            "You multiplied by the share of the peak. A device that reaches less needs longer: divide.",
            (lambda g: _learned(g, mfu=1.0) * g["mfu"],),
        ),
        Mistake("watt-hours", _WATTS, (lambda g: _learned(g) / _HOUR,)),
    ),
    nudge="Work over the rate that is reached is device time; device time times power is energy, however many devices share it.",
    solution="""\
g = inputs("09.3", seed=SEED)
work = 6 * g["parameters"] * g["tokens"]
answer = g["pue"] * energy.work_energy(work, g["power"], g["peak_flops"], g["mfu"])""",
)


def _answered(g: Inputs, pue: float | None = None, devices: float | None = None) -> Num:
    it = energy.it_power(g["devices"] if devices is None else devices, g["device_power"], 1, g["host_power"])
    return energy.energy_per_token(it, g["token_rate"], g["pue"] if pue is None else pue)


_E4 = Exercise(
    id="09.4",
    slug=SLUG,
    title="Energy of an answer",
    objective=_TOKEN,
    points=2,
    prompt="A server of {devices} accelerators, each drawing {device_power} on average, and a host of {host_power} answers "
    "with {token_rate} in all. The PUE is {pue}. How much energy of the facility does a token take (in J/token)?",
    unit="J/token",
    options={
        "devices": Options((8, 4), "1", "accelerators"),
        "device_power": Options((480.0, 520.0, 560.0), "W", "mean of one accelerator"),
        "host_power": Options((1500.0, 1900.0), "W", "of the host"),
        "token_rate": Options((1200.0, 2900.0, 5300.0, 7000.0), "token/s", "of the whole server"),
        "pue": Options((1.1, 1.3), "1", "power usage effectiveness"),
    },
    solve=_answered,
    mistakes=(
        Mistake(
            "no-pue",
            "The building is missing: PUE times the power of the machines.",
            (lambda g: _answered(g, pue=1.0),),
        ),
        Mistake(
            "one-device",
            "You took the power of one accelerator and the tokens of all of them.",
            (lambda g: _answered(g, devices=1),),
        ),
        Mistake(
            "no-host",
            "The host draws {host_power} whether it computes or not; it belongs to every token.",
            (lambda g: g["devices"] * g["device_power"] * g["pue"] / g["token_rate"],),
        ),
        Mistake(
            "per-hour",
            "You multiplied by 3600. J per token is W over tokens per second.",
            (lambda g: 3600 * _answered(g),),
        ),
    ),
    nudge="Watts of everything that runs, times the PUE, over the tokens per second of everything.",
    solution="""\
g = inputs("09.4", seed=SEED)
it = energy.it_power(g["devices"], g["device_power"], 1, g["host_power"])
answer = energy.energy_per_token(it, g["token_rate"], g["pue"])""",
)


# 09.5 to 09.7 carbon


def _located(g: Inputs) -> Num:
    return energy.carbon(g["mwh"] * _MWH, g["carbon_intensity"])


_E5 = Exercise(
    id="09.5",
    slug=SLUG,
    title="On this grid",
    objective=_CARBON,
    points=1,
    prompt="A facility took {mwh} MWh for a job, its cooling included, from a grid of {carbon_intensity}. Its PUE is {pue}. "
    "How much carbon is that by the location-based method (in kg, or text like '12 t')?",
    unit="kg",
    options={
        "mwh": Options((1287, 433, 27500, 85.7, 450), "1", "energy of the facility in MWh"),
        "carbon_intensity": Options(tuple(g / 3.6e9 for g in (56.0, 385.0, 429.0, 662.0)), "kg/J", "of the grid"),
        "pue": Options((1.1, 1.2), "1", "power usage effectiveness"),
    },
    solve=_located,
    mistakes=(
        Mistake(
            "pue-again",
            "You multiplied by the PUE. What the facility took is measured at its meter: the cooling is in it.",
            (lambda g: g["pue"] * _located(g),),
        ),
        Mistake(
            "pue-out",
            "You divided by the PUE. The grid had to make all of what the facility took, cooling too.",
            (lambda g: _located(g) / g["pue"],),
        ),
        Mistake(
            "grams",
            "You took g/kWh for kg/kWh: a thousand too much.",
            (lambda g: 1e3 * _located(g),),
        ),
        Mistake(
            "joule-for-kwh",
            "You multiplied joules with grams per kilowatt-hour. A kilowatt-hour is 3.6 million joules.",
            (lambda g: _KWH * _located(g), lambda g: _KWH * 1e3 * _located(g)),
        ),
    ),
    nudge="Kilowatt-hours at the meter, times grams per kilowatt-hour.",
    solution="""\
g = inputs("09.5", seed=SEED)
answer = energy.carbon(g["mwh"] * units.MWh, g["carbon_intensity"])""",
)


def _market(g: Inputs, residual: float | None = None, covered: float | None = None) -> Num:
    intensity = energy.market_intensity(
        g["covered"] if covered is None else covered,
        g["contract_intensity"],
        g["residual_intensity"] if residual is None else residual,
    )
    return energy.carbon(g["mwh"] * _MWH, intensity)


_E6 = Exercise(
    id="09.6",
    slug=SLUG,
    title="By contract",
    objective=_CARBON,
    points=2,
    prompt="A facility took {mwh} MWh. Contracts with plants of {contract_intensity} cover {covered} of it. The grid has "
    "{carbon_intensity}, its residual mix {residual_intensity}. How much carbon is that by the market-based method "
    "(in kg, or text like '12 t')?",
    unit="kg",
    options={
        "mwh": Options((1287, 450, 2300), "1", "energy of the facility in MWh"),
        "covered": Options((0.6, 0.75, 0.9), "%", "share under contract"),
        "contract_intensity": Options((11 / 3.6e9, 24 / 3.6e9), "kg/J", "of the contracted plants"),
        "carbon_intensity": Options((381 / 3.6e9, 291 / 3.6e9), "kg/J", "of the grid, location-based"),
        "residual_intensity": Options((540 / 3.6e9, 590 / 3.6e9), "kg/J", "of the residual mix"),
    },
    solve=_market,
    mistakes=(
        Mistake(
            "location-based",
            "That is the location-based figure. The market-based one asks what was contracted.",
            (lambda g: energy.carbon(g["mwh"] * _MWH, g["carbon_intensity"]),),
        ),
        Mistake(
            "grid-for-residual",
            "For what no contract covers you took the whole grid. What others contracted is no longer in it: the residual "
            "mix is dirtier.",
            (lambda g: _market(g, residual=g["carbon_intensity"]),),
        ),
        Mistake(
            "contracts-only",
            "You left out what no contract covers.",
            (lambda g: energy.carbon(g["mwh"] * _MWH * g["covered"], g["contract_intensity"]),),
        ),
        Mistake(
            "shares-swapped",
            "The shares are the wrong way round: {covered} is what the contracts cover.",
            (lambda g: _market(g, covered=1 - g["covered"]),),
        ),
    ),
    nudge="Two shares of the energy, each with its own intensity. The grid's own figure plays no part.",
    solution="""\
g = inputs("09.6", seed=SEED)
intensity = energy.market_intensity(g["covered"], g["contract_intensity"], g["residual_intensity"])
answer = energy.carbon(g["mwh"] * units.MWh, intensity)""",
)


def _worn(g: Inputs, busy: float | None = None, servers: float = 1.0) -> Num:
    made = servers * g["servers"] * g["server_embodied"] + g["devices"] * g["device_embodied"]
    return energy.embodied_carbon(made, g["time"], g["lifetime"], g["busy_share"] if busy is None else busy)


_E7 = Exercise(
    id="09.7",
    slug=SLUG,
    title="The machine wears off",
    objective=_CARBON,
    points=2,
    prompt="A job holds {servers} servers with {devices} accelerators for {time}. Making one server without accelerators "
    "cost {server_embodied} of CO2 equivalent, one accelerator {device_embodied}. The machine lives {lifetime} and is in "
    "use {busy_share} of that time. How much of this carbon does the job bear (in kg)?",
    unit="kg",
    options={
        "servers": Options((48, 64), "1", "servers"),
        "devices": Options((384, 512), "1", "accelerators"),
        "time": Options((118 * _DAY, 54 * _DAY), "s", "length of the job"),
        "server_embodied": Options((2500.0, 2100.0), "kg", "of one server"),
        "device_embodied": Options((150.0, 180.0), "kg", "of one accelerator"),
        "lifetime": Options((6 * _YEAR, 4 * _YEAR), "s", "of the machine"),
        "busy_share": Options((0.85, 0.7), "%", "share of the lifetime in use"),
    },
    solve=_worn,
    mistakes=(
        Mistake(
            "no-lifetime",
            "You gave all of it to this job. The machine lives on: the job bears its share of the time in use.",
            (lambda g: _worn(g) * g["lifetime"] * g["busy_share"] / g["time"],),
        ),
        Mistake(
            "idle-borne-by-nobody",
            "Nobody bears the time in which the machine stands idle. Spread it over the time in use, which is shorter.",
            (lambda g: _worn(g, busy=1.0),),
        ),
        Mistake(
            "idle-borne-twice",
            "You multiplied by the share in use. The fewer jobs there are, the more each has to bear: divide.",
            (lambda g: _worn(g, busy=1.0) * g["busy_share"],),
        ),
        Mistake("no-servers", "The servers around the accelerators are missing.", (lambda g: _worn(g, servers=0.0),)),
    ),
    nudge="Kilograms of everything, times the job's time, over the time that any job uses the machine.",
    solution="""\
g = inputs("09.7", seed=SEED)
made = g["servers"] * g["server_embodied"] + g["devices"] * g["device_embodied"]
answer = energy.embodied_carbon(made, g["time"], g["lifetime"], g["busy_share"])""",
)


# 09.8 water


def _litres(g: Inputs, site_base: float = 1.0, source_base: float | None = None) -> Num:
    it = g["it_mwh"] * _MWH
    facility = energy.facility_energy(it, 1.0, g["pue"] if source_base is None else source_base)
    return energy.onsite_water(it * site_base, g["wue"]) + energy.source_water(facility, g["water_intensity"])


_E8 = Exercise(
    id="09.8",
    slug=SLUG,
    title="Two waters",
    objective=_WATER,
    points=3,
    prompt="The IT equipment of a job used {it_mwh} MWh in a facility with a PUE of {pue} and a WUE of {wue}. The power "
    "plants of its grid consume {water_intensity}. How much water evaporates in all, on the site and at the plants (in L)?",
    unit="L",
    options={
        "it_mwh": Options((1170, 450, 2100), "1", "energy of the IT equipment in MWh"),
        "pue": Options((1.25, 1.4), "1", "power usage effectiveness"),
        "wue": Options((1.5 / _KWH, 1.8 / _KWH, 2.1 / _KWH), "L/J", "water on the site per IT energy"),
        "water_intensity": Options((2.9 / _KWH, 3.4 / _KWH), "L/J", "water per unit of electricity"),
    },
    solve=_litres,
    mistakes=(
        Mistake(
            "wue-on-facility",
            "You multiplied the WUE with the energy of the facility. WUE is per kilowatt-hour of IT equipment; the PUE is "
            "no part of it.",
            (lambda g: _litres(g, site_base=g["pue"]),),
        ),
        Mistake(
            "source-on-it",
            "The power plants make what the facility takes, cooling included: the electricity's water needs the PUE.",
            (lambda g: _litres(g, source_base=1.0),),
        ),
        Mistake(
            "both-swapped",
            "Each PUE is in the other's place: the site's figure is per IT energy, the grid's per energy of the facility.",
            (lambda g: _litres(g, site_base=g["pue"], source_base=1.0),),
        ),
        Mistake(
            "site-only",
            "That is the water on the site. Most of the water evaporates where the electricity is made.",
            (lambda g: energy.onsite_water(g["it_mwh"] * _MWH, g["wue"]),),
        ),
        Mistake(
            "source-only",
            "That is the water of the electricity. The cooling on the site takes some too.",
            (lambda g: energy.source_water(g["it_mwh"] * _MWH * g["pue"], g["water_intensity"]),),
        ),
    ),
    nudge="WUE belongs to the energy of the IT equipment, the grid's figure to what the facility takes from it.",
    solution="""\
g = inputs("09.8", seed=SEED)
it = g["it_mwh"] * units.MWh
facility = energy.facility_energy(it, 1.0, g["pue"])
answer = energy.onsite_water(it, g["wue"]) + energy.source_water(facility, g["water_intensity"])""",
)


# 09.9 judging a printed figure


def _implied(g: Inputs, pue: float | None = None) -> Num:
    joules = energy.facility_energy(g["power"], g["million_hours"] * 1e6 * _HOUR, g["pue"] if pue is None else pue)
    return g["carbon"] / joules


_E9 = Exercise(
    id="09.9",
    slug=SLUG,
    title="Which grid was that?",
    objective=_JUDGE,
    points=2,
    prompt="A model card prints {million_hours} million GPU hours, {power} per GPU and {carbon} of CO2 equivalent, and says that its energy "
    "is adjusted for the PUE. Suppose that this was {pue}. Which carbon intensity did its authors use (text like "
    "'380 g/kWh', or kg/J)?",
    unit="kg/J",
    options={
        "million_hours": Options((1.46, 7.0, 30.84, 2.38), "1", "million GPU hours"),
        "power": Options((700.0,), "W", "thermal design power"),
        "carbon": Options((420e3, 2040e3, 8930e3, 645e3), "kg", "printed emissions"),
        "pue": Options((1.08, 1.1, 1.2), "1", "power usage effectiveness"),
    },
    solve=_implied,
    mistakes=(
        Mistake(
            "no-pue",
            "You divided by the energy of the GPUs alone. The printed emissions are of the facility's energy.",
            (lambda g: _implied(g, 1.0),),
        ),
        Mistake(
            "pue-times",
            "The PUE is on the wrong side: more energy for the same tonnes means fewer grams per kilowatt-hour.",
            (lambda g: g["pue"] * _implied(g, 1.0),),
        ),
        Mistake(
            "wrong-unit",
            "That number is per kilowatt-hour, but was read as per joule. Write the unit, as in '380 g/kWh'.",
            (lambda g: _implied(g) * 3.6e9, lambda g: _implied(g) * 3.6e6),
        ),
    ),
    nudge="Printed kilograms over printed energy. If no country is near the result, one of the two is wrong.",
    solution="""\
g = inputs("09.9", seed=SEED)
answer = g["carbon"] / energy.facility_energy(g["power"], g["million_hours"] * 1e6 * 3600, g["pue"])""",
)

EXERCISES: tuple[Exercise, ...] = (_E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9)
