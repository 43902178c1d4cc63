"""Makes the candidate's module and brings it to the reference's state.

`convert` and `named_state` are what the judge does to the reference, too: both sides must agree on
device, dtype and names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from kernelgym.sandbox import tree
from kernelgym.sandbox.messages import Build
from kernelgym.sandbox.pool import view
from kernelgym.sandbox.seeding import seed_everything

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass
class Built:
    """A module that is ready to be called."""

    module: Any
    copied: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def convert(module: Any, device: str, precision: str) -> Any:
    """Move a module to its device and its floating-point values to the precision."""
    if isinstance(module, torch.nn.Module):
        return module.to(device=device, dtype=DTYPES[precision])
    return module


def named_state(module: Any) -> dict[str, torch.Tensor]:
    """Parameters and buffers by name, tied ones under each of their names."""
    if not isinstance(module, torch.nn.Module):
        return {}
    state: dict[str, torch.Tensor] = {}
    state.update(module.named_parameters(remove_duplicate=False))
    state.update(module.named_buffers(remove_duplicate=False))
    return state


def construct(entry_point: Any, request: Build, state_pool: torch.Tensor, device: str) -> Built:
    """Build ``entry_point(*arguments)``, convert it, copy the reference's state into it."""
    tensors = [view(state_pool, layout).clone() for layout in request.argument_tensors]
    arguments = tree.unflatten(request.arguments, tensors)
    seed_everything(request.seed)
    built = Built(convert(entry_point(*arguments), device, request.precision))
    reference = {name: view(state_pool, layout) for name, layout in request.state.items()}
    _copy_state(built, reference)
    return built


def restore_buffers(module: Any, request: Build, state_pool: torch.Tensor) -> list[str]:
    """Bring buffers back to what `construct` gave them; the names of those that were.

    Training calls have moved running statistics since, on each side by other inputs.
    """
    own, restored = named_state(module), []
    with torch.no_grad():
        for name, layout in request.state.items():
            target = own.get(name)
            if target is None or isinstance(target, torch.nn.Parameter):
                continue
            if not _copy(target, view(state_pool, layout)):
                restored.append(name)
    return restored


def _copy_state(built: Built, reference: Mapping[str, torch.Tensor]) -> None:
    own = named_state(built.module)
    with torch.no_grad():
        for name, value in reference.items():
            target = own.get(name)
            if target is None or torch.nn.parameter.is_lazy(target):
                built.missing.append(name)
                continue
            refusal = _copy(target, value)
            if refusal:
                built.missing.append(name)
                built.notes.append(f"state {name[:100]!r} was not copied: {refusal}")
            else:
                built.copied.append(name)


def _copy(target: torch.Tensor, value: torch.Tensor) -> str:
    """Copy in place; empty when that went well, else why not."""
    if target.shape != value.shape:
        return f"its shape is {tuple(target.shape)}, the reference's {tuple(value.shape)}"
    try:
        target.copy_(value)
    except RuntimeError as error:  # an expanded or otherwise unwritable tensor
        return str(error).partition("\n")[0][:200]
    return ""
