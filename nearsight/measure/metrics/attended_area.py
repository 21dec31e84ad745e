"""How many patches a patch really looks at."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from nearsight.measure.metrics.definition import RowMetric, Sum, mean_over_rows, whole_block
from nearsight.measure.rows import Rows, wide

HELD = 0.9  # of a row's attention
ROUNDING = 1e-6  # of a sum of float32 weights: 90 of 100 equal ones hold 0.9


def area_sums(rows: Rows) -> Float[Tensor, "image head"]:
    """Share of the keys of a row that hold 90 % of it, summed over queries."""
    largest = rows.weights.sort(-1, descending=True).values
    lacking = largest.cumsum(-1) < HELD - ROUNDING
    counts = wide(lacking.sum(-1) + 1)  # [image, window, head, query]
    counts.masked_fill_((rows.weights.sum(-1) == 0).to(counts.device), 0.0)  # without a place
    missing = rows.geometry.key_missing  # [window, key]; None: every key has a place
    if missing is None:
        return counts.sum((1, 3)) / rows.geometry.num_keys
    num_keys = (~missing).sum(-1).clamp(min=1).to(counts)  # [window]
    return (counts / num_keys[:, None, None]).sum((1, 3))


ATTENDED_AREA = RowMetric(Sum(area_sums), mean_over_rows)


def attended_area(
    attention: Float[Tensor, "batch head query key"],
) -> Float[Tensor, "batch head"]:
    """Smallest number of patches that hold at least 90 % of a row, relative to all it can see.

    The mean over rows, per image and head. ``attention`` is over patches (see ``patch_attention``)
    and its rows sum to one. A share, no unit. 1/N: every patch looks at one patch, near or far.
    0.9 (rounded up to whole patches): uniform attention; no attention gives more. In windows a row
    can attend to the patches of its window. Float64.

    >>> import torch
    >>> rows = [[0.5, 0.4, 0.1, 0.0], [1.0, 0.0, 0.0, 0.0], [0.25] * 4, [0.0, 0.45, 0.45, 0.1]]
    >>> attended_area(torch.tensor([[rows]])).item()  # 2, 1, 4 and 2 of 4 patches
    0.5625
    """
    return ATTENDED_AREA.of_block(whole_block(attention))
