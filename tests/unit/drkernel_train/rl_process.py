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
    """Notes what it judged."""

    def __init__(self, out):
        super().__init__()
        self.out, self.place = out, ""

    async def evaluate(self, submission, *, key="", force=False):
        with (self.out / "judged.txt").open("a") as file:
            file.write(f"{self.place}/{key}\n")
        return await super().evaluate(submission, key=key, force=force)


def set_trap(run, judge, phase, step):
    """Make the run kill itself there."""
    real_play, real_generate = playing.play, run.policy.generate
    answers_left = None

    async def play(run, tasks, log, *, samples, place):
        nonlocal answers_left
        judge.place = f"{place}:{run.done}"
        wanted = {"rollout": (f"step {step}", step - 1), "validate": ("validation", step)}
        answers_left = 2 if wanted.get(phase) == (place, run.done) else None
        return await real_play(run, tasks, log, samples=samples, place=place)

    async def generate(*arguments, **options):
        """An answer; answers are counted, because there may be no code in one to judge."""
        nonlocal answers_left
        if answers_left == 0:
            die()
        if answers_left:
            answers_left -= 1
        return await real_generate(*arguments, **options)

    run.policy.generate = generate

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
    judge = Judge(out)
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
