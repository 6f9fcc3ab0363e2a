"""Against what is measured: validation, calibration, submissions."""
