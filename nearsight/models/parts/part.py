"""The declaration of a part: everything the package must know about an addition to a plain model.

A part, such as LocAt or GPSA, has its own room beside this file. The room declares the part's
settings, how it is installed, what it costs, and what can be read from it while a model is
measured. The table ``PARTS`` in this folder lists the declarations. Code for cost, loading,
measuring and training uses the table and names no part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor, nn

from nearsight.models.parts.read_out import ReadOut, SeenCall


@dataclass
class CostCounts:
    """What was counted in a forward so far, and how to count what follows."""

    macs: int = 0  # multiply-accumulates
    bias_additions: int = 0
    skipped_macs: int = 0  # saved because nothing reads their result; the paper's unit counts them
    kernel_operations: int = 0  # element-wise operations of parts
    elementwise: bool = False  # whether element-wise operations are counted now
    attention_dims: int | None = None  # dimensions of the softmaxes that are attention; None: any


class CostHook:
    """Adjust how operations in one kind of module are counted; every module gets its own hook."""

    def enter(self, counts: CostCounts) -> None:
        """Adjust the counts before the forward of the module."""

    def leave(self, counts: CostCounts, args: tuple[Any, ...], output: Any) -> None:
        """Adjust the counts after it, with what its arguments and its output tell."""


@dataclass(frozen=True)
class CostText:
    """What a part adds to the sentences below a table of costs; ``{title}`` becomes its title."""

    paper_unit: str = ""  # after "multiply-accumulates and bias additions"
    flops: str = ""  # after "2 per multiply-accumulate, bias additions"
    note: str = ""  # a sentence at the end


@dataclass(frozen=True)
class HeadShare:
    """A share of each head's attention, which is drawn as a strip above the maps of the head."""

    name: str  # its name in a caption, before the number
    label: str  # label of its scale
    of: Callable[[SeenCall], tuple[float, ...] | None]  # shares of all heads; None: no such layer


@dataclass(frozen=True)
class GentleStart:
    """How a model with a part can start from weights of a model without it.

    The part starts so weak that the model computes the same as before, and then learns.
    """

    title: str
    weights: str  # substring of the names of the part's weights
    words: str  # what happens to them, for a sentence that begins with "its n weights"
    start: Callable[[nn.Module], None]  # initialises the part in this way


@dataclass(frozen=True)
class FeaturePlace:
    """A place to take features from: what a part makes of the tokens after the final norm."""

    name: str  # its name on the command line
    title: str
    reader: Callable[[nn.Module], Callable[[Tensor], Tensor] | None]  # None: no part in the model


class WeightOwner(NamedTuple):
    """What some weights belong to, and the option that decides whether a model has them."""

    title: str
    option: str


def _no_options(choice: Any) -> dict[str, Any]:
    return {}


def _no_override(settings: Any, given: dict[str, Any]) -> Any:
    return settings


def marked_parts(model: nn.Module) -> list[str]:
    """Return the titles of the parts in a model, from the ``part_title`` of their modules."""
    titles = (getattr(module, "part_title", None) for module in model.modules())
    return [*dict.fromkeys(title for title in titles if title)]


@dataclass(frozen=True, kw_only=True)
class Part:
    """An addition to a plain model, and what the package must know about it.

    Its name is also the option of ``create_model``, the field of a protocol's model settings, and
    the attribute of a changed model that records what was changed.

    Attributes:
        name: The name in code.
        titles: The name as people write it, followed by those of named variants.
        title_in: Returns the title of what a model has of the part; None if it has nothing.
        choose: Turns true, false, a dictionary or settings into settings; None if the part is off.
        install: Adds the part, with these settings, to a model that will be trained from scratch.
        attention_in: Says what settings change in the attention of a model; None if nothing.
        without: Options of ``create_model`` that leave the part out.
        options: Further options of ``create_model`` that decide about the part.
        override: Changes settings by such options.
        class_options: Turns a choice into the options of a published class that has the part.
        resized: Options of such a class for weights that are used at another image size.
        weights: What weights belong to, by a piece of their names.
        gentle_start: How the part can be added to trained weights; None if it cannot.
        costs: How the operations of its modules are counted.
        cost_rows: Fields of ``Cost`` that the table of costs shows for it, with their words.
        cost_text: What it adds to the sentences below that table.
        num_prefix: How many prefix tokens its attention layers see.
        skipped: Its modules that are not measured, with the reason.
        read_out: What can be read from it while a model is measured.
        head_share: A share of each head's attention to show beside maps.
        feature_place: A place to take features from.
    """

    name: str
    titles: tuple[str, ...]
    title_in: Callable[[nn.Module], str | None]

    # Settings and installation.
    choose: Callable[[Any], Any]
    install: Callable[[nn.Module, Any], nn.Module]
    attention_in: Callable[[Any], str | None]
    without: Mapping[str, Any]
    options: tuple[str, ...] = ()
    override: Callable[[Any, dict[str, Any]], Any] = _no_override

    # Published models and weights.
    class_options: Callable[[Any], dict[str, Any]] = _no_options
    resized: Mapping[str, Any] = field(default_factory=dict)
    weights: Mapping[str, WeightOwner] = field(default_factory=dict)
    gentle_start: GentleStart | None = None

    # Cost.
    costs: Mapping[type[nn.Module], type[CostHook]] = field(default_factory=dict)
    cost_rows: Mapping[str, str] = field(default_factory=dict)
    cost_text: CostText = CostText()

    # Measuring.
    num_prefix: Mapping[type[nn.Module], int] = field(default_factory=dict)
    skipped: Mapping[type[nn.Module], str] = field(default_factory=dict)
    read_out: type[ReadOut] | None = None
    head_share: HeadShare | None = None

    # Evaluating.
    feature_place: FeaturePlace | None = None
