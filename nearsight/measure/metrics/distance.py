"""From attention over tokens to attention over patches, and how far that attention reaches.

Mean attention distance (MAD): the expected distance between a query patch and the patch it looks
at, averaged over all queries. The convention is the protocol paper's: prefix tokens dropped, rows
renormalised, Euclidean distance between patch centres in units of the grid diagonal. What other
conventions do to the number is in ``convention.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from nearsight.core import UserError
from nearsight.models.layers import Grid, Unit

ROW_SUM_TOLERANCE = 1e-4  # float32 and float64; half precision sums to one within a hundredth
HALF_TOLERANCE = 1e-2


def patch_attention(
    attention: Float[Tensor, "batch head token token"], num_prefix: int
) -> Float[Tensor, "batch head patch patch"]:
    """Attention between patches only: prefix rows and columns dropped, every row renormalised.

    A patch that spends all its attention on prefix tokens has no attention to renormalise; that
    raises, because any number given for it would be invented.

    >>> import torch
    >>> patch_attention(torch.tensor([[[[0.2, 0.8, 0.0], [0.5, 0.1, 0.4], [0.0, 0.5, 0.5]]]]), 1)
    tensor([[[[0.2000, 0.8000],
              [0.5000, 0.5000]]]])
    """
    if attention.ndim != 4 or attention.shape[-2] != attention.shape[-1]:
        raise UserError(
            f"expected attention [batch, head, token, token], got {list(attention.shape)}"
        )
    if not 0 <= num_prefix < attention.shape[-1]:
        raise UserError(
            f"expected fewer prefix tokens than the {attention.shape[-1]} tokens of the attention, "
            f"got {num_prefix}"
        )
    patches = attention[..., num_prefix:, num_prefix:]
    mass = patches.sum(-1, keepdim=True)
    if not bool((mass > 0).all()):
        raise UserError(
            "expected every patch to attend to some patch, "
            "got a row whose whole attention is on prefix tokens (or is not a number)"
        )
    return patches / mass


def checked_rows(attention: Tensor, num_patches: int | None = None) -> Tensor:
    """The attention in float64, once its shape and its row sums have been found right."""
    if attention.ndim != 4 or (num_patches and attention.shape[-2:] != (num_patches,) * 2):
        wanted = f"{num_patches}, {num_patches}" if num_patches else "query, key"
        raise UserError(
            f"expected attention [batch, head, {wanted}], got {list(attention.shape)}; "
            "drop prefix tokens with patch_attention first"
        )
    wide = attention.double()
    tolerance = ROW_SUM_TOLERANCE if attention.dtype.itemsize >= 4 else HALF_TOLERANCE
    error = float((wide.sum(-1) - 1).abs().max()) if wide.numel() else 0.0
    if not error <= tolerance:
        raise UserError(
            f"expected rows that sum to one, got a row that is off by {error:.3g}; "
            "drop prefix tokens with patch_attention, which renormalises"
        )
    return wide


def mean_attention_distance(
    attention: Float[Tensor, "batch head query key"], grid: Grid, unit: Unit = "diagonal"
) -> Float[Tensor, "batch head"]:
    """MAD = (1/N) sum_i sum_j A_ij d_ij, per image and head, in float64.

    ``attention`` is over patches (see ``patch_attention``) and its rows sum to one. ``unit``: the
    diagonal of the grid (0..1) or patches. 0: every patch looks at itself. Uniform attention:
    ``grid.uniform_distance(unit)``, 0.4178 on 8x8. Larger still: patches look at the far side.

    >>> import torch
    >>> everywhere = torch.full((1, 1, 4, 4), 0.25)
    >>> round(mean_attention_distance(everywhere, Grid(2, 2), unit="patches").item(), 4)
    0.8536
    """
    wide = checked_rows(attention, grid.num_patches)
    distances = grid.distances(unit).to(wide.device)
    return (wide.flatten(2) @ distances.flatten()) / grid.num_patches


def nonlocality(
    attention: Float[Tensor, "batch head query key"], grid: Grid
) -> Float[Tensor, "batch head"]:
    """ConViT's D_loc = (1/N) sum_i sum_j A_ij d_ij with d in patches: MAD times the diagonal.

    ``attention`` is over patches (see ``patch_attention``) and its rows sum to one. 0: every patch
    looks at itself. Unlike MAD it grows with the grid for the same picture of attention. Float64.

    >>> nonlocality(torch.tensor([[[[0.5, 0.5], [0.0, 1.0]]]]), Grid(1, 2)).item()
    0.25
    """
    return mean_attention_distance(attention, grid, unit="patches")


def mad_without_self(
    attention: Float[Tensor, "batch head query key"], grid: Grid, unit: Unit = "diagonal"
) -> Float[Tensor, "batch head"]:
    """Expected distance of the attention that leaves its patch.

    sum_i sum_{j != i} A_ij d_ij / sum_i sum_{j != i} A_ij: a ratio of sums, in which a patch counts
    by the attention it sends away, so that MAD = (1 - self-mass) x MAD without self exactly. A head
    that looks only at itself sends nothing away; its number is 0 by definition. ``attention`` is
    over patches and its rows sum to one; in grid diagonals (0..1) or patches, float64. Smallest for
    a head that sends anything: one patch. Large: what leaves goes far.

    >>> one = torch.tensor([[[[0.9, 0.1, 0.0], [0.0, 1.0, 0.0], [0.0, 0.3, 0.7]]]])
    >>> round(mad_without_self(one, Grid(1, 3), unit="patches").item(), 6)
    1.0
    """
    wide = checked_rows(attention, grid.num_patches)
    distances = grid.distances(unit).to(wide.device)
    own = torch.eye(grid.num_patches, dtype=torch.bool, device=wide.device)
    leaving = wide.masked_fill(own, 0.0)
    return ratio(leaving.flatten(2) @ distances.flatten(), leaving.sum((-2, -1)))


def ratio(part: Tensor, whole: Tensor) -> Tensor:
    """part / whole, and 0 where the whole is 0."""
    return torch.where(whole == 0, 0.0, part / torch.where(whole == 0, 1.0, whole))


def distance_score(
    attention: Float[Tensor, "batch head query key"], grid: Grid
) -> Float[Tensor, "batch head"]:
    """1 - MAD / MAD of uniform attention: how near a head looks, in a number free of grid size.

    ``attention`` is over patches (see ``patch_attention``) and its rows sum to one. No unit. 1:
    every patch looks only at itself. 0: as far as uniform attention. Negative: farther than that.
    0 too on a grid of a single patch, where both distances are 0. Float64.

    >>> distance_score(torch.full((1, 1, 6, 6), 1 / 6), Grid(2, 3)).round(decimals=6).item() + 0.0
    0.0
    """
    near = mean_attention_distance(attention, grid)
    return 1 - near / grid.uniform_distance() if grid.num_patches > 1 else near
