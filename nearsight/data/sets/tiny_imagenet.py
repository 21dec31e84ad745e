"""Read Tiny-ImageNet in its official layout.

Training images are ``train/<wnid>/images/*.JPEG``. The official validation set, which is our test
set, has all images in one folder ``val/images`` and their classes in ``val/val_annotations.txt``,
so it cannot be read as an image folder. Labels are indices into the sorted wnids of the training
set.
"""

from __future__ import annotations

from pathlib import Path

from nearsight.core import UserError, read_text
from nearsight.data.sets.cache import Decoding
from nearsight.data.sets.pixels import Labelled, Reader
from nearsight.data.sets.sources import Archive, NamedSet, files_key

ANNOTATIONS = "val/val_annotations.txt"


def tiny_imagenet(folder: Path, skip_corrupt: bool) -> Decoding:
    """Describe how to decode the copy of Tiny-ImageNet in ``folder``.

    Raises:
        UserError: If a file is missing or an annotation is wrong.
    """
    if not (folder / "train").is_dir() or not (folder / ANNOTATIONS).is_file():
        raise UserError(
            f"{folder} is not Tiny-ImageNet: it lacks train/ or {ANNOTATIONS}; "
            "remove it and download it again"
        )
    classes = tuple(sorted(path.name for path in (folder / "train").iterdir() if path.is_dir()))
    train = [
        (path, label)
        for label, wnid in enumerate(classes)
        for path in sorted((folder / "train" / wnid / "images").glob("*.JPEG"))
    ]
    if empty := sorted(set(range(len(classes))) - {label for _, label in train}):
        raise UserError(
            f"{folder / 'train' / classes[empty[0]] / 'images'} contains no .JPEG images; "
            f"remove {folder} and download it again"
        )
    if not train:
        raise UserError(
            f"{folder / 'train'} contains no folders of classes; "
            f"remove {folder} and download it again"
        )
    test = _test_images(folder, classes)
    reader = Reader(folder, size=None, skip_corrupt=skip_corrupt)
    return Decoding(
        name="tiny-imagenet",
        source=f"{folder.resolve()} {skip_corrupt}",
        key=files_key(folder, [folder / ANNOTATIONS, *(path for path, _ in train + test)]),
        classes=classes,
        splits={"train": lambda: reader.pieces(train), "test": lambda: reader.pieces(test)},
        notes=reader.notes,
    )


def _test_images(folder: Path, classes: tuple[str, ...]) -> list[Labelled]:
    labels = {wnid: label for label, wnid in enumerate(classes)}
    test = []
    for number, line in enumerate(read_text(folder / ANNOTATIONS).splitlines(), start=1):
        if not line.strip():
            continue
        file, _, rest = line.partition("\t")
        wnid = rest.partition("\t")[0]
        if wnid not in labels:
            raise UserError(
                f"line {number} of {folder / ANNOTATIONS} should name an image and a class of "
                f"train/, but it is {line!r}; remove {folder} and download it again"
            )
        path = folder / "val" / "images" / file
        if not path.is_file():
            raise UserError(
                f"line {number} of {folder / ANNOTATIONS} lists {path}, but there is no such file; "
                f"remove {folder} and download it again"
            )
        test.append((path, labels[wnid]))
    if not test:
        raise UserError(f"{folder / ANNOTATIONS} is empty; remove {folder} and download it again")
    return test


TINY_IMAGENET = NamedSet(
    image_size=64,
    decode=tiny_imagenet,
    source=Archive(
        url="https://cs231n.stanford.edu/tiny-imagenet-200.zip",
        sha256="6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821",
        num_bytes=248_100_043,
        folder="tiny-imagenet-200",
        marker=ANNOTATIONS,
    ),
)
