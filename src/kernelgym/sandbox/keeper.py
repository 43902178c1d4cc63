"""The keeper: forks the jailed process, waits for it, kills what is left, says how it ended.

At L1 it is pid 1 of the pid namespace and keeps nothing but the right to kill in there (and, where
memory has to be polled, to look). At L0 and ``none`` it is a subreaper in the caller's namespaces.
It holds nothing of value: no descriptor but the status pipe, no environment.

    root   caller -> keeper (new pid namespace)           -> main
    user   caller -> scout (new user namespace, leaves) -> keeper -> main
    plain  caller -> keeper (subreaper)                   -> main         (also for none)
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import NoReturn

from kernelgym.sandbox import (
    capabilities,
    cgroup,
    confinement,
    linux,
    memory_watch,
    mounts,
    namespaces,
    process,
    reaping,
    sealing,
)
from kernelgym.sandbox.jail_spec import JailSpec, View

WORK_PREFIX = "kernelgym-jail-"
"""Of working directories at L0 and ``none``; at L1 the private /tmp is one."""
ZYGOTE_PREFIX = "kernelgym-zygote-"
"""Of the directories that zygotes live in."""
_FAILED_START = 125


@dataclass(frozen=True)
class Way:
    """One way to reach a level: ``root``, ``user``, ``plain`` or ``none``."""

    name: str
    spec: JailSpec


@dataclass
class Birth:
    """Everything a child needs to become a jail."""

    way: Way
    main: Callable[[], None]
    keep: tuple[int, ...]
    group: cgroup.Group
    view: View | None
    work: str | None
    report_fd: int
    status_fd: int
    go_fd: int
    """Read end: a byte comes when the caller has put the keeper into the cgroups (way ``root``)."""
    first_uid: int | None
    """What `confinement.choose_uid` chose."""
    uid: int | None = None
    """User that the main process becomes; None: it stays what it is."""
    missing: set[str] = field(default_factory=set)
    seal: tuple[socket.socket, socket.socket] | None = None
    """Ours and the guest's, where device nodes are to be sealed when it asks."""

    def has(self, protection: str) -> bool:
        """Whether a protection is wanted and has not been found impossible."""
        return protection not in self.way.spec.without and protection not in self.missing


class _Told(Exception):
    """The host asked the keeper to end (SIGTERM; only outside pid namespaces)."""


def make_work_directory() -> str:
    """A directory of the jail's own where /tmp is shared."""
    return tempfile.mkdtemp(prefix=f"{WORK_PREFIX}{os.getpid()}-")


def run(birth: Birth) -> NoReturn:
    """Body of the forked child; never returns into the caller's code."""
    try:
        if birth.way.name == "user":
            _become_grandchild(birth)
        _keep(birth)
    except BaseException as error:  # noqa: BLE001 - nothing may escape into the zygote's stack
        with contextlib.suppress(OSError):
            _report(birth, {"error": f"{type(error).__name__}: {error}"[:2000]})
    finally:
        os._exit(_FAILED_START)


def _report(birth: Birth, message: dict[str, object]) -> None:
    os.write(birth.report_fd, json.dumps(message).encode() + b"\n")


def _become_grandchild(birth: Birth) -> None:
    """Enter new namespaces inside a user namespace; the grandchild goes on as init."""
    scout = os.pidfd_open(os.getpid())
    namespaces.enter_user_namespace(birth.way.spec)
    pid = os.fork()
    if pid:
        _report(birth, {"keeper": pid})
        os._exit(0)
    # Only when the scout is a zombie has its death been signalled to us; PDEATHSIG comes after.
    poller = select.poll()
    poller.register(scout, select.POLLIN)
    poller.poll()
    os.close(scout)


def _keep(birth: Birth) -> NoReturn:
    spec = birth.way.spec
    in_namespace = birth.way.name in ("root", "user")
    process.reset_signals()
    process.stay_on(spec.processors)
    os.chdir("/")  # what is about to be covered must not stay reachable through us
    if spec.level != "none":
        process.hide()
    birth.missing |= set(spec.without) | birth.group.missing
    is_made_up = birth.first_uid == reaping.FIRST_OWN_UID
    birth.uid = confinement.made_up_uid() if is_made_up else birth.first_uid
    if birth.uid is None and spec.level != "none":
        birth.missing.add("own_uid")
    if birth.way.name == "root":
        birth.group.join_quickly()
    if in_namespace:
        birth.missing |= namespaces.enter(birth.way.name, spec)
        assert birth.view is not None
        mounts.build(spec, birth.view, polled=memory_watch.is_polled(spec, birth.missing))
    elif birth.work and birth.uid is not None:
        os.chown(birth.work, birth.uid, birth.uid)
    if reaping.is_init():
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGTERM)
        signal.signal(signal.SIGTERM, _tell)
    if reaping.is_init() and birth.has("no_capabilities"):
        capabilities.clear_inheritance()  # for both of us, once
    if birth.way.name == "root":
        os.read(birth.go_fd, 1)
    birth.seal = _way_to_ask(birth)
    main_pid = os.fork()
    if main_pid == 0:
        _be_main(birth)
    _watch(birth, main_pid)


def _way_to_ask(birth: Birth) -> tuple[socket.socket, socket.socket] | None:
    """For a guest that will ask for its device nodes to be sealed, where that can be done."""
    sealable = birth.way.name in ("root", "user") and birth.has("private_dev")
    return sealing.pair() if birth.way.spec.seals and sealable else None


def _tell(_signal: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Told


def _be_main(birth: Birth) -> NoReturn:
    """The jailed process: confine it, say so, run ``main``, leave."""
    code, confined = 1, False
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # `_tell` is for the keeper alone
        if birth.seal is not None:
            sealing.hold(birth.seal[1])
            birth.keep += (birth.seal[1].fileno(),)
        missing = confinement.confine(birth)
        _report(birth, {"ready": True, "missing": missing})
        os.close(birth.report_fd)
        confined = True
        birth.main()
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException as error:  # noqa: BLE001 - the end of the process, whatever came
        if not confined:
            with contextlib.suppress(OSError):
                _report(birth, {"error": f"{type(error).__name__}: {error}"[:2000]})
    finally:
        os._exit(code & 0xFF)


def _watch(birth: Birth, main_pid: int) -> NoReturn:
    """Wait for main, kill the rest, write the status line, end."""
    spec = birth.way.spec
    process.close_all_but([birth.status_fd, *([birth.seal[0].fileno()] if birth.seal else [])])
    process.silence_standard_streams()
    if birth.seal is not None:
        sealing.attend(birth.seal[0])  # our own code runs until then
    watch = memory_watch.needed(spec, birth.missing)
    if reaping.is_init():
        _hold_down(polls=watch is not None)
    end: dict[str, object] = {"status": None}
    try:
        status, excess = memory_watch.wait(main_pid, watch)
        end["status"] = status
        end["out_of_memory"] = excess == "memory"
    except _Told:
        pass
    if watch is not None:
        end["peak_bytes"] = watch.peak_bytes
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    reaped = reaping.kill_all(birth.uid)
    if end["status"] is None:
        end["status"] = reaped.get(main_pid)
    with contextlib.suppress(OSError):
        os.write(birth.status_fd, json.dumps(end).encode() + b"\n")
    if birth.work:
        confinement.remove_leavings(birth.work, birth.uid)
    os._exit(0)


def _hold_down(*, polls: bool) -> None:
    """As init: nothing that the jailed tree could make use of."""
    kept = {"KILL", "SYS_PTRACE"} if polls else {"KILL"}
    capabilities.set_exactly(kept)
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
