"""List the parts, choose the parts of a model by its options, and add them to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from nearsight.core import UserError
from nearsight.models.parts.gpsa import GPSA_PART
from nearsight.models.parts.locat import LOCAT_PART
from nearsight.models.parts.part import Part

# Parts are installed in this order.
PARTS: dict[str, Part] = {part.name: part for part in (GPSA_PART, LOCAT_PART)}


def choose_parts(
    choices: Mapping[str, Any], named: Mapping[str, Any], options: dict[str, Any]
) -> dict[str, Any]:
    """Return the settings of the parts that a model gets, by name of the part.

    Args:
        choices: What was asked for, by name of the part: true, false, a dictionary or settings;
            None for what ``named`` has.
        named: What the name of the model stands for, by name of the part.
        options: Further options of the model. Those about a part are removed from this dictionary.
    """
    chosen = {}
    for name, part in PARTS.items():
        choice = choices.get(name)
        settings = part.choose(named.get(name) if choice is None else choice)
        given = {key: options.pop(key) for key in part.options if key in options}
        if given:
            settings = part.override(settings, given)
        if settings is not None:
            chosen[name] = settings
    return chosen


def install_parts(model: nn.Module, chosen: Mapping[str, Any]) -> nn.Module:
    """Add parts to a model, initialised for training from scratch.

    Args:
        model: The model, which is changed in place.
        chosen: The settings of the parts, by name of the part.

    Raises:
        UserError: If several of them change how layers attend.
    """
    words = [PARTS[name].attention_in(settings) for name, settings in chosen.items()]
    clashing = [word for word in reversed(words) if word]
    if len(clashing) > 1:
        raise UserError(
            f"{' and '.join(clashing)} both change the attention of the model; leave one out"
        )
    for name, settings in chosen.items():
        model = PARTS[name].install(model, settings)
    return model


def changes_in(model: nn.Module) -> list[str]:
    """Return a description of what each part changed in a model."""
    recorded = (getattr(model, name, None) for name in PARTS)
    return [str(changes) for changes in recorded if changes is not None]
