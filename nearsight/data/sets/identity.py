"""Give image folders an identity: the name that papers and claims use, and a hash of the files.

``nearsight data register NAME DIR`` writes ``<data root>/registered/NAME.json``. The folder of a
registered set is compared with this file every time it is loaded. Three names stand for published
sets (ImageNet, ImageNet-100, mini-ImageNet). A folder may have such a name only if it has the
classes (wnids) and numbers of images of that set, and such a folder is recognised even if it was
never registered.

The hash covers names and contents of all images. For a set of ImageNet's size it covers names and
sizes only, because reading every file takes hours.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from nearsight.core import UserError, expand_path, write_bytes
from nearsight.data.sets.image_folder import FolderImages, list_images
from nearsight.data.sets.sources import files_key

REGISTERED = "registered"  # the folder in the data root
NAME = re.compile(r"[a-z0-9][a-z0-9._+-]*")
MOST_READ = 100_000  # images; a larger set is hashed by names and sizes
CONTENTS, SIZES = "contents", "names and sizes"
CLASS_FILE = Path(__file__).with_name("imagenet_classes.txt")
HELP = "register it under another name, which claims about the published set will not use"


@dataclass(frozen=True)
class PublishedSet:
    """A data set that papers use: its classes, and how many images of each class a copy has."""

    name: str
    classes: tuple[str, ...]
    description: str  # of the classes, for errors
    train: tuple[int, int]  # fewest and most training images of a class
    test: tuple[int, int]
    totals: tuple[int, int] | None = None  # all training and all test images

    def problem(self, found: FolderImages) -> str | None:
        """Return the reason why a folder is not this set, or None if it is."""
        if found.classes != self.classes:
            problem = _class_problem(found.classes, self.classes)
            return f"{problem}; {self.name} has {self.description}"
        for images, split, (low, high) in (
            (found.train, "training", self.train),
            (found.test, "test", self.test),
        ):
            for wnid, number in zip(self.classes, _numbers(images, len(self.classes))):
                if not low <= number <= high:
                    wanted = f"{low}" if low == high else f"{low} to {high}"
                    return f"it has {number} {split} images of {wnid}, but {self.name} has {wanted}"
        totals = (len(found.train), len(found.test))
        if self.totals is not None and totals != self.totals:
            return (
                f"it has {totals[0]:,} training and {totals[1]:,} test images, "
                f"but {self.name} has {self.totals[0]:,} and {self.totals[1]:,}"
            )
        return None


def _class_problem(found: Sequence[str], wanted: Sequence[str]) -> str:
    if len(found) != len(wanted):
        return f"it has {len(found)} classes instead of {len(wanted)}"
    name = min(set(found) - set(wanted))
    return f"its class {name!r} is not among the {len(wanted)} classes"


def _numbers(images: Sequence[tuple[Path, int]], num_classes: int) -> list[int]:
    numbers = [0] * num_classes
    for _, label in images:
        numbers[label] += 1
    return numbers


@cache
def published_sets() -> dict[str, PublishedSet]:
    """Return the published sets by name, with the numbers of images that their authors give."""
    lines = [line.split() for line in CLASS_FILE.read_text().splitlines()]
    wnids = tuple(words[0] for words in lines)
    mini = tuple(words[0] for words in lines if "mini" in words)
    of_imagenet = {"train": (732, 1300), "test": (50, 50)}
    known_sets = (
        PublishedSet(
            name="imagenet", classes=wnids, description="the 1,000 wnids of ILSVRC 2012",
            totals=(1_281_167, 50_000), **of_imagenet,
        ),
        PublishedSet(
            name="imagenet-100", classes=wnids[:100], description="the first 100 wnids of ImageNet",
            **of_imagenet,
        ),
        PublishedSet(
            name="mini-imagenet", classes=mini, train=(480, 500), test=(50, 120),
            description="100 wnids of ImageNet with 600 images each",
        ),
    )  # fmt: skip
    return {each.name: each for each in known_sets}


@dataclass(frozen=True)
class Registration:
    """The content of ``registered/NAME.json``."""

    name: str
    folder: str
    hash: str  # 16 hex digits
    hash_of: str  # CONTENTS or SIZES
    num_classes: int
    num_train: int
    num_test: int
    key: str  # names, sizes and times of the files when they were hashed
    schema_version: int = 1

    @property
    def identity(self) -> str:
        """Return the hash and what it covers, in the form that runs record."""
        return f"{self.hash} (of {self.hash_of})"


_ADAPTER = TypeAdapter(Registration)


def register(name: str, folder: Path, root: Path, taken: Sequence[str]) -> Registration:
    """Give a folder of images a name, and store its hash.

    Args:
        name: The name of a published set, or any other.
        folder: One folder per class, as ``image_folder`` reads it.
        root: The data root, which keeps the registration.
        taken: The names of other data sets, which cannot be given to a folder.

    Raises:
        UserError: If the name is taken or malformed, or the folder is not the set of that name.
    """
    if not NAME.fullmatch(name) or name in taken:
        why = "is the name of another data set" if name in taken else "is not a valid name"
        raise UserError(
            f"{name!r} {why}; choose a name of lower-case letters, digits and . _ + - that is none "
            f"of {', '.join(taken)}"
        )
    folder = expand_path(folder).resolve()
    images = list_images(folder)
    if name in published_sets():
        if problem := published_sets()[name].problem(images):
            raise UserError(f"{folder} is not {name}: {problem}; {HELP}")
    elif (known := _find_published(images)) is not None:
        raise UserError(f"{folder} is {known.name}; register it under that name")
    registration = _registration(name, folder, images)
    path = root / REGISTERED / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, (json.dumps(asdict(registration), indent=1) + "\n").encode())
    return registration


def registrations(root: Path) -> dict[str, Registration]:
    """Return every registered set of a data root by its name.

    Raises:
        UserError: If a registration cannot be read.
    """
    by_name = {}
    for path in sorted((root / REGISTERED).glob("*.json")):
        try:
            by_name[path.stem] = _ADAPTER.validate_json(path.read_bytes())
        except ValidationError:
            raise UserError(
                f"{path} is damaged; delete it and run `nearsight data register {path.stem} DIR` "
                "again"
            ) from None
    return by_name


def check_registered(given: Registration) -> FolderImages:
    """Return the images of a registered set after checking that they are the registered ones.

    Raises:
        UserError: If the folder is gone, or a file in it was changed, added or removed.
    """
    folder = Path(given.folder)
    again = f"nearsight data register {given.name} DIR"
    if not folder.is_dir():
        raise UserError(
            f"{given.name} is registered for {folder}, but there is no such folder; "
            f"if it was moved, run `{again}`"
        )
    images = list_images(folder)
    if _key(images) == given.key:
        return images
    now = _hash(images, given.hash_of)
    if now != given.hash:
        raise UserError(
            f"{given.name} in {folder} is not the set that was registered (the hash of its "
            f"{given.hash_of} was {given.hash} and is now {now}): a file was changed, added or "
            f"removed; restore it, or register the folder as a new set with `{again}`"
        )
    return images


def identify(folder: Path, root: Path) -> tuple[Registration | None, FolderImages]:
    """Return which set a folder is (None if it is unknown), and its images.

    A registered folder is the set that it was registered as. Any other folder is a published set if
    it has the classes and numbers of images of that set.
    """
    for each in registrations(root).values():
        if Path(each.folder) == folder.resolve():
            return each, check_registered(each)
    images = list_images(folder)
    known = _find_published(images)
    return (None if known is None else _registration(known.name, folder, images)), images


def _find_published(found: FolderImages) -> PublishedSet | None:
    same = (x for x in published_sets().values() if x.classes == found.classes)
    return next((x for x in same if x.problem(found) is None), None)


def _registration(name: str, folder: Path, found: FolderImages) -> Registration:
    hash_of = CONTENTS if len(found.paths) <= MOST_READ else SIZES
    return Registration(
        name=name, folder=str(folder), hash=_hash(found, hash_of), hash_of=hash_of,
        num_classes=len(found.classes), num_train=len(found.train), num_test=len(found.test),
        key=_key(found),
    )  # fmt: skip


def _key(found: FolderImages) -> str:
    return files_key(found.folder, found.paths)


def _hash(found: FolderImages, hash_of: str) -> str:
    """Return 16 hex digits of the sha256 over the names and contents (or sizes) of all images."""
    digest = hashlib.sha256()
    for path in found.paths:
        if hash_of == SIZES:
            state = str(os.stat(path).st_size)
        else:
            with path.open("rb") as handle:
                state = hashlib.file_digest(handle, "sha256").hexdigest()
        line = f"{path.relative_to(found.folder).as_posix()} {state}\n"
        digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()[:16]
