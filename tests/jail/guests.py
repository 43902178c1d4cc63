"""What runs inside a jail: whole scenarios, where a single attack does not do.

Pure Python, bounded in time and size also where nothing stops it. Imported before the jail is made,
as a zygote would.
"""

import contextlib
import mmap
import os
import resource
import signal
import socket
import sys
import time
from pathlib import Path

from kernelgym.sandbox import linux
from kernelgym.sandbox.attacks import memory, scan

MIB = 1 << 20
LIFE_S = 30
"""How long a survivor would live; tests end long before."""


def nothing():
    return "ok"


def sleep():
    time.sleep(LIFE_S)


def exit_with(code):
    sys.exit(code)


def leave_at_once(code):
    os._exit(code)


def raise_error():
    raise ValueError("x" * (8 * MIB))


def crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def abort():
    os.abort()


def facts():
    """What a process can see of its own confinement."""
    status = dict(
        line.split(":\t", 1)
        for line in Path("/proc/self/status").read_text().splitlines()
        if ":\t" in line
    )
    return {
        "uid": os.getuid(),
        "gid": os.getgid(),
        "groups": os.getgroups(),
        "pid": os.getpid(),
        "session": os.getsid(0),
        "host": socket.gethostname(),
        "environment": dict(os.environ),
        "cwd": os.getcwd(),
        "status": {name: status[name] for name in ("NoNewPrivs", "Seccomp", "CapEff", "CapBnd")},
        "tmp": sorted(os.listdir("/tmp")),
        "dev": sorted(os.listdir("/dev")),
        "core": resource.getrlimit(resource.RLIMIT_CORE),
        "dumpable": linux.prctl(linux.PR_GET_DUMPABLE),
        "modules": [name for name in ("torch", "numpy") if name in sys.modules],
    }


def shared_segments():
    """System V shared memory that is visible here."""
    return len(Path("/proc/sysvipc/shm").read_text().splitlines()) - 1


def use_compiler():
    """Compile and load a C extension against Python.h; import modules that were not loaded yet."""
    import ctypes
    import subprocess
    import sysconfig

    source, library = os.path.expanduser("~/x.c"), os.path.expanduser("~/x.so")
    with open(source, "w") as file:
        file.write(
            "#include <Python.h>\nint answer(void) { return sizeof(PyObject) > 0 ? 42 : 0; }\n"
        )
    include = sysconfig.get_path("include")
    subprocess.run(["gcc", "-shared", "-fPIC", f"-I{include}", source, "-o", library], check=True)
    import xml.etree.ElementTree  # noqa: F401

    code = "import kernelgym.sandbox.jail, json; print(json.dumps(6 * 7))"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [ctypes.CDLL(library).answer(), int(child.stdout)]


# --- surviving ------------------------------------------------------------------------------------


def daemonise(count):
    """Children that double-fork, leave the session, ignore signals and hold all descriptors."""
    for _ in range(count):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                    with contextlib.suppress(OSError, ValueError):
                        signal.signal(number, signal.SIG_IGN)
                time.sleep(LIFE_S)
            os._exit(0)
    return "started"


def fork_bomb(seconds):
    """Processes that fork until they may not, and go on doing so; each ends by itself in time."""
    end = time.monotonic() + seconds
    made = 0
    while time.monotonic() < end:
        try:
            made += os.fork() != 0
        except OSError:
            time.sleep(0.001)
    return made if os.getpid() == os.getsid(0) else os._exit(0)


def stop_keeper():
    """Stop and kill whoever watches: our parent, which in a pid namespace is its init."""
    got = []
    for number in (signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL):
        with contextlib.suppress(OSError):
            os.kill(os.getppid(), number)
            got.append(int(number))
    time.sleep(0.1)
    return got


# --- quantity -------------------------------------------------------------------------------------


def flood_stdout(megabytes):
    data = b"x" * MIB
    for _ in range(megabytes):
        os.write(1, data)
        os.write(2, data)
    return megabytes


def flood_answer(megabytes, fd):
    """Write far more than anybody wants into the channel."""
    data = b"x" * MIB
    for _ in range(megabytes):
        os.write(fd, data)
    return megabytes


def large_file(size):
    """One file larger than allowed."""
    path = os.path.expanduser("~/large")
    try:
        with open(path, "wb") as file:
            for _ in range(0, size, MIB):
                file.write(b"x" * MIB)
                file.flush()
    except OSError as error:
        return error.errno
    return 0


def fill_shm(bound):
    return memory.tmpfs(bound, "/dev/shm")


def fill_tmp(bound):
    return memory.tmpfs(bound, os.environ["TMPDIR"])


def many_files(bound):
    """Empty files, until the file system has no inode left."""
    made = 0
    with contextlib.suppress(OSError):
        while made < bound:
            os.close(os.open(os.path.expanduser(f"~/{made}"), os.O_CREAT | os.O_WRONLY))
            made += 1
    return made


def hidden_hoard(bound):
    """Memory that is hidden from whoever polls: not dumpable, then private memory."""
    with contextlib.suppress(OSError):
        linux.prctl(linux.PR_SET_DUMPABLE, 0)
    return memory.private(bound)


def spread_hoard(bound, processes):
    """Memory spread over children, none of which holds much."""
    for _ in range(processes):
        if os.fork() == 0:
            memory.private(bound // processes)
            time.sleep(2)
            os._exit(0)
    time.sleep(2.5)
    return bound


def shared_file_hoard(bound):
    """A mapped file in /dev/shm, deleted at once."""
    with open("/dev/shm/hoard", "w+b") as file:
        os.unlink("/dev/shm/hoard")
        os.ftruncate(file.fileno(), bound)
        area = mmap.mmap(file.fileno(), bound)
        for offset in range(0, bound, MIB):
            area[offset : offset + MIB] = b"x" * MIB
    time.sleep(0.2)
    return bound


# --- leaving things behind ------------------------------------------------------------------------


def plant(links, mark):
    """Symbolic links to the host's files, a fifo, a sparse file, a cache entry; named ``mark``."""
    home = os.environ["HOME"]
    for number, target in enumerate(links):
        os.symlink(target, f"{home}/link{number}")
    os.mkfifo(f"{home}/{mark}")
    with open(f"{home}/sparse", "wb") as file:
        file.truncate(16 * MIB)
    os.makedirs(f"{home}/.triton/cache/{mark}", exist_ok=True)
    with open(f"{home}/.triton/cache/{mark}/kernel.cubin", "wb") as file:
        file.write(b"planted")
    for shared in ("/tmp", "/var/tmp", "/dev/shm"):
        with contextlib.suppress(OSError):
            os.makedirs(f"{shared}/{mark}/deep")
    return home


def find_planted(mark):
    """Files of an earlier guest, by name, anywhere one may write."""
    found = []
    for top in {os.environ["HOME"], "/tmp", "/var/tmp", "/dev/shm"}:
        for root, directories, names in os.walk(top):
            found += [os.path.join(root, n) for n in [*names, *directories] if n == mark]
    return found


def inverted_secret(seed):
    """A secret that only exists inverted until somebody asks for it."""
    return bytes((seed * 37 + 11 * index) % 256 for index in range(64))


def hold_secret_and_scan(seed, seconds):
    """As the judge: make a secret after the fork, find it in our own memory, keep it."""
    secret = scan.invert(inverted_secret(seed))
    found = scan.find(inverted_secret(seed))
    time.sleep(seconds)
    return [bool(found), len(secret)]


def scan_for_secret(seed):
    """As a candidate."""
    return scan.find(inverted_secret(seed))


def remember():
    """Stay alive with a secret in memory, in a file and in a descriptor."""
    secret = b"secret-" * 1000
    with open(os.path.expanduser("~/secret"), "wb") as file:
        file.write(secret)
        time.sleep(LIFE_S)
    return len(secret)


def listen_as_cuda(address):
    """What cuInit needs of sockets, and what must stay out of reach: who could be connected to."""
    name = f"\0kernelgym-uvmfd-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(name)
        listener.listen()
        reached = []
        for target in (name, address):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
                for attempt in (
                    lambda sock=sock, target=target: sock.connect(target),
                    lambda sock=sock, target=target: sock.sendto(b"x", target),
                ):
                    try:
                        attempt()
                        reached.append(target.replace("\0", "@"))
                    except OSError:
                        continue
    return reached
