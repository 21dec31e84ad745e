"""Masks from the class token's attention."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from evaluate.made_sets import bench_of, pictures

from nearsight.core import UserError
from nearsight.evaluate.features import subject_of
from nearsight.evaluate.tasks.class_attention import (
    CLASS_ATTENTION,
    NAMES,
    best_jaccard,
    class_rows,
    mass_mask,
    rollout,
)
from nearsight.measure.rows import capture_attention


def test_a_mask_is_the_fewest_patches_with_the_mass() -> None:
    attention = np.random.RandomState(3).dirichlet(np.ones(15) * 0.3, 5)
    masks = mass_mask(attention, 0.9)
    for row, mask in zip(attention, masks):
        kept, smallest = row[mask], row[mask].min()
        assert kept.sum() >= 0.9 - 1e-9
        assert kept.sum() - smallest < 0.9
        assert smallest >= row[~mask].max(initial=0)


def test_the_jaccard_index_is_that_of_a_plain_loop() -> None:
    random = np.random.RandomState(5)
    truth = random.choice([0, 3, 7, 255], (7, 11))
    masks = random.rand(4, 7, 11) < 0.5
    for with_void in (False, True):
        objects = [3, 7]
        total = 0.0
        for label in objects:
            best = 0.0
            for mask in masks:
                both = either = 0
                for i, j in np.ndindex(7, 11):
                    if not with_void and truth[i, j] == 255:
                        continue
                    thing = truth[i, j] == label
                    both += thing and mask[i, j]
                    either += thing or mask[i, j]
                best = max(best, both / either)
            total += best
        np.testing.assert_allclose(best_jaccard(masks, truth, with_void), total / len(objects))


def test_a_mask_over_unlabelled_pixels_loses_only_as_published() -> None:
    truth = np.array([[5, 5, 255, 255, 0]])
    tight, wide = ([[1, 1, 0, 0, 0]], [[1, 1, 1, 1, 0]])
    for mask, published in ((tight, 1.0), (wide, 2 / 4)):
        masks = np.array([mask], bool)
        assert best_jaccard(masks, truth, with_void=False) == 1.0
        assert best_jaccard(masks, truth, with_void=True) == published


def test_rollout_multiplies_layers_from_the_first_on() -> None:
    generator = torch.Generator().manual_seed(3)
    maps = [torch.rand(2, 3, 5, 5, generator=generator).softmax(-1) for _ in range(3)]
    found = rollout(maps)
    expected = torch.eye(5)
    for layer in maps:
        expected = (layer[1].mean(0) / 2 + torch.eye(5) / 2) @ expected
    torch.testing.assert_close(found[1], expected)
    torch.testing.assert_close(found.sum(-1), torch.ones(2, 5))  # rows stay distributions


@pytest.mark.slow
def test_rows_are_the_class_tokens_attention_to_patches(tmp_path) -> None:
    bench = bench_of(tmp_path, "mass", {"mass": 0.9})
    images = next(bench.images(bench.val))
    heads, _, grid = class_rows(bench, images)
    with torch.no_grad(), capture_attention(bench.subject.model) as maps:
        bench.subject.model(images)
    assert (grid.rows, grid.cols) == (3, 5)
    np.testing.assert_allclose(heads, maps[1][:, :, 0, 2:], atol=1e-6)


def test_every_number_is_yielded_with_its_rule_for_unlabelled_pixels(tmp_path) -> None:
    numbers = {x.name: x for x in CLASS_ATTENTION.run(bench_of(tmp_path, "mass", {"mass": 0.9}))}
    assert tuple(numbers) == NAMES
    assert numbers["Jaccard"].settings["void"] == "left out"
    assert numbers["Jaccard (compat)"].settings["void"] == "no object, but wrong to cover"
    best, mean = (numbers[name].records for name in ("Jaccard", "Jaccard, all heads"))
    assert len(best) == 11
    assert best.mean() >= mean.mean() - 0.02  # the best of several heads, chosen by the truth


def test_a_model_without_a_class_token_is_an_error(tmp_path) -> None:
    import timm

    model = timm.create_model(
        "vit_tiny_patch16_224", img_size=(32, 48), class_token=False, global_pool="avg", depth=1,
        num_classes=3,
    )  # fmt: skip
    subject = subject_of(model, "pooled", image_size=(32, 48))
    bench = bench_of(tmp_path, "mass", {"mass": 0.9}, subject=subject, layer=1)
    with pytest.raises(UserError, match=r"\bpooled\b.*\bclass-attention\b"):
        list(CLASS_ATTENTION.run(bench))


def test_images_without_an_object_are_an_error(tmp_path) -> None:
    split = pictures(3, 1)
    empty = type(split)(**vars(split) | {"masks": lambda i: np.zeros((24, 40), np.uint8)})
    with pytest.raises(UserError, match=r"\bmade up\b.*\bbackground\b"):
        list(CLASS_ATTENTION.run(bench_of(tmp_path, "mass", {"mass": 0.9}, val=empty)))
