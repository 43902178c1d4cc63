"""Moves of attention: between three inputs, within a sequence, and rotary positions."""

from __future__ import annotations

from kernelgym.tasks.synth.builder import Builder, Value, per_variant
from kernelgym.tasks.synth.contract import product
from kernelgym.tasks.synth.moves import move
from kernelgym.tasks.synth.sizes import Dim


def _scores(b: Builder, query: Value, key: Value) -> Value:
    length = key.dims[-2]
    flops = per_variant(query.dims, 2.0, length)
    return b.operator("bmm", [query, key], (*query.dims[:-1], length), flops=flops)


def _mix(b: Builder, weights: Value, value: Value) -> Value:
    dims = (*weights.dims[:-1], value.dims[-1])
    return b.operator("bmm", [weights, value], dims, flops=per_variant(weights.dims, 2.0, dims[-1]))


def _keys(b: Builder) -> tuple[Value, Value] | None:
    """Inputs ``key`` and ``value`` for a stream that holds the queries of several heads."""
    if not b.all_named or len(b.built.inputs) > 1:
        return None
    batch, heads, length, width = b.x.dims
    if b.draw.chance(0.3):
        length = b.dim("key_length", "length")
    _, key = b.input("key", (batch, heads, length, width))
    _, value = b.input("value", (batch, heads, length, width))
    return key, value


def _attend(b: Builder, scores: Value, value: Value, extra: list[str]) -> None:
    """Lines from scores to the mixed values, with what happens to the scores in between."""
    b.line("scores = $x @ key.transpose(-2, -1) * key.shape[-1] ** -0.5")
    for line in extra:
        b.line(line)
    weights = b.operator("softmax", [scores], scores.dims)
    b.become("torch.softmax(scores, dim=-1) @ value", _mix(b, weights, value))


@move("attention", ("heads",), price=3, weight=5.0, group="attention")
def _attention(b: Builder) -> bool:
    keys = _keys(b)
    if keys is None:
        return False
    _attend(b, _scores(b, b.x, keys[0]), keys[1], [])
    b.say("attention")
    return True


_LATER = (
    "rows = torch.arange(scores.shape[-2], device=scores.device)",
    "columns = torch.arange(scores.shape[-1], device=scores.device)",
)


@move("causal attention", ("heads",), price=4, weight=5.0, group="attention")
def _causal_attention(b: Builder) -> bool:
    keys = _keys(b)
    if keys is None:
        return False
    scores = _scores(b, b.x, keys[0])
    masked = b.operator("masked_fill", [scores], scores.dims)
    hidden, phrase = "columns > rows[:, None]", "causal attention"
    if keys[0].dims[-2] == b.x.dims[-2] and b.draw.chance(0.4):
        window = b.literal("window", b.draw.pick((3, 4, 8)))
        hidden = f"(rows[:, None] - columns).abs() > {window}"
        phrase = "attention in a window"
    _attend(b, masked, keys[1], [*_LATER, f'scores = scores.masked_fill({hidden}, float("-inf"))'])
    b.say(phrase)
    return True


@move("biased attention", ("heads",), price=4, weight=2.5, group="attention")
def _biased_attention(b: Builder) -> bool:
    keys = _keys(b)
    if keys is None:
        return False
    scores = _scores(b, b.x, keys[0])
    _, bias = b.input("position_bias", (b.x.dims[1], *scores.dims[-2:]))
    biased = b.operator("add", [scores, bias], scores.dims)
    _attend(b, biased, keys[1], ["scores = scores + position_bias"])
    b.say("attention with a position bias")
    return True


@move("capped attention", ("heads",), price=6, weight=1.5, group="attention")
def _capped_attention(b: Builder) -> bool:
    keys = _keys(b)
    if keys is None:
        return False
    cap = b.literal("cap", b.draw.pick((5.0, 20.0, 50.0)))
    scores = _scores(b, b.x, keys[0])
    small = b.operator("div", [scores], scores.dims)
    bent = b.operator("tanh", [small], scores.dims)
    capped = b.operator("mul", [bent], scores.dims)
    _attend(b, capped, keys[1], [f"scores = {cap} * torch.tanh(scores / {cap})"])
    b.say("attention with capped scores")
    return True


@move("fused attention", ("heads",), price=1, weight=4.0, group="attention")
def _fused_attention(b: Builder) -> bool:
    keys = _keys(b)
    if keys is None:
        return False
    square = keys[0].dims == b.x.dims
    causal = ", is_causal=True" if square and b.draw.chance(0.5) else ""
    flops = per_variant(b.x.dims, 4.0, keys[0].dims[-2])
    text = f"F.scaled_dot_product_attention($x, key, value{causal})"
    b.apply("scaled_dot_product_attention", text, reads=keys, flops=flops, nests=False)
    b.say("scaled dot-product attention")
    return True


@move("linear attention", ("heads",), price=6, weight=1.5, group="attention")
def _linear_attention(b: Builder) -> bool:
    keys = _keys(b)
    if keys is None:
        return False
    key, value = keys
    width = b.x.dims[-1]
    query = b.operator("add", [b.operator("elu", [b.x], b.x.dims)], b.x.dims)
    state = (*key.dims[:-2], width, width)
    weights = b.operator("softmax", [key], key.dims)
    memory = b.operator("bmm", [weights, value], state, flops=per_variant(key.dims, 2.0, width))
    b.line("query = F.elu($x) + 1.0")
    b.line("memory = torch.softmax(key, dim=-2).transpose(-2, -1) @ value")
    out = b.operator("bmm", [query, memory], b.x.dims, flops=per_variant(b.x.dims, 2.0, width))
    scaled = b.operator("mul", [out], b.x.dims)
    b.become("(query @ memory) * 0.5", scaled)
    b.say("linear attention")
    return True


@move("rotary positions", ("heads",), price=5, weight=2.0, group="rotary")
def _rotary(b: Builder) -> bool:
    if not b.all_named or len(b.built.inputs) > 2:
        return False
    length, width = b.x.dims[-2:]
    _, cos = b.input("cos", (length, width))
    _, sin = b.input("sin", (length, width))
    b.line("first, second = $x.chunk(2, dim=-1)")
    turned = b.operator("neg", [b.x], b.x.dims)
    joined = b.operator("cat", [turned, b.x], b.x.dims)
    left = b.operator("mul", [b.x, cos], b.x.dims)
    right = b.operator("mul", [joined, sin], b.x.dims)
    b.line("rotated = torch.cat([-second, first], dim=-1)")
    b.become("$x * cos + rotated * sin", b.operator("add", [left, right], b.x.dims))
    b.say("rotary positions")
    return True


@move("single-head self-attention", ("sequence",), price=6, weight=2.0, group="attention")
def _self_attention(b: Builder) -> bool:
    if not b.features.name or len(b.x.dims) != 3:
        return False
    width = b.dim("attention_width", "head_dim")
    inside, outside = b.argument(b.features), b.argument(width)
    parts = [
        b.module(name, f"nn.Linear({inside}, {outside})") for name in ("query", "key", "value")
    ]
    query, key, value = (product(b, b.x, width) for _ in parts)
    weights = b.operator("softmax", [_scores(b, query, key)], (*b.x.dims[:2], b.x.dims[1]))
    b.line(f"query, key, value = {', '.join(f'{part}($x)' for part in parts)}")
    b.line("scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5")
    b.become("torch.softmax(scores, dim=-1) @ value", _mix(b, weights, value))
    b.say("single-head self-attention")
    return True


@move("self-attention", ("sequence",), price=5, weight=4.0, group="attention")
def _multi_head(b: Builder) -> bool:
    if not b.features.name or len(b.x.dims) != 3:
        return False
    heads, width = b.dim("num_heads", "heads"), b.dim("head_dim", "head_dim")
    inside, many, wide = b.argument(b.features), b.argument(heads), b.argument(width)
    qkv = b.module("qkv", f"nn.Linear({inside}, 3 * {many} * {wide})")
    out = b.module("proj", f"nn.Linear({many} * {wide}, {inside})")
    b.constructor_line(f"self.{many} = {many}")
    batch, length, features = b.x.dims
    causal = b.draw.chance(0.5)
    _multi_head_operators(b, (heads, width, features, length, batch))
    b.line("batch, length, _ = $x.shape")
    b.line(f"qkv = {qkv}($x).view(batch, length, 3, self.{many}, -1)")
    b.line("query, key, value = qkv.permute(2, 0, 3, 1, 4)")
    b.line(
        "mixed = F.scaled_dot_product_attention(query, key, value"
        f"{', is_causal=True' if causal else ''})"
    )
    value = Value(len(b.built.operators) - 1, (batch, length, features))
    b.become(f"{out}(mixed.transpose(1, 2).reshape(batch, length, -1))", value)
    b.say("causal self-attention" if causal else "self-attention")
    return True


def _multi_head_operators(b: Builder, dims: tuple[Dim, ...]) -> None:
    """The five operators: one projection in, scores, softmax, mixture, one projection out."""
    heads, width, features, length, batch = dims
    inner = (batch, heads, length, width)
    flops = per_variant((*b.x.dims, heads, width), 6.0)
    query = b.operator("linear", [b.x], inner, flops=flops)
    weights = b.operator("softmax", [_scores(b, query, query)], (batch, heads, length, length))
    mixed = _mix(b, weights, query)
    flops = per_variant((*inner, features), 2.0)
    b.operator("linear", [mixed], (batch, length, features), flops=flops)
