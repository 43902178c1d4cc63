"""Multi-turn reinforcement learning for GPU kernel generation, on top of :mod:`kernelgym`."""

__version__ = "0.1.0"
