"""Read a model's features after its blocks, its final norm, or its parts.

The attention of one test image is captured first, as in ``measure``. It shows which layers there
are, what their blocks are and where their tokens are. From then on plain hooks read the outputs of
the blocks, so that extraction costs no more than a forward pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.measure.capture import (
    AttentionCall,
    AttentionCapture,
    evaluation_mode,
    inner_model,
    refuse_unseen,
)
from nearsight.measure.layout import Layout, Skipped, layout_of
from nearsight.measure.metrics import (
    Missing,
    block_of,
    carried_tokens,
    class_feature,
    patch_features,
)
from nearsight.models.layers import Grid
from nearsight.models.parts import PARTS

PART_PLACES = {x.name: x for part in PARTS.values() if (x := part.feature_place)}
NORM, FINAL = "norm", "final"
# The block's output; after the final norm; after a part; after the norm and every part there is.
PLACES = ("block", NORM, *PART_PLACES, FINAL)
LAST, ALL = "last", "all"
Seen = tuple[nn.Module, Any, Any]  # a module, its first input and its output


class FeatureBatch(NamedTuple):
    """Features of some images at one layer."""

    patches: Float[Tensor, "image row col width"]
    cls: Float[Tensor, "image width"] | None  # None: the model has no class token there


class Extractor(ABC):
    """A source of features of preprocessed images at its layers, which are counted from 1."""

    num_layers: int

    @abstractmethod
    def features(
        self, images: Float[Tensor, "image 3 h w"], layers: Sequence[int], place: str
    ) -> list[FeatureBatch]:
        """Return the features of a batch at every requested layer."""

    def choose_layers(self, text: str | int) -> list[int]:
        """Return the requested layers: ``last``, ``all``, or numbers separated by commas.

        Raises:
            UserError: If the model has no such layer.
        """
        if text == LAST:
            return [self.num_layers]
        if text == ALL:
            return list(range(1, self.num_layers + 1))
        found = []
        for word in str(text).split(","):
            number = word.strip()
            if not number.isdecimal() or not 1 <= int(number) <= self.num_layers:
                raise UserError(
                    f"--layer is {text!r}, but the model has layers 1 to {self.num_layers}; give "
                    f"their numbers, separated by commas, or {LAST}, or {ALL}"
                )
            found.append(int(number))
        return found


@dataclass(frozen=True)
class Tap:
    """A layer: the module whose output is read, and where its tokens are."""

    name: str  # of the attention
    block: nn.Module | None
    layout: Layout
    problem: str | None = None  # why its output cannot be read


class Tapped(Extractor):
    """A model whose layers are read by hooks.

    Args:
        model: Any model that ``measure`` supports, in evaluation mode.
        size: Height and width of its images in pixels.
        device: The device on which the model runs.

    Raises:
        UserError: If no layer of the model attends between patches.
    """

    def __init__(self, model: nn.Module, size: tuple[int, int], device: str = "cpu") -> None:
        self.model, self.device = inner_model(model), device
        self.norm: nn.Module | None = None
        self.taps = self._probe(size)
        if not self.taps:
            raise UserError(
                f"{type(self.model).__name__} has no patch features, because none of its layers "
                "attends between patches"
            )
        self.num_layers = len(self.taps)
        self.carried = carried_tokens(self.model)
        self.readers = {name: place.reader(self.model) for name, place in PART_PLACES.items()}

    def _probe(self, size: tuple[int, int]) -> list[Tap]:
        """Find the layers and the final norm by running the model on a test image."""
        taps: list[Tap] = []
        normed: list[Seen] = []

        def see(call: AttentionCall) -> None:
            layout = layout_of(call)
            if isinstance(layout, Skipped):
                return
            block = block_of(call)
            if isinstance(block, Missing):
                taps.append(Tap(call.name, None, layout, block.reason))
                return
            taps.append(Tap(call.name, block.module, layout))

        norms = [x for x in self.model.modules() if "norm" in type(x).__name__.lower()]
        handles = [x.register_forward_hook(_noting(normed)) for x in norms]
        generator = torch.Generator().manual_seed(0)
        image = torch.randn(1, 3, *size, generator=generator).to(self.device)
        last: list[Seen] = []
        try:
            with evaluation_mode(self.model) as inner, AttentionCapture(inner, see) as capture:
                inner(image)
                refuse_unseen(capture.unseen)
            if taps and taps[-1].block is not None:
                handles.append(taps[-1].block.register_forward_hook(_noting(last)))
                normed.clear()
                with evaluation_mode(self.model) as inner:
                    inner(image)
        finally:
            for handle in handles:
                handle.remove()
        if last:
            _, _, tokens = last[-1]
            after = [m for m, given, _ in normed if given is tokens or _same(given, tokens)]
            self.norm = after[-1] if after else None
        return taps

    def features(
        self, images: Float[Tensor, "image 3 h w"], layers: Sequence[int], place: str
    ) -> list[FeatureBatch]:
        """Return the features of images at some layers, taken at a place.

        ``final`` is what a classifier reads: after PRR if the model has it, else after the norm.

        Raises:
            UserError: If a layer has no patch features, or the model has no such place.
        """
        taps = [self.taps[layer - 1] for layer in layers]
        if place == FINAL:
            place = next((name for name, read in self.readers.items() if read is not None), NORM)
        self._check(taps, place)
        outputs: dict[nn.Module, Tensor] = {}

        def keep(module: nn.Module, inputs: Any, output: Any) -> None:
            outputs[module] = output[0] if isinstance(output, (tuple, list)) else output

        blocks = {tap.block for tap in taps if tap.block is not None}
        handles = [block.register_forward_hook(keep) for block in blocks]
        try:
            with evaluation_mode(self.model) as inner:
                inner(images)
                return [self._read(tap, outputs[tap.block], place) for tap in taps if tap.block]
        finally:
            for handle in handles:
                handle.remove()

    def _check(self, taps: Iterable[Tap], place: str) -> None:
        for tap in taps:
            if tap.problem:
                raise UserError(f"layer {tap.name} has no patch features: {tap.problem}")
        if place != PLACES[0] and self.norm is None:
            raise UserError(
                f"{type(self.model).__name__} has no norm over its patches after the last block; "
                "use --place block"
            )
        if place in PART_PLACES and self.readers[place] is None:
            raise UserError(
                f"{type(self.model).__name__} has no {PART_PLACES[place].title}; use --place norm"
            )

    def _read(self, tap: Tap, output: Tensor, place: str) -> FeatureBatch:
        if place != PLACES[0]:
            assert self.norm is not None
            output = self.norm(output)
        if read := self.readers.get(place):
            output = read(output)
        patches = patch_features(output, tap.layout, self.carried)
        if isinstance(patches, Missing):
            raise UserError(f"layer {tap.name} has no patch features: {patches.reason}")
        cls = class_feature(output, tap.layout, self.model)
        return FeatureBatch(patches, None if isinstance(cls, Missing) else cls)

    @property
    def grid(self) -> Grid:
        """The grid of the last layer's patches."""
        return self.taps[-1].layout.grid


def _noting(seen: list[Seen]) -> Callable[..., None]:
    """Return a hook that records the module, its inputs and its output."""

    def note(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        given = inputs[0] if inputs else None
        first = output[0] if isinstance(output, (tuple, list)) else output
        seen.append((module, given, first))

    return note


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, Tensor) and one.shape == other.shape and torch.equal(one, other)
