"""``mlsysim energy`` and ``grids``: joules, kilograms and litres of a job, and where the kilograms come from."""

import argparse

from mlsysim import catalog, energy, units
from mlsysim.catalog.places import GRID_KINDS
from mlsysim.cli.arguments import (
    Commands,
    device_options,
    explain_option,
    json_option,
    pick_device,
    print_answer,
    print_json,
)
from mlsysim.cli.lists import entry_row
from mlsysim.cli.options import add_options, given


def _energy(args: argparse.Namespace) -> None:
    device = pick_device(args.device, args.device_file) if args.device else None
    result = energy.run(device=device, **given(args, energy.run, "device"))
    print_answer(args, result)


def _grids(args: argparse.Namespace) -> None:
    found = [g for g in catalog.grids().values() if args.kind in (None, g.kind)]
    if args.json:
        print_json([entry_row(g, "kind", "aliases", "notes") for g in found])
        return
    print(f"{'grid':<22} {'kind':<8} {'year':>4} {'location-based':>15}")
    for g in sorted(found, key=lambda g: g.carbon_intensity):
        print(f"{g.name:<22} {g.kind:<8} {g.year:>4} {units.format(g.carbon_intensity, 'kg/J'):>15}")


def add(commands: Commands) -> None:
    """Register the commands of this module."""
    p = commands.add_parser(
        "energy",
        parents=[device_options(), explain_option()],
        description="Energy of a job from the parts you name; what you leave out is not counted, and the answer says so.",
        epilog="JSON: energy_j = the sum of parts_j, it_power_w, it_energy_j, carbon_location_kg, carbon_market_kg, "
        "carbon_embodied_kg (kg of CO2 equivalent), water_site_l, water_source_l (litres), energy_per_token_j; null where "
        "not asked for; not_counted lists what was left out.",
    )
    add_options(p, energy.run, leave=("contract_intensity", "embodied", "busy_share"), device={"required": False})
    p.set_defaults(run=_energy)

    p = commands.add_parser("grids", parents=[json_option()])
    p.add_argument(
        "--kind",
        choices=GRID_KINDS,
        help="countries, the same in later years, regions, sites, or sources of electricity",
    )
    p.set_defaults(run=_grids)
