"""Sourced facts: devices, model shapes and efficiency presets. Every field knows its source, its place there and what was changed.

Users add their own devices with :func:`load_devices`; nothing here ever falls back to another value.
"""

from mlsysim.catalog.hardware import Device, Rates, device, devices, load_devices
from mlsysim.catalog.presets import Preset, preset, presets
from mlsysim.catalog.shapes import Model, load_models, model, models
from mlsysim.catalog.sourced import Sourced

__all__ = [
    "Device",
    "Model",
    "Preset",
    "Rates",
    "Sourced",
    "device",
    "devices",
    "load_devices",
    "load_models",
    "model",
    "models",
    "preset",
    "presets",
]
