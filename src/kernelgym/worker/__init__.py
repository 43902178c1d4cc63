"""The host of evaluations on one machine: processes, deadlines, clean-up. Imports no torch."""
