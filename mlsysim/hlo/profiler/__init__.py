"""Regions of a program compiled and run on the device at hand, in a process of its own, and the runs that were recorded."""
