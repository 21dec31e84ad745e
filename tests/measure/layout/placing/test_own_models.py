"""Models of a user's own that no table lists."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import nearsight as ns


class ConformerBlock(nn.Module):
    """A convolution branch and an attention branch that feed each other, after Conformer."""

    def __init__(self, width=24):
        super().__init__()
        self.local = nn.Conv2d(width, width, 3, padding=1)
        self.down = nn.Conv2d(width, width, 2, stride=2)
        self.up = nn.Conv2d(width, width, 1)
        self.norm = nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, 3, batch_first=True)

    def forward(self, grid, tokens):
        grid = grid + F.gelu(self.local(grid))
        coupled = self.down(grid)
        tokens = torch.cat([tokens[:, :1], tokens[:, 1:] + coupled.flatten(2).mT], dim=1)
        x = self.norm(tokens)
        tokens = tokens + self.attn(x, x, x, need_weights=False)[0]
        back = self.up(tokens[:, 1:].mT.unflatten(-1, coupled.shape[-2:]))
        return grid + F.interpolate(back, size=grid.shape[-2:]), tokens


class Conformer(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        torch.manual_seed(3)
        self.stem = nn.Conv2d(3, width, 4, stride=4)
        self.patches = nn.Conv2d(width, width, 2, stride=2)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.blocks = nn.ModuleList(ConformerBlock(width) for _ in range(3))

    def forward(self, images):
        grid = self.stem(images)
        tokens = self.patches(grid).flatten(2).mT
        tokens = torch.cat([self.token.expand(len(tokens), -1, -1), tokens], dim=1)
        for block in self.blocks:
            grid, tokens = block(grid, tokens)
        return tokens[:, 0]


@pytest.mark.slow
def test_conformer_with_its_coupled_branches_is_measured_one_image_at_a_time_too():
    images = torch.randn(2, 3, 40, 56, generator=torch.Generator().manual_seed(5))
    profile = ns.measure_model(Conformer(), images, metrics=("mad",))
    assert [str(x.grid) for x in profile.layers] == ["5x7"] * 3
    assert [x.num_prefix for x in profile.layers] == [1] * 3
    assert max(x.proof_error for x in profile.layers) < 1e-5
    alone = ns.measure_model(Conformer(), images[:1], metrics=("mad",))
    for both, one in zip(profile.mad.values, alone.mad.values, strict=True):
        assert abs(both[:1] - one).max() < 1e-6
