"""The judge's process: opens one task, evaluates candidates on it, one after the other.

    host: open -> opened {error?}     host: evaluate -> result ...     host closes the link: leave

Runs single-threaded in a jail of its own, forks nothing (the host spawns what it asks for) and
never imports the candidate's side. A fault of the reference is an answer; a fault of its own is
told to the host, which then drops it.
"""

from __future__ import annotations

import os
import socket
import tempfile
import traceback
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

from kernelgym.errors import KernelGymError, TaskError, TransportError
from kernelgym.judge import provenance, repeat, verdict
from kernelgym.judge.excerpts import cut
from kernelgym.judge.gate import WAIT_LIMIT_S, Gate
from kernelgym.judge.link import JudgeLink, Message
from kernelgym.judge.prepare import PreparedTask
from kernelgym.judge.probes import PROBES, Probe
from kernelgym.judge.stopwatch import Stopwatch
from kernelgym.judge.study import Study
from kernelgym.sandbox import pinning
from kernelgym.schema import Submission, Task

SURELY_FITS_BYTES = 1 << 30
"""Below this a GPU is not asked how much it has left: it may answer late."""
_ANSWERS = {"open": "opened", "evaluate": "result"}


class Judge:
    """Answers the host's requests."""

    def __init__(
        self, link: JudgeLink, gate: Gate | None = None, probes: Sequence[Probe] = PROBES
    ) -> None:
        """``gate``: of the GPU, where there is one. ``probes``: whatever the caller hands over."""
        self._probes = tuple(probes)
        self._link = link
        self._gate = gate or Gate(None)
        self._task: PreparedTask | None = None

    def serve(self) -> None:
        """Answer until the host is gone."""
        self._link.send("ready")
        while True:
            request = self._link.receive()
            try:
                kind, fields = self._answer(request)
            except TransportError:
                raise
            except TaskError as error:
                kind, fields = _ANSWERS[request["type"]], {"error": _task_error(error)}
            except KernelGymError as error:
                kind, fields = "fault", {"code": "sandbox_failed", "message": str(error)}
            except BaseException as error:  # noqa: BLE001 - a bug here must not look like a dead judge
                kind, fields = "fault", _own_fault(error)
            self._link.send(kind, **fields)

    def _answer(self, request: Message) -> tuple[str, dict[str, Any]]:
        kind = request["type"]
        fields = self._open(request) if kind == "open" else self._evaluate(request)
        return _ANSWERS[kind], fields

    def _open(self, request: Message) -> dict[str, Any]:
        watch = Stopwatch("open")
        on_gpu = request["device"] != "cpu"
        known = request.get("study")
        if on_gpu:
            from kernelgym.judge.deck import deck

            deck()  # a context takes a tenth of a second: not while others wait for the gate
            self._link.stage("gate", WAIT_LIMIT_S)
            watch.enter("gate")
        with self._gate.held():
            announce = partial(self._link.stage, "reference open", request["limit_s"])
            watch.enter("open")
            announce()
            self._task = PreparedTask(
                Task.model_validate(request["task"]),
                request["precision"],
                device=request["device"],
                limit_s=request["limit_s"],
                memory_bytes=self._gpu_bytes() if on_gpu else request["memory_bytes"],
                announce=announce,
                study=None if known is None else Study.load(known),
            )
        return {"stage_seconds": watch.read(), "study": self._task.study.dump()}

    def _gpu_bytes(self) -> int:
        """What a task may take of the device: half of what is free."""
        from kernelgym.judge.deck import deck

        return deck().free_bytes() // 2

    def _evaluate(self, request: Message) -> dict[str, Any]:
        assert self._task is not None
        watch = Stopwatch("start")
        submission = Submission.model_validate(request["submission"])
        if self._task.device == "cpu":
            self._task.student.check_fit(submission.memory_mb << 20)
        elif self._task.student.need_bytes() > SURELY_FITS_BYTES:
            self._task.student.check_fit(self._gpu_bytes())
        self._task.switches |= pinning.restore()
        self._gate.begin()
        held_s, shared_s = self._gate.held_s, self._gate.shared_s
        dossier, modes = repeat.evaluate(
            self._task, submission, self._link, watch, self._gate, self._probes
        )
        watch.enter("verdict")
        ruling = verdict.rule(dossier, submission, self._task.study, modes)
        record = provenance.provenance(submission, self._task, dossier, ruling)
        if self._task.device != "cpu":
            held = {
                "gate_held_seconds": round(self._gate.held_s - held_s, 6),
                "gate_shared_seconds": round(self._gate.shared_s - shared_s, 6),
            }
            record = record.model_copy(update=held)
        result = verdict.result(submission, dossier, ruling, record)
        return {"result": result.model_dump(mode="json"), "stage_seconds": watch.read()}


def _task_error(error: TaskError) -> dict[str, str]:
    return {"code": error.code, "message": str(error), "traceback": error.traceback}


def _own_fault(error: BaseException) -> dict[str, str]:
    text = "".join(traceback.format_exception(error))
    return {
        "code": "judge_error",
        "message": cut(f"{type(error).__name__}: {error}", 2_000),
        "traceback": cut(text, 8_000),
    }


def main(link_fd: int, gate_fd: int | None = None) -> None:
    """Serve the host over ``link_fd``; never returns. ``gate_fd``: the lock of the GPU."""
    warnings.simplefilter("ignore")
    pinning.restore()
    tempfile.tempdir = None  # the zygote's own is not there in the jail
    try:
        Judge(JudgeLink(socket.socket(fileno=link_fd)), Gate(gate_fd)).serve()
    except TransportError:
        os._exit(0)
    os._exit(1)
