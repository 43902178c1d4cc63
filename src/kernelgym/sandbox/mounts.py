"""The file system of a jail: everything read-only, private directories covered, a small /dev.

Order matters. What must stay visible below a covered directory (the interpreter may live in $HOME)
is cloned first, while its path still leads somewhere; then the whole tree becomes read-only in one
call; then the covers go on, outermost first, and the clones come back through them.

Without a mount namespace nothing here runs. Not covered: what is readable outside the covered
directories stays readable to the jail as far as its user may read it.
"""

from __future__ import annotations

import contextlib
import glob
import os
import stat

from kernelgym.sandbox import linux
from kernelgym.sandbox.jail_spec import JailSpec, View

_NODES = ("null", "zero", "full", "random", "urandom")
_GPU_NODES = ("nvidia*",)
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}
_READ_ONLY_PROC = ("sys", "irq", "bus", "fs", "sysrq-trigger")
_INODES = 200_000
"""Most files in a private tmpfs; an inode costs kernel memory."""
_COVER_BYTES = 1 << 20
"""Of a cover: it holds nothing but the way to what shows through it."""
_LOCKED = linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV
_TMP = "/tmp"


def build(spec: JailSpec, view: View, *, polled: bool) -> None:
    """Build it in the calling process's mount namespace.

    ``polled``: the keeper has to see memory of processes that it may not trace.
    """
    if "mount_namespace" in spec.without:
        return
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
    covers = "hidden_directories" not in spec.without
    nodes = _clone_nodes(gpu=spec.gpu) if "private_dev" not in spec.without else {}
    shown = _clone_shown(view) if covers else {}
    if "read_only_root" not in spec.without:
        linux.mount_setattr("/", _LOCKED if nodes else _LOCKED & ~linux.MOUNT_ATTR_NODEV)
    if "private_proc" not in spec.without:
        _mount_proc(polled=polled)
    if nodes:
        _mount_dev(nodes, spec.tmp_bytes)
    if covers:
        _cover(view, shown, spec)
    elif "private_tmp" not in spec.without:
        _tmpfs(_TMP, spec.tmp_bytes, 0o1777)


def _tmpfs(path: str, size: int, mode: int) -> None:
    flags = linux.MS_NOSUID | linux.MS_NODEV
    options = f"size={size},mode={mode:o},nr_inodes={_INODES}"
    linux.mount("tmpfs", path, "tmpfs", flags, options)


def _clone_nodes(*, gpu: bool) -> dict[str, int]:
    """Device nodes as mounts of their own, taken while /dev still allows devices."""
    names = [name for name in _NODES if os.path.exists(f"/dev/{name}")]
    if gpu:
        names += [
            path.removeprefix("/dev/") for kind in _GPU_NODES for path in glob.glob(f"/dev/{kind}")
        ]
    return {name: linux.open_tree(f"/dev/{name}", recursive=False) for name in names}


def _clone_shown(view: View) -> dict[str, int]:
    clones: dict[str, int] = {}
    for path in view.shown:
        with contextlib.suppress(PermissionError, FileNotFoundError):
            clones[path] = linux.open_tree(path)
            linux.mount_setattr(clones[path], _LOCKED)
    return clones


def _mount_proc(*, polled: bool) -> None:
    flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
    linux.mount("proc", "/proc", "proc", flags, "" if polled else "hidepid=2")
    for name in _READ_ONLY_PROC:
        path = f"/proc/{name}"
        if os.path.exists(path):
            clone = linux.open_tree(path)
            linux.mount_setattr(clone, _LOCKED)
            linux.move_mount(clone, path)
            os.close(clone)


def _mount_dev(nodes: dict[str, int], shm_bytes: int) -> None:
    linux.mount("tmpfs", "/dev", "tmpfs", linux.MS_NOSUID, "size=64k,mode=755,nr_inodes=128")
    for name, clone in nodes.items():
        path = f"/dev/{name}"
        if stat.S_ISDIR(os.fstat(clone).st_mode):
            os.mkdir(path)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        linux.move_mount(clone, path)
        os.close(clone)
    for name, target in _DEVICE_LINKS.items():
        os.symlink(target, f"/dev/{name}")
    os.mkdir("/dev/shm", 0o755)
    linux.mount_setattr("/dev", linux.MOUNT_ATTR_RDONLY, recursive=False)
    _tmpfs("/dev/shm", shm_bytes, 0o1777)


def _cover(view: View, shown: dict[str, int], spec: JailSpec) -> None:
    """Put the covers on, outermost first; what is to be shown comes back through them."""
    locked = [path for path, show in view.order if not show and path != _TMP]
    for path, show in view.order:
        if path == _TMP:
            if "private_tmp" not in spec.without:
                _tmpfs(path, spec.tmp_bytes, 0o1777)
        elif not show:
            _tmpfs(path, _COVER_BYTES, 0o755)
        elif path in shown:
            os.makedirs(path, mode=0o755, exist_ok=True)
            linux.move_mount(shown[path], path)
            os.close(shown[path])
    for path in locked:
        linux.mount_setattr(path, linux.MOUNT_ATTR_RDONLY, recursive=False)
