"""Locate the queries and keys of one attention call from the moments of their responses."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from nearsight.measure.layout.placing.centres import (
    NARROW,
    Centres,
    centres_of,
    unfolded_moments,
    without_wide,
)
from nearsight.measure.layout.placing.folds import Fold, candidate_folds
from nearsight.measure.layout.placing.grids import (
    MIN_GAP,
    Arrangement,
    arrange,
    coordinates,
    nearest_cells,
    snap,
)
from nearsight.measure.layout.placing.probe import ProbedCall
from nearsight.models.layers import Grid

AGREEMENT = 0.02  # mean squared distance between heads, in cells, that counts as no difference
SINGLE_AGREEMENT = 0.2  # the same for a single draw, whose noise does not average out
SIGNIFICANT = 4.0  # a difference of fewer standard errors may be noise
LEAST_GAP = 0.02  # in cells; a gap that is enough if two halves of the draws agree
MIN_MARGIN = 0.2  # in cells; how clearly a key must be nearest to one of the queries' cells

CHANNELS = "it attends between channels, not between patches"
NO_PRODUCT = (
    "its weights do not come from a product of queries and keys, so the positions of its queries "
    "cannot be measured"
)
LINEAR = (
    "it is linear attention: its softmax goes over keys or features alone before they are "
    "multiplied, so there is no row of weights per query"
)
LEARNED = (
    "its queries depend on no pixels of their own once attention is silenced (learned queries, as "
    "in a decoder), so they are not patches"
)
NO_RESPONSE = "its tokens depend on no pixels of their own if all attention outputs are set to zero"
DEPENDS = "where its tokens sit depends on the image, so its layers have no fixed places"


@dataclass(frozen=True)
class Placed:
    """Where the tokens of one call are, as in a ``Layout``, and how clear that is.

    ``confidence`` is the smallest gap that was seen between neighbours, in cells.
    """

    grid: Grid
    queries: Int64[Tensor, "window query"]
    keys: Int64[Tensor, "window key"]
    cells: Float[Tensor, "cell 2"]
    fold: Fold
    confidence: float
    extent: tuple[float, float]  # size of a typical key, in cells of the queries
    note: str = ""


@dataclass(frozen=True)
class Unplaced:
    """The reason why the tokens of a call have no position.

    Attributes:
        reason: The reason, as a sentence about the layer.
        confidence: The largest gap that was seen, in cells.
        is_patches: False if the call has no patches to locate (class attention, channels).
    """

    reason: str
    confidence: float | None = None
    is_patches: bool = True


@dataclass(frozen=True)
class _Reading:
    """The moments of one call, restricted to some draws; the fields are those of ``place_call``."""

    call: ProbedCall
    size: tuple[int, int]
    quiet: float
    which: slice

    def sums(self, name: str, fold: Fold) -> Tensor:
        """Return the moments of a tensor, [5, window, head, token]."""
        draws = self.call.moments[name].draws
        return unfolded_moments(draws, fold, self.call.sizes[:-2], self.which)

    def centres(self, name: str, fold: Fold) -> Centres:
        """Return the centres of a tensor's tokens."""
        centres = centres_of(self.sums(name, fold).sum(2), self.size, self.quiet)
        return without_wide(centres, self.size)


def place_call(
    call: ProbedCall, size: tuple[int, int], quiet: float, which: slice = slice(None)
) -> Placed | Unplaced:
    """Locate all tokens of a call, or return why that is impossible.

    Args:
        call: The call and the moments of its tensors.
        size: Height and width of the image in pixels.
        quiet: Share of the largest response below which a token counts as not responding.
        which: Draws to use.
    """
    num_queries, num_keys = call.sizes[-2:]
    if num_queries == 1 and num_keys > 1:
        reason = f"one query attends to {num_keys} tokens: class attention or pooling"
        return Unplaced(reason, is_patches=False)
    reading = _Reading(call, size, quiet, which)
    pairs = sorted(x.partition(".")[2] for x in call.moments if x.startswith("queries."))
    if not _responds(call, "values"):
        return Unplaced(NO_RESPONSE)
    if not pairs:
        is_linear = _is_linear(reading)
        return Unplaced(LINEAR if is_linear else NO_PRODUCT, is_patches=not is_linear)
    pairs = [x for x in pairs if call.num_tokens[f"queries.{x}"] == num_queries
             and call.num_tokens[f"keys.{x}"] == num_keys] or pairs  # fmt: skip
    live = [x for x in pairs if _responds(call, f"queries.{x}")]
    if not live:
        return Unplaced(LEARNED, is_patches=False)
    both = [x for x in live if _responds(call, f"keys.{x}")] or live
    best: float | None = None
    single: Placed | None = None
    for pair in both:
        for fold in candidate_folds(call.sizes[:-2]):
            placed = _place_folded(reading, f"queries.{pair}", f"keys.{pair}", fold)
            if isinstance(placed, Placed) and placed.grid.num_patches > 1:
                return placed
            if isinstance(placed, Placed):  # a single patch: windows may be mistaken for heads
                single = placed
            elif placed is not None:
                best = placed if best is None else max(best, placed)
    if single is not None:
        return single
    if _is_channels(reading, f"queries.{both[0]}"):
        return Unplaced(CHANNELS, is_patches=False)
    gap = "they form no grid" if best is None else f"the smallest gap is {best:.2f} cells"
    reason = (
        f"where its tokens sit is not clear: rows and columns of the pixels that they depend on "
        f"cannot be told apart ({gap}; {MIN_GAP} are needed)"
    )
    return Unplaced(reason, best)


def _responds(call: ProbedCall, name: str) -> bool:
    """Return whether a tensor responds to the image at all."""
    draws = call.moments[name].draws if name in call.moments else []
    return any(float(each[0].max()) > 0 for each in draws)


def is_dead(call: ProbedCall) -> bool:
    """Return whether nothing in a call responds to the image."""
    return not any(_responds(call, name) for name in call.moments)


def has_image_queries(call: ProbedCall) -> bool:
    """Return whether the queries of a call respond to the image."""
    return any(_responds(call, name) for name in call.moments if name.startswith("queries."))


def _place_folded(reading: _Reading, queries: str, keys: str, fold: Fold) -> Placed | float | None:
    """Return the positions of a call if it is folded like this.

    Args:
        reading: The moments of the call.
        queries: Name of the queries in the moments.
        keys: Name of the keys in the moments.
        fold: The fold to try.

    Returns:
        The positions; or, if this fold is wrong or the positions are not clear, the largest gap
            that was seen; or None if there was none.
    """
    if not all(_heads_agree(reading, name, fold) for name in (queries, keys, "values")):
        return None
    at = reading.centres(queries, fold)
    num_windows, num_queries = at.responds.shape
    placed = at.responds
    arrangement = arrange(at.places[placed], reading.size) if placed.any() else None
    note = ""
    if arrangement is None or not _is_clear(reading, queries, fold, at, arrangement):
        shared = _shared_queries(reading, queries, fold) if num_windows > 1 else None
        if shared is None:
            return None if arrangement is None else arrangement.gap
        at, arrangement = shared
        placed = at.responds
        note = (
            "All windows share queries pooled from the whole image; each row is counted from the "
            "patch of the window that gets its output."
        )
    query_cells = torch.full((num_windows, num_queries), -1)
    query_cells[placed] = arrangement.cells
    key_places = [
        each
        for name in ("values", keys)
        if _responds(reading.call, name)
        and (each := _place_keys(reading, name, fold, arrangement)) is not None
    ]
    if not key_places:
        return 0.0
    if len(key_places) == 2 and not _same_places(*key_places):
        return 0.0
    best = max(key_places, key=lambda each: each.gap)
    extents = reading.centres("values", fold)
    cell = torch.tensor(reading.size, dtype=torch.float64) / torch.tensor(
        [arrangement.grid.rows, arrangement.grid.cols], dtype=torch.float64
    )
    typical = (extents.extents[extents.responds] / cell).median(0).values
    return Placed(
        arrangement.grid,
        query_cells,
        best.keys,
        best.cells,
        fold,
        min(arrangement.gap, best.gap),
        (float(typical[0]), float(typical[1])),
        note,
    )


def _heads_agree(reading: _Reading, name: str, fold: Fold) -> bool:
    """Return whether tokens are at the same position in all heads.

    The deviations from the mean over heads are computed for two halves of the draws and multiplied.
    Noise, which differs between the halves, averages out in this product.
    """
    if fold.num_heads == 1 or not _responds(reading.call, name):
        return True
    halves = []
    draws = reading.call.moments[name].draws[reading.which]
    for half in (slice(0, None, 2), slice(1, None, 2)) if len(draws) > 1 else (slice(None),) * 2:
        sums = unfolded_moments(draws, fold, reading.call.sizes[:-2], half)
        each = centres_of(sums.flatten(1, 2), reading.size, reading.quiet)
        halves.append((each.places, each.responds))
    heads = (fold.num_windows, fold.num_heads)
    responds = (halves[0][1] & halves[1][1]).unflatten(0, heads).all(1)
    if not responds.any():
        return True
    deviations = []
    for places, _ in halves:
        apart = places.unflatten(0, heads)  # [window, head, token, 2]
        deviations.append((apart - apart.mean(1, keepdim=True)).transpose(1, 2)[responds])
    products = (deviations[0] * deviations[1]).sum(-1).flatten()
    apart, error = float(products.mean()), float(products.std() / len(products) ** 0.5)
    height, width = reading.size
    cell = height * width / int(responds.sum())  # area of a cell, if the fold is right
    if len(draws) == 1:
        return apart < SINGLE_AGREEMENT * cell
    if apart >= AGREEMENT * cell:
        return False
    return apart < max(SIGNIFICANT * error, AGREEMENT * cell / fold.num_heads)


def _is_clear(reading: _Reading, name: str, fold: Fold, at: Centres, first: Arrangement) -> bool:
    """Return whether an arrangement can be trusted.

    Its gap must be large. A small gap, as convolutions may cause by pulling centres together, is
    accepted if two halves of the draws, whose noise differs, put every token in the same cell.

    Args:
        reading: The moments of the call.
        name: Name of the tensor.
        fold: How the call is folded.
        at: The centres.
        first: The arrangement.
    """
    if first.gap >= MIN_GAP:
        return True
    draws = reading.call.moments[name].draws[reading.which]
    if first.gap < LEAST_GAP or len(draws) < 2:
        return False
    for half in (slice(0, None, 2), slice(1, None, 2)):
        sums = unfolded_moments(draws, fold, reading.call.sizes[:-2], half).sum(2)
        each = centres_of(sums, reading.size, reading.quiet).places[at.responds]
        again = arrange(each, reading.size)
        if again is None or again.grid != first.grid or not torch.equal(again.cells, first.cells):
            return False
    return True


def _shared_queries(
    reading: _Reading, queries: str, fold: Fold
) -> tuple[Centres, Arrangement] | None:
    """Return the positions of the values, if all windows have the same queries (as in GCViT).

    The row of a shared query belongs to the patch of the window that gets its output.
    """
    num_queries, num_keys = reading.call.sizes[-2:]
    if num_queries != num_keys:
        return None
    if not _heads_agree(reading, queries, fold.without_windows()):
        return None
    at = reading.centres("values", fold)
    arrangement = arrange(at.places[at.responds], reading.size) if at.responds.any() else None
    return (
        (at, arrangement)
        if arrangement and _is_clear(reading, "values", fold, at, arrangement)
        else None
    )


@dataclass(frozen=True)
class _Keys:
    """The cell of every key, the centres of the cells, and how clear the positions are."""

    keys: Tensor
    cells: Tensor
    gap: float


def _same_places(one: _Keys, other: _Keys) -> bool:
    """Return whether keys and values are at the same positions, where both have one."""
    both = (one.keys >= 0) & (other.keys >= 0)
    return bool(torch.equal(one.cells[one.keys[both]], other.cells[other.keys[both]]))


def _place_keys(reading: _Reading, name: str, fold: Fold, queries: Arrangement) -> _Keys | None:
    """Locate the keys on the queries' grid or, if they are pooled, on a grid of their own.

    Args:
        reading: The moments of the call.
        name: Name of the keys or values in the moments.
        fold: How the call is folded.
        queries: The arrangement of the queries.

    Returns:
        The positions; None if they are not clear.
    """
    at = reading.centres(name, fold)
    grid, placed = queries.grid, at.responds
    keys = torch.full(placed.shape, -1)
    own = arrange(at.places[placed], reading.size)
    if own and not _is_clear(reading, name, fold, at, own):
        own = None
    if own and own.grid != grid:
        keys[placed] = own.cells
        return _Keys(keys, _pooled_cells(reading, own, queries), own.gap)
    cells, margin = nearest_cells(at.places[placed], queries)
    if own:
        agree = torch.equal(own.cells, cells)
        keys[placed] = own.cells
        return _Keys(keys, grid.coordinates(), own.gap) if agree else None
    if margin < MIN_MARGIN:
        return None
    keys[placed] = cells
    return _Keys(keys, grid.coordinates(), margin)


def _pooled_cells(reading: _Reading, keys: Arrangement, queries: Arrangement) -> Tensor:
    """Return the centres of the keys' cells in units of the queries, [cell, 2]."""
    sides = []
    samplings = reading.call.samplings
    for axis in range(2):
        key_marks = (keys.row_centres, keys.col_centres)[axis]
        query_marks = (queries.row_centres, queries.col_centres)[axis]
        sampled = [(x.before[axis], (x.rows, x.cols)[axis]) for x in samplings]
        if len(query_marks) >= len(key_marks):
            at = coordinates(query_marks, key_marks)
            if len(query_marks) == 1:
                sides.append(torch.zeros(1, dtype=torch.float64))
                continue
            sides.append(snap(at, len(query_marks), sampled))
        else:
            at = snap(coordinates(key_marks, query_marks), len(key_marks), sampled)
            step = float(at.diff().median()) if len(at) > 1 else float(len(key_marks))
            sides.append((torch.arange(len(key_marks)).double() - at[0]) / step)
    return torch.cartesian_prod(*sides).reshape(-1, 2)


def _is_channels(reading: _Reading, name: str) -> bool:
    """Return whether the features of the tokens have positions, because the tokens are channels."""
    total = torch.stack(reading.call.moments[name].turned[reading.which]).sum(0)
    features = total.reshape(5, -1, total.shape[-1]).sum(1, keepdim=True)
    at = centres_of(features, reading.size, reading.quiet)
    arrangement = arrange(at.places[at.responds], reading.size)
    return arrangement is not None and arrangement.gap >= MIN_GAP and at.num_placed > 1


def _is_linear(reading: _Reading) -> bool:
    """Return whether a softmax that is not of a product of queries and keys is linear attention's.

    Linear attention takes the softmax of the keys or of the queries alone. In the first case, the
    columns of the softmax are tokens and its rows features. In the second case, its rows are
    tokens, and they are multiplied with a sum over the whole image.
    """
    if "weights" in reading.call.moments and _is_channels(reading, "weights"):
        return True
    sums = torch.stack(reading.call.moments["values"].draws[reading.which]).sum(0)
    at = centres_of(sums.reshape(5, 1, -1), reading.size, reading.quiet)
    shares = at.extents[at.responds] / torch.tensor(reading.size, dtype=torch.float64)
    return bool(shares.median() >= NARROW)
