"""``mlsysim hlo``: what a StableHLO program costs on a device."""

import argparse

from mlsysim.cli import exporting
from mlsysim.cli.arguments import Commands, Parser, device_options, efficiency, pick_device, print_json, quantity
from mlsysim.errors import InputError


def _run_as(pairs: list[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        dtype, sign, precision = pair.partition("=")
        if not sign or not dtype or not precision:
            raise InputError(f"--run-as {pair[:40]!r} is not TYPE=PRECISION, as in f32=fp32")
        found[dtype] = precision
    return found


def _estimate(args: argparse.Namespace) -> None:
    from mlsysim import hlo

    device = pick_device(args.device, args.device_file)
    network = None
    if args.bandwidth is not None or args.latency:
        network = hlo.Links(args.bandwidth if args.bandwidth is not None else device.scale_up_bandwidth, args.latency)
    result = hlo.estimate(
        args.file,
        device,
        split=args.split,
        fuse=None if args.fusion == "auto" else args.fusion == "on",
        network=network,
        efficiency=args.efficiency,
        memory_efficiency=args.memory_efficiency,
        run_as=_run_as(args.run_as),
    )
    if args.json:
        print_json(result.to_dict())
    else:
        print(result)


def add(commands: Commands) -> None:
    """Register the commands of this module."""
    group = commands.add_parser("hlo", help="work and time of a StableHLO program on a device")
    verbs = group.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=Parser)
    p = verbs.add_parser(
        "estimate",
        parents=[device_options()],
        help="FLOPs, bytes, regions and time of a program by the roofline of its kernels",
        epilog="JSON: flops (without transcendentals and collectives), matrix_flops, transcendentals, bytes, compute_s, "
        "comm_s, exposed_comm_s, total_s, regions, unique_regions, kernels, collectives (a list), unknown_ops (name: count).",
    )
    p.add_argument("file", metavar="FILE", help="StableHLO text (needs the extra hlo), or the .json form of a program")
    p.add_argument("--device", required=True, help="name or alias, as in H100")
    p.add_argument(
        "--split", default="dependency", help="linear, or dependency: what may overlap (default: dependency)"
    )
    p.add_argument(
        "--fusion",
        default="auto",
        choices=("auto", "on", "off"),
        help="fuse operations: where no compiler has (auto), always, or never",
    )
    p.add_argument(
        "--bandwidth", type=quantity("GB/s"), help="of the links, per device and one way (default: scale-up)"
    )
    p.add_argument("--latency", default=0.0, type=quantity("ns"), help="per step of a collective (default: 0)")
    p.add_argument(
        "--efficiency", default=1.0, type=efficiency, help="fraction of the dense peak (default: 1, the bound)"
    )
    p.add_argument(
        "--memory-efficiency", default=1.0, type=quantity("1"), help="fraction of the bandwidth (default: 1)"
    )
    p.add_argument(
        "--run-as",
        action="append",
        default=[],
        metavar="TYPE=PRECISION",
        help="precision of products of a type, as in f32=fp32 (default for f32: TF32 where there is TF32)",
    )
    p.set_defaults(run=_estimate)
    exporting.add(verbs)
