"""Several ways to feed one program: plain values, odd sizes, strides, extreme values.

Each *configuration* is a ``get_inputs`` together with the sizes it runs at, small for the lint and
full for a GPU. The class is the same in all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelgym.tasks.synth.builder import Built, Input
from kernelgym.tasks.synth.draw import Draw
from kernelgym.tasks.synth.sizes import FULL, FULL_TAIL, LINT, LINT_TAIL, Dim

CONFIGURATIONS = ("base", "tail", "strided", "extreme")


@dataclass(frozen=True)
class Configuration:
    """One way to feed a program."""

    name: str
    functions: str
    """Source of ``get_inputs``."""
    lint: int
    """Variant of the sizes for the lint."""
    full: int
    """Variant of the sizes for a GPU."""
    note: str = ""
    """What is special about the inputs."""


def configurations(built: Built, style: Draw) -> list[Configuration]:
    """All configurations of a program; those that would repeat another are left out."""
    plain = _function(built, {})
    found = [
        Configuration("base", plain, LINT, FULL),
        Configuration("tail", plain, LINT_TAIL, FULL_TAIL, "sizes that no block size divides"),
    ]
    strided, note = _strided(built, style)
    if strided != plain:
        found.append(Configuration("strided", strided, LINT, FULL, note))
    extreme, note = _extreme(built, style)
    if extreme != plain:
        found.append(Configuration("extreme", extreme, LINT_TAIL, FULL_TAIL, note))
    return found


def _function(built: Built, replaced: dict[str, str], after: tuple[str, ...] = ()) -> str:
    lines = [(given.name, replaced.get(given.name) or _values(given)) for given in built.inputs]
    if len(lines) == 1 and not after:
        body = [f"return [{lines[0][1]}]"]
    else:
        body = [f"{name} = {text}" for name, text in lines]
        body += [*after, f"return [{', '.join(name for name, _ in lines)}]"]
    return "\n".join(["def get_inputs():", *("    " + line for line in body)]) + "\n"


def _shape(dims: tuple[Dim, ...]) -> str:
    return ", ".join(dim.text for dim in dims)


def _values(given: Input, dims: tuple[Dim, ...] | None = None) -> str:
    shape = _shape(given.dims if dims is None else dims)
    if given.kind == "index":
        assert given.high is not None
        comma = "," if len(given.dims) == 1 else ""
        return f"torch.randint(0, {given.high.text}, ({shape}{comma}))"
    if given.kind == "mask":
        return f"torch.rand({shape}) > 0.3"
    return f"torch.{'rand' if given.kind == 'uniform' else 'randn'}({shape})"


def _strided(built: Built, style: Draw) -> tuple[str, str]:
    """Inputs that are views: transposed, sliced or with channels last."""
    first = built.inputs[0]
    rank = len(first.dims)
    if rank < 2:
        return _function(built, {}), ""
    sliced = first.kind == "normal" and built.layout not in ("image", "volume", "heads")
    if sliced and style.chance(0.4):
        wide = f"{_shape(first.dims[:-1])}, 2 * {first.dims[-1].text}"
        if style.chance(0.5):
            text, note = f"torch.randn({wide})[..., ::2]", "every second column of a wider tensor"
        else:
            cut = f"[..., :{first.dims[-1].text}]"
            text, note = f"torch.randn({wide}){cut}", "the left part of a wider tensor"
        return _function(built, {first.name: text}), note
    if built.layout == "image":
        text = f"{_values(first)}.to(memory_format=torch.channels_last)"
        return _function(built, {first.name: text}), "channels last"
    left, right = _swapped(built.layout, rank)
    replaced = {}
    for given in built.inputs if built.layout == "heads" else [first]:
        if len(given.dims) != rank or given.kind == "mask":
            continue
        dims = list(given.dims)
        dims[left], dims[right] = dims[right], dims[left]
        replaced[given.name] = f"{_values(given, tuple(dims))}.transpose({left}, {right})"
    return _function(built, replaced), f"dimensions {left} and {right} swapped in memory"


def _swapped(layout: str, rank: int) -> tuple[int, int]:
    """Two dimensions that real code swaps in this layout."""
    if layout in ("heads", "signal", "volume"):
        return 1, 2
    return (0, 1) if rank == 2 else (1, 2)


_EXTREMES = (
    ("20.0 * {0}", "large values"),
    ("0.001 * {0}", "small values"),
    ("30.0 + {0}", "values far from zero"),
)
_AFTERWARDS = (
    ("{0}[..., ::7] *= 50.0", "a few large columns"),
    ("{0} *= torch.exp2(torch.randint(-8, 8, (1,)))", "a magnitude of its own each time"),
)


def _extreme(built: Built, style: Draw) -> tuple[str, str]:
    """The first input with values that provoke overflow, cancellation or collisions."""
    first = built.inputs[0]
    indices = [given for given in built.inputs if given.kind == "index"]
    if first.kind == "index" or (indices and style.chance(0.5)):
        replaced = {}
        for given in indices:
            comma = "," if len(given.dims) == 1 else ""
            replaced[given.name] = f"torch.randint(0, 2, ({_shape(given.dims)}{comma}))"
        return _function(built, replaced), "indices that collide"
    if style.chance(0.4):
        line, note = style.pick(_AFTERWARDS)
        return _function(built, {}, (line.format(first.name),)), note
    text, note = style.pick(_EXTREMES)
    return _function(built, {first.name: text.format(_values(first))}), note
