"""Read CIFAR-10 and CIFAR-100 from the binary files of www.cs.toronto.edu/~kriz/cifar.html.

A file is a sequence of records: one byte for the label (in CIFAR-100 two, the coarse and the fine
label, of which we use the fine one) and 3,072 bytes of pixels, channel by channel. No pickle is
read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from nearsight.core import UserError, read_text
from nearsight.data.sets.cache import Decoding
from nearsight.data.sets.dataset import ImageSet
from nearsight.data.sets.sources import Archive, NamedSet, files_key

NUM_PIXELS = 3 * 32 * 32
RECORDS_PER_PIECE = 4096


@dataclass(frozen=True)
class FileLayout:
    """The files of CIFAR-10 or CIFAR-100."""

    train: tuple[str, ...]
    test: tuple[str, ...]
    names: str  # one class name per line
    num_label_bytes: int

    @property
    def files(self) -> tuple[str, ...]:
        """Return the names of all files."""
        return (*self.train, *self.test, self.names)


LAYOUTS = {
    "cifar10": FileLayout(
        train=tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
        test=("test_batch.bin",),
        names="batches.meta.txt",
        num_label_bytes=1,
    ),
    "cifar100": FileLayout(
        train=("train.bin",),
        test=("test.bin",),
        names="fine_label_names.txt",
        num_label_bytes=2,
    ),
}


def cifar(name: str, folder: Path, skip_corrupt: bool = False) -> Decoding:
    """Describe how to decode the copy of CIFAR in ``folder``.

    Raises:
        UserError: If a file is missing or cut off.
    """
    layout = LAYOUTS[name]
    if missing := [file for file in layout.files if not (folder / file).is_file()]:
        raise UserError(
            f"{folder} is not an unpacked {name}: it lacks {', '.join(missing)}; "
            "remove it and download it again"
        )
    record = layout.num_label_bytes + NUM_PIXELS
    for file in (*layout.train, *layout.test):
        size = (folder / file).stat().st_size
        if size == 0 or size % record:
            raise UserError(
                f"{folder / file} has {size} bytes, which is not a multiple of {record}, so it is "
                f"cut off or not a file of CIFAR; remove {folder} and download it again"
            )
    classes = tuple(read_text(folder / layout.names).split())
    if not classes:
        raise UserError(
            f"{folder / layout.names} contains no class names; remove {folder} and download it "
            "again"
        )

    def pieces(files: tuple[str, ...]) -> Callable[[], Iterator[ImageSet]]:
        return lambda: (
            piece
            for file in files
            for piece in _records(folder / file, layout.num_label_bytes, len(classes))
        )

    return Decoding(
        name=name,
        source=str(folder.resolve()),
        key=files_key(folder, [folder / file for file in layout.files]),
        classes=classes,
        splits={"train": pieces(layout.train), "test": pieces(layout.test)},
    )


def _records(path: Path, num_label_bytes: int, num_classes: int) -> Iterator[ImageSet]:
    rows = np.memmap(path, np.uint8, "r").reshape(-1, num_label_bytes + NUM_PIXELS)
    for start in range(0, len(rows), RECORDS_PER_PIECE):
        piece = rows[start : start + RECORDS_PER_PIECE]
        labels = piece[:, num_label_bytes - 1].astype(np.int64)
        if (wrong := np.flatnonzero(labels >= num_classes)).size:
            raise UserError(
                f"{path} has the label {labels[wrong[0]]} in record {start + int(wrong[0])}, but "
                f"labels go from 0 to {num_classes - 1}; remove {path.parent} and download it again"
            )
        yield ImageSet(piece[:, num_label_bytes:].reshape(-1, 3, 32, 32), labels)


CIFAR10 = NamedSet(
    image_size=32,
    decode=partial(cifar, "cifar10"),
    source=Archive(
        url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        num_bytes=170_052_171,
        folder="cifar-10-batches-bin",
        marker="data_batch_1.bin",
    ),
)
CIFAR100 = NamedSet(
    image_size=32,
    decode=partial(cifar, "cifar100"),
    source=Archive(
        url="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        sha256="58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        num_bytes=168_513_733,
        folder="cifar-100-binary",
        marker="train.bin",
    ),
)
