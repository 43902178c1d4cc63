"""Many candidates on many tasks: find them, judge them, keep what was found, sum it up."""
