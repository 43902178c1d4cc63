"""Every KernelBench problem of levels 1 to 3, reduced, with its reference as its own candidate.

    KERNELBENCH_DIR=... python benchmarks/kernelbench_reduced.py [--levels 1 2 3] [--state FILE]

A correct gym calls a reference ``correct`` against itself: what it does not is either a faulty
problem or a fault of ours, so each is listed with its cause. Sizes are cut by
`kernelgym.tasks.reduce`; `kernelbench_probe.py` picks the strongest cut that leaves a problem.
Backend ``torch`` on the CPU, five trials in eval and train mode, protocol ``standard``.

Resumable: each finished problem is one line of the state file. Not covered: full sizes, a GPU, and
any kernel.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import record
from kernelgym.schema import Submission, Task
from kernelgym.tasks.kernelbench import kernelbench_root, problem_files
from kernelgym.tasks.reduce import reductions
from kernelgym.worker.host import EvaluationHost

HERE = Path(__file__).parent


def problems(levels: list[int]) -> dict[str, Path]:
    root = kernelbench_root(None)
    return {
        f"level{level}/{path.stem}": path for level in levels for path in problem_files(root, level)
    }


class Prober:
    """The child that tries reduced versions."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, str(HERE / "kernelbench_probe.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lock = asyncio.Lock()

    async def choose(self, name: str, path: Path) -> dict:
        request = json.dumps({"id": name, "versions": list(reductions(path.read_text()))})
        async with self._lock:
            return json.loads(await asyncio.to_thread(self._ask, request))

    def _ask(self, request: str) -> str:
        self._child.stdin.write(request + "\n")
        self._child.stdin.flush()
        return self._child.stdout.readline()

    def close(self) -> None:
        self._child.stdin.close()
        self._child.wait(timeout=30)


async def evaluate(host: EvaluationHost, name: str, chosen: dict, trials: int) -> dict:
    """One problem's row."""
    row = {"problem": name, **{key: value for key, value in chosen.items() if key != "source"}}
    row.pop("id", None)
    if chosen["reduction"] is None:
        return row | {"outcome": "not_run", "cause": "; ".join(chosen["tried"])[:600]}
    source = chosen["source"]
    submission = Submission(
        task=Task(name=name, reference=source, origin="kernelbench"),
        source=source,
        entry_point="Model",
        backend="torch",
        trials=trials,
        timeout_s=300.0,
        memory_mb=8192,
    )
    result = await host.evaluate(submission, fresh=True)
    failure = result.failure
    worst = max((t.worst_ratio for t in result.trials if t.worst_ratio is not None), default=None)
    return row | {
        "outcome": result.outcome.value,
        "cause": f"{failure.stage}/{failure.code}: {failure.message}"[:600] if failure else "",
        "trials": len(result.trials),
        "worst_ratio": worst,
        "findings": [f.id for f in result.findings],
        "wall_s": round(result.provenance.wall_seconds, 2),
    }


async def run(arguments: argparse.Namespace) -> list[dict]:
    wanted = problems(arguments.levels)
    done = {}
    if arguments.state.exists():
        rows = [json.loads(line) for line in arguments.state.read_text().splitlines()]
        done = {row["problem"]: row for row in rows if row["problem"] in wanted}
    prober = Prober()
    queue = [name for name in wanted if name not in done]
    async with EvaluationHost(concurrency=arguments.jobs, fallback=True, idle_s=0) as host:

        async def work() -> None:
            while queue:
                name = queue.pop(0)
                chosen = await prober.choose(name, wanted[name])
                row = await evaluate(host, name, chosen, arguments.trials)
                done[name] = row
                with arguments.state.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(f"{len(done):3}/{len(wanted)} {name} {row['outcome']}", file=sys.stderr)

        await asyncio.gather(*(work() for _ in range(arguments.jobs)))
    prober.close()
    return [done[name] for name in wanted]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--state", type=Path, default=Path("/tmp/kernelbench_reduced.jsonl"))
    parser.add_argument(
        "--out", type=Path, default=HERE / "results" / f"kernelbench-reduced-{record.today()}.json"
    )
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    rows = asyncio.run(run(arguments))
    outcomes = Counter(row["outcome"] for row in rows)
    meaningful = sum(bool(row.get("depends_on_inputs")) for row in rows)
    body = {
        "kernelbench_commit": record.commit(kernelbench_root(None)),
        "kernelbench_sha256": record.digest(list(problems(arguments.levels).values())),
        "summary": {
            "problems": len(rows),
            "correct": outcomes["correct"],
            "outcomes": dict(outcomes),
            "outputs_change_with_inputs": meaningful,
            "reductions": dict(Counter(str(row["reduction"]) for row in rows)),
        },
        "not_correct": [row for row in rows if row["outcome"] != "correct"],
        "problems": rows,
    }
    record.write(arguments.out, "kernelbench_reduced", body)
    print(json.dumps(body["summary"], indent=1))
    for row in body["not_correct"]:
        print(f"{row['problem']}: {row['outcome']}: {row['cause']}")


if __name__ == "__main__":
    main()
