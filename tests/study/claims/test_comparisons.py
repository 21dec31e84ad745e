"""Which runs count as one of the eight conditions of the protocol paper."""

from dataclasses import asdict, replace

import pytest

from nearsight.protocol import schema
from nearsight.protocol.presets import preset
from nearsight.protocol.schema import Mixup, ResizedCrop
from nearsight.study.analyse.outcome import Outcome
from nearsight.study.claims.comparisons import find_matching, flags
from nearsight.study.design.settings import protocol_settings


@schema.dataclass(frozen=True, kw_only=True)
class Sharpen:
    strength: float = 0.3


@schema.dataclass(frozen=True, kw_only=True)
class SharpenedProtocol(schema.Protocol):
    """A protocol with an augmentation that the package does not have."""

    sharpen: Sharpen | None = None


def outcome(protocol, value):
    return Outcome({}, 0, {"min_mad": value}, protocol_settings(protocol))


def test_the_optional_parts_of_a_protocol_are_the_augmentations_and_the_objectives():
    assert set(schema.optional_parts()) == {
        "autoaugment", "blur", "colorjitter", "cutmix", "cutout", "dino", "distillation",
        "greyscale", "mixup", "randaugment", "random_erasing", "resized_crop", "solarize",
    }  # fmt: skip


def test_a_run_with_a_new_augmentation_does_not_count_as_baseline(monkeypatch):
    monkeypatch.setattr(schema, "Protocol", SharpenedProtocol)
    plain = SharpenedProtocol(**asdict(preset("baseline")))
    sharpened = replace(plain, sharpen=Sharpen())
    assert protocol_settings(sharpened)["sharpen"] is True
    assert protocol_settings(plain)["sharpen"] is False
    found = find_matching(
        [outcome(plain, 0.2), outcome(sharpened, 0.1)], flags(False, False, False), "min_mad"
    )
    assert found[0].values == {"min_mad": 0.2}
    assert find_matching([outcome(sharpened, 0.1)], flags(False, False, False), "min_mad") == {}


@pytest.mark.parametrize("part", [{"mixup": Mixup()}, {"resized_crop": ResizedCrop()}])
def test_a_run_with_another_part_does_not_count_as_one_of_the_eight(part):
    modern = preset("modern")
    side = flags(True, True, True)
    assert find_matching([outcome(replace(modern, **part), 0.1)], side, "min_mad") == {}
    assert find_matching([outcome(modern, 0.1)], side, "min_mad")[0].values == {"min_mad": 0.1}


def test_colour_jitter_stands_for_autoaugment():
    jittered = preset("modern", "tiny-imagenet")
    assert jittered.colorjitter is not None
    assert find_matching([outcome(jittered, 0.1)], flags(True, True, True), "min_mad")
