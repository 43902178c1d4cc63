"""A batch in the client's hands: what was submitted, what has ended, how to go on.

Large batches travel in parts that the server accepts. A part whose data the gym has lost is
submitted again with the same keys; what had ended before is not reported twice.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kernelgym.api import MAX_BATCH_ITEMS, Evaluation, EvaluationRequest
from kernelgym.client.calls import Flow, ask, read_accepted, read_results, results_call, submit_call
from kernelgym.client.faults import GymRefused
from kernelgym.schema import Submission

MAX_PART_BYTES = 16 << 20
POLL_S = 20.0


@dataclass
class Part:
    """One batch, as the server knows it."""

    requests: tuple[EvaluationRequest, ...]
    key: str
    id: str = ""
    ids: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    cursor: int = 0
    ended: dict[str, Evaluation] = field(default_factory=dict)
    """By key."""

    def __post_init__(self) -> None:
        self._keys = len({request.key for request in self.requests})

    @property
    def over(self) -> bool:
        """Whether everything has ended; asked after every answer, so it must not count."""
        return len(self.ended) == self._keys


class Batch:
    """Evaluations submitted together; the order is that of the request."""

    def __init__(self, requests: Sequence[EvaluationRequest]) -> None:
        self.parts = [Part(tuple(part), uuid.uuid4().hex) for part in _cut(requests)]

    def __len__(self) -> int:
        return sum(len(part.requests) for part in self.parts)

    @property
    def ids(self) -> list[str]:
        """Ids of the evaluations, in order."""
        return [one for part in self.parts for one in part.ids]

    @property
    def warnings(self) -> list[str]:
        """What the gym said when it accepted them: a class of device without a worker."""
        return list(dict.fromkeys(one for part in self.parts for one in part.warnings))

    @property
    def done(self) -> int:
        """How many have ended, as far as this client knows."""
        return sum(request.key in part.ended for part in self.parts for request in part.requests)

    @property
    def over(self) -> bool:
        """Whether all have ended."""
        return all(part.over for part in self.parts)

    @property
    def evaluations(self) -> list[Evaluation | None]:
        """What has ended, in order; None for what has not."""
        return [part.ended.get(r.key) for part in self.parts for r in part.requests]

    def submit_flow(self, patience_s: float) -> Flow[None]:
        """Submit every part that is not submitted yet."""
        for part in self.parts:
            if not part.id:
                yield from _submit(part, patience_s)

    def news_flow(self, patience_s: float, wait_s: float) -> Flow[list[Evaluation]]:
        """Wait for the next evaluations to end; empty when none did."""
        part = next((one for one in self.parts if not one.over), None)
        if part is None:
            return []
        try:
            reply = yield from ask(results_call(part.id, part.cursor, wait_s), patience_s)
        except GymRefused as refusal:
            if refusal.problem.code != "not_found":
                raise
            return (yield from _again(part, patience_s))
        fresh = [one for one in read_results(reply) if one.key not in part.ended]
        part.ended |= {one.key: one for one in fresh}
        total, done, cursor = (
            int(reply.headers.get(f"kernelgym-{name}", 0)) for name in ("total", "done", "cursor")
        )
        # A broker that came back without its last second has fewer events than we have seen.
        part.cursor = 0 if done < cursor else cursor
        if not part.over and cursor >= done >= total:
            return (yield from _again(part, patience_s))
        return fresh


def _again(part: Part, patience_s: float) -> Flow[list[Evaluation]]:
    """Submit a part whose data the gym has lost, or whose results have expired."""
    part.key, part.cursor = uuid.uuid4().hex, 0
    yield from _submit(part, patience_s)
    return []


def _submit(part: Part, patience_s: float) -> Flow[None]:
    reply = yield from ask(submit_call(part.requests, part.key), patience_s)
    accepted = read_accepted(reply)
    part.id, part.ids, part.warnings = accepted.batch, accepted.ids, accepted.warnings


def requests_of(
    what: Submission | EvaluationRequest | Iterable[Submission | EvaluationRequest],
    **options: object,
) -> list[EvaluationRequest]:
    """Requests with keys, from whatever the caller has; ``options`` are for bare submissions."""
    single = isinstance(what, Submission | EvaluationRequest)
    listed = [what] if single else list(what)
    return [_with_key(one, options) for one in listed]  # type: ignore[arg-type]


def _with_key(one: Submission | EvaluationRequest, options: dict[str, object]) -> EvaluationRequest:
    if isinstance(one, Submission):
        one = EvaluationRequest.model_validate({"submission": one, **options})
    return one if one.key else one.model_copy(update={"key": uuid.uuid4().hex})


def _cut(requests: Sequence[EvaluationRequest]) -> list[list[EvaluationRequest]]:
    parts: list[list[EvaluationRequest]] = []
    size = 0
    for request in requests:
        submission = request.submission
        bytes_here = 2 * (len(submission.source) + len(submission.task.reference)) + 1000
        full = size + bytes_here > MAX_PART_BYTES or (parts and len(parts[-1]) >= MAX_BATCH_ITEMS)
        if not parts or full:
            parts.append([])
            size = 0
        parts[-1].append(request)
        size += bytes_here
    return parts
