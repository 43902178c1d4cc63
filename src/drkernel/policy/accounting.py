"""What a policy has used: every request and every token counted once, under one heading.

A request is ``accepted`` (its answer became a `Generation`), ``wasted`` (it was answered with usage
but the answer could not be used) or ``lost`` (sent, and nothing came back: what it cost is not
known). Not covered: bills; prices are those of the recipe, or what the endpoint says it charged.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields

from drkernel.policy.settings import PriceSettings

_MILLION = 1_000_000


@dataclass(frozen=True)
class Usage:
    """Tokens of one answer."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Reasoning included."""
    reasoning_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens that the server had in its cache; part of ``prompt_tokens``."""
    cost_usd: float | None = None
    """What the endpoint says it charged."""
    estimated: bool = False
    """Counted by us, because the endpoint did not say."""


def cost_of(usage: Usage, price: PriceSettings) -> float | None:
    """US dollars for an answer; None when neither the endpoint nor the recipe says.

    >>> price = PriceSettings(prompt_usd=2.0, cached_usd=0.5, completion_usd=10.0)
    >>> cost_of(Usage(1000, 100, cached_tokens=400), price)
    0.0024
    """
    if usage.cost_usd is not None:
        return usage.cost_usd
    if price.prompt_usd is None or price.completion_usd is None:
        return None
    cached_usd = price.prompt_usd if price.cached_usd is None else price.cached_usd
    fresh = usage.prompt_tokens - usage.cached_tokens
    total = fresh * price.prompt_usd + usage.cached_tokens * cached_usd
    return (total + usage.completion_tokens * price.completion_usd) / _MILLION


@dataclass
class Ledger:
    """Totals of a policy since it was made."""

    calls: int = 0
    """Calls of `generate` that ended with an answer."""
    failed: int = 0
    """Calls that ended with finish ``error``."""
    overflowed: int = 0
    """Calls that ended with finish ``context``."""
    cancelled: int = 0
    """Calls that were cancelled or ended with an exception."""
    requests: int = 0
    """Requests that were sent."""
    lost: int = 0
    """Requests without an answer: timeouts, broken connections, cancelled ones."""
    retried: Counter[str] = field(default_factory=Counter)
    """Requests that were followed by another one, by reason."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0
    wasted_prompt_tokens: int = 0
    wasted_completion_tokens: int = 0
    estimated: int = 0
    """Answers whose tokens were counted by us."""
    cost_usd: float = 0.0
    """Of all answers with a known cost, wasted ones included."""
    unpriced: int = 0
    """Answers whose cost is not known."""

    def accept(self, usage: Usage, cost_usd: float | None) -> None:
        """An answer that became a generation."""
        self.calls += 1
        self.prompt_tokens += usage.prompt_tokens
        self.completion_tokens += usage.completion_tokens
        self.reasoning_tokens += usage.reasoning_tokens
        self.cached_tokens += usage.cached_tokens
        self.estimated += usage.estimated
        self._pay(cost_usd)

    def waste(self, usage: Usage, cost_usd: float | None) -> None:
        """An answer that was paid for and could not be used."""
        self.wasted_prompt_tokens += usage.prompt_tokens
        self.wasted_completion_tokens += usage.completion_tokens
        self._pay(cost_usd)

    def _pay(self, cost_usd: float | None) -> None:
        self.cost_usd += cost_usd or 0.0
        self.unpriced += cost_usd is None

    def as_metrics(self) -> dict[str, float]:
        """Flat numbers, ``retried`` by reason."""
        flat = {f.name: float(getattr(self, f.name)) for f in fields(self) if f.name != "retried"}
        return flat | {f"retried_{why}": float(n) for why, n in sorted(self.retried.items())}
