"""Write the sample programs that `mlsysim hlo export` makes (needs JAX; the text of a program differs by JAX version)."""

import bz2
from collections.abc import Mapping
from pathlib import Path

from mlsysim import hlo
from mlsysim.hlo.export import Recipe, export

FOLDER = Path(__file__).parents[2] / "mlsysim" / "hlo" / "samples"


def recipes() -> dict[str, Recipe]:
    """The name of each sample, and what it is a lowering of."""

    def llama(scan: bool) -> Recipe:
        return Recipe("Llama-3-100M", "fsdp", 4, 1, 4096, embedding="onehot", recompute="attention", scan=scan)

    return {
        "llama100m_train_fsdp4.sm": llama(False),
        "llama100m_train_fsdp4.scan": llama(True),
        **{f"resnet{n}_train_dp4.sm": Recipe(f"resnet{n}", "dp", 4, 256, dtype="fp16") for n in (18, 50)},
    }


def write(made: Mapping[str, Recipe]) -> None:
    """Lower, parse and pack each of them."""
    for name, recipe in made.items():
        text = hlo.to_json(hlo.parse(export(recipe), name))
        (FOLDER / f"{name}.json.bz2").write_bytes(bz2.compress(text.encode("utf-8")))


if __name__ == "__main__":
    write(recipes())
