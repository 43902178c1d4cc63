"""Rows put together for one forward pass, so that none sees another.

Two layouts. ``packed``: rows one after the other in one line, positions starting at 0 in each, the
attention block-diagonal; no token is wasted. ``padded``: rows below each other, padded on the
right; a causal model never looks right, so no mask is needed and the fastest attention kernels
apply. Both give the same numbers (to rounding); which is faster depends on lengths and hardware.

Shapes: R = rows, L = tokens of a line, N = targets of all rows laid flat, in row order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from drkernel.train.rows import Row

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Layout = Literal["packed", "padded"]


PASS_COST_TOKENS = 8192
"""What a forward pass costs besides its tokens, in tokens, for a model of billions of parameters on
one GPU. Launching the kernels of a pass takes as long for a small model, whose tokens are cheap."""


def group_rows(
    lengths: Sequence[int],
    max_tokens: int,
    layout: Layout = "packed",
    *,
    pass_cost_tokens: int = PASS_COST_TOKENS,
) -> list[list[int]]:
    """Numbers of the rows of each micro-batch; each row is in exactly one.

    ``packed`` is first-fit decreasing. ``padded`` takes neighbours in length, cut where padding and
    passes together cost least (a pass costs ``pass_cost_tokens``). Ties keep the order given: the
    same lengths always give the same groups.

    Raises:
        ValueError: if a row alone is longer than ``max_tokens``.

    >>> group_rows([3, 6, 4, 2], 8)
    [[1, 3], [2, 0]]
    """
    if max(lengths, default=0) > max_tokens:
        raise ValueError(f"a row of {max(lengths)} tokens does not fit into {max_tokens}")
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    if layout == "packed":
        return _first_fit(lengths, order, max_tokens)
    return _neighbours(lengths, order, max_tokens, pass_cost_tokens)


def _first_fit(lengths: Sequence[int], order: list[int], max_tokens: int) -> list[list[int]]:
    groups: list[list[int]] = []
    room: list[int] = []
    for row in order:
        place = next((i for i, free in enumerate(room) if free >= lengths[row]), None)
        if place is None:
            groups.append([])
            room.append(max_tokens)
            place = len(groups) - 1
        groups[place].append(row)
        room[place] -= lengths[row]
    return groups


def _neighbours(
    lengths: Sequence[int], order: list[int], max_tokens: int, pass_cost: int
) -> list[list[int]]:
    """The cheapest cut of the ordered rows into groups, each padded to its first one."""
    cheapest, begin = [0], [0]
    for end in range(1, len(order) + 1):
        best = None
        for start in range(end - 1, -1, -1):
            padded = lengths[order[start]] * (end - start)
            if padded > max_tokens:
                break
            cost = cheapest[start] + padded + pass_cost
            if best is None or cost < best[0]:
                best = (cost, start)
        assert best is not None  # a row alone always fits
        cheapest.append(best[0])
        begin.append(best[1])
    groups: list[list[int]] = []
    end = len(order)
    while end:
        groups.append(order[begin[end] : end])
        end = begin[end]
    return groups[::-1]


@dataclass(frozen=True)
class MicroBatch:
    """Inputs of one forward pass, and where its targets are."""

    input_ids: Tensor
    """[1, L] packed or [R, L] padded."""
    position_ids: Tensor
    """Like ``input_ids``; starts at 0 in every row."""
    segments: Tensor | None
    """[1, L] number of the row of each token; None where no row can see another anyway."""
    before_N: Tensor
    """Place (in the flattened line) of the token before each target: its state predicts it."""
    target_N: Tensor
    """Token ids of the targets."""
    row_N: Tensor
    """Row of each target, 0-based within this batch."""
    column_N: Tensor
    """0-based number of each target within its row."""
    rows: int
    """R."""

    @property
    def tokens(self) -> int:
        """Tokens the model computes, padding included."""
        return int(self.input_ids.numel())

    @property
    def targets(self) -> int:
        """N."""
        return int(self.target_N.numel())

    def to(self, device: torch.device | str) -> MicroBatch:
        """The same on a device."""
        moved = {
            name: value.to(device) if hasattr(value, "to") else value
            for name, value in vars(self).items()
        }
        return MicroBatch(**moved)

    def attention_mask(self, implementation: str, dtype: torch.dtype) -> Tensor | None:
        """What transformers takes as ``attention_mask``: [1, 1, L, L] block-diagonal and causal.

        None where plain causal attention is right, and for flash attention, which reads the blocks
        off the positions.
        """
        import torch

        if self.segments is None or implementation.startswith("flash"):
            return None
        length = self.segments.shape[1]
        place = torch.arange(length, device=self.segments.device)
        same_LL = self.segments[0][:, None] == self.segments[0][None, :]
        seen_LL = same_LL & (place[:, None] >= place[None, :])
        if implementation == "sdpa":
            return seen_LL[None, None]
        # eager attention adds the mask to the scores
        scores_LL = torch.zeros(length, length, dtype=dtype, device=place.device)
        scores_LL.masked_fill_(~seen_LL, torch.finfo(dtype).min)
        return scores_LL[None, None]

    def to_rows(self, values_N: Tensor, width: int | None = None, fill: float = 0.0) -> Tensor:
        """[R, width] with each target's value in its row and column, ``fill`` elsewhere."""
        if width is None:
            width = int(self.column_N.max()) + 1 if self.targets else 0
        table_RL = values_N.new_full((self.rows, width), fill)
        return table_RL.index_put((self.row_N, self.column_N), values_N)


def make_batch(rows: Sequence[Row], layout: Layout = "packed") -> MicroBatch:
    """One batch of these rows, on the CPU."""
    import torch

    lengths = [row.tokens for row in rows]
    if layout == "packed":
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
        ids = np.concatenate([row.ids_L for row in rows])[None]
        positions = np.concatenate([np.arange(length) for length in lengths])[None]
        segments: Any = np.repeat(np.arange(len(rows)), lengths)[None] if len(rows) > 1 else None
    else:
        width = max(lengths)
        starts = np.arange(len(rows), dtype=np.int64) * width
        ids = np.zeros((len(rows), width), dtype=np.int64)
        for number, row in enumerate(rows):
            ids[number, : row.tokens] = row.ids_L
        positions = np.broadcast_to(np.arange(width), ids.shape).copy()
        segments = None
    places = [np.flatnonzero(row.trained_L) for row in rows]
    counts = [place.size for place in places]
    return MicroBatch(
        input_ids=torch.from_numpy(ids),
        position_ids=torch.from_numpy(positions),
        segments=None if segments is None else torch.from_numpy(segments),
        before_N=torch.from_numpy(
            np.concatenate([start + place - 1 for start, place in zip(starts, places, strict=True)])
        ),
        target_N=torch.from_numpy(
            np.concatenate([row.ids_L[place] for row, place in zip(rows, places, strict=True)])
        ),
        row_N=torch.from_numpy(np.repeat(np.arange(len(rows)), counts)),
        column_N=torch.from_numpy(np.concatenate([np.arange(count) for count in counts])),
        rows=len(rows),
    )
