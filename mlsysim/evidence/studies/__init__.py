"""Studies: what single chapters show of published plans, costs, footprints, claims and case studies."""
