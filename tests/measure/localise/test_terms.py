"""What is added to logits, against numbers solved by hand and plain loops."""

import itertools
import math

import pytest
import torch

from nearsight.core import UserError
from nearsight.measure.layout.tokens import row_by_row
from nearsight.measure.layout.windows import blocks, indices, window_layout
from nearsight.measure.localise.kinds import Locality
from nearsight.measure.localise.terms import LayerLocality, locality_bias
from nearsight.models.layers import Grid

GRID, PREFIX = Grid(3, 5), 2
LAYOUT = row_by_row(GRID, PREFIX)
PATCHES = list(itertools.product(range(3), range(5)))


def by_loops(rule):
    """A rule of (query, key) as (row, col); prefix tokens get nothing."""
    bias = torch.zeros(17, 17, dtype=torch.float64)
    for i, query in enumerate(PATCHES):
        for j, key in enumerate(PATCHES):
            bias[PREFIX + i, PREFIX + j] = rule(query, key)
    return bias


def square(query, key):
    return (query[0] - key[0]) ** 2 + (query[1] - key[1]) ** 2


def ring(query, key):
    return max(abs(query[0] - key[0]), abs(query[1] - key[1]))


def moved(query):
    return (query[0] + 1) % 3, (query[1] + 2) % 5


HIDDEN = -math.inf
RULES = {
    "gaussian:0.7": lambda q, k: -square(q, k) / 0.98,
    "shifted:2": lambda q, k: -square(moved(q), k) / 8,
    "window:3": lambda q, k: 0.0 if ring(q, k) <= 1 else HIDDEN,
    "outside:3": lambda q, k: 0.0 if ring(q, k) > 1 else HIDDEN,
    "window:1": lambda q, k: 0.0 if q == k else HIDDEN,
}


@pytest.mark.parametrize("text", RULES)
def test_the_bias_is_what_loops_over_patches_give(text):
    kind, value = text.split(":")
    found = locality_bias(Locality(kind, float(value)), LAYOUT)
    torch.testing.assert_close(found, by_loops(RULES[text])[None])


def test_an_infinite_width_adds_nothing_and_a_narrow_one_tends_to_the_patch_itself():
    logits = torch.randn(1, 1, 17, 17, dtype=torch.float64)
    assert locality_bias(Locality("gaussian", math.inf), LAYOUT).abs().max() == 0
    narrow = (logits + locality_bias(Locality("gaussian", 0.05), LAYOUT)).softmax(-1)
    limit = (logits + locality_bias(Locality("window", 1), LAYOUT)).softmax(-1)
    torch.testing.assert_close(narrow, limit, atol=1e-12, rtol=0)


def test_identity_hides_prefix_tokens_from_patches_and_nothing_from_prefix_tokens():
    weights = locality_bias(Locality("identity"), LAYOUT).softmax(-1)[0]
    assert torch.equal(weights[PREFIX:], torch.eye(17, dtype=torch.float64)[PREFIX:])
    assert torch.equal(weights[:PREFIX], torch.full((2, 17), 1 / 17, dtype=torch.float64))


def test_a_patch_that_would_see_no_patch_keeps_its_row():
    """The middle of a 3x3 grid has nothing outside of its 3x3 window."""
    found = locality_bias(Locality("outside", 3), row_by_row(Grid(3, 3), 0))[0]
    assert torch.equal(found[4], torch.zeros(9, dtype=torch.float64))
    assert found[0].tolist() == [HIDDEN, HIDDEN, 0, HIDDEN, HIDDEN, 0, 0, 0, 0]


def test_windows_that_differ_keep_tables_of_their_own():
    shifted = window_layout(Grid(2, 6), blocks(indices(Grid(2, 6)).roll(-1, 1), (2, 3)))
    bias = LayerLocality(Locality("gaussian", 1), shifted, torch.zeros(1)).bias
    assert bias.shape == (2, 6, 6)
    assert bias[1, 0].tolist() == [0.0, -0.5, -8.0, -0.5, -1.0, -8.5]  # columns 4, 5, 0
    alike = window_layout(Grid(2, 6), blocks(indices(Grid(2, 6)), (2, 3)))
    assert LayerLocality(Locality("gaussian", 1), alike, torch.zeros(1)).bias.shape == (1, 6, 6)


def test_a_kept_share_is_the_share_of_the_plain_row():
    torch.manual_seed(3)
    logits = torch.randn(2, 3, 17, 17, dtype=torch.float64) * 2
    plain = logits.softmax(-1)
    term = LayerLocality(Locality("gaussian", 0.7, keep_share=True), LAYOUT, logits)
    kept = (logits + term.folded_term(logits.shape[:-2], logits)).softmax(-1)
    torch.testing.assert_close(kept[..., :PREFIX], plain[..., :PREFIX])
    torch.testing.assert_close(kept[..., :PREFIX, :], plain[..., :PREFIX, :])
    near = plain * locality_bias(Locality("gaussian", 0.7), LAYOUT).exp()
    among = near[..., PREFIX:, PREFIX:]
    share = plain[..., PREFIX:, PREFIX:].sum(-1, keepdim=True)
    expected = among / among.sum(-1, keepdim=True) * share
    torch.testing.assert_close(kept[..., PREFIX:, PREFIX:], expected)


def test_a_sink_is_hidden_from_all_patches_but_itself():
    logits = torch.zeros(1, 2, 17, 17, dtype=torch.float64)
    logits[0, 1, :, PREFIX + 6] = 4.0  # the second head looks at patch 6 only
    term = LayerLocality(Locality("sinks", 3), LAYOUT, logits)
    term = term.folded_term(logits.shape[:-2], logits)
    assert not term[0, 0].any()
    hidden = term[0, 1].isinf().nonzero().tolist()
    assert hidden == [[row, 8] for row in range(PREFIX, 17) if row != 8]


def test_a_wrong_patch_needs_attention_between_all_patches():
    windows = window_layout(Grid(2, 6), blocks(indices(Grid(2, 6)), (2, 3)))
    with pytest.raises(UserError, match=r"^shifted "):
        locality_bias(Locality("shifted", 1), windows)
