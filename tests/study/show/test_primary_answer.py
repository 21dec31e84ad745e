"""The sentence about the comparison that a study is made for."""

from __future__ import annotations

from nearsight.stats import Estimate
from nearsight.study.analyse.primary import PrimaryResult
from nearsight.study.design.recipe_file import PrimaryContrast
from nearsight.study.show.study_page import primary_answer


def result(contrast: PrimaryContrast, estimate: Estimate, p: float | None = None) -> PrimaryResult:
    return PrimaryResult(contrast, {0: estimate.value}, 9, estimate, p, None)


def test_a_clear_difference_of_accuracy_is_in_percentage_points_and_has_a_direction():
    contrast = PrimaryContrast("accuracy", {"layers": 3}, {"layers": 1})
    text = primary_answer(result(contrast, Estimate(-0.0144, -0.0203, -0.0086, 3, "seeds"), 0.0039))
    assert text.startswith(
        "Test accuracy is 1.4 percentage points lower with layers 3 than with layers 1 "
        "(−2.0 to −0.9, 95 % over 3 seeds, exact p = 0.0039)."
    )
    assert "uncertain" not in text


def test_an_interval_around_0_leaves_the_direction_open_and_a_restriction_is_named():
    tenth = {"scale": "a tenth"}
    contrast = PrimaryContrast("min_mad", {"cutmix": True} | tenth, {"cutmix": False} | tenth)
    text = primary_answer(result(contrast, Estimate(0.008, -0.016, 0.033, 5, "seeds")))
    assert "0.008 higher with CutMix on than with CutMix off, scale a tenth" in text
    assert "(−0.016 to +0.033, 95 % over 5 seeds)" in text
    assert "even the direction is uncertain" in text
