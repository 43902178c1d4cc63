"""What the candidate's process records about itself: launches, operators, compilations.

All of it is loaded before the candidate and all of it is a claim (`kernelgym.schema.Evidence`).
"""
