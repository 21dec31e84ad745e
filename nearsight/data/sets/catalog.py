"""The data sets by name: where they are looked for, and how they are loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nearsight.core import UserError, closest
from nearsight.data.sets.cache import Decoding, decoded
from nearsight.data.sets.cifar import LAYOUTS, cifar
from nearsight.data.sets.dataset import Dataset
from nearsight.data.sets.sources import SOURCES, origin_of
from nearsight.data.sets.tiny_imagenet import tiny_imagenet

if TYPE_CHECKING:
    from nearsight.protocol import DataSettings

NAMES = (*SOURCES, "shapes")
FOLDER_PREFIX = "folder:"


def data_root(given: Path | None = None) -> Path:
    """Where data sets are: as given, else $NEARSIGHT_DATA, else ~/.cache/nearsight/data."""
    if given is not None:
        return Path(given)
    named = os.environ.get("NEARSIGHT_DATA")
    return Path(named) if named else Path.home() / ".cache" / "nearsight" / "data"


def dataset_name(text: str) -> str:
    """A data set's name from what a user typed: a known name, or the path of an image folder."""
    if text in NAMES or text.startswith(FOLDER_PREFIX):
        return text
    if "/" in text or Path(text).is_dir():
        return f"{FOLDER_PREFIX}{Path(text).expanduser().resolve()}"
    near = closest(text, NAMES, cutoff=0.4) or NAMES
    raise UserError(
        f"unknown data set {text!r}: did you mean {' or '.join(near)}? "
        "An image folder is given by its path"
    )


def load_dataset(settings: DataSettings, root: Path | None = None) -> Dataset:
    """The decoded data set; UserError says what to do when it is missing or damaged."""
    return decoded(_decoding(settings, data_root(root)), data_root(root))


def _decoding(settings: DataSettings, root: Path) -> Decoding:
    name = dataset_name(settings.name)
    if name.startswith(FOLDER_PREFIX):
        from nearsight.data.sets.image_folder import image_folder

        folder = Path(name.removeprefix(FOLDER_PREFIX)).expanduser()
        return image_folder(folder, settings.image_size, settings.skip_corrupt)
    image_size = SOURCES[name].image_size if name in SOURCES else 32
    if settings.image_size not in (None, image_size):
        raise UserError(
            f"data.image_size={settings.image_size} is for image folders, {name} has "
            f"{image_size} x {image_size} pixels; set model.image_size to resize the model's input"
        )
    if name == "shapes":
        from nearsight.data.sets.shapes import shapes

        return shapes()
    return described(name, found_folder(name, root), settings.skip_corrupt)


def described(name: str, folder: Path, skip_corrupt: bool = False) -> Decoding:
    """How to decode an unpacked official data set; UserError if it is not structured as one."""
    if name in LAYOUTS:
        return cifar(name, folder)
    return tiny_imagenet(folder, skip_corrupt)


def found_folder(name: str, root: Path) -> Path:
    """The unpacked folder of ``name``; UserError if there is none."""
    folder = root / SOURCES[name].folder
    if not folder.is_dir():
        raise UserError(
            f"there is no {name} in {root}: run `nearsight data fetch {name}`, "
            f"or give the folder that holds {SOURCES[name].folder} with --data-root"
        )
    return folder


@dataclass(frozen=True)
class Row:
    """A line of ``nearsight data list``."""

    name: str
    state: str  # "ready", "missing" or "built in"
    place: str  # its folder, or how to get it


def list_datasets(root: Path | None = None) -> list[Row]:
    """Every data set known by name, and whether it is there."""
    rows = []
    for name, source in SOURCES.items():
        folder = data_root(root) / source.folder
        ready = folder.is_dir()
        place = str(folder) if ready else f"nearsight data fetch {name}"
        rows.append(Row(name, "ready" if ready else "missing", place))
    return [*rows, Row("shapes", "built in", "generated on first use")]


@dataclass(frozen=True)
class Report:
    """What ``nearsight data check`` found."""

    name: str
    verdict: str  # "official", "not the official bytes", "generated" or "folder"
    hash: str
    num_train: int
    num_test: int
    num_classes: int
    notes: tuple[str, ...]


def check_dataset(name: str, root: Path | None = None) -> Report:
    """Read all of a data set and compare it with the official files; UserError if damaged."""
    from nearsight.protocol import DataSettings

    dataset = load_dataset(DataSettings(name=name), root)
    verdict = dataset.origin
    if name in SOURCES:
        verdict = origin_of(found_folder(name, data_root(root)), name)
    return Report(
        name=dataset.name,
        verdict=verdict,
        hash=dataset.hash,
        num_train=len(dataset.train),
        num_test=len(dataset.test),
        num_classes=len(dataset.classes),
        notes=dataset.notes,
    )
