"""The command line, ``mlsysim devices`` for one. Errors are one sentence and exit code 2."""

import sys
from collections.abc import Sequence

import mlsysim
from mlsysim.cli import (
    calibrating,
    catalogues,
    checking,
    collectives,
    cost,
    energy,
    exploring,
    hlo,
    primitives,
    reliability,
    serving,
    simulating,
    sweeping,
    training,
)
from mlsysim.cli.arguments import Parser
from mlsysim.errors import MlsysimError

# Modules with their commands, in the order of the help
GROUPS = (
    catalogues,
    primitives,
    collectives,
    training,
    serving,
    simulating,
    energy,
    cost,
    reliability,
    hlo,
    exploring,
    calibrating,
    sweeping,
    checking,
)


def _parser() -> Parser:
    parser = Parser(
        prog="mlsysim", description="How fast, how big, how costly and how dirty a machine-learning system will be."
    )
    parser.add_argument(
        "--version", action="version", version=f"mlsysim {mlsysim.__version__} ({mlsysim.DISTRIBUTION})"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    for group in GROUPS:
        group.add(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 on success, 2 with one sentence on standard error when the input is wrong."""
    try:
        args = _parser().parse_args(argv)
        args.run(args)
    except MlsysimError as error:
        print(f"mlsysim: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output left early, as in `mlsysim devices | head -1`
        sys.stderr.close()
    return 0
