"""The correctness stage: fresh secret inputs, one call on each side, one comparison a trial.

The reference runs first and in the judge's memory; only then does the candidate see the inputs.
The input pool is compared afterwards with what the reference left: unchanged bit by bit, or changed
alike where the reference changes its inputs. Two trials in a row lie at the same addresses, then
the place moves, so that neither a cache by address nor one by content survives. Round the inputs
and in memory that the call allocates lies what nobody would write.

Probes ask further questions through the same path (`Correctness.trial`, `Correctness.ask`).

Not covered: whether the answer was computed by the candidate's own kernels (launch evidence), and
what happens in calls that are timed (measurement).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import torch

from kernelgym.errors import TaskError
from kernelgym.judge import compare, guards, inputs, protocols
from kernelgym.judge.answers import BadAnswer, Examiner, Expected, Verdict
from kernelgym.judge.dossier import Dossier, Evidence
from kernelgym.judge.inputs import Arguments, copy_into, draw_seed
from kernelgym.judge.peer import Peer, PeerGarbled, parse
from kernelgym.judge.prepare import PreparedTask, as_oracle
from kernelgym.judge.quick import agrees
from kernelgym.judge.remembering import Remembered
from kernelgym.judge.stock import Stock
from kernelgym.judge.turns import Turns
from kernelgym.sandbox.evidence import Record
from kernelgym.sandbox.frames import Kind
from kernelgym.sandbox.messages import Call, Output, Prepare
from kernelgym.sandbox.pool import ALIGNMENT, Pool, TensorLayout, place, place_dense, view
from kernelgym.schema import Mode, Protocol, Trial

SLACK_BYTES = 64 * ALIGNMENT
"""Room in the input pool for moving the inputs about."""
KEEP_BELOW_BYTES = 64 << 20
"""Outputs up to this size are held over the next call and looked at again."""
AT_ONCE_BYTES = 256 << 20
"""Inputs and outputs up to this size are looked at in one go."""
PROBE_INDEX = 1_000
"""Failed trials of probes are numbered from here."""
PREPARE_LIMIT_S = 10.0
FILLS = (0xFF, 0xA5, 0x00)
"""What memory that a call allocates holds, in a secret order: NaNs, tiny numbers, zeros. Zeros
prove nothing, but calls without own kernels need them (`kernelgym.judge.probes.ablation`), and
must not be known by them."""


@dataclass(frozen=True)
class Given:
    """One set of inputs: the judge's own, which the reference may have changed, and the copy."""

    own: Arguments
    layouts: list[TensorLayout]
    changed: list[bool]
    """Which inputs the reference changed."""
    bands: guards.Bands


@dataclass(frozen=True)
class Question:
    """One call to be made."""

    mode: Mode
    make: Callable[[], Arguments]
    """The inputs, in memory of their own; a reference may change them."""
    call_seed: int
    """State of the generators during the call, on both sides."""
    key: str
    """What it is, for the record."""
    probe: str = ""
    """Whose question it is; empty for a trial."""


@dataclass(frozen=True)
class Asked:
    """One call that was made."""

    expected: Expected
    verdict: Verdict
    values: Verdict
    """The answer alone, without what became of inputs and of earlier answers."""
    records: list[Record]
    answer: list[torch.Tensor]
    """Copies of the output tensors where they are small, else empty."""


class _Everything(frozenset[str]):
    """Holds every name."""

    def __contains__(self, item: object) -> bool:
        return True


class Correctness:
    """Runs trials against one candidate."""

    def __init__(
        self,
        task: PreparedTask,
        peer: Peer,
        pools: tuple[Pool, Pool],
        protocol: Protocol,
        dossier: Dossier,
        announce: Callable[[str], None],
        probes: Iterable[str] | None = None,
        turns: Turns | None = None,
    ) -> None:
        """``pools``: inputs and outputs. ``announce`` is told what runs now. ``probes``: names of
        `kernelgym.judge.probes` that are on; None is all of them. ``turns``: on the device."""
        self.task = task
        self.peer = peer
        self.inputs, self.outputs = pools[0].flat, pools[1].flat
        self.protocol = protocol
        self.dossier = dossier
        self.announce = announce
        self.turns = turns or Turns(None, lambda stage, _limit_s: announce(stage))
        self.on = _Everything() if probes is None else frozenset(probes)
        self.examiner = Examiner(protocol, task.reference.dtype, task.device, self.on)
        self.model = task.fresh_model()
        self.oracle = task.oracle_model() if protocol == "strict" else None
        self.stock: Stock | None = None
        """Inputs of timed calls: one for all clocks of a candidate, so that none comes twice."""
        self.limit_s = 120.0
        self.last: Question | None = None
        """What was asked last."""
        self._fills = random.SystemRandom().sample(FILLS, len(FILLS))
        self._turn = 0
        self._place = 0
        self._failed = 0
        self._remembered = Remembered(KEEP_BELOW_BYTES)

    # --- questions ------------------------------------------------------------------------------

    def run(self, mode: Mode, index: int, *, compared: bool, limit_s: float) -> None:
        """One trial; with ``compared`` False only for the evidence that the call leaves."""
        self.limit_s = limit_s
        seed = draw_seed()
        key = f"{mode}/{index}"
        self.note_seeds(key, seed)
        make = self.task.reference.make_inputs
        asked = self.ask(Question(mode, lambda: make(seed), draw_seed(), key))
        self._add_evidence(mode, asked)
        if compared:
            self.dossier.trials.append(_trial(mode, index, asked.verdict))

    def trial(
        self,
        question: Question,
        *,
        stay: bool = False,
        move: bool = False,
        watch: bool = False,
    ) -> Asked:
        """A question of a probe; only a wrong answer is put on the record, as a failed trial."""
        prepare = Prepare(fill=self._filler_of_memory(), watch=watch)
        asked = self.ask(question, stay=stay, move=move, prepare=prepare)
        self._add_evidence(question.mode, asked)
        if asked.verdict.status != "ok":
            detail = f"{question.probe}: {asked.verdict.detail}"
            index, self._failed = PROBE_INDEX + self._failed, self._failed + 1
            wrong = replace(asked.verdict, detail=detail)
            self.dossier.trials.append(_trial(question.mode, index, wrong))
        return asked

    def ask(
        self,
        question: Question,
        *,
        stay: bool = False,
        move: bool = False,
        prepare: Prepare | None = None,
    ) -> Asked:
        """Make one call and judge the answer. ``stay``: at the addresses of the call before;
        ``move``: certainly at others. ``prepare``: how the call is observed."""
        self.turns.step_aside(f"reference {question.key}")
        self.last = question
        self._choose_place(stay=stay, move=move)
        given, expected = self._expect(question)
        layouts, end = place_dense(expected.tensors)
        if end > self.outputs.numel():
            raise TaskError(
                "reference_bad_output", "the size of its outputs is not always the same"
            )
        poison = inputs.poison(self.outputs, layouts, self._turn)
        self.turns.step_aside(f"candidate {question.key}")
        output = self._call(question, given, prepare)
        self.turns.step_aside(f"compare {question.key}")
        return self._examine(given, expected, output, poison, brief=bool(question.probe))

    def spare_model(self) -> torch.nn.Module:
        """The reference's model, or a copy of it where calls may change its state."""
        model, task = self.model, self.task
        if next(iter(model.buffers()), None) is None:
            return model
        self.announce("reference copy")
        return task.reference.copy(model, task.init, task.init_seed)

    def expected_of(self, question: Question, model: torch.nn.Module) -> Expected:
        """What the reference answers with a spare model; no candidate is asked."""
        self.announce(f"reference {question.key}")
        own, study = question.make(), self.task.study
        returned = self.task.reference.call(model, question.mode, own, question.call_seed)
        return Expected(returned.node, returned.tensors, study.noise.get(question.mode, []))

    def accepts(self, expected: Expected, answer: list[torch.Tensor]) -> bool:
        """Whether these tensors would pass for an answer."""
        return self.examiner.accepts(expected, answer)

    def remark(self, text: str) -> None:
        """Something that was left undone, for the record."""
        if text not in self.dossier.notes:
            self.dossier.notes.append(text)

    def note_seeds(self, key: str, *seeds: int) -> None:
        """Seeds of inputs, for whoever wants to repeat it."""
        for number, seed in enumerate(seeds):
            self.dossier.seeds[key if number == 0 else f"{key}/{number}"] = seed

    # --- one call -------------------------------------------------------------------------------

    def _add_evidence(self, mode: Mode, asked: Asked) -> None:
        self.dossier.evidence.setdefault(mode, Evidence()).add(asked.records)

    def _choose_place(self, *, stay: bool, move: bool) -> None:
        """Same place twice, then another."""
        places = SLACK_BYTES // ALIGNMENT
        if move:
            self._place = (self._place + 1) % places
        elif not stay:
            self._place = (self._turn // 2) % places

    def _expect(self, question: Question) -> tuple[Given, Expected]:
        """Make inputs, copy them into the pool, run the reference on its own."""
        reference, mode = self.task.reference, question.mode
        own = question.make()
        gap = guards.BAND_BYTES if "guard_bands" in self.on else 0
        start = self._place * ALIGNMENT
        layouts, end = place(own.tensors, start, gap=gap)
        if end > self.inputs.numel():
            raise TaskError(
                "reference_inputs_error", "the size of its inputs is not always the same"
            )
        bands = guards.fill(self.inputs, layouts, start, end if gap else start, self._filler())
        copy_into(self.inputs, layouts, own.tensors)
        oracle = self.ask_oracle(mode, own)
        returned = reference.call(self.model, mode, own, question.call_seed)
        study = self.task.study
        changed = study.changed.get(mode, [])
        if len(changed) != len(own.tensors):
            raise TaskError("reference_inputs_error", "the number of its inputs varies")
        expected = Expected(
            returned.node,
            returned.tensors,
            study.noise.get(mode, []),
            oracle,
            study.shared.get(mode, frozenset()),
        )
        return Given(own, layouts, changed, bands), expected

    def _filler(self) -> int:
        return inputs.POISON[self._turn % len(inputs.POISON)]

    def _filler_of_memory(self) -> int:
        return self._fills[self._turn % len(self._fills)] if "filled_memory" in self.on else 0

    def ask_oracle(self, mode: Mode, own: Arguments) -> list[torch.Tensor]:
        """Answers in fp64, before the reference gets the arguments; none but for ``strict``."""
        if self.oracle is None:
            return []
        if self.task.study.random_in_eval:
            raise TaskError("reference_no_oracle", "fp64 draws other random numbers: not strict")
        try:
            return self.task.reference.call(self.oracle, mode, as_oracle(own), 0).tensors
        except TaskError as error:
            raise TaskError(
                "reference_no_oracle",
                f"protocol strict needs the reference in fp64, which fails: {error}",
                traceback=error.traceback,
            ) from error

    def _call(self, question: Question, given: Given, prepare: Prepare | None) -> Output:
        prepared = prepare or Prepare(fill=self._filler_of_memory())
        self._turn += 1
        keep = (
            "held_outputs" in self.on
            and not self.task.study.shared.get(question.mode)
            and self.task.study.output_bytes <= KEEP_BELOW_BYTES
        )
        request = Call(
            mode=question.mode,
            arguments=given.own.node,
            tensors=tuple(given.layouts),
            seed=question.call_seed,
            output_offset=0,
            keep=keep,
        )
        first = self.peer.send("forward", Kind.PREPARE, prepared)
        second = self.peer.send("forward", Kind.CALL, request)
        with self.turns.weighed():
            self.peer.answer("forward", Kind.PREPARE, first, limit_s=PREPARE_LIMIT_S)
            frame = self.peer.answer("forward", Kind.CALL, second, limit_s=self.limit_s)
        return parse(Output, frame, "forward")

    def _examine(
        self, given: Given, expected: Expected, output: Output, poison: int, *, brief: bool
    ) -> Asked:
        """``brief``: nobody asks how large the errors of a right answer are."""
        try:
            if brief and agrees(self.protocol, expected, output, self.outputs):
                values = Verdict()
            else:
                values = self.examiner.examine(expected, output, self.outputs, poison)
            untouched = self._is_untouched(given, output)
            late = None if untouched else self._remembered.changed(output, self.outputs)
            values = self._remembered.explain(values, output, self.outputs)
            answer = self._remembered.keep(output, self.outputs)
        except (BadAnswer, ValueError) as error:
            raise PeerGarbled("forward", str(error)) from error
        verdict = values
        for found in (None if untouched else self._check_inputs(given), late):
            if verdict.status == "ok" and found is not None:
                verdict = replace(verdict, status=found.status, detail=found.detail)
        self.dossier.count(output.threads, output.children)
        return Asked(expected, verdict, values, self.peer.records(), answer)

    def _is_untouched(self, given: Given, output: Output) -> bool:
        """Whether bands, inputs and the answer before are certainly what they were; one wait."""
        size = self.task.study.input_bytes + self.task.study.output_bytes
        earlier = self._remembered.intact(output, self.outputs)
        if earlier is None or any(given.changed) or size > AT_ONCE_BYTES:
            return False
        flags = [*given.bands.intact(), *earlier]
        for layout, after in zip(given.layouts, given.own.tensors, strict=True):
            flags.append(compare.bits_agree(view(self.inputs, layout), after))
        return not flags or bool(torch.stack(flags).all())

    def _check_inputs(self, given: Given) -> Verdict | None:
        broken = given.bands.broken()
        if broken is not None:
            return Verdict("out_of_bounds_write", broken)
        if "unchanged_inputs" not in self.on:
            return None
        for index, (layout, after) in enumerate(zip(given.layouts, given.own.tensors, strict=True)):
            seen = view(self.inputs, layout)
            if given.changed[index]:
                if not self._alike(seen, after):
                    return Verdict(
                        "input_mismatch",
                        f"the reference changes input tensor {index} in place, this does not alike",
                    )
            elif not compare.same_bits(seen, after):
                return Verdict("input_modified", f"input tensor {index} was changed")
        return None

    def _alike(self, seen: torch.Tensor, after: torch.Tensor) -> bool:
        if not (after.is_floating_point() or after.is_complex()):
            return compare.exact_difference(seen, after).wrong == 0
        allowance = protocols.standard(after.dtype, compare.rms(after), 0.0)
        return compare.difference(seen, after, allowance).wrong == 0


def _trial(mode: Mode, index: int, verdict: Verdict) -> Trial:
    return Trial(
        index=index,
        mode=mode,
        passed=verdict.status == "ok",
        status=verdict.status,
        max_abs_error=verdict.max_abs_error,
        max_rel_error=verdict.max_rel_error,
        worst_ratio=verdict.worst_ratio,
        error_quantiles=verdict.quantiles,
        detail=verdict.detail,
    )
