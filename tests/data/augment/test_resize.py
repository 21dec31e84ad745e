"""Resized crops: Pillow's bytes, boxes of the drawn area and shape, the same in any batch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from data.augment import reference_augment as slow
from PIL import Image
from scipy.stats import kstest

from nearsight.data import draws
from nearsight.data.augment.box import middle_box, resized_crop_box
from nearsight.data.augment.pipeline import augment_images, draw_crops, draw_resized_crops
from nearsight.data.augment.resize import enlarge, resized_crops
from nearsight.protocol.schema import ResizedCrop

HEIGHT, WIDTH, NUM = 31, 37, 211


def pillow_crop(image, box, flip, size=(HEIGHT, WIDTH)):
    """Cut out, resize the columns, then the rows, mirror: one image after another."""
    top, left, bottom, right = box
    piece = slow.to_pillow(image).crop((left, top, right, bottom))
    wide = piece.resize((size[1], bottom - top), Image.Resampling.BICUBIC)
    whole = wide.resize(size[::-1], Image.Resampling.BICUBIC)
    return slow.from_pillow(whole.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if flip else whole)


@pytest.mark.parametrize("size", [(HEIGHT, WIDTH), (13, 11), (5, 41)])
def test_resized_crops_have_pillows_bytes_enlarged_and_reduced(size: tuple[int, int]) -> None:
    images = slow.random_images(NUM)
    numbers = draws.uniform("test boxes", 0, torch.arange(NUM), num=5)
    rows, cols = (numbers[:, 0] * HEIGHT).long() + 1, (numbers[:, 1] * WIDTH).long() + 1
    top = (numbers[:, 2] * (HEIGHT - rows + 1)).long()
    left = (numbers[:, 3] * (WIDTH - cols + 1)).long()
    boxes, flip = torch.stack([top, left, top + rows, left + cols], 1), numbers[:, 4] < 0.5
    results = resized_crops(images, boxes, flip, size)
    for image, box, mirrored, result in zip(images, boxes.tolist(), flip.tolist(), results):
        assert torch.equal(result, pillow_crop(image, box, mirrored, size)), box


def test_the_whole_image_as_its_own_crop_is_left_as_it_is() -> None:
    images = slow.random_images(7)
    whole = torch.tensor([[0, 0, HEIGHT, WIDTH]]).expand(7, 4)
    assert torch.equal(resized_crops(images, whole, torch.zeros(7).bool()), images)


def test_enlarged_images_have_pillows_bytes() -> None:
    images = torch.randint(0, 256, (5, 3, 11, 7), dtype=torch.uint8)
    found = enlarge(images, 29, 23)
    for image, ours in zip(images, found, strict=True):
        picture = Image.fromarray(image.permute(1, 2, 0).numpy())
        theirs = np.asarray(picture.resize((23, 29), Image.Resampling.BICUBIC))
        assert np.array_equal(ours.permute(1, 2, 0).numpy(), theirs)
    assert enlarge(images, 11, 7) is images


def test_a_box_follows_area_shape_and_place() -> None:
    settings = ResizedCrop(min_area=0.2, max_area=0.6, min_aspect=0.25)
    # area 0.4 of 600 = 240, height / width = exp(log(0.25) * 0.5) = 0.5: 11 x 22, at 0.5 of 9 x 8
    assert resized_crop_box([0.5, 0.25, 0.5, 0.99] * 10, settings, 20, 30) == (5, 8, 16, 30)


def test_where_no_try_fits_the_middle_is_kept() -> None:
    settings = ResizedCrop(min_area=1.0, max_area=1.0)
    numbers = [0.5, 0.0, 0.0, 0.0] * 10  # all of the area at 4/3 of the width: higher than it is
    assert resized_crop_box(numbers, settings, 30, 50) == middle_box(0.75, 30, 50) == (0, 5, 30, 45)


def test_area_and_log_shape_are_uniform_and_places_reach_every_edge() -> None:
    settings, height, width = ResizedCrop(min_area=0.05, max_area=0.5), 997, 1009
    key = (3, 5, torch.arange(2003), torch.zeros(2003).long())
    boxes = draw_resized_crops(settings, key, height, width).double()
    rows, cols = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    shares = (rows * cols / (height * width) - 0.05) / 0.45
    shapes = (rows / cols).log() / (2 * math.log(4 / 3)) + 0.5
    places = boxes[:, 0] / (height - rows)
    for values in (shares, shapes, places):
        assert kstest(values.numpy(), "uniform").pvalue > 0.01


def test_a_protocol_with_resized_crops_takes_them_in_place_of_padding() -> None:
    images = slow.random_images(NUM)
    samples, repeats = torch.arange(NUM) + 13, torch.arange(NUM) % 3
    protocol = slow.protocol(resized_crop=ResizedCrop())
    options = {"protocol": protocol, "seed": 2, "epoch": 3, "mean_colour": (0.5, 0.5, 0.5)}
    together = augment_images(images, samples, repeats, **options)
    key = (2, 3, samples, repeats)
    boxes = draw_resized_crops(ResizedCrop(), key, HEIGHT, WIDTH).tolist()
    flips = draw_crops(0, True, key)[2].tolist()
    for image, box, flip, result in zip(images, boxes, flips, together):
        assert torch.equal(result, pillow_crop(image, box, flip))
    alone = [
        augment_images(images[[i]], samples[[i]], repeats[[i]], **options) for i in range(0, NUM, 7)
    ]
    assert torch.equal(torch.cat(alone), together[::7])


def test_an_empty_batch_stays_empty() -> None:
    empty, nobody = torch.zeros(0, 3, 5, 7, dtype=torch.uint8), torch.zeros(0, dtype=torch.int64)
    protocol = slow.protocol(resized_crop=ResizedCrop())
    options = {"protocol": protocol, "seed": 2, "epoch": 3, "mean_colour": (0.5, 0.5, 0.5)}
    assert augment_images(empty, nobody, nobody, **options).shape == empty.shape
