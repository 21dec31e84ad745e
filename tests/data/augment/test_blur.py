"""Gaussian blur has Pillow's bytes, and each image its own deviation."""

from __future__ import annotations

import torch
from data.augment import reference_augment as slow
from PIL import ImageFilter

from nearsight.data.augment.blur import gaussian_blur


def test_a_blur_of_any_deviation_has_pillows_bytes() -> None:
    images = slow.random_images(37)
    sigmas = torch.linspace(0, 3.1, 37, dtype=torch.float64)
    blurred = gaussian_blur(images, sigmas)
    for image, sigma, ours in zip(images, sigmas.tolist(), blurred, strict=True):
        theirs = slow.to_pillow(image).filter(ImageFilter.GaussianBlur(sigma))
        assert torch.equal(ours, slow.from_pillow(theirs)), sigma
    assert torch.equal(blurred[0], images[0])  # a deviation of 0
    assert (blurred[-1] != images[-1]).any()


def test_an_images_blur_does_not_depend_on_its_neighbours() -> None:
    images = slow.random_images(3)
    sigmas = torch.tensor([0.3, 3.0, 1.1])
    alone = [gaussian_blur(images[[i]], sigmas[[i]]) for i in range(3)]
    assert torch.equal(gaussian_blur(images, sigmas), torch.cat(alone))
