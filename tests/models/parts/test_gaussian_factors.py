"""The Gaussian's factors by compiled code against those by torch in float64."""

import copy

import pytest
import torch

from nearsight.models.layers.grid import Grid
from nearsight.models.parts.locat import gaussian_factors as factors
from nearsight.models.parts.locat.gaussian import Gaussian
from nearsight.native import load_library
from nearsight.protocol import GaussianSettings

pytestmark = pytest.mark.skipif(
    load_library() is None, reason="no C compiler when nearsight was installed"
)


def layer(grid, isotropic=False, spread=1.0):
    torch.manual_seed(3)
    made = Gaussian(5, grid, GaussianSettings(isotropic=isotropic), num_heads=3)
    for linear in (made.log_var, made.log_alpha):
        torch.nn.init.normal_(linear.weight, std=spread)
        torch.nn.init.normal_(linear.bias, std=spread)
    return made


def queries_on(grid):
    """[batch, head, patch, width], cut out of a larger tensor after a prefix token."""
    torch.manual_seed(7)
    return torch.randn(2, grid.num_patches + 1, 3, 3, 5).permute(2, 0, 3, 1, 4)[0][:, :, 1:]


def in_float64(gaug, queries, grid):
    wide = copy.deepcopy(gaug).double()
    return wide(queries.double(), queries.double(), torch.zeros(2, grid.num_patches, 15), grid)


def by_code(gaug, queries, grid):
    with torch.no_grad():
        return gaug(queries, queries, torch.zeros(2, grid.num_patches, 15), grid)


@pytest.fixture
def served(monkeypatch):
    """Every answer of the compiled code, None where it left the work to torch."""
    answers, right = [], factors.compiled_factors

    def watched(*given):
        answers.append(right(*given))
        return answers[-1]

    monkeypatch.setattr("nearsight.models.parts.locat.gaussian.compiled_factors", watched)
    return answers


@pytest.mark.parametrize("spread", [0.3, 30.0])  # 30: widths and strengths at their bounds
@pytest.mark.parametrize("isotropic", [False, True])
@pytest.mark.parametrize("used", [None, Grid(7, 13)])
@pytest.mark.parametrize("grid", [Grid(3, 5), Grid(8, 11), Grid(16, 17), Grid(1, 23)], ids=str)
def test_factors_are_those_of_torch_in_float64(grid, used, isotropic, spread, served):
    gaug, at = layer(grid, isotropic, spread), used or grid
    queries = queries_on(at)
    ours, theirs = by_code(gaug, queries, at), in_float64(gaug, queries, at)
    assert served[0] is not None
    largest = theirs.rows.abs().max()
    assert torch.allclose(ours.rows.double() / largest, theirs.rows / largest, atol=2e-6)
    assert torch.allclose(ours.cols.double(), theirs.cols, atol=2e-6)


def test_a_gradient_a_wider_float_and_other_settings_are_left_to_torch(served):
    grid = Grid(3, 5)
    gaug, queries = layer(grid), queries_on(grid)
    inputs = torch.zeros(2, 15, 15)
    gaug(queries, queries, inputs, grid).rows.sum().backward()
    assert gaug.log_alpha.weight.grad.abs().sum() > 0
    in_float64(gaug, queries, grid)
    assert served == [None, None]
    fixed = Gaussian(5, grid, GaussianSettings(width=2.0), num_heads=3)
    by_code(fixed, queries, grid)
    assert len(served) == 2  # not even asked


def test_numbers_of_a_query_that_lie_apart_are_left_to_torch(served):
    grid = Grid(3, 5)
    gaug, queries = layer(grid), queries_on(grid)
    apart = queries.transpose(2, 3).contiguous().transpose(2, 3)
    ours, theirs = by_code(gaug, queries, grid), by_code(gaug, apart, grid)
    assert served[0] is not None
    assert served[1] is None
    assert torch.allclose(ours.rows, theirs.rows, atol=1e-6)


@pytest.mark.parametrize("bits", [0x7FC00000, 0x7FC00001, 0x7FD55555, 0x7FFFFFFF])
def test_a_nan_in_a_query_stays_one_in_its_factors_whatever_its_bits(bits, served):
    grid = Grid(3, 5)
    gaug, queries = layer(grid), queries_on(grid)
    queries[1, 2, 7, 3] = torch.tensor([bits], dtype=torch.int32).view(torch.float32)
    ours = by_code(gaug, queries, grid)
    assert served[0] is not None
    for factor in ours:
        assert factor[1, 2, 7].isnan().all()
        assert factor.isnan().sum() == factor.shape[-1]
