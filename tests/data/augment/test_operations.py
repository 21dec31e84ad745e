"""Every operation on 1,000 random images against Pillow and torchvision."""

import pytest
import torch
from data.augment import reference_augment as slow

from nearsight.data import draws
from nearsight.data.augment.operations import (
    NAMES,
    NOTHING,
    apply_operation,
    apply_operations,
    code,
)
from nearsight.data.augment.policy import autoaugment_argument, randaugment_arguments
from nearsight.data.augment.warp import crop_windows
from nearsight.models.compat import declare_missing_ops

NUM = 1000
PILLOW_NAMES = [name for name in NAMES if name != "hue"]


@pytest.fixture(scope="module")
def images():
    return slow.random_images(NUM)


@pytest.fixture(scope="module")
def pillow_images(images):
    return [slow.to_pillow(image) for image in images]


def assert_equal_pillow(name, images, pillow_images, arguments):
    expected = [
        slow.from_pillow(slow.pillow_operated(name, image, argument))
        for image, argument in zip(pillow_images, arguments.tolist())
    ]
    assert torch.equal(apply_operation(name, images, arguments), torch.stack(expected))


@pytest.mark.parametrize("name", PILLOW_NAMES)
@pytest.mark.slow
def test_operation_equals_pillow_at_every_magnitude_of_autoaugment(name, images, pillow_images):
    arguments = torch.tensor(
        [
            autoaugment_argument(name, i % 10, (-1, 1)[i // 10 % 2], slow.HEIGHT, slow.WIDTH)
            for i in range(NUM)
        ],
        dtype=torch.float64,
    )
    assert_equal_pillow(name, images, pillow_images, arguments)


@pytest.mark.parametrize("name", PILLOW_NAMES)
def test_operation_equals_pillow_at_any_level_of_randaugment(name, images, pillow_images):
    level, side = draws.uniform("levels", 0, num=2 * NUM).view(2, NUM)
    sign = torch.where(side < 0.5, -1.0, 1.0).double()
    arguments = randaugment_arguments(name, level, sign, slow.HEIGHT, slow.WIDTH)
    assert_equal_pillow(name, images, pillow_images, arguments)


@pytest.mark.slow
def test_hue_is_within_one_of_torchvision(images):
    declare_missing_ops()
    from torchvision.transforms import functional

    turns = draws.uniform("turns", 0, num=NUM) - 0.5
    expected = [functional.adjust_hue(image, turn) for image, turn in zip(images, turns.tolist())]
    difference = apply_operation("hue", images, turns).int() - torch.stack(expected).int()
    assert difference.abs().max() <= 1


def test_hue_turns_primary_colours_by_thirds():
    red_orange = torch.tensor([255, 51, 0], dtype=torch.uint8).view(1, 3, 1, 1).repeat(3, 1, 1, 1)
    turned = apply_operation("hue", red_orange, torch.tensor([0.0, 1 / 3, -1 / 3]))
    assert turned[:, :, 0, 0].tolist() == [[255, 51, 0], [0, 255, 51], [51, 0, 255]]


def test_no_hue_turn_leaves_images_alone(images):
    assert torch.equal(apply_operation("hue", images, torch.zeros(NUM)), images)


@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation", "sharpness"])
def test_factor_one_leaves_images_alone(name, images):
    assert torch.equal(apply_operation(name, images, torch.ones(NUM)), images)


@pytest.mark.slow
def test_crop_and_flip_equal_a_loop_over_pixels():
    images = slow.random_images(60)
    down, right = (draws.uniform("offsets", 0, num=120) * 11).long().view(2, 60) - 5
    flip = torch.arange(60) % 2 == 1
    expected = [
        slow.cropped(*row) for row in zip(images, down.tolist(), right.tolist(), flip.tolist())
    ]
    assert torch.equal(crop_windows(images, down, right, flip), torch.stack(expected))


def test_crop_and_flip_equal_torchvision(images):
    declare_missing_ops()
    from torchvision.transforms import functional

    down, right = (draws.uniform("offsets", 1, num=2 * NUM) * 9).long().view(2, NUM) - 4
    flip = draws.uniform("flips", 0, num=NUM) < 0.5
    expected = []
    for image, top, left, mirrored in zip(images, down, right, flip):
        window = functional.crop(
            functional.pad(image, 4), int(top) + 4, int(left) + 4, slow.HEIGHT, slow.WIDTH
        )
        expected.append(functional.hflip(window) if mirrored else window)
    assert torch.equal(crop_windows(images, down, right, flip), torch.stack(expected))


def test_each_image_goes_through_its_own_operation_only(images):
    names = [*NAMES, None]
    codes = torch.tensor([code(name) if name else NOTHING for name in names])
    arguments = torch.full((len(names),), 0.7, dtype=torch.float64)
    result = apply_operations(images[: len(names)].clone(), codes, arguments)
    for i, name in enumerate(names):
        alone = apply_operation(name, images[i : i + 1], arguments[:1])[0] if name else images[i]
        assert torch.equal(result[i], alone), name


@pytest.mark.parametrize("name", PILLOW_NAMES)
@pytest.mark.parametrize(("height", "width"), [(1, 1), (2, 5), (3, 3)])
def test_operation_equals_pillow_on_tiny_images(name, height, width):
    images = slow.random_images(20, height, width)
    arguments = torch.full((20,), 1.9 if name in ("contrast", "sharpness") else 2.0).double()
    assert_equal_pillow(name, images, [slow.to_pillow(image) for image in images], arguments)
