"""A program while it is being put together: values, operators, source lines, constructor.

A move (see `moves`) appends operators to the stream ``x``. A program is built twice from the same
draws: the first pass counts how often each name is wanted and what the batch costs, the second
knows both, so that a lone convolution is called ``conv`` and two are ``conv1`` and ``conv2``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kernelgym.tasks.synth.draw import Draw
from kernelgym.tasks.synth.sizes import SIZES, VARIANTS, Dim, Sizes, elements

CHANNELS_FIRST = ("image", "signal", "volume")
_SAVED_NAMES = ("residual", "skip", "shortcut", "earlier")


@dataclass(frozen=True)
class Value:
    """A tensor of the program."""

    node: int
    dims: tuple[Dim, ...]
    sign: str = "any"
    """``any``, or ``nonneg`` where no element is negative."""


@dataclass(frozen=True)
class Operator:
    """One primitive operator and where its operands come from."""

    kind: str
    reads: tuple[int, ...]


@dataclass(frozen=True)
class Input:
    """One argument of ``forward``."""

    name: str
    dims: tuple[Dim, ...]
    kind: str
    """``normal``, ``uniform``, ``mask``, or ``index`` below the size of ``high``."""
    high: Dim | None = None


@dataclass
class Statement:
    """A line of ``forward``; ``$x`` stands for the stream."""

    text: str
    assigns: bool = False
    """The text is an expression whose value becomes the stream."""
    nests: bool = False
    """The stream appears once, as an argument of a call, so that a call may replace it."""


@dataclass
class Built:
    """What a builder hands on."""

    layout: str
    inputs: list[Input] = field(default_factory=list)
    arguments: dict[str, None] = field(default_factory=dict)
    """Parameters of the constructor, in order."""
    constants: dict[str, Sizes | float | int] = field(default_factory=dict)
    """Module-level constants: sizes by variant, or one literal."""
    init: list[str] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    phrases: list[str] = field(default_factory=list)
    """What a docstring says, one phrase a move."""
    bytes: list[float] = field(default_factory=lambda: [0.0] * len(VARIANTS))
    flops: list[float] = field(default_factory=lambda: [0.0] * len(VARIANTS))
    largest: list[int] = field(default_factory=lambda: [0] * len(VARIANTS))
    """Elements of the largest tensor."""


class Builder:
    """Collects one program."""

    def __init__(
        self, draw: Draw, layout: str, *, names: Mapping[str, int], module_style: bool
    ) -> None:
        self.draw = draw
        self.built = Built(layout)
        self.layout = layout
        self.module_style = module_style
        """Activations as submodules rather than functions."""
        self.wanted: Counter[str] = Counter()
        self._names = names
        self._history: list[tuple[Value, int]] = []
        self._saved: dict[int, str] = {}
        self._next_node = 0
        self.x = Value(-1, ())

    # Names, sizes, constructor

    def name(self, base: str) -> str:
        """A name that is free; a number is added only where several share the base."""
        self.wanted[base] += 1
        return f"{base}{self.wanted[base]}" if self._names.get(base, 1) > 1 else base

    def dim(self, base: str, role: str) -> Dim:
        """A new dimension with sizes drawn for its role."""
        return self.named_dim(base, self.draw.pick(SIZES[role]))

    def named_dim(self, base: str, sizes: Sizes) -> Dim:
        """A new dimension of given sizes, held in a constant."""
        name = self.name(base)
        self.built.constants[name] = sizes
        return Dim(sizes, name)

    def argument(self, dim: Dim) -> str:
        """The dimension as a parameter of the constructor."""
        self.built.arguments.setdefault(dim.name)
        return dim.name

    def literal(self, base: str, value: float | int) -> str:
        """A number that the constructor takes and stores; how ``forward`` refers to it."""
        name = self.name(base)
        self.built.constants[name] = value
        self.built.arguments.setdefault(name)
        self.built.init.append(f"self.{name} = {name}")
        return f"self.{name}"

    def module(self, base: str, code: str) -> str:
        """A submodule or parameter; how ``forward`` refers to it."""
        name = self.name(base)
        self.built.init.append(f"self.{name} = {code}")
        return f"self.{name}"

    def constructor_line(self, line: str) -> None:
        """One more line at the end of the constructor."""
        self.built.init.append(line)

    # Values

    def input(
        self, base: str, dims: tuple[Dim, ...], kind: str = "normal", high: Dim | None = None
    ) -> tuple[str, Value]:
        """One more argument of ``forward``."""
        name = self.name(base)
        self.built.inputs.append(Input(name, dims, kind, high))
        return name, self._value(dims, "nonneg" if kind == "uniform" else "any")

    def start(self, base: str, dims: tuple[Dim, ...], kind: str = "normal") -> None:
        """The first argument, which becomes the stream."""
        _, self.x = self.input(base, dims, kind)
        self._history.append((self.x, 0))

    def _value(self, dims: tuple[Dim, ...], sign: str) -> Value:
        self._next_node -= 1
        return Value(self._next_node, dims, sign)

    def operator(
        self,
        kind: str,
        reads: Sequence[Value],
        dims: tuple[Dim, ...],
        *,
        flops: Sequence[float] = (),
        sign: str = "any",
    ) -> Value:
        """One operator whose line is written separately."""
        value = Value(len(self.built.operators), dims, sign)
        self.built.operators.append(Operator(kind, tuple(read.node for read in reads)))
        for variant in VARIANTS:
            sizes = [elements(tensor.dims, variant) for tensor in (*reads, value)]
            self.built.bytes[variant] += 4.0 * sum(sizes)
            self.built.largest[variant] = max(self.built.largest[variant], *sizes)
            if flops:
                self.built.flops[variant] += flops[variant]
        return value

    def line(self, text: str) -> None:
        """A line of ``forward`` that leaves the stream alone."""
        self.built.statements.append(Statement(text))

    def become(self, text: str, value: Value, *, nests: bool = False) -> None:
        """The stream becomes the value of an expression."""
        self.built.statements.append(Statement(text, assigns=True, nests=nests))
        self.x = value
        self._history.append((value, len(self.built.statements)))

    def apply(
        self,
        kind: str,
        text: str,
        *,
        dims: tuple[Dim, ...] | None = None,
        reads: Iterable[Value] = (),
        flops: Sequence[float] = (),
        sign: str = "any",
        nests: bool = True,
    ) -> None:
        """One operator on the stream, on one line."""
        dims = self.x.dims if dims is None else dims
        value = self.operator(kind, (self.x, *reads), dims, flops=flops, sign=sign)
        self.become(text, value, nests=nests)

    def saved(self, value: Value) -> str:
        """Name of an earlier value of the stream, saved where it was current."""
        if value.node in self._saved:
            return self._saved[value.node]
        name = _SAVED_NAMES[len(self._saved)]
        place = next(place for earlier, place in self._history if earlier.node == value.node)
        self.built.statements.insert(place, Statement(f"{name} = $x"))
        self._history = [(earlier, at + (at > place)) for earlier, at in self._history]
        self._saved[value.node] = name
        return name

    def earlier(self) -> list[Value]:
        """Earlier values of the stream that have its shape and can be used again."""
        if len(self._saved) == len(_SAVED_NAMES):
            return []
        return [
            value
            for value, _ in self._history
            if value.node != self.x.node and value.dims == self.x.dims
        ]

    # What moves ask about the stream

    @property
    def kinds(self) -> list[str]:
        """Operators so far."""
        return [operator.kind for operator in self.built.operators]

    @property
    def last(self) -> str:
        """Kind of the last operator, or an empty string."""
        return self.built.operators[-1].kind if self.built.operators else ""

    @property
    def axis(self) -> int:
        """Index of the feature dimension."""
        return 1 if self.layout in CHANNELS_FIRST else len(self.x.dims) - 1

    @property
    def features(self) -> Dim:
        """The feature dimension: channels, or the last one."""
        return self.x.dims[self.axis]

    def with_features(self, dim: Dim) -> tuple[Dim, ...]:
        """The stream's shape with another feature dimension."""
        dims = self.x.dims
        return (*dims[: self.axis], dim, *dims[self.axis + 1 :])

    @property
    def all_named(self) -> bool:
        """Whether every dimension is held in a constant."""
        return all(dim.name for dim in self.x.dims)

    def say(self, phrase: str) -> None:
        """A phrase of the docstring."""
        self.built.phrases.append(phrase)


def per_variant(dims: tuple[Dim, ...], factor: float, *more: Dim) -> list[float]:
    """``factor`` times the product of all sizes, by variant."""
    return [factor * elements((*dims, *more), variant) for variant in VARIANTS]
