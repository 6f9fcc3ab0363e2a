"""Drawings of what a machine costs while it runs: watts, dollars, failures."""
