"""Refuse models whose attention cannot be seen.

A scripted module runs outside Python. A module that is named for attention but made no attention
call may use a fused kernel of another library.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import torch
from torch import nn

from nearsight.core import UserError
from nearsight.measure.capture.interception import OTHER_SOFTMAX, Place

SWITCH = "switch the model to torch's scaled_dot_product_attention or to explicit attention"
FOREIGN = ("xformers", "flash_attn", "flash_attn_interface", "sageattention")


def refuse_scripted(model: nn.Module) -> None:
    """A scripted module runs outside Python: nothing in it can be seen."""
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            kind = getattr(module, "original_name", type(module).__name__)
            raise UserError(
                f"{name or kind} is a TorchScript module ({kind}), whose attention cannot be seen; "
                "measure the model it was scripted from"
            )


def refuse_unseen(unseen: Sequence[Place]) -> None:
    """Modules named for attention ran, but made no attention call that could be seen."""
    if not unseen:
        return
    place = unseen[0]
    kind = type(place.module).__name__
    library = _foreign_library(place.module)
    if library:
        reason = f"it uses {library}; {SWITCH}"
    elif OTHER_SOFTMAX in place.marks:
        reason = (
            "it is linear attention: its softmax goes over keys or features alone before they are "
            "multiplied, so there is no row of weights per query"
        )
    else:
        reason = (
            "no softmax over keys was seen in it; if it does have one, in a kernel that cannot be "
            f"seen, {SWITCH}"
        )
    others = f" (and {len(unseen) - 1} more like it)" if len(unseen) > 1 else ""
    raise UserError(f"layer {place.name} ({kind}){others} cannot be measured: {reason}")


def _foreign_library(module: nn.Module) -> str | None:
    """The library of fused attention that a module's forward refers to."""
    forward = inspect.unwrap(type(module).forward)
    code = getattr(forward, "__code__", None)
    for name in code.co_names if code else ():
        used = forward.__globals__.get(name)
        home = getattr(used, "__module__", None) or getattr(used, "__name__", "")
        root = str(home).partition(".")[0]
        if root in FOREIGN:
            return root
    return None
