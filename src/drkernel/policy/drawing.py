"""Answers of a causal language model, drawn in a batch: exact ids, and exact log-probabilities.

The loop is transformers' ``generate`` (its caches, its compiled decoding); the draw is ours. A
logits processor draws each row's next token from its own stream of uniform numbers by inverting the
cumulative distribution in float64, notes the token's log-probability under just that distribution
(temperature and nucleus applied), and leaves ``generate`` no other choice. So a row depends on its
own seed and not on its neighbours' draws, and what is noted is what was drawn from.

At temperature 0 the likeliest token is taken, and its log-probability is that of temperature 1.

With ``compiled`` the cache is static and decoding is compiled; prompts, lengths and the batch are
rounded up to few sizes, because every new shape costs a compilation. Not covered: beam search,
penalties, anything that looks at earlier tokens. Imports torch and transformers when called.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

_PROMPT_STEP = 128
SHORTEST_CACHE = 1024
_LARGE_BATCH = 64
"""From here on there is a second, smaller size for the few rows that are left over."""


@dataclass(frozen=True)
class Row:
    """One answer to draw."""

    prompt_ids: tuple[int, ...]
    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    """None draws afresh."""
    stop: tuple[str, ...] = ()


@dataclass(frozen=True)
class Drawn:
    """One answer."""

    token_ids: tuple[int, ...]
    """End token included."""
    logprobs: tuple[float, ...]
    stopped: bool
    """It ended by itself: an end token, or one of the texts that stop it."""


def draw(
    model: Any,
    rows: Sequence[Row],
    *,
    end_ids: Sequence[int],
    pad_id: int,
    decode: Callable[[Sequence[int]], str],
    compiled: bool = False,
    batch: int | None = None,
    shortest_cache: int = SHORTEST_CACHE,
) -> list[Drawn]:
    """Draw an answer for each row.

    Args:
        model: a causal language model of transformers.
        rows: prompts of any lengths, each of at least one token.
        end_ids: tokens that end an answer.
        pad_id: token for places that mean nothing.
        decode: ids to text, for rows with ``stop``.
        compiled: static cache and compiled decoding; worth it on a GPU only.
        batch: with ``compiled``, the number of rows to round up to.
        shortest_cache: with ``compiled``, the fewest tokens of a cache.
    """
    import torch
    from transformers import GenerationConfig

    filled = _filled(rows, batch) if compiled else list(rows)
    width = max(len(row.prompt_ids) for row in filled)
    steps = max(row.max_tokens for row in filled)
    length = width + steps
    if compiled:
        width = _up(width, _PROMPT_STEP)
        length = max(shortest_cache, 1 << (width + steps - 1).bit_length())
    ids = torch.full((len(filled), width), pad_id, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for index, row in enumerate(filled):
        ids[index, width - len(row.prompt_ids) :] = torch.tensor(row.prompt_ids)
        mask[index, width - len(row.prompt_ids) :] = 1
    chooser = _Chooser(filled, steps, model.device)
    settings = GenerationConfig(
        do_sample=False,
        max_length=length,
        eos_token_id=list(end_ids),
        pad_token_id=pad_id,
        use_cache=True,
        **({"cache_implementation": "static"} if compiled else {}),
    )
    with _in_eval_mode(model):
        model.generate(
            ids.to(model.device),
            attention_mask=mask.to(model.device),
            generation_config=settings,
            logits_processor=[chooser],
            stopping_criteria=[_Ends(filled, width, decode)],
        )
    return chooser.drawn(rows, frozenset(end_ids), decode)


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _filled(rows: Sequence[Row], batch: int | None) -> list[Row]:
    """The rows, and more of the shortest kind, up to one of few sizes."""
    size = len(rows)
    if batch is not None:
        small = batch // 8 if batch >= _LARGE_BATCH else batch
        size = small if size <= small else max(batch, size)
    spare = Row(rows[0].prompt_ids[-1:], max_tokens=1, seed=0)
    return [*rows, *[spare] * (size - len(rows))]


@contextlib.contextmanager
def _in_eval_mode(model: Any) -> Iterator[None]:
    """Dropout off while drawing, and as it was afterwards."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


class _Chooser:
    """Logits processor that draws: what it returns leaves the likeliest token no rival."""

    def __init__(self, rows: Sequence[Row], steps: int, device: Any) -> None:
        import torch

        uniform = [np.random.default_rng(row.seed).random(steps) for row in rows]
        self._uniform = torch.from_numpy(np.stack(uniform)).to(device)
        self._greedy = torch.tensor([[row.temperature == 0] for row in rows]).to(device)
        warmth = [[row.temperature or 1.0] for row in rows]
        self._temperature = torch.tensor(warmth, dtype=torch.float32).to(device)
        self._top_p = torch.tensor([[row.top_p] for row in rows], dtype=torch.float32).to(device)
        self._has_greedy = any(row.temperature == 0 for row in rows)
        self._has_nucleus = any(row.top_p < 1 for row in rows)
        self._tokens: list[Tensor] = []
        self._logprobs: list[Tensor] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        import torch

        logp = torch.log_softmax(scores.float() / self._temperature, dim=-1)
        if self._has_nucleus:
            logp = self._nucleus(logp)
        step = min(len(self._tokens), self._uniform.shape[1] - 1)  # it may be called once too often
        cumulative = logp.double().exp_().cumsum(dim=-1)
        threshold = self._uniform[:, step : step + 1] * cumulative[:, -1:]
        chosen = torch.searchsorted(cumulative, threshold, right=True)
        chosen = chosen.clamp_(max=scores.shape[-1] - 1)
        if self._has_greedy:
            chosen = torch.where(self._greedy, logp.argmax(dim=-1, keepdim=True), chosen)
        self._tokens.append(chosen)
        self._logprobs.append(logp.gather(-1, chosen))
        return torch.full_like(scores, -torch.inf).scatter_(-1, chosen, 0.0)

    def _nucleus(self, logp: Tensor) -> Tensor:
        """The smallest set of likeliest tokens whose probability reaches top_p, renormalised."""
        import torch

        ordered, order = logp.sort(dim=-1, descending=True)
        probabilities = ordered.exp()
        before = probabilities.cumsum(dim=-1) - probabilities
        outside = (before >= self._top_p) & (self._top_p < 1)
        kept = logp.masked_fill(torch.zeros_like(outside).scatter_(-1, order, outside), -torch.inf)
        return kept - kept.logsumexp(dim=-1, keepdim=True)

    def drawn(
        self, rows: Sequence[Row], end_ids: frozenset[int], decode: Callable[[Sequence[int]], str]
    ) -> list[Drawn]:
        """The answers, each cut where it ends."""
        import torch

        tokens_BL = torch.cat(self._tokens, dim=1).tolist()
        logprobs_BL = torch.cat(self._logprobs, dim=1).tolist()
        found = []
        for row, tokens, logprobs in zip(rows, tokens_BL, logprobs_BL, strict=False):
            length, stopped = _end(row, tokens, end_ids, decode)
            found.append(Drawn(tuple(tokens[:length]), tuple(logprobs[:length]), stopped))
        return found


class _Ends:
    """Stopping criterion: a row has had its tokens, or wrote a text that stops it."""

    def __init__(
        self, rows: Sequence[Row], width: int, decode: Callable[[Sequence[int]], str]
    ) -> None:
        self._rows, self._width, self._decode = rows, width, decode
        self._limits: Tensor | None = None
        self._watched = [index for index, row in enumerate(rows) if row.stop]

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        import torch

        if self._limits is None:
            limits = [row.max_tokens for row in self._rows]
            self._limits = torch.tensor(limits, device=input_ids.device)
        done = self._limits <= input_ids.shape[1] - self._width
        for index in self._watched:
            tail = input_ids[index, self._width :].tolist()
            done[index] |= stop_at(tail, self._rows[index].stop, self._decode) is not None
        return done


def _end(
    row: Row,
    tokens: Sequence[int],
    end_ids: frozenset[int],
    decode: Callable[[Sequence[int]], str],
) -> tuple[int, bool]:
    """Length of an answer in tokens, and whether it ended by itself."""
    limit = min(row.max_tokens, len(tokens))
    end = next((n + 1 for n in range(limit) if tokens[n] in end_ids), None)
    length = limit if end is None else end
    if row.stop:
        text = stop_at(tokens[:length], row.stop, decode)
        if text is not None:
            return text, True
    return length, end is not None


def stop_at(
    tokens: Sequence[int], stop: Sequence[str], decode: Callable[[Sequence[int]], str]
) -> int | None:
    """How many tokens it takes to write one of the texts; None when none is written."""

    def wrote(count: int) -> bool:
        text = decode(tokens[:count])
        return any(each in text for each in stop)

    if not wrote(len(tokens)):
        return None
    low, high = 1, len(tokens)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if wrote(middle) else (middle + 1, high)
    return low
