"""``mlsysim hlo``: work, time and traces of StableHLO programs."""
