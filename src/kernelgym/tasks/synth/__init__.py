"""Synthetic tasks: PyTorch modules composed of primitive operators, made from a seed.

`build` draws one program, `render` writes it as a person would, `generate` keeps those that are
new, unknown to a benchmark, executable and clean under the task lint. Importing this package
imports no torch.
"""
