"""The outcome matrix, GPU faults, leak scan, start times and a long row, in real jails.

    python benchmarks/gpu_jail_matrix.py --out DIR [--budget-s 200] [--only NAME,...]
    python benchmarks/gpu_jail_matrix.py --out DIR --device cpu [--only row --evaluations 1000]
    python benchmarks/gpu_jail_matrix.py --out DIR --dry-run          everything, small, on a CPU

    starts   how long until a jailed process is ready, without and with a CUDA context
    matrix   every candidate of ``tests/e2e/cases.py``, each followed by an honest one
    faults   illegal address, assert, endless kernel, out of memory, kill in mid-kernel, ...
    leaks    a canary in the judge: found by the judge itself, by no candidate
    row      whole evaluations one after the other: nothing may grow

Each section is a process of its own with a limit; what it had found when it ended counts, and a
second run with the same DIR (or ``--resume FILE``) goes on from there. Results:
``DIR/gpu_jail_matrix.json``. A dry run checks the script and counts for nothing.
"""

import argparse
import asyncio
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
RESULT = "gpu_jail_matrix.json"
SECTIONS = {
    "starts": ("gpu_jail_starts", 30.0),
    "matrix": ("gpu_jail_outcomes", 100.0),
    "faults": ("gpu_jail_faults", 100.0),
    "leaks": ("gpu_jail_leaks", 60.0),
    "row": ("gpu_jail_row", 1e9),
}
"""Module of each section, in order, and the seconds it may take of the budget."""
LAST_WORDS_S = 6.0
"""Between the time at which a section must stop and the one at which it is killed."""


def main() -> int:
    arguments = parse()
    if arguments.section:
        return run_section(arguments)
    import record

    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    done = load(Path(arguments.resume) if arguments.resume else out / RESULT)
    ends = time.monotonic() + arguments.budget_s
    wanted = arguments.only.split(",") if arguments.only else list(SECTIONS)
    for name in wanted:
        if done.get(name, {}).get("status") == "ok" and name not in arguments.redo.split(","):
            continue
        left = min(SECTIONS[name][1], ends - time.monotonic())
        if left < 2 * LAST_WORDS_S:
            print(f"{name}: no time left", file=sys.stderr)
            break
        before = {} if name in arguments.redo.split(",") else done.get(name, {})
        done[name] = guarded(name, arguments, left, before, out)
        body = {"dry_run": arguments.dry_run, "device": arguments.device, "sections": done}
        record.write(out / RESULT, "gpu_jail_matrix", body)
    return 0 if all(done.get(name, {}).get("status") == "ok" for name in wanted) else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", default=os.environ.get("OUT", "gpu-jail-matrix"))
    parser.add_argument("--budget-s", type=float, default=200.0)
    parser.add_argument("--only", default="", help="sections, with commas")
    parser.add_argument("--redo", default="", help="sections to begin anew, with commas")
    parser.add_argument("--resume", default="", help="result file of an earlier run")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--evaluations", type=int, default=1000, help="length of the row")
    parser.add_argument("--lanes", type=int, default=4, help="evaluations at once")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--section", default="", help=argparse.SUPPRESS)
    parser.add_argument("--part", default="", help=argparse.SUPPRESS)
    parser.add_argument("--left-s", type=float, default=0.0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.dry_run:
        arguments.device = "cpu"
        arguments.evaluations = min(arguments.evaluations, 20)
    return arguments


def load(path: Path) -> dict[str, dict]:
    try:
        return json.loads(path.read_text())["sections"]
    except (OSError, ValueError, KeyError):
        return {}


def guarded(
    name: str, arguments: argparse.Namespace, limit_s: float, before: dict, out: Path
) -> dict:
    """One section in a child; what it had written counts even when it died."""
    part = out / f"{name}.part.json"
    part.write_text(json.dumps({"steps": before.get("steps", {}), "facts": {}}))
    command = [sys.executable, __file__, "--section", name, "--part", str(part)]
    command += ["--left-s", str(limit_s - LAST_WORDS_S), "--device", arguments.device]
    command += ["--evaluations", str(arguments.evaluations), "--lanes", str(arguments.lanes)]
    command += ["--dry-run"] if arguments.dry_run else []
    paths = [str(HERE), str(ROOT / "src"), str(ROOT / "tests" / "e2e")]
    env = dict(os.environ)
    env |= {"PYTHONPATH": os.pathsep.join([*paths, env.get("PYTHONPATH", "")]).rstrip(os.pathsep)}
    temporary = tempfile.mkdtemp(prefix="kernelgym-matrix-")
    os.chmod(temporary, 0o755)  # jails without mounts of their own pass through it as another user
    env |= {"PYTHONFAULTHANDLER": "1", "TMPDIR": temporary}
    started = time.monotonic()
    try:
        child = subprocess.run(
            command, timeout=limit_s, capture_output=True, text=True, check=False, env=env
        )
        status, tail = str(child.returncode), (child.stdout + child.stderr)[-4000:]
    except subprocess.TimeoutExpired as error:
        said = error.stderr or b""
        status = "timeout"
        tail = (said if isinstance(said, str) else said.decode(errors="replace"))[-4000:]
    shutil.rmtree(temporary, ignore_errors=True)
    found = json.loads(part.read_text())
    wrong = [key for key, step in found["steps"].items() if not step.get("right")]
    good = status == "0" and not wrong and found["facts"].get("complete") is True
    found |= {"status": "ok" if good else "not ok", "exit": status, "wrong": wrong}
    found["seconds"] = round(time.monotonic() - started, 1)
    if tail and not good:
        found["output"] = tail
    text = f"{name}: {found['status']}, {len(found['steps'])} entries in {found['seconds']} s"
    print(text + (f", wrong: {wrong}" if wrong else ""), file=sys.stderr, flush=True)
    return found


def run_section(arguments: argparse.Namespace) -> int:
    """In the child: run one section on its sheet."""
    ends = time.monotonic() + arguments.left_s
    import gpu_jail_sheet
    from kernelgym.sandbox import cgroup_places

    part = Path(arguments.part)
    sheet = gpu_jail_sheet.Sheet(
        part,
        ends,
        arguments.device,
        arguments.dry_run,
        arguments.evaluations,
        arguments.lanes,
        steps=json.loads(part.read_text())["steps"],
    )
    sheet.fact("cgroups_before", cgroup_places.facts())
    sheet.fact("delegated", cgroup_places.delegate())
    sheet.fact("cgroups", cgroup_places.facts())
    groups = set(gpu_jail_sheet.own_groups())
    module = importlib.import_module(SECTIONS[arguments.section][0])
    asyncio.run(module.run(sheet))
    sheet.fact("leftovers", gpu_jail_sheet.leftovers(groups))
    sheet.fact("xids", gpu_jail_sheet.xids())
    if any(sheet.facts["leftovers"].values()):  # type: ignore[attr-defined]
        print(f"left behind: {sheet.facts['leftovers']}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
