"""Packed and padded batches give the numbers of single rows; groups hold every row once."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_policy import make_folder

from drkernel.train.batches import group_rows, make_batch
from drkernel.train.forward import score_tokens
from drkernel.train.models import ModelSettings, load_model
from drkernel.train.rows import Row, answer_row


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = make_folder(tmp_path_factory.mktemp("tiny"))
    return {
        kind: load_model(
            ModelSettings(path=str(folder), compute="fp32", attention=kind, device="cpu"),
            what="test",
        ).model
        for kind in ("sdpa", "eager")
    }


def some_rows(count=5, seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        ids = rng.integers(3, 300, size=int(rng.integers(4, 40)))
        trained = rng.random(ids.size) < 0.5
        trained[0] = False
        rows.append(Row(ids.astype(np.int64), trained))
    return rows


@pytest.mark.parametrize("kind", ["sdpa", "eager"])
@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_rows_together_score_as_rows_alone(models, kind, layout):
    rows = some_rows()
    model = models[kind]
    with torch.no_grad():
        together = score_tokens(model, make_batch(rows, layout))
        alone = [score_tokens(model, make_batch([row], "padded")) for row in rows]
    expected = torch.cat([scores.logp_N for scores in alone])
    assert torch.allclose(together.logp_N, expected, atol=1e-5, rtol=0)
    entropies = torch.cat([scores.entropy_N for scores in alone])
    assert torch.allclose(together.entropy_N, entropies, atol=1e-5, rtol=0)


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_scores_are_those_of_the_plain_model(models, layout):
    rows = some_rows(3, seed=1)
    model = models["sdpa"]
    batch = make_batch(rows, layout)
    with torch.no_grad():
        table = batch.to_rows(score_tokens(model, batch, temperature=0.7).logp_N)
        for number, row in enumerate(rows):
            logits = model(torch.from_numpy(row.ids_L)[None]).logits[0].double() / 0.7
            logp = torch.log_softmax(logits, -1)
            places = np.flatnonzero(row.trained_L)
            expected = logp[places - 1, row.ids_L[places]]
            got = table[number, : places.size].double()
            assert torch.allclose(got, expected, atol=1e-5, rtol=0)


def test_gradients_do_not_depend_on_the_slices_or_the_layout(models):
    rows = some_rows(4, seed=2)
    model = models["sdpa"]
    found = []
    for layout, slice_elements in (("packed", 1 << 26), ("packed", 1000), ("padded", 5000)):
        model.zero_grad()
        score_tokens(
            model, make_batch(rows, layout), slice_elements=slice_elements
        ).logp_N.sum().backward()
        found.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    model.zero_grad()
    scale = found[0].abs().max()
    assert scale > 0
    for other in found[1:]:
        assert (other - found[0]).abs().max() < 1e-5 * scale


@given(
    st.lists(st.integers(1, 50), max_size=40),
    st.integers(50, 200),
    st.sampled_from(["packed", "padded"]),
)
def test_groups_hold_every_row_once_and_fit(lengths, room, layout):
    groups = group_rows(lengths, room, layout)
    assert sorted(row for group in groups for row in group) == list(range(len(lengths)))
    for group in groups:
        sizes = [lengths[row] for row in group]
        used = sum(sizes) if layout == "packed" else max(sizes) * len(sizes)
        assert used <= room


@given(st.lists(st.integers(1, 12), min_size=1, max_size=7), st.integers(12, 40), st.integers(0, 9))
def test_padded_groups_cost_the_least_of_all_cuts(lengths, room, cost):
    ordered = sorted(lengths, reverse=True)

    def cheapest(rest):
        if not rest:
            return 0
        parts = [n for n in range(1, len(rest) + 1) if rest[0] * n <= room]
        return min(rest[0] * n + cost + cheapest(rest[n:]) for n in parts)

    groups = group_rows(lengths, room, "padded", pass_cost_tokens=cost)
    spent = sum(max(lengths[row] for row in group) * len(group) + cost for group in groups)
    assert spent == cheapest(ordered)


def test_a_row_that_fits_nowhere_is_an_error():
    with pytest.raises(ValueError, match="9 tokens does not fit"):
        group_rows([3, 9], 8)


def test_first_token_is_no_target():
    with pytest.raises(ValueError, match="first token"):
        Row(np.array([1, 2]), np.array([True, False]))
    assert answer_row([1], [2, 3]).targets == 2


def test_table_of_a_batch_without_targets():
    row = Row(np.array([1, 2], dtype=np.int64), np.zeros(2, dtype=bool))
    batch = make_batch([row])
    assert batch.targets == 0 and batch.to_rows(torch.zeros(0)).shape == (1, 0)
