"""Null lines: what attention without learning or without an image would score."""

import pytest
import torch

from nearsight.core import UserError
from nearsight.measure.profile.nulls import shuffled_patches
from nearsight.models.layers.grid import Grid


def numbered(count=3, rows=3, cols=5, height=2, width=4):
    """Images whose pixels say which patch they belong to (and which image and channel)."""
    patches = torch.arange(rows * cols).reshape(rows, 1, cols, 1)
    image = patches.expand(rows, height, cols, width).reshape(rows * height, cols * width)
    tags = 1000 * torch.arange(count)[:, None] + 100 * torch.arange(2)[None]  # [image, channel]
    return (image + tags[..., None, None]).float()


def test_every_patch_moves_whole_and_none_is_lost():
    images, grid = numbered(), Grid(3, 5)
    shuffled = shuffled_patches(images, grid)
    for image in range(3):
        for channel in range(2):
            found = []
            for row in range(3):
                for col in range(5):
                    patch = shuffled[image, channel, 2 * row : 2 * row + 2, 4 * col : 4 * col + 4]
                    assert patch.unique().numel() == 1
                    found.append(int(patch[0, 0]) - 1000 * image - 100 * channel)
            assert sorted(found) == list(range(15))
            assert found != list(range(15))


def test_channels_move_together_and_images_apart():
    shuffled = shuffled_patches(numbered(), Grid(3, 5))
    assert torch.equal(shuffled[:, 0] + 100, shuffled[:, 1])
    assert not torch.equal(shuffled[0] + 1000, shuffled[1])


def test_the_order_depends_on_the_number_of_the_image_alone():
    images, grid = numbered(), Grid(3, 5)
    whole, parts = shuffled_patches(images, grid), images.split([2, 1])
    assert torch.equal(whole[:2], shuffled_patches(parts[0], grid))
    assert torch.equal(whole[2:], shuffled_patches(parts[1], grid, first=2))


def test_images_that_the_grid_does_not_divide_are_refused():
    with pytest.raises(UserError, match=r"(?=.*\b3x7 grid\b).*\b6x20 pixels\b"):
        shuffled_patches(numbered(), Grid(3, 7))
