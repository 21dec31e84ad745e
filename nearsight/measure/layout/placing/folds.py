"""Split the leading dimensions of an attention call into images, windows and heads.

Models fold these three axes into the leading dimensions in many ways: [image x window, head],
[image, head, window], [image x head, window], and so on. The right way is found by measuring,
because a token has the same position in all heads, but not in all windows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

Axis = Literal["image", "window", "head"]
Factor = tuple[Axis, int]  # an axis and its size, which is ignored for images


@dataclass(frozen=True)
class Fold:
    """The axes that every leading dimension is made of, outermost first.

    >>> swin = Fold(((("image", 1), ("window", 4)), (("head", 3),)))
    >>> import torch
    >>> tuple(swin.unfold(torch.zeros(2 * 4, 3, 49, 8)).shape)
    (2, 4, 3, 49, 8)
    """

    dims: tuple[tuple[Factor, ...], ...]

    @property
    def num_windows(self) -> int:
        """Number of windows of an image."""
        return self._number("window")

    @property
    def num_heads(self) -> int:
        """Number of heads."""
        return self._number("head")

    def _number(self, axis: Axis) -> int:
        return math.prod(size for dim in self.dims for name, size in dim if name == axis)

    def unfold(self, tensor: Tensor) -> Tensor:
        """Return a tensor with these leading dimensions as [image, window, head, ...]."""
        factors = [factor for dim in self.dims for factor in dim]
        num_leading = len(self.dims)
        num_images = math.prod(tensor.shape[:num_leading])
        num_images //= self.num_windows * self.num_heads
        sizes = [num_images if name == "image" else size for name, size in factors]
        rest = tensor.shape[num_leading:]
        split = tensor.reshape(*sizes, *rest)
        order = [
            place
            for axis in ("image", "window", "head")
            for place, (name, _) in enumerate(factors)
            if name == axis
        ]
        moved = split.permute(*order, *range(len(factors), split.ndim))
        return moved.reshape(num_images, self.num_windows, self.num_heads, *rest)

    def fold(self, table: Tensor, leading: Sequence[Any]) -> Tensor:
        """Return a table [window, ...] in a shape that can be added to tensors of these sizes.

        Dimensions without windows get size 1; the others are expanded.

        Args:
            table: One entry per window, or a single one for all.
            leading: Leading sizes of the tensors: integers, or symbolic integers while a model is
                exported.

        >>> import torch
        >>> swin = Fold(((("image", 1), ("window", 4)), (("head", 3),)))
        >>> swin.fold(torch.arange(4), (2 * 4, 3)).tolist()
        [[0], [1], [2], [3], [0], [1], [2], [3]]
        """
        if len(table) == 1:
            return table.reshape(*[1] * len(leading), *table.shape[1:])
        sizes: list[int] = []  # of all factors that are expanded
        own: list[int] = []  # of the table: 1 where it is repeated
        folded: list[int] = []  # of the resulting dimensions
        for dim, size in zip(self.dims, leading, strict=True):
            if not any(name == "window" for name, _ in dim):
                folded.append(1)
                continue
            num_images = size // math.prod(n for name, n in dim if name != "image")
            sizes += [num_images if name == "image" else n for name, n in dim]
            own += [n if name == "window" else 1 for name, n in dim]
            folded.append(size)
        rest = table.shape[1:]
        return table.reshape(*own, *rest).expand(*sizes, *rest).reshape(*folded, *rest)

    def sizes(self, num_images: int) -> tuple[int, ...]:
        """Return the leading sizes of a call for this number of images."""
        return tuple(
            math.prod(num_images if name == "image" else size for name, size in dim)
            for dim in self.dims
        )

    def without_windows(self) -> Fold:
        """Return the fold in which every window counts as a head."""
        heads: dict[Axis, Axis] = {"window": "head", "head": "head", "image": "image"}
        return Fold(tuple(tuple((heads[x], size) for x, size in dim) for dim in self.dims))

    def with_images(self, dim: int, outer: int) -> Fold:
        """Return the fold of a batch, given that of one image.

        Args:
            dim: The leading dimension into which images are folded.
            outer: Number of windows or heads that are folded into that dimension outside the
                images, so that each of them holds all images.
        """
        dims = []
        for number, factors in enumerate(self.dims):
            if number != dim:
                dims.append(factors)
                continue
            before: list[Factor] = []
            after: list[Factor] = []
            seen = 1
            for name, size in factors:
                if seen == outer:
                    after.append((name, size))
                    continue
                part = math.gcd(size, outer // seen)
                before.append((name, part))
                if part != size:
                    after.append((name, size // part))
                seen *= part
            dims.append((*before, ("image", 1), *after))
        return Fold(tuple(dims))


def candidate_folds(leading: tuple[int, ...]) -> Iterator[Fold]:
    """Yield all ways to split the leading dimensions of one image into windows and heads.

    Folds with many heads come first, because a fold that mistakes windows for heads is recognised:
    its heads disagree about the positions of tokens.
    """
    options = [list(_splits(size)) for size in leading]
    folds = [Fold(dims) for dims in itertools.product(*options)]
    yield from sorted(folds, key=lambda fold: -fold.num_heads)


def _splits(size: int) -> Iterator[tuple[Factor, ...]]:
    """Yield all ways to split one dimension."""
    if size == 1:
        yield ()
        return
    yield (("head", size),)
    yield (("window", size),)
    for part in range(2, size):
        if size % part == 0:
            yield ("window", part), ("head", size // part)
            yield ("head", part), ("window", size // part)
