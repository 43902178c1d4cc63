"""drkernel.algo beside verl's functions: where the definitions agree, and by how much they differ
elsewhere.

Each comparison gives both the same random numbers in float64. ``agrees`` says whether the two
*define* the same thing; ``difference`` is what was measured. ``benchmarks/algo.py verl`` writes the
list to a file, ``test_verl_parity.py`` asserts it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from drkernel import algo


@dataclass(frozen=True)
class Comparison:
    what: str
    verl: str
    ours: str
    agrees: bool
    difference: float
    note: str = ""


COMPARISONS: list[Callable[[], Comparison]] = []


def comparison(function: Callable[[], Comparison]) -> Callable[[], Comparison]:
    COMPARISONS.append(function)
    return function


def core() -> Any:
    from verl.trainer.ppo import core_algos

    return core_algos


def rejection(log_ratio: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """verl's nearest setting to MRS with the veto; true for kept rows."""
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_rejection_mask

    kept, _ = compute_rollout_rejection_mask(
        log_ratio,
        mask,
        rollout_rs="seq_mean_k1,seq_max_k2",
        rollout_rs_threshold=f"0.999_1.001,{0.5 * math.log(1e-4) ** 2}",
    )
    return kept.bool().any(-1)


def largest(a: Any, b: Any) -> float:
    a, b = (torch.as_tensor(values, dtype=torch.float64) for values in (a, b))
    return float((a - b).abs().max())


def turns(alone: bool) -> SimpleNamespace:
    """Ragged episodes of up to three turns, and the same turns laid flat as verl's rows.

    verl's functions know prompts, not turns: the row's label is the (prompt, turn) pair, and its
    score the return to go, spread over two tokens.
    """
    generator = np.random.default_rng(0)
    rewards = generator.normal(1, 2, (24, 3))
    lengths = generator.integers(1, 4, 24)
    group = np.repeat(np.arange(6), 4)
    if not alone:
        lengths[:] = 3
    valid = np.arange(3)[None, :] < lengths[:, None]
    returns = algo.returns_to_go(rewards, valid)
    rows = np.argwhere(valid)
    scores = torch.zeros(len(rows), 2, dtype=torch.float64)
    scores[:, -1] = torch.tensor(returns[valid])
    labels = np.array([f"{group[b]}-{t}" for b, t in rows])
    sizes = algo.group_sizes(group, valid)[valid]
    assert (sizes == 1).any() == alone
    mask = torch.ones_like(scores)
    return SimpleNamespace(
        returns=returns,
        group=group,
        valid=valid,
        scores=scores,
        labels=labels,
        mask=mask,
        alone=sizes == 1,
    )


def verl_advantages(name: str, batch: SimpleNamespace, **options: Any) -> np.ndarray:
    function = core().get_adv_estimator_fn(name)
    advantages, _ = function(batch.scores.clone(), batch.mask, index=batch.labels, **options)
    return advantages[:, 0].numpy()


@comparison
def rloo() -> Comparison:
    b = turns(alone=True)
    ours = algo.trloo(b.returns, b.group, b.valid)[b.valid]
    difference = largest(ours, verl_advantages("rloo", b))
    return Comparison(
        "leave-one-out, singleton keeps its return",
        "rloo, uid = (prompt, turn)",
        'trloo(singleton="raw")',
        True,
        difference,
    )


@comparison
def rloo_vectorized() -> Comparison:
    b = turns(alone=True)
    ours = algo.trloo(b.returns, b.group, b.valid, singleton="zero")[b.valid]
    difference = largest(ours, verl_advantages("rloo_vectorized", b))
    return Comparison(
        "leave-one-out, singleton is 0",
        "rloo_vectorized, uid = (prompt, turn)",
        'trloo(singleton="zero")',
        True,
        difference,
    )


@comparison
def grpo_mean() -> Comparison:
    b = turns(alone=False)
    ours = algo.grpo(b.returns, b.group, b.valid)[b.valid]
    theirs = verl_advantages("grpo", b, norm_adv_by_std_in_grpo=False)
    return Comparison("group mean, N > 1", "grpo, no std", "grpo()", True, largest(ours, theirs))


@comparison
def grpo_std() -> Comparison:
    b = turns(alone=False)
    ours = algo.grpo(b.returns, b.group, b.valid, normalize=True)[b.valid]
    return Comparison(
        "group mean and std (ddof 1), N > 1",
        "grpo",
        "grpo(normalize=True)",
        True,
        largest(ours, verl_advantages("grpo", b)),
    )


@comparison
def grpo_singleton() -> Comparison:
    b = turns(alone=True)
    ours = algo.grpo(b.returns, b.group, b.valid)[b.valid]
    theirs = verl_advantages("grpo", b, norm_adv_by_std_in_grpo=False)
    return Comparison(
        "group of one",
        "grpo: A = G",
        "grpo: A = 0",
        False,
        largest(ours, theirs),
        "no baseline at all there, while every other group has its mean subtracted",
    )


@comparison
def whitened_returns() -> Comparison:
    b = turns(alone=True)
    generator = np.random.default_rng(1)
    rewards = torch.tensor(generator.normal(1, 2, b.valid.shape))
    valid = torch.tensor(b.valid).double()
    config = SimpleNamespace(gamma=0.9)
    theirs, _ = core().get_adv_estimator_fn("reinforce_plus_plus")(
        rewards * valid, valid, config=config
    )
    ours = algo.reinforce(algo.returns_to_go(rewards, valid, 0.9), b.group, valid)
    return Comparison(
        "returns whitened over the batch",
        "reinforce_plus_plus: rsqrt(var + 1e-8)",
        "reinforce: / (std + 1e-6)",
        False,
        largest(ours, theirs),
        "same mean and variance; only the guard against division by zero differs",
    )


def token_rows(empty_row: bool = False) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    old = -torch.rand(6, 9, generator=generator, dtype=torch.float64)
    logp = old + 0.6 * torch.randn(6, 9, generator=generator, dtype=torch.float64)
    advantages = torch.randn(6, generator=generator, dtype=torch.float64)
    mask = (torch.rand(6, 9, generator=generator) < 0.7).double()
    mask[:, 0] = 1
    if empty_row:
        mask[2] = 0
    return logp, old, advantages, mask


def both_losses(verl_mode: str, aggregate: str, empty_row: bool) -> tuple[float, float]:
    """(difference of the losses, difference of the gradients)."""
    from verl.workers.config import ActorConfig

    config = ActorConfig(
        strategy="fsdp",
        clip_ratio_low=0.2,
        clip_ratio_high=0.28,
        clip_ratio_c=3.0,
        ppo_micro_batch_size_per_gpu=1,
        rollout_n=1,
    )
    logp, old, advantages, mask = token_rows(empty_row)
    theirs_at, ours_at = logp.clone().requires_grad_(True), logp.clone().requires_grad_(True)
    theirs, _ = core().compute_policy_loss_vanilla(
        old, theirs_at, advantages[:, None].expand_as(logp), mask, verl_mode, config
    )
    ours, _ = algo.policy_loss(ours_at, old, advantages, mask, aggregate=aggregate)
    theirs.backward()
    ours.backward()
    return largest(theirs.detach(), ours.detach()), largest(theirs_at.grad, ours_at.grad)


def policy_loss_comparison(verl_mode: str) -> Comparison:
    aggregate = verl_mode.replace("-", "_")
    return Comparison(
        f"token PPO with dual clip, {verl_mode}; loss and gradient",
        "compute_policy_loss_vanilla",
        f'policy_loss(aggregate="{aggregate}")',
        True,
        max(both_losses(verl_mode, aggregate, empty_row=False)),
        "verl divides a row's sum by its tokens + 1e-8"
        if verl_mode == "seq-mean-token-mean"
        else "",
    )


@comparison
def policy_loss_token_mean() -> Comparison:
    return policy_loss_comparison("token-mean")


@comparison
def policy_loss_seq_mean_token_sum() -> Comparison:
    return policy_loss_comparison("seq-mean-token-sum")


@comparison
def policy_loss_seq_mean_token_mean() -> Comparison:
    return policy_loss_comparison("seq-mean-token-mean")


@comparison
def emptied_rows() -> Comparison:
    return Comparison(
        "a row whose tokens are all masked, seq-mean",
        "leaves the denominator (unless global_batch_size is given)",
        "stays in the denominator: planned rows",
        False,
        both_losses("seq-mean-token-sum", "seq_mean_token_sum", empty_row=True)[0],
        "a filter must not rescale the step; one row of six here",
    )


def kl_comparison(name: str) -> Comparison:
    logp, reference, _, mask = token_rows()
    theirs = core().kl_penalty_forward(logp, reference, name)
    _, metrics = algo.policy_loss(
        logp, logp, torch.zeros(6), mask, logp_ref=reference, kl_estimator=name
    )
    difference = largest((theirs * mask).sum() / mask.sum(), metrics["kl_to_reference"])
    return Comparison(
        f"KL estimator {name}", "kl_penalty_forward", "policy_loss(logp_ref=...)", True, difference
    )


@comparison
def kl_k1() -> Comparison:
    return kl_comparison("k1")


@comparison
def kl_k2() -> Comparison:
    return kl_comparison("k2")


@comparison
def kl_k3() -> Comparison:
    return kl_comparison("k3")


def disagreement(log_ratio: torch.Tensor, **rule: Any) -> float:
    mask = torch.ones_like(log_ratio)
    keep, _ = algo.mismatch_keep(log_ratio, torch.zeros_like(log_ratio), mask, **rule)
    return float((keep != rejection(log_ratio, mask)).double().mean())


@comparison
def rejection_window() -> Comparison:
    """2,000 rows of 64 tokens, none in the sliver where the two windows differ."""
    generator = torch.Generator().manual_seed(3)
    rows = torch.randn(2000, 64, generator=generator, dtype=torch.float64) * 0.01
    rows[::50, 0] = -9.5
    inside = (rows.mean(-1).abs() - 0.001).abs() < 1e-6
    return Comparison(
        "geometric window and veto, turn level (share of rows judged differently)",
        "seq_mean_k1,seq_max_k2",
        "mismatch_keep(veto_high=1e4)",
        True,
        disagreement(rows[~inside], veto_high=1e4),
        "outside the sliver where the two windows differ",
    )


@comparison
def mirrored_window() -> Comparison:
    edges = torch.tensor([[0.001], [-0.001]], dtype=torch.float64).expand(2, 1000)
    return Comparison(
        "rows at mean log-ratio +0.001 and -0.001",
        "window on -log r: keeps +0.001, drops -0.001",
        "window on w: drops +0.001 (w = 1.0010005), keeps -0.001 (w = 0.9990005)",
        False,
        disagreement(edges),
        "mirror image of the paper's interval",
    )


@comparison
def one_sided_veto() -> Comparison:
    row = torch.full((1, 1000), -9.3 / 999, dtype=torch.float64)
    row[0, 0] = 9.3
    return Comparison(
        "one token with ratio e^9.3, mean 0",
        "seq_max_k2 is two-sided: dropped",
        "veto is one-sided unless veto_high is given: kept",
        False,
        disagreement(row),
        "the trainer finding a token likelier than the sampler did is no fault",
    )


@comparison
def all_rows_masked() -> Comparison:
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_rejection_mask

    nothing = torch.zeros(2, 3)
    try:
        compute_rollout_correction_and_rejection_mask(nothing, nothing, nothing)
        raised = 0.0
    except ValueError:
        raised = 1.0
    keep, _ = algo.mismatch_keep(nothing, nothing, nothing)
    return Comparison(
        "a batch without a single token",
        "ValueError",
        "every row has w = 1 and is kept",
        False,
        raised * float(keep.double().mean()),
        "the trainer then takes no step",
    )


def compare_all() -> list[Comparison]:
    return [function() for function in COMPARISONS]
