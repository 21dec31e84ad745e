"""Draw the rectangles that random erasing fills and that resized crops keep."""

from __future__ import annotations

import math

from nearsight.protocol import RandomErasing, ResizedCrop

Box = tuple[int, int, int, int]  # top, left, bottom, right

NOWHERE: Box = (0, 0, 0, 0)
NUM_TRIES = 10  # each uses four random numbers


def fitting_box(
    numbers: list[float],
    settings: RandomErasing | ResizedCrop,
    size: tuple[int, int],
    most: tuple[int, int],
) -> Box | None:
    """Draw a rectangle of at most ``most`` rows and columns in an image of the given ``size``.

    Each of up to ten tries uses four of the uniform ``numbers``: one each for the area, the
    logarithm of height / width, and the vertical and horizontal position. The result is None if
    the rectangle of no try fits.
    """
    height, width = size
    spread = math.log(settings.min_aspect)
    for at in range(0, 4 * NUM_TRIES, 4):
        share, shape, vertical, horizontal = numbers[at : at + 4]
        area = settings.min_area + (settings.max_area - settings.min_area) * share
        area *= height * width
        aspect = math.exp(spread * (1 - 2 * shape))
        rows, cols = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if rows <= most[0] and cols <= most[1]:
            top = int(vertical * (height - rows + 1))
            left = int(horizontal * (width - cols + 1))
            return top, left, top + rows, left + cols
    return None


def middle_box(min_aspect: float, height: int, width: int) -> Box:
    """Return the largest centred rectangle whose height / width is within the allowed aspect ratio.

    >>> middle_box(0.75, 300, 500), middle_box(0.75, 300, 310)
    ((0, 50, 300, 450), (0, 0, 300, 310))
    """
    rows, cols = min(height, round(width / min_aspect)), min(width, round(height / min_aspect))
    top, left = (height - rows) // 2, (width - cols) // 2
    return top, left, top + rows, left + cols


def resized_crop_box(numbers: list[float], settings: ResizedCrop, height: int, width: int) -> Box:
    """Draw the part of the image to keep; if no try fits, return the middle of the image."""
    box = fitting_box(numbers, settings, (height, width), (height, width))
    if box is None or box[2] == box[0] or box[3] == box[1]:
        return middle_box(settings.min_aspect, height, width)
    return box
