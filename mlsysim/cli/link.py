"""``mlsysim link``: an answer of the command line as an address of the book's page that sizes a job, for whoever wants to challenge it."""

import argparse
from urllib.parse import urlencode

import mlsysim
from mlsysim.cli.arguments import Commands
from mlsysim.errors import InputError

_TASKS = {"serve": "serve", "train": "train", "memory": "fits"}
PAGE = "book/size-it.html"


def _form(words: list[str]) -> dict[str, str]:
    """The options of a command line as fields of the page, as they were typed.

    >>> _form(["train", "--model", "Llama-3.1-8B", "--node=DGX-H100", "--nodes", "4", "--global-batch", "128", "--seq", "8192"])
    {'task': 'train', 'model': 'Llama-3.1-8B', 'global_batch': '128', 'seq': '8192', 'device': '4 x DGX-H100'}
    """
    if not words or words[0] not in _TASKS or (words[0] == "memory") != ("--serve" in words):
        raise InputError("link takes the words of a call of serve, of train, or of memory --serve, as you typed them")
    form, rest = {"task": _TASKS[words[0]]}, [word for word in words[1:] if word != "--serve"]
    while rest:
        option, equals, value = rest.pop(0).partition("=")
        if not option.startswith("--"):
            raise InputError(f"link: {option[:40]!r} is no option; write every option with its value")
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else ""
        if not value:
            raise InputError(
                f"link: {option[:40]} has no value, and the page has no field for such an option; leave it out"
            )
        form[option[2:].replace("-", "_")] = value
    if node := form.pop("node", ""):
        form["device"] = f"{form.pop('nodes', '1')} x {node}"
    if count := form.pop("devices", ""):
        form["count"] = count
    return form


def _link(args: argparse.Namespace) -> None:
    from mlsysim.course.sizing import showing, size

    form = _form(args.words)
    found = size(form)
    if "error" in found:
        raise InputError(found["error"])
    print(f"{PAGE}#size?{urlencode({**form, 'said': showing.heard(found)[:1000], 'version': mlsysim.__version__})}")


def add(commands: Commands) -> None:
    """Register the command of this module."""
    p = commands.add_parser(
        "link",
        epilog="As in: mlsysim link serve --model Llama-3.1-8B --device H100 --rate 20. The address holds the question, the answer and the version "
        "that gave it, and stands on the book's site; whoever opens it sees the job worked out again, and what changed since. An option "
        "that the page has no field for is refused.",
    )
    p.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="COMMAND ...", help="the call, from the command's name on"
    )
    p.set_defaults(run=_link)
