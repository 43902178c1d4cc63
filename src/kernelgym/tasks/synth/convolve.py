"""Moves on feature maps: convolutions, pooling, resampling, channel attention."""

from __future__ import annotations

from dataclasses import dataclass

from kernelgym.tasks.synth.builder import Builder, per_variant
from kernelgym.tasks.synth.elementwise import activation, call
from kernelgym.tasks.synth.moves import CONVOLVED, move
from kernelgym.tasks.synth.sizes import ONE, Dim, map_sizes

_RANK = {"signal": 1, "image": 2, "volume": 3}


@dataclass(frozen=True)
class Window:
    """Kernel, stride, padding and dilation of a convolution, the same in every direction."""

    kernel: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1

    def out(self, size: int) -> int:
        """Size of the output along one dimension."""
        reach = self.dilation * (self.kernel - 1)
        return (size + 2 * self.padding - reach - 1) // self.stride + 1

    def arguments(self, *, pools: bool = False) -> str:
        """The way a person writes it: what is not the default."""
        parts = [f"kernel_size={self.kernel}"]
        usual = self.kernel if pools else 1
        parts += [f"stride={self.stride}"] if self.stride != usual else []
        parts += [f"padding={self.padding}"] if self.padding else []
        parts += [f"dilation={self.dilation}"] if self.dilation > 1 else []
        return ", ".join(parts)


_WINDOWS = (
    (Window(3, padding=1), 6.0),
    (Window(1), 3.0),
    (Window(5, padding=2), 1.5),
    (Window(7, padding=3), 0.7),
    (Window(3, stride=2, padding=1), 2.0),
    (Window(3), 1.5),
    (Window(3, padding=2, dilation=2), 1.0),
    (Window(2, stride=2), 0.8),
)


def _space(b: Builder, window: Window) -> tuple[Dim, ...] | None:
    """Spatial dimensions after a window, or None where one becomes too small."""
    space = b.x.dims[2:]
    if window.out(64) != 64:
        space = tuple(map_sizes(window.out, dim) for dim in space)
    return space if all(min(dim.sizes) >= 3 for dim in space) else None


@move("convolution", CONVOLVED, price=1, weight=10.0, group="convolution")
def _convolution(b: Builder) -> bool:
    window = b.draw.weighted(_WINDOWS)
    space = _space(b, window)
    if space is None or not b.features.name:
        return False
    rank, width = _RANK[b.layout], b.dim("out_channels", "channels")
    options = window.arguments()
    groups = b.draw.pick((1, 1, 1, 2, 4))
    options += f", groups={groups}" if groups > 1 else ""
    options += "" if b.draw.chance(0.75) else ", bias=False"
    inside, outside = b.argument(b.features), b.argument(width)
    conv = b.module("conv", f"nn.Conv{rank}d({inside}, {outside}, {options})")
    dims = (b.x.dims[0], width, *space)
    flops = per_variant(dims, 2.0 * window.kernel**rank / groups, b.features)
    b.apply(f"conv{rank}d", f"{conv}($x)", dims=dims, flops=flops)
    b.say(f"a {window.kernel}{f' x {window.kernel}' * (rank - 1)} convolution")
    return True


@move("depthwise convolution", CONVOLVED, price=1, weight=2.5, group="convolution")
def _depthwise(b: Builder) -> bool:
    window = b.draw.weighted(_WINDOWS)
    space = _space(b, window)
    if space is None or not b.features.name or window.kernel == 1:
        return False
    rank, channels = _RANK[b.layout], b.argument(b.features)
    options = f"{window.arguments()}, groups={channels}"
    conv = b.module("depthwise", f"nn.Conv{rank}d({channels}, {channels}, {options})")
    dims = (*b.x.dims[:2], *space)
    flops = per_variant(dims, 2.0 * window.kernel**rank)
    b.apply(f"depthwise_conv{rank}d", f"{conv}($x)", dims=dims, flops=flops)
    b.say("a depthwise convolution")
    return True


@move("separable convolution", CONVOLVED, price=2, weight=2.0, group="convolution")
def _separable(b: Builder) -> bool:
    if not b.features.name:
        return False
    rank, width = _RANK[b.layout], b.dim("out_channels", "channels")
    inside, outside = b.argument(b.features), b.argument(width)
    window = Window(3, padding=1)
    options = f"{window.arguments()}, groups={inside}"
    first = b.module("depthwise", f"nn.Conv{rank}d({inside}, {inside}, {options})")
    second = b.module("pointwise", f"nn.Conv{rank}d({inside}, {outside}, kernel_size=1)")
    flops = per_variant(b.x.dims, 2.0 * 3.0**rank)
    depthwise = b.operator(f"depthwise_conv{rank}d", [b.x], b.x.dims, flops=flops)
    flops = per_variant(b.x.dims, 2.0, width)
    pointwise = b.operator(f"conv{rank}d", [depthwise], b.with_features(width), flops=flops)
    b.become(f"{second}({first}($x))", pointwise, nests=True)
    b.say("a depthwise-separable convolution")
    return True


@move("transposed convolution", ("signal", "image"), price=1, weight=2.0, group="convolution")
def _transposed(b: Builder) -> bool:
    if not b.features.name:
        return False
    rank, width = _RANK[b.layout], b.dim("out_channels", "channels")
    inside, outside = b.argument(b.features), b.argument(width)
    stride = b.draw.pick((2, 2, 1))
    kernel = b.draw.pick((2, 4)) if stride == 2 else 3
    padding = (kernel - stride) // 2
    options = Window(kernel, stride, padding).arguments()
    conv = b.module("upconv", f"nn.ConvTranspose{rank}d({inside}, {outside}, {options})")
    space = b.x.dims[2:]
    if stride == 2:
        space = tuple(map_sizes(lambda size: 2 * size, dim) for dim in space)
    dims = (b.x.dims[0], width, *space)
    flops = per_variant(dims, 2.0 * (kernel / stride) ** rank, b.features)
    b.apply(f"conv_transpose{rank}d", f"{conv}($x)", dims=dims, flops=flops)
    b.say("a transposed convolution")
    return True


@move("causal convolution", ("signal",), price=2, weight=2.0, group="convolution")
def _causal(b: Builder) -> bool:
    if not b.features.name:
        return False
    width = b.dim("out_channels", "channels")
    inside, outside = b.argument(b.features), b.argument(width)
    conv = b.module("conv", f"nn.Conv1d({inside}, {outside}, kernel_size=4)")
    padded = b.operator("pad", [b.x], b.x.dims)
    flops = per_variant(b.x.dims, 8.0, width)
    value = b.operator("conv1d", [padded], b.with_features(width), flops=flops)
    b.become(f"{conv}(F.pad($x, (3, 0)))", value, nests=True)
    b.say("a causal convolution")
    return True


_POOLS = (("max_pool", "MaxPool"), ("avg_pool", "AvgPool"))


@move("pooling", CONVOLVED, price=1, weight=3.0, group="pool")
def _pooling(b: Builder) -> bool:
    kind, name = b.draw.pick(_POOLS)
    window = b.draw.pick((Window(2, stride=2), Window(3, stride=2, padding=1), Window(3, 1, 1)))
    space = _space(b, window)
    if space is None:
        return False
    rank = _RANK[b.layout]
    if window == Window(2, stride=2):
        function = f"F.{kind}{rank}d($x, 2)"
    else:
        function = f"F.{kind}{rank}d($x, {window.arguments(pools=True)})"
    dims = (*b.x.dims[:2], *space)
    if b.module_style:
        function = f"{b.module('pool', f'nn.{name}{rank}d({window.arguments(pools=True)})')}($x)"
    b.apply(f"{kind}{rank}d", function, dims=dims, sign=b.x.sign)
    b.say("max pooling" if kind == "max_pool" else "average pooling")
    return True


@move("global pooling", ("image",), price=1, weight=1.0, group="pool")
def _global_pooling(b: Builder) -> bool:
    size = b.draw.pick((1, 2, 3))
    kind = b.draw.pick(("avg", "max"))
    space = ONE if size == 1 else Dim((size, size, size, size))
    dims = (*b.x.dims[:2], space, space)
    text = f"F.adaptive_{kind}_pool2d($x, {size})"
    b.apply(f"adaptive_{kind}_pool2d", text, dims=dims, sign=b.x.sign)
    b.say(f"adaptive {'average' if kind == 'avg' else 'max'} pooling")
    return True


@move("upsampling", ("signal", "image"), price=1, weight=1.0, group="pool")
def _upsampling(b: Builder) -> bool:
    mode = b.draw.pick(("nearest", "bilinear" if b.layout == "image" else "linear"))
    space = tuple(map_sizes(lambda size: 2 * size, dim) for dim in b.x.dims[2:])
    if any(dim == ONE for dim in b.x.dims[2:]):
        return False
    text = f'F.interpolate($x, scale_factor=2, mode="{mode}")'
    b.apply(f"upsample_{mode}", text, dims=(*b.x.dims[:2], *space), sign=b.x.sign)
    b.say(f"{mode} upsampling")
    return True


@move("channel attention", CONVOLVED, price=6, weight=2.0, group="gate")
def _channel_attention(b: Builder) -> bool:
    if not b.features.name:
        return False
    hidden = b.dim("squeezed_channels", "channels")
    inside, outside = b.argument(b.features), b.argument(hidden)
    squeeze = b.module("squeeze", f"nn.Linear({inside}, {outside})")
    excite = b.module("excite", f"nn.Linear({outside}, {inside})")
    unary = activation(b)
    axes = "-1" if b.layout == "signal" else str(tuple(range(2 - len(b.x.dims), 0)))
    pooled = b.operator("mean", [b.x], b.x.dims[:2])
    narrow = b.operator("linear", [pooled], (b.x.dims[0], hidden))
    active = b.operator(unary.kind, [narrow], narrow.dims)
    wide = b.operator("linear", [active], pooled.dims)
    opened = b.operator("sigmoid", [wide], pooled.dims)
    b.line(f"pooled = $x.mean(dim={axes})")
    inner = call(b, unary).replace("$x", f"{squeeze}(pooled)")
    b.line(f"weights = torch.sigmoid({excite}({inner}))")
    shape = ", ".join(["..."] + ["None"] * (len(b.x.dims) - 2))
    b.become(f"$x * weights[{shape}]", b.operator("mul", [b.x, opened], b.x.dims))
    b.say("squeeze-and-excitation")
    return True
