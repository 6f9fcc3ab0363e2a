"""The commands ``energy``, ``cost``, ``grids`` and ``prices``: stable keys, every option reaches the solver, one sentence on error."""

import json
from typing import Any

import pytest

from mlsysim import cli, cost, energy, units

ENERGY = ["energy", "--devices", "16", "--time", "2 h"]
FULL = [
    *(
        "--peak-power",
        "700 W",
        "--idle-power",
        "100 W",
        "--utilisation",
        "0.5",
        "--nodes",
        "2",
        "--host-power",
        "1.5 kW",
    ),
    *("--network-power", "400 W", "--pue", "1.25", "--wue", "0.5 L/kWh", "--carbon-intensity", "400 g/kWh"),
    *("--water-intensity", "3 L/kWh", "--covered", "75 %", "--residual-intensity", "500 g/kWh"),
    *("--device-embodied", "400 kg", "--lifetime", "5 year", "--token-rate", "1000 token/s"),
]
OWN = [
    *("--price", "30000 USD", "--power", "1 kW", "--idle-power", "400 W", "--lifetime", "4 year", "--interest", "8 %"),
    *("--network", "3000 USD", "--pue", "1.25", "--electricity-price", "0.08 USD/kWh", "--cooling", "1.5 USD/W"),
    *("--building", "1 USD/W", "--plant-lifetime", "15 year", "--devices-per-engineer", "1000"),
    *("--salary", "200000 USD/year"),
]
COST = ["cost", "--devices", "8", "--time", "1 year", "--utilisation", "0.5"]


def data(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    assert cli.main([*args, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_energy_json_has_every_option_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    expected = energy.run(
        16,
        7200.0,
        peak_power=700.0,
        idle_power=100.0,
        utilisation=0.5,
        nodes=2,
        host_power=1500.0,
        network_power=400.0,
        pue=1.25,
        wue=0.5 / 3.6e6,
        carbon_intensity=0.4 / 3.6e6,
        water_intensity=3 / 3.6e6,
        covered=0.75,
        residual_intensity=0.5 / 3.6e6,
        device_embodied=400.0,
        lifetime=5 * units.year,
        token_rate=1000.0,
    ).to_dict()
    got = data(capsys, *ENERGY, *FULL)
    assert set(got) == set(expected)
    for key, value in expected.items():
        assert got[key] == (value if isinstance(value, list) else pytest.approx(value)), key


def test_energy_from_the_catalogues(capsys: pytest.CaptureFixture[str]) -> None:
    got = data(capsys, *ENERGY, "--device", "H100", "--facility", "industry-2023", "--grid", "France")
    assert got["energy_j"] == pytest.approx(16 * 700 * 7200 * 1.58)
    assert got["carbon_market_kg"] is None
    assert got["not_counted"] == ["not counted: hosts", "not counted: network"]
    assert cli.main([*ENERGY, "--device", "H100", "--pue", "1"]) == 0
    assert "22.4 kWh of facility energy" in capsys.readouterr().out


def test_cost_json(capsys: pytest.CaptureFixture[str]) -> None:
    owned = cost.ownership_cost(
        8,
        price=30e3,
        lifetime=4 * units.year,
        power=1000.0,
        idle_power=400.0,
        utilisation=0.5,
        interest=0.08,
        pue=1.25,
        electricity_price=0.08 / 3.6e6,
        cooling=1.5,
        building=1.0,
        plant_lifetime=15 * units.year,
        devices_per_engineer=1000,
        salary=200e3 / units.year,
        network=3e3,
    )
    got = data(capsys, *COST, *OWN, "--rental-rate", "2.5 USD/h", "--token-rate", "10000 token/s")
    assert got["owned"]["rate_usd_per_s"] == pytest.approx(owned.rate)
    assert sum(got["owned"]["rates_usd_per_s"].values()) == pytest.approx(owned.rate)
    assert got["owned"]["cost_usd"] == pytest.approx(owned.rate * units.year)
    assert got["rented"]["cost_usd"] == pytest.approx(8 * 2.5 * 8766 / 2)
    comparison = cost.own_or_rent(owned, 2.5 / 3600, 0.5)
    assert got["comparison"]["break_even_utilisation"] == pytest.approx(comparison.break_even_utilisation)
    assert got["cost_per_token_usd"]["rented"] == pytest.approx(8 * 2.5 / 3600 / 10000)
    assert got["cost_per_token_usd"]["owned"] == pytest.approx(owned.rate / 5000)


def test_a_rule_fills_in_what_it_has_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    rule = ["--price", "H100-purchase-2023-high", "--rule", "roofline-page", "--power", "700 W"]
    assert cli.main([*COST, *rule, "--network", "0", "--explain"]) == 0
    assert "roofline-page: rooflinepage2026, sec. 5" in capsys.readouterr().out
    assert cli.main([*COST, *rule]) == 2
    assert "owning needs --network: a missing price is not 0" in capsys.readouterr().err


def test_renting_by_the_name_of_a_price(capsys: pytest.CaptureFixture[str]) -> None:
    got = data(capsys, "cost", "--devices", "10", "--time", "1 h", "--rental-rate", "H100-AWS-block-2024")
    assert got["rented"]["cost_usd"] == pytest.approx(49.16)
    assert "owned" not in got
    assert cli.main([*COST, *OWN, "--rental-rate", "0.01 USD/h", "--explain"]) == 0
    assert "cheaper at this use: rent" in capsys.readouterr().out
    assert data(capsys, *COST, *OWN, "--rental-rate", "0.01 USD/h")["comparison"]["break_even_time_s"] is None


def test_the_lists(capsys: pytest.CaptureFixture[str]) -> None:
    grids = data(capsys, "grids", "--kind", "country")
    assert {"name", "kind", "aliases", "notes", "fields"} == set(grids[0])
    assert all(g["kind"] == "country" and g["fields"]["carbon_intensity"]["source"] for g in grids)
    prices = data(capsys, "prices", "--kind", "rental")
    assert all(p["date"] and p["fields"]["rental"]["value"] > 0 for p in prices)
    for command, piece in (("grids", "661.9 g/kWh"), ("prices", "a set of assumptions")):
        assert cli.main([command]) == 0
        assert piece in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([*ENERGY, "--device", "H100"], "give pue"),
        ([*ENERGY, "--pue", "1.2"], "give peak_power in W, or a device"),
        ([*ENERGY, "--peak-power", "700 W", "--pue", "1.2", "--grid", "Polland"], "did you mean 'Poland'"),
        ([*ENERGY, "--peak-power", "700 Wh", "--pue", "1.2"], "is not in W"),
        ([*ENERGY, "--peak-power", "700 W", "--pue", "1.2", "--carbon-intensity", "400 g/kW"], "is not in kg/J"),
        ([*COST], "give --price to own, --rental-rate to rent"),
        ([*COST, "--rental-rate", "H1000"], "unknown price"),
        ([*COST, "--rental-rate", "2 USD"], "is not in USD/s"),
        ([*COST, "--price", "30000 USD"], "owning needs --lifetime, --power"),
    ],
)
def test_a_mistake_is_one_sentence(args: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(args) == 2
    assert says in capsys.readouterr().err


@pytest.mark.independent
def test_a_share_of_the_time_above_one_buys_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Eight devices at 2 USD/h for a year cannot cost more than 8 x 2 x 8766 USD."""
    rented = ["cost", "--devices", "8", "--time", "1 year", "--rental-rate", "2 USD/h", "--json", "--utilisation"]
    assert cli.main([*rented, "1.2"]) == 2
    assert "argument --utilisation: '1.2' must lie in [0, 1]" in capsys.readouterr().err
    assert cli.main([*rented, "1"]) == 0
    assert json.loads(capsys.readouterr().out)["rented"]["cost_usd"] == pytest.approx(8 * 2 * 8766, rel=1e-3)
