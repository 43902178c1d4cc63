"""The judge's side of the channel, as small as can be: drives one candidate or compiler process."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

import torch

from kernelgym.sandbox import tree
from kernelgym.sandbox.evidence import Event, EvidenceReader, Record
from kernelgym.sandbox.frames import Channel, Frame, Kind
from kernelgym.sandbox.jail import end
from kernelgym.sandbox.jail_spec import Ended, JailSpec
from kernelgym.sandbox.messages import (
    Build,
    Call,
    Claims,
    Compile,
    Compiled,
    Failed,
    LaunchSignature,
    Output,
    Setup,
)
from kernelgym.sandbox.pool import HostPool, place, view, write
from kernelgym.sandbox.zygote_client import ZygoteClient

DEADLINE_S = 60.0


class RequestFailed(Exception):
    """The process answered FAILED."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(f"{failed.type}: {failed.message}\n{failed.traceback}")
        self.failed = failed


class Driver:
    """One jailed process and what the judge knows about it."""

    def __init__(
        self,
        zygote: ZygoteClient,
        role: str = "candidate",
        *,
        flavour: str | None = None,
        spec: JailSpec | None = None,
        environment: dict[str, str] | None = None,
        pool_bytes: tuple[int, int, int] = (1 << 20, 1 << 20, 1 << 20),
    ) -> None:
        spec = spec or JailSpec(level="none", memory_bytes=2 << 30)
        flavour = flavour or ("interpret" if role == "candidate" else "native")
        ours, theirs = socket.socketpair()
        read, wrote = os.pipe()
        fds = [theirs.fileno(), wrote] if role == "candidate" else [theirs.fileno()]
        start = time.monotonic()
        try:
            self.launched = zygote.fork(flavour, role, spec, fds, environment or {})
        finally:
            theirs.close()
            os.close(wrote)
        self.channel = Channel(ours)
        self.evidence = EvidenceReader(read)
        self.pools = [HostPool(size) for size in pool_bytes]
        self._sequence = 0
        self.ended: Ended | None = None
        assert self.receive().kind is Kind.READY
        self.ready_s = time.monotonic() - start

    def receive(self) -> Frame:
        watch = (self.evidence.fileno(), self.evidence.drain)
        return self.channel.receive(time.monotonic() + DEADLINE_S, watch=watch)

    def ask(self, kind: Kind, body: Any = b"", fds: list[int] | None = None) -> Frame:
        self._sequence += 1
        data = body if isinstance(body, bytes) else body.model_dump_json().encode()
        self.channel.send(kind, self._sequence, data, fds or [])
        answer = self.receive()
        assert answer.sequence == self._sequence
        if answer.kind is Kind.FAILED:
            raise RequestFailed(Failed.model_validate_json(answer.body))
        return answer

    def setup(self, **changes: Any) -> Claims:
        fields: dict[str, Any] = {
            "backend": "triton",
            "device": "cpu",
            "interpret": True,
            "census": True,
            "pool_bytes": tuple(pool.size for pool in self.pools),
        }
        setup = Setup(**(fields | changes))
        fds = [pool.fileno() for pool in self.pools]
        return Claims.model_validate_json(self.ask(Kind.SETUP, setup, fds).body)

    def load(self, source: str | bytes) -> Claims:
        data = source if isinstance(source, bytes) else source.encode()
        return Claims.model_validate_json(self.ask(Kind.LOAD, data).body)

    def build(
        self,
        *arguments: Any,
        entry_point: str = "ModelNew",
        state: dict[str, torch.Tensor] | None = None,
        seed: int = 0,
        precision: str = "fp32",
    ) -> Claims:
        node, tensors = tree.flatten(list(arguments))
        state = state or {}
        layouts, offset = place(tensors)
        write(self.pools[0].flat, layouts, tensors)
        state_layouts, _ = place(list(state.values()), offset)
        write(self.pools[0].flat, state_layouts, list(state.values()))
        request = Build(
            entry_point=entry_point,
            arguments=node,
            argument_tensors=tuple(layouts),
            seed=seed,
            state=dict(zip(state, state_layouts, strict=True)),
            precision=precision,
        )
        return Claims.model_validate_json(self.ask(Kind.BUILD, request).body)

    def call(
        self, *arguments: Any, mode: str = "eval", keep: bool = False, seed: int = 1
    ) -> Output:
        node, tensors = tree.flatten(list(arguments))
        layouts, _ = place(tensors)
        write(self.pools[1].flat, layouts, tensors)
        self.pools[2].flat.fill_(0xA5)
        request = Call(
            mode=mode,
            arguments=node,
            tensors=tuple(layouts),
            seed=seed,
            output_offset=0,
            keep=keep,
        )
        answer = self.ask(Kind.CALL, request)
        assert answer.kind is Kind.OUTPUT
        return Output.model_validate_json(answer.body)

    def value(self, output: Output) -> Any:
        """What a call returned, rebuilt from the output pool."""
        node = tree.check(output.tree, len(output.tensors))
        tensors = [view(self.pools[2].flat, layout).clone() for layout in output.tensors]
        return tree.unflatten(node, tensors)

    def inputs(self, output_layouts: Any) -> list[torch.Tensor]:
        return [view(self.pools[1].flat, layout) for layout in output_layouts]

    def report(self) -> Claims:
        return Claims.model_validate_json(self.ask(Kind.REPORT).body)

    def compile(self, launches: tuple[LaunchSignature, ...], *targets: int) -> list[Compiled]:
        answer = self.ask(Kind.COMPILE, Compile(launches=launches, targets=targets))
        claims = Claims.model_validate_json(answer.body)
        return [Compiled.model_validate(entry) for entry in claims.compiled]

    def records(self, event: Event) -> list[Record]:
        return [record for record in self.evidence.take() if record.event is event]

    def launches(self) -> list[Record]:
        return self.records(Event.LAUNCH)

    def end(self) -> Ended:
        if self.ended is None:
            self.ended = end(self.launched)
            self.channel.close()
            self.evidence.close()
            for pool in self.pools:
                pool.close()
        return self.ended
