"""Wire types of the service's HTTP interface, version 1; server, client and workers share them.

Like the types of `kernelgym.schema`: frozen, requests forbid unknown fields, answers ignore them.
Importing this module imports neither FastAPI nor redis nor torch.
"""

from __future__ import annotations

import hashlib
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from kernelgym.schema import EVALUATOR_VERSION, EvalResult, Outcome, Submission

MAX_BATCH_ITEMS = 1_000
"""Most evaluations in one request."""
DEFAULT_PORT = 10907
NAME = r"^[A-Za-z0-9][A-Za-z0-9._:@-]*$"
"""Names of workers, clients and device classes."""
KEY = r"^[\x21-\x7e]*$"
"""Keys: printable ASCII without spaces."""

TaskState = Literal["queued", "leased", "preparing", "running", "done", "cancelled", "dead"]
FINAL_STATES = ("done", "cancelled", "dead")
TaskStage = Literal["leased", "preparing", "running"]
"""How far a worker is: it has the task; judge and candidate are being started, or wait for the
device; the candidate computes."""


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class EvaluationRequest(_Request):
    """One submission and how it is to be queued."""

    submission: Submission
    """What to judge."""
    key: str = Field(default="", max_length=200, pattern=KEY)
    """Idempotency key: the same key and content give the same evaluation, never a second one."""
    priority: int = Field(default=5, ge=0, le=9)
    """9 before 0, among the evaluations of the same client."""
    device: str = Field(default="any", max_length=64, pattern=NAME)
    """``any``, ``cpu``, ``gpu`` or a class of GPU, such as ``h200``."""
    deadline_s: float = Field(default=86_400.0, gt=0, le=7 * 86_400)
    """After so many seconds the answer is useless: the evaluation ends as ``dead``."""
    force: bool = False
    """Evaluate even if the same content was evaluated before."""

    def content_hash(self) -> str:
        """SHA-256 over what decides the verdict, the judging rules' version included."""
        decides = self.submission.model_dump_json(exclude={"task": {"origin", "labels"}})
        return hashlib.sha256(f"{EVALUATOR_VERSION}\0{self.device}\0{decides}".encode()).hexdigest()

    def digest(self, content_hash: str) -> str:
        """SHA-256 over what a key stands for; deadline and priority may differ on a repetition."""
        labels = sorted(self.submission.task.labels.items())
        more = f"{content_hash}\0{self.force}\0{self.submission.task.origin}\0{labels}"
        return hashlib.sha256(more.encode()).hexdigest()


class BatchRequest(_Request):
    """Several evaluations, accepted together or not at all."""

    items: tuple[EvaluationRequest, ...] = Field(min_length=1, max_length=MAX_BATCH_ITEMS)
    """The evaluations."""


class Accepted(_Answer):
    """The evaluations are stored and will be judged."""

    batch: str
    """Id of the batch; wait on it."""
    ids: tuple[str, ...]
    """Ids of the evaluations, in the order of the request."""
    repeated: bool = False
    """True when this very batch was accepted before."""
    warnings: tuple[str, ...] = ()
    """What may keep them waiting: no worker of a class is connected at this moment."""


class Evaluation(_Answer):
    """An evaluation in the gym."""

    id: str
    """Its id."""
    state: TaskState
    """Where it is; the verdict is in ``result``."""
    key: str = ""
    """The client's key."""
    device: str = "any"
    """The class of device it asked for."""
    priority: int = 5
    """As in the request."""
    attempts: int = 0
    """How often a worker took it."""
    failures: int = 0
    """How often the gym failed it (never the candidate's doing)."""
    reason: str = ""
    """Why it is ``dead``: ``deadline`` or ``retries``."""
    detail: str = ""
    """The gym's last failure, or why nobody finished it by its deadline."""
    worker: str = ""
    """The worker that took it last."""
    submitted_ms: int = 0
    """Unix time in milliseconds, by the broker's clock."""
    claimed_ms: int = 0
    """When a worker took it last; 0 for never."""
    finished_ms: int = 0
    """When it ended; 0 for not yet."""
    cursor: int | None = None
    """In a batch's results: pass it as ``after`` to get what follows."""
    result: EvalResult | None = None
    """The verdict, once ``state`` is ``done``; of a dead one, the last infrastructure result."""

    @property
    def final(self) -> bool:
        """Whether it has ended."""
        return self.state in FINAL_STATES

    @property
    def verdict(self) -> EvalResult | None:
        """The result, unless the gym or the reference failed: then there is no reward at all."""
        if self.state != "done" or self.result is None:
            return None
        return None if self.result.outcome is Outcome.INFRASTRUCTURE else self.result


class Cancelled(_Answer):
    """What became of a request to cancel."""

    states: dict[str, str]
    """Per id: ``cancelled``, the final state it was in already, or ``unknown``."""


class Problem(_Answer):
    """An error, after RFC 9457; ``code`` is stable, the words are not."""

    type: str
    title: str
    status: int
    code: str
    detail: str = ""
    index: int | None = None
    """Item of the batch that is at fault."""
    errors: tuple[dict[str, str], ...] = ()
    """Fields that are at fault: ``where``, ``what``."""


# Workers


class DeviceState(_Answer):
    """One device of a worker."""

    name: str
    """``cpu``, or ``cuda:0``."""
    model: str = ""
    """Name of the GPU."""
    uuid: str = ""
    """UUID of the GPU."""
    state: Literal["ready", "starting", "quarantined", "stopped"] = "ready"
    """Quarantined: it failed its health check and takes no work."""
    note: str = ""
    """Why, when it is not ready."""
    held: int = 0
    """Evaluations in its hands."""
    done: int = 0
    """Evaluations it has finished."""


class WorkerInfo(_Answer):
    """How a worker describes itself in its heartbeats."""

    host: str = ""
    pid: int = 0
    classes: tuple[str, ...] = ()
    slots: int = 1
    jail: str = ""
    """Level of confinement that its self-attack reached."""
    draining: bool = False
    devices: tuple[DeviceState, ...] = ()
    versions: dict[str, str] = Field(default_factory=dict)


class WorkerStatus(_Answer):
    """A worker, as the gym sees it."""

    name: str
    seen_s: float
    """Seconds since its last heartbeat."""
    alive: bool
    info: WorkerInfo


class ClaimRequest(_Request):
    """A worker asks for work."""

    request: str = Field(min_length=1, max_length=64, pattern=NAME)
    """Name of this request: a repetition gets the same tasks."""
    classes: tuple[str, ...] = Field(min_length=1, max_length=8)
    limit: int = Field(default=1, ge=1, le=256)
    wait_s: float = Field(default=0.0, ge=0, le=60)


class LeasedTask(_Answer):
    """Work for a worker."""

    id: str
    token: int
    remaining_s: float
    submission: Submission


class ClaimAnswer(_Answer):
    """Tasks leased to the worker, and for how long."""

    tasks: tuple[LeasedTask, ...] = ()
    lease_s: float = 30.0


class HeldTask(_Request):
    """A task in the worker's hands."""

    id: str = Field(max_length=64)
    token: int = Field(ge=0, le=2**40)
    stage: TaskStage = "leased"


class HeartbeatRequest(_Request):
    """The worker lives, and holds these."""

    info: WorkerInfo
    held: tuple[HeldTask, ...] = Field(default=(), max_length=4096)


class HeartbeatAnswer(_Answer):
    """Per task held: ``ok``, ``stale`` or ``cancelled``; and how long the leases are now."""

    answers: tuple[str, ...]
    lease_s: float = 30.0


class Settlement(_Request):
    """How the worker gives one task back."""

    id: str = Field(max_length=64)
    token: int = Field(ge=0, le=2**40)
    kind: Literal["verdict", "retry", "release"]
    detail: str = Field(default="", max_length=2000)
    result: EvalResult | None = None


class CompleteRequest(_Request):
    """Tasks that the worker gives back."""

    items: tuple[Settlement, ...] = Field(min_length=1, max_length=1024)


class WorkAnswers(_Answer):
    """Per task given back: ``ok``, ``same``, ``stale`` or ``cancelled``."""

    answers: tuple[str, ...]


class QueueView(_Answer):
    """The queue at one moment."""

    states: dict[str, int]
    waiting: dict[str, dict[str, int]]
    """Queued evaluations by device class and client."""
    oldest_s: dict[str, float]
    """Age of the oldest queued evaluation by device class."""
    counters: dict[str, int]
    stored_bytes: int
    connected: tuple[str, ...] = ()
    """Device classes of which a worker is connected."""
