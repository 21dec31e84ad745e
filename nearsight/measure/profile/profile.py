"""Measure every attention head of any Vision Transformer, one layer of one batch at a time.

``measure_model`` takes a model as it is and images as it takes them; ``Profile`` holds every metric
per image, layer and head, with means and intervals over images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.measure.capture import (
    AttentionCapture,
    evaluating,
    image_batches,
    inner_model,
    refuse_unseen,
)
from nearsight.measure.catalogue import DEFAULT_METRICS, METRIC_NAMES
from nearsight.measure.metrics import (
    PAPER,
    Convention,
    Estimates,
    chosen_metrics,
    convention_of,
    converted,
    head_names,
)
from nearsight.measure.profile.recorder import LayerFacts, Recorder
from nearsight.measure.readouts import Collection, ReadOuts
from nearsight.models.layers import Grid


@dataclass(frozen=True)
class Profile:
    """Every metric of every head: ``profile.mad.mean[layer][head]``, ``.low``, ``.high``."""

    layers: tuple[LayerFacts, ...]
    skipped: tuple[tuple[str, str], ...]  # layers without patch-to-patch attention, and why
    metrics: dict[str, Estimates]
    convention: Convention = PAPER
    unavailable: tuple[tuple[str, str, str], ...] = ()  # metric, layer, reason; its values are NaN
    position_share: tuple[np.ndarray, ...] | None = None  # one array per layer [head]
    readouts: Collection = field(default_factory=dict)  # by key, and by number of the layer

    def __getattr__(self, name: str) -> Estimates:
        if name in METRIC_NAMES:
            if name in self.metrics:
                return self.metrics[name]
            raise AttributeError(
                f"{name} was not measured: ask for it with metrics=(..., {name!r}) or metrics='all'"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def grid(self) -> Grid:
        """That of the first layer; later ones of a hierarchical model are coarser."""
        return self.layers[0].grid

    @property
    def num_images(self) -> int:
        return len(next(iter(self.metrics.values())).values[0])

    @property
    def head_names(self) -> list[list[str]]:
        """What every head does, in one word; see ``head_names.py`` for the thresholds."""
        return head_names(self.metrics, self.position_share)

    def in_convention(self, name: str) -> Profile:
        """The same measurement with distances in another convention, where that is exact."""
        wanted = convention_of(name)
        metrics = converted(self.metrics, self.layers, self.convention, wanted)
        return replace(self, metrics=metrics, convention=wanted)


def measure_model(
    model: nn.Module,
    images: Tensor | Iterable[Any],
    grid: Grid | None = None,
    num_prefix: int | None = None,
    convention: str = "paper",
    metrics: Sequence[str] | str = DEFAULT_METRICS,
    progress: Callable[[int], None] | None = None,
) -> Profile:
    """How local every attention head of ``model`` is, over ``images``.

    ``images`` is a tensor [n, 3, h, w] as the model takes it, or an iterable of such batches (of
    tuples or dictionaries whose first entry is one). Grid and number of prefix tokens are found
    unless given. Distances are in ``convention`` (see ``convention.py``); ``metrics`` are names, or
    "all". The model is measured in evaluation mode and left as it was. ``progress`` is told the
    number of images done after every batch.

    >>> from nearsight.models.load.registry import create_model
    >>> profile = measure_model(create_model("mu"), torch.zeros(5, 3, 32, 32))
    >>> profile.num_images, len(profile.mad.mean), profile.layers[1].name
    (5, 2, 'blocks.1.attn')
    """
    counted = convention_of(convention)
    chosen = chosen_metrics(metrics, counted)
    readouts = ReadOuts(inner_model(model))
    recorder = Recorder(chosen, grid, num_prefix, counted, readouts)
    found: list[list[dict[str, Tensor]]] = []  # [batch][layer][metric]
    with evaluating(model) as inner, readouts, AttentionCapture(inner, recorder) as capture:
        for batch in image_batches(images, inner):
            recorder.begin()
            inner(batch)
            refuse_unseen(capture.unseen)
            _check_layers(recorder, inner)
            found.append(recorder.values)
            recorder.num_images += len(batch)
            if progress:
                progress(recorder.num_images)
    if not found:
        raise UserError("expected at least one batch of images, got none")
    layers = tuple(recorder.layers)
    estimates = {
        name: Estimates([_joined(found, layer, name) for layer in range(len(layers))])
        for name in found[0][0]
    }
    return Profile(
        layers,
        tuple(recorder.skipped),
        converted(estimates, layers, replace(PAPER, rows=counted.rows), counted),
        counted,
        tuple(recorder.unavailable),
        recorder.position_share() if chosen.position_share else None,
        readouts.collected,
    )


def _joined(found: list[list[dict[str, Tensor]]], layer: int, metric: str) -> np.ndarray:
    return torch.cat([batch[layer][metric] for batch in found]).numpy()


def _check_layers(recorder: Recorder, model: nn.Module) -> None:
    """Every forward shows the same layers, and there are some."""
    if not recorder.values:
        skipped = "; ".join(f"{name}: {reason}" for name, reason in recorder.skipped)
        raise UserError(
            f"{type(model).__name__} has no softmax attention between patches, so there is nothing "
            f"to measure{f' ({skipped})' if skipped else ''}"
        )
    if len(recorder.values) != len(recorder.layers):
        raise UserError(
            f"expected the {len(recorder.layers)} attention layers of the first batch, "
            f"got {len(recorder.values)} in a later one"
        )
