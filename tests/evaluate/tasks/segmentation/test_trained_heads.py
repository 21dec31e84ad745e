"""Heads that are trained on cached features."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from evaluate.made_sets import bench_of
from torch import nn

from nearsight.evaluate.solvers import trained_head
from nearsight.evaluate.solvers.trained_head import (
    HeadRecipe,
    constant,
    segmentation_loss,
    train_head,
)
from nearsight.evaluate.tasks.segmentation.all_methods import SEGMENTATION
from nearsight.evaluate.tasks.segmentation.trained_heads import RECIPES, cached_batches
from nearsight.stats import miou


def linear_recipe(**changed):
    given = {
        "build": lambda width, num: nn.Conv2d(width, num, 1), "rate": 0.05, "decay": 0.0,
        "batch": 5, "steps": 60, "schedule": constant,
    }  # fmt: skip
    return HeadRecipe(**given | changed)


def drawn_batches(seed=0):
    """Features that tell their labels by their sign."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(13, 2, 3, 5, generator=generator)
    labels = (features[:, 0] > 0).long()
    labels[:, 0, 0] = 255

    def batch(chosen, mirrored, step):
        deep, truth = features[chosen], labels[chosen]
        return (deep.flip(-1), truth.flip(-1)) if mirrored else (deep, truth)

    return batch


def test_the_loss_is_the_mean_over_labelled_pixels_of_a_plain_loop() -> None:
    logits = torch.randn(2, 3, 2, 2, generator=torch.Generator().manual_seed(1))
    labels = torch.tensor([[[0, 1], [255, 2]], [[1, 1], [255, 255]]])
    total, num = 0.0, 0
    for image, row, col in np.ndindex(2, 2, 2):
        label = int(labels[image, row, col])
        if label != 255:
            scores = logits[image, :, row, col].tolist()
            total += math.log(sum(math.exp(x) for x in scores)) - scores[label]
            num += 1
    assert math.isclose(float(segmentation_loss(logits, labels)), total / num, rel_tol=1e-5)


@pytest.mark.slow
def test_a_head_learns_what_features_tell() -> None:
    head = train_head(linear_recipe(), drawn_batches(), 13, 2, 2)
    features, labels = drawn_batches()(list(range(13)), False, 0)
    predicted = head(features).argmax(1)
    assert (predicted == labels)[labels != 255].double().mean() > 0.95


@pytest.mark.slow
def test_a_training_that_was_killed_ends_with_the_same_bytes(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(trained_head, "SAVED_EVERY", 7)
    recipe = RECIPES["dinov3"]  # with dropout and batch norm
    whole = train_head(recipe, drawn_batches(), 13, 2, 2, steps=23)
    calls = []

    def killed(done, in_all):
        calls.append(done)
        if done == 17:
            raise KeyboardInterrupt

    path = tmp_path / "deep" / "head.pt"
    with pytest.raises(KeyboardInterrupt):
        train_head(recipe, drawn_batches(), 13, 2, 2, steps=23, saved=path, progress=killed)
    assert path.is_file()
    calls.clear()
    head = train_head(
        recipe, drawn_batches(), 13, 2, 2, steps=23, saved=path,
        progress=lambda done, in_all: calls.append(done),
    )  # fmt: skip
    assert calls[0] == 15
    for one, other in zip(whole.state_dict().values(), head.state_dict().values()):
        assert torch.equal(one, other)
    assert not path.exists()


def test_schedules_begin_and_end_where_their_papers_say() -> None:
    cycle = torch.optim.lr_scheduler.OneCycleLR(
        torch.optim.SGD([torch.zeros(1)], 1.0), 1.0, 100, pct_start=0.25, anneal_strategy="linear",
        div_factor=1e4, final_div_factor=1e4, cycle_momentum=False,
    )  # fmt: skip
    assert math.isclose(trained_head.one_cycle(0.0), cycle.get_last_lr()[0], rel_tol=1e-6)
    assert trained_head.one_cycle(0.25) == 1.0
    assert trained_head.one_cycle(1.0) == 1e-8
    assert trained_head.warm_linear(0.0375) == 1 - 0.0375
    assert trained_head.warm_linear(1.0) == 0.0
    assert trained_head.warm_cosine(0.01875) == 0.5


def test_cached_batches_mirror_features_and_labels_together(tmp_path) -> None:
    bench = bench_of(tmp_path, "locat")
    batch = cached_batches(bench, (6, 10))
    features, labels = batch([3, 1], True, 0)
    images = [bench.train.image(i).transpose(0) for i in (1, 3)]  # 0: left to right
    steps = bench.preparation().steps
    pixels = torch.from_numpy(np.stack([steps.pixels(image) for image in images]))
    (expected,) = bench.subject.extractor.features(steps.normalise(pixels), [2], "block")
    torch.testing.assert_close(features, expected.patches.permute(0, 3, 1, 2), atol=2e-3, rtol=2e-3)
    plain = batch([1, 3], False, 0)[1]
    assert torch.equal(labels.flip(-1), plain)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["locat", "dinov2", "dinov3", "neco"])
def test_a_head_reports_its_last_step_and_says_its_scale(tmp_path, method) -> None:
    steps = 3 if method == "neco" else 40
    bench = bench_of(tmp_path, method, {"steps": steps, "seeds": 1})
    numbers = {number.name: number for number in SEGMENTATION.run(bench)}
    settings = numbers["mIoU"].settings
    assert settings["scale"].startswith("cached: features of 24 pixels")
    assert settings["chosen_on"] == "nothing is chosen: the last step"
    assert settings["steps"] == steps
    if method in ("dinov3", "neco"):
        compat = numbers["mIoU (compat)"]
        assert "evaluations on val" in compat.settings["chosen_on"]
        last, best = (float(miou(x.records, np.ones(11))) for x in (numbers["mIoU"], compat))
        assert best >= last
    else:
        assert "mIoU (compat)" not in numbers


@pytest.mark.slow
def test_several_seeds_are_reported_beside_the_first(tmp_path) -> None:
    bench = bench_of(tmp_path, "locat", {"steps": 15, "seeds": 3})
    whole = next(iter(SEGMENTATION.run(bench)))
    assert len(whole.details["seeds"]) == 3
    assert len(set(whole.details["seeds"])) > 1
    mean, low, high = whole.details["over_seeds"]
    assert low < mean < high
    assert math.isclose(whole.details["seeds"][0], float(miou(whole.records, np.ones(11))))
