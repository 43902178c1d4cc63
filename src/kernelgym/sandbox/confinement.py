"""What the jailed process gives up, in order, before any code of a guest runs in it.

Runs in the process itself, after the keeper has built namespaces and mounts (if any). The last step
is the system call filter: nothing that it refuses is needed afterwards.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from kernelgym.errors import SandboxError
from kernelgym.sandbox import capabilities, linux, memory_watch, process, reaping, seccomp
from kernelgym.sandbox.jail_spec import OPTIONAL, PROTECTIONS, JailSpec, View
from kernelgym.sandbox.namespaces import NOBODY

if TYPE_CHECKING:
    from kernelgym.sandbox.keeper import Birth

_SHARED_WRITABLE = ("/tmp", "/var/tmp", "/dev/shm")
_PRIVATE_TMP = "/tmp"


def choose_uid(way: str, spec: JailSpec, view: View | None) -> int | None:
    """User for the main process; None: the one it has. `FIRST_OWN_UID` stands for one to make up.

    A uid that no other process has keeps jails apart even where nothing else does, and makes
    RLIMIT_NPROC count this jail alone.
    """
    if way in ("none", "user") or "own_uid" in spec.without:
        return None
    if not (capabilities.has("SETUID") and capabilities.has("SETGID")):
        return None
    if not _interpreter_stays_readable(spec, view):
        return None
    if spec.uid is not None:
        return spec.uid
    return reaping.FIRST_OWN_UID if _is_mapped(reaping.FIRST_OWN_UID) else NOBODY


def made_up_uid() -> int:
    """A uid that no live process has, for the keeper that asks: its pid, as the host counts."""
    return reaping.FIRST_OWN_UID + int(os.readlink("/proc/self"))


def _interpreter_stays_readable(spec: JailSpec, view: View | None) -> bool:
    """Whether any user can reach and read the standard library (a cover opens the way to it)."""
    if view is not None and not {"hidden_directories", "mount_namespace"} & set(spec.without):
        return not view.private
    path = Path(os.path.realpath(os.__file__))
    if not path.stat().st_mode & 0o004:
        return False
    return all(parent.stat().st_mode & 0o001 for parent in path.parents)


@functools.cache
def _is_mapped(uid: int) -> bool:
    """Whether a uid exists in our user namespace (in a container few may)."""
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        first, _, count = map(int, line.split())
        if first <= uid < first + count:
            return True
    return False


def confine(birth: Birth) -> list[str]:
    """Confine the calling process; the level's protections that are not in force, by name."""
    spec = birth.way.spec
    home = birth.work or _PRIVATE_TMP
    if birth.way.name != "root":  # there the caller has put the keeper in, and we are its child
        birth.group.join()
    process.close_all_but([*birth.keep, birth.report_fd])
    process.silence_standard_streams()
    process.be_first_to_go()
    process.clean_environment(home, gpu=spec.gpu)
    os.chdir(home)
    if spec.level == "none":
        return []
    is_alone = reaping.is_own(birth.uid) or birth.way.name == "user"
    if birth.has("limits"):
        process.limit_resources(spec.tmp_bytes, spec.processes if is_alone else None)
    _change_user(birth)
    linux.prctl(linux.PR_SET_PDEATHSIG, 9)  # after the change of user, which clears it
    if birth.has("no_new_privs"):
        linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    polled = memory_watch.is_polled(spec, birth.missing)
    if polled and birth.way.name == "user":
        birth.missing.add("not_dumpable")  # or the keeper, an ordinary user, could not look
    linux.prctl(linux.PR_SET_DUMPABLE, 0 if birth.has("not_dumpable") else 1)
    _check_interpreter()
    missing = _missing(birth)
    if birth.has("seccomp"):
        seccomp.install(filter_of(spec, alone=is_alone, polled=polled))
    return missing


def filter_of(spec: JailSpec, *, alone: bool, polled: bool) -> bytes:
    """The system call filter for a process of this jail."""
    in_namespaces = spec.level == "L1"
    return seccomp.code_of(
        in_namespaces=in_namespaces,
        alone=alone,
        own_pid=0 if alone or in_namespaces else os.getpid(),
        polled=polled,
        memfd=spec.gpu or spec.trusted,
        listens=spec.gpu,
    )


def _change_user(birth: Birth) -> None:
    if birth.has("no_capabilities") and os.getppid() != 1:  # init has done it for its child
        capabilities.clear_inheritance()
    if birth.uid is not None:
        os.setgroups([])
        os.setresgid(birth.uid, birth.uid, birth.uid)
        os.setresuid(birth.uid, birth.uid, birth.uid)
    if birth.has("no_capabilities"):
        capabilities.set_exactly(())


def _check_interpreter() -> None:
    try:
        with open(os.__file__, "rb"):
            pass
    except OSError as error:
        raise SandboxError(f"the jail cannot read its own interpreter: {error}") from error


def _missing(birth: Birth) -> list[str]:
    """What is missing; refuses when the level would be one in name only."""
    spec = birth.way.spec
    missing = [name for name in PROTECTIONS[spec.level] if not birth.has(name)]
    fatal = [name for name in missing if name not in OPTIONAL]
    if spec.level == "L0" and os.geteuid() == 0 and not birth.has("own_uid"):
        fatal.append("own_uid")
    fatal = [name for name in fatal if name not in spec.without]
    if fatal:
        raise SandboxError(f"level {spec.level} without {', '.join(fatal)}")
    return missing


def remove_leavings(work: str, uid: int | None) -> None:
    """Remove the working directory and, where the guest's user was made up for it, all its files.

    Done with the guest's own rights and never following a link: what it left cannot turn the
    clean-up against the host.
    """
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        capabilities.set_exactly(())
    shutil.rmtree(work, ignore_errors=True)
    for directory in _SHARED_WRITABLE if reaping.is_own(uid) else ():
        with contextlib.suppress(OSError), os.scandir(directory) as entries:
            for entry in entries:
                if entry.stat(follow_symlinks=False).st_uid == uid:
                    _remove(entry.path)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            os.unlink(path)
