"""Filters put together: which rows survive all of them, and which filter dropped each of the
others.

A filter is a name and a keep mask; all masks have one shape, [R] or [B, T]. How the verdict meets
the baselines ("after" or "before") is the ``filter_order`` of :func:`drkernel.algo.advantages`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from drkernel.algo.arrays import Array, ArrayLike, Bools, as_bools, kind_of


@dataclass(frozen=True)
class FilterDecision:
    """The joint verdict of several filters."""

    keep: Array
    """True where every filter keeps; the kind of the masks given."""
    reason: npt.NDArray[np.str_]
    """The first filter, in the order given, that dropped the row; "" where none did."""
    dropped_by: Mapping[str, Bools] = field(repr=False)
    """Each filter's own verdict: the rows it would drop alone."""
    considered: Bools = field(repr=False)
    """The rows that were there to be filtered (``valid``)."""

    @property
    def survivors(self) -> int:
        """Rows that every filter keeps. 0 means no optimizer step."""
        return int(as_bools(self.keep, "keep").sum())

    def reasons_of(self, *index: int) -> tuple[str, ...]:
        """Every filter that drops the row at ``index``, not only the first."""
        return tuple(name for name, dropped in self.dropped_by.items() if dropped[index])

    def as_metrics(self) -> dict[str, float]:
        """Shares of the considered rows: kept, dropped by each filter, and by it alone."""
        rows = max(int(self.considered.sum()), 1)
        verdicts = np.array(list(self.dropped_by.values()))
        metrics = {"filter/kept": self.survivors / rows}
        for name, dropped in self.dropped_by.items():
            metrics[f"filter/{name}/dropped"] = float(dropped.sum() / rows)
            metrics[f"filter/{name}/dropped_alone"] = float(
                (dropped & (verdicts.sum(axis=0) == 1)).sum() / rows
            )
        return metrics


def combine_filters(keeps: Mapping[str, ArrayLike], valid: ArrayLike = None) -> FilterDecision:
    """Join named keep masks; rows outside ``valid`` are neither kept nor counted.

    Raises:
        ValueError: without a mask, or if the shapes differ.

    >>> decision = combine_filters({"mismatch": [1, 0, 0], "profiling": [1, 1, 0]})
    >>> decision.keep.tolist(), decision.reason.tolist(), decision.reasons_of(2)
    ([True, False, False], ['', 'mismatch', 'mismatch'], ('mismatch', 'profiling'))
    """
    masks = {name: as_bools(keep, name) for name, keep in keeps.items()}
    if not masks and valid is None:
        raise ValueError("combine_filters needs at least one keep mask, or valid")
    given = as_bools(valid, "valid") if valid is not None else None
    shapes = {mask.shape for mask in masks.values()} | (
        {given.shape} if given is not None else set()
    )
    if len(shapes) > 1:
        raise ValueError(f"all masks must share one shape, not {sorted(shapes)}")
    considered = given if given is not None else np.ones(shapes.pop(), dtype=bool)
    dropped_by = {name: considered & ~mask for name, mask in masks.items()}
    longest = max((len(name) for name in masks), default=1)
    reason = np.full(considered.shape, "", dtype=f"<U{max(longest, 1)}")
    keep = considered.copy()
    for name, dropped in dropped_by.items():
        reason[dropped & keep] = name
        keep &= ~dropped
    return FilterDecision(
        kind_of(valid, *keeps.values()).exact(keep), reason, dropped_by, considered
    )
