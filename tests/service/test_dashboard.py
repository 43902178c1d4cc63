"""The status page: what it shows, that hostile text stays text, and how Chromium renders it."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from gym_under_test import ServerProcess, start_broker

from kernelgym.broker.embedded import EmbeddedBroker
from kernelgym.schema import (
    EvalResult,
    Failure,
    Finding,
    KernelRecord,
    Outcome,
    Profile,
    Provenance,
    Submission,
    Task,
    Timing,
    Trial,
)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SCREENSHOT_BYTES = 10_000
HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>"
SOURCE = f"""import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + offsets, offsets < n, -float("inf"))
    top = tl.max(values, 0)
    weights = tl.exp(values - top)
    tl.store(y + row * n + offsets, weights / tl.sum(weights, 0), offsets < n)


# {HOSTILE}
"""


def submission(name: str, source: str) -> Submission:
    return Submission(task=Task(name=name, reference="class Model: ..."), source=source)


def samples(middle: float) -> tuple[float, ...]:
    return tuple(middle * (1 + 0.002 * ((n * 37) % 23 - 11)) for n in range(100))


def correct(task: str) -> EvalResult:
    kernel = KernelRecord(name="softmax_kernel", own=True, calls=1, time_us=11.4, share=0.92)
    copy = KernelRecord(name="memcpy", own=False, calls=1, time_us=1.0, share=0.08)
    timing = Timing(
        mode="eval",
        reference_ms=0.0231,
        kernel_ms=0.0124,
        speedup=1.86,
        speedup_low=1.84,
        speedup_high=1.88,
        pairs=100,
        reference_samples_ms=samples(0.0231),
        kernel_samples_ms=samples(0.0124),
    )
    return EvalResult(
        task=task,
        outcome=Outcome.CORRECT,
        correct=True,
        speedup=1.86,
        speedup_interval=(1.84, 1.88),
        reference_ms=0.0231,
        kernel_ms=0.0124,
        coverage=0.92,
        trials=tuple(
            Trial(index=n, mode="eval", passed=True, max_abs_error=3e-7, worst_ratio=3e-5)
            for n in range(5)
        ),
        timings=(timing,),
        profile=Profile(kernels=(kernel, copy), total_us=12.4, generated_us=11.4),
        provenance=Provenance(device="NVIDIA H200", jail="L1"),
    )


def hack(task: str) -> EvalResult:
    finding = Finding(
        id="no_own_kernel", severity="hack", message=HOSTILE, evidence="inside", line=5
    )
    failure = Failure(stage="hacks", code="no_own_kernel", message=HOSTILE, traceback=HOSTILE)
    return EvalResult(
        task=task,
        outcome=Outcome.HACK,
        correct=False,
        findings=(finding,),
        failure=failure,
        provenance=Provenance(device="NVIDIA H200", jail="L1"),
    )


class Shown:
    """A gym with a worker made of HTTP calls, so that every verdict can be staged."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.http = server.http()
        token = {"Authorization": f"Bearer {server.token('worker')}"}
        self.worker = server.http(headers=token)

    def work(self, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = self.worker.post(f"/v1/workers/node7:4242/{verb}", json=body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def stage(self, name: str, source: str, result: EvalResult | None) -> str:
        body = {"submission": json.loads(submission(name, source).model_dump_json())}
        [evaluation] = self.http.post("/v1/evaluations", json=body).json()["ids"]
        if result is not None:
            [task] = self.work("claim", {"request": evaluation, "classes": ["any"]})["tasks"]
            item = {"id": task["id"], "token": task["token"], "kind": "verdict"}
            item["result"] = json.loads(result.model_dump_json())
            self.work("complete", {"items": [item]})
        return str(evaluation)

    def show_workers(self) -> None:
        devices = [
            {"name": "cuda:0", "model": "NVIDIA H200", "state": "ready", "held": 4, "done": 812},
            {"name": "cuda:1", "model": "NVIDIA H200", "state": "quarantined", "note": HOSTILE},
        ]
        self.work("heartbeat", {"info": {"host": "node7", "jail": "L1", "devices": devices}})

    def page(self, path: str) -> str:
        answer = self.http.get(path)
        assert answer.status_code == 200
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        return answer.text


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Any:
    broker: EmbeddedBroker = start_broker(tmp_path_factory.mktemp("page-broker"))
    server = ServerProcess(tmp_path_factory.mktemp("page-server"), broker.url, lease_s=60.0)
    server.start()
    it = Shown(server)
    it.show_workers()
    yield it
    it.http.close()
    it.worker.close()
    server.stop()
    broker.stop()


@pytest.fixture(scope="module")
def evaluations(shown: Shown) -> dict[str, str]:
    staged = {
        "hack": shown.stage("level1/23", SOURCE, hack("level1/23")),
        "correct": shown.stage("level1/23 softmax", SOURCE + "# 2\n", correct("softmax")),
    }
    staged["waiting"] = shown.stage(HOSTILE, SOURCE + "# 3\n", None)
    return staged


def test_index_shows_queue_workers_and_results(shown: Shown, evaluations: dict[str, str]) -> None:
    text = shown.page("/ui")
    for word in ("node7:4242", "cuda:1", "quarantined", "NVIDIA H200", "812"):
        assert word in text
    assert evaluations["correct"][:12] in text
    assert "hack</span>" in text
    assert re.search(r"<b>1</b>\s*queued", text)


def test_result_shows_all_there_is(shown: Shown, evaluations: dict[str, str]) -> None:
    text = shown.page(f"/ui/evaluations/{evaluations['correct']}")
    for word in ("1.86x", "[1.84, 1.88]", "92%", "softmax_kernel", "eval: candidate", "--force"):
        assert word in text
    assert text.count("<svg") == 2
    flagged = shown.page(f"/ui/evaluations/{evaluations['hack']}")
    assert 'class="line flagged"><i>5</i>@triton.jit' in flagged


def test_hostile_text_stays_text(shown: Shown, evaluations: dict[str, str]) -> None:
    for path in ("/ui", *(f"/ui/evaluations/{one}" for one in evaluations.values())):
        text = shown.page(path)
        assert "<script" not in text
        assert "<img" not in text


def test_files_can_be_taken_away(shown: Shown, evaluations: dict[str, str]) -> None:
    answer = shown.http.get(f"/ui/evaluations/{evaluations['hack']}/candidate.py")
    assert answer.text == SOURCE
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["content-type"].startswith("text/plain")
    other = shown.http.get(f"/ui/evaluations/{evaluations['hack']}/secrets.py")
    assert other.status_code == 404


def chromium(url: str, *options: str) -> str:
    """Chromium without a display, a profile or a sandbox of its own (we are root here)."""
    assert CHROMIUM is not None
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--incognito")
    flags += ("--disable-dev-shm-usage", "--hide-scrollbars", "--window-size=1240,1500")
    done = subprocess.run(
        [CHROMIUM, *flags, *options, url], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: make system")
def test_in_chromium(shown: Shown, evaluations: dict[str, str], tmp_path: Path) -> None:
    address = f"{shown.server.url}/ui/evaluations/{evaluations['hack']}"
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    dom = chromium(address, profile, "--dump-dom")
    assert "<title>level1/23 - KernelGYM</title>" in dom, "no script of the candidate ran"
    for name in ("ui", f"ui/evaluations/{evaluations['correct']}"):
        picture = tmp_path / f"{name.replace('/', '-')}.png"
        chromium(f"{shown.server.url}/{name}", profile, f"--screenshot={picture}")
        content = picture.read_bytes()
        assert content[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", content[16:24]) == (1240, 1500)
        assert len(content) > SCREENSHOT_BYTES, "an empty page compresses to less"
