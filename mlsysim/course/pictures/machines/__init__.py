"""Drawings of a device, its memory and clocks, and of what a model is made of."""
