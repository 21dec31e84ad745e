"""The Jumbo ViT in plain loops: one image after another, from weights by their published names."""

from __future__ import annotations

import math

import torch
from torch import Tensor

ROWS, COLS, PATCH = 3, 5, 7
HEADS, TOKENS = 3, 5


def slow_logits(w: dict[str, Tensor], images: Tensor) -> Tensor:
    """GAug and PRR are on if their weights are there."""
    return torch.stack([slow_head(w, slow_tokens(w, image)) for image in images])


def slow_tokens(w: dict[str, Tensor], image: Tensor) -> Tensor:
    """All tokens after the blocks, class tokens first [token, width]."""
    cut = [image[:, PATCH * r :, PATCH * c :] for r in range(ROWS) for c in range(COLS)]
    patches = [
        w["patch_embed.proj.weight"].flatten(1) @ x[:, :PATCH, :PATCH].flatten()
        + w["patch_embed.proj.bias"]
        for x in cut
    ]
    x = torch.cat([w["cls_token"][0], torch.stack(patches) + w["pos_embed"][0]])
    for layer in ("blocks.0", "blocks.1"):
        x = x + w[f"{layer}.ls1.gamma"] * slow_attention(w, layer, norm(w, f"{layer}.norm1", x))
        wide = x[:TOKENS].flatten()
        change = mlp(w, "jumbo_mlp", norm(w, f"{layer}.norm3", wide))
        wide = wide + w[f"{layer}.ls3.gamma"] * change
        patches = [
            p + w[f"{layer}.ls2.gamma"] * mlp(w, f"{layer}.mlp", norm(w, f"{layer}.norm2", p))
            for p in x[TOKENS:]
        ]
        x = torch.stack([*wide.chunk(TOKENS), *patches])
    return x


def slow_attention(w: dict[str, Tensor], layer: str, x: Tensor) -> Tensor:
    q, k, v = (x @ w[f"{layer}.attn.qkv.weight"].T + w[f"{layer}.attn.qkv.bias"]).chunk(3, dim=-1)
    heads = [
        attended(*each, bias=slow_bias(w, layer, each[0]))
        for each in zip(*(y.chunk(HEADS, dim=-1) for y in (q, k, v)))
    ]
    return torch.cat(heads, -1) @ w[f"{layer}.attn.proj.weight"].T + w[f"{layer}.attn.proj.bias"]


def slow_bias(w: dict[str, Tensor], layer: str, queries: Tensor) -> Tensor:
    """GAug's bump around every patch; none for class tokens."""
    bias = torch.zeros(len(queries), len(queries), dtype=queries.dtype)
    if f"{layer}.attn.gaug.log_var.weight" not in w:
        return bias
    variance, strength = (
        queries @ w[f"{layer}.attn.gaug.{name}.weight"].T + w[f"{layer}.attn.gaug.{name}.bias"]
        for name in ("log_var", "log_alpha")
    )
    variance = COLS**2 * torch.sigmoid(variance - math.log(COLS**2 - 1)) + 0.1
    strength = (1 + strength.exp()).log()
    for p in range(ROWS * COLS):
        for t in range(ROWS * COLS):
            down, right = p // COLS - t // COLS, p % COLS - t % COLS
            by_row, by_col = variance[TOKENS + p]
            bump = torch.exp(-(down**2) / by_row / 2 - right**2 / by_col / 2)
            bias[TOKENS + p, TOKENS + t] = strength[TOKENS + p] * bump
    return bias


def attended(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | float = 0.0) -> Tensor:
    weights = (q @ k.T / math.sqrt(q.shape[-1]) + bias).exp()
    return weights / weights.sum(-1, keepdim=True) @ v


def slow_head(w: dict[str, Tensor], x: Tensor) -> Tensor:
    wide = norm(w, "norm", x[:TOKENS].flatten())
    if "norm_patches.weight" in w:
        x = torch.cat([wide.reshape(TOKENS, -1), norm(w, "norm_patches", x[TOKENS:])])
        heads = [attended(y, y, y) for y in x.chunk(HEADS, dim=-1)]
        wide = torch.cat(heads, -1)[:TOKENS].flatten()
    return w["head.weight"] @ wide + w["head.bias"]


def norm(w: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    eps = 1e-6 if name.endswith(("norm1", "norm2")) else 1e-5
    scale = (centred.square().mean(-1, keepdim=True) + eps).sqrt()
    return centred / scale * w[f"{name}.weight"] + w[f"{name}.bias"]


def mlp(w: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    inner = w[f"{name}.fc1.weight"] @ x + w[f"{name}.fc1.bias"]
    inner = inner * (1 + torch.erf(inner / math.sqrt(2))) / 2
    return w[f"{name}.fc2.weight"] @ inner + w[f"{name}.fc2.bias"]
