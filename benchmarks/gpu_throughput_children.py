"""One child process a section: a crash or a hang costs one section, a second call goes on.

The GPU benchmarks share this: arguments, order, budget, limits, earlier rows. A child learns in
``--ends-in`` how long it may take and stops by itself; it is killed, with everything it started,
a while later.

    runner = Runner("gpu_throughput", __file__, LIMITS_S, summarise)
    sys.exit(runner.main(run_section))
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass, field
from pathlib import Path

import record

HERE = Path(__file__).parent
GRACE_S = 20.0
"""From the moment a child should have ended to the moment it is killed."""
Section = Callable[[str, argparse.Namespace, float], Coroutine[None, None, None]]
"""Name, arguments, end on the monotonic clock."""


@dataclass
class Runner:
    """A benchmark made of sections."""

    name: str
    script: str
    limits_s: dict[str, float]
    """Sections in order, with the seconds each may take."""
    summarise: Callable[[Path], dict]
    """From the directory of rows to the body of the result."""
    extra: Callable[[argparse.ArgumentParser], None] = lambda _: None
    _gpus: list[dict | None] = field(default_factory=list)

    def main(self, section: Section) -> int:
        arguments = self._parse()
        out = Path(arguments.out)
        out.mkdir(parents=True, exist_ok=True)
        if arguments.section:
            ends = time.monotonic() + arguments.ends_in
            asyncio.run(section(arguments.section, arguments, ends))
            return 0
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the child goes along
        self._take_over(arguments, out)
        ends = time.monotonic() + arguments.budget_s
        wanted = arguments.only.split(",") if arguments.only else list(self.limits_s)
        earlier = self._earlier(out)
        statuses: dict[str, str] = earlier.get("sections", {})
        self._gpus = [*earlier.get("gpu_before_and_after_each_section", []), _gpus(arguments)]
        for name in wanted:
            left = ends - time.monotonic() - GRACE_S / 2
            if left < 15 and not arguments.summary:
                statuses[name] = "no time left"
            elif not arguments.summary:
                statuses[name] = self._child(name, min(self.limits_s[name], left), out)
            print(f"{name}: {statuses.get(name, 'read')}", file=sys.stderr, flush=True)
            self._gpus.append(_gpus(arguments))
            self._write(arguments, out, statuses)
        return 0 if all(statuses.get(name, "ok") == "ok" for name in wanted) else 1

    def _parse(self) -> argparse.Namespace:
        parser = argparse.ArgumentParser(prog=self.name)
        parser.add_argument("--out", default=os.environ.get("OUT", self.name.replace("_", "-")))
        parser.add_argument("--seen", default="", help="directories of earlier runs, with commas")
        parser.add_argument("--budget-s", type=float, default=540.0)
        parser.add_argument("--only", default="", help="sections, with commas")
        parser.add_argument("--dry-run", action="store_true", help="on the CPU, everything tiny")
        parser.add_argument("--summary", action="store_true", help="only read rows and write")
        parser.add_argument("--root", type=Path, help="KernelBench; default .kernelbench here")
        parser.add_argument("--workers", type=int, default=8)
        parser.add_argument("--section", default="", help=argparse.SUPPRESS)
        parser.add_argument("--ends-in", type=float, default=0.0, help=argparse.SUPPRESS)
        self.extra(parser)
        arguments = parser.parse_args()
        default = HERE.parent / ".kernelbench"
        if arguments.root is None and not os.environ.get("KERNELBENCH_DIR") and default.is_dir():
            arguments.root = default
        return arguments

    def _take_over(self, arguments: argparse.Namespace, out: Path) -> None:
        """Rows of earlier runs; what is already in ``out`` stays."""
        for directory in filter(None, arguments.seen.split(",")):
            for pattern in ("*.jsonl", "*.data.json", f"{self.name}.json"):
                for path in sorted(Path(directory).rglob(pattern)):
                    if not (out / path.name).exists():
                        shutil.copyfile(path, out / path.name)

    def _child(self, name: str, limit_s: float, out: Path) -> str:
        given = [value for value in sys.argv[1:] if value != "--summary"]
        command = [
            sys.executable, self.script, *given, "--section", name, "--ends-in", f"{limit_s:.1f}",
            "--out", str(out),
        ]  # fmt: skip
        paths = [str(HERE), str(HERE.parent / "src"), os.environ.get("PYTHONPATH", "")]
        env = dict(os.environ)
        env |= {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONFAULTHANDLER": "1"}
        with (out / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(
                command, stdout=log, stderr=log, env=env, start_new_session=True
            )
            try:
                code = child.wait(limit_s + GRACE_S)
            except subprocess.TimeoutExpired:
                return "killed at its limit"
            finally:
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()
        return "ok" if code == 0 else f"exit {code}"

    def _write(self, arguments: argparse.Namespace, out: Path, statuses: dict) -> None:
        try:
            summary = self.summarise(out)
        except Exception as error:  # noqa: BLE001 - rows are worth more than their summary
            summary = {"summary_failed": f"{type(error).__name__}: {error}"}
        path = out / f"{self.name}.json"
        if arguments.summary and (earlier := self._earlier(out)):
            # The circumstances are those of the machine that measured.
            path.write_text(json.dumps(earlier | summary, indent=1) + "\n")
            return
        body = {
            "dry_run": arguments.dry_run,
            "gpu_before_and_after_each_section": self._gpus,
            "sections": statuses,
            **summary,
        }
        record.write(path, self.name, body)

    def _earlier(self, out: Path) -> dict:
        """The result of a call before this one; empty when there is none."""
        try:
            return json.loads((out / f"{self.name}.json").read_text())
        except (OSError, ValueError):
            return {}


def _gpus(arguments: argparse.Namespace) -> dict | None:
    """Name, driver, clocks, throttle reasons, memory and foreign processes of the first GPU."""
    from kernelgym.worker import gpu

    if arguments.dry_run or arguments.summary:
        return None
    try:
        found = gpu.facts()
    except Exception as error:  # noqa: BLE001 - a figure that is missing costs no benchmark
        return {"name": None, "error": str(error)[:200]}
    return asdict(found[0]) | {"uuid": ""} if found else None
