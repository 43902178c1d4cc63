"""From a key to a finished task that has not been run yet."""

from __future__ import annotations

from dataclasses import dataclass

from kernelgym.tasks.synth.draw import Draw
from kernelgym.tasks.synth.inputs import Configuration, configurations
from kernelgym.tasks.synth.program import Program, draw_program
from kernelgym.tasks.synth.record import Scale, StoredConfiguration, SynthTask
from kernelgym.tasks.synth.render import constants_used, init_inputs, model_source
from kernelgym.tasks.synth.split import split_of


@dataclass(frozen=True)
class Draft:
    """A task before it is run: its record without the graph that only running it can show."""

    number: int
    sketch: str
    """Hash of the operators and their connections as drawn."""
    record: SynthTask
    estimate_ms: float


def compose(seed: int, number: int, difficulties: range) -> Draft | None:
    """Candidate ``number`` of a seed; None where the draws lead nowhere.

    A candidate depends on its own number only, never on what became of others.
    """
    program = draw_program((seed, number), difficulties)
    if program is None:
        return None
    style = Draw("style", seed, number)
    model = model_source(program.built, style)
    init = init_inputs(program.built)
    stored = [_store(program, init, entry) for entry in configurations(program.built, style)]
    record = SynthTask(
        name=f"synth/{seed}-{number:06d}",
        model=model,
        init_inputs=init if program.built.arguments else "",
        configurations=tuple(stored),
        difficulty=program.difficulty,
        category=program.category,
        family=program.family,
        operators=program.operators,
        graph="",
        split=split_of(program.operators),
    )
    return Draft(number, program.sketch, record, program.estimate_ms)


def _store(program: Program, init: str, entry: Configuration) -> StoredConfiguration:
    constants = program.built.constants
    used = constants_used(program.built, entry.functions + init)

    def sizes(variant: int) -> dict[str, float | int]:
        values = {name: constants[name] for name in used}
        return {n: v[variant] if isinstance(v, tuple) else v for n, v in values.items()}

    scales: dict[Scale, dict[str, float | int]] = {
        "lint": sizes(entry.lint),
        "full": sizes(entry.full),
    }
    return StoredConfiguration(
        name=entry.name, inputs=entry.functions, sizes=scales, note=entry.note
    )
