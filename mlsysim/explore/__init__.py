"""Exploring designs: every combination of some axes, the best plan for a model on a cluster, and questions asked backwards.

Nothing here knows physics of its own: it calls the solvers. Sweeps and the plan search need NumPy, which is imported with
the first of them; the questions do without.
"""

from typing import TYPE_CHECKING

from mlsysim._lazy import lazily
from mlsysim.explore.inverse import solve_for as solve_for
from mlsysim.explore.inverse import threshold as threshold
from mlsysim.sensitivity import Tornado as Tornado
from mlsysim.sensitivity import combined_spread as combined_spread
from mlsysim.sensitivity import elasticities as elasticities
from mlsysim.sensitivity import elasticity as elasticity
from mlsysim.sensitivity import tornado as tornado

if TYPE_CHECKING:
    from mlsysim.explore.columns import Columns as Columns
    from mlsysim.explore.fronts import Frontier as Frontier
    from mlsysim.explore.fronts import frontier as frontier
    from mlsysim.explore.planner import PlanSearch as PlanSearch
    from mlsysim.explore.planner import plan as plan
    from mlsysim.explore.planner import plan_of as plan_of
    from mlsysim.explore.planner import possible_degrees as possible_degrees
    from mlsysim.explore.sweeping import sweep as sweep

__all__ = [
    "Columns",
    "Frontier",
    "PlanSearch",
    "Tornado",
    "combined_spread",
    "elasticities",
    "elasticity",
    "frontier",
    "plan",
    "plan_of",
    "possible_degrees",
    "solve_for",
    "sweep",
    "threshold",
    "tornado",
]

_NEED_NUMPY = {
    "Columns": "columns",
    "Frontier": "fronts",
    "frontier": "fronts",
    "PlanSearch": "planner",
    "plan": "planner",
    "plan_of": "planner",
    "possible_degrees": "planner",
    "sweep": "sweeping",
}
__getattr__ = lazily(__name__, _NEED_NUMPY)


def __dir__() -> list[str]:
    return __all__
