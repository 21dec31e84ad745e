"""How different the heads of a layer are."""

from __future__ import annotations

from itertools import combinations

import torch
from jaxtyping import Float
from torch import Tensor

from nearsight.measure.metrics.distance import checked_rows


def head_diversity(attention: Float[Tensor, "batch head query key"]) -> Float[Tensor, " batch"]:
    """Mean pairwise distance of a layer's heads, per image.

    The distance of two heads A and B is the total variation distance of their rows, averaged over
    queries: (1/N) sum_i 1/2 sum_j |A_ij - B_ij|. The mean is over all pairs of heads. ``attention``
    is over patches (see ``patch_attention``) and its rows sum to one. A share, no unit. 0: all
    heads attend alike, and by definition in a layer with one head. 1: no two heads ever look at the
    same patch. Float64.

    >>> halves = torch.tensor([[[[1.0, 0.0], [1.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]]]])
    >>> head_diversity(halves).tolist()
    [0.5]
    """
    wide = checked_rows(attention)
    pairs = list(combinations(range(attention.shape[1]), 2))
    if not pairs:
        return wide.new_zeros(len(wide))
    apart = [(wide[:, a] - wide[:, b]).abs().sum(-1).mean(-1) / 2 for a, b in pairs]
    return torch.stack(apart).mean(0)
