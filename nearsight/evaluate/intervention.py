"""Change the attention of chosen heads while a model runs, without editing the model.

An ``Intervention`` is passed to ``AttentionCapture`` as ``change``. It computes the attention of a
layer, changes rows of some heads, and gives the model the values weighted by the changed rows. All
other rows stay the same bit for bit. Only rows of patches are changed, never those of class tokens.

inside   a patch attends only to the patches of a window around it
outside  a patch attends only to the patches outside of that window
mean     a patch attends where it attends on average over images: position without content

With inside and outside, the attention to prefix tokens stays the same. The attention to forbidden
patches is distributed over the allowed ones in proportion, so that a patch gives as much attention
to patches as before, but elsewhere.
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
SMALLEST = 1e-30  # allowed patches with a smaller share together get equal shares

# Returns changed weights, given the name of the layer and its weights [batch, head, token, token].
Rule = Callable[[str, Tensor], Tensor]


@dataclass(frozen=True)
class LayerMean:
    """The mean attention of one layer over images, with prefix tokens first."""

    grid: Grid
    num_prefix: int
    weights: Float64[Tensor, "head token token"]

    def inside(self, side: int) -> Float64[Tensor, " head"]:
        """Return the share of the attention between patches that lies in the window, per head."""
        patches = self.weights[:, self.num_prefix :, self.num_prefix :]
        near = self.grid.window(side).to(patches.device)
        return (patches * near).sum((1, 2)) / patches.sum((1, 2))


class MeanAttention:
    """A consumer of ``AttentionCapture`` that computes every layer's mean attention."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[Layout, Tensor, int]] = {}  # sum over images, their number

    def __call__(self, call: AttentionCall) -> None:
        """Add the attention of a layer to its sum."""
        layout = layout_of(call)
        if isinstance(layout, Skipped):
            return
        weights = _weights(call, layout, proved=call.name in self._found)
        _, total, num = self._found.get(call.name, (layout, 0.0, 0))
        self._found[call.name] = layout, total + weights.double().sum(0), num + len(weights)

    def layers(self, num_images: int) -> dict[str, LayerMean]:
        """Return the mean of every layer by name, in order, after ``num_images`` were seen."""
        for name, (_, _, num) in self._found.items():
            if num != num_images:
                raise UserError(
                    f"layer {name} computed attention {num} times for {num_images} images, so its "
                    "heads cannot be told apart; only models whose layers compute attention once "
                    "per image can be tested"
                )
        return {
            name: LayerMean(layout.grid, num_leading(layout.queries), total / num)
            for name, (layout, total, num) in self._found.items()
        }


@dataclass(frozen=True)
class Intervention:
    """A change of the attention that patches give in some heads.

    Args:
        heads: The numbers of the heads, counted from 0, by the name of their layer.
        rule: The function that changes the attention of a layer.
    """

    heads: Mapping[str, Sequence[int]]
    rule: Rule

    def __call__(self, call: AttentionCall) -> AttentionCall:
        """Return a layer's attention call with the rows of its chosen heads changed."""
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


def window_rule(
    where: Literal["inside", "outside"], side: int, layers: Mapping[str, LayerMean]
) -> Rule:
    """Return the rule that lets patches attend only ``inside`` or ``outside`` of a window."""

    def rule(name: str, weights: Tensor) -> Tensor:
        layer = layers[name]
        near = layer.grid.window(side).to(weights.device)
        first, changed = layer.num_prefix, weights.clone()
        patches = changed[..., first:, first:]
        patches[:] = keep_only_keys(patches, near if where == "inside" else ~near)
        return changed

    return rule


def mean_map_rule(layers: Mapping[str, LayerMean]) -> Rule:
    """Return the rule that lets patches attend where they attend on average, for every image."""
    return lambda name, weights: layers[name].weights.to(weights).expand_as(weights)


def keep_only_keys(
    weights: Float[Tensor, "*leading patch key"], allowed: Bool[Tensor, "patch key"]
) -> Float[Tensor, "*leading patch key"]:
    """Move the weight of forbidden keys to the allowed ones, in proportion; rows keep their sums.

    A row without weight on allowed keys is spread evenly over them. A row without allowed keys
    stays as it is.

    >>> rows = torch.tensor([[0.2, 0.1, 0.3], [0.0, 0.0, 0.8]])
    >>> keep_only_keys(rows, torch.tensor([[True, True, False]]).expand(2, 3))
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
    """Return the attention of a layer between all tokens.

    Raises:
        UserError: If the rows of this layer cannot be changed.
    """
    problem = None
    if len(layout.queries) > 1:
        problem = "its patches attend within windows"
    elif len(layout.cells) != layout.grid.num_patches:
        problem = "its keys are pooled"
    elif call.multiplied is not None:
        problem = "it mixes its heads before they are applied to the values"
    if problem:
        raise UserError(
            f"the attention of layer {call.name} cannot be changed head by head, because {problem}"
        )
    tensors = Unfolded(call, layout, Buffers())
    if not proved:
        prove(call, tensors)
    return tensors.weights(EVERYTHING)[:, 0]
