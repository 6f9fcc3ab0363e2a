"""``mlsysim reliability``: how much of a long training job's time is work that lasts."""

import argparse

from mlsysim import memory, reliability, transformer, units
from mlsysim.cli.arguments import Commands, explain_option, json_option, pick_model, print_answer, quantity
from mlsysim.cli.options import add_options, given
from mlsysim.errors import InputError
from mlsysim.reliability import training_goodput


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
    result = training_goodput(
        node_mtbf=node,
        checkpoint_bytes=size,
        origins={"node_mtbf": node_origin, "checkpoint_bytes": size_origin},
        **given(args, training_goodput, "node_mtbf", "checkpoint_bytes"),
    )
    failures = None if args.duration is None else result.failures(args.duration)
    print_answer(args, result, result.to_dict() | {"expected_failures": failures})
    if failures is not None and not args.json:
        print(f"failures to expect in {units.format(args.duration, 's')}: {failures:.1f} ± {failures**0.5:.1f}")


def add(commands: Commands) -> None:
    """Register the command of this module."""
    p = commands.add_parser(
        "reliability",
        parents=[json_option(), explain_option()],
        epilog="JSON: mtbf_s, write_time_s, stall_s, lag_s, interval_s, lost_work_per_failure_s, goodput (of the job), "
        "goodput_first_order (null where that form says nothing), availability, fleet_goodput (of all node-hours), parts "
        "(they sum to 1), inputs, expected_failures.",
    )
    add_options(
        p,
        training_goodput,
        node_mtbf={"required": False, "metavar": "TIME"},
        checkpoint_bytes={"required": False, "metavar": "SIZE"},
        leave=("origins",),
        writer_bandwidth={"required": False, "default": 5e9, "help": "bandwidth of one writer (default: 5 GB/s)"},
    )
    p.add_argument("--failures", type=quantity("1"), help="instead of --node-mtbf: failures counted ...")
    p.add_argument("--watched", type=quantity("s"), metavar="TIME", help="... in this time ...")
    p.add_argument("--watched-nodes", type=quantity("1"), metavar="NODES", help="... on so many nodes")
    p.add_argument(
        "--model",
        help="instead of --checkpoint-bytes: name, alias or config.json; a checkpoint of 14 bytes a parameter",
    )
    p.add_argument("--duration", type=quantity("s"), metavar="TIME", help="count the failures in this time")
    p.set_defaults(run=_reliability)
