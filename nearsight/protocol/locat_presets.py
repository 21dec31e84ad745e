"""LocAt's training (Hajimiri et al., arXiv 2603.04892, section 5.1) as two presets.

``locat`` is for ImageNet-1k and image folders: 300 epochs, 20 of them warm-up, learning rate 1e-3.
``locat-small`` is for CIFAR-100 and mini-ImageNet at 224 pixels: 600 epochs, 120 of them warm-up,
learning rate 5e-4. Both use AdamW with weight decay 0.05, the norm of the gradient clipped at 5,
batches of 1,024, a triangular schedule, RandAugment, Mixup or CutMix on every batch (chosen by a
fair coin), random erasing, label smoothing, and a drop-path rate that depends on the size of the
model.

Where we differ: a fifth of the training images is held out to choose the epoch. The paper does not
give the learning rates at both ends of the triangle; here they are 0. Images smaller than 224
pixels are enlarged when they are read, before augmentation, and are not stored at that size.
"""

from __future__ import annotations

from dataclasses import replace

from nearsight.protocol.deit import has_large_images, recipe
from nearsight.protocol.schema import Protocol

LOCAT = ("locat", "locat-small")
DROP_PATH = {"tiny": 0.1, "small": 0.2, "base": 0.4}
IMAGE_SIZE = 224
MODEL = "locatvit_tiny"
SMALL_SETS = ("cifar100", "mini-imagenet")


def locat_recipe(name: str, data: str, model: str | None = None) -> Protocol:
    """Return LocAt's training for a data set.

    Args:
        name: "locat" or "locat-small".
        data: The data set. Sets of small images are enlarged to 224 pixels.
        model: The model, whose size decides the drop-path rate; by default ``locatvit_tiny``.
    """
    small = name == "locat-small"
    start = recipe("deit", "imagenet")
    chosen = model or MODEL
    size = None if has_large_images(data) else IMAGE_SIZE
    return replace(
        start,
        name=name,
        data=replace(start.data, name=data, image_size=size),
        model=replace(
            start.model, name=chosen, image_size=IMAGE_SIZE, drop_path=drop_path_of(chosen)
        ),
        epochs=600 if small else 300,
        warmup_epochs=120 if small else 20,
        optimizer=replace(
            start.optimizer,
            lr=5e-4 if small else 1e-3,
            clip_norm=5.0,
            schedule="triangular",
            warmup_lr=0.0,
            final_lr=0.0,
        ),
        repeats=1,
    )


def drop_path_of(model: str) -> float:
    """Return the paper's drop-path rate for the size in a model's name; 0.1 without a size.

    >>> [drop_path_of(x) for x in ("locatvit_tiny", "vit_small_patch16_224", "locatswin_base")]
    [0.1, 0.2, 0.4]
    """
    return next((rate for size, rate in DROP_PATH.items() if size in model), DROP_PATH["tiny"])


def assumed_of_locat(name: str, data: str) -> tuple[str, ...]:
    """Return the settings that we chose because the paper does not give them for a data set."""
    given = SMALL_SETS if name == "locat-small" else ("imagenet",)
    if data in given or (name == "locat" and data.startswith("folder:")):
        return ()
    return ("epochs", "warmup_epochs", "batch_size", "optimizer.lr")
