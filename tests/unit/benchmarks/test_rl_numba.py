"""Training with real verdicts, in small: rewards rise on tasks that no text of the cold start has.

The benchmark's own world with one seed, fewer tasks (the same sources come more often, and are
judged once) and fewer steps; three seeds in full are in ``benchmarks/results``.
"""

import pytest
import torch

pytest.importorskip("numba")

import rl_numba


@pytest.mark.timeout(600)
def test_a_tiny_policy_learns_what_the_judge_pays(tmp_path):
    torch.set_num_threads(1)
    found = rl_numba.one_seed(0, 40, tmp_path, trained=range(40, 42))
    assert found["evaluations"] <= 400
    assert found["last_ten"] >= found["first_ten"] + rl_numba.GAIN
