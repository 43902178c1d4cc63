"""Hand-made episodes through rewards, returns, advantages and filters; every flag changes what it
should."""

import math

import numpy as np
import pytest
from rl_world import hack, verdict

from drkernel.rollout.settings import RewardSettings
from drkernel.train.credit import credit
from drkernel.train.learner import Scores
from drkernel.train.settings import AlgorithmSettings
from drkernel.train.signals import credit_signals, play_signals, policy_signals
from drkernel.train.trajectories import rollouts_of
from drkernel.train.unchecked import unchecked, was_hack
from drkernel.types import Episode, Extraction, Generation, Turn
from kernelgym.errors import UsageError
from kernelgym.schema import Outcome


def turn(index, number=None, *, status="evaluated", tokens=(5, 6), gap=0.0, reward=None):
    """A turn whose candidate has this number; its sampler's log-probabilities are -1 + gap."""
    result = verdict(f"n = {number}") if number is not None else None
    worth = 0.0 if result is None or not result.correct else 1 + number / 4 + number / 10
    there = status not in ("context", "policy_error")
    said = Generation(
        text="x",
        finish="stop" if there else "context",
        prompt_ids=(1, 2, 3) if there else None,
        token_ids=tokens if there else None,
        logprobs=tuple(-1.0 + gap for _ in tokens) if there else None,
        prompt_tokens=3 if there else 0,
        completion_tokens=len(tokens) if there else 0,
    )
    return Turn(
        index=index,
        messages_hash="",
        prompt=(),
        generation=said,
        extraction=Extraction(code=None, how="none"),
        result=result,
        status=status,
        reward=worth if reward is None else reward,
    )


def episode(task, sample, *turns, stopped="turns"):
    return Episode(
        id=f"{task}#{sample}",
        task=task,
        task_hash="",
        sample=sample,
        seed=0,
        policy="p",
        turns=turns,
        stopped=stopped,
    )


def table(*episodes, turns=2, gamma=1.0):
    return rollouts_of(episodes, turns=turns, gamma=gamma)


PLAIN = AlgorithmSettings(prs=False)


def worth(rollouts, rule=PLAIN, step=1, logp=-1.0):
    trained = np.where(rollouts.mask(), logp, 0.0)
    return credit(rollouts, trained, rule, seed=0, step=step)


def four():
    """Two prompts, two samples: rewards by turn are 0, 2.4 / 0, 0 / 2.05, 0 / 3.1, 3.1."""
    return table(
        episode("a", 0, turn(0, 1), turn(1, 4)),
        episode("a", 1, turn(0, 2), turn(1, 0)),
        episode("b", 0, turn(0, 3), turn(1, 1)),
        episode("b", 1, turn(0, 6), turn(1, 6)),
    )


def test_advantages_are_the_estimators_own():
    found = worth(four())
    # returns: 2.4, 2.4 / 0, 0 / 2.05, 0 / 6.2, 3.1; the baseline is the other one of the group
    assert found.advantages == pytest.approx([2.4, 2.4, -2.4, -2.4, -4.15, -3.1, 4.15, 3.1])
    assert found.keep.all() and not found.nothing_left


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"estimator": "grpo"}, [1.2, 1.2, -1.2, -1.2, -2.075, -1.55, 2.075, 1.55]),
        ({"gamma": 0.0}, [0, 2.4, 0, -2.4, -1.05, -3.1, 1.05, 3.1]),
        ({"gamma": 0.5}, [1.2, 2.4, -1.2, -2.4, -2.6, -3.1, 2.6, 3.1]),
    ],
)
def test_estimator_and_gamma(change, expected):
    assert worth(four(), PLAIN.model_copy(update=change)).advantages == pytest.approx(expected)


def test_a_turn_alone_in_its_group():
    alone = table(
        episode("a", 0, turn(0, 3), turn(1, 3)),
        episode("a", 1, turn(0, 3), turn(1, status="context"), stopped="context"),
    )
    assert [(row.episode, row.turn) for row in alone.rows] == [(0, 0), (0, 1), (1, 0)]
    assert alone.played.tolist() == [[True, True], [True, True]]
    raw = worth(alone)
    assert raw.advantages == pytest.approx([2.05, 2.05, -2.05])
    zero = worth(alone, PLAIN.model_copy(update={"singleton": "zero"}))
    assert zero.advantages == pytest.approx([2.05, 0.0, -2.05])
    assert credit_signals(raw, alone)["group_size/turn_2/singletons"] == 1


@pytest.mark.parametrize("status", ["infrastructure", "policy_error"])
def test_faults_make_earlier_returns_unknown(status):
    failed = table(
        episode("a", 0, turn(0, 3), turn(1, status=status), stopped=status),
        episode("a", 1, turn(0, 3), turn(1, 4)),
    )
    assert failed.valid.tolist() == [[False, False], [True, True]]
    assert failed.rewards.tolist()[0] == [0.0, 0.0]
    without_future = table(
        episode("a", 0, turn(0, 3), turn(1, status=status), stopped=status), gamma=0.0
    )
    assert without_future.valid.tolist() == [[True, False]]


def test_mismatch_drops_what_sampler_and_trainer_disagree_on():
    rollouts = table(
        episode("a", 0, turn(0, 3, gap=0.01), turn(1, 4)),
        episode("a", 1, turn(0, 1), turn(1, 1)),
    )
    by_turn = worth(rollouts)
    assert by_turn.keep.tolist() == [False, True, True, True]
    assert by_turn.advantages[0] == 0 and by_turn.w[0] == pytest.approx(math.exp(-0.01))
    pooled = worth(rollouts, PLAIN.model_copy(update={"mrs_level": "trajectory"}))
    assert pooled.keep.tolist() == [False, False, True, True]
    off = worth(rollouts, PLAIN.model_copy(update={"mrs": False}))
    assert off.keep.all() and off.mismatch.keep_rate == 0.75  # still measured
    wide = worth(rollouts, PLAIN.model_copy(update={"mrs_low": 0.9}))
    assert wide.keep.all()
    # by default dropped rows stay in the groups; "before" takes them out
    assert by_turn.advantages[2] == pytest.approx(-4.45)
    before = worth(rollouts, PLAIN.model_copy(update={"filter_order": "before"}))
    assert before.advantages[2] == 0.0


def test_lazy_rows_are_learned_from_less():
    # coverage is number / 10: 3 is dropped for sure, 4 and more are kept for sure
    rule = AlgorithmSettings(mrs=False)
    found = worth(four(), rule)
    assert found.keep.tolist() == [True, True, True, True, False, True, True, True]
    assert credit_signals(found, four())["filter/prs/dropped"] == 1 / 8
    early = worth(four(), rule.model_copy(update={"prs_warmup_steps": 100}))
    assert early.keep.all() and early.tau == pytest.approx(0.003)
    between = table(*(episode("a", n, turn(0, 3), turn(1, 3)) for n in range(200)))
    soft = rule.model_copy(update={"prs_tau": 0.25})
    kept = worth(between, soft).keep
    assert 0.4 < kept.mean() < 0.6
    assert worth(between, soft).keep.tolist() == kept.tolist()
    assert worth(between, soft, step=2).keep.tolist() != kept.tolist()


def test_groups_without_variation_can_be_dropped():
    flat = table(
        episode("a", 0, turn(0, 3), turn(1, 1)),
        episode("a", 1, turn(0, 3), turn(1, 1)),
        episode("b", 0, turn(0, 3), turn(1, 1)),
        episode("b", 1, turn(0, 4), turn(1, 1)),
    )
    rule = PLAIN.model_copy(update={"drop_flat_groups": "any_turn"})
    assert worth(flat, rule).keep.tolist() == [False] * 4 + [True, False] * 2
    nothing = worth(table(episode("a", 0, turn(0, 1), turn(1, 1))), rule)
    assert nothing.nothing_left


def test_turns_without_token_ids_cannot_be_trained_on():
    said = turn(0, 3)
    text_only = said.generation.model_copy(
        update={"token_ids": None, "logprobs": None, "completion_tokens": 2}
    )
    with pytest.raises(UsageError, match="no token ids"):
        table(episode("a", 0, said.model_copy(update={"generation": text_only})))


def test_signals_are_what_happened():
    rollouts = table(
        episode("a", 0, turn(0, 1), turn(1, 6)),
        episode("a", 1, turn(0, 9), turn(1, 4)),
        episode("b", 0, turn(0, None, status="no_code"), turn(1, 3)),
        episode("b", 1, turn(0, 6), turn(1, status="context"), stopped="context"),
    )
    found = play_signals(rollouts, RewardSettings())
    assert found["correct/turn_1"] == 0.25 and found["correct/turn_2"] == 0.75
    assert found["fast@1.2/turn_1"] == 0.25 and found["fast@1.2/turn_2"] == 0.25
    assert found["fast@1/turn_2"] == 0.5  # 3/4 is slower than the reference, 4/4 is as fast
    assert found["fast@1/best"] == 0.75
    assert found["hack/ratio"] == pytest.approx(1 / 6)
    assert found["hack/turn_1"] == pytest.approx(1 / 3)
    assert found["outcome/no_code"] == 1 and found["outcome/context"] == 1
    assert found["reward/turn_1"] == pytest.approx((1 + 1.5 + 0.6) / 4)
    assert found["reward_correct/turn_1"] == 0.25
    assert found["reward_speedup/turn_1"] == pytest.approx(1.5 / 4)
    assert found["reward_credit/turn_1"] == pytest.approx(0.6 / 4)
    assert found["coverage_mean/turn_2"] == pytest.approx((0.6 + 0.4 + 0.3) / 3)
    assert found["stopped/context"] == 1 and found["tokens/sampled"] == 14


def test_perplexities_and_their_gap():
    rollouts = four()
    mask = rollouts.mask()
    scores = Scores(np.where(mask, -1.5, 0.0), np.where(mask, 0.25, 0.0))
    found = policy_signals(rollouts, scores)
    assert found["policy/perplexity_rollout"] == pytest.approx(math.e)
    assert found["policy/perplexity_trainer"] == pytest.approx(math.exp(1.5))
    assert found["policy/logp_gap_mean"] == pytest.approx(-0.5)
    assert found["policy/entropy/turn_2"] == 0.25


def test_without_the_hack_check_a_hack_is_paid():
    given = hack()
    paid = unchecked(given)
    assert given.outcome is Outcome.HACK and was_hack(given)
    assert paid.outcome is Outcome.CORRECT and paid.speedup == 2.0 and paid.coverage == 0.0
    assert paid.findings[0].severity == "warning" and was_hack(paid)
    # what is wrong anyway stays wrong
    failed = given.trials[0].model_copy(update={"passed": False})
    wrong = given.model_copy(update={"trials": (failed,)})
    assert unchecked(wrong) == wrong
    for result in (verdict("n = 4"), verdict("n = 1")):
        assert unchecked(result) == result and not was_hack(result)
