"""Preprocessing: pixel for pixel what timm and torchvision do; transformers but for rounding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from timm.data import create_transform
from torchvision.transforms._presets import ImageClassification

from nearsight.core import UserError
from nearsight.data.input.preprocessing import Preprocessing
from nearsight.models.load.huggingface import of_processor

SIZES = [(61, 47), (47, 61), (29, 97), (53, 53)]  # width, height


def picture(size: tuple[int, int]) -> Image.Image:
    """Smooth colours with some noise, so that a shift by a pixel shows."""
    width, height = size
    y, x = np.mgrid[:height, :width]
    noise = np.random.default_rng(width).integers(0, 40, (height, width, 3))
    waves = np.stack([np.sin(x / 7), np.cos(y / 5), np.sin((x + 2 * y) / 11)], -1)
    return Image.fromarray((107 + 100 * waves + noise).clip(0, 255).astype(np.uint8))


def made(steps: Preprocessing, image: Image.Image) -> torch.Tensor:
    return steps.normalise(torch.from_numpy(steps.pixels(image).copy())[None])[0]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("crop_pct", [1.0, 0.9, 0.875])
@pytest.mark.parametrize("mode", ["center", "squash"])
def test_it_is_timms_transform(size: tuple[int, int], crop_pct: float, mode: str):
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.3, 0.7)
    theirs = create_transform(
        (3, 37, 37), crop_pct=crop_pct, crop_mode=mode, interpolation="bicubic", mean=mean, std=std
    )
    ours = Preprocessing.from_crop_share(
        "", (37, 37), crop_pct, keep_ratio=mode == "center", mean=mean, std=std
    )
    image = picture(size)
    assert torch.allclose(made(ours, image), theirs(image), atol=1e-5)


@pytest.mark.parametrize("size", SIZES)
def test_it_is_torchvisions_transform(size: tuple[int, int]):
    from torchvision.transforms import InterpolationMode

    theirs = ImageClassification(
        crop_size=31, resize_size=43, interpolation=InterpolationMode.BILINEAR
    )
    ours = Preprocessing("", (43, 43), (31, 31), interpolation="bilinear")
    assert torch.allclose(made(ours, picture(size)), theirs(picture(size)), atol=1e-5)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("processor", "options"),
    [
        ("CLIPImageProcessor", {"size": {"shortest_edge": 41}, "crop_size": 37}),
        ("ViTImageProcessor", {"size": {"height": 31, "width": 37}}),
        ("DeiTImageProcessor", {"size": {"height": 43, "width": 43}, "crop_size": 37}),
        ("ViTImageProcessor", {"size": {"height": 31, "width": 37}, "rescale_factor": 1 / 127.5}),
        ("ViTImageProcessor", {"size": {"height": 31, "width": 37}, "do_rescale": False}),
        ("ViTImageProcessor", {"size": {"height": 31, "width": 37}, "do_normalize": False}),
    ],
)
def test_it_is_transformers_processor_but_for_rounding(
    processor: str, options: dict, size: tuple[int, int]
):
    transformers = pytest.importorskip("transformers", reason="needs the extra hf")
    theirs = getattr(transformers, processor)(**options)
    ours = of_processor(theirs.to_dict(), "")
    image = picture(size)
    expected = torch.as_tensor(np.asarray(theirs(image)["pixel_values"][0]))
    grey_level = (1 / 255 / torch.tensor(ours.std)).max().item()
    found = made(ours, image)
    assert found.shape == expected.shape
    assert (found - expected).abs().mean() <= 0.6 * grey_level
    assert (found - expected).abs().max() <= 3.1 * grey_level


def test_a_tall_crop_keeps_the_middle_and_the_proportions():
    """A disc in the middle stays round; each side of the crop is covered."""
    y, x = np.mgrid[:60, :90]
    disc = ((x - 44.5) ** 2 + (y - 29.5) ** 2 < 12**2).astype(np.uint8) * 255
    image = Image.fromarray(np.stack([disc] * 3, -1))
    pixels = Preprocessing("", (100, 40), (97, 31)).pixels(image)
    assert pixels.shape == (3, 97, 31)
    rows, cols = np.nonzero(pixels[0] > 127)
    scale = 100 / 60
    assert np.ptp(rows) + 1 == pytest.approx(24 * scale, abs=1.5)
    assert rows.mean() == pytest.approx(48, abs=0.6)
    assert cols.mean() == pytest.approx(15, abs=0.6)


def test_prepared_images_are_only_normalised():
    image = picture((61, 47))
    steps = Preprocessing("", (37, 37), (31, 31)).without_resizing()
    assert np.array_equal(steps.pixels(image), np.asarray(image).transpose(2, 0, 1))
    assert steps.facts()["resize"] is None
    assert steps.facts()["crop"] is None


def test_words_and_facts_say_every_step():
    steps = Preprocessing("timm's", (31, 43), (29, 37), keep_ratio=False, interpolation="bilinear")
    assert steps.text() == "timm's: squashed to 31x43 (bilinear), middle 29x37"
    assert steps.facts() == {
        "source": "timm's", "resize": [31, 43], "crop": [29, 37], "keep_ratio": False,
        "interpolation": "bilinear", "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225],
        "doubt": None, "text": steps.text(),
    }  # fmt: skip
    doubtful = replace(steps, doubt="the file does not say")
    assert doubtful.text().startswith("timm's (not certain: the file does not say): squashed")
    assert doubtful.facts()["doubt"] == "the file does not say"
    with pytest.raises(UserError, match=r"'cubic'.*\bbicubic\b"):
        Preprocessing("", None, None, interpolation="cubic")
