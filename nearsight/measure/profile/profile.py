"""Measure every attention head of any Vision Transformer, one layer of one batch at a time.

``measure_model`` takes a model and images; ``Profile`` holds every metric per image, layer and
head, with means and intervals over images.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from nearsight.core import UserError
from nearsight.measure.capture import (
    AttentionCapture,
    evaluation_mode,
    image_batches,
    inner_model,
    refuse_unseen,
    unseen_reason,
)
from nearsight.measure.catalogue import DEFAULT_METRICS, METRIC_NAMES
from nearsight.measure.metrics import (
    PAPER,
    Convention,
    Estimates,
    chosen_metrics,
    convention_of,
    convert_estimates,
    head_names,
)
from nearsight.measure.profile.recorder import LayerFacts, Recorder
from nearsight.measure.profile.unread import unread_layers
from nearsight.measure.readouts import Collection, ReadOuts, written_collection
from nearsight.models.layers import Grid, as_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VIEWS = "nearsight.explore.profile_views"  # tables and figures of profiles
COMPARED = ("layers", "skipped", "metrics", "convention", "unavailable")  # fields that == compares


@dataclass(frozen=True, eq=False, repr=False)
class Profile:
    """The metrics of every head of a model, per image, with means and 95 % intervals.

    Every metric is an attribute with ``.mean[layer][head]``, ``.low``, ``.high`` and ``.values``. A
    profile prints as a table; a notebook also shows a figure. ``to_pandas`` returns a row per head,
    ``plot`` draws, ``save`` writes a file that ``nearsight.load_profile`` reads, and
    ``nearsight.write_report`` makes a page of one or more profiles.

    >>> from nearsight.models.load.registry import create_model
    >>> profile = measure_model(create_model("mu"), torch.zeros(2, 3, 32, 32))
    >>> len(profile.mad.mean), profile.entropy.mean[0].shape, str(profile.grid)
    (2, (2,), '8x8')
    """

    layers: tuple[LayerFacts, ...]
    skipped: tuple[tuple[str, str], ...]  # layers that were not measured, each with the reason
    metrics: dict[str, Estimates]
    convention: Convention = PAPER
    unavailable: tuple[tuple[str, str, str], ...] = ()  # metric, layer, reason; the values are NaN
    position_share: tuple[np.ndarray, ...] | None = None  # one array per layer [head]
    readouts: Collection = field(default_factory=dict)  # by key, then by number of the layer
    name: str = ""  # name of the model in tables and figures
    num_parameters: int = 0
    seconds: float = 0.0  # duration of the measurement

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same numbers for the same layers; their names may differ."""
        if not isinstance(other, Profile):
            return NotImplemented
        mine, yours = self.position_share or (), other.position_share or ()
        return (
            all(getattr(self, name) == getattr(other, name) for name in COMPARED)
            and len(mine) == len(yours)
            and all(np.array_equal(x, y, equal_nan=True) for x, y in zip(mine, yours))
            and written_collection(self.readouts) == written_collection(other.readouts)
        )

    def __dir__(self) -> list[str]:
        """List the metrics too, so that Tab completes them."""
        return sorted({*super().__dir__(), *self.metrics})

    def __repr__(self) -> str:
        return _view("profile_text")(self)

    def _repr_html_(self) -> str:
        return _view("profile_html")(self)

    def __getattr__(self, name: str) -> Estimates:
        if name in METRIC_NAMES:
            if name in self.metrics:
                return self.metrics[name]
            raise AttributeError(
                f"{name} was not measured; measure again with metrics=(..., {name!r}) or 'all'"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def grid(self) -> Grid:
        """The grid of the first layer. In a hierarchical model, later layers have coarser grids."""
        return self.layers[0].grid

    @property
    def num_images(self) -> int:
        """The number of images measured."""
        return len(next(iter(self.metrics.values())).values[0])

    @property
    def read_layers(self) -> list[int]:
        """The layers, counted from 0, in which the attention of patches may influence an output.

        These are all layers, except those that are known not to influence the logits, such as the
        last layer of a classifier that reads only its class token. Means, minima and counts over
        all heads use these layers.
        """
        return [i for i, layer in enumerate(self.layers) if not layer.unread]

    @property
    def head_names(self) -> list[list[str]]:
        """One word per head, [layer][head]; ``metrics/head_kinds.py`` has the rules."""
        return head_names(self.metrics, self.position_share)

    def to_pandas(self) -> Any:
        """Return a pandas table with one row per head: the mean and 95 % interval of each metric.

        Layers and heads are counted from 1. A metric with several numbers per head has a column for
        each (``offset_1``, ``offset_2``). A metric of a whole layer is repeated in the rows of its
        heads.

        Raises:
            UserError: If pandas is not installed.
        """
        return _view("profile_frame")(self)

    def plot(self, kind: str = "depth") -> Figure:
        """Draw the profile and return matplotlib's figure.

        Args:
            kind: "depth" (MAD and entropy by layer), "plane" (MAD against entropy, a point per
                head) or "heads" (a map of all heads).
        """
        return _view("profile_figure")(self, kind)

    def save(self, path: str | Path) -> Path:
        """Write the profile to a safetensors file and return its path; see ``load_profile``."""
        from nearsight.measure.profile.values import write_values

        return write_values(path, self, most_per_head=None)

    def in_convention(self, name: str) -> Profile:
        """Return the same measurement with distances in another convention.

        Raises:
            UserError: If the distances cannot be converted exactly.
        """
        wanted = convention_of(name)
        metrics = convert_estimates(self.metrics, self.layers, self.convention, wanted)
        return replace(self, metrics=metrics, convention=wanted)


def _view(name: str) -> Callable[..., Any]:
    """Return the function of this name that shows a profile.

    Pages, tables and figures are made in a room above this one, which this room may not import. So
    it is imported only when a profile is shown.
    """
    return getattr(import_module(VIEWS), name)


def measure_model(
    model: nn.Module,
    images: Tensor | np.ndarray | Dataset[Any] | Iterable[Any],
    grid: Grid | Sequence[int] | None = None,
    num_prefix: int | None = None,
    convention: str = "paper",
    metrics: Sequence[str] | str = DEFAULT_METRICS,
    progress: Callable[[int], None] | None = None,
) -> Profile:
    """Measure how local every attention head of a model is.

    The model runs in evaluation mode; its state is restored afterwards.

    Args:
        model: Any Vision Transformer with softmax attention between patches.
        images: A tensor [n, 3, h, w] as the model takes it; a torch data set of such images (or of
            tuples that begin with one); or a loader or other iterable of batches, which may be
            tuples or dictionaries whose first entry is the images.
        grid: Rows and columns of patches, as ``Grid(8, 8)`` or ``(8, 8)``. Found automatically by
            default.
        num_prefix: The number of class and register tokens. Found automatically by default.
        convention: How distances are counted: paper (grid diagonals), convit, pixels, keras or
            cl-vs-mim.
        metrics: Names of metrics, or "all".
        progress: Called after every batch with the number of images done.

    Returns:
        The profile of the model.

    Raises:
        UserError: If a layer cannot be measured. The message names the layer and what to do.

    >>> from nearsight.models.load.registry import create_model
    >>> profile = measure_model(create_model("mu"), torch.zeros(5, 3, 32, 32))
    >>> profile.num_images, len(profile.mad.mean), profile.layers[1].name
    (5, 2, 'blocks.1.attn')
    """
    began = time.perf_counter()
    wanted = convention_of(convention)
    chosen = chosen_metrics(metrics, wanted)
    readouts = ReadOuts(inner_model(model))
    recorder = Recorder(chosen, as_grid(grid), num_prefix, wanted, readouts)
    batches: list[list[dict[str, Tensor]]] = []  # [batch][layer][metric]
    first: Tensor | None = None
    with evaluation_mode(model) as inner, readouts, AttentionCapture(inner, recorder) as capture:
        for batch in image_batches(images, inner):
            recorder.begin()
            first = batch[:1].clone() if first is None else first
            inner(batch)
            refuse_unseen(capture.unseen)
            recorder.pass_over((x.name, unseen_reason(x)) for x in capture.passed_over)
            _check_layers(recorder, inner, capture.took_softmax)
            batches.append(recorder.values)
            recorder.num_images += len(batch)
            if progress:
                progress(recorder.num_images)
    if first is None:
        raise UserError("there are no images to measure; pass at least one batch")
    unread = unread_layers(model, first, *recorder.given)
    layers = tuple(recorder.layers)
    if unread is not None and len(unread) == len(layers):
        layers = tuple(replace(layer, unread=x) for layer, x in zip(layers, unread))
    estimates = {
        name: Estimates([_concatenate(batches, layer, name) for layer in range(len(layers))])
        for name in batches[0][0]
    }
    return Profile(
        layers,
        tuple(recorder.skipped),
        convert_estimates(estimates, layers, replace(PAPER, rows=wanted.rows), wanted),
        wanted,
        tuple(recorder.unavailable),
        recorder.position_share() if chosen.position_share else None,
        readouts.collected,
        type(inner_model(model)).__name__,
        sum(x.numel() for x in inner_model(model).parameters()),
        time.perf_counter() - began,
    )


def _concatenate(batches: list[list[dict[str, Tensor]]], layer: int, metric: str) -> np.ndarray:
    """Concatenate the values of all batches, for one layer and metric."""
    return torch.cat([batch[layer][metric] for batch in batches]).numpy()


def _check_layers(recorder: Recorder, model: nn.Module, took_softmax: bool) -> None:
    """Raise a UserError unless there are layers to measure, the same ones in all batches."""
    kind = type(model).__name__
    if not recorder.values and recorder.skipped:
        reasons = {reason: name for name, reason in reversed(recorder.skipped)}
        each = "; ".join(f"{name}: {reason}" for reason, name in reversed(reasons.items()))
        raise UserError(f"no attention layer of {kind} can be measured ({each})")
    if not recorder.values and took_softmax:
        raise UserError(
            f"{kind} computes a softmax over a last axis, but no product of it with values was "
            "seen, so it has no attention that can be measured; if it has attention, multiply "
            "weights and values with matmul or einsum, or use scaled_dot_product_attention"
        )
    if not recorder.values:
        raise UserError(
            f"{kind} has no softmax attention between patches, so there is nothing to measure"
        )
    if len(recorder.values) != len(recorder.layers):
        raise UserError(
            f"{kind} ran {len(recorder.layers)} attention layers in the first batch but "
            f"{len(recorder.values)} in a later one; all batches must run the same layers"
        )
