"""What a candidate's source says about itself: kernels, launches, torch calls, the entry point.

Advice only. It reads the syntax tree, never text patterns, it rejects nothing, and no verdict rests
on it: the judge uses it to say which line gave a candidate away, and to choose extra probes. A
source that wants to hide (names built at run time, ``exec``) hides from this module.

No torch is imported. Hostile text comes here: beyond `MAX_ANALYSED_BYTES` or `MAX_NODES` nothing is
analysed, and a parser that gives up yields a `SyntaxProblem`.
"""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass

from kernelgym.submission import calls, reach
from kernelgym.submission.names import full_name, imported_names
from kernelgym.submission.operators import OperatorKind

MAX_ANALYSED_BYTES = 200_000
MAX_NODES = 50_000
_EXCERPT_CHARACTERS = 200


@dataclass(frozen=True)
class SyntaxProblem:
    """Why the source cannot be parsed."""

    message: str
    line: int | None
    excerpt: str


@dataclass(frozen=True)
class Definition:
    """A class of the source."""

    name: str
    line: int
    bases: tuple[str, ...]
    """Full dotted names of its bases, where they are plain names."""
    excerpt: str


@dataclass(frozen=True)
class Kernel:
    """A Triton kernel, or a device function that kernels call."""

    name: str
    line: int
    """Line of its ``def``."""
    decorators: tuple[str, ...]
    """Full names, outermost first: ``("triton.autotune", "triton.jit")``."""
    excerpt: str
    called_by: tuple[str, ...] = ()
    """Kernels whose body calls it: it is a device function."""


@dataclass(frozen=True)
class Launch:
    """``kernel[grid](...)``."""

    kernel: str
    line: int
    function: str
    """Qualified name of the function that holds it, empty at module level."""
    reachable: bool
    """Whether the entry point can get there, by the names that live code mentions."""
    excerpt: str


@dataclass(frozen=True)
class TorchCall:
    """A computation left to torch, in code that the entry point reaches outside ``__init__``."""

    name: str
    """``torch.matmul``, ``torch.nn.Linear`` (a module that is called), ``@`` or ``.softmax``."""
    kind: OperatorKind
    line: int
    function: str
    excerpt: str


@dataclass(frozen=True)
class StaticReport:
    """Everything `analyse` found, in source order."""

    syntax_error: SyntaxProblem | None = None
    too_long: bool = False
    """The source is beyond `MAX_ANALYSED_BYTES` or `MAX_NODES` and was not analysed."""
    entry_point_line: int | None = None
    """Line of the entry point's class; None when no such class is defined."""
    classes: tuple[Definition, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    launches: tuple[Launch, ...] = ()
    never_launched: tuple[Kernel, ...] = ()
    """Kernels that no reachable code launches or passes on, and no live kernel calls."""
    torch_calls: tuple[TorchCall, ...] = ()

    def torch_call_of(self, *kinds: OperatorKind) -> TorchCall | None:
        """The first call of one of these kinds."""
        return next((call for call in self.torch_calls if call.kind in kinds), None)


def analyse(source: str, entry_point: str = "ModelNew") -> StaticReport:
    """Describe a candidate's source; never raises for anything a source may contain."""
    if len(source.encode(errors="replace")) > MAX_ANALYSED_BYTES:
        return StaticReport(too_long=True)
    tree = _parse(source)
    if isinstance(tree, SyntaxProblem):
        return StaticReport(syntax_error=tree)
    nodes = calls.walk_with_function(tree, MAX_NODES)
    if nodes is None:
        return StaticReport(too_long=True)
    return _Analysis(nodes, source, entry_point, reach.reachable(tree, entry_point)).report()


def _parse(source: str) -> ast.Module | SyntaxProblem:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except SyntaxError as error:
        return SyntaxProblem(error.msg, error.lineno, excerpt(source_lines(source), error.lineno))
    except (ValueError, RecursionError, MemoryError) as error:
        reason = str(error) or type(error).__name__
        return SyntaxProblem(f"the parser gave up: {reason}", None, "")


def source_lines(source: str) -> list[str]:
    """Lines as the parser counts them (``str.splitlines`` also splits at form feeds)."""
    return source.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def excerpt(lines: list[str], line: int | None) -> str:
    """One line without its indentation, cut; empty when there is no such line."""
    if line is None or not 0 < line <= len(lines):
        return ""
    return lines[line - 1].strip()[:_EXCERPT_CHARACTERS]


class _Analysis:
    """What the parts of the report share."""

    def __init__(self, nodes: calls.Nodes, source: str, entry_point: str, live: set[str]) -> None:
        self.nodes = nodes
        self.lines = source_lines(source)
        self.entry_point = entry_point
        self.names = imported_names(node for node, _ in nodes)
        self.live = live

    def report(self) -> StaticReport:
        classes = self._classes()
        kernels = self._kernels()
        launches = self._launches(kernels)
        entry = [found.line for found in classes if found.name == self.entry_point]
        return StaticReport(
            entry_point_line=entry[-1] if entry else None,
            classes=classes,
            kernels=kernels,
            launches=launches,
            never_launched=self._never_launched(kernels, launches),
            torch_calls=self._torch_calls({kernel.name for kernel in kernels}),
        )

    def _excerpt(self, line: int) -> str:
        return excerpt(self.lines, line)

    def _classes(self) -> tuple[Definition, ...]:
        return tuple(
            Definition(
                node.name,
                node.lineno,
                tuple(filter(None, (full_name(base, self.names) for base in node.bases))),
                self._excerpt(node.lineno),
            )
            for node, _ in self.nodes
            if isinstance(node, ast.ClassDef)
        )

    def _kernels(self) -> tuple[Kernel, ...]:
        found = calls.kernel_definitions(self.nodes, self.names)
        callers = calls.device_callers(found)
        return tuple(
            Kernel(
                item.name,
                item.node.lineno,
                item.decorators,
                self._excerpt(item.node.lineno),
                tuple(sorted(callers.get(item.name, ()))),
            )
            for item in found
        )

    def _launches(self, kernels: tuple[Kernel, ...]) -> tuple[Launch, ...]:
        aliases = calls.kernel_aliases(self.nodes, {kernel.name for kernel in kernels})
        return tuple(
            Launch(
                site.name,
                site.line,
                site.function,
                site.function in self.live,
                self._excerpt(site.line),
            )
            for site in calls.launch_sites(self.nodes, aliases)
        )

    def _never_launched(
        self, kernels: tuple[Kernel, ...], launches: tuple[Launch, ...]
    ) -> tuple[Kernel, ...]:
        live = {launch.kernel for launch in launches if launch.reachable}
        live |= calls.passed_on(self.nodes, {kernel.name for kernel in kernels}, self.live)
        growing = True
        while growing:
            called = {k.name for k in kernels if live & set(k.called_by)}
            growing = not called <= live
            live |= called
        return tuple(kernel for kernel in kernels if kernel.name not in live)

    def _torch_calls(self, kernels: set[str]) -> tuple[TorchCall, ...]:
        return tuple(
            TorchCall(site.name, site.kind, site.line, site.function, self._excerpt(site.line))
            for site in calls.torch_sites(self.nodes, self.names, kernels)
            if site.function in self.live and not site.function.endswith(".__init__")
        )
