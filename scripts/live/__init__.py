"""Live pages, made at build time from the notebooks, listings, exercises and numbers of each chapter."""
