"""A judge's side to time candidates with, on a stand-in driver."""

import functools
import sys
from types import SimpleNamespace

import pytest
from cuda_candidate import REFERENCE, FakeCandidate
from cuda_standin import StandInDriver

from kernelgym.cuda import device as gpu
from kernelgym.judge import blocks, volley
from kernelgym.judge import deck as deck_module
from kernelgym.judge.clock import Sampler
from kernelgym.judge.correctness import Correctness
from kernelgym.judge.dossier import Dossier
from kernelgym.judge.prepare import PreparedTask
from kernelgym.judge.volley import CandidateClock
from kernelgym.sandbox import calling
from kernelgym.sandbox.pool import HostPool
from kernelgym.schema import Task


@pytest.fixture(autouse=True)
def quick_turns():
    """Judge, candidate and streams are threads here, and a judge that polls lets nobody in for
    five milliseconds by default: brackets of many steps ran into their limits on some machines."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def world(monkeypatch):
    """A prepared task, pools, the judge's deck; short blocks, patient canaries."""
    monkeypatch.setattr(deck_module, "QUIET_US", 1e9)
    monkeypatch.setattr(volley, "QUIET_US", 1e9)
    monkeypatch.setattr(blocks, "EMPTY_SHOTS", 2)
    monkeypatch.setattr(blocks, "BUDGET_S", 60.0)
    monkeypatch.setattr(blocks, "Sampler", functools.partial(Sampler, looks=(4,)))
    task = PreparedTask(
        Task(name="t", reference=REFERENCE), "fp32", device="cpu", limit_s=20, memory_bytes=1 << 30
    )
    pools = HostPool(1 << 20), HostPool(1 << 20)
    driver = StandInDriver()
    deck = deck_module.make(driver, gpu.activate(driver))
    deck.tracer, deck.no_tracer = None, "no CUPTI: this is a stand-in"
    deck.after_limit_us = 1e9
    monkeypatch.setattr(deck_module, "_DECK", [deck])
    made = []

    def start(forward, kind=FakeCandidate):
        candidate = kind(forward, (pools[0].flat, pools[1].flat))
        made.append(candidate)

        def queued(target, value):
            candidate.driver.enqueue(lambda: target.copy_(value))
            return True

        monkeypatch.setattr(calling, "_copied", queued)
        dossier = Dossier()
        correctness = Correctness(
            task, candidate.peer, pools, "standard", dossier, lambda _name: None
        )
        timer = CandidateClock(deck, correctness)
        return SimpleNamespace(
            candidate=candidate, timer=timer, correctness=correctness, dossier=dossier
        )

    yield SimpleNamespace(task=task, deck=deck, start=start, pools=pools)
    for candidate in made:
        candidate.close()
    deck.settle()
    deck.bench.close()
