"""Warp batches of uint8 images: crop, shear, translate and rotate, each image by its own map.

An operation is an affine map from an output pixel to the input pixel that it shows. There is no
interpolation, and pixels outside the image are 0. The map uses the 16.16 fixed-point numbers of
Pillow, so that the results equal Pillow's (and torchvision's on Pillow images):

    input x = (a0 x + a1 y + a2) >> 16,   input y = (a3 x + a4 y + a5) >> 16

This holds for images of fewer than 8192 pixels a side.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int32, Int64, UInt8
from torch import Tensor

Coefficients = tuple[int, int, int, int, int, int]

_ONE = 1 << 16


def sample_pixels(
    images: UInt8[Tensor, "n 3 h w"], coefficients: Int32[Tensor, "n 6"]
) -> UInt8[Tensor, "n 3 h w"]:
    """Apply the map with coefficients a0..a5 of every image."""
    num, channels, height, width = images.shape
    x = torch.arange(width, dtype=torch.int32, device=images.device)
    y = torch.arange(height, dtype=torch.int32, device=images.device)
    a0, a1, a2, a3, a4, a5 = coefficients[:, :, None].unbind(1)  # each [n, 1]
    cols = ((a0 * x + a2)[:, None, :] + (a1 * y)[:, :, None]) >> 16  # [n, h, w]
    rows = ((a3 * x + a5)[:, None, :] + (a4 * y)[:, :, None]) >> 16
    # One ring of zeros around the image stands for everything outside.
    index = rows.clamp_(-1, height).mul_(width + 2).add_(cols.clamp_(-1, width)).add_(width + 3)
    framed = F.pad(images, (1, 1, 1, 1)).flatten(2)  # [n, 3, (h + 2)(w + 2)]
    index = index.long().view(num, 1, height * width).expand(num, channels, height * width)
    return framed.gather(2, index).view_as(images)


def crop_windows(
    images: UInt8[Tensor, "n 3 h w"],
    down: Int64[Tensor, " n"],
    right: Int64[Tensor, " n"],
    flip: Bool[Tensor, " n"],
) -> UInt8[Tensor, "n 3 h w"]:
    """Move every image by ``down`` and ``right`` pixels, and mirror it if ``flip``.

    Output pixel (y, x) shows input pixel (y + down, x + right), or 0 outside the image; a flip then
    mirrors the output.
    """
    width = images.shape[-1]
    zero = torch.zeros_like(down)
    coefficients = torch.stack(
        [
            torch.where(flip, -_ONE, _ONE),
            zero,
            torch.where(flip, right + width - 1, right) * _ONE,
            zero,
            zero + _ONE,
            down * _ONE,
        ],
        1,
    )
    return sample_pixels(images, coefficients.int().to(images.device))


def _fixed(matrix: tuple[float, float, float, float, float, float]) -> Coefficients:
    """Convert a map between pixel centres to Pillow's fixed-point numbers."""
    a, b, c, d, e, f = matrix
    shifted = (a, b, c + a * 0.5 + b * 0.5, d, e, f + d * 0.5 + e * 0.5)
    a0, a1, a2, a3, a4, a5 = (math.floor(value * _ONE + 0.5) for value in shifted)
    return a0, a1, a2, a3, a4, a5


@lru_cache(maxsize=4096)
def shear_x_map(amount: float, height: int, width: int) -> Coefficients:
    """Return the map that shows in row y the pixels ``amount * y`` further right."""
    return _fixed((1.0, amount, 0.0, 0.0, 1.0, 0.0))


@lru_cache(maxsize=4096)
def shear_y_map(amount: float, height: int, width: int) -> Coefficients:
    """Return the map that shows in column x the pixels ``amount * x`` further down."""
    return _fixed((1.0, 0.0, 0.0, amount, 1.0, 0.0))


@lru_cache(maxsize=4096)
def translate_x_map(pixels: float, height: int, width: int) -> Coefficients:
    """Return the map that moves the image to the right, by a rounded number of pixels."""
    return _ONE, 0, math.floor(0.5 - pixels) * _ONE, 0, _ONE, 0


@lru_cache(maxsize=4096)
def translate_y_map(pixels: float, height: int, width: int) -> Coefficients:
    """Return the map that moves the image down, by a rounded number of pixels."""
    return _ONE, 0, 0, 0, _ONE, math.floor(0.5 - pixels) * _ONE


@lru_cache(maxsize=4096)
def rotate_map(degrees: float, height: int, width: int) -> Coefficients:
    """Return the map that rotates the image counter-clockwise about its centre."""
    if degrees % 360 == 0:
        return _ONE, 0, 0, 0, _ONE, 0
    angle = -math.radians(degrees)
    cos, sin = round(math.cos(angle), 15), round(math.sin(angle), 15)
    middle_x, middle_y = width / 2, height / 2
    right = cos * -middle_x + sin * -middle_y + middle_x
    down = -sin * -middle_x + cos * -middle_y + middle_y
    return _fixed((cos, sin, right, -sin, cos, down))
