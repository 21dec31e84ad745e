"""Watch every attention call inside a model without editing the model.

A torch function mode sits between the model and torch. It passes every call on unchanged and looks
for attention in two forms:

- *fused*: ``scaled_dot_product_attention``, the functions that our layers register in
  ``ATTENTION_FUNCTIONS``, and kernels of other libraries (``foreign.py``). The consumer receives
  queries, keys, values, mask and scale.
- *explicit*: a softmax whose rows are later multiplied with values. The consumer receives the
  weights.

Hooks of modules serve only to tell which module a call came from. Nothing is kept after a call. All
models are measured through this one class. It can also replace the output of a call, as
``nearsight/evaluate/intervention.py`` does.
"""

from __future__ import annotations

import inspect
import re
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from nearsight.core import UserError
from nearsight.measure.capture.foreign import foreign_library, watch_foreign
from nearsight.measure.capture.tracking import (
    PRODUCTS,
    SOFTMAXES,
    Factors,
    SoftmaxTracking,
    TrackedProduct,
    over_keys,
)
from nearsight.models.layers import ATTENTION_FUNCTIONS, Mixture

# Whole words only, because FlattenTokens and ScatterHead contain "att" but are not attention.
NAMED_FOR_ATTENTION = re.compile(r"(?i:attn|attention|attend)|Att(?![a-z])")
# Marks that a module gets, as LINEAR and UNBATCHED of tracking.py; they explain errors.
SOFTMAX = "a softmax was taken"
SAMPLED = "a map was sampled at computed points"


@dataclass(frozen=True)
class Place:
    """A module that was active when an attention call was made, and the inputs of its forward."""

    name: str
    module: nn.Module
    inputs: tuple[Any, ...]  # positional arguments, then the values of ``keywords``
    keywords: tuple[str, ...] = ()
    output_callbacks: list[Callable[[Any], None]] = field(default_factory=list)  # get its output
    marks: set[str] = field(default_factory=set)  # what was seen inside, to explain an error


@dataclass(frozen=True)
class AttentionCall:
    """One attention call, fused (queries to mask) or explicit (``weights_made``).

    Tensors are as in the call: queries, keys, values and output are [..., token, width], the mask
    has torch's form, and weights are [..., query, key] with rows that sum to one.
    """

    path: tuple[Place, ...]  # from the model down to the module that made the call
    convolved: tuple[tuple[int, int], ...]  # (rows, cols) of earlier convolutions and image cuts
    values: Tensor
    output: Tensor
    queries: Tensor | None = None
    keys: Tensor | None = None
    scale: float = 1.0
    mask: Tensor | None = None
    mixture: Mixture | None = None  # positional attention that the layer mixes with the softmax
    weights_made: Tensor | None = None  # the softmax of explicit attention
    multiplied: Tensor | None = None  # what multiplied the values, if not the softmax itself
    factors: tuple[Factors, ...] = ()  # of the logits of explicit attention, if ``with_factors``
    number: int = 0  # index of the call within its forward
    repeat: int = 0  # how many calls the same module made earlier in this forward

    @property
    def name(self) -> str:
        """The module's name, with a number in brackets for later calls of the same module."""
        name = self.path[-1].name or type(self.path[-1].module).__name__
        return f"{name}[{self.repeat}]" if self.repeat else name

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape of the attention weights, [..., query, key]."""
        if self.weights_made is not None:
            return tuple(self.weights_made.shape)
        assert self.queries is not None
        assert self.keys is not None
        leading, others = self.queries.shape[:-2], self.keys.shape[:-2]
        if leading != others:
            leading = torch.broadcast_shapes(leading, others)
        return (*leading, self.queries.shape[-2], self.keys.shape[-2])


_capturing = threading.local()  # the model whose attention this thread captures
CUTS = frozenset({Tensor.reshape, Tensor.view, torch.reshape})


def cut_grid(image: Any, output: Any) -> tuple[int, int] | None:
    """Return the grid of patches if ``output`` is ``image`` cut into patches by a reshape.

    Patch embeddings written with einops cut images this way instead of by a convolution. For any
    other reshape the result is None.

    >>> cut_grid(torch.zeros(2, 3, 12, 20), torch.zeros(2, 3, 3, 4, 5, 4))
    (3, 5)
    """
    if not (isinstance(image, Tensor) and isinstance(output, Tensor)):
        return None
    if image.ndim != 4 or output.ndim != 6 or image.shape[:2] != output.shape[:2]:
        return None
    rows, height, cols, width = output.shape[2:]
    same = image.shape[2:] == (rows * height, cols * width)
    return (rows, cols) if same else None


class AttentionCapture(TorchFunctionMode):
    """Pass every attention call that a model makes inside the ``with`` block to a function.

    Args:
        model: The model to watch. Calls made outside its forward are ignored.
        consumer: Called with each ``AttentionCall``.
        change: Gets each call and returns a changed one. Its output replaces the real output in the
            model, and the consumer gets the changed call.
        with_factors: Also record the queries and keys whose product became the logits of explicit
            attention (``AttentionCall.factors``), as far as they can be followed.

    Attributes:
        unseen: Modules named for attention that made no visible call, if no other module made one
            either or if they use another library's attention. The model cannot be measured.
        passed_over: Other modules named for attention that made no call.
        callers: Names of the modules that made the calls of the last forward, in order.

    >>> from nearsight.models.load.registry import create_model
    >>> seen, model = [], create_model("mu").eval()
    >>> with AttentionCapture(model, lambda call: seen.append((call.name, call.sizes))):
    ...     logits = model(torch.zeros(3, 3, 32, 32))
    >>> seen
    [('blocks.0.attn', (3, 2, 65, 65)), ('blocks.1.attn', (3, 2, 65, 65))]
    """

    def __init__(
        self,
        model: nn.Module,
        consumer: Callable[[AttentionCall], None],
        change: Callable[[AttentionCall], AttentionCall] | None = None,
        with_factors: bool = False,
    ) -> None:
        super().__init__()
        self.model = model
        self.consumer = consumer
        self.change = change
        self.unseen: list[Place] = []
        self.passed_over: list[Place] = []
        self._tracking = SoftmaxTracking(with_factors)
        self._folded_heads = 0
        self._handles: list[Any] = []
        self._begin()

    def _begin(self) -> None:
        """Forget the previous forward."""
        self._path: list[tuple[Place, int]] = []  # with the number of calls made before it
        self._convolved: list[tuple[int, int]] = []
        self.callers: list[str] = []
        self.took_softmax = False  # whether a softmax over the last axis, as in attention, was seen
        self.unseen.clear()
        self._tracking.clear()

    def __enter__(self) -> AttentionCapture:
        if outer := getattr(_capturing, "model", None):
            raise UserError(
                f"the attention of {type(outer).__name__} is already being captured in this "
                f"thread, and a second capture, of {type(self.model).__name__}, would see what "
                "the first one computes; leave the first `with` block before you capture or "
                "measure again"
            )
        _capturing.model, self._thread = self.model, threading.get_ident()
        try:
            return self._watch()
        except BaseException:
            self._leave()
            raise

    def _watch(self) -> AttentionCapture:
        """Add the hooks and begin to see calls."""
        for name, module in self.model.named_modules():
            simple = type(module).__module__.startswith("torch.nn.") and not [*module.children()]
            if name == "" or not simple:
                enter, leave = self._hooks(name)
                self._handles += [
                    module.register_forward_pre_hook(enter, with_kwargs=True),
                    module.register_forward_hook(leave, always_call=True),
                ]
        self._foreign = watch_foreign(self.model, self._show, self._unwatched)
        self._foreign.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        try:
            super().__exit__(*error)
            self._foreign.__exit__(None, None, None)
        finally:
            self._leave()

    def _leave(self) -> None:
        """Remove the hooks, so that another capture may begin."""
        _capturing.model = None
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._tracking.clear()

    def _hooks(self, name: str) -> tuple[Callable, Callable]:
        """Return the hooks that run before and after the forward of the module of this name."""

        def enter(module: nn.Module, args: tuple, kwargs: dict) -> None:
            # Hooks run in every thread, but function modes see only their own thread.
            if threading.get_ident() != self._thread:
                return
            if not name:
                self._begin()
            place = Place(name, module, (*args, *kwargs.values()), tuple(kwargs))
            self._path.append((place, len(self.callers)))

        def leave(module: nn.Module, inputs: Any, output: Any) -> None:
            if not self._path or threading.get_ident() != self._thread:
                return
            place, num_before = self._path.pop()
            for callback in place.output_callbacks if output is not None else ():
                callback(output)
            made_no_call = len(self.callers) == num_before
            if made_no_call and NAMED_FOR_ATTENTION.search(type(module).__name__):
                self.unseen.append(place)
            if not self._path:
                self._end()

        return enter, leave

    def _end(self) -> None:
        """Sort the modules without a call into unseen and passed over, at the end of a forward."""
        left = [x for x in self.unseen if not self._covered(x.name)]
        hidden = [x for x in left if not self.callers or foreign_library(x.module)]
        self.unseen[:] = hidden
        self.passed_over[:] = [x for x in left if x not in hidden]

    def _covered(self, name: str) -> bool:
        """Return whether a module that contains this one made an attention call itself."""
        return any(name.startswith(f"{caller}.") for caller in self.callers if caller)

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.multi_head_attention_forward:
            return self._multi_head(*args, **kwargs)
        output = func(*args, **kwargs)
        if func is F.scaled_dot_product_attention:
            output = self._show(output, **_fused_arguments(*args, **kwargs))
        elif func in ATTENTION_FUNCTIONS:
            output = self._show(output, **ATTENTION_FUNCTIONS[func](*args, **kwargs))
        elif func is torch.conv2d:
            self._convolved.append((output.shape[-2], output.shape[-1]))
            self._tracking.follow(func, args, kwargs, output)  # it may mix the heads of weights
        elif func in PRODUCTS and (tracked := self._tracked(func, args, output)):
            shown = self._show(output.permute(tracked.order), **tracked.arguments)
            if self.change:  # otherwise the model keeps the very tensor it made
                output = shown.permute([tracked.order.index(x) for x in range(output.ndim)])
            self._tracking.clear()
        else:
            self._tracking.follow(func, args, kwargs, output)
            if func in SOFTMAXES:
                self._mark(SOFTMAX)
                self.took_softmax |= over_keys(func, args, kwargs)
            if func is F.grid_sample:
                self._mark(SAMPLED)
            if func in CUTS and (size := cut_grid(args[0], output)):
                self._convolved.append(size)
        return output

    def _tracked(self, func: Callable, args: tuple, output: Tensor) -> TrackedProduct | None:
        """Return weights and values if this product applies attention to values.

        Errors name the layer.
        """
        if mark := self._tracking.other_factor(func, args):
            self._mark(mark)
        try:
            return self._tracking.product(func, args, output)
        except UserError as error:
            if not self._path:
                raise
            place, _ = self._path[-1]
            kind = type(place.module).__name__
            raise UserError(
                f"layer {place.name or kind} ({kind}) cannot be measured: {error}"
            ) from None

    def _mark(self, mark: str) -> None:
        """Mark all modules that are active now."""
        for place, _ in self._path:
            place.marks.add(mark)

    @contextmanager
    def _unwatched(self) -> Iterator[None]:
        """Let the capture see no calls inside the ``with`` block."""
        super().__exit__(None, None, None)
        try:
            yield
        finally:
            super().__enter__()

    def _multi_head(self, *args: Any, **kwargs: Any) -> Any:
        """Run torch's multi-head attention with its inner calls visible.

        Torch's function folds the heads into the batch, so their number is kept for ``_show``.
        """
        given = inspect.signature(F.multi_head_attention_forward).bind(*args, **kwargs).arguments
        self._folded_heads = given["num_heads"]
        super().__enter__()
        try:
            return _open_multi_head(*args, **kwargs)
        finally:
            super().__exit__(None, None, None)
            self._folded_heads = 0

    def _show(self, output: Tensor, **arguments: Any) -> Tensor:
        """Report a call to the consumer and return the output for the model."""
        path = tuple(place for place, _ in self._path)
        if not path:  # attention outside the model
            return output
        number, repeat = len(self.callers), self.callers.count(path[-1].name)
        self.callers.append(path[-1].name)
        flat = output.ndim == 3  # heads are folded into the batch, or there is one head
        if flat:
            heads = (-1, self._folded_heads or 1)
            arguments = {
                key: x.unflatten(0, heads) if isinstance(x, Tensor) and x.ndim == 3 else x
                for key, x in arguments.items()
            }
        unflat = output.unflatten(0, heads) if flat else output
        with torch.no_grad():
            call = AttentionCall(
                path,
                tuple(self._convolved),
                output=unflat,
                number=number,
                repeat=repeat,
                **arguments,
            )
            # Torch switches a mode off while it handles a call, so a consumer may capture as well.
            with _not_capturing():
                shown = self.change(call) if self.change else call
                self.consumer(shown)
        if shown is call:
            return output
        return shown.output.flatten(0, 1) if flat else shown.output


@contextmanager
def _not_capturing() -> Iterator[None]:
    """Allow another capture in this thread inside the ``with`` block."""
    outer, _capturing.model = getattr(_capturing, "model", None), None
    try:
        yield
    finally:
        _capturing.model = outer


def causal_mask(queries: Tensor, keys: Tensor) -> Tensor:
    """Return the mask [query, key] with which queries attend only to their own and earlier keys."""
    size = (queries.shape[-2], keys.shape[-2])
    return torch.ones(size, dtype=torch.bool, device=queries.device).tril()


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
    """Translate arguments of ``scaled_dot_product_attention`` to those of an ``AttentionCall``."""
    if enable_gqa:
        key, value = (
            x.repeat_interleave(query.shape[-3] // x.shape[-3], dim=-3) for x in (key, value)
        )
    if is_causal:
        attn_mask = causal_mask(query, key)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    return {"queries": query, "keys": key, "values": value, "scale": scale, "mask": attn_mask}


# A copy of torch's function without the check that would hand the whole call to function modes, so
# that modes see the calls inside it.
_open_multi_head = types.FunctionType(
    F.multi_head_attention_forward.__code__,
    F.multi_head_attention_forward.__globals__ | {"has_torch_function": lambda _: False},
    argdefs=F.multi_head_attention_forward.__defaults__,
)
