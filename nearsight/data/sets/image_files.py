"""Read images from their files whenever they are used, without a decoded copy.

A decoded copy of ImageNet at 224 pixels would take 190 GB. ``ImageFiles`` has the shape and the
indexing of the array of a decoded set and returns the same bytes, so a training uses the same order
and crops with and without a decoded copy.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from nearsight.core import UserError
from nearsight.data.sets.pixels import is_passing, read_pixels

MOST_DECODED = 200_000  # training images; a larger set is not decoded but read from its files
DEFAULT_SIZE = 224  # pixels, if the settings give no size


class ImageFiles:
    """The pixels of image files as uint8 [n, 3, size, size]: the middle square of each, resized.

    Indexing with an array of rows, a slice or one number returns an array.
    """

    dtype = np.dtype(np.uint8)
    ndim = 4

    def __init__(self, paths: Sequence[Path], size: int) -> None:
        self.paths, self.size = tuple(paths), size
        self.shape = (len(self.paths), 3, size, size)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, rows: int | slice | np.ndarray | Sequence[int]) -> np.ndarray:
        if isinstance(rows, int | np.integer):
            return self._read(int(rows))
        chosen = np.arange(len(self))[rows]
        decoded = np.empty((len(chosen), *self.shape[1:]), np.uint8)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for place, pixels in enumerate(pool.map(self._read, chosen.tolist())):
                decoded[place] = pixels
        return decoded

    def _read(self, row: int) -> np.ndarray:
        path = self.paths[row]
        try:
            return read_pixels(path, self.size)
        except Exception as problem:  # decoders raise many kinds of errors
            if is_passing(problem):
                raise
            raise UserError(f"{path} cannot be read ({problem}); repair or remove it") from None
