"""DINO's training (Caron et al. 2021, arXiv 2104.14294) as the preset ``dino``.

The values for ImageNet-1k and image folders are those of LocAt's table 3: 50 epochs, 10 of them
warm-up, on crops of 224 and 96 pixels. The batch of 1,024 is DINO's for a ViT-S/16. The optimizer
is AdamW. Its weight decay grows from 0.04 to 0.4 and leaves out vectors such as biases. The
learning rate is 5e-4 per 256 images of a batch and falls to 1e-6. The gradient of every weight is
clipped at a norm of 3, and drop path is 0.1.

Where we differ: a fifth of the training images is held out, and the epoch with the highest accuracy
of k-NN on them is kept instead of the last. For sets of small images, the number of epochs, the
batch size and the warm-up are ours, and the model sees images at their own size.
"""

from __future__ import annotations

from typing import Any

from nearsight.protocol.deit import has_large_images
from nearsight.protocol.schema import (
    ColorJitter,
    DataSettings,
    Dino,
    Greyscale,
    ModelSettings,
    Optimizer,
    Protocol,
)

DINO = "dino"
RATE_AT_256 = 5e-4
_LARGE: dict[str, Any] = {"epochs": 50, "warmup_epochs": 10, "batch_size": 1024}
_SMALL: dict[str, Any] = {"epochs": 100, "warmup_epochs": 10, "batch_size": 256}


def dino_recipe(data: str) -> Protocol:
    """Return DINO's training for a data set."""
    large = has_large_images(data)
    schedule = _LARGE if large else _SMALL
    name = {"name": "locatvit_small", "image_size": 224} if large else {"name": "compact_locat"}
    return Protocol(
        name=DINO,
        data=DataSettings(name=data),
        model=ModelSettings(**name, drop_path=0.1),
        patience=None,
        optimizer=Optimizer(
            lr=RATE_AT_256 * schedule["batch_size"] / 256,
            weight_decay=0.04,
            final_weight_decay=0.4,
            decayed="not-vectors",
            final_lr=1e-6,
            clip_norm=3.0,
            clipped="each",
        ),
        crop_padding=0,
        colorjitter=ColorJitter(brightness=0.4, contrast=0.4, saturation=0.2, probability=0.8),
        greyscale=Greyscale(),
        dino=Dino(),
        **schedule,
    )


def assumed_of_dino(data: str) -> tuple[str, ...]:
    """Return the settings that we chose because the papers do not give them for a data set."""
    return () if has_large_images(data) else ("epochs", "warmup_epochs", "batch_size")
