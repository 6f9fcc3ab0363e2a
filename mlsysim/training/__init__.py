"""A training step: what it is made of, how long it takes, and how much of the machine it uses."""

from mlsysim.training.equations import cast_time as cast_time
from mlsysim.training.equations import contention_time as contention_time
from mlsysim.training.equations import elementwise_time as elementwise_time
from mlsysim.training.equations import exposed_time as exposed_time
from mlsysim.training.equations import hfu as hfu
from mlsysim.training.equations import launching_time as launching_time
from mlsysim.training.equations import mfu as mfu
from mlsysim.training.equations import muon_flops as muon_flops
from mlsysim.training.equations import optimizer_time as optimizer_time
from mlsysim.training.equations import pipelined_step as pipelined_step
from mlsysim.training.equations import recomputed_share as recomputed_share
from mlsysim.training.equations import run_time as run_time
from mlsysim.training.equations import stage_time as stage_time
from mlsysim.training.equations import step_time as step_time
from mlsysim.training.equations import straggler_time as straggler_time
from mlsysim.training.equations import time_to_train as time_to_train
from mlsysim.training.fit import TASKS as TASKS
from mlsysim.training.fit import training_memory as training_memory
from mlsysim.training.ledger import ELEMENT_BYTES as ELEMENT_BYTES
from mlsysim.training.ledger import FLASH_BACKWARD as FLASH_BACKWARD
from mlsysim.training.ledger import GRADIENT_BYTES as GRADIENT_BYTES
from mlsysim.training.narrow import cast_break_even as cast_break_even
from mlsysim.training.narrow import implied_share as implied_share
from mlsysim.training.narrow import narrow_gain as narrow_gain
from mlsysim.training.parts import BOUND as BOUND
from mlsysim.training.parts import SHARED_FIELDS as SHARED_FIELDS
from mlsysim.training.parts import Efficiencies as Efficiencies
from mlsysim.training.parts import Layout as Layout
from mlsysim.training.parts import Machine as Machine
from mlsysim.training.parts import StepTerms as StepTerms
from mlsysim.training.parts import Work as Work
from mlsysim.training.shapes import activations as activations
from mlsysim.training.shapes import layout_of as layout_of
from mlsysim.training.shapes import mean_context as mean_context
from mlsysim.training.shapes import work_of as work_of
from mlsysim.training.shares import PEAK_FORMAT as PEAK_FORMAT
from mlsysim.training.shares import cast_bytes as cast_bytes
from mlsysim.training.shares import efficiencies_of as efficiencies_of
from mlsysim.training.step import MFU_CONVENTION as MFU_CONVENTION
from mlsysim.training.step import TrainingStep as TrainingStep
from mlsysim.training.step import training_step as training_step
from mlsysim.training.terms import step_terms as step_terms

__all__ = [
    "BOUND",
    "ELEMENT_BYTES",
    "FLASH_BACKWARD",
    "GRADIENT_BYTES",
    "MFU_CONVENTION",
    "PEAK_FORMAT",
    "SHARED_FIELDS",
    "TASKS",
    "Efficiencies",
    "Layout",
    "Machine",
    "StepTerms",
    "TrainingStep",
    "Work",
    "activations",
    "cast_break_even",
    "cast_bytes",
    "cast_time",
    "contention_time",
    "efficiencies_of",
    "elementwise_time",
    "exposed_time",
    "hfu",
    "implied_share",
    "launching_time",
    "layout_of",
    "mean_context",
    "mfu",
    "muon_flops",
    "narrow_gain",
    "optimizer_time",
    "pipelined_step",
    "recomputed_share",
    "run_time",
    "stage_time",
    "step_terms",
    "step_time",
    "straggler_time",
    "time_to_train",
    "training_memory",
    "training_step",
    "work_of",
]


def __dir__() -> list[str]:
    return __all__
