"""After pre-training: adapters, rollouts and the step of reinforcement learning, and how a job is fed.

:func:`rl_step` joins the serving model and the training step of this library into one step of reinforcement learning.
"""

from mlsysim.posttraining.adapters import adapter_parameters, fine_tuning_state
from mlsysim.posttraining.feeding import reader_rate
from mlsysim.posttraining.rollouts import (
    effective_share,
    evaluation_share,
    longest_rollout,
    rollout_staleness,
    rollout_time,
    two_pools_step,
    useful_groups,
    weight_sync,
)
from mlsysim.posttraining.step import RLStep, rl_split, rl_step

__all__ = [
    "RLStep",
    "adapter_parameters",
    "effective_share",
    "evaluation_share",
    "fine_tuning_state",
    "longest_rollout",
    "reader_rate",
    "rl_split",
    "rl_step",
    "rollout_staleness",
    "rollout_time",
    "two_pools_step",
    "useful_groups",
    "weight_sync",
]


def __dir__() -> list[str]:
    return __all__
