"""Chapter 10, cost."""

from typing import Any

from chapter_numbers import whole_share as share
from mlsysim import catalog, cost, evidence, units

RULE = catalog.price("roofline-page")
LOW, HIGH = (catalog.price(f"H100-purchase-2023-{end}").value for end in ("low", "high"))
TDP = catalog.device("H100").tdp
NODE = evidence.published_footprint("hgx-h100-training")
METERED = NODE.published("power") / NODE.published("devices")  # a device with its share of the server, at work
PLANT_LIFE = 15 * units.year  # of cooling plant and building: an assumption of ours
SYSTEM = catalog.price("H100-in-a-cluster-2024")["purchase"]  # a device with its share of server and network
BUILT = catalog.price("US-building-2025")["building"]  # per watt, plant included


def _multiplier(price: float, payments: float, staff_share: float | None = None) -> float:
    return float(
        cost.tco_multiplier(
            price,
            TDP,
            RULE["lifetime"],
            RULE["pue"],
            RULE["electricity"],
            RULE["cooling"],
            RULE["building"],
            RULE["staff_share"] if staff_share is None else staff_share,
            payments,
        )
    )


def _owned(price: float, network: float = SYSTEM - HIGH, **changes: float) -> cost.Ownership:
    """Under the assumptions of the rule, but with server and network, the server's watts and a plant that outlives the device."""
    given: dict[str, Any] = {
        "lifetime": RULE["lifetime"],
        "power": METERED,
        "pue": RULE["pue"],
        "electricity_price": RULE["electricity"],
        "cooling": RULE["cooling"],
        "building": RULE["building"],
        "plant_lifetime": PLANT_LIFE,
        "devices_per_engineer": RULE["devices_per_engineer_low"],
        "salary": RULE["salary"],
    }
    return cost.ownership_cost(1, price=price, network=network, **(given | changes))


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 10."""

    def usd(value: float, digits: int = 0) -> str:
        return f"{value:,.{digits}f} USD"

    def staff(per_engineer: str, price: float) -> float:
        return float(cost.staff_cost(1, RULE[per_engineer], RULE["salary"]) / price)

    shares = [staff(f"devices_per_engineer_{end}", p) * units.year for end in ("low", "high") for p in (LOW, HIGH)]
    honest = [_multiplier(p, n, staff("devices_per_engineer_low", p)) for n in (1, 3) for p in (HIGH, LOW)]
    three, six = (cost.straight_line(HIGH, y * units.year) * units.hour for y in (3, 6))
    interest = cost.capital_recovery(HIGH, 4 * units.year, 0.15) / cost.straight_line(HIGH, 4 * units.year) - 1
    owned = _owned(HIGH)
    dsv3 = evidence.published_costs()["deepseek-v3"]
    mlperf = evidence.published_footprint("mlperf-h200-llama-2-70b")
    rent = 8 * catalog.price("H200-Spheron-2026").value
    listed = 8 * catalog.price("H200-AWS-on-demand-2026").value
    rate = mlperf.published("token_rate")
    electricity = cost.power_cost(mlperf.published("power"), 1.0, catalog.price("US-industrial-2025").value)
    rentals = {
        p.name: p.value
        for p in catalog.prices_of("H100", "rental")
        if p.date.startswith("2026") and p.offer in ("on demand", "reserved")
    }
    by_the_rule = _owned(HIGH, 0.0, power=TDP, plant_lifetime=RULE["lifetime"])
    built = _owned(HIGH, cooling=0.0, building=BUILT)
    cheap, middle = rentals["H100-Lambda-reserved-2026"], rentals["H100-RunPod-2026"]
    alone = _owned(HIGH, 0.0)
    wrong_tco = HIGH / 3 + owned.rates["power"] * 30 * units.day
    right_tco = owned.rates["capital"] * 30 * units.day + owned.rates["power"] * 30 * units.day

    def use(o: cost.Ownership, rental: float) -> str:
        return share(cost.break_even_utilisation(o.rate, rental))

    def with_interest(price: float, life: float) -> float:
        return float(cost.capital_recovery(price, life, 0.1))

    yearly = [float(f(HIGH, 3 * units.year)) * units.year for f in (cost.straight_line, with_interest)]
    return {
        "hour": {
            "year": usd(yearly[0]),
            "year_interest": usd(yearly[1]),
            "power": usd(owned.rates["power"] * units.hour, 2),
            "staff": usd(owned.rates["staff"] * units.hour, 3),
            "tenth": share(0.1 * owned.rates["power"] / owned.rate, 1),
            "idle_hour": share(1 / 24),
        },
        "price": {
            "low": usd(LOW),
            "high": usd(HIGH),
            "date": catalog.price("H100-purchase-2023-low").date,
            **{name: usd(catalog.price(f"{name.upper()}-purchase-2026").value) for name in ("h100", "h200", "b200")},
            "used_low": usd(catalog.price("H100-used-2026-low").value),
            "used_high": usd(catalog.price("H100-used-2026-high").value),
        },
        "capital": {
            "three": f"{three:.2f} USD",
            "six": f"{six:.2f} USD",
            "interest": share(interest),
            "share": share(owned.rates["capital"] / owned.rate),
            "power": share(owned.rates["power"] / owned.rate, 1),
            "power_rule": share(by_the_rule.rates["power"] / by_the_rule.rate, 1),
            "system": usd(SYSTEM),
            "around": share(owned.rates["network"] / owned.rate),
            "metered": units.format(METERED, "W", 4),
            "plant_years": f"{PLANT_LIFE / units.year:g}",
            "built": f"{BUILT:.1f} USD/W",
            "rule_built": f"{RULE['cooling'] + RULE['building']:.2f} USD/W",
            "built_share": share(built.rates["building"] / built.rate, 1),
            "built_power": share(built.rates["power"] / built.rate, 1),
        },
        "rule": {
            "electricity": units.format(RULE["electricity"], "USD/J"),
            "pue": f"{RULE['pue']:g}",
            "cooling": f"{RULE['cooling']:.2f} USD/W",
            "building": f"{RULE['building'] * units.MW:,.0f} USD/MW",
            "printed": f"{RULE['multiplier']:.2f}",
            "once_high": f"{_multiplier(HIGH, 1):.2f}",
            "once_low": f"{_multiplier(LOW, 1):.2f}",
            "yearly_high": f"{_multiplier(HIGH, 3):.2f}",
            "yearly_low": f"{_multiplier(LOW, 3):.2f}",
            "staff": share(RULE["staff_share"] * units.year),
            "staff_three": share(RULE["staff_share"] * RULE["lifetime"]),
            "salary": usd(RULE["salary"] * units.year),
            "per_low": f"{RULE['devices_per_engineer_low']:,.0f}",
            "per_high": f"{RULE['devices_per_engineer_high']:,.0f}",
            "staff_min": share(min(shares), 1),
            "staff_max": share(max(shares), 1),
            "honest_once": f"{honest[0]:.2f} to {honest[1]:.2f}",
            "honest_yearly": f"{honest[2]:.2f} to {honest[3]:.2f}",
            "tdp": units.format(TDP, "W"),
            "ten": f"{_multiplier(10e3, 1):.2f}",
        },
        "runs": {
            "dsv3": usd(dsv3.cost),
            "dsv3_hours": f"{dsv3.device_time / units.hour / 1e6:.3f}",
            "dsv3_price": usd(dsv3.price.value * units.hour, 2),
        },
        "token": {
            "full": f"{cost.cost_per_token(rent, rate) * 1e6:.2f} USD",
            "tenth": f"{cost.cost_per_token(rent, rate, 0.1) * 1e6:.2f} USD",
            "rent": usd(rent / 8 * units.hour, 2),
            "listed": usd(listed / 8 * units.hour, 2),
            "listed_full": f"{cost.cost_per_token(listed, rate) * 1e6:.2f} USD",
            "rate": f"{rate:,.0f}",
            "electricity": f"{cost.cost_per_token(electricity, rate) * 1e6:.4f} USD",
            "electricity_price": units.format(catalog.price("US-industrial-2025").value, "USD/J"),
            "electricity_share": share(electricity / rent, 1),
        },
        "choice": {
            "low": f"{min(rentals.values()) * units.hour:.2f} USD",
            "high": f"{max(rentals.values()) * units.hour:.2f} USD",
            "ratio": f"{max(rentals.values()) / min(rentals.values()):.1f}",
            "before": f"{catalog.price('H100-AWS-on-demand-2025').value * units.hour:.2f} USD",
            "owned": f"{owned.rate * units.hour:.2f} USD",
            "cheap": use(owned, cheap),
            "middle": use(owned, middle),
            "middle_rental": f"{middle * units.hour:.2f} USD",
            "cheap_rental": f"{cheap * units.hour:.2f} USD",
            "middle_alone": use(alone, middle),
            "cheap_alone": use(alone, cheap),
        },
        "slip": {
            "wrong": usd(wrong_tco),
            "right": usd(right_tco),
            "ratio": f"{wrong_tco / right_tco:.0f}",
        },
    }
