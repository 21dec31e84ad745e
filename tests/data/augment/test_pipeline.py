"""A whole batch: what it depends on and what it does not."""

from dataclasses import replace

import pytest
import torch
from data.augment import reference_augment as slow

from nearsight.core import UserError
from nearsight.data.augment import pipeline as augment
from nearsight.data.augment.pipeline import augment_images, normalise_pixels
from nearsight.protocol.schema import (
    AutoAugment,
    ColorJitter,
    CutOut,
    Mixup,
    RandAugment,
    RandomErasing,
    optional_parts,
)

NUM = 101
COLOUR = (0.2, 0.4, 0.8)
EVERYTHING = slow.protocol(
    autoaugment=AutoAugment(),
    randaugment=RandAugment(num_ops=3),
    colorjitter=ColorJitter(),
    random_erasing=RandomErasing(probability=0.5),
    cutout=CutOut(probability=0.5, size=11),
)
NOTHING = slow.protocol(crop_padding=0, flip=False)


def augmented(images, samples, repeats, protocol=EVERYTHING, seed=1, epoch=2):
    return augment_images(
        images, samples, repeats, protocol=protocol, seed=seed, epoch=epoch, mean_colour=COLOUR
    )


@pytest.fixture(scope="module")
def batch():
    return slow.random_images(NUM), torch.arange(NUM) * 5 + 3, torch.arange(NUM) % 3


@pytest.fixture(scope="module")
def together(batch):
    return augmented(*batch)


@pytest.mark.parametrize("size", [1, 7, 64, 100])
@pytest.mark.slow
def test_chunk_size_changes_no_bit(batch, together, size):
    chunks = [augmented(*chunk) for chunk in zip(*(part.split(size) for part in batch))]
    assert torch.equal(torch.cat(chunks), together)


@pytest.mark.slow
def test_large_images_go_through_in_blocks_without_a_trace(batch, together, monkeypatch):
    monkeypatch.setattr(augment, "_PIXELS_AT_ONCE", 10 * slow.HEIGHT * slow.WIDTH)
    assert torch.equal(augmented(*batch), together)


def test_order_and_neighbours_change_no_bit(batch, together):
    chosen = torch.randperm(NUM, generator=torch.Generator().manual_seed(0))[:53]
    assert torch.equal(augmented(*(part[chosen] for part in batch)), together[chosen])


@pytest.mark.slow
def test_number_of_threads_changes_no_bit(batch, together):
    num_threads = torch.get_num_threads()
    try:
        for num in (1, 2, 3):
            torch.set_num_threads(num)
            assert torch.equal(augmented(*batch), together)
    finally:
        torch.set_num_threads(num_threads)


def test_layout_of_memory_changes_no_bit(batch, together):
    images, samples, repeats = batch
    strided = images.to(memory_format=torch.channels_last)
    assert torch.equal(augmented(strided, samples, repeats), together)


def test_global_random_state_is_neither_read_nor_changed(batch, together):
    torch.manual_seed(7)
    before = torch.get_rng_state()
    assert torch.equal(augmented(*batch), together)
    assert torch.equal(torch.get_rng_state(), before)


def test_given_images_are_left_alone(batch):
    images, samples, repeats = batch
    before = images.clone()
    for protocol in (EVERYTHING, NOTHING, slow.protocol(autoaugment=AutoAugment())):
        result = augmented(images, samples, repeats, protocol)
        result.fill_(0)
        assert torch.equal(images, before)


def test_protocol_without_augmentation_returns_the_images(batch):
    assert torch.equal(augmented(*batch, NOTHING), batch[0])


@pytest.mark.slow
def test_seed_epoch_sample_and_repeat_each_change_the_draws(batch, together):
    images, samples, repeats = batch
    others = [
        augmented(*batch, seed=2),
        augmented(*batch, epoch=3),
        augmented(images, samples + 1, repeats),
        augmented(images, samples, repeats + 1),
    ]
    for other in others:
        same = (other == together).flatten(1).all(1).double().mean()
        assert same < 0.05


def test_empty_batch_stays_empty():
    empty = torch.zeros(0, 3, 5, 7, dtype=torch.uint8)
    nobody = torch.zeros(0, dtype=torch.int64)
    assert augmented(empty, nobody, nobody).shape == empty.shape


@pytest.mark.parametrize("images", [torch.zeros(2, 3, 5, 7), torch.zeros(2, 1, 5, 7).byte()])
def test_images_of_another_kind_are_refused(images):
    with pytest.raises(UserError, match=r"\buint8 \[n, 3, .*(float32 \[2, 3|uint8 \[2, 1), 5, 7\]"):
        augmented(images, torch.arange(2), torch.zeros(2).long())


def test_normalized_is_the_formula_per_channel(batch):
    mean, std = (0.5, 0.25, 0.1), (0.2, 0.3, 0.7)
    images = batch[0][:13]
    expected = torch.empty(images.shape, dtype=torch.float64)
    for channel in range(3):
        scaled = images[:, channel].double() / 255
        expected[:, channel] = (scaled - mean[channel]) / std[channel]
    torch.testing.assert_close(
        normalise_pixels(images, mean, std, torch.float64), expected, rtol=1e-12, atol=1e-12
    )
    single = normalise_pixels(images, mean, std)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single, expected.float(), rtol=1e-5, atol=1e-6)
    assert torch.equal(normalise_pixels(images, mean, std, torch.bfloat16), single.bfloat16())


def test_every_optional_part_of_a_protocol_is_carried_out_somewhere():
    of_the_batch = {"cutmix", "mixup"}  # mix.py
    in_place_of_the_crop = {"resized_crop"}
    of_the_loss = {"distillation", "dino"}
    elsewhere = of_the_batch | in_place_of_the_crop | of_the_loss
    assert {*augment.STEPS, *elsewhere} == set(optional_parts())


def test_a_step_that_is_added_to_the_table_is_taken_where_the_protocol_has_it(monkeypatch):
    monkeypatch.setitem(augment.STEPS, "mixup", lambda images, settings, key, colour: 255 - images)
    images = torch.randint(0, 256, (7, 3, 11, 13), dtype=torch.uint8)
    numbers = torch.arange(7)
    assert augmented(images, numbers, 0 * numbers, NOTHING).equal(images)
    mixed = replace(NOTHING, mixup=Mixup())
    assert augmented(images, numbers, 0 * numbers, mixed).equal(255 - images)
