"""A StableHLO program in, its work and its time out: reader, op costs, fusion, regions, roofline, schedule.

Reading StableHLO text needs jaxlib (extra ``hlo``); a program in its JSON form needs nothing.
"""

from mlsysim.hlo import losses
from mlsysim.hlo.estimate import Estimate, Links, estimate
from mlsysim.hlo.fabric import Fabric
from mlsysim.hlo.reader.form import from_json, to_json
from mlsysim.hlo.reader.program import Block, Op, Program, TensorType
from mlsysim.hlo.reader.stablehlo import parse, read
from mlsysim.hlo.samples import sample, samples
from mlsysim.hlo.work import equations

__all__ = [
    "Block",
    "Estimate",
    "Fabric",
    "Links",
    "Op",
    "Program",
    "TensorType",
    "equations",
    "estimate",
    "from_json",
    "losses",
    "parse",
    "read",
    "sample",
    "samples",
    "to_json",
]


def __dir__() -> list[str]:
    return __all__
