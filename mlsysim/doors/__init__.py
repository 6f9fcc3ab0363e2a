"""Four doors, each one call from names to an answer: serve, train, simulate, plan. They ask the rooms below and know no physics.

>>> from mlsysim.doors import SLO
>>> SLO(ttft="500 ms", itl=0.03).quantile
0.99
"""

from typing import TYPE_CHECKING

from mlsysim._lazy import lazily

if TYPE_CHECKING:
    from mlsysim.doors.fleets import Parts as Parts
    from mlsysim.doors.planning import plan as plan
    from mlsysim.doors.serving import Served as Served
    from mlsysim.doors.serving import serve as serve
    from mlsysim.doors.simulating import Simulated as Simulated
    from mlsysim.doors.simulating import simulate as simulate
    from mlsysim.doors.targets import SLO as SLO
    from mlsysim.doors.training import Trained as Trained
    from mlsysim.doors.training import train as train

_PLACES = {
    "Parts": "fleets",
    "SLO": "targets",
    "Served": "serving",
    "Simulated": "simulating",
    "Trained": "training",
    "plan": "planning",
    "serve": "serving",
    "simulate": "simulating",
    "train": "training",
}
__all__ = ["SLO", "Parts", "Served", "Simulated", "Trained", "plan", "serve", "simulate", "train"]
__getattr__ = lazily(__name__, _PLACES)


def __dir__() -> list[str]:
    return sorted(__all__)
