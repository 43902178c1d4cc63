"""The loop of reinforcement learning: rollout -> reward -> return -> advantage -> filter -> update.

`step` is that line. Around it: where the prompts come from, when to validate, what to keep.

Killed at any moment, a run loses at most the step it was in, and of that only what was not on disk:
every turn is, as soon as it ends. On a CPU, with a policy that answers one call at a time, a run
that was continued ends with the same bits as one that was not.
"""

from __future__ import annotations

from drkernel.tracking import Tracker
from drkernel.train import playing, signals
from drkernel.train.credit import credit
from drkernel.train.run_state import OutOfTime, TrainRun, push, resume, save
from drkernel.train.trajectories import rollouts_of

_VALIDATION_LINE = ("validation/score", "validation/correct/last_turn")


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
    resume(run)
    settings = run.settings
    board = run.out / "tensorboard" if settings.tensorboard else None
    start = run.done + 1 if run.done or run.best else 0
    tracker = Tracker(run.out / "metrics.jsonl", start=start, tensorboard=board)
    try:
        await push(run, run.done)
        if start == 0 and _validates(run, 0):
            tracker.log(0, await playing.validate(run, 0), line=_VALIDATION_LINE)
        while not run.finished and not run.stop.is_set():
            run.clock = {}
            number = run.done + 1
            metrics = await step(run, number)
            run.done = number
            line: tuple[str, ...] = signals.LINE
            if _validates(run, number):
                with run.timed("validate"):
                    metrics |= await playing.validate(run, number)
                line += _VALIDATION_LINE
            tracker.log(number, metrics, line=line)
            if run.finished or run.stop.is_set() or number % settings.checkpoint_every == 0:
                save(run)
    except OutOfTime:
        pass
    finally:
        tracker.close()


def _validates(run: TrainRun, number: int) -> bool:
    every = run.settings.eval_every
    if not every or not run.validation:
        return False
    return number % every == 0 or number == run.settings.steps
