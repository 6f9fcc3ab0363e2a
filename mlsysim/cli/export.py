"""``mlsysim hlo export``: a training step of our own models as a StableHLO program."""

import argparse
from pathlib import Path

from mlsysim.cli.arguments import Commands
from mlsysim.cli.options import add_options, given
from mlsysim.declared import parameters
from mlsysim.errors import InputError
from mlsysim.hlo.export.recipe import Recipe


def _export(args: argparse.Namespace) -> None:
    from mlsysim import hlo
    from mlsysim.hlo.export import export

    recipe = Recipe(**given(args, Recipe))
    text = export(recipe)
    if args.form == "json":
        text = hlo.to_json(hlo.parse(text, f"{recipe.model} {recipe.parallelism} {recipe.devices}"))
    if args.output is None:
        print(text)
        return
    try:
        Path(args.output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{args.output}: cannot be written ({error.strerror or error})") from None


def add(verbs: Commands) -> None:
    """Register the verb."""
    p = verbs.add_parser(
        "export",
        help="write a training step of an MLP, a Llama or a ResNet as StableHLO (needs JAX, the extra hlo)",
        epilog="A transformer is lowered with AdamW, a ResNet (version 1.5) with momentum, an MLP with plain SGD. Nothing is "
        "computed and no array is made, so a large model takes seconds.",
    )
    p.add_argument("model", metavar="MODEL", help=parameters(Recipe)["model"].help)
    add_options(p, Recipe, leave=("model",))
    p.add_argument(
        "--form", default="mlir", choices=("mlir", "json"), help="StableHLO text, or the form that needs no jaxlib"
    )
    p.add_argument("-o", "--output", metavar="FILE", help="where to write (default: print)")
    p.set_defaults(run=_export)
