"""Small data sets in the official layouts, for the tests of data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

NUM_LABEL_BYTES = {"cifar10": 1, "cifar100": 2}


def write_cifar(folder: Path, name: str, *, num_classes: int, num_per_file: int) -> None:
    """A CIFAR of random pixels whose labels go round the classes."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(3)
    if name == "cifar10":
        files = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
        names = folder / "batches.meta.txt"
    else:
        files = ["train.bin", "test.bin"]
        names = folder / "fine_label_names.txt"
    names.write_text("".join(f"class{number}\n" for number in range(num_classes)) + "\n")
    for file in files:
        records = random.integers(
            0, 256, (num_per_file, NUM_LABEL_BYTES[name] + 3072), dtype=np.uint8
        )
        records[:, NUM_LABEL_BYTES[name] - 1] = np.arange(num_per_file) % num_classes
        (folder / file).write_bytes(records.tobytes())


def write_image(
    path: Path, size: tuple[int, int] = (13, 11), mode: str = "RGB", seed: int = 0
) -> None:
    """Random pixels of that width and height."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).convert(mode).save(path)


def write_tiny_imagenet(folder: Path) -> None:
    """Three classes with two images each; four annotated images, one of them grey."""
    wnids = ("n03", "n01", "n02")
    for number, wnid in enumerate(wnids):
        for index in range(2):
            path = folder / "train" / wnid / "images" / f"{wnid}_{index}.JPEG"
            write_image(path, (64, 64), seed=10 * number + index)
        (folder / "train" / wnid / f"{wnid}_boxes.txt").write_text("")
    lines = []
    for number, wnid in enumerate(("n02", "n03", "n01", "n02")):
        write_image(
            folder / "val" / "images" / f"val_{number}.JPEG",
            (64, 64),
            mode="L" if number == 1 else "RGB",
            seed=100 + number,
        )
        lines.append(f"val_{number}.JPEG\t{wnid}\t0\t0\t62\t62\n")
    (folder / "val" / "val_annotations.txt").write_text("".join(lines))
    (folder / "wnids.txt").write_text("\n".join(wnids))


def write_coloured_folder(root: Path) -> None:
    """3 classes of 16 x 16 pixels, told apart by colour: 41 training and 11 test images each."""
    random = np.random.RandomState(7)
    for split, count in (("train", 41), ("test", 11)):
        for label in range(3):
            folder = root / split / f"class{label}"
            folder.mkdir(parents=True)
            for index in range(count):
                pixels = random.randint(0, 256, (16, 16, 3))
                pixels[..., label] = np.minimum(255, pixels[..., label] + 60)
                Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{index}.png")
