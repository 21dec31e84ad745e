"""Count what one image costs a model: parameters, multiply-accumulates and FLOPs.

No formula of an architecture is used. The model runs once, and a dispatch mode counts every
operation. On torch's meta device, where tensors have sizes but no numbers, this needs hardly any
memory or time.

    paper's unit = multiply-accumulates, skipped ones too, + bias additions
    FLOPs        = 2 x multiply-accumulates + bias additions + element-wise work of parts

Multiply-accumulates are those of linear maps, convolutions and matrix products (including the two
of attention). Norms, softmax, activations, residuals and positions are in neither number. The first
number is in the unit of table 1 in arXiv 2603.04892; the second counts what is really computed. If
operations in a part must be counted differently, the part declares this (``Part.costs``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.hooks import RemovableHandle

from nearsight.models.layers import Grid
from nearsight.models.parts import PARTS, CostCounts, CostHook

COPIES = ("clone", "copy", "copy_")  # torch tags these as element-wise, but they compute nothing
REDUCTIONS = ("mean", "sum", "linalg_vector_norm")
SOFTMAXES = ("_softmax", "_safe_softmax")


@dataclass(frozen=True)
class Cost:
    """The cost of one image. Grid, queries and keys are those of the first attention layer."""

    image_size: tuple[int, int]
    num_parameters: int
    grid: Grid | None  # None: no attention, or not between patches whose positions are known
    num_prefix: int  # prefix tokens of the model, which the first attention may not include
    num_queries: int  # 0: no attention
    num_keys: int  # keys per query; fewer than there are tokens if attention is in windows
    macs: int  # multiply-accumulates
    skipped_macs: int  # multiply-accumulates that a part saves, because nothing reads their result
    bias_additions: int
    kernel_operations: int  # element-wise operations of parts

    @property
    def paper_unit(self) -> int:
        """The cost in the unit of LocAt's table 1."""
        return self.macs + self.skipped_macs + self.bias_additions

    @property
    def flops(self) -> int:
        """All floating-point operations; a multiplication and an addition count as two."""
        return 2 * self.macs + self.bias_additions + self.kernel_operations


def model_cost(model: nn.Module, image_size: tuple[int, int]) -> Cost:
    """Count the cost of one image of this height and width, on the device of the model.

    >>> from nearsight.models.vit import SIZES, VisionTransformer
    >>> cost = model_cost(VisionTransformer(SIZES["mu_vit"], 100, (32, 32), 4), (32, 32))
    >>> str(cost.grid), cost.num_prefix, cost.num_parameters
    ('8x8', 1, 13282)
    """
    device = next((weight.device for weight in model.parameters()), torch.device("cpu"))
    images = torch.zeros(1, 3, *image_size, device=device)
    counter = _Counter()
    with _observe(model, counter), _in_operations(), counter:
        model(images)
    names = ("num_prefix", "num_prefix_tokens")
    declared = next((x for x in (getattr(model, name, None) for name in names) if x), None)
    grid, num_prefix = _tokens(counter.attention, counter.convolved, declared)
    return Cost(
        image_size=image_size,
        num_parameters=sum(weight.numel() for weight in model.parameters()),
        grid=grid,
        num_prefix=num_prefix,
        num_queries=counter.attention[-2],
        num_keys=counter.attention[-1],
        macs=counter.counts.macs,
        skipped_macs=counter.counts.skipped_macs,
        bias_additions=counter.counts.bias_additions,
        kernel_operations=counter.counts.kernel_operations,
    )


def _tokens(
    attention: tuple[int, ...], convolved: list[Grid], declared: int | None
) -> tuple[Grid | None, int]:
    """Return the grid and the number of prefix tokens that fit attention of this shape, if any do.

    Args:
        attention: Shape of the attention weights of the first layer.
        convolved: Output sizes of the convolutions before it.
        declared: Number of prefix tokens that the model declares. They may be added to the patches
            only in a later layer.
    """
    *leading, queries, keys = attention
    if queries != keys:
        return None, 0
    for grid in reversed(convolved):
        left = keys - grid.num_patches
        if left in (0, declared or 1) or (declared is None and len(convolved) == 1 and left > 0):
            return grid, left or declared or 0
        if any(num * keys == grid.num_patches for num in leading):  # windows
            return grid, 0
    return None, 0


@contextmanager
def _in_operations() -> Iterator[None]:
    """Compute attention by products and sums instead of one kernel, without gradients."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


@contextmanager
def _observe(model: nn.Module, counter: _Counter) -> Iterator[None]:
    """Put the model in evaluation mode, and call the cost hooks of its parts when modules run."""
    training = {module: module.training for module in model.modules()}
    handles = []
    kinds = [each for part in PARTS.values() for each in part.costs.items()]
    for module in model.modules():
        for kind, hook in kinds:
            if isinstance(module, kind):
                handles += counter.attach(hook(), module)
    try:
        model.eval()
        yield
    finally:
        for handle in handles:
            handle.remove()
        for module, mode in training.items():
            module.training = mode


class _Counter(TorchDispatchMode):
    """Add up the arithmetic of every operation that torch executes."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = CostCounts()
        self.attention: tuple[int, ...] = (0, 0)  # shape of the first attention's weights
        self.convolved: list[Grid] = []  # output sizes of the convolutions before it
        self._product: tuple[int, ...] | None = None  # shape of the product just computed, if any

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = operation(*args, **(kwargs or {}))
        name = operation.overloadpacket.__name__
        product, self._product = self._product, None
        if count := PRODUCTS.get(name):
            macs, additions = count(args, out)
            self.counts.macs += macs
            self.counts.bias_additions += additions
            self._product = out.shape if name in ("mm", "bmm") else None
            if name == "convolution" and out.ndim == 4 and not any(self.attention):
                self.convolved.append(Grid(*out.shape[-2:]))
        elif name == "_unsafe_view" and product is not None:
            self._product = out.shape
        elif name in ("add", "add_") and out.shape == product and _is_vector(args[1]):
            self.counts.bias_additions += out.numel()  # a linear map in two steps
        elif name in SOFTMAXES:
            is_attention = self.counts.attention_dims in (None, out.ndim)
            if not any(self.attention) and args[1] in (-1, out.ndim - 1) and is_attention:
                self.attention = tuple(out.shape)
        elif self.counts.elementwise:
            self.counts.kernel_operations += _elementwise(operation, name, args, out)
        return out

    def attach(self, hook: CostHook, module: nn.Module) -> list[RemovableHandle]:
        """Let ``hook`` follow every forward of ``module``."""

        def enter(module: nn.Module, args: Any) -> None:
            hook.enter(self.counts)

        def leave(module: nn.Module, args: Any, output: Any) -> None:
            hook.leave(self.counts, args, output)

        return [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]


def _is_vector(x: Any) -> bool:
    """Return whether this is a vector, or a matrix with a single column."""
    return isinstance(x, Tensor) and (x.ndim == 1 or (x.ndim == 2 and x.shape[1] == 1))


def _elementwise(operation: Any, name: str, args: Any, out: Any) -> int:
    """Count one operation per number that is computed element-wise or read by a reduction."""
    if not isinstance(out, Tensor) or not out.is_floating_point():
        return 0
    if torch.Tag.pointwise in operation.tags:
        return 0 if name in COPIES else out.numel()
    return args[0].numel() if name in REDUCTIONS else 0


def _matrix_product(args: Any, out: Tensor) -> tuple[int, int]:
    """Count a product of matrices."""
    return out.numel() * args[0].shape[-1], 0


def _biased_product(args: Any, out: Tensor) -> tuple[int, int]:
    """Count ``addmm(bias, a, b)``; only a vector is the bias of a linear map."""
    return out.numel() * args[1].shape[-1], out.numel() if _is_vector(args[0]) else 0


def _convolution(args: Any, out: Tensor) -> tuple[int, int]:
    """Count a convolution, which may be transposed."""
    given, weight, bias, transposed = args[0], args[1], args[2], args[6]
    places = given if transposed else out  # the kernel is applied at each of these
    macs = places.numel() * weight.shape[1:].numel()
    return macs, 0 if bias is None else out.numel()


# For each operation, a function that counts its multiply-accumulates and bias additions.
PRODUCTS: dict[str, Callable[[Any, Tensor], tuple[int, int]]] = {
    "mm": _matrix_product,
    "bmm": _matrix_product,
    "addmm": _biased_product,
    "baddbmm": _biased_product,
    "convolution": _convolution,
}
