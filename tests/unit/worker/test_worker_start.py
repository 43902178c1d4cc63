"""What a worker does before it works: its own jail is attacked as its candidates will meet it."""

import asyncio

import pytest

from kernelgym.errors import SandboxError
from kernelgym.sandbox import cgroup_places, jail, selftest
from kernelgym.worker import main
from kernelgym.worker.seat import Seat


@pytest.mark.parametrize(("device", "uuid"), [("cpu", ""), ("cuda:0", "GPU-1")])
def test_the_jail_of_a_gpu_worker_is_attacked_with_a_gpu(monkeypatch, device, uuid):
    asked = []

    async def seats(_order):
        return [Seat(device, classes=("any",), slots=1, evaluator=lambda: None, uuid=uuid)]

    def check(spec):
        asked.append(spec)
        raise SandboxError("it leaks")

    monkeypatch.setattr(main, "_seats", seats)
    monkeypatch.setattr(selftest, "check", check)
    monkeypatch.setattr(jail, "sweep", lambda: None)
    monkeypatch.setattr(cgroup_places, "delegate", lambda: True)
    order = main.Order(server="http://127.0.0.1:1", name="w", hidden=("/tmp/x",))
    with pytest.raises(SandboxError, match="leaks"):
        asyncio.run(main._work(order))
    (spec,) = asked
    assert (spec.gpu, spec.seals) == (bool(uuid), bool(uuid))
    assert spec.hidden == ("/tmp/x",)
