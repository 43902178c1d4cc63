"""The policy in this process on a GPU: log-probabilities, caches, pushed weights, tokens a second.

    python benchmarks/gpu_policy.py --out results.json            on a GPU, some three minutes
    python benchmarks/gpu_policy.py --out results.json --dry-run  small, on a CPU

Models have Qwen3's architecture and random weights, so that nothing is downloaded. What must hold:
log-probabilities equal those of a full forward pass (float32, static cache, compiled), a compiled
batch draws what an eager one draws, and pushed weights are used although decoding is compiled.
"""

import argparse
import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

import record
from drkernel.nano.tokenizer import train_tokenizer
from drkernel.policy.in_process import TransformersPolicy
from drkernel.policy.settings import TransformersSettings
from drkernel.types import Generation, Message, Sampling

SMALL = {"hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 4, "head_dim": 32}
LARGE = {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "head_dim": 128}
"""The shape of a model of 0.6 billion parameters."""
WORDS = ["kernel", "tile", "block", "mask", "load", "store", "fuse"]


def model_of(
    shape: dict[str, int], tokenizer: Any, dtype: torch.dtype, device: str, seed: int
) -> Any:
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=151_936 if shape is LARGE else 2048,
        num_attention_heads=16 if shape is LARGE else 8,
        num_key_value_heads=8 if shape is LARGE else 4,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **shape,
    )
    return Qwen3ForCausalLM(config).to(device=device, dtype=dtype).eval()


@contextlib.asynccontextmanager
async def policy_of(
    model: Any, tokenizer: Any, compiled: bool, batch: int
) -> AsyncIterator[TransformersPolicy]:
    settings = TransformersSettings(compiled=compiled, batch=batch)
    policy = TransformersPolicy(model, tokenizer, settings)
    try:
        yield policy
    finally:
        await policy.aclose()


async def ask(policy: TransformersPolicy, count: int, tokens: int) -> list[Generation]:
    sampling = Sampling(max_tokens=tokens, seed=0)
    talks = [
        [Message(role="user", content=" ".join(WORDS[: 1 + n % 7] * (1 + n % 5)))]
        for n in range(count)
    ]
    return await asyncio.gather(
        *(policy.generate(talk, sampling, key=str(n)) for n, talk in enumerate(talks))
    )


def largest_error(model: Any, generations: list[Generation]) -> float:
    worst = 0.0
    for one in generations:
        ids = torch.tensor([[*one.prompt_ids, *one.token_ids]], device=model.device)
        with torch.no_grad():
            logits = model(input_ids=ids, use_cache=False).logits[0, len(one.prompt_ids) - 1 : -1]
        logp = torch.log_softmax(logits.float(), dim=-1)
        chosen = logp.gather(-1, torch.tensor(one.token_ids, device=model.device)[:, None])[:, 0]
        said = torch.tensor(one.logprobs, device=model.device)
        worst = max(worst, float((chosen - said).abs().max()))
    return worst


async def exactness(tokenizer: Any, device: str, compiled: bool) -> dict[str, Any]:
    """float32: caches against a full forward pass, compiled against eager, and a push."""
    torch.backends.cuda.matmul.allow_tf32 = False
    model = model_of(SMALL, tokenizer, torch.float32, device, 0)
    other = model_of(SMALL, tokenizer, torch.float32, device, 1)
    async with policy_of(model, tokenizer, False, 16) as eager:
        plain = await ask(eager, 12, 64)
    async with policy_of(model, tokenizer, compiled, 16) as fast:
        quick = await ask(fast, 12, 64)
        found = {
            "logprob_error_eager": largest_error(model, plain),
            "logprob_error_compiled": largest_error(model, quick),
            "same_draws": sum(
                a.token_ids == b.token_ids for a, b in zip(plain, quick, strict=True)
            ),
            "of": 12,
        }
        await fast.push_weights(other.state_dict(), 1)
        found["logprob_error_after_push"] = largest_error(other, await ask(fast, 12, 64))
    found["holds"] = (
        max(value for name, value in found.items() if "error" in name) < 1e-4
        and found["same_draws"] >= 11  # rounding may turn one draw in thousands of tokens
    )
    return found


async def speed(tokenizer: Any, device: str, shape: dict[str, int], tokens: int) -> dict[str, Any]:
    """Tokens a second at several batches, compiled and eager, after one warm-up each."""
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    model = model_of(shape, tokenizer, dtype, device, 0)
    found = {"parameters": sum(parameter.numel() for parameter in model.parameters())}
    for compiled, batch in ((True, 64), (False, 64), (True, 8)):
        async with policy_of(model, tokenizer, compiled, batch) as policy:
            started = time.perf_counter()
            await ask(policy, batch, tokens)
            first_s = time.perf_counter() - started
            started = time.perf_counter()
            drawn = sum(one.completion_tokens for one in await ask(policy, batch, tokens))
            spent_s = time.perf_counter() - started
        name = f"{'compiled' if compiled else 'eager'}, batch {batch}"
        found[name] = {
            "first_s": round(first_s, 2),
            "tokens": drawn,
            "tokens_per_s": round(drawn / spent_s),
        }
        print(name, found[name], flush=True)
    return found


async def run(args: argparse.Namespace) -> int:
    device = "cpu" if args.dry_run else "cuda"
    tokenizer = train_tokenizer([" ".join(WORDS)], 300, context_tokens=8192)
    body: dict[str, object] = {"dry_run": args.dry_run, "gpu": None}
    if not args.dry_run:
        body["gpu"] = torch.cuda.get_device_name()
    exact = await exactness(tokenizer, device, compiled=True)
    body["exactness"] = exact
    print(exact, flush=True)
    shape, tokens = (SMALL, 8) if args.dry_run else (LARGE, 512)
    body["speed"] = await speed(tokenizer, device, shape, tokens)
    body["transformers"] = record.versions("transformers")["transformers"]
    record.write(args.out, "gpu_policy", body)
    return 0 if exact["holds"] else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--dry-run", action="store_true")
    raise SystemExit(asyncio.run(run(parser.parse_args())))
