"""Runs compared at the same epoch and at the same training loss, with numbers solved by hand."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from nearsight.core import UserError
from nearsight.study.analyse.factorials import factorial
from nearsight.study.analyse.matched import (
    Course,
    at_matched_epoch,
    at_matched_loss,
    common_epoch,
    common_loss,
)


def course(losses, mads, cutmix=False, seed=0, epochs=None):
    epochs = epochs or list(range(1, len(losses) + 1))
    return Course({"cutmix": cutmix}, seed, epochs, losses, {"min_mad": mads})


def test_at_an_epoch_only_what_was_measured_there():
    run = course([4.0, 3.0, 2.0], [0.4, None, 0.2])
    assert run.at_epoch(1).values == {"min_mad": 0.4}
    assert run.at_epoch(2).values == {}
    assert run.at_epoch(7).values == {}


def test_at_a_loss_by_linear_interpolation():
    """3.2 lies four fifths of the way from 4 to 3: epoch 1.8, MAD 0.4 - 0.8 * 0.1."""
    run = course([4.0, 3.0, 2.0], [0.4, 0.3, 0.1])
    assert run.epoch_of_loss(3.2) == pytest.approx(1.8)
    assert run.at_loss(3.2).values["min_mad"] == pytest.approx(0.32)
    assert run.at_loss(4.0).values["min_mad"] == 0.4
    assert run.at_loss(2.0).values["min_mad"] == pytest.approx(0.1)


def test_a_loss_never_reached_or_passed_before_the_start_gives_nothing():
    run = course([4.0, 3.0], [0.4, 0.3])
    assert run.epoch_of_loss(2.9) is None
    assert run.epoch_of_loss(4.1) is None
    assert run.at_loss(2.9).values == run.at_loss(4.1).values == {}


def test_the_first_time_counts_where_the_loss_rises_again():
    run = course([4.0, 2.0, 3.0, 1.0], [0.4, 0.3, 0.2, 0.1])
    assert run.epoch_of_loss(2.5) == pytest.approx(1.75)


def test_numbers_measured_every_few_epochs_are_interpolated_between_them():
    run = course([4.0, 3.0, 2.0, 1.0], [None, 0.3, None, 0.1])
    assert run.at_loss(2.0).values["min_mad"] == pytest.approx(0.2)
    assert run.at_loss(3.5).values == {}  # before the first measurement


def test_epochs_between_looks_count_as_long_as_they_are():
    run = course([4.0, 2.0], [0.4, 0.2], epochs=[10, 30])
    assert run.epoch_of_loss(3.0) == 20.0


def test_what_all_runs_share():
    long, short = course([4.0, 3.0, 2.0, 1.0], [0.4, 0.3, 0.2, 0.1]), course([5.0, 2.5], [0.4, 0.3])
    assert common_epoch([long, short], "min_mad") == 2
    assert common_loss([long, short]) == 2.5
    assert common_epoch([long, short], "accuracy") is None
    assert common_epoch([], "min_mad") is None
    assert common_loss([]) is None


def test_an_effect_of_the_length_vanishes_at_matched_loss():
    """MAD follows the loss alone; CutMix only learns more slowly."""
    runs = []
    for seed, start in enumerate([4.0, 4.4, 4.1]):
        plain = [start - 0.4 * epoch for epoch in range(9)]
        mixed = [start - 0.2 * epoch for epoch in range(9)]
        runs += [course(plain, [0.1 * x for x in plain], False, seed)]
        runs += [course(mixed, [0.1 * x for x in mixed], True, seed)]
    epoch, at_epoch = at_matched_epoch(runs, "min_mad")
    assert epoch == 9
    assert factorial(at_epoch, "min_mad").effect("cutmix").estimate.value == pytest.approx(0.16)
    loss, at_loss = at_matched_loss(runs)
    assert loss == pytest.approx(4.4 - 1.6)
    effect = factorial(at_loss, "min_mad").effect("cutmix").estimate
    assert (effect.low, effect.high) == pytest.approx((0, 0), abs=1e-12)


def test_a_course_must_fit_together():
    with pytest.raises(UserError, match=r"\[1, 2\]"):
        course([4.0, 3.0], [0.4])
    with pytest.raises(UserError, match=r"\bepochs\b.*\bascending\b"):
        course([4.0, 3.0], [0.4, 0.3], epochs=[2, 1])


@settings(deadline=None)
@given(
    some.lists(some.floats(0.1, 5), min_size=2, max_size=11, unique=True).map(
        lambda x: sorted(x, reverse=True)
    ),
    some.floats(0, 1),
)
def test_a_number_that_is_the_loss_itself_comes_back(losses, share):
    target = min(losses[0], losses[-1] + share * (losses[0] - losses[-1]))
    run = course(losses, losses)
    assert run.at_loss(target).values["min_mad"] == pytest.approx(target)


def test_a_look_before_the_first_step_counts_for_numbers_but_has_no_loss():
    """The loss falls to 3 half-way between epochs 1 and 2; a number is known at epochs 0 and 2."""
    run = Course({}, 0, [0, 1, 2], [math.inf, 4.0, 2.0], {"x": [1.0, None, 5.0]})
    assert run.epoch_of_loss(3.0) == 1.5
    assert run.at_loss(3.0).values["x"] == pytest.approx(4.0)
    assert run.at_loss(5.0).values == {}
    assert common_loss([run]) == 2.0


def test_runs_without_a_clean_loss_are_not_matched_by_loss():
    """The loss that is trained on is of other targets where images are mixed: it does not count."""
    old = course([math.inf, math.inf], [0.3, 0.2])
    assert common_loss([old, old]) is None
    assert common_loss([course([2.0, 1.0], [0.3, 0.2]), old]) is None


def stopping(accuracies, mads, epochs=None):
    epochs = epochs or list(range(1, len(accuracies) + 1))
    values = {"accuracy": accuracies, "min_mad": mads}
    return Course({"cutmix": False}, 0, epochs, [1.0] * len(epochs), values)


def test_a_virtual_stop_keeps_the_best_epoch_and_ignores_what_came_after_the_patience():
    """Epoch 2 is best; epochs 3 and 4 use up the patience, so the better epoch 5 is never seen."""
    run = stopping([0.1, 0.3, 0.2, 0.25, 0.9], [0.5, 0.4, 0.3, 0.2, 0.1])
    assert run.virtual_stop(patience=2) == 2
    assert run.at_virtual_stop(patience=2).values == {"accuracy": 0.3, "min_mad": 0.4}
    assert run.virtual_stop(patience=3) == 5
    assert run.at_virtual_stop(patience=3).values == {"accuracy": 0.9, "min_mad": 0.1}


def test_a_virtual_stop_takes_the_last_measurement_at_or_before_its_epoch():
    run = stopping([0.1, 0.2, 0.3, 0.2], [None, 0.4, None, 0.1])
    assert run.at_virtual_stop(patience=9).values == {"accuracy": 0.3, "min_mad": 0.4}


def test_of_two_equal_accuracies_the_first_is_kept_as_training_does():
    assert stopping([0.3, 0.3], [0.4, 0.1]).virtual_stop(patience=1) == 1


def test_without_an_accuracy_or_an_earlier_measurement_a_virtual_stop_gives_no_number():
    assert course([4.0, 3.0], [0.4, 0.3]).at_virtual_stop(patience=1).values == {}
    assert stopping([0.3, 0.2], [None, 0.1]).at_virtual_stop(patience=5).values == {"accuracy": 0.3}
