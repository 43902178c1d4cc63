"""Client of the gym: `Gym` for ordinary code, `AsyncGym` for asyncio, the same calls in both.

    from kernelgym.client import Gym
    with Gym() as gym:
        results = gym.map(submissions)          # EvalResult, or None where the gym failed
        batch = gym.submit(submissions)
        for evaluation in gym.results(batch):   # as they end
            ...

What happens when the gym is down. Every call is repeated (after 429, 5xx, refused and broken
connections, timeouts; with jitter and the server's Retry-After; submissions with the same keys, so
nothing is evaluated twice) until the gym has been away for ``patience_s``; then `GymUnavailable` is
raised. Evaluations that were accepted go on without the client. If the gym comes back without its
data, they are submitted again. `map` never turns a fault of the gym into a zero: what ended as
infrastructure, was cancelled, hit its deadline or did not end within ``timeout_s`` is None.
"""

from kernelgym.api import Evaluation, EvaluationRequest, QueueView, WorkerStatus
from kernelgym.client.aio import AsyncGym
from kernelgym.client.batch import Batch
from kernelgym.client.faults import GymRefused, GymUnavailable
from kernelgym.client.sync import Gym

__all__ = [
    "AsyncGym",
    "Batch",
    "Evaluation",
    "EvaluationRequest",
    "Gym",
    "GymRefused",
    "GymUnavailable",
    "QueueView",
    "WorkerStatus",
]
