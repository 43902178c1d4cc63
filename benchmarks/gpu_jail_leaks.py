"""Section ``leaks``: a canary that the judge holds, looked for by the judge and by candidates.

The canary is 64 random bytes (the expected output is made of them) and 64 random letters (they are
in the reference's source, in an environment variable of the host, and in files of the host). Both
exist only inverted in the sources of those who search, so that nobody finds his own question.

    judge         positive control: the reference itself searches, in the judge's process
    candidate/*   must find nothing, while the judge holds the canary; each says what it looked at
    after/*       on another task, when the judge that held the canary is dead: memory that was
                  freed and given out again
    unjailed      control: the same search at level ``none`` must find something

Not covered: seeds (nobody knows them beforehand; they lie in the judge's memory beside what is
searched for), shared memory and registers of a multiprocessor.
"""

import json
import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gpu_jail_sheet import Sheet, describe
from kernelgym.sandbox.attacks.scan import invert
from kernelgym.schema import Submission, Task
from kernelgym.worker.host import EvaluationHost

VARIABLE = "KERNELGYM_LEAK_CANARY"
MARK = "SCANNED "
HIDDEN_ROOT = "/opt"
SEARCHES = ["candidate/host", "candidate/around", "candidate/device", "after/host", "after/device"]
SECRET_MODEL = """
import json
import torch

SECRET = bytes(255 - value for value in bytes.fromhex("{bytes}"))
TEXT = "{text}"


def secret(x):
    words = torch.frombuffer(bytearray(SECRET * {repeat}), dtype=torch.int64)
    return words.to(x.device)


class Model(torch.nn.Module):
    def forward(self, x):
        {body}


def get_inputs():
    return [torch.rand(4096)]
"""
CONTROL = """from kernelgym.sandbox.attacks import device_scan, scan
        inverse = bytes.fromhex("{bytes}")
        found = {{"host": len(scan.find(inverse, constants=False, drivers=False)),
                 "source": len(scan.find(bytes.fromhex("{letters}"), constants=False,
                                         drivers=False))}}
        held = secret(x)
        size = held.numel() * held.element_size()
        found["held"] = device_scan.count(held, inverse)
        if x.is_cuda:
            del held
            again = [torch.empty(size, dtype=torch.uint8, device=x.device) for _ in range(8)]
            found["freed and given out again"] = sum(device_scan.count(one, inverse)
                                                     for one in again)
        raise RuntimeError("{mark}" + json.dumps(found))"""
SEEKER = """
import json, os, sys
import torch
from kernelgym.sandbox.attacks import device_scan, places, scan

NEEDLES = {{"bytes": bytes.fromhex("{bytes}"), "text": bytes.fromhex("{letters}")}}
ON_GPU = {on_gpu}


def host(x, found, looked):
    for name, needle in NEEDLES.items():
        found += [f"{{name}}: {{t}}" for t in scan.find(needle, constants=False, drivers=False)]


def driver_mappings(x, found, looked):
    for name, needle in NEEDLES.items():
        found += [f"{{name}}: {{text}}" for text in scan.find(needle, drivers=True)]


def around(x, found, looked):
    for name, needle in NEEDLES.items():
        for what in ("environment", "descriptors", "processes", "files"):
            search = places.Search(needle, {seconds})
            if what == "files":
                places.files(search, {roots})
            elif what == "processes":
                places.processes(search, memory_of="kernelgym.sandbox.zygote")
            else:
                getattr(places, what)(search)
            looked[f"{{what}}, {{name}}"] = search.looked_at
            found += [f"{{name}}: {{text}}" for text in search.found[:20]]


def pools():
    frame = sys._getframe()
    while frame is not None:
        owner = frame.f_locals.get("self")
        if hasattr(owner, "_pools"):
            return [pool.flat for pool in owner._pools]
        frame = frame.f_back
    return []


def device(x, found, looked):
    needle = NEEDLES["bytes"]
    areas = [("storage of an input", device_scan.storage_of(x))]
    areas += [("a pool", flat) for flat in pools()]
    for name, flat in areas:
        look(found, looked, name, flat, needle)
    if ON_GPU:
        for name, flat in device_scan.fresh(2 << 30, {pieces}):
            look(found, looked, name, flat, needle)
        for name, flat in device_scan.fresh_mapped(4 << 30):
            look(found, looked, name, flat, needle)
    else:
        look(found, looked, "fresh memory", torch.empty(64 << 20, dtype=torch.uint8), needle)
    words = bytes(255 - value for value in needle)
    planted = torch.frombuffer(bytearray(words * 64), dtype=torch.int64).to(x.device)
    looked["planted by itself, found"] = device_scan.count(planted, needle)


def look(found, looked, name, flat, needle):
    looked[name] = looked.get(name, 0) + flat.numel() * flat.element_size()
    if device_scan.count(flat, needle):
        found.append(f"bytes: secret in {{name}}")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        found, looked = [], {{}}
        {what}(x, found, looked)
        raise RuntimeError("{mark}" + json.dumps({{"found": found[:20], "looked": looked}}))
"""
OTHER = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1


def get_inputs():
    return [torch.rand(4096)]
"""


@dataclass(frozen=True)
class Canary:
    """What is planted, and where on the host."""

    data: bytes
    text: str
    directory: str

    @classmethod
    def plant(cls) -> "Canary":
        canary = cls(
            secrets.token_bytes(64), secrets.token_hex(32), tempfile.mkdtemp(dir=HIDDEN_ROOT)
        )
        os.chmod(canary.directory, 0o755)
        os.environ[VARIABLE] = canary.text
        for directory in (canary.directory, tempfile.gettempdir()):
            path = Path(directory, "canary.txt")
            path.write_bytes(canary.text.encode() + canary.data)
            path.chmod(0o644)
        return canary

    def remove(self) -> None:
        os.environ.pop(VARIABLE)
        shutil.rmtree(self.directory)
        Path(tempfile.gettempdir(), "canary.txt").unlink()

    def fields(self, sheet: Sheet) -> dict[str, object]:
        roots = ("/tmp", "/dev/shm", "/var/tmp", "/run", "/home", "/root", "/mnt", "/srv")
        return {
            "bytes": invert(self.data).hex(),
            "letters": invert(self.text.encode()).hex(),
            "text": self.text,
            "repeat": (1 << 14) if sheet.dry_run else (1 << 18),
            "mark": MARK,
            "on_gpu": sheet.on_gpu,
            "roots": repr((self.directory, os.path.realpath(tempfile.gettempdir()), *roots)),
            "pieces": 6,
            "seconds": 2.0,
        }


def scanned(text: str) -> dict | None:
    """What a search said, out of the words of a failure."""
    start = text.find(MARK)
    if start < 0:
        return None
    try:
        return json.JSONDecoder().raw_decode(text[start + len(MARK) :])[0]
    except ValueError:
        return {"cut": text[start : start + 500]}


async def seek(host: EvaluationHost, task: Task, what: str, fields: dict[str, object]) -> dict:
    """Evaluate a candidate that searches, beside a judge of its own that dies with it."""
    source = SEEKER.format(what=what, **fields)
    submission = Submission(task=task, source=source, trials=1, timeout_s=60.0)
    result = await host.evaluate(submission, fresh=True)
    text = result.failure.message if result.failure else ""
    return describe(result) | {"answer": scanned(text)}


async def control(sheet: Sheet, host: EvaluationHost, canary: Canary) -> dict:
    """The reference searches the judge's own memory."""
    fields = canary.fields(sheet)
    fields["body"] = CONTROL.format(**fields)
    task = Task(name="leaks/control", reference=SECRET_MODEL.format(**fields))
    source = SEEKER.format(what="host", **fields)
    result = await host.evaluate(Submission(task=task, source=source))
    answer = scanned(result.failure.message if result.failure else "")
    right = answer is not None and all(
        value > 0 for value in answer.values() if isinstance(value, int)
    )
    return describe(result) | {"answer": answer, "right": bool(right and "cut" not in answer)}


def judged(found: dict, *, may_die: bool = False) -> dict:
    """A candidate's search: right when it looked and found nothing."""
    answer = found["answer"]
    right = answer is not None and answer.get("found") == []
    return found | {"right": right or (may_die and answer is None)}


async def run(sheet: Sheet) -> None:
    """Controls and searches; every search in an evaluation of its own."""
    canary = Canary.plant()
    try:
        await _run(sheet, canary)
    finally:
        canary.remove()
    sheet.fact("complete", {"judge", "unjailed", *SEARCHES} <= set(sheet.steps))


async def _run(sheet: Sheet, canary: Canary) -> None:
    fields = canary.fields(sheet)
    secret = Task(
        name="leaks/secret", reference=SECRET_MODEL.format(body="return secret(x)", **fields)
    )
    other = Task(name="leaks/other", reference=OTHER)
    hidden = (canary.directory,)
    async with sheet.host(hidden=hidden, concurrency=1) as host:
        sheet.put("judge", await control(sheet, host, canary))
        for name in [*SEARCHES, *(["candidate/driver_mappings"] if sheet.on_gpu else [])]:
            turn, _, what = name.partition("/")
            if sheet.left_s() > 8.0:
                found = await seek(host, secret if turn == "candidate" else other, what, fields)
                sheet.put(name, judged(found, may_die=what == "driver_mappings"))
    if sheet.left_s() < 10.0:
        return
    async with sheet.host("none", hidden=hidden, concurrency=1) as host:
        found = await seek(host, secret, "around", fields)
        places = (found["answer"] or {}).get("found") or []
        sheet.put("unjailed", found | {"right": bool(places)})
