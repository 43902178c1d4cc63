"""Policies by name, the scripted teacher among them."""

from __future__ import annotations

from drkernel.collect.teacher.policy import ScriptedTeacher, TeacherSettings
from drkernel.policy import PolicySettings, open_policy
from drkernel.types import Policy
from kernelgym.errors import UsageError


class AnyPolicySettings(PolicySettings):
    """Which policy, and how it is reached."""

    name: str = ""
    """openai:MODEL, transformers:FOLDER, or teacher: the scripted one, for working offline."""
    teacher: TeacherSettings = TeacherSettings()
    """For ``teacher``."""


def open_any_policy(settings: AnyPolicySettings, backend: str) -> Policy:
    """The policy that the settings name, for candidates in ``backend``.

    Raises `UsageError` for a name of no known kind, or a backend that the teacher cannot write.
    """
    if settings.name != "teacher":
        if not settings.name:
            raise UsageError(
                "no policy is named",
                hint="--policy.name openai:MODEL, transformers:FOLDER or teacher",
            )
        return open_policy(settings)
    if backend == "triton":
        return ScriptedTeacher(settings.teacher, language="triton")
    if backend == "numba":
        return ScriptedTeacher(settings.teacher, language="numba")
    raise UsageError(
        f"the scripted teacher writes no {backend}",
        hint="--episode.judging.backend triton, or numba",
    )
