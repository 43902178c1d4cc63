"""Models and tokenizers from a folder, and what has to be there before a long run starts.

Weights are never downloaded: a name that is no folder is an error that says how to get one. The
estimate of memory is arithmetic on the configuration (`memory_needed`), so that a recipe for a
large model fails in a second on a small machine, not after minutes of loading.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from drkernel.config import OPERATIONAL, Section
from kernelgym.errors import ServiceError, UsageError

Compute = Literal["fp32", "bf16"]
Attention = Literal["sdpa", "eager", "flash_attention_2"]
GIB = 1024**3
STATE_BYTES = 16
"""Bytes a parameter takes in training: float32 weight, gradient and two moments."""


class ModelSettings(Section):
    """Which weights, and how they are computed with."""

    path: str = ""
    """Folder with ``config.json``, weights and tokenizer, in the format of transformers."""
    compute: Compute = "bf16"
    """``bf16``: matrix products in bfloat16 over float32 weights. ``fp32``: everything."""
    attention: Attention = "sdpa"
    """Attention kernels."""
    gradient_checkpointing: bool = False
    """Compute activations again in the backward pass: less memory, a third more time."""
    compiled: bool = False
    """Compile each layer for any length (torch.compile): fewer kernels and less traffic, for a
    compilation at the start. A small model spends most of a pass launching kernels."""
    device: Annotated[str, OPERATIONAL] = "auto"
    """``auto`` (a GPU where there is one), ``cpu``, ``cuda:0``."""


@dataclass(frozen=True)
class Loaded:
    """A model and its tokenizer."""

    model: Any
    """``transformers.PreTrainedModel``, float32, on its device."""
    tokenizer: Any
    """``transformers.PreTrainedTokenizerBase``."""
    context_tokens: int
    """Longest text the model was made for."""


def require_training() -> None:
    """Raise unless torch and transformers can be imported."""
    import importlib.util

    missing = [
        name
        for name in ("torch", "transformers", "safetensors")
        if importlib.util.find_spec(name) is None
    ]
    if missing:
        raise UsageError(
            f"training needs {', '.join(missing)}", hint="pip install 'drkernel[train,worker]'"
        )


def quiet_libraries() -> None:
    """No progress bars of transformers: what a run says, it says itself."""
    from transformers.utils import logging

    logging.disable_progress_bar()


def device_of(name: str) -> Any:
    """The torch device; ``auto`` is the first GPU, or the CPU."""
    import torch

    available = torch.cuda.is_available()
    if name == "auto":
        return torch.device("cuda:0" if available else "cpu")
    if name.startswith("cuda") and not available:
        raise ServiceError(
            f"device {name!r} was asked for, but torch sees no GPU", hint="--model.device cpu"
        )
    return torch.device(name)


def check_folder(path: str, what: str) -> Path:
    """The folder of a model, or an error that says how to get one."""
    folder = Path(path)
    if not path:
        raise UsageError(
            f"{what} names no model",
            hint="--model.path DIRECTORY, e.g. a checkpoint of drkernel sft",
        )
    if not (folder / "config.json").is_file():
        raise UsageError(
            f"{what}: there is no model in {path} (no config.json); weights are never downloaded",
            hint=f"a folder that drkernel nano or sft has written, or "
            f"hf download ORGANISATION/MODEL --local-dir {path}",
        )
    weights = [*folder.glob("*.safetensors"), *folder.glob("*.safetensors.index.json")]
    if not weights:
        raise UsageError(
            f"{what}: {path} has a config.json but no *.safetensors weights",
            hint=f"hf download ORGANISATION/MODEL --local-dir {path}",
        )
    return folder


def parameters_of(folder: Path) -> int:
    """Number of parameters, counted on a model without memory."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    model.tie_weights()
    return sum(parameter.numel() for parameter in model.parameters())


def memory_needed(parameters: int, *, sampler_in_process: bool = False) -> int:
    """Bytes of device memory for weights, gradients and moments, without activations.

    >>> memory_needed(1_000_000_000) / 1e9
    16.0
    """
    return parameters * (STATE_BYTES + (2 if sampler_in_process else 0))


def check_memory(folder: Path, device: Any, *, sampler_in_process: bool = False) -> None:
    """Raise if the states of the model alone do not fit onto the device."""
    import torch

    if device.type != "cuda":
        return
    parameters = parameters_of(folder)
    needed = memory_needed(parameters, sampler_in_process=sampler_in_process)
    there = torch.cuda.get_device_properties(device).total_memory
    if needed > there:
        raise ServiceError(
            f"{parameters / 1e9:.1f}B parameters need {needed / GIB:.0f} GiB for weights, "
            f"gradients and moments; one {torch.cuda.get_device_name(device)} has "
            f"{there / GIB:.0f} GiB, and the embedded trainer uses one GPU",
            hint="a smaller model, or the verl plug-in on several GPUs",
        )


def load_model(settings: ModelSettings, *, what: str, sampler_in_process: bool = False) -> Loaded:
    """The model in float32 on its device, ready to be trained; dropout off.

    Raises:
        UsageError: without weights, or without the libraries.
        ServiceError: without the GPU asked for, or with too little memory.
    """
    folder = check_folder(settings.path, what)
    require_training()
    quiet_libraries()
    import torch
    from transformers import AutoModelForCausalLM

    device = device_of(settings.device)
    check_memory(folder, device, sampler_in_process=sampler_in_process)
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation=settings.attention
    )
    model.to(device)
    model.eval()  # no dropout: the log-probabilities of sampling must come out again
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.train()
        _no_dropout(model)
    if settings.compiled:
        for layer in model.get_decoder().layers:
            layer.compile(dynamic=True)
    tokenizer = load_tokenizer(folder)
    words, rows = len(tokenizer), model.get_input_embeddings().weight.shape[0]
    if words > rows:
        raise UsageError(
            f"{folder}: the tokenizer has {words} tokens but the model only {rows}; they "
            "do not belong together"
        )
    return Loaded(model, tokenizer, int(model.config.max_position_embeddings))


def _no_dropout(model: Any) -> None:
    for name in ("attention_dropout", "hidden_dropout", "attn_pdrop", "resid_pdrop", "embd_pdrop"):
        if getattr(model.config, name, 0.0):
            raise UsageError(
                f"the model has {name} = {getattr(model.config, name)}; with gradient "
                "checkpointing it would be on in training and off in sampling",
                hint=f"set {name} to 0 in config.json",
            )


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer in ``folder``; it must have a chat template and an end token."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    if not getattr(tokenizer, "chat_template", None):
        raise UsageError(
            f"the tokenizer in {folder} has no chat template",
            hint="use the instruct version of the model, which has one",
        )
    if tokenizer.eos_token_id is None:
        raise UsageError(f"the tokenizer in {folder} has no end-of-text token")
    return tokenizer
