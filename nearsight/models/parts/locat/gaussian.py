"""Gaussian-augmented attention, GAug (LocAt, arXiv 2603.04892, section 4.1).

Every patch adds a Gaussian bump around itself to its attention logits:

    bias[p, t] = strength[p] * exp(-1/2 * sum over axes of offset^2 / (variance[p, axis] + eps))

Variance and strength come from the patch's query by two linear maps that all heads share.
Prefix tokens get no bias. At another resolution than the initial one the variance grows with the
shorter side of the grid.

Where we differ from the published code, and why:
- The kernel is a product of one factor per axis. So two tables, [patch, row] and [patch, col],
  replace N x N x 2 quotients and exponentials. The logits are the same to 1e-6.
- Training is exact at every size, while the published code pools queries on grids of 32 and more.
- The Gaussian is computed in float32 or float64, also under autocast.
- Our text of the paper lacks the formulas of its variants. ``GaussianSettings`` and docs/models.md
  say which formulas we assume.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.models.layers import Grid, PatchBias, SeparableBias
from nearsight.protocol import GaussianSettings

SMALLEST_EPS = 0.1
STEEPEST = 32_500.0  # bound of the exponents, from which eps follows
LARGEST_SQUARE = 13_100  # bound of squared offsets; half of it is the published 6550
GENTLE_BIAS = -6.0  # bias of log_alpha in a trained model: strength 0.0025


def gaussian_eps(grid: Grid) -> float:
    """Return the number added to variances: 0.1, doubled until no exponent exceeds its bound.

    >>> [gaussian_eps(Grid(side, 3)) for side in (26, 27, 51, 52)]
    [0.1, 0.2, 0.2, 0.4]
    """
    eps = SMALLEST_EPS
    while 0.5 * (max(grid.rows, grid.cols) - 1) ** 2 / eps**2 > STEEPEST:
        eps *= 2
    return eps


def bounded_variance(x: Tensor, largest: float) -> Tensor:
    """Map x to a variance in (0, largest) by a scaled and shifted sigmoid that is 1 at 0.

    >>> bounded_variance(torch.tensor([-99.0, 0.0, 99.0]), largest=49.0)
    tensor([ 0.,  1., 49.])
    """
    return largest * torch.sigmoid(x - _shift(largest))


def _shift(largest: float) -> float:
    """Return the input at which the sigmoid of ``bounded_variance`` gives a variance of 1."""
    return math.log(largest - 1) if largest > 2 else 0.0


def squared_offsets(
    grid: Grid, initial: Grid
) -> tuple[Int[Tensor, "row row"], Int[Tensor, "col col"]]:
    """Return squared offsets of rows and of columns, cut at the longest offset of the initial grid.

    >>> squared_offsets(Grid(2, 3), initial=Grid(2, 2))[1]
    tensor([[0, 1, 1],
            [1, 0, 1],
            [1, 1, 0]])
    """
    largest = min((max(initial.rows, initial.cols) - 1) ** 2, LARGEST_SQUARE)

    def along(size: int) -> Tensor:
        places = torch.arange(size)
        return (places[:, None] - places).square().clamp(max=largest)

    return along(grid.rows), along(grid.cols)


def gaussian_factors(
    variance: Float[Tensor, "batch head patch axis"],
    offsets: tuple[Int[Tensor, "row row"], Int[Tensor, "col col"]],
    eps: float,
) -> SeparableBias:
    """Return the Gaussian kernel of every patch as two factors, one per axis.

    A hand-solved case: a 1 x 2 grid and variance 1/2 - eps on both axes.

    >>> factors = gaussian_factors(torch.full((1, 1, 2, 2), 0.4), squared_offsets(Grid(1, 2),
    ...     Grid(1, 2)), eps=0.1)
    >>> factors.dense()  # exp(-1) off the diagonal
    tensor([[[[1.0000, 0.3679],
              [0.3679, 1.0000]]]])
    """
    by_row, by_col = offsets
    rows, cols = len(by_row), len(by_col)
    by_place = variance.unflatten(2, (rows, cols))  # [batch, head, row, col, axis]
    exponents = -0.5 / (by_place + eps)
    along_rows = (exponents[..., :1] * by_row[:, None]).exp_()  # [batch, head, row, col, row]
    along_cols = (exponents[..., -1:] * by_col).exp_()  # [batch, head, row, col, col]
    return SeparableBias(along_rows.flatten(2, 3), along_cols.flatten(2, 3))


def distance_kernel(
    scale: Float[Tensor, "batch head patch 1"],
    offsets: tuple[Int[Tensor, "row row"], Int[Tensor, "col col"]],
    kernel: str,
) -> Float[Tensor, "batch head patch patch"]:
    """Return one of the kernels of the Euclidean distance in the paper's appendix.

    Laplace: exp(-distance / scale). Inverse distance: 1 / (1 + distance / scale). Unlike the
    Gaussian, they are not a product of one factor per axis.
    """
    by_row, by_col = offsets
    squares = by_row[:, None, :, None] + by_col[None, :, None, :]  # [row, col, row, col]
    distances = squares.to(scale.dtype).sqrt().flatten(2).flatten(0, 1)  # [patch, patch]
    relative = distances / scale
    return torch.exp(-relative) if kernel == "laplace" else 1 / (1 + relative)


class Gaussian(nn.Module):
    """The Gaussian bias of one layer, computed from its queries.

    Weights have the authors' names (``log_var``, ``log_alpha``), although neither is a logarithm.

    Args:
        head_width: Width of a head.
        grid: The initial grid, from which the bound of the variance follows.
        settings: Settings of GAug.
        num_heads: Number of heads.
    """

    part_title = "LocAt"
    by_row: Tensor
    by_col: Tensor

    def __init__(
        self,
        head_width: int,
        grid: Grid,
        settings: GaussianSettings,
        num_heads: int,
    ) -> None:
        super().__init__()
        self.grid = grid
        self.settings = settings
        self.num_heads = num_heads
        self.largest = float(max(grid.rows, grid.cols) ** 2)  # bound of the variance
        self.eps = gaussian_eps(grid)
        self.num_axes = 1 if settings.isotropic or settings.kernel != "gaussian" else 2
        self.log_var = None
        if settings.width is None:
            from_query = settings.source == "query"
            sizes = (head_width, self.num_axes)
            if not from_query:
                sizes = (head_width * num_heads, self.num_axes * num_heads)
            self.log_var = nn.Linear(*sizes)
        self.log_alpha = nn.Linear(head_width, 1) if settings.strength == "learned" else None
        self.init_non_persistent_buffers()
        self.start()

    def init_non_persistent_buffers(self) -> None:
        """Compute the offsets of the initial grid.

        timm calls this again if it allocates the memory of a model after building it.
        """
        for name, offsets in zip(("by_row", "by_col"), squared_offsets(self.grid, self.grid)):
            self.register_buffer(name, offsets, persistent=False)

    def start(self, gentle: bool = False) -> None:
        """Initialise the weights.

        Args:
            gentle: Start so weak that a trained model hardly changes, instead of as published.
        """
        for linear in (self.log_var, self.log_alpha):
            if linear is not None:
                nn.init.trunc_normal_(linear.weight, std=0.02)
                nn.init.zeros_(linear.bias)
        if gentle:
            if self.log_alpha is None:
                raise UserError(
                    "only a learned strength can start so weak that the model does not change, but "
                    f"strength is {self.settings.strength!r}; set published_start=True"
                )
            nn.init.zeros_(self.log_alpha.weight)
            nn.init.constant_(self.log_alpha.bias, GENTLE_BIAS)

    def offsets(self, grid: Grid) -> tuple[Tensor, Tensor]:
        """Return squared offsets of rows and of columns for a grid, on the device of this layer."""
        if grid == self.grid:
            return self.by_row, self.by_col
        by_row, by_col = squared_offsets(grid, self.grid)
        return by_row.to(self.by_row.device), by_col.to(self.by_col.device)

    def widths(
        self,
        queries: Float[Tensor, "batch head patch width"],
        keys: Float[Tensor, "batch head patch width"],
        inputs: Float[Tensor, "batch patch dim"],
        grid: Grid,
    ) -> tuple[Float[Tensor, "batch head patch axis"], Float[Tensor, "batch head patch"]]:
        """Return the variance and the strength of every patch, in float32 or float64.

        Args:
            queries: Queries of the patches.
            keys: Keys of the patches.
            inputs: Input of the attention layer, for patches.
            grid: Rows and columns of the patches.
        """
        dtype = torch.promote_types(queries.dtype, torch.float32)
        queries, keys, inputs = (x.to(dtype) for x in (queries, keys, inputs))
        from_query = self.log_var if self.settings.source == "query" else None
        with _without_autocast(queries.device):
            width, strength = _linear(queries, from_query, self.log_alpha)
            if self.settings.source == "input":
                (all_heads,) = _linear(inputs, self.log_var)  # [batch, patch, head * axis]
                width = _by_head(all_heads, self.num_heads)
            variance, growth = self._variance(queries, width), self.growth(grid)
            variance = variance if growth == 1 else variance * growth
            return variance, self._strength(queries, keys, strength)

    def growth(self, grid: Grid) -> float:
        """Return the factor of the variance on another grid: the ratio of the shorter sides."""
        return min(grid.rows, grid.cols) / min(self.grid.rows, self.grid.cols)

    def _variance(self, queries: Tensor, predicted: Tensor | None) -> Tensor:
        """Return the variance from the output of ``log_var``, or the fixed one."""
        if predicted is not None:
            return bounded_variance(predicted, self.largest)
        assert self.settings.width is not None
        shape = (*queries.shape[:-1], self.num_axes)
        return queries.new_full((1,), self.settings.width**2).expand(shape)

    def _strength(self, queries: Tensor, keys: Tensor, predicted: Tensor | None) -> Tensor:
        """Return the strength from the output of ``log_alpha``, or by the setting."""
        if predicted is not None:
            return F.softplus(predicted).squeeze(-1)
        if self.settings.strength == "one":
            return queries.new_ones((1,)).expand(queries.shape[:-1])
        sizes = keys.norm(dim=-1).mean(-1, keepdim=True)  # bound of the logits, mean over keys
        return queries.norm(dim=-1) * sizes * queries.shape[-1] ** -0.5

    def forward(
        self,
        queries: Float[Tensor, "batch head patch width"],
        keys: Float[Tensor, "batch head patch width"],
        inputs: Float[Tensor, "batch patch dim"],
        grid: Grid,
    ) -> PatchBias:
        """Return the bias that is added to the logits between patches; see ``widths``."""
        if queries.shape[2] != grid.num_patches:
            raise UserError(
                f"there are {queries.shape[2]} patches, but a grid of {grid} has "
                f"{grid.num_patches}; pass the grid of these patches"
            )
        variance, strength = self.widths(queries, keys, inputs, grid)
        with _without_autocast(queries.device):
            if self.settings.kernel != "gaussian":
                kernel = distance_kernel(variance.sqrt(), self.offsets(grid), self.settings.kernel)
                return kernel * strength[..., None]
            rows, cols = gaussian_factors(variance, self.offsets(grid), self.eps)
            return SeparableBias(rows * strength[..., None], cols)


def _without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Return a context without autocast; the meta device, used to count costs, has none."""
    known = torch.amp.is_autocast_available(device.type)
    return torch.autocast(device.type, enabled=False) if known else nullcontext()


def _by_head(x: Tensor | None, num_heads: int) -> Tensor | None:
    """Return numbers [batch, patch, head * axis] as [batch, head, patch, axis]; None stays None."""
    return None if x is None else x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def _linear(x: Tensor, *maps: nn.Linear | None) -> list[Tensor | None]:
    """Apply several linear maps in one product, in the precision of x.

    The outputs are stored one after another, because each of them is processed alone. The output of
    a map that is None is None.
    """
    there = [linear for linear in maps if linear is not None]
    if not there:
        return [None] * len(maps)
    weight = torch.cat([linear.weight for linear in there]).to(x.dtype)
    bias = torch.cat([linear.bias for linear in there]).to(x.dtype)
    product = torch.addmm(bias[:, None], weight, x.reshape(-1, x.shape[-1]).t())
    outputs = product.unflatten(1, x.shape[:-1])  # [output, batch, ...]
    parts = iter(outputs.split([linear.out_features for linear in there]))
    return [None if linear is None else next(parts).movedim(0, -1) for linear in maps]
