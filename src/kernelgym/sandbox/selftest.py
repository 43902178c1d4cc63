"""A worker attacks its own jail at start, and learns the level that it really reaches.

A fresh process launches jails with the worker's own settings and runs every attack of
`kernelgym.sandbox.attacks` in them, against itself, its parent, the directories to be hidden and
listeners that it planted. What gets through is a breach: the level is then not the one that was
asked for, and `check` fails closed unless a lower one was allowed.

    python -m kernelgym.sandbox.selftest '{"level": "L1", "memory_bytes": 268435456, ...}'

prints the report as JSON. With ``gpu`` the jails have the device nodes and libraries of a GPU, as
candidates there do, with ``seals`` the nodes are sealed before the attack. Not covered: what a GPU
driver lets through.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import secrets
import select
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kernelgym.errors import SandboxError
from kernelgym.sandbox import process, sealing
from kernelgym.sandbox.attacks import ATTACKS, Target, memory
from kernelgym.sandbox.jail import Ended, JailSpec, Launched, end, launch

LIMIT_S = 60.0
_ATTACK_LIMIT_S = 20.0
_SECRET_VARIABLE = "KERNELGYM_SELFTEST_SECRET"
_MAX_ANSWER_BYTES = 1 << 20
_BOMB_BYTES = 96 << 20
"""Memory limit of the jail in which memory is exhausted; the attack tries for twice as much."""

_ONLY_L1 = frozenset({"read_hidden", "see_processes", "devices"})
_NEEDS_OWN_UID = frozenset({"write_outside"})
"""Not promised at L0 where the jail has the worker's own user."""


@dataclass(frozen=True)
class Report:
    """What a self-test found."""

    level: str
    """Level that was reached: asked for, in force, and not breached."""
    missing: tuple[str, ...]
    """Protections of that level that this machine could not give."""
    breaches: tuple[str, ...]
    """What attacks got away with, at the highest level that was tried."""
    ready_ms: float
    """Time to start a jail, median of those started here."""


def check(spec: JailSpec) -> Report:
    """Test a worker's jail in a fresh process; raises `SandboxError` when it does not hold.

    With ``spec.fallback`` the report may name a lower level than asked for.
    """
    secret = secrets.token_hex(16)
    command = [sys.executable, "-m", __spec__.name if __spec__ else "kernelgym.sandbox.selftest"]
    try:
        done = subprocess.run(
            [*command, json.dumps(dataclasses.asdict(spec))],
            env={**os.environ, _SECRET_VARIABLE: secret},
            capture_output=True,
            timeout=LIMIT_S * 3,
            check=False,
        )
        answer = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise SandboxError(f"the jail's self-test did not run: {error}") from error
    if "error" in answer:
        raise SandboxError(answer["error"], hint="kernelgym doctor")
    return Report(
        answer["level"], tuple(answer["missing"]), tuple(answer["breaches"]), answer["ready_ms"]
    )


def attack_levels(spec: JailSpec) -> Report:
    """Attack the level asked for and, where ``spec.fallback`` allows it, those below."""
    found: list[str] = []
    refusals: list[str] = []
    levels = ["L1", "L0"] if spec.level == "L1" and spec.fallback else [spec.level]
    for level in levels:
        try:
            report = attack(replace(spec, level=level, fallback=False))
        except SandboxError as error:
            refusals.append(str(error))
            continue
        if not report.breaches:
            return replace(report, breaches=tuple(found))
        found += report.breaches
    raise SandboxError("; ".join(refusals + [f"the jail leaks: {text}" for text in found[:10]]))


def attack(spec: JailSpec) -> Report:
    """Run every attack that the level promises to stop, each in a jail of its own."""
    if spec.level == "none":
        return Report("none", (), (), 0.0)
    process.hide()
    breaches: list[str] = []
    times: list[float] = []
    missing: tuple[str, ...] = ()
    with planted(spec) as target:
        for name in ATTACKS:
            jailed = run_jailed(spec, name, target)
            missing = jailed.launched.missing
            times.append(jailed.launched.ready_ms)
            if jailed.ended.survivors:
                breaches.append(f"{name}: {jailed.ended.survivors} processes survived")
            if is_promised(name, spec.level, missing):
                breaches += [f"{name}: {text}" for text in jailed.answer]
    breaches += _exhaust(spec, missing)
    return Report(spec.level, missing, tuple(breaches), sorted(times)[len(times) // 2])


def is_promised(attack_name: str, level: str, missing: tuple[str, ...]) -> bool:
    """Whether a level promises to stop an attack."""
    if level == "L1":
        return True
    if level == "none" or attack_name in _ONLY_L1:
        return False
    return attack_name not in _NEEDS_OWN_UID or "own_uid" not in missing


@dataclass(frozen=True)
class Jailed:
    """One attack that ran."""

    launched: Launched
    ended: Ended
    answer: list[str]


def run_jailed(spec: JailSpec, name: str, target: Target) -> Jailed:
    """Run one attack by name in a jail; an attack that gives no answer is a breach of its own."""

    def main() -> None:
        aim = replace(target, descriptors=(write_end,), sealed=spec.seals)
        if spec.seals:
            sealing.seal()  # a node that still opens is found by the attack on devices
        _answer(write_end, ATTACKS[name](aim))

    read_end, write_end = os.pipe()
    try:
        launched = launch(spec, main, [write_end])
    finally:
        os.close(write_end)
    try:
        data = _read_all(read_end, _ATTACK_LIMIT_S)
    finally:
        os.close(read_end)
        ended = end(launched, grace_s=0.2)
    try:
        answer = [str(text) for text in json.loads(data)]
    except (ValueError, TypeError):
        answer = [f"no answer (status {ended.status})"]
    return Jailed(launched, ended, answer)


def _answer(fd: int, value: object) -> None:
    data = json.dumps(value).encode()
    while data:
        data = data[os.write(fd, data) :]


def _read_all(fd: int, limit_s: float) -> bytes:
    deadline = time.monotonic() + limit_s
    data = b""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    while len(data) < _MAX_ANSWER_BYTES:
        if not poller.poll(max(0.0, deadline - time.monotonic()) * 1e3):
            break
        part = os.read(fd, 1 << 16)
        if not part:
            break
        data += part
    return data


def _exhaust(spec: JailSpec, missing: tuple[str, ...]) -> list[str]:
    """Take twice the memory and twice the processes that are allowed."""
    breaches: list[str] = []
    small = replace(spec, memory_bytes=_BOMB_BYTES, processes=16)
    if {"memory_cgroup", "pids_cgroup"} & set(spec.without):
        return breaches
    bomb = _run_bomb(small, lambda: memory.private(2 * _BOMB_BYTES))
    if not bomb.oom_killed and bomb.status == 0:
        breaches.append("memory: the limit did not hold")
    forks = _run_bomb(small, lambda: 1 // (memory.forks(40) < 40))
    if forks.status != 0 and "pids_cgroup" not in missing:
        breaches.append("processes: the limit did not hold")
    return breaches


def _run_bomb(spec: JailSpec, bomb: object) -> Ended:
    assert callable(bomb)
    launched = launch(spec, bomb, [])
    return end(launched, timeout_s=10.0, grace_s=_ATTACK_LIMIT_S)


@contextlib.contextmanager
def planted(spec: JailSpec) -> Iterator[Target]:
    """Listeners, a secret and files on the host, for attacks to reach for."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="kernelgym-selftest-"))
        os.chmod(directory, 0o755)  # hidden by the jail, not by its mode
        with open(f"{directory}/secret", "w") as file:
            file.write("secret")
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        names = (f"{directory}/socket", f"@{secrets.token_hex(8)}")
        for name in names:
            for suffix, kind in (("", socket.SOCK_STREAM), ("-datagram", socket.SOCK_DGRAM)):
                listener = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
                listener.bind(("\0" + name[1:] if name[0] == "@" else name) + suffix)
                if name[0] != "@":
                    os.chmod(name + suffix, 0o666)
                if kind == socket.SOCK_STREAM:
                    listener.listen()
        yield Target(
            pids=(os.getpid(), os.getppid()),
            write=_system_paths(spec.level),
            read=(f"{directory}/secret", *_hidden_files(spec)),
            tcp_port=tcp.getsockname()[1],
            unix_addresses=names,
            secret=os.environ.get(_SECRET_VARIABLE, ""),
        )


def _system_paths(level: str) -> tuple[str, ...]:
    paths = [
        "/", "/etc", "/usr/bin", "/sys/kernel", "/proc/sys/kernel/hostname",
        "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", sys.prefix, sys.base_prefix,
        sysconfig.get_path("purelib"), os.path.dirname(__file__), os.__file__,
    ]  # fmt: skip
    if level == "L1":
        paths.append("/var/tmp")  # open to all where no mount hides it
    return tuple(path for path in paths if os.path.exists(path))


def _hidden_files(spec: JailSpec) -> tuple[str, ...]:
    """One file of each hidden directory, as far as there is one."""
    found: list[str] = []
    for directory in spec.hidden:
        with contextlib.suppress(OSError), os.scandir(directory) as entries:
            found += [entry.path for entry in entries if entry.is_file()][:1]
    return tuple(found)


def main(arguments: list[str]) -> int:
    """Entry point of the fresh process."""
    try:
        report = attack_levels(JailSpec(**json.loads(arguments[0])))
        answer = dataclasses.asdict(report)
    except (SandboxError, ValueError, TypeError) as error:
        answer = {"error": str(error)}
    sys.stdout.write(json.dumps(answer) + "\n")
    return "error" in answer


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
