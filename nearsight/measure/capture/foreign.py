"""Watch the attention functions of other libraries and torch's flex attention, by their names.

Calls of these functions do not pass through torch's function modes, by which ``AttentionCapture``
sees other calls. Therefore, while a capture is active, every reference to such a function in the
Python modules that define the model's classes is replaced with a wrapper that reports the call. A
call whose attention cannot be recomputed (because of an unknown kind of mask, for example) raises a
``UserError``.
"""

from __future__ import annotations

import inspect
import sys
import threading
import types
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
    """Return a tensor [batch, token, head, width] as [batch, head, token, width]."""
    return x.transpose(1, 2) if x.ndim == 4 else x[:, None]


def _xformers(given: dict[str, Any]) -> dict[str, Any]:
    """Translate the arguments of xformers' attention to those of an ``AttentionCall``."""
    bias = given.get("attn_bias")
    if bias is not None and not isinstance(bias, Tensor):
        raise UserError(
            f"xformers' attention is called with a {type(bias).__name__} as its mask, which "
            "nearsight cannot read; switch the model to torch's scaled_dot_product_attention"
        )
    return _arguments(given["query"], given["key"], given["value"], given.get("scale"), bias)


def _flash(given: dict[str, Any]) -> dict[str, Any]:
    """Translate the arguments of flash-attention to those of an ``AttentionCall``."""
    window = given.get("window_size", (-1, -1))
    if tuple(window) != (-1, -1) or given.get("alibi_slopes") is not None or given.get("softcap"):
        raise UserError(
            "flash-attention is called with a window, ALiBi slopes or a soft cap, which nearsight "
            "cannot reproduce; switch the model to torch's scaled_dot_product_attention"
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
    """Return the arguments of an ``AttentionCall`` for tensors [batch, token, head, width]."""
    q, k, v = (_tokens_first(x) for x in (q, k, v))
    if k.shape[1] != q.shape[1]:  # groups of heads share keys
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return {"queries": q, "keys": k, "values": v, "scale": scale, "mask": mask}


def _flex(given: dict[str, Any]) -> dict[str, Any]:
    """Translate the arguments of torch's flex attention to those of an ``AttentionCall``."""
    if given.get("score_mod") is not None or given.get("block_mask") is not None:
        raise UserError(
            "flex attention is called with score_mod or block_mask, which nearsight cannot "
            "reproduce; switch the model to torch's scaled_dot_product_attention with attn_mask"
        )
    q, k, v = given["query"], given["key"], given["value"]
    scale = given.get("scale")
    arguments = {"queries": q, "keys": k, "values": v, "mask": None}
    return arguments | {"scale": q.shape[-1] ** -0.5 if scale is None else scale}


_inside = threading.local()  # whether this thread is in a function that is shown
ORIGINAL = "shown_by_nearsight"  # attribute of a wrapper that holds the function it wraps


# Module and name of each function, the reader of its arguments, and whether its tensors are
# [batch, token, head, width] (True) or [batch, head, token, width] (False).
ENTRIES: tuple[tuple[str, str, Callable[[dict[str, Any]], dict[str, Any]], bool], ...] = (
    ("xformers.ops", "memory_efficient_attention", _xformers, True),
    ("flash_attn", "flash_attn_func", _flash, True),
    ("flash_attn", "flash_attn_qkvpacked_func", _flash, True),
    ("flash_attn_interface", "flash_attn_func", _flash, True),
    ("torch.nn.attention.flex_attention", "flex_attention", _flex, False),
)


@contextmanager
def watch_foreign(model: nn.Module, show: Shown, unwatched: Unwatched) -> Iterator[None]:
    """Report calls of other libraries' attention functions inside the ``with`` block.

    Args:
        model: The model whose modules may make such calls.
        show: Receives the output and the arguments of a call; returns the output for the model.
        unwatched: Makes a context manager inside which the capture sees nothing, so that calls
            inside the library's function are not reported as well.
    """
    replaced: list[tuple[dict[str, Any], str, Any]] = []
    functions = {
        id(function): _wrap(function, read, turned, show, unwatched)
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
    """Return the function inside a wrapper of an enclosing capture, or the function itself."""
    return vars(function).get(ORIGINAL, function) if inspect.isfunction(function) else function


def _wrap(
    function: Callable, read: Callable, turned: bool, show: Shown, unwatched: Unwatched
) -> Callable:
    """Wrap ``function`` so that ``show`` sees its calls and may replace its output.

    Args:
        function: The library's attention function.
        read: Translates the call's arguments to those of an ``AttentionCall``.
        turned: Whether the function's tensors are [batch, token, head, width].
        show: As in ``watch_foreign``.
        unwatched: As in ``watch_foreign``.
    """
    signature = inspect.signature(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        if vars(_inside).get("shown"):  # one of these functions calls another one
            return function(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        with unwatched():
            _inside.shown = True
            try:
                output = function(*args, **kwargs)
            finally:
                _inside.shown = False
            with torch.no_grad():
                arguments = read(dict(bound.arguments))
            heads_first = _tokens_first(output) if turned else output
            changed = show(heads_first, **arguments)
            if changed is heads_first:
                return output
            if not turned:
                return changed
            return changed.transpose(1, 2) if output.ndim == 4 else changed[:, 0]

    vars(call)[ORIGINAL] = function
    return call


def foreign_library(module: nn.Module) -> str | None:
    """Return the attention library that a module's ``forward`` refers to, or None."""
    forward = inspect.unwrap(type(module).forward)
    for name in _names_in(getattr(forward, "__code__", None)):
        used = forward.__globals__.get(name)
        home = getattr(used, "__module__", None) or getattr(used, "__name__", "")
        root = str(home).partition(".")[0]
        if root in FOREIGN:
            return root
    return None


def _names_in(code: Any) -> Iterator[str]:
    """Yield the global names in a function's code and in the comprehensions and lambdas in it."""
    if isinstance(code, types.CodeType):
        yield from code.co_names
        for constant in code.co_consts:
            yield from _names_in(constant)
