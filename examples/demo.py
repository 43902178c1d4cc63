"""Judge the example candidates in one `EvaluationHost`, and say for each what gave it away.

    python examples/demo.py [MANIFEST.toml] [--setup-seconds S] [--json FILE]

Exit status 1 when an outcome is not the one that the manifest expects. Also a short example of the
Python interface: build a `Submission`, await `host.evaluate`.
"""

import argparse
import asyncio
import json
import sys
import time
import tomllib
from pathlib import Path

from kernelgym.report.printable import gist, one_line
from kernelgym.report.table import table
from kernelgym.schema import EvalResult, Submission
from kernelgym.tasks.source import read_source
from kernelgym.tasks.task import find_task
from kernelgym.worker.host import EvaluationHost

HERE = Path(__file__).parent


async def judge_all(entries: list[dict], directory: Path) -> list[EvalResult]:
    """Results in the manifest's order."""
    async with EvaluationHost(fallback=True) as host:

        async def judge(entry: dict) -> EvalResult:
            submission = Submission(
                task=find_task(entry["task"]),
                source=read_source(directory / entry["file"], "candidate"),
                backend=entry.get("backend", "triton"),
            )
            result = await host.evaluate(submission)
            print(f"  {entry['file']}: {result.outcome.value}", file=sys.stderr, flush=True)
            return result

        return await asyncio.gather(*(judge(entry) for entry in entries))


def is_as_expected(entry: dict, result: EvalResult) -> bool:
    """Whether outcome and finding are those of the manifest."""
    found = {finding.id for finding in result.findings}
    wanted = entry.get("finding")
    return result.outcome.value == entry["outcome"] and (wanted is None or wanted in found)


def reason(result: EvalResult) -> tuple[str, str]:
    """Why it ended so, and the line of the source that shows it."""
    telling = next((f for f in result.findings if f.severity != "info"), None)
    if telling is not None and (result.correct or telling.severity == "hack"):
        line = f"{telling.line}: {telling.excerpt}" if telling.line else ""
        return f"{telling.id}: {telling.message}", line
    failure = result.failure
    if failure is not None:
        line = f"{failure.line}: {_line_of(failure.excerpt, failure.line)}" if failure.line else ""
        return f"{failure.code}: {failure.message}", line
    passed = sum(trial.passed for trial in result.trials)
    kernels = {kernel.name for kernel in result.profile.kernels} if result.profile else set()
    own = f"launches {', '.join(sorted(kernels))}" if kernels else "no launch seen"
    return f"{passed}/{len(result.trials)} trials within tolerance, {own}", ""


def _line_of(excerpt: str, number: int) -> str:
    """The numbered line out of an excerpt that shows some around it."""
    for line in excerpt.splitlines():
        head, bar, text = line.partition("|")
        if bar and head.replace(">", "").strip() == str(number):
            return text.strip()
    return excerpt.strip().splitlines()[0] if excerpt.strip() else ""


def rows(entries: list[dict], results: list[EvalResult]) -> list[tuple[str, ...]]:
    """One row a candidate; a second line, where there is one, holds the source line."""
    lines = []
    for entry, result in zip(entries, results, strict=True):
        why, line = reason(result)
        if lines:
            lines.append(("", "", "", ""))
        mark = "" if is_as_expected(entry, result) else f" (expected {entry['outcome']})"
        name = entry["file"].removeprefix("candidates/")
        lines.append((name, entry["task"], result.outcome.value + mark, gist(why, 230)))
        if line:
            lines.append(("", "", "", f"line {one_line(line, 110)}"))
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("manifest", nargs="?", type=Path, default=HERE / "demo.toml")
    parser.add_argument("--setup-seconds", type=float)
    parser.add_argument("--json", type=Path, help="write every result to this file")
    arguments = parser.parse_args()
    entries = tomllib.loads(arguments.manifest.read_text())["candidate"]
    started = time.monotonic()
    results = asyncio.run(judge_all(entries, arguments.manifest.parent))
    seconds = time.monotonic() - started
    if arguments.json:
        arguments.json.write_text(
            json.dumps([r.model_dump(mode="json") for r in results], indent=1)
        )
    print("\n".join(table(("candidate", "task", "outcome", "reason"), rows(entries, results), 132)))
    right = sum(map(is_as_expected, entries, results))
    facts = results[0].provenance
    print(f"\n{right} of {len(entries)} as expected; on {facts.device}, jail {facts.jail}")
    setup = "" if arguments.setup_seconds is None else f"set-up {arguments.setup_seconds:.1f} s, "
    print(f"{setup}run {seconds:.1f} s")
    return 0 if right == len(entries) else 1


if __name__ == "__main__":
    sys.exit(main())
