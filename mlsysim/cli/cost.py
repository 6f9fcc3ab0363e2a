"""``mlsysim cost`` and ``prices``: owning against renting, the price of a token, and dated prices."""

import argparse
from typing import Any

from mlsysim import catalog, cost, units
from mlsysim.catalog.prices import PRICE_KINDS
from mlsysim.cli.arguments import Commands, explain_option, json_option, print_json, quantity
from mlsysim.cli.lists import entry_row
from mlsysim.cli.options import add_options, given
from mlsysim.declared import parameters
from mlsysim.errors import InputError

_OWNING = tuple(n for n, p in parameters(cost.ownership_cost).items() if p.required and n != "devices")
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


def _owned(args: argparse.Namespace) -> cost.Ownership:
    asked, origins = given(args, cost.ownership_cost), {}
    if args.rule is not None:
        rule = catalog.price(args.rule)
        for name, field in _OF_A_RULE.items():
            if name not in asked and rule.has(field):
                asked[name] = rule[field]
                origins[name] = f"{rule.name}: {rule.origin(field)}"
    missing = [f"--{name.replace('_', '-')}" for name in _OWNING if name not in asked]
    if missing:
        raise InputError(f"owning needs {', '.join(missing)}: a missing price is not 0; say 0 where you mean it")
    return cost.ownership_cost(**asked, origins=origins)


def _cost(args: argparse.Namespace) -> None:
    if args.price is None and args.rental_rate is None:
        raise InputError("cost: give --price to own, --rental-rate to rent, or both to compare")
    owned = _owned(args) if args.price is not None else None
    found: dict[str, Any] = {"devices": args.devices, "time_s": args.time, "utilisation": args.utilisation}
    shown: list[Any] = []
    rates: dict[str, float] = {}
    if owned is not None:
        found["owned"] = owned.to_dict() | {"cost_usd": owned.cost(args.time)}
        shown.append(owned.explain() if args.explain else owned)
        rates["owned"] = owned.rate
    if args.rental_rate is not None:
        paid = cost.rental_cost(args.devices, args.time * args.utilisation, args.rental_rate)
        rates["rented"] = cost.rental_cost(args.devices, args.utilisation, args.rental_rate)  # of a second that is held
        found["rented"] = {"rate_usd_per_s": rates["rented"], "cost_usd": paid}
        used = "" if args.utilisation == 1 else f", only while used, {args.utilisation:.0%} of the time"
        shown.append(f"rented{used}: {units.rounded(paid)} USD in {units.format(args.time, 's')}")
    if owned is not None and args.rental_rate is not None:
        choice = cost.own_or_rent(owned, args.rental_rate, args.utilisation)
        found["comparison"] = choice.to_dict()
        shown.append(choice.explain() if args.explain else choice)
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
        print_json([entry_row(p, "kind", "offer", "term", "seller", "item", "date", "notes") for p in found])
        return
    for p in found:
        value = "a set of assumptions" if p.kind == "rule" else units.format(p.value, p.fields[p.kind].unit)
        print(f"{p.name:<30} {p.item:<20} {value:>20}  {p.words}")


def add(commands: Commands) -> None:
    """Register the commands of this module."""
    p = commands.add_parser(
        "cost",
        parents=[json_option(), explain_option()],
        description="Owning needs every part's price, or a rule of the catalogue that has it; renting needs --rental-rate.",
        epilog="JSON, in USD and SI units: owned (rates_usd_per_s sum to rate_usd_per_s; cost_usd), rented (cost_usd), "
        "comparison (break_even_utilisation, break_even_time_s; null: never), cost_per_token_usd.",
    )
    add_options(p, cost.ownership_cost, "devices", devices="devices owned or rented")
    p.add_argument("--time", required=True, type=quantity("s"), help='how long they are held, as in "1 year"')
    p.add_argument(
        "--rental-rate",
        type=quantity("USD/s"),
        help='rent of a device with its unit, as in "2.5 USD/h", or the name of a price',
    )
    add_options(p, cost.ownership_cost, *_OWNING, "idle_power", unset=True)
    add_options(p, cost.ownership_cost, "utilisation", "salvage", "interest")
    p.add_argument("--rule", metavar="NAME", help="a set of assumptions for what is left out, as in roofline-page")
    p.add_argument("--token-rate", type=quantity("token/s"), help="tokens of all devices together while in use")
    p.set_defaults(run=_cost)

    p = commands.add_parser("prices", parents=[json_option()])
    p.add_argument("--kind", choices=PRICE_KINDS, help="purchase, rental, electricity or rule")
    p.set_defaults(run=_prices)
