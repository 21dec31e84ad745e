"""Convert a protocol to the form that run.json and the keys of study cells store.

Settings that were added after version 0.1.0 are stored only if they differ from their default. A
new run therefore stores the same settings as the same run made by version 0.1.0: reports group the
two, and a study continues where it stopped.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from nearsight.protocol.schema import (
    ColorJitter,
    DataSettings,
    Distillation,
    Optimizer,
    Protocol,
)

# The settings that were added later, by the group that they are in ("" is the protocol itself).
LATER: dict[str, tuple[str, ...]] = {
    "": ("greyscale", "blur", "solarize", "dino"),
    "colorjitter": ("probability",),
    "data": ("classes", "decoded"),
    "distillation": ("kind", "temperature"),
    "optimizer": (
        "schedule", "step_epochs", "step_factor", "final_weight_decay", "clipped",
    ),
}  # fmt: skip
_KINDS: dict[str, type] = {
    "": Protocol,
    "colorjitter": ColorJitter,
    "data": DataSettings,
    "optimizer": Optimizer,
    "distillation": Distillation,
}


def stored_settings(protocol: Protocol) -> dict[str, Any]:
    """Return the settings as they are stored; ``protocol_from`` turns them into a protocol again.

    >>> from nearsight.protocol import preset
    >>> "schedule" in stored_settings(preset("modern"))["optimizer"]
    False
    """
    settings = asdict(protocol)
    for part, names in LATER.items():
        values = settings[part] if part else settings
        if values is None:
            continue
        defaults = _KINDS[part].__dataclass_fields__  # type: ignore[attr-defined]
        for name in names:
            if values[name] == defaults[name].default:
                del values[name]
    return settings
