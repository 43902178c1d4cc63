"""Moves that look along a dimension: sums and extrema, softmax, normalisation, scans."""

from __future__ import annotations

from kernelgym.tasks.synth.builder import CHANNELS_FIRST, Builder
from kernelgym.tasks.synth.moves import ALL, CONVOLVED, move
from kernelgym.tasks.synth.sizes import ONE, VARIANTS, Dim


def _axis(b: Builder) -> int:
    """A dimension that is not the batch and has something to look along; 0 when there is none."""
    axes = [axis for axis in range(1, len(b.x.dims)) if b.x.dims[axis] != ONE]
    return b.draw.pick(axes) if axes else 0


def _feature_axis(b: Builder) -> int:
    return 0 if b.features == ONE else b.axis


def _axis_text(b: Builder, axis: int) -> str:
    return "-1" if axis == len(b.x.dims) - 1 else str(axis)


def _kept(b: Builder, axis: int) -> tuple[Dim, ...]:
    return (*b.x.dims[:axis], ONE, *b.x.dims[axis + 1 :])


def _along(b: Builder, axis: int) -> str:
    """The dimension in words."""
    if axis == b.axis:
        return "channels" if b.layout in CHANNELS_FIRST else "features"
    return "positions"


@move("softmax", ALL, price=1, weight=4.0, group="softmax")
def _softmax(b: Builder) -> bool:
    axis = _feature_axis(b) if b.draw.chance(0.7) else _axis(b)
    if not axis:
        return False
    kind = "log_softmax" if b.draw.chance(0.25) else "softmax"
    function = "torch.softmax" if kind == "softmax" else "torch.log_softmax"
    sign = "nonneg" if kind == "softmax" else "any"
    b.apply(kind, f"{function}($x, dim={_axis_text(b, axis)})", sign=sign)
    b.say(f"{kind.replace('_', '-')} over the {_along(b, axis)}")
    return True


@move("centre", ALL, price=2, weight=1.5, group="norm")
def _centre(b: Builder) -> bool:
    axis = _axis(b)
    if not axis:
        return False
    dim = _axis_text(b, axis)
    kind = b.draw.pick(("mean", "amax", "amin", "logsumexp"))
    reduced = b.operator(kind, [b.x], _kept(b, axis))
    text = f"$x - torch.{kind}($x, dim={dim}, keepdim=True)"
    b.become(text, b.operator("sub", [b.x, reduced], b.x.dims))
    words = {"mean": "mean", "amax": "maximum", "amin": "minimum", "logsumexp": "log-sum-exp"}
    b.say(f"subtraction of the {words[kind]} over the {_along(b, axis)}")
    return True


@move("scale by largest", ALL, price=4, weight=0.8, group="norm")
def _scale_by_largest(b: Builder) -> bool:
    axis = _feature_axis(b)
    if not axis:
        return False
    size = b.operator("abs", [b.x], b.x.dims)
    largest = b.operator("amax", [size], _kept(b, axis))
    bounded = b.operator("add", [largest], _kept(b, axis))
    b.line(f"largest = $x.abs().amax(dim={_axis_text(b, axis)}, keepdim=True)")
    b.become("$x / (largest + 1e-6)", b.operator("div", [b.x, bounded], b.x.dims))
    b.say("scaling by the largest magnitude")
    return True


@move("standardise", ALL, price=5, weight=1.0, group="norm")
def _standardise(b: Builder) -> bool:
    axis = _axis(b)
    if not axis:
        return False
    dim = _axis_text(b, axis)
    mean = b.operator("mean", [b.x], _kept(b, axis))
    std = b.operator("std", [b.x], _kept(b, axis))
    centred = b.operator("sub", [b.x, mean], b.x.dims)
    bounded = b.operator("add", [std], _kept(b, axis))
    b.line(f"mean = $x.mean(dim={dim}, keepdim=True)")
    b.line(f"std = $x.std(dim={dim}, keepdim=True)")
    b.become("($x - mean) / (std + 1e-3)", b.operator("div", [centred, bounded], b.x.dims))
    b.say(f"standardisation over the {_along(b, axis)}")
    return True


@move("l2 normalise", ALL, price=1, weight=1.2, group="norm")
def _l2_normalise(b: Builder) -> bool:
    if not _feature_axis(b):
        return False
    b.apply("l2_normalize", f"F.normalize($x, dim={_axis_text(b, b.axis)})", sign=b.x.sign)
    b.say("L2 normalisation")
    return True


@move("layer norm", ("rows", "sequence", "nodes"), price=1, weight=4.0, group="norm")
def _layer_norm(b: Builder) -> bool:
    if not b.features.name:
        return False
    kind, code = b.draw.pick((("layer_norm", "nn.LayerNorm"), ("rms_norm", "nn.RMSNorm")))
    norm = b.module("norm", f"{code}({b.argument(b.features)})")
    _move_away(b, norm, bias=kind == "layer_norm")
    b.apply(kind, f"{norm}($x)")
    b.say("layer norm" if kind == "layer_norm" else "RMS norm")
    return True


def _move_away(b: Builder, norm: str, *, bias: bool) -> None:
    """Start from other weights than ones and zeros, which a candidate could leave out."""
    b.constructor_line(f"nn.init.normal_({norm}.weight, mean=1.0, std=0.3)")
    if bias:
        b.constructor_line(f"nn.init.normal_({norm}.bias, std=0.3)")


@move("channel norm", CONVOLVED, price=1, weight=4.0, group="norm")
def _channel_norm(b: Builder) -> bool:
    if not b.features.name:
        return False
    rank = {"signal": 1, "image": 2, "volume": 3}[b.layout]
    channels = b.argument(b.features)
    kind = b.draw.pick(("group_norm", "instance_norm", "batch_norm"))
    if kind == "group_norm":
        groups = b.draw.pick((2, 4))
        norm = b.module("norm", f"nn.GroupNorm({groups}, {channels})")
    elif kind == "instance_norm":
        norm = b.module("norm", f"nn.InstanceNorm{rank}d({channels}, affine=True)")
    else:
        norm = b.module("norm", f"nn.BatchNorm{rank}d({channels})")
        b.constructor_line(f"nn.init.normal_({norm}.running_mean, std=0.3)")
        b.constructor_line(f"nn.init.uniform_({norm}.running_var, 0.5, 1.5)")
    _move_away(b, norm, bias=True)
    b.apply(kind, f"{norm}($x)")
    b.say(kind.replace("_", " "))
    return True


@move("cumulative sum", ("rows", "sequence", "signal"), price=1, weight=1.0, group="scan")
def _cumulative_sum(b: Builder) -> bool:
    axis = _axis(b)
    if not axis:
        return False
    if b.draw.chance(0.75):
        b.apply("cumsum", f"torch.cumsum($x, dim={_axis_text(b, axis)})", sign=b.x.sign)
        b.say(f"a running sum over the {_along(b, axis)}")
    else:
        text = f"torch.cummax($x, dim={_axis_text(b, axis)}).values"
        b.apply("cummax", text, sign=b.x.sign, nests=False)
        b.say(f"a running maximum over the {_along(b, axis)}")
    return True


_POOLED = (
    ("mean", "torch.mean($x, dim={0})", "mean"),
    ("sum", "torch.sum($x, dim={0})", "sum"),
    ("amax", "torch.amax($x, dim={0})", "maximum"),
    ("amin", "torch.amin($x, dim={0})", "minimum"),
    ("std", "torch.std($x, dim={0})", "standard deviation"),
    ("linalg_vector_norm", "torch.linalg.vector_norm($x, dim={0})", "norm"),
)


@move("pool positions", ("sequence",), price=1, weight=2.5, group="reduction")
def _pool_positions(b: Builder) -> bool:
    kind, text, words = b.draw.pick(_POOLED)
    batch, _, features = b.x.dims
    sign = "nonneg" if kind in ("std", "linalg_vector_norm") else b.x.sign
    b.apply(kind, text.format(1), dims=(batch, features), sign=sign)
    b.layout = "rows"
    b.say(f"the {words} over the positions")
    return True


@move("pool space", CONVOLVED, price=1, weight=1.5, group="reduction")
def _pool_space(b: Builder) -> bool:
    kind, text, words = b.draw.pick(_POOLED[:4])
    dims = "-1" if b.layout == "signal" else str(tuple(range(-len(b.x.dims) + 2, 0)))
    b.apply(kind, text.format(dims), dims=b.x.dims[:2], sign=b.x.sign)
    b.layout = "rows"
    b.say(f"the {words} over space")
    return True


@move("reduce features", ("sequence", "heads", *CONVOLVED), price=1, weight=1.5, group="reduction")
def _reduce_features(b: Builder) -> bool:
    kind, text, words = b.draw.pick(_POOLED)
    axis = _feature_axis(b)
    if not axis:
        return False
    kept = (*b.x.dims[:axis], ONE, *b.x.dims[axis + 1 :])
    spelled = text.format(_axis_text(b, axis)).replace(")", ", keepdim=True)")
    sign = "nonneg" if kind in ("std", "linalg_vector_norm") else b.x.sign
    b.apply(kind, spelled, dims=kept, sign=sign)
    b.say(f"the {words} over the {_along(b, axis)}")
    return True


@move("row reduction", ("rows", "nodes"), price=1, weight=1.5, group="reduction")
def _row_reduction(b: Builder) -> bool:
    if not _feature_axis(b):
        return False
    kind, text, words = b.draw.pick(_POOLED)
    sign = "nonneg" if kind in ("std", "linalg_vector_norm") else b.x.sign
    spelled = text.format(-1).replace(")", ", keepdim=True)")
    b.apply(kind, spelled, dims=(b.x.dims[0], ONE), sign=sign)
    b.say(f"the {words} of each row")
    return True


@move("weighted pooling", ("sequence",), price=3, weight=1.0, group="reduction")
def _weighted_pooling(b: Builder) -> bool:
    weights = b.operator("softmax", [b.x], b.x.dims)
    weighted = b.operator("mul", [b.x, weights], b.x.dims)
    batch, _, features = b.x.dims
    b.line("weights = torch.softmax($x, dim=1)")
    b.become("torch.sum($x * weights, dim=1)", b.operator("sum", [weighted], (batch, features)))
    b.layout = "rows"
    b.say("softmax-weighted pooling")
    return True


@move("top values", ("rows", "sequence"), price=1, weight=0.7, group="sort")
def _top_values(b: Builder) -> bool:
    if not _feature_axis(b):
        return False
    if b.draw.chance(0.3):
        b.apply("sort", "torch.sort($x, dim=-1).values", sign=b.x.sign, nests=False)
        b.say("sorting of the features")
        return True
    count = b.draw.pick((4, 8, 16))
    if min(b.features.sizes[variant] for variant in VARIANTS) < count:
        return False
    kept = b.literal("top_k", count)
    dims = b.with_features(Dim((count,) * 4))
    text = f"torch.topk($x, {kept}, dim=-1).values"
    b.apply("topk", text, dims=dims, sign=b.x.sign, nests=False)
    b.say("the largest features")
    return True
