"""Heads are named by what their attention is built to do."""

import pytest
import torch
from measure import toy_models
from torch import nn

from nearsight.core import UserError
from nearsight.measure.profile.profile import measure_model
from nearsight.models.layers.grid import Grid
from nearsight.models.load.registry import create_model

GRID, NUM_PREFIX, NUM_IMAGES = Grid(7, 11), 2, 13


class Built(nn.Module):
    """One layer of explicit attention whose maps are given: [image, head, token, token]."""

    def __init__(self, maps):
        super().__init__()
        self.embed = nn.Conv2d(3, 2 * maps.shape[1], 4, 4)
        self.attn = Softmax(maps)
        self.grid = GRID

    def forward(self, images):
        x = self.embed(images).flatten(2).transpose(1, 2)
        return self.attn(torch.cat([x[:, :NUM_PREFIX], x], dim=1))


class Softmax(nn.Module):
    def __init__(self, maps):
        super().__init__()
        self.proj = nn.Linear(1, 1)
        self.logits = maps.log().clamp(min=-80)

    def forward(self, x):
        values = x.unflatten(-1, (self.logits.shape[1], -1)).transpose(1, 2)
        return self.logits[: len(x)].softmax(-1) @ values


def with_prefix(patches, sink=0.05):
    """Attention over tokens: this share of every row on the prefix tokens."""
    images, heads, num = patches.shape[:3]
    tokens = torch.full((images, heads, num + NUM_PREFIX, num + NUM_PREFIX), 1.0)
    tokens[..., NUM_PREFIX:, :NUM_PREFIX] = sink / NUM_PREFIX
    tokens[..., NUM_PREFIX:, NUM_PREFIX:] = (1 - sink) * patches
    return tokens / tokens.sum(-1, keepdim=True)


def every_image(rows):
    return rows.expand(NUM_IMAGES, 1, *rows.shape)


def shifted(down, right):
    rows = torch.zeros(GRID.num_patches, GRID.num_patches)
    for query in range(GRID.num_patches):
        row = min(max(query // GRID.cols + down, 0), GRID.rows - 1)
        col = min(max(query % GRID.cols + right, 0), GRID.cols - 1)
        rows[query, row * GRID.cols + col] = 1.0
    return rows


def random_rows(*sizes):
    torch.manual_seed(17)
    return (4 * torch.randn(*sizes, GRID.num_patches, GRID.num_patches)).softmax(-1)


def name_of(patches, sink=0.05):
    model = Built(with_prefix(patches, sink))
    images = toy_models.images(4 * GRID.rows, 4 * GRID.cols, count=NUM_IMAGES)
    return measure_model(model, [images], metrics="all").head_names


UNIFORM = torch.full((GRID.num_patches, GRID.num_patches), 1 / GRID.num_patches)
BOX = GRID.box().float() / GRID.box().sum(-1, keepdim=True)


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        (torch.eye(GRID.num_patches), "identity"),
        (BOX, "local"),
        (shifted(0, 1), "local"),
        (shifted(-2, 1), "local"),
        (UNIFORM, "global"),
        (random_rows(), "positional"),
        (0.6 * torch.eye(GRID.num_patches) + 0.4 * UNIFORM, "identity"),
    ],
)
def test_a_head_that_is_the_same_in_every_image_is_named(rows, name):
    assert name_of(every_image(rows)) == [[name]]


def test_attention_that_follows_the_image_is_not_positional():
    assert name_of(random_rows(NUM_IMAGES, 1)) == [["global"]]


@pytest.mark.slow
def test_on_a_grid_of_a_few_patches_looking_everywhere_is_not_local():
    model = create_model("mu", 7, image_size=(8, 12), patch_size=4)  # untrained: nearly uniform
    profile = measure_model(model, toy_models.images(8, 12), metrics="all")
    assert profile.radius_mass.mean[0][0, 0] > 0.7
    assert profile.head_names == [["global", "global"]] * 2


def test_a_head_that_is_a_little_of_everything_is_mixed():
    assert name_of(0.4 * every_image(BOX) + 0.6 * random_rows(NUM_IMAGES, 1)) == [["mixed"]]


def test_a_head_that_looks_at_prefix_tokens_is_a_sink_whatever_the_rest_does():
    both = torch.cat([every_image(torch.eye(GRID.num_patches)), every_image(UNIFORM)], dim=1)
    assert name_of(both, sink=0.7) == [["sink", "sink"]]


@pytest.mark.slow
def test_asking_for_the_position_share_alone_is_enough_for_names():
    profile = measure_model(toy_models.plain(), toy_models.images(12, 20), metrics="position_share")
    every = measure_model(toy_models.plain(), toy_models.images(12, 20), metrics="all")
    assert profile.head_names == every.head_names
    assert profile.num_images == 7


def test_heads_without_the_needed_metrics_have_no_name():
    profile = measure_model(toy_models.plain(), toy_models.images(12, 20))
    with pytest.raises(UserError, match=r"\bsink, .*metrics='all'"):
        _ = profile.head_names
