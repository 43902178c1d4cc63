"""Measure drkernel.algo: its cost, its bias (exactly), and its agreement with verl.

    python benchmarks/algo.py cost       time and memory of each function, and growth with rows
    python benchmarks/algo.py unbiased   exact expected gradients of estimators and filter orders
    python benchmarks/algo.py verl       comparison with verl's functions (where verl is installed)

Each writes results/algo-VERB-DATE.json beside this file and prints what it wrote.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "unit" / "algo"))

from drkernel import algo  # noqa: E402
from drkernel.algo.enumeration import (  # noqa: E402
    enumerate_episodes,
    expected_gradient,
    population_gradient,
    true_gradient,
)

TOKENS_PER_ROW = 1024
TOKEN_ROWS = (256, 512, 1024, 2048)
"""1,024 rows of 1,024 tokens are the batch of 1M tokens."""
TRAJECTORIES = (1 << 16, 1 << 17, 1 << 18, 1 << 19)
"""Far more than such a batch has: these functions are too fast to time on 1,024 rows."""
TURNS, GROUP, POLICIES = 3, 16, 100
Call = Callable[[], Any]


def machine() -> dict[str, Any]:
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "load_average_1min": round(os.getloadavg()[0], 2),
        "versions": {name: _version(name) for name in ("numpy", "torch", "verl")},
    }


def _cpu_name() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), "unknown")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


# --- cost -------------------------------------------------------------------------------------


def token_calls(rows: int) -> dict[str, Call]:
    """Functions of [R, L] arrays, float32 as a trainer has them, in numpy and in torch."""
    import torch

    generator = np.random.default_rng(0)
    old = -generator.exponential(1.0, (rows, TOKENS_PER_ROW)).astype(np.float32)
    logp = old + generator.normal(0, 1e-3, old.shape).astype(np.float32)
    mask = np.arange(TOKENS_PER_ROW)[None, :] < generator.integers(1, TOKENS_PER_ROW, rows)[:, None]
    advantages = generator.normal(size=rows).astype(np.float32)
    trajectory = np.arange(rows) // TURNS
    logp_t, old_t, mask_t, advantages_t = map(torch.from_numpy, (logp, old, mask, advantages))

    def with_backward(loss: Callable[[torch.Tensor], torch.Tensor]) -> Call:
        def call() -> None:
            leaf = logp_t.clone().requires_grad_(True)
            loss(leaf).backward()

        return call

    return {
        "mismatch_keep, numpy": lambda: algo.mismatch_keep(logp, old, mask),
        "mismatch_keep, torch": lambda: algo.mismatch_keep(logp_t, old_t, mask_t),
        "mismatch_keep, trajectory, torch": lambda: algo.mismatch_keep(
            logp_t, old_t, mask_t, level="trajectory", trajectory=trajectory
        ),
        "mismatch_report, torch": lambda: algo.mismatch_report(logp_t, old_t, mask_t),
        "policy_loss, numpy": lambda: algo.policy_loss(logp, old, advantages, mask),
        "policy_loss, torch": lambda: algo.policy_loss(logp_t, old_t, advantages_t, mask_t),
        "policy_loss + backward, torch": with_backward(
            lambda leaf: algo.policy_loss(leaf, old_t, advantages_t, mask_t)[0]
        ),
        "reinforce_loss + backward, torch": with_backward(
            lambda leaf: algo.reinforce_loss(leaf, advantages_t, mask_t)[0]
        ),
    }


def row_calls(trajectories: int) -> dict[str, Call]:
    """Functions of [B, T] or [R] arrays: ``trajectories`` of three turns, groups of sixteen."""
    generator = np.random.default_rng(0)
    shape = (trajectories, TURNS)
    rewards = generator.random(shape) * 4
    valid = np.arange(TURNS)[None, :] < generator.integers(1, TURNS + 1, trajectories)[:, None]
    group, rare = np.arange(trajectories) // GROUP, generator.random(shape) < 0.01
    correct, coverage = generator.random(trajectories) < 0.5, generator.random(trajectories)
    speedups = (rewards * (rewards > 1)).reshape(-1, GROUP // 2, TURNS)
    outcomes = generator.choice(["correct", "hack", "mismatch", "infrastructure"], trajectories)
    binary = speedups[:, :, 0] > 1
    named = {
        name: (lambda name=name: algo.advantages(name, rewards, group, valid))
        for name in algo.ESTIMATORS
    }
    return {f"advantages({name!r})": call for name, call in named.items()} | {
        "returns_to_go": lambda: algo.returns_to_go(rewards, valid),
        "group_sizes": lambda: algo.group_sizes(group, valid),
        "group_statistics": lambda: algo.group_statistics(group, valid),
        "drop_degenerate_groups": lambda: algo.drop_degenerate_groups(rewards, group, valid),
        "drop_degenerate_groups(on='last_turn')": lambda: algo.drop_degenerate_groups(
            rewards, group, valid, on="last_turn"
        ),
        "propagate_infrastructure": lambda: algo.propagate_infrastructure(valid, rare),
        "combine_filters": lambda: algo.combine_filters({"a": rare, "b": ~rare}, valid),
        "turn_reward": lambda: algo.turn_reward(valid, rewards, rewards / 4),
        "gated_reward": lambda: algo.gated_reward(valid, ~rare, rewards),
        "displaced_credit": lambda: algo.displaced_credit(rewards / 4, rewards),
        "profiling_keep_probability": lambda: algo.profiling_keep_probability(coverage, correct),
        "profiling_keep": lambda: algo.profiling_keep(coverage, correct, seed=0),
        "fast_at_p": lambda: algo.fast_at_p(speedups, 1.2, best_of=TURNS),
        "correct_rate": lambda: algo.correct_rate(speedups > 0),
        "turn_flows": lambda: algo.turn_flows(speedups),
        "pass_at_k": lambda: algo.pass_at_k(np.full(trajectories, 8), correct * 3, 4),
        "hack_ratio": lambda: algo.hack_ratio(outcomes),
        "select_context": lambda: algo.select_context(coverage, 4),
        "clustered_interval (100 samples)": lambda: algo.clustered_interval(binary, samples=100),
        "paired_difference (100 samples)": lambda: algo.paired_difference(
            binary, ~binary, samples=100
        ),
    }


FAMILIES: dict[str, tuple[Callable[[int], dict[str, Call]], tuple[int, ...], int]] = {
    "rows of 1,024 tokens": (token_calls, TOKEN_ROWS, 1024),
    "trajectories of 3 turns": (row_calls, TRAJECTORIES, 1 << 18),
}


def seconds(call: Call) -> tuple[float, float]:
    """(wall, processor) time of the fastest of up to 25 runs: other work can only add time."""
    call()
    walls, processors = [], []
    while len(walls) < 25 and (len(walls) < 5 or sum(walls) < 1.5):
        wall, processor = time.perf_counter(), time.process_time()
        call()
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
    return min(walls), min(processors)


def cost() -> dict[str, Any]:
    import torch

    torch.set_num_threads(2)
    memory = json.loads(_run_self("memory"))
    functions = []
    for unit, (family, sizes, at) in FAMILIES.items():
        times: dict[str, list[tuple[float, float]]] = {}
        for size in sizes:
            for name, call in family(size).items():
                times.setdefault(name, []).append(seconds(call))
        for name, by_size in times.items():
            milliseconds = np.array(by_size).T * 1e3
            growth = np.polyfit(np.log(sizes), np.log(milliseconds[1]), 1)[0]
            functions.append(
                {
                    "function": name,
                    "unit": unit,
                    "rows": at,
                    "wall_ms": round(milliseconds[0, sizes.index(at)], 2),
                    "processor_ms": round(milliseconds[1, sizes.index(at)], 2),
                    "peak_mebibytes": memory[name],
                    "growth_exponent": round(float(growth), 2),
                    "processor_ms_by_rows": dict(
                        zip(map(str, sizes), milliseconds[1].round(3).tolist(), strict=True)
                    ),
                }
            )
    return {
        "what": "fastest of up to 25 runs, peak memory beyond the inputs, and the exponent a in "
        "processor time ~ rows^a (1 is linear)",
        "batch_of_1M_tokens": "1,024 rows of 1,024 tokens",
        "functions": functions,
    }


def _run_self(verb: str) -> str:
    # a fixed threshold makes glibc return every large block at once, so that the peak is the call's
    environment = os.environ | {
        "MALLOC_MMAP_THRESHOLD_": "65536",
        "MALLOC_TRIM_THRESHOLD_": "65536",
    }
    run = [sys.executable, str(Path(__file__).resolve()), verb]
    return subprocess.run(run, env=environment, capture_output=True, text=True, check=True).stdout


def peak_memory() -> dict[str, float]:
    """MiB that each call adds to the resident set at its peak (Linux)."""
    peaks = {}
    for family, _, at in FAMILIES.values():
        for name, call in family(at).items():
            call()
            Path("/proc/self/clear_refs").write_text("5")
            before = _resident_kib("VmRSS")
            call()
            peaks[name] = round((_resident_kib("VmHWM") - before) / 1024, 1)
    return peaks


def _resident_kib(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(field)))


# --- unbiasedness -----------------------------------------------------------------------------


def compared(gradient: np.ndarray, target: np.ndarray) -> dict[str, float]:
    norms = float(np.linalg.norm(gradient)), float(np.linalg.norm(target))
    return {
        "largest_error": float(np.abs(gradient - target).max()),
        "length_ratio": round(norms[0] / norms[1], 4),
        "cosine": round(float(gradient @ target) / (norms[0] * norms[1]), 6),
    }


def unbiased() -> dict[str, Any]:
    from small_processes import PROCESSES, logits_of

    estimators = []
    for name, process in PROCESSES.items():
        episodes = enumerate_episodes(process, logits_of(process))
        target = true_gradient(episodes)
        for group_size in (2, 3, 4):
            for estimator in ("trloo", "trloo_zero", "grpo", "grpo_normalized", "rloo_trajectory"):
                expected = expected_gradient(episodes, group_size, estimator)
                estimators.append(
                    {
                        "process": name,
                        "group_size": group_size,
                        "estimator": estimator,
                        "chance_alone_by_turn": [
                            round(p, 4) for p in expected.probability_TN[:, 1]
                        ],
                        **compared(expected.total, target),
                    }
                )
    return {
        "what": "exact expected gradient of each estimator against the true gradient",
        "estimators": estimators,
        "grpo_over_trloo_given_group_size": grpo_ratios(),
        "filters": filter_orders(),
        "masked_regressions": masked_regressions(),
    }


def grpo_ratios() -> list[dict[str, Any]]:
    """E[GRPO gradient; N_t = n] / E[TRLOO gradient; N_t = n], which must be 1 - 1/n at every
    turn."""
    from small_processes import THREE_TURNS, logits_of

    episodes, group_size = enumerate_episodes(THREE_TURNS, logits_of(THREE_TURNS)), 4
    grpo = expected_gradient(episodes, group_size, "grpo").by_turn_and_size_TNP
    trloo = expected_gradient(episodes, group_size, "trloo").by_turn_and_size_TNP
    rows = []
    for n in range(1, group_size + 1):
        error = np.abs(grpo[:, n] - (1 - 1 / n) * trloo[:, n]).max()
        rows.append({"n": n, "one_minus_one_over_n": 1 - 1 / n, "largest_error": float(error)})
    return rows


def filter_orders() -> list[dict[str, Any]]:
    """What MRS, PRS and a blind filter leave of the true gradient, in both orders."""
    rows: dict[tuple[str, str], list[dict[str, float]]] = {}
    for seed in range(POLICIES):
        for setting, order, measured in filtered_gradients(seed):
            rows.setdefault((setting, order), []).append(measured)
    return [
        {
            "setting": setting,
            "filter_order": order,
            "policies": POLICIES,
            "median_kept": round(float(np.median([row["kept"] for row in measured])), 4),
            "median_cosine": round(float(np.median([row["cosine"] for row in measured])), 4),
            "lowest_cosine": round(min(row["cosine"] for row in measured), 4),
            "median_length_ratio": round(
                float(np.median([row["length_ratio"] for row in measured])), 4
            ),
            "largest_error_of_closed_form": max(row["closed_form_error"] for row in measured),
        }
        for (setting, order), measured in rows.items()
    ]


def filtered_gradients(seed: int) -> Iterator[tuple[str, str, dict[str, float]]]:
    """(setting, filter order, comparison with the true on-policy gradient) of one random policy."""
    from small_processes import (
        THREE_TURNS,
        logits_of,
        mismatch_probability,
        profiling_probability,
    )

    process, logits, group_size = THREE_TURNS, logits_of(THREE_TURNS, seed), 4
    sampler = logits + np.random.default_rng(1000 + seed).normal(0, 0.2, logits.shape)
    mismatch, profiling = mismatch_probability(logits, sampler), profiling_probability(process)
    settings = {
        "on-policy, no filter": (None, None),
        "on-policy, a filter blind to the action": (None, np.full(logits.shape, 0.6)),
        "on-policy, PRS": (None, profiling),
        "off-policy, no filter": (sampler, None),
        "off-policy, MRS": (sampler, mismatch),
        "off-policy, MRS and PRS": (sampler, mismatch * profiling),
    }
    target = true_gradient(enumerate_episodes(process, logits))
    for name, (sampling, keep) in settings.items():
        episodes = enumerate_episodes(
            process, logits, sampler_logits_SA=sampling, keep_probability_SA=keep
        )
        weight_UT = episodes.probability_U[:, None] * episodes.valid_UT
        kept = float((weight_UT * episodes.kept_UT).sum() / weight_UT.sum())
        for order in ("after", "before"):
            expected = expected_gradient(episodes, group_size, "trloo", filter_order=order).total
            closed = population_gradient(episodes, group_size, filter_order=order)
            error = float(np.abs(expected - closed).max())
            measured = compared(expected, target) | {"kept": kept, "closed_form_error": error}
            yield name, order, measured


def masked_regressions() -> dict[str, Any]:
    """How much of the push against regressions is left when they leave the loss and the groups."""
    from small_processes import AFTER_SUCCESS, REGRESSION, REGRESSIONS_MASKED, logits_of

    ratios = []
    for seed in range(POLICIES):
        logits = logits_of(AFTER_SUCCESS, seed)
        at = np.ravel_multi_index(REGRESSION, logits.shape)
        masked = enumerate_episodes(AFTER_SUCCESS, logits, keep_probability_SA=REGRESSIONS_MASKED)
        left = expected_gradient(masked, 4, "trloo", filter_order="before").total[at]
        ratios.append(left / true_gradient(enumerate_episodes(AFTER_SUCCESS, logits))[at])
    names = ("lowest", "median", "highest")
    quantiles = zip(names, np.quantile(ratios, (0, 0.5, 1)).round(4).tolist(), strict=True)
    return {"policies": POLICIES, **dict(quantiles)}


# --- parity -----------------------------------------------------------------------------------


def verl() -> dict[str, Any]:
    from verl_parity import compare_all

    return {
        "what": "largest absolute difference on the same float64 inputs",
        "comparisons": [asdict(row) for row in compare_all()],
    }


VERBS = {"cost": cost, "unbiased": unbiased, "verl": verl}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=[*VERBS, "memory"], help="memory is what cost runs itself")
    verb = parser.parse_args().verb
    if verb == "memory":
        print(json.dumps(peak_memory()))
        return
    result = {"benchmark": f"algo {verb}", "machine": machine(), **VERBS[verb]()}
    path = HERE / "results" / f"algo-{verb}-{result['machine']['date']}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    print(f"wrote {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
