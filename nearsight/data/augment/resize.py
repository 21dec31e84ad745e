"""Pieces of images enlarged to the whole, on batches of uint8 images, with Pillow's bytes.

An output pixel is a sum over four neighbours along one axis (bicubic, a = -0.5), then along the
other, in whole numbers: weights of 22 bits, rounded to uint8 in between. A piece is never larger
than the image, so nothing is ever made smaller, and no other filter is needed.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int32, Int64, UInt8
from torch import Tensor

_BITS = 22
_ONE = 1 << _BITS
_PIXELS_IN_CACHE = 1 << 17  # resized at once: twice as fast as a million


def resizing_taps(
    starts: Int64[Tensor, " n"], lengths: Int64[Tensor, " n"], size: int
) -> tuple[Int64[Tensor, "n size tap"], Int32[Tensor, "n size tap"]]:
    """Which pixels of start..start + length an output of ``size`` pixels shows, and their weights.

    Pillow's bicubic enlargement (a = -0.5) in its fixed point numbers: four neighbours within the
    piece, weights of 22 bits. A length is at most ``size``.
    """
    scale = lengths[:, None].double() / size
    centres = (torch.arange(size).double() + 0.5) * scale  # [n, size]
    first = (centres - 1.5).long().clamp(min=0)  # .long() cuts towards 0, as C does
    last = torch.minimum((centres + 2.5).long(), lengths[:, None])  # first beyond
    taps = first[..., None] + torch.arange(4)
    away = (taps - centres[..., None] + 0.5).abs()
    near = (1.5 * away - 2.5) * away * away + 1
    far = ((away - 5) * away + 8) * away * -0.5 + 2
    weights = torch.where(away < 1, near, torch.where(away < 2, far, 0.0))
    weights = torch.where(taps < last[..., None], weights, 0.0)
    weights = weights / weights.sum(-1, keepdim=True) * _ONE
    fixed = torch.where(weights < 0, weights - 0.5, weights + 0.5).int()  # cuts towards 0
    return starts[:, None, None] + torch.minimum(taps, last[..., None] - 1), fixed


def resized_crops(
    images: UInt8[Tensor, "n 3 h w"], boxes: Int64[Tensor, "n 4"], flip: Bool[Tensor, " n"]
) -> UInt8[Tensor, "n 3 h w"]:
    """The piece of every image in its box (top, left, bottom, right), enlarged to the whole.

    Bicubic with Pillow's bytes: first the columns, to uint8, then the rows. A flip mirrors the
    output.
    """
    height, width = images.shape[-2:]
    top, left, bottom, right = boxes.unbind(1)
    row_taps = resizing_taps(top, bottom - top, height)
    col_taps = tuple(
        torch.where(flip[:, None, None], taps.flip(1), taps)
        for taps in resizing_taps(left, right - left, width)
    )
    resized = torch.empty_like(images, memory_format=torch.contiguous_format)
    few = max(1, _PIXELS_IN_CACHE // (height * width))
    for start in range(0, len(images), few):
        part = slice(start, start + few)
        wide = _rows_weighed(images[part].mT, *(taps[part] for taps in col_taps))
        resized[part] = _rows_weighed(wide.mT, *(taps[part] for taps in row_taps))
    return resized


def _rows_weighed(
    images: UInt8[Tensor, "n 3 h w"],
    places: Int64[Tensor, "n size tap"],
    weights: Int32[Tensor, "n size tap"],
) -> UInt8[Tensor, "n 3 size w"]:
    """Sums of rows: four places and weights for every row of the result."""
    num, channels, height, width = images.shape
    rows = images.reshape(num * channels * height, width)
    first = (torch.arange(num * channels) * height).view(num, channels, 1)
    device, size = images.device, places.shape[1]
    shape = (num, channels, size, width)
    total = torch.full(shape, _ONE // 2, dtype=torch.int32, device=device)
    for place, weight in zip(places.unbind(-1), weights.to(device).unbind(-1), strict=True):
        chosen = (first + place[:, None]).flatten().to(device)
        taken = rows.index_select(0, chosen).view(shape)
        total.addcmul_(taken.int(), weight[:, None, :, None])
    return (total >> _BITS).clamp_(0, 255).to(torch.uint8)
