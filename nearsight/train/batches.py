"""Make the batches of an epoch: their order, augmentation, mixing and targets.

The order depends only on (seed, epoch), mixing on (seed, epoch, step) for the *global* batch, which
is that of all processes together, and augmentation on (seed, epoch, sample, repeat). To mix with an
image of another process, a process augments that image again. Therefore the number of processes,
the chunk size and a resume change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from nearsight.core import World
from nearsight.data.augment import (
    Mix,
    augment_images,
    draw_mix,
    enlarge,
    mix_images,
    mixed_targets,
    normalise_pixels,
)
from nearsight.data.draws import permutation
from nearsight.data.input import InputTransform
from nearsight.data.sets import Images
from nearsight.protocol import Protocol

CHUNK = 1024  # samples augmented at once


@dataclass(frozen=True)
class Samples:
    """All images and labels outside of the test set, and which of them are trained on."""

    images: Images  # uint8 [n, 3, h, w], memory-mapped or read from files
    labels: Int64[Tensor, " n"]
    indices: Int64[Tensor, " m"]  # of the training split; the others are for validation
    num_classes: int


@dataclass(frozen=True)
class Batch:
    """One process's share of a global batch (the batch of all processes together)."""

    images: Float[Tensor, "n 3 h w"]
    targets: Float[Tensor, "n cls"]
    labels: Int64[Tensor, " n"]
    global_size: int  # the number of samples of all processes
    mixed: bool  # whether images were mixed in pairs


def num_steps(num_samples: int, batch_size: int) -> int:
    """Return the number of steps in an epoch; the last batch may be smaller."""
    return -(-num_samples // batch_size)


def epoch_order(
    indices: Tensor, repeats: int, seed: int, epoch: int
) -> tuple[Int64[Tensor, " m"], Int64[Tensor, " m"]]:
    """Return the sample and its repeat at every position of an epoch.

    With repeats, an epoch is as long as without and contains fewer different samples.
    """
    order = indices[permutation("order", seed, epoch, length=len(indices))]
    positions = torch.arange(len(indices))
    return order[positions // repeats], positions % repeats


def augmented_size(samples: Samples, protocol: Protocol) -> tuple[int, int]:
    """Return the height and width at which images are augmented.

    They are data.image_size if it is set, else those of the stored images.
    """
    rows, cols = samples.images.shape[2:]
    size = protocol.data.image_size
    return (rows, cols) if size is None else (size, size)


def epoch_batches(
    samples: Samples,
    transform: InputTransform,
    *,
    protocol: Protocol,
    seed: int,
    epoch: int,
    first_step: int,
    world: World,
) -> Iterator[Batch]:
    """Yield this process's batches of an epoch, from ``first_step`` on.

    Args:
        samples: The training images and labels.
        transform: Turns augmented images into the model's input.
        protocol: The settings of batches, augmentation and mixing.
        seed: The seed of the run.
        epoch: The number of the epoch.
        first_step: The first batch to yield.
        world: The processes that share the batches.
    """
    order, repeats = epoch_order(samples.indices, protocol.repeats, seed, epoch)
    size, (height, width) = protocol.batch_size, augmented_size(samples, protocol)
    steps_per_chunk = max(1, CHUNK // size)
    total = num_steps(len(order), size)
    for chunk in range(first_step, total, steps_per_chunk):
        shares: list[tuple[Tensor, Tensor | None, Mix | None, int]] = []
        for step in range(chunk, min(chunk + steps_per_chunk, total)):
            positions = torch.arange(step * size, min((step + 1) * size, len(order)))
            mix = draw_mix(
                protocol, seed=seed, epoch=epoch, step=step, batch_size=len(positions),
                height=height, width=width,
            )  # fmt: skip
            own = world.share(len(positions))
            partners = None if mix is None else positions[mix.partners[own]]
            shares.append((positions[own], partners, mix, len(positions)))
        needed = torch.cat([part for share in shares for part in share[:2] if part is not None])
        needed = needed.unique()
        stored = torch.from_numpy(samples.images[order[needed].numpy()]).to(world.device)
        stored = enlarge(stored, height, width)
        augmented = augment_images(
            stored, order[needed].to(world.device), repeats[needed].to(world.device),
            protocol=protocol, seed=seed, epoch=epoch, mean_colour=transform.mean,
        )  # fmt: skip
        for positions, partners, mix, global_size in shares:
            images = _inputs(augmented, needed, positions, transform)
            labels = samples.labels[order[positions]].to(world.device)
            partner_labels = labels
            if mix is not None and partners is not None:
                images = mix_images(images, _inputs(augmented, needed, partners, transform), mix)
                partner_labels = samples.labels[order[partners]].to(world.device)
            targets = mixed_targets(
                labels, partner_labels, mix, samples.num_classes, protocol.label_smoothing
            )
            images = transform.resize(images)
            yield Batch(images, targets, labels, global_size, mix is not None)


def _inputs(
    augmented: Tensor, needed: Tensor, positions: Tensor, transform: InputTransform
) -> Tensor:
    rows = torch.searchsorted(needed, positions).to(augmented.device)
    return normalise_pixels(augmented[rows], transform.mean, transform.std, transform.dtype)
