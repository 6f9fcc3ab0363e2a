"""``mlsysim plan``: every way to split a model over a cluster, the fastest that fit, and why the others lose."""

import argparse
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from mlsysim.api.training import train
from mlsysim.catalog import Machines
from mlsysim.cli.arguments import (
    NO_ANSWER,
    Commands,
    count,
    explain_option,
    json_option,
    pick_model,
    print_json,
    scale_options,
)
from mlsysim.cli.options import add_options, several, several_of
from mlsysim.cli.plans import WORDS, pick_place, place_options, plan_words
from mlsysim.declared import parameters
from mlsysim.errors import InputError
from mlsysim.memory import training_memory
from mlsysim.parallelism import Plan
from mlsysim.parallelism.plan import AGAIN, MICRO_BATCHES
from mlsysim.training import StepTerms, training_step

_DEGREES = ("tp", "pp", "cp", "dp", "ep", "virtual_stages")
_LISTED = 5  # plans in JSON and in a derivation, unless so many are asked for
_TRIED = ("micro_batch", "sharding", "recompute", "schedule")


def _flat(lists: Sequence[Sequence[Any]]) -> list[Any]:
    """All values of an option that takes several lists."""
    return [value for part in lists for value in part]


def _row(row: dict[str, Any]) -> dict[str, Any]:
    """A plan with the units in its keys."""
    known = {f.name for f in fields(StepTerms)}
    terms = {name: value for name, value in row.items() if name in known}
    plan = {name: value for name, value in row.items() if name not in known and name not in ("time", "memory")}
    return plan | {"time_s": row["time"], "memory_bytes": row["memory"], "terms_s": terms}


def _base(args: argparse.Namespace) -> Plan:
    """What every plan of the search shares."""
    words = plan_words(args)
    if "recompute_modules" in words:
        words["recompute"] = "selective"
    if "recompute_layers" in words:
        words["recompute"] = "full"
    return Plan(cp_comm_type=args.cp_comm_type or Plan.cp_comm_type, **words)


def _plan(args: argparse.Namespace) -> int:
    try:
        from mlsysim.api.planning import plan as search
    except ImportError as error:
        raise InputError("mlsysim plan needs NumPy; run: pip install 'mlsysim-book[scale]'") from error
    cluster = pick_place(args)
    only = {name: _flat(getattr(args, name)) for name in _DEGREES if getattr(args, name) is not None}
    most = {name: getattr(args, f"max_{name}") for name in _DEGREES if getattr(args, f"max_{name}") is not None}
    asked = {name: getattr(args, name) for name in ("global_batch", "seq", "precision", "efficiencies")}
    asked |= {name: _flat(getattr(args, name)) for name in _TRIED if getattr(args, name) is not None}
    found = search(
        pick_model(args.model),
        cluster,
        **asked,
        base=_base(args),
        host_bandwidth=args.host_bandwidth,
        only=only,
        most=most,
        capacity=args.capacity,
        store=args.store,
        client=args.cluster,
    )
    if args.json:
        print_json(_told(found, cluster, {"only": only, "most": most}, args.count or _LISTED))
    else:
        print(found)
        if args.count is not None:
            print(found.table(args.count))
        if args.explain and found.fits:
            print(found.caution(args.count or _LISTED), found.explain(args.count or _LISTED), sep="\n")
    return 0 if found.fits else NO_ANSWER


def _told(found: Any, cluster: Machines, limits: dict[str, Any], rows: int) -> dict[str, Any]:
    """The answer in JSON."""
    best: Any = found.best(rows) if found.fits else ()
    known = found.interval() if found.fits else None
    return {
        "model": found.model.name,
        "node": cluster.node.name if cluster.node is not None else None,
        "devices": found.cluster.devices,
        "global_batch": found.global_batch,
        "seq": found.seq,
        "efficiencies": found.efficiencies.name,
        "mode": found.efficiencies.name,  # its name before
        "rates": found.rates,
        "tried": len(found.rows),
        "fitting": len(found.fitting),
        "capacity_bytes": found.capacity,
        "limits": limits,
        "fits": found.fits,
        "would_fit": [] if found.fits else list(found.suggestions),
        "assumed": list(found.assumed),
        "best": [_row(best.row(i)) for i in range(len(best))],
        "recommended": _row(found.simplest()) if found.fits else None,
        "nearest_recipe": None if found.nearest is None else found.nearest.to_dict(),
        "why_first": found.why_first() if found.fits else None,
        "interval_s": None if known is None else known.ends,
        "alike": None if known is None else found.alike(),
        "losers": found.losers() if found.fits else {"does not fit": len(found.rows)},
    }


def add(commands: Commands) -> None:
    """Register the command of this module."""
    p = commands.add_parser(
        "plan",
        parents=[json_option(), explain_option(), scale_options()],
        epilog="Exit status 3: nothing fits. JSON: model, node (null where devices were asked for), devices, global_batch, seq, efficiencies (which were used), rates (the same in a sentence), tried and fitting (plans), capacity_bytes, best (a "
        "list of plans, the fastest first: tp, pp, cp, dp, ep, etp, virtual_stages, micro_batch, hsdp_group, sharding, recompute, "
        "recompute_layers (with some, else 0), "
        "time_s, mfu, memory_bytes, terms_s), limits (only, most: as given), why_first (text), interval_s (range of the first plan; "
        "null unless calibrated), alike (plans that the error cannot tell from the first), recommended (the simplest of them), nearest_recipe "
        "(the nearest published one, with what we predict for it), "
        "fits, would_fit, assumed, "
        "losers (plans by reason: memory, or the term that costs most beside the best plan).",
    )
    add_options(p, train, "model", "global_batch", "seq", "precision", "efficiencies")
    place_options(p, 'devices with their number, as in "64 H100"')
    tried: dict[str, Any] = {
        "type": several(count, "whole numbers of at least 1, as 1,2,4"),
        "nargs": "+",
        "metavar": "N,N",
    }
    for name in _DEGREES:
        text = f"{parameters(Plan)[name].help} to try (default: all that divide)"
        more: Any = {name: tried | {"help": text}}
        add_options(p, Plan, name, unset=True, **more)
        p.add_argument(f"--max-{name.replace('_', '-')}", type=count, metavar="N", help=f"largest {name} to try")
    usual = {
        "micro_batch": ",".join(map(str, MICRO_BATCHES)),
        "sharding": "zero1,fsdp,hsdp",
        "recompute": ",".join(AGAIN),
        "schedule": "1f1b",
    }
    for name, default in usual.items():
        known = parameters(Plan)[name]
        ways: dict[str, Any] = {"help": f"{known.help}, to try (default: {default})", "nargs": "+"}
        if known.choices:
            words = AGAIN if name == "recompute" else known.choices
            what = f"{known.help}; to try, of {', '.join(words)} (default: {default})"
            ways |= {"help": what, "type": several_of(words), "choices": None, "metavar": "NAME,NAME"}
        more = {name: (tried | ways if name == "micro_batch" else ways)}
        add_options(p, Plan, name, unset=True, **more)
    add_options(p, Plan, "cp_comm_type", *WORDS, unset=True)
    add_options(p, training_step, "host_bandwidth")
    add_options(p, training_memory, "capacity")
    p.add_argument("--count", type=count, metavar="N", help="also print so many plans beside each other")
    p.set_defaults(run=_plan)
