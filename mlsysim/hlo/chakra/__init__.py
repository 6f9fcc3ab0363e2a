"""MLCommons Chakra execution traces: what a program runs, as ASTRA-sim 2 reads it; and back, to replay on our own scheduler."""

from mlsysim.hlo.chakra.encoding import decode, encode
from mlsysim.hlo.chakra.files import load, write
from mlsysim.hlo.chakra.lowering import trace
from mlsysim.hlo.chakra.nodes import Node, Trace, TraceSet
from mlsysim.hlo.chakra.replay import replay

__all__ = ["Node", "Trace", "TraceSet", "decode", "encode", "load", "replay", "trace", "write"]
