"""What is drawn, and how often."""

from collections import Counter
from itertools import permutations, product

import pytest
import torch
from data.augment import reference_augment as slow
from scipy.stats import kstest, norm

from nearsight.data.augment import policy
from nearsight.data.augment.operations import NAMES, NOTHING, code
from nearsight.data.augment.pipeline import augment_images, draw_crops
from nearsight.models.compat import declare_missing_ops
from nearsight.protocol.schema import AutoAugment, ColorJitter, RandAugment

NUM = 50_000
KEY = (3, 2, torch.arange(NUM), torch.zeros(NUM, dtype=torch.int64))
TORCHVISION_NAMES = {"saturation": "Color", "autocontrast": "AutoContrast"}


def torchvision_name(name):
    return TORCHVISION_NAMES.get(name, name.title().replace("_", ""))


def test_policy_is_torchvisions():
    declare_missing_ops()
    from torchvision.transforms import AutoAugment as Theirs
    from torchvision.transforms import AutoAugmentPolicy

    theirs = Theirs(AutoAugmentPolicy.CIFAR10).policies
    ours = [
        tuple((torchvision_name(name), chance, magnitude) for name, chance, magnitude in pair)
        for pair in policy.CIFAR10_POLICY
    ]
    assert ours == [
        tuple((name, chance, magnitude or 0) for name, chance, magnitude in pair) for pair in theirs
    ]


@pytest.mark.slow
def test_whole_modern_augmentation_equals_torchvision_given_the_same_draws(monkeypatch):
    """Crop, flip and AutoAugment on 1,000 images: the same bytes as torchvision's on Pillow."""
    declare_missing_ops()
    from torchvision.transforms import AutoAugment as Theirs
    from torchvision.transforms import AutoAugmentPolicy, functional

    images = slow.random_images(1000)
    samples, repeats = torch.arange(1000) * 3, torch.arange(1000) % 2
    modern = slow.protocol(autoaugment=AutoAugment())
    ours = augment_images(
        images, samples, repeats, protocol=modern, seed=5, epoch=7, mean_colour=(0.5, 0.5, 0.5)
    )
    transform = Theirs(AutoAugmentPolicy.CIFAR10)
    key = (5, 7, samples, repeats)
    numbers = policy.draws.uniform("autoaugment", *key, num=5)
    drawn = [numbers, *draw_crops(4, True, key)]
    for image, ours_of_it, number, down, right, flip in zip(images, ours, *drawn):
        window = functional.crop(
            functional.pad(slow.to_pillow(image), 4),
            int(down) + 4,
            int(right) + 4,
            slow.HEIGHT,
            slow.WIDTH,
        )
        window = functional.hflip(window) if flip else window
        params = (int(number[0] * 25), number[1:3], (number[3:5] * 2).long())
        monkeypatch.setattr(transform, "get_params", lambda _, params=params: params)
        assert torch.equal(ours_of_it, slow.from_pillow(transform(window)))


@pytest.mark.slow
def test_autoaugment_draws_sub_policies_operations_and_signs_as_often_as_it_should():
    codes, arguments = policy.draw_autoaugment(KEY, slow.HEIGHT, slow.WIDTH)
    arguments = torch.where(codes == NOTHING, 0.0, arguments)
    counts = Counter(zip(*codes.tolist(), *arguments.tolist()))
    expected = Counter()
    for first, second in policy.CIFAR10_POLICY:
        for outcome in product((False, True), (False, True), (-1, 1), (-1, 1)):
            happens, signs = outcome[:2], outcome[2:]
            chance, drawn, values = 1 / 25 / 4, [], []
            for (name, probability, magnitude), does, sign in zip((first, second), happens, signs):
                chance *= probability if does else 1 - probability
                drawn.append(code(name) if does else NOTHING)
                size = (slow.HEIGHT, slow.WIDTH)
                value = policy.autoaugment_argument(name, magnitude, sign, *size)
                values.append(value if does else 0.0)
            expected[*drawn, *values] += chance
    slow.assert_frequencies(counts, expected)


@pytest.mark.parametrize("padding", [0, 3])
def test_crop_offsets_and_flips_are_uniform(padding):
    counts = Counter(zip(*(drawn.tolist() for drawn in draw_crops(padding, True, KEY))))
    offsets = range(-padding, padding + 1)
    outcomes = list(product(offsets, offsets, (False, True)))
    slow.assert_frequencies(counts, dict.fromkeys(outcomes, 1 / len(outcomes)))


def test_without_flip_nothing_is_mirrored():
    assert not draw_crops(4, False, KEY)[2].any()


def test_jitter_comes_in_every_order_equally_often():
    codes, _ = policy.draw_colorjitter(ColorJitter(), KEY)
    orders = list(permutations(code(name) for name in policy.JITTER_NAMES))
    slow.assert_frequencies(Counter(zip(*codes.tolist())), dict.fromkeys(orders, 1 / 24))


def test_jitter_factors_are_uniform_in_their_ranges():
    settings = ColorJitter(brightness=0.3, contrast=1.5, saturation=0.7, hue=0.2)
    codes, arguments = policy.draw_colorjitter(settings, KEY)
    ranges = {"brightness": (0.7, 1.3), "contrast": (0, 2.5), "saturation": (0.3, 1.7)}
    for name, (low, high) in {**ranges, "hue": (-0.2, 0.2)}.items():
        drawn = arguments[codes == code(name)]
        assert len(drawn) == NUM
        assert kstest(drawn.numpy(), "uniform", (low, high - low)).pvalue > 0.001


def test_jitter_of_amount_zero_is_left_out():
    codes, _ = policy.draw_colorjitter(ColorJitter(contrast=0, hue=0), KEY)
    assert ((codes == NOTHING).sum(0) == 2).all()
    assert set(codes.unique().tolist()) == {NOTHING, code("brightness"), code("saturation")}


def test_randaugment_draws_every_operation_half_the_time():
    codes, _ = policy.draw_randaugment(RandAugment(num_ops=3), KEY, slow.HEIGHT, slow.WIDTH)
    assert len(codes) == 3
    chances = {code(name): 0.5 / 15 for name in policy.RANDAUGMENT_NAMES} | {NOTHING: 0.5}
    for step in codes.tolist():
        slow.assert_frequencies(Counter(step), chances)
    pairs = {(a, b): chances[a] * chances[b] for a in chances for b in chances}
    slow.assert_frequencies(Counter(zip(*codes[:2].tolist())), pairs)


def test_randaugment_magnitudes_are_normal_and_cut_to_their_range():
    settings = RandAugment(num_ops=1, magnitude=9, magnitude_std=0.5)
    codes, arguments = policy.draw_randaugment(settings, KEY, slow.HEIGHT, slow.WIDTH)
    degrees = arguments[codes == code("rotate")]
    slow.assert_frequencies(Counter((degrees > 0).tolist()), {True: 0.5, False: 0.5})
    magnitude = degrees.abs() / 3
    assert magnitude.max() == 10
    at_end = norm.sf(10, 9, 0.5)
    slow.assert_frequencies(Counter((magnitude == 10).tolist()), {True: at_end, False: 1 - at_end})
    inside = magnitude[magnitude < 10].numpy()
    assert kstest(inside, lambda x: norm.cdf(x, 9, 0.5) / (1 - at_end)).pvalue > 0.001


def test_randaugment_without_spread_has_one_magnitude():
    settings = RandAugment(num_ops=1, magnitude=5, magnitude_std=0)
    codes, arguments = policy.draw_randaugment(settings, KEY, slow.HEIGHT, slow.WIDTH)
    assert set(arguments[codes == code("rotate")].tolist()) == {-15.0, 15.0}
    assert set(arguments[codes == code("posterize")].tolist()) == {2.0}


@pytest.mark.parametrize("name", policy.RANDAUGMENT_NAMES)
def test_randaugment_arguments_are_timms(name, monkeypatch):
    declare_missing_ops()
    from timm.data import auto_augment

    suffix = {"posterize": "Increasing", "solarize": "Increasing", "translate_x": "Rel"}
    suffix |= {"translate_y": "Rel"} | dict.fromkeys(
        ("saturation", "contrast", "brightness", "sharpness"), "Increasing"
    )
    theirs = auto_augment.LEVEL_TO_ARG[torchvision_name(name) + suffix.get(name, "")]
    for sign in (-1, 1):
        monkeypatch.setattr(auto_augment, "_randomly_negate", lambda value, sign=sign: sign * value)
        for level in (0.0, 0.37, 2.5, 5.0, 8.8, 9.99, 10.0):
            ours = policy.randaugment_arguments(
                name, torch.tensor(level / 10).double(), torch.tensor(sign), 31, 37
            )
            expected = theirs(level, {})[0] if theirs else 0.0
            size = {"translate_x": 37, "translate_y": 31}.get(name, 1)
            assert float(ours) == pytest.approx(expected * size)


def test_every_operation_has_a_code_of_its_own():
    assert [code(name) for name in NAMES] == list(range(len(NAMES)))
