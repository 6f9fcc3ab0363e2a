"""Functions that take names and return an answer: serve, train, simulate, plan, compare, compare_devices. Thin wrappers: no physics here.

>>> from mlsysim.api import SLO
>>> SLO(ttft="500 ms", itl=0.03).quantile
0.99
"""

from typing import TYPE_CHECKING

from mlsysim._lazy import lazily

if TYPE_CHECKING:
    from mlsysim.api.devices import Compared as Compared
    from mlsysim.api.devices import compare_devices as compare_devices
    from mlsysim.api.fleets import FleetSpec as FleetSpec
    from mlsysim.api.planning import plan as plan
    from mlsysim.api.runs import Comparison as Comparison
    from mlsysim.api.runs import compare as compare
    from mlsysim.api.serving import Served as Served
    from mlsysim.api.serving import serve as serve
    from mlsysim.api.simulating import Simulated as Simulated
    from mlsysim.api.simulating import simulate as simulate
    from mlsysim.api.targets import SLO as SLO
    from mlsysim.api.training import Trained as Trained
    from mlsysim.api.training import train as train

_PLACES = {
    "Compared": "devices",
    "Comparison": "runs",
    "FleetSpec": "fleets",
    "SLO": "targets",
    "Served": "serving",
    "Simulated": "simulating",
    "Trained": "training",
    "compare": "runs",
    "compare_devices": "devices",
    "plan": "planning",
    "serve": "serving",
    "simulate": "simulating",
    "train": "training",
}
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
__getattr__ = lazily(__name__, _PLACES)


def __dir__() -> list[str]:
    return sorted(__all__)
