"""Data sets by name: where they are found, downloaded, decoded, cached and split."""

from __future__ import annotations

from nearsight.data.sets.archive import fetch_dataset, import_folder
from nearsight.data.sets.cache import writable_cache
from nearsight.data.sets.catalog import (
    check_dataset,
    data_root,
    dataset_name,
    list_datasets,
    load_dataset,
    register_dataset,
)
from nearsight.data.sets.dataset import Dataset, ImageSet
from nearsight.data.sets.pixels import SUFFIXES, as_rgb, is_passing, open_image
from nearsight.data.sets.split import train_and_validation

__all__ = [
    "SUFFIXES",
    "Dataset",
    "ImageSet",
    "as_rgb",
    "check_dataset",
    "data_root",
    "dataset_name",
    "fetch_dataset",
    "import_folder",
    "is_passing",
    "list_datasets",
    "load_dataset",
    "open_image",
    "register_dataset",
    "train_and_validation",
    "writable_cache",
]
