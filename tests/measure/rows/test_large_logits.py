"""Rows of huge logits, and NaN of any bits, by the compiled kernel and by torch.

The layer itself adds a mask in float32, so a large number hides what it is added to: the logits of
the reference are those of float32, and everything after them is float64.
"""

import math

import pytest
import torch
import torch.nn.functional as F
from native.example_calls import by_kernel, by_torch
from torch import nn

import nearsight as ns
from nearsight.core import UserError
from nearsight.measure.capture.interception import AttentionCall
from nearsight.measure.layout.geometry import Geometry
from nearsight.measure.layout.tokens import row_by_row
from nearsight.models.layers.grid import Grid
from nearsight.native import load_library

LOWEST = torch.finfo(torch.float32).min
GRIDS = [Grid(5, 7), Grid(4, 8), Grid(3, 11)]  # 32 keys fill the kernel's tiles, others do not


@pytest.fixture(params=["torch", "kernel"])
def sums(request):
    """Distances, near masses and entropies of a call, [image, head, ...], per row."""
    if request.param == "kernel" and load_library() is None:
        pytest.skip("no C compiler when nearsight was installed")

    def summed(call, grid):
        layout = row_by_row(grid, call.keys.shape[-2] - grid.num_patches)
        geometry = Geometry(layout, torch.device("cpu"))
        road = by_kernel if request.param == "kernel" else by_torch
        return [x / grid.num_patches for x in road(call, layout, geometry)]

    return summed


def whole_numbers(grid, num_prefix=1, mask=None):
    """2 images and 3 heads of small whole numbers, so that float32 products are exact."""
    torch.manual_seed(5)
    num_tokens = grid.num_patches + num_prefix
    queries, keys = torch.randint(-3, 4, (2, 2, 3, num_tokens, 5)).float()
    return AttentionCall((), (), keys, queries, queries, keys, 0.5, mask)


def reference(call, grid):
    """The same by softmax in float64 of the logits in float32."""
    logits = call.queries @ call.keys.mT * call.scale
    logits = logits if call.mask is None else logits + call.mask
    num_prefix = logits.shape[-1] - grid.num_patches
    weights = logits[..., num_prefix:, num_prefix:].double().softmax(-1)
    places = grid.coordinates()
    apart = (places[:, None] - places).abs()
    distance = (weights * apart.square().sum(-1).sqrt()).sum(-1).mean(-1)
    ring = apart.amax(-1)
    near = [weights * (ring <= radius) for radius in range(4)]
    masses = torch.stack([x.sum(-1).mean(-1) for x in near], -1)
    return distance, masses, torch.special.entr(weights).sum(-1).mean(-1)


def masked(grid, change, num_prefix=1):
    """A mask between all tokens, 0 where ``change`` (of the rows of some patches) leaves it."""
    num_tokens = grid.num_patches + num_prefix
    mask = torch.zeros(3, num_tokens, num_tokens)
    change(mask[:, num_prefix + 2 :])
    return mask


def fill(value):
    return lambda rows: rows.fill_(value)


def fill_some(value, other, every=3):
    """``value``, but ``other`` in every third column."""

    def change(rows):
        rows.fill_(value)[..., ::every] = other

    return change


MASKS = {
    "the lowest number": fill(LOWEST),
    "-1e30": fill(-1e30),
    "-1e9": fill(-1e9),
    "-1e6": fill(-1e6),
    "-1e4": fill(-1e4),
    "-1e3": fill(-1e3),
    "+1e6": fill(1e6),
    "+1e30": fill(1e30),
    "two large numbers": fill_some(-2e30, -1e35),
    "the lowest number and -inf": fill_some(-torch.inf, LOWEST),
    "large and nothing": fill_some(LOWEST, 0.0),
    "the largest and the lowest": fill_some(-LOWEST, LOWEST),
}


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("mask", MASKS)
def test_rows_under_a_large_mask_are_those_of_float64(sums, mask, grid):
    call = whole_numbers(grid, mask=masked(grid, MASKS[mask]))
    for ours, theirs in zip(sums(call, grid), reference(call, grid), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("offset", [1e3, -1e3, 1e6, -1e6, 3e30, -3e30])
def test_products_that_are_large_themselves_are_those_of_float64(sums, offset, grid):
    keys = offset + torch.arange(grid.num_patches).remainder(7).float().view(1, 1, -1, 1)
    queries = torch.ones(1, 1, grid.num_patches, 1)
    call = AttentionCall((), (), keys, queries, queries, keys, 1.0)
    for ours, theirs in zip(sums(call, grid), reference(call, grid), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-6, atol=1e-6)


def test_a_row_under_one_large_number_is_uniform(sums):
    grid = Grid(5, 7)
    call = whole_numbers(grid, num_prefix=0, mask=torch.full((3, 35, 35), -1e30))
    _, masses, entropies = sums(call, grid)
    assert torch.allclose(entropies, torch.full_like(entropies, math.log(35)), atol=1e-6)
    assert torch.allclose(masses[..., 0], torch.full_like(entropies, 1 / 35), atol=1e-6)


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_a_row_with_every_key_hidden_is_no_number(sums, grid):
    mask = torch.zeros(3, grid.num_patches, grid.num_patches)
    mask[1, 4] = -torch.inf
    for ours in sums(whole_numbers(grid, num_prefix=0, mask=mask), grid):
        assert ours[:, 1].isnan().all()
        assert ours[:, [0, 2]].isfinite().all()


@pytest.mark.parametrize("sign", [0, -(2**31)])
@pytest.mark.parametrize("bits", [0x7FC00000, 0x7FC00001, 0x7F800001, 0x7FD55555, 0x7FFFFFFF])
@pytest.mark.parametrize("where", ["queries", "keys", "mask"])
def test_a_nan_stays_a_nan_whatever_its_bits(sums, where, bits, sign):
    grid = Grid(5, 7)
    call = whole_numbers(grid, mask=torch.zeros(2, 3, 36, 36) if where == "mask" else None)
    nan = torch.tensor([bits + sign], dtype=torch.int32).view(torch.float32)
    getattr(call, where)[1, 2, 9, 3] = nan
    for ours in sums(call, grid):
        assert ours[1, 2].isnan().all()
        assert ours[0].isfinite().all()
        assert ours[1, :2].isfinite().all()


class Masked(nn.Module):
    """One layer of attention; the rows of most patches are hidden by a large number."""

    def __init__(self, value):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Conv2d(3, 16, 4, 4)
        self.mask = torch.zeros(49, 49)
        self.mask[10:] = value

    def forward(self, images):
        tokens = self.embed(images).flatten(2).mT.unflatten(2, (2, 8)).transpose(1, 2)
        return F.scaled_dot_product_attention(tokens, tokens, tokens, self.mask)


@pytest.mark.parametrize("value", [LOWEST, -1e30, -1e9])
@pytest.mark.parametrize("metrics", [("mad", "entropy", "self_mass"), "all"])
def test_a_model_that_hides_rows_by_a_large_number_is_measured_right(value, metrics):
    model, grid = Masked(value), Grid(7, 7)
    images = torch.randn(4, 3, 28, 28, generator=torch.Generator().manual_seed(1))
    found = ns.measure_model(model, images, metrics=metrics)
    with torch.no_grad():
        tokens = model.embed(images).flatten(2).mT.unflatten(2, (2, 8)).transpose(1, 2).double()
    logits = tokens @ tokens.mT * 8**-0.5
    logits[..., 10:, :] = 0  # nothing is left of them beside such a number
    attention = logits.softmax(-1)
    distance = ns.mean_attention_distance(attention, grid).numpy()
    assert found.metrics["mad"].values[0] == pytest.approx(distance, abs=1e-6)
    entropy = torch.special.entr(attention).sum(-1).mean(-1).numpy() / math.log(49)
    assert found.metrics["entropy"].values[0] == pytest.approx(entropy, abs=1e-6)
    own = ns.self_mass(attention).numpy()
    assert found.metrics["self_mass"].values[0] == pytest.approx(own, abs=1e-6)


@pytest.mark.parametrize("value", [-torch.inf, False])
def test_a_model_that_hides_rows_entirely_is_refused(value):
    model = Masked(-torch.inf)
    if value is False:
        model.mask = model.mask == 0
    with pytest.raises(UserError, match=r"\blayer Masked \(Masked\)|\bNaN\b"):
        ns.measure_model(model, torch.randn(3, 3, 28, 28), metrics=("mad",))
