"""The linear probe, against scikit-learn and plain torch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from evaluate.made_sets import bench_of, pictures
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from nearsight.core import UserError
from nearsight.evaluate.tasks.knn import image_features
from nearsight.evaluate.tasks.linear import LINEAR, top_hits


def test_top_five_counts_the_five_largest_logits() -> None:
    logits = torch.randn(31, 7, generator=torch.Generator().manual_seed(3))
    truth = torch.arange(31) % 7
    hits = top_hits(logits, truth)
    for row in range(31):
        order = sorted(range(7), key=lambda cls: -float(logits[row, cls]))
        assert hits[row].tolist() == [order[0] == truth[row], int(truth[row]) in order[:5]]


@pytest.mark.parametrize("tokens", ["class", "patches", "both"])
def test_predictions_are_those_of_scikit_learn(tmp_path, tokens) -> None:
    bench = bench_of(
        tmp_path, "logreg", {"tokens": tokens, "C": 0.1}, "labels",
        train=replace(pictures(61, 0), classes=("red", "green")),
        val=replace(pictures(31, 1), classes=("red", "green")), place="norm",
    )  # fmt: skip
    top1, top5 = LINEAR.run(bench)
    train, val = (
        image_features(bench.features(x), tokens, normalise=False).numpy()
        for x in (bench.train, bench.val)
    )
    scaled = StandardScaler().fit(train)
    slow = LogisticRegression(C=0.1, tol=1e-8, max_iter=1000)
    slow.fit(scaled.transform(train), bench.train.labels)
    expected = slow.predict(scaled.transform(val)) == bench.val.labels
    np.testing.assert_array_equal(top1.records, expected)
    assert top5.records.all()  # there are two classes
    assert top1.settings["chosen_on"] == "C was given"


def test_c_is_chosen_on_held_out_training_images(tmp_path) -> None:
    bench = bench_of(
        tmp_path, "logreg", {"tokens": "class", "C": 0.0}, "labels", train=pictures(61, 0)
    )
    top1, _ = LINEAR.run(bench)
    tried = top1.settings["tried"]
    assert tried[f"{top1.settings['C']:.3g}"] == max(tried.values())
    few = bench_of(
        tmp_path, "logreg", {"tokens": "class", "C": 0.0}, "labels", train=pictures(7, 0)
    )
    with pytest.raises(UserError, match="every 10th training image, but there are only 7"):
        list(LINEAR.run(few))


def test_sgd_repeats_and_says_its_scale(tmp_path) -> None:
    bench = bench_of(
        tmp_path, "dino", {"tokens": "class"}, "labels", train=pictures(61, 0), place="norm"
    )
    first, second = (next(iter(LINEAR.run(bench))) for _ in range(2))
    np.testing.assert_array_equal(first.records, second.records)
    assert first.settings["scale"].startswith("cached: plain and mirrored")
    assert len(LINEAR.needs(bench)) == 3
