"""``mlsysim cost`` and ``prices``: owning against renting, the price of a token, and dated prices."""

import argparse
from typing import Any

from mlsysim import catalog, cost, units
from mlsysim.catalog.prices import PRICE_KINDS
from mlsysim.cli.arguments import Commands, argument, json_option, print_json, quantity
from mlsysim.cli.catalogues import sourced_fields
from mlsysim.equations import Domain, check_argument
from mlsysim.errors import InputError

_NEEDED = (
    *("price", "power", "lifetime", "pue", "electricity_price", "cooling", "building", "plant_lifetime"),
    *("devices_per_engineer", "salary", "network"),
)
# The figures that a rule of the catalogue can stand for, by its own names.
_OF_A_RULE = {
    "lifetime": "lifetime",
    "plant_lifetime": "lifetime",
    "pue": "pue",
    "electricity_price": "electricity",
    "cooling": "cooling",
    "building": "building",
    "devices_per_engineer": "devices_per_engineer_low",
    "salary": "salary",
}


def _priced(expected: str) -> Any:
    """A quantity, or the name of a price in the catalogue."""

    def convert(text: str) -> float:
        return catalog.price(text).value if text[:1].isalpha() else units.parse(text, expected, "value")

    return argument(convert)


def _owned(args: argparse.Namespace) -> cost.Ownership:
    given: dict[str, Any] = {name: getattr(args, name) for name in _NEEDED}
    origins = {}
    if args.rule is not None:
        rule = catalog.price(args.rule)
        for name, field in _OF_A_RULE.items():
            if given[name] is None and rule.has(field):
                given[name] = rule[field]
                origins[name] = f"{rule.name}: {rule.origin(field)}"
    missing = [f"--{name.replace('_', '-')}" for name, value in given.items() if value is None]
    if missing:
        raise InputError(f"owning needs {', '.join(missing)}: a missing price is not 0; say 0 where you mean it")
    return cost.own(
        args.devices,
        **given,
        idle_power=args.idle_power,
        utilisation=args.utilisation,
        salvage=args.salvage,
        interest=args.interest,
        origins=origins,
    )


def _cost(args: argparse.Namespace) -> None:
    # Refused here too, not only where something is owned: a rent times a share above one is a bill for hours that are not.
    check_argument("cost", "--utilisation", args.utilisation, "1", Domain.of("[0, 1]"))
    if args.price is None and args.rental_rate is None:
        raise InputError("cost: give --price to own, --rental-rate to rent, or both to compare")
    owned = _owned(args) if args.price is not None else None
    found: dict[str, Any] = {"devices": args.devices, "time_s": args.time, "utilisation": args.utilisation}
    shown: list[Any] = []
    rates: dict[str, float] = {}
    if owned is not None:
        found["owned"] = owned.to_dict() | {"cost_usd": owned.cost(args.time)}
        shown.append(owned.explain())
        rates["owned"] = owned.rate
    if args.rental_rate is not None:
        paid = cost.rental_cost(args.devices, args.time * args.utilisation, args.rental_rate)
        rates["rented"] = cost.rental_cost(args.devices, args.utilisation, args.rental_rate)  # of a second that is held
        found["rented"] = {"rate_usd_per_s": rates["rented"], "cost_usd": paid}
        shown.append(f"rented only while used: {units.format(paid, 'USD')} in {units.format(args.time, 's')}")
    if owned is not None and args.rental_rate is not None:
        choice = cost.own_or_rent(owned, args.rental_rate, args.utilisation)
        found["comparison"] = choice.to_dict()
        shown.append(choice.explain())
    if args.token_rate is not None:
        per_token = {name: cost.cost_per_token(rate, args.token_rate, args.utilisation) for name, rate in rates.items()}
        found["cost_per_token_usd"] = per_token
        shown += [f"{name}: {1e6 * value:.4g} USD per million tokens" for name, value in per_token.items()]
    if args.json:
        print_json(found)
        return
    print("\n".join(map(str, shown)))


def _prices(args: argparse.Namespace) -> None:
    found = [p for p in catalog.prices().values() if args.kind in (None, p.kind)]
    if args.json:
        print_json(
            [
                {
                    "name": p.name,
                    "kind": p.kind,
                    "item": p.item,
                    "date": p.date,
                    "notes": p.notes,
                    "fields": {k: sourced_fields(s) for k, s in p.fields.items()},
                }
                for p in found
            ]
        )
        return
    for p in found:
        value = "a set of assumptions" if p.kind == "rule" else units.format(p.value, p.fields[p.kind].unit)
        print(f"{p.name:<30} {p.kind:<11} {p.date:<8} {value:>20}  {p.item}")


def add(commands: Commands) -> None:
    """Register the commands of this module."""
    p = commands.add_parser(
        "cost",
        parents=[json_option()],
        help="cost of owning or renting devices, of a token, and which is cheaper",
        description="Owning needs every part's price, or a rule of the catalogue that has it; renting needs --rental-rate.",
        epilog="JSON, in USD and SI units: owned (rates_usd_per_s sum to rate_usd_per_s; cost_usd), rented (cost_usd), "
        "comparison (break_even_utilisation, break_even_time_s; null: never), cost_per_token_usd.",
    )
    p.add_argument("--devices", required=True, type=quantity("1"), help="devices owned or rented")
    p.add_argument("--time", required=True, type=quantity("s"), help='how long they are held, as in "1 year"')
    p.add_argument("--utilisation", type=quantity("1"), default=1.0, help="share of that time in use (default: 1)")
    p.add_argument(
        "--rental-rate", type=_priced("USD/s"), help="per device, \"2.5 USD/h\" or a name of 'mlsysim prices'"
    )
    p.add_argument("--price", type=_priced("USD"), help="per device with its share of the server, or a name")
    p.add_argument("--power", type=quantity("W"), help="of a working device with its share of the server")
    p.add_argument("--idle-power", type=quantity("W"), help="of a waiting one (default: the same)")
    p.add_argument("--lifetime", type=quantity("s"), help='over which it is paid off, as in "4 year"')
    p.add_argument("--interest", type=quantity("1"), help="per year: equal payments instead of a straight line")
    p.add_argument("--salvage", type=quantity("USD"), default=0.0, help="per device at the end (default: 0)")
    p.add_argument("--network", type=quantity("USD"), help="price of the network per device")
    p.add_argument("--pue", type=quantity("1"), help="power usage effectiveness")
    p.add_argument("--electricity-price", type=_priced("USD/J"), help='"0.08 USD/kWh" or a name')
    p.add_argument("--cooling", type=quantity("USD/W"), help="price of the cooling plant per watt of IT power")
    p.add_argument("--building", type=quantity("USD/W"), help="price of the building per watt of IT power")
    p.add_argument("--plant-lifetime", type=quantity("s"), help="over which plant and building are paid off")
    p.add_argument("--devices-per-engineer", type=quantity("1"), help="devices that one person looks after")
    p.add_argument("--salary", type=quantity("USD/s"), help='of that person, as in "200000 USD/year"')
    p.add_argument("--rule", metavar="NAME", help="a set of assumptions for what is left out, as in roofline-page")
    p.add_argument("--token-rate", type=quantity("token/s"), help="tokens of all devices together while in use")
    p.set_defaults(run=_cost)

    p = commands.add_parser("prices", parents=[json_option()], help="list the dated prices of the catalogue")
    p.add_argument("--kind", choices=PRICE_KINDS, help="purchase, rental, electricity or rule")
    p.set_defaults(run=_prices)
