"""One program: draws a family, sizes and moves until the wanted number of operators is reached."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kernelgym.tasks.synth import (  # noqa: F401 - importing them registers their moves
    attend,
    contract,
    convolve,
    elementwise,
    index,
    reduce,
)
from kernelgym.tasks.synth.builder import Builder, Built, Operator
from kernelgym.tasks.synth.draw import Draw
from kernelgym.tasks.synth.moves import MOVES, Move
from kernelgym.tasks.synth.sizes import BATCHES, FULL, FULL_TAIL, Dim, batch_sizes

FAMILIES = (
    ("sequence", 2.6),
    ("image", 2.6),
    ("rows", 2.2),
    ("heads", 1.6),
    ("nodes", 0.8),
    ("tokens", 0.6),
    ("signal", 0.8),
    ("volume", 0.4),
)
DIFFICULTIES = range(1, 9)

MEMORY_BYTES_PER_MS = 2.5e9
FLOPS_PER_MS = 4.5e10
LAUNCH_MS = 0.004
"""A rough model of a large GPU, in fp32. It only steers sizes; nothing is reported from it."""
SHORTEST_MS, LONGEST_MS = 0.12, 8.0
LARGEST_ELEMENTS = 2**28

CATEGORIES = (
    ("attention", ("scaled_dot_product_attention",)),
    ("convolution", ("conv1d", "conv2d", "conv3d", "depthwise_", "conv_transpose")),
    ("matmul", ("linear", "mm", "bmm", "mm_input")),
    ("gather/scatter", ("embedding", "index_", "gather")),
    ("softmax", ("softmax", "log_softmax")),
    ("norm", ("layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm", "l2_")),
    ("reduction", ("mean", "sum", "amax", "amin", "std", "linalg_vector_norm", "logsumexp")),
    ("scan", ("cumsum", "cummax", "sort", "topk")),
    ("pooling", ("max_pool", "avg_pool", "adaptive_", "upsample_")),
)


@dataclass(frozen=True)
class Program:
    """A finished program."""

    built: Built
    family: str
    difficulty: int
    estimate_ms: float
    """Rough time of the full sizes on a large GPU."""

    @property
    def operators(self) -> tuple[str, ...]:
        """Kinds of its operators, in order."""
        return tuple(operator.kind for operator in self.built.operators)

    @property
    def combination(self) -> str:
        """The set of its operators as text: what a split keeps together."""
        return "+".join(sorted(set(self.operators)))

    @property
    def category(self) -> str:
        """The heaviest kind of work in it."""
        kinds = self.operators
        if _attends(self.built.operators):
            return "attention"
        for name, prefixes in CATEGORIES:
            if any(kind.startswith(prefixes) for kind in kinds):
                return name
        return "element-wise"

    @property
    def sketch(self) -> str:
        """Hash of the operators and how they are connected; blind to names, sizes, attributes."""
        return graph_hash(self.built.operators)


_COMMUTATIVE = frozenset({"add", "mul", "maximum", "minimum"})


def graph_hash(operators: Iterable[Operator]) -> str:
    """A hash of the last operator's expression."""
    known: dict[int, str] = {}
    result = ""
    for number, operator in enumerate(operators):
        reads = [known.get(read, f"input{-read}") for read in operator.reads]
        if operator.kind in _COMMUTATIVE:
            reads.sort()
        text = f"{operator.kind}({','.join(reads)})"
        result = known[number] = hashlib.sha256(text.encode()).hexdigest()[:24]
    return result


def _attends(operators: list[Operator]) -> bool:
    """Scores, softmax and mixture: a product of two activations under a softmax under another."""
    kinds = [operator.kind for operator in operators]
    products = [place for place, kind in enumerate(kinds) if kind == "bmm"]
    between = itertools.pairwise(products)
    return "scaled_dot_product_attention" in kinds or any(
        "softmax" in kinds[left:right] for left, right in between
    )


def draw_program(key: tuple[object, ...], difficulties: range) -> Program | None:
    """The program of this key; None when its draws lead nowhere.

    Three passes over the same draws: one to learn the names and what one sample costs, one to learn
    what the batch costs, one to write the program.
    """
    choice = Draw("family", *key)
    difficulty = choice.pick(difficulties)
    family = choice.weighted(FAMILIES)
    modules = choice.chance(0.5)
    first = _pass(key, family, difficulty, modules, {}, 1)
    if first is None:
        return None
    names = first.wanted
    second = _pass(key, family, difficulty, modules, names, BATCHES[family][0])
    assert second is not None
    batch = _batch(choice, family, second.built)
    if batch is None:
        return None
    last = _pass(key, family, difficulty, modules, names, batch)
    assert last is not None
    if max(last.built.largest[FULL], last.built.largest[FULL_TAIL]) > LARGEST_ELEMENTS:
        return None
    return Program(last.built, family, difficulty, estimate_ms(last.built))


def _pass(
    key: tuple[object, ...],
    family: str,
    difficulty: int,
    modules: bool,
    names: Mapping[str, int],
    batch: int,
) -> Builder | None:
    """Put the program together once; the draws do not depend on ``names`` or ``batch``."""
    b = Builder(Draw("program", *key), family, names=names, module_style=modules)
    _start(b, family, batch)
    group = ""
    while (missing := difficulty - len(b.built.operators)) > 0:
        fitting = [m for m in MOVES if b.layout in m.layouts and m.price <= missing]
        fitting = [m for m in fitting if not (m.group and m.group == group)]
        chosen = _extend(b, fitting)
        if chosen is None:
            return None
        group = chosen.group
    return b


def _extend(b: Builder, fitting: list[Move]) -> Move | None:
    """Make one of the moves; None when none of several suits."""
    for _ in range(12):
        if not fitting:
            return None
        chosen = b.draw.weighted([(m, m.weight * m.price**0.5) for m in fitting])
        before = len(b.built.operators)
        if chosen.run(b):
            assert len(b.built.operators) == before + chosen.price, chosen.name
            return chosen
        fitting = [m for m in fitting if m is not chosen]
    return None


def _start(b: Builder, family: str, batch: int) -> None:
    """The first input, by family."""
    leading = "num_nodes" if family == "nodes" else "batch_size"
    first = b.named_dim(leading, batch_sizes(batch))
    if family in ("rows", "nodes"):
        b.start("x", (first, b.dim("in_features", "features")))
    elif family == "sequence":
        b.start("x", (first, b.dim("length", "length"), b.dim("in_features", "features")))
    elif family == "tokens":
        b.start("tokens", (first, b.dim("length", "length")))
    elif family == "heads":
        heads, length = b.dim("num_heads", "heads"), b.dim("length", "length")
        b.start("query", (first, heads, length, b.dim("head_dim", "head_dim")))
    elif family == "signal":
        b.start("x", (first, b.dim("in_channels", "channels"), b.dim("length", "signal")))
    else:
        channels = b.dim("in_channels", "channels")
        role = "space" if family == "image" else "volume"
        names = ("height", "width") if family == "image" else ("depth", "height", "width")
        if b.draw.chance(0.7):
            first_side = b.dim(names[0], role)
            sides = (first_side, *(b.named_dim(name, first_side.sizes) for name in names[1:]))
        else:
            sides = tuple(b.dim(name, role) for name in names)
        kind = "uniform" if b.draw.chance(0.15) else "normal"
        b.start("x", (first, channels, *sides), kind)


def estimate_ms(built: Built) -> float:
    """Rough time of one call at full size on a large GPU."""
    launches = len(built.operators) * LAUNCH_MS
    return launches + built.bytes[FULL] / MEMORY_BYTES_PER_MS + built.flops[FULL] / FLOPS_PER_MS


def _batch(draw: Draw, family: str, built: Built) -> int | None:
    """A batch that keeps the program within the time that a measurement wants."""
    smallest = BATCHES[family][0]
    launches = len(built.operators) * LAUNCH_MS
    work = estimate_ms(built) - launches
    fitting: list[tuple[int, float]] = []
    for batch in BATCHES[family]:
        growth = batch / smallest
        if SHORTEST_MS <= launches + work * growth <= LONGEST_MS:
            large = built.largest[FULL] * growth > LARGEST_ELEMENTS
            fitting += [] if large else [(batch, 1.0)]
    return draw.weighted(fitting) if fitting else None


def named_dims(dims: tuple[Dim, ...]) -> list[str]:
    """Names of the constants that a shape refers to."""
    return [dim.name for dim in dims if dim.name]
