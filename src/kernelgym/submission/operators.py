"""Which torch functions, modules and tensor methods compute something, and of what kind.

Allocation, shape and bookkeeping calls are not computation. Arithmetic operators on tensors other
than ``@`` are not listed: without types, ``a * b`` may as well be two integers.
"""

from __future__ import annotations

from typing import Literal, get_args

OperatorKind = Literal[
    "matmul",
    "convolution",
    "attention",
    "normalization",
    "softmax",
    "reduction",
    "pooling",
    "embedding",
    "other",
]
"""What a torch call does; all but ``other`` is the sort of work a kernel should take over."""

KINDS: tuple[OperatorKind, ...] = get_args(OperatorKind)

_BY_NAME: dict[str, OperatorKind] = {}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _register(kind: OperatorKind, names: str) -> None:
    _BY_NAME.update(dict.fromkeys(names.split(), kind))


_register(
    "matmul",
    "matmul mm bmm mv dot addmm addbmm baddbmm addmv einsum linear bilinear inner outer vdot"
    " chain_matmul multi_dot tensordot kron scaled_mm lstm gru rnn lstmcell grucell rnncell",
)
_register(
    "convolution",
    "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convtranspose1d"
    " convtranspose2d convtranspose3d convolution unfold fold",
)
_register(
    "attention",
    "scaled_dot_product_attention multi_head_attention_forward multiheadattention transformer"
    " transformerencoder transformerencoderlayer transformerdecoder transformerdecoderlayer",
)
_register(
    "normalization",
    "layer_norm layernorm group_norm groupnorm batch_norm batchnorm1d batchnorm2d batchnorm3d"
    " instance_norm instancenorm1d instancenorm2d instancenorm3d rms_norm rmsnorm normalize"
    " local_response_norm localresponsenorm",
)
_register(
    "softmax",
    "softmax log_softmax logsoftmax softmin logsumexp cross_entropy crossentropyloss softmax2d",
)
_register(
    "reduction",
    "sum mean prod var std amax amin argmax argmin max min norm vector_norm cumsum cumprod median"
    " var_mean std_mean nansum nanmean logcumsumexp aminmax all any mse_loss l1_loss kl_div"
    " smooth_l1_loss huber_loss nll_loss mseloss l1loss kldivloss smoothl1loss huberloss nllloss"
    " bincount histc topk sort cummax cummin count_nonzero cosine_similarity cosinesimilarity",
)
_register(
    "pooling",
    "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d maxpool1d maxpool2d"
    " maxpool3d avgpool1d avgpool2d avgpool3d adaptive_avg_pool1d adaptive_avg_pool2d"
    " adaptive_avg_pool3d adaptiveavgpool1d adaptiveavgpool2d adaptiveavgpool3d"
    " adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d",
)
_register("embedding", "embedding embedding_bag embeddingbag gather index_select scatter_add")

_POINTWISE_METHODS = _words(
    "relu relu_ gelu sigmoid sigmoid_ tanh tanh_ exp log sqrt rsqrt pow mul mul_ add add_ sub sub_"
    " div div_ clamp clamp_ abs neg addcmul addcdiv lerp where masked_fill erf"
)
"""Tensor methods that compute element by element; counted only as methods, where the name is rare
elsewhere."""

_ALWAYS_METHODS = frozenset(
    name
    for name in _BY_NAME
    if name not in {"all", "any", "max", "min", "sort", "normalize", "transformer", "fold", "dot"}
)

_NOT_COMPUTE = _words(
    "empty empty_like empty_strided zeros zeros_like ones ones_like full full_like arange linspace"
    " tensor as_tensor from_numpy Tensor FloatTensor Size device dtype Generator Stream Event eye"
    " no_grad enable_grad inference_mode set_grad_enabled is_tensor is_grad_enabled manual_seed"
    " seed finfo iinfo numel broadcast_shapes result_type promote_types can_cast get_default_dtype"
    " set_default_dtype rand rand_like randn randn_like randint randperm reshape view transpose"
    " permute squeeze unsqueeze flatten unflatten broadcast_to expand_copy movedim swapaxes"
    " Parameter Buffer Module ModuleList ModuleDict Sequential ParameterList Identity"
    " get_device_properties current_device current_stream synchronize is_available device_count"
    " get_device_capability autocast is_contiguous is_floating_point compile script trace"
    " custom_fwd custom_bwd set_float32_matmul_precision set_num_threads jit Function"
    " register_kernel wrap_triton triton_op Library custom_op uniform_ normal_ constant_ zeros_"
    " ones_ kaiming_uniform_ kaiming_normal_ xavier_uniform_ xavier_normal_"
)


def kind_of(name: str) -> OperatorKind:
    """Kind of a torch function, module or tensor method, by the last part of its name."""
    return _BY_NAME.get(name.rpartition(".")[2].lower(), "other")


def is_torch_compute(full_name: str) -> bool:
    """Whether a call of this full name (``torch.…``) computes something on tensors."""
    if not full_name.startswith("torch."):
        return False
    if full_name.startswith(("torch.cuda.", "torch.backends.", "torch.nn.init.", "torch.utils.")):
        return False
    return full_name.rpartition(".")[2] not in _NOT_COMPUTE


def is_compute_method(name: str) -> bool:
    """Whether ``x.name(...)`` on an unknown ``x`` is taken for a tensor computation."""
    return name in _ALWAYS_METHODS or name in _POINTWISE_METHODS
