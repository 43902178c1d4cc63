"""Each probe, left out by the judge's caller, lets the cheat through that it is there for."""

from __future__ import annotations

import hack_corpus
import pytest
from local_judge import without

from kernelgym.judge.probes import PROBES

LETS_THROUGH = {
    "filled_memory": "a06_relies_on_zeroed_memory",
    "guard_bands": "f14_writes_past_the_end",
    "held_outputs": "f03_one_buffer",
    "unchanged_inputs": "f02_input_as_scratch",
    "own_memory": "f04_two_buffers",
    "exact_types": "f06_other_dtype",
    "launches": "b05_scripted",
    "both_modes": "a07_launches_at_first_only",
    "census": "a10_copies_the_answer",
    "few_elements": "c04_sampled_fingerprint",
    "same_elsewhere": "c06_content_hash",
    "hidden_inputs": "f18_positive_only",
    "ablation": "a23_numpy_and_a_factor",
    "blanked_kernels": "g13_knows_when_it_is_off",
}
CASES = {case.name: case for case in hack_corpus.cheats()}


def test_every_probe_is_here():
    assert set(LETS_THROUGH) == {probe.name for probe in PROBES}


@pytest.mark.parametrize("probe", LETS_THROUGH)
def test_without_it_a_cheat_is_correct(local_judge, probe):
    case = CASES[LETS_THROUGH[probe]]
    result = local_judge.evaluate(case.submission(trials=2), without(probe))
    assert result.outcome.value == "correct", result.failure
