"""Functions that take names and return an answer: serve, train, simulate, plan, compare, compare_devices. Thin wrappers: no physics here.

>>> from mlsysim.api import SLO
>>> SLO(ttft="500 ms", itl=0.03).quantile
0.99
"""

from typing import TYPE_CHECKING

from mlsysim._lazy import lazily

if TYPE_CHECKING:
    from mlsysim.api.devices import Compared, compare_devices
    from mlsysim.api.fleets import FleetSpec
    from mlsysim.api.planning import plan
    from mlsysim.api.runs import Comparison, compare
    from mlsysim.api.serving import Served, serve
    from mlsysim.api.simulating import Simulated, simulate
    from mlsysim.api.targets import SLO
    from mlsysim.api.training import Trained, train

__all__ = [
    "SLO",
    "Compared",
    "Comparison",
    "FleetSpec",
    "Served",
    "Simulated",
    "Trained",
    "compare",
    "compare_devices",
    "plan",
    "serve",
    "simulate",
    "train",
]
__getattr__, __dir__ = lazily(__name__)
