"""Sourced facts: devices, model shapes, networks and efficiency presets. Every field knows its source, its place there and what was changed.

Users add their own devices with :func:`load_devices`; nothing here ever falls back to another value.
"""

from mlsysim.catalog.fabrics import (
    Cluster,
    Link,
    Node,
    Protocol,
    cluster,
    link,
    links,
    load_links,
    load_nodes,
    node,
    nodes,
    protocol,
    protocols,
)
from mlsysim.catalog.hardware import Device, Rates, device, devices, load_devices
from mlsysim.catalog.hf import from_hf_config
from mlsysim.catalog.presets import Preset, preset, presets
from mlsysim.catalog.shapes import Model, load_models, model, models
from mlsysim.catalog.sourced import Sourced
from mlsysim.catalog.workloads import Target, Trace, target, targets, trace, traces

__all__ = [
    "Cluster",
    "Device",
    "Link",
    "Model",
    "Node",
    "Preset",
    "Protocol",
    "Rates",
    "Sourced",
    "Target",
    "Trace",
    "cluster",
    "device",
    "devices",
    "from_hf_config",
    "link",
    "links",
    "load_devices",
    "load_links",
    "load_models",
    "load_nodes",
    "model",
    "models",
    "node",
    "nodes",
    "preset",
    "presets",
    "protocol",
    "protocols",
    "target",
    "targets",
    "trace",
    "traces",
]
