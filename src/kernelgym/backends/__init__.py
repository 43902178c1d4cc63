"""Kernel languages: how a candidate is loaded, how its kernels are recognised, what is its own.

A registry by name: ``triton`` and ``torch`` come with the package, others through the entry-point
group ``kernelgym.backends`` (each entry an instance of `kernelgym.backends.base.Backend`).
Importing this package imports no torch.
"""

from __future__ import annotations

import difflib
import importlib
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from kernelgym.backends.base import Backend
from kernelgym.errors import ServiceError, UsageError

ENTRY_POINT_GROUP = "kernelgym.backends"
_BUILT_IN = {
    "torch": "kernelgym.backends.torch:BACKEND",
    "triton": "kernelgym.backends.triton:BACKEND",
}

__all__ = ["ENTRY_POINT_GROUP", "Backend", "get", "load_all", "names"]


@cache
def _known() -> dict[str, EntryPoint]:
    known = {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}
    for name, path in _BUILT_IN.items():
        known[name] = EntryPoint(name, path, ENTRY_POINT_GROUP)
    return known


def names() -> tuple[str, ...]:
    """Names of all installed backends."""
    return tuple(sorted(_known()))


@cache
def get(name: str) -> Backend:
    """The backend of that name; raises `UsageError` when there is none."""
    if name not in _known():
        near = difflib.get_close_matches(name, names(), 1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise UsageError(
            f"unknown backend {name!r}; known: {', '.join(names())}.{meant}",
            hint=f"--backend {near[0] if near else 'triton'}",
        )
    entry = _known()[name]
    module, _, attribute = entry.value.partition(":")
    backend = getattr(importlib.import_module(module), attribute)
    if not isinstance(backend, Backend):
        raise ServiceError(f"backend {name!r}: {entry.value} is not a kernelgym Backend")
    return backend


def load_all() -> None:
    """Import every backend, so that nothing is left to be read from disk."""
    for name in names():
        get(name)
