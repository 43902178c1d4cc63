"""What the Lua script must do, said again in Python with dicts and lists.

Written from the protocol's rules and not from the script: one object a task, queues computed by
sorting. The state machine in test_lease_model.py drives both and compares every answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelgym.broker.protocol import Answer, Completion, Held, Item, Kind, Limits, State

SILENT_MS = 120_000
LIVE = {State.LEASED, State.PREPARING, State.RUNNING}


@dataclass
class ModelTask:
    item: Item
    client: str
    order: int
    deadline: int
    state: State = State.QUEUED
    attempts: int = 0
    failures: int = 0
    batches: list[str] = field(default_factory=list)
    worker: str = ""
    lease_until: int = 0
    settled: int = -1
    leader: str | None = None
    followers: list[str] = field(default_factory=list)
    reason: str = ""
    born: int = 0
    why: str = ""
    outcome: str = ""
    result: bytes = b""
    expires: int | None = None

    @property
    def waiting(self) -> bool:
        """In a queue, not behind a leader."""
        return self.state is State.QUEUED and self.leader is None


@dataclass
class ModelBatch:
    client: str
    digest: str
    ids: list[str]
    events: list[str] = field(default_factory=list)
    expires: int | None = None


class FairQueue:
    """Start-time fair queueing of one class: who is next, and what everyone has used."""

    def __init__(self) -> None:
        self.clock = 0
        self.start: dict[str, int] = {}
        self.finish: dict[str, int] = {}

    def arrive(self, client: str) -> None:
        if client not in self.start:
            self.start[client] = max(self.clock, self.finish.get(client, 0))

    def empty(self, client: str) -> None:
        if client in self.start:
            self.finish[client] = self.start.pop(client)

    def first(self) -> str:
        return min(self.start, key=lambda client: (self.start[client], client))

    def serve(self, client: str) -> None:
        self.clock = self.start[client]
        self.start[client] += 1
        self.finish = {c: f for c, f in self.finish.items() if f > self.clock}


class Model:
    """The broker, in memory, with a clock of its own."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.now = 1_000_000
        self.sequence = 0
        self.turn = 0
        self.tasks: dict[str, ModelTask] = {}
        self.batches: dict[str, ModelBatch] = {}
        self.keys: dict[tuple[str, str], str] = {}
        self.queues: dict[str, FairQueue] = {}
        self.turns: dict[str, int] = {}
        self.content: dict[str, str] = {}
        self.claims: dict[str, tuple[str, list[tuple[str, int]]]] = {}
        self.stored = 0
        self.served: dict[str, int] = {}

    # Submission

    def submit(self, client: str, batch: str, digest: str, items: list[Item]) -> object:
        if batch in self.batches:
            known = self.batches[batch]
            return ("conflict", None) if known.digest != digest else (known.ids, True)
        refusal = self._refusal(client, items)
        if refusal:
            return refusal
        ids, fresh = [], []
        for item in items:
            task_id = self.keys.get((client, item.key)) if item.key else None
            if task_id is None:
                task_id = item.id
                self._create(client, item)
                fresh.append(task_id)
            task = self.tasks[task_id]
            if batch not in task.batches:
                task.batches.append(batch)
            ids.append(task_id)
        self.batches[batch] = ModelBatch(client, digest, ids)
        for task_id in fresh:
            if not self._answered(task_id, claiming=False):
                self._enqueue(task_id)
        for task_id in dict.fromkeys(ids):
            if task_id not in fresh and self.tasks[task_id].state.final:
                self.tasks[task_id].expires = self.now + self.limits.result_ttl_ms
                self._announce(batch, task_id)
        return (ids, False)

    def _refusal(self, client: str, items: list[Item]) -> object:
        seen: dict[str, str] = {}
        new = 0
        size = 0
        for index, item in enumerate(items):
            known = self.keys.get((client, item.key)) if item.key else None
            digest = self.tasks[known].item.digest if known else seen.get(item.key)
            if digest is not None and item.key:
                if digest != item.digest:
                    return ("conflict", index)
                continue
            new, size = new + 1, size + len(item.body)
            if item.key:
                seen[item.key] = item.digest
        if not new:
            return None
        queued = sum(t.state is State.QUEUED for t in self.tasks.values())
        mine = sum(t.client == client and not t.state.final for t in self.tasks.values())
        if queued + new > self.limits.max_queued:
            return ("full", "queue")
        if mine + new > self.limits.max_open_per_client:
            return ("full", "client")
        return ("full", "bytes") if self.stored + size > self.limits.max_bytes else None

    def _create(self, client: str, item: Item) -> None:
        self.sequence += 1
        deadline = self.now + item.deadline_ms
        self.tasks[item.id] = ModelTask(item, client, self.sequence, deadline, born=self.now)
        self.stored += len(item.body)
        if item.key:
            self.keys[client, item.key] = item.id

    # Queues

    def _enqueue(self, task_id: str) -> None:
        task = self.tasks[task_id]
        self.queues.setdefault(task.item.device_class, FairQueue()).arrive(task.client)

    def _queue(self, device_class: str, client: str) -> list[str]:
        mine = [
            (-t.item.priority, t.order, i)
            for i, t in self.tasks.items()
            if t.waiting and t.client == client and t.item.device_class == device_class
        ]
        return [task_id for _, _, task_id in sorted(mine)]

    def _retire(self, device_class: str, client: str) -> None:
        if device_class in self.queues and not self._queue(device_class, client):
            self.queues[device_class].empty(client)

    def _answered(self, task_id: str, *, claiming: bool) -> bool:
        task = self.tasks[task_id]
        if task.item.force:
            return False
        leader_id = self.content.get(task.item.content)
        leader = self.tasks.get(leader_id) if leader_id and leader_id != task_id else None
        if leader and leader.state is State.DONE:
            self._finish(task_id, State.DONE, "", leader.outcome, leader.result)
            return True
        follow = leader and (leader.state in LIVE or (claiming and leader.state is State.QUEUED))
        if leader and follow:
            task.leader = leader_id
            leader.followers.append(task_id)
            return True
        if claiming:
            self.content[task.item.content] = task_id
        return False

    # Workers

    def claim(
        self, worker: str, request: str, classes: list[str], lease_ms: int, limit: int
    ) -> list[tuple[str, int]]:
        self.served |= dict.fromkeys(classes, self.now)
        if worker in self.claims and self.claims[worker][0] == request:
            again = [(i, n) for i, n in self.claims[worker][1] if self._holds(i, n)]
            for task_id, _ in again:
                self.tasks[task_id].lease_until = self.now + lease_ms
            return again
        taken: list[tuple[str, int]] = []
        while len(taken) < limit:
            open_classes = [c for c in classes if c in self.queues and self.queues[c].start]
            if not open_classes:
                break
            chosen = min(open_classes, key=lambda c: self.turns.get(c, 0))
            task_id = self._hand_out(chosen, worker, lease_ms)
            if task_id:
                taken.append((task_id, self.tasks[task_id].attempts))
        if taken:
            self.claims[worker] = (request, taken)
        return taken

    def _hand_out(self, device_class: str, worker: str, lease_ms: int) -> str | None:
        fair = self.queues[device_class]
        client = fair.first()
        task_id = self._queue(device_class, client)[0]
        task = self.tasks[task_id]
        leased = False
        if task.deadline <= self.now:
            self._too_late(task_id)
        elif not self._answered(task_id, claiming=True):
            task.attempts += 1
            task.state, task.worker, task.lease_until = State.LEASED, worker, self.now + lease_ms
            fair.serve(client)
            self.turn += 1
            self.turns[device_class] = self.turn
            leased = True
        self._retire(device_class, client)
        return task_id if leased else None

    def _holds(self, task_id: str, token: int) -> bool:
        task = self.tasks.get(task_id)
        return task is not None and task.state in LIVE and task.attempts == token

    def heartbeat(self, held: list[Held], lease_ms: int, classes: list[str]) -> list[Answer]:
        self.served |= dict.fromkeys(classes, self.now)
        answers = []
        for one in held:
            if self._holds(one.id, one.token):
                task = self.tasks[one.id]
                task.lease_until = self.now + lease_ms
                task.state = one.stage
                answers.append(Answer.OK)
            else:
                answers.append(self._over(one.id))
        return answers

    def _over(self, task_id: str) -> Answer:
        task = self.tasks.get(task_id)
        gone = task is not None and task.state is State.CANCELLED
        return Answer.CANCELLED if gone else Answer.STALE

    def complete(self, completions: list[Completion]) -> list[Answer]:
        return [self._complete(one) for one in completions]

    def _complete(self, one: Completion) -> Answer:
        task = self.tasks.get(one.id)
        if task is None or not self._holds(one.id, one.token):
            same = task is not None and task.settled == one.token
            return Answer.SAME if same else self._over(one.id)
        task.settled = one.token
        if one.kind is Kind.VERDICT:
            self._finish(one.id, State.DONE, "", one.outcome, one.result)
            if one.outcome != "infrastructure":
                owner = self.tasks.get(self.content.get(task.item.content, ""))
                if owner is None or owner is task or owner.state is State.DONE:
                    self.content[task.item.content] = one.id
        elif one.kind is Kind.RETRY:
            self._infrastructure(one.id, one.outcome, one.result)
        else:
            self._back(one.id)
        return Answer.OK

    def evict(self, worker: str, lost: bool) -> list[str]:
        ids = sorted(i for i, t in self.tasks.items() if t.state in LIVE and t.worker == worker)
        for task_id in ids:
            if lost:
                self._infrastructure(task_id)
            else:
                self._back(task_id)
        self.claims.pop(worker, None)
        return ids

    def cancel(self, client: str, ids: list[str]) -> list[str]:
        answers = []
        for task_id in ids:
            task = self.tasks.get(task_id)
            if task is None or (client and task.client != client):
                answers.append("unknown")
            elif task.state.final:
                answers.append(task.state.value)
            else:
                self._finish(task_id, State.CANCELLED, "cancelled")
                answers.append("cancelled")
        return answers

    # Ends

    def _too_late(self, task_id: str) -> None:
        if not self.tasks[task_id].failures:
            self.tasks[task_id].why = self._why_late(self.tasks[task_id])
        self._finish(task_id, State.DEAD, "deadline")

    def _why_late(self, task: ModelTask) -> str:
        """Words of the answer that tell it from the others."""
        name = task.item.device_class
        last = self.served.get(name, 0)
        if task.state in LIVE:
            return "had not finished it"
        if task.leader:
            return "identical evaluation"
        if last < task.born:
            there = sorted(one for one, at in self.served.items() if at >= task.born)
            others = f"workers of {', '.join(there)} were" if there else "no worker at all was"
            return f"no worker of class {name} has been connected since it was submitted; {others}"
        away = self.now - last
        if away > SILENT_MS:
            return f"the last worker of class {name} was heard of {away // 1000} s before"
        return f"no worker of class {name} was free in time"

    def _back(self, task_id: str) -> None:
        self.tasks[task_id].state = State.QUEUED
        self._enqueue(task_id)

    def _infrastructure(self, task_id: str, outcome: str = "", result: bytes = b"") -> None:
        task = self.tasks[task_id]
        task.failures += 1
        if task.failures > self.limits.max_failures:
            self._finish(task_id, State.DEAD, "retries", outcome, result)
        else:
            self._back(task_id)

    def _announce(self, batch: str, task_id: str) -> None:
        record = self.batches[batch]
        record.events.append(task_id)
        if len(record.events) == len(set(record.ids)):
            record.expires = self.now + self.limits.result_ttl_ms

    def _finish(
        self, task_id: str, state: State, reason: str, outcome: str = "", result: bytes = b""
    ) -> None:
        task = self.tasks[task_id]
        task.state, task.reason, task.outcome, task.result = state, reason, outcome, result
        task.expires = self.now + self.limits.result_ttl_ms
        self.stored += len(result)
        self._retire(task.item.device_class, task.client)
        for batch in task.batches:
            self._announce(batch, task_id)
        shared = state is State.DONE and outcome != "infrastructure"
        if not shared and self.content.get(task.item.content) == task_id:
            del self.content[task.item.content]
        followers, task.followers = task.followers, []
        for other in followers:
            follower = self.tasks.get(other)
            if follower and follower.state is State.QUEUED and follower.leader == task_id:
                follower.leader = None
                if shared or reason == "retries":
                    self._finish(other, state, reason, outcome, result)
                else:
                    self._enqueue(other)

    def reap(self) -> tuple[int, int, int]:
        late = sorted(
            (t.deadline, i)
            for i, t in self.tasks.items()
            if not t.state.final and t.deadline <= self.now
        )
        for _, task_id in late:
            # An earlier one of the list may have sent its followers back; they are late themselves.
            if not self.tasks[task_id].state.final:
                self._too_late(task_id)
        expired = sorted(
            (t.lease_until, i)
            for i, t in self.tasks.items()
            if t.state in LIVE and t.lease_until <= self.now
        )
        for _, task_id in expired:
            self._infrastructure(task_id)
        old = [i for i, t in self.tasks.items() if t.expires is not None and t.expires <= self.now]
        for task_id in old:
            self._forget(task_id)
        gone = [b for b, r in self.batches.items() if r.expires and r.expires <= self.now]
        for batch in gone:
            del self.batches[batch]
        return len(late), len(expired), len(old) + len(gone)

    def _forget(self, task_id: str) -> None:
        task = self.tasks.pop(task_id)
        self.stored -= len(task.item.body) + len(task.result)
        if task.item.key:
            self.keys.pop((task.client, task.item.key), None)
        if self.content.get(task.item.content) == task_id:
            del self.content[task.item.content]
