"""How much the place of a query says about where it looks."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from nearsight.measure.metrics.distance import checked_rows


def mutual_information(
    attention: Float[Tensor, "batch head query key"],
) -> Float[Tensor, "batch head"]:
    """NMI = I(q; k) / sqrt(H(q) H(k)) between query and key positions, with p(q) = 1/N.

    p(k|q) is the attention, p(k) its mean row, so I = H(k) - mean row entropy and H(q) = log N. The
    definition of Park et al. (cl-vs-mim). ``attention`` is over patches (see ``patch_attention``)
    and its rows sum to one. No unit. 0: every query attends alike. 1: the queries look at different
    patches, one each. 0 too where H(k) is 0 (all look at one patch) or N is 1: nothing is told
    there. Windows count over the whole image: that they differ is information. Float64.

    >>> mutual_information(torch.eye(5)[None, None]).round(decimals=6).item()
    1.0
    >>> mutual_information(torch.tensor([[[[0.25, 0.75], [0.25, 0.75]]]])).item() + 0.0
    0.0
    """
    wide = checked_rows(attention)
    entropies = torch.special.entr(wide).sum((-2, -1))
    return normalised(wide.sum(-2), entropies, attention.shape[-2])


def normalised(
    keys: Float[Tensor, "*batch key"], entropies: Float[Tensor, "*batch"], num_queries: int
) -> Float[Tensor, "*batch"]:
    """NMI from the mass on every key and the rows' entropies, both summed over all queries."""
    of_keys = torch.special.entr(keys / num_queries).sum(-1)
    shared = (of_keys - entropies / num_queries).clamp(min=0)
    largest = (math.log(num_queries) * of_keys).sqrt()
    return torch.where(largest > 0, shared / largest.where(largest > 0, 1.0), 0.0)
