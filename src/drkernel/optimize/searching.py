"""The search: several attempts at one module, the best candidates judged again, the winner kept.

    RUN/best.py       the winner, ready to be imported
    RUN/optimize.md   what was tried, what the winner does, how it was checked
    RUN/episodes.jsonl, config.json, ...

The figure of record is the second verdict: fresh inputs, a fresh process. Where nothing can be
timed (no GPU) a correct candidate is still written, and the report says that its speed is unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from drkernel.collect.policies import open_any_policy
from drkernel.evaluate.rejudge import Again, judge_again
from drkernel.optimize.settings import OptimizeSettings
from drkernel.rollout.directory import RunDirectory, write_whole
from drkernel.rollout.evaluator import Evaluator, open_evaluator
from drkernel.rollout.playing import play_all
from drkernel.types import Episode, Turn
from kernelgym.errors import ServiceError, UsageError
from kernelgym.schema import EvalResult, Outcome, Task


@dataclass(frozen=True)
class Candidate:
    """A correct candidate."""

    episode: Episode
    turn: Turn
    again: EvalResult | None = None
    """The second verdict."""

    @property
    def code(self) -> str:
        """Its source."""
        return self.turn.extraction.code or ""

    @property
    def speedup(self) -> float | None:
        """Of record: the second verdict's where there is one."""
        return self.again.speedup if self.again is not None else self.turn.speedup


@dataclass(frozen=True)
class Found:
    """What a search came to."""

    winner: Candidate | None
    """The best candidate that passed twice; None where there is none."""
    worthwhile: bool
    """Whether it is clearly faster, or could not be timed."""
    episodes: tuple[Episode, ...]


async def optimize_into(
    path: Path, task: Task, settings: OptimizeSettings, *, resume: bool, quiet: bool = False
) -> Found:
    """Search, verify, write the winner. Raises `ServiceError` when the reference itself fails."""
    check_module(task)
    policy = open_any_policy(settings.policy, settings.episode.judging.backend)
    run = RunDirectory(path, settings, "optimize", resume=resume)
    run.store_tasks([task])
    try:
        async with open_evaluator(settings.gym, policy) as evaluator:
            await _check_reference(evaluator, task, settings)
            episodes = await play_all(
                [task],
                policy,
                evaluator,
                settings.episode,
                log_path=run.episodes,
                samples=settings.samples,
                concurrency=settings.concurrency,
                config_digest=run.digest,
                what="optimize",
                quiet=quiet,
            )
            winner = await _winner(evaluator, run.path, task, settings, episodes)
    finally:
        await policy.aclose()
    found = Found(winner, _is_worthwhile(winner, settings), tuple(episodes))
    if winner is not None:
        write_whole(path / "best.py", winner.code.rstrip() + "\n")
    return found


def check_module(task: Task) -> None:
    """What can be said of the module without running it; raises `UsageError`."""
    try:
        body = ast.parse(task.reference).body
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{task.name} is not Python: {error}") from error
    names = {node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    if task.entry_point not in names:
        classes = [node.name for node in body if isinstance(node, ast.ClassDef)]
        raise UsageError(
            f"{task.name} defines no class {task.entry_point}",
            hint=f"--entry-point {classes[-1]}" if classes else "a file with a torch.nn.Module",
        )
    if "get_inputs" not in names:
        raise UsageError(
            f"{task.name} defines no get_inputs(), so nothing is known to call {task.entry_point}"
            " with",
            hint="def get_inputs(): return [torch.randn(64, 1024)], in your sizes; and"
            " get_init_inputs() with the constructor's arguments",
        )


async def _check_reference(evaluator: Evaluator, task: Task, settings: OptimizeSettings) -> None:
    """The module against itself: what cannot be judged must be known before anything is paid."""
    judging = settings.episode.judging.model_copy(update={"backend": "torch", "trials": 1})
    submission = judging.submission(task, task.reference).model_copy(
        update={"entry_point": task.entry_point}
    )
    result = await evaluator.evaluate(submission, key=f"{task.name}/reference")
    if result is None:
        raise ServiceError(
            f"{task.name} cannot be judged: the reference fails, or the gym does",
            hint=f"kernelgym eval CANDIDATE.py --reference {task.name}.py",
        )
    if result.outcome is not Outcome.CORRECT and result.failure is not None:
        raise ServiceError(
            f"{task.name} does not agree with itself ({result.failure.code}):"
            f" {result.failure.message}",
            hint="set seeds, or take what is random out of forward",
        )


def ranked(episodes: Sequence[Episode]) -> list[Candidate]:
    """Correct candidates, the best first, each source once."""
    seen: set[str] = set()
    candidates = []
    for episode in episodes:
        for turn in episode.turns:
            if turn.correct and (turn.extraction.code or "") not in seen:
                seen.add(turn.extraction.code or "")
                candidates.append(Candidate(episode, turn))
    return sorted(
        candidates, key=lambda one: (one.turn.speedup or 0.0, one.turn.reward), reverse=True
    )


async def _winner(
    evaluator: Evaluator,
    path: Path,
    task: Task,
    settings: OptimizeSettings,
    episodes: Sequence[Episode],
) -> Candidate | None:
    """Judge the best again until enough have passed; the best second verdict wins."""
    passed: list[Candidate] = []
    for candidate in ranked(episodes):
        if len(passed) == settings.verify:
            break
        submission = settings.episode.judging.submission(task, candidate.code)
        work = Again(candidate.episode.id, candidate.turn.index, "verify", submission)
        verdicts = await judge_again(evaluator, [work], path / "rejudged.jsonl")
        again = verdicts.get(work.key)
        if again is not None and again.correct:
            passed.append(Candidate(candidate.episode, candidate.turn, again))
    return max(passed, key=lambda one: one.speedup or 0.0, default=None)


def _is_worthwhile(winner: Candidate | None, settings: OptimizeSettings) -> bool:
    if winner is None:
        return False
    return winner.speedup is None or winner.speedup >= settings.min_speedup
