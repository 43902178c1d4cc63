"""The three offline recipes as they are documented, timed: collect, eval and scale without a GPU.

    python benchmarks/offline_episodes.py --out benchmarks/results/offline_episodes.json

Runs `drkernel collect`, `eval` and `scale` with `configs/*/offline.toml` in a temporary directory,
checks that a second call with --resume plays nothing again, and keeps their numbers. Candidates are
written by rules and judged by Triton's interpreter: no figure here says anything about a model, and
nothing is timed. About ten minutes on two cores.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import record

CONFIGS = Path(__file__).parents[1] / "configs"
SUMMARIES = {"collect": "statistics.json", "eval": "eval.json", "scale": "scale.json"}


def main() -> None:
    """Run the recipes and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="offline-episodes-"))
    try:
        runs = {verb: _run(verb, folder / verb) for verb in SUMMARIES}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    load = os.getloadavg()
    record.write(arguments.out, "offline_episodes", {"runs": runs, "load_average_at_end": load})


def _run(verb: str, out: Path) -> dict[str, Any]:
    recipe = CONFIGS / verb / "offline.toml"
    command = [sys.executable, "-m", "drkernel", verb, "-c", str(recipe), "--out", str(out)]
    started = time.monotonic()
    subprocess.run(command, check=True)
    seconds = time.monotonic() - started
    turns = _turns(out)
    started = time.monotonic()
    subprocess.run([*command, "--resume"], check=True)
    again_s = time.monotonic() - started
    assert _turns(out) == turns, "a finished run was played again"
    numbers = json.loads((out / SUMMARIES[verb]).read_text())
    found = {
        "command": " ".join(["drkernel", verb, "-c", f"configs/{verb}/offline.toml"]),
        "seconds": round(seconds, 1),
        "turns": turns,
        "resumed_seconds": round(again_s, 1),
        "summary": numbers,
    }
    print(verb, {name: found[name] for name in ("seconds", "turns", "resumed_seconds")}, flush=True)
    return found


def _turns(out: Path) -> int:
    """Lines of all logs that hold a turn."""
    logs = out.rglob("*.jsonl")
    return sum('"kind":"turn"' in line for path in logs for line in path.read_text().splitlines())


if __name__ == "__main__":
    main()
