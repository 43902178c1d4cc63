"""The trusted side: reference, seeds, expected outputs, tolerances, verdict.

Nothing here imports `kernelgym.sandbox.candidate`, and no module of a candidate is ever loaded.
"""
