"""Drop path: whole samples are left out, the mean stays, rates grow with depth."""

from __future__ import annotations

import pytest
import torch

from nearsight.core import UserError
from nearsight.models.vit import SIZES, DropPath, VisionTransformer, rates_by_depth

BATCH, TOKENS, WIDTH = 1009, 3, 5


def test_a_sample_is_left_out_whole_or_scaled_by_what_is_kept() -> None:
    torch.manual_seed(0)
    branch = torch.randn(BATCH, TOKENS, WIDTH)
    result = DropPath(0.2).train()(branch)
    left_out = 0
    for before, after in zip(branch, result):
        if (after == 0).all():
            left_out += 1
        else:
            torch.testing.assert_close(after, before / 0.8)
    assert 150 < left_out < 255  # 0.2 of 1009, four standard deviations either way


def test_the_mean_over_draws_is_the_branch() -> None:
    torch.manual_seed(0)
    same = torch.tensor([[[1.0, -2.0]]]).expand(40_009, 1, 2)
    mean = DropPath(0.3).train()(same).mean(0)[0]
    assert mean.tolist() == pytest.approx([1.0, -2.0], abs=0.03)


def test_nothing_is_drawn_when_not_training_or_at_rate_zero() -> None:
    branch = torch.randn(7, TOKENS, WIDTH)
    before = torch.get_rng_state()
    assert DropPath(0.5).eval()(branch) is branch
    assert DropPath(0.0).train()(branch) is branch
    assert torch.equal(torch.get_rng_state(), before)


def test_the_blocks_have_rates_that_grow_linearly_to_the_given_one() -> None:
    model = VisionTransformer(SIZES["nano_vit"], 7, (16, 24), 4, drop_path=0.3)
    assert [block.drop_path.drop_prob for block in model.blocks] == pytest.approx(
        [0.0, 0.1, 0.2, 0.3]
    )
    assert rates_by_depth(0.3, 1) == [0.0]


@pytest.mark.slow
def test_a_block_adds_either_branch_or_neither_sample_by_sample() -> None:
    """With rate r the stream of a sample is one of four sums; each is recomputed by hand."""
    torch.manual_seed(0)
    model = VisionTransformer(SIZES["mu_vit"], 7, (12, 20), 4, drop_path=0.4).double()
    block = model.blocks[1]
    x = torch.randn(101, 16, SIZES["mu_vit"].width, dtype=torch.float64)
    result = block.train()(x)
    seen = set()
    for before, after in zip(x, result):
        sums = {}
        for first in (0, 1):
            middle = before[None] + first * block.attn(block.norm1(before[None])) / 0.6
            for second in (0, 1):
                sums[first, second] = middle + second * block.mlp(block.norm2(middle)) / 0.6
        near = [k for k, v in sums.items() if torch.allclose(v[0], after, rtol=0, atol=1e-9)]
        assert len(near) == 1
        seen.add(near[0])
    assert seen == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_weights_and_the_trained_model_are_those_without_drop_path() -> None:
    torch.manual_seed(0)
    plain = VisionTransformer(SIZES["mu_vit"], 7, (12, 20), 4)
    torch.manual_seed(0)
    dropped = VisionTransformer(SIZES["mu_vit"], 7, (12, 20), 4, drop_path=0.5)
    dropped.load_state_dict(plain.state_dict(), strict=True)
    images = torch.randn(3, 3, 12, 20)
    assert torch.equal(dropped.eval()(images), plain.eval()(images))


def test_a_rate_out_of_range_is_refused() -> None:
    with pytest.raises(UserError, match=r"drop_path is 1\.0"):
        rates_by_depth(1.0, 3)
