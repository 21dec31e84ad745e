"""Read and write min-mad.npz, which an exported cell keeps instead of its values per image.

The file holds one number for each test image, the MAD of the head that the other half of the images
selects, and a hash of the names of the images. This is enough for effects on min MAD over seeds and
images. It takes 40 KB for 5,000 images, while all values per image would take megabytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from nearsight.core import UserError, write_bytes
from nearsight.stats import other_half_values
from nearsight.study.analyse.loaded import LoadedCell

MINIMA = "min-mad.npz"
Minima = tuple[Float[np.ndarray, " image"], str]  # and the hash of the images' names


def read_minima(cell: LoadedCell) -> Minima | None:
    """Return the MAD of the most local head for each image, and a hash of the images' names.

    The numbers come from the values per image or, in an exported cell, from min-mad.npz. Layers
    that no output reads are left out, as in measure.json.

    Returns:
        The numbers and the hash, or None if the cell has neither file or is not finished.

    Raises:
        UserError: If the file is damaged.
    """
    from nearsight.measure.folders import VALUES

    if cell.files is None:
        return None
    if (cell.folder / VALUES).is_file():
        return _from_values(cell.folder / VALUES, cell.files.measure.read)
    return _read_stored(cell.folder / MINIMA) if (cell.folder / MINIMA).is_file() else None


def write_minima(folder: Path, found: Minima) -> Path:
    """Write min-mad.npz."""
    numbers, images = found
    buffer = io.BytesIO()
    np.savez_compressed(buffer, min_mad=numbers, images=np.array(images))
    write_bytes(folder / MINIMA, buffer.getvalue())
    return folder / MINIMA


def _from_values(path: Path, layers: Sequence[int]) -> Minima:
    from nearsight.measure.folders import read_values  # needs torch

    profile, names = read_values(path)
    values = profile.in_convention("paper").mad.values
    mad = np.concatenate([values[layer] for layer in layers or range(len(values))], axis=1)
    return other_half_values(mad), hashlib.sha256(json.dumps(names).encode()).hexdigest()


def _read_stored(path: Path) -> Minima:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            numbers, images = arrays["min_mad"], str(arrays["images"])
        if numbers.ndim != 1 or not np.isfinite(numbers).all():
            raise ValueError(f"its shape is {numbers.shape}, or a number is not finite")
    except (ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path} is damaged ({error}); delete it, and effects on min MAD are compared over "
            "seeds alone"
        ) from None
    return numbers, images
