"""The attention that a model's own unfused code makes, without the package's capture."""

import copy
from unittest import mock

import torch
import torch.nn.functional as F


def softmax_rows(model, images):
    """What every softmax over keys gave, call by call; fused attention is done by hand.

    Heads folded into the batch (nn.MultiheadAttention) are given a dimension of their own.
    """
    found, softmax = [], torch.Tensor.softmax

    def record(x, *args, **kwargs):
        out = softmax(x, *args, **kwargs)
        if out.ndim >= 3:
            found.append(out if out.ndim > 3 else out.unflatten(0, (len(images), -1)))
        return out

    def by_hand(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
        logits = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5 if scale is None else scale)
        return (logits if attn_mask is None else logits + attn_mask).softmax(-1) @ v

    with (
        torch.no_grad(),
        mock.patch.object(torch.backends.mha, "get_fastpath_enabled", return_value=False),
        mock.patch.object(torch.Tensor, "softmax", record),
        mock.patch.object(F, "scaled_dot_product_attention", by_hand),
    ):
        unfused(model)(images)
    return found


def dropout_inputs(model, images):
    """What reached the dropout between attention and values: ConViT's gated rows."""
    found, own = [], unfused(model)
    for name, module in own.named_modules():
        if name.endswith("attn_drop"):
            module.register_forward_hook(lambda _, args, out: found.append(args[0].detach()))
    own(images)
    return found


def unfused(model):
    """A copy of the model that makes its attention in its own explicit code."""
    own = copy.deepcopy(model.train()).eval()  # biases that LeViT keeps in eval mode are dropped
    model.eval()
    if hasattr(own, "set_attn_implementation"):
        own.set_attn_implementation("eager")
    for module in own.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = False
    return own


def rows_by_offsets(model, images):
    """Attention of every block from its weights; that of GPSA and PSA for each pair of patches."""
    found, own = [], unfused(model)
    for block in own.blocks:
        block.attn.register_forward_pre_hook(
            lambda layer, args: found.append(block_rows(layer, args[0]))
        )
    with torch.no_grad():
        own(images)
    return found


def block_rows(layer, x):
    linear = layer.qk if hasattr(layer, "qk") else layer.qkv
    heads = linear(x).unflatten(-1, (-1, layer.num_heads, layer.head_dim))
    q, k = heads.permute(2, 0, 3, 1, 4)[:2]
    content = q @ k.transpose(-2, -1) * layer.head_dim**-0.5
    if not hasattr(layer, "pos_proj"):
        return content.softmax(-1)
    grid = layer.tokens.grid
    patches = [(row, col) for row in range(grid.rows) for col in range(grid.cols)]
    offsets = [[(x - b, y - a) for y, x in patches] for a, b in patches]  # columns first
    terms = [[(dx, dy, dx**2 + dy**2) for dx, dy in line] for line in offsets]
    position = layer.pos_proj(torch.tensor(terms).to(x)).permute(2, 0, 1)
    if layer.gating_param is None:
        return (content + position).softmax(-1)
    share = layer.gating_param.sigmoid()[:, None, None]
    return (1 - share) * content.softmax(-1) + share * position.softmax(-1)
