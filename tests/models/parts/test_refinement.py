"""PRR: against slow loops and timm's, the rows it needs, what it refuses."""

from __future__ import annotations

import pytest
import timm
import torch
from torch import Tensor

from nearsight.core import UserError
from nearsight.models.parts.locat.refinement import Refine, RefineMap, refine


def slow_refine(x: Tensor, num_heads: int) -> Tensor:
    """One token and head at a time."""
    out = torch.zeros_like(x)
    width = x.shape[-1] // num_heads
    for image in range(len(x)):
        for head in range(num_heads):
            part = x[image, :, head * width : (head + 1) * width]
            for i in range(len(part)):
                weights = torch.stack([part[i] @ part[j] for j in range(len(part))])
                weights = (weights * width**-0.5).softmax(0)
                out[image, i, head * width : (head + 1) * width] = weights @ part
    return out


def tokens_of(num: int = 11, width: int = 21) -> Tensor:
    torch.manual_seed(2)
    return torch.randn(2, num, width, dtype=torch.float64)


def test_refinement_equals_plain_loops():
    x = tokens_of()
    torch.testing.assert_close(refine(x, num_heads=3), slow_refine(x, num_heads=3))


def test_the_rows_that_the_head_reads_are_those_of_the_whole():
    x = tokens_of()
    torch.testing.assert_close(refine(x, 3, num_queries=4), refine(x, 3)[:, :4])
    torch.testing.assert_close(Refine(3)(x), slow_refine(x, 3)[:, 0])
    torch.testing.assert_close(Refine(3, "avg", num_prefix=2)(x), slow_refine(x, 3)[:, 2:].mean(1))
    grid = tokens_of(6).unflatten(1, (2, 3))
    torch.testing.assert_close(RefineMap(3, "avg")(grid), slow_refine(tokens_of(6), 3).mean(1))


def test_equal_tokens_stay_what_they_are():
    x = tokens_of(1).expand(2, 11, 21)
    torch.testing.assert_close(refine(x, num_heads=7), x)


def test_timm_has_the_same_for_models_with_a_class_token():
    torch.manual_seed(0)
    options = {"img_size": (24, 40), "patch_size": 8, "embed_dim": 21, "depth": 2, "num_heads": 3}
    plain = timm.create_model("vit_tiny_patch16_224", **options).eval()
    theirs = timm.create_model("vit_tiny_patch16_224", **options, global_pool="prr").eval()
    theirs.load_state_dict(plain.state_dict())
    plain.attn_pool = Refine(3)
    plain.pool_include_prefix = True
    images = torch.randn(2, 3, 24, 40)
    torch.testing.assert_close(plain(images), theirs(images))


def test_what_cannot_be_refined_is_refused():
    with pytest.raises(UserError, match=r"\b21\b.*\b2 heads\b.*\bnum_heads\b"):
        refine(tokens_of(), num_heads=2)
    with pytest.raises(UserError, match=r"pool is 'map', .* token, avg"):
        Refine(3, "map")
