"""Can a candidate be kept from making a second context, and what runs while its stream is parked?

    python benchmarks/gpu_second_context.py --out DIR [--only count,held,...] [--dry-run]

Children, side by side; each makes its primary context, starts torch and loads kernels, as a harness
does before a candidate's code runs, and then works through a list of operations. After each one it
waits until this process has looked at it from outside: descriptors of /dev/nvidia*, mappings of
them, and the memory that NVML ascribes to it.

* ``count``: nothing is refused; which operation opens or maps device nodes, what a second context
  costs, and what CUPTI's callbacks for contexts say.
* ``sealed``: their mounts are made ``nodev``, after the profiler was started once. That is what
  `kernelgym.sandbox.sealing` does.
* ``no_gpu_node``: /dev/nvidia0 ... are covered (in a mount namespace of its own) before the list.
* ``no_nodes``: all of /dev/nvidia* are.
* ``no_rdwr``: a system call filter refuses to open anything for reading and writing.
* ``held``: a stream is parked at a flag; which other ways to give the GPU work get through before
  the flag is raised (other streams, priorities, copies, a green context, a second context, ...).

Result: ``DIR/gpu_second_context.json``. Needs root for the covered ones; says so otherwise.
"""

import argparse
import ctypes
import errno
import glob
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))  # where it is not installed

import gpu_held_cases
from gpu_context_operations import Operations

MODES = ("count", "sealed", "no_gpu_node", "no_nodes", "no_rdwr", "held")
DEADLINE_S = 36.0


# --- seen from outside ----------------------------------------------------------------------------


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("instance", ctypes.c_uint),
        ("compute", ctypes.c_uint),
    )


class Nvml:
    """Memory by process; the first GPU."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libnvidia-ml.so.1")
        self._library.nvmlInit_v2()
        self._device = ctypes.c_void_p()
        self._library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self._device))

    def processes(self) -> list[tuple[int, int]]:
        """Process and bytes; an empty list where it does not say."""
        count, found = ctypes.c_uint(64), (_Process * 64)()
        call = self._library.nvmlDeviceGetComputeRunningProcesses_v3
        if call(self._device, ctypes.byref(count), found):
            return []
        return [(found[i].pid, found[i].used) for i in range(count.value)]


def look(pid: int, nvml: Nvml | None) -> dict:
    """What anybody outside with the right to look sees of a process."""
    names = []
    for link in glob.glob(f"/proc/{pid}/fd/*"):
        try:
            names.append(os.readlink(link))
        except OSError:
            continue
    nodes = Counter(name for name in names if name.startswith("/dev/nvidia"))
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    maps = Counter(line.split()[-1] for line in lines if "/dev/nvidia" in line)
    seen: dict = {"fds": dict(nodes), "maps": dict(maps)}
    if nvml is not None:
        listed = nvml.processes()
        seen["nvml_mib"] = [used >> 20 for found, used in listed if found == pid]
        seen["nvml_listed"] = len(listed)
    return seen


def difference(after: dict, before: dict) -> dict:
    """What has changed from one look to the next, without the zeros."""
    found: dict = {}
    for key in ("fds", "maps"):
        names = {*after[key], *before[key]}
        moved = {n: after[key].get(n, 0) - before[key].get(n, 0) for n in sorted(names)}
        if any(moved.values()):
            found[key] = {name: count for name, count in moved.items() if count}
    if after.get("nvml_mib") and before.get("nvml_mib"):
        found["nvml_mib"] = after["nvml_mib"][0] - before["nvml_mib"][0]
    return found


def watch(mode: str, found: dict) -> None:
    """Start a child and write down what it says and what is seen of it."""
    rows: list[dict] = []
    found[mode] = rows
    command = [sys.executable, __file__, "--child", mode]
    child = subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-1, text=True)
    killer = threading.Timer(DEADLINE_S, child.kill)
    killer.start()
    try:
        nvml = Nvml()
    except OSError:
        nvml = None
    before = None
    assert child.stdin and child.stdout and child.stderr
    for line in child.stdout:
        if not line.startswith("{"):
            continue
        row = json.loads(line)
        after = look(child.pid, nvml)
        row |= after if before is None else difference(after, before)
        before = after
        rows.append(row)
        child.stdin.write("\n")
        child.stdin.flush()
    status, errors = child.wait(), child.stderr.read()
    killer.cancel()
    rows.append({"end": status, "stderr": errors[-1500:] if status else ""})


# --- the child ------------------------------------------------------------------------------------


def say(name: str, work: Callable[[], object]) -> bool:
    """Do it, say how it went, wait until somebody has looked; whether it went well."""
    row: dict[str, object] = {"step": name}
    started = time.perf_counter()
    try:
        answer = work()
    except BaseException as error:  # noqa: BLE001 - the text of any failure is the result
        row["failed"] = f"{type(error).__name__}: {error}"[:300]
    else:
        row |= answer if isinstance(answer, dict) else {}
    row["ms"] = round((time.perf_counter() - started) * 1e3, 2)
    print(json.dumps(row), flush=True)
    sys.stdin.readline()
    return "failed" not in row


class Child:
    """A process like a candidate's, and what it can try."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.kept: list[object] = []
        self.contexts: Counter = Counter()
        self.cupti: list[object] = []

    def run(self) -> None:
        """Prepare, refuse what the mode refuses, work through the list."""
        if self.mode in ("sealed", "no_gpu_node", "no_nodes"):
            from kernelgym.sandbox import linux

            linux.syscall("unshare", linux.CLONE_NEWNS)  # before there are other threads
            linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
        if not say("prepared", self.prepare):
            return
        if self.mode == "held":
            self.green = Operations(self).green
            todo = gpu_held_cases.cases(self)
        else:
            say("refuse", self.refuse)
            todo = Operations(self).all()
        for name, work in todo.items():
            say(name, work)

    def prepare(self) -> None:
        """Everything that a harness has done before a candidate's source is imported."""
        import torch

        from kernelgym.cuda import device
        from kernelgym.cuda.driver import driver
        from kernelgym.cuda.kernels import Kernels
        from kernelgym.cuda.page import DevicePage
        from kernelgym.cuda.vmm import VmmPool

        self.torch, self.driver = torch, driver()
        device.activate(self.driver)
        device.start_torch()
        if self.mode == "count":
            self.count_contexts()
        self.kernels, self.page = Kernels(self.driver), DevicePage(self.driver)
        self.pool = VmmPool(self.driver, 8 << 20)
        self.other = VmmPool(self.driver, 8 << 20, os.dup(self.pool.fileno()))
        self.x = torch.ones(1 << 20, device="cuda")
        self.kernels.tick(self.driver.stream())
        torch.cuda.synchronize()

    def count_contexts(self) -> None:
        """CUPTI's callback for contexts made and destroyed."""
        from kernelgym.trace.cupti import load_library

        kind = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p
        )

        def note(_user: int, _domain: int, which: int, _data: int) -> None:
            self.contexts[which] += 1

        library, subscriber = load_library(), ctypes.c_void_p()
        self.kept += [callback := kind(note), library]
        status = library.cuptiSubscribe(ctypes.byref(subscriber), callback, None)
        enabled = library.cuptiEnableDomain(1, subscriber, 3)  # CUPTI_CB_DOMAIN_RESOURCE
        self.contexts[f"status {status} {enabled}"] += 1

    def refuse(self) -> dict:
        """Take away what this mode takes away."""
        if self.mode in ("no_gpu_node", "no_nodes"):
            from kernelgym.sandbox import linux

            pattern = "/dev/nvidia[0-9]*" if self.mode == "no_gpu_node" else "/dev/nvidia*"
            nodes = [node for node in glob.glob(pattern) if not os.path.isdir(node)]
            for node in nodes:
                linux.mount("/dev/null", node, None, 0x1000)  # MS_BIND
            return {"covered": nodes}
        if self.mode == "sealed":
            from kernelgym.sandbox import linux

            Operations(self).profile()
            nodes = glob.glob("/dev/nvidia[0-9]*")
            for node in nodes:
                linux.mount(node, node, None, 0x1000)  # a mount of its own, as a jail has it
                linux.mount_setattr(node, linux.MOUNT_ATTR_NODEV, recursive=False)
            return {"sealed": nodes}
        if self.mode == "no_rdwr":
            refuse_read_write()
        return {}


def refuse_read_write() -> None:
    """From now on nothing in this process opens a file for reading and writing."""
    from kernelgym.sandbox import linux, seccomp

    rules = [
        seccomp.Rule("openat", errno.EACCES, argument=2, mask=os.O_ACCMODE, unequal=(os.O_RDWR,)),
        seccomp.Rule("open", errno.EACCES, argument=1, mask=os.O_ACCMODE, unequal=(os.O_RDWR,)),
        seccomp.Rule("openat2", errno.ENOSYS),
    ]
    code = seccomp.program(rules)
    buffer = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    header = Program(length=len(code) // 8, filter=ctypes.addressof(buffer))
    linux.syscall("seccomp", 1, 1 | 4, header)  # all threads


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", default=os.environ.get("OUT", "gpu-second-context"))
    parser.add_argument("--only", default=",".join(MODES))
    parser.add_argument("--child", choices=MODES)
    parser.add_argument("--dry-run", action="store_true", help="no GPU: children say why not")
    arguments = parser.parse_args()
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")
    os.environ.setdefault("CUDA_MODULE_LOADING", "LAZY")
    if arguments.child:
        Child(arguments.child).run()
        sys.stdout.flush()
        os._exit(0)  # some have given up their context, which their libraries have not noticed
    import record

    found: dict = {}
    threads = [threading.Thread(target=watch, args=(m, found)) for m in arguments.only.split(",")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended = all(rows and rows[-1].get("end") == 0 for rows in found.values())
    body = {"dry_run": arguments.dry_run, "root": os.geteuid() == 0, "children": found}
    path = Path(arguments.out) / "gpu_second_context.json"
    record.write(path, "gpu_second_context", body)
    for mode, rows in found.items():
        bad = [f"{row['step']}: {row['failed']}" for row in rows if "failed" in row]
        print(mode, len(rows), "steps;", "; ".join(bad)[:1500] or "nothing failed")
    return 0 if ended or arguments.dry_run else 1


if __name__ == "__main__":
    sys.exit(main())
