"""A faster kernel for one module: for people who have a module, not a research question."""
