"""A jail forked from a process that has torch imported, as the zygote has."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, os, sys
import torch
from kernelgym.sandbox.jail import JailSpec, end, launch

read_end, write_end = os.pipe()

def main():
    import torch.nn.functional
    import concurrent.futures.thread
    value = torch.nn.functional.softmax(torch.ones(4, 4) @ torch.ones(4, 4), dim=0)
    path = os.path.expanduser("~/x.pt")
    torch.save(value, path)
    answer = [torch.load(path).sum().item(), torch.get_num_threads()]
    os.write(write_end, json.dumps(answer).encode())

launched = launch(JailSpec("L1", 1 << 30), main, [write_end])
os.close(write_end)
answer = os.read(read_end, 1000)
ended = end(launched, grace_s=5)
print(json.dumps([json.loads(answer or b"null"), ended.status, launched.level]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="L1 as root")
def test_torch_works_in_a_jail_forked_from_it():
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, env=environment, check=True
    )
    assert json.loads(done.stdout) == [[4.0, 1], 0, "L1"]


def test_the_jail_imports_neither_torch_nor_numpy():
    heavy = "{'torch', 'numpy', 'pydantic'}"
    code = f"import sys, kernelgym.sandbox.selftest; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "set()"
