"""Explain why the attention of a model cannot be seen.

There are two causes. A scripted module runs outside Python. A module whose name contains
"attention" but that makes no visible attention call may use a fused kernel of another library, or
attention without a softmax over keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from nearsight.core import UserError
from nearsight.measure.capture.foreign import foreign_library
from nearsight.measure.capture.interception import SAMPLED, SOFTMAX, Place
from nearsight.measure.capture.tracking import LINEAR, UNBATCHED

SWITCH = "switch the model to torch's scaled_dot_product_attention or to explicit attention"


def refuse_scripted(model: nn.Module) -> None:
    """Raise a UserError if a module is TorchScript, because nothing inside it can be seen."""
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            kind = getattr(module, "original_name", type(module).__name__)
            raise UserError(
                f"{name or kind} is a TorchScript module ({kind}), whose attention cannot be seen; "
                "measure the model it was scripted from"
            )


def refuse_unseen(unseen: Sequence[Place]) -> None:
    """Raise a UserError if modules that are named for attention made no visible attention call."""
    if not unseen:
        return
    place = unseen[0]
    kind = type(place.module).__name__
    reason = unseen_reason(place)
    others = f" (and {len(unseen) - 1} more like it)" if len(unseen) > 1 else ""
    raise UserError(f"layer {place.name} ({kind}){others} cannot be measured: {reason}")


def unseen_reason(place: Place) -> str:
    """Return why a module named for attention has no attention that can be measured.

    >>> unseen_reason(Place("blocks.0.attn", nn.Identity(), (), marks={LINEAR})).partition(":")[0]
    'it is linear attention'
    """
    library = foreign_library(place.module)
    if library:
        return f"it uses {library}; {SWITCH}"
    if SAMPLED in place.marks:
        return (
            "it is deformable attention: it samples its values at points that it computes, so its "
            "keys have no fixed positions"
        )
    if LINEAR in place.marks:
        return (
            "it is linear attention: its softmax goes over keys or features alone before they are "
            "multiplied, so there is no row of weights per query"
        )
    if UNBATCHED in place.marks:
        return (
            "its softmax has only two axes, so it mixes the images of a batch; give it weights "
            "[image, query, key]"
        )
    if SOFTMAX in place.marks:
        return (
            "its softmax scales features entry by entry, as some linear attention and selective "
            "kernels do, so there is no row of weights per query"
        )
    return (
        "no softmax over keys was seen in it; if a kernel of another library computes one, "
        f"{SWITCH}"
    )
