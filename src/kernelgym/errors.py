"""One tree of exceptions; never one for "the candidate is wrong", which is a result.

KernelGymError
|- UsageError       the caller asked for something that cannot be done        (exit code 2)
|- ServiceError     the gym or the machine failed, not the candidate          (exit code 3)
|  |- SandboxError  a process could not be confined, started or ended
|  `- TransportError a peer broke the protocol between our own processes, or went away
`- TaskError        the reference is at fault; becomes the outcome `infrastructure`
"""

from __future__ import annotations


class KernelGymError(Exception):
    """Base of everything this package raises on purpose.

    ``hint`` is the next thing to try, as a command where there is one; the CLI prints it last.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(KernelGymError):
    """The request itself is at fault: a missing file, an unknown backend, a bad option."""


class ServiceError(KernelGymError):
    """The gym, the machine or a GPU failed; the candidate is not to blame."""


class SandboxError(ServiceError):
    """A process could not be confined, started, or proved dead."""


class TransportError(ServiceError):
    """A trusted peer (zygote, judge) broke its protocol or went away."""


class TaskError(KernelGymError):
    """The reference is at fault; ``code`` is one of the ``reference_*`` codes of the schema."""

    def __init__(
        self, code: str, message: str, *, traceback: str = "", hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.traceback = traceback
