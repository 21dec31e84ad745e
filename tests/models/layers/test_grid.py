"""Grid: hand-solved distances, plain loops on non-square grids, clear errors."""

from __future__ import annotations

import math

import pytest
import torch

from nearsight.core import UserError
from nearsight.models.layers.grid import Grid


def loop_distances(rows: int, cols: int) -> list[list[float]]:
    """Distances in patches between all pairs of patches, one at a time."""
    places = [(row, col) for row in range(rows) for col in range(cols)]
    return [[math.hypot(a - c, b - d) for c, d in places] for a, b in places]


def test_uniform_attention_on_2x2_is_two_plus_root_two_quarters_of_a_patch():
    assert Grid(2, 2).uniform_distance("patches") == pytest.approx((2 + math.sqrt(2)) / 4)


@pytest.mark.parametrize(
    ("side", "uniform", "box"),
    [(8, 0.4178, 0.1032), (14, 0.396, 0.057), (16, 0.393, 0.049), (32, 0.380, 0.024)],
)
def test_null_lines_are_the_published_ones(side: int, uniform: float, box: float):
    last_digit = 1e-4 if side == 8 else 1e-3
    assert Grid(side, side).uniform_distance() == pytest.approx(uniform, abs=0.6 * last_digit)
    assert Grid(side, side).box_distance() == pytest.approx(box, abs=0.6 * last_digit)


@pytest.mark.parametrize(("rows", "cols"), [(3, 5), (5, 3), (1, 7), (2, 11)])
def test_distances_of_non_square_grids_equal_plain_loops(rows: int, cols: int):
    grid, expected = Grid(rows, cols), loop_distances(rows, cols)
    torch.testing.assert_close(
        grid.distances("patches"), torch.tensor(expected, dtype=torch.float64)
    )
    diagonal = math.hypot(rows - 1, cols - 1)
    torch.testing.assert_close(
        grid.distances(), torch.tensor(expected, dtype=torch.float64) / diagonal
    )


@pytest.mark.parametrize(("rows", "cols"), [(3, 5), (7, 2)])
def test_box_distance_of_a_non_square_grid_equals_plain_loops(rows: int, cols: int):
    means = []
    for row in loop_distances(rows, cols):
        near = [distance for distance in row if distance < 1.5]
        means.append(sum(near) / len(near))
    expected = sum(means) / len(means)
    assert Grid(rows, cols).box_distance("patches") == pytest.approx(expected)


def test_a_transposed_grid_has_the_same_null_lines():
    assert Grid(3, 7).uniform_distance() == pytest.approx(Grid(7, 3).uniform_distance())
    assert Grid(3, 7).box_distance() == pytest.approx(Grid(7, 3).box_distance())


def test_a_single_patch_is_at_distance_zero():
    assert Grid(1, 1).uniform_distance() == 0
    assert Grid(1, 1).box_distance() == 0


def test_patches_are_numbered_row_by_row():
    assert Grid(2, 3).coordinates()[4].tolist() == [1, 1]
    assert Grid(3, 1).coordinates().tolist() == [[0, 0], [1, 0], [2, 0]]


def test_an_image_that_the_patch_does_not_divide_is_refused_with_both_sizes():
    assert Grid.of_image(24, 40, 4) == Grid(6, 10)
    with pytest.raises(UserError, match=r"21x32 .* patch size 7"):
        Grid.of_image(21, 32, 7)
    with pytest.raises(UserError, match="patch_size is 0"):
        Grid.of_image(24, 40, 0)


def test_a_grid_without_patches_is_refused():
    with pytest.raises(UserError, match=r"\b1x1\b.*\b0x5\b"):
        Grid(0, 5)
