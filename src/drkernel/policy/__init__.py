"""Ways to a model, all of them `drkernel.types.Policy`.

    openai      an OpenAI-compatible endpoint: a vendor's, or a vLLM or SGLang server
    in_process  a model of transformers in this process
    scripted    answers from a function or a list

`open_policy` makes one from a recipe's settings. Importing this package imports neither torch nor
transformers nor httpx.
"""

from drkernel.policy.accounting import Ledger
from drkernel.policy.opening import open_policy
from drkernel.policy.scripted import ScriptedPolicy
from drkernel.policy.settings import (
    LimitSettings,
    OpenAISettings,
    PolicySettings,
    PriceSettings,
    TransformersSettings,
)

__all__ = [
    "Ledger",
    "LimitSettings",
    "OpenAISettings",
    "PolicySettings",
    "PriceSettings",
    "ScriptedPolicy",
    "TransformersSettings",
    "open_policy",
]
