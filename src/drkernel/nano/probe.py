"""What the finished model writes for operator combinations that no training text has.

No gym is asked: counted are complete answers, valid Python, modules with a kernel, and kernels that
are in no training text. Whether they are right is what ``drkernel eval`` says.
"""

from __future__ import annotations

import ast
import asyncio
import json
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from drkernel import prompts
from drkernel.nano.attempts import first_prompt, programs
from drkernel.nano.novelty import kernel_hashes
from drkernel.policy import TransformersSettings
from drkernel.rollout.directory import write_whole
from drkernel.types import Generation, Sampling

if TYPE_CHECKING:
    from drkernel.nano.recipe import Making


def probe(making: Making) -> dict[str, Any]:
    """Ask, count, write ``probe.json``."""
    known = set((making.out / "kernels.txt").read_text("utf-8").split())
    found = counted(asyncio.run(_answers(making)), known)
    found["kernels_in_training"] = len(known)
    write_whole(making.out / "probe.json", json.dumps(found, indent=1) + "\n")
    return found


async def _answers(making: Making) -> list[Generation]:
    from drkernel.policy.in_process import TransformersPolicy

    rule, backend = making.settings.probe, making.settings.backend
    attempts = making.settings.attempts
    policy = TransformersPolicy.from_folder(
        making.model, TransformersSettings(batch=256, compiled=False)
    )
    drawn = programs(
        rule.seed,
        rule.programs,
        split="test",
        easiest=attempts.easiest,
        hardest=attempts.hardest,
    )
    sampling = Sampling(max_tokens=rule.max_tokens, seed=rule.seed)
    calls = [
        policy.generate(
            first_prompt(program.task, backend), sampling, key=f"{program.task.name}/{sample}"
        )
        for program in drawn
        for sample in range(rule.samples)
    ]
    try:
        return list(await asyncio.gather(*calls))
    finally:
        await policy.aclose()


def counted(answers: Iterable[Generation], known: set[str]) -> dict[str, Any]:
    """Numbers about answers; ``known``: hashes of the training data's kernels."""
    counts: Counter[str] = Counter()
    new: set[str] = set()
    for answer in answers:
        counts["answers"] += 1
        counts["ended"] += answer.finish == "stop"
        code = prompts.extract(answer.text, answer.finish).code
        hashes = kernel_hashes(code or "")
        counts["with_code"] += code is not None
        counts["valid_python"] += code is not None and _parses(code)
        counts["with_kernel"] += bool(hashes) and "class ModelNew" in (code or "")
        counts["kernels"] += len(hashes)
        counts["new_kernels"] += sum(one not in known for one in hashes)
        new |= {one for one in hashes if one not in known}
    return {**counts, "distinct_new_kernels": len(new)}


def _parses(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError):
        return False
    return True
