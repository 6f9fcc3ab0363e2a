"""Exploring designs: every combination of some axes, the best plan for a model on a cluster, and questions asked backwards.

Needs NumPy. Nothing here knows physics of its own: it calls the solvers.
"""

from mlsysim.explore.columns import Columns as Columns
from mlsysim.explore.sweeping import sweep as sweep
