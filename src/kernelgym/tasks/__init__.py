"""Where tasks come from: reference files, the built-in set, a KernelBench checkout."""
