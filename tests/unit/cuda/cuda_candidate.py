"""A candidate's harness in a thread, on a stand-in driver, and candidates for it.

Their "kernels" are jobs on the stand-in's stream, so that they run after the flag like real ones,
and so do the copies of their outputs.
"""

import os
import socket
import threading

import torch
from cuda_standin import StandInDriver

from kernelgym.cuda.page import Slot
from kernelgym.judge.link import Spawned
from kernelgym.judge.peer import Peer
from kernelgym.sandbox import serving
from kernelgym.sandbox.clock_messages import Clock, Time
from kernelgym.sandbox.frames import Channel, Kind
from kernelgym.sandbox.messages import Claims, Failed
from kernelgym.sandbox.timing import Timing
from kernelgym.trace.cupti import CuptiUnavailable
from kernelgym.trace.recorder import Recorder

REFERENCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2 + 1
def get_inputs():
    return [torch.randn(64, 32)]
"""


def no_cupti():
    raise CuptiUnavailable("no CUPTI: this is a stand-in")


class FakeCandidate:
    """A harness around a forward of the test's choice, in a thread."""

    def __init__(self, forward, pools):
        ours, theirs = socket.socketpair()
        read, write = os.pipe()
        self.driver = StandInDriver()
        self.forward, self.pools, self.timing = forward, pools, None
        self.recorder = Recorder(write)
        self.channel = Channel(theirs)
        self.requests = []
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()
        message = {"handle": 1, "level": "none", "missing": []}
        self.peer = Peer(Spawned(message, [ours.detach(), read]), budget_s=60.0)
        self.write_end = write
        self.peer.await_ready()

    def _serve(self):
        handlers = {Kind.CLOCK: self._clock, Kind.TIME: self._time}
        serving.serve(self.channel, handlers, self._describe)

    @staticmethod
    def _describe(error):
        return Failed(type=type(error).__name__, message=str(error))

    def _clock(self, request):
        body = Clock.model_validate_json(request.body)
        self.timing = Timing(self.driver, body, request.fds[0], self.recorder, no_cupti)
        self.page = self.timing._bench.page
        return Kind.DONE, Claims(notes=tuple(self.timing.notes))

    def _time(self, request):
        body = Time.model_validate_json(request.body)
        self.requests.append(body)
        timed = self.timing.run(
            body,
            self.pools,
            lambda call, inputs: self.forward(self, *inputs),
            [],
            lambda: self.channel.send(Kind.ARMED, request.sequence),
        )
        return Kind.TIMED, timed

    def close(self):
        self.peer.close()
        if self.timing is not None:
            self.page.set(Slot.FLAG, self.page.read(Slot.FLAG) + 1000)
        self.thread.join(10)
        self.channel.close()
        self.driver.call("cuCtxSynchronize")
        os.close(self.write_end)


def honest(candidate, x):
    result = torch.empty_like(x)
    candidate.driver.enqueue(lambda: result.copy_(x * 2 + 1))
    return result


def wrong(candidate, x):
    result = torch.empty_like(x)
    candidate.driver.enqueue(lambda: result.copy_(x * 2 + 2))
    return result


def ahead(candidate, x):
    """Computes when it is called: before its inputs are there."""
    return x * 2 + 1


def waits(candidate, x):
    """Waits for the device in the middle, as ``.item()`` does."""
    candidate.driver.call("cuCtxSynchronize")
    return honest(candidate, x)


def raises(candidate, x):
    raise RuntimeError("no")
