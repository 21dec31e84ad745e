"""Find, decode, cache and split labelled data sets, given by name or by folder.

To add a data set, write a module that makes a ``NamedSet``, and add a line to ``catalog.py``.
"""

from __future__ import annotations

from nearsight.data.sets.cache import writable_cache
from nearsight.data.sets.catalog import (
    check_dataset,
    data_root,
    dataset_name,
    describe_decoding,
    list_datasets,
    load_dataset,
    register_dataset,
    source_of,
    sources,
)
from nearsight.data.sets.dataset import Dataset, Images, ImageSet
from nearsight.data.sets.pixels import SUFFIXES, as_rgb, is_passing, open_image
from nearsight.data.sets.sources import (
    NOT_OFFICIAL,
    OFFICIAL,
    Archive,
    folder_digest,
    origin_of,
    write_origin,
)
from nearsight.data.sets.split import train_and_validation

__all__ = [
    "NOT_OFFICIAL",
    "OFFICIAL",
    "SUFFIXES",
    "Archive",
    "Dataset",
    "ImageSet",
    "Images",
    "as_rgb",
    "check_dataset",
    "data_root",
    "dataset_name",
    "describe_decoding",
    "folder_digest",
    "is_passing",
    "list_datasets",
    "load_dataset",
    "open_image",
    "origin_of",
    "register_dataset",
    "source_of",
    "sources",
    "train_and_validation",
    "writable_cache",
    "write_origin",
]
