"""What `gpu_truth.py` compares with: times taken in a process of its own, by events and by ``ncu``.

    python benchmarks/gpu_truth_direct.py copy|parts|ablated|ncu|ncu-target

Cold cache (a fill larger than L2 before each call), median of 30. The candidates' files are
imported as they are: they are ours. Prints one JSON object.

Not covered: anything about the judge.
"""

import csv
import glob
import importlib.util
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

HERE = Path(__file__).parent / "candidates"
REPEATS = 30
MAKING = ("distribution", "uniform", "normal", "fill", "Fill")
"""Kernels that make inputs and parameters."""
PAIRS = {
    "linear_own_sum": "linear_sum", "fused_mlp": "mlp", "lazy_mlp": "mlp",
    "small_softmax": "softmax",
}  # fmt: skip


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def time_us(call: Callable[[], object]) -> float:
    """Median time between events, behind a fill that empties the cache and hides the launch."""
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    times = []
    for index in range(REPEATS + 5):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flush.zero_()
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        if index >= 5:
            times.append(start.elapsed_time(end) * 1e3)
    return round(statistics.median(times), 3)


def case(candidate: str, task: str) -> tuple[ModuleType, torch.nn.Module, list[torch.Tensor]]:
    """Module and model of a candidate, inputs of its task, on the GPU."""
    reference, module = load(HERE / "tasks" / f"{task}.py"), load(HERE / f"{candidate}.py")
    with torch.device("cuda"):
        return module, module.ModelNew(*reference.get_init_inputs()), reference.get_inputs()


def copy() -> dict:
    """Bandwidth of our copy kernel, of torch's and of the driver's."""
    _, model, (x,) = case("small_copy", "copy")
    moved, out = 2 * x.numel() * x.element_size(), torch.empty_like(x)
    times = {"candidate": time_us(lambda: model(x)), "torch copy_": time_us(lambda: out.copy_(x))}
    return {
        "bytes": moved,
        **{f"{name}_us": us for name, us in times.items()},
        **{f"{name}_bytes_per_s": round(moved / us * 1e6) for name, us in times.items()},
    }


def parts() -> dict:
    """The linear layer alone, our sum alone, both: the share that is ours."""
    module, model, (x,) = case("linear_own_sum", "linear_sum")
    y = model.linear(x)
    out = torch.empty(len(y), device="cuda")
    columns = y.shape[1]
    ours = lambda: module.sum_kernel[(len(y),)](y, out, columns, BLOCK=columns)  # noqa: E731
    linear_us, sum_us = time_us(lambda: model.linear(x)), time_us(ours)
    warm_us = time_us(lambda: (model.linear(x), ours())) - linear_us
    return {
        "linear_us": linear_us, "sum_cold_us": sum_us, "sum_behind_linear_us": round(warm_us, 3),
        "both_us": time_us(lambda: model(x)),
        "share_cold": round(sum_us / (linear_us + sum_us), 4),
        "share_behind_linear": round(warm_us / (linear_us + warm_us), 4),
    }  # fmt: skip


class _Nothing:
    """Stands where a kernel was."""

    def __getitem__(self, grid: object) -> Callable[..., None]:
        return lambda *_, **__: None


def ablated() -> dict:
    """T - T_ablated: the time that goes away when own kernels do nothing."""
    found = {}
    for candidate, task in PAIRS.items():
        module, model, inputs = case(candidate, task)
        with_us = time_us(lambda model=model, inputs=inputs: model(*inputs))
        for name in [name for name in vars(module) if name.endswith("_kernel")]:
            setattr(module, name, _Nothing())
        without_us = time_us(lambda model=model, inputs=inputs: model(*inputs))
        found[candidate] = {
            "with_us": with_us, "ablated_us": without_us,
            "difference_us": round(with_us - without_us, 3),
            "share": round((with_us - without_us) / with_us, 4),
        }  # fmt: skip
    return found


def ncu_path() -> str | None:
    """The profiler's command, where the machine has one."""
    places = ["/usr/local/cuda*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu"]
    found = [path for pattern in places for path in sorted(glob.glob(pattern))]
    return shutil.which("ncu") or (found[-1] if found else None)


def ncu() -> dict:
    """Kernel times of the linear layer and our sum, as ``ncu`` measures them."""
    path = ncu_path()
    if path is None:
        return {"skipped": "no ncu on this machine"}
    command = [
        path, "--clock-control", "none", "--metrics", "gpu__time_duration.sum", "--csv",
        sys.executable, __file__, "ncu-target",
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return {"skipped": "ncu was not through after 120 s", "path": path}
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    rows = [row for row in csv.DictReader(lines) if row.get("Metric Value")]
    if not rows:
        return {"skipped": f"ncu measured nothing: {(done.stderr or done.stdout)[-600:]}"}
    times: dict[str, list[float]] = {}
    for row in rows:
        scale = {"nsecond": 1e-3, "ns": 1e-3, "usecond": 1.0, "us": 1.0, "msecond": 1e3, "ms": 1e3}
        value = float(row["Metric Value"].replace(",", "")) * scale.get(row["Metric Unit"], 1.0)
        times.setdefault(row["Kernel Name"], []).append(value)
    medians = {
        name: statistics.median(values)
        for name, values in times.items()
        if not any(word in name for word in MAKING)
    }
    own = sum(us for name, us in medians.items() if "sum_kernel" in name)
    return {"path": path, "kernels_us": medians, "share": round(own / sum(medians.values()), 4)}


def ncu_target() -> dict:
    """A few calls, nothing else."""
    torch.set_grad_enabled(False)
    _, model, (x,) = case("linear_own_sum", "linear_sum")
    for _ in range(4):
        model(x)
    torch.cuda.synchronize()
    return {}


def measured(name: str, *, dry_run: bool) -> dict:
    """One of the above in a process of its own."""
    if dry_run:
        return {"skipped": "no GPU"}
    command = [sys.executable, __file__, name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    if done.returncode:
        return {"failed": done.stderr[-2000:]}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    work: dict[str, Any] = vars(
        SimpleNamespace(copy=copy, parts=parts, ablated=ablated, ncu=ncu)
    ) | {"ncu-target": ncu_target}
    with torch.no_grad():
        print(json.dumps(work[sys.argv[1]]()))


if __name__ == "__main__":
    main()
