"""What went wrong with a candidate's process, as an outcome with words.

============================================  ===============  =====================================
seen                                          outcome          code
============================================  ===============  =====================================
LOAD raised: syntax error                     compile_error    syntax_error
LOAD raised: anything else                    compile_error    import_error, load_error
the entry point does not exist                compile_error    missing_entry_point
Triton refused a kernel                       compile_error    kernel_compile_error
BUILD or CALL raised                          runtime_error    constructor_error, forward_error
CALL raised what only a GPU can run           runtime_error    needs_gpu
an exception about memory; the memory limit   out_of_memory    exception_out_of_memory, memory_limit
no answer in time                             timeout          deadline
it left: SystemExit, exit, os._exit           crash            early_exit
it died of a signal                           crash            signal
bytes that are no frame                       crash            channel_violation
a valid frame nobody asked for                hack             forged_frame
============================================  ===============  =====================================

Everything until the module is there counts as compilation, as in KernelBench: the candidate never
became something that could be run. Stray bytes may be an accident (a print to the wrong descriptor,
trampled memory); a frame with our magic, a kind and a number is written by nobody by accident.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

from kernelgym.judge.dossier import Stop
from kernelgym.judge.excerpts import cut, excerpt
from kernelgym.judge.peer import (
    PeerError,
    PeerFailed,
    PeerForged,
    PeerGarbled,
    PeerGone,
    PeerLate,
)
from kernelgym.sandbox.jail_spec import Ended
from kernelgym.sandbox.loader import MODULE
from kernelgym.sandbox.messages import Compiled, Failed
from kernelgym.schema import Failure, Finding, Outcome

_IMPORT_ERRORS = ("ModuleNotFoundError", "ImportError")
_SYNTAX_ERRORS = ("SyntaxError", "IndentationError", "TabError")


@dataclass(frozen=True)
class Context:
    """What a classification needs beside the error itself."""

    source: str
    entry_point: str
    memory_mb: int


def explain(error: PeerError, ended: Ended, context: Context) -> Stop:
    """Outcome and failure for an error of the candidate's process, which has been ended."""
    if isinstance(error, PeerFailed):
        return explain_failed(error.stage, error.failed, context)
    if isinstance(error, PeerForged):
        return _forged(error)
    if ended.oom_killed:
        return _memory_limit(error.stage, context)
    if isinstance(error, PeerLate):
        failure = Failure(
            stage=error.stage,
            code="deadline",
            message=f"stage {error.stage} did not end in time",
        )
        return Stop(Outcome.TIMEOUT, failure)
    if isinstance(error, PeerGarbled):
        failure = Failure(
            stage=error.stage,
            code="channel_violation",
            message=f"the candidate's process sent what is not an answer: {error}",
        )
        return Stop(Outcome.CRASH, failure)
    assert isinstance(error, PeerGone)
    return _gone(error.stage, ended)


def explain_failed(stage: str, failed: Failed, context: Context) -> Stop:
    """Outcome and failure for an exception."""
    outcome, code = _sort_exception(stage, failed, context)
    failure = Failure(
        stage=stage,
        code=code,
        type=failed.type,
        message=_message(code, failed, context),
        traceback=failed.traceback,
        line=failed.line,
        excerpt=excerpt(context.source, failed.line),
    )
    return Stop(outcome, failure)


def refused_kernel(compiled: Compiled) -> Stop:
    """Outcome and failure for a kernel that the real compiler refuses."""
    failure = Failure(
        stage="compile",
        code="kernel_compile_error",
        type=compiled.type,
        message=f"kernel {compiled.kernel} does not compile for sm_{compiled.target}: "
        f"{cut(compiled.message, 4_000)}",
        line=compiled.line,
        excerpt=compiled.excerpt,
    )
    return Stop(Outcome.COMPILE_ERROR, failure)


def _sort_exception(stage: str, failed: Failed, context: Context) -> tuple[Outcome, str]:
    name = failed.type.rpartition(".")[2]
    if name == "SystemExit":
        return Outcome.CRASH, "early_exit"
    if failed.out_of_memory:
        return Outcome.OUT_OF_MEMORY, "exception_out_of_memory"
    if failed.compiling:
        return Outcome.COMPILE_ERROR, "kernel_compile_error"
    if stage == "load":
        if name in _SYNTAX_ERRORS:
            return Outcome.COMPILE_ERROR, "syntax_error"
        code = "import_error" if name in _IMPORT_ERRORS else "load_error"
        return Outcome.COMPILE_ERROR, code
    if stage == "build" and name == "AttributeError" and _names_entry_point(failed, context):
        return Outcome.COMPILE_ERROR, "missing_entry_point"
    if failed.unsupported:
        # Not `infrastructure`: the claim is the candidate's to make, and must not buy a mask.
        return Outcome.RUNTIME_ERROR, "needs_gpu"
    return Outcome.RUNTIME_ERROR, "constructor_error" if stage == "build" else "forward_error"


def _names_entry_point(failed: Failed, context: Context) -> bool:
    return failed.message.startswith(f"module {MODULE!r} has no attribute {context.entry_point!r}")


def _message(code: str, failed: Failed, context: Context) -> str:
    if code == "missing_entry_point":
        return f"the source defines no class {context.entry_point!r}"
    if code == "early_exit":
        return f"the candidate called exit: SystemExit({cut(failed.message, 200)})"
    if code == "needs_gpu":
        return f"cannot be tried without a GPU: {failed.message or failed.type}"
    return failed.message or failed.type


def _forged(error: PeerForged) -> Stop:
    message = f"the candidate's process wrote a frame of its own into the channel: {error}"
    finding = Finding(id="forged_frame", severity="hack", message=message, evidence="outside")
    return Stop(
        Outcome.HACK, Failure(stage=error.stage, code="forged_frame", message=message), finding
    )


def _memory_limit(stage: str, context: Context) -> Stop:
    failure = Failure(
        stage=stage,
        code="memory_limit",
        message=f"the candidate's processes used more than {context.memory_mb:,} MiB",
    )
    return Stop(Outcome.OUT_OF_MEMORY, failure)


def _gone(stage: str, ended: Ended) -> Stop:
    code, message = "killed", "the candidate's process was killed"
    if ended.status is not None and os.WIFEXITED(ended.status):
        code = "early_exit"
        message = f"the candidate's process left with exit status {os.WEXITSTATUS(ended.status)}"
    elif ended.status is not None and os.WIFSIGNALED(ended.status):
        number = os.WTERMSIG(ended.status)
        code = "signal"
        message = f"the candidate's process died of {_signal_name(number)}"
    return Stop(Outcome.CRASH, Failure(stage=stage, code=code, message=f"{message} in {stage}"))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
