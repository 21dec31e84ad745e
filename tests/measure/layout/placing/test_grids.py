"""Centres are sorted into rows and columns, pooled cells get exact places."""

import itertools

import pytest
import torch

from nearsight.measure.layout.placing.grids import (
    Sampling,
    adaptive_sampling,
    arrange,
    coordinates,
    kernel_sampling,
    nearest_cells,
    snap,
)


def lattice(rows, cols, height=30.0, width=55.0):
    """Centres of the cells of an image, row by row."""
    return torch.tensor(
        [
            ((row + 0.5) * height / rows, (col + 0.5) * width / cols)
            for row, col in itertools.product(range(rows), range(cols))
        ],
        dtype=torch.float64,
    )


def test_shuffled_cells_of_a_non_square_grid_are_put_in_their_cells():
    order = torch.randperm(15, generator=torch.Generator().manual_seed(3))
    found = arrange(lattice(3, 5)[order], (30, 55))
    assert str(found.grid) == "3x5"
    assert found.cells.tolist() == order.tolist()
    assert found.gap == pytest.approx(1.0)
    assert found.row_centres.tolist() == pytest.approx([5, 15, 25])


def test_the_gap_is_the_smallest_one_in_cells():
    centres = lattice(3, 5)
    centres[7, 0] += 4.0  # one token of row 1, 6 pixels from row 2: 0.6 of a cell of 10 pixels
    assert arrange(centres, (30, 55)).gap == pytest.approx(0.6)


def test_centres_pulled_to_the_middle_have_a_small_gap_however_exact_they_are():
    middle = torch.tensor([15.0, 27.5], dtype=torch.float64)
    pulled = middle + (lattice(3, 5) - middle) * 0.01
    assert arrange(pulled, (30, 55)).gap == pytest.approx(0.01)


def test_two_tokens_in_one_cell_are_no_grid():
    centres = lattice(3, 5)
    centres[4] = centres[11]
    assert arrange(centres, (30, 55)) is None


def test_centres_beyond_the_ruler_follow_its_median_step():
    ruler = torch.tensor([10.0, 20.0, 30.0, 45.0])
    at = coordinates(ruler, torch.tensor([0.0, 12.5, 45.0, 65.0]))
    assert at.tolist() == pytest.approx([-1, 0.25, 3, 5])


def test_repeated_keys_are_found_on_the_cells_of_the_queries():
    queries = arrange(lattice(3, 5), (30, 55))
    cells, margin = nearest_cells(lattice(3, 5)[[4, 4, 0, 9]] + 1.1, queries)
    assert cells.tolist() == [4, 4, 0, 9]
    assert margin == pytest.approx(1 - 2 * 0.11)


def test_a_kernel_with_padding_decides_where_cells_at_the_border_sit():
    sampling = kernel_sampling((13, 13), (7, 7), (3, 3), (2, 2), (1, 1), (1, 1))
    assert sampling == Sampling((13, 13), (7, 7), *[(0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0)] * 2)
    measured = torch.tensor([0.45, 2.02, 4.0, 6.1, 8.0, 9.9, 11.6], dtype=torch.float64)
    assert snap(measured, 13, [(13, sampling.rows)]).tolist() == list(sampling.rows)
    pooled = adaptive_sampling((13, 13), (7, 7))
    assert pooled.rows == (0.5, 2, 4, 6, 8, 10, 11.5)
    assert snap(measured, 13, [(13, pooled.rows)]).tolist() == list(pooled.rows)


def test_a_kernel_that_does_not_fit_what_was_measured_is_not_believed():
    measured = torch.tensor([1.52, 5.49, 9.5], dtype=torch.float64)
    wrong = kernel_sampling((13, 13), (3, 3), (4, 4), (4, 4), (2, 2), (1, 1))
    assert snap(measured, 13, [(13, wrong.rows)]).tolist() == [1.5, 5.5, 9.5]
    unclear = torch.tensor([1.25, 5.25], dtype=torch.float64)
    assert snap(unclear, 13, []).tolist() == [1.25, 5.25]


def test_the_tightest_grid_is_taken_and_not_the_one_with_the_largest_gap():
    """Four tokens of 2x2 whose columns are so uneven that 1x4 has larger gaps."""
    centres = torch.tensor([[20.0, 10.0], [22.0, 58.0], [70.0, 34.0], [74.0, 82.0]])
    found = arrange(centres.double(), (96, 96))
    assert str(found.grid) == "2x2"
    assert found.cells.tolist() == [0, 1, 2, 3]


def test_a_kernel_half_on_padding_may_be_measured_a_cell_further_in():
    listed = kernel_sampling((5, 5), (3, 3), (3, 3), (2, 2), (1, 1), (1, 1)).rows
    measured = torch.tensor([0.7, 2.1, 3.2], dtype=torch.float64)
    assert snap(measured, 5, [(5, listed)]).tolist() == [0.0, 2.0, 4.0]
    moved = torch.tensor([0.0, 2.6, 4.0], dtype=torch.float64)  # inside, that is too far
    assert snap(moved, 5, [(5, listed)]).tolist() == [0.0, 2.5, 4.0]
