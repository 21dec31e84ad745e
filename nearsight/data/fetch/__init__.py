"""Bring data sets into the data root: download them, or import a folder or an archive."""

from __future__ import annotations

from nearsight.data.fetch.archive import fetch_dataset, import_folder

__all__ = ["fetch_dataset", "import_folder"]
