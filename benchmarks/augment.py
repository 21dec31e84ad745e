"""Compare our augmentation in chunks with torchvision's image by image, in images per second.

    python benchmarks/augment.py

Both augment 32x32 images by the Modern protocol: crop, flip, AutoAugment, normalisation to float32,
and CutMix with labels per mini-batch of 128. They use one thread each and take turns within one
run; the fastest turn of each counts. Time is the CPU time of the thread, which other processes on
the machine hardly change.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.data import default_collate

from nearsight.data.augment.mix import draw_mix, mix_images, mixed_targets
from nearsight.data.augment.pipeline import augment_images, normalise_pixels
from nearsight.models.compat import declare_missing_ops
from nearsight.protocol.presets import preset

CHUNK, BATCH, SIZE, NUM_CLASSES, NUM_TURNS = 1024, 128, 32, 100, 15
MEAN, STD = (0.507, 0.487, 0.441), (0.267, 0.256, 0.276)
MODERN = preset("modern")


def ours(images: Tensor, labels: Tensor, turn: int) -> None:
    """Augment a chunk in mini-batches, as training does."""
    samples = torch.arange(CHUNK)
    augmented = augment_images(
        images,
        samples,
        torch.zeros_like(samples),
        protocol=MODERN,
        seed=0,
        epoch=turn,
        mean_colour=MEAN,
    )
    for step in range(CHUNK // BATCH):
        part = slice(step * BATCH, (step + 1) * BATCH)
        inputs, batch_labels = normalise_pixels(augmented[part], MEAN, STD), labels[part]
        mix = draw_mix(
            MODERN, seed=0, epoch=turn, step=step, batch_size=BATCH, height=SIZE, width=SIZE
        )
        partner_labels = batch_labels
        if mix is not None:
            inputs = mix_images(inputs, inputs[mix.partners], mix)
            partner_labels = batch_labels[mix.partners]
        mixed_targets(batch_labels, partner_labels, mix, NUM_CLASSES, MODERN.label_smoothing)


def torchvision_per_image() -> Callable[[Tensor, Tensor, int], None]:
    """Apply the usual transform of a torchvision data set, then CutMix on the mini-batch."""
    declare_missing_ops()
    from PIL import Image
    from torchvision import transforms
    from torchvision.transforms import v2

    transform = transforms.Compose(
        [
            transforms.RandomCrop(SIZE, padding=4),
            transforms.RandomHorizontalFlip(),
            transforms.AutoAugment(transforms.AutoAugmentPolicy.CIFAR10),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, STD),
        ]
    )
    cutmix = v2.RandomApply([v2.CutMix(num_classes=NUM_CLASSES)], p=0.5)

    def augment(images: Tensor, labels: Tensor, turn: int) -> None:
        pixels = images.permute(0, 2, 3, 1).contiguous().numpy()
        for start in range(0, CHUNK, BATCH):
            part = range(start, start + BATCH)
            cutmix(
                default_collate([(transform(Image.fromarray(pixels[i])), labels[i]) for i in part])
            )

    return augment


def main() -> None:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (CHUNK, 3, SIZE, SIZE), dtype=torch.uint8, generator=generator)
    labels = torch.randint(0, NUM_CLASSES, (CHUNK,), generator=generator)
    roads = {"nearsight": ours, "torchvision": torchvision_per_image()}
    best = dict.fromkeys(roads, float("inf"))
    for turn in range(NUM_TURNS):
        for name, road in roads.items():
            start = time.thread_time()
            road(images, labels, turn)
            best[name] = min(best[name], time.thread_time() - start)
    for name, seconds in best.items():
        print(f"{name:12} {CHUNK / seconds:8,.0f} images/s per core")
    print(f"ratio        {best['torchvision'] / best['nearsight']:8.1f}   (target 15,000 images/s)")


if __name__ == "__main__":
    main()
