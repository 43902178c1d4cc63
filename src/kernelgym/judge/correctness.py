"""The correctness stage: fresh secret inputs, one call on each side, one comparison a trial.

The reference runs first and in the judge's memory; only then does the candidate see the inputs.
The input pool is compared afterwards with what the reference left: unchanged bit by bit, or changed
alike where the reference changes its inputs. Two trials in a row lie at the same addresses, then
the place moves, so that neither a cache by address nor one by content survives.

Not covered: whether the answer was computed by the candidate's own kernels (launch evidence), and
what happens in calls that are timed (measurement).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from kernelgym.errors import TaskError
from kernelgym.judge import compare, inputs, protocols
from kernelgym.judge.answers import BadAnswer, Examiner, Expected, Verdict
from kernelgym.judge.dossier import Dossier, Evidence
from kernelgym.judge.inputs import Arguments, copy_into, draw_seed
from kernelgym.judge.peer import Peer, PeerGarbled, parse
from kernelgym.judge.prepare import PreparedTask, as_oracle
from kernelgym.sandbox.frames import Kind
from kernelgym.sandbox.messages import Call, Output
from kernelgym.sandbox.pool import ALIGNMENT, Pool, TensorLayout, place, place_dense, view
from kernelgym.schema import Mode, Protocol, Trial

SLACK_BYTES = 64 * ALIGNMENT
"""Room in the input pool for moving the inputs about."""
KEEP_BELOW_BYTES = 64 << 20
"""Outputs up to this size are held over the next call and looked at again."""


@dataclass(frozen=True)
class Given:
    """One set of inputs: the judge's own, which the reference may have changed, and the copy."""

    own: Arguments
    layouts: list[TensorLayout]
    changed: list[bool]
    """Which inputs the reference changed."""


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
    ) -> None:
        """``pools``: inputs and outputs. ``announce`` is told what runs now."""
        self.task = task
        self.peer = peer
        self.inputs, self.outputs = pools[0].flat, pools[1].flat
        self.protocol = protocol
        self.dossier = dossier
        self.announce = announce
        self.examiner = Examiner(protocol, task.reference.dtype, task.device)
        self.model = task.fresh_model()
        self.oracle = task.oracle_model() if protocol == "strict" else None
        self._turn = 0
        self._before: list[torch.Tensor] = []  # the previous call's outputs, as they were then

    def run(self, mode: Mode, index: int, *, compared: bool, limit_s: float) -> None:
        """One trial; with ``compared`` False only for the evidence that the call leaves."""
        seed = draw_seed()
        self.dossier.seeds[f"{mode}/{index}"] = seed
        self.announce(f"reference {mode}/{index}")
        call_seed = draw_seed()
        given, expected = self._expect(mode, seed, call_seed)
        layouts, end = place_dense(expected.tensors)
        if end > self.outputs.numel():
            raise TaskError(
                "reference_bad_output", "the size of its outputs is not always the same"
            )
        poison = inputs.poison(self.outputs, layouts, self._turn)
        self.announce(f"candidate {mode}/{index}")
        output = self._call(mode, given, call_seed, limit_s)
        self.announce(f"compare {mode}/{index}")
        self.dossier.evidence.setdefault(mode, Evidence()).add(self.peer.records())
        if compared:
            verdict = self._examine(given, expected, output, poison)
            self.dossier.trials.append(_trial(mode, index, verdict))

    def _expect(self, mode: Mode, seed: int, call_seed: int) -> tuple[Given, Expected]:
        """Make inputs, copy them into the pool, run the reference on its own."""
        reference = self.task.reference
        own = reference.make_inputs(seed)
        layouts, end = place(own.tensors, self._offset())
        if end > self.inputs.numel():
            raise TaskError(
                "reference_inputs_error", "the size of its inputs is not always the same"
            )
        copy_into(self.inputs, layouts, own.tensors)
        oracle = []
        if self.oracle is not None:
            oracle = self._ask_oracle(mode, own)
        returned = reference.call(self.model, mode, own, call_seed)
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
        return Given(own, layouts, changed), expected

    def _ask_oracle(self, mode: Mode, own: Arguments) -> list[torch.Tensor]:
        assert self.oracle is not None
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

    def _offset(self) -> int:
        """Same place twice, then another."""
        return (self._turn // 2) % (SLACK_BYTES // ALIGNMENT) * ALIGNMENT

    def _call(self, mode: Mode, given: Given, seed: int, limit_s: float) -> Output:
        self._turn += 1
        keep = (
            not self.task.study.shared.get(mode)
            and self.task.study.output_bytes <= KEEP_BELOW_BYTES
        )
        request = Call(
            mode=mode,
            arguments=given.own.node,
            tensors=tuple(given.layouts),
            seed=seed,
            output_offset=0,
            keep=keep,
        )
        frame = self.peer.request("forward", Kind.CALL, request, limit_s=limit_s)
        return parse(Output, frame, "forward")

    def _examine(self, given: Given, expected: Expected, output: Output, poison: int) -> Verdict:
        try:
            verdict = self.examiner.examine(expected, output, self.outputs, poison)
            late = self._look_again(output)
        except (BadAnswer, ValueError) as error:
            raise PeerGarbled("forward", str(error)) from error
        for found in (self._check_inputs(given), late):
            if verdict.status == "ok" and found is not None:
                verdict = replace(verdict, status=found.status, detail=found.detail)
        return verdict

    def _check_inputs(self, given: Given) -> Verdict | None:
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

    def _look_again(self, output: Output) -> Verdict | None:
        """Whether the outputs of the call before are still what they were."""
        found = None
        for index, (layout, then) in enumerate(zip(output.earlier, self._before, strict=False)):
            same = (
                layout.offset >= 0
                and layout.shape == tuple(then.shape)
                and compare.same_bits(view(self.outputs, layout), then)
            )
            if not same:
                found = Verdict(
                    "overwritten_output",
                    f"output tensor {index} of the call before was changed by this one",
                )
        kept = output.tensors if self.task.study.output_bytes <= KEEP_BELOW_BYTES else ()
        self._before = [view(self.outputs, layout).clone() for layout in kept if layout.offset >= 0]
        return found


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
