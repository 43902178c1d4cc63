"""Claims that no honest harness makes must be the candidate's fault, never the judge's."""

import os
import socket

import pytest
import torch
from pydantic import ValidationError
from test_judge_peer import Other

from kernelgym.judge.peer import PeerGone
from kernelgym.judge.structure import StructureMismatch, match
from kernelgym.sandbox.clock_messages import Timed
from kernelgym.sandbox.cpu_timing import KernelTime
from kernelgym.sandbox.frames import Channel, ChannelViolation, Kind
from kernelgym.sandbox.pool import TensorLayout, view


@pytest.mark.parametrize("number", ["NaN", "Infinity", '"nan"'])
def test_a_time_that_is_no_number_is_refused(number):
    with pytest.raises(ValidationError):
        Timed.model_validate_json(f'{{"events_us": [{number}], "outputs": []}}')
    with pytest.raises(ValidationError):
        KernelTime.model_validate_json(
            f'{{"name": "k", "own": true, "launches": 1, "time_us": {number}}}'
        )


@pytest.mark.parametrize("node", [{"k": "float", "v": "0x1p99999"}, {"k": "float"}])
def test_a_number_that_is_none_is_a_mismatch(node):
    with pytest.raises(StructureMismatch):
        match({"k": "float", "v": "0x1p0"}, node)


@pytest.mark.parametrize(
    ("dtype", "shape", "stride"),
    [
        ("float32", (1 << 40, 1 << 40), (0, 0)),
        ("float32", (0, 10**30), (1, 1)),
        ("qint8", (4,), (1,)),
    ],
)
def test_a_layout_that_no_tensor_has_is_refused(dtype, shape, stride):
    layout = TensorLayout(dtype=dtype, shape=shape, stride=stride, offset=0)
    with pytest.raises(ValueError, match=r"no tensor can be|unknown dtype"):
        view(torch.zeros(64, dtype=torch.uint8), layout)


def test_asking_for_a_turn_and_leaving_is_leaving():
    other = Other()
    other.channel.send(Kind.COMPILING, 1)
    other.channel.send(Kind.COMPILED, 1)
    other.peer._gate = lambda back: other.sock.close() if back else None
    with pytest.raises(PeerGone):
        other.ask()
    other.close()


def test_descriptors_beside_garbage_are_closed():
    ours, theirs = socket.socketpair()
    read, wrote = os.pipe()
    socket.send_fds(theirs, [bytes(64)], [wrote])
    os.close(wrote)
    with pytest.raises(ChannelViolation):
        Channel(ours).receive()
    assert os.read(read, 1) == b""  # nobody holds the other end
    for end in (ours, theirs):
        end.close()
    os.close(read)
