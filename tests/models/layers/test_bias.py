"""A bias written from its two factors."""

import pytest
import torch

from nearsight.models.layers import bias


def factors(dtype=torch.float32, rows=3, cols=5):
    torch.manual_seed(3)
    sizes = (2, 7, rows * cols)
    return torch.randn(*sizes, rows, dtype=dtype), torch.randn(*sizes, cols, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("num_prefix", [0, 2])
def test_every_pair_of_patches_gets_its_product_and_prefix_tokens_nothing(num_prefix, dtype):
    rows, cols = factors(dtype)
    tokens = 15 + num_prefix
    out = torch.full((2, 7, tokens, tokens), torch.nan, dtype=dtype)
    bias.write_bias(out, rows, cols)
    for image, head, query in torch.cartesian_prod(*map(torch.arange, (2, 7, 15))).tolist():
        for row, col in torch.cartesian_prod(torch.arange(3), torch.arange(5)).tolist():
            expected = rows[image, head, query, row] * cols[image, head, query, col]
            at = image, head, num_prefix + query, num_prefix + 5 * row + col
            assert out[at] == expected
    assert not out[..., :num_prefix, :].any()
    assert not out[..., :num_prefix].any()


@pytest.mark.parametrize("size", [(1, 1), (4, 23), (14, 14)])
def test_some_images_of_a_buffer_are_written_and_the_others_left(size):
    rows, cols = factors(rows=size[0], cols=size[1])
    tokens = rows.shape[2] + 1
    out = torch.zeros(5, 7, tokens, tokens)
    bias.write_product(out[:2], rows, cols)
    assert torch.equal(out[:2], bias.token_bias(bias.SeparableBias(rows, cols), tokens))
    assert not out[2:].any()


def test_factors_and_memory_may_have_gaps():
    rows, cols = factors()
    apart = rows.transpose(0, 1).contiguous().transpose(0, 1)
    out = torch.zeros(2, 7, 15, 30)[..., ::2]
    bias.write_product(out, apart, cols)
    assert torch.equal(out, bias.SeparableBias(rows, cols).dense())
