"""Moves that multiply matrices: linear layers, gated units, products of inputs."""

from __future__ import annotations

from kernelgym.tasks.synth.builder import Builder, Value, per_variant
from kernelgym.tasks.synth.elementwise import activation, call, named
from kernelgym.tasks.synth.moves import LINEAR, move
from kernelgym.tasks.synth.sizes import ONE, Dim

_GATES = named("sigmoid", "silu", "gelu", "relu")


def product(
    b: Builder, value: Value, width: Dim, *, kind: str = "linear", factor: float = 1.0
) -> Value:
    """A linear map of the last dimension, as an operator."""
    dims = (*value.dims[:-1], width)
    flops = per_variant(value.dims, 2.0 * factor, width)
    return b.operator(kind, [value], dims, flops=flops)


@move("linear", LINEAR, price=1, weight=9.0, group="linear")
def _linear(b: Builder) -> bool:
    if not b.features.name:
        return False
    width = b.dim("out_features", "features")
    biased = b.draw.chance(0.7)
    bias = "" if biased else ", bias=False"
    layer = b.module("linear", f"nn.Linear({b.argument(b.features)}, {b.argument(width)}{bias})")
    b.become(f"{layer}($x)", product(b, b.x, width, kind="linear" if biased else "mm"), nests=True)
    b.say("a linear layer")
    return True


@move("weight product", LINEAR, price=1, weight=2.0, group="linear")
def _weight_product(b: Builder) -> bool:
    if not b.features.name:
        return False
    width = b.dim("out_features", "features")
    rows, columns = b.argument(b.features), b.argument(width)
    weight = b.module("weight", f"nn.Parameter(torch.randn({rows}, {columns}) / {rows} ** 0.5)")
    b.become(f"torch.matmul($x, {weight})", product(b, b.x, width, kind="mm"), nests=True)
    b.say("a product with a weight matrix")
    return True


@move("input product", LINEAR, price=1, weight=3.0, group="linear")
def _input_product(b: Builder) -> bool:
    if not b.all_named or len(b.built.inputs) > 2:
        return False
    width = b.dim("width", "features")
    kind = "mm_input"
    dims: tuple[Dim, ...] = (b.features, width)
    if b.layout == "sequence" and b.draw.chance(0.6):
        dims, kind = (b.x.dims[0], *dims), "bmm"
    name, other = b.input("other", dims)
    flops = per_variant(b.x.dims, 2.0, width)
    b.apply(
        kind, f"torch.matmul($x, {name})", dims=b.with_features(width), reads=[other], flops=flops
    )
    b.say("a product with a second input")
    return True


@move("similarity", ("sequence",), price=1, weight=1.5, group="linear")
def _similarity(b: Builder) -> bool:
    length = b.x.dims[1]
    if b.features == ONE:
        return False
    flops = per_variant(b.x.dims, 2.0, length)
    value = b.operator("bmm", [b.x, b.x], (*b.x.dims[:2], length), flops=flops)
    b.become("torch.matmul($x, $x.transpose(-2, -1))", value)
    b.say("similarities of all pairs of positions")
    return True


@move("two layers", LINEAR, price=3, weight=3.0, group="linear")
def _two_layers(b: Builder) -> bool:
    if not b.features.name:
        return False
    width, hidden = b.features, b.dim("hidden_features", "features")
    inside, outside = b.argument(width), b.argument(hidden)
    up = b.module("up", f"nn.Linear({inside}, {outside})")
    down = b.module("down", f"nn.Linear({outside}, {inside})")
    unary = activation(b)
    value = product(b, b.x, hidden)
    b.become(f"{up}($x)", value, nests=True)
    b.apply(unary.kind, call(b, unary), sign=unary.sign)
    b.become(f"{down}($x)", product(b, b.x, width), nests=True)
    b.say(f"two linear layers with {unary.words()} between")
    return True


@move("gated unit", LINEAR, price=3, weight=2.0, group="linear")
def _gated_unit(b: Builder) -> bool:
    if not b.features.name:
        return False
    hidden = b.dim("hidden_features", "features")
    inside, outside = b.argument(b.features), b.argument(hidden)
    layer = b.module("expand", f"nn.Linear({inside}, 2 * {outside})")
    unary = b.draw.pick(_GATES)
    both = product(b, b.x, hidden, factor=2.0)
    b.line(f"gate, value = {layer}($x).chunk(2, dim=-1)")
    opened = b.operator(unary.kind, [both], b.with_features(hidden))
    b.become(
        f"{unary.function.replace('$x', 'gate')} * value",
        b.operator("mul", [opened, both], b.with_features(hidden)),
    )
    b.say(f"a gated linear unit with {unary.words()}")
    return True


@move("gated layers", LINEAR, price=4, weight=2.0, group="linear")
def _gated_layers(b: Builder) -> bool:
    if not b.features.name:
        return False
    hidden = b.dim("hidden_features", "features")
    inside, outside = b.argument(b.features), b.argument(hidden)
    gate = b.module("gate_proj", f"nn.Linear({inside}, {outside}, bias=False)")
    up = b.module("up_proj", f"nn.Linear({inside}, {outside}, bias=False)")
    unary = b.draw.pick(_GATES)
    left = product(b, b.x, hidden, kind="mm")
    opened = b.operator(unary.kind, [left], left.dims)
    right = product(b, b.x, hidden, kind="mm")
    text = unary.function.replace("$x", f"{gate}($x)")
    b.become(f"{text} * {up}($x)", b.operator("mul", [opened, right], right.dims))
    b.say(f"two projections, one gated by {unary.words()}")
    return True


@move("low rank", LINEAR, price=4, weight=1.5, group="linear")
def _low_rank(b: Builder) -> bool:
    if not b.features.name:
        return False
    width, rank = b.dim("out_features", "features"), b.dim("rank", "rank")
    inside, outside, thin = b.argument(b.features), b.argument(width), b.argument(rank)
    dense = b.module("dense", f"nn.Linear({inside}, {outside})")
    down = b.module("lora_down", f"nn.Linear({inside}, {thin}, bias=False)")
    up = b.module("lora_up", f"nn.Linear({thin}, {outside}, bias=False)")
    left = product(b, b.x, width)
    right = product(b, product(b, b.x, rank, kind="mm"), width, kind="mm")
    b.become(f"{dense}($x) + {up}({down}($x))", b.operator("add", [left, right], left.dims))
    b.say("a linear layer with a low-rank update")
    return True


@move("joined inputs", LINEAR, price=2, weight=1.2, group="linear")
def _joined_inputs(b: Builder) -> bool:
    if not b.all_named or len(b.built.inputs) > 2:
        return False
    width = b.dim("out_features", "features")
    inside, outside = b.argument(b.features), b.argument(width)
    layer = b.module("merge", f"nn.Linear(2 * {inside}, {outside})")
    name, other = b.input("context", b.x.dims)
    joined = b.operator("cat", [b.x, other], b.x.dims)
    b.become(f"{layer}(torch.cat([$x, {name}], dim=-1))", product(b, joined, width, factor=2.0))
    b.say("a linear layer of two joined inputs")
    return True
