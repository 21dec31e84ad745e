"""Resize parts of uint8 images; the result equals Pillow's.

An output pixel is a weighted sum of neighbours along one axis (bicubic, a = -0.5), then along the
other. The sums are whole numbers: weights have 22 bits, and the result of the first axis is rounded
to uint8. Enlarging uses four neighbours. Reducing uses more, because the filter becomes wider by
the factor of the reduction. The columns come first. If one axis is reduced, Pillow may begin with
the rows, and its result can then differ by rounding.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int32, Int64, UInt8
from torch import Tensor

_BITS = 22
_ONE = 1 << _BITS
_PIXELS_IN_CACHE = 1 << 17  # resized at once; as they fit the cache, this is twice as fast


def resizing_taps(
    starts: Int64[Tensor, " n"], lengths: Int64[Tensor, " n"], size: int
) -> tuple[Int64[Tensor, "n size tap"], Int32[Tensor, "n size tap"]]:
    """Return the positions and weights of the input pixels that each output pixel is a sum of.

    The weights are those of Pillow's bicubic filter (a = -0.5), in its fixed-point numbers.

    Args:
        starts: The first input pixel of the part to resize, by image.
        lengths: The number of input pixels in the part, by image.
        size: The number of output pixels.
    """
    scale = lengths[:, None].double() / size
    centres = (torch.arange(size).double() + 0.5) * scale  # [n, size]
    reduction = scale.clamp(min=1)  # the filter is stretched by this factor
    reach = 2 * reduction
    first = (centres - reach + 0.5).long().clamp(min=0)  # .long() truncates towards 0, as C does
    last = torch.minimum((centres + reach + 0.5).long(), lengths[:, None])  # exclusive
    num_taps = int((last - first).max()) if len(lengths) else 4
    taps = first[..., None] + torch.arange(num_taps)
    away = ((taps - centres[..., None] + 0.5) / reduction[..., None]).abs()
    near = (1.5 * away - 2.5) * away * away + 1
    far = ((away - 5) * away + 8) * away * -0.5 + 2
    weights = torch.where(away < 1, near, torch.where(away < 2, far, 0.0))
    weights = torch.where(taps < last[..., None], weights, 0.0)
    weights = weights / weights.sum(-1, keepdim=True) * _ONE
    fixed = torch.where(weights < 0, weights - 0.5, weights + 0.5).int()  # truncates towards 0
    return starts[:, None, None] + torch.minimum(taps, last[..., None] - 1), fixed


def resized_crops(
    images: UInt8[Tensor, "n 3 h w"],
    boxes: Int64[Tensor, "n 4"],
    flip: Bool[Tensor, " n"],
    size: tuple[int, int] | None = None,
) -> UInt8[Tensor, "n 3 rows cols"]:
    """Cut a box out of every image and resize it, with the same result as Pillow's bicubic filter.

    Args:
        images: The images.
        boxes: The box of each image: top, left, bottom, right.
        flip: Whether the result is mirrored, by image.
        size: Height and width of the result; by default those of the images.
    """
    height, width = size or images.shape[-2:]
    top, left, bottom, right = boxes.unbind(1)
    row_taps = resizing_taps(top, bottom - top, height)
    col_taps = tuple(
        torch.where(flip[:, None, None], taps.flip(1), taps)
        for taps in resizing_taps(left, right - left, width)
    )
    shape = (len(images), 3, height, width)
    resized = torch.empty(shape, dtype=torch.uint8, device=images.device)
    few = max(1, _PIXELS_IN_CACHE // images.shape[-2:].numel())
    for start in range(0, len(images), few):
        part = slice(start, start + few)
        wide = _sum_rows(images[part].mT, *(taps[part] for taps in col_taps))
        resized[part] = _sum_rows(wide.mT, *(taps[part] for taps in row_taps))
    return resized


def enlarge(
    images: UInt8[Tensor, "n 3 h w"], rows: int, cols: int
) -> UInt8[Tensor, "n 3 rows cols"]:
    """Enlarge every image to ``rows`` x ``cols`` pixels, with the same result as Pillow.

    The new size must not be smaller than the old one in either direction.

    Images are stored at their own size and enlarged when they are read, because CIFAR-100 at 224
    pixels would take 9 GB on the disk.
    """
    height, width = images.shape[-2:]
    if (height, width) == (rows, cols):
        return images
    zeros = torch.zeros(len(images), dtype=torch.int64)
    col_taps = resizing_taps(zeros, zeros + width, cols)
    row_taps = resizing_taps(zeros, zeros + height, rows)
    found = torch.empty(len(images), 3, rows, cols, dtype=torch.uint8, device=images.device)
    few = max(1, _PIXELS_IN_CACHE // (rows * cols))
    for start in range(0, len(images), few):
        part = slice(start, start + few)
        wide = _sum_rows(images[part].mT, *(taps[part] for taps in col_taps))
        found[part] = _sum_rows(wide.mT, *(taps[part] for taps in row_taps))
    return found


def _sum_rows(
    images: UInt8[Tensor, "n 3 h w"],
    places: Int64[Tensor, "n size tap"],
    weights: Int32[Tensor, "n size tap"],
) -> UInt8[Tensor, "n 3 size w"]:
    """Return weighted sums of rows; each row of the result has its own positions and weights."""
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
