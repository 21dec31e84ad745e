"""How alike the features of a patch, its neighbours and the class token are in a layer's output.

The features are the output of the block that contains the attention: the innermost module around
the attention that is an element of a Sequential or ModuleList. If that output is not one vector per
patch in the order of the image, the metric has no value, and the profile records the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.measure.capture import AttentionCall, Place
from nearsight.measure.layout import Layout
from nearsight.measure.metrics.definition import FeatureMetric
from nearsight.models.layers import Grid

CONTAINERS = (nn.Sequential, nn.ModuleList)
CLASS_TOKENS = ("cls_token", "class_token", "class_embedding")
NO_CLASS = "no class token takes part in this layer"
FORWARD = ((0, 1), (1, -1), (1, 0), (1, 1))  # 4 of the 8 neighbours; the others mirror them


def locality_score(features: Float[Tensor, "batch row col width"]) -> Float[Tensor, " batch"]:
    """Mean cosine between a patch's feature and those of its up to 8 neighbours, per image.

    The mean is over the neighbours of a patch, then over patches. It has no unit and lies in -1..1.
    1: neighbours are alike, as in a smooth map, but also in a collapsed one. 0: neighbours have
    nothing in common. A feature of zeros has cosine 0. Prefix tokens do not take part.

    Args:
        features: Features of patches on their grid.

    Returns:
        One number per image, in float64.

    Raises:
        UserError: If there is only one patch.

    >>> locality_score(torch.tensor([[[[1.0, 0.0], [0.0, 2.0], [0.0, 3.0]]]])).tolist()
    [0.5]
    """
    _, rows, cols, _ = features.shape
    if rows * cols < 2:
        raise UserError(
            "locality_score compares neighbouring patches and needs at least 2 patches, but the "
            "map has only one"
        )
    wide = F.normalize(features.double(), dim=-1)
    sums = wide.new_zeros(features.shape[:3])
    counts = wide.new_zeros(rows, cols)
    for down, right in FORWARD:
        here = slice(0, rows - down), slice(max(0, -right), cols - max(0, right))
        there = slice(down, rows), slice(max(0, right), cols + min(0, right))
        cosines = (wide[:, *here] * wide[:, *there]).sum(-1)
        for part in (here, there):
            sums[:, *part] += cosines
            counts[part] += 1
    return (sums / counts).mean((1, 2))


def cls_similarity(
    features: Float[Tensor, "batch row col width"], cls: Float[Tensor, "batch width"]
) -> Float[Tensor, " batch"]:
    """Mean cosine between the patches' features and that of the class token, per image.

    It has no unit and lies in -1..1. 1: every patch carries what the class token carries. 0: they
    have nothing in common. Register tokens do not take part.

    Args:
        features: Features of patches on their grid.
        cls: Feature of the class token.

    Returns:
        One number per image, in float64.

    >>> patches = torch.tensor([[[[1.0, 0.0], [0.0, 2.0]]]])
    >>> cls_similarity(patches, torch.tensor([[0.0, 5.0]])).tolist()
    [0.5]
    """
    patches = F.normalize(features.double(), dim=-1)
    return torch.einsum("brcw,bw->brc", patches, F.normalize(cls.double(), dim=-1)).mean((1, 2))


LOCALITY_SCORE = FeatureMetric(locality_score)
CLS_SIMILARITY = FeatureMetric(cls_similarity, needs_class=True)


@dataclass(frozen=True)
class Missing:
    """The reason why a metric has no value."""

    reason: str


def feature_values(
    metrics: Mapping[str, FeatureMetric], output: Any, layout: Layout, model: nn.Module
) -> dict[str, Tensor | Missing]:
    """Compute metrics of features from the output of a block, per image, in float64 on the CPU.

    Args:
        metrics: The metrics to compute, by name.
        output: What the block's forward returned.
        layout: Where the layer's tokens are on the image.
        model: The model, from which the numbers of class and prefix tokens are read.
    """
    patches = patch_features(output, layout, carried_tokens(model))
    cls = class_feature(output, layout, model)
    values: dict[str, Tensor | Missing] = {}
    for name, metric in metrics.items():
        needed = [patches, cls] if metric.needs_class else [patches]
        missing = [x for x in needed if isinstance(x, Missing)]
        if missing:
            values[name] = missing[0]
            continue
        images = zip(*(x.split(1) for x in needed if isinstance(x, Tensor)))
        values[name] = torch.cat([metric.of(*(x.cpu() for x in image)) for image in images])
    return values


def block_of(call: AttentionCall) -> Place | Missing:
    """Return the innermost module around the attention that is an element of a container."""
    model = call.path[0].module
    for place in reversed(call.path[:-1]):
        parent = place.name.rpartition(".")[0]
        if place.name and isinstance(model.get_submodule(parent), CONTAINERS):
            return place
    return Missing("no block of a Sequential or ModuleList contains the attention")


def carried_tokens(model: nn.Module) -> int:
    """Return how many prefix tokens pass unchanged through blocks that attend between patches only.

    Such a block (of GPSA) has an attribute ``carries_prefix``.
    """
    declared: Any = getattr(model, "num_prefix", getattr(model, "num_prefix_tokens", 0))
    carried = any(getattr(module, "carries_prefix", False) for module in model.modules())
    return declared if carried else 0


def patch_features(output: Any, layout: Layout, carried: int = 0) -> Tensor | Missing:
    """Return a block's output as [image, row, col, width], or the reason why that is impossible.

    Args:
        output: What the block's forward returned.
        layout: Where the layer's tokens are on the image.
        carried: Number of prefix tokens that may stand first in the output although the attention
            did not see them.
    """
    output = _tensor(output)
    grid = layout.grid
    if grid.num_patches < 2:
        return Missing("a map of one patch has no neighbours")
    if output is None or not output.is_floating_point():
        return Missing("the output of its block is not a tensor of features")
    if output.ndim == 4:
        size = (grid.rows, grid.cols)
        last, first = output.shape[1:3] == size, output.shape[2:] == size
        if last != first:
            return output if last else output.permute(0, 2, 3, 1)
    lengths = layout.queries.shape[1], carried + grid.num_patches
    if output.ndim == 3 and output.shape[1] in lengths and _in_image_order(layout.queries, grid):
        return output[:, -grid.num_patches :].unflatten(1, (grid.rows, grid.cols))
    return Missing(
        f"the output of its block, {list(output.shape)}, is not known to hold the {grid} patches "
        "in the order of the image"
    )


def class_feature(output: Any, layout: Layout, model: nn.Module) -> Tensor | Missing:
    """Return the class token's feature [image, width]: the first prefix token, if there is one."""
    output = _tensor(output)
    num_prefix = int((layout.queries[0] >= 0).int().argmax())
    if output is None or output.ndim != 3 or not num_prefix or not num_class_tokens(model):
        return Missing(NO_CLASS)
    return output[:, 0]


def num_class_tokens(model: nn.Module) -> int:
    """Return how many class tokens a model has, judging by a parameter of a known name."""
    for name, parameter in model.named_parameters():
        if name.rpartition(".")[2] in CLASS_TOKENS:
            return parameter.shape[-2] if parameter.ndim > 1 else 1
    return 0


def _tensor(output: Any) -> Tensor | None:
    """Return the output, or the first element of a tuple, if it is a tensor."""
    if isinstance(output, (tuple, list)) and output:
        output = output[0]
    return output if isinstance(output, Tensor) else None


def _in_image_order(queries: Tensor, grid: Grid) -> bool:
    """Return whether prefix tokens come first, then the patches row by row, in one window."""
    num_prefix = queries.shape[1] - grid.num_patches
    expected = torch.arange(-num_prefix, grid.num_patches).clamp(min=-1)
    return len(queries) == 1 and num_prefix >= 0 and torch.equal(queries[0], expected)
