"""Locate the tokens of an attention call on the image when every token attends to every other.

The grid and the number of prefix tokens are never guessed from a square root. They come from the
user; from the model (``grid`` and ``num_prefix`` in ours, ``num_prefix_tokens`` in timm's, or what
is known about its family); and from the output sizes of the convolutions before the call. They must
agree with the number of tokens. If they do not, or if several grids agree, an error is raised. The
layout of a model that declares nothing is found by measuring it (``found.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NoReturn

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from nearsight.core import UserError
from nearsight.measure.capture import AttentionCall
from nearsight.measure.layout.placing import Fold
from nearsight.models.layers import Grid

LIBRARIES = ("nearsight", "timm", "torchvision", "transformers")  # whose declarations are trusted


@dataclass(frozen=True)
class Layout:
    """Where the tokens of one attention call are on the image.

    Attributes:
        grid: Rows and columns of query patches. Every patch occurs exactly once among ``queries``.
        queries: Number of the patch of every query, by window; -1 for tokens without a position
            (prefix tokens, padding).
        keys: Number of the cell of every key, by window; -1 as above.
        cells: Centres of the keys' cells in units of query patches. These are the patches of the
            grid unless keys are pooled.
        windows: How windows are stored: "batch" folds them into the batch, image-major ([image *
            window, head, token, width]); "inner" gives them a dimension of their own ([image, head,
            window, token, width]); a ``Fold`` describes any other way.
        note: A remark for measure.json.
    """

    grid: Grid
    queries: Int64[Tensor, "window query"]
    keys: Int64[Tensor, "window key"]
    cells: Float[Tensor, "cell 2"]
    windows: Literal["batch", "inner"] | Fold = "batch"
    note: str | None = None


@dataclass(frozen=True)
class Skipped:
    """A layer that is passed over because it has no attention between patches."""

    reason: str


@dataclass(frozen=True)
class Given:
    """What the user says about the model."""

    grid: Grid | None = None
    num_prefix: int | None = None


def refuse(call: AttentionCall, reason: str) -> NoReturn:
    """Raise a UserError that names the layer and the reason why it cannot be measured."""
    kind = type(call.path[-1].module).__name__
    raise UserError(f"layer {call.name} ({kind}) cannot be measured: {reason}")


def num_images(call: AttentionCall) -> int | None:
    """Return the size of the batch that the model was given; None if it was not given images."""
    images = [x for x in call.path[0].inputs if isinstance(x, Tensor) and x.ndim >= 4]
    return len(images[0]) if images else None


def global_layout(
    call: AttentionCall,
    given: Given,
    num_prefix: int | None = None,
    sizes: Iterable[tuple[int, int]] | None = None,
) -> Layout | Skipped:
    """Return the layout of attention between all tokens: prefix tokens, then patches row by row.

    Args:
        call: The attention call.
        given: What the user says.
        num_prefix: Number of prefix tokens that the family is known to have.
        sizes: Possible grids of this layer; by default the sizes of all convolutions before it.

    Raises:
        UserError: If no grid, or more than one, agrees with the number of tokens.
    """
    *leading, num_queries, num_keys = call.sizes
    if num_queries == 1 and num_keys > 1:
        return Skipped(f"one query attends to {num_keys} tokens: class attention or pooling")
    if len(leading) != 2 or leading[0] != (num_images(call) or leading[0]):
        refuse(
            call,
            f"its attention is {list(call.sizes)} for {num_images(call)} images, so it is not "
            "between all tokens of an image (it may be in windows), and the positions of its "
            "tokens are not known for this family of models",
        )
    if num_queries != num_keys:
        refuse(
            call,
            f"{num_queries} queries attend to {num_keys} keys, whose positions are not known for "
            "this family of models",
        )
    known_prefix = given.num_prefix if given.num_prefix is not None else num_prefix
    if known_prefix is None:
        known_prefix = _declared(call, ("num_prefix", "num_prefix_tokens"), int)
    grid = given.grid or _declared(call, ("grid",), Grid)
    if grid is not None:
        grids = {grid}
    else:
        grids = {Grid(*size) for size in (call.convolved if sizes is None else sizes)}
    fits = sorted(
        (x for x in grids if _fits(num_queries - x.num_patches, known_prefix)),
        key=lambda x: (x.rows, x.cols),
    )
    if len(fits) != 1:
        _refuse_grid(call, grids, fits, known_prefix)
    return row_by_row(fits[0], num_queries - fits[0].num_patches)


@lru_cache(maxsize=32)
def row_by_row(grid: Grid, num_prefix: int) -> Layout:
    """Return the layout of one window: prefix tokens, then the patches of the grid row by row.

    >>> row_by_row(Grid(2, 3), num_prefix=1).keys
    tensor([[-1,  0,  1,  2,  3,  4,  5]])
    """
    tokens = number_tokens(num_prefix, grid.num_patches)
    return Layout(grid, tokens, tokens, grid.coordinates())


def number_tokens(num_prefix: int, num_cells: int) -> Int64[Tensor, "1 token"]:
    """Return one window: -1 for every prefix token, then the numbers of the cells.

    >>> number_tokens(num_prefix=2, num_cells=3)
    tensor([[-1, -1,  0,  1,  2]])
    """
    return torch.arange(-num_prefix, num_cells).clamp(min=-1)[None]


def check_sizes(call: AttentionCall, layout: Layout) -> Layout:
    """Return the layout after checking that it has as many windows, queries and keys as the call.

    Raises:
        UserError: If the numbers differ.
    """
    num_windows, num_queries = layout.queries.shape
    images, sizes = num_images(call), call.sizes
    if isinstance(layout.windows, Fold):
        leading = layout.windows.sizes(images or 1)
        expected = (*leading, num_queries, layout.keys.shape[1])
        if sizes != expected:
            refuse(
                call,
                f"its attention is {list(sizes)}, but the positions that were measured for its "
                f"tokens need {list(expected)}",
            )
        return layout
    inner = layout.windows == "inner"
    if len(sizes) != (5 if inner else 4):
        refuse(
            call,
            f"its attention {list(sizes)} has {len(sizes)} dimensions, but {5 if inner else 4} are "
            "expected for this family of models",
        )
    if images is None:
        images = sizes[0] if inner else sizes[0] // num_windows
    leading = (images, sizes[1], num_windows) if inner else (images * num_windows, sizes[1])
    expected = (*leading, num_queries, layout.keys.shape[1])
    if sizes != expected:
        refuse(
            call,
            f"its attention is {list(sizes)}, but a grid of {layout.grid} needs {list(expected)}; "
            "its tokens are arranged in an unknown way",
        )
    return layout


def _fits(left: int, num_prefix: int | None) -> bool:
    """Return whether the tokens that a grid leaves over can be the prefix tokens.

    Args:
        left: Number of tokens beyond the patches of the grid.
        num_prefix: Number of prefix tokens, if it is known.
    """
    return left >= 0 if num_prefix is None else left == num_prefix


def declares(call: AttentionCall) -> bool:
    """Return whether the model declares its grid or its number of prefix tokens.

    A number of prefix tokens counts only in models of known libraries.
    """
    return (
        _declared(call, ("num_prefix", "num_prefix_tokens"), int) is not None
        or _declared(call, ("grid",), Grid) is not None
    )


def _declared(call: AttentionCall, names: tuple[str, ...], kind: type) -> Any:
    """Return the value of an attribute with one of these names, from the outermost module with one.

    In models of other libraries, an attribute of the same name may mean something else. A ``Grid``
    is our own type, so it is trusted in every model.

    Args:
        call: The attention call.
        names: Names of the attribute.
        kind: Type that the value must have.
    """
    for place in call.path:
        library = type(place.module).__module__.partition(".")[0]
        if library not in LIBRARIES and kind is not Grid:
            continue
        for name in names:
            value = getattr(place.module, name, None)
            if isinstance(value, kind):
                return value
    return None


def _likely(call: AttentionCall) -> str:
    """Return rows and columns for an error message to propose: a square with few tokens left over.

    It is only an example; no grid is ever taken from it.
    """
    side = math.isqrt(call.sizes[-1])
    return f"{side}, {side}"


def _refuse_grid(
    call: AttentionCall, grids: set[Grid], fits: list[Grid], num_prefix: int | None
) -> NoReturn:
    """Raise a UserError that says why no grid, or more than one, fits, and how to pass one."""
    prefix = f"{num_prefix} prefix tokens"
    if num_prefix is None:
        prefix = "prefix tokens"
    if fits:
        problem = f"its grid may be {' or '.join(map(str, fits))}"
    elif len(grids) == 1:
        (grid,) = grids
        problem = f"they are not {prefix} and a {grid} grid"
    else:
        problem = f"no convolution or reshape before it gives a grid that fits, with {prefix}"
    refuse(
        call,
        f"{call.sizes[-1]} tokens attend to each other, but {problem}; if its patches follow its "
        f"prefix tokens row by row, give its grid, such as grid=({_likely(call)}), and num_prefix=",
    )


@dataclass(frozen=True)
class LayerFacts:
    """Facts of a measured layer: its module, its tokens, and the error of the check."""

    name: str
    kind: str  # class of the attention module
    grid: Grid
    num_heads: int
    num_prefix: int
    num_keys: int  # keys with a position that a query can see
    num_windows: int
    proof_error: float  # of attention @ values, relative to the layer's largest output
    note: str | None
    num_unplaced: int = 0  # keys without a position in all windows: prefix tokens, padding
    image_size: tuple[int, int] | None = None  # height and width in pixels
    unread: bool | None = None  # whether its patch rows reach no class logit; None: unknown
