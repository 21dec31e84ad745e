"""Mix pairs of images of a mini-batch: CutMix (Yun et al. 2019) and Mixup (Zhang et al. 2018).

Whether a batch is mixed, the ratio, the box and the partners are drawn once for the global batch,
as a function of (seed, epoch, step). Every process makes the same draws and looks up the partners
of its own samples only.

The ratio is drawn from Beta(alpha, alpha) by applying the inverse of its distribution function to a
uniform number. The box of CutMix has sqrt(1 - ratio) times the height and width of the image. Its
centre is uniform over the pixels, and the box is clipped at the border. The weight of the labels
counts the pixels that are really replaced.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from jaxtyping import Float, Int64
from scipy.special import betaincinv
from torch import Tensor

from nearsight.data import draws
from nearsight.data.augment.box import Box
from nearsight.protocol import CutMix, Mixup, Protocol


@dataclass(frozen=True)
class Mix:
    """How the images of one global batch are mixed."""

    kind: Literal["cutmix", "mixup"]
    partners: Int64[Tensor, " global"]  # position of each sample's partner in the global batch
    weight: float  # share of the sample itself in the mixed image
    box: Box | None
    mix_labels: bool


def beta_ratio(alpha: float, number: float) -> float:
    """Return the quantile of Beta(alpha, alpha) at ``number``; with alpha 1, this is the number.

    >>> beta_ratio(1.0, 0.3), beta_ratio(0.8, 0.5)
    (0.3, 0.5)
    """
    if alpha == 1:
        return number
    return float(betaincinv(alpha, alpha, number))


def cutmix_box(ratio: float, centre_y: int, centre_x: int, height: int, width: int) -> Box:
    """Return the rectangle to paste: 1 - ratio of the image's area before clipping at the border.

    Args:
        ratio: Share of the image that should stay.
        centre_y: Row of the rectangle's centre.
        centre_x: Column of the rectangle's centre.
        height: Height of the image.
        width: Width of the image.

    >>> cutmix_box(0.75, 10, 31, 32, 32)
    (2, 23, 18, 32)
    """
    half = 0.5 * math.sqrt(1 - ratio)
    half_height, half_width = int(half * height), int(half * width)
    return (
        max(0, centre_y - half_height),
        max(0, centre_x - half_width),
        min(height, centre_y + half_height),
        min(width, centre_x + half_width),
    )


def draw_mix(
    protocol: Protocol,
    *,
    seed: int,
    epoch: int,
    step: int,
    batch_size: int,
    height: int,
    width: int,
) -> Mix | None:
    """Draw how a global batch is mixed, or None if it is not.

    If the protocol has both CutMix and Mixup, a fair coin chooses one of them, and its own
    probability decides whether it is applied.

    Args:
        protocol: The settings of CutMix and Mixup.
        seed: Seed of the run.
        epoch: Number of the epoch.
        step: Number of the batch within the epoch.
        batch_size: Number of images in the global batch.
        height: Height of the images in pixels.
        width: Width of the images in pixels.
    """
    numbers = draws.uniform("mix", seed, epoch, step, num=5).tolist()
    which, whether, number, vertical, horizontal = numbers
    settings: CutMix | Mixup | None = protocol.cutmix or protocol.mixup
    if protocol.cutmix and protocol.mixup:
        settings = protocol.cutmix if which < 0.5 else protocol.mixup
    if settings is None or whether >= settings.probability:
        return None
    partners = draws.permutation("partners", seed, epoch, step, length=batch_size)
    ratio = beta_ratio(settings.alpha, number)
    if isinstance(settings, Mixup):
        return Mix("mixup", partners, ratio, None, True)
    box = cutmix_box(ratio, int(vertical * height), int(horizontal * width), height, width)
    top, left, bottom, right = box
    weight = 1 - (bottom - top) * (right - left) / (height * width)
    return Mix("cutmix", partners, weight, box, settings.mix_labels)


def mix_images(
    images: Float[Tensor, "n 3 h w"], partner_images: Float[Tensor, "n 3 h w"], mix: Mix
) -> Float[Tensor, "n 3 h w"]:
    """Return new images with their partners pasted or blended in."""
    if mix.box is None:
        return images * mix.weight + partner_images * (1 - mix.weight)
    top, left, bottom, right = mix.box
    mixed = images.clone()
    mixed[..., top:bottom, left:right] = partner_images[..., top:bottom, left:right]
    return mixed


def mixed_targets(
    labels: Int64[Tensor, " n"],
    partner_labels: Int64[Tensor, " n"],
    mix: Mix | None,
    num_classes: int,
    smoothing: float,
) -> Float[Tensor, "n num_classes"]:
    """Return the class probabilities to learn, in float32; each row sums to 1.

    One-hot labels are mixed by the weight, unless ``mix.mix_labels`` is false, and then smoothed.

    Args:
        labels: Classes of the samples.
        partner_labels: Classes of their partners.
        mix: How the batch was mixed, or None.
        num_classes: Number of classes.
        smoothing: Share of the probability that is spread evenly over all classes.

    >>> import torch
    >>> mixed_targets(torch.tensor([1]), torch.tensor([0]), None, 4, 0.2)
    tensor([[0.0500, 0.8500, 0.0500, 0.0500]])
    """
    targets = F.one_hot(labels, num_classes).float()
    if mix is not None and mix.mix_labels:
        partner_targets = F.one_hot(partner_labels, num_classes).float()
        targets = targets * mix.weight + partner_targets * (1 - mix.weight)
    return targets * (1 - smoothing) + smoothing / num_classes
