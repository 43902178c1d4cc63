"""Seeds of every random number generator, the same way on both sides."""

from __future__ import annotations

import random

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    """Seed Python, numpy and torch (every device that is in use)."""
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
    # torch.manual_seed also queues a call, with a formatted traceback, for every kind of device
    # that may be started later: 1-2 ms, and a list that only grows.
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        for generator in torch.cuda.default_generators:
            generator.manual_seed(seed)
    elif torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(seed)
