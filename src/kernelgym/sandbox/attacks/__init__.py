"""Attacks on a jail, from inside: each returns what it got away with, in words; [] = stopped.

`kernelgym.sandbox.selftest` runs them at a worker's start. The attack suite (``tests/jail``) runs
them at every level, and without a jail, where they must succeed: an attack that cannot succeed
proves nothing. They undo what they do, and stay on this machine: no packet leaves it.

Not covered: attacks on the kernel itself, side channels, anything that needs a GPU.
"""

from __future__ import annotations

from collections.abc import Callable

from kernelgym.sandbox.attacks import files, inside, kernel, network, processes
from kernelgym.sandbox.attacks.target import Target

__all__ = ["ATTACKS", "Target"]

ATTACKS: dict[str, Callable[[Target], list[str]]] = {
    "write_outside": files.write_outside,
    "read_hidden": files.read_hidden,
    "devices": files.devices,
    "leave_cgroup": files.leave_cgroup,
    "see_processes": processes.see_processes,
    "signal_outside": processes.signal_outside,
    "inspect_outside": processes.inspect_outside,
    "trace": processes.trace,
    "sockets": network.sockets,
    "unix_sockets": network.unix_sockets,
    "namespaces": kernel.namespaces,
    "change_mounts": kernel.change_mounts,
    "privileges": kernel.privileges,
    "refused_calls": kernel.refused_calls,
    "environment": inside.environment,
    "descriptors": inside.descriptors,
    "raise_limits": inside.raise_limits,
}
"""Every attack by name."""
