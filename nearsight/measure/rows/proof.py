"""Check that the recomputed attention weights are those that the layer used.

On the first batch, attention @ values must equal what the attention call itself returned, up to
rounding.
"""

from __future__ import annotations

import torch

from nearsight.core import UserError
from nearsight.measure.capture import AttentionCall
from nearsight.measure.rows.unfold import Unfolded

NUM_PROVED = 2  # how many images of the first batch are checked
NUM_ROWS = 128  # rows checked per head and window, evenly spread; all if there are fewer than 256
TOLERANCE = 1e-4  # relative to the layer's largest output
HALF_TOLERANCE = 2e-2  # for outputs in bf16 and fp16


def prove(call: AttentionCall, tensors: Unfolded) -> float:
    """Return the largest error of attention @ values, relative to the layer's largest output.

    Raises:
        UserError: If the error is larger than rounding explains. The message names the layer.
    """
    num_images = min(NUM_PROVED, tensors.num_images)
    spread = slice(0, tensors.num_queries, max(1, tensors.num_queries // NUM_ROWS))
    errors = [0.0]
    for block in tensors.blocks(num_images, spread, tensors.num_keys):
        rows = (block.images, slice(None), block.heads)
        if call.multiplied is None:
            weights = tensors.weights(block)
        else:
            weights = tensors.unfold(call.multiplied)[*rows, block.queries].to(tensors.dtype)
        ours = weights @ tensors.values[rows].to(tensors.dtype)
        theirs = tensors.output[*rows, block.queries].to(tensors.dtype)
        errors.append(_largest(ours - theirs))
    error = float(torch.tensor(errors).max())  # NaN if one is, which Python's max may drop
    relative = error / (_largest(tensors.output[:num_images]) or 1.0)
    allowed = TOLERANCE if call.output.dtype.itemsize >= 4 else HALF_TOLERANCE
    if not relative <= allowed:
        raise UserError(
            f"layer {call.name} ({type(call.path[-1].module).__name__}) cannot be measured: the "
            f"recomputed attention times the values differs from the layer's output by "
            f"{relative:.1e} of its largest entry (allowed: {allowed:g}), so the layer computes "
            "something else than softmax attention; nearsight cannot measure this model"
        )
    return relative


def _largest(x: torch.Tensor) -> float:
    """Return the largest magnitude in a tensor, or 0 if it is empty."""
    return float(x.abs().max()) if x.numel() else 0.0
