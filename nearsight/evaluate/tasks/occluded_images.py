"""Hide patches of images, shuffle their cells, or paste rectangles of other images over them."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from nearsight.data.draws import uniform
from nearsight.data.input import Preprocessing
from nearsight.models.layers import Grid

FILLS = ("black", "mean", "noise")
Images = Float[Tensor, "image 3 h w"]


def hidden_patches(
    order: Float[Tensor, "image patch"], share: float
) -> Bool[Tensor, "image patch"]:
    """Return which patches are hidden: the share with the smallest numbers in ``order``.

    >>> hidden_patches(torch.tensor([[0.3, 0.1, 0.2, 0.4]]), 0.5).tolist()
    [[False, True, True, False]]
    """
    num = round(share * order.shape[1])
    ranks = order.argsort(dim=1, stable=True).argsort(1)
    return ranks < num


def hide(images: Images, hidden: Bool[Tensor, "image patch"], grid: Grid, fill: Tensor) -> Images:
    """Return the images with the hidden patches filled."""
    masks = hidden.view(-1, 1, grid.rows, grid.cols).float()
    size = images.shape[-2:]
    wide = torch.nn.functional.interpolate(masks, size, mode="nearest").bool()
    return torch.where(wide, fill.to(images), images)


def centre_order(grid: Grid, num: int) -> Float[Tensor, "image patch"]:
    """Return the distance of every patch from the middle of the image."""
    places = grid.coordinates().double()
    middle = torch.tensor([(grid.rows - 1) / 2, (grid.cols - 1) / 2], dtype=torch.float64)
    return (places - middle).norm(dim=1).expand(num, -1)


def shuffle_cells(images: Images, side: int, order: Float[Tensor, "image cell"]) -> Images:
    """Cut images into side x side cells and put them into the order of the numbers.

    Pixels at the right and the bottom that cells do not reach stay where they are.
    """
    height, width = (size // side for size in images.shape[-2:])
    inner = images[..., : height * side, : width * side]
    cells = inner.unflatten(2, (side, height)).unflatten(4, (side, width))  # [n 3 s h s w]
    flat = cells.permute(0, 2, 4, 1, 3, 5).flatten(1, 2)  # [n cell 3 h w]
    places = order.argsort(dim=1, stable=True)
    moved = flat.gather(1, places[:, :, None, None, None].expand_as(flat))
    back = moved.unflatten(1, (side, side)).permute(0, 3, 1, 4, 2, 5)
    found = images.clone()
    found[..., : height * side, : width * side] = back.flatten(4, 5).flatten(2, 3)
    return found


def paste_rectangles(
    images: Images, others: Images, share: float, drawn: Float[Tensor, "image 3"]
) -> Images:
    """Paste a rectangle that covers ``share`` of each image, from the same place of another image.

    Args:
        images: The images.
        others: The images to paste from, one for each.
        share: The share of the image that the rectangle covers.
        drawn: Three random numbers in 0..1 for each image: the ratio of the sides, between 1:2 and
            2:1 as far as the image has room, and where the rectangle is.
    """
    height, width = images.shape[-2:]
    found = images.clone()
    for number, (ratio, down, right) in enumerate(drawn.tolist()):
        stretch = 2 ** (2 * ratio - 1)
        rows = min(height, max(share * height, math.sqrt(share * stretch) * height))
        cols = min(width, share * height * width / rows)
        tall, wide = max(1, round(rows)), max(1, round(cols))
        top, left = int(down * (height - tall + 1)), int(right * (width - wide + 1))
        place = (number, slice(None), slice(top, top + tall), slice(left, left + wide))
        found[place] = others[place]
    return found


def fill_values(
    images: Images, fill: str, steps: Preprocessing, draw: int, numbers: Tensor
) -> Tensor:
    """Return the values for hidden pixels, normalised like the images: black, the mean, or noise.

    Args:
        images: The normalised images.
        fill: One of FILLS.
        steps: How the images were normalised.
        draw: The number of the draw.
        numbers: The numbers of the images, which give each image noise of its own.
    """
    if fill == "mean":
        return torch.zeros(1)
    if fill == "black":
        values = [-mean / std for mean, std in zip(steps.mean, steps.std)]
        return torch.tensor(values).view(1, 3, 1, 1)
    size = images.shape[1:]
    drawn = uniform("fill", draw, numbers, num=math.prod(size)).clamp(1e-9, 1 - 1e-9)
    normal = math.sqrt(2) * torch.erfinv(2 * drawn - 1)
    return normal.view(len(images), *size).float()
