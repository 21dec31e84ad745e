"""The full setting of heads: crops, colours, windows, and a few steps of it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from evaluate.made_sets import bench_of
from PIL import Image

from nearsight.evaluate.tasks.segmentation.all_methods import SEGMENTATION
from nearsight.evaluate.tasks.segmentation.full_scale import (
    TRIES,
    backbone_features,
    crop_batches,
    distort_colours,
    fitting_size,
    random_crop,
    window_maps,
    window_starts,
)
from nearsight.evaluate.tasks.segmentation.trained_heads import RECIPES

OPTIONS = {"steps": 2, "seeds": 1, "scale": "full"}


def test_a_crop_takes_image_and_mask_from_the_same_place() -> None:
    labels = np.arange(20 * 40).reshape(20, 40) % 251
    image = Image.fromarray(np.repeat(labels[..., None], 3, 2).astype(np.uint8))
    drawn = torch.full((2 + 2 * TRIES,), 0.6, dtype=torch.float64)
    drawn[0] = 1 / 3  # a scale of 1: the image stays as it is
    crop = random_crop(image, labels, (20, 13), drawn)
    np.testing.assert_array_equal(crop.pixels[..., 0], crop.labels)
    np.testing.assert_array_equal(crop.labels, labels[:, 16:29])
    drawn[1] = 0.4
    mirrored = random_crop(image, labels, (20, 13), drawn)
    np.testing.assert_array_equal(mirrored.labels, crop.labels[:, ::-1])


def test_a_crop_avoids_a_class_with_more_than_three_quarters() -> None:
    labels = np.zeros((20, 80), np.uint8)
    labels[:, 60:] = 1
    image = Image.fromarray(np.zeros((20, 80, 3), np.uint8))
    drawn = torch.zeros(2 + 2 * TRIES, dtype=torch.float64)
    drawn[0], drawn[1] = 1 / 3, 0.9
    drawn[9] = 50 / 61  # the fourth try sees half of both
    crop = random_crop(image, labels, (20, 20), drawn)
    assert 0.25 <= (crop.labels == 1).mean() <= 0.75


def test_scaled_images_keep_their_ratio_and_fit() -> None:
    assert fitting_size((375, 500), 512, 1.0) == (512, 683)
    assert fitting_size((100, 1000), 512, 1.0) == (205, 2048)


def test_colours_stay_without_a_change_and_brightness_is_added() -> None:
    pixels = torch.randint(40, 200, (3, 5, 7), dtype=torch.uint8)
    nothing = torch.cat([torch.full((4,), 0.9), torch.full((4,), 0.2)])
    assert torch.equal(distort_colours(pixels, nothing), pixels)
    bright = torch.tensor([0.1, 0.9, 0.9, 0.9, 1.0, 0.5, 0.5, 0.5])
    assert torch.equal(distort_colours(pixels, bright), pixels + 32)


@pytest.mark.parametrize("length", [7, 20, 21, 33, 101])
def test_windows_cover_everything_with_a_third_of_overlap(length) -> None:
    starts = window_starts(length, 20)
    covered = {place for start in starts for place in range(start, start + 20)}
    assert set(range(length)) <= covered
    assert all(b - a <= 14 for a, b in pairwise(starts))


def test_batches_are_the_models_features_of_padded_crops(tmp_path) -> None:
    bench = bench_of(tmp_path, "locat", OPTIONS)
    features, labels = crop_batches(bench)([4, 2], False, 7)
    assert labels.shape == (2, 24, 40)
    assert features.shape[2:] == (3, 5)
    again, _ = crop_batches(bench)([2], False, 7)
    torch.testing.assert_close(again[0], features[1])  # of the image, whatever else is drawn
    other, _ = crop_batches(bench)([2], False, 8)
    assert not torch.equal(other, again)


def test_one_window_is_the_head_on_the_whole_image(tmp_path) -> None:
    bench = bench_of(tmp_path, "locat", OPTIONS)
    head = RECIPES["locat"].build(bench.features(bench.val).width, 3).eval()
    found = window_maps(bench, head, RECIPES["locat"])(1)
    images = next(bench.images(bench.val))[1:2]
    with torch.no_grad():
        logits = head(backbone_features(bench, images))
    wide = torch.nn.functional.interpolate(logits, (24, 40), mode="bilinear")
    torch.testing.assert_close(found, wide[0].softmax(0))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["locat", "dinov3"])
def test_a_few_steps_of_the_full_setting_run_and_say_so(tmp_path, method) -> None:
    bench = bench_of(tmp_path, method, OPTIONS)
    whole = next(iter(SEGMENTATION.run(bench)))
    assert whole.settings["scale"].startswith("full: random crops of 24 pixels")
    assert whole.records.sum() == 11 * (24 * 40 - 1)
    assert SEGMENTATION.needs(bench) == []  # nothing is cached
    (train, crops), (val, _) = SEGMENTATION.passes(bench)
    assert (train.name, crops) == ("train", 2 * RECIPES[method].batch / 23)
    assert val.name == "val"
