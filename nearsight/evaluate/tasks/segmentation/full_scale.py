"""Train and score heads at the full scale of the papers: random crops and sliding windows.

An image is resized so that it fits into (4 s) x s, where s is the side of the model's images (2048
x 512 in the papers, with ``--image-size 512``), and then scaled by a factor between 0.5 and 2. From
it a crop of s x s is drawn. Up to ten crops are drawn until no class has more than 75 % of the
labelled pixels. Half of the crops are mirrored, and their colours are distorted; a crop that is too
small is filled up with the mean colour and without labels. Every step is a forward pass of the
whole model, so that this takes hours where the cached scale takes minutes. Random numbers are
hashes of the step and the image.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor, nn
from torchvision.transforms import functional as colours

from nearsight.data import VOID
from nearsight.data.draws import uniform
from nearsight.evaluate.features import resize_labels
from nearsight.evaluate.solvers import Batch, HeadRecipe
from nearsight.evaluate.tasks.segmentation.segmentation_scores import Maps
from nearsight.evaluate.tasks.task import Bench

LARGEST_SHARE, TRIES = 0.75, 10
OVERLAP = 1 / 3  # of neighbouring windows: a stride of 341 for windows of 512
Draws = Float[Tensor, " draw"]


class Crop(NamedTuple):
    """A part of an image and of its mask. It is smaller than requested if the image is smaller."""

    pixels: UInt8[np.ndarray, "h w 3"]
    labels: UInt8[np.ndarray, "h w"]


def fitting_size(size: tuple[int, int], side: int, scale: float) -> tuple[int, int]:
    """Return the height and width of an image that is scaled to fit into (4 side) x side.

    >>> fitting_size((300, 600), 512, 1.0), fitting_size((300, 600), 512, 0.5)
    ((512, 1024), (256, 512))
    """
    long, short = scale * 4 * side, scale * side
    factor = min(long / max(size), short / min(size))
    return max(1, round(size[0] * factor)), max(1, round(size[1] * factor))


def random_crop(image: Image.Image, mask: np.ndarray, size: tuple[int, int], drawn: Draws) -> Crop:
    """Scale, crop and mirror an image by the drawn random numbers.

    Args:
        image: An image of any size.
        mask: Its labels.
        size: The largest height and width of the crop.
        drawn: 2 + 2 x TRIES numbers in 0..1: for the scale, for mirroring, and for the places of
            the crops to try.
    """
    scale, mirror, *places = drawn.tolist()
    height, width = fitting_size(mask.shape, size[0], 0.5 + 1.5 * scale)
    pixels = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR))
    labels = resize_labels(mask, (height, width)).astype(np.uint8)
    found = Crop(pixels, labels)
    for down, right in zip(places[::2], places[1::2]):
        top = int(down * (max(0, height - size[0]) + 1))
        left = int(right * (max(0, width - size[1]) + 1))
        part = slice(top, top + size[0]), slice(left, left + size[1])
        found = Crop(pixels[part], labels[part])
        counts = np.bincount(found.labels[found.labels != VOID], minlength=2)
        if (counts > 0).sum() > 1 and counts.max() <= LARGEST_SHARE * counts.sum():
            break
    if mirror < 0.5:
        found = Crop(found.pixels[:, ::-1], found.labels[:, ::-1])
    return found


def distort_colours(pixels: UInt8[Tensor, "3 h w"], drawn: Draws) -> UInt8[Tensor, "3 h w"]:
    """Change brightness, contrast, saturation and hue, each in half of the cases."""
    happens, by = drawn[:4] < 0.5, (2 * drawn[4:8] - 1).tolist()
    found = pixels.float() / 255
    if happens[0]:
        found = (found + by[0] * 32 / 255).clamp(0, 1)
    if happens[1]:
        found = colours.adjust_contrast(found, 1 + by[1] / 2)
    if happens[2]:
        found = colours.adjust_saturation(found, 1 + by[2] / 2)
    if happens[3]:
        found = colours.adjust_hue(found, by[3] * 18 / 180 / 2)
    return (found * 255).round().to(torch.uint8)


def crop_batches(bench: Bench) -> Batch:
    """Return the function that gives the features and labels of random crops of some images."""
    steps, size = bench.preparation().steps, bench.subject.size

    def batch(chosen: list[int], mirrored: bool, step: int) -> tuple[Tensor, Tensor]:
        images, truth = [], []
        for number in chosen:
            drawn = uniform("crop of a head", step, number, num=2 + 2 * TRIES + 8)
            image, mask = bench.train.image(number), bench.train.mask(number)
            crop = random_crop(image.convert("RGB"), mask, size, drawn[:-8])
            pixels = torch.from_numpy(crop.pixels.transpose(2, 0, 1).copy())
            normal = steps.normalise(distort_colours(pixels, drawn[-8:])[None])[0]
            images.append(_padded(normal, size, 0.0))
            labels = torch.from_numpy(crop.labels.astype(np.int64))
            truth.append(_padded(labels, size, VOID))
        return backbone_features(bench, torch.stack(images)), torch.stack(truth)

    return batch


@torch.no_grad()
def backbone_features(bench: Bench, images: Tensor) -> Float[Tensor, "image width row col"]:
    """Return the frozen features of prepared images as a map."""
    extractor = bench.subject.extractor
    (found,) = extractor.features(images.to(bench.device), [bench.layer], bench.place)
    return found.patches.permute(0, 3, 1, 2).float().cpu().contiguous()


def window_starts(length: int, window: int) -> list[int]:
    """Return the starts of windows that cover a length and overlap by at least a third.

    >>> window_starts(683, 512), window_starts(512, 512)
    ([0, 171], [0])
    """
    stride = math.ceil(window * (1 - OVERLAP))
    last = max(0, length - window)
    return [*range(0, last, stride), last]


def window_maps(bench: Bench, head: nn.Module, recipe: HeadRecipe) -> Maps:
    """Return the function that averages the probabilities of sliding windows over an image."""
    steps, size = bench.preparation().steps, bench.subject.size

    @torch.no_grad()
    def probabilities(number: int) -> Tensor:
        image = bench.val.image(number).convert("RGB")
        height, width = fitting_size((image.height, image.width), size[0], 1.0)
        pixels = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR))
        normal = steps.normalise(torch.from_numpy(pixels.transpose(2, 0, 1).copy())[None])[0]
        inner = height, width
        normal = _padded(normal, (max(height, size[0]), max(width, size[1])), 0.0)
        total: Tensor | None = None
        counts = torch.zeros(normal.shape[1:])
        for top in window_starts(normal.shape[1], size[0]):
            for left in window_starts(normal.shape[2], size[1]):
                part = slice(top, top + size[0]), slice(left, left + size[1])
                features = backbone_features(bench, normal[:, part[0], part[1]][None])
                if recipe.resized is not None:
                    features = _resized(features, recipe.resized)
                logits = _resized(head(features), size)[0]
                if total is None:
                    total = torch.zeros(len(logits), *normal.shape[1:])
                total[:, part[0], part[1]] += logits.softmax(0)
                counts[part] += 1
        assert total is not None
        return (total / counts)[:, : inner[0], : inner[1]]

    return probabilities


def _resized(maps: Tensor, size: tuple[int, int]) -> Tensor:
    return F.interpolate(maps, size, mode="bilinear", align_corners=False)


def _padded(values: Tensor, size: tuple[int, int], fill: float) -> Tensor:
    """Pad values at the right and the bottom to ``size``."""
    down, right = size[0] - values.shape[-2], size[1] - values.shape[-1]
    return F.pad(values, (0, right, 0, down), value=fill)
