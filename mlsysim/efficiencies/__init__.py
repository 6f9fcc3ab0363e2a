"""Efficiencies: how far software stays below datasheet rates. Three modes, each with one meaning, and the shipped constants behind them.

==============  ======================================================================================================
``calibrated``  constants fitted to published runs, which ship with the package; past errors give a range. The default.
``datasheet``   datasheet rates times the efficiencies that others' benchmarks reach (products, STREAM, links), and
                counted traffic and launches; nothing is fitted to runs, and there is no range.
``bound``       peak dense datasheet rates, no overhead, nothing measured; communication is not overlapped, so only a run
                that overlaps it can be faster.
==============  ======================================================================================================

Every solver that has the choice takes it as ``efficiencies``: one of the modes, or an ``Efficiencies`` object of its chapter
(``training``, ``inference``). Every result says which it used. What has no fitted constants (a device that no published run
ran on) takes the datasheet's instead and says so. ``mlsysim.evidence`` fits and scores; this package reads the fitted constants.
"""

from typing import TYPE_CHECKING

from mlsysim._lazy import lazily

# What shares its name with a module cannot come later: the module would stand in its place.
from mlsysim.efficiencies.servers import EAGER, MIDDLE, Server, known_server, launched_as, server_of, servers
from mlsysim.efficiencies.shipped import (
    Constants,
    best_share,
    fitted_to,
    kernel_shares,
    measured_share,
    shipped,
    traced_constants,
)

if TYPE_CHECKING:
    from mlsysim.efficiencies.hierarchy import (
        Pooled,
        Same,
        clock_of,
        describe_class,
        generation_name,
        generation_of,
        lineage,
        measured_kin,
        parents,
        pooled,
        pooled_share,
    )
    from mlsysim.efficiencies.modes import (
        BOUND,
        CALIBRATED,
        DATASHEET,
        DEFAULT,
        MEANINGS,
        MODES,
        OWN,
        OWN_SOURCE,
        check_mode,
        describe,
        has_range,
        name_custom,
    )

__all__ = [
    "BOUND",
    "CALIBRATED",
    "DATASHEET",
    "DEFAULT",
    "EAGER",
    "MEANINGS",
    "MIDDLE",
    "MODES",
    "OWN",
    "OWN_SOURCE",
    "Constants",
    "Pooled",
    "Same",
    "Server",
    "best_share",
    "check_mode",
    "clock_of",
    "describe",
    "describe_class",
    "fitted_to",
    "generation_name",
    "generation_of",
    "has_range",
    "kernel_shares",
    "known_server",
    "launched_as",
    "lineage",
    "measured_kin",
    "measured_share",
    "name_custom",
    "parents",
    "pooled",
    "pooled_share",
    "server_of",
    "servers",
    "shipped",
    "traced_constants",
]
__getattr__, __dir__ = lazily(__name__)
