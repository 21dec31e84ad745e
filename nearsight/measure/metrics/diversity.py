"""How different the heads of a layer are."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from nearsight.measure.metrics.definition import RowMetric, Sum, mean_over_rows, whole_block
from nearsight.measure.rows import Rows, wide


def pair_sums(rows: Rows) -> Float[Tensor, " image"]:
    """Total variation distance of rows, averaged over all pairs of heads; 0 for a single head."""
    heads = rows.weights.shape[2]
    total = wide(rows.weights.new_zeros(len(rows.weights)))
    for head in range(1, heads):
        apart = rows.weights[:, :, head:] - rows.weights[:, :, head - 1 : head]
        total += wide(apart.abs_().sum(-1).sum((1, 2, 3))) / 2
    return total / max(1, heads * (heads - 1) // 2)


HEAD_DIVERSITY = RowMetric(Sum(pair_sums, of_layer=True), mean_over_rows)


def head_diversity(attention: Float[Tensor, "batch head query key"]) -> Float[Tensor, " batch"]:
    """Mean pairwise distance between a layer's heads, per image.

    The distance of two heads A and B is the total variation distance of their rows, averaged over
    queries: (1/N) sum_i 1/2 sum_j |A_ij - B_ij|. The mean is taken over all pairs of heads. It is a
    share without a unit. 0: all heads attend alike (by definition also in a layer with one head).
    1: no two heads ever look at the same patch.

    Args:
        attention: Attention over patches, whose rows sum to one; see ``patch_attention``.

    Returns:
        One number per image, in float64.

    >>> import torch
    >>> halves = torch.tensor([[[[1.0, 0.0], [1.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]]]])
    >>> head_diversity(halves).tolist()
    [0.5]
    """
    return HEAD_DIVERSITY.of_block(whole_block(attention))
