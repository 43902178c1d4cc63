"""A policy from its name: ``openai:MODEL`` or ``transformers:FOLDER``. Imports what it opens."""

from __future__ import annotations

from drkernel.policy.settings import PolicySettings
from drkernel.types import Policy
from kernelgym.errors import UsageError


def open_policy(settings: PolicySettings) -> Policy:
    """The policy that the settings name.

    Raises:
        UsageError: for a name of no known kind, or a model that cannot be loaded.
    """
    kind, _, model = settings.name.partition(":")
    if not model:
        raise UsageError(
            f"policy {settings.name!r} names no model",
            hint="--policy.name openai:MODEL or transformers:FOLDER",
        )
    if kind == "openai":
        from drkernel.policy.openai import OpenAIPolicy

        return OpenAIPolicy(model, settings.openai)
    if kind == "transformers":
        from drkernel.policy.in_process import TransformersPolicy

        return TransformersPolicy.from_folder(model, settings.transformers)
    raise UsageError(
        f"no policy of kind {kind!r}", hint="--policy.name openai:MODEL or transformers:FOLDER"
    )
