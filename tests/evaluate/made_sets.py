"""Small data sets and subjects for the tests of evaluate."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image
from torch import nn

from nearsight.evaluate.features import FeatureCache, Split, Subject, subject_of
from nearsight.evaluate.tasks import Bench
from nearsight.models.load import create_model

CLASSES = ("ground", "red", "green")


def pictures(count: int, seed: int, size: tuple[int, int] = (24, 40)) -> Split:
    """Images with a red or a green rectangle on a dark ground, and their masks."""
    random = np.random.RandomState(seed)
    images, masks, labels = [], [], []
    for number in range(count):
        label = 1 + number % 2
        mask = np.zeros(size, np.uint8)
        top, left = random.randint(0, size[0] // 2), random.randint(0, size[1] // 2)
        mask[top : top + size[0] // 2, left : left + size[1] // 2] = label
        pixels = random.randint(0, 60, (*size, 3)).astype(np.uint8)
        pixels[..., label - 1] += (150 * (mask == label)).astype(np.uint8)
        mask[0, 0] = 255
        images.append(Image.fromarray(pixels))
        masks.append(mask)
        labels.append(label - 1)
    return Split(
        "made up",
        "train" if seed == 0 else "val",
        f"made up {count} {seed} {size}",
        tuple(map(str, range(count))),
        CLASSES,
        lambda i: images[i],
        np.array(labels),
        lambda i: masks[i],
    )


def small_model(seed: int = 3) -> nn.Module:
    """3x5 patches of 8 pixels after a class token and a register."""
    torch.manual_seed(seed)
    return create_model("mu", 7, image_size=(24, 40), patch_size=8, num_registers=1).eval()


def small_subject(seed: int = 3) -> Subject:
    return subject_of(small_model(seed), "mu", image_size=(24, 40))


def bench_of(folder, method="", options=None, kind="masks", **changed) -> Bench:
    given = {
        "subject": small_subject(),
        "train": pictures(23, 0),
        "val": pictures(11, 1),
        "layer": 2,
        "place": "block",
        "task": "made up",
        "method": method,
        "options": options or {},
        "kind": kind,
        "cache": FeatureCache(folder),
    }
    return Bench(**given | changed)
