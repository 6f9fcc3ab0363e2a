"""What a run takes besides time: whose joules are counted, two waters, a machine worn off, money as a rate, hours paid."""

from collections.abc import Sequence

from mlsysim import cost, energy, units
from mlsysim.course.pictures.machines.devices import format_quantity
from mlsysim.drawing.scenes import Arrow, Box, Curve, Scene, Shape, Words
from mlsysim.errors import InputError


def nested_boundaries(parts: Sequence[tuple[str, float]], unit: str = "Wh") -> Scene:
    """Boxes within boxes: what is counted if one draws the line here, there or further out.

    Parameters
    ----------
    parts : sequence of (name, amount)
        The innermost first; each box holds those before it.
    """
    if not 2 <= len(parts) <= 5 or min(v for _, v in parts) <= 0:
        raise InputError(f"nested_boundaries: {len(parts)} parts; give 2 to 5, each above 0")
    kinds = ("compute", "memory", "waiting", "extra", "other")
    wide, tall, deep = 392 - 26 * (len(parts) - 1), 46.0, 32.0
    shapes: list[Shape] = []
    done = sum(v for _, v in parts)
    for i in range(len(parts) - 1, -1, -1):
        name, value = parts[i]
        y = 4 + deep * (len(parts) - 1 - i)
        shapes.append(Box(4, y, wide + 26 * i, tall + deep * i, kind=kinds[i], rounded=True))
        text = name if i == 0 else f"and {name}"
        row = y + (23 if i == 0 else 16)
        shapes.append(Words(14, row, text, "start", 12))
        shapes.append(Words(wide + 26 * i - 6, row, f"{done:.2f} {unit}", "end", 12, bold=True))
        done -= value
    alt = "Boxes within boxes, from the inside: "
    total = 0.0
    for name, value in parts:
        total += value
        alt += f"{name}, {total:.2f} {unit} so far; "
    return Scene(shapes, alt.rstrip("; ") + ".")


def two_waters(pue: float, wue: float, source: float) -> Scene:
    """Where water evaporates for one kilowatt-hour of the computers: at the power plant, and on the site.

    Parameters
    ----------
    pue : float, 1
        Energy of the building over that of its computers.
    wue, source : float, L/kWh
        On the site, per kilowatt-hour of the computers; at the power plant, per kilowatt-hour from the grid.
    """
    if not 1.0 <= pue <= 4.0 or min(wue, source) < 0:
        raise InputError(
            f"two_waters: pue = {pue:g}, wue = {wue:g}, source = {source:g}; give a PUE in [1, 4], water >= 0"
        )
    grid = energy.facility_energy(units.kWh, 1.0, pue)
    site = energy.onsite_water(units.kWh, wue / units.kWh)
    away = energy.source_water(grid, source / units.kWh)
    widest = 16.0 / max(site, away)
    shapes: list[Shape] = [
        Box(6, 84, 100, 62, "power plant", "extra", rounded=True),
        Box(196, 64, 198, 96, "the building", "waiting", rounded=True, at="top"),
        Box(286, 96, 96, 50, "computers\n1 kWh", "compute"),
        Arrow([(106, 115), (196, 115)], f"{grid / units.kWh:.2g} kWh", "extra", 4),
        Arrow([(196, 121), (286, 121)], "", "extra", 3),
        Arrow([(56, 84), (56, 34)], kind="memory", width=max(1.0, widest * away)),
        Arrow([(241, 64), (241, 34)], kind="memory", width=max(1.0, widest * site)),
        Words(56, 18, f"{away:.2g} L evaporate", size=12, kind="memory"),
        Words(241, 18, f"{site:.2g} L evaporate", size=12, kind="memory"),
        Words(6, 166, f"{source:.3g} L per kWh\nfrom the grid", "start", 12),
        Words(196, 182, f"{wue:.2g} L (WUE) per kWh\nof the computers", "start", 12),
    ]
    alt = (
        f"A power plant sends {grid / units.kWh:.2g} kWh to a building whose computers take one; "
        f"{away:.2g} litres evaporate at the plant and {site:.2g} litres on the site."
    )
    return Scene(shapes, alt)


def machine_worn_off(made: float, held: float, life: float, busy: float) -> Scene:
    """The life of a machine to scale, the part of it that is in use, and what one job wears off.

    Parameters
    ----------
    made : float, kg
        Carbon of making it.
    held, life : float, s
        How long a job holds it, and how long it lives.
    busy : float, 1
        Share of the life in which anybody uses it.
    """
    if not 0 < busy <= 1 or not 0 < held <= life * busy:
        raise InputError(
            f"machine_worn_off: held = {held:g}, life = {life:g}, busy = {busy:g}; the job must fit into the use"
        )
    worn = energy.embodied_carbon(made, held, life, busy)
    wide, used, job = 384.0, 384.0 * busy, 384.0 * held / life
    years = life / units.year
    shapes: list[Shape] = [
        Words(8, 12, f"made once: {format_quantity(made, 'kg')} of CO2e", "start", 12),
        Box(8, 26, wide, 40, kind="waiting"),
        Box(8, 26, used, 40, "used by somebody", "memory"),
        Box(8, 26, job, 40, kind="compute", full=True),
        Words(8 + wide, 12, "idle", "end", 12),
        Arrow([(8, 80), (8 + wide, 80)], f"a life of {years:.2g} years", width=1, both=True, beside=(60, 13)),
        Arrow([(8 + job / 2, 118), (8 + job / 2, 68)], kind="compute", width=1.5),
        Words(8, 128, f"this job: {held / units.day:.0f} days, {format_quantity(worn, 'kg')}", "start", 12, "compute"),
    ]
    return Scene(
        shapes,
        f"A bar of {years:.2g} years, used for {busy:.0%} of them; a job that holds the machine for {held / units.day:.0f} days bears {worn / made:.1%} of its making.",
    )


def purchase_as_rate(price: float, life: float, interest: float) -> Scene:
    """A sum, and the rates that it becomes: by a straight line, and by equal yearly payments with interest.

    Parameters
    ----------
    price : float, USD
    life : float, s
        Whole years of it are drawn.
    interest : float, 1
        Per year.
    """
    n = round(life / units.year)
    if not 2 <= n <= 6 or not price > 0 or not interest > 0:
        raise InputError(
            f"purchase_as_rate: price = {price:g}, life = {n} years, interest = {interest:g}; give 2 to 6 years"
        )
    straight = cost.straight_line(price, n * units.year) * units.year
    equal = cost.capital_recovery(price, n * units.year, interest) * units.year
    tall = 120 / price
    wide = 220 / n
    shapes: list[Shape] = [
        Box(8, 12, 64, 120, f"once:\n{price:,.0f}\nUSD", "compute", full=True),
        Arrow([(76, 72), (134, 72)], "or", width=2),
    ]
    for i in range(n):
        h = straight * tall
        shapes.append(Box(144 + i * wide, 132 - h, wide - 4, h, kind="compute"))
        shapes.append(Box(144 + i * wide, 132 - equal * tall, wide - 4, (equal - straight) * tall, kind="network"))
        shapes.append(Words(142 + (i + 0.5) * wide, 144, f"year {i + 1}" if n <= 4 else f"{i + 1}", size=12))
    shapes += [
        Words(
            144,
            132 - equal * tall - 30,
            f"{equal:,.0f} USD a year with {interest:.0%} interest",
            "start",
            12,
            "network",
        ),
        Words(144, 132 - equal * tall - 13, f"{straight:,.0f} USD a year without", "start", 12, "compute"),
    ]
    return Scene(
        shapes,
        f"One tall bar of {price:,.0f} USD beside {n} equal bars of {straight:,.0f} USD a year, each with a slice for interest up to {equal:,.0f} USD.",
    )


def hours_paid(rate: float, tokens: float, shares: Sequence[float] = (1.0, 0.5, 0.125)) -> Scene:
    """Days of 24 hours, all of them paid and some of them busy, and what a million tokens then costs.

    Parameters
    ----------
    rate : float, USD/s
        Of all machines.
    tokens : float, token/s
        That they make while they make any.
    shares : sequence of float, 1
        Of the day in which they do.
    """
    if not 1 <= len(shares) <= 4 or not all(0 < s <= 1 for s in shares):
        raise InputError(f"hours_paid: shares = {list(shares)}; give up to four in (0, 1]")
    shapes: list[Shape] = [
        Words(8, 12, "24 hours, all paid; blue: busy", "start", 12),
        Words(392, 12, "a million tokens", "end", 12),
    ]
    for i, share in enumerate(shares):
        y = 28 + 38 * i
        busy = round(24 * share)
        for hour in range(24):
            shapes.append(Box(8 + 12 * hour, y, 11, 26, kind="compute" if hour < busy else "waiting", full=hour < busy))
        price = 1e6 * cost.cost_per_token(rate, tokens, share)
        shapes.append(Words(392, y + 13, f"{price:.2f} USD", "end", bold=True))
    return Scene(
        shapes,
        "Rows of 24 hours: "
        + ", ".join(
            f"busy for {s:.0%}, {1e6 * cost.cost_per_token(rate, tokens, s):.2f} USD per million tokens" for s in shares
        )
        + ".",
    )


def own_or_rent_by_hand(owned: float, rental_rate: float) -> Scene:
    """Cost of an hour against the share of it in use: owning is flat, rent rises, and they cross at the break-even.

    Parameters
    ----------
    owned, rental_rate : float, USD/s
        Whether used or not, and while used; working is taken to cost the owner nothing more.
    """
    if not 0 < owned < rental_rate:
        raise InputError(
            f"own_or_rent_by_hand: owned = {owned:g}, rental_rate = {rental_rate:g}; they cross where owning is cheaper than a full hour's rent"
        )
    u = float(cost.break_even_utilisation(owned, rental_rate))
    left, right, base, top = 30.0, 380.0, 170.0, 40.0
    x = left + u * (right - left)
    flat = base - (base - top) * owned / rental_rate
    rent_from = base
    shapes: list[Shape] = [
        Arrow([(left, base), (left, 12)], width=1),
        Arrow([(left, base), (392, base)], width=1),
        Curve([(left, flat), (right, flat)], "compute", 2.5),
        Curve([(left, rent_from), (right, top)], "network", 2.5),
        Curve([(x, flat), (x, base)], "plain", 1, True),
        Words(left + 8, flat - 12, f"own: {owned * units.hour:.2f} USD, used or not", "start", 12, "compute"),
        Words(right + 8, top - 12, f"rent: {rental_rate * units.hour:.2f} USD when used", "end", 12, "network"),
        Words(x, base + 14, f"break-even {u:.0%}", size=12, bold=True),
        Words(x - 6, base - 12, "below: rent", "end", 12, "network"),
        Words(x + 6, base - 12, "above: own", "start", 12, "compute"),
        Words(392, base + 30, "share of the time in use", "end", 12),
        Words(left + 6, 16, "USD per hour held", "start", 12),
    ]
    return Scene(
        shapes,
        f"A flat line of {owned * units.hour:.2f} USD an hour for owning and a line of rent that rises to {rental_rate * units.hour:.2f} USD; they cross at {u:.0%} of use.",
    )
