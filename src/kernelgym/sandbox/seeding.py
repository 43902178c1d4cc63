"""Seeds of every random number generator, the same way on both sides."""

from __future__ import annotations

import random

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    """Seed Python, numpy and torch (every device that is in use)."""
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
    if torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
        torch.manual_seed(seed)
    else:
        # torch.manual_seed also queues a call, with a formatted traceback, for every kind of
        # device that may be started later: 2 ms, and a list that only grows.
        torch.default_generator.manual_seed(seed)
