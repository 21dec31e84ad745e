"""Functions that read what GAug and GPSA have learned; ``import nearsight`` offers them by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from nearsight.measure.capture import inner_model
from nearsight.measure.readouts.collection import read_layers, refuse_absent
from nearsight.models.parts.gpsa import GateReadOut, LayerGates, layer_gates
from nearsight.models.parts.locat import LayerWidths, WidthReadOut


def gaussian_widths(model: nn.Module, images: Tensor | Iterable[Any]) -> tuple[LayerWidths, ...]:
    """Return the standard deviations and strengths of the Gaussians in every GAug layer.

    They depend on the image, so they are collected over all images.

    Args:
        model: A model with GAug (LocAt); its state is restored afterwards.
        images: A tensor, data set or iterable of batches, as for ``measure_model``.

    Raises:
        UserError: If the model has no GAug, or there are no images.

    >>> import torch
    >>> from nearsight.models.parts.locat.locat import add_locat
    >>> from nearsight.models.load.registry import create_model
    >>> first, _ = gaussian_widths(add_locat(create_model("mu")), torch.zeros(5, 3, 32, 32))
    >>> first.name, first.largest, round(first.strength.mean, 4)
    ('blocks.0.attn', 8.0, 0.0025)
    """
    return tuple(read_layers(model, images, WidthReadOut).values())


def gpsa_gates(model: nn.Module) -> dict[str, LayerGates]:
    """Return the gates, centres and spans of the heads of every GPSA layer, by the layer's name.

    They are parameters of the model, so no image is needed.

    Args:
        model: A model with GPSA (ConViT).

    Raises:
        UserError: If the model has no GPSA.

    >>> from nearsight.models.load.registry import create_model
    >>> gates = gpsa_gates(create_model("timm/convit_tiny"))
    >>> len(gates), gates["blocks.0.attn"].centre[1], round(gates["blocks.0.attn"].gate[1], 3)
    (10, (0.5, -0.5), 0.731)
    """
    inner = inner_model(model)
    read_out = GateReadOut(inner)
    if not read_out.is_present:
        refuse_absent(inner, GateReadOut)
    return {name: layer_gates(module) for name, module in read_out.modules.items()}
