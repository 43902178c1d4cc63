"""New weights into a model that is in use: in place, so that compiled code keeps its addresses.

A state dict may leave out a weight that is tied to another one; everything else must be there, with
the right shape, before anything is changed. Not covered: quantised models and adapters.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelgym.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor


def load_into(model: Any, state: Mapping[str, Tensor] | str | Path) -> None:
    """Copy a state dict, or the checkpoint in a folder, into ``model``.

    Raises:
        UsageError: names or shapes do not fit, or the folder holds no safetensors; the model is
            unchanged then.
    """
    import torch

    weights = read_folder(Path(state)) if isinstance(state, str | Path) else state
    own: dict[str, Tensor] = model.state_dict()
    _check(own, weights)
    with torch.no_grad():
        for name, tensor in weights.items():
            own[name].copy_(tensor)


def _check(own: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
    unknown = sorted(set(weights) - set(own))
    given = {own[name].data_ptr() for name in weights if name in own}
    missing = sorted(n for n in own if n not in weights and own[n].data_ptr() not in given)
    if unknown or missing:
        raise UsageError(
            f"these weights are of another model: {len(unknown)} unknown {unknown[:3]}, "
            f"{len(missing)} missing {missing[:3]}"
        )
    for name, tensor in weights.items():
        if tensor.shape != own[name].shape:
            raise UsageError(
                f"weight {name} has shape {list(tensor.shape)}, not {list(own[name].shape)}"
            )


def read_folder(folder: Path) -> dict[str, Tensor]:
    """The weights of every ``*.safetensors`` in a folder.

    Raises:
        UsageError: there is none, or one cannot be read.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise UsageError(f"no *.safetensors in {folder}", hint=f"ls {folder}")
    weights: dict[str, Tensor] = {}
    for file in files:
        try:
            weights |= load_file(file)
        except (OSError, SafetensorError) as error:
            raise UsageError(f"cannot read the weights in {file}: {error}") from error
    return weights
