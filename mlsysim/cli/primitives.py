"""``mlsysim roofline`` and ``collective``: one kernel, one message."""

import argparse

from mlsysim import communication, roofline
from mlsysim.cli.arguments import Commands, device_options, efficiency, json_option, pick_device, print_json, quantity


def _roofline(args: argparse.Namespace) -> None:
    result = roofline.kernel_time(
        pick_device(args.device, args.device_file),
        flops=args.flops,
        bytes=args.bytes,
        precision=args.precision,
        efficiency=args.efficiency,
        memory_efficiency=args.memory_efficiency,
        kernels=args.kernels,
        launch_overhead=args.launch_overhead,
    )
    if args.json:
        print_json(result.to_dict())
    else:
        print(result.explain())


def _collective(args: argparse.Namespace) -> None:
    result = communication.collective(
        args.op, args.algorithm, args.bytes, args.ranks, args.bandwidth, args.latency, args.overhead
    )
    if args.json:
        print_json(result.to_dict())
    else:
        print(result.explain())


def add(commands: Commands) -> None:
    """Register the commands of this module."""
    p = commands.add_parser(
        "roofline", parents=[device_options()], help="time of a kernel on a device, and what bounds it"
    )
    p.add_argument("--device", required=True, help="name or alias, as in H100")
    p.add_argument("--flops", required=True, type=quantity("FLOP"), help='as in 1e12 or "1 TFLOP"')
    p.add_argument("--bytes", required=True, type=quantity("byte"), help='as in 1e9 or "1 GB"')
    p.add_argument("--precision", default="bf16", help="input precision (default: bf16)")
    p.add_argument(
        "--efficiency",
        default=1.0,
        type=efficiency,
        help="fraction of the dense peak, or a preset's name (default: 1, the bound)",
    )
    p.add_argument(
        "--memory-efficiency", default=1.0, type=quantity("1"), help="fraction of the bandwidth (default: 1)"
    )
    p.add_argument("--kernels", default=1.0, type=quantity("1"), help="kernels launched in a row (default: 1)")
    p.add_argument("--launch-overhead", default=0.0, type=quantity("s"), help='per kernel, as in "10 us" (default: 0)')
    p.set_defaults(run=_roofline)

    p = commands.add_parser(
        "collective",
        parents=[json_option()],
        help="time of an all-reduce, a reduce-scatter, an all-gather or an all-to-all",
        description="Time of a collective among equal ranks that reach each other at the same bandwidth.",
        epilog="JSON: time_s = latency_time_s + bandwidth_time_s + overhead_s, bound, bus_bandwidth_bytes_per_s (as "
        "nccl-tests defines it), and the inputs in SI units. Topologies of several dimensions will be an option.",
    )
    algorithms = "; ".join(f"{op}: {', '.join(names)}" for op, names in communication.ALGORITHMS.items())
    p.add_argument("--op", required=True, help=", ".join(communication.ALGORITHMS))
    p.add_argument("--algorithm", required=True, help=algorithms)
    p.add_argument("--ranks", required=True, type=quantity("1"), help="devices that take part")
    p.add_argument("--bytes", required=True, type=quantity("byte"), help='the whole buffer, as in 1e9 or "1 GB"')
    p.add_argument(
        "--bandwidth", required=True, type=quantity("GB/s"), help='per device, one way: 50 is 50 GB/s; or "400 Gbit/s"'
    )
    p.add_argument(
        "--latency", default=0.0, type=quantity("ns"), help='per step: 500 is 500 ns; or "5 us" (default: 0)'
    )
    p.add_argument("--overhead", default=0.0, type=quantity("s"), help='of the call, as in "10 us" (default: 0)')
    p.set_defaults(run=_collective)
