"""Runs of fine-tuning that kill themselves: SETTINGS OUT STEP:before|after (the update) ...

Each is a fork of one process that has the libraries loaded. Prints how each ended.
"""

import os
import signal
import sys
from pathlib import Path

import torch

from drkernel.config import load
from drkernel.sft import loop
from drkernel.sft.settings import SftSettings


def run_and_die(settings: str, out: str, phase: str) -> None:
    step, _, when = phase.partition(":")
    real = loop.train_step

    def train_step(run, rows):
        if run.step + 1 < int(step):
            return real(run, rows)
        if when == "after":
            real(run, rows)
        os.kill(os.getpid(), signal.SIGKILL)

    loop.train_step = train_step
    loop.run_sft(load(SftSettings, [Path(settings)]), Path(out))


def main(settings: str, out: str, *phases: str) -> None:
    torch.set_num_threads(1)
    for phase in phases:
        child = os.fork()
        if child == 0:
            run_and_die(settings, out, phase)
            os._exit(1)
        status = os.waitpid(child, 0)[1]
        print(phase, "killed" if os.WIFSIGNALED(status) else "ended", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
