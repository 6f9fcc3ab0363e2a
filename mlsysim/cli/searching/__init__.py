"""Many configurations at once: plans that are searched, columns that are swept."""
