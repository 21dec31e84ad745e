"""Centres and extents of tokens, from the moments of their responses."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nearsight.measure.layout.placing.folds import Fold

NARROW = 0.6  # of the extent of the whole image: a token that is wider has no place of its own


@dataclass(frozen=True)
class Centres:
    """Where the tokens of one tensor are, [window, token] each."""

    places: Tensor  # [window, token, 2] in pixels
    extents: Tensor  # [window, token, 2] in pixels: the side of an even box of this deviation
    responds: Tensor  # bool [window, token]

    @property
    def num_placed(self) -> int:
        return int(self.responds.sum())


def unfolded_moments(
    draws: list[Tensor], fold: Fold, leading: tuple[int, ...], which: slice = slice(None)
) -> Tensor:
    """Sums of some draws over heads, [5, window, head, token]."""
    total = torch.stack(draws[which]).sum(0)
    tokens = total.shape[-1]
    total = total.reshape(5, *(1,) * (len(leading) + 2 - total.ndim), *total.shape[1:])
    total = total.expand(5, *leading, tokens)
    return torch.stack([fold.unfold(each)[0] for each in total])


def centres_of(sums: Tensor, size: tuple[int, int], quiet: float) -> Centres:
    """Centres from moments [5, window, token]."""
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
    """Take tokens that depend on the whole image for tokens without a place, if others do not."""
    if not bool(centres.responds.any()):
        return centres
    shares = (centres.extents / torch.tensor(size, dtype=torch.float64)).amin(-1)
    typical = float(shares[centres.responds].median())
    wide = shares > NARROW
    if typical >= NARROW / 2 or not bool((wide & centres.responds).any()):
        return centres
    return Centres(centres.places, centres.extents, centres.responds & ~wide)
