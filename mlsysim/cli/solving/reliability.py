"""``mlsysim reliability``: how much of a long training job's time is work that lasts."""

import argparse

from mlsysim import memory, reliability, transformer, units
from mlsysim.cli.arguments import Commands, bandwidth, json_option, pick_model, print_json, quantity
from mlsysim.errors import InputError


def _node_mtbf(args: argparse.Namespace) -> tuple[float, str]:
    """The time between failures of a node, given or from a count, and where it comes from."""
    counted = (args.failures, args.watched, args.watched_nodes)
    if (args.node_mtbf is None) == all(c is None for c in counted):
        raise InputError("give either --node-mtbf, or --failures with --watched and --watched-nodes")
    if args.node_mtbf is not None:
        return args.node_mtbf, "given by the caller"
    if any(c is None for c in counted):
        raise InputError("--failures, --watched and --watched-nodes belong together")
    node = 1 / reliability.failure_rate(args.failures, args.watched, args.watched_nodes) if args.failures else 0.0
    return node, f"{args.failures:g} failures of {args.watched_nodes:g} nodes in {units.format(args.watched, 's')}"


def _size(args: argparse.Namespace) -> tuple[float, str]:
    if (args.model is None) == (args.checkpoint_bytes is None):
        raise InputError("give either --model or --checkpoint-bytes")
    if args.checkpoint_bytes is not None:
        return args.checkpoint_bytes, "given by the caller"
    model = pick_model(args.model)
    size = memory.checkpoint_bytes(transformer.parameter_count(model).total, 2, 4, 4, 4)
    return size, f"{model.name}: BF16 weights, FP32 master weights and Adam's moments"


def _reliability(args: argparse.Namespace) -> None:
    (node, node_origin), (size, size_origin) = _node_mtbf(args), _size(args)
    result = reliability.training_goodput(
        nodes=args.nodes,
        node_mtbf=node,
        restart=args.restart,
        checkpoint_bytes=size,
        writer_bandwidth=args.writer_bandwidth,
        storage_bandwidth=args.storage_bandwidth,
        writers=args.writers,
        interval=args.interval,
        method=args.method,
        copy_bandwidth=args.copy_bandwidth,
        spares=args.spares,
        repair=args.repair,
        origins={"node_mtbf": node_origin, "checkpoint_bytes": size_origin},
    )
    failures = None if args.duration is None else result.failures(args.duration)
    if args.json:
        print_json(result.to_dict() | {"expected_failures": failures})
        return
    print(result.explain())
    if failures is not None:
        print(f"failures to expect in {units.format(args.duration, 's')}: {failures:.1f} ± {failures**0.5:.1f}")


def add(commands: Commands) -> None:
    """Register the commands of this module."""
    p = commands.add_parser(
        "reliability",
        parents=[json_option()],
        help="goodput of a training job that fails, saves, restarts and waits for nodes",
        epilog="JSON: mtbf_s, write_time_s, stall_s, lag_s, interval_s, lost_work_per_failure_s, goodput (of the job), "
        "goodput_first_order (null where that form says nothing), availability, fleet_goodput (of all node-hours), parts "
        "(they sum to 1), inputs, expected_failures.",
    )
    p.add_argument("--nodes", required=True, type=quantity("1"), help="nodes that the job needs")
    p.add_argument("--node-mtbf", type=quantity("s"), metavar="TIME", help='of one node, as in "264 day"')
    p.add_argument("--failures", type=quantity("1"), help="instead: failures counted ...")
    p.add_argument("--watched", type=quantity("s"), metavar="TIME", help="... in this time ...")
    p.add_argument("--watched-nodes", type=quantity("1"), metavar="NODES", help="... on so many nodes")
    p.add_argument("--restart", required=True, type=quantity("s"), metavar="TIME", help="from a failure to work")
    p.add_argument("--model", help="name, alias or config.json; a checkpoint of 14 bytes a parameter")
    p.add_argument("--checkpoint-bytes", type=quantity("byte"), metavar="SIZE", help='instead, as in "5.7 TB"')
    p.add_argument("--writer-bandwidth", type=bandwidth, default=5e9, help="of one writer (default: 5 GB/s)")
    p.add_argument("--storage-bandwidth", required=True, type=bandwidth, help="of the storage in all")
    p.add_argument("--writers", type=quantity("1"), help="who write (default: every node)")
    p.add_argument("--interval", type=quantity("s"), metavar="TIME", help="work between checkpoints (default: best)")
    p.add_argument(
        "--method",
        default="waits",
        choices=reliability.METHODS,
        help="whether training waits for a checkpoint or goes on (default: waits)",
    )
    p.add_argument("--copy-bandwidth", type=bandwidth, help="with background: a writer's copy to its host")
    p.add_argument("--spares", type=quantity("1"), default=0.0, help="nodes that stand by (default: 0)")
    p.add_argument("--repair", type=quantity("s"), default=0.0, metavar="TIME", help="of a node (default: none)")
    p.add_argument("--duration", type=quantity("s"), metavar="TIME", help="count the failures in this time")
    p.set_defaults(run=_reliability)
