"""Candidates of `gpu_throughput.py` and their tasks; every source that is submitted is unique.

``candidates/*.py`` are honest Triton candidates: for KernelBench problems at full size (``FULL``)
and for small tasks of our own (``SMALL``, references in ``candidates/tasks``). `unique` renames
every kernel, which Triton hashes, so that nothing compiled before can be used again.

Not covered: candidates that are wrong or cheat.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelgym.schema import Submission, Task
from kernelgym.tasks.kernelbench import kernelbench_task
from kernelgym.tasks.reduce import reductions
from kernelgym.tasks.task import task_from_file

DIRECTORY = Path(__file__).parent / "candidates"
GIB = 1 << 30
MEMORY_MB = 32768
_KERNEL = re.compile(r"\b(\w+_kernel)\b")
_SIZES = re.compile(r"^(ROWS, COLUMNS|SIZE) = .*$", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """A candidate and where its task comes from."""

    candidate: str
    problem: str
    kind: str
    gib: float
    """Inputs and outputs of one call, roughly; decides what may run side by side."""


FULL = (
    Entry("causal_attention", "level3/43", "attention", 0.4),
    Entry("square_matmul", "level1/1", "matmul", 0.2),
    Entry("kl_divergence", "level1/98", "loss", 2.1),
    Entry("conv_relu_hard_swish", "level2/57", "convolution + activation", 0.6),
    Entry("batched_matmul", "level1/3", "matmul", 1.6),
    Entry("new_gelu", "level1/88", "element-wise", 0.5),
    Entry("max_pool_2d", "level1/42", "pooling", 4.2),
    Entry("linear_gelu_softmax", "level2/99", "level-2 fusion", 0.1),
    Entry("layer_norm_large", "level1/40", "norm", 0.6),
    Entry("triplet_loss", "level1/99", "reduction", 3.2),
    Entry("gemm_multiply_leaky_relu", "level2/12", "level-2 fusion", 0.1),
    Entry("relu_attention", "level3/50", "level-3 block", 0.1),
    Entry("depthwise_conv", "level1/82", "convolution", 2.1),
    Entry("linear_group_norm", "level2/62", "norm", 0.1),
    Entry("cross_entropy", "level1/95", "loss", 0.5),
    Entry("diagonal_matmul", "level1/12", "element-wise", 0.2),
)
HUGE = (
    Entry("gpt_block", "level3/44", "level-3 block", 0.4),
    Entry("softmax_long_rows", "level1/23", "softmax", 12.9),
    Entry("sum_over_rows", "level1/47", "reduction", 8.6),
)
"""Only with ``--huge``: calls of tens of milliseconds, or a good part of the memory."""
SMALL = tuple(
    Entry(f"small_{name}", f"small/{name}", kind, 0.05)
    for name, kind in (
        ("softmax", "softmax"), ("layer_norm", "norm"), ("gelu", "element-wise"),
        ("add", "element-wise"), ("matmul", "matmul"), ("row_sum", "reduction"),
        ("rms_norm", "norm"), ("swiglu", "element-wise"),
    )
)  # fmt: skip


def task_of(problem: str, root: Path | None, *, dry_run: bool) -> Task:
    """The task; a dry run takes it at the smallest size that its file can be cut to."""
    if not problem.startswith("small/"):
        task = kernelbench_task(problem, root)
        return _reduced(task) if dry_run else task
    task = task_from_file(DIRECTORY / "tasks" / f"{problem.removeprefix('small/')}.py")
    reference = _SIZES.sub(_tiny, task.reference) if dry_run else task.reference
    return task.model_copy(update={"name": problem, "reference": reference})


def _reduced(task: Task) -> Task:
    smallest = next(iter(reductions(task.reference)))[1]
    return task.model_copy(update={"reference": smallest})


def _tiny(match: re.Match[str]) -> str:
    return f"{match[1]} = {'16, 100' if ',' in match[1] else '72'}"


def unique(source: str, tag: str) -> str:
    """The same candidate under other kernel names."""
    return f"# {tag}\n" + _KERNEL.sub(rf"\1_{tag}", source)


def submission(entry: Entry, task: Task, tag: str, timeout_s: float) -> Submission:
    """A candidate that no cache has seen."""
    source = (DIRECTORY / f"{entry.candidate}.py").read_text()
    return Submission(
        task=task, source=unique(source, tag), timeout_s=timeout_s, memory_mb=MEMORY_MB
    )


def itself(task: Task, tag: str, timeout_s: float) -> Submission:
    """The reference as its own candidate."""
    return Submission(
        task=task,
        source=f"{task.reference}\n# {tag}\n",
        backend="torch",
        entry_point=task.entry_point,
        timeout_s=timeout_s,
        memory_mb=MEMORY_MB,
    )


def tags(prefix: str) -> Iterator[str]:
    """Names that nothing had before, in this run or another."""
    import secrets

    number = 0
    while True:
        yield f"{prefix}{number}_{secrets.token_hex(4)}"
        number += 1
