"""``mlsysim hlo``: what a StableHLO program costs on a device."""

import argparse
from typing import Any

from mlsysim import network
from mlsysim.catalog import Device
from mlsysim.cli import chakra, export
from mlsysim.cli.arguments import Commands, Parser, device_options, pick_device, print_json
from mlsysim.cli.collective import TOPOLOGY_OPTIONS, links, listed, schedule, topology_options
from mlsysim.cli.estimators import custom_calls, pick_estimator, program_options
from mlsysim.cli.options import several
from mlsysim.errors import InputError
from mlsysim.hlo.estimate import estimate
from mlsysim.network.astrasim import ENDPOINT_DELAY_NS, GB


def _network(args: argparse.Namespace, device: Device) -> Any:
    """What prices the collectives: a topology, links between equals, or None for the default."""
    from mlsysim import hlo

    rates, waits = args.bandwidth, args.latency
    if args.topology is None:
        unused = [name for name in ("algorithm", *TOPOLOGY_OPTIONS) if getattr(args, name) is not None]
        if unused:
            raise InputError(f"hlo estimate: --{unused[0].replace('_', '-')} needs --topology, as in --topology ring:8")
        if len(rates or waits) > 1 or len(waits) > 1:
            raise InputError("hlo estimate: several bandwidths or latencies need --topology, as in ring:4xswitch:2")
        if rates is None and not waits[0].si:
            return None
        return hlo.Links(rates[0].si if rates else device.scale_up_bandwidth, waits[0].si)
    options = schedule(args)
    if args.compat:  # its defaults, and its GB/s of a link
        options = {"compat": args.compat, "congestion": "unaware", "endpoint_delay": ENDPOINT_DELAY_NS / 1e9} | options
    options |= {"latency": links(args)["latency"], "algorithm": args.algorithm}
    if rates is None:
        from mlsysim.hlo.fabric import on_device

        return on_device(args.topology, device, **options)
    bandwidth = [b.number * GB if args.compat else b.si for b in rates]
    return hlo.Fabric(args.topology, bandwidth, **options)


def _estimate(args: argparse.Namespace) -> None:
    device = pick_device(args.device, args.device_file)
    result = estimate(
        args.file,
        device,
        **{n: getattr(args, n) for n in ("split", "fusion", "join", "cache")},
        network=_network(args, device),
        estimator=pick_estimator(args, device),
        custom_calls=custom_calls(args),
    )
    if args.json:
        print_json(result.to_dict())
    else:
        print(result)


def add(commands: Commands) -> None:
    """Register the commands of this module."""
    group = commands.add_parser("hlo")
    verbs = group.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=Parser)
    p = verbs.add_parser(
        "estimate",
        parents=[device_options()],
        help="FLOPs, bytes, regions and time of a program, by the roofline of its kernels or another estimator",
        epilog="JSON: flops (without transcendentals and collectives), matrix_flops, transcendentals, bytes, compute_s, "
        "comm_s, exposed_comm_s, total_s (the roofline of our fusion), bound_s (all in one kernel; null for another estimator), regions, unique_regions, kernels, collectives (a list), unknown_ops (name: count), "
        "at_least (whether something is unknown), "
        "pricing (estimator, regions, distinct, evaluated, saved, low_s, high_s, seconds by estimator), from_cache.",
    )
    program_options(p)
    p.add_argument(
        "--topology",
        help=f"of the devices: kind:ranks with kind one of {', '.join(network.KINDS)}; dimensions joined by x, as "
        "ring:4xswitch:2 (default: devices that all reach each other)",
    )
    p.add_argument(
        "--algorithm",
        type=several(str, "names"),
        help=f"{', '.join(network.ALGORITHMS)}; one, or per dimension (default: by kind)",
    )
    p.add_argument(
        "--bandwidth",
        type=listed("GB/s"),
        help='per device and one way, or with --topology of a link, per dimension with commas: "50 GB/s", "400 Gbit/s"; a bare 50 is '
        "50 GB/s (default: the device's scale-up bandwidth, which the links of a rank share)",
    )
    p.add_argument(
        "--latency",
        default="0",
        type=listed("ns"),
        help='per step, or of a link with --topology: "5 us"; a bare 500 is 500 ns (default: 0)',
    )
    topology_options(p)
    p.add_argument(
        "--cache",
        metavar="DIR",
        help="keep prices of regions, and results of files, in a folder; a second run reads them",
    )
    p.set_defaults(run=_estimate)
    export.add(verbs)
    chakra.add(verbs)
