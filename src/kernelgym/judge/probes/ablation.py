"""Ablation: what becomes of the answers when the candidate's own kernels are no-ops?

    ordinary calls, a random number in random order: they must still be right
    all own kernels off, memory zeroed: an answer that is right came from somewhere else
    the same, timed (GPU): own kernels cannot have taken more than the call now loses
    one kernel off at a time, memory full of NaNs: a kernel that nobody misses earns no share

Nothing tells these calls from one another before they are over: each comes after a `Prepare`, the
request itself is the same. They are the last ones, because a candidate may be in any state after a
kernel of its has not run: semaphores that were not reset, indices that are not indices.

The verdict ``kernels_do_nothing`` needs two right answers, in each mode that has own kernels, on
two sets of inputs which this task can tell apart, and for which no input is an answer. Memory is
zeroed then, not filled with NaNs: code that looks for NaNs and falls back to torch is not accused
of what it does only when it is broken.

The ordinary calls are watched (`kernelgym.trace.ablation`): kernels that only ever copy what was
not an input, beside all of the reference's operators in torch, computed nothing either.

Not covered: kernels inside a CUDA graph (a replay launches nothing that could be turned off), and
candidates that look at what their kernels wrote before they go on. Both have a share of device
time, and that is what they are paid by.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import torch

from kernelgym.judge import census, compare
from kernelgym.judge.correctness import Asked, Correctness, Question
from kernelgym.judge.inputs import draw_seed
from kernelgym.judge.peer import PeerError, PeerFailed
from kernelgym.judge.probes.ablated_time import EVERYTHING, time_off
from kernelgym.judge.reference import state_of
from kernelgym.sandbox.evidence import Event
from kernelgym.sandbox.messages import Prepare
from kernelgym.schema import Finding, Mode
from kernelgym.trace import likeness

MAX_EXTRA = 2
"""Ordinary calls beyond one a mode; how many, nobody knows beforehand."""
MIN_WATCHED = 2
OFF_CALLS = 6
"""Most calls with all kernels off in which two with launches have to be among."""
MAX_KERNELS = 8
"""Kernels that are turned off one at a time."""


class Ablation:
    """Own kernels as no-ops: all of them, then one by one."""

    name = "ablation"
    turns_off = True

    def ask_last(self, correctness: Correctness, modes: tuple[Mode, ...]) -> None:
        """Calls whose end nobody waits for."""
        evidence = correctness.dossier.evidence
        modes = tuple(mode for mode in modes if mode in evidence and evidence[mode].own_launches)
        if not modes:
            return
        if _has_moved(correctness):
            correctness.remark(f"{self.name}: left out, the reference's state changes with calls")
            return
        watched = self._ordinary(correctness, modes)
        if any(not trial.passed for trial in correctness.dossier.trials):
            return
        with suppress(PeerError):  # nothing that happens from here on is held against it
            done = tuple(mode for mode in modes if self._all_off(correctness, mode))
            if done == modes:
                self._accuse(correctness, done)
            elif done:
                self._remark(correctness, done)
            self._copies(correctness, watched)
            if correctness.dossier.on_gpu and (off := time_off(correctness, modes[0])) is not None:
                correctness.dossier.off_us[modes[0]] = off
            if not done:
                self._one_by_one(correctness, modes[0], watched)

    # --- the three parts ------------------------------------------------------------------------

    def _ordinary(
        self, correctness: Correctness, modes: tuple[Mode, ...]
    ) -> list[tuple[Question, Asked]]:
        draw = random.SystemRandom()
        least = max(0, MIN_WATCHED - len(modes))
        plan = [*modes, *draw.choices(modes, k=draw.randint(least, MAX_EXTRA))]
        draw.shuffle(plan)
        watched = []
        for number, mode in enumerate(plan):
            question = self._question(correctness, mode, f"last/{number}")
            asked = correctness.trial(question, watch=True)
            watched.append((question, asked))
        return watched

    def _all_off(self, correctness: Correctness, mode: Mode) -> bool:
        """Whether two answers are right without any own kernel, in calls that wanted to launch one.

        Calls that launch none say nothing (a graph's replay), and are asked again: launches may
        come now and then.
        """
        right: list[tuple[Question, Asked]] = []
        for turn in range(OFF_CALLS):
            question = self._question(correctness, mode, f"off/{turn}")
            asked = self._ask(correctness, question, EVERYTHING)
            if asked is None or asked.values.status != "ok":
                return False
            if claims_own(asked):
                right.append((question, asked))
            if len(right) == 2:
                break
        else:
            return False
        (_, before), (question, after) = right
        if not tells_apart(correctness, before, after, question):
            correctness.remark(f"{self.name}: this task cannot tell an answer from none")
            return False
        return True

    def _accuse(self, correctness: Correctness, modes: tuple[Mode, ...]) -> None:
        dossier = correctness.dossier
        names = {name for mode in modes for name in dossier.evidence[mode].digests.values()}
        dossier.idle.update(dict.fromkeys(names, "idle"))
        listed = ", ".join(sorted(names)[:5])
        dossier.findings.append(
            Finding(
                id="kernels_do_nothing",
                severity="hack",
                message=f"in {' and '.join(modes)} mode the answers are right without any kernel "
                f"of the candidate's own ({listed}): something else computes them",
                evidence="inside",
            )
        )

    def _remark(self, correctness: Correctness, modes: tuple[Mode, ...]) -> None:
        """Own kernels that one mode needs and the other does not: normalisation with statistics
        that start as zeros and ones is nothing in eval mode, and something in train mode."""
        correctness.dossier.findings.append(
            Finding(
                id="mode_branch",
                severity="warning",
                message=f"in {' and '.join(modes)} mode the answers are right without own kernels",
                evidence="inside",
            )
        )

    def _one_by_one(
        self,
        correctness: Correctness,
        mode: Mode,
        watched: Sequence[tuple[Question, Asked]],
    ) -> None:
        """Kernels of the calls, that is; what a constructor has launched cannot be missed later."""
        digests = {
            record.digest.hex(): record.name
            for question, asked in watched
            for record in asked.records
            if question.mode == mode and record.event is Event.LAUNCH and record.own
        }
        if len(digests) < 2:
            return
        for digest, name in list(digests.items())[:MAX_KERNELS]:
            prepare = Prepare(fill=0xFF, suppress=(digest,))
            answers = (
                self._ask(
                    correctness, self._question(correctness, mode, f"without/{turn}"), prepare
                )
                for turn in range(2)
            )
            if all(_is_right(answer) for answer in answers):
                correctness.dossier.idle[name] = "idle"

    def _copies(self, correctness: Correctness, watched: Sequence[tuple[Question, Asked]]) -> None:
        """Own kernels that only copy, or change nothing, in every launch that was watched."""
        if not _telling(correctness, watched):
            return
        kinds = self._kinds(correctness, watched)
        for name, kind in kinds.items():
            if kind in ("copy", "idle"):
                correctness.dossier.idle.setdefault(name, kind)
        copies = {name for name, kind in kinds.items() if kind in ("copy", "rescaled")}
        if not copies or "computes" in kinds.values():
            return
        modes = {question.mode for question, _ in watched}
        if "census" in correctness.on and all(_elsewhere(correctness, mode) for mode in modes):
            correctness.dossier.findings.append(
                Finding(
                    id="copies_only",
                    severity="hack",
                    message="the candidate's own kernels only copied what something else had "
                    f"computed: {', '.join(sorted(copies)[:5])}",
                    evidence="inside",
                )
            )

    def _kinds(
        self, correctness: Correctness, watched: Sequence[tuple[Question, Asked]]
    ) -> dict[str, str]:
        """What each own kernel did, in all of its launches: ``copy``, ``rescaled``, ``idle``, or
        else ``computes``."""
        on_gpu = correctness.dossier.on_gpu  # where nobody looks for it
        rescaling = not on_gpu and not any(_an_input_explains(*pair) for pair in watched)
        counts: dict[str, Counter[Event]] = {}
        for record in (record for _, asked in watched for record in asked.records):
            if record.own:
                counts.setdefault(record.name, Counter())[record.event] += 1
        kinds = {}
        for name, seen in counts.items():
            pretended = seen[Event.COPY] + (seen[Event.RESCALED] if rescaling else 0)
            kinds[name] = "computes"
            if 0 < seen[Event.LAUNCH] == pretended + seen[Event.IDLE]:
                kinds[name] = "rescaled" if seen[Event.RESCALED] else "copy"
            if seen[Event.IDLE] == seen[Event.LAUNCH] and self._is_idle(correctness, name):
                kinds[name] = "idle"  # else it may have been given pointers as integers
            elif not pretended:
                kinds[name] = "computes"
        return kinds

    def _is_idle(self, correctness: Correctness, name: str) -> bool:
        """Whether the answers are right without this kernel."""
        for mode, evidence in correctness.dossier.evidence.items():
            for digest in (d for d, known in evidence.digests.items() if known == name):
                question = self._question(correctness, mode, f"without/{name}")
                if not _is_right(self._ask(correctness, question, Prepare(suppress=(digest,)))):
                    return False
        return True

    # --- calls ----------------------------------------------------------------------------------

    def _question(self, correctness: Correctness, mode: Mode, key: str) -> Question:
        seed, make = draw_seed(), correctness.task.reference.make_inputs
        correctness.note_seeds(f"{mode}/{key}", seed)
        return Question(mode, lambda: make(seed), draw_seed(), f"{mode}/{key}", self.name)

    def _ask(self, correctness: Correctness, question: Question, prepare: Prepare) -> Asked | None:
        """None when it raised: whatever it does without its kernels, it misses them."""
        try:
            return correctness.ask(question, prepare=prepare)
        except PeerFailed:
            correctness.peer.records()
            return None


def _is_right(asked: Asked | None) -> bool:
    """Right, in a call that claims to have launched own kernels."""
    return asked is not None and asked.values.status == "ok" and claims_own(asked)


def claims_own(asked: Asked) -> bool:
    """Whether the call says that it has launched a kernel of its own."""
    return any(record.event is Event.LAUNCH and record.own for record in asked.records)


def tells_apart(correctness: Correctness, one: Asked, other: Asked, question: Question) -> bool:
    """Whether right answers say anything here: not if an earlier one or an input would do."""
    if correctness.accepts(other.expected, one.expected.tensors):
        return False
    return not _an_input_would_do(correctness, question, other)


def _telling(correctness: Correctness, watched: Sequence[tuple[Question, Asked]]) -> bool:
    """Whether the watched calls were on inputs that this task tells apart."""
    if len(watched) < MIN_WATCHED or all(_an_input_would_do(correctness, *p) for p in watched):
        return False
    (_, first), (_, second) = watched[:2]
    return not correctness.accepts(second.expected, first.expected.tensors)


def _an_input_would_do(correctness: Correctness, question: Question, asked: Asked) -> bool:
    """Whether an input would pass for the answer: a rectifier of positive numbers, say."""
    if len(asked.expected.tensors) != 1:
        return False
    return any(correctness.accepts(asked.expected, [tensor]) for tensor in question.make().tensors)


def _an_input_explains(question: Question, asked: Asked) -> bool:
    """Whether the answer is an input of the call, rescaled or in another order."""
    for expected in (tensor.reshape(-1) for tensor in asked.expected.tensors):
        everywhere = torch.ones_like(expected, dtype=torch.bool)
        for given in (tensor.reshape(-1) for tensor in question.make().tensors):
            if likeness.rescaled(given, expected, everywhere):
                return True
    return False


def _has_moved(correctness: Correctness) -> bool:
    """Whether calls change the state of the reference: then turned-off kernels would, too."""
    before, now = state_of(correctness.task.model), state_of(correctness.model)
    buffers = dict(correctness.model.named_buffers(remove_duplicate=False))
    return any(not compare.same_bits(now[name], before[name]) for name in buffers)


def _elsewhere(correctness: Correctness, mode: Mode) -> bool:
    """Whether the answer was computed elsewhere, when own kernels only copy: torch ran all of the
    reference's operators, or nothing that computes was seen at all."""
    if correctness.dossier.on_gpu:  # no census there: a share of nothing has to do
        return False
    wanted = census.computing(correctness.task.study.operators.get(mode, {}))
    used = census.computing(correctness.dossier.evidence[mode].operators)
    return bool(wanted) and (wanted <= used or not used)
