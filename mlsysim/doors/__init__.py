"""Four doors, each one call from names to an answer: serve, train, simulate, plan. They ask the rooms below and know no physics.

>>> from mlsysim.doors import SLO
>>> SLO(ttft="500 ms", itl=0.03).percentile
0.99
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        value = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
