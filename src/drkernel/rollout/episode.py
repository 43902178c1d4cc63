"""One episode: a task, a policy, a gym, turn after turn.

A turn is: choose what earlier turns the prompt shows, write it, see that it fits, generate,
extract, evaluate, put the verdict into words, pay. What ends an episode early:

    context          no room for another answer, or the episode's tokens are used up
    policy_error     the policy gave nothing, after its own retries
    infrastructure   the gym failed, also when the stored code was evaluated again
    solved           fast enough, where the settings say so

The first three leave a turn that is on record and missing (`Turn.valid` is False), never a zero.
Not covered: storing turns (``on_turn`` is called with each), many episodes (`engine`), advantages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from drkernel import prompts
from drkernel.algo import reward_from_result, select_context
from drkernel.rollout.evaluator import Evaluator
from drkernel.rollout.settings import ContextSettings, EpisodeSettings
from drkernel.types import (
    MISSING,
    Episode,
    Extraction,
    Generation,
    Message,
    Policy,
    Status,
    Stopped,
    Turn,
    messages_hash,
)
from kernelgym.schema import EvalResult, Task

_NO_CODE = Extraction(code=None, how="none", note="nothing was generated")
_REDONE = ("policy_error", "infrastructure")


def episode_id(task: Task, sample: int) -> str:
    """Id of a sample of a task in its run."""
    return f"{task.name}#{sample}"


async def run_episode(
    task: Task,
    policy: Policy,
    evaluator: Evaluator,
    settings: EpisodeSettings,
    *,
    sample: int,
    resume_from: Sequence[Turn] = (),
    on_turn: Callable[[Turn], None] | None = None,
    version: int = 0,
    config_digest: str = "",
) -> Episode:
    """Play one episode, or the rest of one.

    ``resume_from``: turns that were played before; none of them is repeated, but the last one where
    the policy or the gym had failed. ``on_turn`` is called with every new turn before the next one
    is begun.
    """
    play = _Play(task, policy, evaluator, settings, sample)
    play.take_up(resume_from)
    stopped: Stopped | None = play.ended()
    while stopped is None:
        turn = await play.next_turn()
        if on_turn is not None:
            on_turn(turn)
        stopped = play.ended()
    return Episode(
        id=episode_id(task, sample),
        task=task.name,
        task_hash=task.content_hash,
        sample=sample,
        seed=settings.seed,
        policy=policy.name,
        version=version,
        turns=tuple(play.turns),
        stopped=stopped,
        config_digest=config_digest,
    )


@dataclass
class _Play:
    """An episode under way."""

    task: Task
    policy: Policy
    evaluator: Evaluator
    settings: EpisodeSettings
    sample: int
    turns: list[Turn] = field(default_factory=list)
    unjudged: Turn | None = None
    """A turn of an earlier run that the gym had failed: its code is evaluated again."""

    def take_up(self, earlier: Sequence[Turn]) -> None:
        self.turns = list(earlier)
        if self.turns and self.turns[-1].status in _REDONE:
            last = self.turns.pop()
            self.unjudged = last if last.status == "infrastructure" else None

    def ended(self) -> Stopped | None:
        if not self.turns:
            return None
        last = self.turns[-1]
        if last.status in MISSING:
            return last.status  # type: ignore[return-value]  # MISSING is a part of Stopped
        goal = self.settings.stop_at_speedup
        if goal is not None and last.correct and (last.speedup or 0.0) >= goal:
            return "solved"
        return "turns" if len(self.turns) >= self.settings.turns else None

    async def next_turn(self) -> Turn:
        if self.unjudged is not None:
            draft, self.unjudged = self.unjudged, None
            turn = await self._judge(
                draft.prompt, draft.generation, draft.extraction, draft.seconds.get("generate", 0.0)
            )
        else:
            turn = await self._play()
        self.turns.append(turn)
        return turn

    async def _play(self) -> Turn:
        messages, room = self._prompt()
        if room < self.settings.budget.min_answer_tokens:
            why = f"{max(room, 0)} tokens are left for an answer"
            return self._missing(messages, Generation(text="", finish="context", error=why))
        started = time.monotonic()
        key = f"{self.task.name}/{self.sample}/{len(self.turns)}"
        generation = await self.policy.generate(messages, self.settings.drawn(room), key=key)
        seconds = time.monotonic() - started
        if generation.finish in ("error", "context"):
            return self._missing(messages, generation, seconds)
        extraction = prompts.extract(generation.text, generation.finish)
        return await self._judge(messages, generation, extraction, seconds)

    def _missing(
        self, messages: tuple[Message, ...], generation: Generation, seconds: float = 0.0
    ) -> Turn:
        status: Status = "context" if generation.finish == "context" else "policy_error"
        return self._turn(messages, generation, _NO_CODE, status, None, {"generate": seconds})

    async def _judge(
        self,
        messages: tuple[Message, ...],
        generation: Generation,
        extraction: Extraction,
        generate_s: float,
    ) -> Turn:
        seconds = {"generate": generate_s}
        if extraction.code is None:
            cut = extraction.how == "truncated" or generation.finish == "length"
            status: Status = "truncated" if cut else "no_code"
            return self._turn(messages, generation, extraction, status, None, seconds)
        started = time.monotonic()
        result = await self._evaluate(extraction.code)
        seconds["evaluate"] = time.monotonic() - started
        status = "infrastructure" if result is None else "evaluated"
        return self._turn(messages, generation, extraction, status, result, seconds)

    async def _evaluate(self, code: str) -> EvalResult | None:
        submission = self.settings.judging.submission(self.task, code)
        key = f"{self.task.name}/{self.sample}/{len(self.turns)}"
        for attempt in range(self.settings.infrastructure_rounds + 1):
            result = await self.evaluator.evaluate(submission, key=key, force=attempt > 0)
            if result is not None:
                return result
        return None

    def _turn(
        self,
        messages: tuple[Message, ...],
        generation: Generation,
        extraction: Extraction,
        status: Status,
        result: EvalResult | None,
        seconds: dict[str, float],
    ) -> Turn:
        said, reward = "", 0.0
        if status not in MISSING:
            said = prompts.feedback(result, extraction, budget_tokens=self.settings.feedback_tokens)
        if result is not None:
            reward = reward_from_result(result, self.settings.reward.built()) or 0.0
        return Turn(
            index=len(self.turns),
            messages_hash=messages_hash(messages),
            prompt=messages,
            generation=generation,
            extraction=extraction,
            result=result,
            status=status,
            feedback=said,
            reward=reward,
            seconds={name: round(spent, 4) for name, spent in seconds.items()},
        )

    def _prompt(self) -> tuple[tuple[Message, ...], int]:
        """The prompt of the next turn, and the tokens left for its answer."""
        kept = kept_turns(self.settings.context, self.turns)
        messages = self._written(kept)
        room = self._room(messages)
        while (
            room < self.settings.budget.min_answer_tokens
            and self.settings.context.overflow == "drop_oldest"
            and len(kept) > 1
        ):
            kept = kept[1:]
            messages = self._written(kept)
            room = self._room(messages)
        return messages, room

    def _written(self, kept: Sequence[int]) -> tuple[Message, ...]:
        settings = self.settings
        if not self.turns:
            return prompts.first_turn(
                self.task,
                backend=settings.judging.backend,
                gpu=settings.gpu or None,
                variant=settings.variant,
            )
        return prompts.refinement(
            self.task,
            self.turns,
            kept,
            backend=settings.judging.backend,
            gpu=settings.gpu or None,
            variant=settings.variant,
        )

    def _room(self, messages: Sequence[Message]) -> int:
        budget = self.settings.budget
        used = self.policy.count_tokens(messages)
        room = min(budget.context_tokens, self.policy.context_tokens) - used
        if budget.prompt_tokens is not None and used > budget.prompt_tokens:
            return 0
        if budget.episode_tokens is not None:
            spent = sum(turn.generation.completion_tokens for turn in self.turns)
            room = min(room, budget.episode_tokens - spent)
        return room


def kept_turns(settings: ContextSettings, turns: Sequence[Turn]) -> list[int]:
    """Indices of the earlier turns that the next prompt shows, in time order."""
    played = len(turns)
    if settings.rule == "all":
        return list(range(played))
    rewards = [turn.reward for turn in turns]  # a missing turn would have ended the episode
    start = played
    if settings.max_turns is not None:
        if played < settings.max_turns:
            return list(range(played))
        step = max(1, settings.max_turns - settings.w)
        start = settings.max_turns + (played - settings.max_turns) // step * step
    chosen = select_context(rewards[:start], settings.w, rule=settings.rule)
    return [*chosen, *range(start, played)]
