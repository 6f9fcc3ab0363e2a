"""``mlsysim hlo``: what a StableHLO program costs on a device."""

import argparse
from typing import Any

from mlsysim import network
from mlsysim.catalog import Device
from mlsysim.cli import exporting
from mlsysim.cli.arguments import Commands, Parser, device_options, efficiency, pick_device, print_json, quantity
from mlsysim.cli.collectives import TOPOLOGY_OPTIONS, listed, names_of, topology_options
from mlsysim.cli.estimators import estimator_options, pick_estimator
from mlsysim.errors import InputError
from mlsysim.network.astrasim import ENDPOINT_DELAY_NS, GB


def _run_as(pairs: list[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        dtype, sign, precision = pair.partition("=")
        if not sign or not dtype or not precision:
            raise InputError(f"--run-as {pair[:40]!r} is not TYPE=PRECISION, as in f32=fp32")
        found[dtype] = precision
    return found


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
    if rates is None:
        raise InputError(
            "hlo estimate: --topology needs --bandwidth, of one link and one way, one for each dimension or one for all"
        )
    given = {name: getattr(args, name) for name in ("splits", "active_chunks", "optimization", "congestion", "compat")}
    options = {name: value for name, value in given.items() if value is not None}
    if args.compat:  # its default, and its GB/s of a link
        options.setdefault("congestion", "unaware")
        options["endpoint_delay"] = ENDPOINT_DELAY_NS / 1e9
    if args.endpoint_delay is not None:
        options["endpoint_delay"] = args.endpoint_delay.si
    if args.local_mem_bandwidth is not None:
        options["memory_bandwidth"] = args.local_mem_bandwidth.si
    bandwidth = [b.number * GB if args.compat else b.si for b in rates]
    return hlo.Fabric(args.topology, bandwidth, [t.si for t in waits], args.algorithm, **options)


def _estimate(args: argparse.Namespace) -> None:
    from mlsysim import hlo

    device = pick_device(args.device, args.device_file)
    args.run_as = _run_as(args.run_as)
    result = hlo.estimate(
        args.file,
        device,
        split=args.split,
        fuse=None if args.fusion == "auto" else args.fusion == "on",
        network=_network(args, device),
        estimator=pick_estimator(args, device),
        cache=args.cache,
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
        help="FLOPs, bytes, regions and time of a program, by the roofline of its kernels or another estimator",
        epilog="JSON: flops (without transcendentals and collectives), matrix_flops, transcendentals, bytes, compute_s, "
        "comm_s, exposed_comm_s, total_s, regions, unique_regions, kernels, collectives (a list), unknown_ops (name: count), "
        "pricing (estimator, regions, distinct, evaluated, saved, low_s, high_s, seconds by estimator), from_cache.",
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
        "--topology",
        help=f"of the devices: kind:ranks with kind one of {', '.join(network.KINDS)}; dimensions joined by x, as "
        "ring:4xswitch:2 (default: devices that all reach each other)",
    )
    p.add_argument(
        "--algorithm", type=names_of, help=f"{', '.join(network.ALGORITHMS)}; one, or per dimension (default: by kind)"
    )
    p.add_argument(
        "--bandwidth",
        type=listed("GB/s"),
        help="per device and one way (default: scale-up); with --topology of a link, per dimension with commas",
    )
    p.add_argument(
        "--latency", default="0", type=listed("ns"), help="per step, or of a link with --topology (default: 0)"
    )
    topology_options(p)
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
    estimator_options(p)
    p.set_defaults(run=_estimate)
    exporting.add(verbs)
