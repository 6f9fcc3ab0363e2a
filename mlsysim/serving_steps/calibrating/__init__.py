"""Tier 1: the residual of a prediction, fitted to one measured trace, and how far such a fit may be trusted."""
