"""The compiler process: compiles a candidate's kernels for GPUs that are not there.

    READY, then answers to LOAD (source bytes), COMPILE (`messages.Compile`), until STOP

Jailed like a candidate and as little trusted: it imports the candidate's source, in compiled mode,
because Triton needs the functions. No SETUP and no pools. Each launch and target gets a
`messages.Compiled`: ``ok`` with registers, shared memory and spills; ``error`` when Triton refuses
the kernel, with line and excerpt (this is how a compile error is found without a GPU); ``skipped``
when what we know does not suffice to try, or our own machinery failed. A FAILED answer to LOAD
says only that the report cannot be had.

Not covered: kernels made at run time inside a function (skipped), autotune configurations that the
interpreter did not choose.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from kernelgym.sandbox import failures, redirect, resources, serving
from kernelgym.sandbox.frames import Channel, Frame, Kind
from kernelgym.sandbox.loader import LoadedSource, load
from kernelgym.sandbox.messages import Claims, Compile, Compiled, Failed, LaunchSignature
from kernelgym.sandbox.workspace import Workspace
from kernelgym.trace import signatures, standin
from kernelgym.trace.bodies import python_function
from kernelgym.trace.recorder import Recorder

_DIVISIBLE = [["tt.divisibility", 16]]


class _NotTried(Exception):
    """What is known does not suffice to compile this launch."""


class Compiler:
    """State of the process, one method a request."""

    def __init__(self, recorder: Recorder, workspace: Workspace) -> None:
        self._recorder = recorder
        self._workspace = workspace
        self._loaded: LoadedSource | None = None

    def handlers(self) -> dict[Kind, serving.Handler]:
        """Which method answers which request."""
        return {Kind.LOAD: self.load, Kind.COMPILE: self.compile}

    def describe(self, error: BaseException) -> Failed:
        """An exception in words."""
        return failures.describe(error, self._workspace.source / failures.FILE)

    def load(self, request: Frame) -> tuple[Kind, Claims]:
        """Import the source with Triton in compiled mode."""
        standin.activate()
        redirect.install(self._recorder)
        with redirect.Redirect():
            self._loaded = load(request.body, self._workspace.source, self._recorder.own)
        return Kind.DONE, Claims()

    def compile(self, request: Frame) -> tuple[Kind, Claims]:
        """Compile every launch for every target."""
        body = Compile.model_validate_json(request.body)
        compiled = [self._compile(launch, cc) for launch in body.launches for cc in body.targets]
        return Kind.DONE, Claims(compiled=tuple(entry.model_dump() for entry in compiled))

    def _compile(self, launch: LaunchSignature, target: int) -> Compiled:
        start = time.monotonic()
        try:
            result = self._attempt(launch, target)
        except _NotTried as reason:
            result = _entry("skipped", launch, target, message=str(reason))
        except BaseException as error:  # noqa: BLE001 - sorted into the candidate's errors and ours
            result = self._refused(error, launch, target)
        return result.model_copy(update={"seconds": round(time.monotonic() - start, 4)})

    def _attempt(self, launch: LaunchSignature, target: int) -> Compiled:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.runtime.errors import OutOfResources

        source, options = self._source(launch)
        kernel = triton.compile(source, target=GPUTarget("cuda", target, 32), options=options)
        shared, limit = kernel.metadata.shared, resources.MAX_SHARED_BYTES.get(target)
        if limit is not None and shared > limit:
            raise OutOfResources(shared, limit, "shared memory")
        usage = resources.usage(kernel.asm["cubin"], self._workspace.source)
        return _entry(
            "ok",
            launch,
            target,
            num_warps=kernel.metadata.num_warps,
            shared_bytes=shared,
            registers=usage and usage.registers,
            spill_bytes=usage and usage.spill_bytes,
        )

    def _source(self, launch: LaunchSignature) -> tuple[Any, dict[str, int]]:
        from triton.compiler import ASTSource

        assert self._loaded is not None
        functions = jit_functions(vars(self._loaded.module))
        kernel = _pick(functions, launch)
        if signatures.UNKNOWN in launch.signature.values():
            raise _NotTried("an argument's type is not known")
        names = {name: function for (name, _), function in functions.items()}
        try:
            constants = {
                name: signatures.decode(value, names) for name, value in launch.constants.items()
            }
        except LookupError as error:
            raise _NotTried(f"a constant cannot be rebuilt: {error}") from None
        order = {name: index for index, name in enumerate(launch.signature)}
        aligned = {(order[name],): _DIVISIBLE for name in launch.aligned if name in order}
        source = ASTSource(kernel, dict(launch.signature), constants, aligned)
        return source, dict(launch.options)

    def _refused(self, error: BaseException, launch: LaunchSignature, target: int) -> Compiled:
        failed = self.describe(error)
        if not _is_the_kernels_fault(error):
            text = f"the compiler failed unexpectedly: {failed.type}: {failed.message}"
            return _entry("skipped", launch, target, message=text[:8_000], type=failed.type)
        assert self._loaded is not None
        line = failed.line or launch.line or None
        excerpt = failures.excerpt(self._loaded.text, line) if line else ""
        return _entry(
            "error",
            launch,
            target,
            type=failed.type,
            message=failed.message,
            line=line,
            excerpt=excerpt,
        )


def _entry(kind: Any, launch: LaunchSignature, target: int, **fields: Any) -> Compiled:
    return Compiled(kind=kind, kernel=launch.kernel, target=target, **fields)


_REFUSALS = ("PassManager::run failed", "Unsupported function referenced")
"""What Triton says of kernels in plain exceptions."""


def _is_the_kernels_fault(error: BaseException) -> bool:
    from triton.errors import TritonError

    link: BaseException | None = error
    while link is not None:
        if isinstance(link, TritonError):
            return True
        link = link.__cause__
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _REFUSALS)


def jit_functions(namespace: Mapping[str, Any]) -> dict[tuple[str, int], Any]:
    """Compilable kernels in a module and its classes, by qualified name and first line."""
    from triton.runtime.jit import JITFunction

    found: dict[tuple[str, int], Any] = {}
    pending, seen = list(namespace.values()), set()
    while pending:
        value = pending.pop()
        if isinstance(value, type) and value.__module__ == "candidate" and value not in seen:
            seen.add(value)
            pending.extend(vars(value).values())
        value = value.__func__ if isinstance(value, staticmethod) else value
        while not isinstance(value, JITFunction) and hasattr(value, "fn"):
            value = value.fn
        if isinstance(value, JITFunction):
            function = python_function(value)
            found[function.__qualname__, function.__code__.co_firstlineno] = value
    return found


def _pick(functions: Mapping[tuple[str, int], Any], launch: LaunchSignature) -> Any:
    exact = functions.get((launch.kernel, launch.line))
    if exact is None:
        raise _NotTried("the kernel is not at module level")
    return exact


@contextlib.contextmanager
def _private_evidence() -> Iterator[int]:
    """A descriptor for a recorder whose records nobody reads."""
    fd = os.open(os.devnull, os.O_WRONLY)
    try:
        yield fd
    finally:
        os.close(fd)


def main(channel_fd: int) -> None:
    """Serve the judge over ``channel_fd``."""
    workspace = Workspace()
    workspace.enter()
    sys.dont_write_bytecode = True
    warnings.simplefilter("ignore")
    channel = Channel(socket.socket(fileno=channel_fd))
    with _private_evidence() as fd:
        compiler = Compiler(Recorder(fd), workspace)
        serving.serve(channel, compiler.handlers(), compiler.describe)
    workspace.remove()
    serving.leave()
