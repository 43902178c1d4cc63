"""The loop of reinforcement learning: rollout -> reward -> return -> advantage -> filter -> update.

`step` is that line. Around it: where the prompts come from, when to validate, what to keep.

Killed at any moment, a run loses at most the step it was in, and of that only what was not on disk:
every turn is, as soon as it ends. On a CPU, with a policy that answers one call at a time, a run
that was continued ends with the same bits as one that was not.
"""

from __future__ import annotations

from drkernel.tracking import Tracker, read_metrics
from drkernel.train import playing, signals
from drkernel.train.annotations import credit_file, write_credit
from drkernel.train.credit import credit
from drkernel.train.run_state import OutOfTime, TrainRun, push, resume, save
from drkernel.train.trajectories import rollouts_of

_SCORE = "validation/score"
_AFTER = ("checkpoint", "validate")
_VALIDATION_LINE = {
    "validation": _SCORE,
    "its correct": "validation/correct/last_turn",
    "its fast@1.2": "validation/fast@1.2/last_turn",
}


async def step(run: TrainRun, number: int) -> dict[str, float]:
    """One step; its metrics. Raises `OutOfTime` when it is stopped while rolling out."""
    rule, learner = run.settings.algorithm, run.learner
    with run.timed("rollout"):
        episodes = await playing.play_step(run, number)
        rollouts = rollouts_of(episodes, turns=run.settings.episode.turns, gamma=rule.gamma)
        rows = [turn.row for turn in rollouts.rows]
    with run.timed("score"):
        scores = learner.score(rows)
    with run.timed("credit"):
        worth = credit(rollouts, scores.logp, rule, seed=run.settings.seed, step=number)
        write_credit(credit_file(run.out, number), worth, rollouts)
    with run.timed("update"):
        update = learner.update(rows, worth.advantages, worth.keep, scores.logp, step=number)
    with run.timed("push"):
        await push(run, number)
    metrics = {"algorithm/steps_taken": float(len(update.steps)), **update.metrics}
    for report in update.steps:
        metrics |= report.as_metrics()
    return {
        **signals.play_signals(rollouts, run.settings.episode.reward),
        **signals.credit_signals(worth, rollouts),
        **signals.policy_signals(rollouts, scores),
        **signals.time_signals(run.clock, rollouts),
        **metrics,
    }


async def train(run: TrainRun) -> None:
    """Steps until the end, or until ``run.stop`` is set."""
    pending = resume(run)
    path = run.out / "metrics.jsonl"
    # the line of the checkpoint's own step is missing if its validation was cut short
    known = read_metrics(path) if path.exists() else []
    logged = any(line["step"] == run.done for line in known)
    board = run.out / "tensorboard" if run.settings.tensorboard else None
    tracker = Tracker(path, start=run.done + bool(run.done and logged), tensorboard=board)
    run.scores = {
        line["step"]: line[_SCORE]
        for line in known
        if line.get(_SCORE) is not None and line["step"] <= run.done and run.done
    }
    try:
        await push(run, run.done)
        if not (run.done and logged):
            await _conclude(run, tracker, pending)
        while not run.finished and not run.stop.is_set():
            run.clock = {}
            metrics = await step(run, run.done + 1)
            run.done += 1
            if _saves(run):
                with run.timed("checkpoint"):
                    save(run, metrics)
            await _conclude(run, tracker, metrics)
    except OutOfTime:
        pass
    finally:
        tracker.close()


async def _conclude(run: TrainRun, tracker: Tracker, metrics: dict[str, float]) -> None:
    """What comes after a step is safe: validation, and its line. Step 0 is the beginning."""
    line = signals.LINE
    if _validates(run):
        with run.timed("validate"):
            metrics = metrics | await playing.validate(run)
        line = line | _VALIDATION_LINE
    if metrics:
        times = {f"time/{stage}_s": run.clock[stage] for stage in _AFTER if stage in run.clock}
        tracker.log(run.done, metrics | times, line=line)


def _validates(run: TrainRun) -> bool:
    every = run.settings.eval_every
    if not every or not run.validation:
        return False
    return run.done % every == 0 or run.finished


def _saves(run: TrainRun) -> bool:
    due = run.done % run.settings.checkpoint_every == 0
    return due or run.finished or run.stop.is_set() or _validates(run)
