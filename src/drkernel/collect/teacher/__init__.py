"""A rule-based writer of kernels: a `Policy` without a model, for synthetic tasks and others.

    reading    a reference as a list of steps, each with its meaning where it has one
    meaning    which torch calls are known, and how each is computed element by element
    grouping   which steps share a kernel, from "one of them" to "everything that fits"
    dialect    the same arithmetic in Triton and in Numba
    writing    a module around the kernels
    flaws      mistakes: wrong answers, code that does not run, kernels that do nothing
    policy     first attempts, and reactions to what the gym says

It plays the part of a mediocre model, good enough to make pipelines move on real evaluations; what
it reaches says nothing about any model. Imports no torch.
"""
