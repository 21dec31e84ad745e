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
from nearsight.data.draws import permutation, seeded_torch, uniform
from nearsight.evaluate.solvers import small_head
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


@pytest.mark.slow
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
    with pytest.raises(UserError, match=r"\b10th\b.*\b7\b.*--num-train.*--set C="):
        list(LINEAR.run(few))


@pytest.mark.slow
def test_sgd_is_that_of_a_plain_loop(tmp_path) -> None:
    train = replace(pictures(61, 0), classes=("red", "green"))
    val = replace(pictures(31, 1), classes=("red", "green"))
    bench = bench_of(
        tmp_path, "dino", {"tokens": "class"}, "labels", train=train, val=val, place="norm"
    )
    found = next(iter(LINEAR.run(bench)))
    plain, mirrored, scored = (
        image_features(bench.features(split, side), "class", normalise=False)
        for split, side in ((train, False), (train, True), (val, False))
    )
    with seeded_torch("head", 0, device=torch.device("cpu")):
        start = small_head(plain.shape[1], 2)
    weight, bias = start.weight.detach()[:, :, 0, 0].clone(), torch.zeros(2)
    speeds = torch.zeros_like(weight), torch.zeros(2)
    truth = torch.tensor(train.labels)
    for step in range(50):  # 61 images are one batch of each epoch
        rows = permutation("head order", 0, step, length=61)
        flips = uniform("linear mirror", step, rows, num=1)[:, 0] < 0.5
        inputs = torch.where(flips[:, None], mirrored[rows], plain[rows])
        error = (inputs @ weight.T + bias).softmax(1) - torch.eye(2)[truth[rows]]
        slopes = error.T @ inputs / 61, error.mean(0)
        rate = 1e-3 * 61 / 256 * (1 + np.cos(np.pi * (step + 1) / 50)) / 2
        for place, speed, slope in zip((weight, bias), speeds, slopes):
            speed.mul_(0.9).add_(slope)
            place.sub_(rate * speed)
    expected = (scored @ weight.T + bias).argmax(1).numpy() == val.labels
    np.testing.assert_array_equal(found.records, expected)
    assert found.settings["epochs"] == 50


@pytest.mark.slow
def test_sgd_repeats_and_says_its_scale(tmp_path) -> None:
    bench = bench_of(
        tmp_path, "dino", {"tokens": "class"}, "labels", train=pictures(61, 0), place="norm"
    )
    first, second = (next(iter(LINEAR.run(bench))) for _ in range(2))
    np.testing.assert_array_equal(first.records, second.records)
    assert first.settings["scale"].startswith("cached: plain and mirrored")
    assert len(LINEAR.needs(bench)) == 3
