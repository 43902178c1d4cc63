"""Runs that kill themselves in a phase: SETTINGS OUT PHASE:STEP ... end; prints how each ended."""

import asyncio
import os
import signal
import sys
import tempfile
from pathlib import Path

import torch
from rl_world import CountingJudge, make_run

from drkernel.config import load
from drkernel.train import checkpoint, loop, playing
from drkernel.train.settings import TrainSettings


def die():
    os.kill(os.getpid(), signal.SIGKILL)


class Judge(CountingJudge):
    """Notes what it judged; kills after so many verdicts."""

    def __init__(self, out, most):
        super().__init__()
        self.out, self.most, self.place = out, most, ""

    async def evaluate(self, submission, *, key="", force=False):
        with (self.out / "judged.txt").open("a") as file:
            file.write(f"{self.place}/{key}\n")
        found = await super().evaluate(submission, key=key, force=force)
        if self.most is not None and len(self.sources) >= self.most:
            die()
        return found


def set_trap(run, judge, phase, step):
    """Make the run kill itself there."""
    real_play = playing.play

    async def play(run, tasks, log, *, samples, place):
        judge.place = f"{place}:{run.done}"
        wanted = {"rollout": (f"step {step}", step - 1), "validate": ("validation", step)}
        dies = wanted.get(phase) == (place, run.done)
        judge.most = len(judge.sources) + 3 if dies else None
        return await real_play(run, tasks, log, samples=samples, place=place)

    playing.play = play
    traps = {
        "score": (run.learner, "score", lambda *_: run.done + 1 == step, False),
        "update": (run.learner, "update", lambda *_, **options: options["step"] == step, True),
        "push": (loop, "push", lambda _, version: version == step, False),
        "save": (torch, "save", lambda *_: run.done == step, False),
        "rename": (checkpoint, "_sync_tree", lambda _: run.done == step, True),
    }
    if phase in traps:
        trap(*traps[phase])


def trap(owner, name, applies, after):
    """Die instead of the call, or after it."""
    real = getattr(owner, name)

    def trapped(*arguments, **options):
        if not applies(*arguments, **options):
            return real(*arguments, **options)
        if after:
            real(*arguments, **options)
        die()

    setattr(owner, name, trapped)


def run_and_die(settings, out, place):
    phase, _, step = place.partition(":")
    judge = Judge(out, None)
    run = make_run(settings, out, judge)
    if step:
        set_trap(run, judge, phase, int(step))
    else:
        set_trap(run, judge, "none", -1)

    async def go():
        await loop.train(run)
        await run.policy.aclose()

    asyncio.run(go())


def main(settings, out, *places):
    torch.set_num_threads(1)
    loaded = load(TrainSettings, [Path(settings)])
    Path(out).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as nowhere:
        make_run(loaded, Path(nowhere))  # what this imports costs each child seconds
    for place in places:
        child = os.fork()
        if child == 0:
            run_and_die(loaded, Path(out), place)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        print(place, "killed" if os.WIFSIGNALED(status) else "ended", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
