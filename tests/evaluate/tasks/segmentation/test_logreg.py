"""Segmentation by logistic regression."""

from __future__ import annotations

import numpy as np
import pytest
from evaluate.made_sets import bench_of, pictures

from nearsight.core import UserError
from nearsight.evaluate.tasks.segmentation.all_methods import SEGMENTATION
from nearsight.stats import miou


@pytest.mark.slow
def test_c_is_the_one_with_the_best_miou_on_held_out_training_images(tmp_path) -> None:
    bench = bench_of(tmp_path, "logreg", {"C": 0.0})
    whole, _, _ = SEGMENTATION.run(bench)
    tried = whole.settings["tried"]
    assert len(tried) == 5
    assert tried[f"{whole.settings['C']:.3g}"] == max(tried.values())
    assert whole.settings["chosen_on"] == "C on every 10th training image"
    given = bench_of(tmp_path, "logreg", {"C": whole.settings["C"]})
    again, _, _ = SEGMENTATION.run(given)  # the problem is convex: another start, the same answer
    a, b = (float(miou(x.records, np.ones(11))) for x in (whole, again))
    assert abs(a - b) < 1e-3


@pytest.mark.slow
def test_the_same_evaluation_gives_the_same_bytes(tmp_path) -> None:
    first, second = (
        next(iter(SEGMENTATION.run(bench_of(tmp_path, "logreg", {"C": 0.01})))).records
        for _ in range(2)
    )
    assert first.tobytes() == second.tobytes()


def test_capi_counts_the_class_of_most_pixels_at_the_models_size(tmp_path) -> None:
    whole, _, _ = SEGMENTATION.run(bench_of(tmp_path, "capi-logreg", {"C": 0.01}, place="norm"))
    assert whole.settings["label_size"] == [24, 40]
    assert float(miou(whole.records, np.ones(11))) > 0.2


def test_too_few_images_to_choose_c_are_an_error(tmp_path) -> None:
    bench = bench_of(tmp_path, "logreg", {"C": 0.0}, train=pictures(7, 0))
    with pytest.raises(UserError, match=r"\b10th\b.*\b7\b.*--num-train.*--set C="):
        list(SEGMENTATION.run(bench))
