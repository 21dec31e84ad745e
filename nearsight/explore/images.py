"""Prepare images twice: preprocessed for a model, and as pixels to display."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from nearsight.core import UserError
from nearsight.data import draws
from nearsight.data.input import Preprocessing, chosen_pictures, find_pictures, read_picture
from nearsight.data.sets import as_rgb
from nearsight.measure.capture import inner_model
from nearsight.models.load import own_preprocessing

if TYPE_CHECKING:
    from torch import nn

    from nearsight.data.sets import Dataset
    from nearsight.runs import LoadedRun

NUM_MEASURED = 16  # images on which heads are measured if there is no measurement yet


@dataclass(frozen=True)
class Images:
    """The same images preprocessed for a model and as pixels to display."""

    names: Sequence[str]
    inputs: Tensor  # float [n, 3, h, w], normalised
    pixels: Sequence[np.ndarray]  # uint8 [h, w, 3]


def given_images(
    model: nn.Module,
    images: Any,
    names: Sequence[str] | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Images:
    """Prepare the images passed to ``explore``: a tensor, a folder, or files and PIL images."""
    steps = model_preprocessing(model)
    if isinstance(images, Tensor):
        return _of_tensor(images, names, mean or steps.mean, std or steps.std)
    if isinstance(images, (str, Path)):
        return file_images(Path(images), folder_names(Path(images)), steps)
    if not images:
        raise UserError("there are no images to show; pass at least one image")
    found = [_one(image, number, steps) for number, image in enumerate(images, 1)]
    return _of_pixels([x for _, x in found], names or [name for name, _ in found], steps)


def folder_names(folder: Path, num: int = NUM_MEASURED) -> list[str]:
    """Choose images of a folder at random with a fixed seed, the same for every model."""
    names, _ = find_pictures(folder)
    return names if len(names) <= num else chosen_pictures(names, num, folder)


def file_images(folder: Path, names: Sequence[str], steps: Preprocessing) -> Images:
    """Read image files and preprocess them for a model."""
    return _of_pixels([read_picture(folder, name, steps)[0] for name in names], names, steps)


def picture_image(picture: Image.Image, name: str, steps: Preprocessing) -> Images:
    """Preprocess one opened image for a model."""
    return _of_pixels([_pixels(picture, steps)], [name], steps)


def run_images(run: LoadedRun, dataset: Dataset, num: int) -> Images:
    """Choose test images of a run's data set, the same for every run on this data set."""
    images, labels = dataset.test.images, dataset.test.labels
    chosen = draws.sample("explored images", 0, length=len(images), num=min(num, len(images)))
    pixels = images[chosen.numpy()]
    names = [f"test {i}, {dataset.classes[labels[i]]}" for i in chosen.tolist()]
    inputs = run.transform(torch.from_numpy(pixels))
    return Images(names, inputs, [x.transpose(1, 2, 0) for x in pixels])


def shown_pixels(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> list[np.ndarray]:
    """Undo the normalisation of images, so that they can be displayed.

    >>> shown_pixels(torch.zeros(1, 3, 1, 1), (0.2, 0.4, 0.6), (1, 1, 1))[0].tolist()
    [[[51, 102, 153]]]
    """
    wide = images.detach().double().cpu()
    centre, spread = (torch.tensor(x).double().reshape(3, 1, 1) for x in (mean, std))
    pixels = (wide * spread + centre).mul(255).round().clamp(0, 255).byte()
    return list(pixels.permute(0, 2, 3, 1).numpy())


def model_preprocessing(model: nn.Module) -> Preprocessing:
    """Return the preprocessing of a model's configuration, or ImageNet's if it has none."""
    inner: Any = inner_model(model)
    if hasattr(inner, "pretrained_cfg"):
        return own_preprocessing("timm", type(inner).__name__, inner)
    size = getattr(inner, "image_size", 224)
    pair = (size, size) if isinstance(size, int) else tuple(size)
    return Preprocessing("ImageNet's mean and deviation (the model names none)", pair, pair)


def _of_tensor(
    images: Tensor, names: Sequence[str] | None, mean: Sequence[float], std: Sequence[float]
) -> Images:
    if images.ndim != 4 or images.shape[1] != 3 or not images.is_floating_point():
        raise UserError(
            f"images must be normalised floats of shape [n, 3, h, w], but they are {images.dtype} "
            f"{list(images.shape)}"
        )
    numbered = [f"image {number}" for number in range(1, len(images) + 1)]
    return Images(names or numbered, images, shown_pixels(images, mean, std))


def _of_pixels(pixels: Sequence[np.ndarray], names: Sequence[str], steps: Preprocessing) -> Images:
    inputs = steps.normalise(torch.from_numpy(np.stack(pixels)))
    return Images(list(names), inputs, [x.transpose(1, 2, 0) for x in pixels])


def _one(image: Any, number: int, steps: Preprocessing) -> tuple[str, np.ndarray]:
    """Return the name and the pixels [3, h, w] of an image file or a PIL image."""
    if isinstance(image, Image.Image):
        return f"image {number}", _pixels(image, steps)
    path = Path(image)
    return path.name, read_picture(path.parent, path.name, steps)[0]


def _pixels(picture: Image.Image, steps: Preprocessing) -> np.ndarray:
    return steps.pixels(as_rgb(picture))
