"""Read what a part has learned, layer by layer, while a model runs.

A part may declare a ``ReadOut``. While a model is measured, it is shown every attention call of
every layer. What it has collected is written under its key: the contents of a layer to ``layers``
in measure.json, those of all layers together to the top of that file, and those of a layer also to
train.jsonl if ``while_training`` is set.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

from torch import Tensor, nn

Layer = TypeVar("Layer")  # what a read-out collects of one layer: a dataclass


@runtime_checkable
class SeenCall(Protocol):
    """An attention call, as far as a read-out needs it (``measure.capture.AttentionCall``)."""

    @property
    def name(self) -> str:
        """The name of the layer."""
        ...

    @property
    def path(self) -> tuple[Any, ...]:
        """The modules from the model down to the attention module, each as ``.module``."""


@runtime_checkable
class Placement(Protocol):
    """Where the tokens of a call are, as far as a read-out needs it (``measure.layout.Layout``)."""

    @property
    def queries(self) -> Tensor:
        """The number of the patch of every query, [window, query]; -1 if it is not a patch."""


class ReadOut(ABC, Generic[Layer]):
    """Collect what a part of a model has learned; ``layers`` holds it by number of the layer."""

    key: ClassVar[str]  # name of the read-out in measure.json and train.jsonl
    title: ClassVar[str]  # what is read, as people write it
    added_by: ClassVar[str]  # the call that adds the part to a model
    while_training: ClassVar[bool] = False  # whether train.jsonl records it

    def __init__(self, model: nn.Module) -> None:
        self.layers: dict[int, Layer] = {}

    def __enter__(self) -> ReadOut[Layer]:
        """Watch the model from now on."""
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the model as it was."""

    @property
    @abstractmethod
    def is_present(self) -> bool:
        """Whether the model has anything to read."""

    @abstractmethod
    def add(self, layer: int, call: SeenCall, layout: Placement) -> None:
        """Read the part in a layer. This is called for every layer, also those without the part.

        Args:
            layer: Number of the layer, counted from 0.
            call: Its attention call.
            layout: Where the tokens of the call are.
        """

    @classmethod
    def merge(cls, shares: Sequence[Layer]) -> Layer:
        """Merge what several processes collected of one layer, each from its share of the images.

        By default the first is returned, because what does not depend on images is the same in
        every process.
        """
        return shares[0]

    @classmethod
    def layer_contents(cls, layer: Layer) -> dict[str, Any]:
        """Return a layer as JSON contents."""
        return asdict(layer)  # type: ignore[call-overload]

    @classmethod
    @abstractmethod
    def contents(cls, layers: Mapping[int, Layer]) -> dict[str, Any]:
        """Return JSON contents for all layers together."""
