"""Calls of attention for the compiled sums, and the same sums by torch in float64."""

import math
from dataclasses import replace

import torch

from nearsight.measure.capture.interception import AttentionCall
from nearsight.measure.catalogue import metric
from nearsight.measure.layout import windows
from nearsight.measure.layout.geometry import Geometry
from nearsight.measure.layout.tokens import Layout, row_by_row
from nearsight.measure.metrics import mathematics
from nearsight.measure.rows import kernel
from nearsight.measure.rows.blocks import attention_rows
from nearsight.measure.rows.unfold import Buffers, Unfolded
from nearsight.models.layers.grid import Grid

COMPILED = [mathematics(metric(name)) for name in ("mad", "self_mass", "entropy")]
WIDE = Grid(6, 10)
COARSE = Layout(  # 15 patches that attend to three cells of five patches
    Grid(3, 5),
    torch.arange(15)[None],
    torch.arange(3)[None],
    torch.tensor([[0.0, 2.0], [1.0, 2.0], [2.0, 2.0]]).double(),
)
LAYOUTS = {
    "no prefix": row_by_row(Grid(3, 5), 0),
    "two prefix tokens": row_by_row(Grid(5, 7), 2),
    "several chunks": row_by_row(Grid(19, 23), 1),
    "rows of eight": row_by_row(Grid(5, 8), 1),  # distances by offset
    "rows of sixteen in several chunks": row_by_row(Grid(19, 16), 0),
    "windows alike": windows.window_layout(WIDE, windows.blocks(windows.indices(WIDE), (3, 5))),
    "windows of scattered tokens": windows.window_layout(
        WIDE, torch.randperm(60, generator=torch.Generator().manual_seed(1)).view(4, 15)
    ),
    "pooled keys": COARSE,
}


def made_call(layout, width=7, sharpness=2.0, bias=False, dtype=torch.float32):
    """A call of 2 images and 2 heads with tensors cut out of a larger one, as models do."""
    torch.manual_seed(11)
    num_windows, num_queries = layout.queries.shape
    num_keys = layout.keys.shape[1]
    batch = 2 * num_windows
    tokens = sharpness * torch.randn(batch, max(num_queries, num_keys), 3, 2, width)
    queries, keys, values = tokens.to(dtype).permute(2, 0, 3, 1, 4)
    queries = queries[:, :, :num_queries]
    keys, values = keys[:, :, :num_keys], values[:, :, :num_keys]
    mask = torch.randn(2, num_queries, num_keys, dtype=dtype) if bias else None
    return AttentionCall((), (), values, queries, queries, keys, 0.4, mask)


def spread_call(layout, largest, sign):
    """A call whose logits go from -largest to largest, in units of log 2, in every row."""
    call = made_call(layout)
    ends = torch.linspace(-1, 1, call.keys.shape[2])[:, None].expand_as(call.keys)
    length = (largest * math.log(2) / call.scale / ends.shape[-1]) ** 0.5
    keys, queries = length * ends.float(), torch.full_like(call.queries, sign * length)
    return replace(call, keys=keys, queries=queries)


def unfolded(call, layout):
    return Unfolded(call, layout, Buffers())


def widened(call):
    """The same call in float64."""
    names = "values", "output", "queries", "keys", "mask"
    parts = {name: getattr(call, name) for name in names if getattr(call, name) is not None}
    return replace(call, **{name: x.double() for name, x in parts.items()})


def by_torch(call, layout, geometry):
    """Sums of all rows in the call's precision, as the metrics define them."""
    (rows,) = attention_rows(unfolded(call, layout), geometry)
    return tuple(metric.total.of(rows) for metric in COMPILED)


def by_kernel(call, layout, geometry):
    found = kernel.row_sums(unfolded(call, layout), geometry)
    assert found is not None
    return tuple(getattr(found, metric.total.kernel) for metric in COMPILED)


def assert_same(call, layout, tolerance=1e-6):
    geometry = Geometry(layout, torch.device("cpu"))
    num_rows = geometry.grid.num_patches
    exact = by_torch(widened(call), layout, geometry)
    for ours, theirs in zip(by_kernel(call, layout, geometry), exact, strict=True):
        assert ours.shape == theirs.shape
        assert torch.allclose(ours / num_rows, theirs / num_rows, rtol=tolerance, atol=tolerance)
