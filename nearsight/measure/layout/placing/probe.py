"""Measure which pixels the tokens of every attention call of a model depend on.

The output of every attention call is replaced by zeros, so that a token depends only on the pixels
that reach it through patch embedding, convolutions, norms and MLPs. Let c be a coordinate of the
pixels (row or column), v small noise on an image, and J v and J (c v) the responses of a token to
the noise and to the noise multiplied by c (central differences in float64). Sum (J v)(J (c v)) over
features and draws, and divide by the sum of (J v)^2. The result is the mean coordinate of the
pixels that the token depends on, weighted by its squared sensitivity to each. Every draw has its
own image.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from nearsight.measure.capture import AttentionCall, AttentionCapture, Place, eager
from nearsight.measure.layout.placing.grids import (
    Sampling,
    adaptive_sampling,
    kernel_sampling,
)

STEP = {torch.float64: 1e-5, torch.float32: 1e-2}  # size of the noise on images of deviation 1
QUIET = {torch.float64: 1e-12, torch.float32: 1e-7}  # smaller shares of the largest response are 0
FORWARDS_PER_DRAW = 6  # with +v, -v, +yv, -yv, +xv and -xv; y and x are the pixels' coordinates
OUR_HOOKS = ("nearsight.measure.", "nearsight.evaluate.")  # rooms that hook a model while measuring
SEED = 20_000
POOLS = ("max_pool2d", "avg_pool2d")
OFF_CENTRE = 0.1  # factor for all weights of a kernel but the one in its middle
ADAPTIVE_POOLS = ("adaptive_avg_pool2d", "adaptive_max_pool2d")


@dataclass
class Moments:
    """Responses of one tensor of a call, summed over features: [5, ..., token] for every draw.

    The five are (J v)^2, (J v)(J y v), (J v)(J x v), (J y v)^2 and (J x v)^2. The coordinates y and
    x are counted from the middle of the image, in half image sides. ``turned`` holds the same with
    features and tokens exchanged.
    """

    draws: list[Tensor] = field(default_factory=list)
    turned: list[Tensor] = field(default_factory=list)

    def add(self, plain: Tensor, rows: Tensor, cols: Tensor) -> None:
        """Add a draw.

        Args:
            plain: Responses to noise.
            rows: Responses to the noise multiplied by the row of each pixel.
            cols: Responses to the noise multiplied by the column of each pixel.
        """
        products = (plain * plain, plain * rows, plain * cols, rows * rows, cols * cols)
        self.draws.append(torch.stack([x.sum(-1) for x in products]))
        self.turned.append(torch.stack([x.sum(-2) for x in products]))


@dataclass
class ProbedCall:
    """One attention call of the model for one image, and the moments of its tensors so far."""

    name: str
    kind: str
    sizes: tuple[int, ...]  # [..., query, key] for one image
    num_tokens: dict[str, int] = field(default_factory=dict)
    samplings: tuple[Sampling, ...] = ()
    moments: dict[str, Moments] = field(default_factory=dict)  # values, queries.0, keys.0, ...


Record = dict[str, Tensor]  # tensors of one call in one forward


class Probe:
    """A float64 copy of a model that runs on noise, with zeros for attention outputs.

    Args:
        place: The model and the inputs of its forward, as a capture saw them.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self.image_at = next(
            i for i, x in enumerate(place.inputs) if isinstance(x, Tensor) and x.ndim == 4
        )
        image = place.inputs[self.image_at]
        self.channels, *size = image.shape[1:]
        self.size: tuple[int, int] = size[0], size[1]
        self._batch = len(image)
        self._device = image.device if image.device.type != "mps" else torch.device("cpu")
        self.dtype = torch.float64
        self.model = copy_model(place.module).to(self._device, self.dtype).eval()
        sharpen(self.model)
        self.calls: list[ProbedCall] = []
        self.num_forwards = 0
        self.through: dict[int, Tensor] = {}  # number of a call -> nearest key of every query
        self._capture = SamplingCapture(self.model, self._see, self._silence, with_factors=True)
        self._entered = contextlib.ExitStack()
        self._records: list[Record] = []
        self._seen: list[ProbedCall] = []
        self._silent = True

    def widen(self) -> None:
        """Continue in float32: some models create float32 inside and cannot run in float64."""
        self.dtype = torch.float32
        self.model = self.model.float()

    def image(self, seed: int, num: int = 1) -> Tensor:
        """Return random images of deviation 1."""
        generator = torch.Generator().manual_seed(SEED + seed)
        sizes = (num, self.channels, *self.size)
        drawn = torch.randn(sizes, generator=generator, dtype=torch.float64)
        return drawn.to(self._device, self.dtype)

    def run(self, images: Tensor, silent: bool = True) -> tuple[list[Record], list[ProbedCall]]:
        """Run a forward and return the tensors and the sizes of all its attention calls.

        Args:
            images: The images.
            silent: Whether attention outputs are replaced by zeros.
        """
        self._records, self._seen, self._silent = [], [], silent
        inputs = self._place.inputs
        arguments = [self._for_batch(x, len(images)) for x in inputs]
        arguments[self.image_at] = images
        args = arguments[: len(arguments) - len(self._place.keywords)]
        self.model(*args, **dict(zip(self._place.keywords, arguments[len(args) :])))
        self.num_forwards += len(images)
        return self._records, self._seen

    def __enter__(self) -> Probe:
        self._entered.enter_context(torch.no_grad())
        self._entered.enter_context(torch.random.fork_rng())
        torch.seed()  # so that tokens dropped at random make two forwards differ
        self._entered.enter_context(eager())
        self._entered.enter_context(self._capture)
        return self

    def __exit__(self, *error: object) -> None:
        self._entered.close()

    def _for_batch(self, value: Any, num_images: int) -> Any:
        """Return one of the model's other inputs, made to fit this number of images."""
        if not isinstance(value, Tensor):
            return value
        if value.ndim and len(value) == self._batch:
            value = value[:1].expand(num_images, *value.shape[1:])
        return value.to(self.dtype) if value.is_floating_point() else value

    def _see(self, call: AttentionCall) -> None:
        """Record a call of this forward."""
        self._records.append(_record(call))
        kind, samplings = (
            type(call.path[-1].module).__name__,
            dict.fromkeys(self._capture.samplings),
        )
        self._seen.append(ProbedCall(call.name, kind, call.sizes, samplings=tuple(samplings)))

    def _silence(self, call: AttentionCall) -> AttentionCall:
        """Replace a call's output with zeros, or with the value of the nearest key."""
        if not self._silent:
            return call
        nearest = self.through.get(call.number)
        if nearest is None:
            return replace(call, output=torch.zeros_like(call.output))
        leading = call.output.shape[:-2]
        values = call.values.expand(*leading, *call.values.shape[-2:])
        index = nearest.expand(*leading, nearest.shape[-1])
        index = index[..., None].expand(*index.shape, values.shape[-1])
        return replace(call, output=values.gather(-2, index))

    def draw(self, number: int) -> None:
        """Add the responses to one draw of noise on one image to the moments of every call."""
        image = self.image(3 * number)
        noise = self.image(3 * number + 1).sign()
        step = STEP[self.dtype]
        responses_by_scale = []
        for scale in (None, *_half_sides(self.size, image)):
            moved = noise * step if scale is None else noise * step * scale
            plus, calls = self.run(image + moved)
            minus, others = self.run(image - moved)
            if [x.sizes for x in calls] != [x.sizes for x in others]:
                raise Unstable("the number of its tokens changes from one forward to the next")
            responses_by_scale.append([_difference(a, b, 2 * step) for a, b in zip(plus, minus)])
            if not self.calls:
                self.calls = calls
            elif [x.sizes for x in self.calls] != [x.sizes for x in calls]:
                raise Unstable("the number of its tokens depends on the image")
        for call, *responses in zip(self.calls, *responses_by_scale):
            for name, plain in responses[0].items():
                call.num_tokens[name] = plain.shape[-2]
                moments = call.moments.setdefault(name, Moments())
                moments.add(plain, responses[1][name], responses[2][name])

    def is_random(self) -> bool:
        """Return whether two forwards of the same image differ."""
        first, second = (self.run(self.image(1))[0] for _ in range(2))
        return any(
            a[name].shape != b[name].shape or not torch.equal(a[name], b[name])
            for a, b in zip(first, second)
            for name in a
            if name in b
        )


def sharpen(model: nn.Module) -> None:
    """Reduce all weights but the middle one in kernels that keep the size of a map.

    Such a convolution keeps every cell where it is, whatever its weights. But it blurs what the
    cell depends on and, with random weights, moves its centre. The larger the middle weight is
    beside the others, the clearer are the positions. Kernels with a stride stay unchanged, because
    they decide where coarser cells are.
    """
    seen = set[int]()
    for module in model.modules():
        if not isinstance(module, nn.Conv2d) or not _keeps_size(module):
            continue
        weight = module._parameters.get("weight")  # None if it is computed in every forward
        if weight is None or id(weight) in seen:
            continue
        seen.add(id(weight))
        factors = torch.full(weight.shape[-2:], OFF_CENTRE).to(weight)
        factors[weight.shape[-2] // 2, weight.shape[-1] // 2] = 1.0
        weight.data.mul_(factors)


def _keeps_size(conv: nn.Conv2d) -> bool:
    """Return whether a convolution keeps the size of a map and centres its kernel on each cell."""
    sides = list(zip(conv.kernel_size, conv.stride, conv.dilation))
    if not all(k % 2 == 1 and s == 1 for k, s, _ in sides) or max(conv.kernel_size) == 1:
        return False
    padding = conv.padding
    return padding == "same" or [*padding] == [d * (k - 1) // 2 for k, _, d in sides]


class Unstable(Exception):
    """Raised if two forwards of a model cannot be compared; the message says why."""


class SamplingCapture(AttentionCapture):
    """A capture that also records convolutions and poolings of maps."""

    samplings: list[Sampling]

    def _begin(self) -> None:
        super()._begin()
        self.samplings = []

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        output = super().__torch_function__(func, types, args, kwargs)
        if isinstance(output, Tensor) and output.ndim == 4:
            sampling = _sampling(func, args, kwargs or {}, output)
            self.samplings += [sampling] if sampling else []
        return output


def _sampling(func: Callable, args: tuple, kwargs: dict, output: Tensor) -> Sampling | None:
    """Return the sampling of a call of a torch function; None if it does not convolve or pool."""
    name = getattr(func, "__name__", "").removeprefix("_")
    convolution = func is torch.conv2d
    if not (convolution or name in POOLS or name in ADAPTIVE_POOLS):
        return None
    before = _pair((args[0] if args else kwargs["input"]).shape[-2:])
    after = _pair(output.shape[-2:])
    if name in ADAPTIVE_POOLS:
        return adaptive_sampling(before, after)
    names = ["input", "kernel_size", "stride", "padding", "dilation"]
    if convolution:
        names = ["input", "weight", "bias", "stride", "padding", "dilation"]
    arguments = dict(zip(names, args)) | kwargs
    kernel = _pair(arguments["weight"].shape[-2:] if convolution else arguments["kernel_size"])
    stride = _pair(arguments.get("stride") or ((1, 1) if convolution else kernel))
    dilation = _pair(arguments.get("dilation", 1) if name != "avg_pool2d" else 1)
    padding = arguments.get("padding", 0)
    if isinstance(padding, str):
        padding = [d * (k - 1) // 2 if padding == "same" else 0 for d, k in zip(dilation, kernel)]
    return kernel_sampling(before, after, kernel, stride, _pair(padding), dilation)


def _pair(value: int | Sequence[int]) -> tuple[int, int]:
    """Return a size given as one number or as two as two numbers."""
    if isinstance(value, int):
        return value, value
    return (value[0], value[-1])


def _record(call: AttentionCall) -> Record:
    """Return copies of the tensors of a call."""
    tensors = {"values": call.values}
    pairs = [(call.queries, call.keys)] if call.queries is not None else []
    pairs += [(each.queries, each.keys) for each in call.factors]
    for number, (queries, keys) in enumerate(pairs):
        assert queries is not None
        assert keys is not None
        tensors |= {f"queries.{number}": queries, f"keys.{number}": keys}
    if not pairs and call.weights_made is not None:
        tensors["weights"] = call.weights_made
    leading = call.sizes[:-2]
    return {
        name: x.detach().reshape(*leading, *x.shape[-2:]).clone()
        if math.prod(x.shape[:-2]) == math.prod(leading)
        else x.detach().clone()
        for name, x in tensors.items()
    }


def _difference(plus: Record, minus: Record, step: float) -> Record:
    """Return the difference of two forwards, divided by the step between their images."""
    return {name: ((x - minus[name]) / step).double() for name, x in plus.items() if name in minus}


def _half_sides(size: tuple[int, int], like: Tensor) -> Iterator[Tensor]:
    """Yield the row and then the column of each pixel, from -1 at one edge to 1 at the other."""
    for axis, length in enumerate(size):
        ramp = (torch.arange(length, dtype=torch.float64) + 0.5) * 2 / length - 1
        yield ramp.to(like).view((-1, 1) if axis == 0 else (1, -1))


def copy_model(model: nn.Module) -> nn.Module:
    """Copy a model without our hooks; it may be in the middle of a forward that is measured."""
    values = (value for module in model.modules() for value in vars(module).values())
    graphs = [tensor for value in values for tensor in _tensors_of_graphs(value)]
    clone = copy.deepcopy(model, {id(tensor): tensor.detach() for tensor in graphs})
    for module in clone.modules():
        for hooks in (module._forward_hooks, module._forward_pre_hooks):
            for key, hook in list(hooks.items()):
                if str(getattr(hook, "__module__", "")).startswith(OUR_HOOKS):
                    del hooks[key]
                    for flags in (
                        module._forward_hooks_with_kwargs,
                        module._forward_hooks_always_called,
                        module._forward_pre_hooks_with_kwargs,
                    ):
                        flags.pop(key, None)
    return clone.requires_grad_(False)


def _tensors_of_graphs(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in a value that belong to a graph of gradients, which cannot be copied.

    Models keep such tensors between forwards, alone or in a cache (LeViT's biases by device).
    """
    if isinstance(value, Tensor):
        if not value.is_leaf:
            yield value
    elif isinstance(value, dict):
        yield from (x for each in value.values() for x in _tensors_of_graphs(each))
    elif isinstance(value, (list, tuple)):
        yield from (x for each in value for x in _tensors_of_graphs(each))
