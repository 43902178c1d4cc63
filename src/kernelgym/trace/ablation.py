"""What a kernel does to the tensors that it is given, seen from right before and right after it.

Three things are worth a record: a launch that changes no tensor at all, one that leaves in what it
changes what another tensor it was given held at that place, that is, a copy, and one that leaves a
multiple of that plus a constant, or all of it in another order. A copy in one call proves little
(a rectifier copies what is positive); the judge looks at several calls and at what torch ran
meanwhile.

Runs in the candidate's process. Turning launches into no-ops is `Recorder.suppress` with the hooks
of `kernelgym.trace.launches`. Not covered: kernels that pass pointers as integers, and graphs.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from kernelgym.sandbox.evidence import Event
from kernelgym.trace import likeness
from kernelgym.trace.recorder import Recorder

MAX_ARGUMENTS = 1000
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
            any(low <= torch.Tensor.data_ptr(tensor) < high for low, high in recorder.inputs)
            for tensor in tensors
        ]
        event = _effect(before, [_flat(tensor) for tensor in tensors], given)
    if event is not None:
        recorder.observed(event, function)


def rehearse(device: str = "cuda") -> None:
    """Let the device load what every watched launch takes, so that it need not during a call."""
    tensor = torch.ones(64, device=device)
    _effect([tensor], [tensor + 1], [False])
    likeness.copied(tensor, tensor.clone(), likeness.changed(tensor, tensor + 1))


def _tensors(values: Sequence[Any]) -> list[torch.Tensor]:
    """Tensors among the arguments, in tuples, and below descriptors and other wrappers."""
    found: dict[int, torch.Tensor] = {}
    pending = deque(values)
    for _ in range(MAX_ARGUMENTS):
        if not pending:
            break
        value = pending.popleft()
        if isinstance(value, torch.Tensor):
            found[id(value)] = value
        elif isinstance(value, tuple | list):
            pending.extend(value[:MAX_ARGUMENTS])
        elif type(value).__module__.startswith("triton.") and hasattr(value, "base"):
            pending.append(value.base)
    return [t for t in found.values() if t.layout is torch.strided and t.numel()]


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """Its elements, row-major; a view where that can be had."""
    return tensor.detach().contiguous().view(-1)


def _effect(
    before: Sequence[torch.Tensor], after: Sequence[torch.Tensor], given: Sequence[bool]
) -> Event | None:
    """``given``: which of the tensors are inputs of the call; copying those is no pretence."""
    changed = {
        index: likeness.changed(old, new)
        for index, (old, new) in enumerate(zip(before, after, strict=True))
    }
    changed = {i: likeness.written(w) for i, w in changed.items() if bool(w.any())}
    if not changed:
        return Event.IDLE
    sources = [t for which, t in enumerate(before) if which not in changed and not given[which]]
    places = [(after[index], where) for index, where in changed.items()]
    if all(any(likeness.copied(s, new, where) for s in sources) for new, where in places):
        return Event.COPY
    if after[0].is_cuda:  # sorting takes its time, and there the clock and the records have a say
        return None
    if all(any(_like(s, new, where) for s in sources) for new, where in places):
        return Event.RESCALED
    return None


def _like(source: torch.Tensor, target: torch.Tensor, where: torch.Tensor) -> bool:
    return likeness.copied(source, target, where) or likeness.rescaled(source, target, where)
