"""``mlsysim frontier``: throughput per device against tokens per second of a user, over every way to serve a model."""

import argparse
from pathlib import Path

from mlsysim.cli.arguments import (
    NO_ANSWER,
    Commands,
    device_options,
    explain_option,
    pick_machines,
    pick_model,
    print_answer,
)
from mlsysim.cli.options import add_options, given
from mlsysim.errors import InputError
from mlsysim.explore.fronts import frontier
from mlsysim.files import check_writable


def _frontier(args: argparse.Namespace) -> int:
    if args.chart is not None:
        check_writable(args.chart, "--chart")  # before the search
    model, machines = pick_model(args.model), pick_machines(args.device, args.device_file)
    try:
        asked = {"precisions": args.precision, "modes": args.mode} | given(args, frontier, "model", "device")
        found = frontier(model, machines, **asked)
    except ImportError as error:
        raise InputError("mlsysim frontier needs NumPy; run: pip install 'mlsysim-book[scale]'") from error
    if args.chart is not None:
        drawing = found.chart()
        if drawing is None:
            raise InputError("--chart: there is no point to draw")
        Path(args.chart).write_text(drawing.svg(), encoding="utf-8")
    print_answer(args, found)
    return 0 if found.best is not None else NO_ANSWER


def add(commands: Commands) -> None:
    """Register the command of this module."""
    p = commands.add_parser(
        "frontier",
        parents=[device_options(), explain_option()],
        epilog="Every layout, format and number of requests in flight is a closed loop, with prompts and answers together or in pools "
        "apart. Exit status 3: the model does not fit, or no point meets the targets. JSON: model, device, input_len, output_len, "
        "targets_s, quantile and length_variation (null of means), fits, tried, front (mode, precision, speculation, prefill, decode, devices, concurrency, tpot_s, ttft_s, "
        "tokens_per_s_per_user and tokens_per_s_per_device, usd_per_million_tokens, "
        "joule_per_million_tokens, each with its _range, meets_targets), best (the one with most throughput within the targets, or null), "
        "rate_per_s, devices and devices_range (whole replicas of it that make the tokens of --rate), price, notes.",
    )
    add_options(p, frontier, precisions={"dest": "precision"}, modes={"dest": "mode"})
    p.add_argument("--chart", metavar="FILE.svg", help="also draw it")
    p.set_defaults(run=_frontier)
