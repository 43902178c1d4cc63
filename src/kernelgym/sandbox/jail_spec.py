"""What a jail is asked to be, and what it turned out to be: plain data, no behaviour.

Protections have names. A jail reports by name which of its level's it could not give, and each can
be switched off by name (`JailSpec.without`), so that one that breaks a driver can be found.
"""

from __future__ import annotations

from dataclasses import dataclass, field

ALWAYS = ("clean_environment", "closed_descriptors")
"""In force at every level, ``none`` included."""

CONFINEMENT = (
    "own_uid",
    "no_capabilities",
    "no_new_privs",
    "seccomp",
    "not_dumpable",
    "limits",
    "memory_cgroup",
    "pids_cgroup",
)
"""What levels L0 and L1 share."""

NAMESPACES = (
    "mount_namespace",
    "pid_namespace",
    "net_namespace",
    "ipc_namespace",
    "uts_namespace",
    "cgroup_namespace",
    "read_only_root",
    "hidden_directories",
    "private_tmp",
    "private_dev",
    "private_proc",
)
"""What only L1 has."""

PROTECTIONS: dict[str, tuple[str, ...]] = {
    "none": (),
    "L0": CONFINEMENT,
    "L1": NAMESPACES + CONFINEMENT,
}
"""Protections of each level, by name; those of `ALWAYS` come on top."""

OPTIONAL = frozenset(
    {"own_uid", "memory_cgroup", "pids_cgroup", "cgroup_namespace", "not_dumpable", "limits"}
)
"""May be missing without the level being lost. At L0 as root ``own_uid`` may not: a root process
writes wherever it likes, capabilities or not, when no mount stops it."""


IMPLIED = {
    "mount_namespace": (
        "read_only_root",
        "hidden_directories",
        "private_tmp",
        "private_dev",
        "private_proc",
    ),
    "pid_namespace": ("private_proc",),
    "no_new_privs": ("seccomp",),
}
"""What cannot be had without another protection."""


@dataclass(frozen=True)
class JailSpec:
    """What is asked for. ``dataclasses.asdict`` and ``JailSpec(**data)`` are its JSON form."""

    level: str
    """``L1`` (namespaces), ``L0`` (without them) or ``none``."""
    memory_bytes: int
    """Most memory of the whole tree: private, shared, tmpfs and page cache it causes."""
    processes: int = 256
    """Most processes and threads of the tree."""
    tmp_bytes: int = 1 << 30
    """Size of the private /tmp and /dev/shm, and of the largest file."""
    uid: int | None = None
    """User to become; None: one that nobody else has (as root), else the caller's own."""
    hidden: tuple[str, ...] = ()
    """Directories to cover: tasks, references, results, the checkout."""
    readable: tuple[str, ...] = ()
    """Directories that stay readable inside covered ones."""
    gpu: bool = False
    """Keep /dev/nvidia* and the driver's library path."""
    seals: bool = False
    """Nodes of GPUs open no more once the guest has asked for it (`kernelgym.sandbox.sealing`): for
    guests that make a context before they run code that nobody trusts."""
    trusted: bool = False
    """Runs our own code (the judge): it may make anonymous files even where memory is only polled.
    Nothing else changes."""
    processors: tuple[int, ...] = ()
    """Numbers of those it stays on; none named: all. Where they cannot be had, it runs anywhere."""
    fallback: bool = False
    """Take a lower level when the one asked for cannot be had."""
    without: tuple[str, ...] = ()
    """Protections to leave out, by name: for finding what breaks a driver."""

    def __post_init__(self) -> None:
        """Refuse what would silently confine less than it says."""
        for name in ("hidden", "readable", "processors", "without"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.level not in PROTECTIONS:
            raise ValueError(f"jail level {self.level!r} is none of {', '.join(PROTECTIONS)}")
        implied = [name for cause in self.without for name in IMPLIED.get(cause, ())]
        object.__setattr__(self, "without", tuple(dict.fromkeys((*self.without, *implied))))
        unknown = set(self.without) - set(NAMESPACES + CONFINEMENT)
        if unknown:
            raise ValueError(f"unknown protection {sorted(unknown)[0]!r}")
        if self.memory_bytes <= 0 or self.processes <= 0 or self.tmp_bytes <= 0:
            raise ValueError("limits of a jail must be positive")


@dataclass
class Launched:
    """A jailed process that is running (its ``main`` has just been entered)."""

    pid: int
    """The keeper: at L1 init of the pid namespace, whose death is the death of the tree."""
    pidfd: int
    """Descriptor of that process; readable once the tree is gone."""
    status_fd: int
    """Read end: one JSON line ``{"status": raw wait status of main, ...}``, then end of file."""
    level: str
    """Level that was reached."""
    missing: tuple[str, ...]
    """Protections of that level that are not in force."""
    cgroup: str | None
    """Control groups of the tree (paths joined by ``:``), to be removed by `end`."""
    ready_ms: float
    """From the call of `launch` to the entry of ``main``."""


@dataclass(frozen=True)
class Ended:
    """How a jailed process ended."""

    status: int | None
    """Raw wait status of the main process; None when it was killed along with its keeper."""
    oom_killed: bool
    """The memory limit killed something in it."""
    peak_bytes: int | None
    """Most memory that it held at once, where that is known."""
    survivors: int
    """Processes that could not be proved dead; 0 is the proof."""


@dataclass(frozen=True)
class View:
    """How the file system looks from inside: directories to cover and to show again."""

    covered: tuple[str, ...] = ()
    """Directories with an empty tmpfs over them."""
    shown: tuple[str, ...] = ()
    """Directories below covered ones that stay readable."""
    private: tuple[str, ...] = ()
    """Needed directories that another user may not read: they rule out ``own_uid``."""
    order: tuple[tuple[str, bool], ...] = field(default=(), repr=False)
    """Both, outermost first; True = show."""
