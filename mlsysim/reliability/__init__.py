"""Failures, checkpoints, and how much of a training job's time is work that lasts."""

from mlsysim.reliability.checkpoints import (
    checkpoint_overhead,
    exact_goodput,
    first_order_goodput,
    lost_work,
    restart_share,
    stall_time,
    write_time,
)
from mlsysim.reliability.failures import (
    MAX_SPARES,
    cluster_mtbf,
    expected_failures,
    failure_rate,
    node_mtbf,
    observed_mtbf,
    spare_availability,
    unavailability,
)
from mlsysim.reliability.goodput import METHODS, Goodput, effective_training_time, fleet_goodput, training_goodput
from mlsysim.reliability.intervals import daly_interval, optimal_interval, young_interval
from mlsysim.reliability.tiers import elastic_loss, two_tier_goodput

__all__ = [
    "MAX_SPARES",
    "METHODS",
    "Goodput",
    "checkpoint_overhead",
    "cluster_mtbf",
    "daly_interval",
    "effective_training_time",
    "elastic_loss",
    "exact_goodput",
    "expected_failures",
    "failure_rate",
    "first_order_goodput",
    "fleet_goodput",
    "lost_work",
    "node_mtbf",
    "observed_mtbf",
    "optimal_interval",
    "restart_share",
    "spare_availability",
    "stall_time",
    "training_goodput",
    "two_tier_goodput",
    "unavailability",
    "write_time",
    "young_interval",
]


def __dir__() -> list[str]:
    return __all__
