"""Launches jails on request, inside one of the worlds: one JSON line in, one out.

{"spec": {...}, "call": "module:function", "args": [...], "limit_s": 10}
    run the function in a jail; what it returned, how it ended, what is left
{..., "hold": true}   leave it running; answers with a number
{"end": number}       end one that was left running
"""

import contextlib
import importlib
import json
import os
import select
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import guests  # noqa: F401 - what runs in a jail must be imported before it

from kernelgym.errors import SandboxError
from kernelgym.sandbox import attacks, process
from kernelgym.sandbox.jail import JailSpec, Launched, end, launch, reap

held: dict[int, tuple[Launched, int, float]] = {}


def start(request: dict) -> tuple[Launched, int]:
    module, _, name = request["call"].partition(":")
    function = getattr(importlib.import_module(module), name)
    arguments = request.get("args", [])
    if "target" in request:
        arguments = [attacks.Target(**request["target"])]
    read_end, write_end = os.pipe()

    def main() -> None:
        if request.get("pass_fd"):
            arguments.append(write_end)
        data = json.dumps(function(*arguments)).encode()
        while data:
            data = data[os.write(write_end, data) :]

    if request["spec"]["level"] != "none":
        process.hide()
    try:
        return launch(JailSpec(**request["spec"]), main, [write_end]), read_end
    except BaseException:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)


def read_line(fd: int, limit_s: float) -> bytes:
    """What the guest says, to the end of file or of its time."""
    data, deadline = b"", time.monotonic() + limit_s
    while select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
        part = os.read(fd, 1 << 16)
        if not part:
            break
        data += part
    return data


def finish(launched: Launched, fd: int, limit_s: float, grace_s: float) -> dict:
    data = read_line(fd, limit_s)
    started = time.monotonic()
    ended = end(launched, grace_s=grace_s)
    end_ms = (time.monotonic() - started) * 1e3
    reap()
    held_open = bool(select.select([fd], [], [], 0.2)[0]) is False  # nobody closed the other end
    os.close(fd)
    answer = None
    with contextlib.suppress(ValueError):
        answer = json.loads(data)
    return {
        "answer": answer,
        "status": ended.status,
        "oom_killed": ended.oom_killed,
        "peak_bytes": ended.peak_bytes,
        "survivors": ended.survivors,
        "descriptor_held": held_open,
        "level": launched.level,
        "missing": launched.missing,
        "ready_ms": launched.ready_ms,
        "end_ms": end_ms,
        "keeper": launched.pid,
    }


def handle(request: dict) -> dict:
    if "end" in request:
        launched, fd, limit_s = held.pop(request["end"])
        return finish(launched, fd, limit_s, request.get("grace_s", 0.0))
    launched, fd = start(request)
    if request.get("hold"):
        held[launched.pid] = (launched, fd, request.get("limit_s", 0.0))
        return {"held": launched.pid, "missing": launched.missing}
    return finish(launched, fd, request.get("limit_s", 20.0), request.get("grace_s", 0.0))


def serve() -> None:
    # The jail takes descriptors 0 to 2 away from guests only; ours go where no guest inherits them.
    for line in sys.stdin:
        try:
            answer = handle(json.loads(line))
        except SandboxError as error:
            answer = {"error": str(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
