"""Groups: who is compared with whom, how many they are, and which groups carry no signal.

A *cell* is one (group, turn): the rollouts of one prompt that were still alive at that turn. Every
baseline in :mod:`drkernel.algo.advantage` is a statistic of a cell, so its size N_t is logged with
every advantage.

Shapes: B = trajectories, T = turns, V = valid turns laid flat, C = cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from drkernel.algo.arrays import (
    Array,
    ArrayLike,
    Bools,
    Floats,
    Integers,
    as_bools,
    as_mask,
    as_numpy,
    as_table,
    is_tensor,
    kind_of,
)


def group_codes(group: ArrayLike, trajectories: int) -> Integers:
    """Number the labels of ``group[B]`` 0, 1, ... by first appearance or by sort order.

    Labels are anything hashable: integers, strings, tuples, one-number tensors, or the elements of
    an array or tensor.

    Raises:
        ValueError: unless there is one label a trajectory.
    """
    if is_tensor(group):
        group = as_numpy(group, "group")
    if isinstance(group, np.ndarray) and group.dtype != object:
        if group.shape != (trajectories,):
            raise ValueError(
                f"group must have shape [B] = [{trajectories}], not {list(group.shape)}"
            )
        return np.unique(group, return_inverse=True)[1].astype(np.int64)
    # a tensor hashes by identity, so equal labels would not meet
    labels = [label.item() if is_tensor(label) else label for label in group]
    if len(labels) != trajectories:
        raise ValueError(
            f"group must name one group a trajectory: {trajectories} expected, {len(labels)} given"
        )
    number: dict[object, int] = {}
    return np.array([number.setdefault(label, len(number)) for label in labels], dtype=np.int64)


@dataclass(frozen=True)
class Cells:
    """The (group, turn) cells of a batch.

    ``cell_BT`` numbers the cell of every turn, valid or not; ``sizes_C`` counts the valid members
    of each.
    """

    cell_BT: Integers
    valid_BT: Bools
    sizes_C: Integers

    def centred(self, values_BT: Floats) -> tuple[Floats, Floats]:
        """(values minus their cell mean [V], cell size [V]) over the valid turns.

        The mean is taken twice: the second pass removes the rounding error of the first, so that
        returns with a large common offset still sum to zero.
        """
        cell_V, values_V = self.cell_BT[self.valid_BT], values_BT[self.valid_BT]
        sizes_V = self.sizes_C[cell_V].astype(np.float64)
        for _ in range(2):
            sums_C = np.bincount(cell_V, weights=values_V, minlength=self.sizes_C.size)
            values_V = values_V - sums_C[cell_V] / sizes_V
        return values_V, sizes_V

    def scatter(self, values_V: Floats) -> Floats:
        """A [B, T] table holding ``values_V`` at the valid turns and 0 elsewhere."""
        table_BT = np.zeros(self.valid_BT.shape)
        table_BT[self.valid_BT] = values_V
        return table_BT

    def squares(self, centred_V: Floats) -> Floats:
        """Sum of squares within each valid turn's cell, [V]."""
        cell_V = self.cell_BT[self.valid_BT]
        sums_C = np.bincount(cell_V, weights=centred_V**2, minlength=self.sizes_C.size)
        return np.asarray(sums_C[cell_V], dtype=np.float64)


def cells_of(group: ArrayLike, valid_BT: Bools) -> Cells:
    """The cells of ``group[B]`` and ``valid[B, T]``."""
    trajectories, turns = valid_BT.shape
    code_B = group_codes(group, trajectories)
    cell_BT = code_B[:, None] * turns + np.arange(turns)[None, :]
    count = (int(code_B.max()) + 1) * turns if trajectories else 0
    sizes_C = np.bincount(cell_BT[valid_BT], minlength=count).astype(np.int64)
    return Cells(cell_BT.astype(np.int64), valid_BT, sizes_C)


def _valid_table(valid: ArrayLike) -> Bools:
    return np.asarray(as_table(as_bools(valid, "valid"), "valid") != 0)


def group_sizes(group: ArrayLike, valid: ArrayLike) -> Array:
    """N[B, T]: how many valid turns share the row's (group, turn).

    An invalid row is not counted, but is told the size of the cell it would have belonged to.
    Returns int64.

    >>> group_sizes(["a", "a", "b"], [[1, 1], [1, 0], [1, 1]]).tolist()
    [[2, 1], [2, 1], [1, 1]]
    """
    cells = cells_of(group, _valid_table(valid))
    return kind_of(valid).exact(cells.sizes_C[cells.cell_BT])


@dataclass(frozen=True)
class GroupStatistics:
    """Sizes of the groups, turn by turn. Empty cells are not counted."""

    histogram: tuple[dict[int, int], ...]
    """For each turn, {N_t: number of groups of that size}."""

    @property
    def mean_size(self) -> tuple[float, ...]:
        """Mean N_t of each turn, NaN for a turn nobody reached."""
        return tuple(_mean_of_histogram(sizes) for sizes in self.histogram)

    @property
    def singletons(self) -> tuple[int, ...]:
        """How many groups of one each turn has: their baseline is empty."""
        return tuple(sizes.get(1, 0) for sizes in self.histogram)

    def as_metrics(self) -> dict[str, float]:
        """Flat numbers for a tracker; turns count from 1 there, as in the paper's figures."""
        metrics: dict[str, float] = {}
        for turn, sizes in enumerate(self.histogram, start=1):
            metrics[f"group_size/turn_{turn}/mean"] = self.mean_size[turn - 1]
            metrics[f"group_size/turn_{turn}/min"] = float(min(sizes, default=0))
            metrics[f"group_size/turn_{turn}/singletons"] = float(sizes.get(1, 0))
        return metrics


def _mean_of_histogram(sizes: dict[int, int]) -> float:
    groups = sum(sizes.values())
    return sum(size * count for size, count in sizes.items()) / groups if groups else float("nan")


def group_statistics(group: ArrayLike, valid: ArrayLike) -> GroupStatistics:
    """Histogram of N_t for each turn.

    >>> group_statistics([0, 0, 1], [[1, 1], [1, 0], [1, 0]]).histogram
    ({1: 1, 2: 1}, {1: 1})
    """
    valid_BT = _valid_table(valid)
    sizes_GT = cells_of(group, valid_BT).sizes_C.reshape(-1, max(valid_BT.shape[1], 1))
    return GroupStatistics(
        tuple(_histogram(sizes_G) for sizes_G in sizes_GT.T[: valid_BT.shape[1]])
    )


def _histogram(sizes: npt.NDArray[np.int64]) -> dict[int, int]:
    values, counts = np.unique(sizes[sizes > 0], return_counts=True)
    return {int(value): int(count) for value, count in zip(values, counts, strict=True)}


def drop_degenerate_groups(
    returns: ArrayLike,
    group: ArrayLike,
    valid: ArrayLike,
    *,
    min_std: float = 1e-3,
    on: str = "any_turn",
) -> Array:
    """keep[B, T]: false where returns do not vary, std (ddof 0) < ``min_std``, or invalid.

    ``on="any_turn"`` judges each (group, turn) by itself. ``on="last_turn"`` judges a group once,
    on the return of each trajectory's last valid turn, and keeps or drops it whole, as the released
    code does; that discards prompts whose earlier turns had signal. A group of one does not vary
    and is dropped.

    >>> returns, valid = [[1.0, 2.0], [3.0, 2.0]], [[1, 1], [1, 1]]
    >>> drop_degenerate_groups(returns, [0, 0], valid).tolist()
    [[True, False], [True, False]]
    >>> drop_degenerate_groups(returns, [0, 0], valid, on="last_turn").tolist()
    [[False, False], [False, False]]
    """
    table_BT = as_table(returns, "returns")
    valid_BT = as_mask(valid, table_BT.shape)
    if on == "any_turn":
        keep_BT = _varies(table_BT, group, valid_BT, min_std)
    elif on == "last_turn":
        last_B1, alive_B1 = _last_valid(table_BT, valid_BT)
        keep_BT = _varies(last_B1, group, alive_B1, min_std) & valid_BT
    else:
        raise ValueError(f"on must be 'any_turn' or 'last_turn', not {on!r}")
    return kind_of(returns).exact(keep_BT)


def _varies(values_BT: Floats, group: ArrayLike, valid_BT: Bools, min_std: float) -> Bools:
    cells = cells_of(group, valid_BT)
    centred_V, sizes_V = cells.centred(values_BT)
    keep_BT = np.zeros(valid_BT.shape, dtype=bool)
    keep_BT[valid_BT] = np.sqrt(cells.squares(centred_V) / sizes_V) >= min_std
    return keep_BT


def _last_valid(values_BT: Floats, valid_BT: Bools) -> tuple[Floats, Bools]:
    """([B, 1] value of the last valid turn, [B, 1] whether there is one)."""
    trajectories, turns = valid_BT.shape
    if turns == 0:
        return np.zeros((trajectories, 1)), np.zeros((trajectories, 1), dtype=bool)
    last_B = turns - 1 - np.argmax(valid_BT[:, ::-1], axis=1)
    alive_B1 = np.asarray(valid_BT.any(axis=1, keepdims=True))
    return np.take_along_axis(values_BT, last_B[:, None], axis=1), alive_B1


def propagate_infrastructure(
    valid: ArrayLike, infrastructure: ArrayLike, *, gamma: float = 1.0
) -> Array:
    """valid[B, T] without the turns whose return is unknown because the service failed.

    A turn that ended in ``infrastructure`` has no reward, so with gamma > 0 the return of every
    earlier turn of its trajectory is unknown too: all of them become invalid. Later turns keep
    their own, known, return. With ``gamma=0`` a return is the turn's own reward and only the failed
    turn is lost.

    >>> propagate_infrastructure([[1, 1, 1, 1]], [[0, 0, 1, 0]]).tolist()
    [[False, False, False, True]]
    """
    valid_BT = _valid_table(valid)
    failed_BT = as_mask(infrastructure, valid_BT.shape, "infrastructure")
    if gamma != 0:
        failed_BT = np.logical_or.accumulate(failed_BT[:, ::-1], axis=1)[:, ::-1]
    return kind_of(valid).exact(valid_BT & ~failed_BT)
