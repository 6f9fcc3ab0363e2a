"""``mlsysim hlo export``: a training step of our own models as a StableHLO program."""

import argparse
from pathlib import Path

from mlsysim.cli.arguments import Commands
from mlsysim.errors import InputError


def _widths(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a list of widths, as in 784,1024,10")
    return tuple(int(part) for part in parts)


def _export(args: argparse.Namespace) -> None:
    from mlsysim import hlo
    from mlsysim.hlo.export import Recipe, export

    names = ("model", "parallelism", "devices", "batch", "seq", "layers", "dtype", "stage", "scan", "embedding")
    given = {name: getattr(args, name) for name in (*names, "recompute", "image", "image_layout")}
    recipe = Recipe(**given, **({"widths": args.widths} if args.widths else {}))
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
    p.add_argument("model", metavar="MODEL", help="mlp, resnet50 (18 to 200), or a Llama of the catalogue")
    p.add_argument("--parallelism", default="dp", help="dp, fsdp or tp (default: dp)")
    p.add_argument("--devices", default=1, type=int, help="devices that share the step (default: 1)")
    p.add_argument("--batch", default=1, type=int, help="samples per device; with tp, of all together (default: 1)")
    p.add_argument("--seq", default=4096, type=int, help="tokens of a sample of a transformer (default: 4096)")
    p.add_argument(
        "--layers",
        default=0,
        type=int,
        help="layers of a transformer, at most 500 unless --scan (default: the catalogue's)",
    )
    p.add_argument("--widths", type=_widths, help="of the MLP, first its inputs and last its classes")
    p.add_argument("--dtype", default="", help="bf16, fp16 or fp32 (default: fp32 for the MLP, bf16 otherwise)")
    p.add_argument(
        "--stage",
        default="partitioned",
        help="partitioned: one device's program with its collectives; annotated: global shapes with shardings "
        "(default: partitioned)",
    )
    p.add_argument("--scan", action="store_true", help="keep the layers of a transformer as one loop")
    p.add_argument("--embedding", default="gather", help="gather, or onehot: a product with one-hot rows")
    p.add_argument("--recompute", default="none", help="none, or attention: its scores again in the backward pass")
    p.add_argument("--image", default=224, type=int, help="height and width of an image (default: 224)")
    p.add_argument("--image-layout", default="NHWC", help="NHWC or NCHW (default: NHWC)")
    p.add_argument(
        "--form", default="mlir", choices=("mlir", "json"), help="StableHLO text, or the form that needs no jaxlib"
    )
    p.add_argument("-o", "--output", metavar="FILE", help="where to write (default: print)")
    p.set_defaults(run=_export)
