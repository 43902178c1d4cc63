"""Marks, events and CUPTI against kernels of known length. The bounds are those of issue C."""

import statistics

import pytest
import torch

from kernelgym.cuda import armed
from kernelgym.judge.brackets import watch
from kernelgym.trace.attribution import Tracer
from kernelgym.trace.cupti import Cupti


def shoot(bench, value, calls, call):
    queued = armed.queue(bench, value, calls, call)
    lead, body, _ = watch(bench.page, value, 5.0, lambda: True)
    return lead, body, queued.microseconds()


@pytest.mark.parametrize("spin_us", [50, 200, 1000, 5000])
def test_marks_and_events_agree_with_a_known_length(driver, bench, spin_us):
    stream = driver.stream()
    empty = statistics.median(shoot(bench, i, 0, lambda _: None)[1] for i in range(1, 31))
    rows = [
        shoot(bench, 100 + i, 1, lambda _: bench.kernels.spin(stream, spin_us * 1000))
        for i in range(15)
    ]
    marks = statistics.median(body for _, body, _ in rows) - empty
    events = statistics.median(event for _, _, event in rows)
    assert marks == pytest.approx(spin_us, rel=0.02, abs=5)
    assert marks == pytest.approx(events, rel=0.05, abs=3)


@pytest.mark.parametrize("spin_us", [20, 200, 5000])
def test_cupti_within_two_percent(driver, bench, spin_us):
    tracer = Tracer(Cupti())
    tracer.start()
    for _ in range(9):
        bench.kernels.spin(driver.stream(), spin_us * 1000)
    torch.cuda.synchronize()
    spans = [r.activity for r in tracer.stop() if r.activity.name == "kernelgym_spin"]
    assert len(spans) == 9
    times = [(a.end_ns - a.start_ns) / 1e3 for a in spans]
    assert statistics.median(times) == pytest.approx(spin_us, rel=0.02, abs=1.5)


def test_a_parked_stream_holds_back_the_others(driver, bench):
    from kernelgym.cuda.page import Slot

    event, other = torch.cuda.Event(), torch.cuda.Stream()
    bench.page.wait(driver.stream(), Slot.FLAG, 9000)
    with torch.cuda.stream(other):
        bench.kernels.tick(other.cuda_stream)
        event.record()
    ahead = event.query()
    bench.page.set(Slot.FLAG, 9000)
    torch.cuda.synchronize()
    assert not ahead
