"""Drawings of predictions beside measurements, and of choosing by them."""
