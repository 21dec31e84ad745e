"""CutMix and Mixup: what is drawn per mini-batch, the pictures and the labels."""

from collections import Counter

import pytest
import torch
from data.augment import reference_augment as slow
from scipy.stats import beta, kstest

from nearsight.data import draws
from nearsight.data.augment.mix import (
    Mix,
    beta_ratio,
    cutmix_box,
    draw_mix,
    mix_images,
    mixed_targets,
)
from nearsight.protocol.schema import CutMix, Mixup

BATCH, HEIGHT, WIDTH, CLASSES = 13, 31, 37, 5
NUM_STEPS = 1000


def drawn(step=0, *, seed=1, epoch=2, batch_size=BATCH, **parts):
    return draw_mix(
        slow.protocol(**parts),
        seed=seed,
        epoch=epoch,
        step=step,
        batch_size=batch_size,
        height=HEIGHT,
        width=WIDTH,
    )


def test_cutmix_labels_are_the_share_of_pixels_of_each_class():
    """Every image is filled with its label; the target must be the histogram of the mixed image."""
    labels = torch.arange(BATCH) * 2 % CLASSES
    images = labels[:, None, None, None].float().expand(BATCH, 3, HEIGHT, WIDTH)
    for step in range(19):
        mix = drawn(step, cutmix=CutMix(probability=1))
        mixed = mix_images(images, images[mix.partners], mix)
        targets = mixed_targets(labels, labels[mix.partners], mix, CLASSES, 0.0)
        for image, target in zip(mixed, targets):
            counts = [0] * CLASSES
            for row in image[0].tolist():
                for value in row:
                    counts[int(value)] += 1
            expected = torch.tensor(counts) / (HEIGHT * WIDTH)
            torch.testing.assert_close(target, expected, rtol=0, atol=1e-6)


def test_cutmix_pastes_the_partner_inside_the_box_only():
    images = slow.random_images(BATCH).float()
    mix = drawn(3, cutmix=CutMix(probability=1))
    partners = images[mix.partners]
    mixed = mix_images(images, partners, mix)
    top, left, bottom, right = mix.box
    inside = torch.zeros(HEIGHT, WIDTH, dtype=torch.bool)
    inside[top:bottom, left:right] = True
    assert 0 < inside.sum() < HEIGHT * WIDTH
    assert torch.equal(mixed[..., inside], partners[..., inside])
    assert torch.equal(mixed[..., ~inside], images[..., ~inside])


def test_box_is_the_authors():
    boxes = set()
    for step in range(500):
        ratio, vertical, horizontal = torch.rand(3, generator=torch.Generator().manual_seed(step))
        centre = int(vertical * HEIGHT), int(horizontal * WIDTH)
        box = cutmix_box(float(ratio), *centre, HEIGHT, WIDTH)
        assert box == slow.cutmix_box(float(ratio), *centre, HEIGHT, WIDTH)
        boxes.add(box)
    assert len(boxes) > 400


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_targets_equal_a_loop_and_sum_to_one(smoothing, weight):
    labels, partner_labels = torch.arange(BATCH) % CLASSES, torch.arange(BATCH) * 3 % CLASSES
    mix = Mix("mixup", torch.arange(BATCH), weight, None, True)
    targets = mixed_targets(labels, partner_labels, mix, CLASSES, smoothing)
    expected = slow.targets(labels.tolist(), partner_labels.tolist(), weight, CLASSES, smoothing)
    torch.testing.assert_close(targets, expected)
    torch.testing.assert_close(targets.sum(1), torch.ones(BATCH))


def test_no_mix_and_no_smoothing_is_one_hot():
    labels = torch.tensor([3, 0, 4])
    targets = mixed_targets(labels, labels.flip(0), None, CLASSES, 0.0)
    assert torch.equal(targets, torch.eye(CLASSES)[labels])


def test_cutmix_without_label_mixing_pastes_but_keeps_the_labels():
    labels, partner_labels = torch.tensor([3, 0, 4]), torch.tensor([1, 1, 2])
    plain = drawn(3, cutmix=CutMix(probability=1))
    mix = drawn(3, cutmix=CutMix(probability=1, mix_labels=False))
    assert (mix.box, mix.weight) == (plain.box, plain.weight)
    targets = mixed_targets(labels, partner_labels, mix, CLASSES, 0.0)
    assert torch.equal(targets, torch.eye(CLASSES)[labels])


def test_mixup_blends_pictures_and_labels_by_the_same_weight():
    mix = drawn(5, mixup=Mixup(probability=1))
    images = slow.random_images(BATCH).float()
    mixed = mix_images(images, images[mix.partners], mix)
    for i in range(BATCH):
        partner = int(mix.partners[i])
        expected = mix.weight * images[i] + (1 - mix.weight) * images[partner]
        torch.testing.assert_close(mixed[i], expected)


def test_mixup_of_weight_one_changes_nothing():
    mix = Mix("mixup", torch.arange(3), 1.0, None, True)
    images = slow.random_images(3).float()
    assert torch.equal(mix_images(images, images.flip(0), mix), images)


def test_mixing_leaves_the_given_images_alone():
    images = slow.random_images(BATCH).float()
    before = images.clone()
    for parts in ({"cutmix": CutMix(probability=1)}, {"mixup": Mixup(probability=1)}):
        mix = drawn(**parts)
        mix_images(images, images[mix.partners], mix).fill_(0)
        assert torch.equal(images, before)


@pytest.mark.slow
def test_partners_are_a_permutation_and_every_pair_is_as_likely():
    pairs = Counter()
    for step in range(NUM_STEPS):
        partners = drawn(step, mixup=Mixup(probability=1), batch_size=7).partners.tolist()
        assert sorted(partners) == list(range(7))
        pairs[partners[step % 7], step % 7] += 1
    outcomes = [(i, j) for i in range(7) for j in range(7)]
    slow.assert_frequencies(pairs, dict.fromkeys(outcomes, 1 / 49))


def test_draw_is_a_function_of_seed_epoch_and_step():
    parts = {"cutmix": CutMix(probability=1)}
    one, again = drawn(**parts), drawn(**parts)
    assert (one.box, one.weight) == (again.box, again.weight)
    assert torch.equal(one.partners, again.partners)
    for change in ({"seed": 2}, {"epoch": 3}, {"step": 1}):
        other = drawn(**change, **parts)
        assert other.box != one.box
        assert not torch.equal(other.partners, one.partners)


def test_larger_global_batch_keeps_ratio_and_box():
    small, large = (drawn(cutmix=CutMix(probability=1), batch_size=size) for size in (5, 11))
    assert (small.box, small.weight) == (large.box, large.weight)


@pytest.mark.slow
def test_coin_falls_as_often_as_the_protocol_says():
    kinds = Counter(
        mix and mix.kind
        for mix in (
            drawn(step, cutmix=CutMix(probability=0.8), mixup=Mixup(probability=0.3))
            for step in range(NUM_STEPS)
        )
    )
    slow.assert_frequencies(kinds, {"cutmix": 0.4, "mixup": 0.15, None: 0.45})
    kinds = Counter(
        drawn(step, cutmix=CutMix(probability=0.3)) is None for step in range(NUM_STEPS)
    )
    slow.assert_frequencies(kinds, {True: 0.7, False: 0.3})


def test_protocol_without_mixing_draws_nothing():
    assert drawn() is None
    assert drawn(cutmix=CutMix(probability=0), mixup=Mixup(probability=0)) is None


@pytest.mark.parametrize("alpha", [0.2, 0.8, 1.0, 2.5])
def test_ratio_is_beta_distributed(alpha):
    numbers = draws.uniform("numbers", 0, num=5000).tolist()
    ratios = [beta_ratio(alpha, number) for number in numbers]
    assert kstest(ratios, beta(alpha, alpha).cdf).pvalue > 0.001


@pytest.mark.slow
def test_weight_of_mixup_is_the_ratio():
    weights = [drawn(step, mixup=Mixup(probability=1, alpha=0.8)).weight for step in range(500)]
    assert kstest(weights, beta(0.8, 0.8).cdf).pvalue > 0.001


def test_ratio_of_alpha_one_is_the_uniform_number_itself():
    assert [beta_ratio(1.0, number) for number in (0.0, 0.1, 0.7)] == [0.0, 0.1, 0.7]


@pytest.mark.slow
def test_box_centres_are_uniform_over_the_pixels():
    """A large alpha fixes the ratio at 0.5: half the box is 10 x 13 pixels, wherever it is cut."""
    rows, cols = Counter(), Counter()
    for step in range(NUM_STEPS):
        top, left, bottom, right = drawn(step, cutmix=CutMix(probability=1, alpha=1e6)).box
        rows[top + 10 if top else bottom - 10] += 1
        cols[left + 13 if left else right - 13] += 1
    slow.assert_frequencies(rows, dict.fromkeys(range(HEIGHT), 1 / HEIGHT))
    slow.assert_frequencies(cols, dict.fromkeys(range(WIDTH), 1 / WIDTH))
