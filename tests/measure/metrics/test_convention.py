"""Conventions for distances: what each does to the number, and which convert into each other."""

import math
from dataclasses import asdict

import numpy as np
import pytest
import torch
from measure import reference_metrics as slow
from measure import toy_models

from nearsight.core import UserError
from nearsight.measure.metrics.convention import CONVENTIONS, convention_of
from nearsight.measure.profile.profile import measure_model
from nearsight.measure.rows.captured import capture_attention
from nearsight.models.layers.grid import Grid

ALIKE = ("paper", "convit", "pixels", "cl-vs-mim")


def measured(convention, metrics=("mad", "mad_without_self", "score", "entropy")):
    return measure_model(
        toy_models.plain(), toy_models.images(12, 20), convention=convention, metrics=metrics
    )


def tokens_of(model, images):
    with torch.no_grad(), capture_attention(model) as maps:
        model(images)
    return [x.double() for x in maps]


@pytest.mark.slow
def test_every_convention_equals_its_loops():
    points, diagonal, side = slow.places(3, 5), math.hypot(2, 4), 4
    profiles = {name: measured(name) for name in CONVENTIONS}
    for layer, tokens in enumerate(tokens_of(toy_models.plain(), toy_models.images(12, 20))):
        for image in (0, 6):
            for head in range(2):
                kept = [row[2:] for row in tokens[image, head].tolist()[2:]]
                renormalised = [[value / sum(row) for value in row] for row in kept]
                far = slow.distance(renormalised, points, points)
                expected = {
                    "paper": far / diagonal,
                    "convit": far,
                    "pixels": side * far,
                    "cl-vs-mim": side * far,
                    "keras": side * slow.distance(kept, points, points),
                }
                for name, value in expected.items():
                    found = profiles[name].mad.values[layer][image, head]
                    assert found == pytest.approx(value, rel=1e-6), name
                assert expected["keras"] < 0.99 * expected["pixels"]


@pytest.mark.slow
@pytest.mark.parametrize("given", ALIKE)
@pytest.mark.parametrize("wanted", ALIKE)
def test_units_convert_exactly(given, wanted):
    there = measured(given).in_convention(wanted)
    direct = measured(wanted)
    assert there.convention == direct.convention == convention_of(wanted)
    for name in direct.metrics:
        for one, other in zip(there.metrics[name].values, direct.metrics[name].values, strict=True):
            assert one == pytest.approx(other, rel=1e-12)


def test_there_and_back_is_the_same_measurement():
    profile = measured("paper")
    back = profile.in_convention("pixels").in_convention("paper")
    assert back.mad.mean[1] == pytest.approx(profile.mad.mean[1], rel=1e-14)


@pytest.mark.slow
def test_only_distances_follow_the_convention():
    paper, pixels = measured("paper"), measured("paper").in_convention("pixels")
    diagonal = 4 * math.hypot(2, 4)
    for name in ("mad", "mad_without_self"):
        for one, other in zip(pixels.metrics[name].values, paper.metrics[name].values):
            assert one == pytest.approx(diagonal * other, rel=1e-14)
    for name in ("score", "entropy"):
        for one, other in zip(pixels.metrics[name].values, paper.metrics[name].values):
            assert np.array_equal(one, other)


@pytest.mark.parametrize(("given", "wanted"), [("paper", "keras"), ("keras", "pixels")])
def test_rows_do_not_convert_where_patches_look_at_prefix_tokens(given, wanted):
    with pytest.raises(UserError, match=rf"'{wanted}'.*\bblocks\.0\.attn\b.*convention='{wanted}'"):
        measured(given).in_convention(wanted)


@pytest.mark.slow
def test_rows_convert_where_there_is_nothing_to_drop():
    model, images = toy_models.pooled(), toy_models.images(24, 40, count=3)
    paper, keras = (measure_model(model, images, convention=x) for x in ("paper", "keras"))
    for one, other in zip(paper.in_convention("keras").mad.values, keras.mad.values, strict=True):
        assert one == pytest.approx(other, rel=1e-6)
    for one, other in zip(keras.in_convention("paper").mad.values, paper.mad.values, strict=True):
        assert one == pytest.approx(other, rel=1e-6)


@pytest.mark.slow
def test_a_coarser_layer_has_larger_patches():
    model, images = toy_models.pooled(), toy_models.images(24, 40, count=3)
    pixels, patches = (measure_model(model, images, convention=x) for x in ("pixels", "convit"))
    ratios = [a.mean() / b.mean() for a, b in zip(pixels.mad.values, patches.mad.values)]
    assert ratios == pytest.approx([4, 8], rel=1e-12)


@pytest.mark.slow
def test_padding_counts_as_distance_zero_where_rows_are_kept():
    model, images = toy_models.windows(), toy_models.images(20, 28)
    keras = measure_model(model, images, convention="keras")
    points = slow.places(5, 7)
    for layer, tokens in enumerate(tokens_of(model, images)):
        expected = 4 * slow.distance(tokens[2, 1].tolist(), points, points)
        assert keras.mad.values[layer][2, 1] == pytest.approx(expected, rel=1e-5)


def test_patches_that_are_not_square_have_no_distance_in_pixels():
    pixels = CONVENTIONS["pixels"]
    with pytest.raises(UserError, match=r"'pixels'.*\b3x5 grid\b.*\b24x20 pixels\b"):
        pixels.patch(Grid(3, 5), (24, 20))
    with pytest.raises(UserError, match=r"'pixels'.*\b3x3 grid\b.*\b25x25 pixels\b"):
        pixels.patch(Grid(3, 3), (25, 25))  # padded by the model: no whole number of pixels
    assert CONVENTIONS["convit"].patch(Grid(3, 5), (24, 20)) == 1


def test_pixels_are_refused_before_all_images_are_seen():
    model = torch.nn.Sequential(Oblong(), toy_models.plain())
    with pytest.raises(UserError, match=r"'pixels'.*\b3x5 grid\b.*\b12x10 pixels\b"):
        measure_model(model, toy_models.images(12, 10), convention="pixels")


class Oblong(torch.nn.Module):
    """Images twice as wide: the model's patches cover 4x2 pixels of what it is given."""

    def forward(self, images):
        return images.repeat_interleave(2, dim=-1)


def test_an_unknown_convention_is_refused_with_the_known_ones():
    with pytest.raises(UserError, match=r"'px'.*paper, convit, pixels, keras, cl-vs-mim"):
        measured("px")


def test_a_convention_is_written_in_words():
    written = asdict(convention_of("keras"))
    assert written["rows"] == "not renormalised"
    assert written["unit"] == "pixels"
    assert written["text"].endswith(".")
