"""How spread out the attention of a head is.

Papers define attention entropy differently. We follow the protocol paper: the mean of the rows'
entropies (not the entropy of the mean row), divided by log N, where N is the number of patches.
"""

from __future__ import annotations

import math
from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from nearsight.core import UserError
from nearsight.measure.layout import Geometry
from nearsight.measure.metrics.definition import RowMetric, Sum, mean_over_rows, whole_block
from nearsight.measure.rows import Rows, wide

# Added inside the logarithm, as in the paper. Our copy of the paper lacks the value, so this one is
# assumed. It changes no entropy by more than N x 1e-12.
EPS = 1e-12


def entropy_sums(rows: Rows) -> Float[Tensor, "image head"]:
    """Entropies of the rows in nats, summed over queries."""
    return wide(rows.entropies.sum((1, 3)))


def per_log_keys(total: Tensor, at: Geometry) -> Tensor:
    """Mean row entropy divided by the log of the number of keys."""
    return mean_over_rows(total, at) / math.log(at.num_keys)


ENTROPY = RowMetric(
    Sum(entropy_sums, kernel="entropy_sums"), per_log_keys, uniform=lambda grid: 1.0
)


def attention_entropy(
    attention: Float[Tensor, "batch head query key"],
) -> Float[Tensor, "batch head"]:
    """Mean row entropy divided by log N, per image and head.

    The entropy of row i is -sum_j A_ij log(A_ij + 1e-12). It has no unit. 0: every patch looks at
    exactly one patch, near or far. 1: uniform attention.

    Args:
        attention: Attention over patches, whose rows sum to one; see ``patch_attention``.

    Returns:
        One number per image and head, in float64.

    Raises:
        UserError: If there is only one patch, because log N is then 0.

    >>> import torch
    >>> half = torch.tensor([[[[0.5, 0.5, 0.0, 0.0]] * 4]])
    >>> round(attention_entropy(half).item(), 6)
    0.5
    """
    if attention.shape[-1] < 2:
        raise UserError(
            "entropy / log N needs attention over at least 2 patches, because log 1 is 0, but the "
            f"attention is {list(attention.shape)}"
        )
    rows = whole_block(attention)
    entropies = -(rows.weights + EPS).log_().mul_(rows.weights).sum(-1)
    return ENTROPY.of_block(replace(rows, entropies=entropies))
