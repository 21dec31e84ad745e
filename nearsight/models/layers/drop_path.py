"""Stochastic depth (Huang et al. 2016): in training a branch is left out, sample by sample.

With rate p the branch f of a residual block x + f(x) becomes

    x + b f(x) / (1 - p),   b = 0 with probability p, else 1, one b per sample and branch,

so its mean stays f. Rates grow linearly with depth: 0 in the first block, the given rate in the
last. When not training nothing happens. The draws are torch's; a run seeds them at every step.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from nearsight.core import UserError


def kept_branches(branch: Float[Tensor, batch * rest], rate: float) -> Float[Tensor, batch * rest]:
    """Every sample's branch, left out (0) or divided by the share that is kept."""
    keep = branch.new_empty(len(branch), 1, 1).bernoulli_(1 - rate).div_(1 - rate)
    return branch * keep


def rates_by_depth(rate: float, depth: int) -> list[float]:
    """The rate of every block.

    >>> rates_by_depth(0.5, 5)
    [0.0, 0.125, 0.25, 0.375, 0.5]
    """
    if not 0 <= rate < 1:
        raise UserError(f"expected a rate of drop path from 0 to below 1, got {rate}")
    return [rate * block / max(1, depth - 1) for block in range(depth)]


class DropPath(nn.Module):
    """``kept_branches`` in training, nothing otherwise or at rate 0."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, branch: Float[Tensor, batch * rest]) -> Float[Tensor, batch * rest]:
        return kept_branches(branch, self.rate) if self.training and self.rate else branch

    def extra_repr(self) -> str:
        return f"rate={self.rate:g}"
