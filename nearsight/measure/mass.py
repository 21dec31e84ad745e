"""How much of its attention a patch keeps for itself."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from nearsight.measure.distance import checked_rows


def self_mass(attention: Float[Tensor, "batch head query key"]) -> Float[Tensor, "batch head"]:
    """(1/N) sum_i A_ii, per image and head, in float64.

    ``attention`` is over patches (see ``patch_attention``) and its rows sum to one. A share,
    no unit. 1: every patch looks only at itself (then MAD is 0 too). 0: no patch looks at itself.
    Uniform attention: 1/N.

    >>> import torch
    >>> self_mass(torch.tensor([[[[0.25, 0.75], [0.5, 0.5]]]])).item()
    0.375
    """
    wide = checked_rows(attention, attention.shape[-1])
    return wide.diagonal(dim1=-2, dim2=-1).mean(-1)
