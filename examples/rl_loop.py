"""Reinforcement learning for kernels in one file that a person can read.

    python examples/rl_loop.py                                  a tiny model on a CPU, in a minute
    python examples/rl_loop.py --model FOLDER --task builtin/softmax:gpu --rollouts 16

Each step: a group of episodes on one task, two turns each (answer, verdict, feedback, better
answer); a reward a turn; returns; turn-level leave-one-out advantages (TRLOO); rows whose sampler
and trainer disagree, or whose kernels do little of the work, drop out of the loss; one optimizer
step; the new weights go to the sampler.

Without ``--model`` there is a model of 60 thousand parameters whose tokens are whole lines. It is
first taught by heart a few answers to one task, right and wrong ones alike: it then knows how to
write, and reinforcement decides what. The verdicts are real. The curve says that the loop works,
and nothing about models.

The trainer for real runs is ``drkernel train``: many tasks a step, batched updates, checkpoints.
"""

import argparse
import asyncio
import itertools
import random
import sys

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from drkernel import algo, prompts
from drkernel.nano.model import Shape, make_model
from drkernel.policy.encoding import ChatEncoder
from drkernel.policy.in_process import TransformersPolicy
from drkernel.policy.settings import TransformersSettings
from drkernel.rollout.evaluator import open_evaluator
from drkernel.rollout.settings import GymSettings
from drkernel.types import Generation, Message, Sampling, Turn, messages_hash
from kernelgym.schema import Submission
from kernelgym.tasks.task import find_task

VARIANT = "compact"
FEEDBACK_TOKENS = 48


def main():
    args = arguments()
    task = find_task(args.task)
    asyncio.run(run(args, task))


async def run(args, task):
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    if not args.model:
        torch.set_num_threads(1)  # threads cost a model this small more than they give
    async with open_evaluator(GymSettings()) as gym:
        judge = Judge(gym, task)
        if args.model:
            policy = TransformersPolicy.from_folder(args.model)
            # Updates of 1e-6 are lost in bfloat16: the trained copy is float32.
            copy = TransformersPolicy.from_folder(args.model, TransformersSettings(dtype="float32"))
            trained = copy.model
        else:
            tokenizer, trained = await taught_by_heart(task, judge, args)
            sampler = make_model(SHAPE, tokenizer, seed=0)
            sampler.load_state_dict(trained.state_dict())
            policy = TransformersPolicy(sampler, tokenizer, TransformersSettings(chat=CHAT))
        optimizer = torch.optim.AdamW(trained.parameters(), lr=args.lr, weight_decay=0.0)
        for step in range(args.steps):
            # One group: the same task for everybody, so that the others are the baseline.
            episodes = await asyncio.gather(
                *(play(task, policy, judge, args, f"{step}/{n}") for n in range(args.rollouts))
            )
            kept, loss = update(trained, optimizer, episodes, args, seed=step)
            await policy.push_weights(trained.state_dict(), step + 1)
            report(step, episodes, kept, loss)
        await policy.aclose()


# ---- an episode: answer, verdict, feedback, better answer


class Judge:
    """The gym, with a memory: the tiny model often writes the same source twice."""

    def __init__(self, gym, task):
        self.gym, self.task, self.verdicts = gym, task, {}

    async def __call__(self, source):
        if source not in self.verdicts:
            submission = Submission(task=self.task, source=source)
            self.verdicts[source] = asyncio.create_task(self.gym.evaluate(submission))
        return await self.verdicts[source]


async def play(task, policy, judge, args, key):
    """One episode; every turn becomes a training row with a prompt of its own."""
    turns = []
    for index in range(args.turns):
        messages = prompt(task, turns)
        sampling = Sampling(max_tokens=args.max_tokens, seed=args.seed)
        generation = await policy.generate(messages, sampling, key=f"{key}/{index}")
        if generation.finish in ("context", "error"):
            break  # the turn is missing: it is in no group, and never a zero
        turns.append(await judged(judge, index, messages, generation))
        if turns[-1].status == "infrastructure":
            break
    return turns


def prompt(task, turns):
    if not turns:
        return prompts.first_turn(task, variant=VARIANT)
    return prompts.refinement(task, turns, range(len(turns)), variant=VARIANT)


async def judged(judge, index, messages, generation):
    extraction = prompts.extract(generation.text, generation.finish)
    result = None if extraction.code is None else await judge(extraction.code)
    status = "evaluated" if result else "infrastructure" if extraction.code else "no_code"
    return Turn(
        index=index,
        messages_hash=messages_hash(messages),
        prompt=messages,
        generation=generation,
        extraction=extraction,
        result=result,
        status=status,
        feedback=prompts.feedback(result, extraction, budget_tokens=FEEDBACK_TOKENS),
        reward=(algo.reward_from_result(result) or 0.0) if result else 0.0,
    )


# ---- an update: returns, advantages, filters, loss


def update(model, optimizer, episodes, args, seed):
    """One optimizer step; the share of rows that the filters kept, and the loss."""
    # [B episodes, T turns]; what was not played, or not judged, is invalid
    rewards_BT = np.zeros((len(episodes), args.turns))
    valid_BT = np.zeros(rewards_BT.shape, dtype=bool)
    for b, turns in enumerate(episodes):
        for t, turn in enumerate(turns):
            rewards_BT[b, t], valid_BT[b, t] = turn.reward, turn.valid
    # A lost verdict makes the returns of earlier turns unknown: those are invalid, too.
    lost_BT = np.zeros_like(valid_BT)
    for b, turns in enumerate(episodes):
        if turns and turns[-1].status == "infrastructure":
            lost_BT[b, : len(turns)] = True
    valid_BT &= ~lost_BT
    returns_BT = algo.returns_to_go(rewards_BT, valid_BT)
    advantages_BT = algo.trloo(returns_BT, np.zeros(len(episodes), dtype=int), valid_BT)

    # R rows, one a valid turn
    rows = np.argwhere(valid_BT)
    if not len(rows):
        return 0.0, 0.0
    turns = [episodes[b][t] for b, t in rows]
    advantages_R = np.array([advantages_BT[b, t] for b, t in rows])
    logp_RL, mask_RL = logprobs(model, turns)
    old_RL = torch.zeros_like(logp_RL)
    for r, turn in enumerate(turns):
        old_RL[r, : len(turn.generation.logprobs)] = torch.tensor(turn.generation.logprobs)
    same_R, _ = algo.mismatch_keep(logp_RL.detach(), old_RL, mask_RL)
    coverage = [np.nan if turn.coverage is None else turn.coverage for turn in turns]
    own_R = algo.profiling_keep(coverage, [turn.correct for turn in turns], seed=seed)
    keep_R = same_R.cpu().numpy() & own_R
    if not keep_R.any():
        return 0.0, 0.0
    weights_R, keep_R = (torch.tensor(each, device=model.device) for each in (advantages_R, keep_R))
    loss, _ = algo.policy_loss(logp_RL, old_RL, weights_R, mask_RL, keep=keep_R)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return float(keep_R.float().mean()), float(loss.detach())


def logprobs(model, turns):
    """[R, L] log-probabilities of the sampled ids under ``model``, and the mask of real ones.

    The ids are those that were sampled: text that is tokenised again may give others.
    """
    device, longest = model.device, max(len(turn.generation.token_ids) for turn in turns)
    rows, masks = [], torch.zeros(len(turns), longest)
    for r, turn in enumerate(turns):
        prompt_ids, token_ids = turn.generation.prompt_ids, turn.generation.token_ids
        ids = torch.tensor([[*prompt_ids, *token_ids]], device=device)
        logits = model(input_ids=ids, use_cache=False).logits[0, len(prompt_ids) - 1 : -1].float()
        logp = torch.log_softmax(logits, dim=-1)
        chosen = logp.gather(-1, torch.tensor(token_ids, device=device)[:, None])[:, 0]
        rows.append(torch.nn.functional.pad(chosen, (0, longest - len(token_ids))))
        masks[r, : len(token_ids)] = 1
    return torch.stack(rows), masks.to(device)


def report(step, episodes, kept, loss):
    def mean(values):
        values = list(values)
        return sum(values) / len(values) if values else float("nan")

    last = [turns[-1] for turns in episodes if turns]
    first = [turns[0] for turns in episodes if turns]
    print(
        f"step {step:3d}  reward {mean(t.reward for turns in episodes for t in turns):.2f}"
        f"  correct: turn 1 {mean(t.correct for t in first):.2f},"
        f" last {mean(t.correct for t in last):.2f}"
        f"  kept {kept:.2f}  loss {loss:+.3f}",
        flush=True,
    )


# ---- a tiny model that knows a few answers by heart

SHAPE = Shape(hidden=48, layers=2, heads=4, kv_heads=2, head_dim=16, mlp=96, context=512)
CHAT = "qwen3-thinking"

ANSWER = """```python
import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, {value}, mask=at < n)

class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
        return {returned}
```"""

KNOWN = [
    ANSWER.format(value=value, returned=returned)
    for value, returned in (
        ("x + y", "out"),  # right
        ("x - y", "out"),  # wrong
        ("x * y", "out"),  # wrong
        ("tl.add(x, y)", "out"),  # does not compile
        ("x", "x + y"),  # torch gives the answer
    )
]


async def taught_by_heart(task, judge, args):
    """A tokenizer and a model that writes each of the known answers about equally often."""
    said = [Generation(text=text, finish="stop", completion_tokens=1) for text in KNOWN]
    firsts = await asyncio.gather(*(judged(judge, 0, prompt(task, []), each) for each in said))
    talks = [prompt(task, []), *(prompt(task, [turn]) for turn in firsts)]
    texts = [*KNOWN, *(f"{message.role}\n{message.content}" for talk in talks for message in talk)]
    tokenizer = line_tokenizer(texts)
    encoder, model = ChatEncoder(tokenizer, CHAT), make_model(SHAPE, tokenizer, seed=args.seed)
    rows = [lesson(encoder, talk, text) for talk, text in itertools.product(talks, KNOWN)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(args.lessons):
        loss = lesson_loss(model, random.sample(rows, 8), tokenizer.pad_token_id)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            print(f"lesson {step + 1:4d}  loss {loss.item():.3f}", flush=True)
    return tokenizer, model


def line_tokenizer(texts):
    """A tokenizer whose tokens are the lines of these texts."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<unknown>"]
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unknown>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("\n", behavior="merged_with_previous")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=special))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        unk_token="<unknown>",
        additional_special_tokens=["<|im_start|>"],
    )


def lesson(encoder, talk: tuple[Message, ...], answer: str):
    """Ids, and where the answer begins."""
    start = encoder.prompt_ids(talk)
    end = encoder.tokenizer(answer, add_special_tokens=False)["input_ids"]
    return [*start, *end, encoder.tokenizer.eos_token_id], len(start)


def lesson_loss(model, rows, pad_id):
    """Mean negative log-likelihood of the answers; prompts and padding are not learned."""
    longest = max(len(ids) for ids, _ in rows)
    ids = torch.full((len(rows), longest), pad_id)
    targets = torch.full((len(rows), longest), -100)
    for r, (row, start) in enumerate(rows):
        ids[r, : len(row)] = torch.tensor(row)
        targets[r, start : len(row)] = ids[r, start : len(row)]
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets[:, 1:].flatten())


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="", help="folder of a model; default: a tiny one")
    parser.add_argument("--task", default="builtin/add", help="needed with --model only")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rollouts", type=int, default=32, help="episodes of a group")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--lr", type=float, default=None)
    parser.add_argument("--max-tokens", type=int, default=None)
    parser.add_argument("--lessons", type=int, default=150, help="steps of teaching by heart")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if not args.model and args.task != "builtin/add":
        sys.exit("the tiny model knows builtin/add only: --model FOLDER")
    args.lr = args.lr or (1e-6 if args.model else 1e-3)
    args.max_tokens = args.max_tokens or (8192 if args.model else 40)
    return args


if __name__ == "__main__":
    main()
