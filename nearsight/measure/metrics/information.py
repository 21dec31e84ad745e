"""How much the position of a query tells about where it attends."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from nearsight.measure.layout import Geometry
from nearsight.measure.metrics.definition import RowMetric, Sum, whole_block
from nearsight.measure.metrics.entropy import entropy_sums
from nearsight.measure.rows import Rows, wide


def key_sums(rows: Rows) -> Float[Tensor, "image head more"]:
    """Entropies of the rows, followed by the mass on every key cell of the image."""
    received = wide(rows.weights.sum(3))  # [image, window, head, key]
    images, _, heads, _ = received.shape
    cells = rows.geometry.keys.clamp(min=0).to(received.device)  # [window, key]; missing: mass 0
    masses = received.new_zeros(images, heads, rows.geometry.num_cells)
    masses.index_add_(2, cells.flatten(), received.transpose(1, 2).flatten(2))
    return torch.cat([entropy_sums(rows)[..., None], masses], dim=-1)


def normalised_information(total: Tensor, at: Geometry) -> Tensor:
    """NMI, given the rows' entropies and the mass on every key, both summed over all queries."""
    num_queries = at.grid.num_patches
    of_keys = torch.special.entr(total[..., 1:] / num_queries).sum(-1)
    shared = (of_keys - total[..., 0] / num_queries).clamp(min=0)
    largest = (math.log(num_queries) * of_keys).sqrt()
    return torch.where(largest > 0, shared / largest.where(largest > 0, 1.0), 0.0)


NMI = RowMetric(Sum(key_sums), normalised_information)


def mutual_information(
    attention: Float[Tensor, "batch head query key"],
) -> Float[Tensor, "batch head"]:
    """NMI = I(q; k) / sqrt(H(q) H(k)) between query and key positions, with p(q) = 1/N.

    p(k|q) is the attention and p(k) its mean row, so I = H(k) - mean row entropy and H(q) = log N,
    as defined by Park et al. (cl-vs-mim). It has no unit. 0: every query attends alike. 1: the
    queries attend to different patches, one each. It is 0 by definition if H(k) is 0 (all queries
    attend to one patch) or N is 1. In a layer with windows, positions are those in the whole image,
    so attending to different windows counts as information.

    Args:
        attention: Attention over patches, whose rows sum to one; see ``patch_attention``.

    Returns:
        One number per image and head, in float64.

    >>> mutual_information(torch.eye(5)[None, None]).round(decimals=6).item()
    1.0
    >>> mutual_information(torch.tensor([[[[0.25, 0.75], [0.25, 0.75]]]])).item() + 0.0
    0.0
    """
    return NMI.of_block(whole_block(attention))
