"""See every attention call inside a model without editing it.

A torch function mode sits between a model and the two functions attention goes through: our
``attend`` and torch's fused ``scaled_dot_product_attention``. It passes the call on untouched, then
shows the queries and keys really used to a consumer, which recomputes the weights the fused kernel
never returns. Layers are numbered in the order they are called, from 1. Nothing is kept.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from nearsight.models.attention import attend, attention_weights
from nearsight.models.grid import Grid


@dataclass(frozen=True)
class AttentionCall:
    """One call of attention: [batch, head, token, width] each; the mask as torch takes it."""

    layer: int
    queries: Tensor
    keys: Tensor
    values: Tensor
    scale: float
    mask: Tensor | None

    def weights(self) -> Tensor:
        """softmax(scale q k^T + mask) [batch, head, query, key], at least in float32."""
        dtype = torch.promote_types(self.queries.dtype, torch.float32)
        queries, keys = self.queries.to(dtype), self.keys.to(dtype)
        if self.mask is None:
            return attention_weights(queries, keys, self.scale)
        logits = queries @ keys.transpose(-2, -1) * self.scale
        if self.mask.dtype == torch.bool:
            return logits.masked_fill(~self.mask, float("-inf")).softmax(-1)
        return (logits + self.mask.to(dtype)).softmax(-1)


class AttentionCapture(TorchFunctionMode):
    """Shows every attention call made inside its ``with`` block to ``consumer``.

    >>> from nearsight.models.registry import create_model
    >>> seen = []
    >>> with AttentionCapture(lambda call: seen.append(tuple(call.weights().shape))):
    ...     logits = create_model("mu").eval()(torch.zeros(3, 3, 32, 32))
    >>> seen
    [(3, 2, 65, 65), (3, 2, 65, 65)]
    """

    def __init__(self, consumer: Callable[[AttentionCall], None]) -> None:
        super().__init__()
        self.consumer = consumer
        self.num_calls = 0

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        if func is attend:
            given = inspect.signature(attend).bind(*args, **(kwargs or {})).arguments
            self._show(given["queries"], given["keys"], given["values"], given["scale"], None)
        elif func is F.scaled_dot_product_attention:
            given = _fused_arguments(*args, **(kwargs or {}))
            self._show(**given)
        return output

    def _show(
        self, queries: Tensor, keys: Tensor, values: Tensor, scale: float, mask: Tensor | None
    ) -> None:
        self.num_calls += 1
        self.consumer(AttentionCall(self.num_calls, queries, keys, values, scale, mask))


def _fused_arguments(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> dict[str, Any]:
    """What ``scaled_dot_product_attention`` makes of its arguments."""
    if enable_gqa:
        raise ValueError("expected a key for every query head, got grouped-query attention")
    if is_causal:
        size = (query.shape[-2], key.shape[-2])
        attn_mask = torch.ones(size, dtype=torch.bool, device=query.device).tril()
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    return {"queries": query, "keys": key, "values": value, "scale": scale, "mask": attn_mask}


def patch_geometry(model: nn.Module) -> tuple[Grid, int]:
    """Grid and number of prefix tokens of one of our models or of a plain ViT of timm."""
    if isinstance(grid := getattr(model, "grid", None), Grid):
        return grid, int(model.num_prefix)  # type: ignore[arg-type]
    size = getattr(getattr(model, "patch_embed", None), "grid_size", None)
    num_prefix = getattr(model, "num_prefix_tokens", None)
    if size is None or num_prefix is None:
        raise ValueError(
            "expected a Vision Transformer that tells its grid (grid and num_prefix, "
            f"or timm's patch_embed.grid_size and num_prefix_tokens), got {type(model).__name__}"
        )
    return Grid(*size), int(num_prefix)
