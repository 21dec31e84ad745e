"""The metrics as pure functions of attention and grid: solved by hand, by loops, by symmetry."""

import math

import pytest
import torch
from measure import reference_metrics as slow

from nearsight.core import UserError
from nearsight.measure.metrics import (
    distance_score,
    head_diversity,
    mad_without_self,
    mean_attention_distance,
    mean_offset,
    mutual_information,
    nonlocality,
    offset_spread,
    patch_attention,
    radius_mass,
    ring_mass,
    self_mass,
    sink_mass,
)
from nearsight.models.layers.grid import Grid


def random_attention(batch, heads, tokens, sharpness=3.0):
    torch.manual_seed(11)
    return (sharpness * torch.randn(batch, heads, tokens, tokens, dtype=torch.float64)).softmax(-1)


def looking_at(targets):
    """One head in which patch i looks at patch targets[i] alone."""
    return torch.nn.functional.one_hot(torch.tensor(targets), len(targets)).double()[None, None]


def shifted(grid, down, right):
    """Every patch looks at the one at this offset, at the border as far as it can."""
    targets = [
        min(max(row + down, 0), grid.rows - 1) * grid.cols + min(max(col + right, 0), grid.cols - 1)
        for row, col in slow.places(grid.rows, grid.cols)
    ]
    return looking_at(targets)


def box(grid):
    near = grid.box().double()
    return (near / near.sum(-1, keepdim=True))[None, None]


@pytest.mark.parametrize(("rows", "cols", "num_prefix"), [(3, 5, 2), (5, 2, 1), (2, 7, 0)])
def test_definitions_equal_plain_loops(rows, cols, num_prefix):
    grid, tokens = Grid(rows, cols), random_attention(2, 3, rows * cols + num_prefix)
    patches = patch_attention(tokens, num_prefix)
    points = slow.places(rows, cols)
    rings = max(rows, cols)
    for image in range(2):
        heads = patches[image].tolist()
        assert head_diversity(patches)[image].item() == pytest.approx(
            slow.diversity(heads), abs=1e-12
        )
        for head, lines in enumerate(heads):
            found = {
                "nonlocality": nonlocality(patches, grid),
                "without self": mad_without_self(patches, grid, unit="patches"),
                "score": distance_score(patches, grid),
                "self": self_mass(patches),
                "rings": ring_mass(patches, grid),
                "radii": radius_mass(patches, grid),
                "offset": mean_offset(patches, grid),
                "spread": offset_spread(patches, grid),
                "information": mutual_information(patches),
                "sink": sink_mass(tokens, num_prefix),
            }
            given = lines, points, points
            far = slow.uniform_distance(points, points)
            expected = {
                "nonlocality": slow.distance(*given),
                "without self": slow.distance_without_self(*given),
                "score": 1 - slow.distance(*given) / far,
                "self": slow.own_mass(*given),
                "rings": slow.ring_masses(*given, rings),
                "radii": slow.radius_masses(*given),
                "offset": slow.offset(*given),
                "spread": slow.spread(*given),
                "information": slow.information(lines),
                "sink": sum(
                    sum(row[:num_prefix]) for row in tokens[image, head].tolist()[num_prefix:]
                )
                / len(lines),
            }
            for name, values in found.items():
                assert values.dtype == torch.float64
                close = pytest.approx(expected[name], abs=1e-12)
                assert values[image, head].tolist() == close, name


def test_the_number_of_a_head_that_sends_nothing_away_is_zero_and_finite():
    assert mad_without_self(torch.eye(15)[None, None], Grid(3, 5)).item() == 0.0
    assert distance_score(torch.eye(15)[None, None], Grid(3, 5)).item() == 1.0


def test_what_leaves_and_what_stays_make_up_the_distance():
    attention, grid = random_attention(2, 3, 35), Grid(5, 7)
    made_up = (1 - self_mass(attention)) * mad_without_self(attention, grid)
    assert torch.allclose(made_up, mean_attention_distance(attention, grid), atol=1e-14)


def test_a_patch_that_sends_little_away_counts_little():
    one, far = 1e-9, looking_at([2, 1, 2])  # patch 0 looks two patches away, the others at home
    attention = one * far + (1 - one) * torch.eye(3).double()
    attention[..., 2, :] = torch.tensor([0.0, 1.0, 0.0])  # patch 2 looks at its neighbour
    found = mad_without_self(attention, Grid(1, 3), unit="patches").item()
    assert found == pytest.approx(1 + one / (1 + one), abs=1e-12)


def test_rings_of_uniform_attention_are_counted_by_hand():
    # 2x3: of 36 pairs 6 are a patch with itself; first and last column: 2 x 2 x 2 pairs
    found = ring_mass(torch.full((1, 1, 6, 6), 1 / 6), Grid(2, 3)).flatten().tolist()
    assert found == pytest.approx([6 / 36, 22 / 36, 8 / 36], abs=1e-7)


def test_the_profile_of_rings_sums_to_one_and_holds_the_other_masses():
    attention, grid = random_attention(2, 3, 35), Grid(5, 7)
    rings = ring_mass(attention, grid)
    assert rings.shape == (2, 3, 7)
    assert torch.allclose(rings.sum(-1), torch.ones(2, 3).double(), atol=1e-14)
    assert torch.allclose(rings[..., 0], self_mass(attention), atol=1e-14)
    assert torch.allclose(radius_mass(attention, grid), rings.cumsum(-1)[..., 1:4], atol=1e-14)


def test_logits_are_called_logits():
    logits = torch.randn(2, 3, 35, 35, generator=torch.Generator().manual_seed(3))
    with pytest.raises(UserError, match=r"logits\.softmax\(-1\)"):
        self_mass(logits)


def test_a_three_by_three_box_lies_within_radius_one():
    assert radius_mass(box(Grid(5, 7)), Grid(5, 7)).flatten().tolist() == pytest.approx([1, 1, 1])


def test_looking_one_up_and_two_to_the_right_is_told_by_the_offset():
    grid = Grid(5, 7)
    offset = mean_offset(shifted(grid, -1, 2), grid).flatten().tolist()
    # the upper row stays where it is, the last column too, the last but one moves by one
    assert offset == pytest.approx([-4 / 5, (5 * 2 + 1) / 7], abs=1e-14)
    assert mean_offset(torch.full((1, 1, 35, 35), 1 / 35), grid).abs().max() < 1e-7


def test_a_shift_has_no_spread_but_that_of_the_border():
    share = 1 / 7  # of patches in the last column, which cannot look to the right
    found = offset_spread(shifted(Grid(5, 7), 0, 1), Grid(5, 7)).item()
    assert found == pytest.approx(math.sqrt(share * (1 - share)), abs=1e-14)
    assert offset_spread(torch.eye(35)[None, None], Grid(5, 7)).item() == 0


def test_information_is_one_for_a_permutation_and_zero_for_equal_rows():
    assert mutual_information(looking_at([3, 1, 4, 2, 0])).item() == pytest.approx(1, abs=1e-14)
    alike = random_attention(1, 1, 7)[..., :1, :].expand(1, 1, 7, 7)
    assert mutual_information(alike).item() == pytest.approx(0, abs=1e-7)


def test_information_is_zero_where_nothing_can_be_told():
    assert mutual_information(looking_at([0, 0, 0])).item() == 0  # all look at one patch
    assert mutual_information(torch.ones(1, 1, 1, 1)).item() == 0


def test_half_of_the_queries_looking_left_tells_a_part():
    # p(k) is even over two patches, H(k) = log 2, H(k|q) = 0, H(q) = log 4
    found = mutual_information(looking_at([0, 0, 1, 1])).item()
    assert found == pytest.approx(math.log(2) / math.sqrt(math.log(4) * math.log(2)), abs=1e-14)


def test_heads_that_share_half_their_attention_are_half_apart():
    one, other = looking_at([0, 1, 2]), looking_at([1, 2, 0])
    half = (one + other) / 2
    heads = torch.cat([one, other, half], dim=1)
    assert head_diversity(heads).item() == pytest.approx((1 + 0.5 + 0.5) / 3, abs=1e-15)


def test_a_single_head_has_no_diversity():
    assert head_diversity(random_attention(3, 1, 7)).tolist() == [0, 0, 0]


def test_transposing_grid_and_attention_together_changes_nothing_but_the_axes():
    grid, turned = Grid(3, 5), Grid(5, 3)
    attention = random_attention(2, 3, 15)
    order = torch.arange(15).reshape(3, 5).T.flatten()  # patch of the transposed grid -> patch
    transposed = attention[:, :, order][..., order]
    for metric in (
        nonlocality, mad_without_self, distance_score, ring_mass, radius_mass, offset_spread,
    ):  # fmt: skip
        assert torch.allclose(metric(attention, grid), metric(transposed, turned), atol=1e-14)
    offset = mean_offset(attention, grid)
    assert torch.allclose(offset.flip(-1), mean_offset(transposed, turned), atol=1e-14)
    assert not torch.allclose(offset, mean_offset(transposed, turned))
    for metric in (mutual_information, head_diversity):
        assert torch.allclose(metric(attention), metric(transposed), atol=1e-14)


def test_the_order_of_images_is_kept():
    attention, grid = random_attention(3, 2, 15), Grid(3, 5)
    for metric in (lambda x: ring_mass(x, grid), lambda x: offset_spread(x, grid), head_diversity):
        assert torch.equal(metric(attention).flip(0), metric(attention.flip(0)))


def test_the_last_patch_is_not_taken_for_a_prefix_token():
    tokens = torch.zeros(1, 1, 5, 5)
    tokens[..., 0] = 0.25
    tokens[..., 4] = 0.75
    assert sink_mass(tokens, 1).item() == 0.25
    assert sink_mass(tokens, 0).item() == 0
