"""Moves that address elements by number: embeddings, gathers, scatters, shifts of position."""

from __future__ import annotations

from kernelgym.tasks.synth.builder import Builder
from kernelgym.tasks.synth.moves import move
from kernelgym.tasks.synth.sizes import ONE


@move("embedding", ("tokens",), price=1, weight=1.0)
def _embedding(b: Builder) -> bool:
    vocabulary = b.dim("vocabulary_size", "vocabulary")
    width = b.dim("embedding_dim", "features")
    rows, columns = b.argument(vocabulary), b.argument(width)
    table = b.module("embedding", f"nn.Embedding({rows}, {columns})")
    b.built.inputs[0] = type(b.built.inputs[0])(
        b.built.inputs[0].name, b.x.dims, "index", vocabulary
    )
    b.apply("embedding", f"{table}($x)", dims=(*b.x.dims, width))
    b.layout = "sequence"
    b.say("an embedding")
    return True


@move("position embedding", ("sequence",), price=1, weight=1.5, group="parameter")
def _positions(b: Builder) -> bool:
    length = b.x.dims[1]
    if not (length.name and b.features.name) or "embedding" not in b.kinds:
        return False
    rows, columns = b.argument(length), b.argument(b.features)
    table = b.module("positions", f"nn.Parameter(torch.randn({rows}, {columns}))")
    b.apply("add", f"$x + {table}", nests=False)
    b.say("position embeddings")
    return True


@move("select rows", ("rows", "nodes"), price=1, weight=4.0, group="index")
def _select_rows(b: Builder) -> bool:
    rows = b.x.dims[0]
    if b.kinds or not rows.name:
        return False  # later on, whoever selects first skips most of the work before it
    picked = b.dim("num_picked", "picked")
    name, index = b.input("index", (picked,), "index", rows)
    dims = (picked, *b.x.dims[1:])
    text = f"torch.index_select($x, 0, {name})" if b.draw.chance(0.5) else f"$x[{name}]"
    b.apply("index_select", text, dims=dims, reads=[index], sign=b.x.sign, nests="torch" in text)
    b.say("a selection of rows")
    return True


@move("gather", ("rows", "sequence"), price=1, weight=5.0, group="index")
def _gather(b: Builder) -> bool:
    if b.kinds or not b.all_named:
        return False
    picked = b.dim("num_picked", "picked")
    dims = b.with_features(picked)
    name, index = b.input("index", dims, "index", b.features)
    text = f"torch.gather($x, -1, {name})"
    b.apply("gather", text, dims=dims, reads=[index], sign=b.x.sign)
    b.say("a gather along the features")
    return True


@move("scatter", ("rows", "nodes"), price=1, weight=1.5, group="index")
def _scatter(b: Builder) -> bool:
    rows = b.x.dims[0]
    if not rows.name or len(b.built.inputs) > 2:
        return False
    groups = b.dim("num_groups", "picked")
    name, index = b.input("group", (rows,), "index", groups)
    size = b.argument(groups)
    stored = f"self.{size}"
    b.constructor_line(f"{stored} = {size}")
    dims = (groups, *b.x.dims[1:])
    b.line(f"empty = $x.new_zeros({stored}, $x.shape[1])")
    b.apply("index_add", f"empty.index_add(0, {name}, $x)", dims=dims, reads=[index], nests=False)
    b.say("a sum by group")
    return True


@move("message passing", ("nodes",), price=2, weight=5.0, group="index")
def _messages(b: Builder) -> bool:
    nodes = b.x.dims[0]
    if not nodes.name or len(b.built.inputs) > 1:
        return False
    edges = b.dim("num_edges", "edges")
    source, first = b.input("source", (edges,), "index", nodes)
    target, second = b.input("target", (edges,), "index", nodes)
    sent = b.operator("index_select", [b.x, first], (edges, *b.x.dims[1:]))
    value = b.operator("index_add", [sent, second], b.x.dims)
    b.become(f"torch.zeros_like($x).index_add(0, {target}, $x[{source}])", value)
    b.say("message passing along edges")
    return True


@move("largest message", ("nodes",), price=2, weight=2.0, group="index")
def _largest_message(b: Builder) -> bool:
    nodes = b.x.dims[0]
    if not nodes.name or len(b.built.inputs) > 1:
        return False
    edges = b.dim("num_edges", "edges")
    source, first = b.input("source", (edges,), "index", nodes)
    target, second = b.input("target", (edges,), "index", nodes)
    sent = b.operator("index_select", [b.x, first], (edges, *b.x.dims[1:]))
    value = b.operator("index_reduce", [b.x, sent, second], b.x.dims)
    b.become(f'$x.index_reduce(0, {target}, $x[{source}], "amax")', value)
    b.say("the largest message along edges")
    return True


@move("roll", ("rows", "sequence", "image"), price=1, weight=0.8, group="index")
def _roll(b: Builder) -> bool:
    axes = [axis for axis in range(1, len(b.x.dims)) if b.x.dims[axis] != ONE]
    if not axes:
        return False
    axis = b.draw.pick(axes)
    if b.draw.chance(0.6):
        steps = b.draw.pick((1, 2, -1, 3))
        b.apply("roll", f"torch.roll($x, shifts={steps}, dims={axis})", sign=b.x.sign)
        b.say("a cyclic shift")
    else:
        b.apply("flip", f"torch.flip($x, dims=[{axis}])", sign=b.x.sign)
        b.say("a reversal")
    return True


@move("token shift", ("sequence",), price=4, weight=1.0, group="index")
def _token_shift(b: Builder) -> bool:
    if not b.features.name:
        return False
    mix = b.module("mix", f"nn.Parameter(torch.rand({b.argument(b.features)}))")
    shifted = b.operator("pad", [b.x], b.x.dims)
    difference = b.operator("sub", [shifted, b.x], b.x.dims)
    scaled = b.operator("mul", [difference], b.x.dims)
    b.line("previous = F.pad($x[:, :-1], (0, 0, 1, 0))")
    value = b.operator("add", [b.x, scaled], b.x.dims)
    b.become(f"$x + (previous - $x) * {mix}", value)
    b.say("a mixture with the previous position")
    return True


@move("lower triangle", ("sequence",), price=1, weight=0.8, group="mask")
def _lower_triangle(b: Builder) -> bool:
    if b.features == ONE:
        return False
    b.apply("tril", "torch.tril($x)", sign=b.x.sign)
    b.say("the lower triangle")
    return True
