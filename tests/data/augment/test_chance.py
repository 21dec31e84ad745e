"""Greyscale, blur and solarisation: how often they happen and what they do."""

from __future__ import annotations

import pytest
import torch
from data.augment import reference_augment as slow
from PIL import ImageFilter, ImageOps
from scipy.stats import kstest

from nearsight.data import draws
from nearsight.data.augment.chance import draw_blur, draw_greyscale, draw_solarize
from nearsight.data.augment.operations import NOTHING
from nearsight.data.augment.pipeline import augment_images
from nearsight.data.augment.policy import draw_colorjitter
from nearsight.protocol.schema import Blur, ColorJitter, Greyscale, Solarize

NUM = 2003
KEY = (5, 3, torch.arange(NUM), torch.zeros(NUM, dtype=torch.int64))


@pytest.mark.parametrize(
    ("draw", "settings"),
    [
        (draw_greyscale, Greyscale(probability=0.3)),
        (draw_blur, Blur(probability=0.3)),
        (draw_solarize, Solarize(probability=0.3)),
        (draw_colorjitter, ColorJitter(probability=0.3)),
    ],
)
def test_an_operation_happens_as_often_as_asked(draw, settings) -> None:
    codes, _ = draw(settings, KEY)
    happens = (codes != NOTHING).any(0)
    assert ((codes != NOTHING) == happens).all()  # all of ColorJitter or nothing of it
    slow.assert_frequencies(
        {True: int(happens.sum()), False: int((~happens).sum())}, {True: 0.3, False: 0.7}
    )


def test_deviations_of_the_blur_are_uniform() -> None:
    _, sigmas = draw_blur(Blur(min_sigma=0.3, max_sigma=1.7), KEY)
    assert kstest((sigmas[0] - 0.3) / 1.4, "uniform").pvalue > 0.001


def test_a_probability_of_jitter_changes_none_of_its_other_draws() -> None:
    codes, arguments = draw_colorjitter(ColorJitter(), KEY)
    some, same = draw_colorjitter(ColorJitter(probability=0.5), KEY)
    assert torch.equal(arguments, same)
    assert torch.equal(torch.where(some == NOTHING, codes, some), codes)


def test_an_augmented_batch_is_pillows_loop_over_its_images() -> None:
    num = 43
    images, samples = slow.random_images(num), torch.arange(num) * 3
    repeats = torch.ones(num, dtype=torch.int64)
    protocol = slow.protocol(
        crop_padding=0, flip=False, greyscale=Greyscale(probability=0.5),
        blur=Blur(probability=0.5), solarize=Solarize(probability=0.5, threshold=97),
    )  # fmt: skip
    found = augment_images(
        images, samples, repeats, protocol=protocol, seed=7, epoch=2, mean_colour=(0.5,) * 3
    )
    changed = 0
    for image, sample, ours in zip(images, samples.tolist(), found, strict=True):
        key = (7, 2, sample, 1)
        picture = slow.to_pillow(image)
        if draws.uniform("greyscale", *key, num=1) < 0.5:
            picture = ImageOps.grayscale(picture).convert("RGB")
        coin, share = draws.uniform("blur", *key, num=2).tolist()
        if coin < 0.5:
            picture = picture.filter(ImageFilter.GaussianBlur(0.1 + 1.9 * share))
        if draws.uniform("solarize", *key, num=1) < 0.5:
            picture = ImageOps.solarize(picture, 97)
        assert torch.equal(ours, slow.from_pillow(picture))
        changed += not torch.equal(ours, image)
    assert changed > num / 2
