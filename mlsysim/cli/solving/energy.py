"""``mlsysim energy`` and ``grids``: joules, kilograms and litres of a job, and where the kilograms come from."""

import argparse

from mlsysim import catalog, energy, units
from mlsysim.catalog.places import GRID_KINDS
from mlsysim.cli.arguments import Commands, device_options, json_option, pick_device, print_json, quantity
from mlsysim.cli.catalogues import sourced_fields


def _energy(args: argparse.Namespace) -> None:
    result = energy.run(
        args.devices,
        args.time,
        device=pick_device(args.device, args.device_file) if args.device else None,
        peak_power=args.peak_power,
        idle_power=args.idle_power,
        utilisation=args.utilisation,
        nodes=args.nodes,
        host_power=args.host_power,
        network_power=args.network_power,
        facility=args.facility,
        pue=args.pue,
        wue=args.wue,
        grid=args.grid,
        carbon_intensity=args.carbon_intensity,
        water_intensity=args.water_intensity,
        covered=args.covered,
        residual_intensity=args.residual_intensity,
        device_embodied=args.device_embodied,
        lifetime=args.lifetime,
        token_rate=args.token_rate,
    )
    if args.json:
        print_json(result.to_dict())
        return
    print(result.explain())
    print("  parts: " + ", ".join(f"{name} {units.format(v / units.kWh, '1')} kWh" for name, v in result.parts.items()))


def _grids(args: argparse.Namespace) -> None:
    found = [g for g in catalog.grids().values() if args.kind in (None, g.kind)]
    if args.json:
        print_json(
            [
                {
                    "name": g.name,
                    "kind": g.kind,
                    "aliases": list(g.aliases),
                    "notes": g.notes,
                    "fields": {k: sourced_fields(s) for k, s in g.fields.items()},
                }
                for g in found
            ]
        )
        return
    print(f"{'grid':<22} {'kind':<8} {'year':>4} {'location-based':>15}")
    for g in sorted(found, key=lambda g: g.carbon_intensity):
        print(f"{g.name:<22} {g.kind:<8} {g.year:>4} {units.format(g.carbon_intensity, 'kg/J'):>15}")


def add(commands: Commands) -> None:
    """Register the commands of this module."""
    p = commands.add_parser(
        "energy",
        parents=[device_options()],
        help="energy, carbon and water of devices that run for some time",
        description="Energy of a job from the parts you name; what you leave out is not counted, and the answer says so.",
        epilog="JSON: energy_j = the sum of parts_j, it_power_w, it_energy_j, carbon_location_kg, carbon_market_kg, "
        "carbon_embodied_kg (kg of CO2 equivalent), water_site_l, water_source_l (litres), energy_per_token_j; null where "
        "not asked for; not_counted lists what was left out.",
    )
    p.add_argument("--devices", required=True, type=quantity("1"), help="accelerators of the job")
    p.add_argument("--time", required=True, type=quantity("s"), help='how long they are held, as in "54 day"')
    p.add_argument("--device", help="name or alias: its thermal design power is the peak power")
    p.add_argument("--peak-power", type=quantity("W"), help="of one device at full load, instead of --device")
    p.add_argument(
        "--idle-power", type=quantity("W"), help="of one device at rest; needed when --utilisation is below 1"
    )
    p.add_argument("--utilisation", type=quantity("1"), default=1.0, help="0 at rest, 1 at full load (default: 1)")
    p.add_argument("--nodes", type=quantity("1"), help="servers; with --host-power")
    p.add_argument("--host-power", type=quantity("W"), help="of one server without its accelerators")
    p.add_argument("--network-power", type=quantity("W"), help="of the whole network")
    p.add_argument("--facility", help="of the catalogue, as in industry-2025; or --pue")
    p.add_argument("--pue", type=quantity("1"), help="power usage effectiveness, at least 1")
    p.add_argument("--wue", type=quantity("L/J"), help='litres per IT kilowatt-hour, as in "0.4 L/kWh"')
    p.add_argument("--grid", help="of the catalogue, as in France ('mlsysim grids' lists them)")
    p.add_argument("--carbon-intensity", type=quantity("kg/J"), help='instead of --grid, as in "400 g/kWh"')
    p.add_argument("--water-intensity", type=quantity("L/J"), help='of the electricity, as in "3 L/kWh"')
    p.add_argument(
        "--covered", type=quantity("1"), help="share under contracts of 0 g/kWh: adds the market-based carbon"
    )
    p.add_argument("--residual-intensity", type=quantity("kg/J"), help="of the residual mix (default: the grid's own)")
    p.add_argument("--device-embodied", type=quantity("kg"), help="of making one device with its share of the server")
    p.add_argument(
        "--lifetime", type=quantity("s"), help='of the equipment, as in "6 year"; needed with --device-embodied'
    )
    p.add_argument("--token-rate", type=quantity("token/s"), help="tokens of all devices together")
    p.set_defaults(run=_energy)

    p = commands.add_parser("grids", parents=[json_option()], help="list the carbon intensities of the catalogue")
    p.add_argument(
        "--kind",
        choices=GRID_KINDS,
        help="countries, the same in later years, regions, sites, or sources of electricity",
    )
    p.set_defaults(run=_grids)
