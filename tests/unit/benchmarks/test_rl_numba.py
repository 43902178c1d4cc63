"""Training with real verdicts and real clocks, in small: rewards rise on sizes nobody trained on.

The benchmark's own world with one seed, one training task, one validation task and twenty steps;
three seeds in full are in ``benchmarks/results``. Not covered: how large the speedups are. The
bound that is asserted is also reached by what becomes correct, on a machine too busy to time.
"""

import pytest
import torch

pytest.importorskip("numba")

import rl_numba


@pytest.mark.timeout(600)  # a minute where nobody else wants the cores
def test_a_tiny_policy_learns_what_the_judge_pays(tmp_path):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found = rl_numba.one_seed(0, 20, tmp_path, trained=range(40, 41), validated=range(50, 51))
    finally:
        torch.set_num_threads(threads)
    assert found["last_ten"] >= found["first_ten"] + rl_numba.GAIN
    before, after = found["validation"]
    assert after >= before + rl_numba.GAIN
    assert 10 < found["evaluations"] <= 400
