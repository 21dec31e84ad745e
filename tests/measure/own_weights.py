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
    own = copy.deepcopy(model).eval()
    if hasattr(own, "set_attn_implementation"):
        own.set_attn_implementation("eager")
    for module in own.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = False
    return own
