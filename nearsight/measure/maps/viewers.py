"""Run several models, by name or from runs, on the same images and return the maps of each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.data.input import Preprocessing, chosen_pictures, find_pictures, read_picture
from nearsight.measure.folders import check_fit, parse_image_size
from nearsight.measure.localise import localise as localise_model
from nearsight.measure.localise import read_locality
from nearsight.measure.maps.image_maps import (
    DEFAULT_PLACES,
    MIDDLE,
    AttentionMaps,
    Patch,
    chosen_maps,
    default_patches,
    layer_attention,
    same_places,
)
from nearsight.models.load import check_name, named_model, split_name
from nearsight.protocol import UNTRAINED
from nearsight.runs import RECORD, load_run, read_record
from nearsight.runs.records import MeasuredModel

ANY = Preprocessing("any", None, None)  # to check only that an image can be read
NUM_IMAGES = 100  # images of a folder by default, as in the paper; all if there are fewer
BATCH_SIZE = 8


@dataclass(frozen=True)
class TargetMaps:
    """The mean of the images as one model saw them, and where the model attended."""

    name: str
    pixels: UInt8[np.ndarray, "h w 3"]
    maps: tuple[AttentionMaps, ...]  # the mean over heads, one head, or every head


@dataclass(frozen=True)
class Viewer:
    """A model in evaluation mode and the preprocessing of its images."""

    name: str
    model: nn.Module
    preprocessing: Preprocessing


@dataclass
class Pictures:
    """Batches of a model's input from image files, whose pixels are summed up in ``total``."""

    folder: Path
    names: Sequence[str]
    preprocessing: Preprocessing
    device: str
    total: np.ndarray = field(default_factory=lambda: np.zeros(1))

    def __iter__(self) -> Iterator[Tensor]:
        self.total = np.zeros(1)
        for start in range(0, len(self.names), BATCH_SIZE):
            batch = [
                read_picture(self.folder, name, self.preprocessing)[0]
                for name in self.names[start : start + BATCH_SIZE]
            ]
            self.total = self.total + np.sum(batch, axis=0, dtype=np.float64)
            yield self.preprocessing.normalise(torch.from_numpy(np.stack(batch)).to(self.device))

    @property
    def mean(self) -> UInt8[np.ndarray, "h w 3"]:
        """The mean of the images, after they have been iterated over."""
        return np.rint(self.total / len(self.names)).astype(np.uint8).transpose(1, 2, 0)


def target_maps(
    targets: Sequence[str],
    image: Path | None,
    patches: Sequence[Patch] | None = None,
    layer: int | None = None,
    head: int | Literal["all"] | None = None,
    *,
    images: Path | None = None,
    num_images: int | None = None,
    weights: Sequence[Path] = (),
    pretrained: bool = False,
    random_init: bool = False,
    image_size: str | None = None,
    localise: str | None = None,
    device: str = "cpu",
) -> list[TargetMaps]:
    """Return where the class token and some patches attend in an image, for several models.

    With a folder of images instead of one image, attention is averaged over images. The patches are
    those of the first target's grid. For a target with another grid, they are replaced by the
    patches at the same positions of the image as that target sees it.

    Args:
        targets: Run folders, or names of models.
        image: An image file.
        patches: As for ``attention_maps``.
        layer: As for ``attention_maps``.
        head: As for ``attention_maps``; "all" returns every head, by default for the middle patch.
        images: A folder of images instead of ``image``.
        num_images: How many images of the folder to use, chosen by a fixed seed; by default 100, or
            all if there are fewer.
        weights: Files of weights for the named models, in their order.
        pretrained: Load pretrained weights into models without a file.
        random_init: Leave models without a file at random initialisation.
        image_size: Image size of named models, as N or HxW.
        localise: A locality such as ``gaussian:1@last3``. Every target is shown a second time with
            its attention made local.
        device: Where to run the models.

    Raises:
        UserError: If an option does not fit the targets, or a file cannot be read.
    """
    localities = [None] if localise is None else [None, read_locality(localise)]
    folder, names = _files(image, images, num_images)
    seen_by = viewers(targets, weights, pretrained, random_init, image_size)
    results: list[TargetMaps] = []
    for viewer, locality in itertools.product(seen_by, localities):
        pictures = Pictures(folder, names, viewer.preprocessing, device)
        model = viewer.model.to(device)
        height, width = read_picture(folder, names[0], viewer.preprocessing)[0].shape[1:]
        check_fit(model, (height, width), viewer.name, device)
        name = viewer.name if locality is None else f"{viewer.name} {locality}"
        localise_model(model, locality, image_size=(height, width))
        attention = layer_attention(model, pictures, layer)
        grid, wanted = attention.layout.grid, patches
        if results:
            first = results[0].maps[0]
            wanted = same_places(first.patches, first.grid, grid)
        elif patches is None:
            wanted = default_patches(grid, MIDDLE if head == "all" else DEFAULT_PLACES)
        heads = range(len(attention.weights)) if head == "all" else (head,)
        maps = tuple(chosen_maps(attention, wanted, each) for each in heads)
        results.append(TargetMaps(name, pictures.mean, maps))
    return results


def _files(
    image: Path | None, images: Path | None, num_images: int | None
) -> tuple[Path, Sequence[str]]:
    """Check the options and return a folder and the names of the images in it.

    A single image is read already here, so that a mistake is reported before a model is built.
    """
    if (image is None) == (images is None):
        number = "neither is" if image is None else "both are"
        raise UserError(f"give either --image FILE or --images FOLDER; {number} given")
    if images is not None:
        names, _ = find_pictures(Path(images))
        few = min(NUM_IMAGES, len(names)) if num_images is None else num_images
        return Path(images), chosen_pictures(names, few, Path(images))
    if num_images is not None:
        raise UserError("--num-images needs a folder (--images), but --image is given")
    image = Path(image or "")
    if not image.is_file():
        raise UserError(
            f"--image is {image}, which is a folder; use --images for a folder"
            if image.is_dir()
            else f"--image is {image}, but there is no such file"
        )
    read_picture(image.parent, image.name, ANY)
    return image.parent, [image.name]


def viewers(
    targets: Sequence[str],
    weights: Sequence[Path],
    pretrained: bool,
    random_init: bool,
    image_size: str | None,
) -> list[Viewer]:
    """Return the models of all targets, with distinct names.

    Args:
        targets: Run folders, or names of models.
        weights: Files of weights for the named models, in their order.
        pretrained: Load pretrained weights into models without a file.
        random_init: Leave models without a file at random initialisation.
        image_size: Image size of named models, as N or HxW.

    Raises:
        UserError: If a target is unknown, or an option does not fit the targets.
    """
    if not targets:
        raise UserError("give at least one run folder or model")
    runs = [target for target in targets if (Path(target) / RECORD).is_file()]
    others = [target for target in targets if target not in runs]
    for target in others:
        try:
            check_name(target)
        except ValueError as error:
            raise UserError(
                f"{target} is neither a run folder with {RECORD} nor a model: {error}"
            ) from error
    needy = [target for target in others if split_name(target)[0] != "hf"]
    if len(weights) > len(needy):
        raise UserError(
            f"--weights is given {len(weights)} times, but only {len(needy)} of the targets take "
            "weights from a file (runs and models of hf/ have their own); give one file for each"
        )
    if image_size is not None and runs:
        raise UserError(f"{runs[0]} is a run with its own image size; leave out --image-size")
    size = None if image_size is None else parse_image_size(image_size)
    files = iter(weights)
    result: list[Viewer] = []
    for target in targets:
        if target in runs:
            result.append(run_viewer(target))
            continue
        file = next(files, None) if target in needy else None
        own = file is not None or target not in needy
        named = named_model(
            target, file, pretrained and not own, random_init and not own, image_size=size
        )
        detail = file.name if file else named.weights
        label = target + UNTRAINED * (named.weights == "random initialisation")
        name = label if targets.count(target) == 1 else f"{target}, {detail}"
        result.append(Viewer(name, named.model, named.preprocessing))
    names = [viewer.name for viewer in result]
    return [
        replace(x, name=target) if target in runs and names.count(x.name) > 1 else x
        for x, target in zip(result, targets)
    ]


def run_viewer(target: str) -> Viewer:
    """Return a run with its best weights. Images are resized and cropped to the run's size.

    Raises:
        UserError: If the folder holds a measurement of a model instead of a run.
    """
    record = read_record(Path(target))
    if isinstance(record, MeasuredModel):
        raise UserError(
            f"{target} holds the measurement of {record.model.name}, not the model itself; "
            "give the model's name and weights instead"
        )
    run = load_run(target)
    data = record.data
    size = run.transform.image_size
    steps = Preprocessing("the run's own", size, size, mean=data.mean, std=data.std)
    return Viewer(record.name, run.model, steps)
