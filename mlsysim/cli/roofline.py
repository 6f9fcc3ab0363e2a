"""``mlsysim roofline``: one kernel on one device."""

import argparse

from mlsysim import roofline
from mlsysim.cli.arguments import Commands, device_options, pick_device, print_json
from mlsysim.cli.options import add_options, given

KERNEL_TIME = roofline.kernel_time


def _roofline(args: argparse.Namespace) -> None:
    device = pick_device(args.device, args.device_file)
    result = roofline.kernel_time(device, **given(args, KERNEL_TIME, "device"))
    if args.json:
        print_json(result.to_dict())
    else:
        print(result.explain())


def add(commands: Commands) -> None:
    """Register the command of this module."""
    p = commands.add_parser("roofline", parents=[device_options()])
    add_options(p, KERNEL_TIME)
    p.set_defaults(run=_roofline)
