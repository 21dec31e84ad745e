"""Make the views of DINO: random crops of every image in two sizes, each augmented by itself.

The random numbers of a view are a function of (seed, epoch, sample, number of the view), like those
of any other augmented image. Therefore neither a resume nor the number of processes changes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from nearsight.data.augment import augment_images, normalise_pixels
from nearsight.protocol import Dino, View
from nearsight.train.batches import epoch_order, num_steps
from nearsight.train.objectives.objective import Setting

NUM_GLOBAL = 2
LOCAL_SHARE = 3 / 7  # side of a local view as a share of the image's side: 96 of 224 pixels


@dataclass(frozen=True)
class ViewBatch:
    """One process's share of a global batch: views of the same images, one after the other."""

    whole: Float[Tensor, "two_n 3 h w"]  # the first views of all images, then the second ones
    local: Float[Tensor, "m 3 rows cols"]  # the first local views of all images, then the next ones
    global_size: int


def local_side(side: int, patch: int) -> int:
    """Return the side of a local view in pixels: 3/7 of the image's, in whole patches.

    >>> local_side(224, 16), local_side(32, 4), local_side(8, 8)
    (96, 12, 8)
    """
    return max(1, round(LOCAL_SHARE * side / patch)) * patch


def view_batches(
    setting: Setting, settings: Dino, local_size: int, epoch: int, first_step: int
) -> Iterator[ViewBatch]:
    """Yield this process's batches of an epoch, from ``first_step`` on.

    Args:
        setting: The protocol, the processes and the data.
        settings: The settings of DINO, with those of the views.
        local_size: The side of the local views in pixels.
        epoch: The number of the epoch.
        first_step: The first step to yield.
    """
    train, size = setting.train, setting.protocol.batch_size
    order, _ = epoch_order(train.indices, 1, setting.seed, epoch)
    own = setting.transform.image_size
    for step in range(first_step, num_steps(len(order), size)):
        positions = torch.arange(step * size, min((step + 1) * size, len(order)))
        samples = order[positions[setting.world.share(len(positions))]]
        stored = torch.from_numpy(train.images[samples.numpy()]).to(setting.world.device)
        seen = partial(_views, setting, epoch, stored, samples)
        whole = [seen(settings.first, range(1), own), seen(settings.second, range(1, 2), own)]
        numbers = range(NUM_GLOBAL, NUM_GLOBAL + settings.num_local)
        local = seen(settings.local, numbers, (local_size, local_size))
        yield ViewBatch(torch.cat(whole), local, len(positions))


def _views(
    setting: Setting,
    epoch: int,
    stored: UInt8[Tensor, "n 3 h w"],
    samples: Int64[Tensor, " n"],
    view: View,
    numbers: range,
    size: tuple[int, int],
) -> Float[Tensor, "m 3 rows cols"]:
    """Return the views of these numbers of every image, all of one kind and size."""
    rows = torch.arange(len(samples)).repeat(len(numbers))
    number = torch.tensor(list(numbers), dtype=torch.int64).repeat_interleave(len(samples))
    protocol = replace(
        setting.protocol, resized_crop=view.crop, blur=view.blur, solarize=view.solarize
    )
    transform = setting.transform
    augmented = augment_images(
        stored[rows], samples[rows], number, protocol=protocol, seed=setting.seed, epoch=epoch,
        mean_colour=transform.mean, size=size,
    )  # fmt: skip
    return normalise_pixels(augmented, transform.mean, transform.std, transform.dtype)
