"""Rewards through verl's own code: its loader of reward functions and its reward manager.

    kernelgym up --gpus none --port 10907 &   # a gym, in its own environment
    export KERNELGYM_SERVER=http://127.0.0.1:10907 KERNELGYM_TOKEN=...   # as `up` says
    VERL_ENVIRONMENT/bin/python benchmarks/verl_reward.py --out results.json

The environment needs verl (0.9.1 was tried) and drkernel without extras, on its path or installed.
`get_custom_reward_fn` loads ``drkernel.integrations.reward`` by file and as a package, as function
and as coroutine; `NaiveRewardManager` calls each with rows as its agent loop makes them. The
example candidates are judged for real. Exit code 1 where a verdict is not the one that
``examples/demo.toml`` expects, or where verl takes a row without code for anything but 0.
"""

import argparse
import asyncio
import tomllib
from pathlib import Path
from typing import Any

import record
from kernelgym.tasks.task import find_task

ROOT = Path(__file__).parents[1]
MODULE = ROOT / "src" / "drkernel" / "integrations" / "reward.py"
WAYS = (
    (str(MODULE), "compute_score"),
    (str(MODULE), "compute_score_async"),
    ("pkg://drkernel.integrations.reward", "compute_score_async"),
)
SHOWN = ("builtin/add", "builtin/softmax", "builtin/layer_norm")


class Characters:
    """A tokenizer whose tokens are characters: the manager only decodes."""

    def decode(self, ids: Any, skip_special_tokens: bool = True) -> str:
        """Text of ids."""
        return "".join(chr(int(one)) for one in ids)


def rows() -> list[tuple[str, str, str]]:
    """(task, answer, expected outcome) of honest and wrong candidates, and one without code."""
    demo = tomllib.loads((ROOT / "examples" / "demo.toml").read_text("utf-8"))
    found = []
    for entry in demo["candidate"]:
        if entry["task"] in SHOWN:
            source = (ROOT / "examples" / entry["file"]).read_text("utf-8")
            found.append((entry["task"], f"```python\n{source}```\n", entry["outcome"]))
    return [*found, ("builtin/add", "I would rather not.", "no_code")]


def batch_of(task: str, answer: str) -> Any:
    """One row as verl's agent loop hands it to a reward manager."""
    import numpy as np
    import torch
    from verl import DataProto

    ids = torch.tensor([[ord(one) for one in answer]])
    fields = {
        "data_source": "builtin",
        "reward_model": {"ground_truth": find_task(task).reference, "style": "rule"},
        "extra_info": {"name": task},
    }
    return DataProto.from_dict(
        tensors={"responses": ids, "attention_mask": torch.ones_like(ids)},
        non_tensors={name: np.array([value], dtype=object) for name, value in fields.items()},
    )


async def scored(path: str, name: str) -> list[dict[str, Any]]:
    """Every row through one way of loading."""
    from omegaconf import OmegaConf
    from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager
    from verl.trainer.ppo.reward import get_custom_reward_fn

    function = {"path": path, "name": name, "reward_kwargs": {"backend": "triton"}}
    config = OmegaConf.create({"reward": {"custom_reward_function": function}})
    manager = NaiveRewardManager(config, Characters(), get_custom_reward_fn(config))
    found = []
    for task, answer, expected in rows():
        said = await manager.run_single(batch_of(task, answer))
        extra = said["reward_extra_info"]
        found.append(
            {
                "task": task,
                "expected": expected,
                "outcome": extra["outcome"],
                "reward_score": said["reward_score"],
            }
        )
        print(name, found[-1], flush=True)
    return found


def holds(row: dict[str, Any]) -> bool:
    """The verdict is the expected one, and only a correct candidate is paid."""
    is_right = row["expected"] == "correct"
    return row["outcome"] == row["expected"] and (row["reward_score"] > 0) == is_right


async def run(out: Path) -> int:
    """All ways."""
    found = {f"{path.rpartition('/')[2]}:{name}": await scored(path, name) for path, name in WAYS}
    everything = [row for part in found.values() for row in part]
    body = {
        "versions_there": record.versions("verl", "torch", "ray", "tensordict"),
        "ways": found,
        "holds": all(map(holds, everything)),
    }
    record.write(out, "verl_reward", body)
    return 0 if body["holds"] else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    raise SystemExit(asyncio.run(run(parser.parse_args().out)))
