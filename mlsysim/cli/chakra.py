"""``mlsysim hlo chakra``: a program as execution traces that ASTRA-sim reads."""

import argparse

from mlsysim.cli.arguments import Commands, device_options, pick_device, print_json
from mlsysim.cli.estimators import custom_calls, pick_estimator, program_options
from mlsysim.cli.options import add_options
from mlsysim.hlo.chakra import trace, write


def _trace(args: argparse.Namespace) -> None:
    device = pick_device(args.device, args.device_file)
    traces = trace(
        args.file,
        device,
        estimator=pick_estimator(args, device),
        custom_calls=custom_calls(args),
        **{n: getattr(args, n) for n in ("split", "fusion", "join", "rounding", "max_nodes")},
    )
    paths = write(traces, args.output, args.name, args.force)
    summary = traces.to_dict()
    if args.json:
        print_json({"files": [str(p) for p in paths], **summary})
        return
    print(f"{paths[0].name} to {paths[-2].name} and {paths[-1].name} in {args.output}")
    print(
        f"  {summary['ranks']} ranks, {summary['distinct']} of them different; on rank 0 {summary['compute_nodes']} compute "
        f"and {summary['comm_nodes']} communication nodes"
    )
    print(
        f"  compute on rank 0: {summary['compute_s'] * 1e6:.3f} us, in whole microseconds {summary['compute_us']} us"
        f" (rounding: {args.rounding})"
    )


def add(verbs: Commands) -> None:
    """Register the verb beside the others of ``mlsysim hlo``."""
    p = verbs.add_parser(
        "chakra",
        parents=[device_options()],
        help="write a program as MLCommons Chakra execution traces, one per rank, for ASTRA-sim",
        epilog="ASTRA-sim takes the files as --workload-configuration DIR/NAME and --comm-group-configuration "
        "DIR/comm_groups.json. JSON: files (a list), name, ranks, distinct (ranks that run something of their own), groups, and of "
        "rank 0 compute_nodes, comm_nodes, compute_s (exact), compute_us (as written). Needs the extra hlo.",
    )
    program_options(p)
    p.add_argument(
        "-o", "--output", required=True, metavar="DIR", help="directory of the traces; made if it is not there"
    )
    p.add_argument("--name", help="what the files begin with (default: the program's name)")
    p.add_argument("--force", action="store_true", help="replace files of these names")
    add_options(p, trace, "rounding", "max_nodes")
    p.set_defaults(run=_trace)
