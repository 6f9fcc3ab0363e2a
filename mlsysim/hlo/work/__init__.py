"""What operations cost: FLOPs and bytes by their semantics, in closed form, beside the counts of XLA."""
