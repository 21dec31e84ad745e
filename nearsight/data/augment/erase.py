"""Random erasing (Zhong et al. 2020) and CutOut (DeVries & Taylor 2017): overwrite a rectangle.

Where we differ: both work on uint8 images before they are normalised. Random erasing fills with
bytes drawn uniformly from 0..255 for every pixel and channel (the paper's choice; timm draws normal
numbers after normalising). CutOut fills with the mean colour of the data set.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

from nearsight.data import draws
from nearsight.data.augment.box import NOWHERE, NUM_TRIES, Box, fitting_box
from nearsight.data.augment.colour import Images
from nearsight.data.augment.policy import SampleKey
from nearsight.protocol import CutOut, RandomErasing


def erasing_box(numbers: list[float], settings: RandomErasing, height: int, width: int) -> Box:
    """Draw the rectangle to erase, smaller than the image on both sides; empty if no try fits."""
    box = fitting_box(numbers, settings, (height, width), (height - 1, width - 1))
    return NOWHERE if box is None else box


def cutout_box(vertical: float, horizontal: float, size: int, height: int, width: int) -> Box:
    """Return a square around a uniformly drawn pixel, clipped at the edge of the image.

    Args:
        vertical: Position of the pixel from the top, as a share of the height (0..1).
        horizontal: Position of the pixel from the left, as a share of the width (0..1).
        size: Side of the square in pixels.
        height: Height of the image.
        width: Width of the image.
    """
    top = int(vertical * height) - size // 2
    left = int(horizontal * width) - size // 2
    return max(0, top), max(0, left), min(height, top + size), min(width, left + size)


def _inside(
    boxes: list[Box], height: int, width: int, device: torch.device
) -> Bool[Tensor, "n 1 h w"]:
    """Return which pixels lie in the box of their image."""
    top, left, bottom, right = torch.tensor(boxes, device=device).T[:, :, None]
    y, x = torch.arange(height, device=device), torch.arange(width, device=device)
    rows, cols = (y >= top) & (y < bottom), (x >= left) & (x < right)
    return (rows[:, :, None] & cols[:, None, :])[:, None]


def erase_randomly(images: Images, settings: RandomErasing, key: SampleKey) -> Images:
    """Fill a rectangle of some images with random bytes; the images are changed in place."""
    height, width = images.shape[-2:]
    seed, epoch, samples, repeats = key
    numbers = draws.uniform("erasing", *key, num=1 + 4 * NUM_TRIES)
    members = (numbers[:, 0] < settings.probability).nonzero()[:, 0]
    if len(members) == 0:
        return images
    boxes = [erasing_box(row, settings, height, width) for row in numbers[members, 1:].tolist()]
    places = members.to(images.device)
    who = (samples[members].to(images.device), repeats[members].to(images.device))
    noise = draws.bits("erasing pixels", seed, epoch, *who, num=height * width)
    channels = [(noise >> shift) & 255 for shift in (0, 8, 16)]
    filling = torch.stack(channels, 1).to(torch.uint8).view(len(members), 3, height, width)
    inside = _inside(boxes, height, width, images.device)
    return images.index_copy_(0, places, torch.where(inside, filling, images[places]))


def cut_out(
    images: Images, settings: CutOut, key: SampleKey, mean_colour: tuple[float, float, float]
) -> Images:
    """Fill a square of some images with the mean colour; the images are changed in place."""
    height, width = images.shape[-2:]
    numbers = draws.uniform("cutout", *key, num=3).tolist()
    boxes = [
        cutout_box(vertical, horizontal, settings.size, height, width)
        if coin < settings.probability
        else NOWHERE
        for coin, vertical, horizontal in numbers
    ]
    colour = [round(255 * channel) for channel in mean_colour]
    filling = torch.tensor(colour, dtype=torch.uint8, device=images.device)[:, None, None]
    inside = _inside(boxes, height, width, images.device)
    return images.copy_(torch.where(inside, filling, images))
