"""Chapter 10, cost: objectives, and the exercises that grade them.

Every option is such that each classic mistake differs from the right answer, and from the other mistakes, by more
than the tolerance; a test walks all of them.
"""

from mlsysim import cost
from mlsysim._numeric import Num
from mlsysim.classroom.exercises.engine import Exercise, Inputs, Mistake, Options

SLUG = "10-cost"
_SPREAD = "Spread a purchase over its life, with and without interest."
_PARTS = "Add the parts of owning, each as a rate."
_RULE = "Take a rule of thumb apart and say on what it depends."
_TOKEN = "Price a run and a token."
_CHOOSE = "Decide between owning and renting."

OBJECTIVES: tuple[tuple[str, str], ...] = (
    (_SPREAD, "10.2"),
    (_PARTS, "10.3"),
    (_RULE, "10.5"),
    (_TOKEN, "10.7"),
    (_CHOOSE, "10.8"),
)

_HOUR, _DAY, _YEAR, _KWH = 3600.0, 86400.0, 365.25 * 86400.0, 3.6e6
_PER_SECOND = "That is a cost per hour, read as per second. Write the unit, as in '1.2 USD/h'."


# 10.1 and 10.2 a purchase as a rate


def _line(g: Inputs, lifetime: float = 1.0, left: float = 1.0) -> Num:
    return cost.straight_line(g["price"], lifetime * g["lifetime"], left * g["salvage"])


_E1 = Exercise(
    id="10.1",
    slug=SLUG,
    title="A device by the hour",
    objective=_SPREAD,
    points=1,
    prompt="A device of {price} is used for {lifetime} and then still brings {salvage}. By a straight line, what does it "
    "cost per hour of its life (text like '1.2 USD/h', or a number in USD/s)?",
    unit="USD/s",
    options={
        "price": Options((30e3, 25e3, 40e3, 10e3), "USD", "of the device"),
        "lifetime": Options((3 * _YEAR, 4 * _YEAR, 5 * _YEAR, 6 * _YEAR), "s", "until it is sold"),
        "salvage": Options((2e3, 3e3, 4e3), "USD", "what it brings at the end"),
    },
    solve=_line,
    mistakes=(
        Mistake(
            "no-salvage",
            "You wrote off all of it. At the end it still brings {salvage}.",
            (lambda g: _line(g, left=0.0),),
        ),
        Mistake(
            "salvage-added",
            "What it brings at the end is subtracted, not added.",
            (lambda g: (g["price"] + g["salvage"]) / g["lifetime"],),
        ),
        Mistake("per-second", _PER_SECOND, (lambda g: _HOUR * _line(g),)),
        Mistake(
            "whole-price",
            "That is the whole loss of value, not a rate. Divide by the time over which it is spread.",
            (lambda g: g["price"] - g["salvage"], lambda g: g["price"]),
        ),
    ),
    nudge="What is lost between buying and selling, over the time between.",
    solution="""\
g = inputs("10.1", seed=SEED)
answer = cost.straight_line(g["price"], g["lifetime"], g["salvage"])""",
)


def _annuity(g: Inputs) -> Num:
    return cost.capital_recovery(g["price"], g["lifetime"], g["rate"])


_E2 = Exercise(
    id="10.2",
    slug=SLUG,
    title="Money has a price too",
    objective=_SPREAD,
    points=2,
    prompt="A device of {price} is paid off over {lifetime} in equal yearly payments, at an interest of {rate} a year "
    "and is worth nothing at the end. What does it cost per hour (text like '1.2 USD/h', or USD/s)?",
    unit="USD/s",
    options={
        "price": Options((30e3, 25e3, 40e3), "USD", "of the device"),
        "lifetime": Options((3 * _YEAR, 4 * _YEAR, 5 * _YEAR), "s", "over which it is paid off"),
        "rate": Options((0.08, 0.1, 0.12, 0.15), "%", "interest per year"),
    },
    solve=_annuity,
    mistakes=(
        Mistake(
            "no-interest",
            "That is a straight line: money that costs nothing. The payments have to carry the interest as well.",
            (lambda g: cost.straight_line(g["price"], g["lifetime"]),),
        ),
        Mistake(
            "interest-on-everything",
            "You charged interest on the whole price until the end. Every payment reduces what is owed.",
            (lambda g: cost.straight_line(g["price"], g["lifetime"]) + g["price"] * g["rate"] / _YEAR,),
        ),
        Mistake(
            "interest-only",
            "That is the interest alone. The payments have to repay the price too.",
            (lambda g: g["price"] * g["rate"] / _YEAR,),
        ),
        Mistake("per-second", _PER_SECOND, (lambda g: _HOUR * _annuity(g),)),
    ),
    nudge="Equal payments whose present value is the price: price x r / (1 - (1 + r)^-n) a year.",
    solution="""\
g = inputs("10.2", seed=SEED)
answer = cost.capital_recovery(g["price"], g["lifetime"], g["rate"])""",
)


# 10.3 and 10.4 the parts


def _year(g: Inputs, capital: float = 1.0, pue: float | None = None, staff: float = 1.0, network: float = 1.0) -> Num:
    it = g["devices"] * g["power"]
    return cost.total_cost(
        capital=capital * cost.straight_line(g["devices"] * g["price"], g["lifetime"]),
        power=cost.power_cost(it, g["pue"] if pue is None else pue, g["electricity_price"]),
        cooling=cost.straight_line(it * g["cooling"], g["plant_lifetime"]),
        building=cost.straight_line(it * g["building"], g["plant_lifetime"]),
        staff=staff * cost.staff_cost(g["devices"], g["devices_per_engineer"], g["thousands"] * 1e3 / _YEAR),
        network=network * cost.straight_line(g["devices"] * g["network"], g["lifetime"]),
        time=_YEAR,
    )


_E3 = Exercise(
    id="10.3",
    slug=SLUG,
    title="A year of owning",
    objective=_PARTS,
    points=3,
    prompt="{devices} devices of {price} each (with their share of the server) and {network} of network per device are "
    "written off over {lifetime}. A device with its share of the server draws {power}; the PUE is {pue}, electricity costs "
    "{electricity_price}. The cooling plant cost {cooling} and the building {building}, per watt of IT power and written "
    "off over {plant_lifetime}. One engineer per {devices_per_engineer} devices costs {thousands} thousand USD a year. What does a year "
    "cost (in USD)?",
    unit="USD",
    options={
        "devices": Options((256, 512), "1", "devices"),
        "price": Options((30e3, 36e3), "USD", "of a device with its share of the server"),
        "network": Options((8e3,), "USD", "of network per device"),
        "lifetime": Options((4 * _YEAR, 5 * _YEAR), "s", "of devices and network"),
        "power": Options((1000.0, 1200.0), "W", "of a device with its share of the server"),
        "pue": Options((1.3, 1.45), "1", "power usage effectiveness"),
        "electricity_price": Options((0.12 / _KWH, 0.18 / _KWH), "USD/J", "per unit of energy"),
        "cooling": Options((3.0,), "USD/W", "of IT power"),
        "building": Options((6.0,), "USD/W", "of IT power"),
        "plant_lifetime": Options((15 * _YEAR,), "s", "of plant and building"),
        "devices_per_engineer": Options((64,), "1", "devices per engineer"),
        "thousands": Options((200,), "1", "thousand USD a year for an engineer"),
    },
    solve=_year,
    mistakes=(
        Mistake(
            "capex-in-one-year",
            "You paid for the devices in one year. They last {lifetime}: a purchase without a lifetime is no cost of a year.",
            (
                lambda g: _year(g, capital=g["lifetime"] / _YEAR, network=g["lifetime"] / _YEAR),
                lambda g: _year(g, capital=g["lifetime"] / _YEAR),
            ),
        ),
        Mistake("no-pue", "The electricity of the cooling is missing: the PUE.", (lambda g: _year(g, pue=1.0),)),
        Mistake("no-network", "The network is missing: {network} per device.", (lambda g: _year(g, network=0.0),)),
        Mistake(
            "one-engineer",
            "You divided the salary among all devices, or forgot it: there is one engineer per {devices_per_engineer} devices.",
            (lambda g: _year(g, staff=0.0), lambda g: _year(g, staff=g["devices_per_engineer"] / g["devices"])),
        ),
        Mistake(
            "free-devices",
            "The devices are free in your sum. A missing price is not zero.",
            (lambda g: _year(g, capital=0.0, network=0.0), lambda g: _year(g, capital=0.0)),
        ),
    ),
    nudge="Each part as a rate, in USD per second or per year; add; only then the time.",
    solution="""\
g = inputs("10.3", seed=SEED)
it = g["devices"] * g["power"]
rates = {
    "capital": cost.straight_line(g["devices"] * g["price"], g["lifetime"]),
    "power": cost.power_cost(it, g["pue"], g["electricity_price"]),
    "cooling": cost.straight_line(it * g["cooling"], g["plant_lifetime"]),
    "building": cost.straight_line(it * g["building"], g["plant_lifetime"]),
    "staff": cost.staff_cost(g["devices"], g["devices_per_engineer"], g["thousands"] * 1e3 / units.year),
    "network": cost.straight_line(g["devices"] * g["network"], g["lifetime"]),
}
answer = cost.total_cost(**rates, time=units.year)""",
)


def _share_of(g: Inputs) -> Num:
    return cost.staff_cost(1, g["devices_per_engineer"], g["thousands"] * 1e3) / g["price"]


_E4 = Exercise(
    id="10.4",
    slug=SLUG,
    title="Four per cent of staff?",
    objective=_RULE,
    points=1,
    prompt="A page charges staff with 4 % of the hardware per year, and explains it by engineers of {thousands} thousand USD a "
    "year, one per {devices_per_engineer} devices of {price}. Which share of the hardware's price do these engineers cost "
    "per year (a fraction, or text like '4 %')?",
    unit="1",
    options={
        "thousands": Options((200, 250, 300), "1", "thousand USD a year"),
        "devices_per_engineer": Options((1000, 1500, 2000), "1", "devices per engineer"),
        "price": Options((25e3, 30e3, 40e3, 35e3), "USD", "of a device"),
    },
    solve=_share_of,
    mistakes=(
        Mistake(
            "percent",
            "That is the percentage as a plain number. Write the fraction, or text with a % sign.",
            (lambda g: 100 * _share_of(g),),
        ),
        Mistake(
            "over-three-years",
            "That is the share over three years. The question asks for one.",
            (lambda g: 3 * _share_of(g),),
        ),
        Mistake(
            "one-device-each",
            "You gave every device its own engineer. One looks after {devices_per_engineer}.",
            (lambda g: g["devices_per_engineer"] * _share_of(g),),
        ),
    ),
    nudge="Salary over the price of all the devices that one engineer looks after.",
    solution="""\
g = inputs("10.4", seed=SEED)
answer = cost.staff_cost(1, g["devices_per_engineer"], g["thousands"] * 1e3) / g["price"]""",
)


# 10.5 the rule


def _factor(g: Inputs, payments: float | None = None, pue: float | None = None, staff: float | None = None) -> Num:
    return cost.tco_multiplier(
        price=g["price"],
        power=g["power"],
        time=3 * _YEAR,
        pue=g["pue"] if pue is None else pue,
        electricity_price=g["electricity_price"],
        cooling=g["cooling"],
        building=g["building"],
        staff_share=(g["staff_percent"] if staff is None else staff) / 100 / _YEAR,
        payments=1.0 if payments is None else payments,
    )


_E5 = Exercise(
    id="10.5",
    slug=SLUG,
    title="The factor behind a price",
    objective=_RULE,
    points=2,
    prompt="A device of {price} draws {power} all the time for three years. The PUE is {pue}, electricity costs "
    "{electricity_price}; the cooling plant costs {cooling} and the building {building}, both paid **once**; staff takes "
    "{staff_percent} % of the price each year. How many times its price does it cost to own for three years?",
    unit="1",
    options={
        "price": Options((30e3, 20e3, 24e3), "USD", "of the device"),
        "power": Options((700.0, 1000.0), "W", "of the device"),
        "pue": Options((1.6, 1.8), "1", "power usage effectiveness"),
        "electricity_price": Options((0.05 / _KWH, 0.08 / _KWH), "USD/J", "per unit of energy"),
        "cooling": Options((1.5, 2.0), "USD/W", "of the device's power"),
        "building": Options((1.0,), "USD/W", "of the device's power"),
        "staff_percent": Options((6, 7), "1", "per cent of the price, per year"),
    },
    solve=_factor,
    mistakes=(
        Mistake(
            "plant-each-year",
            "You paid for plant and building every year. Here they are paid once; with what is meant, the factor changes by "
            "a tenth of the price.",
            (lambda g: _factor(g, payments=3.0),),
        ),
        Mistake(
            "staff-once",
            "You charged staff for one year. People want to be paid each year.",
            (lambda g: _factor(g, staff=g["staff_percent"] / 3),),
        ),
        Mistake("no-pue", "The electricity of the cooling is missing: the PUE.", (lambda g: _factor(g, pue=1.0),)),
        Mistake(
            "without-the-price",
            "That is what comes on top of the price. The factor counts the price itself: add one.",
            (lambda g: _factor(g) - 1,),
        ),
    ),
    nudge="One, for the price itself; three years of electricity over the price; plant over the price; three years of staff.",
    solution="""\
g = inputs("10.5", seed=SEED)
staff = g["staff_percent"] / 100 / units.year
plant = (g["cooling"], g["building"])
answer = cost.tco_multiplier(g["price"], g["power"], 3 * units.year, g["pue"], g["electricity_price"], *plant, staff, 1)""",
)


# 10.6 and 10.7 runs and tokens


def _run(g: Inputs, flops: float = 6.0, mfu: float | None = None) -> Num:
    work = flops * g["parameters"] * g["tokens"]
    return cost.rental_cost(1, work / (g["peak_flops"] * (g["mfu"] if mfu is None else mfu)), g["rental"])


_E6 = Exercise(
    id="10.6",
    slug=SLUG,
    title="What will the run cost?",
    objective=_TOKEN,
    points=2,
    prompt="A dense model of {parameters} parameters learns from {tokens} tokens, 6 FLOP per parameter and token, on rented "
    "devices with a dense peak of {peak_flops}, of which {mfu} is reached. A device costs {rental}. What does the run cost, "
    "without failures (in USD)?",
    unit="USD",
    options={
        "parameters": Options((8e9, 70e9, 13e9), "1", "parameters"),
        "tokens": Options((2e12, 15e12), "1", "training tokens"),
        "peak_flops": Options((989.5e12, 312e12), "FLOP/s", "dense peak of a device"),
        "mfu": Options((0.35, 0.4, 0.45), "%", "share of the peak that is reached"),
        "rental": Options((2.0 / _HOUR, 2.69 / _HOUR, 4.916 / _HOUR), "USD/s", "per device"),
    },
    solve=_run,
    mistakes=(
        Mistake(
            "at-peak",
            "You let the devices compute at their peak. They reach {mfu} of it, and are paid while they do not.",
            (lambda g: _run(g, mfu=1.0),),
        ),
        Mistake(
            "forward-only",
            "You counted the forward pass alone: 2 FLOP per parameter and token. Learning takes 6.",
            (lambda g: _run(g, 2.0),),
        ),
        Mistake("per-second", "You took the price of an hour for that of a second.", (lambda g: _HOUR * _run(g),)),
        Mistake(
            "recompute",
            "You counted 8 FLOP per parameter and token: that is with full recomputation.",
            (lambda g: _run(g, 8.0),),
        ),
    ),
    nudge="Device-seconds: the work over the rate that is reached, however many devices share it. Times the price of one.",
    solution="""\
g = inputs("10.6", seed=SEED)
time = 6 * g["parameters"] * g["tokens"] / (g["peak_flops"] * g["mfu"])
answer = cost.rental_cost(1, time, g["rental"])""",
)


def _token(g: Inputs, busy: float | None = None, devices: float | None = None) -> Num:
    rate = (g["devices"] if devices is None else devices) * g["rental"]
    return cost.cost_per_token(rate, g["token_rate"], g["busy_share"] if busy is None else busy)


_E7 = Exercise(
    id="10.7",
    slug=SLUG,
    title="The price of a million tokens",
    objective=_TOKEN,
    points=2,
    prompt="{devices} rented devices at {rental} each answer with {token_rate} together while they are busy, which is "
    "{busy_share} of the time; they are paid all the time. What does a token cost (text like '0.8 USD/Mtoken' for a million, or USD/token)?",
    unit="USD/token",
    options={
        "devices": Options((8, 16), "1", "devices"),
        "rental": Options((2.0 / _HOUR, 2.69 / _HOUR, 4.916 / _HOUR), "USD/s", "per device"),
        "token_rate": Options((2500.0, 9000.0, 25000.0), "token/s", "of all devices, while busy"),
        "busy_share": Options((0.3, 0.6, 0.4), "%", "share of the paid time"),
    },
    solve=_token,
    mistakes=(
        Mistake(
            "always-busy",
            "You counted the busy hours alone. The quiet ones are paid too, and a token has to bear them.",
            (lambda g: _token(g, busy=1.0),),
        ),
        Mistake(
            "busy-times",
            "You multiplied by the busy share. Fewer tokens for the same rent make a token dearer: divide.",
            (lambda g: _token(g, busy=1.0) * g["busy_share"],),
        ),
        Mistake("one-device", "You paid for one device and took the tokens of all.", (lambda g: _token(g, devices=1),)),
        Mistake(
            "million",
            "The digits are those of a million tokens, but were read as those of one. Write the unit, as in '0.8 USD/Mtoken'.",
            (lambda g: 1e6 * _token(g),),
        ),
        Mistake(
            "per-second",
            "You took the price of an hour for that of a second.",
            (lambda g: _HOUR * _token(g), lambda g: _HOUR * 1e6 * _token(g)),
        ),
    ),
    nudge="Dollars per second of everything, over tokens per second on average.",
    solution="""\
g = inputs("10.7", seed=SEED)
answer = cost.cost_per_token(g["devices"] * g["rental"], g["token_rate"], g["busy_share"])""",
)


# 10.8 and 10.9 own or rent


def _use(g: Inputs, electricity: bool = True) -> Num:
    saving = g["rental"] - (g["electricity"] if electricity else 0.0)
    return cost.break_even_utilisation(g["fixed"], saving)


_E8 = Exercise(
    id="10.8",
    slug=SLUG,
    title="Often enough to own?",
    objective=_CHOOSE,
    points=2,
    prompt="Owning a device costs {fixed} whether it works or not; while it works, electricity adds {electricity}. The same "
    "device can be rented for {rental}, only while it is needed. Above which share of the time is owning cheaper (a "
    "fraction, or text like '60 %')?",
    unit="1",
    options={
        "fixed": Options((1.15 / _HOUR, 1.3 / _HOUR, 0.85 / _HOUR), "USD/s", "owned, working or not"),
        "electricity": Options((0.2 / _HOUR, 0.4 / _HOUR), "USD/s", "added while it works"),
        "rental": Options(
            (2.2 / _HOUR, 2.9 / _HOUR, 3.5 / _HOUR, 4.916 / _HOUR, 6.0 / _HOUR), "USD/s", "while it is needed"
        ),
    },
    solve=_use,
    mistakes=(
        Mistake(
            "electricity-forgotten",
            "You compared with the rent alone. A used hour saves the rent and costs the owner electricity.",
            (lambda g: _use(g, electricity=False),),
        ),
        Mistake(
            "electricity-always",
            "You let the owner pay for the electricity of working hours all the time.",
            (lambda g: (g["fixed"] + g["electricity"]) / g["rental"],),
        ),
    ),
    nudge="What each used hour saves, against what is due in every hour.",
    solution="""\
g = inputs("10.8", seed=SEED)
answer = cost.break_even_utilisation(g["fixed"], g["rental"] - g["electricity"])""",
)


def _until(g: Inputs, use: float | None = None, running: float = 1.0) -> Num:
    rent = g["rental"] * (g["use"] if use is None else use)
    return cost.break_even_time(g["price"], rent - running * g["running"])


_E9 = Exercise(
    id="10.9",
    slug=SLUG,
    title="Until it has paid for itself",
    objective=_CHOOSE,
    points=2,
    prompt="A device of {price} replaces one that is rented for {rental} and used {use} of the time. Running the own one costs "
    "{running} all the time. After how long has the rent that is saved paid for it (text like '2 year', or seconds)?",
    unit="s",
    options={
        "price": Options((30e3, 25e3, 40e3), "USD", "of the device"),
        "rental": Options((2.69 / _HOUR, 4.916 / _HOUR, 3.5 / _HOUR), "USD/s", "only while used"),
        "use": Options((0.5, 0.6, 0.75, 0.8), "%", "share of the time"),
        "running": Options((0.15 / _HOUR, 0.25 / _HOUR), "USD/s", "of owning it, all the time"),
    },
    solve=_until,
    mistakes=(
        Mistake(
            "always-used",
            "You saved rent all the time. It is paid only while the device is used: {use}.",
            (lambda g: _until(g, use=1.0),),
        ),
        Mistake(
            "running-forgotten", "Running the own device costs something as well.", (lambda g: _until(g, running=0.0),)
        ),
        Mistake(
            "hours",
            "That is a number of hours, read as seconds. Write the unit, as in '2 year'.",
            (lambda g: _until(g) / _HOUR,),
        ),
    ),
    nudge="The price over what is saved per second: rent times use, less the running costs.",
    solution="""\
g = inputs("10.9", seed=SEED)
answer = cost.break_even_time(g["price"], g["rental"] * g["use"] - g["running"])""",
)

EXERCISES: tuple[Exercise, ...] = (_E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9)
