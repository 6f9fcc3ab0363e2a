"""Sourced facts: devices, model shapes, networks, grids, prices and efficiency presets. Every field knows its source, its place there and what was changed.

Your own entries come with :func:`add` and :func:`define` and are found by name afterwards; nothing here ever falls back to
another value.
"""

from typing import TYPE_CHECKING

from mlsysim._lazy import lazily

# What shares its name with a module cannot come later: the module would stand in its place.
from mlsysim.catalog.convnets import Convnet, convnet, convnets
from mlsysim.catalog.hardware import Device, Rates, device, devices, load_devices
from mlsysim.catalog.presets import Preset, preset, presets
from mlsysim.catalog.prices import Price, load_prices, price, prices, prices_of

if TYPE_CHECKING:
    from mlsysim.catalog.adding import add, define
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
    from mlsysim.catalog.machines import Machines, no_link, nodes_with, where
    from mlsysim.catalog.other_models import patch_transformer, patch_transformers, recommender
    from mlsysim.catalog.places import (
        Facility,
        Grid,
        facilities,
        facility,
        grid,
        grids,
        load_facilities,
        load_grids,
    )
    from mlsysim.catalog.registry import forget, user_entries
    from mlsysim.catalog.shapes import Model, decoder, from_hf_config, load_models, model, models
    from mlsysim.catalog.sourced import Sourced
    from mlsysim.catalog.workloads import Target, Trace, target, targets, trace, traces

__all__ = [
    "Cluster",
    "Convnet",
    "Device",
    "Facility",
    "Grid",
    "Link",
    "Machines",
    "Model",
    "Node",
    "Preset",
    "Price",
    "Protocol",
    "Rates",
    "Sourced",
    "Target",
    "Trace",
    "add",
    "cluster",
    "convnet",
    "convnets",
    "decoder",
    "define",
    "device",
    "devices",
    "facilities",
    "facility",
    "forget",
    "from_hf_config",
    "grid",
    "grids",
    "link",
    "links",
    "load_devices",
    "load_facilities",
    "load_grids",
    "load_links",
    "load_models",
    "load_nodes",
    "load_prices",
    "model",
    "models",
    "no_link",
    "node",
    "nodes",
    "nodes_with",
    "patch_transformer",
    "patch_transformers",
    "preset",
    "presets",
    "price",
    "prices",
    "prices_of",
    "protocol",
    "protocols",
    "recommender",
    "target",
    "targets",
    "trace",
    "traces",
    "user_entries",
    "where",
]
__getattr__, __dir__ = lazily(__name__)
