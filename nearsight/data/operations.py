"""The operations a policy can draw, by name, and how a batch goes through them.

Every image of a batch has its own operation and argument. The images that drew the same operation
go through it together; an image's result does not depend on the others.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from nearsight.data import colour, geometry

_MAPS = {
    "shear_x": geometry.shear_x_map,
    "shear_y": geometry.shear_y_map,
    "translate_x": geometry.translate_x_map,
    "translate_y": geometry.translate_y_map,
    "rotate": geometry.rotate_map,
}
_COLOURS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
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
}
NAMES = (*_MAPS, *_COLOURS)
NOTHING = -1  # the code of an image that drew no operation


def code(name: str) -> int:
    """The number that stands for an operation in a tensor of codes."""
    return NAMES.index(name)


def operated(name: str, images: Tensor, arguments: Tensor) -> Tensor:
    """One operation on all images, uint8 [n, 3, h, w], each with its own argument, float64 [n]."""
    if name in _COLOURS:
        return _COLOURS[name](images, arguments.to(images.device))
    height, width = images.shape[-2:]
    rows = [_MAPS[name](argument, height, width) for argument in arguments.tolist()]
    coefficients = torch.tensor(rows, dtype=torch.int32)
    return geometry.sampled(images, coefficients.to(images.device))


def apply_operations(images: Tensor, codes: Tensor, arguments: Tensor) -> Tensor:
    """Every image through its own operation.

    Args:
        images: uint8 [n, 3, h, w], changed in place.
        codes: int64 [n] on the CPU; NOTHING leaves an image as it is.
        arguments: float64 [n] on the CPU, in the operation's own unit.
    """
    for drawn in codes.unique().tolist():
        if drawn == NOTHING:
            continue
        members = (codes == drawn).nonzero()[:, 0]
        places = members.to(images.device)
        chosen = images.index_select(0, places)
        images.index_copy_(0, places, operated(NAMES[drawn], chosen, arguments[members]))
    return images
