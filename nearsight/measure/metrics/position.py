"""How much of a head's attention depends on position alone and not on the image.

A positional head attends in the same way whatever the image shows. Two images are compared by the
inner product of their attention maps. The squared norm of the sum of all maps contains the products
of all pairs of images, so a single pass over the images suffices, and only one map per head is
kept.
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

MAX_PATCHES = 1024  # with more patches, every query's mean offset replaces its row of the map


def position_share(
    attention: Float[Tensor, "image head query key"],
) -> Float[Tensor, " head"]:
    """Mean of <A, B> over pairs of images, relative to the mean of <A, A> over images, per head.

    <A, B> is the sum of A_ij B_ij over queries and keys. It is a share without a unit. 1: the maps
    of all images are the same, whether local or not. 0: in no two images does a patch attend to the
    same place. Diffuse maps always overlap, and uniform maps entirely, so a large share means
    little for a head with a large entropy.

    Args:
        attention: Attention over patches of at least two images, whose rows sum to one; see
            ``patch_attention``.

    Returns:
        One share per head for all images, in float64.

    >>> one, other = torch.eye(3), torch.eye(3).roll(1, 0)
    >>> position_share(torch.stack([one, one, other])[:, None]).round(decimals=4).tolist()
    [0.3333]
    """
    mean_map = MeanMap(attention.shape[1], max_patches=math.inf)
    mean_map.add(whole_block(attention))
    return mean_map.share(len(attention))


def share_of_pairs(of_sum: Tensor, of_each: Tensor, num_images: int) -> Tensor:
    """Return the position share, given |sum of maps|^2 and the sum of |map|^2.

    Maps that are 0 in every image count as the same in every image: their share is 1.

    Raises:
        UserError: If there is only one image.
    """
    if num_images < 2:
        raise UserError(
            "position_share compares images with each other and needs at least 2, but there is "
            f"only {num_images}"
        )
    safe = torch.where(of_each > 0, of_each, 1.0)
    return torch.where(of_each > 0, (of_sum / safe - 1) / (num_images - 1), 1.0).clamp(0, 1)


class MeanMap:
    """The sum of a layer's attention maps over images, and the sum of their squared norms.

    With up to ``max_patches`` patches (1,024 by default) it sums the maps themselves, [window,
    head, query, key]. With more, it sums the mean offset of every query instead, which needs memory
    for N instead of N^2 numbers. The offset of uniform attention is subtracted first, because it is
    the same in every image and would make all diffuse heads positional.
    """

    def __init__(self, num_heads: int, max_patches: float | None = None) -> None:
        self.num_heads = num_heads
        self.max_patches = MAX_PATCHES if max_patches is None else max_patches
        self._total: Tensor | None = None  # [window, head, query, key or 2]
        self._norms = torch.zeros(num_heads, dtype=torch.float64)

    def add(self, rows: Rows) -> None:
        """Add the maps of a block of rows."""
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
        """Return ``position_share`` of the images so far, [head]."""
        assert self._total is not None
        of_sum = wide(self._total).square().sum((0, 2, 3)).cpu()
        return share_of_pairs(of_sum, self._norms, num_images)


POSITION_SHARE = MeanMap
