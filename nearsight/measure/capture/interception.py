"""See every attention call inside a model without editing it.

A torch function mode sits between a model and torch. It passes every call on untouched and watches
for attention in its two forms: fused (``scaled_dot_product_attention``, what our layers enter into
``ATTENTION_FUNCTIONS``, and kernels of other libraries, see ``foreign.py``), whose queries, keys,
mask, scale and mixture it shows to a consumer, and explicit (a softmax whose rows are later
multiplied with values), whose weights it shows. Hooks tell which module a call came from, nothing
else. Nothing is kept after a call. This is the one interception point for every family of models.
Where asked to, it also hands the model a changed output in place of a call's own
(``intervention.py``).
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
from nearsight.measure.capture.foreign import foreign_library, showing_foreign
from nearsight.measure.capture.tracking import (
    PRODUCTS,
    SOFTMAXES,
    Factors,
    SoftmaxTracking,
    TrackedProduct,
)
from nearsight.models.layers import ATTENTION_FUNCTIONS, Mixture

# Words in a class's name, not just any "att": FlattenTokens and ScatterHead are no attention.
NAMED_FOR_ATTENTION = re.compile(r"(?i:attn|attention|attend)|Att(?![a-z])")
SOFTMAX = "a softmax was taken"


@dataclass(frozen=True)
class Place:
    """A module on the way from the model down to an attention call, and what its forward got."""

    name: str
    module: nn.Module
    inputs: tuple[Any, ...]  # positional ones first, then those of ``keywords``
    keywords: tuple[str, ...] = ()
    told: list[Callable[[Any], None]] = field(default_factory=list)  # called with its output
    marks: set[str] = field(default_factory=set)  # what was seen inside, for reasons of refusals


@dataclass(frozen=True)
class AttentionCall:
    """One call of attention, fused (queries to mask) or explicit (``weights_made``).

    Tensors are as the call had them: queries, keys, values and output [..., token, width], the mask
    as torch takes it, the weights [..., query, key] with rows that sum to one.
    """

    path: tuple[Place, ...]  # the model first, the module that made the call last
    convolved: tuple[tuple[int, int], ...]  # sizes of all convolution outputs and cuts before it
    values: Tensor
    output: Tensor
    queries: Tensor | None = None
    keys: Tensor | None = None
    scale: float = 1.0
    mask: Tensor | None = None
    mixture: Mixture | None = None  # attention that a layer mixes with the softmax
    weights_made: Tensor | None = None
    multiplied: Tensor | None = None  # what met the values, where that is not weights_made
    factors: tuple[Factors, ...] = ()  # of the logits of explicit attention, where asked for
    number: int = 0  # of the call in its forward
    repeat: int = 0  # number of calls that the same module made before in this forward

    @property
    def name(self) -> str:
        """The module's name; second and later calls of one module are counted in brackets."""
        name = self.path[-1].name or type(self.path[-1].module).__name__
        return f"{name}[{self.repeat}]" if self.repeat else name

    @property
    def sizes(self) -> tuple[int, ...]:
        """The attention's [..., query, key]."""
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
    """Return rows and columns of patches where images are cut by a reshape, as einops does.

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
    """Shows every attention call that ``model`` makes inside the ``with`` block to ``consumer``.

    With ``change``, the model and ``consumer`` get what that makes of a call in the call's place.
    With ``with_factors``, calls of explicit attention also have the queries and keys whose product
    their softmax was taken of, as far as they could be followed.

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
        self.unseen: list[Place] = []  # modules named for attention that ran without a call
        self.passed_over: list[Place] = []  # those of a forward in which other modules made calls
        self._tracking = SoftmaxTracking(with_factors)
        self._folded_heads = 0
        self._handles: list[Any] = []
        self._begin()

    def _begin(self) -> None:
        """Forget the forward before."""
        self._path: list[tuple[Place, int]] = []  # with the number of calls at its entry
        self._convolved: list[tuple[int, int]] = []
        self.callers: list[str] = []  # modules that made a call in this forward
        self.unseen.clear()
        self._tracking.clear()

    def __enter__(self) -> AttentionCapture:
        if outer := getattr(_capturing, "model", None):
            raise UserError(
                f"The attention of {type(outer).__name__} is being captured in this thread. A "
                f"second capture, of {type(self.model).__name__}, would see what the first one "
                "computes: leave the first `with` block before you capture or measure again."
            )
        _capturing.model, self._thread = self.model, threading.get_ident()
        try:
            return self._watch()
        except BaseException:
            self._leave()
            raise

    def _watch(self) -> AttentionCapture:
        for name, module in self.model.named_modules():
            simple = type(module).__module__.startswith("torch.nn.") and not [*module.children()]
            if name == "" or not simple:
                enter, leave = self._hooks(name)
                self._handles += [
                    module.register_forward_pre_hook(enter, with_kwargs=True),
                    module.register_forward_hook(leave, always_call=True),
                ]
        self._foreign = showing_foreign(self.model, self._show, self._unwatched)
        self._foreign.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        try:
            super().__exit__(*error)
            self._foreign.__exit__(None, None, None)
        finally:
            self._leave()

    def _leave(self) -> None:
        """Take the hooks away, so that another capture may begin."""
        _capturing.model = None
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._tracking.clear()

    def _hooks(self, name: str) -> tuple[Callable, Callable]:
        def enter(module: nn.Module, args: tuple, kwargs: dict) -> None:
            if (
                threading.get_ident() != self._thread
            ):  # hooks see every thread, modes only their own
                return
            if not name:
                self._begin()
            place = Place(name, module, (*args, *kwargs.values()), tuple(kwargs))
            self._path.append((place, len(self.callers)))

        def leave(module: nn.Module, inputs: Any, output: Any) -> None:
            if not self._path or threading.get_ident() != self._thread:
                return
            place, num_before = self._path.pop()
            for tell in place.told if output is not None else ():
                tell(output)
            quiet = len(self.callers) == num_before
            if quiet and NAMED_FOR_ATTENTION.search(type(module).__name__):
                self.unseen.append(place)
            if not self._path:
                self._end()

        return enter, leave

    def _end(self) -> None:
        """Sort the modules in which nothing was seen, at the end of a forward."""
        left = [x for x in self.unseen if not self._covered(x.name)]
        hidden = [x for x in left if not self.callers or foreign_library(x.module)]
        self.unseen[:] = hidden
        self.passed_over[:] = [x for x in left if x not in hidden]

    def _covered(self, name: str) -> bool:
        """Whether a module above this one made an attention call itself."""
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
        elif func in PRODUCTS and (found := self._tracked(func, args, output)):
            shown = self._show(output.permute(found.order), **found.arguments)
            if self.change:  # otherwise the model keeps the very tensor it made
                output = shown.permute([found.order.index(x) for x in range(output.ndim)])
            self._tracking.clear()
        else:
            self._tracking.follow(func, args, kwargs, output)
            if func in SOFTMAXES:
                self._mark(SOFTMAX)
            if func in CUTS and (size := cut_grid(args[0], output)):
                self._convolved.append(size)
        return output

    def _tracked(self, func: Callable, args: tuple, output: Tensor) -> TrackedProduct | None:
        """What a product of attention and values is made of; a UserError names the layer."""
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
        for place, _ in self._path:
            place.marks.add(mark)

    @contextmanager
    def _unwatched(self) -> Iterator[None]:
        """A block in which the capture sees nothing."""
        super().__exit__(None, None, None)
        try:
            yield
        finally:
            super().__enter__()

    def _multi_head(self, *args: Any, **kwargs: Any) -> Any:
        """torch's multi-head attention, its inside in view; it may fold heads into the batch."""
        given = inspect.signature(F.multi_head_attention_forward).bind(*args, **kwargs).arguments
        self._folded_heads = given["num_heads"]
        super().__enter__()
        try:
            return _open_multi_head(*args, **kwargs)
        finally:
            super().__exit__(None, None, None)
            self._folded_heads = 0

    def _show(self, output: Tensor, **arguments: Any) -> Tensor:
        """Show a call; the output that the model gets."""
        path = tuple(place for place, _ in self._path)
        if not path:  # attention outside the model
            return output
        number, repeat = len(self.callers), self.callers.count(path[-1].name)
        self.callers.append(path[-1].name)
        flat = output.ndim == 3  # heads are folded into the batch, or there is only one
        if flat:
            heads = (-1, self._folded_heads or 1)
            arguments = {
                key: x.unflatten(0, heads) if isinstance(x, Tensor) and x.ndim == 3 else x
                for key, x in arguments.items()
            }
        seen = output.unflatten(0, heads) if flat else output
        with torch.no_grad():
            call = AttentionCall(
                path,
                tuple(self._convolved),
                output=seen,
                number=number,
                repeat=repeat,
                **arguments,
            )
            with _not_capturing():  # torch switches the mode off meanwhile: a consumer may capture
                shown = self.change(call) if self.change else call
                self.consumer(shown)
        if shown is call:
            return output
        return shown.output.flatten(0, 1) if flat else shown.output


@contextmanager
def _not_capturing() -> Iterator[None]:
    outer, _capturing.model = getattr(_capturing, "model", None), None
    try:
        yield
    finally:
        _capturing.model = outer


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
        key, value = (
            x.repeat_interleave(query.shape[-3] // x.shape[-3], dim=-3) for x in (key, value)
        )
    if is_causal:
        size = (query.shape[-2], key.shape[-2])
        attn_mask = torch.ones(size, dtype=torch.bool, device=query.device).tril()
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    return {"queries": query, "keys": key, "values": value, "scale": scale, "mask": attn_mask}


# torch's own function, past the check that hands it to function modes whole: modes see its inside.
_open_multi_head = types.FunctionType(
    F.multi_head_attention_forward.__code__,
    F.multi_head_attention_forward.__globals__ | {"has_torch_function": lambda _: False},
    argdefs=F.multi_head_attention_forward.__defaults__,
)
