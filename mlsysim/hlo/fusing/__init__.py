"""From operations to kernels and regions: the graph of a program, what a compiler fuses, and where collectives cut."""
