"""Augment a batch on its device, each sample with its own random draws.

An image is cropped, flipped, and then augmented by those steps of STEPS that the protocol switches
on, in the order of the table. Every draw is a function of (seed, epoch, sample, repeat). The result
for an image depends on nothing else: not on the batch size, the other images or the number of
threads.

The draws are few and always made on the CPU, so all devices use the same ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64, UInt8
from torch import Tensor

from nearsight.core import UserError
from nearsight.data import draws
from nearsight.data.augment.box import NUM_TRIES, resized_crop_box
from nearsight.data.augment.chance import draw_blur, draw_greyscale, draw_solarize
from nearsight.data.augment.colour import Images
from nearsight.data.augment.erase import cut_out, erase_randomly
from nearsight.data.augment.operations import apply_operations
from nearsight.data.augment.policy import (
    Drawn,
    SampleKey,
    draw_autoaugment,
    draw_colorjitter,
    draw_randaugment,
)
from nearsight.data.augment.resize import resized_crops
from nearsight.data.augment.warp import crop_windows
from nearsight.protocol import (
    AutoAugment,
    Blur,
    ColorJitter,
    CutOut,
    Greyscale,
    Protocol,
    RandAugment,
    RandomErasing,
    ResizedCrop,
    Solarize,
)

Colour = tuple[float, float, float]
_PIXELS_AT_ONCE = 1 << 20  # 1,024 images of 32x32; keeps the memory of large images bounded


def draw_crops(
    padding: int, flip: bool, key: SampleKey
) -> tuple[Int64[Tensor, " n"], Int64[Tensor, " n"], Bool[Tensor, " n"]]:
    """Draw how far each window moves down and right (at most padding), and if it is mirrored."""
    numbers = draws.uniform("crop", *key, num=3)
    down, right = ((numbers[:, :2] * (2 * padding + 1)).long() - padding).unbind(1)
    return down, right, (numbers[:, 2] < 0.5) & flip


def draw_resized_crops(
    settings: ResizedCrop, key: SampleKey, height: int, width: int
) -> Int64[Tensor, "n 4"]:
    """Draw the part (top, left, bottom, right) of every image that a resized crop keeps."""
    numbers = draws.uniform("resized crop", *key, num=4 * NUM_TRIES).tolist()
    boxes = [resized_crop_box(row, settings, height, width) for row in numbers]
    return torch.tensor(boxes, dtype=torch.int64).view(-1, 4)


def augment_images(
    images: Tensor,
    samples: Int64[Tensor, " n"],
    repeats: Int64[Tensor, " n"],
    *,
    protocol: Protocol,
    seed: int,
    epoch: int,
    mean_colour: Colour,
    size: tuple[int, int] | None = None,
) -> UInt8[Tensor, "n 3 rows cols"]:
    """Augment training images as the protocol says.

    Args:
        images: uint8 [n, 3, h, w]; they are not changed.
        samples: The index of every image in the training set.
        repeats: The number of each image among the repetitions of its sample, from 0.
        protocol: The settings of all augmentations.
        seed: Seed of the run.
        epoch: Number of the epoch.
        mean_colour: Mean of the data set per channel, 0..1; CutOut fills with it.
        size: Height and width of resized crops; by default those of the images.

    Returns:
        uint8 [n, 3, rows, cols], a new tensor.

    Raises:
        UserError: If the images have another type or shape.
    """
    assert size is None or protocol.resized_crop, "only resized crops can have another size"
    if images.dtype != torch.uint8 or images.dim() != 4 or images.shape[1] != 3:
        raise UserError(
            "images to augment must be uint8 [n, 3, height, width], but these are "
            f"{images.dtype} {list(images.shape)}"
        )
    block = max(1, _PIXELS_AT_ONCE // (images.shape[2] * images.shape[3]))
    shape = (len(images), 3, *(size or images.shape[-2:]))
    augmented = torch.empty(shape, dtype=torch.uint8, device=images.device)
    for start in range(0, len(images), block):
        part = slice(start, start + block)
        key = (seed, epoch, samples[part].cpu(), repeats[part].cpu())
        augmented[part] = _augment_block(images[part], protocol, key, mean_colour, size)
    return augmented


def _augment_block(
    images: Images,
    protocol: Protocol,
    key: SampleKey,
    mean_colour: Colour,
    size: tuple[int, int] | None,
) -> UInt8[Tensor, "n 3 rows cols"]:
    height, width = images.shape[-2:]
    down, right, flip = draw_crops(protocol.crop_padding, protocol.flip, key)
    if protocol.resized_crop:
        boxes = draw_resized_crops(protocol.resized_crop, key, height, width)
        images = resized_crops(images, boxes, flip, size)
    else:
        images = crop_windows(images, down, right, flip)
    for name, step in STEPS.items():
        settings = getattr(protocol, name)
        if settings is not None:
            images = step(images, settings, key, mean_colour)
    return images


def _autoaugment(images: Images, settings: AutoAugment, key: SampleKey, colour: Colour) -> Images:
    return _apply_drawn(images, draw_autoaugment(key, *images.shape[-2:]))


def _randaugment(images: Images, settings: RandAugment, key: SampleKey, colour: Colour) -> Images:
    return _apply_drawn(images, draw_randaugment(settings, key, *images.shape[-2:]))


def _colorjitter(images: Images, settings: ColorJitter, key: SampleKey, colour: Colour) -> Images:
    return _apply_drawn(images, draw_colorjitter(settings, key))


def _greyscale(images: Images, settings: Greyscale, key: SampleKey, colour: Colour) -> Images:
    return _apply_drawn(images, draw_greyscale(settings, key))


def _blur(images: Images, settings: Blur, key: SampleKey, colour: Colour) -> Images:
    return _apply_drawn(images, draw_blur(settings, key))


def _solarize(images: Images, settings: Solarize, key: SampleKey, colour: Colour) -> Images:
    return _apply_drawn(images, draw_solarize(settings, key))


def _random_erasing(
    images: Images, settings: RandomErasing, key: SampleKey, colour: Colour
) -> Images:
    erase_randomly(images, settings, key)
    return images


def _cutout(images: Images, settings: CutOut, key: SampleKey, colour: Colour) -> Images:
    cut_out(images, settings, key, colour)
    return images


def _apply_drawn(images: Images, drawn: Drawn) -> Images:
    """Apply the operations that were drawn, one step after the other."""
    for codes, arguments in zip(*drawn):
        images = apply_operations(images, codes, arguments)
    return images


# The augmentations of single images by their name in the protocol, in the order of application.
# Each takes the images, its settings, the key of its draws and the mean colour of the data set.
STEPS: dict[str, Callable[[Images, Any, SampleKey, Colour], Images]] = {
    "autoaugment": _autoaugment,
    "randaugment": _randaugment,
    "colorjitter": _colorjitter,
    "greyscale": _greyscale,
    "blur": _blur,
    "solarize": _solarize,
    "random_erasing": _random_erasing,
    "cutout": _cutout,
}


def normalise_pixels(
    images: Images,
    mean: tuple[float, float, float],
    std: tuple[float, float, float],
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "n 3 h w"]:
    """Convert bytes to floats and normalise each channel: ``(value / 255 - mean) / std``.

    >>> pixels = torch.tensor([0, 51, 255], dtype=torch.uint8).view(1, 3, 1, 1)
    >>> normalise_pixels(pixels, (0.5, 0.1, 0.0), (0.5, 1.0, 0.25)).flatten()
    tensor([-1.0000,  0.1000,  4.0000])
    """
    scale = [1 / (255 * channel) for channel in std]
    shift = [-channel / deviation for channel, deviation in zip(mean, std)]
    exact = torch.float64 if dtype == torch.float64 else torch.float32
    gain, offset = torch.tensor([scale, shift], dtype=exact, device=images.device)[..., None, None]
    return images.to(exact).mul_(gain).add_(offset).to(dtype)
