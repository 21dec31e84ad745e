"""What is measured of each attention call: its place, its proof, its metrics per image and head."""

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
    """Consumes the attention calls of one forward after another.

    ``values[layer][metric]`` holds the numbers of the last forward, [image, head, ...] in float64
    on the CPU ([image] of metrics of a whole layer); facts, skipped layers and metrics that are
    not available for a layer are those of the first. ``maps`` go over all forwards.
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
        self.num_images = 0  # before the present forward
        self._proved = False
        self._buffers = Buffers()
        self._geometries: list[tuple[Layout, Geometry]] = []

    def begin(self) -> None:
        """A new forward."""
        if self.values:
            self._proved = True
        self.values = []

    def __call__(self, call: AttentionCall) -> None:
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
        values = self._measured(tensors, geometry, call.name)
        if self.readouts:
            self.readouts.add(len(self.values), call, layout)
        self.values.append(values)
        if self.metrics.of_features:
            self._await_features(call, layout, values, tensors.num_images)

    def pass_over(self, layers: Iterable[tuple[str, str]]) -> None:
        """Note layers in which no attention was seen, by name and reason."""
        if not self._proved:
            self.skipped += layers

    def _geometry(self, layout: Layout, device: torch.device) -> Geometry:
        """That of an equal layout seen before, else a new one."""
        for known, geometry in self._geometries:
            if _equal(known, layout) and geometry.device == device:
                return geometry
        self._geometries.append((layout, Geometry(layout, device)))
        return self._geometries[-1][1]

    def _measured(self, tensors: Unfolded, geometry: Geometry, layer: str) -> dict[str, Tensor]:
        totals = self._totals(tensors, geometry)
        values = {
            name: each.value(totals[each.total], geometry).cpu()
            for name, each in self.metrics.of_rows.items()
        }
        self._refuse_impossible(values, "attention of", layer)
        return values

    def _totals(self, tensors: Unfolded, geometry: Geometry) -> dict[Sum, Tensor]:
        """Over all rows of a layer."""
        asked = list(dict.fromkeys(each.total for each in self.metrics.of_rows.values()))
        totals = self._added_up(tensors, geometry, asked)
        for each in asked:
            if each.derive:
                parts = (totals[part] for part in each.parts)
                totals[each] = each.derive(*parts, geometry)
                self._add_directly(tensors, geometry, each, totals[each])
        return totals

    def _add_directly(
        self, tensors: Unfolded, geometry: Geometry, each: Sum, total: Tensor
    ) -> None:
        """Replace what could not be derived (NaN) by the sum over rows, head by head."""
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

    def _added_up(
        self, tensors: Unfolded, geometry: Geometry, asked: list[Sum]
    ) -> dict[Sum, Tensor]:
        """The totals of the sums asked for that are added up over rows, and of parts of others."""
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
        """Of every layer, over all images, [head]."""
        return tuple(x.share(self.num_images).numpy() for x in self.maps)

    def _mean_map(self) -> MeanMap | None:
        """That of the present layer, if asked for and if the first forward had this layer."""
        layer = len(self.values)
        return self.maps[layer] if self.metrics.position_share and layer < len(self.maps) else None

    def _await_features(
        self, call: AttentionCall, layout: Layout, values: dict[str, Tensor], num_images: int
    ) -> None:
        """Metrics of features, once the block around the attention has its output."""
        metrics, first = self.metrics.of_features, not self._proved

        def add(found: dict[str, Tensor | Missing]) -> None:
            for name, value in found.items():
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
            block.told.append(lambda output: add(feature_values(metrics, output, layout, model)))

    def _refuse_impossible(self, values: Mapping[str, Tensor], of: str, layer: str) -> None:
        """Raise where a value is not a number, or none that its metric can have."""
        for name, value in values.items():
            if not math.isfinite(value.sum()):  # one NaN makes a sum NaN
                raise UserError(
                    f"expected numbers, got NaN in the {of} layer {layer} "
                    f"for image {self._first_image(~value.isfinite())} (counted from 0)"
                )
            if not value.numel():
                continue
            low, high = (x.item() for x in value.aminmax())
            if (bad := metric(name).outside(low, high)) is not None:
                least, most = metric(name).limits
                raise UserError(
                    f"{name} in the {of} layer {layer} is {bad:.3g} for image "
                    f"{self._first_image(value == bad)} (counted from 0), but it lies between "
                    f"{least:g} and {most:g}: the model's logits are too large to be measured, or "
                    "the model is broken"
                )

    def _first_image(self, is_bad: Tensor) -> int:
        return self.num_images + int(is_bad.reshape(len(is_bad), -1).any(1).nonzero()[0])


def _equal(a: Layout, b: Layout) -> bool:
    tables: list[tuple[Any, Any]] = [
        (a.queries, b.queries),
        (a.keys, b.keys),
        (a.cells, b.cells),
    ]
    return a.grid == b.grid and all(torch.equal(x, y) for x, y in tables)


def _image_size(call: AttentionCall) -> tuple[int, int] | None:
    """Of the images that the model got, if it got images."""
    sizes = [x.shape[-2:] for x in call.path[0].inputs if isinstance(x, Tensor) and x.ndim == 4]
    return (sizes[0][0], sizes[0][1]) if sizes else None


def _facts(
    call: AttentionCall, layout: Layout, geometry: Geometry, num_heads: int, error: float
) -> LayerFacts:
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
