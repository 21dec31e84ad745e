"""Label patches by masks: compute the share of each class in the pixels of a patch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array, vstack

from nearsight.data import VOID
from nearsight.evaluate.features import Split
from nearsight.models.layers import Grid

Recode = Callable[[np.ndarray], np.ndarray]  # changes the labels of a mask


def patch_counts(
    mask: Int[np.ndarray, "h w"], grid: Grid, num_classes: int
) -> Int[np.ndarray, "patch cls"]:
    """Count the labelled pixels of every patch by class. The mask may have any size.

    >>> mask = np.array([[0, 0, 1, 255], [0, 1, 1, 255]])
    >>> patch_counts(mask, Grid(1, 2), 2).tolist()
    [[3, 1], [0, 2]]
    """
    rows, cols = (
        np.arange(size) * num // size for size, num in zip(mask.shape, (grid.rows, grid.cols))
    )
    patch = rows[:, None] * grid.cols + cols
    known = mask != VOID
    cells = patch[known] * num_classes + mask[known].astype(np.int64)
    num = grid.rows * grid.cols
    return np.bincount(cells, minlength=num * num_classes).reshape(num, num_classes)


@dataclass(frozen=True)
class PatchLabels:
    """The labels of all patches of a split, image by image.

    They are kept sparse, because most patches have one class or two.
    """

    shares: csr_array  # [patch, cls]: shares of the labelled pixels; a row sums to 1, or is empty
    known: Float[np.ndarray, " patch"]  # share of the patch's pixels that are labelled

    @property
    def labelled(self) -> Int[np.ndarray, " row"]:
        """The patches with a labelled pixel."""
        return np.flatnonzero(self.known)

    def majority(self) -> Int[np.ndarray, " patch"]:
        """Return the class with most pixels in every patch, or -1 for a patch without labels.

        If two classes have equally many pixels, the first one counts.
        """
        found = np.asarray(self.shares.argmax(axis=1)).ravel()
        return np.where(self.known > 0, found, -1)


def patch_labels(
    split: Split, grid: Grid, num_classes: int, recode: Recode | None = None
) -> PatchLabels:
    """Read every mask of a split and label its patches.

    Args:
        split: Images with masks.
        grid: The patches of an image.
        num_classes: The number of classes of the masks, after ``recode``.
        recode: Changes the labels of a mask first, as some methods need.
    """
    parts, known = [], []
    for number in range(len(split)):
        mask = split.mask(number)
        counts = patch_counts(mask if recode is None else recode(mask), grid, num_classes)
        in_all = patch_counts(np.zeros_like(mask), grid, 1)[:, 0]
        labelled = counts.sum(1)
        known.append(labelled / in_all)
        parts.append(csr_array((counts / np.maximum(labelled, 1)[:, None]).astype(np.float32)))
    return PatchLabels(csr_array(vstack(parts)), np.concatenate(known))
