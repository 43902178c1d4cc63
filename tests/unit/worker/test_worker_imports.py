"""What the host's process may not load."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["torch", "triton", "numpy"])
def test_the_host_needs_no_torch(module):
    code = f"import sys, kernelgym.worker.host; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_judge_never_loads_the_candidates_side():
    code = (
        "import sys, kernelgym.judge.process;sys.exit('kernelgym.sandbox.candidate' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
