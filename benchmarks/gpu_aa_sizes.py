"""Bytes of every KernelBench problem at full size, found on the meta device: no memory is used.

    python benchmarks/gpu_aa_sizes.py --root KERNELBENCH [--out FILE]

`gpu_aa.py` reads the result to run side by side only what fits on the GPU together. It runs the
code of the problems in this process. Not covered: temporaries inside ``forward``; where a problem
cannot run on the meta device its outputs are taken to be as large as its inputs.
"""

import argparse
import signal
import sys
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # the meta device loads it; not under the alarm

import record
from kernelgym.tasks.kernelbench import kernelbench_root, problem_files

HERE = Path(__file__).parent
LIMIT_S = 10
"""For one forward call: recurrent layers take minutes step by step."""
SIZES = HERE / "results" / "kernelbench-sizes.json"


def sizes(path: Path) -> dict:
    """Bytes of inputs, outputs and state."""
    space: dict[str, Any] = {"__name__": "problem"}
    exec(compile(path.read_text(), str(path), "exec"), space)
    with torch.device("meta"), torch.no_grad():
        inputs = space["get_inputs"]()
    found = {"input_bytes": _bytes(inputs)}
    model = _model(space)
    found["state_bytes"] = _bytes(list(model.state_dict().values()))
    signal.alarm(LIMIT_S)
    try:
        with torch.device("meta"), torch.no_grad():
            found["output_bytes"] = _bytes([model.to("meta")(*inputs)])
    except Exception as error:  # noqa: BLE001 - models may need values
        print(f"{path.stem}: {type(error).__name__}: {error}"[:200], file=sys.stderr)
        found |= {"output_bytes": found["input_bytes"], "guessed": True}
    finally:
        signal.alarm(0)
    return found


def _model(space: dict[str, Any]) -> torch.nn.Module:
    """On the meta device, or on the CPU where its constructor needs values."""
    arguments = space["get_init_inputs"]()
    try:
        with torch.device("meta"):
            return space["Model"](*arguments)
    except RuntimeError:
        return space["Model"](*arguments)


def _bytes(value: object) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, list | tuple):
        return sum(_bytes(item) for item in value)
    return 0


def _too_long(*_: object) -> None:
    raise TimeoutError(f"more than {LIMIT_S} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--root", type=Path)
    parser.add_argument("--out", type=Path, default=SIZES)
    arguments = parser.parse_args()
    signal.signal(signal.SIGALRM, _too_long)
    root, found = kernelbench_root(arguments.root), {}
    for level in (1, 2, 3):
        for path in problem_files(root, level):
            found[f"level{level}/{path.stem}"] = sizes(path)
    record.write(arguments.out, "kernelbench_sizes", {"problems": found})


if __name__ == "__main__":
    main()
