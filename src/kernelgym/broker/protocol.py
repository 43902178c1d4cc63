"""What goes in and out of the broker: plain data, no connection.

The states of a task say where it is, never what the verdict was. `valkey.py` turns these into calls
of the Lua script, and `tests/unit/broker/model.py` says in Python what the script must do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class State(StrEnum):
    """Where a task is; the last three are final."""

    QUEUED = "queued"
    LEASED = "leased"
    PREPARING = "preparing"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    DEAD = "dead"

    @property
    def final(self) -> bool:
        """Whether the task will never change again."""
        return self in (State.DONE, State.CANCELLED, State.DEAD)


class Kind(StrEnum):
    """How a worker gives a task back."""

    VERDICT = "verdict"
    """A result; also an infrastructure result that another attempt would only repeat."""
    RETRY = "retry"
    """The worker failed, not the candidate: counts towards the dead letter."""
    RELEASE = "release"
    """Not started, or drained: back to the queue, nothing counted."""


class Answer(StrEnum):
    """What the broker says to a worker about a task it holds, or thinks it holds."""

    OK = "ok"
    SAME = "same"
    """This very lease was settled before: a repeated call."""
    STALE = "stale"
    """The lease is over; whatever the worker found is refused."""
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Item:
    """One task of a batch, as it enters the queue."""

    id: str
    body: bytes
    digest: str
    """Hash of the whole request: the same key must come with the same digest."""
    content: str
    """Hash of what decides the verdict: tasks that share it share one evaluation."""
    key: str = ""
    """The client's idempotency key."""
    force: bool = False
    """Evaluate even if the verdict is known."""
    device_class: str = "any"
    priority: int = 5
    """0 (last) to 9 (first), among the tasks of the same client."""
    deadline_ms: int = 86_400_000
    """From now on; a task that is not finished by then ends as dead."""


@dataclass(frozen=True)
class Claimed:
    """A task leased to a worker."""

    id: str
    token: int
    client: str
    device_class: str
    remaining_ms: int
    """Until its deadline."""
    waited_ms: int
    """Since it was submitted."""
    body: bytes


@dataclass(frozen=True)
class Held:
    """A task that a worker says it holds, and how far it is."""

    id: str
    token: int
    stage: State = State.LEASED


@dataclass(frozen=True)
class Completion:
    """How a worker gives one task back."""

    id: str
    token: int
    kind: Kind
    outcome: str = ""
    result: bytes = b""
    detail: str = ""


@dataclass(frozen=True)
class TaskView:
    """What is known of a task."""

    id: str
    client: str
    state: State
    key: str = ""
    device_class: str = "any"
    priority: int = 5
    attempts: int = 0
    failures: int = 0
    outcome: str = ""
    reason: str = ""
    """Why it is dead: ``deadline`` or ``retries``."""
    detail: str = ""
    """The last infrastructure failure, or why nobody finished it in time."""
    worker: str = ""
    submitted_ms: int = 0
    claimed_ms: int = 0
    finished_ms: int = 0
    result: bytes = b""
    body: bytes = b""


@dataclass(frozen=True)
class BatchPage:
    """Finished tasks of a batch, from a cursor on."""

    client: str
    total: int
    done: int
    cursor: int
    tasks: tuple[tuple[int, TaskView], ...]
    """Each with the cursor behind it; those whose results have expired are left out."""


@dataclass(frozen=True)
class WorkerView:
    """A worker as it last described itself."""

    name: str
    seen_ms: int
    info: bytes


@dataclass(frozen=True)
class QueueStats:
    """The queue at one moment; counters run since the broker's data began."""

    states: dict[str, int]
    stored_bytes: int
    counters: dict[str, int]
    waiting: dict[str, dict[str, int]] = field(default_factory=dict)
    """Queued tasks by device class and client."""
    oldest_ms: dict[str, int] = field(default_factory=dict)
    """Age of the oldest queued task by device class."""


@dataclass(frozen=True)
class Limits:
    """What the broker keeps at most, and for how long."""

    result_ttl_ms: int = 86_400_000
    max_failures: int = 3
    """Infrastructure failures that a task survives; one more and it is dead."""
    max_queued: int = 200_000
    max_open_per_client: int = 100_000
    max_bytes: int = 4_000_000_000
    worker_ttl_ms: int = 600_000


class Refused(Exception):
    """Base of the broker's refusals; nothing was stored."""


class KeyConflict(Refused):
    """The key of item ``index`` (None: of the batch) is taken by a different request."""

    def __init__(self, index: int | None) -> None:
        super().__init__(
            f"key of item {index} is taken" if index is not None else "batch key taken"
        )
        self.index = index


class QueueFull(Refused):
    """A limit is reached: ``queue``, ``client`` or ``bytes``."""

    def __init__(self, limit: str) -> None:
        super().__init__(f"limit reached: {limit}")
        self.limit = limit


class BrokerUnavailable(Exception):
    """The broker does not answer, is loading, or cannot write."""
