"""Where the official archives are, and what their bytes must be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """One official archive."""

    url: str
    md5: str
    folder: str  # what it unpacks to
    marker: str  # a file that only this data set has
    image_size: int  # pixels

    @property
    def archive(self) -> str:
        return self.url.rpartition("/")[2]


SOURCES = {
    "cifar10": Source(
        url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        md5="c32a1d4ab5d03f1284b67883e8d87530",
        folder="cifar-10-batches-bin",
        marker="data_batch_1.bin",
        image_size=32,
    ),
    "cifar100": Source(
        url="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        md5="03b5dce01913d631647c71ecec9e9cb8",
        folder="cifar-100-binary",
        marker="train.bin",
        image_size=32,
    ),
    "tiny-imagenet": Source(
        url="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        md5="90528d7ca1a48142e341f4ef8d21d0de",
        folder="tiny-imagenet-200",
        marker="val/val_annotations.txt",
        image_size=64,
    ),
}
