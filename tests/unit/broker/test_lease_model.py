"""The Lua script against its model: a state machine drives both and compares every answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from lease_model import Model

from kernelgym.broker.embedded import EmbeddedBroker
from kernelgym.broker.protocol import (
    Answer,
    Completion,
    Held,
    Item,
    KeyConflict,
    Kind,
    Limits,
    QueueFull,
    State,
)
from kernelgym.broker.valkey import Broker, script_source

LIMITS = Limits(
    result_ttl_ms=5_000, max_failures=1, max_queued=20, max_open_per_client=12, max_bytes=400
)
CLIENTS = st.sampled_from(["ann", "bob", "cyd"])
WORKERS = st.sampled_from(["w1", "w2"])
CLASSES = st.sampled_from(["any", "any", "any", "cpu", "gpu"])
OUTCOMES = st.sampled_from(["correct", "mismatch", "infrastructure"])
PREFIX = "{model}:"
LEASE_MS = 1_000


def scripted_time() -> str:
    """The script, with the time read from a key that the test sets."""
    source = script_source()
    real, test = "local NOW = broker_time()", "local NOW = tonumber(call('GET', P .. 'test-clock'))"
    assert source.count(real) == 1
    return source.replace(real, test)


@st.composite
def items(draw: st.DrawFn) -> Item:
    """Few keys, few contents: collisions are the point."""
    return Item(
        id="",
        body=b"x" * draw(st.integers(1, 9)),
        digest=draw(st.sampled_from(["d1", "d2"])),
        content=draw(st.sampled_from(["c1", "c2", "", "", ""])),
        key=draw(st.sampled_from(["", "", "k1", "k2", "k3"])),
        force=draw(st.sampled_from([False, False, False, True])),
        device_class=draw(CLASSES),
        priority=draw(st.sampled_from([1, 5, 9])),
        deadline_ms=draw(st.sampled_from([500, 3_000, 60_000])),
    )


class LeaseMachine(RuleBasedStateMachine):
    """One broker, one model, one clock."""

    runner: asyncio.Runner
    broker: Broker

    @initialize()
    def begin(self) -> None:
        self.model = Model(LIMITS)
        self.names = 0
        self.seen: list[tuple[str, int]] = []
        self.runner.run(self._wipe())
        self.runner.run(self.broker.configure(LIMITS))
        self.set_clock()

    async def _wipe(self) -> None:
        await self.broker._redis.flushall()

    def set_clock(self) -> None:
        key = PREFIX + "test-clock"
        self.runner.run(self.broker._redis.set(key, self.model.now))

    def fresh(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names:03d}"

    @rule(client=CLIENTS, batch=st.lists(items(), min_size=1, max_size=4))
    def submit(self, client: str, batch: list[Item]) -> None:
        named = [replace(item, id=self.fresh("t")) for item in batch]
        named = [replace(item, content=item.content or item.id) for item in named]
        self.do_submit(client, self.fresh("b"), "whole", named)

    @precondition(lambda self: self.model.batches)
    @rule(data=st.data(), digest=st.sampled_from(["whole", "whole", "other"]))
    def submit_again(self, data: st.DataObject, digest: str) -> None:
        batch = data.draw(st.sampled_from(sorted(self.model.batches)))
        client = self.model.batches[batch].client
        self.do_submit(client, batch, digest, [])

    def do_submit(self, client: str, batch: str, digest: str, named: list[Item]) -> None:
        expected = self.model.submit(client, batch, digest, named)
        got: object
        try:
            got = self.runner.run(self.broker.submit(client, batch, digest, named))
        except KeyConflict as refusal:
            got = ("conflict", refusal.index)
        except QueueFull as refusal:
            got = ("full", refusal.limit)
        assert got == expected

    @rule(
        worker=WORKERS,
        limit=st.integers(1, 4),
        classes=st.sampled_from([["cpu", "any"], ["gpu", "any"], ["any"]]),
        repeat=st.booleans(),
    )
    def claim(self, worker: str, limit: int, classes: list[str], repeat: bool) -> None:
        last = self.model.claims.get(worker)
        request = last[0] if last and repeat else self.fresh("r")
        expected = self.model.claim(worker, request, classes, LEASE_MS, limit)
        got = self.runner.run(
            self.broker.claim(worker, request, classes, lease_ms=LEASE_MS, limit=limit)
        )
        assert [(one.id, one.token) for one in got] == expected
        for one in got:
            item = self.model.tasks[one.id].item
            assert (one.body, one.device_class) == (item.body, item.device_class)
        self.seen = (self.seen + expected)[-20:]

    def draw_lease(self, data: st.DataObject) -> tuple[str, int]:
        """A lease that was given out at some time: alive, stale, or long forgotten."""
        return data.draw(st.sampled_from(self.seen))

    @precondition(lambda self: self.seen)
    @rule(data=st.data(), stage=st.sampled_from([State.PREPARING, State.RUNNING]))
    def heartbeat(self, data: st.DataObject, stage: State) -> None:
        classes = ["gpu", "any"] if stage is State.RUNNING else []
        held = [Held(*self.draw_lease(data), stage) for _ in range(data.draw(st.integers(1, 3)))]
        expected = self.model.heartbeat(held, LEASE_MS, classes)
        beat = self.broker.heartbeat("w1", b"{}", held, lease_ms=LEASE_MS, classes=classes)
        assert self.runner.run(beat) == expected

    @precondition(lambda self: self.seen)
    @rule(data=st.data(), kind=st.sampled_from(list(Kind)), outcome=OUTCOMES)
    def complete(self, data: st.DataObject, kind: Kind, outcome: str) -> None:
        task_id, token = self.draw_lease(data)
        result = self.fresh("result").encode()
        done = [Completion(task_id, token, kind, outcome, result, "why")] * 2
        expected = self.model.complete(done)
        assert self.runner.run(self.broker.complete(done)) == expected
        assert expected.count(Answer.OK) <= 1

    @rule(worker=WORKERS, lost=st.booleans())
    def evict(self, worker: str, lost: bool) -> None:
        expected = self.model.evict(worker, lost)
        assert self.runner.run(self.broker.evict(worker, lost=lost)) == expected

    @precondition(lambda self: self.model.tasks)
    @rule(data=st.data(), client=st.sampled_from(["", "ann", "bob", "cyd"]))
    def cancel(self, data: st.DataObject, client: str) -> None:
        ids = [data.draw(st.sampled_from(sorted(self.model.tasks))), "nobody"]
        expected = self.model.cancel(client, ids)
        assert self.runner.run(self.broker.cancel(client, ids)) == expected

    @rule(step=st.sampled_from([*(1, 400, 900, 6_000) * 4, 130_000]))
    def time_passes(self, step: int) -> None:
        self.model.now += step
        self.set_clock()

    @rule(expire=st.booleans())
    def reap(self, expire: bool) -> None:
        if expire:
            self.time_passes(LEASE_MS)
        expected = self.model.reap()
        assert self.runner.run(self.broker.reap()) == expected

    @invariant()
    def same_state(self) -> None:
        tasks, batches = self.model.tasks, self.model.batches
        views, pages, counts, tokens, served = self.runner.run(self.dump())
        for task_id, view in zip(tasks, views, strict=True):
            task = tasks[task_id]
            numbers = [str(n).encode() for n in (task.attempts, task.failures)]
            ends = [task.reason.encode(), task.outcome.encode(), task.result]
            assert view[:3] == [task.state.value.encode(), *numbers]
            assert [one or b"" for one in view[3:6]] == ends
            if task.why:
                assert task.why in view[6].decode()
        for name, page in zip(batches, pages, strict=True):
            assert [one.decode() for one in page] == batches[name].events
        stored = int(counts.pop(b"bytes", 0))
        assert stored == self.model.stored
        states = Counter(task.state.value for task in tasks.values())
        assert {name.decode(): int(n) for name, n in counts.items() if int(n)} == dict(states)
        assert {name.decode(): int(at) for name, at in served.items()} == self.model.served
        for name, there in tokens.items():
            # Whoever waits for work can rely on a token; there is never more than one.
            waiting = name in self.model.queues and self.model.queues[name].start
            assert there == 1 or (there == 0 and not waiting)

    async def dump(self) -> tuple[Any, ...]:
        pipe = self.broker._redis.pipeline(transaction=False)
        fields = ["state", "attempts", "failures", "reason", "outcome", "result", "detail"]
        for task_id in self.model.tasks:
            pipe.hmget(f"{PREFIX}task:{task_id}", fields)
        for name in self.model.batches:
            pipe.lrange(f"{PREFIX}batch:{name}:events", 0, -1)
        pipe.hgetall(PREFIX + "states")
        pipe.hgetall(PREFIX + "served")
        classes = ("any", "cpu", "gpu")
        for name in classes:
            pipe.llen(f"{PREFIX}wake:{name}")
        rows = await pipe.execute()
        cut = len(self.model.tasks)
        end = cut + len(self.model.batches)
        tokens = dict(zip(classes, rows[end + 2 :], strict=True))
        return rows[:cut], rows[cut:end], rows[end], tokens, rows[end + 1]


def drive(
    server: EmbeddedBroker,
    script: str,
    examples: int,
    *,
    shrink: bool = True,
    derandomize: bool = True,
) -> None:
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    with asyncio.Runner() as runner:
        broker = Broker(server.url, prefix=PREFIX, script=script)
        machine = type("Driven", (LeaseMachine,), {"runner": runner, "broker": broker})
        try:
            run_state_machine_as_test(
                machine,
                settings=settings(
                    max_examples=examples,
                    stateful_step_count=70,
                    deadline=None,
                    database=None,
                    derandomize=derandomize,
                    phases=phases,
                    report_multiple_bugs=False,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(broker.close())


def test_script_does_what_the_model_says(server: EmbeddedBroker) -> None:
    drive(server, scripted_time(), 15)


BREAKS: dict[str, tuple[str, str]] = {
    "a stale token commits": ("and attempts == token", ""),
    "an expired lease is not counted": (
        "infrastructure_failure(id, 'lease_expired', '', '')",
        "back_to_queue(id)",
    ),
    "a newcomer starts at zero": ("math.max(clock, finish)", "0"),
    "a follower is forgotten": ("enqueue(follower)", "local _ = follower"),
    "a key is forgotten": (
        "many('HSET', P .. 'idem:' .. client, keys)",
        "local _ = keys",
    ),
    "results are kept for ever": ("forget(name)\n  end", "end"),
    "nobody says who was missing": ("tonumber(all[i + 1]) >= submitted", "true"),
    "a worker that beats counts as gone": ("do hear_of(class) end", "do end"),
    "an event is lost": ("many('RPUSH', b .. ':events', ids)", "local _ = ids"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_model_finds_a_broken_script(wheel: EmbeddedBroker, name: str) -> None:
    old, new = BREAKS[name]
    source = scripted_time()
    assert source.count(old) == 1
    with pytest.raises(AssertionError):
        drive(wheel, source.replace(old, new), 100, shrink=False)
