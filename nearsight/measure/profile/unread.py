"""Find the layers whose patches no output reads.

A classifier that reads only its class token never uses what the patches gather in its last
attention layer: the outputs of the patches could be anything without changing the logits. So the
attention of patches in such a layer says nothing about what the model uses. These layers are found
by the gradient of the logits with respect to the patches' outputs of every attention layer: it is 0
if nothing reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from nearsight.measure.capture import AttentionCall, AttentionCapture, evaluation_mode
from nearsight.measure.layout import Fold, Layout, Skipped, layout_of
from nearsight.models.layers import Grid

CLASSIFIERS = ("head", "heads", "classifier", "fc")  # usual names of the classifier's module
NOT_DIFFERENTIABLE = (RuntimeError, TypeError, ValueError, AssertionError)


def unread_layers(
    model: nn.Module, images: Tensor, grid: Grid | None = None, num_prefix: int | None = None
) -> list[bool] | None:
    """Return for every measured layer whether its outputs for patches influence no class logit.

    A model without a classifier returns features to its caller, also those of the patches, so all
    of its layers count as read.

    Args:
        model: The model; its state is restored afterwards.
        images: One or two images as the model takes them.
        grid: Rows and columns of patches; found automatically by default.
        num_prefix: The number of class and register tokens; found automatically by default.

    Returns:
        One value per layer with attention between patches, in order. None if this cannot be known,
            because the model cannot be differentiated or its logits depend on no layer at all (for
            example because the weights of its classifier are 0).

    >>> from nearsight.models.load import create_model
    >>> unread_layers(create_model("mu"), torch.ones(1, 3, 32, 32))
    [False, True]
    """
    probes: list[tuple[Tensor, Layout]] = []

    def add_probe(call: AttentionCall) -> AttentionCall:
        layout = layout_of(call, grid, num_prefix)
        if isinstance(layout, Skipped):
            return call
        with torch.enable_grad():
            probe = torch.zeros_like(call.output).requires_grad_()
            probes.append((probe, layout))
            return replace(call, output=call.output + probe)

    try:
        with (
            evaluation_mode(model) as inner,
            AttentionCapture(inner, lambda call: None, add_probe),
            torch.enable_grad(),
        ):
            logits = _class_logits(inner, inner(images.detach().clone()))
            if logits is None:
                return [False] * len(probes)
            weights = torch.arange(1.0, 1 + logits.shape[-1], device=logits.device).sin()
            score = (logits.float() * weights).sum()
            gradients = torch.autograd.grad(score, [x for x, _ in probes], allow_unused=True)
    except NOT_DIFFERENTIABLE:
        return None
    if not any(x is not None and bool((x != 0).any()) for x in gradients):
        return None
    return [
        gradient is None or not _reaches_patches(gradient, layout)
        for gradient, (_, layout) in zip(gradients, probes, strict=True)
    ]


def _reaches_patches(gradient: Tensor, layout: Layout) -> bool:
    """Return whether a gradient with respect to a layer's output is nonzero for any patch."""
    nonzero = (gradient != 0).any(-1)  # [image * window, head, token] or [image, head, window, ...]
    if isinstance(layout.windows, Fold):
        nonzero = layout.windows.unfold(nonzero).transpose(1, 2)
    elif layout.windows == "batch":
        nonzero = nonzero.unflatten(0, (-1, len(layout.queries))).transpose(1, 2)
    is_patch = (layout.queries >= 0).to(gradient.device)  # [window, token]
    return bool((nonzero & is_patch).any())


def _class_logits(model: nn.Module, output: Any) -> Tensor | None:
    """Return the class logits [image, class] in a model's output; None if it has no classifier."""
    if isinstance(output, Mapping):
        output = output.get("logits")
    elif not isinstance(output, Tensor):
        output = getattr(output, "logits", output)
    if isinstance(output, (tuple, list)) and output:
        output = output[0]
    if not isinstance(output, Tensor) or output.ndim != 2 or not output.is_floating_point():
        return None
    last = [getattr(model, name) for name in CLASSIFIERS if hasattr(model, name)]
    has_none = bool(last) and all(isinstance(x, nn.Identity) for x in last)
    return None if has_none or getattr(model, "num_classes", None) == 0 else output
