"""Blur uint8 images with a Gaussian, each with its own deviation; the result equals Pillow's.

Pillow approximates a Gaussian by three box blurs along the rows and three along the columns, each
rounded to uint8. If the radius of a box is not a whole number, the outermost pixel on either side
has a smaller weight. Pixels outside the image have the value of the nearest pixel inside.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor

_PASSES = 3
_ONE = 1 << 24
_PIXELS_IN_CACHE = 1 << 14


def box_radius(sigma: float) -> float:
    """Return the radius of the boxes that replace a Gaussian, computed in float32 as in Pillow."""
    variance = np.float32(np.float32(sigma) ** 2 / _PASSES)
    whole = np.floor((np.float32(np.sqrt(12.0 * float(variance) + 1.0)) - 1.0) / 2.0)
    above = (2 * whole + 1) * (whole * (whole + 1) - 3.0 * float(variance))
    above /= 6.0 * (float(variance) - (whole + 1) * (whole + 1))
    return float(np.float32(whole + above))


def box_weights(radius: float, reach: int) -> list[int]:
    """Return the weights of the pixels at distances 0 to ``reach``, in units of 2**-24.

    >>> box_weights(1.0, 2) == [2**24 // 3, 2**24 // 3, 0]
    True
    """
    whole = int(radius)
    inner = int(np.float32(_ONE) / np.float32(np.float32(radius) * 2 + 1))
    outer = (_ONE - (2 * whole + 1) * inner) // 2
    return [
        inner if away <= whole else outer if away == whole + 1 else 0 for away in range(reach + 1)
    ]


def gaussian_blur(
    images: UInt8[Tensor, "n 3 h w"], sigmas: Float[Tensor, " n"]
) -> UInt8[Tensor, "n 3 h w"]:
    """Blur every image with a Gaussian of its own deviation in pixels; 0 leaves it unchanged."""
    radii = [box_radius(sigma) for sigma in sigmas.tolist()]
    reach = int(max(radii, default=0.0)) + 1
    rows = [box_weights(radius, reach) for radius in radii]
    weights = torch.tensor(rows, dtype=torch.float64, device=images.device)
    blurred = torch.empty_like(images, memory_format=torch.contiguous_format)
    few = max(1, _PIXELS_IN_CACHE // images.shape[-2:].numel())
    for start in range(0, len(images), few):
        part = slice(start, start + few)
        values = images[part].double()  # exact, because the sums fit in 32 bits
        for _ in range(_PASSES):
            values = _blur_once(values, weights[part])
        values = values.mT.contiguous()
        for _ in range(_PASSES):
            values = _blur_once(values, weights[part])
        blurred[part] = values.mT.to(torch.uint8)
    return blurred


def _blur_once(
    values: Float[Tensor, "n 3 h w"], weights: Float[Tensor, "n away"]
) -> Float[Tensor, "n 3 h w"]:
    """Apply one box blur along the last axis and round to whole numbers."""
    reach, width = weights.shape[1] - 1, values.shape[-1]
    padded = F.pad(values.flatten(1, 2), (reach, reach), mode="replicate").view(
        *values.shape[:-1], -1
    )
    each = weights[:, :, None, None, None]
    total = values * each[:, 0]
    for away in range(1, reach + 1):
        pair = padded[..., reach - away :][..., :width] + padded[..., reach + away :][..., :width]
        total.addcmul_(pair, each[:, away])
    return total.add_(_ONE // 2).div_(_ONE).floor_()
