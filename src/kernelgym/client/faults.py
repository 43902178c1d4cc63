"""What a client raises; a candidate that failed is a result, never one of these."""

from __future__ import annotations

from kernelgym.api import Problem
from kernelgym.errors import ServiceError, UsageError


class GymUnavailable(ServiceError):
    """The gym did not answer, or had no room, for longer than the client's patience."""


class GymRefused(UsageError):
    """The gym answers, and will not do this however often it is asked; ``problem`` says why."""

    def __init__(self, problem: Problem) -> None:
        words = problem.detail or problem.title
        faults = "; ".join(f"{one['where']}: {one['what']}" for one in problem.errors[:3])
        super().__init__(f"{problem.code}: {words}" + (f" ({faults})" if faults else ""))
        self.problem = problem
        if problem.code in ("unauthorized", "forbidden"):
            self.hint = "set KERNELGYM_TOKEN, or pass --token-file FILE"
