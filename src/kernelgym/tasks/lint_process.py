"""The jailed end of the lint: one task comes in, one report goes out, the process ends.

The report is written by a process that runs the task's own code, so a hostile task can lie about
itself; it cannot reach anything else.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import warnings

import torch

from kernelgym.schema import Task
from kernelgym.tasks.lint import lint_task

MAX_REQUEST_BYTES = 8 << 20


def main(fd: int) -> None:
    """Answer the one request on ``fd``; never returns."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    tempfile.tempdir = None  # the zygote's own is not there in the jail
    with socket.socket(fileno=fd) as sock, sock.makefile("rwb") as stream:
        request = json.loads(stream.readline(MAX_REQUEST_BYTES))
        report = lint_task(
            Task.model_validate(request["task"]),
            protocol=request["protocol"],
            limit_s=request["limit_s"],
            seed=request["seed"],
        )
        stream.write(report.model_dump_json().encode() + b"\n")
        stream.flush()
    os._exit(0)
