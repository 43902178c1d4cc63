"""The compile stage without a GPU: the launches seen in the interpreter, compiled for real.

A process of its own, jailed like the candidate, does it while trials go on. What it says is a
claim: a refusal by Triton makes the outcome `compile_error`, registers and spills are reported as
claimed. A source that cannot even be imported there leaves a finding, not a verdict: the
candidate's own process could.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelgym.judge.classify import refused_kernel
from kernelgym.judge.dossier import Dossier, Stop
from kernelgym.judge.peer import Peer, PeerError, PeerFailed, PeerGarbled, PeerGone, parse
from kernelgym.sandbox.frames import Kind
from kernelgym.sandbox.messages import Claims, Compile, Compiled, LaunchSignature
from kernelgym.schema import Finding, KernelRecord, Submission

_LOAD_LIMIT_S = 30.0


class CrossCompiler:
    """Asks a compiler process, reads its answers late."""

    def __init__(self, submission: Submission, peer: Callable[[], Peer]) -> None:
        """``peer`` waits for the process, which was asked for earlier."""
        self._submission = submission
        self._get_peer = peer
        self._peer: Peer | None = None
        self._load = 0
        self._pending: list[int] = []
        self._seen: set[str] = set()

    @property
    def peer(self) -> Peer:
        """The process; LOAD goes out on first use."""
        if self._peer is None:
            self._peer = self._get_peer()
            source = self._submission.source.encode()
            self._load = self._peer.send("compile", Kind.LOAD, source)
        return self._peer

    def submit(self, launches: Sequence[LaunchSignature]) -> None:
        """Have launches compiled that have not been asked for yet. Does not wait."""
        fresh = []
        for launch in launches:
            key = launch.model_dump_json()
            if key not in self._seen:
                self._seen.add(key)
                fresh.append(launch)
        if fresh and self._submission.targets:
            body = Compile(launches=tuple(fresh), targets=self._submission.targets)
            self._pending.append(self.peer.send("compile", Kind.COMPILE, body))

    def finish(self, dossier: Dossier, *, limit_s: float) -> Stop | None:
        """Wait for every answer; a refused kernel settles the outcome."""
        if not self._pending:
            return None
        if not self._is_loaded(dossier):
            return None
        for sequence in self._pending:
            try:
                frame = self.peer.answer("compile", Kind.COMPILE, sequence, limit_s=limit_s)
            except PeerFailed as error:  # it answers for each kernel, so this failure is our own
                dossier.findings.append(_not_checked(error))
                continue
            for entry in parse(Claims, frame, "compile").compiled:
                stop = self._take(entry, dossier)
                if stop is not None:
                    return stop
        self._pending.clear()
        return None

    def _is_loaded(self, dossier: Dossier) -> bool:
        try:
            self.peer.answer("compile", Kind.LOAD, self._load, limit_s=_LOAD_LIMIT_S)
        except (PeerFailed, PeerGone) as error:
            dossier.findings.append(_not_checked(error))
            return False
        return True

    def _take(self, entry: dict[str, object], dossier: Dossier) -> Stop | None:
        try:
            compiled = Compiled.model_validate(entry)
        except ValueError as error:
            raise PeerGarbled("compile", "a malformed compile report") from error
        if compiled.kind == "error":
            return refused_kernel(compiled)
        if compiled.kind == "skipped":
            note = f"kernel {compiled.kernel} was not compiled for sm_{compiled.target}: "
            dossier.notes.append((note + compiled.message)[:500])
        else:
            dossier.compiled.append(_record(compiled))
        return None


def _record(compiled: Compiled) -> KernelRecord:
    warps = compiled.num_warps
    return KernelRecord(
        name=compiled.kernel,
        own=True,
        block=None if warps is None else (32 * warps, 1, 1),
        registers=compiled.registers,
        shared_bytes=compiled.shared_bytes,
        spill_bytes=compiled.spill_bytes,
        target=f"sm_{compiled.target}",
    )


def _not_checked(error: PeerError) -> Finding:
    return Finding(
        id="compile_not_checked",
        severity="warning",
        message=f"no kernel could be compiled for a GPU: {error}"[:500],
        evidence="claimed",
    )
