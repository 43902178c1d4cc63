"""Programs: deterministic, of the wanted size, readable, in the split of their operators."""

import ast
import hashlib
import subprocess
import sys
from collections import defaultdict

import pytest

from kernelgym.tasks.constants import constant_values
from kernelgym.tasks.synth.compose import compose
from kernelgym.tasks.synth.draw import Draw
from kernelgym.tasks.synth.moves import MOVES
from kernelgym.tasks.synth.program import FAMILIES, graph_hash
from kernelgym.tasks.synth.split import split_of

SEED = 11
DRAFTS = [draft for n in range(250) if (draft := compose(SEED, n, range(1, 9)))]


def test_a_draw_is_decided_by_its_key_alone():
    first, again, other = Draw("a", 1), Draw("a", 1), Draw("a", 2)
    numbers = [first.below(1000) for _ in range(20)]
    assert numbers == [again.below(1000) for _ in range(20)]
    assert numbers != [other.below(1000) for _ in range(20)]
    # Written down once: another version of Python, or another machine, must give the same.
    assert numbers[:5] == [161, 116, 247, 173, 937]


def test_weights_are_respected():
    draw = Draw("weights")
    drawn = [draw.weighted([("often", 9.0), ("never", 0.0), ("rare", 1.0)]) for _ in range(1000)]
    assert 850 < drawn.count("often") < 950
    assert drawn.count("never") == 0


def test_the_same_number_gives_the_same_bytes():
    again = [compose(SEED, draft.number, range(1, 9)) for draft in DRAFTS[:40]]
    assert [d.record for d in again if d] == [d.record for d in DRAFTS[:40]]


def test_bytes_do_not_depend_on_the_process():
    code = (
        "import hashlib\n"
        "from kernelgym.tasks.synth.compose import compose\n"
        "drafts = [d for n in range(40) if (d := compose(11, n, range(1, 9)))]\n"
        "text = ''.join(d.record.model_dump_json() for d in drafts)\n"
        "print(hashlib.sha256(text.encode()).hexdigest())\n"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    here = [d for n in range(40) if (d := compose(11, n, range(1, 9)))]
    text = "".join(draft.record.model_dump_json() for draft in here)
    assert digests == {hashlib.sha256(text.encode()).hexdigest()}


def test_difficulty_is_the_number_of_operators():
    assert {draft.record.difficulty for draft in DRAFTS} == set(range(1, 9))
    for draft in DRAFTS:
        assert len(draft.record.operators) == draft.record.difficulty
    only = [d for n in range(60) if (d := compose(SEED, n, range(3, 5)))]
    assert {draft.record.difficulty for draft in only} == {3, 4}


def test_every_family_and_most_moves_turn_up():
    assert {draft.record.family for draft in DRAFTS} == {family for family, _ in FAMILIES}
    kinds = {kind for draft in DRAFTS for kind in draft.record.operators}
    assert {"linear", "conv2d", "softmax", "layer_norm", "embedding", "index_add"} <= kinds
    assert len({move.name for move in MOVES}) == len(MOVES)


def test_a_split_never_shares_a_set_of_operators():
    splits = defaultdict(set)
    for draft in DRAFTS:
        splits[frozenset(draft.record.operators)].add(draft.record.split)
        assert split_of(reversed(draft.record.operators)) == draft.record.split
    assert all(len(found) == 1 for found in splits.values())
    assert {draft.record.split for draft in DRAFTS} == {"train", "validation", "test"}


def test_shares_of_the_splits():
    found = [split_of([f"operator{n}"]) for n in range(4000)]
    assert 3100 < found.count("train") < 3300
    assert 340 < found.count("test") < 460


def test_sources_are_what_a_person_would_write():
    for draft in DRAFTS:
        source = draft.record.task().reference
        tree = ast.parse(source)
        model = next(node for node in tree.body if isinstance(node, ast.ClassDef))
        assert ast.get_docstring(model), source
        assert max(map(len, source.splitlines())) <= 110, source
        assert "$" not in source
        assert not unused_names(tree), (unused_names(tree), source)


def unused_names(tree: ast.Module) -> set[str]:
    """Constants, imports, locals and arguments that nothing reads."""
    read = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    written = {
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    arguments = {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)} - {"self"}
    return (written | arguments) - read - {"_"}


def test_full_and_lint_sizes_share_their_names():
    for draft in DRAFTS[:60]:
        for entry in draft.record.configurations:
            assert entry.sizes["lint"].keys() == entry.sizes["full"].keys()
            small = draft.record.task(entry.name, "lint").reference
            assert constant_values(small) == entry.sizes["lint"]


def test_configurations_differ_in_inputs_and_sizes():
    for draft in DRAFTS[:60]:
        names = [entry.name for entry in draft.record.configurations]
        assert names[:2] == ["base", "tail"]
        sources = {draft.record.task(name).reference for name in names}
        assert len(sources) == len(names)


@pytest.mark.parametrize("name", ["residual", "skip"])
def test_saved_values_are_saved_before_they_change(name):
    """A residual connection is worth something only if the stream changes in between."""
    for draft in DRAFTS:
        lines = [line.strip() for line in draft.record.model.splitlines()]
        for place, line in enumerate(lines):
            if line.startswith(f"{name} = "):
                used = next(n for n in range(place + 1, len(lines)) if name in lines[n])
                assert used > place
                between = lines[place + 1 : used]
                assert any(" = " in other for other in between) or "(" in lines[used], lines


def test_graph_hash_sees_order_and_wiring_but_not_names():
    from kernelgym.tasks.synth.builder import Operator

    straight = [Operator("relu", (-1,)), Operator("add", (0, -2))]
    swapped = [Operator("relu", (-1,)), Operator("add", (-2, 0))]
    different = [Operator("relu", (-1,)), Operator("sub", (-2, 0))]
    assert graph_hash(straight) == graph_hash(swapped)
    assert graph_hash(different) != graph_hash([Operator("relu", (-1,)), Operator("sub", (0, -2))])
