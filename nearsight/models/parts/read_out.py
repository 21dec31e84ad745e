"""Read what a part has learned, layer by layer, while a model runs.

A part may declare a ``ReadOut``. Measuring runs it beside the capture of attention, shows it every
attention call of every layer, and writes what it collected under its key: the contents of a layer
in ``layers`` of measure.json, contents for all layers at the top, and both in train.jsonl if
``while_training`` is set.
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
    """An attention call as measuring sees it."""

    @property
    def name(self) -> str:
        """The name of the layer."""
        ...

    @property
    def path(self) -> tuple[Any, ...]:
        """The modules from the model down to the attention module, each as ``.module``."""


@runtime_checkable
class Placement(Protocol):
    """Where the tokens of a call are."""

    @property
    def queries(self) -> Tensor:
        """The patch of every query [window, query]; below 0: padding or no patch."""


class ReadOut(ABC, Generic[Layer]):
    """Collect what a part of ``model`` has learned; ``layers`` holds it by number of the layer."""

    key: ClassVar[str]  # its name in measure.json and train.jsonl
    title: ClassVar[str]  # of what is read, as people write it
    added_by: ClassVar[str]  # the function that adds it to a model
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
        """Read a call of a layer; called for all layers, also for those without the part."""

    @classmethod
    def merge(cls, shares: Sequence[Layer]) -> Layer:
        """Merge one layer of several processes, each of which saw a part of the images, in order.

        What does not depend on images is the same in every process.
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
