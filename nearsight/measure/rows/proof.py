"""Check that the weights we recompute are those the layer used.

On the first batch, attention @ values must give what the attention call itself returned.
"""

from __future__ import annotations

import torch

from nearsight.core import UserError
from nearsight.measure.capture import AttentionCall
from nearsight.measure.rows.unfold import Unfolded

NUM_PROVED = 2  # images of the first batch whose attention is multiplied out
NUM_ROWS = 128  # of every head and window, evenly spread; all where there are fewer than twice that
TOLERANCE = 1e-4  # of the layer's largest output
HALF_TOLERANCE = 2e-2  # bf16 and fp16


def prove(call: AttentionCall, tensors: Unfolded) -> float:
    """The largest error of attention @ values relative to the layer's largest output.

    Raises a UserError that names the layer when it is larger than allowed.
    """
    num_images = min(NUM_PROVED, tensors.num_images)
    spread = slice(0, tensors.num_queries, max(1, tensors.num_queries // NUM_ROWS))
    errors = [0.0]
    for block in tensors.blocks(num_images, spread, tensors.num_keys):
        rows = (block.images, slice(None), block.heads)
        if call.multiplied is None:
            weights = tensors.weights(block)
        else:
            weights = tensors.unfolded(call.multiplied)[*rows, block.queries].to(tensors.dtype)
        ours = weights @ tensors.values[rows].to(tensors.dtype)
        theirs = tensors.output[*rows, block.queries].to(tensors.dtype)
        errors.append(_largest(ours - theirs))
    error = float(torch.tensor(errors).max())  # NaN if one is, which Python's max may drop
    relative = error / (_largest(tensors.output[:num_images]) or 1.0)
    allowed = TOLERANCE if call.output.dtype.itemsize >= 4 else HALF_TOLERANCE
    if not relative <= allowed:
        raise UserError(
            f"layer {call.name} ({type(call.path[-1].module).__name__}) cannot be measured: its "
            f"attention times its values differs from its own output by {relative:.1e} of the "
            f"largest output (allowed: {allowed:g}), so it computes something else"
        )
    return relative


def _largest(x: torch.Tensor) -> float:
    return float(x.abs().max()) if x.numel() else 0.0
