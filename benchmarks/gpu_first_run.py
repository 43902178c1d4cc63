"""Everything that issue A1 asks to be seen on a GPU, in one run of at most ten minutes.

    python benchmarks/gpu_first_run.py --out DIR [--budget-s 540] [--only NAME,...] [--redo
    NAME,...] python benchmarks/gpu_first_run.py --out DIR --dry-run       without a GPU: stand-in
    driver

Sections (`gpu_sections.py`) run one by one, each in a process of its own with a limit, so that a
crash or a hang costs one section. After each the whole result is written to
``DIR/gpu_first_run.json``; a second call with the same DIR goes on where the first one ended
(``--redo`` repeats). Order: what later sections stand on comes first, what may break the driver
last.

A dry run checks the script, not a GPU: its result says ``"dry_run": true`` and counts for nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import record

HERE = Path(__file__).parent
RESULT = "gpu_first_run.json"
LIMITS_S = {
    "machine": 40,
    "driver": 60,
    "share": 60,
    "cupti": 90,
    "armed": 120,
    "identity": 120,
    "jail": 150,
    "one": 120,
    "demo": 240,
    "aa": 300,
    "second_context": 90,
}
"""Sections in order, with the seconds each may take."""


def main() -> int:
    arguments = parse()
    if arguments.section:
        return run_section(arguments)
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    done = load(out / RESULT)
    ends = time.monotonic() + arguments.budget_s
    wanted = arguments.only.split(",") if arguments.only else list(LIMITS_S)
    for name in wanted:
        known = done.get(name, {}).get("status")
        if known == "ok" and name not in arguments.redo.split(","):
            continue
        left = ends - time.monotonic()
        if left < 15:
            print(f"{name}: no time left", file=sys.stderr)
            break
        done[name] = guarded(name, arguments, min(LIMITS_S[name], left), out)
        body = {"dry_run": arguments.dry_run, "sections": done}
        record.write(out / RESULT, "gpu_first_run", body)
    return 0 if all(done.get(name, {}).get("status") == "ok" for name in wanted) else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", default=os.environ.get("OUT", "gpu-first-run"))
    parser.add_argument("--budget-s", type=float, default=540.0)
    parser.add_argument("--only", default="", help="sections, with commas")
    parser.add_argument("--redo", default="", help="sections to repeat, with commas")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--section", default="", help=argparse.SUPPRESS)
    parser.add_argument("--part", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def load(path: Path) -> dict[str, dict]:
    try:
        return json.loads(path.read_text())["sections"]
    except (OSError, ValueError, KeyError):
        return {}


def guarded(name: str, arguments: argparse.Namespace, limit_s: float, out: Path) -> dict:
    """One section in a child; what it had written counts even when it died."""
    part = out / f"{name}.part.json"
    part.unlink(missing_ok=True)
    command = [sys.executable, __file__, "--section", name, "--part", str(part), "--out", str(out)]
    if arguments.dry_run:
        command.append("--dry-run")
    paths = [str(HERE), str(HERE.parent / "src"), os.environ.get("PYTHONPATH", "")]
    env = dict(os.environ)
    env |= {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONFAULTHANDLER": "1"}
    started = time.monotonic()
    try:
        child = subprocess.run(
            command, timeout=limit_s, capture_output=True, text=True, check=False, env=env
        )
        status, tail = child.returncode, (child.stdout + child.stderr)[-3000:]
    except subprocess.TimeoutExpired as error:
        said = error.stderr or b""
        text = said if isinstance(said, str) else said.decode(errors="replace")
        status, tail = "timeout", text[-3000:]
    found = json.loads(part.read_text()) if part.exists() else {}
    found["seconds"] = round(time.monotonic() - started, 1)
    found |= {"date": record.today(), "commit": record.commit(HERE)}
    if status != 0 or found.get("failed"):
        found |= {"status": "failed", "exit": status, "output": tail}
    else:
        found["status"] = "ok"
    print(f"{name}: {found['status']} in {found['seconds']} s", file=sys.stderr, flush=True)
    return found


def run_section(arguments: argparse.Namespace) -> int:
    """In the child: every step of the section in turn, its result written at once."""
    import gpu_sections

    part = Path(arguments.part)
    found: dict[str, object] = {}
    failed = []
    for name, step in gpu_sections.steps(arguments.section, dry_run=arguments.dry_run):
        try:
            found[name] = step()
        except Exception as error:  # noqa: BLE001 - one step must not cost the others
            found[name] = {"error": f"{type(error).__name__}: {error}"[:8000]}
            failed.append(name)
            sys.excepthook(*sys.exc_info())
        part.write_text(json.dumps({"steps": found, "failed": failed}, default=str))
    return 0


if __name__ == "__main__":
    sys.exit(main())
