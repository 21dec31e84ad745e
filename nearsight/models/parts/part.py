"""The declaration of a part: everything the package knows of what can be added to a plain model.

A part lives in a room of its own beside this file. The room declares its settings, how the part is
installed, what it costs and what can be read from it while a model is measured, and the table
``PARTS`` in this folder lists the declarations. Nothing else names a part: cost, loading,
measuring and training go through the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from nearsight.models.parts.read_out import ReadOut, SeenCall


@dataclass
class CostCounts:
    """What was counted of a forward so far, and how to count what comes next."""

    macs: int = 0  # multiply-accumulates
    bias_additions: int = 0
    skipped_macs: int = 0  # left out because nothing reads them; the paper's unit has them
    kernel_operations: int = 0  # element-wise
    elementwise: bool = False  # whether element-wise operations count at the moment
    attention_dims: int | None = None  # softmaxes of other ranks are no attention; None: all are


class CostHook:
    """Counts what one kind of module does differently; every module gets a hook of its own."""

    def enter(self, counts: CostCounts) -> None:
        """Prepare for the forward of the module."""

    def leave(self, counts: CostCounts, args: tuple[Any, ...], output: Any) -> None:
        """Add what only the arguments and the output of the module tell."""


@dataclass(frozen=True)
class CostText:
    """How a part changes the sentences below a table of costs; ``{title}`` is the part's."""

    paper_unit: str = ""  # after "multiply-accumulates and bias additions"
    flops: str = ""  # after "2 per multiply-accumulate, bias additions"
    note: str = ""  # a sentence at the end


@dataclass(frozen=True)
class HeadShare:
    """A share of each head's attention that maps of the head show as a strip above them."""

    name: str  # in a caption, before the number
    label: str  # of the scale
    of: Callable[[SeenCall], tuple[float, ...] | None]  # of every head; None: the layer has none


@dataclass(frozen=True, kw_only=True)
class Part:
    """What can be added to a plain model, and what the package has to know of it."""

    name: str  # the option of create_model and the field of a protocol's model
    titles: tuple[str, ...]  # as people write it; further ones are variants with a name
    title_in: Callable[[nn.Module], str | None]  # what a model has of it; None: nothing
    without: Mapping[str, Any]  # options of create_model that leave it out
    options: tuple[str, ...] = ()  # further options of create_model that decide about it
    costs: Mapping[type[nn.Module], type[CostHook]] = field(default_factory=dict)
    cost_rows: Mapping[str, str] = field(default_factory=dict)  # field of Cost -> its words
    cost_text: CostText = CostText()
    read_out: type[ReadOut] | None = None
    head_share: HeadShare | None = None
