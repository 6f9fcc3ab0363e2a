"""Chapter 9, energy, carbon and water."""

from typing import Any

from chapter_numbers import whole_share as share
from mlsysim import catalog, energy, evidence, units

_PUBLISHED = evidence.published_footprint

REVISED = (
    392.89e-3 / units.kWh
)  # kg/J, United States, 2023: owid-energy-data.csv, release of 2026 (commit e7897ae), owid2026energy


def _mwh(joules: float) -> str:
    return f"{joules / units.MWh:,.0f} MWh"


def _tonnes(kilograms: float, digits: int = 1) -> str:
    return f"{kilograms / 1e3:,.{digits}f} t"


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 9."""
    gpt3, bloom, olmo, prompt = map(_PUBLISHED, ("gpt-3", "bloom", "olmo-2-7b", "gemini-prompt"))
    small, large = _PUBLISHED("splitwise-llama-2-70b-tp2-b1"), _PUBLISHED("splitwise-llama-2-70b-tp8-b1")
    node, mlperf = _PUBLISHED("hgx-h100-training"), _PUBLISHED("mlperf-h200-llama-2-70b")
    llama, twin, wrong = map(_PUBLISHED, ("llama-3.1-405b", "llama-3.1-70b", "llama-3.3-70b"))
    deployed = _PUBLISHED("bloom-deployment")
    meta, usa, poland, coal = (
        catalog.facility("Meta-LLaMA"),
        catalog.grid("USA"),
        catalog.grid("Poland"),
        catalog.grid("coal"),
    )
    h100 = catalog.device("H100")

    def intensity(kg_per_j: float, digits: int = 3) -> str:
        return units.format(kg_per_j, "kg/J", digits)

    def per_token(name: str, nameplate: bool = False) -> float:
        p = _PUBLISHED(name)
        watts = p.published("devices") * p.published("power") * (1 if nameplate else p.published("power_share"))
        return float(energy.energy_per_token(watts, p.published("tokens") * p.published("batch") / p.published("time")))

    def card(p: evidence.PublishedFootprint) -> float:
        joules = energy.facility_energy(p.published("power"), p.device_time, meta.pue)
        return float(energy.carbon(joules, usa.carbon_intensity))

    card_energy = energy.facility_energy(llama.published("power"), llama.device_time)
    wrong_energy = energy.facility_energy(wrong.published("power"), wrong.device_time)
    olmo_work = 6 * olmo.published("parameters") * olmo.published("tokens")

    def olmo_at(mfu: float) -> float:
        return float(energy.work_energy(olmo_work, olmo.published("power"), h100.peak_flops["bf16"], mfu))

    made = bloom.published("servers") * bloom.published("server_embodied")
    made += bloom.published("devices") * bloom.published("device_embodied")
    embodied = energy.embodied_carbon(
        made, bloom.published("time"), bloom.published("lifetime"), bloom.published("busy_share")
    )
    rest = bloom.published("total_carbon") - bloom.published("carbon") - bloom.published("idle_carbon")
    gpt3_ours = energy.facility_energy(gpt3.published("power"), gpt3.device_time, gpt3.published("pue"))
    it = gpt3.published("energy") / gpt3.published("pue")
    us = catalog.facility("US-2023")
    rents = [
        p.value
        for p in catalog.prices_of("H100", "rental")
        if p.date.startswith("2026") and p.offer in ("on demand", "reserved")
    ]
    water = 700e3  # litres, abstract of li2023thirsty
    chip = float(energy.device_power(100.0, 700.0, 0.75))  # a node of round numbers, no machine's own
    machines = float(energy.it_power(8, chip, 1, 1600.0))
    day = float(energy.facility_energy(machines, units.day, 1.5))
    small_work = 6 * 7e9 * 1e12

    def in_country(name: str) -> str:
        return f"{energy.carbon(day, catalog.grid(name).carbon_intensity):.0f} kg"

    server = bloom.published("server_embodied")
    week = energy.embodied_carbon(server, 7 * units.day, bloom.published("lifetime"), bloom.published("busy_share"))
    site_water = energy.onsite_water(units.kWh, us.wue)
    source_water = energy.source_water(energy.facility_energy(units.kWh, 1.0, us.pue), us.water_intensity)
    computed_power = node.published("power") / (node.published("devices") * h100.tdp)
    return {
        "node": {
            "idle": units.format(100.0, "W"),
            "peak": units.format(700.0, "W"),
            "load": share(0.75),
            "device": units.format(chip, "W"),
            "devices": units.format(8 * chip, "W"),
            "host": units.format(1600.0, "W"),
            "it": units.format(machines, "W"),
            "facility": units.format(1.5 * machines, "W"),
            "day": f"{day / units.kWh:.0f} kWh",
            "france": in_country("France"),
            "poland": in_country("Poland"),
            "rate": f"{5000:,}",
            "token": f"{energy.energy_per_token(machines, 5000.0, 1.5):.1f} J",
        },
        "small": {
            "parameters": "7",
            "tokens": "10¹²",
            "flops": f"{small_work:.1e} FLOP".replace("e+22", " × 10²²"),
            "mfu": share(0.4),
            "energy": _mwh(energy.work_energy(small_work, chip, h100.peak_flops["bf16"], 0.4)),
        },
        "market": {
            "residual": "450 g/kWh",
            "intensity": intensity(energy.market_intensity(0.9, 0.0, 450 / 3.6e9)),
        },
        "worn": {
            "made": units.format(server, "kg"),
            "busy": share(bloom.published("busy_share")),
            "week": f"{week:.1f} kg",
        },
        "power": {
            "small": share(small.published("power_share")),
            "large": share(large.published("power_share")),
            "peak": share(_PUBLISHED("splitwise-llama-2-70b-tp2-b16").published("peak_share")),
            "node": units.format(node.published("power"), "W"),
            "nameplate": units.format(node.published("nameplate"), "W"),
            "gpus": units.format(node.published("devices") * h100.tdp, "W"),
            "ratio": f"{computed_power:.2f}",
        },
        "prompt": {
            "energy": f"{prompt.published('energy') / 3600:.2f} Wh",
            "ratio": f"{prompt.published('energy') / prompt.published('device_energy'):.1f}",
            "pue": f"{prompt.published('pue'):g}",
            "overhead": share(1 - 1 / prompt.published("pue"), 1),
            "overhead_printed": share(prompt.published("facility_share")),
            "water": f"{prompt.published('water') * 1e3:.2f} mL",
            "wue": f"{prompt.published('water') / (prompt.published('energy') / prompt.published('pue')) * units.kWh:.2f} L/kWh",
        },
        "gpt3": {
            "devices": f"{gpt3.published('devices'):,.0f}",
            "days": units.format(gpt3.published("time"), "s"),
            "printed": _mwh(gpt3.published("energy")),
            "ours": _mwh(gpt3_ours),
            "error": units.percent(gpt3_ours / gpt3.published("energy") - 1),
            "carbon": _tonnes(gpt3.published("carbon")),
            "carbon_ours": _tonnes(energy.carbon(gpt3_ours, gpt3.published("carbon_intensity"))),
            "watts": units.format(gpt3.published("power"), "W"),
            "it": _mwh(it),
            "pue": f"{gpt3.published('pue'):.2f}",
            "water_rate": f"{water / (gpt3.published('energy') / units.kWh):.3f} L/kWh",
            "water_rate_it": f"{water / (it / units.kWh):.3f} L/kWh",
            "water": units.format(water, "L"),
        },
        "llama": {
            "hours": f"{llama.device_time / units.hour / 1e6:.2f}",
            "energy": _mwh(card_energy),
            "printed": _tonnes(llama.published("carbon"), 0),
            "ours": _tonnes(card(llama), 0),
            "error": units.percent(card(llama) / llama.published("carbon") - 1),
            "usa": intensity(usa.carbon_intensity),
            "revised": intensity(REVISED),
            "revised_error": units.percent(
                card(llama) / llama.published("carbon") * REVISED / usa.carbon_intensity - 1
            ),
            "family": _tonnes(
                sum(_PUBLISHED(f"llama-3.1-{size}").published("carbon") for size in ("8b", "70b", "405b")), 0
            ),
            "pue": f"{meta.pue:g}",
            "wrong_energy": _mwh(wrong_energy),
            "wrong_hours": f"{wrong.device_time / units.hour / 1e6:.1f}",
            "wrong_printed": _tonnes(wrong.published("carbon")),
            "twin_printed": _tonnes(twin.published("carbon"), 0),
            "wrong_implied": intensity(wrong.published("carbon") / wrong_energy, 2),
            "wrong_factor": f"{twin.published('carbon') / wrong.published('carbon'):.0f}",
        },
        "bloom": {
            "mwh": _mwh(bloom.published("energy")),
            "watts": units.format(bloom.published("power"), "W"),
            "servers": f"{bloom.published('servers'):.0f}",
            "devices": f"{bloom.published('devices'):.0f}",
            "device_made": units.format(bloom.published("device_embodied"), "kg"),
            "made": _tonnes(made),
            "assumed_pue": f"{_PUBLISHED('bloom-by-llama').published('pue'):g}",
            "days": units.format(bloom.published("time"), "s"),
            "deployed_days": units.format(deployed.published("time"), "s"),
            "hours": f"{bloom.device_time / units.hour:,.0f}",
            "total": _tonnes(bloom.published("total_carbon")),
            "rest": _tonnes(rest),
            "embodied": _tonnes(embodied),
            "embodied_error": units.percent(embodied / rest - 1),
            "computing": share(bloom.published("carbon") / bloom.published("total_carbon")),
            "intensity": intensity(bloom.published("carbon_intensity")),
            "deployed": f"{deployed.published('energy') / units.kWh:,.0f} kWh",
            "requests": f"{deployed.published('requests'):,.0f}",
            "per_request": f"{deployed.published('energy') / deployed.published('requests') / 3600:.1f} Wh",
        },
        "olmo": {
            "printed": _mwh(olmo.published("energy")),
            "parameters": f"{olmo.published('parameters') / 1e9:g}",
            "tokens": f"{olmo.published('tokens') / 1e12:g}",
            "power": units.format(olmo.published("power"), "W"),
            "forty": _mwh(olmo_at(0.4)),
            "error": units.percent(olmo_at(0.4) / olmo.published("energy") - 1, 0),
            "mfu": share(0.4 * olmo_at(0.4) / olmo.published("energy")),
            "pue": f"{olmo.published('pue'):g}",
            "intensity": intensity(olmo.published("carbon_intensity")),
            "carbon": _tonnes(olmo.published("carbon"), 0),
        },
        "token": {
            "one": units.format(per_token("splitwise-llama-2-70b-tp2-b1"), "J", 3),
            "sixteen": units.format(per_token("splitwise-llama-2-70b-tp2-b16"), "J", 2),
            "ratio": f"{per_token('splitwise-llama-2-70b-tp2-b1') / per_token('splitwise-llama-2-70b-tp2-b16'):.0f}",
            "eight": units.format(per_token("splitwise-llama-2-70b-tp8-b1"), "J", 3),
            "eight_nameplate": units.format(per_token("splitwise-llama-2-70b-tp8-b1", nameplate=True), "J", 3),
            "overstated": f"{1 / large.published('power_share'):.1f}",
            "mlperf": f"{energy.energy_per_token(mlperf.published('power'), mlperf.published('token_rate')):.2f} J",
            "mlperf_w": units.format(mlperf.published("power"), "W"),
        },
        "grids": {
            "count": str(sum(g.kind == "country" for g in catalog.grids().values())),
            "coal": intensity(coal.carbon_intensity),
            "hydro": intensity(catalog.grid("hydropower").carbon_intensity),
            "poland": intensity(poland.carbon_intensity),
            "poland_year": str(poland.year),
            "norway": intensity(catalog.grid("Norway").carbon_intensity, 2),
            "oldest": str(min(g.year for g in catalog.grids().values() if g.kind == "country")),
            "newest": str(max(g.year for g in catalog.grids().values() if g.kind == "country")),
            "ratio_claimed": f"{820 / 20:.0f}",
            "ratio_poland": f"{poland.carbon_intensity / (20 / 3.6e9):.0f}",
            "ratio_catalogue": f"{max(g.carbon_intensity for g in catalog.grids().values() if g.kind == 'country') / catalog.grid('Iceland').carbon_intensity:.0f}",
            "kg_slip": f"{1e3:,.0f}",
        },
        "facilities": {
            "industry": f"{catalog.facility('industry-2025').pue:g}",
            "industry_2023": f"{catalog.facility('industry-2023').pue:g}",
        },
        "catalogue": {
            "grids": str(len(catalog.grids())),
            "prices": str(len(catalog.prices())),
            "facilities": str(len(catalog.facilities())),
            "rent_ratio": f"{max(rents) / min(rents):.1f}",
        },
        "water": {
            "wrong": units.percent(us.pue - 1, 0),
            "grid": f"{us.water_intensity * units.kWh:.2f} L/kWh",
            "site": f"{site_water:.2f} L",
            "source": f"{source_water:.1f} L",
            "times": f"{us.water_intensity * us.pue / us.wue:.0f}",
        },
    }
