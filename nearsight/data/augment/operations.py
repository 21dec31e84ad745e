"""List the operations that a policy can draw, and apply them to a batch.

Every image of a batch has its own operation and argument. Images that drew the same operation are
processed together, but the result of an image does not depend on the others.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Int64
from torch import Tensor

from nearsight.data.augment import colour
from nearsight.data.augment import warp as geometry
from nearsight.data.augment.blur import gaussian_blur
from nearsight.data.augment.colour import Amounts, Images

_MAPS = {
    "shear_x": geometry.shear_x_map,
    "shear_y": geometry.shear_y_map,
    "translate_x": geometry.translate_x_map,
    "translate_y": geometry.translate_y_map,
    "rotate": geometry.rotate_map,
}
_COLOURS: dict[str, Callable[[Images, Amounts], Images]] = {
    "brightness": colour.brightness,
    "contrast": colour.contrast,
    "saturation": colour.saturation,
    "sharpness": colour.sharpness,
    "hue": colour.hue,
    "posterize": colour.posterize,
    "solarize": colour.solarize,
    "solarize_add": colour.solarize_add,
    "autocontrast": colour.autocontrast,
    "equalize": colour.equalize,
    "invert": colour.invert,
    "blur": gaussian_blur,
}
NAMES = (*_MAPS, *_COLOURS)
NOTHING = -1  # the code of "no operation"


def code(name: str) -> int:
    """Return the number that stands for an operation in a tensor of codes."""
    return NAMES.index(name)


def apply_operation(name: str, images: Images, arguments: Amounts) -> Images:
    """Apply one operation to all images, each with its own argument."""
    if name in _COLOURS:
        return _COLOURS[name](images, arguments.to(images.device))
    height, width = images.shape[-2:]
    rows = [_MAPS[name](argument, height, width) for argument in arguments.tolist()]
    coefficients = torch.tensor(rows, dtype=torch.int32)
    return geometry.sample_pixels(images, coefficients.to(images.device))


def apply_operations(images: Images, codes: Int64[Tensor, " n"], arguments: Amounts) -> Images:
    """Apply to every image its own operation, and return new images.

    Args:
        images: Images on any device.
        codes: The operation of each image, on the CPU; NOTHING leaves an image unchanged.
        arguments: The argument of each operation in its own unit, on the CPU.
    """
    order = codes.argsort(stable=True)  # puts images of the same operation side by side
    grouped = images.index_select(0, order.to(images.device))
    drawn, counts = codes.unique(return_counts=True)
    start = 0
    for operation, count in zip(drawn.tolist(), counts.tolist()):
        group = slice(start, start + count)
        start += count
        if operation != NOTHING:
            name = NAMES[operation]
            grouped[group] = apply_operation(name, grouped[group], arguments[order[group]])
    return grouped.index_select(0, order.argsort().to(images.device))
