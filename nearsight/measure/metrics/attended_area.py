"""How many patches a patch attends to."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from nearsight.measure.metrics.definition import RowMetric, Sum, mean_over_rows, whole_block
from nearsight.measure.rows import Rows, wide

HELD = 0.9  # share of a row's attention that the counted patches hold
ROUNDING = 1e-6  # so that 90 of 100 equal weights, summed in float32, count as 0.9


def area_sums(rows: Rows) -> Float[Tensor, "image head"]:
    """Smallest share of keys that holds 90 % of a row's attention, summed over queries."""
    largest = rows.weights.sort(-1, descending=True).values
    lacking = largest.cumsum(-1) < HELD - ROUNDING
    counts = wide(lacking.sum(-1) + 1)  # [image, window, head, query]
    no_position = (rows.weights.sum(-1) == 0).to(counts.device)  # rows of padding
    counts.masked_fill_(no_position, 0.0)
    missing = rows.geometry.key_missing  # [window, key]; None: every key has a position
    if missing is None:
        return counts.sum((1, 3)) / rows.geometry.num_keys
    num_keys = (~missing).sum(-1).clamp(min=1).to(counts)  # [window]
    return (counts / num_keys[:, None, None]).sum((1, 3))


ATTENDED_AREA = RowMetric(Sum(area_sums), mean_over_rows)


def attended_area(
    attention: Float[Tensor, "batch head query key"],
) -> Float[Tensor, "batch head"]:
    """Smallest share of patches that holds at least 90 % of a row's attention, averaged over rows.

    In a layer with windows it is a share of the patches in the window. 1/N: every patch attends to
    one patch, near or far. 0.9 (rounded up to whole patches): uniform attention, the largest
    possible value.

    Args:
        attention: Attention over patches, whose rows sum to one; see ``patch_attention``.

    Returns:
        One share per image and head, in float64.

    >>> import torch
    >>> rows = [[0.5, 0.4, 0.1, 0.0], [1.0, 0.0, 0.0, 0.0], [0.25] * 4, [0.0, 0.45, 0.45, 0.1]]
    >>> attended_area(torch.tensor([[rows]])).item()  # 2, 1, 4 and 2 of 4 patches
    0.5625
    """
    return ATTENDED_AREA.of_block(whole_block(attention))
