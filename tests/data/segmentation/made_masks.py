"""Small segmentation sets in the official layouts; the masks are drawn from the seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from made_data import write_image
from PIL import Image

SIZE = (13, 7)  # width and height


def write_mask(path: Path, values: np.ndarray, mode: str = "L") -> None:
    """Label values as a grey image, or with a palette, as PASCAL VOC has them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(values.astype(np.uint8))
    if mode == "P":
        image.putpalette([value for number in range(256) for value in (number, 3, 5)])
    image.save(path)


def drawn_values(values: Sequence[int], seed: int) -> np.ndarray:
    """A mask of ``SIZE`` that contains every one of the values."""
    drawn = np.random.default_rng(seed).choice(np.array(values), SIZE[0] * SIZE[1])
    drawn[: len(values)] = values
    return drawn.reshape(SIZE[1], SIZE[0])


def write_voc(root: Path) -> dict[str, np.ndarray]:
    """Two training images and one of val; returns the masks by name."""
    folder = root / "VOCdevkit" / "VOC2012"
    masks = {}
    for split, names in {"train": ["2007_31", "2007_29"], "val": ["2008_37"]}.items():
        lists = folder / "ImageSets" / "Segmentation"
        lists.mkdir(parents=True, exist_ok=True)
        (lists / f"{split}.txt").write_text("".join(f"{name}\n" for name in names) + "\n")
        for name in names:
            masks[name] = drawn_values([0, 3, 20, 255], seed=len(masks))
            write_image(folder / "JPEGImages" / f"{name}.jpg", SIZE, seed=len(masks))
            write_mask(folder / "SegmentationClass" / f"{name}.png", masks[name], "P")
    return masks


def write_folder(root: Path, names: Sequence[str] = ("a", "b")) -> dict[str, np.ndarray]:
    """A folder with the splits train and val of the same images and masks; values 0 to 4, 255."""
    masks = {}
    for number, name in enumerate(names):
        masks[name] = drawn_values([0, 2, 4, 255], seed=number)
        for split in ("train", "val"):
            write_image(root / split / "images" / f"{name}.png", SIZE, seed=number)
            write_mask(root / split / "masks" / f"{name}.png", masks[name])
    return masks
