"""``mlsysim roofline``: one kernel on one device."""

import argparse

from mlsysim import roofline
from mlsysim.cli.arguments import Commands, device_options, efficiency, pick_device, print_json, quantity


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
