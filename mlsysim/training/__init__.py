"""A training step: what it is made of, how long it takes, and how much of the machine it uses."""

from mlsysim.training.equations import elementwise_time as elementwise_time
from mlsysim.training.equations import exposed_time as exposed_time
from mlsysim.training.equations import hfu as hfu
from mlsysim.training.equations import mfu as mfu
from mlsysim.training.equations import optimizer_time as optimizer_time
from mlsysim.training.equations import pipelined_step as pipelined_step
from mlsysim.training.equations import run_time as run_time
from mlsysim.training.equations import stage_time as stage_time
from mlsysim.training.equations import step_time as step_time
from mlsysim.training.equations import straggler_time as straggler_time
from mlsysim.training.equations import time_to_train as time_to_train
from mlsysim.training.step import DATASHEET as DATASHEET
from mlsysim.training.step import ELEMENT_BYTES as ELEMENT_BYTES
from mlsysim.training.step import Efficiencies as Efficiencies
from mlsysim.training.step import Layout as Layout
from mlsysim.training.step import Machine as Machine
from mlsysim.training.step import StepTerms as StepTerms
from mlsysim.training.step import TrainingStep as TrainingStep
from mlsysim.training.step import Work as Work
from mlsysim.training.step import group_bandwidth as group_bandwidth
from mlsysim.training.step import layout_of as layout_of
from mlsysim.training.step import step_terms as step_terms
from mlsysim.training.step import training_step as training_step
from mlsysim.training.step import work_of as work_of
