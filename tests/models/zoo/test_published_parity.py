"""Whole models with the authors' names against a plain forward that is written from the facts.

The plain forward is first checked against the logits of the authors' own code for
``locatvit_tiny``; then other sizes, registers, parts that are switched off, and other resolutions
of ours are checked against it. RoPE and Swin without LocAt are checked against timm's models.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import timm
import torch
import torch.nn.functional as F
from models.parity import filled, images_of, published
from torch import Tensor

from nearsight.models.load.registry import create_model

Weights = dict[str, Tensor]
PATCH, EPS = 16, 0.1  # EPS of GAug up to a side of 26 patches


def linear(weights: Weights, name: str, x: Tensor) -> Tensor:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def norm(weights: Weights, name: str, x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def gaussian_bias(weights: Weights, at: str, queries: Tensor, grid: tuple[int, int]) -> Tensor:
    """Add alpha * exp(-1/2 (dy^2 / vy + dx^2 / vx)) to the logits between patches."""
    rows, cols = grid
    bound = 14**2
    variance = bound * torch.sigmoid(
        linear(weights, f"{at}.log_var", queries) - math.log(bound - 1)
    )
    variance = variance * min(grid) / 14
    alpha = F.softplus(linear(weights, f"{at}.log_alpha", queries))
    y, x = (z.flatten().float() for z in torch.meshgrid(*map(torch.arange, grid), indexing="ij"))
    exponent = torch.zeros(*queries.shape[:-1], rows * cols)
    for axis, place in enumerate((y, x)):
        squared = (-0.5 * (place[:, None] - place[None, :]) ** 2).clamp(min=-0.5 * 13**2)
        exponent = exponent + squared / (variance[..., axis, None] + EPS)
    return alpha * exponent.exp()


def plain_logits(
    weights: Weights, images: Tensor, heads: int, gaussian: bool = True, refine: bool = True
) -> Tensor:
    """Return the logits of a LocAt ViT, from its weights by the authors' names."""
    patches = F.conv2d(
        images, weights["patch_embed.proj.weight"], weights["patch_embed.proj.bias"], stride=PATCH
    )
    grid = (patches.shape[2], patches.shape[3])
    tokens = patches.flatten(2).transpose(1, 2)
    first = [weights["cls_token"]] + ([weights["reg_token"]] if "reg_token" in weights else [])
    prefix = torch.cat(first, 1).expand(len(images), -1, -1)
    num_prefix = prefix.shape[1]
    places = weights["pos_embed"]
    if grid != (14, 14):
        own = places[:, num_prefix:].unflatten(1, (14, 14)).permute(0, 3, 1, 2)
        own = F.interpolate(own, grid, mode="bicubic", antialias=True, align_corners=False)
        places = torch.cat([places[:, :num_prefix], own.flatten(2).transpose(1, 2)], 1)
    x = torch.cat([prefix, tokens], 1) + places
    depth = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("blocks."))
    width = x.shape[-1]
    for number in range(depth):
        at = f"blocks.{number}"
        mixed = linear(weights, f"{at}.attn.qkv", norm(weights, f"{at}.norm1", x))
        q, k, v = mixed.unflatten(-1, (3, heads, width // heads)).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (width // heads) ** 0.5
        if gaussian:
            bias = gaussian_bias(weights, f"{at}.attn.gaug", q[:, :, num_prefix:], grid)
            scores[:, :, num_prefix:, num_prefix:] += bias
        attended = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        x = x + linear(weights, f"{at}.attn.proj", attended)
        hidden = F.gelu(linear(weights, f"{at}.mlp.fc1", norm(weights, f"{at}.norm2", x)))
        x = x + linear(weights, f"{at}.mlp.fc2", hidden)
    x = norm(weights, "norm", x)
    if refine:
        own = x.unflatten(-1, (heads, width // heads)).transpose(1, 2)
        scores = own @ own.transpose(-1, -2) / (width // heads) ** 0.5
        x = (scores.softmax(-1) @ own).transpose(1, 2).flatten(2)
    return linear(weights, "head", x[:, 0])


@pytest.mark.slow
def test_the_plain_forward_gives_the_logits_of_the_authors_code():
    model = filled(create_model("locatvit_tiny"))
    with torch.no_grad():
        logits = plain_logits(model.state_dict(), images_of(), 3)[:, :12]
    expected = torch.tensor(published("logits.json")["locatvit_tiny"]["logits"])
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("name", "heads", "size", "options"),
    [
        ("locatvit_small", 6, (224, 224), {}),
        ("locatvit_base", 12, (224, 224), {"depth": 2}),
        ("locatvit_tiny", 3, (224, 224), {"reg_tokens": 4}),
        ("locatvit_tiny", 3, (224, 224), {"refine": False}),
        ("locatvit_tiny", 3, (224, 224), {"gaussian": False}),
        ("locatvit_tiny", 3, (160, 256), {"dynamic_img_size": True}),
        ("locatvit_tiny", 3, (320, 288), {"dynamic_img_size": True, "reg_tokens": 4}),
    ],
)
@pytest.mark.slow
def test_further_models_agree_with_the_plain_forward(
    name: str, heads: int, size: tuple[int, int], options: dict[str, Any]
):
    model = filled(create_model(name, **options))
    parts = {x: options[x] for x in ("gaussian", "refine") if x in options}
    with torch.no_grad():
        expected = plain_logits(model.state_dict(), images_of(*size), heads, **parts)
        torch.testing.assert_close(model(images_of(*size)), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("locatvit_small_rope_mixed", "vit_small_patch16_rope_mixed_224"),
        ("locatvit_base_rope_mixed", "vit_base_patch16_rope_mixed_224"),
        ("locatswin_tiny", "swin_tiny_patch4_window7_224"),
        ("locatswin_base", "swin_base_patch4_window7_224"),
    ],
)
@pytest.mark.slow
def test_other_backbones_without_locat_are_timms(ours: str, theirs: str):
    brief: dict[str, Any] = {"depth": 2}
    if "swin" in ours:
        brief = {"depths": (2, 2), "num_heads": (3, 6) if "tiny" in ours else (4, 8)}
    off = create_model(ours, gaussian=False, refine=False, **brief)
    stock = filled(timm.create_model(theirs, **brief))
    off.load_state_dict(stock.state_dict(), strict=True)
    with torch.no_grad():
        torch.testing.assert_close(off.eval()(images_of()), stock(images_of()), atol=1e-4, rtol=0)
