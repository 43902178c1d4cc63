"""KernelReward inside the real TRL: a few steps of GRPO and RLOO on a tiny model, on the CPU.

A random model writes no code, so what the reward function is given is replaced by answers with
known verdicts; everything else is TRL's.
"""

import warnings

import pytest
from known_answers import NO_CODE, TASK, KnownJudge, answer

from drkernel.integrations.reward import KernelReward
from drkernel.nano.model import Shape, make_model
from drkernel.nano.tokenizer import train_tokenizer

torch = pytest.importorskip("torch")
pytest.importorskip("trl", reason="TRL is not installed: pip install 'drkernel[dev]'")

ANSWERS = (answer("fast"), answer("wrong"), answer("lost"), NO_CODE)
REWARDS = (3.5, 0.0, None, 0.0)


class Replaced(KernelReward):
    """The reward function, on answers of ours."""

    def __init__(self):
        super().__init__(judge=KnownJudge(), name="kernel")
        self.given = []

    def __call__(self, prompts, completions, **columns):
        self.given.append(completions)
        said = [[{"role": "assistant", "content": text}] for text in ANSWERS]
        return super().__call__(prompts, (said * len(completions))[: len(completions)], **columns)


def tiny(tmp_path):
    tokenizer = train_tokenizer(["write a kernel", "class ModelNew"], 300, context_tokens=128)
    shape = Shape(hidden=32, layers=1, heads=2, kv_heads=1, head_dim=16, mlp=64, context=128)
    make_model(shape, tokenizer, seed=0).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


def rows():
    from datasets import Dataset

    prompt = [{"role": "user", "content": "write a kernel"}]
    return Dataset.from_list([{"prompt": prompt, "reference": TASK.reference}] * 8)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("algorithm", ["GRPO", "RLOO"])
def test_trl_trains_on_it(algorithm, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TRL's and its dependencies' own, not ours
        import trl

        config = getattr(trl, f"{algorithm}Config")(
            output_dir=str(tmp_path / "out"),
            max_steps=2,
            per_device_train_batch_size=4,
            num_generations=4,
            max_completion_length=6,
            learning_rate=1e-2,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            bf16=False,
            beta=0.0,
        )
        function = Replaced()
        trainer = getattr(trl, f"{algorithm}Trainer")(
            model=tiny(tmp_path), reward_funcs=function, args=config, train_dataset=rows()
        )
        before = [p.detach().clone() for p in trainer.model.parameters()]
        trainer.train()
    assert len(function.given) == 2
    assert all(isinstance(each[0]["content"], str) for each in function.given[0])
    steps = [entry for entry in trainer.state.log_history if "reward" in entry]
    judged = [reward for reward in REWARDS if reward is not None]
    for step in steps:
        # The mean is over what has a reward: an unjudged answer is no zero.
        assert step["rewards/kernel/mean"] == pytest.approx(sum(judged) / len(judged))
        assert step["kernel/unjudged"] == pytest.approx(0.25)
        assert step["kernel/correct"] == pytest.approx(1 / 3)
    after = list(trainer.model.parameters())
    assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
