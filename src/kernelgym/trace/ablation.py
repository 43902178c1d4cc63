"""What a kernel does to the tensors that it is given, seen from right before and right after it.

Two things are worth a record: a launch that changes no tensor at all, and one that leaves in every
tensor it changes what another tensor it was given holds, that is, a copy. A copy in one call
proves little (a rectifier copies what is positive); the judge looks at several calls and at what
torch ran meanwhile.

Runs in the candidate's process. Turning launches into no-ops is `Recorder.suppress` with the hooks
of `kernelgym.trace.launches`. Not covered: kernels that pass pointers as integers, copies that
convert, reorder or take several launches, and graphs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from kernelgym.sandbox.evidence import Event
from kernelgym.trace.recorder import Recorder

NEAR = 1e-2
"""A copy may differ by this part of the root mean square: what a comparison lets pass anyway."""
MAX_WATCHED_BYTES = 1 << 30
"""A launch on more memory than this is not watched: its tensors are kept twice meanwhile."""


@contextlib.contextmanager
def watched(
    recorder: Recorder, function: object, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[None]:
    """Around one launch; does nothing unless the recorder watches and the kernel is own."""
    if not (recorder.watching and recorder.own.has(getattr(function, "__code__", None))):
        yield
        return
    tensors = _tensors([*args, *kwargs.values()])
    if sum(tensor.nbytes for tensor in tensors) > MAX_WATCHED_BYTES:
        yield
        return
    with torch._C.DisableTorchFunction(), recorder.paused():
        before = [_flat(tensor).clone() for tensor in tensors]
    yield
    with torch._C.DisableTorchFunction(), recorder.paused():
        given = [
            any(low <= tensor.data_ptr() < high for low, high in recorder.inputs)
            for tensor in tensors
        ]
        event = _effect(before, [_flat(tensor) for tensor in tensors], given)
    if event is not None:
        recorder.observed(event, function)


def rehearse(device: str = "cuda") -> None:
    """Let the device load what every watched launch takes, so that it need not during a call."""
    tensor = torch.ones(64, device=device)
    _same(tensor, tensor.clone())


def _tensors(values: Sequence[Any]) -> list[torch.Tensor]:
    found = {id(value): value for value in values if isinstance(value, torch.Tensor)}
    return [t for t in found.values() if t.layout is torch.strided and t.numel()]


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """Its elements, row-major; a view where that can be had."""
    return tensor.detach().contiguous().view(-1)


def _same(left: torch.Tensor, right: torch.Tensor) -> bool:
    return torch.equal(left.view(torch.uint8), right.view(torch.uint8))


def _copied(source: torch.Tensor, target: torch.Tensor) -> bool:
    """Whether ``target`` holds what ``source`` held, as far as a comparison would tell."""
    if source.numel() != target.numel():
        return False
    if not (source.is_floating_point() and target.is_floating_point()):
        return source.dtype == target.dtype and torch.equal(source, target)
    source, target = source.float(), target.float()
    scale = float(source.square().mean().sqrt())
    return bool((source - target).abs().max() <= NEAR * scale)


def _effect(
    before: Sequence[torch.Tensor], after: Sequence[torch.Tensor], given: Sequence[bool]
) -> Event | None:
    """``given``: which of the tensors are inputs of the call; copying those is no pretence."""
    changed = [
        index
        for index, (old, new) in enumerate(zip(before, after, strict=True))
        if not _same(old, new)
    ]
    if not changed:
        return Event.IDLE
    copies = all(
        any(
            _copied(other, after[index])
            for which, other in enumerate(before)
            if which not in changed and not given[which]
        )
        for index in changed
    )
    return Event.COPY if copies else None
