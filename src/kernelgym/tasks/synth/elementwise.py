"""Moves that work element by element: activations, scalars, parameters, inputs."""

from __future__ import annotations

from dataclasses import dataclass

from kernelgym.tasks.synth.builder import Builder, Value
from kernelgym.tasks.synth.moves import ALL, move
from kernelgym.tasks.synth.sizes import ONE, Dim


@dataclass(frozen=True)
class Unary:
    """A function of one element."""

    kind: str
    function: str
    module: str = ""
    """Submodule that does the same, where there is one."""
    sign: str = "any"
    idle: bool = False
    """Does nothing, or next to nothing, to elements that are not negative."""
    phrase: str = ""

    def words(self) -> str:
        """How a docstring calls it."""
        return self.phrase or self.kind.replace("_", " ")


ACTIVATIONS = (
    Unary("relu", "torch.relu($x)", "nn.ReLU()", "nonneg", True, "ReLU"),
    Unary("gelu", "F.gelu($x)", "nn.GELU()", phrase="GELU"),
    Unary("gelu_tanh", 'F.gelu($x, approximate="tanh")', 'nn.GELU(approximate="tanh")'),
    Unary("silu", "F.silu($x)", "nn.SiLU()", phrase="SiLU"),
    Unary("sigmoid", "torch.sigmoid($x)", "nn.Sigmoid()", "nonneg"),
    Unary("tanh", "torch.tanh($x)", "nn.Tanh()"),
    Unary("elu", "F.elu($x)", "nn.ELU()", "any", True, "ELU"),
    Unary("selu", "F.selu($x)", "nn.SELU()", "any", True, "SELU"),
    Unary("leaky_relu", "F.leaky_relu($x, 0.1)", "nn.LeakyReLU(0.1)", "any", True, "leaky ReLU"),
    Unary("softplus", "F.softplus($x)", "nn.Softplus()", "nonneg"),
    Unary("mish", "F.mish($x)", "nn.Mish()", phrase="Mish"),
    Unary("hardswish", "F.hardswish($x)", "nn.Hardswish()", phrase="hard swish"),
    Unary("hardsigmoid", "F.hardsigmoid($x)", "nn.Hardsigmoid()", "nonneg", False, "hard sigmoid"),
    Unary("hardtanh", "F.hardtanh($x)", "nn.Hardtanh()", phrase="hard tanh"),
    Unary("softsign", "F.softsign($x)", "nn.Softsign()"),
    Unary("logsigmoid", "F.logsigmoid($x)", "nn.LogSigmoid()", phrase="log-sigmoid"),
    Unary("relu6", "F.relu6($x)", "nn.ReLU6()", "nonneg", True, "ReLU6"),
    Unary("tanhshrink", "F.tanhshrink($x)", "nn.Tanhshrink()"),
    Unary("softshrink", "F.softshrink($x, 0.3)", "nn.Softshrink(0.3)"),
)
FUNCTIONS = (
    Unary("abs", "torch.abs($x)", "", "nonneg", True, "absolute value"),
    Unary("square", "torch.square($x)", "", "nonneg"),
    Unary("sin", "torch.sin($x)", phrase="sine"),
    Unary("cos", "torch.cos($x)", phrase="cosine"),
    Unary("erf", "torch.erf($x)", phrase="error function"),
    Unary("atan", "torch.atan($x)", phrase="arctangent"),
    Unary("asinh", "torch.asinh($x)"),
)


def named(*kinds: str) -> list[Unary]:
    """Activations by kind."""
    return [unary for unary in ACTIVATIONS if unary.kind in kinds]


def activation(b: Builder) -> Unary:
    """An activation that changes the stream."""
    fitting = [unary for unary in ACTIVATIONS if not (unary.idle and b.x.sign == "nonneg")]
    return b.draw.pick(fitting)


def call(b: Builder, unary: Unary) -> str:
    """Text that applies it to ``$x``, in the style of the task."""
    if b.module_style and unary.module:
        return f"{b.module(unary.kind, unary.module)}($x)"
    return unary.function


@move("activation", ALL, price=1, weight=9.0, group="unary")
def _activation(b: Builder) -> bool:
    unary = activation(b)
    b.apply(unary.kind, call(b, unary), sign=unary.sign)
    b.say(unary.words())
    return True


@move("function", ALL, price=1, weight=2.5, group="unary")
def _function(b: Builder) -> bool:
    fitting = [u for u in FUNCTIONS if not (u.idle and b.x.sign == "nonneg")]
    unary = b.draw.pick(fitting)
    b.apply(unary.kind, unary.function, sign=unary.sign)
    b.say(unary.words())
    return True


@move("bounded exponential", ALL, price=2, weight=0.6, group="unary")
def _bounded_exponential(b: Builder) -> bool:
    clamped = b.operator("clamp", [b.x], b.x.dims)
    value = b.operator("expm1", [clamped], b.x.dims)
    b.become("torch.expm1(torch.clamp($x, max=4.0))", value, nests=True)
    b.say("bounded exponential")
    return True


@move("signed root", ALL, price=4, weight=0.4, group="unary")
def _signed_root(b: Builder) -> bool:
    if b.x.sign == "nonneg":
        return False
    sign = b.operator("sign", [b.x], b.x.dims)
    size = b.operator("abs", [b.x], b.x.dims)
    root = b.operator("sqrt", [size], b.x.dims)
    value = b.operator("mul", [sign, root], b.x.dims)
    b.become("torch.sign($x) * torch.sqrt(torch.abs($x))", value)
    b.say("signed square root")
    return True


SCALARS = (
    ("scale", "mul", "$x * {0}", (0.5, 2.0, 0.125, 1.5, 0.7), "scaling"),
    ("shift", "add", "$x + {0}", (0.5, -0.25, 1.0, 0.1), "a constant offset"),
    ("divisor", "div", "$x / {0}", (2.0, 3.0, 8.0, 1.7), "division by a constant"),
    ("min_value", "clamp_min", "torch.clamp($x, min={0})", (-1.0, -0.5, 0.25), "a lower bound"),
    ("max_value", "clamp_max", "torch.clamp($x, max={0})", (1.0, 0.5, 0.75), "an upper bound"),
    ("threshold", "hardshrink", "F.hardshrink($x, {0})", (0.1, 0.25), "hard shrinkage"),
)


@move("scalar", ALL, price=1, weight=5.0, group="scalar")
def _scalar(b: Builder) -> bool:
    base, kind, text, values, phrase = b.draw.pick(SCALARS)
    if b.x.sign == "nonneg" and kind in ("clamp_min", "hardshrink"):
        return False
    stored = b.literal(base, b.draw.pick(values))
    b.apply(kind, text.format(stored), nests=text.startswith(("torch", "F")))
    b.say(phrase)
    return True


def per_feature(b: Builder) -> str | None:
    """Shape of a parameter that broadcasts along the features, or None where none fits."""
    if not b.features.name or b.layout == "heads":
        return None
    trailing = len(b.x.dims) - 1 - b.axis
    return b.argument(b.features) + ", 1" * trailing


@move("affine parameter", ALL, price=1, weight=6.0, group="parameter")
def _parameter(b: Builder) -> bool:
    shape = per_feature(b)
    if shape is None:
        return False
    if b.draw.chance(0.5):
        scale = b.module("scale", f"nn.Parameter(1.0 + 0.3 * torch.randn({shape}))")
        b.apply("mul", f"$x * {scale}", nests=False)
        b.say("a learned scale")
    else:
        bias = b.module("bias", f"nn.Parameter(torch.randn({shape}))")
        b.apply("add", f"$x + {bias}", nests=False)
        b.say("a learned bias")
    return True


@move("affine", ALL, price=2, weight=2.0, group="parameter")
def _affine(b: Builder) -> bool:
    shape = per_feature(b)
    if shape is None:
        return False
    scale = b.module("scale", f"nn.Parameter(1.0 + 0.3 * torch.randn({shape}))")
    bias = b.module("bias", f"nn.Parameter(torch.randn({shape}))")
    scaled = b.operator("mul", [b.x], b.x.dims)
    b.become(f"$x * {scale} + {bias}", b.operator("add", [scaled], b.x.dims))
    b.say("a learned scale and bias")
    return True


@move("learned gate", ALL, price=2, weight=1.5, group="gate")
def _learned_gate(b: Builder) -> bool:
    shape = per_feature(b)
    if shape is None:
        return False
    gate = b.module("gate", f"nn.Parameter(torch.randn({shape}))")
    opened = b.operator("sigmoid", [], b.x.dims[b.axis : b.axis + 1])
    b.become(f"$x * torch.sigmoid({gate})", b.operator("mul", [b.x, opened], b.x.dims))
    b.say("a learned gate")
    return True


_COMBINED = (
    ("add", "$x + {0}", "addition of a second input", 3.0),
    ("mul", "$x * {0}", "multiplication by a second input", 3.0),
    ("sub", "$x - {0}", "subtraction of a second input", 1.5),
    ("maximum", "torch.maximum($x, {0})", "the larger of two inputs", 1.0),
    ("minimum", "torch.minimum($x, {0})", "the smaller of two inputs", 1.0),
    ("lerp", "torch.lerp($x, {0}, 0.3)", "interpolation towards a second input", 0.7),
    ("squared_difference", "($x - {0}) ** 2", "the squared difference to a second input", 0.0),
)


@move("second input", ALL, price=1, weight=5.0, group="input")
def _second_input(b: Builder) -> bool:
    dims = _broadcast_shape(b)
    if dims is None:
        return False
    kind, text, phrase, _ = b.draw.weighted([(entry, entry[3]) for entry in _COMBINED])
    if kind == "lerp" and dims != b.x.dims:
        return False
    name, other = b.input("other", dims)
    b.apply(kind, text.format(name), reads=[other], nests=text.startswith("torch"))
    b.say(phrase)
    return True


def _broadcast_shape(b: Builder) -> tuple[Dim, ...] | None:
    """Shape of an input that meets the stream: all of it, or with some dimensions of size one."""
    if not b.all_named or len(b.built.inputs) > 3:
        return None
    dims = list(b.x.dims)
    if b.draw.chance(0.4) and len(dims) > 1:
        for index in range(len(dims)):
            if b.draw.chance(0.5):
                dims[index] = ONE
        if all(dim is ONE for dim in dims):
            dims[b.axis] = b.features
    return tuple(dims)


@move("mask input", ALL, price=1, weight=1.5, group="mask")
def _mask_input(b: Builder) -> bool:
    if not b.all_named or len(b.built.inputs) > 3:
        return False
    name, mask = b.input("mask", b.x.dims, "mask")
    if b.draw.chance(0.5):
        b.apply("masked_fill", f"$x.masked_fill({name}, 0.0)", reads=[mask], sign=b.x.sign)
    else:
        b.apply("where", f"torch.where({name}, $x, 0.1 * $x)", reads=[mask], nests=False)
    b.say("a mask")
    return True


@move("gate input", ALL, price=2, weight=1.5, group="gate")
def _gate_input(b: Builder) -> bool:
    dims = _broadcast_shape(b)
    if dims is None:
        return False
    unary = b.draw.pick(named("sigmoid", "silu", "gelu", "tanh"))
    name, gate = b.input("gate", dims)
    opened = b.operator(unary.kind, [gate], dims)
    text = unary.function.replace("$x", name)
    b.become(f"$x * {text}", b.operator("mul", [b.x, opened], b.x.dims))
    b.say(f"a {unary.words()} gate")
    return True


@move("residual", ALL, price=1, weight=8.0, group="residual")
def _residual(b: Builder) -> bool:
    earlier = _pick_earlier(b)
    if earlier is None:
        return False
    kind, sign, phrase = b.draw.weighted(
        [
            (("add", "+", "a residual connection"), 6.0),
            (("mul", "*", "a multiplicative skip connection"), 1.5),
            (("sub", "-", "the difference to an earlier value"), 1.0),
        ]
    )
    name = b.saved(earlier)
    b.apply(kind, f"$x {sign} {name}", reads=[earlier], nests=False)
    b.say(phrase)
    return True


@move("shared gate", ALL, price=2, weight=2.5, group="residual")
def _shared_gate(b: Builder) -> bool:
    earlier = _pick_earlier(b)
    if earlier is None:
        return False
    unary = b.draw.pick(named("sigmoid", "tanh", "silu"))
    opened = b.operator(unary.kind, [earlier], earlier.dims)
    text = unary.function.replace("$x", b.saved(earlier))
    b.become(f"$x * {text}", b.operator("mul", [b.x, opened], b.x.dims))
    b.say(f"a {unary.words()} gate on an earlier value")
    return True


def _pick_earlier(b: Builder) -> Value | None:
    values = b.earlier()
    return b.draw.pick(values) if values else None


@move("self gate", ALL, price=2, weight=1.5, group="unary")
def _self_gate(b: Builder) -> bool:
    unary = b.draw.pick(named("sigmoid", "tanh", "softplus", "gelu"))
    opened = b.operator(unary.kind, [b.x], b.x.dims)
    b.become(f"$x * {unary.function}", b.operator("mul", [b.x, opened], b.x.dims))
    b.say(f"a {unary.words()} self-gate")
    return True
