"""``mlsysim roofline``: one kernel on one device."""

import argparse

from mlsysim import roofline
from mlsysim.cli.arguments import Commands, device_options, explain_option, pick_device, print_answer
from mlsysim.cli.options import add_options, given

KERNEL_TIME = roofline.kernel_time


def _roofline(args: argparse.Namespace) -> None:
    device = pick_device(args.device, args.device_file)
    result = roofline.kernel_time(device, **given(args, KERNEL_TIME, "device"))
    print_answer(args, result)


def add(commands: Commands) -> None:
    """Register the command of this module."""
    p = commands.add_parser("roofline", parents=[device_options(), explain_option()])
    add_options(p, KERNEL_TIME)
    p.set_defaults(run=_roofline)
