"""Which directories a jail covers, and which it shows again: a plan, made before the fork.

Covered by default: everything where people or services keep things (home directories, /run, /mnt
and the like). Shown again, read-only: the interpreter, installed packages, this package, the
compiler with its headers, and what the caller names.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import shutil
import stat
import sys
import sysconfig
from pathlib import Path

from kernelgym.errors import SandboxError
from kernelgym.sandbox.jail_spec import JailSpec, View

_TMP = "/tmp"
_COVERED = (_TMP, "/var/tmp", "/root", "/home", "/run", "/mnt", "/media", "/srv", "/sys/fs/cgroup")
_MARKS = ("site-packages", "dist-packages", "lib-dynload")
_NEVER = frozenset({"/", "/usr", "/lib", "/lib64", "/bin", "/etc", "/proc", "/sys", "/dev"})
_PACKAGE = str(Path(__file__).resolve().parents[1])


def plan_view(spec: JailSpec) -> View:
    """The plan for one jail. What exists is looked up anew: directories come and go."""
    needed = needed_directories(tuple(sys.path), gpu=spec.gpu)
    return plan(spec.hidden, spec.readable, needed)


@functools.lru_cache(maxsize=8)
def needed_directories(search_path: tuple[str, ...], *, gpu: bool) -> frozenset[str]:
    """Directories without which nothing would run; the same for as long as we live."""
    libraries = _libraries() if gpu else []
    return frozenset(_existing([*interpreter(search_path), *compiler(), *libraries]))


def plan(hidden: tuple[str, ...], readable: tuple[str, ...], needed: frozenset[str]) -> View:
    """Covers and what shows through them."""
    shown = {*needed, *_existing(readable)}
    asked = _existing(hidden)
    covered = {*_existing([*_COVERED, *homes()]), *asked}
    covered |= {path for directory in shown for path in _closed_ancestors(directory)}
    forbidden = [path for path in covered & _NEVER if path in asked]
    if forbidden:
        raise SandboxError(f"{forbidden[0]} cannot be covered: nothing would run without it")
    covered -= _NEVER
    order = _order(covered, shown)
    private = tuple(sorted(path for path in needed if not _open_to_all(path)))
    return View(
        covered=tuple(path for path, show in order if not show),
        shown=tuple(path for path, show in order if show),
        private=private,
        order=order,
    )


def _order(covered: set[str], shown: set[str]) -> tuple[tuple[str, bool], ...]:
    """Outermost first, without what changes nothing (a cover below a cover)."""
    order: list[tuple[str, bool]] = []
    state: dict[str, bool] = {}
    for path in sorted(covered | shown, key=lambda path: (path.count("/"), path)):
        show = path not in covered  # where both are asked for, covering wins
        above = [state[str(parent)] for parent in Path(path).parents if str(parent) in state]
        if show != (above[0] if above else True):
            state[path] = show
            order.append((path, show))
    return tuple(order)


def interpreter(search_path: tuple[str, ...]) -> list[str]:
    """Directories without which an import fails."""
    prefixes = {sys.base_prefix, sys.base_exec_prefix, sys.prefix, sys.exec_prefix}
    paths = [path for path in search_path if os.path.isabs(path) and _holds_packages(path)]
    return [*prefixes, *paths, _PACKAGE]


def _holds_packages(path: str) -> bool:
    if os.path.basename(path) in _MARKS:
        return True
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(path))
    except OSError:
        return False


def compiler() -> list[str]:
    """Where the C compiler and Python's headers are; only matters when that is covered."""
    found = [sysconfig.get_path("include")]
    for name in (os.environ.get("CC", "gcc"), "gcc", "cc"):
        path = shutil.which(name)
        if path:
            found.append(str(Path(os.path.realpath(path)).parent.parent))
    return [path for path in found if path not in _NEVER]


def _libraries() -> list[str]:
    return [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]


def homes() -> list[str]:
    """Home directories of the user: what the environment says and what the system says."""
    found = [os.environ.get("HOME", "")]
    with contextlib.suppress(KeyError):
        found.append(pwd.getpwuid(os.getuid()).pw_dir)
    return [path for path in found if os.path.isabs(path)]


def _existing(paths: list[str] | tuple[str, ...]) -> set[str]:
    resolved = {os.path.realpath(path) for path in paths if path}
    return {path for path in resolved if os.path.isdir(path)}


def _closed_ancestors(path: str) -> list[str]:
    """Directories above ``path`` that another user may not pass: a cover opens the way."""
    return [
        str(parent) for parent in Path(path).parents if not os.stat(parent).st_mode & stat.S_IXOTH
    ]


def _open_to_all(path: str) -> bool:
    wanted = stat.S_IROTH | stat.S_IXOTH
    return os.stat(path).st_mode & wanted == wanted
