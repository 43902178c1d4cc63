"""Where a policy's answers come from, as tables of a recipe. Imports neither torch nor httpx."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from drkernel.config import OPERATIONAL, Section


class PriceSettings(Section):
    """US dollars for a million tokens; None where the price is not known."""

    prompt_usd: float | None = Field(default=None, ge=0)
    """A million prompt tokens."""
    cached_usd: float | None = Field(default=None, ge=0)
    """A million prompt tokens read from the server's cache; None costs as much as others."""
    completion_usd: float | None = Field(default=None, ge=0)
    """A million tokens of answers, reasoning included."""


class LimitSettings(Section):
    """How fast an endpoint may be asked, and for how long it is asked again."""

    concurrency: Annotated[int, OPERATIONAL] = Field(default=64, ge=1)
    """Requests at once."""
    requests_per_minute: Annotated[float | None, OPERATIONAL] = Field(default=None, gt=0)
    """Requests in any minute; None for no limit."""
    tokens_per_minute: Annotated[float | None, OPERATIONAL] = Field(default=None, gt=0)
    """Tokens of prompts and answers in any minute; None for no limit."""
    timeout_s: Annotated[float, OPERATIONAL] = Field(default=900.0, gt=0)
    """Seconds until an answer must have begun and between its parts."""
    attempts: Annotated[int, OPERATIONAL] = Field(default=6, ge=1)
    """Failed requests (500s, timeouts, broken or malformed answers) until a call is given up. Being
    asked to wait (429, 503 with Retry-After) does not count."""
    patience_s: Annotated[float, OPERATIONAL] = Field(default=1800.0, gt=0)
    """Seconds until a call is given up, whatever the reason."""


class OpenAISettings(Section):
    """An OpenAI-compatible endpoint: a vendor's, or a vLLM or SGLang server."""

    base_url: Annotated[str, OPERATIONAL] = "http://127.0.0.1:8000/v1"
    """Address, up to and including the version."""
    key_variable: Annotated[str, OPERATIONAL] = "OPENAI_API_KEY"
    """Environment variable that holds the key; the key itself is stored nowhere."""
    context_tokens: int = Field(default=32_768, ge=256)
    """Most tokens of prompt and answer together."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """Name of the request's field for the longest answer."""
    extra_body: dict[str, object] = Field(default_factory=dict)
    """Further fields of the request, e.g. reasoning_effort or chat_template_kwargs. A value of None
    (in TOML: "omit") leaves a field out that would be sent, e.g. temperature."""
    token_ids: Literal["none", "try", "require"] = "none"
    """Ask for token ids and log-probabilities (vLLM's return_token_ids). require: an answer without
    them is malformed; what training needs."""
    weights: Literal["fixed", "sglang"] = "fixed"
    """How new weights are pushed: not at all, or by SGLang's update_weights_from_disk."""
    price: PriceSettings = PriceSettings()
    """What tokens cost."""
    limits: LimitSettings = LimitSettings()
    """Pace and patience."""


class TransformersSettings(Section):
    """A model in this process."""

    device: Annotated[str, OPERATIONAL] = "auto"
    """auto, cpu or cuda:N."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Type of the weights; auto: bfloat16 on a GPU, float32 on a CPU."""
    context_tokens: int | None = Field(default=None, ge=16)
    """Most tokens of prompt and answer; None takes the model's own limit."""
    chat: str = ""
    """Chat format (qwen3, qwen3-thinking, llama3); empty takes the tokenizer's own template."""
    batch: Annotated[int, OPERATIONAL] = Field(default=64, ge=1)
    """Answers drawn at once."""
    compiled: Annotated[bool | None, OPERATIONAL] = None
    """Static cache and compiled decoding; None: on a GPU only."""
    shortest_cache: Annotated[int, OPERATIONAL] = Field(default=1024, ge=1)
    """Fewest tokens of a static cache. Every length is compiled anew: the context's own makes it
    one compilation."""


class PolicySettings(Section):
    """Which policy, and how it is reached."""

    name: str = ""
    """``openai:MODEL``, ``transformers:FOLDER``, or a name that the verb knows."""
    openai: OpenAISettings = OpenAISettings()
    """For ``openai:``."""
    transformers: TransformersSettings = TransformersSettings()
    """For ``transformers:``."""
