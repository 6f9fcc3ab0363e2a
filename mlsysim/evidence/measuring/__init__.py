"""Tier 2: a device profile, measured on the machine at hand by micro-benchmarks, and a tiny model that tests it."""
