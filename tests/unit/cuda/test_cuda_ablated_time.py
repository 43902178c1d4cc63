"""Timing a call with its kernels off, on stand-in drivers; held against nobody."""

import pytest
from cuda_candidate import FakeCandidate, honest, raises

from kernelgym.judge import volley
from kernelgym.judge.clock import Bracket
from kernelgym.judge.probes.ablated_time import BRACKETS, time_off
from kernelgym.judge.volley import Shot
from kernelgym.sandbox import serving
from kernelgym.sandbox.frames import Kind
from kernelgym.sandbox.messages import Claims, Prepare


class Prepared(FakeCandidate):
    """Takes note of what it is prepared for."""

    def _serve(self):
        self.suppressed = []
        handlers = {Kind.CLOCK: self._clock, Kind.TIME: self._time, Kind.PREPARE: self._prepare}
        serving.serve(self.channel, handlers, self._describe)

    def _prepare(self, request):
        body = Prepare.model_validate_json(request.body)
        self.suppressed.append(body.suppress)
        self.recorder.suppress(body.suppress)
        return Kind.DONE, Claims()


def own():
    pass


def launches(candidate, x):
    """Its one kernel computes the answer, or is turned off."""
    candidate.recorder.own.register("", own.__code__)
    if candidate.recorder.launch(own, (1,), 4):
        return honest(candidate, x)
    return x.new_zeros(x.shape)


def off(world, forward):
    case = world.start(forward, Prepared)
    volley.prepare(world.deck, case.candidate.peer)
    return case, time_off(case.correctness, "eval")


def test_all_kernels_are_off_in_one_volley_and_answers_do_not_matter(world):
    case, found = off(world, launches)
    assert found > 0
    assert case.candidate.suppressed == [("*",)]
    assert [len(request.brackets) for request in case.candidate.requests[-1:]] == [BRACKETS]
    assert not case.dossier.trials


def test_copying_the_outputs_is_no_part_of_the_call(world, monkeypatch):
    """Of a large output it takes as long as the kernel that made it."""
    shot = Shot(Bracket(1, lead_us=150.0, body_us=3.0, tail_us=130.0, event_us=0.0))
    shot.own_launches = 1
    monkeypatch.setattr(volley.CandidateClock, "volley", lambda *_: [shot] * BRACKETS)
    _, found = off(world, launches)
    assert found == 3.0


@pytest.mark.parametrize("forward", [honest, raises], ids=["launches nothing", "raises"])
def test_nothing_is_learned_without_a_launch_or_from_an_exception(world, forward):
    case, found = off(world, forward)
    assert found is None
    assert not case.dossier.trials
