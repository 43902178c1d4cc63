"""Whether one tensor is another one in disguise: copied, rescaled, or put in another order. Pure.

A kernel that leaves in its output what another tensor held, times a factor, plus a constant, in any
order, has not computed what a task asks for; something else has. Both sides use this: the harness
on the tensors of a launch, the judge to see whether a task's own inputs would explain its answer.

Not covered: factors that differ from row to row, sums of two disguises, and anything cleverer.
"""

from __future__ import annotations

import torch

NEAR = 1e-2
"""Relative to root mean square or standard deviation: what a comparison lets pass anyway."""
MOSTLY = 0.5
"""Part of a tensor that has to have changed before its values in any order are looked at."""
DENSE = 0.9
"""Part of a stretch that has to have changed for all of it to count as written."""
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
LEAST = 16
"""Elements from which on a straight line through them says something."""


def changed(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """Which elements of a flat tensor have other bits than before."""
    size = old.element_size()
    if size in _BITS:
        return old.view(_BITS[size]) != new.view(_BITS[size])
    left, right = old.view(torch.uint8).view(-1, size), new.view(torch.uint8).view(-1, size)
    return (left != right).any(dim=1)


def written(where: torch.Tensor) -> torch.Tensor:
    """What a launch seems to have written: a stretch in which nearly all has changed, else all.

    Changes that are scattered depend on values: a maximum in place copies what is larger, and
    copies nothing for all that.
    """
    places = where.nonzero().flatten()
    if not len(places):
        return where
    first, last = int(places[0]), int(places[-1]) + 1
    stretch = torch.zeros_like(where)
    stretch[first:last] = True
    return stretch if len(places) > DENSE * (last - first) else torch.ones_like(where)


def copied(source: torch.Tensor, target: torch.Tensor, where: torch.Tensor) -> bool:
    """Whether ``target`` holds there what ``source`` held at the same places."""
    if source.numel() != target.numel():
        return False
    if not bool(where.all()):
        source, target = source[where], target[where]
    if not (source.is_floating_point() and target.is_floating_point()):
        return source.dtype == target.dtype and torch.equal(source, target)
    source, target = source.float(), target.float()
    scale = float(source.square().mean().sqrt())
    return bool((source - target).abs().max() <= NEAR * scale)


def rescaled(source: torch.Tensor, target: torch.Tensor, where: torch.Tensor) -> bool:
    """Whether it is, there, a multiple of the source plus a constant; of all of it in any order."""
    if source.numel() != target.numel():
        return False
    if not (source.is_floating_point() and target.is_floating_point()):
        return False
    if _on_a_line(source[where], target[where]):
        return True
    mostly = bool(where.float().mean() > MOSTLY)
    return mostly and _on_a_line(source.sort().values, target.sort().values, turned=True)


def _on_a_line(source: torch.Tensor, target: torch.Tensor, *, turned: bool = False) -> bool:
    """``turned``: a negative factor turns the order round."""
    if len(target) < LEAST:
        return False
    x, y = source.double(), target.double()
    x, y = x - x.mean(), y - y.mean()
    spread, wanted = float(x.square().mean()), float(y.square().mean())
    if not (0 < spread < float("inf") and 0 < wanted < float("inf")):
        return False
    orders = (x, x.flip(0)) if turned else (x,)
    return any(
        bool((y - (each @ y) / (each @ each) * each).abs().max() <= NEAR * wanted**0.5)
        for each in orders
    )
