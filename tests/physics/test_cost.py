"""Cost: the 1.35 of a published rule from its parts, annuities by a second way, and prices that must not be missing."""

import json
import math

import numpy as np
import pytest
from chapter_numbers import cost as chapter  # of the book's scripts, not of the package
from hypothesis import given
from hypothesis import strategies as st

from mlsysim import catalog, cost, evidence, units
from mlsysim.course.exercises import assignment
from mlsysim.errors import InputError, UnknownNameError

YEAR = units.year
RULE = catalog.price("roofline-page")


def multiplier(price: float, payments: float = 1.0) -> float:
    return float(
        cost.tco_multiplier(
            price=price,
            power=700.0,
            time=RULE["lifetime"],
            pue=RULE["pue"],
            electricity_price=RULE["electricity"],
            cooling=RULE["cooling"],
            building=RULE["building"],
            staff_share=RULE["staff_share"],
            payments=payments,
        )
    )


# Published


@pytest.mark.published
def test_the_multiplier_of_the_rule_from_its_parts() -> None:
    """SPEC 1g: 1.24 to 1.27 when cooling and building are paid once, 1.36 to 1.40 when each year; 1.35 is neither."""
    assert [round(multiplier(p), 2) for p in (30e3, 25e3)] == [1.24, 1.26]
    assert 1.24 <= multiplier(30e3) < multiplier(25e3) <= 1.27
    assert [round(multiplier(p, 3), 2) for p in (30e3, 25e3)] == [1.36, 1.4]
    assert RULE["multiplier"] == 1.35
    assert multiplier(25e3) < 1.35 < multiplier(30e3, 3)


@pytest.mark.independent
def test_the_multiplier_by_hand() -> None:
    power = 0.7 * 1.45 * 3 * 8766 * 0.07
    assert multiplier(30e3) == pytest.approx(1 + (power + 2.5 * 700) / 30e3 + 0.12, rel=1e-9)
    assert multiplier(30e3, 3) == pytest.approx(1 + (power + 3 * 2.5 * 700) / 30e3 + 0.12, rel=1e-9)


@pytest.mark.published
def test_the_staff_of_the_rule_is_not_four_per_cent() -> None:
    """001, sec. 5: USD 200K and 1,000 to 2,000 GPUs per engineer are 0.3 to 0.8 % a year of 25 to 30 thousand dollars."""
    shares = [
        cost.staff_cost(1, n, RULE["salary"]) * YEAR / price
        for n in (RULE["devices_per_engineer_low"], RULE["devices_per_engineer_high"])
        for price in (25e3, 30e3)
    ]
    assert round(min(shares), 3) == 0.003
    assert max(shares) == pytest.approx(0.008)
    assert RULE["staff_share"] * YEAR == pytest.approx(0.04)


@pytest.mark.published
@pytest.mark.parametrize("p", evidence.published_costs().values(), ids=lambda p: p.name)
def test_published_costs(p: evidence.PublishedCost) -> None:
    """DeepSeek prints products of its own; the author of llm.c rounds to one digit."""
    ours = cost.rental_cost(1, p.device_time, p.price.value)
    assert ours == pytest.approx(p.cost, rel=0.15 if p.name.startswith("llm.c") else 1e-6)


@pytest.mark.independent
def test_device_hours_of_the_published_costs_by_hand() -> None:
    hours = {name: p.device_time / 3600 for name, p in evidence.published_costs().items()}
    assert hours["deepseek-serving-day"] == pytest.approx(226.75 * 8 * 24)
    assert hours["llm.c-124m"] == pytest.approx(8 * 18865 * 0.3 / 3600, rel=1e-4)
    assert hours["llm.c-774m"] == pytest.approx(8 * 286102 * 1.7 / 3600, rel=1e-4)


# Independent


@pytest.mark.independent
@given(price=st.floats(1, 1e6), years=st.integers(1, 30), rate=st.floats(1e-4, 1.0))
def test_an_annuity_repays_its_price(price: float, years: int, rate: float) -> None:
    """Second way: the present value of the payments, summed year by year."""
    payment = cost.capital_recovery(price, years * YEAR, rate) * YEAR
    assert sum(payment / (1 + rate) ** n for n in range(1, years + 1)) == pytest.approx(price, rel=1e-9)


@pytest.mark.independent
def test_an_annuity_without_interest_is_a_straight_line() -> None:
    assert cost.capital_recovery(1e4, 5 * YEAR, 1e-9) == pytest.approx(cost.straight_line(1e4, 5 * YEAR), rel=1e-6)
    assert cost.capital_recovery(1e4, 5 * YEAR, 0.1) > cost.straight_line(1e4, 5 * YEAR)
    assert cost.capital_recovery(1e4, 5 * YEAR, 0.1 / 12, YEAR / 12) != cost.capital_recovery(1e4, 5 * YEAR, 0.1)
    assert cost.straight_line(1e4, 10.0, 4e3) == 600.0


@pytest.mark.independent
def test_small_ones_by_hand() -> None:
    assert cost.power_cost(1000.0, 1.5, 2.0) == 3000.0
    assert cost.staff_cost(100, 50, 3.0) == 6.0
    assert cost.total_cost(1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 10.0) == 630.0
    assert cost.rental_cost(2, 3.0, 5.0) == 30.0
    assert cost.cost_per_token(6.0, 4.0, 0.5) == 3.0
    assert cost.break_even_utilisation(3.0, 4.0) == 0.75
    assert cost.break_even_time(100.0, 5.0) == 20.0


def owned(**changes: object) -> cost.Ownership:
    given: dict[str, object] = {
        "price": 30e3,
        "lifetime": 4 * YEAR,
        "power": 1000.0,
        "idle_power": 400.0,
        "pue": 1.25,
        "electricity_price": 0.08 / 3.6e6,
        "cooling": 1.5,
        "building": 1.0,
        "plant_lifetime": 15 * YEAR,
        "devices_per_engineer": 1000,
        "salary": 200e3 / YEAR,
        "network": 3e3,
    }
    return cost.ownership_cost(8, **(given | changes))  # type: ignore[arg-type]


@pytest.mark.independent
def test_ownership_by_hand() -> None:
    o = owned(utilisation=0.5)
    per_year = {name: v * YEAR for name, v in o.rates.items()}
    assert per_year == pytest.approx(
        {
            "capital": 8 * 30e3 / 4,
            "power": 8 * 0.7 * 1.25 * 8766 * 0.08,
            "cooling": 8 * 1500 / 15,
            "building": 8 * 1000 / 15,
            "staff": 8 * 200.0,
            "network": 8 * 3e3 / 4,
        }
    )
    assert o.cost(YEAR) == pytest.approx(sum(per_year.values()))
    assert (o.working_rate - o.idle_rate) * YEAR == pytest.approx(8 * 0.6 * 1.25 * 8766 * 0.08)
    assert o.purchase == 8 * (30e3 + 3e3 + 2500)
    assert o.device_rate * 8 == pytest.approx(o.rate)


@pytest.mark.independent
@given(u=st.floats(0, 1), rental=st.floats(0.2, 20), price=st.floats(1e3, 1e5), rate=st.none() | st.floats(0.01, 0.3))
def test_parts_sum_and_both_ways_cost_the_same_at_the_break_even(
    u: float, rental: float, price: float, rate: float | None
) -> None:
    o = owned(price=price, utilisation=u, interest=rate)
    assert sum(o.rates.values()) == pytest.approx(o.rate)
    assert o.idle_rate <= o.rate * (1 + 1e-12) <= o.working_rate * (1 + 1e-9)
    c = cost.own_or_rent(o, rental / 3600, u)
    if math.isfinite(c.break_even_utilisation) and c.break_even_utilisation <= 1:
        same = cost.own_or_rent(o, rental / 3600, c.break_even_utilisation)
        assert same.owned_rate == pytest.approx(same.rented_rate, rel=1e-9)
        assert c.cheaper == ("own" if u > c.break_even_utilisation else "rent") or u == pytest.approx(
            c.break_even_utilisation
        )
    else:
        assert c.cheaper == "rent"


@pytest.mark.independent
def test_the_time_to_break_even_by_hand() -> None:
    o = owned(network=0.0, cooling=0.0, building=0.0, salary=0.0)
    c = cost.own_or_rent(o, 2 / 3600, 0.5)
    electricity = (0.4 + 0.5 * 0.6) * 1.25 * 0.08  # USD per hour
    assert c.break_even_time == pytest.approx(30e3 / (1.0 - electricity) * 3600)
    whole = cost.own_or_rent(owned(), 2 / 3600, 0.5)  # plant and network are bought too, and are no running costs
    assert whole.break_even_time == pytest.approx(35.5e3 / (1.0 - electricity - 200 / 8766) * 3600)
    assert cost.own_or_rent(o, 0.06 / 3600, 0.5).break_even_time == math.inf
    assert cost.own_or_rent(o, 0.01 / 3600, 0.5).break_even_utilisation == math.inf
    assert cost.own_or_rent(o, 0.01 / 3600, 0.5).to_dict()["break_even_utilisation"] is None


def test_arrays_give_the_same_as_floats() -> None:
    rentals = np.array([0.01, 1.0, 2.0, 4.0]) / 3600
    both = cost.own_or_rent(owned(), rentals, 0.6)
    each = [cost.own_or_rent(owned(), r, 0.6) for r in rentals]
    assert list(both.cheaper) == [c.cheaper for c in each]
    np.testing.assert_allclose(both.break_even_utilisation, [c.break_even_utilisation for c in each])
    np.testing.assert_allclose(owned(price=np.array([1e4, 3e4])).rate, [owned(price=p).rate for p in (1e4, 3e4)])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"salvage": 1e3, "interest": 0.1}, "salvage goes with a straight line"),
        ({"salvage": 4e4}, "lies above price"),
        ({"interest": 0.0}, "interest = 0.0 is outside (0, 1]"),
        ({"lifetime": 0.0}, "lifetime = 0.0 is outside"),
        ({"electricity_price": -1.0}, "electricity_price = -1.0 is outside"),
        ({"pue": 0.5}, "pue = 0.5 is outside"),
        ({"price": None}, "None"),
    ],
)
def test_what_is_wrong_is_refused(changes: dict[str, object], says: str) -> None:
    with pytest.raises((InputError, TypeError)) as caught:
        owned(**changes)
    assert says in str(caught.value)


def test_no_part_has_a_default_price() -> None:
    """PITFALLS: a missing price becomes 0, and the accelerators are free."""
    import inspect

    parameters = inspect.signature(cost.ownership_cost).parameters
    for name in ("price", "power", "electricity_price", "cooling", "building", "salary", "network", "lifetime"):
        assert parameters[name].default is inspect.Parameter.empty, name


def test_results_are_json_and_explain_themselves() -> None:
    o = owned()
    c = cost.own_or_rent(o, 2 / 3600, 0.5)
    for result in (o, c):
        assert json.loads(json.dumps(result.to_dict())) == result.to_dict()
    text = str(owned(interest=0.08, origins={"price": "a receipt"}).explain()) + str(c.explain())
    for piece in ("@eq-capital-recovery", "@eq-power-cost", "@eq-tco", "a receipt", "@eq-break-even-utilisation"):
        assert piece in text


@pytest.mark.independent
def test_nothing_is_sold_for_more_than_it_cost() -> None:
    assert cost.straight_line(3e4, YEAR, 3e4) == 0.0
    with pytest.raises(InputError, match="salvage"):
        cost.straight_line(3e4, YEAR, 3.1e4)


@pytest.mark.independent
def test_owning_is_compared_with_rent_by_the_price_of_a_system() -> None:
    """Chapter 10: 49,248 USD over three years with server and network, and a meter's 8.4 kW over eight, against 2.69 USD/h."""
    said = chapter.numbers()
    hours = 3 * 8766
    node = evidence.published_footprint("hgx-h100-training")
    watts = node.published("power") / 8
    power = watts / 1000 * 1.45 * 0.07
    plant = watts * 2.5 / (15 * 8766)
    rate = 49_248 / hours + power + plant + 200e3 / 1000 / 8766
    assert said["choice"]["owned"] == f"{rate:.2f} USD"
    assert said["choice"]["middle"] == f"{rate / 2.69:.0%}".replace("%", " %")
    assert said["capital"]["power"] == f"{100 * power / rate:.1f} %"


def test_a_missing_price_is_an_error() -> None:
    with pytest.raises(UnknownNameError, match="Rubin has no rental price"):
        catalog.prices_of("Rubin", "rental")
    with pytest.raises(UnknownNameError, match="has no purchase"):
        _ = catalog.price("US-industrial-2023")["purchase"]
    with pytest.raises(InputError, match="kind of price"):
        catalog.prices_of("H100", "loan")


# The exercises by hand: the public demo's numbers and the arithmetic, typed; nothing of the library stands on this side.

BY_HAND: dict[str, float] = {
    "10.1": 28e3 / (3 * 8766 * 3600),
    "10.2": 30e3 * 0.08 / (1 - 1.08**-3) / (8766 * 3600),
    "10.3": 256 * ((30e3 + 8e3) / 4 + 1.3 * 8766 * 0.12 + 9000 / 15 + 200e3 / 64),
    "10.4": 200e3 / (1000 * 25e3),
    "10.5": 1 + (0.7 * 3 * 8766 * 1.6 * 0.05 + 2.5 * 700) / 30e3 + 0.18,
    "10.6": 6 * 8e9 * 2e12 / (989.5e12 * 0.35) / 3600 * 2,
    "10.7": 8 * 2 / 3600 / (2500 * 0.3),
    "10.8": 1.15 / (2.2 - 0.2),
    "10.9": 30e3 / (2.69 * 0.5 - 0.15) * 3600,
}


@pytest.mark.independent
@pytest.mark.parametrize("id", BY_HAND)
def test_the_demo_of_each_exercise_agrees_with_arithmetic_by_hand(id: str) -> None:
    chapter = {e.id: e for e in assignment("10-cost") if e.form == "number"}  # tasks: tests/book/test_tasks.py
    assert set(chapter) == set(BY_HAND)
    assert chapter[id].solve(chapter[id].draw()) == pytest.approx(BY_HAND[id], rel=1e-9)
