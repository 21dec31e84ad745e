"""What is measured of each attention call: its place, its proof, its metrics per image and head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nearsight.measure.capture import AttentionCall
from nearsight.measure.geometry import Geometry
from nearsight.measure.layout import layout_of
from nearsight.measure.metrics import Metric
from nearsight.measure.proof import prove
from nearsight.measure.rows import attention_rows, wide
from nearsight.measure.tokens import Layout, Skipped
from nearsight.measure.unfold import Buffers, Unfolded
from nearsight.models.grid import Grid


@dataclass(frozen=True)
class LayerFacts:
    """A measured layer: its module, where its patches are, and how well the proof held."""

    name: str
    kind: str  # class of the module that attends
    grid: Grid
    num_heads: int
    num_prefix: int
    num_keys: int  # keys with a place that a query can see
    num_windows: int
    proof_error: float  # of attention @ values, relative to the layer's largest output
    note: str | None


class Recorder:
    """Consumes the attention calls of one forward after another.

    ``values[layer][metric]`` holds the numbers of the last forward, [image, head, ...] in float64
    on the CPU; facts and skipped layers are those of the first.
    """

    def __init__(
        self, metrics: tuple[Metric, ...], grid: Grid | None = None, num_prefix: int | None = None
    ) -> None:
        self.metrics = metrics
        self.given = grid, num_prefix
        self.layers: list[LayerFacts] = []
        self.skipped: list[tuple[str, str]] = []
        self.values: list[dict[str, Tensor]] = []
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
            self.layers.append(_facts(call, layout, geometry, prove(call, tensors)))
        self.values.append(self._measured(tensors, geometry, call.name))

    def _geometry(self, layout: Layout, device: torch.device) -> Geometry:
        """That of an equal layout seen before, else a new one."""
        for known, geometry in self._geometries:
            if _equal(known, layout) and geometry.device == device:
                return geometry
        self._geometries.append((layout, Geometry(layout, device)))
        return self._geometries[-1][1]

    def _measured(self, tensors: Unfolded, geometry: Geometry, name: str) -> dict[str, Tensor]:
        totals: dict[str, Tensor] = {}
        blocks = attention_rows(
            tensors,
            geometry,
            with_sink=any(metric.needs_sink for metric in self.metrics),
            whole_layers=any(metric.whole_layers for metric in self.metrics),
        )
        for rows in blocks:
            for metric in self.metrics:
                part = wide(metric.sums(rows))
                if metric.name not in totals:
                    sizes = (tensors.num_images, tensors.num_heads, *part.shape[2:])
                    totals[metric.name] = part.new_zeros(sizes)
                totals[metric.name][rows.block.images, rows.block.heads] += part
        values = {
            metric.name: metric.value(totals[metric.name], geometry).cpu()
            for metric in self.metrics
        }
        for value in values.values():
            if not bool(value.isfinite().all()):
                bad = (~value.isfinite()).flatten(1).any(1).nonzero()[0].item()
                raise ValueError(
                    f"expected numbers, got NaN in the attention of layer {name} "
                    f"for image {self.num_images + int(bad)} (counted from 0)"
                )
        return values


def _equal(a: Layout, b: Layout) -> bool:
    tables: list[tuple[Any, Any]] = [
        (a.queries, b.queries),
        (a.keys, b.keys),
        (a.cells, b.cells),
    ]
    return a.grid == b.grid and all(torch.equal(x, y) for x, y in tables)


def _facts(call: AttentionCall, layout: Layout, geometry: Geometry, error: float) -> LayerFacts:
    note = layout.note
    if call.multiplied is not None:
        mixed = "Metrics are of the softmax rows, before the layer mixes its heads."
        note = f"{note} {mixed}" if note else mixed
    return LayerFacts(
        name=call.name,
        kind=type(call.path[-1].module).__name__,
        grid=layout.grid,
        num_heads=call.sizes[1],
        num_prefix=geometry.query_tokens.start,
        num_keys=geometry.num_keys,
        num_windows=geometry.num_windows,
        proof_error=error,
        note=note,
    )
