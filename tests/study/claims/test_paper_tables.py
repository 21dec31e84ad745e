"""The paper's tables hold together, and the claims repeat them."""

import pytest

from nearsight.core import UserError
from nearsight.protocol.presets import EIGHT, preset
from nearsight.study.claims.all_claims import claim
from nearsight.study.claims.paper_tables import (
    PAPER_TABLE_1,
    PAPER_TABLE_2,
    PaperRow,
    paper_difference,
    paper_effect,
)


def test_table_2_has_the_eight_protocols_and_every_column():
    assert set(PAPER_TABLE_2) == set(EIGHT)
    for row in PAPER_TABLE_2.values():
        assert 0 < row["min_mad"] < row["max_mad"] < 1
        assert 0 < row["min_entropy"] < row["max_entropy"] < 1


def test_table_1_names_data_sets_of_ours_and_agrees_with_table_2():
    assert all(preset("modern", data).data.name == data for data in PAPER_TABLE_1)
    assert PAPER_TABLE_1["cifar100"]["modern"] == PAPER_TABLE_2["modern"]


def test_differences_are_the_gains_that_the_paper_prints():
    gains = {"cifar10": 0.0638, "cifar100": 0.1485, "tiny-imagenet": 0.0703}
    for data, gain in gains.items():
        assert paper_difference("accuracy", "modern", "baseline", data) == pytest.approx(gain)


def test_main_effects_solved_by_hand():
    """Entropy: (0.047 + 0.106 + 0.054 + 0.096 - 0.551 - 0.644 - 0.763 - 0.635) / 4."""
    assert paper_effect("min_entropy", "cutmix") == pytest.approx(-0.5725)
    assert paper_effect("min_mad", "autoaugment") == pytest.approx((0.481 - 0.676) / 4)
    assert paper_effect("min_mad", "labelsmoothing") == pytest.approx((0.557 - 0.600) / 4)


def test_a_number_that_is_not_printed_is_refused():
    with pytest.raises(UserError, match="'min_mad'"):
        PaperRow(0.5)["min_mad"]
    with pytest.raises(UserError, match="'loss'"):
        PAPER_TABLE_2["modern"]["loss"]


@pytest.mark.parametrize(
    ("id", "numbers"),
    [
        ("thresholds", "with 0.008, 0.009, 0.021, 0.024; without 0.210, 0.254, 0.315, 0.316"),
        ("separation", "0.024 - 0.210 = -0.186"),
        ("cutmix", "-0.258"),
        ("cutmix-alone", "0.021 - 0.316 = -0.295"),
        ("cutmix-entropy", "-0.5725"),
        (
            "autoaugment-null",
            "main effect -0.049; alone 0.254 - 0.316 = -0.062; with CutMix 0.009 - 0.021 = -0.012",
        ),
        ("labelsmoothing-null", "main effect -0.011; alone 0.315 - 0.316 = -0.001"),
        ("dissociation", "-0.10 points"),
        ("modern-local", "CIFAR-100: 0.008 - 0.316 = -0.308"),
        ("modern-accuracy", "6.38, 14.85, 7.03 points"),
    ],
)
def test_claims_repeat_the_papers_numbers(id, numbers):
    assert claim(f"protocol-{id}").paper == numbers
