"""Capture the attention and features of a few images in all layers of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.measure.capture import (
    AttentionCall,
    AttentionCapture,
    evaluation_mode,
    image_batches,
    inner_model,
    refuse_unseen,
)
from nearsight.measure.layout import Geometry, Layout, Skipped, layout_of
from nearsight.measure.metrics import (
    Missing,
    block_of,
    carried_tokens,
    num_class_tokens,
    patch_features,
)
from nearsight.measure.rows import Buffers, Unfolded, num_leading, on_the_image, prove
from nearsight.runs import (
    Example,
    Examples,
    LayerExample,
    LayerPlaces,
    likeness_codes,
    picture_source,
)

MAX_WEIGHTS = 2**27  # most attention weights of one image, in all layers, that a page can hold
NUM_COLOURS = 3  # principal components shown as red, green and blue


@dataclass
class _Seen:
    """The attention of a layer, and the features after it, in one forward."""

    name: str
    layout: Layout
    num_keys: int
    weights: Tensor  # [image, head, query, key]
    features: Tensor | None = None  # [image, token, width], prefix tokens first


def capture_examples(
    model: nn.Module,
    images: Float[Tensor, "n 3 h w"],
    pixels: Sequence[UInt8[np.ndarray, "height width 3"]],
    names: Sequence[str],
) -> Examples:
    """Run a model on a few images and return the attention and features of every layer.

    Args:
        model: Any model that ``measure_model`` takes; its state is restored afterwards.
        images: The images as the model takes them.
        pixels: The same images as pixels to show.
        names: Names of the images.

    Raises:
        UserError: If the model has no attention between patches, or more than a page can hold.

    >>> from nearsight.models.load import create_model
    >>> pixels = [np.zeros((32, 32, 3), np.uint8)]
    >>> images = torch.zeros(1, 3, 32, 32)
    >>> examples = capture_examples(create_model("mu"), images, pixels, names=["black"])
    >>> examples.prefix_names, [layer.num_heads for layer in examples.layers]
    (('[CLS]',), [2, 2])
    """
    inner = inner_model(model)
    with evaluation_mode(model):
        by_image = [
            _forward(inner, image)
            for batch in image_batches(images.split(1), inner)
            for image in batch.split(1)
        ]
    places = tuple(_places(layer) for layer in by_image[0])
    return Examples(
        prefix_names(inner, max(max(x.query_prefix, x.key_prefix) for x in places)),
        places,
        tuple(
            Example(name, picture_source(picture), _layers(seen, places))
            for name, picture, seen in zip(names, pixels, by_image, strict=True)
        ),
    )


def prefix_names(model: nn.Module, num_prefix: int) -> tuple[str, ...]:
    """Return names for the prefix tokens of a model: class tokens, then registers."""
    num_class = min(num_class_tokens(model), num_prefix)
    named = ["[CLS]"] if num_class == 1 else [f"[CLS] {i + 1}" for i in range(num_class)]
    if getattr(model, "dist_token", None) is not None and num_prefix > num_class:
        named.append("[DIST]")
    rest = num_prefix - len(named)
    return (*named, *(f"register {i + 1}" for i in range(rest)))


def _forward(model: nn.Module, image: Float[Tensor, "1 3 h w"]) -> list[_Seen]:
    """Run a forward and return the attention and features of every layer."""
    layers: list[_Seen] = []
    num_weights = 0

    def keep(call: AttentionCall) -> None:
        nonlocal num_weights
        layout = layout_of(call)
        if isinstance(layout, Skipped):
            return
        num_weights += call.sizes[1] * layout.grid.num_patches * len(layout.cells)
        if num_weights > MAX_WEIGHTS:
            raise UserError(
                f"{type(model).__name__} has more than {MAX_WEIGHTS:,} attention weights for one "
                "image of this size, which is too much for a page; use a smaller image size"
            )
        tensors = Unfolded(call, layout, Buffers())
        prove(call, tensors)
        num_keys = Geometry(layout, tensors.device).num_keys
        layer = _Seen(call.name, layout, num_keys, on_the_image(tensors, layout).float().cpu())
        layers.append(layer)
        block = block_of(call)
        if not isinstance(block, Missing):
            block.output_callbacks.append(lambda output: _keep_features(layer, output, model))

    with AttentionCapture(model, keep) as capture:
        model(image)
    refuse_unseen(capture.unseen)
    if not layers:
        raise UserError(
            f"{type(model).__name__} has no softmax attention between patches, so there is nothing "
            "to explore; choose a Vision Transformer"
        )
    return layers


def _keep_features(layer: _Seen, output: Any, model: nn.Module) -> None:
    """Store the features of all patches, and of prefix tokens if the block has them."""
    patches = patch_features(output, layer.layout, carried_tokens(model))
    if isinstance(patches, Missing):
        return
    tokens = patches.flatten(1, 2)
    whole = output[0] if isinstance(output, (tuple, list)) else output
    if whole.ndim == 3:  # [image, token, width]
        tokens = torch.cat([whole[:, : whole.shape[1] - tokens.shape[1]], tokens], 1)
    layer.features = tokens.float().cpu()


def _places(layer: _Seen) -> LayerPlaces:
    """Return where the tokens of a layer are."""
    layout = layer.layout
    rows, cols = (tuple(layout.cells[:, axis].unique().tolist()) for axis in (0, 1))
    if len(rows) * len(cols) != len(layout.cells):
        raise UserError(
            f"the keys of layer {layer.name} do not form a grid, so they cannot be shown as a map"
        )
    num_features = 0 if layer.features is None else layer.features.shape[1]
    return LayerPlaces(
        name=layer.name,
        rows=layout.grid.rows,
        cols=layout.grid.cols,
        num_heads=layer.weights.shape[1],
        query_prefix=num_leading(layout.queries),
        key_prefix=num_leading(layout.keys),
        key_rows=rows,
        key_cols=cols,
        num_keys=layer.num_keys,
        feature_prefix=num_features - layout.grid.num_patches if num_features else None,
    )


def _layers(seen: list[_Seen], places: Sequence[LayerPlaces]) -> tuple[LayerExample, ...]:
    """Return the examples of all layers of one image."""
    examples = []
    before: np.ndarray | None = None
    for layer, at in zip(seen, places, strict=True):
        likeness, colours = np.zeros(0, np.uint8), np.zeros((0, 3), np.uint8)
        if layer.features is not None and at.feature_prefix is not None:
            unit = F.normalize(layer.features[0].double(), dim=-1)
            likeness = likeness_codes((unit @ unit.T).float().numpy())
            parts = principal_parts(layer.features[0, at.feature_prefix :], before)
            colours, before = part_colours(parts), parts
        examples.append(LayerExample.of(layer.weights[0].numpy(), likeness, colours, at))
    return tuple(examples)


def principal_parts(
    features: Float[Tensor, "patch width"], before: np.ndarray | None = None
) -> Float[np.ndarray, "patch 3"]:
    """Return the first three principal components of the patches of one image.

    The sign of a component is arbitrary. It is chosen to agree with the components of the layer
    before, so that colours do not flip from layer to layer. In the first layer, the entry of
    largest magnitude is made positive.

    Args:
        features: The features of the patches.
        before: The components of the layer before, if there is one.

    >>> parts = principal_parts(torch.tensor([[0.0, 3.0], [0.0, 0.0], [0.0, -6.0]]))
    >>> parts[:, 0].round(3).tolist()
    [-4.0, -1.0, 5.0]
    """
    centred = features.double() - features.double().mean(0)
    left, sizes, _ = torch.linalg.svd(centred, full_matrices=False)
    parts = (left * sizes)[:, :NUM_COLOURS].numpy()
    parts = np.pad(parts, ((0, 0), (0, NUM_COLOURS - parts.shape[1])))
    if before is not None and before.shape == parts.shape:
        turned = (parts * before).sum(0) < 0
    else:
        turned = np.take_along_axis(parts, np.abs(parts).argmax(0)[None], 0)[0] < 0
    return np.where(turned, -parts, parts)


def part_colours(parts: Float[np.ndarray, "patch 3"]) -> UInt8[np.ndarray, "patch 3"]:
    """Scale every component to 0..255, as red, green and blue; a constant component becomes 128.

    >>> part_colours(np.array([[0.0, 1.0, 2.0], [1.0, 1.0, 0.0]])).tolist()
    [[0, 128, 255], [255, 128, 0]]
    """
    low, high = parts.min(0), parts.max(0)
    width = high - low
    shares = np.divide(parts - low, width, out=np.full_like(parts, 0.5), where=width > 1e-12)
    return np.rint(shares * 255).astype(np.uint8)
