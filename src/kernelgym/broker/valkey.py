"""The broker as Python calls: the Lua script on a Valkey or Redis >= 6.2, over redis-py's asyncio.

Every call is safe to repeat (submissions by key or batch id, claims by request id, completions by
token), so the connection may retry. Timeouts are set everywhere: without them redis-py waits for
ever on a partitioned peer. A timeout means *unknown*, not *not done*.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib import resources
from typing import Any

import redis.asyncio as aio
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import OutOfMemoryError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from kernelgym.broker.protocol import (
    Answer,
    BatchPage,
    BrokerUnavailable,
    Claimed,
    Completion,
    Held,
    Item,
    KeyConflict,
    Limits,
    QueueFull,
    QueueStats,
    State,
    TaskView,
    WorkerView,
)

PREFIX = "{kernelgym}:"
"""The braces keep all keys in one slot."""
MAX_BATCH = 5_000
"""More items than Lua can return in one answer are refused."""
BLOCK_S = 4.0
"""Longest wait on a wake list; shorter than the socket's timeout."""
_TIMEOUT_S = 8.0
_FIELDS = ["client", "state", "key", "class", "priority", "attempts", "failures", "outcome"]
_FIELDS += ["reason", "detail", "worker", "submitted", "claimed", "finished", "result"]


def script_source() -> str:
    """The two halves of the Lua script."""
    here = resources.files("kernelgym.broker")
    return "\n".join((here / name).read_text("utf-8") for name in ("tasks.lua", "lease.lua"))


@asynccontextmanager
async def _translated() -> AsyncIterator[None]:
    try:
        yield
    except OutOfMemoryError as error:
        raise QueueFull("bytes") from error
    except ResponseError as error:
        text = str(error)
        if "OOM" in text:
            raise QueueFull("bytes") from error
        if any(word in text for word in ("MISCONF", "LOADING", "READONLY", "BUSY")):
            raise BrokerUnavailable(text) from error
        raise
    except (RedisConnectionError, RedisTimeoutError, OSError) as error:
        raise BrokerUnavailable(str(error) or type(error).__name__) from error
    except RedisError as error:
        raise BrokerUnavailable(f"{type(error).__name__}: {error}") from error


class Broker:
    """One connection pool to the broker, and every operation of the protocol."""

    def __init__(self, url: str, *, prefix: str = PREFIX, script: str | None = None) -> None:
        retry = Retry(ExponentialWithJitterBackoff(base=0.02, cap=0.5), 3)
        options: dict[str, Any] = {
            "socket_timeout": _TIMEOUT_S,
            "socket_connect_timeout": 2.0,
            "health_check_interval": 15,
            "retry": retry,
        }
        if not url.startswith("unix:"):
            options["socket_keepalive"] = True
        pool = aio.BlockingConnectionPool.from_url(url, max_connections=64, timeout=10, **options)
        self._redis: Any = aio.Redis(connection_pool=pool)  # its stubs mix bytes and str
        self._prefix = prefix
        source = script_source() if script is None else script
        self._script = self._redis.register_script(source)

    async def close(self) -> None:
        """Close every connection."""
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()

    async def _run(self, *args: str | bytes | int) -> Any:
        async with _translated():
            return await self._script(keys=[self._prefix], args=list(args))

    def _key(self, name: str) -> str:
        return self._prefix + name

    async def ping(self) -> None:
        """Raise `BrokerUnavailable` unless the broker answers and can run the script."""
        async with _translated():
            await self._redis.ping()

    async def configure(self, limits: Limits) -> None:
        """Set the limits; the last caller wins."""
        mapping = {name: int(value) for name, value in asdict(limits).items()}
        async with _translated():
            await self._redis.hset(self._key("config"), mapping=mapping)

    # Clients

    async def submit(
        self, client: str, batch: str, digest: str, items: Sequence[Item]
    ) -> tuple[list[str], bool]:
        """Queue all items or none; return their ids and whether the batch was known already."""
        args: list[str | bytes | int] = ["submit", client, batch, digest, len(items)]
        for it in items:
            args += [it.id, it.key, it.digest, it.content, "1" if it.force else ""]
            args += [it.device_class, it.priority, it.deadline_ms, it.body]
        status, *rest = await self._run(*args)
        if status == b"conflict":
            raise KeyConflict(int(rest[0]) if rest[0] else None)
        if status == b"full":
            raise QueueFull(rest[0].decode())
        return [one.decode() for one in rest], status == b"same"

    async def cancel(self, client: str, ids: Sequence[str]) -> list[str]:
        """Cancel; per id ``cancelled``, ``unknown``, or the final state it was in already."""
        return [one.decode() for one in await self._run("cancel", client, *ids)]

    async def view(self, ids: Sequence[str], *, body: bool = False) -> list[TaskView | None]:
        """Read tasks; None for an unknown one."""
        if not ids:
            return []
        fields = [*_FIELDS, "body"] if body else _FIELDS
        async with _translated():
            pipe = self._redis.pipeline(transaction=False)
            for one in ids:
                pipe.hmget(self._key(f"task:{one}"), fields)
            rows = await pipe.execute()
        return [_view(one, row) for one, row in zip(ids, rows, strict=True)]

    async def batch(self, batch: str, after: int, limit: int) -> BatchPage | None:
        """Finished tasks of a batch after the cursor; None when the batch is unknown."""
        async with _translated():
            pipe = self._redis.pipeline(transaction=True)
            pipe.hmget(self._key(f"batch:{batch}"), ["client", "total", "done"])
            pipe.lrange(self._key(f"batch:{batch}:events"), after, after + limit - 1)
            (client, total, done), ids = await pipe.execute()
        if client is None:
            return None
        tasks = await self.view([one.decode() for one in ids])
        known = tuple((after + n, task) for n, task in enumerate(tasks, 1) if task is not None)
        return BatchPage(client.decode(), int(total), int(done), after + len(ids), known)

    async def batch_ids(self, batch: str) -> list[str]:
        """Ids of all tasks of a batch, in the order of the request."""
        async with _translated():
            ids = await self._redis.lrange(self._key(f"batch:{batch}:ids"), 0, -1)
        return [one.decode() for one in ids]

    async def finished(self) -> AsyncIterator[str]:
        """Yield the batch of every task that ends, as it ends; may miss some on reconnection."""
        async with _translated():
            pubsub = self._redis.pubsub(ignore_subscribe_messages=True)
            try:
                await pubsub.subscribe(self._key("finished"))
                while True:
                    message = await pubsub.get_message(timeout=BLOCK_S)
                    if message is not None:
                        yield message["data"].decode()
            finally:
                await pubsub.aclose()

    # Workers

    async def claim(
        self, worker: str, request: str, classes: Sequence[str], *, lease_ms: int, limit: int
    ) -> list[Claimed]:
        """Lease up to ``limit`` tasks; the same ``request`` gets the same tasks again."""
        rows = await self._run("claim", worker, request, lease_ms, limit, *classes)
        return [
            Claimed(
                id=row[0].decode(),
                token=int(row[1]),
                client=row[2].decode(),
                device_class=row[3].decode(),
                remaining_ms=int(row[4]),
                waited_ms=int(row[5]),
                body=row[6],
            )
            for row in rows
        ]

    async def heartbeat(
        self,
        worker: str,
        info: bytes,
        held: Sequence[Held],
        *,
        lease_ms: int,
        classes: Sequence[str] = (),
    ) -> list[Answer]:
        """Extend leases, say how far each task is and which device classes are served."""
        args: list[str | bytes | int] = []
        for one in held:
            args += [one.id, one.token, one.stage.value]
        rows = await self._run("heartbeat", worker, lease_ms, info, " ".join(classes), *args)
        return [Answer(row.decode()) for row in rows]

    async def complete(self, completions: Iterable[Completion]) -> list[Answer]:
        """Give tasks back; a stale token changes nothing."""
        args: list[str | bytes | int] = []
        for one in completions:
            args += [one.id, one.token, one.kind.value, one.detail, one.outcome, one.result]
        return [Answer(row.decode()) for row in await self._run("complete", *args)]

    async def evict(self, worker: str, *, lost: bool) -> list[str]:
        """Hand back all tasks of a worker that died (``lost``) or leaves."""
        return [one.decode() for one in await self._run("evict", worker, "1" if lost else "0")]

    async def wait_for_work(self, classes: Sequence[str], control: str) -> str | None:
        """Block until a class may have work, or ``control`` is poked; None after `BLOCK_S`."""
        keys = [self._key(f"wake:{name}") for name in (*classes, f"@{control}")]
        async with _translated():
            hit = await self._redis.blpop(keys, timeout=BLOCK_S)
        return None if hit is None else hit[0].decode().removeprefix(self._key("wake:"))

    async def wake(self, device_class: str) -> None:
        """Put a wake token back, if its class still has work."""
        await self._run("wake", device_class)

    async def poke(self, control: str) -> None:
        """Interrupt `wait_for_work` of the same ``control``."""
        async with _translated():
            pipe = self._redis.pipeline(transaction=True)
            pipe.lpush(self._key(f"wake:@{control}"), "1")
            pipe.pexpire(self._key(f"wake:@{control}"), 60_000)
            await pipe.execute()

    # Housekeeping

    async def reap(self, limit: int = 500) -> tuple[int, int, int]:
        """End what is overdue: deadlines, leases, results; how many of each."""
        late, expired, old = await self._run("reap", limit)
        return late, expired, old

    async def workers(self) -> list[WorkerView]:
        """Workers heard of lately."""
        async with _translated():
            pipe = self._redis.pipeline(transaction=True)
            pipe.zrange(self._key("workers"), 0, -1, withscores=True)
            pipe.hgetall(self._key("worker-info"))
            seen, info = await pipe.execute()
        return [
            WorkerView(name.decode(), int(score), info.get(name, b"{}")) for name, score in seen
        ]

    async def served_ms(self) -> dict[str, int]:
        """Milliseconds since a worker was last heard of, by device class."""
        async with _translated():
            pipe = self._redis.pipeline(transaction=True)
            pipe.hgetall(self._key("served"))
            pipe.time()
            served, (seconds, micros) = await pipe.execute()
        now = int(seconds) * 1000 + int(micros) // 1000
        return {name.decode(): max(0, now - int(last)) for name, last in served.items()}

    async def name(self, client: str, name: str, task_id: str, ttl_s: float) -> None:
        """Let the client call a task by a name of its own."""
        async with _translated():
            await self._redis.set(self._key(f"name:{client}:{name}"), task_id, ex=int(ttl_s) + 1)

    async def named(self, client: str, name: str) -> str | None:
        """The task that the client calls so."""
        async with _translated():
            found = await self._redis.get(self._key(f"name:{client}:{name}"))
        return found.decode() if found else None

    async def recent(self, count: int = 50) -> list[TaskView]:
        """Tasks that ended last, newest first."""
        async with _translated():
            ids = await self._redis.lrange(self._key("recent"), 0, count - 1)
        return [one for one in await self.view([i.decode() for i in ids]) if one is not None]

    async def now_ms(self) -> int:
        """Broker time."""
        async with _translated():
            seconds, micros = await self._redis.time()
        return int(seconds) * 1000 + int(micros) // 1000

    async def stats(self) -> QueueStats:
        """States, counters, and the queue by class and client."""
        async with _translated():
            pipe = self._redis.pipeline(transaction=True)
            pipe.hgetall(self._key("states"))
            pipe.hgetall(self._key("counters"))
            pipe.smembers(self._key("classes"))
            states, counters, classes = await pipe.execute()
        numbers = {name.decode(): int(value) for name, value in states.items()}
        stored = numbers.pop("bytes", 0)
        waiting, oldest = {}, {}
        for name in sorted(one.decode() for one in classes):
            waiting[name], age = await self._class_stats(name)
            if age is not None:
                oldest[name] = age
        return QueueStats(
            states=numbers,
            stored_bytes=stored,
            counters={name.decode(): int(value) for name, value in counters.items()},
            waiting=waiting,
            oldest_ms=oldest,
        )

    async def _class_stats(self, name: str) -> tuple[dict[str, int], int | None]:
        async with _translated():
            clients = await self._redis.zrange(self._key(f"active:{name}"), 0, 99)
            pipe = self._redis.pipeline(transaction=False)
            for client in clients:
                queue = self._key(f"queue:{name}:{client.decode()}")
                pipe.zcard(queue)
                pipe.zrange(queue, 0, 0)
            rows = await pipe.execute()
        counts = {c.decode(): int(n) for c, n in zip(clients, rows[::2], strict=True)}
        heads = await self.view([row[0].decode() for row in rows[1::2] if row])
        born = [task.submitted_ms for task in heads if task is not None]
        return counts, max(0, await self.now_ms() - min(born)) if born else None


def _view(task_id: str, row: Sequence[bytes | None]) -> TaskView | None:
    values = dict(zip((*_FIELDS, "body"), row, strict=False))
    if values["state"] is None:
        return None

    def text(name: str) -> str:
        return (values.get(name) or b"").decode()

    def number(name: str) -> int:
        return int(values.get(name) or 0)

    return TaskView(
        id=task_id,
        client=text("client"),
        state=State(text("state")),
        key=text("key"),
        device_class=text("class"),
        priority=number("priority"),
        attempts=number("attempts"),
        failures=number("failures"),
        outcome=text("outcome"),
        reason=text("reason"),
        detail=text("detail"),
        worker=text("worker"),
        submitted_ms=number("submitted"),
        claimed_ms=number("claimed"),
        finished_ms=number("finished"),
        result=values.get("result") or b"",
        body=values.get("body") or b"",
    )
