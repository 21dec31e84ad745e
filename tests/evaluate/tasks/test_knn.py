"""k-NN votes as DINO's own code does."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from evaluate.made_sets import bench_of, pictures
from sklearn.neighbors import KNeighborsClassifier

from nearsight.core import UserError
from nearsight.evaluate.tasks.knn import KNN, NEIGHBOURS, image_features, knn_votes


def test_votes_are_those_of_a_plain_loop() -> None:
    generator = torch.Generator().manual_seed(3)
    cosines = torch.rand(5, 7, generator=generator)
    labels = torch.randint(0, 3, (5, 7), generator=generator)
    votes = knn_votes(cosines, labels, 3)
    for query in range(5):
        expected = [0.0] * 3
        for cosine, label in zip(cosines[query].tolist(), labels[query].tolist()):
            expected[label] += math.exp(cosine / 0.07)
        np.testing.assert_allclose(votes[query], expected, rtol=1e-4)


@pytest.mark.slow
def test_accuracy_is_that_of_scikit_learns_weighted_classifier(tmp_path) -> None:
    bench = bench_of(
        tmp_path, "dino", {"tokens": "both"}, "labels",
        train=pictures(211, 0), val=pictures(31, 1), place="norm",
    )  # fmt: skip
    found = {finding.name: finding for finding in KNN.run(bench)}
    train, val = (image_features(bench.features(x), "both") for x in (bench.train, bench.val))

    def weights(distances):  # of unit vectors: cosine = 1 - distance^2 / 2
        return np.exp((1 - distances**2 / 2) / 0.07)

    unit = [torch.nn.functional.normalize(x, dim=-1).numpy() for x in (train, val)]
    for k in NEIGHBOURS:
        slow = KNeighborsClassifier(k, weights=weights).fit(unit[0], bench.train.labels)
        expected = slow.predict(unit[1]) == bench.val.labels
        np.testing.assert_array_equal(found[f"top1 of {k}"].records, expected)
    assert found["top1 of 10"].settings["k"] == 10


def test_fewer_training_images_than_neighbours_are_an_error(tmp_path) -> None:
    bench = bench_of(tmp_path, "dino", {"tokens": "class"}, "labels")
    with pytest.raises(UserError, match=r"\b200 neighbours\b.*\b23\b.*--num-train"):
        list(KNN.run(bench))
