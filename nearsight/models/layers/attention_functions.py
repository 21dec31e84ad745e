"""Register the functions that compute attention in our layers, so that capture can see them.

A function that computes attention in its own way calls ``handle_torch_function``, so that torch's
function modes see it as one call. It is registered in ``ATTENTION_FUNCTIONS`` together with another
function of the same arguments, which describes the call: it returns queries, keys, values, scale
and, if there are any, the mask and the mixture. With it, capture can show the attention without
knowing the layer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Mixture:
    """Attention that is the same for every image, mixed with the softmax of a layer.

    attention = (1 - share) softmax(scale q k^T + mask) + share * rows, head by head.
    """

    share: Float[Tensor, " head"]
    rows: Callable[[slice, slice], Tensor]  # (heads, queries) -> [head, query, key]


ATTENTION_FUNCTIONS: dict[Callable, Callable[..., dict[str, Any]]] = {}
