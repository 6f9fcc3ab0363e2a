"""Drawings of many devices: wires, messages, how work is split and when each part runs."""
