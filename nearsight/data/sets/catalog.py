"""List the data sets by name, find them on the disk, and load them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nearsight.core import UserError, closest, expand_path
from nearsight.data.sets.cache import Decoding, load_decoded
from nearsight.data.sets.cifar import CIFAR10, CIFAR100
from nearsight.data.sets.dataset import Dataset
from nearsight.data.sets.identity import (
    REGISTERED,
    Registration,
    check_registered,
    identify,
    published_sets,
    register,
    registrations,
)
from nearsight.data.sets.image_files import DEFAULT_SIZE, MOST_DECODED
from nearsight.data.sets.image_folder import image_folder, open_undecoded
from nearsight.data.sets.shapes import SHAPES
from nearsight.data.sets.sources import Archive, NamedSet, origin_of
from nearsight.data.sets.tiny_imagenet import TINY_IMAGENET

if TYPE_CHECKING:
    from nearsight.protocol import DataSettings

# Every data set by name. To add one, write a module that makes a NamedSet, and add a line here.
SETS: dict[str, NamedSet] = {
    "cifar10": CIFAR10,
    "cifar100": CIFAR100,
    "tiny-imagenet": TINY_IMAGENET,
    "shapes": SHAPES,
}
FOLDER_PREFIX = "folder:"


def data_root(given: Path | None = None) -> Path:
    """Return the folder of data sets: the one given, $NEARSIGHT_DATA or ~/.cache/nearsight/data."""
    if given is not None:
        return Path(given)
    named = os.environ.get("NEARSIGHT_DATA")
    return Path(named) if named else Path.home() / ".cache" / "nearsight" / "data"


def dataset_name(text: str, root: Path | None = None) -> str:
    """Return the full name of a data set from what a user typed: a name or the path of a folder.

    A name that the user gave to a folder is replaced by the path of the folder, because presets
    have values for image folders but not for that name.

    Raises:
        UserError: If the name is unknown, or belongs to a published set that is not registered.
    """
    registered = registrations(data_root(root))
    if text in SETS or text.startswith(FOLDER_PREFIX):
        return text
    if text in registered:
        made_up = text not in published_sets()
        return f"{FOLDER_PREFIX}{registered[text].folder}" if made_up else text
    if "/" in text or Path(text).is_dir():
        return f"{FOLDER_PREFIX}{expand_path(text).resolve()}"
    if text in published_sets():
        raise UserError(
            f"{text} is not registered in {data_root(root)}: "
            f"run `nearsight data register {text} DIR`, where DIR is the folder that holds it"
        )
    known = (*SETS, *registered)
    near = closest(text, known, cutoff=0.4) or known
    raise UserError(
        f"unknown data set {text!r}; did you mean {' or '.join(near)}? "
        "Give an image folder by its path"
    )


def load_dataset(
    settings: DataSettings | str, root: Path | None = None, again: bool = False
) -> Dataset:
    """Load a data set. It is decoded at the first use and memory-mapped from then on.

    Args:
        settings: The name of a data set ("shapes", "cifar100"), the path of an image folder, or the
            settings of a protocol.
        root: The folder of data sets; by default $NEARSIGHT_DATA or ~/.cache/nearsight/data.
        again: Decode the files again even if the cache has them.

    Returns:
        A ``Dataset``: ``train`` and ``test`` with ``images`` (uint8 [n, 3, h, w]) and ``labels``,
        the names of the ``classes``, and ``mean`` and ``std`` of the training images per channel (0
        to 1).

    Raises:
        UserError: If the data set is missing or damaged.

    >>> shapes = load_dataset("shapes")
    >>> shapes.train.images.shape, shapes.classes[1]
    ((12000, 3, 32, 32), 'striped disc')
    """
    if isinstance(settings, str):
        from nearsight.protocol import DataSettings

        settings = DataSettings(name=settings)
    root = data_root(root)
    name = dataset_name(settings.name, root)
    if name in SETS:
        whole = load_decoded(_decoding(name, settings, root), root, again)
        return whole if settings.classes is None else whole.of_first_classes(settings.classes)
    if name.startswith(FOLDER_PREFIX):
        folder = expand_path(name.removeprefix(FOLDER_PREFIX))
        identity, images = identify(folder, root)
    else:
        identity = registrations(root)[name]
        images = check_registered(identity)
    if settings.classes is not None:
        images = images.of_first_classes(settings.classes)
    keep = len(images.train) <= MOST_DECODED if settings.decoded is None else settings.decoded
    if keep:
        decoding = image_folder(images, settings.image_size, settings.skip_corrupt)
        dataset = load_decoded(decoding, root, again)
    else:
        dataset = open_undecoded(images, settings.image_size or DEFAULT_SIZE)
    if identity is None:
        return dataset
    return replace(dataset, name=identity.name, origin=REGISTERED, identity=identity.identity)


def register_dataset(name: str, folder: Path, root: Path | None = None) -> Registration:
    """Give a folder of images a name, which finds it and is recorded in runs from then on."""
    return register(name, folder, data_root(root), tuple(SETS))


def _decoding(name: str, settings: DataSettings, root: Path) -> Decoding:
    stored, wanted = SETS[name].image_size, settings.image_size
    if stored is not None and wanted is not None and wanted < stored:
        raise UserError(
            f"data.image_size is {wanted}, which is smaller than the images of {name} ({stored} x "
            f"{stored} pixels); set model.image_size to resize the model's input instead"
        )
    if SETS[name].source is None:
        return SETS[name].decode(root, settings.skip_corrupt)
    return describe_decoding(name, find_folder(name, root), settings.skip_corrupt)


def describe_decoding(name: str, folder: Path, skip_corrupt: bool = False) -> Decoding:
    """Describe how to decode an unpacked official data set.

    Raises:
        UserError: If a file of the data set is missing or damaged.
    """
    source = source_of(name)
    decoding = SETS[name].decode(folder, skip_corrupt)
    return replace(decoding, origin=lambda: origin_of(folder, source))


def sources() -> dict[str, Archive]:
    """Return the official archives of the data sets that have one, by name."""
    return {name: each.source for name, each in SETS.items() if each.source is not None}


def source_of(name: str) -> Archive:
    """Return the official archive of a data set that has one."""
    source = SETS[name].source
    assert source is not None
    return source


def find_folder(name: str, root: Path) -> Path:
    """Return the unpacked folder of a data set, or raise UserError if there is none."""
    source = source_of(name)
    folder = root / source.folder
    if not folder.is_dir():
        raise UserError(
            f"there is no {name} in {root}; run `nearsight data fetch {name}`, "
            f"or give the folder that contains {source.folder} with --data-root"
        )
    return folder


@dataclass(frozen=True)
class ListedSet:
    """A line of ``nearsight data list``."""

    name: str
    state: str  # "ready", "registered", "missing" or "built in"
    place: str  # its folder, or how to get it


def list_datasets(root: Path | None = None) -> list[ListedSet]:
    """List every data set that is known by name, and whether it is available."""
    rows = []
    for name, each in SETS.items():
        if each.source is None:
            rows.append(ListedSet(name, "built in", "generated on first use"))
            continue
        folder = data_root(root) / each.source.folder
        ready = folder.is_dir()
        place = str(folder) if ready else f"nearsight data fetch {name}"
        rows.append(ListedSet(name, "ready" if ready else "missing", place))
    for name, given in registrations(data_root(root)).items():
        ready = Path(given.folder).is_dir()
        rows.append(ListedSet(name, REGISTERED if ready else "missing", given.folder))
    return rows


@dataclass(frozen=True)
class Report:
    """The result of ``nearsight data check``."""

    name: str
    verdict: str  # the value of Dataset.origin
    hash: str
    num_train: int
    num_test: int
    num_classes: int
    notes: tuple[str, ...]


def check_dataset(name: str, root: Path | None = None) -> Report:
    """Read all files of a data set, and compare them with the official ones.

    Raises:
        UserError: If a file is missing or damaged.
    """
    from nearsight.protocol import DataSettings

    dataset = load_dataset(DataSettings(name=name), root, again=True)
    verdict = dataset.origin
    if name in sources():
        verdict = origin_of(find_folder(name, data_root(root)), source_of(name))
    return Report(
        name=dataset.name,
        verdict=verdict,
        hash=dataset.hash,
        num_train=len(dataset.train),
        num_test=len(dataset.test),
        num_classes=len(dataset.classes),
        notes=dataset.notes,
    )
