"""Locate the tokens of all attention calls of a model, with as few forward passes as possible."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nearsight.measure.capture import Place
from nearsight.measure.layout.placing.call_places import (
    DEPENDS,
    Placed,
    Unplaced,
    has_image_queries,
    is_dead,
    place_call,
)
from nearsight.measure.layout.placing.centres import centres_of
from nearsight.measure.layout.placing.folds import Fold
from nearsight.measure.layout.placing.probe import (
    FORWARDS_PER_DRAW,
    QUIET,
    Probe,
    ProbedCall,
    Record,
    Unstable,
)

MAX_FORWARDS = 100  # largest number of forward passes of one image
FIRST_DRAWS = 2  # with two draws, hence two images, positions that depend on the image are noticed
LOOKS = (FIRST_DRAWS, 4, 8)  # numbers of draws after which the tokens are located
CLEAR_GAP = 0.25  # in cells; with such a gap, no more draws are needed
RANDOM = "it drops or shuffles patches at random"
MOVED = 0.6  # a token moves between two images if its centre shifts by this share of its extent
MOVED_SHARE = 0.25  # if this share of the tokens moves, they are chosen by content
MIN_FEATURES = 8  # with fewer features, the centres of one draw are too noisy to be compared


@dataclass(frozen=True)
class PlacedCall:
    """What was found for one call of a model."""

    name: str
    kind: str
    sizes: tuple[int, ...]  # [..., query, key] for one image
    found: Placed | Unplaced


@dataclass(frozen=True)
class ModelPlaces:
    """What was found for all attention calls of a model at one image size."""

    calls: tuple[PlacedCall, ...]
    num_forwards: int
    refusal: str | None = None  # why the whole model has no fixed positions


def place_model(place: Place, progress: Callable[[int, int], None] | None = None) -> ModelPlaces:
    """Find where the tokens of every attention call of a model are.

    Args:
        place: The model and the inputs of its forward, as a capture saw them.
        progress: Called with the number of forward passes done and the largest possible number.
    """
    probe = Probe(place)
    try:
        with probe:
            return _place(probe, progress)
    except Unstable as error:
        return ModelPlaces((), probe.num_forwards, str(error))


def _place(probe: Probe, progress: Callable[[int, int], None] | None) -> ModelPlaces:
    """Add draws until more of them would change nothing, or the forward passes are used up."""
    try:
        is_random = probe.is_random()
    except RuntimeError:  # the model creates float32 tensors, which do not fit to float64
        probe.widen()
        is_random = probe.is_random()
    if is_random:
        return ModelPlaces((), probe.num_forwards, RANDOM)
    batches = _batches(probe)
    quiet, tried, num_draws = QUIET[probe.dtype], set[int](), 0
    results: dict[int, Placed | Unplaced] = {}
    looks = iter(LOOKS)
    look = next(looks)
    while True:
        probe.draw(num_draws)
        num_draws += 1
        if progress:
            progress(probe.num_forwards, MAX_FORWARDS)
        spent = probe.num_forwards + FORWARDS_PER_DRAW > MAX_FORWARDS
        if not spent and _revive(probe, tried, quiet):
            continue
        fewest = min((_num_draws(call) for call in probe.calls), default=look)
        if fewest < look and not spent:
            continue
        look = next(looks, MAX_FORWARDS)
        for number, call in enumerate(probe.calls):
            if number not in results or not _is_settled(results[number]):
                results[number] = place_call(call, probe.size, quiet)
        if spent or all(_is_settled(each) for each in results.values()):
            break
    steady = [_steady(call, results[n], probe.size, quiet) for n, call in enumerate(probe.calls)]
    calls = tuple(
        PlacedCall(call.name, call.kind, call.sizes, _with_batch(each, batch))
        for call, each, batch in zip(probe.calls, steady, batches, strict=True)
    )
    if progress:
        progress(MAX_FORWARDS, MAX_FORWARDS)
    return ModelPlaces(calls, probe.num_forwards)


def _num_draws(call: ProbedCall) -> int:
    """Return the smallest number of draws of any tensor of a call."""
    return min((len(x.draws) for x in call.moments.values()), default=FIRST_DRAWS)


def _is_settled(found: Placed | Unplaced) -> bool:
    """Return whether what was found is so clear that more draws would not change it."""
    if isinstance(found, Placed):
        return found.confidence >= CLEAR_GAP
    return not found.is_patches


def _revive(probe: Probe, tried: set[int], quiet: float) -> bool:
    """Let the signal pass a call that cuts it off, and return whether there was such a call.

    All attention outputs are replaced by zeros. If no residual path leads around a call, later
    calls then receive no signal from the image. For the last call before them, the output of each
    query is therefore replaced by the value of the nearest key, unless its queries are learned and
    thus near no key. Calls that receive no signal even then have learned tokens and are left as
    they are.
    """
    dead = [number for number, call in enumerate(probe.calls) if is_dead(call)]
    for number in dead:
        alive = [x for x in range(number) if x not in dead]
        if not alive or number in tried:
            continue
        tried.add(number)
        last = alive[-1]
        if last in probe.through or not has_image_queries(probe.calls[last]):
            continue
        nearest = _nearest_keys(probe.calls[last], probe.size, quiet)
        if nearest is None:
            continue
        probe.through[last] = nearest
        for later in dead:
            for moments in probe.calls[later].moments.values():
                moments.draws.clear()
                moments.turned.clear()
        return True
    return False


def _nearest_keys(call: ProbedCall, size: tuple[int, int], quiet: float) -> Tensor | None:
    """Return the nearest key of every query, [..., query]."""
    name = next((x for x in call.moments if x.startswith("queries.")), None)
    if name is None:
        return None
    places = []
    for each in (name, "values"):
        sums = torch.stack(call.moments[each].draws).sum(0)
        places.append(centres_of(sums, size, quiet))
    queries, keys = places
    far = torch.cdist(queries.places, keys.places)
    return far.masked_fill(~keys.responds[..., None, :], math.inf).argmin(-1)


def _steady(
    call: ProbedCall, found: Placed | Unplaced, size: tuple[int, int], quiet: float
) -> Placed | Unplaced:
    """Return what was found, unless two images alone give different positions.

    Args:
        call: The call.
        found: What all draws together gave.
        size: Height and width of the image in pixels.
        quiet: Share of the largest response below which a token does not respond.
    """
    if _num_draws(call) < FIRST_DRAWS or (isinstance(found, Unplaced) and not found.is_patches):
        return found
    alone = [place_call(call, size, quiet, slice(n, n + 1)) for n in range(2)]
    one, other = alone
    if (
        isinstance(one, Placed)
        and isinstance(other, Placed)
        and _is_settled(one)
        and _is_settled(other)
    ):
        same = one.queries.shape == other.queries.shape and torch.equal(one.queries, other.queries)
        if not same:
            return Unplaced(DEPENDS, found.confidence)
    if isinstance(found, Unplaced) and _moves(call, size, quiet):
        return Unplaced(DEPENDS, found.confidence)
    return found


def _moves(call: ProbedCall, size: tuple[int, int], quiet: float) -> bool:
    """Return whether many tokens of a call depend on different pixels in two images.

    Detectors that choose their queries among all patches make such calls.
    """
    values = call.moments.get("values")
    if values is None or values.turned[0].shape[-1] < MIN_FEATURES:
        return False
    one, other = (centres_of(x.reshape(5, 1, -1), size, quiet) for x in values.draws[:2])
    both = one.responds & other.responds
    if not bool(both.any()):
        return False
    far = (one.places - other.places).abs()
    moves = far > MOVED * torch.maximum(one.extents, other.extents)
    return float(moves[both].any(-1).double().mean()) >= MOVED_SHARE


def _batches(probe: Probe) -> list[tuple[int, int]]:
    """Return how images are folded into every call, as ``Fold.with_images`` takes it.

    This is the dimension, and the number of windows or heads that lie outside the images in it.
    """
    image, other = probe.image(1), probe.image(2)
    alone, calls = probe.run(image, silent=False)
    try:
        together, _ = probe.run(torch.cat([image, other]), silent=False)
    except RuntimeError:  # the model takes one image at a time
        return [(0, 1)] * len(calls)
    return [_batch(a, b, call) for a, b, call in zip(alone, together, calls, strict=True)]


def _batch(alone: Record, together: Record, call: ProbedCall) -> tuple[int, int]:
    """Return how images are folded into one call, by comparing a batch of two with one image."""
    leading = call.sizes[:-2]
    names = [x for x in alone if tuple(alone[x].shape[:-2]) == leading] or ["values"]
    one, both = alone[names[0]], together[names[0]]
    for dim, (size, doubled) in enumerate(zip(one.shape[:-2], both.shape[:-2])):
        if doubled != 2 * size:
            continue
        for outer in (x for x in range(1, size + 1) if size % x == 0):
            split = both.unflatten(dim, (outer, 2, size // outer))
            first = split.select(dim + 1, 0).flatten(dim, dim + 1)
            if torch.allclose(first, one, rtol=1e-4, atol=1e-6 * float(one.abs().max())):
                return dim, outer
    raise Unstable(f"how images are folded into the attention of {call.name} cannot be found")


def _with_batch(found: Placed | Unplaced, batch: tuple[int, int]) -> Placed | Unplaced:
    """Return the positions with the fold of a batch instead of that of one image."""
    if isinstance(found, Unplaced):
        return found
    fold: Fold = found.fold.with_images(*batch)
    return replace(found, fold=fold)
