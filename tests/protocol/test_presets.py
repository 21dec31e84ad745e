"""The presets against the table of the paper, written out here once more, value by value."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, asdict, replace

import pytest
from pydantic import ValidationError

from nearsight.core import UserError
from nearsight.protocol.deit import RECIPES
from nearsight.protocol.locat_presets import LOCAT
from nearsight.protocol.preset_listing import preset_changes, preset_tables
from nearsight.protocol.presets import EIGHT, PRESETS, assumed_values, preset
from nearsight.protocol.schema import AutoAugment, ColorJitter, CutMix, Protocol

# name: (AutoAugment, CutMix, label smoothing)
PAPER = {
    "baseline": (False, False, False),
    "modern": (True, True, True),
    "modern-autoaugment": (False, True, True),
    "modern-cutmix": (True, False, True),
    "modern-labelsmoothing": (True, True, False),
    "baseline+autoaugment": (True, False, False),
    "baseline+cutmix": (False, True, False),
    "baseline+labelsmoothing": (False, False, True),
}
# data: (batch, epochs, patience, warm-up epochs, learning rate)
SCHEDULES = {
    "cifar10": (128, 600, 20, 5, 3e-4),
    "cifar100": (128, 600, 20, 5, 3e-4),
    "tiny-imagenet": (64, 400, 30, 10, 1e-4),
    "shapes": (128, 30, 10, 2, 1e-3),
    "folder:/photos": (128, 30, 10, 2, 1e-3),
}
ALWAYS_ASSUMED = {"optimizer.lr", "optimizer.weight_decay", "crop_padding"}
ASSUMED_OF_OTHER_DATA = {"epochs", "patience", "warmup_epochs", "batch_size"}
EVERY_PRESET = [(name, data) for name in PAPER for data in SCHEDULES]


def test_there_are_the_eight_protocols_of_the_paper() -> None:
    assert set(EIGHT) == set(PAPER)
    assert len(set(PAPER.values())) == 8  # every combination of the three parts


@pytest.mark.parametrize(("name", "data"), EVERY_PRESET)
def test_a_preset_switches_on_its_parts_and_nothing_else(name: str, data: str) -> None:
    colour, cutmix, smoothing = PAPER[name]
    protocol = preset(name, data)
    jitter = data == "tiny-imagenet"
    assert protocol.autoaugment == (AutoAugment() if colour and not jitter else None)
    assert protocol.colorjitter == (ColorJitter() if colour and jitter else None)
    assert protocol.cutmix == (CutMix() if cutmix else None)
    assert protocol.label_smoothing == (0.1 if smoothing else 0.0)
    assert (protocol.crop_padding, protocol.flip) == (4, True)
    others = (protocol.randaugment, protocol.random_erasing, protocol.mixup, protocol.cutout)
    assert others == (None, None, None, None)
    assert (protocol.repeats, protocol.ema_decay, protocol.precision) == (1, None, "float32")


@pytest.mark.parametrize(("name", "data"), EVERY_PRESET)
def test_a_preset_has_the_schedule_of_its_data_set(name: str, data: str) -> None:
    protocol = preset(name, data)
    batch, epochs, patience, warmup, rate = SCHEDULES[data]
    assert (protocol.batch_size, protocol.epochs, protocol.patience) == (batch, epochs, patience)
    assert (protocol.warmup_epochs, protocol.optimizer.lr) == (warmup, rate)
    assert protocol.optimizer.weight_decay == 0.05
    assert protocol.data.name == data
    assert (protocol.data.validation_fraction, protocol.model.name) == (0.2, "compact_vit")


def test_the_parts_have_the_values_of_the_table() -> None:
    modern, jittered = preset("modern"), preset("modern", "tiny-imagenet").colorjitter
    assert asdict(modern)["cutmix"] == {"probability": 0.5, "alpha": 1.0, "mix_labels": True}
    assert asdict(modern)["autoaugment"] == {"policy": "cifar10"}
    assert jittered is not None
    assert list(asdict(jittered).values()) == [0.4, 0.4, 0.4, 0.1, 1.0]


@pytest.mark.parametrize(("name", "data"), EVERY_PRESET)
def test_every_value_the_paper_does_not_give_is_marked_as_assumed(name: str, data: str) -> None:
    colour, cutmix, smoothing = PAPER[name]
    expected = set(ALWAYS_ASSUMED)
    if data not in ("cifar10", "cifar100", "tiny-imagenet"):
        expected |= ASSUMED_OF_OTHER_DATA
    if cutmix:
        expected |= {"cutmix.probability", "cutmix.alpha"}
    if smoothing:
        expected |= {"label_smoothing"}
    if colour and data == "tiny-imagenet":
        expected |= {f"colorjitter.{x}" for x in ("brightness", "contrast", "saturation", "hue")}
    assert set(assumed_values(preset(name, data))) == expected


def test_an_overridden_value_is_no_longer_our_assumption() -> None:
    protocol = preset("modern")
    changed = replace(protocol, optimizer=replace(protocol.optimizer, lr=7e-4))
    assert set(assumed_values(protocol)) - set(assumed_values(changed)) == {"optimizer.lr"}


def test_a_protocol_of_another_name_assumes_nothing_for_us() -> None:
    assert assumed_values(replace(preset("modern"), name="mine")) == {}


def test_colorjitter_gives_its_name_on_tiny_imagenet() -> None:
    assert preset("modern-autoaugment", "tiny-imagenet").name == "modern-colorjitter"
    by_either_name = preset("baseline+colorjitter", "tiny-imagenet")
    assert by_either_name == preset("baseline+autoaugment", "tiny-imagenet")
    with pytest.raises(UserError, match="no preset 'baseline\\+colorjitter'"):
        preset("baseline+colorjitter", "cifar100")


def test_a_colorjitter_protocol_moved_to_other_data_can_still_be_recorded() -> None:
    protocol = preset("modern-colorjitter", "tiny-imagenet")
    moved = replace(protocol, data=replace(protocol.data, name="cifar100"))
    assert set(assumed_values(moved)) >= {"optimizer.weight_decay", "crop_padding"}


def test_an_unknown_preset_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match=r"'moderm'.*\bmean modern\b"):
        preset("moderm")


def test_a_protocol_is_frozen_down_to_its_parts() -> None:
    protocol = preset("modern")
    with pytest.raises(FrozenInstanceError):
        protocol.epochs = 3  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        protocol.optimizer.lr = 0.1  # type: ignore[misc]


def test_replace_makes_a_variant_and_validates_it_again() -> None:
    assert replace(preset("modern"), cutmix=None, name="modern-cutmix") == preset("modern-cutmix")
    with pytest.raises(ValidationError, match="epochs"):
        replace(preset("modern"), epochs=0)
    with pytest.raises(ValidationError, match="label_smoothing"):
        replace(preset("modern"), label_smoothing=1.0)


def test_a_protocol_takes_keywords_only_and_no_unknown_one() -> None:
    with pytest.raises(ValidationError):
        Protocol("mine")  # type: ignore[call-arg, misc]
    with pytest.raises(ValidationError, match="epoch"):
        Protocol(  # type: ignore[call-arg]
            name="mine", epochs=3, patience=2, warmup_epochs=1, batch_size=5, epoch=3
        )


def test_the_listing_says_what_each_preset_changes() -> None:
    assert preset_changes("baseline", "cifar100") == []
    assert preset_changes("baseline+cutmix", "cifar100") == [
        "cutmix: probability 0.5*, alpha 1*, mix_labels True"
    ]
    assert preset_changes("modern-cutmix", "cifar10") == [
        "autoaugment: policy cifar10",
        "label_smoothing: 0.1*",
    ]
    assert preset_changes("convit-gates", "cifar100", "convit") == ["model.gpsa.train_gates: False"]
    assert preset_changes("deit-mixup", "shapes", "deit") == ["mixup: off"]
    names = [name for table in preset_tables("shapes") for name in table.columns[0].cells]
    families = ["convit+layers=N", "convit+strength=N"]
    assert names == [*EIGHT, *RECIPES, *families, *LOCAT, "dino"]
    assert set(names) == {*PRESETS, *families}


def test_the_list_of_presets_says_what_a_minus_takes_away() -> None:
    protocols = preset_tables("shapes")[0]
    changes = dict(zip(*(column.cells for column in protocols.columns)))
    assert str(changes["modern-autoaugment"]).startswith("modern without AutoAugment:\n")
    assert "without" not in str(changes["modern"])
