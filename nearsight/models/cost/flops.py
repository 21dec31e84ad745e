"""What one image costs a model: parameters, multiply-accumulates, FLOPs.

Nothing is derived from an architecture: the model runs once, and a dispatch mode sees every
operation. On torch's meta device, where tensors have sizes but no numbers, this costs neither
memory nor time.

    paper's unit = multiply-accumulates + bias additions, PRR counted for all its tokens
    FLOPs        = 2 x multiply-accumulates + bias additions + element-wise work of GAug's kernel

Multiply-accumulates are those of linear maps, convolutions and products of matrices (attention's
two among them, and GPSA's two by position). Norms, softmax, activations, residuals and positions
are in neither number. The
first is the unit of LocAt's table 1 (arXiv 2603.04892); the second counts what is really computed:
of PRR only the rows that the head reads.
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

from nearsight.models.layers import Grid, SeparableBias
from nearsight.models.parts.gpsa import GPSA
from nearsight.models.parts.locat import Gaussian, Refine

COPIES = ("clone", "copy", "copy_")  # tagged as element-wise by torch, but no arithmetic
REDUCTIONS = ("mean", "sum", "linalg_vector_norm")
SOFTMAXES = ("_softmax", "_safe_softmax")


@dataclass(frozen=True)
class Cost:
    """The cost of one image; grid, queries and keys are those of the first attention."""

    image_size: tuple[int, int]
    num_parameters: int
    grid: Grid | None  # None: no attention, or not between patches that we know the places of
    num_prefix: int  # of the model; the first attention may be without them (ConViT)
    num_queries: int  # 0: no attention
    num_keys: int  # that each query sees: in windows fewer than there are tokens
    macs: int  # multiply-accumulates
    skipped_macs: int  # of PRR's rows that no head reads, which are not computed
    bias_additions: int
    kernel_operations: int  # element-wise, of GAug

    @property
    def paper_unit(self) -> int:
        return self.macs + self.skipped_macs + self.bias_additions

    @property
    def flops(self) -> int:
        return 2 * self.macs + self.bias_additions + self.kernel_operations


def model_cost(model: nn.Module, image_size: tuple[int, int]) -> Cost:
    """The cost of one image of this height and width, on the device that the model is on.

    >>> from nearsight.models.vit import SIZES, VisionTransformer
    >>> cost = model_cost(VisionTransformer(SIZES["mu_vit"], 100, (32, 32), 4), (32, 32))
    >>> str(cost.grid), cost.num_prefix, cost.num_parameters
    ('8x8', 1, 13282)
    """
    device = next((weight.device for weight in model.parameters()), torch.device("cpu"))
    images = torch.zeros(1, 3, *image_size, device=device)
    counter = _Counter()
    with _observed(model, counter), _in_operations(), counter:
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
        macs=counter.macs,
        skipped_macs=counter.full_refine_macs - counter.refine_macs,
        bias_additions=counter.bias_additions,
        kernel_operations=counter.kernel_operations,
    )


def _tokens(
    attention: tuple[int, ...], convolved: list[Grid], declared: int | None
) -> tuple[Grid | None, int]:
    """The grid and the prefix tokens that fit attention of this shape, if any do.

    ``convolved`` are the sizes that the convolutions before it gave, ``declared`` the prefix tokens
    that the model says it has, which may join the patches only later.
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
    """No gradient, and attention as the products and sums it is made of, not as one kernel."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


@contextmanager
def _observed(model: nn.Module, counter: _Counter) -> Iterator[None]:
    """The model in evaluation mode; the counter knows when a layer of LocAt or GPSA runs."""
    training = {module: module.training for module in model.modules()}
    handles = []
    for module in model.modules():
        if isinstance(module, Gaussian):
            handles.append(module.register_forward_pre_hook(counter.enter_kernel))
            handles.append(module.register_forward_hook(counter.leave_kernel))
        elif isinstance(module, Refine):
            handles.append(module.register_forward_pre_hook(counter.enter_refine))
            handles.append(module.register_forward_hook(counter.leave_refine))
        elif isinstance(module, GPSA):
            handles.append(module.register_forward_pre_hook(counter.enter_gpsa))
            handles.append(module.register_forward_hook(counter.leave_gpsa))
    try:
        model.eval()
        yield
    finally:
        for handle in handles:
            handle.remove()
        for module, mode in training.items():
            module.training = mode


class _Counter(TorchDispatchMode):
    """Adds up the arithmetic of every operation that torch carries out."""

    def __init__(self) -> None:
        super().__init__()
        self.macs = self.bias_additions = self.kernel_operations = 0
        self.refine_macs = self.full_refine_macs = 0
        self.attention: tuple[int, ...] = (0, 0)  # shape of the first, with its batch and heads
        self.convolved: list[Grid] = []  # sizes that the convolutions before it gave
        self._in_kernel = self._in_gpsa = False
        self._before_refine = 0
        self._product: tuple[int, ...] | None = None  # size of the product that was just made

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = operation(*args, **(kwargs or {}))
        name = operation.overloadpacket.__name__
        product, self._product = self._product, None
        if count := PRODUCTS.get(name):
            macs, additions = count(args, out)
            self.macs += macs
            self.bias_additions += additions
            self._product = out.shape if name in ("mm", "bmm") else None
            if name == "convolution" and out.ndim == 4 and not any(self.attention):
                self.convolved.append(Grid(*out.shape[-2:]))
        elif name == "_unsafe_view" and product is not None:
            self._product = out.shape
        elif name in ("add", "add_") and out.shape == product and _is_vector(args[1]):
            self.bias_additions += out.numel()  # a linear map in two steps
        elif name in SOFTMAXES:
            of_images = not self._in_gpsa or out.ndim == 4  # GPSA's by position have no batch
            if not any(self.attention) and args[1] in (-1, out.ndim - 1) and of_images:
                self.attention = tuple(out.shape)
        elif self._in_kernel:
            self.kernel_operations += _elementwise(operation, name, args, out)
        return out

    def enter_kernel(self, *_: Any) -> None:
        self._in_kernel = True

    def leave_kernel(self, module: nn.Module, args: Any, bias: Any) -> None:
        """After the factors come their product, one per pair of patches, and its addition."""
        self._in_kernel = False
        if isinstance(bias, SeparableBias):
            self.kernel_operations += 2 * bias.rows.numel() * bias.cols.shape[-1]
        else:
            self.kernel_operations += bias.numel()

    def enter_refine(self, *_: Any) -> None:
        self._before_refine = self.macs

    def leave_refine(self, module: nn.Module, args: tuple[Tensor], out: Any) -> None:
        (x,) = args
        num_tokens = x.shape[1:-1].numel()
        self.refine_macs += self.macs - self._before_refine
        self.full_refine_macs += 2 * len(x) * num_tokens**2 * x.shape[-1]

    def enter_gpsa(self, *_: Any) -> None:
        self._in_gpsa = True

    def leave_gpsa(self, *_: Any) -> None:
        self._in_gpsa = False


def _is_vector(x: Any) -> bool:
    """A number per output, lying or standing."""
    return isinstance(x, Tensor) and (x.ndim == 1 or (x.ndim == 2 and x.shape[1] == 1))


def _elementwise(operation: Any, name: str, args: Any, out: Any) -> int:
    """One per number that an element-wise operation makes, or that a reduction takes in."""
    if not isinstance(out, Tensor) or not out.is_floating_point():
        return 0
    if torch.Tag.pointwise in operation.tags:
        return 0 if name in COPIES else out.numel()
    return args[0].numel() if name in REDUCTIONS else 0


def _matrix_product(args: Any, out: Tensor) -> tuple[int, int]:
    return out.numel() * args[0].shape[-1], 0


def _biased_product(args: Any, out: Tensor) -> tuple[int, int]:
    """``addmm(bias, a, b)``: a vector is the bias of a linear map, anything else is not."""
    return out.numel() * args[1].shape[-1], out.numel() if _is_vector(args[0]) else 0


def _convolution(args: Any, out: Tensor) -> tuple[int, int]:
    given, weight, bias, transposed = args[0], args[1], args[2], args[6]
    places = given if transposed else out  # the kernel is laid on each of these
    macs = places.numel() * weight.shape[1:].numel()
    return macs, 0 if bias is None else out.numel()


# What an operation costs: multiply-accumulates and bias additions.
PRODUCTS: dict[str, Callable[[Any, Tensor], tuple[int, int]]] = {
    "mm": _matrix_product,
    "bmm": _matrix_product,
    "addmm": _biased_product,
    "baddbmm": _biased_product,
    "convolution": _convolution,
}
