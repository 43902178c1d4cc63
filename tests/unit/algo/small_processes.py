"""Small processes whose groups of episodes can all be listed, and filters on them."""

from __future__ import annotations

import numpy as np

from drkernel import algo
from drkernel.algo.enumeration import STOP, EpisodicProcess, softmax_SA

# two turns: action 0 of the first state ends the episode; three actions
TWO_TURNS = EpisodicProcess(
    reward_SA=np.array([[2.1, 0.0, 0.4], [0.0, 3.3, 1.2]]),
    next_state_SA=np.array([[STOP, 1, 1], [STOP, STOP, STOP]]),
    turns=2,
)
# three turns, the feedback (state) depends on the last answer, two ways to stop early
THREE_TURNS = EpisodicProcess(
    reward_SA=np.array([[2.3, 0.0], [0.0, 1.7], [3.1, 0.4]]),
    next_state_SA=np.array([[STOP, 1], [2, STOP], [0, STOP]]),
    turns=3,
)
NEVER_ALONE = EpisodicProcess(
    reward_SA=np.array([[2.0, 0.0], [1.0, 3.0], [0.0, 0.5]]),
    next_state_SA=np.array([[1, 2], [2, 0], [0, 1]]),
    turns=3,
)
PROCESSES = {"two_turns": TWO_TURNS, "three_turns": THREE_TURNS, "no_early_stop": NEVER_ALONE}

# state 1 means that an earlier turn succeeded; action 1 fails, in state 1 it is a regression
AFTER_SUCCESS = EpisodicProcess(
    reward_SA=np.array([[2.0, 0.0], [2.5, 0.0]]),
    next_state_SA=np.array([[1, 0], [1, 1]]),
    turns=3,
)
REGRESSION = (1, 1)
REGRESSIONS_MASKED = np.array([[1.0, 1.0], [1.0, 0.0]])
"""Keep probabilities that take regressions out of the loss and of the groups."""


def logits_of(process: EpisodicProcess, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=process.reward_SA.shape)


def mismatch_probability(logits: np.ndarray, sampler: np.ndarray) -> np.ndarray:
    """MRS of each (state, action) as a row of one token, in a wide window: 0 or 1."""
    rows = logits.size
    train, rollout = (np.log(softmax_SA(x)).reshape(rows, 1) for x in (logits, sampler))
    keep, _ = algo.mismatch_keep(train, rollout, np.ones((rows, 1)), low=0.8, high=1.25)
    return keep.astype(float).reshape(logits.shape)


def profiling_probability(process: EpisodicProcess) -> np.ndarray:
    """PRS of each (state, action): correct if paid; coverage rises with the index."""
    coverage = np.linspace(0.32, 0.9, process.reward_SA.size)
    correct = process.reward_SA.ravel() > 0
    keep = algo.profiling_keep_probability(coverage, correct)
    return keep.reshape(process.reward_SA.shape)
