"""Measure each attention call: check its weights and compute its metrics per image and head."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nearsight.core import UserError
from nearsight.measure.capture import AttentionCall
from nearsight.measure.catalogue import metric
from nearsight.measure.layout import Geometry, LayerFacts, Layout, Skipped, layout_of
from nearsight.measure.metrics import (
    PAPER,
    Chosen,
    Convention,
    MeanMap,
    Missing,
    Sum,
    block_of,
    feature_values,
)
from nearsight.measure.readouts import ReadOuts
from nearsight.measure.rows import Buffers, Unfolded, attention_rows, prove, row_sums
from nearsight.models.layers import Grid


class Recorder:
    """Compute the metrics of the attention calls of one forward after another.

    Args:
        metrics: The metrics to compute.
        grid: Rows and columns of patches; found automatically by default.
        num_prefix: Number of class and register tokens; found automatically by default.
        convention: How distances are counted.
        readouts: Read-outs of the model's parts, which are shown the same calls.

    Attributes:
        values: By layer and metric, the numbers of the last forward: [image, head, ...] in float64
            on the CPU, or [image] for metrics of a whole layer.
        layers: Facts of the measured layers, from the first forward.
        skipped: Names of layers that cannot be measured, each with the reason.
        unavailable: Each metric that has no value in a layer: metric, layer and reason.
        maps: The sum of the attention maps of each layer over all forwards, for position_share.
    """

    def __init__(
        self,
        metrics: Chosen,
        grid: Grid | None = None,
        num_prefix: int | None = None,
        convention: Convention = PAPER,
        readouts: ReadOuts | None = None,
    ) -> None:
        self.metrics = metrics
        self.readouts = readouts
        self.given = grid, num_prefix
        self.convention = convention
        self.layers: list[LayerFacts] = []
        self.skipped: list[tuple[str, str]] = []
        self.unavailable: list[tuple[str, str, str]] = []  # metric, layer, reason
        self.values: list[dict[str, Tensor]] = []
        self.maps: list[MeanMap] = []
        self.num_images = 0  # measured in earlier forwards
        self._proved = False
        self._buffers = Buffers()
        self._geometries: list[tuple[Layout, Geometry]] = []

    def begin(self) -> None:
        """Start a new forward."""
        if self.values:
            self._proved = True
        self.values = []

    def __call__(self, call: AttentionCall) -> None:
        """Measure one attention call."""
        layout = layout_of(call, *self.given)
        if isinstance(layout, Skipped):
            if not self._proved:
                self.skipped.append((call.name, layout.reason))
            return
        geometry = self._geometry(layout, call.values.device)
        tensors = Unfolded(call, layout, self._buffers)
        if not self._proved:
            facts = _facts(call, layout, geometry, tensors.num_heads, prove(call, tensors))
            self.convention.patch(facts.grid, facts.image_size)
            self.layers.append(facts)
            self.maps.append(MeanMap(facts.num_heads))
        values = self._metrics_of(tensors, geometry, call.name)
        if self.readouts:
            self.readouts.add(len(self.values), call, layout)
        self.values.append(values)
        if self.metrics.of_features:
            self._await_features(call, layout, values, tensors.num_images)

    def pass_over(self, layers: Iterable[tuple[str, str]]) -> None:
        """Record layers in which no attention was seen, by name and reason."""
        if not self._proved:
            self.skipped += layers

    def _geometry(self, layout: Layout, device: torch.device) -> Geometry:
        """Return the geometry of a layout, reusing that of an equal layout."""
        for seen, geometry in self._geometries:
            if _equal(seen, layout) and geometry.device == device:
                return geometry
        self._geometries.append((layout, Geometry(layout, device)))
        return self._geometries[-1][1]

    def _metrics_of(self, tensors: Unfolded, geometry: Geometry, layer: str) -> dict[str, Tensor]:
        """Return the metrics that are computed from the attention of one layer."""
        totals = self._totals(tensors, geometry)
        values = {
            name: each.value(totals[each.total], geometry).cpu()
            for name, each in self.metrics.of_rows.items()
        }
        self._refuse_impossible(values, "attention of", layer)
        return values

    def _totals(self, tensors: Unfolded, geometry: Geometry) -> dict[Sum, Tensor]:
        """Return the totals over all rows of a layer from which metrics are computed."""
        asked = list(dict.fromkeys(each.total for each in self.metrics.of_rows.values()))
        totals = self._sum_rows(tensors, geometry, asked)
        for each in asked:
            if each.derive:
                parts = (totals[part] for part in each.parts)
                totals[each] = each.derive(*parts, geometry)
                self._add_directly(tensors, geometry, each, totals[each])
        return totals

    def _add_directly(
        self, tensors: Unfolded, geometry: Geometry, each: Sum, total: Tensor
    ) -> None:
        """Replace totals that could not be derived (NaN) with the sum over rows, head by head.

        Args:
            tensors: The tensors of the attention call.
            geometry: Positions of its tokens.
            each: The sum.
            total: The derived totals, which are changed in place.
        """
        lost = total.isnan().flatten(2).any(-1)  # [image, head]
        if not bool(lost.any()):
            return
        for head in lost.any(0).nonzero().flatten().tolist():
            for rows in attention_rows(tensors, geometry, heads=slice(head, head + 1)):
                images = rows.block.images
                here = lost[images, head]
                if rows.span.start == 0:
                    total[images, head] = total[images, head].masked_fill(here[:, None], 0.0)
                total[images, head] += each.of(rows)[:, 0].masked_fill(~here[:, None], 0.0)

    def _sum_rows(
        self, tensors: Unfolded, geometry: Geometry, asked: list[Sum]
    ) -> dict[Sum, Tensor]:
        """Add up sums over rows: those asked for, or the parts from which they are derived."""
        sums = list(dict.fromkeys(part for each in asked for part in each.parts or (each,)))
        mean_map = self._mean_map()
        if not mean_map and not sums:  # metrics of features only
            return {}
        if not mean_map and all(each.kernel for each in sums):
            summed = row_sums(tensors, geometry)
            if summed:
                return {each: getattr(summed, each.kernel) for each in sums if each.kernel}
        totals: dict[Sum, Tensor] = {}
        blocks = attention_rows(
            tensors,
            geometry,
            with_sink=any(each.needs_sink for each in sums),
            whole_layers=any(each.of_layer for each in sums),
        )
        for rows in blocks:
            for each in sums:
                part = each.of(rows)
                at = (rows.block.images, rows.block.heads)[: 1 if each.of_layer else 2]
                if each not in totals:
                    sizes = (tensors.num_images, tensors.num_heads)[: len(at)]
                    totals[each] = part.new_zeros(*sizes, *part.shape[len(at) :])
                totals[each][at] += part
            if mean_map:
                mean_map.add(rows)
        return totals

    def position_share(self) -> tuple[np.ndarray, ...]:
        """Return the position share of every layer over all images, [head]."""
        return tuple(x.share(self.num_images).numpy() for x in self.maps)

    def _mean_map(self) -> MeanMap | None:
        """Return the map of the current layer, if position_share was asked for.

        It is None for a layer that the first forward did not have.
        """
        layer = len(self.values)
        return self.maps[layer] if self.metrics.position_share and layer < len(self.maps) else None

    def _await_features(
        self, call: AttentionCall, layout: Layout, values: dict[str, Tensor], num_images: int
    ) -> None:
        """Compute metrics of features as soon as the block around the attention has returned.

        Args:
            call: The attention call of the layer.
            layout: Where its tokens are.
            values: The metrics of the layer, to which these are added.
            num_images: Number of images in the batch.
        """
        metrics, first = self.metrics.of_features, not self._proved

        def add(metric_values: dict[str, Tensor | Missing]) -> None:
            for name, value in metric_values.items():
                if isinstance(value, Missing):
                    values[name] = torch.full((num_images,), torch.nan, dtype=torch.float64)
                    if first:
                        self.unavailable.append((name, call.name, value.reason))
                else:
                    self._refuse_impossible({name: value}, "features after", call.name)
                    values[name] = value

        block, model = block_of(call), call.path[0].module
        if isinstance(block, Missing):
            add(dict.fromkeys(metrics, block))
        else:
            block.output_callbacks.append(
                lambda output: add(feature_values(metrics, output, layout, model))
            )

    def _refuse_impossible(self, values: Mapping[str, Tensor], of: str, layer: str) -> None:
        """Raise a UserError if a value is NaN or outside the limits of its metric.

        Args:
            values: Values by metric.
            of: What they were computed from, for the message: "attention of" or "features after".
            layer: Name of the layer.
        """
        for name, value in values.items():
            if not math.isfinite(value.sum()):  # one NaN makes a sum NaN
                raise UserError(
                    f"{name} is NaN in the {of} layer {layer} "
                    f"for image {self._first_image(~value.isfinite())} (counted from 0), because "
                    "the model computes NaN or infinite numbers for it; check the weights of the "
                    "model and how the image was prepared"
                )
            if not value.numel():
                continue
            low, high = (x.item() for x in value.aminmax())
            if (bad := metric(name).outside(low, high)) is not None:
                least, most = metric(name).limits
                raise UserError(
                    f"{name} in the {of} layer {layer} is {bad:.3g} for image "
                    f"{self._first_image(value == bad)} (counted from 0), but it must lie between "
                    f"{least:g} and {most:g}; the model's logits are too large to be measured, or "
                    "its weights are damaged"
                )

    def _first_image(self, is_bad: Tensor) -> int:
        """Return the number of the first image for which a value is bad."""
        return self.num_images + int(is_bad.reshape(len(is_bad), -1).any(1).nonzero()[0])


def _equal(a: Layout, b: Layout) -> bool:
    """Return whether two layouts put all tokens at the same positions."""
    tables: list[tuple[Any, Any]] = [
        (a.queries, b.queries),
        (a.keys, b.keys),
        (a.cells, b.cells),
    ]
    return a.grid == b.grid and all(torch.equal(x, y) for x, y in tables)


def _image_size(call: AttentionCall) -> tuple[int, int] | None:
    """Return the height and width of the images that the model was given, if it was given any."""
    sizes = [x.shape[-2:] for x in call.path[0].inputs if isinstance(x, Tensor) and x.ndim == 4]
    return (sizes[0][0], sizes[0][1]) if sizes else None


def _facts(
    call: AttentionCall, layout: Layout, geometry: Geometry, num_heads: int, error: float
) -> LayerFacts:
    """Return the facts of a layer that do not depend on images.

    Args:
        call: Its attention call.
        layout: Where its tokens are.
        geometry: The geometry made from the layout.
        num_heads: Number of heads.
        error: The error that ``prove`` found.
    """
    note = layout.note
    if call.multiplied is not None:
        mixed = "Metrics are of the softmax rows, before the layer mixes its heads."
        note = f"{note} {mixed}" if note else mixed
    return LayerFacts(
        name=call.name,
        kind=type(call.path[-1].module).__name__,
        grid=layout.grid,
        num_heads=num_heads,
        num_prefix=geometry.query_tokens.start,
        num_keys=geometry.num_keys,
        num_windows=geometry.num_windows,
        proof_error=error,
        note=note,
        num_unplaced=int((layout.keys < 0).sum()),
        image_size=_image_size(call),
    )
