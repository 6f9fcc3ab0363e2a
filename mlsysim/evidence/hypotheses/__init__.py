"""Claims of others about step models, as objects that code judges: hypotheses, their sweeps, and what another tool would say."""
