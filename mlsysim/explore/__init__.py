"""Exploring designs: every combination of some axes, the best plan for a model on a cluster, and questions asked backwards.

Nothing here knows physics of its own: it calls the solvers. Sweeps and the plan search take NumPy, which is imported with the
first of them, and where it is not installed our own slower vectors; the frontier needs it, and the questions do without.
"""

from typing import TYPE_CHECKING

from mlsysim._lazy import lazily

if TYPE_CHECKING:
    from mlsysim.explore.columns import Columns
    from mlsysim.explore.fronts import Frontier, frontier
    from mlsysim.explore.inverse import solve_for, threshold
    from mlsysim.explore.planner import PlanSearch, plan, plan_of, possible_degrees
    from mlsysim.explore.sweeping import sweep
    from mlsysim.sensitivity import Tornado, combined_spread, elasticities, elasticity, tornado

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
__getattr__, __dir__ = lazily(__name__)
