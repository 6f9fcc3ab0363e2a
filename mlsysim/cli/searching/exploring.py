"""``mlsysim plan``: every way to split a model over a cluster, the fastest that fit, and why the others lose."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from mlsysim import catalog, units
from mlsysim.cli.arguments import (
    NO_ANSWER,
    Commands,
    bandwidth,
    efficiencies_option,
    json_option,
    pick_model,
    print_json,
    quantity,
    scale_options,
)
from mlsysim.cli.plans import plan_word_options, plan_words
from mlsysim.errors import InputError
from mlsysim.parallelism import CP_COMM_TYPES, RECOMPUTES, SCHEDULES, SHARDINGS, Plan
from mlsysim.training import StepTerms

_DEGREES = {
    "tp": "tensor-parallel degrees",
    "pp": "pipeline stages",
    "cp": "context-parallel degrees",
    "dp": "data-parallel degrees",
    "ep": "expert-parallel degrees",
    "virtual-stages": "model chunks per device",
}


def _numbers(text: str) -> list[int]:
    """Whole numbers of at least 1, with commas between them."""
    found = []
    for part in text.split(","):
        if not (part.strip().isdecimal() and len(part.strip()) <= 12 and int(part) >= 1):
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a list of whole numbers of at least 1, as 1,2,4")
        found.append(int(part))
    return found


def _words(known: Sequence[str]) -> Callable[[str], list[str]]:
    """Some of these words, with commas between them."""

    def read(text: str) -> list[str]:
        found = [part.strip() for part in text.split(",")]
        for word in found:
            if word not in known:
                raise argparse.ArgumentTypeError(f"{word[:40]!r} is not one of {', '.join(known)}")
        return found

    return read


def _flat(lists: Sequence[list[Any]] | None, default: Sequence[Any] | None = None) -> Any:
    """What an option that may be given several values, each a list, holds altogether."""
    return default if lists is None else [value for part in lists for value in part]


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
        words |= {"recompute": "selective"}
    if "recompute_layers" in words:
        words |= {"recompute": "full"}
    return Plan(cp_comm_type=args.cp_comm_type or Plan.cp_comm_type, **words)


def _plan(args: argparse.Namespace) -> int:
    try:
        from mlsysim.doors.planning import plan as search
    except ImportError as error:
        raise InputError("mlsysim plan needs NumPy; run: pip install 'mlsysim-book[scale]'") from error
    if args.count < 1:
        raise InputError(f"--count {args.count} must be at least 1")
    if (args.node is None) == (args.device is None):
        raise InputError(
            'give either --node, as in DGX-H100 (with --nodes), or --device with a number, as in "64 H100"'
        )
    cluster = catalog.where(args.device) if args.node is None else catalog.where(catalog.cluster(args.node, args.nodes))
    names = {name: name.replace("-", "_") for name in _DEGREES}
    only = {name: _flat(getattr(args, name)) for name in names.values() if getattr(args, name) is not None}
    most = {name: getattr(args, f"max_{name}") for name in names.values() if getattr(args, f"max_{name}") is not None}
    found = search(
        pick_model(args.model),
        cluster,
        global_batch=args.global_batch,
        seq=args.seq,
        precision=args.precision,
        efficiencies=args.efficiencies,
        micro_batch=_flat(args.micro_batch, (1, 2, 4, 8)),
        sharding=_flat(args.sharding, ("zero1", "fsdp", "hsdp")),
        recompute=_flat(args.recompute, RECOMPUTES),
        schedule=_flat(args.schedule, ("1f1b",)),
        base=_base(args),
        host_bandwidth=args.host_bandwidth,
        only=only,
        most=most,
        capacity=args.capacity,
        store=args.store,
        client=args.cluster,
    )
    asked = {
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
        "limits": {"only": only, "most": most},
        "fits": found.fits,
        "would_fit": [] if found.fits else list(found.remedies),
        "assumed": list(found.assumed),
    }
    if not found.fits:
        empty: dict[str, Any] = {
            "best": [],
            "why_first": None,
            "interval_s": None,
            "alike": None,
            "losers": {"does not fit": len(found.rows)},
        }
        if args.json:
            print_json(asked | empty)
        else:
            print(found)
        return NO_ANSWER
    best = found.best(args.count)
    known = found.interval()
    if args.json:
        print_json(
            asked
            | {
                "best": [_row(best.row(i)) for i in range(len(best))],
                "why_first": found.why_first(),
                "interval_s": None if known is None else known.ends,
                "alike": None if known is None else found.alike(),
                "losers": found.losers(),
            }
        )
        return 0
    print(f"{len(found.rows):,} plans for {found.model.name} on {found.cluster.devices:,} x {cluster.device.name};")
    print(f"{len(found.fitting):,} fit into {units.format(found.capacity, 'byte')}\n")
    print(found.table(args.count))
    print(f"\n{found.rates}\nRank 1: {found.why_first()}.")
    print(found.caution(args.count))
    reasons = ", ".join(f"{reason.replace('_', ' ')} {n:,}" for reason, n in found.losers().items())
    print(f"\nPlans that lose, by their worst term beside the best plan: {reasons}")
    for line in found.assumed:
        print(line)
    return 0


def add(commands: Commands) -> None:
    """Register the commands of this module."""
    p = commands.add_parser(
        "plan",
        parents=[json_option(), scale_options()],
        help="search every parallel plan of a model on a cluster",
        epilog="Exit status 3: nothing fits. JSON: model, node (null where devices were asked for), devices, global_batch, seq, efficiencies (which were used), rates (the same in a sentence), tried and fitting (plans), capacity_bytes, best (a "
        "list of plans, the fastest first: tp, pp, cp, dp, ep, virtual_stages, micro_batch, hsdp_group, sharding, recompute, "
        "time_s, mfu, memory_bytes, terms_s), limits (only, most: as given), why_first (text), interval_s (range of the first plan; "
        "null unless calibrated), alike (plans that lie in it), "
        "fits, would_fit, assumed, "
        "losers (plans by reason: memory, or the term that costs most beside the best plan).",
    )
    p.add_argument("--model", required=True, help="name or alias, or the path of a config.json")
    p.add_argument("--device", help='devices with their number, as in "64 H100"; or give --node')
    p.add_argument("--node", help="a node of the catalogue with its network, as in DGX-H100")
    p.add_argument("--nodes", type=int, default=1, help="how many of them (default: 1)")
    p.add_argument("--global-batch", type=int, help="sequences per step (default: four million tokens)")
    p.add_argument("--seq", type=int, help="tokens per sequence (default: 4096)")
    p.add_argument("--precision", help="of the linear layers (default: bf16)")
    efficiencies_option(p)
    several: dict[str, Any] = {"nargs": "+", "metavar": "N,N"}
    p.add_argument(
        "--micro-batch", type=_numbers, help="sequences per micro-batch to try (default: 1,2,4,8)", **several
    )
    for name, text in _DEGREES.items():
        p.add_argument(f"--{name}", type=_numbers, help=f"{text} to try (default: all that divide)", **several)
        p.add_argument(f"--max-{name}", type=int, metavar="N", help=f"the largest of the {text}")
    for name, known, default in (
        ("sharding", SHARDINGS, "zero1,fsdp,hsdp"),
        ("recompute", RECOMPUTES, ",".join(RECOMPUTES)),
        ("schedule", SCHEDULES, "1f1b"),
    ):
        p.add_argument(
            f"--{name}",
            type=_words(known),
            nargs="+",
            metavar="NAME,NAME",
            help=f"to try, of {', '.join(known)} (default: {default})",
        )
    p.add_argument(
        "--cp-comm-type",
        choices=CP_COMM_TYPES,
        help="how context-parallel ranks exchange keys and values (default: p2p)",
    )
    plan_word_options(p)
    p.add_argument(
        "--host-bandwidth", type=bandwidth, help='link to the host\'s memory, one way, for --offload, as in "50 GB/s"'
    )
    p.add_argument("--capacity", type=quantity("byte"), help="memory that a plan may take (default: the device's)")
    p.add_argument("--count", type=int, default=5, help="plans to print (default: 5)")
    p.set_defaults(run=_plan)
