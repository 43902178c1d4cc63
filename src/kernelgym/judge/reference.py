"""The task's own code: loaded from its source, instantiated, called. Every fault is a `TaskError`.

The source becomes a private file, so that tracebacks, ``inspect`` and ``torch.jit`` can read it. It
runs in the judge's process, in the same jail as a candidate: a faulty or hostile task can spoil its
own verdicts, not another's.

Not covered: a reference that hangs or dies inside C. The host sees the judge go silent or away.
"""

from __future__ import annotations

import copy
import importlib.util
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kernelgym.errors import TaskError
from kernelgym.judge.deadline import Expired, alarm
from kernelgym.judge.excerpts import message_of, traceback_of
from kernelgym.judge.inputs import CONVERTED, Arguments, arguments
from kernelgym.sandbox.seeding import seed_everything
from kernelgym.sandbox.tree import Node, flatten, unflatten
from kernelgym.schema import Mode

_MODULE_NAME = "kernelgym_reference"
_SHOWN = "reference.py"
_NO_MEMORY = ("can't allocate memory", "out of memory", "not enough memory")


@dataclass(frozen=True)
class Returned:
    """What the reference returned."""

    node: Node
    tensors: list[torch.Tensor]


class Reference:
    """The module of a task."""

    def __init__(
        self,
        source: str,
        entry_point: str,
        *,
        dtype: torch.dtype,
        device: str = "cpu",
        limit_s: float = 120.0,
    ) -> None:
        """Import ``source``. ``limit_s`` bounds each single run of its code."""
        self.dtype = dtype
        self.device = torch.device(device)
        self.limit_s = limit_s
        directory = tempfile.mkdtemp(prefix="reference-")
        weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
        self._path = str(Path(directory) / _SHOWN)
        Path(self._path).write_text(source, encoding="utf-8")
        with self._blame("reference_import_error"):
            self._module = _import(self._path)
        self._model_class = self._class(entry_point)

    def _class(self, entry_point: str) -> Callable[..., Any]:
        found = getattr(self._module, entry_point, None)
        if not isinstance(found, type) or not issubclass(found, torch.nn.Module):
            raise TaskError(
                "reference_missing_model",
                f"the reference defines no torch.nn.Module called {entry_point!r}",
            )
        return found

    def make_init_arguments(self, seed: int) -> Arguments:
        """What ``get_init_inputs`` returns; no arguments when it is not defined."""
        function = getattr(self._module, "get_init_inputs", None)
        if function is None:
            return Arguments({"k": "list", "v": []}, [])
        with self._blame("reference_init_error", "get_init_inputs"):
            seed_everything(seed)
            return arguments(function(), None)

    def make_inputs(self, seed: int, dtype: torch.dtype | None = None) -> Arguments:
        """Fresh inputs on the device, in the precision of the evaluation."""
        function = getattr(self._module, "get_inputs", None)
        if function is None:
            raise TaskError("reference_inputs_error", "the reference defines no get_inputs()")
        with self._blame("reference_inputs_error", "get_inputs"):
            seed_everything(seed)
            return arguments(function(), dtype or self.dtype)

    def make_hidden_inputs(self, seed: int) -> list[Arguments]:
        """What ``get_hidden_inputs`` returns, a list of argument lists; none when not defined."""
        function = getattr(self._module, "get_hidden_inputs", None)
        if function is None:
            return []
        with self._blame("reference_inputs_error", "get_hidden_inputs"):
            seed_everything(seed)
            return [arguments(values, self.dtype) for values in function()]

    def instantiate(self, init: Arguments, seed: int) -> torch.nn.Module:
        """The model in the precision of the evaluation, on the device."""
        with self._blame("reference_init_error", "the constructor"):
            seed_everything(seed)
            model = self._model_class(*init.values())
            return convert_module(model, self.dtype).to(self.device)

    def copy(self, model: torch.nn.Module, init: Arguments, seed: int) -> torch.nn.Module:
        """An independent model in the same state; made anew where it cannot be copied."""
        try:
            with self._blame("reference_init_error", "a copy of the model"):
                return copy.deepcopy(model)
        except TaskError:
            return self.instantiate(init, seed)

    def call(self, model: torch.nn.Module, mode: Mode, inputs: Arguments, seed: int) -> Returned:
        """One forward call. Inputs may be changed by it, as the reference likes."""
        with self._blame("reference_forward_error", "forward"):
            model.train(mode == "train")
            seed_everything(seed)
            node, tensors = flatten(model(*inputs.values()))
        _check_answer(node, tensors)
        return Returned(node, tensors)

    @contextmanager
    def _blame(self, code: str, where: str = "its import") -> Iterator[None]:
        """Run code of the reference: on its device, without gradients, under the alarm."""
        try:
            with alarm(self.limit_s), torch.no_grad(), self.device:
                yield
        except (TaskError, KeyboardInterrupt):
            raise
        except Expired as error:
            raise TaskError(
                "reference_timeout",
                f"the reference ran longer than {self.limit_s:g} s in {where}",
                traceback=traceback_of(error, self._path, _SHOWN),
            ) from error
        except BaseException as error:
            raise self._fault(error, code, where) from error

    def _fault(self, error: BaseException, code: str, where: str) -> TaskError:
        text = message_of(error)
        if isinstance(error, MemoryError) or any(words in text for words in _NO_MEMORY):
            code = "reference_does_not_fit"
        return TaskError(
            code,
            f"the reference failed in {where}: {type(error).__name__}: {text}",
            traceback=traceback_of(error, self._path, _SHOWN),
        )


def convert_module(model: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    """Parameters and buffers in another precision; integers and complex numbers stay."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(dtype) if tensor.dtype in CONVERTED else tensor

    changed: torch.nn.Module = model._apply(change)  # type: ignore[no-untyped-call]
    return changed


def state_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers by name, shared ones under each of their names."""
    state: dict[str, torch.Tensor] = dict(model.named_parameters(remove_duplicate=False))
    state.update(model.named_buffers(remove_duplicate=False))
    return state


def _import(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(_MODULE_NAME, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE_NAME] = module
    spec.loader.exec_module(module)
    return module


def _check_answer(node: Node, tensors: list[torch.Tensor]) -> None:
    for tensor in tensors:
        if tensor.layout is not torch.strided or tensor.is_quantized:
            raise TaskError("reference_bad_output", "the reference returns a sparse tensor")
    try:
        unflatten(node, tensors)
    except ValueError as error:
        raise TaskError(
            "reference_bad_output", f"the reference returns what cannot be compared: {error}"
        ) from error
    if not tensors and not _has_number(node):
        raise TaskError("reference_bad_output", "the reference returns no tensor and no number")


def _has_number(node: Node) -> bool:
    if node["k"] in ("list", "tuple", "dict"):
        return any(_has_number(item) for item in node["v"])
    return node["k"] not in ("none", "str", "dtype")
