"""XLA's own counts of our sample programs, as data to stand beside ours, and what a shortcut in counting comes to."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import prod

from mlsysim.errors import named
from mlsysim.hlo.reader.program import Program
from mlsysim.results import Result


@dataclass(frozen=True)
class XlaCount(Result):
    """What XLA's cost analysis says of one program. ``bytes`` is the sum over its operations as they stand."""

    program: str
    flops: float
    transcendentals: float
    bytes: float
    source: str
    obtained: str


@cache
def xla_counts() -> dict[str, XlaCount]:
    """Every count that ships, by program.

    >>> xla_counts()["gemm_bf16_4096"].flops
    137438953472
    """
    document = tomllib.loads((files(__package__) / "xla_counts.toml").read_text(encoding="utf-8"))
    made = {key: document[key] for key in ("source", "obtained")}
    return {name: XlaCount(name, **row, **made) for name, row in document["programs"].items()}


def xla_count(name: str) -> XlaCount:
    """XLA's count of one program.

    Raises
    ------
    UnknownNameError
        A program whose count does not ship.
    """
    return named("counted program", name, xla_counts())


def reduced_elements(program: Program) -> int:
    """Elements that come out of the program's all-reduces as written: XLA counts one FLOP for each, and we none.

    >>> from mlsysim.hlo.samples import sample
    >>> reduced_elements(sample("mlp_train_dp8.spmd"))
    1863691
    """
    found = (op for op in program.ops() if op.base == "all_reduce")
    return sum(program.type_of(v).elements for op in found for v in op.results)


def kernel_as_hwio_flops(kernel: Sequence[int], result: Sequence[int]) -> float:
    """A shortcut of early tools, to be compared with: a convolution's kernel read as height, width, input channels.

    Dimension numbers, groups, padding and dilation are ignored.

    >>> kernel_as_hwio_flops((3, 3, 64, 128), (32, 56, 56, 128))
    14797504512.0
    """
    return 2.0 * prod(result) * prod(kernel[:3])


def kernels_as_hwio_flops(program: Program) -> float:
    """The same shortcut for all convolutions of a program, those of gradients included.

    >>> from mlsysim.hlo.samples import sample
    >>> kernels_as_hwio_flops(sample("conv_nhwc_3x3_s1"))
    14797504512.0
    """
    found = (op for op in program.ops() if op.base == "convolution")
    return sum(
        kernel_as_hwio_flops(program.type_of(op.operands[1]).shape, program.type_of(op.results[0]).shape)
        for op in found
    )
