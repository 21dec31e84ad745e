"""The attention metrics: hand-solved numbers, plain loops, invariances, refusals."""

import math

import pytest
import torch
from measure import reference_attention as slow

from nearsight.core import UserError
from nearsight.measure.metrics import (
    attention_entropy,
    mean_attention_distance,
    patch_attention,
    self_mass,
)
from nearsight.models.layers.grid import Grid


def random_attention(batch, heads, tokens, sharpness=3.0):
    torch.manual_seed(7)
    return (sharpness * torch.randn(batch, heads, tokens, tokens, dtype=torch.float64)).softmax(-1)


def test_uniform_attention_on_two_by_two_is_solved_by_hand():
    everywhere = torch.full((1, 1, 4, 4), 0.25)
    patches = mean_attention_distance(everywhere, Grid(2, 2), unit="patches")
    assert patches.item() == pytest.approx((2 + math.sqrt(2)) / 4, abs=1e-15)
    diagonals = mean_attention_distance(everywhere, Grid(2, 2))
    assert diagonals.item() == pytest.approx((2 + math.sqrt(2)) / 4 / math.sqrt(2), abs=1e-15)
    assert attention_entropy(everywhere).item() == pytest.approx(1, abs=1e-11)
    assert self_mass(everywhere).item() == 0.25


def test_a_patch_that_looks_at_itself_has_no_distance_no_entropy_and_all_mass():
    itself = torch.eye(35)[None, None]
    assert mean_attention_distance(itself, Grid(5, 7)).item() == 0
    assert attention_entropy(itself).item() == pytest.approx(0, abs=1e-11)
    assert self_mass(itself).item() == 1


def test_looking_at_the_opposite_corner_is_one_diagonal_without_entropy():
    opposite = torch.eye(4).flip(0)[None, None]
    assert mean_attention_distance(opposite, Grid(2, 2)).item() == pytest.approx(1, abs=1e-15)
    assert attention_entropy(opposite).item() == pytest.approx(0, abs=1e-11)
    assert self_mass(opposite).item() == 0


def test_uniform_attention_on_eight_by_eight_is_the_papers_number():
    everywhere = torch.full((2, 3, 64, 64), 1 / 64)
    assert mean_attention_distance(everywhere, Grid(8, 8)).round(decimals=4).unique() == 0.4178


@pytest.mark.parametrize(("rows", "cols", "num_prefix"), [(3, 5, 2), (5, 2, 1), (2, 7, 0)])
def test_metrics_equal_plain_loops(rows, cols, num_prefix):
    tokens = random_attention(2, 3, rows * cols + num_prefix)
    patches = patch_attention(tokens, num_prefix)
    for image in range(2):
        for head in range(3):
            expected = slow.patch_rows(tokens[image, head].tolist(), num_prefix)
            assert torch.allclose(patches[image, head], torch.tensor(expected).double(), atol=1e-7)
            found = (
                mean_attention_distance(patches, Grid(rows, cols))[image, head].item(),
                attention_entropy(patches)[image, head].item(),
                self_mass(patches)[image, head].item(),
            )
            wanted = (
                slow.distance(expected, rows, cols),
                slow.entropy(expected),
                slow.own_mass(expected),
            )
            assert found == pytest.approx(wanted, abs=1e-12)


def test_transposing_grid_and_attention_together_changes_nothing():
    grid, attention = Grid(3, 5), random_attention(2, 3, 15)
    order = torch.arange(15).reshape(3, 5).T.flatten()  # patch of the transposed grid -> patch
    transposed = attention[:, :, order][..., order]
    turned = Grid(5, 3)
    for unit in ("diagonal", "patches"):
        before = mean_attention_distance(attention, grid, unit)
        after = mean_attention_distance(transposed, turned, unit)
        assert torch.allclose(before, after, atol=1e-14)
    assert not torch.allclose(
        mean_attention_distance(attention, grid), mean_attention_distance(transposed, grid)
    )
    assert torch.allclose(attention_entropy(attention), attention_entropy(transposed), atol=1e-14)
    assert torch.allclose(self_mass(attention), self_mass(transposed), atol=1e-14)


def test_float32_attention_is_measured_in_float64():
    attention = random_attention(2, 3, 35)
    found = mean_attention_distance(attention.float(), Grid(5, 7))
    assert found.dtype == torch.float64
    assert torch.allclose(found, mean_attention_distance(attention, Grid(5, 7)), atol=1e-6)


def test_half_precision_rows_pass_with_their_own_tolerance():
    attention = random_attention(2, 3, 35)
    found = mean_attention_distance(attention.half(), Grid(5, 7))
    assert torch.allclose(found, mean_attention_distance(attention, Grid(5, 7)), atol=1e-3)


def test_attention_of_another_grid_is_refused():
    with pytest.raises(UserError, match=r"\[batch, head, 35, 35\]"):
        mean_attention_distance(random_attention(2, 3, 36), Grid(5, 7))


@pytest.mark.parametrize("metric", [attention_entropy, self_mass])
def test_rows_that_do_not_sum_to_one_are_refused(metric):
    cut = random_attention(2, 3, 36)[..., 1:, 1:]
    with pytest.raises(UserError, match=r"\boff by (0\.\d+|nan)\b.*patch_attention"):
        metric(cut)
    with pytest.raises(UserError, match=r"\boff by (0\.\d+|nan)\b.*patch_attention"):
        mean_attention_distance(cut, Grid(5, 7))
    with pytest.raises(UserError, match=r"\boff by (0\.\d+|nan)\b.*patch_attention"):
        metric(cut * float("nan"))


def test_a_row_with_all_its_attention_on_the_prefix_is_refused():
    attention = random_attention(2, 3, 17)
    attention[1, 2, 11] = 0
    attention[1, 2, 11, :2] = 0.5
    with pytest.raises(UserError, match=r"\bprefix tokens\b.*\bNaN\b"):
        patch_attention(attention, 2)


@pytest.mark.parametrize("num_prefix", [-1, 17, 19])
def test_more_prefix_tokens_than_tokens_are_refused(num_prefix):
    with pytest.raises(UserError, match=rf"num_prefix is {num_prefix}\b.*\b17 tokens\b"):
        patch_attention(random_attention(1, 1, 17), num_prefix)


def test_the_entropy_of_a_single_patch_is_refused():
    with pytest.raises(UserError, match=r"\b2 patches\b.*\[1, 1, 1, 1\]"):
        attention_entropy(torch.ones(1, 1, 1, 1))
