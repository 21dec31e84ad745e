"""The patch grid: where patches are, and how far apart.

Patch i is at (row, col) = (i // cols, i % cols). Distances are Euclidean between patch centres. All
geometry comes from here, never from the square root of a number of tokens.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from nearsight.core import UserError

if TYPE_CHECKING:
    from torch import Tensor

Unit = Literal["diagonal", "patches"]


@dataclass(frozen=True)
class Grid:
    """A grid of ``rows x cols`` patches.

    >>> Grid(8, 8).num_patches
    64
    >>> round(Grid(8, 8).uniform_distance(), 4)
    0.4178
    """

    rows: int
    cols: int

    def __post_init__(self) -> None:
        if self.rows < 1 or self.cols < 1:
            raise UserError(f"a grid needs at least 1x1 patches, but this one has {self}")

    def __str__(self) -> str:
        return f"{self.rows}x{self.cols}"

    @classmethod
    def of_image(cls, height: int, width: int, patch_size: int) -> Grid:
        """Return the grid of an image that is cut into square patches.

        Raises:
            UserError: If the patches do not divide both sides of the image.

        >>> str(Grid.of_image(24, 40, patch_size=4))
        '6x10'
        """
        if patch_size < 1:
            raise UserError(f"patch_size is {patch_size}, but it must be at least 1 pixel")
        if height % patch_size or width % patch_size:
            raise UserError(
                f"the image size {height}x{width} is not divisible by the patch size {patch_size}; "
                "change patch_size or image_size"
            )
        return cls(height // patch_size, width // patch_size)

    @property
    def num_patches(self) -> int:
        """The number of patches."""
        return self.rows * self.cols

    @property
    def diagonal(self) -> float:
        """The distance between opposite corners in patches; 1 for a single patch."""
        return math.hypot(self.rows - 1, self.cols - 1) or 1.0

    def coordinates(self) -> Tensor:
        """Return row and column of every patch, float64 [patch, 2]."""
        import torch

        rows = torch.arange(self.rows, dtype=torch.float64)
        cols = torch.arange(self.cols, dtype=torch.float64)
        return torch.cartesian_prod(rows, cols).reshape(self.num_patches, 2)

    def distances(self, unit: Unit = "diagonal") -> Tensor:
        """Return the distance of every pair of patches, float64 [query, key]."""
        points = self.coordinates()
        offsets = points[:, None, :] - points[None, :, :]  # [query, key, axis]
        distances = offsets.square().sum(-1).sqrt()
        if unit == "patches":
            return distances
        if unit == "diagonal":
            return distances / self.diagonal
        raise UserError(f"unit is {unit!r}, but it must be 'diagonal' or 'patches'")

    def uniform_distance(self, unit: Unit = "diagonal") -> float:
        """Return the mean distance of uniform attention (a null line)."""
        return float(self.distances(unit).mean())

    def window(self, side: int) -> Tensor:
        """Return for every pair whether the key is in the window around the query.

        Args:
            side: The window has side x side patches and is cut at the edge of the grid. The side
                must be odd, so that the window has a centre.

        Returns:
            bool [query, key].

        >>> Grid(1, 4).window(3).int().tolist()
        [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
        """
        if side < 1 or side % 2 == 0:
            raise UserError(f"the side of a window must be odd (1, 3, 5, ...), but it is {side}")
        points = self.coordinates()
        return (points[:, None] - points[None]).abs().amax(-1) <= side // 2

    def box(self) -> Tensor:
        """Return for every pair whether the key is in the 3x3 patches around the query."""
        return self.window(3)

    def box_distance(self, unit: Unit = "diagonal") -> float:
        """Return the mean distance of attention spread evenly over the 3x3 box (a null line)."""
        near = self.box()
        return float(((self.distances(unit) * near).sum(-1) / near.sum(-1)).mean())


def as_grid(given: Grid | Sequence[int] | None) -> Grid | None:
    """Return the grid that a user gave as a ``Grid`` or as rows and columns; None stays None.

    >>> as_grid((8, 14))
    Grid(rows=8, cols=14)

    Raises:
        UserError: If it is neither a grid nor two whole numbers.
    """
    if given is None or isinstance(given, Grid):
        return given
    try:
        rows, cols = (operator.index(side) for side in given)
    except (TypeError, ValueError):
        raise UserError(
            f"grid is {given!r}, but it must be rows and columns of patches, as in grid=(8, 8)"
        ) from None
    return Grid(rows, cols)


class TokenGrid:
    """The grid and the number of prefix tokens of a model, in one object that its layers share.

    If the model takes images of any size, ``see_images`` is registered as a hook before its patch
    embedding. It sets the grid of the current images before the first layer runs.
    """

    def __init__(self, grid: Grid, num_prefix: int) -> None:
        self.grid = grid
        self.num_prefix = num_prefix

    def see_images(self, embed: Any, args: tuple[Any, ...]) -> None:
        """Set the grid of the images that a timm patch embedding is about to get."""
        rows, cols = embed.dynamic_feat_size(tuple(args[0].shape[-2:]))
        if (rows, cols) != (self.grid.rows, self.grid.cols):
            self.grid = Grid(rows, cols)

    def check(self, num_tokens: int) -> None:
        """Raise a UserError unless the tokens are the prefix tokens and the patches of the grid."""
        if num_tokens != self.num_prefix + self.grid.num_patches:
            raise UserError(
                f"there are {num_tokens} tokens, but {self.num_prefix} prefix tokens and a grid of "
                f"{self.grid} patches make {self.num_prefix + self.grid.num_patches}; give the "
                "model images of the size it was built for"
            )
