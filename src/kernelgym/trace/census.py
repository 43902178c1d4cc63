"""Which ATen operators a call ran, and which of them do the heavy lifting.

A dispatch mode counts operators below autograd, so ``F.linear`` shows as ``addmm`` however it was
spelled. What Triton's interpreter does with tensors is left out: it moves them. What computes while
a kernel is launched is the candidate's: a grid, a hook or an argument may be Python of its own.

A claim like all evidence from inside; known to miss threads, other processes, other libraries,
custom operators and disabled modes. `heavy_class` is for the judge.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from kernelgym.sandbox import filling
from kernelgym.trace.recorder import Recorder

HEAVY: dict[str, tuple[str, ...]] = {
    "matmul": (
        "mm", "bmm", "addmm", "addbmm", "baddbmm", "addmv", "mv", "dot", "vdot", "linear", "matmul",
        "einsum", "_int_mm", "_scaled_mm", "_grouped_mm", "mkldnn_linear", "_addmm_activation",
        "_sparse_mm", "_linalg_multi_dot", "ger", "outer", "_embedding_bag",
        "_embedding_bag_forward_only",
    ),
    "convolution": (
        "convolution", "_convolution", "convolution_overrideable", "mkldnn_convolution",
        "cudnn_convolution", "slow_conv", "thnn_conv2d", "_slow_conv2d_forward", "slow_conv3d",
        "conv_depthwise3d", "_conv_depthwise2d",
    ),
    "attention": (
        "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_attention_math", "_flash_attention_forward",
        "_efficient_attention_forward", "_native_multi_head_attention",
    ),
    "recurrence": (
        "lstm", "gru", "rnn_tanh", "rnn_relu", "_cudnn_rnn", "mkldnn_rnn_layer",
        "_thnn_fused_lstm_cell", "_thnn_fused_gru_cell",
    ),
    "softmax": ("_softmax", "_log_softmax", "softmax", "log_softmax", "logsumexp"),
    "normalisation": (
        "native_layer_norm", "native_group_norm", "native_batch_norm", "cudnn_batch_norm",
        "_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "_fused_rms_norm",
        "batch_norm_with_update", "_batch_norm_with_update", "_batch_norm_no_update",
        "linalg_vector_norm", "renorm",
    ),
    "reduction": (
        "sum", "mean", "prod", "max", "min", "amax", "amin", "aminmax", "argmax", "argmin", "var",
        "std", "var_mean", "std_mean", "norm", "any", "all", "cumsum", "cumprod", "cummax",
        "cummin", "logcumsumexp", "nansum", "median", "nanmedian", "mode", "topk", "sort",
        "kthvalue", "count_nonzero", "histc", "bincount", "_cdist_forward", "trace",
    ),
    "pooling": (
        "max_pool2d_with_indices", "max_pool3d_with_indices", "avg_pool2d", "avg_pool3d",
        "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_max_pool2d",
        "adaptive_max_pool3d", "mkldnn_max_pool2d", "fractional_max_pool2d",
    ),
}  # fmt: skip
"""Operators that carry a workload, by class; names without namespace and overload."""

MOVES = frozenset({
    "_local_scalar_dense", "_reshape_alias", "_to_copy", "_unsafe_view", "alias", "arange",
    "as_strided", "broadcast_tensors", "cat", "chunk", "clone", "contiguous", "copy", "copy_",
    "detach", "empty", "empty_like", "empty_permuted", "empty_strided", "expand", "eye", "fill_",
    "flatten", "full", "full_like", "lift_fresh", "lift_fresh_copy", "narrow", "new_empty",
    "new_empty_strided", "new_full", "new_ones", "new_zeros", "ones", "ones_like", "permute",
    "reshape", "resize_", "resolve_conj", "resolve_neg", "scalar_tensor", "select", "set_",
    "slice", "split", "split_with_sizes", "squeeze", "stack", "t", "transpose", "unbind",
    "unsafe_split", "unsqueeze", "view", "zero_", "zeros", "zeros_like",
})  # fmt: skip
"""Operators that make, move or describe tensors and compute nothing."""

_CLASS_OF = {name: heavy for heavy, members in HEAVY.items() for name in members}


def heavy_class(operator: str) -> str | None:
    """Class of a heavy operator as it appears in evidence (``aten.mm``), None for a light one."""
    namespace, _, name = operator.partition(".")
    return _CLASS_OF.get(name) if namespace in ("aten", "mkldnn") else None


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operator of torch while it is entered."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recorder = recorder

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: else torch would import its compiler (seconds) to keep it out of this mode."""
        return False


class Body(_Mode):  # type: ignore[no-untyped-call]
    """Around a kernel's body: says when torch computes in it, also where no census counts."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.overloadpacket.__name__ not in MOVES:
            self._recorder.computes()
        return func(*args, **(kwargs or {}))


class Census(_Mode):  # type: ignore[no-untyped-call]
    """Counts operators while it is entered."""

    def __init__(self, recorder: Recorder, fill: int | None = None) -> None:
        """``fill``: byte that allocated memory is made to hold; None leaves it alone."""
        super().__init__(recorder)
        self._fill = fill
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func.overloadpacket.__name__
        if self._recorder.in_interpreter or (self._recorder.stage and name in MOVES):
            return func(*args, **(kwargs or {}))
        self._recorder.computes()
        self.counts[f"{func.namespace}.{name}"] += 1
        value = func(*args, **(kwargs or {}))
        if self._fill is not None and filling.allocates(name):
            filling.fill(value, self._fill)
        return value
