"""The command line, ``mlsysim devices`` for one. Errors are one sentence and exit code 2."""

import sys
from collections.abc import Sequence
from importlib import import_module

import mlsysim
from mlsysim.cli.arguments import Parser
from mlsysim.errors import MlsysimError

# Modules and their commands, in the order of the help; only the one that is asked for is imported
GROUPS = {
    "catalogues": ("devices", "models", "params"),
    "primitives": ("roofline",),
    "collectives": ("collective",),
    "training": ("train", "memory"),
    "serving": ("serve",),
    "simulating": ("simulate",),
    "energy": ("energy", "grids"),
    "cost": ("cost", "prices"),
    "reliability": ("reliability",),
    "hlo": ("hlo",),
    "exploring": ("plan",),
    "calibrating": ("calibrate", "bench-device"),
    "sweeping": ("sweep",),
    "checking": ("validate", "grade"),
}


def _parser(command: str) -> Parser:
    """A parser of one command, or of all where it is none of them: the help and the error then list them."""
    parser = Parser(
        prog="mlsysim", description="How fast, how big, how costly and how dirty a machine-learning system will be."
    )
    parser.add_argument(
        "--version", action="version", version=f"mlsysim {mlsysim.__version__} ({mlsysim.DISTRIBUTION})"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    for name in [name for name, known in GROUPS.items() if command in known] or GROUPS:
        import_module(f"mlsysim.cli.{name}").add(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 on success, 2 with one sentence on standard error when the input is wrong."""
    try:
        words = sys.argv[1:] if argv is None else list(argv)
        args = _parser(words[0] if words else "").parse_args(words)
        args.run(args)
    except MlsysimError as error:
        print(f"mlsysim: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output left early, as in `mlsysim devices | head -1`
        sys.stderr.close()
    return 0
