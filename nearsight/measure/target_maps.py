"""One image seen by several models, named ones or runs: the maps of each, ready to be drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from torch import nn

from nearsight.data.pictures import read_picture
from nearsight.data.preprocessing import Preprocessing
from nearsight.measure.image_maps import (
    AttentionMaps,
    Patch,
    chosen_maps,
    layer_attention,
    same_places,
)
from nearsight.measure.model_folder import KIND, check_fit
from nearsight.measure.target import sides
from nearsight.models.named import named_model
from nearsight.models.registry import check_name, split_name
from nearsight.run import RECORD, load_run, read_record, run_name

ANY = Preprocessing("any", None, None)


@dataclass(frozen=True)
class TargetMaps:
    """What one model made of the image: the pixels it saw, and where it looked."""

    name: str
    pixels: UInt8[np.ndarray, "h w 3"]
    maps: AttentionMaps


@dataclass(frozen=True)
class Viewer:
    """A model in evaluation mode, and what an image goes through before it."""

    name: str
    model: nn.Module
    preprocessing: Preprocessing


def target_maps(
    targets: Sequence[str],
    image: Path,
    patches: Sequence[Patch] | None = None,
    layer: int | None = None,
    head: int | None = None,
    *,
    weights: Sequence[Path] = (),
    pretrained: bool = False,
    random_init: bool = False,
    image_size: str | None = None,
    device: str = "cpu",
) -> list[TargetMaps]:
    """Where the class token and ``patches`` of an image file look, in every target.

    A target is a run folder or a model by name. ``patches``, ``layer`` and ``head`` are those of
    ``attention_maps``. The patches are those of the first target's grid; in a target of another
    grid the patch at the same place of the image it sees stands for them. ``weights`` go to the
    models that need them, in order; further ones take ``pretrained`` or ``random_init``.
    """
    image = Path(image)
    _check_file(image)
    viewers = _viewers(targets, weights, pretrained, random_init, image_size)
    found: list[TargetMaps] = []
    for viewer in viewers:
        steps, model = viewer.preprocessing, viewer.model.to(device)
        pixels, _ = read_picture(image.parent, image.name, steps)
        check_fit(model, pixels.shape[1:], viewer.name, device)
        normal = steps.normalised(torch.from_numpy(pixels.copy())[None].to(device))[0]
        attention = layer_attention(model, normal, layer)
        wanted = patches
        if found:
            first = found[0].maps
            wanted = same_places(first.patches, first.grid, attention.layout.grid)
        maps = chosen_maps(attention, wanted, head)
        found.append(TargetMaps(viewer.name, pixels.transpose(1, 2, 0), maps))
    return found


def _check_file(image: Path) -> None:
    """Before a model is built: an image that is there and can be read."""
    if not image.is_file():
        what = "a folder" if image.is_dir() else "no such file"
        raise ValueError(f"expected an image file, but {image} is {what}")
    read_picture(image.parent, image.name, ANY)


def _viewers(
    targets: Sequence[str],
    weights: Sequence[Path],
    pretrained: bool,
    random_init: bool,
    image_size: str | None,
) -> list[Viewer]:
    """The models of all targets, told apart by their names."""
    if not targets:
        raise ValueError("expected at least one run folder or model, got none")
    runs = [target for target in targets if (Path(target) / RECORD).is_file()]
    others = [target for target in targets if target not in runs]
    for target in others:
        try:
            check_name(target)
        except ValueError as error:
            raise ValueError(f"expected a run folder with {RECORD} or a model; {error}") from error
    needy = [target for target in others if split_name(target)[0] != "hf"]
    if len(weights) > len(needy):
        raise ValueError(
            f"expected at most {len(needy)} files of weights, one per model that needs them, "
            f"got {len(weights)}; runs and models of hf/ have their own"
        )
    if image_size is not None and runs:
        raise ValueError(
            f"{runs[0]} is a run, which has its own image size: leave out --image-size"
        )
    size = None if image_size is None else sides(image_size)
    files = iter(weights)
    viewers: list[Viewer] = []
    for target in targets:
        if target in runs:
            viewers.append(_of_run(target))
            continue
        file = next(files, None) if target in needy else None
        own = file is not None or target not in needy
        named = named_model(
            target, file, pretrained and not own, random_init and not own, image_size=size
        )
        detail = file.name if file else named.weights
        name = target if targets.count(target) == 1 else f"{target}, {detail}"
        viewers.append(Viewer(name, named.model, named.preprocessing))
    names = [viewer.name for viewer in viewers]
    return [
        replace(x, name=target) if target in runs and names.count(x.name) > 1 else x
        for x, target in zip(viewers, targets)
    ]


def _of_run(target: str) -> Viewer:
    """A run: its best weights; the image becomes a middle crop of the size the model takes."""
    record = read_record(Path(target))
    if record.get("kind") == KIND:
        raise ValueError(
            f"{target} holds the measurement of {record['model']['name']}, not the model; "
            "give its name and weights"
        )
    run = load_run(target)
    data = record["data"]
    size = run.transform.image_size
    steps = Preprocessing(
        "the run's own", size, size, mean=tuple(data["mean"]), std=tuple(data["std"])
    )
    return Viewer(run_name(record), run.model, steps)
