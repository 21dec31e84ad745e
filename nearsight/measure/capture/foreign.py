"""Attention of other libraries, and of torch's flex attention: recognised by name.

These functions run outside of torch functions, so a function mode does not see them. While a
capture is at work, every name in the modules of the model's classes that stands for one of them
stands for a function that shows the call. A form that is not understood is refused with a sentence.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from nearsight.core import UserError

FOREIGN = ("xformers", "flash_attn", "flash_attn_interface", "sageattention")
Shown = Callable[..., Tensor]
Unwatched = Callable[[], AbstractContextManager[None]]


def _tokens_first(x: Tensor) -> Tensor:
    """[batch, head, token, width] of a tensor [batch, token, head, width]."""
    return x.transpose(1, 2) if x.ndim == 4 else x[:, None]


def _xformers(given: dict[str, Any]) -> dict[str, Any]:
    bias = given.get("attn_bias")
    if bias is not None and not isinstance(bias, Tensor):
        raise UserError(
            f"xformers' attention is called with a {type(bias).__name__}, a form of mask that is "
            "not known to nearsight; switch the model to torch's scaled_dot_product_attention"
        )
    return _arguments(given["query"], given["key"], given["value"], given.get("scale"), bias)


def _flash(given: dict[str, Any]) -> dict[str, Any]:
    window = given.get("window_size", (-1, -1))
    if tuple(window) != (-1, -1) or given.get("alibi_slopes") is not None or given.get("softcap"):
        raise UserError(
            "flash-attention is called with a window, slopes or a cap of its logits, a form that "
            "is not known to nearsight; switch the model to torch's scaled_dot_product_attention"
        )
    if "qkv" in given:
        q, k, v = given["qkv"].unbind(2)
    else:
        q, k, v = given["q"], given["k"], given["v"]
    mask = None
    if given.get("causal"):
        size = (q.shape[1], k.shape[1])
        mask = torch.ones(size, dtype=torch.bool, device=q.device).tril(size[1] - size[0])
    return _arguments(q, k, v, given.get("softmax_scale"), mask)


def _arguments(
    q: Tensor, k: Tensor, v: Tensor, scale: float | None, mask: Tensor | None
) -> dict[str, Any]:
    q, k, v = (_tokens_first(x) for x in (q, k, v))
    if k.shape[1] != q.shape[1]:  # groups of heads share keys
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return {"queries": q, "keys": k, "values": v, "scale": scale, "mask": mask}


def _flex(given: dict[str, Any]) -> dict[str, Any]:
    if given.get("score_mod") is not None or given.get("block_mask") is not None:
        raise UserError(
            "flex attention is called with score_mod or block_mask, code that nearsight does not "
            "run again; switch the model to torch's scaled_dot_product_attention with attn_mask"
        )
    q, k, v = given["query"], given["key"], given["value"]
    scale = given.get("scale")
    found = {"queries": q, "keys": k, "values": v, "mask": None}
    return found | {"scale": q.shape[-1] ** -0.5 if scale is None else scale}


ORIGINAL = "shown_by_nearsight"  # name of the attribute of a function that shows another


# Where a function is, its names, how its arguments are read, and whether heads come after tokens.
ENTRIES: tuple[tuple[str, str, Callable[[dict[str, Any]], dict[str, Any]], bool], ...] = (
    ("xformers.ops", "memory_efficient_attention", _xformers, True),
    ("flash_attn", "flash_attn_func", _flash, True),
    ("flash_attn", "flash_attn_qkvpacked_func", _flash, True),
    ("flash_attn_interface", "flash_attn_func", _flash, True),
    ("torch.nn.attention.flex_attention", "flex_attention", _flex, False),
)


@contextmanager
def showing_foreign(model: nn.Module, show: Shown, unwatched: Unwatched) -> Iterator[None]:
    """Show calls of attention functions of other libraries inside the block.

    Args:
        model: The model whose modules may call them.
        show: Takes the output and the arguments of a call, gives the output for the model.
        unwatched: Makes a block in which nothing else is seen.
    """
    replaced: list[tuple[dict[str, Any], str, Any]] = []
    functions = {
        id(function): _shown(function, read, turned, show, unwatched)
        for home, name, read, turned in ENTRIES
        if (function := _original(getattr(sys.modules.get(home), name, None))) is not None
    }
    if functions:
        homes = {type(x).__module__ for x in model.modules()} | {home for home, *_ in ENTRIES}
        for home in sorted(homes & sys.modules.keys()):
            names = vars(sys.modules[home])
            for name, value in list(names.items()):
                if id(original := _original(value)) in functions:
                    replaced.append((names, name, value))
                    names[name] = functions[id(original)]
    try:
        yield
    finally:
        for names, name, value in replaced:
            names[name] = value


def _original(function: Any) -> Any:
    """The function itself, where a capture around this one shows its calls."""
    return vars(function).get(ORIGINAL, function) if inspect.isfunction(function) else function


def _shown(
    function: Callable, read: Callable, turned: bool, show: Shown, unwatched: Unwatched
) -> Callable:
    signature = inspect.signature(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        with unwatched():
            output = function(*args, **kwargs)
            with torch.no_grad():
                arguments = read(dict(bound.arguments))
            seen = _tokens_first(output) if turned else output
            changed = show(seen, **arguments)
            if changed is seen:
                return output
            if not turned:
                return changed
            return changed.transpose(1, 2) if output.ndim == 4 else changed[:, 0]

    vars(call)[ORIGINAL] = function
    return call


def foreign_library(module: nn.Module) -> str | None:
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
