"""Random erasing and CutOut against their definitions."""

import math
from collections import Counter

import pytest
import torch
from data.augment import reference_augment as slow
from scipy.stats import kstest

from nearsight.data import draws
from nearsight.data.augment.erase import cut_out, cutout_box, erase_randomly, erasing_box
from nearsight.protocol.schema import CutOut, RandomErasing

NUM = 1000
KEY = (5, 3, torch.arange(NUM), torch.zeros(NUM, dtype=torch.int64))
HEIGHT, WIDTH = slow.HEIGHT, slow.WIDTH


@pytest.mark.slow
def test_erased_pixels_are_one_rectangle_of_uniform_bytes():
    images = slow.random_images(NUM)
    settings = RandomErasing(probability=0.4)
    numbers = draws.uniform("erasing", *KEY, num=41).tolist()
    erased = erase_randomly(images.clone(), settings, KEY)
    values, num_erased = Counter(), 0
    for before, after, (coin, *rest) in zip(images, erased, numbers):
        if coin >= 0.4:
            assert torch.equal(before, after)
            continue
        num_erased += 1
        top, left, bottom, right = erasing_box(rest, settings, HEIGHT, WIDTH)
        outside = torch.ones(HEIGHT, WIDTH, dtype=torch.bool)
        outside[top:bottom, left:right] = False
        assert torch.equal(before[:, outside], after[:, outside])
        values.update(after[:, ~outside].flatten().tolist())
    slow.assert_frequencies(values, dict.fromkeys(range(256), 1 / 256))
    slow.assert_frequencies({True: num_erased, False: NUM - num_erased}, {True: 0.4, False: 0.6})


def test_erased_channels_are_drawn_apart():
    settings = RandomErasing(probability=1, min_area=0.5, max_area=0.5, min_aspect=1)
    erased = erase_randomly(torch.zeros(NUM, 3, HEIGHT, WIDTH).byte(), settings, KEY)
    channels = erased.permute(1, 0, 2, 3).flatten(1)
    inside = (channels > 0).any(0)
    pairs = torch.corrcoef(channels[:, inside].double())
    assert (pairs - torch.eye(3)).abs().max() < 0.01


def test_erasing_box_follows_area_aspect_and_place():
    settings = RandomErasing(min_area=0.1, max_area=0.3, min_aspect=0.5)
    # area 0.2 of 20 x 30 is 120 pixels; aspect 0.5^(1 - 2 * 0.5) = 1: 10.95 -> 11 x 11
    numbers = [0.5, 0.5, 0.5, 0.95] + [0.0] * 36
    assert erasing_box(numbers, settings, 20, 30) == (5, 19, 16, 30)
    # aspect 0.5: rows sqrt(60) = 7.7 -> 8, cols sqrt(240) = 15.5 -> 15
    numbers = [0.5, 0.0, 0.0, 0.0] + [0.0] * 36
    assert erasing_box(numbers, settings, 20, 30) == (0, 0, 8, 15)


def test_erasing_box_that_does_not_fit_is_drawn_again():
    settings = RandomErasing(min_area=0.0, max_area=1.0, min_aspect=0.5)
    first = [1.0, 0.0, 0.0, 0.0]
    assert erasing_box(first * 10, settings, 20, 30) == (0, 0, 0, 0)
    assert erasing_box(first + [0.06, 0.5, 0.0, 0.0] + first * 8, settings, 20, 30) == (0, 0, 6, 6)


def test_erasing_areas_and_aspects_are_spread_evenly():
    settings = RandomErasing(min_area=0.05, max_area=0.2, min_aspect=0.5)
    areas, aspects = [], []
    for row in draws.uniform("boxes", 0, torch.arange(2000), num=40).tolist():
        top, left, bottom, right = erasing_box(row, settings, 997, 1009)
        areas.append((bottom - top) * (right - left) / (997 * 1009))
        aspects.append(math.log((bottom - top) / (right - left), 2))
    assert kstest(areas, "uniform", (0.05, 0.15)).pvalue > 0.001
    assert kstest(aspects, "uniform", (-1, 2)).pvalue > 0.001


@pytest.mark.parametrize("size", [1, 8, 11, 41])
def test_cutout_sets_a_clipped_square_to_the_mean_colour(size):
    images = slow.random_images(NUM)
    mean_colour = (0.2, 0.5, 0.9)
    cut = cut_out(images.clone(), CutOut(probability=0.7, size=size), KEY, mean_colour)
    num_cut = 0
    numbers = draws.uniform("cutout", *KEY, num=3).tolist()
    for before, after, (coin, vertical, horizontal) in zip(images, cut, numbers):
        expected = before.clone()
        if coin < 0.7:
            num_cut += 1
            top, left = int(vertical * HEIGHT) - size // 2, int(horizontal * WIDTH) - size // 2
            rows = torch.tensor([0 <= y - top < size for y in range(HEIGHT)])
            cols = torch.tensor([0 <= x - left < size for x in range(WIDTH)])
            inside = rows[:, None] & cols
            expected[:, inside] = torch.tensor([[51], [128], [230]], dtype=torch.uint8)
        assert torch.equal(after, expected)
    slow.assert_frequencies({True: num_cut, False: NUM - num_cut}, {True: 0.7, False: 0.3})


@pytest.mark.slow
def test_cutout_centres_are_uniform_over_the_pixels():
    numbers = draws.uniform("cutout", 0, 0, torch.arange(50_000), 0, num=3)[:, 1:].tolist()
    centres = Counter(cutout_box(*row, 1, 7, 11)[:2] for row in numbers)
    outcomes = [(y, x) for y in range(7) for x in range(11)]
    slow.assert_frequencies(centres, dict.fromkeys(outcomes, 1 / 77))
