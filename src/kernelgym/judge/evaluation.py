"""One candidate on one task, stage by stage; the first stage that settles the outcome ends it.

    start    ask the host for confined processes, wait until their harness is up
    load     the candidate's source is imported, over there
    build    its module is made and given the reference's state
    trials   every mode that the protocol runs; the first launches go to the compiler meanwhile
    compile  without a GPU: what the launches become for real targets
    probes   further calls that tell computing from pretending: after a mode's trials, and again
             at the end, when nothing more is wanted of the process
    measure  timing and profile, where there is a GPU

Whatever happens, both processes are ended and proved dead before there is a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import torch

from kernelgym import backends
from kernelgym.errors import SandboxError
from kernelgym.judge import classify, protocols, switches
from kernelgym.judge.correctness import SLACK_BYTES, Correctness
from kernelgym.judge.crosscompile import CrossCompiler
from kernelgym.judge.dossier import Dossier, Stop
from kernelgym.judge.gate import Gate
from kernelgym.judge.guards import BAND_BYTES
from kernelgym.judge.link import JudgeLink
from kernelgym.judge.measure import measurement_for, slots_for
from kernelgym.judge.peer import Peer, PeerError, PeerFailed, PeerGone, parse
from kernelgym.judge.prepare import PreparedTask, make_pool
from kernelgym.judge.probes import PROBES, BlankedKernels, LastProbe, Probe, ReplayProbe
from kernelgym.judge.stopwatch import Stopwatch
from kernelgym.judge.turns import Turns
from kernelgym.sandbox.frames import Kind
from kernelgym.sandbox.jail_spec import Ended
from kernelgym.sandbox.messages import Build, Claims, LaunchSignature, Setup
from kernelgym.sandbox.pool import Pool
from kernelgym.schema import Mode, Submission

SETUP_LIMIT_S = 20.0
LOAD_LIMIT_S = 60.0
BUILD_LIMIT_S = 60.0
REPORT_LIMIT_S = 10.0
COMPILE_LIMIT_S = 60.0
LEAVE_GRACE_S = 0.5
"""Time for a process whose channel has closed to be seen ending by itself."""
END_LIMIT_S = 90.0
MIN_POOL_BYTES = 1 << 20


class Evaluation:
    """Runs the stages and fills a `Dossier`."""

    def __init__(
        self,
        task: PreparedTask,
        submission: Submission,
        link: JudgeLink,
        watch: Stopwatch,
        gate: Gate | None = None,
        probes: Sequence[Probe] = PROBES,
    ) -> None:
        """``gate``: of the GPU; None without one."""
        self.probes = tuple(probes)
        self._settle = torch.cuda.synchronize if task.device != "cpu" else None
        gate = None if task.device == "cpu" else gate
        self.turns = Turns(gate, self._announce, self._settle or (lambda: None))
        self.task = task
        self.submission = submission
        self.link = link
        self.watch = watch
        names = tuple(probe.name for probe in self.probes)
        self.dossier = Dossier(probes=names, on_gpu=task.device != "cpu")
        self.modes = protocols.modes_of(
            submission.protocol, random_in_train=task.study.random_in_train
        )
        self.backend = backends.get(submission.backend)
        cpu_kernels = self.backend.times_on_cpu
        self.measurement = measurement_for(task, submission, cpu_kernels=cpu_kernels)
        self._interpret = task.device == "cpu"
        self._peers: list[Peer] = []
        self._pools: list[Pool] = []
        self._build_request: Build
        self._tickets: dict[str, int] = {}
        self._measured = False
        self._in_probes = False

    def run(self) -> Dossier:
        """Go through the stages; faults of the reference or the gym pass through as exceptions."""
        try:
            self._announce("reference baseline")
            self.measurement.ready(self.task)
            self._look_at_reference(self.measurement.before)
            self._run()
            self._ask_blanked()
        except PeerError as error:
            self.dossier.stop = self._explain(error)
        finally:
            self._end_all()
        if self._measured and self.dossier.stop is None:
            self._look_at_reference(self._conclude)
        return self.dossier

    def _run(self) -> None:
        candidate = self._start()
        self._load(candidate, self.submission.source)
        with self.turns.held(alone=not self.measurement.is_light(self.task)):
            self._run_on_device(candidate)

    def _run_on_device(self, candidate: Peer) -> None:
        """From the constructor to the last timed call: everything that may touch the GPU."""
        self._build(candidate)
        compiler = self._compiler()
        correctness = self._correctness(candidate, self.dossier)
        try:
            self._trials(correctness, candidate, compiler)
        except PeerFailed as error:
            self._compile(candidate, compiler)  # the real compiler may know the reason better
            if self.dossier.stop is None:
                raise error from None
            return
        self._compile(candidate, compiler)
        if self.dossier.stop is None and self._is_right():
            self._announce("measure")
            self.measurement.run(correctness)
            self._measured = True
        candidate.expect_silence("report")
        if self._measured:
            self._probe_last(correctness)  # whatever state that leaves it in

    # --- stages ---------------------------------------------------------------------------------

    def _start(self) -> Peer:
        self._announce("start", SETUP_LIMIT_S)
        self._tickets["candidate"] = self.link.ask_spawn("candidate")
        if self._cross_compiles():
            self._tickets["compiler"] = self.link.ask_spawn("compiler")
        peer = self._peer("candidate", self.submission.timeout_s)
        self.dossier.jail, self.dossier.jail_missing = peer.level, peer.missing
        return peer

    def _peer(self, role: str, budget_s: float) -> Peer:
        """Take over a process that was asked for; it has run no line of the candidate."""
        spawned, link = self.link.spawned(self._tickets.pop(role)), self.link
        peer = Peer(
            spawned,
            budget_s=budget_s,
            gate=self.turns.lend,
            settle=self._settle,
            clock=lambda: link.clock(link.ask_clock(spawned.handle)),
        )
        self._peers.append(peer)
        try:
            peer.await_ready()
        except PeerError as error:
            raise SandboxError(f"the {role}'s harness did not start: {error}") from error
        return peer

    def _load(self, candidate: Peer, source: str) -> None:
        self._announce("load", LOAD_LIMIT_S)
        self._make_pools(self.task)
        sizes = (len(self._pools[0].flat), len(self._pools[1].flat), len(self._pools[2].flat))
        setup = Setup(
            backend=self.submission.backend,
            device="cpu" if self.task.device == "cpu" else "cuda",
            interpret=self._interpret,
            census=self._interpret,
            pool_bytes=sizes,
        )
        fds = [pool.fileno() for pool in self._pools]
        try:
            frame = candidate.request("setup", Kind.SETUP, setup, fds=fds, limit_s=SETUP_LIMIT_S)
            switches.check_harness(frame)
            self.measurement.prepare(candidate)  # before any line of the candidate has run
            self._calibrate(candidate)
            self._announce("load", LOAD_LIMIT_S)
        except PeerError as error:
            raise SandboxError(f"the candidate's harness could not be set up: {error}") from error
        frame = candidate.request("load", Kind.LOAD, source.encode(), limit_s=LOAD_LIMIT_S)
        self.dossier.switches = switches.claimed(frame)

    def _calibrate(self, candidate: Peer) -> None:
        """See now and then what the harness needs on the device before a candidate is in it."""
        if self.measurement.needs_calibration():
            correctness = self._correctness(candidate, Dossier())
            self._look_at_reference(lambda _task: self.measurement.calibrate(correctness))

    def _make_pools(self, task: PreparedTask) -> None:
        build, state = task.build_request(self.submission)
        study = task.study
        slots = slots_for(task.device, study, cpu_kernels=self.backend.times_on_cpu)
        tensors = max((len(changed) for changed in study.changed.values()), default=0)
        bands = (tensors + 1) * BAND_BYTES
        room = slots * (study.input_bytes + SLACK_BYTES) + bands
        self._pools = [
            state,
            make_pool(task.device, max(MIN_POOL_BYTES, room)),
            make_pool(task.device, max(MIN_POOL_BYTES, (1 + slots) * study.output_bytes)),
        ]
        self._build_request = build

    def _build(self, candidate: Peer) -> None:
        self._announce("build", BUILD_LIMIT_S)
        frame = candidate.request("build", Kind.BUILD, self._build_request, limit_s=BUILD_LIMIT_S)
        claims = parse(Claims, frame, "build")
        self.dossier.notes += claims.notes
        self.dossier.missing_state = claims.missing_state

    def _trials(
        self, correctness: Correctness, candidate: Peer, compiler: CrossCompiler | None
    ) -> None:
        for mode in self.modes.run:
            compared = mode in self.task.study.noise
            for index in range(self.submission.trials if compared else 1):
                limit_s = self.submission.timeout_s
                correctness.run(mode, index, compared=compared, limit_s=limit_s)
                if compiler is not None and index == 0:
                    self._announce("compile", COMPILE_LIMIT_S)
                    compiler.submit(self._report(candidate))
            if compared and mode in self.modes.deciding and self._is_right():
                self._replay(correctness, mode)

    def _replay(self, correctness: Correctness, mode: Mode) -> None:
        """Further checked calls. The time that they take is ours, not the candidate's."""
        with self._probing(correctness, f"probes {mode}"):
            for probe in self.probes:
                if isinstance(probe, ReplayProbe) and self._is_right():
                    probe.ask(correctness, mode)

    def _compile(self, candidate: Peer, compiler: CrossCompiler | None) -> None:
        self._announce("compile", COMPILE_LIMIT_S)
        launches = self._report(candidate)
        if compiler is not None:
            compiler.submit(launches)
            self.dossier.stop = compiler.finish(self.dossier, limit_s=COMPILE_LIMIT_S)

    def _probe_last(self, correctness: Correctness) -> None:
        with self._probing(correctness, "probes last"):
            for probe in self.probes:
                if not isinstance(probe, LastProbe) or not self._is_right():
                    continue
                if self._compared() and (self.backend.can_turn_off or not probe.turns_off):
                    probe.ask_last(correctness, self._compared())

    @contextmanager
    def _probing(self, correctness: Correctness, name: str) -> Iterator[None]:
        """Calls meanwhile count as probes, and their time is not the candidate's."""
        self._announce(name)
        self._in_probes = True
        try:
            with correctness.peer.our_time():
                yield
        finally:
            self._in_probes = False

    def _ask_blanked(self) -> None:
        """A fresh process gets the source without the bodies of its kernels (not on a GPU)."""
        probe = next((p for p in self.probes if isinstance(p, BlankedKernels)), None)
        accused = any(finding.severity == "hack" for finding in self.dossier.findings)
        if probe is None or self.dossier.on_gpu or self.dossier.stop or accused:
            return
        self._announce("probes blanked", SETUP_LIMIT_S)  # parsing a megabyte takes seconds
        blanked = probe.source_for(self.submission.source, self.dossier.own_kernels)
        evidence = self.dossier.evidence
        modes = tuple(mode for mode in self._compared() if evidence[mode].own_launches)
        if blanked is None or not modes or not self._is_right():
            return
        self._end_all()  # nothing of the first process may touch the pools of the second
        self._announce("probes blanked", SETUP_LIMIT_S)
        self._tickets["candidate"] = self.link.ask_spawn("candidate")
        peer, dossier = self._peer("candidate", self.submission.timeout_s), Dossier()
        with suppress(PeerError):
            self._load(peer, blanked.source)
            self._announce("build", BUILD_LIMIT_S)
            peer.request("build", Kind.BUILD, self._build_request, limit_s=BUILD_LIMIT_S)
            correctness = self._correctness(peer, dossier)
            with self._probing(correctness, "probes blanked"):
                self.dossier.findings += probe.ask_blanked(correctness, modes)
        self.dossier.seeds |= dossier.seeds

    def _compared(self) -> tuple[Mode, ...]:
        """Modes that decide and in which the reference is not random."""
        known = self.task.study.noise
        return tuple(m for m in self.modes.run if m in self.modes.deciding and m in known)

    def _correctness(self, peer: Peer, dossier: Dossier) -> Correctness:
        return Correctness(
            self.task,
            peer,
            (self._pools[1], self._pools[2]),
            self.submission.protocol,
            dossier,
            self._announce,
            self.dossier.probes,
            self.turns,
        )

    def _conclude(self, task: PreparedTask) -> None:
        self.dossier.measured = self.measurement.after(task)

    def _look_at_reference(self, work: Callable[[PreparedTask], None]) -> None:
        """Work of our own, alone on the device."""
        with self.turns.held(alone=True):
            if self.task.device != "cpu":
                self._announce("reference measure")
            work(self.task)

    def _cross_compiles(self) -> bool:
        targets = self.submission.targets
        return self._interpret and self.backend.cross_compiles and bool(targets)

    def _compiler(self) -> CrossCompiler | None:
        if not self._cross_compiles():
            return None
        return CrossCompiler(
            self.submission, lambda: self._peer("compiler", self.submission.timeout_s)
        )

    def _report(self, candidate: Peer) -> tuple[LaunchSignature, ...]:
        frame = candidate.request("report", Kind.REPORT, limit_s=REPORT_LIMIT_S)
        claims = parse(Claims, frame, "report")
        self.dossier.notes += [note for note in claims.notes if note not in self.dossier.notes]
        return claims.launches

    def _is_right(self) -> bool:
        """Whether no trial of a mode that decides has failed so far."""
        deciding = [trial for trial in self.dossier.trials if trial.mode in self.modes.deciding]
        return all(trial.passed for trial in deciding)

    def _announce(self, name: str, limit_s: float | None = None) -> None:
        """Tell the host what runs, so that it knows whom to blame for silence."""
        stage = name.partition(" ")[0]
        self.watch.enter("probes" if self._in_probes and stage != "gate" else stage)
        if limit_s is None:
            is_reference = stage == "reference"
            limit_s = self.task.reference.limit_s if is_reference else self.submission.timeout_s
        self.link.stage(name, limit_s)

    def _explain(self, error: PeerError) -> Stop:
        """End the process that failed, then say what went wrong."""
        self._announce("end", END_LIMIT_S)
        handle = self._peers[0].handle if error.handle is None else error.handle
        grace_s = LEAVE_GRACE_S if isinstance(error, PeerGone) else 0.0
        self._peers = [peer for peer in self._peers if peer.handle != handle]
        ended = self._ended(self.link.ask_kill(handle, grace_s=grace_s))
        context = classify.Context(
            self.submission.source, self.submission.entry_point, self.submission.memory_mb
        )
        return classify.explain(error, ended, context)

    def _end_all(self) -> None:
        """End every process and prove it dead; also those that were asked for and not used."""
        self._announce("end", END_LIMIT_S)
        for ticket in self._tickets.values():
            with suppress(SandboxError):
                self._peers.append(Peer(self.link.spawned(ticket), budget_s=0.0))
        tickets = [self.link.ask_kill(peer.handle) for peer in self._peers]
        for peer, ticket in zip(self._peers, tickets, strict=True):
            self.dossier.flooded |= peer.flooded
            peer.close()
            self._ended(ticket)
        for pool in self._pools:
            pool.close()
        self._peers, self._pools, self._tickets = [], [], {}

    def _ended(self, ticket: int) -> Ended:
        ended = self.link.ended(ticket)
        peak = max(self.dossier.peak_bytes or 0, ended.peak_bytes or 0)
        self.dossier.peak_bytes = peak or None
        if ended.survivors:
            raise SandboxError(f"{ended.survivors} processes could not be ended")
        return ended
