"""``mlsysim report RUN``: a measured run beside its prediction, as a file to complete and to send in. Nothing is sent."""

import argparse
from pathlib import Path

from mlsysim.api.runs import compare
from mlsysim.cli.arguments import NO_ANSWER, Commands
from mlsysim.cli.options import add_options, given
from mlsysim.files import check_writable
from mlsysim.runs.reports import ASKED, written


def _report(args: argparse.Namespace) -> int:
    check_writable(args.output, "--output")
    found = compare(args.file, **given(args, compare, "run"))
    if not found.answered:
        print(found)
        return NO_ANSWER
    told = {id(row.figure): row.predicted.value for row in found.rows}
    text = written(found.run, found.asked, [told.get(id(figure)) for figure in found.run.figures])
    Path(args.output).write_text(text, encoding="utf-8")
    print(found)
    print(f"written to {args.output}: complete {', '.join(ASKED)} and may_publish there, and send it to the project")
    return 0


def add(commands: Commands) -> None:
    """Register the command of this module."""
    p = commands.add_parser(
        "report",
        epilog="Takes what compare takes, and its options. No network is used: what is written is a text that you complete, read "
        "and send yourself. What comes in is checked and scored by scripts/maintain/check_report.py. Exit status 3: the file does "
        "not say all that a prediction needs; the options that would are named, and nothing is written.",
    )
    p.add_argument("file", metavar="RUN", help="what the other tool wrote, or what it printed, in a file")
    p.add_argument("-o", "--output", required=True, metavar="FILE.toml", help="where the report goes")
    add_options(p, compare, leave=("run",), model={"required": False}, device={"required": False}, unset=True)
    p.set_defaults(run=_report)
