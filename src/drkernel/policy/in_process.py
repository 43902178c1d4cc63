"""Policy ``transformers``: a model in this process, on a GPU or a CPU.

Calls that wait at the same time are answered in one batch (`drkernel.policy.drawing`). All work on
models happens in one thread: compiled decoding is bound to the thread it was made in, and weights
never change in the middle of an answer.

A batch that does not fit the GPU's memory is halved and tried again. Not covered: several GPUs, and
joining a batch that is under way (a served engine does that: `drkernel.policy.openai`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from drkernel.policy.accounting import Ledger, Usage
from drkernel.policy.drawing import Drawn, Row, draw
from drkernel.policy.encoding import ChatEncoder
from drkernel.policy.seeds import seed_of
from drkernel.policy.settings import TransformersSettings
from drkernel.policy.weights import load_into
from drkernel.types import Generation, Message, Sampling
from kernelgym.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

    from drkernel.rollout.rooms import Rooms

_GATHER_S = 0.005
"""How long a first call waits for others to join its batch."""


@dataclass(frozen=True)
class _Asked:
    row: Row
    answer: asyncio.Future[Drawn | str]
    """An answer, or why there is none."""


class TransformersPolicy:
    """A causal language model of transformers with its tokenizer."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        settings: TransformersSettings | None = None,
        *,
        name: str = "transformers",
    ) -> None:
        """``model`` is used where it is, and as it is; `push_weights` changes it in place."""
        settings = settings or TransformersSettings()
        self.name = name
        self.encoder = ChatEncoder(tokenizer, settings.chat)
        self.context_tokens = _context(model, settings)
        self.version = 0
        self.ledger = Ledger()
        self.model = model
        self._compiled = (
            model.device.type == "cuda" if settings.compiled is None else settings.compiled
        )
        self._batch = settings.batch
        self._shortest_cache = settings.shortest_cache
        self._end_ids = self.encoder.end_ids(model)
        pad = tokenizer.pad_token_id
        self._pad_id = self._end_ids[0] if pad is None else int(pad)
        self._thread = _model_thread()
        self._waiting: list[_Asked] = []
        self._drain_task: asyncio.Task[None] | None = None
        self.rooms: Rooms | None = None
        """Set by a gym that judges on the same GPU (`drkernel.rollout.rooms`)."""

    @property
    def device(self) -> str:
        """``cpu`` or ``cuda:N``."""
        device = self.model.device
        return device.type if device.type == "cpu" else f"{device.type}:{device.index or 0}"

    @classmethod
    def from_folder(cls, path: str | Path, settings: TransformersSettings | None = None) -> Self:
        """Load a model and its tokenizer from a folder, or from the local cache of the hub.

        Raises:
            UsageError: there is no such model.
        """
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        settings = settings or TransformersSettings()
        device = settings.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        dtype = settings.dtype
        if dtype == "auto":
            dtype = "bfloat16" if device.startswith("cuda") else "float32"
        try:
            tokenizer = AutoTokenizer.from_pretrained(str(path))
            model: Any = AutoModelForCausalLM.from_pretrained(
                str(path), dtype=getattr(torch, dtype)
            )
        except (OSError, ValueError) as error:
            raise UsageError(
                f"cannot load a model from {path}: {_reason(path, error)}",
                hint=f"hf download ORGANISATION/MODEL --local-dir {path}",
            ) from error
        return cls(model.to(device), tokenizer, settings, name=f"transformers:{path}")

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Exact."""
        return len(self.encoder.prompt_ids(messages))

    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, *, key: str
    ) -> Generation:
        """As `drkernel.types.Policy.generate`; the same seed and key give the same draw."""
        prompt_ids = self.encoder.prompt_ids(messages)
        room = self.context_tokens - len(prompt_ids)
        if room < 1:
            self.ledger.overflowed += 1
            why = f"the prompt has {len(prompt_ids)} tokens, the model {self.context_tokens}"
            return Generation(text="", finish="context", error=why)
        row = Row(
            prompt_ids=prompt_ids,
            max_tokens=min(sampling.max_tokens, room),
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            seed=None if sampling.seed is None else seed_of(sampling.seed, key),
            stop=sampling.stop,
        )
        drawn = await self._ask(row)
        if isinstance(drawn, str):
            self.ledger.failed += 1
            return Generation(text="", finish="error", error=drawn)
        return self._generation(row, drawn)

    def _generation(self, row: Row, drawn: Drawn) -> Generation:
        text, reasoning = self.encoder.answer(drawn.token_ids)
        for stop in row.stop:
            text = text.partition(stop)[0]
        self.ledger.accept(Usage(len(row.prompt_ids), len(drawn.token_ids)), 0.0)
        return Generation(
            text=text,
            reasoning=reasoning,
            finish="stop" if drawn.stopped else "length",
            prompt_ids=row.prompt_ids,
            token_ids=drawn.token_ids,
            logprobs=drawn.logprobs,
            prompt_tokens=len(row.prompt_ids),
            completion_tokens=len(drawn.token_ids),
        )

    async def _ask(self, row: Row) -> Drawn | str:
        asked = _Asked(row, asyncio.get_running_loop().create_future())
        self._waiting.append(asked)
        if self._drain_task is None or self._drain_task.done():
            self._drain_task = asyncio.create_task(self._drain())
        self.ledger.requests += 1
        return await asked.answer

    async def _drain(self) -> None:
        """Answer what waits, batch by batch, until nothing does."""
        loop = asyncio.get_running_loop()
        part: list[_Asked] = []
        try:
            await asyncio.sleep(_GATHER_S)
            async with self.rooms.inside("answers") if self.rooms else contextlib.nullcontext():
                while self._waiting:
                    part, self._waiting = self._waiting[: self._batch], self._waiting[self._batch :]
                    part = [asked for asked in part if not asked.answer.done()]
                    if part:
                        found = await loop.run_in_executor(self._thread, self._draw, part)
                        self._settle(part, found)
        except Exception as error:  # noqa: BLE001 - raised where the answers are awaited
            for asked in self._abandoned(part):
                asked.answer.set_exception(error)
        except asyncio.CancelledError:
            for asked in self._abandoned(part):
                asked.answer.cancel()
            raise

    def _abandoned(self, part: list[_Asked]) -> list[_Asked]:
        """Everything that has no answer and will get none."""
        everything, self._waiting = [*part, *self._waiting], []
        return [asked for asked in everything if not asked.answer.done()]

    def _draw(self, part: Sequence[_Asked]) -> list[Drawn] | str:
        """Runs in the model's thread; a text says that memory ran out."""
        import torch

        try:
            return draw(
                self.model,
                [asked.row for asked in part],
                end_ids=self._end_ids,
                pad_id=self._pad_id,
                decode=self.encoder.decode,
                compiled=self._compiled,
                batch=self._batch,
                shortest_cache=self._shortest_cache,
            )
        except torch.OutOfMemoryError as error:
            torch.cuda.empty_cache()
            return f"out of memory: {str(error)[:300]}"

    def _settle(self, part: list[_Asked], found: list[Drawn] | str) -> None:
        if isinstance(found, str) and self._batch > 1:
            self._batch = max(1, min(self._batch, len(part)) // 2)
            self.ledger.retried["out_of_memory"] += 1
            self._waiting = [*part, *self._waiting]
            return
        answers: Sequence[Drawn | str] = [found] * len(part) if isinstance(found, str) else found
        for asked, answer in zip(part, answers, strict=True):
            if not asked.answer.done():
                asked.answer.set_result(answer)

    async def push_weights(self, state: Mapping[str, Tensor] | str | Path, version: int) -> None:
        """Answer with these weights from the next batch on.

        Raises:
            UsageError: names or shapes do not fit; the model is unchanged then.
        """
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, load_into, self.model, state)
        self.version = version

    async def aclose(self) -> None:
        """Finish the batch under way."""
        if self._drain_task is not None:
            await asyncio.gather(self._drain_task, return_exceptions=True)


@cache
def _model_thread() -> ThreadPoolExecutor:
    """The one thread in which models draw, for as long as the process lives.

    CUDA graphs of compiled decoding belong to the thread that first made one: a later policy of the
    same process, in a thread of its own, would find none and fail.
    """
    return ThreadPoolExecutor(1, thread_name_prefix="policy")


def _reason(path: str | Path, error: Exception) -> str:
    """Why a model could not be loaded; of the libraries' long answers the first line."""
    if not Path(path).exists():
        return "no such folder, and none of that name in the local cache"
    return str(error).partition("\n")[0]


def _context(model: Any, settings: TransformersSettings) -> int:
    own = getattr(model.config, "max_position_embeddings", None)
    if settings.context_tokens is None and own is None:
        raise UsageError(
            "the model does not say how long its context is",
            hint="--policy.transformers.context-tokens N",
        )
    limits = [limit for limit in (settings.context_tokens, own) if limit is not None]
    return int(min(limits))
