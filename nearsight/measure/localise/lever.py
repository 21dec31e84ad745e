"""Make attention local by a fixed term on the logits of a model, without training it again.

Attention becomes softmax(q k^T / sqrt(head width) + bias), with bias = -d^2 / (2 width^2) between
patches at a distance of d patches, and 0 for prefix tokens. The attention of prefix tokens does not
change.

Prior art, all for CLIP and all in its last layer: MaskCLIP (Zhou et al. 2022) lets a patch attend
only to itself, SCLIP (Wang et al. 2024) to patches with similar queries or keys, ClearCLIP (Lan et
al. 2024) also drops the residual stream, and NACLIP (Hajimiri et al. 2025, arXiv 2404.08181) adds a
Gaussian to the logits. What is new here: any model in which the positions of the tokens can be
found, any layers, and a search on training images with controls and paired intervals (``nearsight
localise``).

Implementation: the attention module of each chosen layer gets a child module ``locality``, which
holds the bias in buffers that are not part of the state dict, and a new ``forward`` that runs the
old one inside a torch function mode. The mode adds the bias to the mask of fused attention (or to
the logits before an explicit softmax) and passes all other calls on unchanged. Attention stays
fused, and ``measure``, ``torch.export`` and ONNX see attention with a mask. The changed attention
of each layer is checked on test images.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from nearsight.core import UserError
from nearsight.measure.capture import (
    AttentionCall,
    AttentionCapture,
    causal_mask,
    evaluation_mode,
    inner_model,
    over_keys,
    refuse_unseen,
)
from nearsight.measure.layout import Layout, Skipped, layout_of
from nearsight.measure.localise.kinds import Locality, read_locality
from nearsight.measure.localise.terms import LayerLocality
from nearsight.measure.rows import Buffers, RowBlock, Unfolded
from nearsight.models.layers import attend, attention_mask
from nearsight.models.load import own_image_size

CHILD = "locality"  # name of the child module
EVERYTHING = RowBlock(slice(None), slice(None), slice(None))
TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-4}  # error of attention weights on test images
HALF_TOLERANCE = 2e-2
NUM_IMAGES = 2  # with a single test image, images and windows could be confused
FUSED = (
    "query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"
)  # fmt: skip
OURS = ("queries", "keys", "values", "scale", "bias", "mask", "dropout")  # arguments of attend
Model = TypeVar("Model", bound=nn.Module)


def localise(
    model: Model,
    width: float | int | str | Locality | None = 1.0,
    layers: str | None = None,
    *,
    keep_share: bool = False,
    image_size: int | tuple[int, int] | None = None,
) -> Model:
    """Make the attention of a model local, in place and without training.

    Weights and their names do not change. Because the added term is never positive, patches give a
    larger share of their attention to prefix tokens than before, unless ``keep_share`` is set. The
    metric ``sink`` measures this share.

    Args:
        model: Any model that ``measure_model`` can measure.
        width: Standard deviation of the Gaussian in patches, or a text such as ``window:3`` or
            ``gaussian:0.7@last3`` (see ``nearsight evaluate --help``). None removes the term again.
        layers: ``last3`` (the default), ``all``, or numbers counted from 1 like ``4,6`` or ``4-6``.
        keep_share: Keep the share of attention that patches give to prefix tokens. The logits are
            then computed twice.
        image_size: Height and width of the images; by default the size that the model declares.

    Returns:
        The model itself.

    Raises:
        UserError: If the setting cannot be read, the positions of a layer's tokens cannot be found,
            or its attention cannot be changed.

    >>> from nearsight.models.load.registry import create_model
    >>> model = localise(create_model("mu"), width=0.7, layers="last1")
    >>> model.blocks[1].attn.locality
    LayerLocality(gaussian:0.7@last1, grid 8x8)
    >>> hasattr(localise(model, None).blocks[1].attn, "locality")
    False
    """
    inner = inner_model(model)
    if width is None:
        _undo(inner)
        return model
    wanted = _setting(width, layers, keep_share)
    size = (image_size, image_size) if isinstance(image_size, int) else image_size
    image = _test_images(inner, size or own_image_size(inner))
    earlier = made = _undo(inner)
    try:
        plain = _watch(inner, image)
        chosen = [plain[i] for i in wanted.choose_layers(len(plain))]
        made = {layer.module: _term_of(wanted, layer, plain) for layer in chosen}
        for layer in chosen:
            _check(inner, image, layer, made[layer.module])
    except BaseException:
        made = earlier
        raise
    finally:
        for module, term in made.items():
            _install(module, term)
    return model


def _setting(width: float | int | str | Locality, layers: str | None, keep_share: bool) -> Locality:
    """Return the locality that the arguments of ``localise`` describe."""
    if isinstance(width, Locality):
        return width
    if isinstance(width, str):
        locality = read_locality(width, layers)
        if layers is not None and locality.layers != layers:
            raise UserError(
                f"layers is {layers!r}, but {width!r} names other layers; remove one of the two"
            )
    else:
        locality = Locality(value=float(width), layers=layers or Locality.layers)
    return Locality(
        locality.kind, locality.value, locality.layers, keep_share or locality.keep_share
    )


class _AddingTerm(TorchFunctionMode):
    """Add the term of a layer to the logits of the attention computed inside the ``with`` block."""

    def __init__(self, term: LayerLocality) -> None:
        super().__init__()
        self.term = term

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention:
            arguments = dict(zip(FUSED, args)) | kwargs
            queries, keys = arguments["query"], arguments["key"]
            if arguments.pop("is_causal", False):  # torch takes it only without a mask
                arguments["attn_mask"] = causal_mask(queries, keys)
            arguments["attn_mask"] = self._mask(queries, keys, arguments.get("scale"), arguments)
            return func(**arguments)
        if func is attend:
            arguments = dict(zip(OURS, args)) | kwargs
            bias, mask = arguments.pop("bias", None), arguments.pop("mask", None)
            whole = {"attn_mask": attention_mask(bias, mask, arguments["queries"])}
            arguments["mask"] = self._mask(
                arguments["queries"], arguments["keys"], arguments["scale"], whole
            )
            return func(**arguments)
        if func is F.multi_head_attention_forward:
            return func(**self._multi_head(args, kwargs))
        if over_keys(func, args, kwargs) and self.term.fits(*args[0].shape[-2:]):
            logits = args[0]
            term = self.term.folded_term(logits.shape[:-2], logits).to(logits.dtype)
            return func(logits + term, *args[1:], **kwargs)
        return func(*args, **kwargs)

    def _mask(
        self, queries: Tensor, keys: Tensor, scale: float | None, given: Mapping[str, Any]
    ) -> Tensor:
        """Return the mask of fused attention with the term added to it."""
        num_queries, num_keys = queries.shape[-2], keys.shape[-2]
        if not self.term.fits(num_queries, num_keys):
            raise UserError(
                f"attention was made local for a grid of {self.term.grid}, but these images need "
                f"attention of {num_queries} queries to {num_keys} keys; call ns.localise again "
                "with their image_size"
            )
        mask, logits = given.get("attn_mask"), None
        if self.term.needs_logits:
            scale = queries.shape[-1] ** -0.5 if scale is None else scale
            logits = _sum_of(mask, queries @ keys.transpose(-2, -1) * scale)
        return _sum_of(mask, self.term.folded_term(queries.shape[:-2], logits).to(queries.dtype))

    def _multi_head(self, args: tuple, kwargs: dict) -> dict[str, Any]:
        """Return arguments of torch's multi-head attention with the term added to the mask."""
        arguments = (
            inspect.signature(F.multi_head_attention_forward).bind(*args, **kwargs).arguments
        )
        if self.term.needs_logits:
            raise UserError(
                f"{self.term.locality} needs the logits of each head, which torch's "
                "MultiheadAttention does not give access to; choose another locality"
            )
        queries, num_heads = arguments["query"], arguments["num_heads"]  # [query, batch, width]
        num_batch = queries.shape[1] if queries.ndim == 3 else 1
        term = self.term.folded_term((num_batch, num_heads)).to(queries.dtype)
        if term.shape[0] > 1:
            term = term.expand(-1, num_heads, -1, -1)
        term = term.flatten(0, 1)  # [1 or batch x head, query, key], as torch takes it
        term = term[0] if len(term) == 1 else term
        return arguments | {"attn_mask": _sum_of(arguments.get("attn_mask"), term)}


def _sum_of(mask: Tensor | None, term: Tensor) -> Tensor:
    """Return the sum of a mask, boolean or added to logits, and a term."""
    if mask is None:
        return term
    return torch.where(mask, term, -torch.inf) if mask.dtype == torch.bool else mask + term


class LocalForward:
    """The forward of an attention module that has a child ``locality``.

    It is an object and not a closure, so that copies and pickles of the model contain their own.

    Args:
        module: The attention module.
        earlier: The forward that was set on the module itself, if there was one; otherwise its
            class has it.
    """

    def __init__(self, module: nn.Module, earlier: Callable | None) -> None:
        self.module = module
        self.earlier = earlier

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module's own forward with the term added to its logits."""
        with _AddingTerm(getattr(self.module, CHILD)):
            if self.earlier is not None:
                return self.earlier(*args, **kwargs)
            return type(self.module).forward(self.module, *args, **kwargs)


def _install(module: nn.Module, term: LayerLocality) -> None:
    """Give an attention module the term and the forward that applies it."""
    module.add_module(CHILD, term)
    module.forward = LocalForward(module, module.__dict__.get("forward"))


def _undo(model: nn.Module) -> dict[nn.Module, LayerLocality]:
    """Remove the terms of all layers from a model and return them by their modules."""
    terms = {}
    for module in list(model.modules()):
        forward = module.__dict__.get("forward")
        if isinstance(forward, LocalForward):
            terms[module] = module._modules.pop(CHILD)
            del module.forward
            if forward.earlier is not None:
                module.forward = forward.earlier
    return terms  # type: ignore[return-value]


@dataclass(frozen=True)
class SeenLayer:
    """A layer with attention between patches, as observed on the test images."""

    call: AttentionCall
    layout: Layout
    weights: Tensor  # [image, window, head, query, key]

    @property
    def module(self) -> nn.Module:
        """The module that computes the attention."""
        return self.call.path[-1].module


def _test_images(model: nn.Module, size: tuple[int, int]) -> Tensor:
    """Return random images in the precision and on the device of the model."""
    generator = torch.Generator().manual_seed(0)
    image = torch.randn(NUM_IMAGES, 3, *size, generator=generator)
    like = next((x for x in model.parameters() if x.is_floating_point()), image)
    return image.to(like.device, like.dtype)


def _watch(model: nn.Module, image: Tensor) -> list[SeenLayer]:
    """Run the model on test images and return every layer with attention between patches."""
    layers: list[SeenLayer] = []

    def see(call: AttentionCall) -> None:
        layout = layout_of(call)
        if not isinstance(layout, Skipped):
            weights = Unfolded(call, layout, Buffers()).weights(EVERYTHING)
            layers.append(SeenLayer(call, layout, weights.clone()))

    with evaluation_mode(model) as inner, AttentionCapture(inner, see) as capture:
        inner(image)
        refuse_unseen(capture.unseen)
    if not layers:
        raise UserError(
            f"{type(model).__name__} cannot be made local, because none of its layers attends "
            "between patches; choose another model"
        )
    return layers


def _term_of(locality: Locality, layer: SeenLayer, layers: Sequence[SeenLayer]) -> LayerLocality:
    """Return the term of one layer; errors name the layer."""
    if sum(other.module is layer.module for other in layers) > 1:
        raise UserError(
            f"layer {layer.call.name} cannot be made local, because the model uses it more than "
            "once; choose other layers"
        )
    try:
        return LayerLocality(locality, layer.layout, like=layer.weights)
    except UserError as error:
        raise UserError(f"layer {layer.call.name} cannot be made local: {error}") from None


def _check(model: nn.Module, image: Tensor, layer: SeenLayer, term: LayerLocality) -> None:
    """Check that a layer's new attention on the test images is its old one with the term added.

    Raises:
        UserError: If they differ by more than rounding explains.
    """
    _install(layer.module, term)
    try:
        (seen,) = (x for x in _watch(model, image) if x.module is layer.module)
    finally:
        _undo(model)
    logits = layer.weights.log()
    expected = (logits + term.unfolded_term(logits)).softmax(-1)
    known = expected.isfinite().all(-1)  # NaN if all weights that remain had been rounded to 0
    error = float((seen.weights - expected)[known].abs().max()) if bool(known.any()) else 0.0
    if not error <= TOLERANCE.get(image.dtype, HALF_TOLERANCE):
        raise UserError(
            f"layer {layer.call.name} ({type(layer.module).__name__}) cannot be made local: its "
            f"attention is more than a softmax of logits between tokens, because a term added to "
            f"the logits changes it otherwise than expected (by {error:.2g}); choose other layers"
        )
