"""Make the tables of ``nearsight models``: our names, and the cost of one model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from rich.markup import escape
from rich.table import Table
from torch import nn

from nearsight.core import UserError, console
from nearsight.models.cost.flops import Cost, model_cost
from nearsight.models.load import build_model, check_name, own_preprocessing, split_name
from nearsight.models.parts import PARTS, CostText, Part
from nearsight.models.vit import SIZES
from nearsight.models.zoo import ARCHITECTURES, CONVIT_HEADS, model_names

GIGA, MEGA = 10**9, 10**6
VIT_DEPTH, USUAL_CLASSES = 12, 1000
PAPER_UNIT = "Paper's unit (LocAt's table 1)"


@dataclass(frozen=True)
class NamedCost:
    """The cost of a model by name, and that of its backbone if it has a part."""

    name: str
    num_classes: int | None  # None: a model of hf/, which has no head
    cost: Cost
    part: str | None  # title of the part that the model has, if it has one
    plain: Cost | None  # cost of the model without this part

    def contents(self) -> dict[str, Any]:
        """Return the cost as JSON contents."""
        whole = {"name": self.name, "num_classes": self.num_classes, **_contents(self.cost)}
        if self.part is not None and self.plain is not None:
            added = self.cost.num_parameters - self.plain.num_parameters
            whole[f"num_{self.part.lower()}_parameters"] = added
            whole["plain"] = _contents(self.plain)
        return whole


def named_cost(name: str, image_size: tuple[int, int] | None = None, **options: Any) -> NamedCost:
    """Count what one image costs the model of ``create_model(name, **options)``.

    Args:
        name: Name of the model.
        image_size: Height and width; by default the model's own.
        **options: Further options of ``create_model``.

    Raises:
        UserError: If the model cannot be built or run.
    """
    check_name(name)
    try:
        cost, part = _count(name, image_size, options)
        plain = None
        if part is not None:
            declared = _declaration(part)
            others = {key: x for key, x in options.items() if key not in declared.options}
            plain = _count(name, image_size, others | dict(declared.without))[0]
    except UserError:
        raise
    except Exception as error:  # any option is passed on, so a model may raise any error
        reason = " ".join(str(error).split()).split(". ")[0] or type(error).__name__
        given = "".join(f", {key}={value}" for key, value in options.items())
        at = f" on an image of {'x'.join(map(str, image_size))}" if image_size else ""
        raise UserError(
            f"cannot build and run {name}{given}{at} ({reason.rstrip('.')}); change these options"
        ) from error
    classes = None if split_name(name)[0] == "hf" else options.get("num_classes", USUAL_CLASSES)
    return NamedCost(name, classes, cost, part, plain)


def _count(
    name: str, image_size: tuple[int, int] | None, options: dict[str, Any]
) -> tuple[Cost, str | None]:
    """Return the cost of a model and the title of its part, if it has one."""
    try:
        return _count_on("meta", name, image_size, options)
    except UserError:
        raise
    except Exception:  # some models cannot run on the meta device
        return _count_on("cpu", name, image_size, options)


def _count_on(
    device: str, name: str, image_size: tuple[int, int] | None, options: dict[str, Any]
) -> tuple[Cost, str | None]:
    """Return the cost of a model, counted on a device, and the title of its part."""
    source, own_name = split_name(name)
    with torch.device(device):
        model = build_model(name, None if source == "hf" else image_size, **options)
    size = image_size or own_preprocessing(source, own_name, model).crop
    assert size is not None  # every model has preprocessing with a size
    return model_cost(model, size), _part(model)


def _part(model: nn.Module) -> str | None:
    """Return the title of the part that a model has; of several, the one installed last."""
    titles = [part.title_in(model) for part in reversed(PARTS.values())]
    return next(filter(None, titles), None)


def _declaration(title: str) -> Part:
    """Return the part with this title."""
    return next(part for part in PARTS.values() if title in part.titles)


def _contents(cost: Cost) -> dict[str, Any]:
    """Return a cost as JSON contents."""
    return {
        "image_size": list(cost.image_size),
        "grid": [cost.grid.rows, cost.grid.cols] if cost.grid else None,
        "num_prefix": cost.num_prefix,
        "num_queries": cost.num_queries,
        "num_keys": cost.num_keys,
        "num_parameters": cost.num_parameters,
        "paper_unit": cost.paper_unit,
        "flops": cost.flops,
        "macs": cost.macs,
        "bias_additions": cost.bias_additions,
        "kernel_operations": cost.kernel_operations,
    }


def tokens_text(cost: Cost) -> str:
    """Describe the tokens of a model, and between which of them its first layer attends.

    >>> from nearsight.models.layers.grid import Grid
    >>> tokens_text(Cost((224, 224), 0, Grid(14, 14), 1, 197, 197, 0, 0, 0, 0))
    '197 tokens: 1 prefix token and 14x14 patches'
    >>> tokens_text(Cost((224, 224), 0, Grid(56, 56), 0, 49, 49, 0, 0, 0, 0))
    '3,136 tokens: 56x56 patches, each attends to 49'
    >>> tokens_text(Cost((224, 224), 0, Grid(14, 14), 1, 196, 196, 0, 0, 0, 0))
    '197 tokens: 1 prefix token and 14x14 patches, which at first attend to patches only'
    """
    if not cost.num_queries:
        return "no attention with a softmax"
    if cost.grid is None:
        return f"first attention of {cost.num_queries:,} queries to {cost.num_keys:,} keys"
    num_tokens = cost.num_prefix + cost.grid.num_patches
    prefix = f"{cost.num_prefix} prefix token{'s' * (cost.num_prefix > 1)} and "
    text = f"{num_tokens:,} tokens: {prefix * (cost.num_prefix > 0)}{cost.grid} patches"
    if cost.num_prefix and cost.num_keys == cost.grid.num_patches:
        return f"{text}, which at first attend to patches only"
    return text + (f", each attends to {cost.num_keys:,}" if cost.num_keys < num_tokens else "")


def cost_table(found: NamedCost) -> Table:
    """Return a table of parameters, the paper's unit and FLOPs.

    If the model has a part, the table compares it with the model without the part.
    """
    cost, plain = found.cost, found.plain
    scale, unit = (GIGA, "G") if cost.paper_unit >= GIGA else (MEGA, "M")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    headings = [escape(found.name)]
    if plain:
        headings += [f"without {found.part}", "difference"]
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=not plain)
    rows = [
        ("parameters", "num_parameters", 1),
        (f"paper's unit, {unit}", "paper_unit", scale),
        (f"FLOPs, {unit}", "flops", scale),
        (f"  multiply-accumulates, {unit}", "macs", scale),
        (f"  bias additions, {unit}", "bias_additions", scale),
    ]
    if found.part is not None:
        own = _declaration(found.part).cost_rows.items()
        rows += [(f"  {words}, {unit}", attribute, scale) for attribute, words in own]
    for title, attribute, per in rows:
        values = [getattr(x, attribute) for x in (cost, plain) if x is not None]
        cells = [_number(value, per) for value in values]
        if plain:
            change = values[0] - values[1]
            cells.append("0" if not change else _number(change, per, "+").replace("-", "−"))
        table.add_row(title, *cells, style="dim" if title.startswith(" ") else None)
    return table


def _number(value: int, per: int, sign: str = "") -> str:
    """Format a number in units of ``per``; ``sign`` is that of Python's format language."""
    return format(value, f"{sign},") if per == 1 else format(value / per, f"{sign},.3f")


def print_cost(found: NamedCost) -> None:
    """Print what ``named_cost`` found."""
    screen = console()
    height, width = found.cost.image_size
    classes = "" if found.num_classes is None else f", {found.num_classes:,} classes"
    screen.say(
        f"{found.name}{classes}, one image of {height}x{width} pixels, {tokens_text(found.cost)}."
    )
    screen.print(cost_table(found))
    screen.say(units_text(found.part), style="dim")


def units_text(part: str | None) -> str:
    """Explain what the two units count in a model with this part."""
    text = CostText() if part is None else _declaration(part).cost_text
    note = f" {text.note.format(title=part)}" if text.note else ""
    return (
        f"{PAPER_UNIT}: multiply-accumulates and bias additions{text.paper_unit}. FLOPs: 2 "
        f"per multiply-accumulate, bias additions{text.flops}. Norms, softmax and activations are "
        f"in neither.{note}"
    )


def own_names() -> list[str]:
    """Return the names of all our models, without short forms."""
    return [*model_names(), *ARCHITECTURES]


def names_table() -> Table:
    """Return a table of our models: names, layers, widths and heads."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    for heading in ("layers", "width", "heads"):
        table.add_column(heading, justify="right")
    for name, size in SIZES.items():
        table.add_row(name, str(size.depth), str(size.width), str(size.num_heads))
    for name, (_, options) in ARCHITECTURES.items():
        heads, depths = options["num_heads"], options.get("depths", (VIT_DEPTH,))
        stages = "-".join(map(str, heads)) if isinstance(heads, tuple) else str(heads)
        table.add_row(name, str(sum(depths)), str(options["embed_dim"]), stages)
    return table


def print_names() -> None:
    """Print our names, and how to name other models."""
    screen = console()
    screen.print(names_table())
    screen.say(names_text())


def names_text() -> str:
    """Explain which other names are accepted, and what the endings of our names mean."""
    heads = ", ".join(
        f"{size.removesuffix('vit')}convit has {num} heads" for size, num in CONVIT_HEADS.items()
    )
    return (
        f"The first {len(SIZES)} exist with the endings _vit (plain), _locat (with LocAt), _gaug "
        f"and _prr (with one half of LocAt) and _convit (with GPSA; {heads}); compact is short for "
        "compact_vit. deit_* are the plain baselines of convit_*, with the same width and heads if "
        "the name ends with _plus. Other models: every name of timm (such as vit_tiny_patch16_224; "
        "if a name is in the table too, timm/NAME is timm's model), torchvision/NAME, "
        "hf/OWNER/NAME and hf/FOLDER. To see what a model costs, run nearsight models NAME."
    )
