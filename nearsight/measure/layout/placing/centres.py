"""Compute centres and extents of tokens from the moments of their responses."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nearsight.measure.layout.placing.folds import Fold

NARROW = 0.6  # a token that depends on a larger share of the image has no position of its own


@dataclass(frozen=True)
class Centres:
    """Positions of the tokens of one tensor.

    Attributes:
        places: [window, token, 2] in pixels.
        extents: [window, token, 2] in pixels: the sides of the part of the image that a token
            depends on, if it depended evenly on a rectangle (the one with the same deviations).
        responds: Whether a token depends on the image, [window, token].
    """

    places: Tensor
    extents: Tensor
    responds: Tensor

    @property
    def num_placed(self) -> int:
        """Number of tokens that depend on the image."""
        return int(self.responds.sum())


def unfolded_moments(
    draws: list[Tensor], fold: Fold, leading: tuple[int, ...], which: slice = slice(None)
) -> Tensor:
    """Return the moments summed over some draws, as [5, window, head, token].

    Args:
        draws: Moments of each draw.
        fold: How the leading dimensions are split into windows and heads.
        leading: Sizes of all dimensions of the call's attention but the last two.
        which: Which draws to sum.
    """
    total = torch.stack(draws[which]).sum(0)
    tokens = total.shape[-1]
    total = total.reshape(5, *(1,) * (len(leading) + 2 - total.ndim), *total.shape[1:])
    total = total.expand(5, *leading, tokens)
    return torch.stack([fold.unfold(each)[0] for each in total])


def centres_of(sums: Tensor, size: tuple[int, int], quiet: float) -> Centres:
    """Return the centres that moments [5, window, token] describe.

    Args:
        sums: The moments.
        size: Height and width of the image in pixels.
        quiet: Share of the largest response below which a token does not depend on the image.
    """
    energy = sums[0]
    largest = float(energy.max()) if energy.numel() else 0.0
    responds = energy > quiet * largest if largest > 0 else torch.zeros_like(energy).bool()
    safe = energy.where(responds, 1.0)
    means = torch.stack([sums[1], sums[2]], -1) / safe[..., None]
    squares = torch.stack([sums[3], sums[4]], -1) / safe[..., None]
    halves = torch.tensor(size, dtype=torch.float64) / 2
    deviations = (squares - means.square()).clamp(min=0).sqrt()
    return Centres((means + 1) * halves, deviations * halves * math.sqrt(12), responds)


def without_wide(centres: Centres, size: tuple[int, int]) -> Centres:
    """Mark tokens that depend on most of the image as unplaced, if most tokens do not.

    Args:
        centres: Centres and extents of all tokens.
        size: Height and width of the image in pixels.
    """
    if not bool(centres.responds.any()):
        return centres
    shares = (centres.extents / torch.tensor(size, dtype=torch.float64)).amin(-1)
    typical = float(shares[centres.responds].median())
    wide = shares > NARROW
    if typical >= NARROW / 2 or not bool((wide & centres.responds).any()):
        return centres
    return Centres(centres.places, centres.extents, centres.responds & ~wide)
