"""Occlusion: what is hidden, and what the curves say."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from evaluate.made_sets import bench_of, pictures, small_subject

from nearsight.core import UserError
from nearsight.evaluate.tasks.class_attention import last_class_row
from nearsight.evaluate.tasks.occluded_images import (
    centre_order,
    fill_values,
    hidden_patches,
    hide,
    paste_rectangles,
    shuffle_cells,
)
from nearsight.evaluate.tasks.occlusion import OCCLUSION, OPTIONS, SHARES
from nearsight.measure.rows import capture_attention
from nearsight.models.layers import Grid
from nearsight.stats import image_interval


def seven_classes(split):
    return replace(split, classes=tuple("abcdefg"))


def occlusion_bench(folder, **options):
    train, val = seven_classes(pictures(3, 0)), seven_classes(pictures(11, 1))
    return bench_of(folder, "patches", {**OPTIONS, **options}, "labels", train=train, val=val)


def test_hidden_patches_are_filled_and_others_stay() -> None:
    images = torch.randn(2, 3, 24, 40, generator=torch.Generator().manual_seed(1))
    order = torch.rand(2, 15, generator=torch.Generator().manual_seed(2))
    hidden = hidden_patches(order, 0.4)
    assert hidden.sum(1).tolist() == [6, 6]
    found = hide(images, hidden, Grid(3, 5), torch.full((1,), 9.0))
    for image, patch in np.ndindex(2, 15):
        row, col = divmod(patch, 5)
        place = (image, slice(None), slice(8 * row, 8 * row + 8), slice(8 * col, 8 * col + 8))
        if patch in order[image].argsort()[:6]:
            assert (found[place] == 9).all()
        else:
            assert torch.equal(found[place], images[place])


def test_the_centre_is_hidden_first() -> None:
    order = centre_order(Grid(3, 5), 1)
    assert hidden_patches(order, 1 / 15)[0].nonzero().flatten().tolist() == [7]
    assert hidden_patches(order, 5 / 15)[0].nonzero().flatten().tolist() == [2, 6, 7, 8, 12]


def test_shuffled_cells_are_the_same_pixels_in_another_order() -> None:
    images = torch.randn(2, 3, 24, 40, generator=torch.Generator().manual_seed(1))
    order = torch.tensor([[0.3, 0.1, 0.2, 0.0], [0.0, 0.1, 0.2, 0.3]])
    found = shuffle_cells(images, 2, order)
    assert torch.equal(found[1], images[1])
    assert torch.equal(found[0][:, :12, :20], images[0][:, 12:, 20:])  # first place: the smallest
    assert torch.equal(found[0][:, 12:, 20:], images[0][:, :12, :20])
    torch.testing.assert_close(found.sum(), images.sum())


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_pasted_rectangle_covers_its_share(share) -> None:
    images, others = torch.zeros(5, 3, 224, 224), torch.ones(5, 3, 224, 224)
    drawn = torch.rand(5, 3, generator=torch.Generator().manual_seed(3)).double()
    found = paste_rectangles(images, others, share, drawn)
    np.testing.assert_allclose(found.mean((1, 2, 3)), share, atol=0.01)
    assert len({tuple(x.nonzero()[0].tolist()) for x in found}) > 1  # each in its own place


def test_salient_patches_are_those_the_class_token_looks_at(tmp_path) -> None:
    subject = small_subject()
    images = torch.randn(2, 3, 24, 40, generator=torch.Generator().manual_seed(1))
    with torch.no_grad(), capture_attention(subject.model) as maps:
        subject.model(images)
    found = last_class_row(subject.model, images, Grid(3, 5)).mean(1)
    torch.testing.assert_close(found, maps[-1][:, :, 0, 2:].mean(1))  # one class token, a register


def test_fills_are_black_the_mean_or_noise_of_the_image(tmp_path) -> None:
    bench = occlusion_bench(tmp_path)
    images, numbers = torch.zeros(2, 3, 24, 40), torch.tensor([3, 4])
    steps = bench.preparation().steps
    black = fill_values(images, "black", steps, 0, numbers)
    torch.testing.assert_close(
        black[0], steps.normalise(torch.zeros(1, 3, 1, 1, dtype=torch.uint8))[0]
    )
    assert not fill_values(images, "mean", steps, 0, numbers).any()
    noise = fill_values(images, "noise", steps, 0, numbers)
    assert abs(float(noise.mean())) < 0.05
    assert abs(float(noise.std()) - 1) < 0.05
    again = fill_values(images[:1], "noise", steps, 0, numbers[1:])
    assert torch.equal(again[0], noise[1])  # of the image, whatever else is in the batch


@pytest.mark.slow
def test_as_many_passes_are_announced_as_are_made(tmp_path, monkeypatch) -> None:
    for options in ({"draws": 2}, {"draws": 3, "fill": "noise", "kinds": "centre,shuffle"}):
        bench = occlusion_bench(tmp_path, **options)
        calls = []
        handle = bench.subject.model.register_forward_hook(
            lambda model, given, found, calls=calls: calls.append(len(given[0]))
        )
        list(OCCLUSION.run(bench))
        handle.remove()
        ((split, passes),) = OCCLUSION.passes(bench)
        others = {1, 11}  # a look at the number of classes, and the attention of the class token
        assert sum(calls) - passes * len(split) in others | {sum(others)}


@pytest.mark.slow
def test_curves_begin_with_the_accuracy_and_their_area_is_the_trapezoids(tmp_path) -> None:
    bench = occlusion_bench(tmp_path, draws=2)
    numbers = {number.name: number for number in OCCLUSION.run(bench)}
    assert list(numbers) == [
        "accuracy", "random area", "centre area", "salient area", "shuffle area", "paste area",
    ]  # fmt: skip
    whole = image_interval(numbers["accuracy"].number, numbers["accuracy"].records)
    random = numbers["random area"]
    values = [value for value, _, _ in random.details["accuracy"]]
    assert values[0] == whole.value
    assert random.details["levels"] == [0.0, *SHARES]
    expected = sum((a + b) / 2 * 0.1 for a, b in pairwise(values)) / 0.9
    np.testing.assert_allclose(image_interval(random.number, random.records).value, expected)


@pytest.mark.slow
def test_the_batch_size_changes_nothing(tmp_path) -> None:
    small = replace(occlusion_bench(tmp_path, draws=1, kinds="paste"), batch_size=3)
    large = replace(small, batch_size=11)
    for one, other in zip(OCCLUSION.run(small), OCCLUSION.run(large)):
        np.testing.assert_array_equal(one.records, other.records)


def test_a_data_set_of_other_classes_is_an_error(tmp_path) -> None:
    bench = bench_of(tmp_path, "patches", OPTIONS, "labels")
    with pytest.raises(UserError, match=r"\bmu\b.*\b7 classes\b.*\bmade up\b.*\b3\b"):
        list(OCCLUSION.run(bench))
