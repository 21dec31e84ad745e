"""Draw which images become grey, blurred or solarised.

BYOL and DINO add these operations to ColorJitter. Each function returns codes and arguments [1, n],
as the functions of policy.py do.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from nearsight.data import draws
from nearsight.data.augment.operations import NOTHING, code
from nearsight.data.augment.policy import Drawn, SampleKey
from nearsight.protocol import Blur, Greyscale, Solarize


def draw_greyscale(settings: Greyscale, key: SampleKey) -> Drawn:
    """Draw which images become grey, as an operation with saturation 0."""
    numbers = draws.uniform("greyscale", *key, num=1)
    return _sometimes("saturation", numbers[:, 0], settings.probability, numbers[:, 0] * 0)


def draw_blur(settings: Blur, key: SampleKey) -> Drawn:
    """Draw which images are blurred, and the deviation of the Gaussian in pixels."""
    numbers = draws.uniform("blur", *key, num=2)
    sigmas = settings.min_sigma + (settings.max_sigma - settings.min_sigma) * numbers[:, 1]
    return _sometimes("blur", numbers[:, 0], settings.probability, sigmas)


def draw_solarize(settings: Solarize, key: SampleKey) -> Drawn:
    """Draw which images have their bright values inverted."""
    coins = draws.uniform("solarize", *key, num=1)[:, 0]
    thresholds = torch.full_like(coins, settings.threshold)
    return _sometimes("solarize", coins, settings.probability, thresholds)


def _sometimes(
    name: str, coins: Float[Tensor, " n"], probability: float, arguments: Float[Tensor, " n"]
) -> Drawn:
    """Return an operation for the images whose coin is below the probability, else NOTHING."""
    codes = torch.where(coins < probability, code(name), NOTHING)
    return codes[None], arguments[None]
