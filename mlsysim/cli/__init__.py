"""The command line, ``mlsysim devices`` for one. Errors are one sentence and exit code 2."""

import os
import re
import sys
import warnings
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import mlsysim
from mlsysim import catalog
from mlsysim.catalog import registry
from mlsysim.cli.arguments import NOTES, Parser
from mlsysim.errors import InputError, MlsysimError

# Commands in the order of the help, with its lines, and the modules that hold them; only the one that is asked for is imported
COMMANDS = {
    "devices": "list the device catalogue",
    "models": "list the models catalogue, with exact parameter counts",
    "params": "exact parameters of a model, by part",
    "roofline": "time of a kernel on a device, and what bounds it",
    "kernel": "time of one matrix product or one attention call on a device",
    "collective": "time of an all-reduce, a reduce-scatter, an all-gather or an all-to-all",
    "train": "time of a training step with the best plan or a given one, of a whole run, and what it costs",
    "memory": "memory that training needs on the fullest device, by part, or that a server holds (--serve); whether it fits",
    "serve": "how many devices serve a model at a rate within targets, and at what cost; or one static batch",
    "simulate": "a trace of requests on a server that batches, chunks prompts and pages its cache: latencies",
    "energy": "energy, carbon and water of devices that run for some time",
    "grids": "list the carbon intensities of the catalogue",
    "cost": "cost of owning or renting devices, of a token, and which is cheaper",
    "prices": "list the dated prices of the catalogue",
    "reliability": "goodput of a training job with failures, checkpoints, restarts and waits for nodes",
    "hlo": "work and time of a StableHLO program on a device",
    "plan": "search every parallel plan of a model on a cluster",
    "frontier": "throughput per device against tokens per second of a user, over every way to serve a model",
    "compare": "a run of another tool beside its prediction, term by term: what explains the gap, and what to measure next",
    "report": "the same as a file to complete and to send in; nothing is sent",
    "link": "an answer of serve, train or memory as a link: the question, the answer and the version that gave it",
    "calibrate": "fit a calibration of the simulator to a measured trace (fidelity level Tier 1)",
    "bench-device": "measure bandwidth by access pattern, matrix products and attention on this device (fidelity level Tier 2)",
    "sweep": "a solver over every combination of lists and ranges, as CSV or JSON",
    "validate": "predict published measurements and score the predictions",
    "mcp": "answer an assistant's calls of these commands, over the Model Context Protocol",
    "learn": "the book's exercises: draw a question, take an answer, give hints, keep progress, write the notebook to hand in",
    "grade": "grade a folder of submitted notebooks, each in a sandbox, into one CSV file",
}
_ELSEWHERE = {
    "devices": "lists",
    "models": "lists",
    "params": "lists",
    "grids": "energy",
    "prices": "cost",
    "bench-device": "calibrate",
}
_LONGEST = 1000  # characters of an error
_ARGUMENT = re.compile(  # a name of an argument in an error; one of a single word only where no other word can stand
    r"(?<![\w./-])(?:[a-z]+(?:_[a-z]+)+\b|[a-z]+(?= requires | = |=)|(?<=requires )[a-z]+\b)"
)
_REPEATED = ("run_as", "custom_call", "catalog")  # options that may be given any number of times, also none


class _Commands(_SubParsersAction):  # type: ignore[type-arg]
    """Commands whose lines of help stand in :data:`COMMANDS`."""

    def add_parser(self, name: str, **options: Any) -> Any:
        return super().add_parser(name, **{"help": COMMANDS.get(name)} | options)


def _parser(command: str = "") -> Parser:
    """A parser of one command; of all without one; and of their names alone, for the help and the error, where it is none of them."""
    parser = Parser(
        prog="mlsysim",
        description="How fast and how large a machine-learning system will be, what it will cost, and how much carbon it will emit.",
    )
    parser.add_argument(
        "--version", action="version", version=f"mlsysim {mlsysim.__version__} ({mlsysim.DISTRIBUTION})"
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=Parser, action=_Commands
    )
    wanted = COMMANDS if not command else [command] if command in COMMANDS else ()
    for module in dict.fromkeys(_ELSEWHERE.get(name, name) for name in wanted):
        import_module(f"mlsysim.cli.{module}").add(commands)
    for name in () if wanted else COMMANDS:
        commands.add_parser(name)
    _with_catalog(parser)
    return parser


def _with_catalog(parser: ArgumentParser) -> None:
    """Give every command, and the commands below one, the user's own entries."""
    below = [action for action in parser._actions if isinstance(action, _SubParsersAction)]
    for action in below:
        for inner in {id(p): p for p in action.choices.values()}.values():
            _with_catalog(inner)
    if not below:
        parser.add_argument(
            "--catalog",
            action="append",
            default=[],
            metavar="FILE.toml",
            help="your own devices, models, links, nodes, prices, grids and facilities, found by name; may be repeated",
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    0 on success; 3 when the question has no answer (a model that does not fit, targets that no number of devices meets), which
    is printed; 2 with one sentence on standard error when the input is wrong; 1 when the output cannot be written or the
    machine has too little memory; 130 when it was interrupted.
    """
    status: int | None = 0
    named: dict[str, str] = {}
    before, warnings.formatwarning = warnings.formatwarning, _warning
    try:
        NOTES.clear()
        words = sys.argv[1:] if argv is None else list(argv)
        try:
            args = _parser(words[0] if words else "-").parse_args(words)
            _check_given(args)
            if args.command in ("serve", "simulate", "compare", "report"):
                named = {n: f"--{n.replace('_', '-')}" for n in vars(args) if n not in ("command", "run")}
            with registry.for_now():
                for file in args.catalog:
                    catalog.add(file)
                status = args.run(args)
            print(*NOTES, sep="\n", end="\n" if NOTES else "", file=sys.stderr)
        finally:
            sys.stdout.flush()  # here, where a full disk can still be told
    except MlsysimError as error:
        said = _ARGUMENT.sub(lambda name: named.get(name[0], name[0]), str(error))
        return _fail(said, 2)  # an argument is called as it is written here
    except OverflowError:
        return _fail(f"a number grew beyond what a float holds ({sys.float_info.max:.1e}); give smaller numbers", 2)
    except BrokenPipeError:  # the reader of our output left early, as in `mlsysim devices | head -1`
        _drop_output()
    except OSError as error:
        _drop_output()
        what = "the output" if error.filename is None else repr(str(error.filename)[:200])
        return _fail(f"{what} cannot be written or read ({error.strerror or error})", 1)
    except MemoryError:
        return _fail("not enough memory; ask for fewer combinations, requests or layers at a time", 1)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    finally:
        warnings.formatwarning = before
    return status or 0


def _warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Format a warning as one sentence, without source lines."""
    return f"mlsysim: {' '.join(str(message).split())}\n"


def _check_given(args: Namespace) -> None:
    """Refuse ``--option=--``: before Python 3.13 argparse takes the dashes away and leaves an empty list."""
    for name, value in vars(args).items():
        if value == [] and name not in _REPEATED:
            raise InputError(f"--{name.replace('_', '-')} has no value; '--' alone is none")


def _fail(message: str, code: int) -> int:
    message = " ".join(message.split())
    if len(message) > _LONGEST:  # it repeats what it was given
        message = f"{message[: _LONGEST // 2]} … {message[-_LONGEST // 4 :]}"
    with suppress(OSError):
        print(f"mlsysim: {message}", file=sys.stderr)
    return code


def _drop_output() -> None:
    """Send what is still to be written nowhere, so that Python does not complain once more when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
