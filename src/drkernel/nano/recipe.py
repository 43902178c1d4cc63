"""From nothing to a folder with a small policy in it, stage by stage; each is done once.

    attempts    the teacher's first answers to drawn programs          attempts-*.jsonl
    collected   conversations of ``drkernel collect``, judged          collected-*.jsonl
    start       tokenizer, and random weights                          start/
    known       hashes of the kernels in these texts                   kernels.txt
    tokenised   rows of token ids                                      rows/
    training    `drkernel.sft` on all of it                            training/
    export      weights in bfloat16, tokenizer, model card             model/
    probe       what it writes for operator combinations it never saw  probe.json

Called again, it goes on with the stage it was in; training goes on from its last checkpoint.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drkernel.collect.dataset import messages_of
from drkernel.config import digest
from drkernel.nano.attempts import write_attempts
from drkernel.nano.model import make_model
from drkernel.nano.novelty import known_kernels, training_modules
from drkernel.nano.settings import NanoSettings
from drkernel.nano.tokenizer import train_tokenizer
from drkernel.rollout.directory import read_tasks, write_whole
from drkernel.rollout.log import read_episodes
from drkernel.sft.settings import DataSettings, SftSettings
from drkernel.train.checkpoint import Checkpoint, Checkpoints
from drkernel.train.models import load_tokenizer, quiet_libraries
from kernelgym.errors import UsageError

TOKENIZER_CHATS = 6_000
"""Chats that the tokenizer is made from: more change nothing."""
SPLITS = ("train", "validation")


@dataclass
class Making:
    """A nano in the making."""

    settings: NanoSettings
    out: Path
    deadline: float
    """On the monotonic clock."""
    say: Callable[[str], None] = lambda _: None
    as_it_is: bool = False
    """Train no further: export the best checkpoint there is."""
    finished: bool = False
    facts: dict[str, Any] = field(default_factory=dict)
    """What the card tells."""

    @property
    def minutes_left(self) -> float:
        """Time that is left."""
        return (self.deadline - time.monotonic()) / 60

    @property
    def model(self) -> Path:
        """The finished model's folder."""
        return self.out / "model"

    @property
    def rows(self) -> Path:
        """Where tokenised rows are kept."""
        return self.out / "rows"

    def files(self, split: str) -> list[Path]:
        """Files of chats of a split."""
        return [self.out / f"{kind}-{split}.jsonl" for kind in ("attempts", "collected")]


def prepare(making: Making) -> None:
    """The stages before the training, which need no GPU."""
    quiet_libraries()
    for stage in (_attempts, _collected, _start, _known, _tokenised):
        stage(making)


def make(making: Making) -> None:
    """Run the stages that are not done, as far as the time reaches."""
    prepare(making)
    trained = _training(making)
    if trained is None:
        making.say("out of time: the same command goes on with the training")
        return
    from drkernel.nano.export import export
    from drkernel.nano.probe import probe

    if not (making.model / "README.md").exists():
        making.say(f"export to {making.model}")
        export(making, trained)
    if making.settings.probe.programs and not (making.out / "probe.json").exists():
        making.say("probe: operator combinations that no training text has")
        probe(making)
    making.finished = True


def _attempts(making: Making) -> None:
    rule = making.settings.attempts
    counts = {"train": rule.programs, "validation": rule.held_out}
    for split in SPLITS:
        path = making.out / f"attempts-{split}.jsonl"
        if not path.exists():
            making.say(f"first answers of the teacher, {split}")
            write_attempts(
                path,
                rule,
                backend=making.settings.backend,
                split="train" if split == "train" else "validation",
                count=counts[split],
            )


def _collected(making: Making) -> None:
    """Chats of several turns, by the split of their operators; test combinations are left out."""
    if all((making.out / f"collected-{split}.jsonl").exists() for split in SPLITS):
        return
    rows: dict[str, list[str]] = {split: [] for split in SPLITS}
    for folder in making.settings.trajectories:
        for split, line in _chats(Path(folder)):
            if split in rows:
                rows[split].append(line)
    if making.settings.trajectories and not rows["train"]:
        raise UsageError(
            f"no episode in {', '.join(making.settings.trajectories)} is of the training split",
            hint="drkernel collect --tasks.split train",
        )
    for split in SPLITS:
        write_whole(making.out / f"collected-{split}.jsonl", "".join(rows[split]))
    making.say(f"{len(rows['train'])} judged conversations")


def _chats(folder: Path) -> Iterator[tuple[str, str]]:
    tasks = read_tasks(folder)
    for episode in read_episodes(folder / "episodes.jsonl"):
        turns = [turn for turn in episode.turns if turn.valid]
        if not turns or len(turns) < len(episode.turns):
            continue  # a turn without an answer or a verdict cannot be learned from
        task = tasks[episode.task]
        row = {
            "messages": messages_of(episode),
            "original_python_code": task.reference,
            "operators": task.labels.get("operators", ""),
        }
        yield task.labels.get("split", "train"), json.dumps(row) + "\n"


def _start(making: Making) -> None:
    """The tokenizer follows from the texts, the weights from the seed."""
    folder, settings = making.out / "start", making.settings
    if not (folder / "tokenizer.json").exists():
        texts = [
            message["content"]
            for path in making.files("train")
            for row in _head(path, TOKENIZER_CHATS)
            for message in row["messages"]
        ]
        context = settings.shape.context
        train_tokenizer(texts, settings.vocabulary, context_tokens=context).save_pretrained(folder)
    if not (folder / "config.json").exists():
        tokenizer = load_tokenizer(folder)
        model = make_model(settings.shape, tokenizer, seed=settings.seed)
        model.save_pretrained(folder)
        count = sum(parameter.numel() for parameter in model.parameters())
        making.say(f"{len(tokenizer)} tokens, {count / 1e6:.2f}M parameters")


def _known(making: Making) -> None:
    """Hashes of the kernels in the training texts, for the probe."""
    path = making.out / "kernels.txt"
    if not path.exists():
        found = known_kernels(training_modules(making.files("train")))
        write_whole(path, "".join(f"{one}\n" for one in sorted(found)))


def _tokenised(making: Making) -> None:
    """The rows of the training, which finds them where they are kept."""
    from drkernel.sft.loop import rows_of

    tokenizer = load_tokenizer(making.out / "start")
    context = making.settings.shape.context
    found = rows_of(training_settings(making), tokenizer, context, rows=making.rows)
    making.say(f"{found['train'][1].rows} rows, {found['train'][1].tokens:,} tokens")


def _head(path: Path, count: int) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for _, line in zip(range(count), file, strict=False):
            yield json.loads(line)


def training_settings(making: Making) -> SftSettings:
    """The training as it is run: files and model filled in."""
    attempts, collected = making.files("train")
    times = making.settings.repeat if collected.stat().st_size else 0
    held_out = [path for path in making.files("validation") if path.stat().st_size]
    data = making.settings.training.data.model_dump() | {
        "files": (str(attempts), *[str(collected)] * times),
        "eval_files": tuple(str(path) for path in held_out),
        "eval_share": 0.0,
    }
    model = making.settings.training.model.model_copy(update={"path": str(making.out / "start")})
    changes = {"data": DataSettings.model_validate(data), "model": model}
    minutes = None if making.settings.minutes is None else max(making.minutes_left, 1e-6)
    return making.settings.training.model_copy(update=changes | {"minutes": minutes})


def _training(making: Making) -> Checkpoint | None:
    """The best checkpoint of the training; None when time ran out before its end."""
    from drkernel.sft.loop import run_sft

    settings, folder = training_settings(making), making.out / "training"
    checkpoints = Checkpoints(folder / "checkpoints")
    done = making.out / "trained.json"
    if done.exists():
        _check_same(settings, folder)
    elif making.as_it_is:
        _write_trained(done, _unfinished(checkpoints))
    else:
        run = run_sft(settings, folder, rows=making.rows)
        if not run.finished:
            return None
        rows = len(run.train)
        _write_trained(done, {"step": run.step, "steps": run.step, "rows": rows, **run.best})
    return checkpoints.at(int(json.loads(done.read_text("utf-8"))["step"]))


def _unfinished(checkpoints: Checkpoints) -> dict[str, float]:
    """What a training that was cut off has come to."""
    latest = checkpoints.latest()
    if latest is None:
        raise UsageError("the training has no checkpoint yet", hint="without --as-it-is")
    state = latest.state()
    best: dict[str, float] = state["best"]
    return {"step": latest.step, "steps": latest.step, "rows": state["rows"], "cut_off": 1, **best}


def _write_trained(path: Path, found: dict[str, float]) -> None:
    write_whole(path, json.dumps(found, indent=1) + "\n")


def _check_same(settings: SftSettings, folder: Path) -> None:
    """A finished training must be the one that is asked for."""
    known = (folder / "config.digest").read_text("utf-8").split()
    if known[-1] != digest(settings):
        raise UsageError(
            f"{folder} holds a training with other settings (see its config.json)",
            hint="--out ANOTHER_DIRECTORY",
        )
