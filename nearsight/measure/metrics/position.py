"""How much of a head's attention depends on the position alone, not on the image.

A positional head attends in the same way whatever the image shows. Two images are compared by the
inner product of their attention maps, over all pairs of images at once: the squared norm of the
mean map holds them all, so one pass and one map per head suffice.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from nearsight.core import UserError
from nearsight.measure.metrics.definition import whole_block
from nearsight.measure.metrics.offset import row_offsets
from nearsight.measure.rows import Rows, wide

MAX_PATCHES = 1024  # above, the mean offset of every query stands for its row of the map


def position_share(
    attention: Float[Tensor, "image head query key"],
) -> Float[Tensor, " head"]:
    """Mean over pairs of images of <A, B>, relative to the mean of <A, A> over images.

    <A, B> is the sum of A_ij B_ij over queries and keys. ``attention`` is over patches (see
    ``patch_attention``), of at least two images, and its rows sum to one. A share, no unit, one
    number per head for all images. 1: the maps of all images are the same, whether local or not.
    0: no two images let a patch look at the same place. Diffuse maps always overlap, uniform ones
    wholly. Float64.

    >>> one, other = torch.eye(3), torch.eye(3).roll(1, 0)
    >>> position_share(torch.stack([one, one, other])[:, None]).round(decimals=4).tolist()
    [0.3333]
    """
    mean_map = MeanMap(attention.shape[1], max_patches=math.inf)
    mean_map.add(whole_block(attention))
    return mean_map.share(len(attention))


def shared(of_sum: Tensor, of_each: Tensor, num_images: int) -> Tensor:
    """From |sum of maps|^2 and the sum of |map|^2: pairs of images against an image with itself.

    Maps that are 0 in every image are the same in every image: 1.
    """
    if num_images < 2:
        raise UserError(f"expected at least 2 images to compare, got {num_images}")
    safe = torch.where(of_each > 0, of_each, 1.0)
    return torch.where(of_each > 0, (of_sum / safe - 1) / (num_images - 1), 1.0).clamp(0, 1)


class MeanMap:
    """The sum of a layer's attention maps over images, and the sum of their squared norms.

    Up to ``max_patches`` (1,024) the map itself, [window, head, query, key]. Above, the mean offset
    of every query, which tells less but whose size grows with N only: beyond the offset of uniform
    attention, which is the same in every image and would make all diffuse heads positional.
    """

    def __init__(self, num_heads: int, max_patches: float | None = None) -> None:
        self.num_heads = num_heads
        self.max_patches = MAX_PATCHES if max_patches is None else max_patches
        self._total: Tensor | None = None  # [window, head, query, key or 2]
        self._norms = torch.zeros(num_heads, dtype=torch.float64)

    def add(self, rows: Rows) -> None:
        if rows.geometry.grid.num_patches > self.max_patches:
            mass, offsets, _ = row_offsets(rows).split([1, 2, 1], dim=-1)
            even = rows.geometry.uniform_offsets[:, None, rows.span].to(offsets)
            maps = offsets - mass * even
        else:
            maps = rows.weights
        _, windows, _, _, width = maps.shape
        if self._total is None:
            sizes = (windows, self.num_heads, rows.geometry.num_queries, width)
            self._total = maps.new_zeros(sizes)
        self._total[:, rows.block.heads, rows.span] += maps.sum(0)
        self._norms[rows.block.heads] += wide(maps.square().sum((1, 3, 4))).sum(0).cpu()

    def share(self, num_images: int) -> Tensor:
        """``position_share`` of the images so far, [head]."""
        assert self._total is not None
        of_sum = wide(self._total).square().sum((0, 2, 3)).cpu()
        return shared(of_sum, self._norms, num_images)


POSITION_SHARE = MeanMap
