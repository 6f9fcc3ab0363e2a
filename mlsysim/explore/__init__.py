"""Exploring designs: every combination of some axes, the best plan for a model on a cluster, and questions asked backwards.

Needs NumPy. Nothing here knows physics of its own: it calls the solvers.
"""

from mlsysim.explore.columns import Columns as Columns
from mlsysim.explore.inverse import solve_for as solve_for
from mlsysim.explore.inverse import threshold as threshold
from mlsysim.explore.planner import PlanSearch as PlanSearch
from mlsysim.explore.planner import plan as plan
from mlsysim.explore.planner import plan_of as plan_of
from mlsysim.explore.planner import possible_degrees as possible_degrees
from mlsysim.explore.sensitivity import elasticities as elasticities
from mlsysim.explore.sensitivity import tornado as tornado
from mlsysim.explore.sweeping import sweep as sweep
