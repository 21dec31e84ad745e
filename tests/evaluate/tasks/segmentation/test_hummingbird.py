"""Hummingbird against plain loops over every training patch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from evaluate.made_sets import bench_of, pictures

from nearsight.core import UserError
from nearsight.evaluate.tasks.segmentation.all_methods import SEGMENTATION
from nearsight.evaluate.tasks.segmentation.hummingbird import voted_maps
from nearsight.evaluate.tasks.segmentation.truth import patch_labels
from nearsight.models.layers import Grid
from nearsight.stats import image_interval, miou

OPTIONS = {"k": 7, "temperature": 0.02}


def test_votes_are_those_of_a_plain_loop(tmp_path) -> None:
    bench = bench_of(tmp_path, "hummingbird", OPTIONS)
    labels = patch_labels(bench.train, Grid(3, 5), 3)
    votes = voted_maps(bench, labels).maps(4)
    train, val = (
        np.array(bench.features(x).patches, np.float64).reshape(-1, bench.features(x).width)
        for x in (bench.train, bench.val)
    )
    train /= np.linalg.norm(train, axis=1, keepdims=True)
    shares = labels.shares.toarray()
    for patch in (0, 8, 14):
        query = val[4 * 15 + patch]
        cosines = train @ query / np.linalg.norm(query)
        best = np.argsort(-cosines)[:7]
        weights = np.exp((cosines[best] - cosines.max()) / 0.02)
        expected = weights @ shares[best] / weights.sum()
        np.testing.assert_allclose(votes[:, patch // 5, patch % 5], expected, rtol=1e-3)


def test_patches_without_a_label_are_not_in_the_memory(tmp_path) -> None:
    bench = bench_of(tmp_path, "hummingbird", {"k": 1, "temperature": 0.02})
    bench = bench_of(tmp_path, "hummingbird", {"k": 1, "temperature": 0.02}, val=bench.train)
    labels = patch_labels(bench.train, Grid(3, 5), 3)
    known = labels.known.copy()
    known[2 * 15 + 6] = 0
    hidden = type(labels)(labels.shares, known)
    own = labels.shares[[2 * 15 + 6]].toarray()[0]
    np.testing.assert_allclose(voted_maps(bench, labels).maps(2)[:, 1, 1], own, rtol=1e-5)
    other = voted_maps(bench, hidden).maps(2)[:, 1, 1]
    assert torch.isclose(other.sum(), torch.tensor(1.0))  # the next nearest votes instead


def test_segmentation_finds_colours_and_states_its_settings(tmp_path) -> None:
    bench = bench_of(tmp_path, "hummingbird", OPTIONS)
    (whole, accuracy, boundary) = SEGMENTATION.run(bench)
    assert whole.settings["void"] == "neither in the memory nor scored"
    assert whole.settings["k"] == 7
    assert whole.settings["memory"].startswith("345 patches")
    values = [image_interval(x.number, x.records).value for x in (whole, accuracy, boundary)]
    assert values[1] > 0.6
    assert values[0] > values[2]


def test_pictures_show_a_patch_and_its_nearest_training_patches(tmp_path) -> None:
    bench = bench_of(tmp_path, "hummingbird", {"k": 7, "temperature": 0.02})
    bench = bench_of(tmp_path, "hummingbird", OPTIONS, val=bench.train)
    whole = next(iter(SEGMENTATION.run(bench)))
    shown = whole.examples["neighbours"]
    for query in shown:  # a training patch is its own nearest
        np.testing.assert_array_equal(query[0], query[1])
    assert whole.examples["truth"].shape == (4, 112, 112)
    assert set(np.unique(whole.examples["predicted"])) <= {0, 1, 2}


@pytest.mark.slow
def test_open_hummingbird_puts_unlabelled_pixels_into_the_first_class(tmp_path) -> None:
    bench = bench_of(tmp_path, "open-hummingbird", OPTIONS)
    (compat,) = SEGMENTATION.run(bench)
    (plain, _, _) = SEGMENTATION.run(bench_of(tmp_path, "hummingbird", OPTIONS))
    assert compat.name == "mIoU (compat)"
    assert compat.settings["classes"] == 3
    assert image_interval(compat.number, compat.records).value >= float(
        miou(compat.records, np.ones(11))
    )
    assert plain.records.sum() == compat.records.sum()  # pixels without a label are not scored


def test_ade20k_is_counted_with_its_label_0(tmp_path) -> None:
    train, val = (
        type(x)(**vars(x) | {"data": "ade20k"}) for x in (pictures(23, 0), pictures(11, 1))
    )
    bench = bench_of(tmp_path, "open-hummingbird", OPTIONS, train=train, val=val)
    (compat,) = SEGMENTATION.run(bench)
    assert compat.settings["classes"] == 4
    assert compat.records.sum() == 11 * 24 * 40  # the unlabelled pixel is one of class 0
    assert compat.records[:, 0].sum() == 11


def test_fewer_patches_than_neighbours_are_an_error(tmp_path) -> None:
    bench = bench_of(tmp_path, "hummingbird", {"k": 346, "temperature": 0.02})
    with pytest.raises(UserError, match=r"\b346 neighbours\b.*\b345\b"):
        list(SEGMENTATION.run(bench))
