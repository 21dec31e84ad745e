"""Collect, merge and write the read-outs of all parts of a model.

A read-out reads what a part (GAug, GPSA) has learned. The table of parts (``PARTS``) lists the
read-outs; nothing here depends on a particular one. A collection is a dictionary by the read-out's
key, whose values are dictionaries by layer number. Read-outs that found no layer are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.measure.capture import (
    AttentionCall,
    AttentionCapture,
    evaluation_mode,
    image_batches,
)
from nearsight.measure.layout import Layout, Skipped, layout_of
from nearsight.models.parts import PARTS, ReadOut

Collection = dict[str, dict[int, Any]]


class ReadOuts:
    """Run the read-outs of all parts of a model inside the ``with`` block."""

    def __init__(self, model: nn.Module) -> None:
        self.all = [kind(model) for kind in _kinds().values()]
        self._entered = ExitStack()

    def __enter__(self) -> ReadOuts:
        for each in self.all:
            self._entered.enter_context(each)
        return self

    def __exit__(self, *error: object) -> None:
        self._entered.close()

    def add(self, layer: int, call: AttentionCall, layout: Layout) -> None:
        """Show the call of a layer, and where its tokens are, to every read-out."""
        for each in self.all:
            each.add(layer, call, layout)

    @property
    def collected(self) -> Collection:
        """What was read so far, without read-outs that found no layer."""
        return {each.key: each.layers for each in self.all if each.layers}


def _kinds() -> dict[str, type[ReadOut]]:
    """Return the classes of all read-outs by key."""
    kinds = [part.read_out for part in PARTS.values() if part.read_out]
    return {kind.key: kind for kind in kinds}


def merge_collections(shares: Sequence[Collection]) -> Collection:
    """Merge what several processes collected, each from its share of the images."""
    kinds = _kinds()
    return {
        key: {layer: kinds[key].merge([share[key][layer] for share in shares]) for layer in layers}
        for key, layers in shares[0].items()
    }


class WrittenLayers(dict[int, Any]):
    """Layers of a read-out that was read from a file: JSON contents instead of objects."""

    def __init__(self, layers: Mapping[int, Any], contents: dict[str, Any]) -> None:
        super().__init__(layers)
        self.contents = contents  # the read-out's contents for all layers together


def layer_contents(collected: Collection, layer: int) -> dict[str, Any]:
    """Return the read-outs of one layer for measure.json."""
    kinds = _kinds()
    return {
        key: layers[layer]
        if isinstance(layers, WrittenLayers)
        else kinds[key].layer_contents(layers[layer])
        for key, layers in collected.items()
        if layer in layers
    }


def overall_contents(collected: Collection) -> dict[str, Any]:
    """Return the read-outs of all layers together for measure.json."""
    kinds = _kinds()
    return {
        key: layers.contents if isinstance(layers, WrittenLayers) else kinds[key].contents(layers)
        for key, layers in collected.items()
    }


def written_collection(collected: Collection) -> dict[str, Any]:
    """Convert a collection to JSON contents, which are equal if collections are equal."""
    overall = overall_contents(collected)
    contents = {
        key: {
            "contents": overall[key],
            "layers": {layer: layer_contents(collected, layer)[key] for layer in layers},
        }
        for key, layers in collected.items()
    }
    return json.loads(json.dumps(contents))  # turns tuples into lists, as reading a file does


def read_collection(written: Mapping[str, Any]) -> Collection:
    """Restore a collection from the contents that ``written_collection`` made."""
    return {
        key: WrittenLayers({int(i): x for i, x in part["layers"].items()}, part["contents"])
        for key, part in written.items()
    }


def training_contents(collected: Collection, num_layers: int) -> dict[str, Any]:
    """Return what train.jsonl records of the read-outs: by key, a list with an entry per layer.

    The entry of a layer without the part is None.

    Args:
        collected: The read-outs.
        num_layers: Number of layers of the model.
    """
    kinds = _kinds()
    return {
        key: [
            kinds[key].layer_contents(layers[layer]) if layer in layers else None
            for layer in range(num_layers)
        ]
        for key, layers in collected.items()
        if kinds[key].while_training
    }


def read_layers(
    model: nn.Module, images: Tensor | Iterable[Any], kind: type[ReadOut]
) -> Mapping[int, Any]:
    """Run one read-out over ``images`` and return its layers.

    Args:
        model: The model to read; its state is restored afterwards.
        images: A tensor, data set or iterable of batches.
        kind: The read-out.

    Raises:
        UserError: If the model does not have the part, or there are no images.
    """
    num_layers = 0

    def see(call: AttentionCall) -> None:
        nonlocal num_layers
        layout = layout_of(call)
        if not isinstance(layout, Skipped):
            read_out.add(num_layers, call, layout)
            num_layers += 1

    with evaluation_mode(model) as inner, kind(inner) as read_out:
        if not read_out.is_present:
            refuse_absent(inner, kind)
        with AttentionCapture(inner, see):
            for batch in image_batches(images, inner):
                num_layers = 0
                inner(batch)
    if not read_out.layers:
        raise UserError("there are no images; pass at least one batch")
    return read_out.layers


def refuse_absent(model: nn.Module, kind: type[ReadOut]) -> None:
    """Raise a UserError about a model without the part, which says how to add it."""
    raise UserError(
        f"{type(model).__name__} has no {kind.title} to read; to add it to a model, call "
        f"{kind.added_by}"
    )


@dataclass(frozen=True)
class ShownShare:
    """A share of a head's attention, with the texts of its ``HeadShare``."""

    name: str
    label: str
    value: float


@dataclass(frozen=True)
class HeadShares:
    """The shares of all heads of a layer."""

    name: str
    label: str
    values: tuple[float, ...]

    def of_head(self, head: int | None) -> ShownShare | None:
        """Return the share of one head; None if ``head`` is None, the mean over heads."""
        return None if head is None else ShownShare(self.name, self.label, self.values[head])


def head_shares(call: AttentionCall) -> HeadShares | None:
    """Return the shares of a layer's heads that a part shows beside their maps, if it has any."""
    for part in PARTS.values():
        if part.head_share and (values := part.head_share.of(call)):
            return HeadShares(part.head_share.name, part.head_share.label, values)
    return None
