"""Sends evidence into the pipe, and keeps notes and launch signatures for the final report.

Each record is one `os.write`, so it is with the judge the moment it is written. A pipe that the
candidate has closed or broken is not our problem: missing evidence speaks for itself.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from types import CodeType

from kernelgym.sandbox.evidence import Event, Record
from kernelgym.sandbox.messages import LaunchSignature
from kernelgym.trace.ownership import OwnCode

MAX_NOTES = 100
MAX_SIGNATURES = 500


class Recorder:
    """What the candidate's process knows about itself."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.own = OwnCode()
        self.call = 0
        """Sequence number of the request that is being answered."""
        self.notes: list[str] = []
        self.signatures: dict[str, LaunchSignature] = {}
        self.listeners: list[Callable[[bool], None]] = []
        """Told just before each launch whether the kernel is the candidate's own."""
        self.compiled_listeners: list[Callable[[object], None]] = []
        """Told after each launch of an own kernel which compiled kernel it was."""
        self.launched = 0
        """Launches so far."""
        self.kernel_ns: dict[tuple[str, bool], tuple[int, int]] = {}
        """Launches and time of kernels, by name and whether they are own (CPU backends only)."""
        self.aside_ns = 0
        """Time that recording has taken inside calls (CPU backends only): it is not theirs."""
        self.watching = False
        """Look at what own kernels do to their tensors (`kernelgym.trace.ablation`)."""
        self.inputs: tuple[tuple[int, int], ...] = ()
        """Addresses, first and one past the last, of the inputs of the call that is running."""
        self.by_symbol = False
        """Call own kernels what a device calls them, by the function's attribute; else what the
        source calls them, which nobody can change."""
        self._suppressed: frozenset[str] = frozenset()
        self.in_interpreter = 0
        """Above 0 while the harness works on tensors: its operations are not the candidate's."""
        self.stage = ""
        """``launch`` while a kernel on the CPU is started, ``body`` while it runs."""
        self.in_order = False
        """Triton's interpreter runs the programs of this launch by number (`programs`)."""
        self._in_body = False
        self._body_computes = False
        self._python: set[int] = set()
        """Own code objects, by id, in whose body torch has computed: theirs is Python for good."""

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the operators that run meanwhile out of the census."""
        self.in_interpreter += 1
        try:
            yield
        finally:
            self.in_interpreter -= 1

    @contextlib.contextmanager
    def interpreting(self, function: object) -> Iterator[None]:
        """Around a launch on the CPU; `enter_body` says when the kernel itself starts.

        No kernel can call torch. One in whose body torch has computed is Python, and on a GPU
        another kernel than the one that gave the answer here: it has not run, and will not have
        where nobody counts operators.
        """
        outer = self.stage, self._in_body, self._body_computes
        self.stage, self._body_computes = "launch", False
        try:
            yield
        finally:
            computes = self._body_computes
            self.stage, self._in_body, self._body_computes = outer
            self._body_computes |= computes and self._in_body  # a launch inside another's body
        code = getattr(function, "__code__", None)
        if computes and self.own.has(code):
            self._python.add(id(code))
            name = self._name(function)
            self.note(f"torch computes inside the kernel {name}: it counts as not run", name)
        if id(code) in self._python:
            self.observed(Event.FAILED, function)

    def enter_body(self) -> None:
        """The grid is known; what comes now is the kernel."""
        self.stage = self.stage and "body"
        self._in_body = self.stage == "body"

    def computes(self) -> None:
        """Torch is about to compute something."""
        self._body_computes = self._body_computes or self._in_body

    def emit(self, record: Record) -> None:
        """Write one record."""
        with contextlib.suppress(OSError):
            os.write(self._fd, record.pack())

    def note(self, text: str, name: str) -> None:
        """Say once that something was changed for the run; ``name`` goes into the pipe."""
        if text not in self.notes and len(self.notes) < MAX_NOTES:
            self.notes.append(text)
            self.emit(Record(Event.NOTE, self.call, name))

    def suppress(self, digests: tuple[str, ...]) -> None:
        """Make own kernels no-ops from now on: by digest in hex, ``*`` for all."""
        self._suppressed = frozenset(digests)

    def launch(self, function: object, grid: tuple[int, ...], num_warps: int) -> bool:
        """Record that a kernel starts now; ``function`` is the Python function it was made from.

        False when it must not run. It is recorded all the same.
        """
        code = getattr(function, "__code__", None)
        if code is None:
            return True
        self.launched += 1
        padded = (*grid, 1, 1, 1)[:3]
        self.emit(
            Record(
                Event.LAUNCH,
                self.call,
                self._name(function),
                own=self.own.has(code),
                grid=(_int32(padded[0]), _int32(padded[1]), _int32(padded[2])),
                num_warps=num_warps,
                digest=self.own.digest(code),
            )
        )
        for listener in self.listeners:
            listener(self.own.has(code))
        return not (self._suppressed and self.own.has(code) and self._is_suppressed(code))

    def _name(self, function: object) -> str:
        code = getattr(function, "__code__", None)
        if isinstance(code, CodeType) and self.own.has(code) and not self.by_symbol:
            return code.co_name
        return str(getattr(function, "__name__", "?"))

    def ran(self, function: object, spent_ns: int) -> None:
        """A kernel that runs on this CPU has returned after so long."""
        code = getattr(function, "__code__", None)
        key = self._name(function), self.own.has(code) and id(code) not in self._python
        launches, before = self.kernel_ns.get(key, (0, 0))
        self.kernel_ns[key] = launches + 1, before + spent_ns

    def _is_suppressed(self, code: CodeType) -> bool:
        return "*" in self._suppressed or self.own.digest(code).hex() in self._suppressed

    def observed(self, event: Event, function: object) -> None:
        """Record what a launch has shown: that it failed, or what it did to its tensors."""
        code = getattr(function, "__code__", None)
        if code is not None and self.own.has(code):
            name = self._name(function)
            digest = self.own.digest(code)
            self.emit(Record(event, self.call, name, own=True, digest=digest))

    def compiled(self, function: object, kernel: object) -> None:
        """A launch has used this compiled kernel of ``function``."""
        if self.own.has(getattr(function, "__code__", None)):
            for listener in self.compiled_listeners:
                listener(kernel)

    def operators(self, counts: Mapping[str, int]) -> None:
        """Record how often each ATen operator ran in the call that just ended."""
        for name, count in counts.items():
            self.emit(Record(Event.OPERATOR, self.call, name, count=count))

    def keep_signature(self, signature: LaunchSignature) -> None:
        """Remember how a kernel was launched, once for each distinct way."""
        if len(self.signatures) < MAX_SIGNATURES:
            self.signatures.setdefault(signature.model_dump_json(), signature)


def _int32(value: int) -> int:
    return max(-(1 << 31), min((1 << 31) - 1, int(value)))
