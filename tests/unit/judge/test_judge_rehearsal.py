"""The rehearsal runs the real comparisons; here on a CPU."""

from kernelgym.judge import rehearsal


def test_everything_equals_itself():
    assert rehearsal.rehearse("cpu")
