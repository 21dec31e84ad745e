"""The declaration of a part: everything the package must know about an addition to a plain model.

A part has its own room beside this file. The room declares the part's settings, how it is
installed, what it costs, and what can be read from it while a model is measured. The table
``PARTS`` in this folder lists the declarations. No other code names a part: cost, loading,
measuring and training use the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor, nn

from nearsight.models.parts.read_out import ReadOut, SeenCall


@dataclass
class CostCounts:
    """What was counted in a forward so far, and how to count what comes next."""

    macs: int = 0  # multiply-accumulates
    bias_additions: int = 0
    skipped_macs: int = 0  # not computed because nothing reads them; the paper's unit counts them
    kernel_operations: int = 0  # element-wise
    elementwise: bool = False  # whether element-wise operations count at the moment
    attention_dims: int | None = None  # rank of attention's softmaxes; None: any rank


class CostHook:
    """Count what one kind of module does differently; every module gets its own hook."""

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


@dataclass(frozen=True)
class GentleStart:
    """How to start a model with the part from weights of a model without it, unchanged at first."""

    title: str
    weights: str  # substring of the names of the part's weights
    words: str  # text after "its n weights"
    start: Callable[[nn.Module], None]


@dataclass(frozen=True)
class FeaturePlace:
    """A place to take features from: what a part makes of the tokens after the final norm."""

    name: str  # on the command line
    title: str
    reader: Callable[[nn.Module], Callable[[Tensor], Tensor] | None]  # None: the model has none


class WeightOwner(NamedTuple):
    """What weights belong to, and the option that decides whether a model has them."""

    title: str
    option: str


def _no_options(choice: Any) -> dict[str, Any]:
    return {}


def _no_override(settings: Any, given: dict[str, Any]) -> Any:
    return settings


def marked_parts(model: nn.Module) -> list[str]:
    """Return the titles of the parts in a model, which their modules have as ``part_title``."""
    titles = (getattr(module, "part_title", None) for module in model.modules())
    return [*dict.fromkeys(title for title in titles if title)]


@dataclass(frozen=True, kw_only=True)
class Part:
    """An addition to a plain model, and what the package must know about it.

    Its name is the option of ``create_model``, the field of a protocol's model settings, and the
    attribute of a changed model that records what was changed.
    """

    name: str
    titles: tuple[str, ...]  # as people write it, followed by those of named variants
    title_in: Callable[[nn.Module], str | None]  # title of what a model has; None: nothing

    # Settings and installation.
    choose: Callable[[Any], Any]  # settings from true, false, a dictionary or settings; None: off
    install: Callable[[nn.Module, Any], nn.Module]  # with settings, to train from scratch
    attention_in: Callable[[Any], str | None]  # what settings change in attention; None: nothing
    without: Mapping[str, Any]  # options of create_model that leave it out
    options: tuple[str, ...] = ()  # further options of create_model that decide about it
    override: Callable[[Any, dict[str, Any]], Any] = _no_override  # settings by such options

    # Published models and weights.
    class_options: Callable[[Any], dict[str, Any]] = _no_options  # of a class that takes the part
    resized: Mapping[str, Any] = field(default_factory=dict)  # its options for resized weights
    weights: Mapping[str, WeightOwner] = field(default_factory=dict)  # by a piece of their names
    gentle_start: GentleStart | None = None

    # Cost.
    costs: Mapping[type[nn.Module], type[CostHook]] = field(default_factory=dict)
    cost_rows: Mapping[str, str] = field(default_factory=dict)  # field of Cost -> its words
    cost_text: CostText = CostText()

    # Measuring.
    num_prefix: Mapping[type[nn.Module], int] = field(default_factory=dict)  # that its layers see
    skipped: Mapping[type[nn.Module], str] = field(default_factory=dict)  # not measured, and why
    read_out: type[ReadOut] | None = None
    head_share: HeadShare | None = None

    # Evaluating.
    feature_place: FeaturePlace | None = None
