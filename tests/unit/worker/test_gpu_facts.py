"""GPU facts: always in a child with a deadline; parsing; environment and gate file."""

import ctypes
import json
import os
import stat
import subprocess
import sys

import pytest

from kernelgym.errors import ServiceError
from kernelgym.worker import gpu

ITEM = {
    "index": 0, "name": "NVIDIA H200", "uuid": "GPU-1", "driver": "580.1", "memory_bytes": 10,
    "used_bytes": 1, "sm_clock_mhz": 1980, "memory_clock_mhz": 3201,
    "throttle": ["idle", "power cap"], "processes": [4, 5],
}  # fmt: skip


def answer(monkeypatch, code):
    """Let the child be this Python code."""
    original = subprocess.run

    def run(command, **kwargs):
        assert command[1:] == ["-m", "kernelgym.worker.gpu"]
        return original([sys.executable, "-c", code], **kwargs)

    monkeypatch.setattr(gpu.subprocess, "run", run)


def test_without_a_driver_there_are_none():
    if any(name.startswith("nvidia") for name in os.listdir("/dev")):
        pytest.skip("there is a GPU")
    assert gpu.facts(60.0) == []


def test_facts_come_from_the_childs_json(monkeypatch):
    answer(monkeypatch, f"print({json.dumps(json.dumps([ITEM]))})")
    (found,) = gpu.facts(60.0)
    assert found.name == "NVIDIA H200"
    assert found.slowed == ("power cap",)
    assert found.processes == (4, 5)


def test_a_child_that_hangs_is_killed(monkeypatch):
    answer(monkeypatch, "import time; time.sleep(60)")
    with pytest.raises(ServiceError, match=r"did not answer within 0\.3 s"):
        gpu.facts(0.3)


def test_a_child_that_fails_is_quoted(monkeypatch):
    answer(monkeypatch, "import sys; sys.stderr.write('nvmlInit returned 9'); sys.exit(1)")
    with pytest.raises(ServiceError, match="nvmlInit returned 9"):
        gpu.facts(60.0)


class Library:
    """NVML with one GPU."""

    def __getattr__(self, name):
        return lambda *_: 0

    @staticmethod
    def nvmlDeviceGetCount_v2(count):
        count._obj.value = 1
        return 0

    @staticmethod
    def nvmlDeviceGetName(handle, text, size):
        text.value = b"a GPU"
        return 0

    @staticmethod
    def nvmlDeviceGetMemoryInfo(handle, memory):
        memory._obj.total, memory._obj.used = 100, 7
        return 0

    @staticmethod
    def nvmlDeviceGetCurrentClocksThrottleReasons(handle, reasons):
        reasons._obj.value = 0x1 | 0x40
        return 0

    @staticmethod
    def nvmlDeviceGetComputeRunningProcesses_v3(handle, count, found):
        count._obj.value = 1
        found[0].pid = 77
        return 0


def test_what_the_child_asks(monkeypatch, capsys):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    assert gpu.main() == 0
    (found,) = [gpu.parse(item) for item in json.loads(capsys.readouterr().out)]
    assert (found.name, found.memory_bytes, found.used_bytes) == ("a GPU", 100, 7)
    assert found.throttle == ("idle", "hardware thermal")
    assert found.processes == (77,)


def test_one_gpu_is_visible_through_one_connection():
    environment = gpu.environment(gpu.index_of("cuda:3"))
    assert environment["CUDA_VISIBLE_DEVICES"] == "3"
    assert environment["CUDA_DEVICE_MAX_CONNECTIONS"] == "1"
    assert gpu.index_of("cuda") == 0


def test_the_gate_file_is_private_and_one_a_gpu(tmp_path):
    path = gpu.gate_path(1, str(tmp_path))
    assert path == gpu.gate_path(1, str(tmp_path)) != gpu.gate_path(2, str(tmp_path))
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700


def test_a_link_in_place_of_the_gates_is_refused(tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (tmp_path / f"{gpu.GATE_DIRECTORY}-{os.getuid()}").symlink_to(mine)
    with pytest.raises(ServiceError, match="not this user's directory"):
        gpu.gate_path(0, str(tmp_path))
    assert not list(mine.iterdir())
