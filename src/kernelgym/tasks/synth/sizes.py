"""Sizes of dimensions, each in four variants that are kept side by side.

``LINT`` is small enough to run a task in milliseconds on a CPU, ``FULL`` is what a GPU should be
timed at; the ``TAIL`` of each is the same shape with sizes that no block size divides. Sizes come
from models people train: widths of transformers, feature maps of convolutional networks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Sizes = tuple[int, int, int, int]
LINT, LINT_TAIL, FULL, FULL_TAIL = range(4)
VARIANTS = (LINT, LINT_TAIL, FULL, FULL_TAIL)


@dataclass(frozen=True)
class Dim:
    """One dimension: its four sizes, and the constant that holds them where there is one."""

    sizes: Sizes
    name: str = ""

    @property
    def text(self) -> str:
        """How source refers to it."""
        return self.name or str(self.sizes[LINT])


ONE = Dim((1, 1, 1, 1))


def map_sizes(function: Callable[[int], int], dim: Dim) -> Dim:
    """A dimension without a name whose sizes are a function of another's."""
    a, b, c, d = dim.sizes
    return Dim((function(a), function(b), function(c), function(d)))


def elements(dims: tuple[Dim, ...], variant: int) -> int:
    """Number of elements of a tensor of these dimensions."""
    count = 1
    for dim in dims:
        count *= dim.sizes[variant]
    return count


def batch_sizes(full: int) -> Sizes:
    """Variants of a leading dimension."""
    tail = full - full // 16 - 1 if full > 4 else full + 1
    return (6, 5, full, tail)


SIZES: dict[str, tuple[Sizes, ...]] = {
    "features": (
        (32, 27, 512, 500),
        (24, 19, 768, 771),
        (48, 37, 1024, 1000),
        (32, 29, 2048, 2047),
        (40, 33, 1536, 1537),
        (56, 45, 4096, 4100),
        (32, 21, 256, 250),
        (48, 43, 3072, 3000),
        (20, 17, 128, 120),
        (36, 31, 640, 650),
    ),
    "length": (
        (16, 13, 512, 500),
        (12, 11, 1024, 1023),
        (10, 9, 2048, 1999),
        (20, 17, 256, 257),
        (16, 15, 128, 100),
        (24, 23, 4096, 4001),
    ),
    "channels": (
        (8, 12, 32, 40),
        (12, 8, 64, 72),
        (16, 12, 128, 136),
        (4, 8, 16, 24),
        (8, 16, 96, 100),
        (16, 20, 256, 240),
    ),
    "space": (
        (12, 11, 32, 31),
        (14, 13, 56, 57),
        (16, 15, 64, 63),
        (10, 9, 28, 27),
        (16, 13, 112, 113),
        (12, 15, 128, 125),
        (14, 11, 224, 220),
    ),
    "signal": (
        (24, 21, 1024, 1000),
        (32, 27, 4096, 4095),
        (40, 37, 2048, 2051),
        (28, 25, 512, 509),
        (36, 35, 16384, 16000),
    ),
    "volume": ((6, 7, 16, 15), (8, 7, 24, 25), (7, 6, 32, 30)),
    "heads": ((2, 3, 8, 6), (2, 2, 12, 12), (4, 3, 16, 10), (3, 2, 4, 5)),
    "head_dim": ((8, 10, 64, 80), (16, 12, 128, 96), (8, 12, 32, 48)),
    "vocabulary": ((40, 37, 32000, 32003), (64, 51, 50304, 50257), (48, 47, 8192, 8000)),
    "edges": ((64, 57, 65536, 65001), (48, 47, 262144, 262001), (80, 77, 131072, 130999)),
    "picked": ((8, 9, 1024, 1001), (12, 7, 4096, 4003), (9, 10, 256, 255)),
    "rank": ((4, 5, 16, 15), (6, 3, 64, 60), (5, 4, 32, 30)),
}

BATCHES: dict[str, tuple[int, ...]] = {
    "rows": (256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536),
    "sequence": (1, 2, 4, 8, 16, 32, 64, 128),
    "heads": (1, 2, 4, 8, 16, 32, 64),
    "image": (1, 2, 4, 8, 16, 32, 64, 128),
    "signal": (2, 4, 8, 16, 32, 64, 128),
    "volume": (1, 2, 4, 8, 16, 32),
    "tokens": (1, 2, 4, 8, 16, 32, 64),
    "nodes": (4096, 16384, 32768, 65536, 131072, 262144),
}
"""Full sizes of the leading dimension, by family; one is chosen that keeps the task in time."""
