"""Networks: topologies, collectives as schedules of messages, congestion, and steps that overlap compute with communication."""

from mlsysim.network import astrasim
from mlsysim.network.report import Report
from mlsysim.network.schedules import ALGORITHMS, OPS, OPTIMIZATIONS
from mlsysim.network.streams import STREAMS, RankTime, StreamSchedule, Task, schedule
from mlsysim.network.timing import CONGESTION, NetworkTime, PhaseTime, collective_time
from mlsysim.network.topology import KINDS, Dimension, Topology, dragonfly, parse

__all__ = [
    "ALGORITHMS",
    "CONGESTION",
    "KINDS",
    "OPS",
    "OPTIMIZATIONS",
    "STREAMS",
    "Dimension",
    "NetworkTime",
    "PhaseTime",
    "RankTime",
    "Report",
    "StreamSchedule",
    "Task",
    "Topology",
    "astrasim",
    "collective_time",
    "dragonfly",
    "parse",
    "schedule",
]
