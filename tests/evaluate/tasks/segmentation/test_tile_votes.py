"""Votes of whole label tiles, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from evaluate.made_sets import bench_of, pictures

from nearsight.core import UserError
from nearsight.evaluate.tasks.segmentation.all_methods import SEGMENTATION
from nearsight.evaluate.tasks.segmentation.tile_votes import label_tiles, tile_votes
from nearsight.models.layers import Grid


def test_tiles_hold_the_pixels_of_their_patch() -> None:
    split = pictures(3, 0)
    tiles = label_tiles(split, Grid(3, 5), (24, 40))
    mask = split.mask(2)
    np.testing.assert_array_equal(tiles[2 * 15 + 7].reshape(8, 8), mask[8:16, 16:24])


def test_votes_are_those_of_a_plain_loop() -> None:
    split = pictures(3, 0)
    grid, size = Grid(3, 5), (24, 40)
    tiles = label_tiles(split, grid, size)
    neighbours = np.random.RandomState(3).randint(0, 45, (15, 7))
    votes = tile_votes(neighbours, tiles, grid, size, 3)
    for i, j in ((0, 0), (9, 17), (23, 39)):
        patch = i // 8 * 5 + j // 8
        labels = [tiles[each].reshape(8, 8)[i % 8, j % 8] for each in neighbours[patch]]
        assert votes[:, i, j].tolist() == [labels.count(each) for each in range(3)]


def test_k_and_the_measure_are_chosen_on_training_images(tmp_path) -> None:
    whole, _, _ = SEGMENTATION.run(bench_of(tmp_path, "capi-knn", place="norm"))
    tried = whole.settings["tried"]
    assert len(tried) == 8
    chosen = f"{whole.settings['nearest_by']} {whole.settings['k']}"
    assert tried[chosen] == max(tried.values())


def test_patches_that_do_not_divide_the_image_are_an_error() -> None:
    with pytest.raises(UserError, match=r"\bcapi-knn\b.*\b3x5\b.*\b25x40\b.*--image-size"):
        label_tiles(pictures(1, 0), Grid(3, 5), (25, 40))
