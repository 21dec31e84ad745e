"""Images seen by several models, named ones or runs: the maps of each, ready to be drawn."""

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
from nearsight.measure.folders import check_fit, sides
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
from nearsight.runs import RECORD, load_run, read_record
from nearsight.runs.records import MeasuredModel

ANY = Preprocessing("any", None, None)
NUM_IMAGES = 100  # the paper's, or all there are
BATCH_SIZE = 8


@dataclass(frozen=True)
class TargetMaps:
    """What one model made of the images: their mean as it saw them, and where it looked."""

    name: str
    pixels: UInt8[np.ndarray, "h w 3"]
    maps: tuple[AttentionMaps, ...]  # the mean over heads, one head, or every head


@dataclass(frozen=True)
class Viewer:
    """A model in evaluation mode, and what an image goes through before it."""

    name: str
    model: nn.Module
    preprocessing: Preprocessing


@dataclass
class Pictures:
    """Image files as batches of a model's input; ``total`` sums up the pixels that went by."""

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
            yield self.preprocessing.normalised(torch.from_numpy(np.stack(batch)).to(self.device))

    @property
    def mean(self) -> UInt8[np.ndarray, "h w 3"]:
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
    """Where the class token and ``patches`` of an image file look, in every target.

    A target is a run folder or a model by name. ``patches``, ``layer`` and ``head`` are those of
    ``attention_maps``; ``head="all"`` gives every head, by default for the patch in the middle.
    With a folder of ``images`` instead of an image attention is averaged over ``num_images`` of
    them, min(100, all) by default, chosen by a fixed seed. The patches are those of the first
    target's grid; in a target of another grid the patch at the same place of the image it sees
    stands for them. ``weights`` go to the models that need them, in order; further ones take
    ``pretrained`` or ``random_init``. With ``localise``, such as ``gaussian:1@last3``, every target
    is followed by itself with local attention.
    """
    localities = [None] if localise is None else [None, read_locality(localise)]
    folder, names = _files(image, images, num_images)
    seen_by = viewers(targets, weights, pretrained, random_init, image_size)
    found: list[TargetMaps] = []
    for viewer, locality in itertools.product(seen_by, localities):
        pictures = Pictures(folder, names, viewer.preprocessing, device)
        model = viewer.model.to(device)
        height, width = read_picture(folder, names[0], viewer.preprocessing)[0].shape[1:]
        check_fit(model, (height, width), viewer.name, device)
        name = viewer.name if locality is None else f"{viewer.name} {locality}"
        localise_model(model, locality, image_size=(height, width))
        attention = layer_attention(model, pictures, layer)
        grid, wanted = attention.layout.grid, patches
        if found:
            first = found[0].maps[0]
            wanted = same_places(first.patches, first.grid, grid)
        elif patches is None:
            wanted = default_patches(grid, MIDDLE if head == "all" else DEFAULT_PLACES)
        heads = range(len(attention.weights)) if head == "all" else (head,)
        maps = tuple(chosen_maps(attention, wanted, each) for each in heads)
        found.append(TargetMaps(name, pictures.mean, maps))
    return found


def _files(
    image: Path | None, images: Path | None, num_images: int | None
) -> tuple[Path, Sequence[str]]:
    """Before a model is built: a folder and the images in it to look at, of which one is read."""
    if (image is None) == (images is None):
        given = "none" if image is None else "both"
        raise UserError(f"expected an image (--image) or a folder of them (--images), got {given}")
    if images is not None:
        names, _ = find_pictures(Path(images))
        few = min(NUM_IMAGES, len(names)) if num_images is None else num_images
        return Path(images), chosen_pictures(names, few, Path(images))
    if num_images is not None:
        raise UserError("expected a number of images only with a folder (--images), got --image")
    image = Path(image or "")
    if not image.is_file():
        what = "a folder" if image.is_dir() else "no such file"
        raise UserError(f"expected an image file, but {image} is {what}")
    read_picture(image.parent, image.name, ANY)
    return image.parent, [image.name]


def viewers(
    targets: Sequence[str],
    weights: Sequence[Path],
    pretrained: bool,
    random_init: bool,
    image_size: str | None,
) -> list[Viewer]:
    """The models of all targets, told apart by their names."""
    if not targets:
        raise UserError("expected at least one run folder or model, got none")
    runs = [target for target in targets if (Path(target) / RECORD).is_file()]
    others = [target for target in targets if target not in runs]
    for target in others:
        try:
            check_name(target)
        except ValueError as error:
            raise UserError(f"expected a run folder with {RECORD} or a model; {error}") from error
    needy = [target for target in others if split_name(target)[0] != "hf"]
    if len(weights) > len(needy):
        raise UserError(
            f"expected at most {len(needy)} files of weights, one per model that needs them, "
            f"got {len(weights)}; runs and models of hf/ have their own"
        )
    if image_size is not None and runs:
        raise UserError(f"{runs[0]} is a run, which has its own image size: leave out --image-size")
    size = None if image_size is None else sides(image_size)
    files = iter(weights)
    found: list[Viewer] = []
    for target in targets:
        if target in runs:
            found.append(run_viewer(target))
            continue
        file = next(files, None) if target in needy else None
        own = file is not None or target not in needy
        named = named_model(
            target, file, pretrained and not own, random_init and not own, image_size=size
        )
        detail = file.name if file else named.weights
        name = target if targets.count(target) == 1 else f"{target}, {detail}"
        found.append(Viewer(name, named.model, named.preprocessing))
    names = [viewer.name for viewer in found]
    return [
        replace(x, name=target) if target in runs and names.count(x.name) > 1 else x
        for x, target in zip(found, targets)
    ]


def run_viewer(target: str) -> Viewer:
    """A run: its best weights; the image becomes a middle crop of the size the model takes."""
    record = read_record(Path(target))
    if isinstance(record, MeasuredModel):
        raise UserError(
            f"{target} holds the measurement of {record.model.name}, not the model; "
            "give its name and weights"
        )
    run = load_run(target)
    data = record.data
    size = run.transform.image_size
    steps = Preprocessing("the run's own", size, size, mean=data.mean, std=data.std)
    return Viewer(record.name, run.model, steps)
