"""A protocol on a fraction of the data: as many images seen, a name of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nearsight.core import UserError
from nearsight.protocol.fraction import FRACTIONS, at_fraction, whole_name
from nearsight.protocol.presets import assumed_values, preset


@pytest.mark.parametrize(
    ("fraction", "epochs", "patience", "warmup", "looks"),
    [(0.05, 12000, 400, 100, 60), (0.1, 6000, 200, 50, 30), (0.3, 2000, 67, 16.667, 10)],
)
def test_everything_counted_in_epochs_is_divided_by_the_fraction(
    fraction: float, epochs: int, patience: int, warmup: float, looks: int
) -> None:
    whole = replace(preset("modern"), measure_every=3)
    part = at_fraction(whole, fraction)
    assert (part.epochs, part.patience, part.warmup_epochs) == (epochs, patience, warmup)
    assert (part.measure_every, part.data.fraction) == (looks, fraction)
    changed = {"name", "data", "epochs", "patience", "warmup_epochs", "measure_every"}
    assert {k: v for k, v in vars(part).items() if k not in changed} == {
        k: v for k, v in vars(whole).items() if k not in changed
    }


def test_the_name_says_the_fraction_and_all_data_need_no_saying() -> None:
    names = [at_fraction(preset("modern-cutmix"), part).name for part in FRACTIONS]
    assert names == [f"modern-cutmix{end}" for end in ("@5%", "@10%", "@30%", "@50%", "")]
    assert {whole_name(name) for name in names} == {"modern-cutmix"}


def test_without_early_stopping_there_is_none_at_a_fraction_either() -> None:
    assert at_fraction(replace(preset("modern"), patience=None), 0.5).patience is None


def test_what_is_assumed_stays_marked_at_a_fraction() -> None:
    whole = preset("modern", "shapes")
    part = at_fraction(whole, 0.1)
    assert assumed_values(part).keys() == assumed_values(whole).keys()
    assert assumed_values(part)["epochs"] == 300


def test_a_fraction_set_without_more_epochs_keeps_the_marks_too() -> None:
    whole = preset("modern", "shapes")
    part = replace(whole, data=replace(whole.data, fraction=0.1))
    assert assumed_values(part) == assumed_values(whole)


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.5])
def test_a_fraction_out_of_range_is_refused(fraction: float) -> None:
    with pytest.raises(UserError, match=f"is {fraction:g}, but must be above 0"):
        at_fraction(preset("modern"), fraction)


def test_a_fraction_of_a_fraction_is_refused() -> None:
    with pytest.raises(UserError, match=r"\bmodern@10% .*\b0\.1\b.*\b0\.5\b"):
        at_fraction(at_fraction(preset("modern"), 0.1), 0.5)
