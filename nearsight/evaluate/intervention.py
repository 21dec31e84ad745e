"""Attention of chosen heads changed while a model runs, without editing the model.

An ``Intervention`` is the ``change`` of ``AttentionCapture``: it makes the attention of a layer,
changes rows of some heads, and gives the model what the changed rows make of the values; all other
rows stay bit for bit. Only rows of patches are changed, never a class token's own.

inside   a patch looks only at the patches of a window around it
outside  a patch looks only at the patches outside of that window
mean     a patch looks where it looks on average over images: position alone, no content

Inside and outside keep what a patch gives to prefix tokens. What it gives to patches goes to those
that are left, in proportion, so that only the place of attention between patches changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from nearsight.core import UserError
from nearsight.measure.capture import AttentionCall
from nearsight.measure.layout import Layout, Skipped, layout_of
from nearsight.measure.maps import num_leading
from nearsight.measure.rows import Buffers, RowBlock, Unfolded, prove
from nearsight.models.layers import Grid

EVERYTHING = RowBlock(slice(None), slice(None), slice(None))
SMALLEST = 1e-30  # share on the patches that are left, below which it is spread evenly over them

Rule = Callable[[str, Tensor], Tensor]  # layer's name, weights [batch, head, token, token]


@dataclass(frozen=True)
class LayerMean:
    """The attention of one layer, mean over images; prefix tokens first."""

    grid: Grid
    num_prefix: int
    weights: Float64[Tensor, "head token token"]

    def inside(self, side: int) -> Float64[Tensor, " head"]:
        """The share of the attention between patches that lies in the window, per head."""
        patches = self.weights[:, self.num_prefix :, self.num_prefix :]
        near = self.grid.window(side).to(patches.device)
        return (patches * near).sum((1, 2)) / patches.sum((1, 2))


class MeanAttention:
    """A consumer of ``AttentionCapture``: the mean attention of every layer between patches."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[Layout, Tensor, int]] = {}  # sum over images, their number

    def __call__(self, call: AttentionCall) -> None:
        layout = layout_of(call)
        if isinstance(layout, Skipped):
            return
        weights = _weights(call, layout, proved=call.name in self._found)
        _, total, num = self._found.get(call.name, (layout, 0.0, 0))
        self._found[call.name] = layout, total + weights.double().sum(0), num + len(weights)

    def layers(self, num_images: int) -> dict[str, LayerMean]:
        """Every layer by its name, in order, once ``num_images`` have been seen."""
        for name, (_, _, num) in self._found.items():
            if num != num_images:
                raise UserError(
                    f"expected one call of attention per image in layer {name}, got {num} calls "
                    f"for {num_images} images, so its heads cannot be told apart"
                )
        return {
            name: LayerMean(layout.grid, num_leading(layout.queries), total / num)
            for name, (layout, total, num) in self._found.items()
        }


@dataclass(frozen=True)
class Intervention:
    """Changes the rows of patches of some heads: ``heads`` by the layer's name, ``rule`` how."""

    heads: Mapping[str, Sequence[int]]  # counted from 0
    rule: Rule

    def __call__(self, call: AttentionCall) -> AttentionCall:
        if call.name not in self.heads:
            return call
        layout = layout_of(call)
        assert isinstance(layout, Layout)
        chosen = list(self.heads[call.name])
        weights = _weights(call, layout, proved=True)
        first, made = num_leading(layout.queries), weights.clone()
        made[:, chosen, first:] = self.rule(call.name, weights)[:, chosen, first:]
        seen = made[:, chosen, first:] @ call.values[:, chosen].to(made.dtype)
        output = call.output.clone()
        output[:, chosen, first:] = seen.to(output.dtype)
        return replace(
            call, output=output, weights_made=made, queries=None, keys=None, scale=1.0, mask=None,
            mixture=None,
        )  # fmt: skip


def looking(
    where: Literal["inside", "outside"], side: int, layers: Mapping[str, LayerMean]
) -> Rule:
    """The rule that lets patches look only ``inside`` or ``outside`` of a window."""

    def rule(name: str, weights: Tensor) -> Tensor:
        layer = layers[name]
        near = layer.grid.window(side).to(weights.device)
        first, changed = layer.num_prefix, weights.clone()
        patches = changed[..., first:, first:]
        patches[:] = restricted(patches, near if where == "inside" else ~near)
        return changed

    return rule


def averaged(layers: Mapping[str, LayerMean]) -> Rule:
    """The rule that lets patches look where they look on average, whatever the image shows."""
    return lambda name, weights: layers[name].weights.to(weights).expand_as(weights)


def restricted(
    weights: Float[Tensor, "*leading patch key"], allowed: Bool[Tensor, "patch key"]
) -> Float[Tensor, "*leading patch key"]:
    """Rows that look only where allowed, in proportion; every row keeps its sum.

    A row with nothing there is spread evenly; one that is allowed nowhere stays as it is.

    >>> rows = torch.tensor([[0.2, 0.1, 0.3], [0.0, 0.0, 0.8]])
    >>> restricted(rows, torch.tensor([[True, True, False]]).expand(2, 3))
    tensor([[0.4000, 0.2000, 0.0000],
            [0.4000, 0.4000, 0.0000]])
    """
    kept = weights * allowed
    left, num = kept.sum(-1, keepdim=True), allowed.sum(-1, keepdim=True)
    shares = torch.where(left > SMALLEST, kept / left, allowed / num)
    return torch.where(num > 0, shares * weights.sum(-1, keepdim=True), weights)


def _weights(
    call: AttentionCall, layout: Layout, proved: bool
) -> Float[Tensor, "batch head token token"]:
    """The attention of a layer between all tokens; refused where its rows cannot be changed."""
    problem = None
    if len(layout.queries) > 1:
        problem = "its patches attend in windows of their own"
    elif len(layout.cells) != layout.grid.num_patches:
        problem = "its keys are pooled"
    elif call.multiplied is not None:
        problem = "it mixes its heads before they meet the values"
    if problem:
        raise UserError(f"attention of layer {call.name} cannot be changed by head: {problem}")
    tensors = Unfolded(call, layout, Buffers())
    if not proved:
        prove(call, tensors)
    return tensors.weights(EVERYTHING)[:, 0]
