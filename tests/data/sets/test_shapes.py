"""`shapes`: frozen bytes, masks against floating-point geometry, and no short cuts to the class."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest

from nearsight.data.sets.catalog import load_dataset
from nearsight.data.sets.dataset import Dataset
from nearsight.data.sets.outlines import OUTLINES, SINE, TEXTURES
from nearsight.data.sets.shapes import CLASSES, Draws, shapes_images
from nearsight.protocol.schema import DataSettings


@pytest.fixture(scope="module")
def whole() -> Dataset:
    return load_dataset(DataSettings(name="shapes"))


def test_the_bytes_are_frozen() -> None:
    digest = hashlib.sha256()
    for split, start, stop in (("train", 0, 29), ("test", 2003, 2040)):
        piece = shapes_images(split, start, stop)
        assert piece.masks is not None
        for array in (piece.images, piece.labels.astype("<i8"), piece.masks):
            digest.update(array.tobytes())
    assert digest.hexdigest() == "4d6d2313ecdae13796eed85ff37241e8742e18ba38757c13c13c8c891e99df3a"


@pytest.mark.slow
def test_the_whole_set_has_the_frozen_hash(whole: Dataset) -> None:
    assert whole.hash == "cb31433292bab739"
    assert (len(whole.train), len(whole.test), whole.origin) == (12_000, 3_000, "generated")
    assert whole.classes == CLASSES
    assert np.bincount(whole.train.labels).tolist() == [1000] * 12


def test_an_image_is_a_function_of_split_and_index(whole: Dataset) -> None:
    piece = shapes_images("test", 613, 632)
    assert np.array_equal(piece.images, whole.test.images[613:632])
    assert np.array_equal(piece.labels, whole.test.labels[613:632])
    assert piece.masks is not None
    assert whole.test.masks is not None
    assert np.array_equal(piece.masks, whole.test.masks[613:632])


def test_train_and_test_share_no_image(whole: Dataset) -> None:
    train, test = ({image.tobytes() for image in part.images} for part in (whole.train, whole.test))
    assert len(train) == 12_000
    assert not train & test


def test_the_sine_table_is_the_sine() -> None:
    assert SINE.tolist() == [round(4096 * math.sin(math.tau * step / 64)) for step in range(64)]


def margin(outline: str, u: float, v: float, radius: float) -> float:
    """How far inside an outline a point is, in units of 1/64 pixel; below zero: outside."""
    distance = math.hypot(u, v)
    if outline == "disc":
        return math.sqrt(0.8) * radius - distance
    if outline == "ring":
        return min(radius - distance, distance - math.sqrt(5 / 16) * radius)
    u, v = abs(u), abs(v)
    return min(0.3 * radius - min(u, v), radius - max(u, v))


@pytest.mark.slow
def test_masks_are_where_floating_point_geometry_puts_the_object() -> None:
    start, stop = 24, 37
    piece = shapes_images("train", start, stop)
    draws = Draws("train", np.arange(start, stop))
    radii = draws.between("radius", 9 * 64, 12 * 64)
    places = 16 * 64 + draws.between("place", -4 * 64, 4 * 64, 2)
    turns = draws.between("turn", 0, 63)
    assert piece.masks is not None
    num_doubtful = 0
    for index, (label, mask) in enumerate(zip(piece.labels, piece.masks)):
        outline = CLASSES[label].split()[1]
        sine, cosine = (f(math.tau * turns[index] / 64) for f in (math.sin, math.cos))
        for row in range(32):
            for column in range(32):
                sure = doubtful = 0
                for down, right in ((16, 16), (16, 48), (48, 16), (48, 48)):
                    x = 64 * column + right - places[index, 0]
                    y = 64 * row + down - places[index, 1]
                    u, v = cosine * x + sine * y, cosine * y - sine * x
                    inside = margin(outline, u, v, radii[index])
                    sure += inside > 3
                    doubtful += abs(inside) <= 3
                assert mask[row, column] in (sure >= 2, sure + doubtful >= 2)
                num_doubtful += (sure >= 2) != (sure + doubtful >= 2)
    assert num_doubtful < 0.02 * piece.masks.size


@pytest.mark.parametrize("rule", [*OUTLINES.values(), TEXTURES["checked"], TEXTURES["dotted"]])
def test_a_mirror_leaves_outlines_and_textures_what_they_are(rule: object) -> None:
    points = np.arange(64, dtype=np.int32) * 32 - 1008  # no point on an edge of the period
    u, v = np.meshgrid(points, points)
    u, v, size = u[None].copy(), v[None].copy(), np.full((1, 1, 1), 320, np.int32)
    assert callable(rule)
    mirrored = rule(-u - 1, v, size)
    assert np.array_equal(mirrored, rule(u, v, size)) or np.array_equal(mirrored, ~rule(u, v, size))


def test_the_object_is_what_the_mask_says(whole: Dataset) -> None:
    """Lighter than the background, and striped, checked or dotted inside unless plain."""
    images = whole.test.images[:600].astype(np.float64).mean(axis=1)
    assert whole.test.masks is not None
    masks = whole.test.masks[:600].astype(bool)
    labels = whole.test.labels[:600]
    inside = np.array([image[mask].mean() for image, mask in zip(images, masks)])
    outside = np.array([image[~mask].mean() for image, mask in zip(images, masks)])
    spread = np.array([image[mask].std() for image, mask in zip(images, masks)])
    assert (inside > outside).all()
    assert spread[labels % 4 == 0].max() < spread[labels % 4 != 0].min() + 12
    assert np.median(spread[labels % 4 == 0]) < 0.5 * np.median(spread[labels % 4 != 0])


def accuracy_of_least_squares(whole: Dataset, train: np.ndarray, test: np.ndarray) -> float:
    """Ridge regression of the one-hot labels on standardised features."""
    mean, std = train.mean(axis=0), train.std(axis=0)
    train, test = (train - mean) / std, (test - mean) / std
    targets = np.eye(12, dtype=np.float32)[whole.train.labels] - 1 / 12
    gram = train.T @ train + 1e4 * np.eye(train.shape[1], dtype=np.float32)
    weights = np.linalg.solve(gram, train.T @ targets)
    return float(((test @ weights).argmax(axis=1) == whole.test.labels).mean())


@pytest.mark.slow
def test_a_linear_classifier_on_pixels_stays_under_40_percent(whole: Dataset) -> None:
    train, test = (
        part.images.reshape(len(part), -1).astype(np.float32) for part in (whole.train, whole.test)
    )
    assert 1 / 12 < accuracy_of_least_squares(whole, train, test) < 0.4


def test_mean_colour_says_little_about_the_class(whole: Dataset) -> None:
    train, test = (
        part.images.mean(axis=(2, 3), dtype=np.float32) for part in (whole.train, whole.test)
    )
    assert accuracy_of_least_squares(whole, train, test) < 0.2
