"""GAug: the kernel against slow loops, its bounds, its variants, its precision."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from nearsight.core import UserError
from nearsight.models.layers import attention
from nearsight.models.layers.attention import attend, attention_kernel, attention_weights
from nearsight.models.layers.bias import SeparableBias, token_bias, write_bias
from nearsight.models.layers.explicit import explicit_attention
from nearsight.models.layers.grid import Grid
from nearsight.models.parts.locat.gaussian import Gaussian, bounded_variance, gaussian_eps
from nearsight.protocol import GaussianSettings

GRID = Grid(3, 5)
HEADS, WIDTH = 2, 7


def shaken(grid: Grid = GRID, **settings: Any) -> Gaussian:
    """GAug with weights far from their start, in float64."""
    torch.manual_seed(3)
    gaug = Gaussian(WIDTH, grid, GaussianSettings(**settings), HEADS).double()
    for parameter in gaug.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return gaug


def patches_of(grid: Grid) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(5)
    queries, keys = torch.randn(2, 2, HEADS, grid.num_patches, WIDTH, dtype=torch.float64)
    return queries, keys, torch.randn(2, grid.num_patches, HEADS * WIDTH, dtype=torch.float64)


def dense(bias: SeparableBias | Tensor) -> Tensor:
    return bias.dense() if isinstance(bias, SeparableBias) else bias


def slow_bias(gaug: Gaussian, queries: Tensor, grid: Grid, initial: Grid) -> Tensor:
    """The published formula, one number at a time (facts 3 to 8 of the reference)."""
    largest = max(initial.rows, initial.cols) ** 2
    longest = max(initial.rows, initial.cols) - 1
    eps = 0.1
    while 0.5 * longest**2 / eps**2 > 32500:
        eps *= 2
    out = torch.zeros(*queries.shape[:2], grid.num_patches, grid.num_patches, dtype=torch.float64)
    gaug.requires_grad_(False)
    for image in range(queries.shape[0]):
        for head in range(queries.shape[1]):
            for p in range(grid.num_patches):
                query = queries[image, head, p]
                raw = gaug.log_var.weight @ query + gaug.log_var.bias
                strength = gaug.log_alpha.weight @ query + gaug.log_alpha.bias
                alpha = math.log1p(math.exp(float(strength)))
                variances = []
                for x in raw.tolist():
                    shift = math.log(largest - 1) if largest > 2 else 0.0
                    variance = largest / (1 + math.exp(shift - x))
                    ratio = min(grid.rows, grid.cols) / min(initial.rows, initial.cols)
                    variances.append(variance * ratio)
                for t in range(grid.num_patches):
                    exponent = 0.0
                    places = divmod(p, grid.cols), divmod(t, grid.cols)
                    for variance, one, two in zip(variances, *places, strict=True):
                        half = max(-0.5 * (one - two) ** 2, -0.5 * longest**2, -6550)
                        exponent += half / (variance + eps)
                    out[image, head, p, t] = alpha * math.exp(exponent)
    return out


@pytest.mark.parametrize("grid", [GRID, Grid(2, 5), Grid(5, 7), Grid(1, 11)])
def test_the_bias_equals_the_published_formula_at_the_initial_grid_and_at_others(grid: Grid):
    gaug = shaken()
    queries, keys, inputs = patches_of(grid)
    bias = dense(gaug(queries, keys, inputs, grid)).detach()
    torch.testing.assert_close(bias, slow_bias(gaug, queries, grid, GRID).detach())


def test_a_side_of_two_has_no_shift_of_the_sigmoid():
    gaug = shaken(Grid(1, 1))
    assert gaug.largest == 1
    torch.testing.assert_close(bounded_variance(torch.zeros(1), 2.0), torch.ones(1))
    torch.testing.assert_close(bounded_variance(torch.zeros(1), 1.0), torch.full((1,), 0.5))


def test_at_the_largest_variance_the_far_corner_is_known():
    side = 7
    gaug = Gaussian(WIDTH, Grid(side, side), GaussianSettings(), HEADS).double()
    torch.nn.init.zeros_(gaug.log_var.weight)
    torch.nn.init.constant_(gaug.log_var.bias, 99.0)  # variance = C
    torch.nn.init.zeros_(gaug.log_alpha.weight)
    torch.nn.init.constant_(gaug.log_alpha.bias, math.log(math.e - 1))  # strength 1
    queries, keys, inputs = patches_of(Grid(side, side))
    corner = dense(gaug(queries, keys, inputs, Grid(side, side)))[:, :, 0, -1]
    expected = math.exp(-((side - 1) ** 2) / (side**2 + gaussian_eps(Grid(side, side))))
    torch.testing.assert_close(corner, torch.full_like(corner, expected))


def test_every_patch_adds_most_to_itself_and_the_strength_there():
    gaug = shaken()
    queries, keys, inputs = patches_of(GRID)
    bias = dense(gaug(queries, keys, inputs, GRID))
    _, strength = gaug.widths(queries, keys, inputs, GRID)
    torch.testing.assert_close(bias.diagonal(dim1=-2, dim2=-1), strength)
    assert (bias.argmax(-1) == torch.arange(GRID.num_patches)).all()


def test_twice_the_resolution_is_twice_the_variance_and_the_same_strength():
    gaug = shaken()
    queries, keys, inputs = patches_of(GRID)
    finer = Grid(6, 10)
    repeated = queries.repeat(1, 1, 4, 1), keys.repeat(1, 1, 4, 1), inputs.repeat(1, 4, 1)
    variance, strength = gaug.widths(queries, keys, inputs, GRID)
    doubled, same = gaug.widths(*repeated, finer)
    torch.testing.assert_close(doubled[:, :, :15], 2 * variance)
    torch.testing.assert_close(same[:, :, :15], strength)


def test_isotropic_kernels_are_unchanged_by_transposing_the_grid():
    gaug = shaken(Grid(5, 5), isotropic=True)
    queries, keys, inputs = patches_of(Grid(5, 5))
    swap = torch.arange(25).view(5, 5).T.flatten()
    bias = dense(gaug(queries, keys, inputs, Grid(5, 5)))
    swapped = dense(gaug(queries[:, :, swap], keys, inputs[:, swap], Grid(5, 5)))
    torch.testing.assert_close(swapped, bias[:, :, swap][..., swap])
    two_widths = shaken(Grid(5, 5))
    bias = dense(two_widths(queries, keys, inputs, Grid(5, 5)))
    swapped = dense(two_widths(queries[:, :, swap], keys, inputs[:, swap], Grid(5, 5)))
    assert (swapped - bias[:, :, swap][..., swap]).abs().max() > 0.01


@pytest.mark.parametrize(
    ("kernel", "at_five"), [("laplace", math.exp(-5 / 2)), ("inverse", 1 / (1 + 5 / 2))]
)
def test_the_other_kernels_fall_with_the_euclidean_distance(kernel: str, at_five: float):
    gaug = Gaussian(WIDTH, Grid(5, 5), GaussianSettings(kernel=kernel, width=2, strength="one"), 2)
    queries, keys, inputs = (x.float() for x in patches_of(Grid(5, 5)))
    bias = gaug(queries, keys, inputs, Grid(5, 5))
    patch, other = 0, 3 * 5 + 4  # 3 rows and 4 columns away
    torch.testing.assert_close(bias[0, 0, patch, other], torch.tensor(at_five))
    torch.testing.assert_close(bias[0, 0, 7, 7], torch.tensor(1.0))


def test_a_fixed_width_and_strength_leave_no_parameters():
    gaug = Gaussian(WIDTH, GRID, GaussianSettings(width=1.5, strength="one"), HEADS)
    assert not list(gaug.parameters())
    queries, keys, inputs = (x.float() for x in patches_of(GRID))
    bias = dense(gaug(queries, keys, inputs, GRID))
    expected = math.exp(-0.5 * (1 + 4) / (1.5**2 + 0.1))  # one row and two columns away
    torch.testing.assert_close(bias[1, 1, 0, 5 + 2], torch.tensor(expected))


def test_automatic_strength_is_the_mean_bound_of_the_logits():
    gaug = shaken(strength="auto")
    queries, keys, inputs = patches_of(GRID)
    _, strength = gaug.widths(queries, keys, inputs, GRID)
    sizes = [float(key.norm()) for key in keys[1, 0]]
    expected = float(queries[1, 0, 4].norm()) * sum(sizes) / len(sizes) / math.sqrt(WIDTH)
    assert float(strength[1, 0, 4]) == pytest.approx(expected)
    logits = queries[1, 0, 4] @ keys[1, 0].T / math.sqrt(WIDTH)
    assert logits.abs().mean() < expected


def test_a_width_from_the_input_is_each_heads_own():
    gaug = shaken(source="input")
    assert gaug.log_var.weight.shape == (2 * HEADS, HEADS * WIDTH)
    queries, keys, inputs = patches_of(GRID)
    variance, _ = gaug.widths(queries, keys, inputs, GRID)
    raw = gaug.log_var.weight[2:] @ inputs[1, 4] + gaug.log_var.bias[2:]
    torch.testing.assert_close(variance[1, 1, 4], bounded_variance(raw, 25.0))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast_and_in_half_weights_the_gaussian_is_float32(dtype: torch.dtype):
    gaug = shaken().float()
    queries, keys, inputs = (x.to(dtype) for x in patches_of(GRID))
    exact = dense(gaug(queries.float(), keys.float(), inputs.float(), GRID))
    with torch.autocast("cpu", dtype=dtype):
        bias = dense(gaug(queries, keys, inputs, GRID))
    assert bias.dtype == torch.float32
    torch.testing.assert_close(bias, exact)
    halved = dense(gaug.to(dtype)(queries, keys, inputs, GRID))
    assert halved.dtype == torch.float32
    torch.testing.assert_close(halved, exact, rtol=0.03, atol=0.03)


def test_a_grid_of_other_patches_is_refused():
    queries, keys, inputs = patches_of(GRID)
    with pytest.raises(UserError, match=r"\b15 patches\b.*\b2x5\b.*\b10\b"):
        shaken()(queries, keys, inputs, Grid(2, 5))


def biased_tokens(num_prefix: int) -> tuple[list[Tensor], SeparableBias]:
    torch.manual_seed(7)
    size = (2, HEADS, num_prefix + GRID.num_patches, WIDTH)
    tokens = [torch.randn(size, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    sides = [
        torch.rand(2, HEADS, GRID.num_patches, n, dtype=torch.float64) * 2
        for n in (GRID.rows, GRID.cols)
    ]
    return tokens, SeparableBias(*(x.requires_grad_() for x in sides))


def test_the_product_of_the_factors_stands_between_patches_only():
    _, bias = biased_tokens(num_prefix=2)
    whole = token_bias(bias, 17)
    written = torch.full_like(whole, torch.nan)
    with torch.no_grad():
        write_bias(written, *bias)
    assert written.equal(whole)
    assert not whole[:, :, :2].any()
    assert not whole[..., :2].any()
    value = bias.rows[1, 0, 6, 2] * bias.cols[1, 0, 6, 3]
    torch.testing.assert_close(whole[1, 0, 2 + 6, 2 + 2 * 5 + 3], value)


@pytest.mark.parametrize("num_prefix", [0, 3])
@pytest.mark.parametrize("kernel", ["explicit", "fused", "pieces"])
def test_all_kernels_add_the_bias(kernel: str, num_prefix: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attention, "attention_kernel", lambda *args, **kwargs: kernel)
    monkeypatch.setattr(attention, "PIECE", 1)  # one image at a time
    (q, k, v), bias = biased_tokens(num_prefix)
    expected = attention_weights(q, k, 0.3, token_bias(bias, q.shape[2])) @ v
    with torch.set_grad_enabled(kernel != "pieces"):
        torch.testing.assert_close(attend(q, k, v, 0.3, bias), expected)


def test_the_rule_takes_pieces_without_gradients_and_explicit_with_them():
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert attention_kernel(257, cpu, torch.float32, False, biased=True) == "pieces"
    assert attention_kernel(257, cpu, torch.float32, True, biased=True) == "explicit"
    assert attention_kernel(257, cuda, torch.bfloat16, True, biased=True) == "flex"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert attention_kernel(257, cpu, torch.float32, True, biased=True) == "fused"


def test_a_frozen_backbone_still_trains_its_bias():
    (q, k, v), bias = biased_tokens(num_prefix=1)
    frozen = [x.detach() for x in (q, k, v)]
    out = attend(*frozen, 0.3, bias)
    slow = attention_weights(*frozen[:2], 0.3, token_bias(bias, 16)) @ frozen[2]
    upstream = torch.randn_like(out)
    for one, two in zip(
        torch.autograd.grad(out, bias, upstream),
        torch.autograd.grad(slow, bias, upstream),
        strict=True,
    ):
        torch.testing.assert_close(one, two)


def test_the_hand_written_gradient_reaches_the_factors():
    (q, k, v), bias = biased_tokens(num_prefix=2)
    inputs = [x[:1, :1, :8, :3] for x in (q, k, v)]  # 2 prefix tokens and a 2x3 grid
    sides = bias.rows[:1, :1, :6, :2], bias.cols[:1, :1, :6, :3]
    made = [x.detach().clone().requires_grad_() for x in (*inputs, *sides)]

    def attended(*x: Tensor) -> Tensor:
        return explicit_attention(x[0], x[1], x[2], 0.4, x[3], x[4])

    assert torch.autograd.gradcheck(attended, tuple(made))


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.slow
def test_the_forward_of_flex_attention_gives_the_same_values(monkeypatch: pytest.MonkeyPatch):
    from torch.nn.attention.flex_attention import flex_attention

    from nearsight.models.layers import attention as flex

    monkeypatch.setattr(flex, "_compile_flex", lambda: flex_attention)  # to compile takes a minute
    (q, k, v), bias = biased_tokens(num_prefix=1)
    expected = attend(q, k, v, 0.3, bias)
    with torch.no_grad():
        given = [x.detach() for x in (q, k, v)]
        factors = SeparableBias(*(x.detach() for x in bias))
        torch.testing.assert_close(flex.flex_attend(*given, 0.3, factors), expected)


def test_masks_and_biases_add_up():
    (q, k, v), bias = biased_tokens(num_prefix=1)
    hidden = torch.zeros(16, 16, dtype=torch.bool)
    hidden[:, 5] = True
    added = torch.zeros(16, 16, dtype=torch.float64).masked_fill(hidden, -torch.inf)
    out = attend(q, k, v, 0.3, bias, mask=added)
    torch.testing.assert_close(attend(q, k, v, 0.3, bias, mask=~hidden), out)
    moved = v.detach().clone()
    moved[:, :, 5] += 99  # nobody looks at it
    torch.testing.assert_close(attend(q, k, moved, 0.3, bias, mask=added), out)
