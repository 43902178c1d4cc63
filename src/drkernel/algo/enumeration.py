"""Exact expectations of an estimator's gradient, by enumerating a small policy.

Sampling can only suggest that an estimator is unbiased. Here every group of N episodes of a small
categorical policy is listed with its probability, the estimator under test (the very function a
trainer calls) gives its advantages, and the expected gradient is a finite sum, exact to rounding.

Shapes: S = states, A = actions, T = turns, U = possible episodes, N = group size, M = multisets of
N episodes, P = S*A parameters (the logits).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement, product

import numpy as np

from drkernel.algo.arrays import ArrayLike, Bools, Floats, Integers
from drkernel.algo.estimators import advantages
from drkernel.algo.returns import returns_to_go

STOP = -1
"""In ``next_state_SA``: the episode ends after this action."""


@dataclass(frozen=True)
class EpisodicProcess:
    """A finite decision process: state 0 first, at most ``turns`` turns, rewards every turn."""

    reward_SA: Floats
    next_state_SA: Integers
    turns: int


@dataclass(frozen=True)
class Episodes:
    """Every possible episode with its probability under the sampler.

    ``kept_UT`` and the probability include the random verdict of a filter, if there is one.
    """

    probability_U: Floats
    reward_UT: Floats
    valid_UT: Bools
    score_UTP: Floats
    """Gradient of log pi(action | state) with respect to the logits of the trained policy."""
    kept_UT: Bools

    @property
    def returns_UT(self) -> Floats:
        """Undiscounted returns to go."""
        return np.asarray(returns_to_go(self.reward_UT, self.valid_UT))


def softmax_SA(logits_SA: Floats) -> Floats:
    """Action probabilities of each state."""
    weights = np.exp(logits_SA - logits_SA.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float64)


def enumerate_episodes(
    process: EpisodicProcess,
    logits_SA: Floats,
    *,
    sampler_logits_SA: Floats | None = None,
    keep_probability_SA: Floats | None = None,
) -> Episodes:
    """Every episode of ``process``.

    Args:
        process: rewards and transitions.
        logits_SA: the policy that is trained: its score enters the gradient.
        sampler_logits_SA: the policy that samples, when it is a different one.
        keep_probability_SA: chance that a filter keeps a turn with this state and action, drawn
            independently for each turn; ``None`` keeps all.
    """
    policy_SA = softmax_SA(logits_SA)
    sampler_SA = policy_SA if sampler_logits_SA is None else softmax_SA(sampler_logits_SA)
    keep_SA = np.ones(policy_SA.shape) if keep_probability_SA is None else keep_probability_SA
    rows = [
        (steps, kept, probability)
        for steps in _paths(process, 0, process.turns)
        for kept, probability in _verdicts(steps, sampler_SA, keep_SA)
    ]
    shape = (len(rows), process.turns)
    episodes = Episodes(
        probability_U=np.array([probability for _, _, probability in rows]),
        reward_UT=np.zeros(shape),
        valid_UT=np.zeros(shape, dtype=bool),
        score_UTP=np.zeros((*shape, logits_SA.size)),
        kept_UT=np.zeros(shape, dtype=bool),
    )
    for u, (steps, kept, _) in enumerate(rows):
        for t, (state, action) in enumerate(steps):
            episodes.reward_UT[u, t] = process.reward_SA[state, action]
            episodes.valid_UT[u, t], episodes.kept_UT[u, t] = True, kept[t]
            episodes.score_UTP[u, t] = _score(policy_SA, state, action)
    return episodes


def _paths(process: EpisodicProcess, state: int, left: int) -> Iterator[list[tuple[int, int]]]:
    """All (state, action) sequences from ``state`` with at most ``left`` turns."""
    for action in range(process.reward_SA.shape[1]):
        following = int(process.next_state_SA[state, action])
        if left == 1 or following == STOP:
            yield [(state, action)]
        else:
            for rest in _paths(process, following, left - 1):
                yield [(state, action), *rest]


def _verdicts(
    steps: list[tuple[int, int]], sampler_SA: Floats, keep_SA: Floats
) -> Iterator[tuple[tuple[bool, ...], float]]:
    """(verdict on each turn, probability of the path with these verdicts), where not 0."""
    for kept in product((True, False), repeat=len(steps)):
        probability = 1.0
        for step, keep in zip(steps, kept, strict=True):
            probability *= float(sampler_SA[step] * (keep_SA[step] if keep else 1 - keep_SA[step]))
        if probability > 0:
            yield kept, probability


def _score(policy_SA: Floats, state: int, action: int) -> Floats:
    score_SA = np.zeros(policy_SA.shape)
    score_SA[state] = -policy_SA[state]
    score_SA[state, action] += 1.0
    return score_SA.ravel()


def true_gradient(episodes: Episodes) -> Floats:
    """d/d logits of the expected total reward, [P]: sum_u p_u R_u * (sum of its scores).

    Uses whole-episode rewards and no baseline, so it shares nothing with the estimators. Right only
    when the sampler is the trained policy.
    """
    totals_U = episodes.reward_UT.sum(axis=1)
    return np.asarray((episodes.probability_U * totals_U) @ episodes.score_UTP.sum(axis=1))


def population_gradient(
    episodes: Episodes, group_size: int, *, filter_order: str = "after"
) -> Floats:
    """What a filtered leave-one-out estimator converges to, in closed form, [P].

    With k = 1 for kept turns, the expectation of a kept turn's k*G*score minus the expected
    baseline times that of k*score. The baseline's expectation is the mean return V_t of the turns
    it is made of (all alive turns for "after", kept ones for "before") times the chance that any of
    the other N - 1 episodes has one.
    """
    weight_UT = episodes.probability_U[:, None] * episodes.kept_UT
    scored_TP = np.einsum("ut,utp->tp", weight_UT, episodes.score_UTP)
    valued_TP = np.einsum("ut,utp->tp", weight_UT * episodes.returns_UT, episodes.score_UTP)
    peers_UT = episodes.kept_UT if filter_order == "before" else episodes.valid_UT
    alive_T = episodes.probability_U @ peers_UT
    value_T = (episodes.probability_U @ (peers_UT * episodes.returns_UT)) / np.maximum(
        alive_T, 1e-300
    )
    accompanied_T = 1 - (1 - alive_T) ** (group_size - 1)
    return np.asarray((valued_TP - (value_T * accompanied_T)[:, None] * scored_TP).sum(axis=0))


@dataclass(frozen=True)
class ExpectedGradient:
    """An expected gradient, split by turn and by how many members the turn's group had."""

    by_turn_and_size_TNP: Floats
    """[T, N + 1, P]: the part of the expectation from groups with N_t = n."""
    probability_TN: Floats
    """[T, N + 1]: chance of N_t = n."""

    @property
    def total(self) -> Floats:
        """The whole expected gradient, [P]."""
        return np.asarray(self.by_turn_and_size_TNP.sum(axis=(0, 1)))


def expected_gradient(
    episodes: Episodes,
    group_size: int,
    estimator: str | Callable[[Floats, Integers, Bools], ArrayLike],
    *,
    filter_order: str = "after",
) -> ExpectedGradient:
    """E[(1/N) sum_i sum_t A_it score_it] over groups of ``group_size`` independent episodes.

    ``estimator`` is a name for :func:`drkernel.algo.advantages` (with the filter verdicts of
    ``episodes``), or a function of (rewards, group, valid).
    """
    episode_MN, probability_M = _multisets(episodes.probability_U, group_size)
    flat_B = episode_MN.ravel()
    rewards_BT, valid_BT = episodes.reward_UT[flat_B], episodes.valid_UT[flat_B]
    group_B = np.repeat(np.arange(len(episode_MN)), group_size)
    kept_BT = episodes.kept_UT[flat_B]
    if callable(estimator):
        values_BT = np.asarray(estimator(rewards_BT, group_B, valid_BT))
    else:
        values_BT = advantages(
            estimator, rewards_BT, group_B, valid_BT, keep=kept_BT, filter_order=filter_order
        ).advantages
    members_BT = valid_BT & kept_BT if filter_order == "before" else valid_BT
    size_MT = members_BT.reshape(len(episode_MN), group_size, -1).sum(axis=1)
    weighted_BT = values_BT * np.repeat(probability_M, group_size)[:, None] / group_size
    part_MTP = np.einsum(
        "mnt,mntp->mtp",
        weighted_BT.reshape(len(episode_MN), group_size, -1),
        episodes.score_UTP[episode_MN],
    )
    sizes = range(group_size + 1)
    return ExpectedGradient(
        np.stack([(part_MTP * (size_MT == n)[:, :, None]).sum(axis=0) for n in sizes], axis=1),
        np.stack([probability_M @ (size_MT == n) for n in sizes], axis=1),
    )


def _multisets(probability_U: Floats, group_size: int) -> tuple[Integers, Floats]:
    """All multisets of episodes [M, N] with their probability [M]; order is irrelevant."""
    episode_MN = np.array(
        list(combinations_with_replacement(range(probability_U.size), group_size)), dtype=np.int64
    )
    # rows are sorted: the product of each member's position in its run of equals is prod(count!)
    position_MN = np.ones(episode_MN.shape)
    for i in range(1, group_size):
        equal_M = episode_MN[:, i] == episode_MN[:, i - 1]
        position_MN[:, i] += np.where(equal_M, position_MN[:, i - 1], 0.0)
    orders_M = math.factorial(group_size) / position_MN.prod(axis=1)
    return episode_MN, orders_M * probability_U[episode_MN].prod(axis=1)
