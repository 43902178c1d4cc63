"""One run of fine-tuning that kills itself: SETTINGS OUT STEP:before|after (its checkpoint)."""

import os
import signal
import sys
from pathlib import Path

from drkernel.config import load
from drkernel.sft import loop
from drkernel.sft.settings import SftSettings


def main(settings: str, out: str, phase: str) -> None:
    step, _, when = phase.partition(":")
    real = loop.train_step

    def train_step(run, rows):
        if run.step + 1 == int(step):
            if when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            real(run, rows)
            os.kill(os.getpid(), signal.SIGKILL)
        return real(run, rows)

    loop.train_step = train_step
    loop.run_sft(load(SftSettings, [Path(settings)]), Path(out))


if __name__ == "__main__":
    main(*sys.argv[1:])
