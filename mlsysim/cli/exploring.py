"""``mlsysim plan``: every way to split a model over a cluster, the fastest that fit, and why the others lose."""

import argparse
from dataclasses import fields
from typing import Any

from mlsysim import catalog, units
from mlsysim.cli.arguments import Commands, json_option, pick_model, print_json, quantity
from mlsysim.cli.training import MODES, pick_efficiencies
from mlsysim.errors import InputError
from mlsysim.parallelism import RECOMPUTES, SHARDINGS
from mlsysim.training import StepTerms


def _row(row: dict[str, Any]) -> dict[str, Any]:
    """A plan with the units in its keys."""
    known = {f.name for f in fields(StepTerms)}
    terms = {name: value for name, value in row.items() if name in known}
    plan = {name: value for name, value in row.items() if name not in known and name not in ("time", "memory")}
    return plan | {"time_s": row["time"], "memory_bytes": row["memory"], "terms_s": terms}


def _plan(args: argparse.Namespace) -> None:
    try:
        from mlsysim import explore

        search = explore.plan
    except ImportError as error:
        raise InputError("mlsysim plan needs NumPy; run: pip install 'mlsysim-book[scale]'") from error
    cluster = catalog.cluster(args.node, args.nodes)
    found = search(
        pick_model(args.model),
        cluster,
        global_batch=args.global_batch,
        seq=args.seq,
        precision=args.precision,
        efficiencies=pick_efficiencies(args.mode, cluster.node.device, args.precision),
        micro_batches=args.micro_batch,
        shardings=args.sharding,
        recomputes=args.recompute,
        capacity=args.capacity,
    )
    if args.count < 1:
        raise InputError(f"--count {args.count} must be at least 1")
    best = found.best(args.count)
    if args.json:
        print_json(
            {
                "model": found.model.name,
                "node": cluster.node.name,
                "devices": cluster.devices,
                "global_batch": args.global_batch,
                "seq": args.seq,
                "mode": args.mode,
                "tried": len(found.rows),
                "fitting": len(found.fitting),
                "capacity_bytes": found.capacity,
                "best": [_row(best.row(i)) for i in range(len(best))],
                "losers": found.losers(),
            }
        )
        return
    print(f"{len(found.rows):,} plans for {found.model.name} on {cluster.devices:,} x {cluster.node.device.name};")
    print(f"{len(found.fitting):,} fit into {units.format(found.capacity, 'byte')}\n")
    print(found.explain(args.count))
    reasons = ", ".join(f"{reason.replace('_', ' ')} {n:,}" for reason, n in found.losers().items())
    print(f"\nPlans that lose, by their worst term beside the best plan: {reasons}")


def add(commands: Commands) -> None:
    """Register the commands of this module."""
    p = commands.add_parser(
        "plan",
        parents=[json_option()],
        help="search every parallel plan of a model on a cluster",
        epilog="JSON: model, node, devices, global_batch, seq, mode, tried and fitting (plans), capacity_bytes, best (a "
        "list of plans, the fastest first: tp, pp, cp, dp, ep, virtual_stages, micro_batch, hsdp_group, sharding, recompute, "
        "time_s, mfu, memory_bytes, terms_s), "
        "losers (plans by reason: memory, or the term that costs most beside the best plan).",
    )
    p.add_argument("--model", required=True, help="name or alias, or the path of a config.json")
    p.add_argument("--node", required=True, help="a node of the catalogue with its network, as in DGX-H100")
    p.add_argument("--nodes", type=int, default=1, help="how many of them (default: 1)")
    p.add_argument("--global-batch", required=True, type=int, help="sequences per step")
    p.add_argument("--seq", required=True, type=int, help="tokens per sequence")
    p.add_argument("--precision", default="bf16", help="of the linear layers (default: bf16)")
    p.add_argument("--mode", default="datasheet", choices=MODES, help="efficiencies (default: datasheet)")
    p.add_argument("--micro-batch", type=int, nargs="+", default=[1, 2, 4, 8], help="to try (default: 1 2 4 8)")
    p.add_argument(
        "--sharding",
        nargs="+",
        default=["zero1", "fsdp", "hsdp"],
        choices=SHARDINGS,
        help="to try (default: zero1 fsdp hsdp)",
    )
    p.add_argument("--recompute", nargs="+", default=list(RECOMPUTES), choices=RECOMPUTES, help="to try (default: all)")
    p.add_argument("--capacity", type=quantity("byte"), help="memory that a plan may take (default: the device's)")
    p.add_argument("--count", type=int, default=5, help="plans to print (default: 5)")
    p.set_defaults(run=_plan)
